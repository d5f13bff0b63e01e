# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of the rails that the health service of a node writes: its reader, the check for jobs, metrics."""

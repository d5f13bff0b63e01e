# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The layers of a node: the run of all of them in one process, and of those with persistent options at boot."""

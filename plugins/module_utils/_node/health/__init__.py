# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The health service of a node: compares the rails with the plan between two runs, and its outputs."""

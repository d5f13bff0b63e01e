# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The health service of a node: compares its rails with the plan every few seconds, and keeps their state."""

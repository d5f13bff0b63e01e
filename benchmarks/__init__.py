# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make bench` measures: the planner on this machine, the host phase on the lab. It prints; it never judges."""

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Floors of verify: the least bandwidth that follows from the plan, and what sites measured before."""

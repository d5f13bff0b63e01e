# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bandwidth that a transfer or collective must reach, from the plan."""

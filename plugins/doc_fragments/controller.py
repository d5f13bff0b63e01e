# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What all actions have in common: they run on the control node."""

    DOCUMENTATION = r"""
attributes:
  action:
    description: Runs on the control node.
    support: full
  platform:
    description: Target system of the control node.
    platforms: posix
    support: full
"""

# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """What all modules that run on a node have in common."""

    # those that change it
    DOCUMENTATION = r"""
attributes:
  check_mode:
    description: Predicts exactly the changes that are then made; prediction and act come from one list.
    support: full
  diff_mode:
    description: Shows what differs, before and after.
    support: full
  platform:
    description: Target system.
    platforms: linux
    support: full
"""

    # those that only look
    READS = r"""
attributes:
  check_mode:
    description: Changes nothing that lasts, so that it does the same in check mode.
    support: full
  diff_mode:
    description: There is nothing to differ.
    support: none
  platform:
    description: Target system.
    platforms: linux
    support: full
"""

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

    # those that read a fabric file
    FABRIC_FILE = r"""
options:
  file:
    description:
      - The fabric file, or a directory that holds one. A relative path begins at the working directory.
      - Without it, the fabric file among the inventory's own sources.
    type: path
"""

    # those that write a new fabric file
    NEW_FABRIC = r"""
attributes:
  check_mode:
    description: Writes nothing, and reports whether it would.
    support: full
  diff_mode:
    description: Shows the fabric file as it is and as it becomes.
    support: full
options:
  dest:
    description: The fabric file to write. Without it nothing is written, and RV(text) has it.
    type: path
  force:
    description: Whether an existing O(dest) with other content is overwritten.
    type: bool
    default: false
"""

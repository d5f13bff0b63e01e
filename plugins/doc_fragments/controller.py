# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Documentation that all actions share. Actions run on the control node."""

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

    # of actions that read a fabric file
    FABRIC_FILE = r"""
options:
  file:
    description:
      - The fabric file, or a directory with a fabric file. A relative path is relative to the working directory.
      - If omitted, the fabric file among the sources of the inventory.
    type: path
"""

    # of actions that write a new fabric file
    NEW_FABRIC = r"""
attributes:
  check_mode:
    description: Writes nothing, and reports whether it would.
    support: full
  diff_mode:
    description: Shows the fabric file before and after.
    support: full
options:
  dest:
    description: The fabric file to write. If omitted, nothing is written, and RV(text) has the content.
    type: path
  force:
    description: Whether an existing O(dest) with other content is overwritten.
    type: bool
    default: false
"""

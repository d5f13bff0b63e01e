# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Documentation that the modules of nodes share."""

    # of modules that change the node
    DOCUMENTATION = r"""
attributes:
  check_mode:
    description: Predicts exactly the changes that a run makes; both come from the same list.
    support: full
  diff_mode:
    description: Shows the values that differ, before and after.
    support: full
  platform:
    description: Target system.
    platforms: linux
    support: full
"""

    # of modules that do not change the management path
    MANAGEMENT = r"""
options:
  management_interfaces:
    version_added: 0.2.0
    description:
      - Interfaces by which the node is reached, in addition to those that the module finds. They are never changed.
      - Required if the module runs without an SSH connection from another host, such as on the console, and the node
        does not have a default route. The module then cannot find these interfaces, and refuses to change a port.
      - In the playbooks and roles, set the variable C(preflight_management_interfaces).
    type: list
    elements: str
    default: []
"""

    # of modules that only read
    READS = r"""
attributes:
  check_mode:
    description: Changes nothing that lasts, so that it does the same in check mode.
    support: full
  diff_mode:
    description: Nothing is changed.
    support: none
  platform:
    description: Target system.
    platforms: linux
    support: full
"""

#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The documentation of an action plugin, plugins/action/show.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: show
short_description: Print lines of text as they are
version_added: 0.2.0
description:
  - Prints a table, a list or a verdict to the terminal line by line, above the line of the host.
  - M(ansible.builtin.debug) prints the same text as one line of JSON, unless the configuration sets
    C(callback_result_format=yaml).
  - Needs no configuration. Runs on the control node, contacts no host and changes nothing.
  - With a stdout callback whose output is one JSON document (its name contains C(json)), the lines are only in the
    result.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment: railyard.fabric.controller
attributes:
  check_mode:
    description: Prints the same with and without check mode.
    support: full
  diff_mode:
    description: Nothing is changed.
    support: none
options:
  text:
    description:
      - The text, which may have several lines, or a list of texts.
    type: raw
    required: true
seealso:
  - module: ansible.builtin.debug
"""

EXAMPLES = r"""
- name: Plan the fabric
  railyard.fabric.fabric_plan:
  register: planned

- name: Show the plan
  railyard.fabric.show:
    text: "{{ planned.table }}"
"""

RETURN = r"""
lines:
  description: The lines that were printed.
  returned: success
  type: list
  elements: str
"""

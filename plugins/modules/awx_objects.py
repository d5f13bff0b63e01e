#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The documentation of an action plugin, plugins/action/awx_objects.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: awx_objects
short_description: Create and update the objects of AWX for one or more fabrics, from one data file
version_added: 0.2.0
description:
  - Reads and checks the data file that C(docs/awx.md) describes, compares it with what AWX has, and writes what
    differs. It covers credentials, project, inventories, job templates, surveys, workflows, schedules,
    notifications and roles of teams.
  - All errors in the file are reported together, with line and remedy, before AWX is contacted. Writes that AWX would
    refuse are reported together before anything is written.
  - The environment of the control node names AWX by the variables C(CONTROLLER_HOST), C(CONTROLLER_OAUTH_TOKEN) or
    C(CONTROLLER_USERNAME) and C(CONTROLLER_PASSWORD), C(CONTROLLER_VERIFY_SSL), C(CONTROLLER_REQUEST_TIMEOUT) and
    C(CONTROLLER_OPTIONAL_API_URLPATTERN_PREFIX), or by the same variables with the prefix C(TOWER_).
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment: railyard.fabric.controller
attributes:
  check_mode:
    description: Reads AWX, and returns what would be written.
    support: full
  diff_mode:
    description: The fields that differ, without secrets.
    support: full
options:
  file:
    description: The data file. A relative path is relative to the working directory.
    type: path
    required: true
  secrets:
    description:
      - Secrets by credential or notification and by field.
      - A credential without a secret, and a secret that nothing uses, are errors.
    type: dict
    default: {}
  secrets_file:
    description:
      - A file of variables with C(awx_secrets), which may be encrypted with ansible-vault. O(secrets) overrides it.
    type: path
    default: ''
  update_secrets:
    description: Whether to send secrets that AWX has again. AWX does not return secrets, so they always are changes.
    type: bool
    default: false
seealso:
  - module: railyard.fabric.fabric_findings
"""

EXAMPLES = r"""
- name: Create and update the objects of AWX
  railyard.fabric.awx_objects:
    file: awx.yml
    secrets_file: awx-secrets.yml
"""

RETURN = r"""
changes:
  description: The objects that were written, or in check mode would be, a line per object.
  type: list
  elements: str
  returned: success
  sample:
    - "create job template Railyard ai-east: validate"
    - "change schedule Railyard ai-east: nightly drift: enabled"
"""

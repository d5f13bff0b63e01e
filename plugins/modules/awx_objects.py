#!/usr/bin/python
# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The documentation of an action plugin, plugins/action/awx_objects.py, which does the work on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: awx_objects
short_description: What AWX is to hold for its fabrics, from one data file
version_added: 0.2.0
description:
  - Reads and checks the data file that C(docs/awx.md) describes, and says which organization, credentials, project,
    inventories, job templates, surveys, workflows, schedules and notifications follow from it.
  - Everything that is wrong with the file is said at once, each with its line and its remedy.
  - Asks AWX nothing and changes nothing. The role P(railyard.fabric.awx#role) hands the objects to the modules of the
    collection C(awx.awx).
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment: railyard.fabric.controller
requirements:
  - the collection C(awx.awx)
attributes:
  check_mode:
    description: Only reads.
    support: full
  diff_mode:
    description: Only reads.
    support: none
options:
  file:
    description: The data file. A relative path begins at the working directory.
    type: path
    required: true
  secrets:
    description:
      - Which secrets are at hand, as the names of their fields by credential or notification. The secrets themselves
        do not pass through this action.
      - A credential without a secret, and a secret that nothing takes, are errors.
    type: dict
    default: {}
seealso:
  - module: railyard.fabric.fabric_findings
"""

EXAMPLES = r"""
- name: See what AWX is to hold
  railyard.fabric.awx_objects:
    file: awx.yml
    secrets:
      nodes: [ssh_key_data]
      cluster: [kubeconfig]
  register: wanted

- name: Show the job templates
  ansible.builtin.debug:
    msg: "{{ wanted.objects.job_templates | map(attribute='name') }}"
"""

RETURN = r"""
objects:
  description:
    - The objects by kind, in the order in which they can be made. Each has a C(name), and C(needs), the objects
      without which AWX cannot make it. Those under C(absent) are not to be there.
  type: dict
  returned: success
  sample:
    organization: Platform
    job_templates:
      - name: "Railyard ai-east: validate"
        playbook: playbooks/validate.yml
        inventory: Railyard ai-east
"""

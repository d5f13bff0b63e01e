# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: layer_tags
short_description: The tags of the layers of a host
version_added: 0.2.0
author:
  - Railyard contributors (@railyard)
description:
  - Returns the tags of a task that runs several layers, such as a task with M(railyard.fabric.rail_host).
  - Tags of C(--skip-tags) are omitted, because Ansible would skip the whole task, and not only the layer.
options:
  state:
    description: With V(absent), only the layers that can be reverted.
    type: str
    choices: [present, absent]
    default: present
"""

EXAMPLES = r"""
- name: Prepare the node
  railyard.fabric.rail_host:
  tags:
    - "{{ query('railyard.fabric.layer_tags') }}"
"""

RETURN = r"""
_raw:
  description: The tags, in the order of preparation.
  type: list
  elements: str
"""

import typing as t

from ansible.plugins.lookup import LookupBase

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.layer_table import LAYERS, REMOVABLE


class LookupModule(LookupBase):
    def run(self, terms: t.Any, variables: t.Any = None, **kwargs: t.Any) -> list[str]:
        self.set_options(var_options=variables, direct=kwargs)
        skipped = (variables or {}).get("ansible_skip_tags") or ()
        return [
            layer for layer in (REMOVABLE if self.get_option("state") == "absent" else LAYERS) if layer not in skipped
        ]

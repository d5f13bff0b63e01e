# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rails
short_description: The nodes of a fabric file, each with its planned rail ports
version_added: 0.1.0
author:
  - Railyard contributors (@railyard)
description:
  - Reads a fabric file, checks all of it, and plans every rail port's names, addresses and numbers before any host is
    contacted.
  - The file is named C(fabric.yml) or C(fabric.yaml), or has C(railyard.fabric.rails) as its O(plugin).
  - Each finding has a code, its place in the file and a remedy. All findings are shown at once. An error ends the run,
    also if there are other inventory sources.
  - Put the plugin first in C(enable_plugins), before P(ansible.builtin.auto#inventory) and
    P(ansible.builtin.yaml#inventory).
  - A finding that the file suppresses is shown as a note, with the reason. It goes to standard error, as warnings do.
  - The group C(railyard_nodes) has all nodes and the variable C(railyard_fabric). Each node has the variable
    C(railyard_node) and is in the group C(railyard_profile_NAME) of its profile, with underscores for hyphens.
  - The C(vars) of a group in the file are variables of the inventory's group.
  - C(docs/fabric-file.md) describes the keys of the file, C(docs/findings.md) the findings.
notes:
  - Values are used as they are written. Templates and YAML tags are not evaluated, except templates in the C(vars) of
    nodes, which Ansible evaluates like those of any host variable.
options:
  plugin:
    description: The name of this plugin.
    type: str
    required: true
    choices: [railyard.fabric.rails]
  fabric:
    description: Name, attachment, provider, and settings of all rails.
    type: dict
    required: true
  rails:
    description: The rails by name, in the order of their numbers; or a generator with C(count).
    type: dict
    required: true
  profiles:
    description: The server models by name, each with its C(ports) by rail.
    type: dict
    required: true
  nodes:
    description: The nodes by name or host range, each with its C(profile).
    type: dict
    required: true
  addresses:
    description: The address settings of all rails that do not set them themselves.
    type: dict
  units:
    description: The scalable units by name, each with its places for C(nodes) and its leaves.
    type: dict
  groups:
    description: Settings that override those of profiles, by group, for nodes with the group in C(groups).
    type: dict
  names:
    description: Templates of the names of Kubernetes objects.
    type: dict
  qos:
    description: The QoS of RoCE, such as DSCP, PFC and ECN.
    type: dict
  lint:
    description: Suppressed findings, each with its C(rule) (name or code), C(place) and C(reason).
    type: list
    elements: dict
"""

EXAMPLES = r"""
# fabric.yml
plugin: railyard.fabric.rails
fabric:
  name: ai-east
  attachment: macvlan
  provider: spiderpool
  mtu: 4200
rails:
  gpu01: {subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253}
  gpu02: {subnet: 172.16.12.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253}
profiles:
  hgx-cx5:
    ports:
      gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0", gpu: 0}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0", gpu: 1}
nodes:
  ai-[1:2]: {profile: hgx-cx5, address: "10.1.16.[1:2]"}
"""

import functools
import gc
import os
import typing as t

from ansible import context, template
from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    ERROR,
    NOTE,
    WARNING,
    Finding,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import plan_memory
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan
from ansible_collections.railyard.fabric.plugins.plugin_utils import _fabric_files
from ansible_collections.railyard.fabric.plugins.plugin_utils._output import stop

GROUP = "railyard_nodes"
# Marks a text that may contain templates; None before ansible-core 2.19.
_mark: t.Any = getattr(template, "trust_as_template", None)
# Attribute of the inventory object: the fabric file that was read into it.
_FILE = "railyard_fabric_file"
# Nodes from which on the copies of the inventory are most of what a worker costs
_LARGE = 256


class InventoryModule(BaseInventoryPlugin):
    """Reads a fabric file; see DOCUMENTATION."""

    NAME = "railyard.fabric.rails"
    # Variables of nodes may contain templates, as in any inventory file. All other values contain none.
    trusted_by_default = True

    def verify_file(self, path: str) -> bool:
        """Return whether a file is a fabric file."""
        return _fabric_files.is_fabric_file(path)

    def parse(self, inventory: t.Any, loader: t.Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache=cache)
        try:
            outcome = lint(_fabric_files.read(path))
        except RailyardError as error:
            stop([str(error)], AnsibleParserError)
        for finding in outcome.findings:
            if finding.severity == WARNING and outcome.plan:
                self.display.warning(finding.text(path))
            elif finding.severity == NOTE and outcome.plan:
                self.display.display("[NOTE]: %s" % finding.text(path), stderr=True)
        if outcome.plan is None:
            stop([_line(finding, path) for finding in outcome.findings], AnsibleParserError)
        else:
            self._fill(outcome.plan, path)
            _spare_workers()
            if len(outcome.plan.nodes) >= _LARGE:
                plan_memory.collapse()

    def _fill(self, plan: Plan, path: str) -> None:
        inventory: t.Any = self.inventory
        inventory.add_group(GROUP)
        other = inventory.groups[GROUP].get_vars().get("railyard_fabric")
        if other and other != plan.fabric_vars():
            first = getattr(inventory, _FILE, None) or "another inventory source"
            message = "%s: an inventory has one fabric, and %s describes one already (%s; this is %s)."
            remedy = " Remedy: name one fabric file with -i, and run once for each fabric."
            stop([message % (path, first, other["name"], plan.fabric.name) + remedy], AnsibleParserError)
        setattr(inventory, _FILE, path)
        # The plan has no templates, so only ansible-inventory needs Ansible's marks. Copies for them take most of the
        # time and memory of an inventory of 4,096 nodes.
        marked = _mark and {"list", "graph"} <= set(context.CLIARGS)
        texts: dict[str, str] = {}

        def set_data(entity: t.Any, name: str, value: dict[str, t.Any]) -> None:
            entity.set_variable(name, _trusted(value, texts) if marked else value)

        set_data(inventory.groups[GROUP], "railyard_fabric", plan.fabric_vars())
        for profile in plan.fabric.profiles:
            inventory.add_group(_group(profile))
            inventory.add_child(GROUP, _group(profile))
        for described in plan.fabric.groups.values():
            inventory.add_group(described.name)
            for name, value in described.vars.items():
                inventory.set_variable(described.name, name, value)
        for planned in plan.nodes:
            node = planned.node
            inventory.add_host(node.name, group=_group(node.profile or ""))
            for group in node.groups:
                inventory.add_group(group)
                inventory.add_host(node.name, group=group)
            if node.address is not None:
                inventory.set_variable(node.name, "ansible_host", node.address)
            for name, value in node.vars.items():
                inventory.set_variable(node.name, name, value)
            set_data(inventory.hosts[node.name], "railyard_node", plan.node_vars(planned))


@functools.cache
def _spare_workers() -> None:
    """Keep garbage collections out of Ansible's workers, which end after one task.

    A collection writes into each object that it looks at. So the kernel copied most of the inventory for each worker:
    with 1,024 nodes, a tenth of the processor time and half of the memory.
    """
    gc.freeze()
    os.register_at_fork(after_in_child=gc.disable)


def _trusted(value: t.Any, texts: dict[str, str]) -> t.Any:
    """Return a copy of a value in which strings have Ansible's mark of templates.

    ``ansible-inventory`` prints strings without the mark as ``{"__ansible_unsafe": ...}``. The inventory's own
    ``set_variable`` marks each string again, which takes half of the time of ``ansible-inventory --list``.

    :param texts: text -> the marked text, for all that are marked already.
    """
    if isinstance(value, str):
        return texts.get(value) or texts.setdefault(value, _mark(value))
    if isinstance(value, dict):
        return {key: _trusted(each, texts) for key, each in value.items()}
    return [_trusted(each, texts) for each in value] if isinstance(value, list) else value


def _line(finding: Finding, path: str) -> str:
    """Return a finding as one line, with its severity if it is not an error."""
    text = finding.text(path)
    return text if finding.severity == ERROR else "%s: %s" % (finding.severity, text)


def _group(profile: str) -> str:
    return "railyard_profile_" + profile.replace("-", "_")

# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: play_hosts
short_description: The hosts of a play, after checks that limits and tags cannot skip
version_added: 0.2.0
author:
  - Railyard contributors (@railyard)
description:
  - For C(hosts) of a play, which Ansible evaluates in every run, also with C(--limit), C(--tags), C(--skip-tags) and
    C(--start-at-task). Returns the pattern unchanged or, with the extra variable C(railyard_part), C(railyard_nodes) as
    a pattern of the nodes of that part.
  - Ends the run with exit status 1 if no host matches the pattern, if the limit excludes all of them, and if
    O(reboot_batch) is not a number of nodes.
  - If the command line runs playbooks of this collection, ends the run for tags that these playbooks do not have, and
    for C(--start-at-task), which would skip the checks of previous tasks.
  - C(railyard_part) is V(K/N) for the K-th of N blocks of the nodes that the limit selects. Ends the run for other
    values, and for playbooks of this collection that have no parts.
  - Ends the run for extra variables (C(-e)) whose names begin like those of this collection, or are similar to one of
    them, but do not exist, and for values of another type. C(railyard_unchecked_variables) lists names
    that are not checked.
  - Does nothing with C(--syntax-check), C(--list-hosts), C(--list-tasks) and C(--list-tags).
options:
  _terms:
    description: The pattern of hosts. Exactly one.
    type: list
    elements: str
    required: true
  required:
    description:
      - Whether it is an error if no host remains.
      - By default, nodes are required unless the tags of the run exclude all plays that contact nodes. V(localhost) is
        required if the run has only playbooks of this collection and contacts no node.
    type: bool
  reboot_batch:
    description:
      - How many nodes reboot at once, in the form of C(serial) of a play.
      - The value 0, which means all nodes to Ansible, is an error.
    type: raw
  parts:
    description:
      - The directory of parts, for plays that accept the value V(judge) of C(railyard_part). The pattern is then that
        of the nodes that probe nodes of other parts. Ends the run if parts are missing, duplicate, too old, or of other
        nodes.
    type: path
  kind:
    description: The kind of the parts.
    type: str
    choices: [verify, drift]
    default: verify
  verdict:
    description:
      - For the play of a verdict, the result of part V(begin) of M(railyard.fabric.rail_verify). The hosts are
        C(localhost) and the nodes that do not answer. If the limit excludes C(localhost), they are the nodes of the
        run. If it is empty, because the play before had no hosts, there are none.
    type: dict
  narrowed:
    description:
      - For the play of further rounds, the result of part V(begin) of M(railyard.fabric.rail_verify). The hosts are the
        nodes with turns in these rounds.
    type: dict
"""

EXAMPLES = r"""
- name: Prepare the hosts
  hosts: "{{ lookup('railyard.fabric.play_hosts', 'railyard_nodes') }}"
  gather_facts: false
  become: true
  tasks:
    - name: Read the state of the nodes
      railyard.fabric.rail_info:
"""

RETURN = r"""
_raw:
  description: The pattern.
  type: list
  elements: str
"""

import typing as t
from pathlib import Path

from ansible import context
from ansible.errors import AnsibleLookupError
from ansible.inventory.manager import InventoryManager
from ansible.plugins.loader import filter_loader, test_loader
from ansible.plugins.lookup import LookupBase
from ansible.utils.vars import load_extra_vars

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import node_parts
from ansible_collections.railyard.fabric.plugins.plugin_utils import (
    _extra_variables,
    _planned,
    _run_guard,
    _verify_parts,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils._output import stop
from ansible_collections.railyard.fabric.plugins.plugin_utils._verify_spool import ALL, LOST, RUN, TURNS, Spool

_LISTINGS = ("syntax", "listhosts", "listtasks", "listtags")
# A pattern without nodes, about which Ansible does not warn.
_NONE = "railyard_nodes:!railyard_nodes"
_ROOT = Path(__file__).resolve().parents[2]


class LookupModule(LookupBase):
    """Returns the hosts of a play; see DOCUMENTATION."""

    def run(self, terms: list[str], variables: t.Any = None, **kwargs: t.Any) -> list[str]:
        self.set_options(var_options=variables, direct=kwargs)
        (pattern,) = terms
        # Ansible loads all of its filters and tests for the first one that a template names. Loaded here, before there
        # are workers, they are not loaded in each worker of each task again.
        filter_loader.get("default")
        test_loader.get("defined")
        if not any(context.CLIARGS.get(each) for each in _LISTINGS):
            try:
                return [self._checked(pattern, variables)]
            except RailyardError as error:
                stop([str(error)], AnsibleLookupError)
        return terms

    def _checked(self, pattern: str, variables: t.Mapping[str, t.Any]) -> str:
        """Check the run, and return the pattern; for a part, a pattern of its nodes."""
        run = _run(variables)
        own = run.own(_ROOT)
        _run_guard.check_run(run, own)
        if context.CLIARGS.get("extra_vars") and self._loader:
            given = load_extra_vars(self._loader)
            _extra_variables.check(given, _ROOT, variables.get(_extra_variables.UNCHECKED), run.others(_ROOT))
        if self.get_option("reboot_batch") is not None:
            _run_guard.check_batch(self.get_option("reboot_batch"))
        required = self.get_option("required")
        if required is None:
            required = run.needs(pattern, own)
        groups = variables["groups"]
        nodes = groups.get(_run_guard.NODES, [])
        part = _run_guard.part_of(
            variables.get("railyard_part"), own, bool(self.get_option("parts")), variables.get("reboot_allowed")
        )
        narrowed = self.get_option("narrowed")
        if narrowed is not None:
            return ",".join(_with_turns(narrowed)) or _NONE
        begun = self.get_option("verdict")
        if begun is not None:
            if not begun:
                return _NONE
            if self._matched(_run_guard.LOCAL, groups, run.limit):
                return ",".join([_run_guard.LOCAL, *self._lost(begun, part)])
            pattern, required = _run_guard.NODES, True
        if not required and not part:
            return pattern
        matched = self._matched(pattern, groups, run.limit)
        if required:
            if pattern == _run_guard.NODES and not nodes:
                _check_unread_file()
            _run_guard.check_matched(pattern, matched, nodes, run.limit)
        return self._of_part(part, matched, nodes) if part and pattern == _run_guard.NODES else pattern

    def _of_part(self, part: node_parts.Part | str, matched: t.Sequence[str], nodes: t.Sequence[str]) -> str:
        """Return a pattern of the nodes of a part.

        :param matched: all nodes of the run.
        :param nodes: all nodes of the inventory.
        """
        if isinstance(part, node_parts.Part):
            own = node_parts.cut(matched, part)
            if not own:
                return _NONE
            # nodes between these that the limit excludes do not run
            return "%s[%d:%d]" % (_run_guard.NODES, nodes.index(own[0]), nodes.index(own[-1]))
        directory = str(self.get_option("parts"))
        parts = _verify_parts.read(directory, str(self.get_option("kind")))
        _verify_parts.check_nodes(parts, matched, directory)
        # without nodes to probe, the tasks of the verdict run for one node, which they do not contact
        return ",".join([name for each in parts for name in each.head["links"]] or matched[:1])

    def _lost(self, begun: t.Mapping[str, t.Any], part: node_parts.Part | str | None) -> list[str]:
        """Return the nodes that do not answer. A part gives no verdict on its nodes."""
        if isinstance(part, node_parts.Part):
            return []
        names = Spool(str(begun["run"])).nodes(LOST)
        if part:
            parts = _verify_parts.read(str(self.get_option("parts")), str(self.get_option("kind")))
            names.update(name for each in parts for name in each.head["lost"])
        return sorted(names)

    def _matched(self, pattern: str, groups: t.Mapping[str, t.Sequence[str]], limit: str | None) -> list[str]:
        """Return the hosts that match pattern and limit. A lookup has no access to the inventory of the run."""
        if pattern == _run_guard.NODES and pattern not in groups:
            return []  # Ansible would warn about it
        manager = InventoryManager(self._loader, parse=False)
        for group, hosts in groups.items():
            manager.add_group(group)
            for host in hosts:
                manager.add_host(host, group=group)
        manager.subset(limit)
        return [host.name for host in manager.get_hosts(pattern)]


def _with_turns(begun: t.Mapping[str, t.Any]) -> list[str]:
    """Return the nodes with turns in the next rounds of a run."""
    if not begun:
        return []
    spool = Spool(str(begun["run"]))
    if not (spool.noted(ALL, RUN) or {}).get("batch"):
        return []
    return sorted(name for name in spool.nodes(TURNS) if spool.noted(name, TURNS))


def _check_unread_file() -> None:
    """Raise the errors of the fabric file that Ansible could not read.

    Without the settings of ``ansible.cfg``, Ansible's plugins ``auto`` and ``yaml`` read it first. They print their
    errors as warnings, and the run continues without nodes.
    """
    try:
        _planned.document(None)
    except _planned.Wrong:
        raise
    except RailyardError:
        return  # no fabric file, or several


def _run(variables: t.Mapping[str, t.Any]) -> _run_guard.Run:
    arguments = context.CLIARGS
    tags = [tag for tag in variables.get("ansible_run_tags") or [] if tag != "all"]
    return _run_guard.Run(
        arguments.get("args") or (),
        tags,
        list(variables.get("ansible_skip_tags") or []),
        arguments.get("subset"),
        arguments.get("start_at_task"),
    )

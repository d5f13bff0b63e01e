# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Profiles and nodes of an imported fabric file: a profile for each server model."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path, Rule, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import (
    import_rules,
    layout_rules,
    name_counting,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Facts, Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer import interface_stack
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.port_drafts import Draft
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.rail_addressing import Addressing
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import (
    expanded,
    natural,
    trailing_number,
)


class Sections:
    """The sections of a fabric file. ``comments``: path of a key -> comment lines above it."""

    def __init__(self) -> None:
        self.data: dict[str, t.Any] = {}
        self.comments: dict[Path, list[str]] = {}

    def say(self, path: tuple[str, ...], line: str) -> None:
        self.comments.setdefault(path, []).append(line)


def _singles(names: t.Sequence[str], keys: t.Mapping[str, t.Any]) -> t.Iterator[tuple[str, dict[str, t.Any]]]:
    """Return the nodes of a range one by one, each with its values of the keys."""
    values = {key: expanded(value) if isinstance(value, str) else [value] for key, value in keys.items()}
    for at, name in enumerate(names):
        yield name, {key: each[at] if len(each) == len(names) else each[0] for key, each in values.items()}


class Profiles:
    """Derives the sections ``profiles`` and ``nodes``.

    :param names: names of the rails, in the order of the drafts.
    """

    def __init__(
        self,
        facts: Facts,
        drafts: t.Sequence[Draft],
        names: t.Sequence[str],
        options: Options,
        out: Sections,
        found: Found,
    ) -> None:
        self._facts = facts
        self._drafts = drafts
        self._names = names
        self._options = options
        self._out = out
        self._found = found
        self._place = drafts[0].place
        self._profile_names = self._names_of_models()

    def _names_of_models(self) -> list[str]:
        """Return the name of the profile of each server model, from the value of its label if that is a name."""
        models, stem = self._facts.models, self._options.profile
        if len(models) == 1:
            return [stem]
        found: list[str] = []
        for at, model in enumerate(models, 1):
            values = {value for term in model.terms for each in term for value in each.values}
            text = re.sub(r"[^a-z0-9]+", "-", next(iter(values)).lower()).strip("-") if len(values) == 1 else ""
            name = ("%s-%s" % (stem, text or at))[:40].strip("-")
            found.append(name if name not in found else "%s-%d" % (stem, at))
        return found

    def report(self, rule: Rule, message: str, remedy: str, written: str, path: tuple[str, ...], comment: str) -> None:
        """Add a finding about the whole import, and a comment at the value concerned."""
        self._found.add(rule, self._place, message, remedy, written)
        self._out.say(path, comment)

    def profiles(self) -> dict[str, t.Any]:
        """Return a profile for each server model."""
        numbers = [draft.number for draft in self._drafts]
        gpus = all(name.startswith("gpu") for name in self._names) and None not in numbers
        lowest = 0 if 0 in numbers else 1
        section = {}
        for model, profile in enumerate(self._profile_names):
            ports: dict[str, t.Any] = {}
            for name, draft in zip(self._names, self._drafts):
                if draft.models and model not in draft.models:
                    continue
                port = self._port(name, draft, model, profile)
                if gpus and draft.number is not None:
                    port["gpu"] = draft.number - lowest
                ports[name] = port
            if ports:
                section[profile] = {**self._of_nics(model), "ports": ports}
        self._report_completed()
        if gpus:
            first = self._names[0]
            message = "the GPUs of the ports are derived from names only"
            remedy = "compare with nvidia-smi topo -m"
            written = "gpu: %d for %s and so on" % ((numbers[0] or 0) - lowest, first)
            comment = "CHECK: GPUs are numbered by names; compare with nvidia-smi topo -m"
            path = ("profiles", self._profile_names[0], "ports")
            self.report(import_rules.GPUS, message, remedy, written, path, comment)
        return section

    def _port(self, name: str, draft: Draft, model: int, profile: str) -> dict[str, t.Any]:
        """Return the port of a rail in the profile of a server model."""
        netdev, pci = draft.models.get(model, (draft.netdev, draft.pci))
        path = ("profiles", profile, "ports", name)
        port: dict[str, t.Any] = {}
        if netdev:
            stack = interface_stack.of_port(netdev, draft.vlan, draft.vlan_name, self._facts)
            port.update(stack.port)
            if stack.text:
                message = "the network %s uses %s" % (shown(draft.label), stack.text)
                remedy = "check its parts, and write managed: true if Railyard must make and configure it"
                self._found.add(layout_rules.STACKED, draft.place, message, remedy, stack.written)
                self._out.say(path, "CHECK: others make this interface; it is compared and not changed")
            if stack.unknown:
                message = "%s is a bond by its name, and nothing contains its members" % shown(netdev)
                remedy = "write bond: {name: %s, members: [{pci: ...}, {pci: ...}]} into the profile" % netdev
                self._found.add(layout_rules.BOND, draft.place, message, remedy, "netdev: %s" % netdev)
                self._out.say(
                    path,
                    "DECIDE: the members of %s, such as bond: {name: %s, members: [{pci: ...}]}" % (netdev, netdev),
                )
        if pci and "bond" not in port:
            port["pci"] = pci
        if not port:
            message = "no manifest shows which port of a node %s uses" % name
            remedy = "write its netdev or its PCI address into the profile"
            self._found.add(import_rules.NO_PORT, draft.place, message, remedy, "a port without identity")
            self._out.say(path, "DECIDE: the port's netdev or pci; no manifest contains it")
        if "netdev" in draft.counted:
            self._out.say(path, "CHECK: continued from the other ports")
        return port

    def _of_nics(self, model: int) -> dict[str, t.Any]:
        found: dict[str, t.Any] = {}
        facts = self._facts
        if facts.driver:
            found["driver"] = {"kind": facts.driver}
        if facts.pci:
            found["pci"] = dict(facts.pci)
        if facts.firmware and all(draft.models.get(model, (None, draft.pci))[1] for draft in self._drafts):
            found["firmware"] = dict(facts.firmware)
        elif facts.firmware:
            text = ", ".join("%s: %s" % each for each in facts.firmware.items())
            message = "the firmware setting %s needs the PCI addresses of the ports" % text
            remedy = "write pci of each port, and firmware: {%s} into the profile" % text
            self._found.add(import_rules.NOT_KNOWN, self._place, message, remedy, "nothing")
        return found

    def _report_completed(self) -> None:
        for key in ("netdev", "resource", "network"):
            counted = [draft for draft in self._drafts if key in draft.counted]
            if counted:
                values = [str(getattr(draft, key)) for draft in counted]
                message = "the %s of %d rails is missing in the manifests" % (key, len(counted))
                remedy = "check these names on a node" if key == "netdev" else "give the manifests of all rails"
                written = "%s, continued from the others" % name_counting.compact(values)
                self._found.add(import_rules.COUNTED, counted[0].place, message, remedy, written)

    def node_count(self) -> int:
        if self._options.nodes:
            return sum(len(expanded(pattern)) for pattern in self._options.nodes)
        return len(self._known_nodes())

    @staticmethod
    def _indexed(nodes: t.Mapping[str, dict[str, t.Any]], layout: Addressing) -> dict[str, dict[str, t.Any]]:
        """Set indexes of nodes whose addresses manifests contain. A range with another index becomes single nodes."""
        found: dict[str, dict[str, t.Any]] = {}
        held = {index: name for name, index in layout.indexes.items()}
        # Other nodes keep the index of their names, unless a node with addresses has it.
        spare = max(
            [*held, *(trailing_number(name) or 0 for pattern in nodes for name in expanded(pattern))], default=0
        )
        for pattern, keys in nodes.items():
            names = expanded(pattern)
            indexes = {name: layout.indexes.get(name) for name in names}
            for name in names:
                if indexes[name] is None and held.get(keys.get("index", trailing_number(name)) or 0, name) != name:
                    spare += 1
                    indexes[name] = spare
            if all(indexes[name] in (None, keys.get("index", trailing_number(name))) for name in names):
                found[pattern] = keys
                continue
            for name, own in _singles(names, keys):
                found[name] = own
                if indexes[name] not in (None, trailing_number(name)):
                    found[name]["index"] = indexes[name]
        return found

    def _own_networks(self, nodes: dict[str, dict[str, t.Any]], layout: Addressing) -> None:
        """Add nodes to which a pool assigns a network, so that no other node gets it."""
        known = {name for pattern in nodes for name in expanded(pattern)}
        static = {node for draft in self._drafts for pool in draft.pools for node in pool.static}
        for name in sorted((static & set(layout.indexes)) - known, key=natural):
            nodes[name] = {"profile": self._profile_names[0], "index": layout.indexes[name]}
            self._out.say(("nodes", name), "CHECK: a pool gives this node its own network")

    def _known_nodes(self) -> list[str]:
        named = list(self._facts.nodes)
        named.extend(name for model in self._facts.models for name in model.names)
        named.extend(name for each in self._facts.interfaces for name in each.nodes.names)
        for draft in self._drafts:
            for pool in draft.pools:
                named.extend(pool.nodes)
        return sorted(set(named), key=natural)

    def nodes(self, layout: Addressing) -> dict[str, t.Any]:
        profile = self._profile_names[0]
        self._report_labels()
        if self._options.nodes:
            nodes = {name: dict({"profile": profile}, **dict(keys or {})) for name, keys in self._options.nodes.items()}
            nodes = self._of_models(self._indexed(nodes, layout))
            self._own_networks(nodes, layout)
            return nodes
        known = self._known_nodes()
        if not known:
            message = "no manifest names the nodes"
            if self._facts.mentioned:
                message += "; the manifests mention %s" % name_counting.compact(self._facts.mentioned)
            remedy = "name them in the fabric file, such as ai-[01:16]: {profile: %s}, or with import_nodes" % profile
            comment = "DECIDE: the nodes, such as ai-[01:16]: {profile: %s}" % profile
            self.report(import_rules.NODES, message, remedy, "no nodes", ("nodes",), comment)
            return {}
        message = "only objects of the cluster name nodes: %s" % name_counting.compact(known)
        comment = "CHECK: only objects of the cluster name these nodes; does the cluster have others?"
        self.report(import_rules.NODES_NAMED, message, "add the others", "only these", ("nodes",), comment)
        section = {}
        plain = []
        for at, name in enumerate(known, 1):
            index = layout.indexes.get(name) or (None if trailing_number(name) else at)
            if index and index != trailing_number(name):
                section[name] = {"profile": profile, "index": index}
            else:
                plain.append(name)
        return self._of_models(dict({name: {"profile": profile} for name in name_counting.ranged(plain)}, **section))

    def _report_labels(self) -> None:
        """Report that objects select nodes by label. With several server models, the nodes are a question."""
        models = [(name, model) for name, model in zip(self._profile_names, self._facts.models) if not model.names]
        if len(self._profile_names) > 1:
            texts = ["%s for nodes with %s" % (name, model) for name, model in models if model.terms]
            if texts:
                message = "nodes have different ports by label: %s" % "; ".join(texts)
                remedy = "give each node the profile of its label, with import_nodes or in the file"
                written = "a profile for each"
                comment = "DECIDE: the profile of each node: %s" % "; ".join(texts)
                self.report(layout_rules.MODELS, message, remedy, written, ("nodes",), comment)
            return
        selectors = [device.nodes for device in self._facts.devices]
        selectors += [pool.selector for pool in self._facts.pools]
        texts = [str(each) for each in dict.fromkeys(selectors) if each.terms and not each.names]
        if texts:
            message = "the objects select nodes with %s" % "; and for nodes with ".join(texts[:4])
            remedy = "name only these nodes in the fabric file"
            self.report(
                layout_rules.LABEL, message, remedy, "one profile", ("nodes",), "CHECK: nodes with %s" % texts[0]
            )

    def _of_models(self, nodes: dict[str, dict[str, t.Any]]) -> dict[str, dict[str, t.Any]]:
        """Set the profiles of nodes that selectors name."""
        own = {
            node: name
            for name, model in zip(self._profile_names, self._facts.models)
            for node in (model.names if len(self._profile_names) > 1 else ())
        }
        found: dict[str, dict[str, t.Any]] = {}
        for pattern, keys in nodes.items():
            names = expanded(pattern)
            profiles = [own.get(name, keys["profile"]) for name in names]
            if len(set(profiles)) == 1:
                found[pattern] = dict(keys, profile=profiles[0])
                continue
            for (name, single), profile in zip(_singles(names, keys), profiles):
                found[name] = dict(single, profile=profile)
        return found

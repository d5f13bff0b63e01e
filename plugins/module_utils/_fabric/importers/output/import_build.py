# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build the sections of a fabric file and its comments from drafts of rails."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_fabric import PLUGIN
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path, Rule, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import import_rules, name_counting
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import (
    CNI,
    NETWORK_OPERATOR,
    SPIDERPOOL,
    Device,
    Facts,
    Options,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.correlate import Draft
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.infer_addresses import addressing
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.rail_addressing import (
    BLOCK,
    NONE,
    SUBNET,
    Addressed,
    Addressing,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds import subnet_pool
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.output.import_names import Names
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import attachment_table
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import IPV4, IPV6, SUFFIX, show
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import file_value
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import (
    expanded,
    natural,
    trailing_number,
)

_STEM = re.compile(r"(gpu|rail)[-_]?[0-9]", re.IGNORECASE)


class Sections:
    """The sections of a fabric file. ``comments``: path of a key -> comment lines above it."""

    def __init__(self) -> None:
        self.data: dict[str, t.Any] = {}
        self.comments: dict[Path, list[str]] = {}

    def say(self, path: tuple[str, ...], line: str) -> None:
        self.comments.setdefault(path, []).append(line)


class Builder:
    """Builds the sections one by one. Open questions become findings and comments."""

    def __init__(self, facts: Facts, drafts: t.Sequence[Draft], options: Options, found: Found) -> None:
        self._facts = facts
        self._drafts = drafts
        self._options = options
        self._found = found
        self._out = Sections()
        self._place = drafts[0].place
        self._provider = options.provider or self._choose_provider()
        self._attachment = self._choose_attachment()
        self._infiniband = self._attachment in ("ib-sriov", "ipoib") or self._ib_links()
        self._names = self._rail_names()

    def build(self) -> Sections:
        out = self._out
        layout = addressing(self._drafts, self._facts, self._node_count(), self._infiniband, self._found)
        nets = [rail.net for of_version in layout.rails.values() for rail in of_version.values()]
        if not layout.proposed:
            subnet_pool.report_unsupported(self._drafts, nets, self._found)
        out.data["plugin"] = PLUGIN
        out.data["fabric"] = self._fabric(layout)
        section = self._addresses(layout)
        if section:
            out.data["addresses"] = section
        out.data["rails"] = self._rails(layout)
        out.data["profiles"] = self._profiles()
        out.data["nodes"] = self._nodes(layout)
        # networks and pools of the agent have no names, and its resources are new to pods
        if not facts_of(self._provider).slots:
            names = Names(self._facts, self._drafts, self._names, self._provider, self._attachment, self._found)
            section = names.section(layout)
            if section:
                out.data["names"] = section
        if self._facts.qos and not self._infiniband:
            keys = ("priority", "dscp", "cnp_priority", "trust", "pfc")
            qos = {key: self._facts.qos[key] for key in keys if key in self._facts.qos}
            if qos.get("pfc") == [qos["priority"]]:
                del qos["pfc"]
            out.data["qos"] = qos
            if self._found.has(import_rules.QOS):
                out.say(("qos",), "CHECK: taken from the NicConfigurationTemplate; are the switches configured alike?")
        return out

    # -- the fabric

    def _choose_provider(self) -> str:
        signs, managers = self._facts.providers, self._facts.managers
        if NETWORK_OPERATOR in signs and SPIDERPOOL not in signs and managers and "nv-ipam" not in managers:
            return self._other_manager(sorted(managers))
        for name in (SPIDERPOOL, NETWORK_OPERATOR, CNI):
            if name in signs:
                return name
        message = "the manifests do not show the provider of the networks"
        remedy = "correct fabric.provider if it is not %s" % SPIDERPOOL
        comment = "CHECK: provider is a guess; the manifests do not show it"
        self._report(import_rules.PROVIDER, message, remedy, "provider: %s" % SPIDERPOOL, ("fabric",), comment)
        return SPIDERPOOL

    def _report(self, rule: Rule, message: str, remedy: str, written: str, path: tuple[str, ...], comment: str) -> None:
        """Add a finding about the whole import, and a comment at the value concerned."""
        self._found.add(rule, self._place, message, remedy, written)
        self._out.say(path, comment)

    def _other_manager(self, managers: t.Sequence[str]) -> str:
        """Report networks of the Network Operator without nv-ipam, and return the provider to use instead."""
        message = "the Network Operator's networks use addresses from %s, and the plan's from nv-ipam" % managers[0]
        remedy = "check fabric.provider: spiderpool, too, has one range for all nodes; network-operator means nv-ipam"
        comment = "DECIDE: provider; the manifests use the address manager %s" % managers[0]
        self._report(import_rules.MANAGER, message, remedy, "provider: %s" % SPIDERPOOL, ("fabric",), comment)
        return SPIDERPOOL

    def _choose_attachment(self) -> str:
        counts: dict[str, int] = {}
        for draft in self._drafts:
            for network in draft.networks[:1]:
                counts[network.attachment] = counts.get(network.attachment, 0) + 1
        if not counts:
            shared = any(device.shared for draft in self._drafts for device in draft.devices)
            guess = "macvlan" if shared else "ib-sriov" if self._ib_links() else "sriov"
            message = "no manifest shows how pods are attached to the rails"
            remedy = "correct fabric.attachment if it is not %s" % guess
            comment = "CHECK: attachment is a guess; manifests of networks are missing"
            self._report(import_rules.ATTACHMENT, message, remedy, "attachment: %s" % guess, ("fabric",), comment)
            return guess
        chosen = max(counts, key=lambda name: counts[name])
        for draft in self._drafts:
            for network in draft.networks[:1]:
                if network.attachment != chosen:
                    message = "%s is %s, and the fabric is %s" % (shown(network.name), network.attachment, chosen)
                    remedy = "write a fabric file for each, or another profile for the nodes that differ"
                    self._found.add(import_rules.ATTACHMENTS, network.place, message, remedy, chosen)
        return self._against_links(chosen)

    def _ib_links(self) -> bool:
        return "ib" in ({device.link for device in self._linked()} or self._facts.links)

    def _linked(self) -> list[Device]:
        """Return the devices whose link type is known."""
        return [device for draft in self._drafts for device in draft.devices if device.link]

    def _against_links(self, chosen: str) -> str:
        linked = self._linked()
        links, place = {device.link for device in linked}, linked[0].place if linked else self._place
        if "ib" in links and chosen == "sriov":
            message = "the policy creates InfiniBand VFs, but the network has the type sriov, which is for Ethernet"
            self._found.add(import_rules.LINK, place, message, "write ib-sriov", "attachment: ib-sriov")
            return "ib-sriov"
        if "eth" in links and chosen in ("ib-sriov", "ipoib"):
            message = "the policy creates Ethernet VFs, but the network has the type %s" % chosen
            remedy = "write linkType: ib, or the type sriov"
            self._found.add(import_rules.LINK, place, message, remedy, "attachment: %s" % chosen)
        if "ib" in links and chosen in ("macvlan", "ipvlan"):
            message = "%s does not exist on InfiniBand" % chosen
            self._found.add(import_rules.LINK, place, message, "write ib-sriov or ipoib", "attachment: ib-sriov")
            return "ib-sriov"
        return chosen

    def _fabric(self, layout: Addressing) -> dict[str, t.Any]:
        options = self._options
        section: dict[str, t.Any] = {"name": options.name or "imported"}
        if options.name is None:
            self._out.say(("fabric", "name"), "CHECK: choose the fabric's name before you prepare nodes")
        section["attachment"] = self._attachment
        section["provider"] = self._provider
        if self._infiniband and self._attachment == "host-device":
            section["link_layer"] = attachment_table.INFINIBAND
        section["mtu"] = self._mtu()
        vfs = self._vfs()
        if layout.pods_per_node:
            counts = [count for count in self._counts() if count] if vfs else []
            section["pods_per_node"] = min([layout.pods_per_node, *counts])
            comment = "DECIDE: the number of addresses in nv-ipam's blocks; see the finding"
            self._out.say(("fabric", "pods_per_node"), comment)
        elif facts_of(self._provider).slots and not vfs and self._attachment != "host-device":
            section["slots"] = {"all_rails": 1, "per_rail": 1}
            comment = "DECIDE: how many pods of a node use all rails, or one of them, at the same time"
            self._out.say(("fabric", "slots"), comment)
        reserved = self._facts.reserved
        if reserved:
            section["reserved"] = dict(reserved)
        if vfs:
            section["vfs"] = vfs
        return section

    def _mtu(self) -> int:
        """Return the fabric's MTU: the option, else the most frequent one, else a safe default."""
        known = [mtu for mtu in map(self._mtu_of, self._drafts) if mtu]
        if self._options.mtu:
            return self._options.mtu
        if known:
            return max(set(known), key=known.count)
        link_layer = attachment_table.INFINIBAND if self._infiniband else attachment_table.ETHERNET
        mtu = attachment_table.DEFAULT_MTU[link_layer]
        message = "no manifest contains the MTU of the rails"
        remedy = "set the MTU that every switch of the rails supports"
        remedy += ": 4092 is usual for InfiniBand" if self._infiniband else ": 4200 gives RoCE its transfers of 4096"
        comment = "DECIDE: the MTU that every switch of the rails supports; no manifest contains it"
        self._report(import_rules.MTU, message, remedy, "mtu: %d" % mtu, ("fabric", "mtu"), comment)
        return mtu

    def _mtu_of(self, draft: Draft) -> int | None:
        devices = [device.mtu for device in draft.devices if device.mtu]
        networks = [network.mtu for network in draft.networks if network.mtu]
        all_mtus = devices + networks
        if len(set(all_mtus)) > 1:
            message = "the MTU of %s is %s" % (shown(draft.label), " and ".join(map(str, sorted(set(all_mtus)))))
            remedy = "give the port at least the MTU of its pods, and the switches at least that of the port"
            written = "mtu: %d" % max(all_mtus)
            self._found.add(import_rules.MTUS, draft.place, message, remedy, written)
        return max(all_mtus) if all_mtus else None

    # -- VFs

    def _counts(self) -> list[int | None]:
        return [max((d.vfs for d in draft.devices if d.vfs), default=None) for draft in self._drafts]

    def _vfs(self) -> dict[str, t.Any]:
        if not attachment_table.has_vfs(self._attachment):
            return {}
        section: dict[str, t.Any] = {}
        known = [count for count in self._counts() if count]
        if known:
            section["count"] = min(max(set(known), key=known.count), 127)
        else:
            section["count"] = 8
            message = "no manifest contains the number of VFs of a port"
            remedy = "set fabric.vfs.count: one for each pod"
            comment = "DECIDE: one VF per port for each pod of a node; no policy contains the number"
            self._report(import_rules.VFS, message, remedy, "vfs: 8", ("fabric", "vfs"), comment)
        settings = [draft.networks[0].vfs for draft in self._drafts if draft.networks]
        for first in settings[:1]:
            section.update(
                {key: value for key, value in first.items() if all(each.get(key) == value for each in settings)}
            )
        return section

    def _own_vfs(self, place: int, draft: Draft) -> dict[str, t.Any]:
        """Return VF attributes of a rail that differ from those of the fabric."""
        if not attachment_table.has_vfs(self._attachment):
            return {}
        common = self._out.data["fabric"].get("vfs", {})
        attributes = dict(draft.networks[0].vfs) if draft.networks else {}
        count = self._counts()[place - 1]
        if count:
            attributes["count"] = min(count, 127)
        return {key: value for key, value in attributes.items() if common.get(key) != value}

    # -- rails

    def _rail_names(self) -> list[str]:
        stems = []
        for draft in self._drafts:
            texts = [draft.network, draft.resource] + [pool.name for pool in draft.pools]
            match = next((found for found in (_STEM.search(text) for text in texts if text) if found), None)
            stems.append(match.group(1).lower() if match else "")
        numbers = [draft.number or 0 for draft in self._drafts]
        stem = stems[0] if len(set(stems)) == 1 and stems[0] else "rail"
        if stem == "rail":
            numbers = list(range(1, len(self._drafts) + 1)) if "" in stems else numbers
        return ["%s%02d" % (stem, number) for number in numbers]

    def _rails(self, layout: Addressing) -> dict[str, t.Any]:
        section: dict[str, t.Any] = {}
        notes: dict[str, list[str]] = {}
        mtu = self._out.data["fabric"]["mtu"]
        for place, (name, draft) in enumerate(zip(self._names, self._drafts), 1):
            rail: dict[str, t.Any] = {}
            for bits, suffix in SUFFIX.items():
                rail_addresses = layout.rails[bits].get(place)
                if rail_addresses:
                    rail.update(_family(rail_addresses, suffix))
                    if rail_addresses.note:
                        notes.setdefault(rail_addresses.note, []).append(name)
            if place not in layout.rails[IPV4] and place not in layout.rails[IPV6] and layout.mode != NONE:
                decide = layout.proposed.get(place, "this rail's subnet; no manifest contains it")
                self._out.say(("rails", name), "DECIDE: %s" % decide)
            own_mtu = self._mtu_of(draft)
            if own_mtu and own_mtu != mtu and not self._options.mtu:
                rail["mtu"] = own_mtu
            vfs = self._own_vfs(place, draft)
            if vfs:
                rail["vfs"] = vfs
            section[name] = rail
        for note, names in notes.items():
            for path in [("rails",)] if len(names) == len(self._names) > 1 else [("rails", name) for name in names]:
                self._out.say(path, note)
        hosts = [rail for rail in section.values() if "hosts" in rail]
        if hosts and self._found.has(import_rules.HOSTS):
            comment = "CHECK: hosts are addresses that the manifests leave free; are they really unused?"
            self._out.say(("rails",), comment)
        return section

    def _addresses(self, layout: Addressing) -> dict[str, t.Any]:
        section: dict[str, t.Any] = {}
        if layout.mode != SUBNET:
            section["mode"] = layout.mode
        if layout.node_prefix and self._found.has(import_rules.LOST):
            comment = "DECIDE: the manifests keep addresses of each node from pods, but the plan does not"
            self._out.say(("addresses",), comment)
        suffix = "6" if layout.rails[IPV6] and not layout.rails[IPV4] else ""
        if layout.node_prefix:
            section["node_prefix" + suffix] = layout.node_prefix
        if layout.node_aggregate:
            section["node_aggregate" + suffix] = layout.node_aggregate
        if layout.block:
            section["block"] = layout.block
        if layout.gateway:
            section["gateway" + suffix] = layout.gateway
        if layout.host:
            section["host"] = layout.host
            if layout.host == "none":
                self._out.say(("addresses", "host"), "DECIDE: the pools leave no address for the ports of nodes")
        if layout.leaf_end:
            section["leaf_end"] = layout.leaf_end
        refused = layout.mode == SUBNET and facts_of(self._provider).mode_refused(SUBNET)
        if refused and any(rail.pods for rail in layout.rails[IPV4].values()):
            section.update(self._blocks(layout))
        return section

    def _blocks(self, layout: Addressing) -> dict[str, t.Any]:
        """Return settings that give each node a block of pod addresses, because plain CNI plugins allocate per node."""
        rails = [rail.pods for rail in layout.rails[IPV4].values() if rail.pods]
        wanted, block = max(self._node_count(), 2), 16
        while block > 1 and any(sum(each.size // block for each in ranges) < wanted for ranges in rails):
            block //= 2
        message = "plain CNI plugins allocate addresses on each node, not for the whole cluster"
        remedy = "give each node a block of addresses, or use the provider spiderpool"
        written = "blocks of %d addresses per node" % block
        comment = "CHECK: each node gets a block of pod addresses, because nothing allocates them cluster-wide"
        self._report(import_rules.OWN_BLOCKS, message, remedy, written, ("addresses",), comment)
        return {"mode": BLOCK, "block": block}

    # -- profiles and nodes

    def _profiles(self) -> dict[str, t.Any]:
        ports: dict[str, t.Any] = {}
        numbers = [draft.number for draft in self._drafts]
        gpus = all(name.startswith("gpu") for name in self._names) and None not in numbers
        lowest = 0 if 0 in numbers else 1
        path = ("profiles", self._options.profile, "ports")
        for name, draft in zip(self._names, self._drafts):
            port: dict[str, t.Any] = {}
            if draft.netdev:
                port["netdev"] = draft.netdev
            if draft.pci:
                port["pci"] = draft.pci
            if not port:
                message = "no manifest shows which port of a node is on %s" % name
                remedy = "write its netdev or its PCI address into the profile"
                self._found.add(import_rules.NO_PORT, draft.place, message, remedy, "a port without identity")
                self._out.say(path + (name,), "DECIDE: the port's netdev or pci; no manifest contains it")
            if gpus and draft.number is not None:
                port["gpu"] = draft.number - lowest
            if "netdev" in draft.counted:
                self._out.say(path + (name,), "CHECK: continued from the other ports")
            ports[name] = port
        self._report_completed()
        if gpus:
            message = "the GPUs of the ports are derived from names only"
            remedy = "compare with nvidia-smi topo -m"
            written = "gpu: %d for %s and so on" % (ports[self._names[0]]["gpu"], self._names[0])
            comment = "CHECK: GPUs are numbered by names; compare with nvidia-smi topo -m"
            self._report(import_rules.GPUS, message, remedy, written, path, comment)
        return {self._options.profile: {**self._of_nics(), "ports": ports}}

    def _of_nics(self) -> dict[str, t.Any]:
        found: dict[str, t.Any] = {}
        facts = self._facts
        if facts.driver:
            found["driver"] = {"kind": facts.driver}
        if facts.pci:
            found["pci"] = dict(facts.pci)
        if facts.firmware and all(draft.pci for draft in self._drafts):
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

    def _node_count(self) -> int:
        if self._options.nodes:
            return sum(len(expanded(pattern)) for pattern in self._options.nodes)
        return len(self._known_nodes())

    @staticmethod
    def _indexed(nodes: t.Mapping[str, dict[str, t.Any]], layout: Addressing) -> dict[str, dict[str, t.Any]]:
        """Set indexes of nodes whose addresses are in manifests. A range with another index becomes single nodes."""
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
            values = {key: expanded(value) if isinstance(value, str) else [value] for key, value in keys.items()}
            for at, name in enumerate(names):
                found[name] = {key: each[at] if len(each) == len(names) else each[0] for key, each in values.items()}
                if indexes[name] not in (None, trailing_number(name)):
                    found[name]["index"] = indexes[name]
        return found

    def _own_networks(self, nodes: dict[str, dict[str, t.Any]], layout: Addressing) -> None:
        """Add nodes to which a pool assigns a network, so that no other node gets it."""
        known = {name for pattern in nodes for name in expanded(pattern)}
        static = {node for draft in self._drafts for pool in draft.pools for node in pool.static}
        for name in sorted((static & set(layout.indexes)) - known, key=natural):
            nodes[name] = {"profile": self._options.profile, "index": layout.indexes[name]}
            self._out.say(("nodes", name), "CHECK: a pool gives this node its own network")

    def _known_nodes(self) -> list[str]:
        named = list(self._facts.nodes)
        for draft in self._drafts:
            for pool in draft.pools:
                named.extend(pool.nodes)
        return sorted(set(named), key=natural)

    def _nodes(self, layout: Addressing) -> dict[str, t.Any]:
        profile = self._options.profile
        if self._options.nodes:
            nodes = {name: dict({"profile": profile}, **dict(keys or {})) for name, keys in self._options.nodes.items()}
            nodes = self._indexed(nodes, layout)
            self._own_networks(nodes, layout)
            return nodes
        known = self._known_nodes()
        if not known:
            message = "no manifest names the nodes"
            if self._facts.mentioned:
                message += "; the manifests mention %s" % name_counting.compact(self._facts.mentioned)
            remedy = "name them in the fabric file, such as ai-[01:16]: {profile: %s}, or with import_nodes" % profile
            comment = "DECIDE: the nodes, such as ai-[01:16]: {profile: %s}" % profile
            self._report(import_rules.NODES, message, remedy, "no nodes", ("nodes",), comment)
            return {}
        message = "only pools name nodes: %s" % name_counting.compact(known)
        comment = "CHECK: these nodes are named by pools; are there others?"
        self._report(import_rules.NODES_NAMED, message, "add the others", "only these", ("nodes",), comment)
        section = {}
        plain = []
        for at, name in enumerate(known, 1):
            index = layout.indexes.get(name) or (None if trailing_number(name) else at)
            if index and index != trailing_number(name):
                section[name] = {"profile": profile, "index": index}
            else:
                plain.append(name)
        return dict({name: {"profile": profile} for name in name_counting.ranged(plain)}, **section)


def _family(addresses: Addressed, suffix: str) -> dict[str, t.Any]:
    net = addresses.net
    rail: dict[str, t.Any] = {"subnet" + suffix: str(net)}
    if addresses.gateway is not None:
        rail["gateway" + suffix] = show(addresses.gateway, net.bits)
    for key, ranges in (("pods", addresses.pods), ("hosts", addresses.hosts)):
        if ranges:
            rail[key + suffix] = file_value(ranges)
    if addresses.taken:
        rail.setdefault("taken", {}).update((name, file_value(ranges)) for name, ranges in addresses.taken.items())
    if addresses.numbering:
        rail["numbering"] = addresses.numbering
    return rail

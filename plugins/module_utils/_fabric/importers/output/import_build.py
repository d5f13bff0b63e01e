# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build the sections of a fabric file and its comments from drafts of rails."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_fabric import PLUGIN
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Rule, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import import_rules, layout_rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import (
    CNI,
    NETWORK_OPERATOR,
    SPIDERPOOL,
    Facts,
    Options,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer import (
    host_addresses,
    port_drafts,
    slot_ranges,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.infer_addresses import addressing
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.port_drafts import Draft
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.rail_addressing import (
    BLOCK,
    NONE,
    SUBNET,
    Addressed,
    Addressing,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.kinds import subnet_pool
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.output.import_attachments import (
    Attachments,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.output.import_names import Names
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.output.import_profiles import (
    Profiles,
    Sections,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import attachment_table
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import OBJECT_KEYS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import IPV4, IPV6, SUFFIX, show
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import file_value

# Key of ``objects`` -> what it adds.
LEFT_OUT = {
    "injection": "groups of networks that a webhook adds to pods",
    "network_mtu": "the MTU in networks of pods",
    "nccl": "ConfigMaps with settings of NCCL",
    "device_plugins": "DaemonSets of device plugins",
    "cluster_policy": "NicClusterPolicy and NicNodePolicies",
    "sriov_policies": "SriovNetworkNodePolicies",
    "metrics": "scraping and alerts of Prometheus",
}
_WITH_MTU = {"macvlan", "ipvlan", "sriov"}
_STEM = re.compile(r"(gpu|rail)[-_]?[0-9]", re.IGNORECASE)


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
        self._attachments = Attachments(facts, drafts, self._out, found)
        self._attachment = self._attachments.fabric
        self._infiniband = self._attachments.fabric_infiniband
        self._names = self._rail_names()
        self._profiles = Profiles(facts, drafts, self._names, options, self._out, found)
        # what pools must exclude, because the agent gives it to slots
        self.exclusions: list[slot_ranges.Exclusion] = []

    def build(self) -> Sections:
        out = self._out
        layout = addressing(self._drafts, self._facts, self._profiles.node_count(), self._infiniband, self._found)
        nets = [rail.net for of_version in layout.rails.values() for rail in of_version.values()]
        if not layout.proposed:
            subnet_pool.report_unsupported(self._drafts, nets, self._found)
        out.data["plugin"] = PLUGIN
        out.data["fabric"] = self._fabric(layout)
        if facts_of(self._provider).slots:
            slots = self._slots_per_node(out.data["fabric"])
            self.exclusions = slot_ranges.choose(self._drafts, self._facts, layout, slots, self._found)
        section = self._addresses(layout)
        if section:
            out.data["addresses"] = section
        out.data["rails"] = self._rails(layout)
        out.data["profiles"] = self._profiles.profiles()
        out.data["nodes"] = self._profiles.nodes(layout)
        # networks and pools of the agent have no names, and its resources are new to pods
        if not facts_of(self._provider).slots:
            names = Names(
                self._facts,
                self._drafts,
                self._names,
                self._provider,
                self._attachment,
                list(out.data["profiles"]),
                self._found,
            )
            section = names.section(layout)
            if section:
                out.data["names"] = section
        if self._facts.qos and not self._infiniband:
            keys = ("profile", "priority", "dscp", "cnp_priority", "trust", "pfc")
            qos = {key: self._facts.qos[key] for key in keys if key in self._facts.qos}
            if qos.get("pfc") == [qos.get("priority")]:
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
            counts = map(port_drafts.pod_count, self._drafts) if vfs else ()
            section["pods_per_node"] = min([layout.pods_per_node, *(count for count in counts if count)])
            comment = "DECIDE: the number of addresses in nv-ipam's blocks; see the finding"
            self._out.say(("fabric", "pods_per_node"), comment)
        elif facts_of(self._provider).slots and not vfs and self._attachment != "host-device":
            section["slots"] = {"all_rails": 1, "per_rail": 1}
            comment = "DECIDE: how many pods of a node use all rails, or one of them, at the same time"
            self._out.say(("fabric", "slots"), comment)
        section["objects"] = self._objects()
        reserved = self._facts.reserved
        if reserved:
            section["reserved"] = dict(reserved)
        if vfs:
            section["vfs"] = vfs
        return section

    @staticmethod
    def _slots_per_node(fabric: t.Mapping[str, t.Any]) -> int:
        """Return the slots of each node on a rail, from the section that is written."""
        pods = fabric.get("pods_per_node") or fabric.get("vfs", {}).get("count")
        return int(pods or sum(fabric.get("slots", {"all_rails": 1}).values()))

    def _objects(self) -> dict[str, bool]:
        """Return the section ``objects``: off for all that the plan has in addition to objects of the manifests."""
        kinds = set(self._attachments.rails)
        known = [network.mtu for draft in self._drafts for network in draft.networks if network.mtu]
        known += [device.mtu for draft in self._drafts for device in draft.devices if device.mtu]
        left_out = ["metrics"]
        if not facts_of(self._provider).slots:
            left_out.append("nccl")
            if self._provider != CNI and kinds & _WITH_MTU and not known:
                left_out.append("network_mtu")
        if self._provider == SPIDERPOOL:
            left_out.append("injection")
        if self._provider == NETWORK_OPERATOR and "NicClusterPolicy" not in self._facts.kinds:
            left_out.append("cluster_policy")
        if self._provider == CNI and "DaemonSet" not in self._facts.kinds:
            left_out.append("device_plugins")
        of_operator = kinds & {"sriov", "ib-sriov"} and self._provider in (SPIDERPOOL, NETWORK_OPERATOR)
        if of_operator and "SriovNetworkNodePolicy" not in self._facts.kinds:
            left_out.append("sriov_policies")
        for key in left_out:
            self._out.say(("fabric", "objects", key), "not in the manifests: %s; true adds it" % LEFT_OUT[key])
        return {key: False for key in OBJECT_KEYS if key in left_out}

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
        devices += host_addresses.mtus(draft, self._facts)
        networks = [network.mtu for network in draft.networks if network.mtu]
        all_mtus = devices + networks
        if len(set(all_mtus)) > 1:
            message = "the MTU of %s is %s" % (shown(draft.label), " and ".join(map(str, sorted(set(all_mtus)))))
            remedy = "give the port at least the MTU of its pods, and the switches at least that of the port"
            written = "mtu: %d" % max(all_mtus)
            self._found.add(import_rules.MTUS, draft.place, message, remedy, written)
        return max(all_mtus) if all_mtus else None

    # -- VFs

    def _vfs(self) -> dict[str, t.Any]:
        if not attachment_table.has_vfs(self._attachment):
            return {}
        section: dict[str, t.Any] = {}
        drafts = [draft for draft, each in zip(self._drafts, self._attachments.rails) if attachment_table.has_vfs(each)]
        known: list[dict[str, t.Any]] = [vfs for vfs in map(port_drafts.vfs_of, drafts) if "count" in vfs]
        if known:
            counts = [known.count(vfs) for vfs in known]
            section.update(known[counts.index(max(counts))])
        else:
            section["count"] = 8
            message = "no manifest contains the number of VFs of a port"
            remedy = "set fabric.vfs.count: one for each pod"
            comment = "DECIDE: one VF per port for each pod of a node; no policy contains the number"
            self._report(import_rules.VFS, message, remedy, "vfs: 8", ("fabric", "vfs"), comment)
        settings = [draft.networks[0].vfs for draft in drafts if draft.networks]
        for first in settings[:1]:
            section.update(
                {key: value for key, value in first.items() if all(each.get(key) == value for each in settings)}
            )
        self._report_parts()
        return section

    def _report_parts(self) -> None:
        """Report VFs outside of the ranges that resources select."""
        parted = [(draft, vfs) for draft in self._drafts for vfs in [port_drafts.vfs_of(draft)] if "range" in vfs]
        for draft, vfs in parted:
            message = "%s gets the VFs %s of %d, and the others have another owner" % (
                shown(draft.label),
                vfs["range"],
                vfs["count"],
            )
            remedy = "check who owns the others, and that the numbers are right: they are left as they are"
            written = "vfs: {count: %d, range: %s}" % (vfs["count"], vfs["range"])
            found_at = next((device.place for device in draft.devices if device.vf_range), draft.place)
            self._found.add(layout_rules.PART, found_at, message, remedy, written)
        if self._found.has(layout_rules.OWNER):
            self._out.say(("fabric", "vfs"), "DECIDE: which VFs have another owner, as range; see the finding")
        if parted:
            comment = "CHECK: pods get only the VFs of the range; others have another owner and are left as they are"
            self._out.say(("fabric", "vfs"), comment)

    def _own_vfs(self, draft: Draft, attachment: str) -> dict[str, t.Any]:
        """Return VF attributes of a rail that differ from those of the fabric."""
        if not attachment_table.has_vfs(attachment):
            return {}
        common = self._out.data["fabric"].get("vfs", {})
        own = port_drafts.vfs_of(draft)
        if "range" in common and "count" in own:
            own.setdefault("range", "0-%d" % (own["count"] - 1))
        attributes = dict(draft.networks[0].vfs if draft.networks else {}, **own)
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
            attachment = self._attachments.rails[place - 1]
            infiniband = self._attachments.infiniband[place - 1]
            if infiniband != self._infiniband:
                rail["link_layer"] = attachment_table.INFINIBAND if infiniband else attachment_table.ETHERNET
            if attachment != self._attachment:
                rail["attachment"] = attachment
            vfs = self._own_vfs(draft, attachment)
            if vfs:
                rail["vfs"] = vfs
            section[name] = rail
        for note, names in notes.items():
            for path in [("rails",)] if len(names) == len(self._names) > 1 else [("rails", name) for name in names]:
                self._out.say(path, note)
        for device in self._facts.devices:
            if not device.netdevs and not device.pci:
                comment = "DECIDE: pods request %s, which selects every port; each rail gets a resource of its own"
                self._out.say(("rails",), comment % device.resource)
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
        wanted, block = max(self._profiles.node_count(), 2), 16
        while block > 1 and any(sum(each.size // block for each in ranges) < wanted for ranges in rails):
            block //= 2
        message = "plain CNI plugins allocate addresses on each node, not for the whole cluster"
        remedy = "give each node a block of addresses, or use the provider spiderpool"
        written = "blocks of %d addresses per node" % block
        comment = "CHECK: each node gets a block of pod addresses, because nothing allocates them cluster-wide"
        self._report(import_rules.OWN_BLOCKS, message, remedy, written, ("addresses",), comment)
        return {"mode": BLOCK, "block": block}


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

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY83x: slots of the rail agent."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import vf_attributes
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import SUBNET
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.shared_subnet import SharedSubnetPlanner
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    Path,
    Report,
    rule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.kubernetes.pool_rules import NO_PODS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.address_demands import demands_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import has_vfs
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    COMPUTE,
    DRA,
    Fabric,
    Rail,
    Setting,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.object_names import Naming
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.slot_model import (
    RAILS,
    RESULTS_MAX,
    Slots,
    kubelet_plugin,
    most_slots,
    slots_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants, ports_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_rules import UNKNOWN
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import SUFFIX
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count


def _fabric(more: str, attachment: str = "macvlan", provider: str = "agent") -> str:
    return "fabric: {name: ai, mtu: 4200, attachment: %s, provider: %s%s}\n" % (attachment, provider, more)


_SLOTS = ", slots: {all_rails: 4, per_rail: 2}"

_RAILS = 'rails: {count: 2, name: "%s{n}", subnet: "172.16.{n+10}.0/24", pods: .1-.200, hosts: .201-.253}\n'

_DRA = ", slots: {all_rails: 4, per_rail: 2, kubelet_plugin: dra%s}"

_PROFILE = 'profiles: {hgx: {ports: {%s1: {netdev: nic1, pci: "0000:0b:00.0"}, %s2: {netdev: nic2}}}}\n'


def _named(name: str) -> str:
    return _fabric(_SLOTS) + _RAILS % name + _PROFILE % (name, name)


def _many(count: int) -> str:
    rails = 'rails: {count: %d, name: "r{n:02}", subnet: "172.16.{n}.0/24", pods: .1-.200, hosts: .201-.253}\n' % count
    # two rails per RDMA device, of which NCCL can use 32
    ports = "".join(
        '      r%02d: {pci: "0000:%02x:00.0", netdev: nic%d, vlan: %d}\n' % (number, at, at, number)
        for number in range(1, count + 1)
        for at in [(number + 1) // 2]
    )
    return _fabric(_DRA % "") + rails + "profiles:\n  hgx:\n    ports:\n%s" % ports


# The keys of names that the agent uses.
_NAMES = ("resource_prefix", "interface")

# Longest PREFIX_RESOURCE, part of the key of the annotation by which the kubelet names a device to the runtime.
_LONGEST = 63

SLOTS_UNUSED = rule(
    "RY832 slots-without-agent: Slots with a provider other than the agent",
    _fabric(_SLOTS, provider="spiderpool"),
    _fabric(_SLOTS),
    why="Other providers give each pod any free address of a pool.",
)


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    if fabric.provider is None:
        return
    if not facts_of(fabric.provider).slots:
        holders = [(("fabric",), fabric.slots), *((each.path, each.slots) for each in fabric.profiles.values())]
        holders += [(group.path, group.slots) for group in fabric.groups.values()]
        paths: list[Path] = [(*path, "slots") for path, slots in holders if slots]
        for path in paths + [fabric.agent.path] * bool(fabric.agent.path):
            message = "%s gives addresses of pools to pods, and has no slots" % fabric.provider
            report.add(SLOTS_UNUSED, path, message, "remove it, or set provider: agent")
        return
    known = variants.with_unused()
    for variant in known:
        served = variants.rails_of(variant)
        rails = [rail for rail in fabric.rails if rail.name in served and rail.for_pods]
        if not facts_of(fabric.provider).refused(variant.attachment):
            _counted(fabric, variant, rails, report)
        _driver(fabric, variant, report)
        _spoofing(fabric, variant, rails, report)
    _names(fabric, report)
    _pools(fabric, variants, report)


SLOTS_MISSING = rule(
    "RY833 missing-slots: Missing number of slots",
    _fabric(""),
    _fabric(_SLOTS),
    why="Each slot has its own address, so the plan must contain their number.",
)

NO_SLOTS = rule(
    "RY834 zero-slots: Zero slots",
    _fabric(", slots: {all_rails: 0, per_rail: 0}"),
    _fabric(_SLOTS),
)

SLOTS_FEW = rule(
    "RY835 too-few-slots: Fewer slots than pods on a node",
    _fabric(", pods_per_node: 8" + _SLOTS),
    _fabric(", pods_per_node: 6" + _SLOTS),
    why="Each pod has one slot of a rail, so the pods above that count stay pending.",
)


def _counted(fabric: Fabric, variant: Variant, rails: t.Sequence[Rail], report: Report) -> None:
    """Check that the number of slots is known, and that a port has as many devices."""
    slots = slots_of(fabric, variant)
    unknown = [rail for rail in rails if slots_of(fabric, variant, rail) is None]
    if slots is None or unknown:
        attachment = variant.attachment_on(unknown[0]) if unknown else variant.attachment
        holders = [("fabric",), variant.profile.path] + [group.path for group in variant.groups]
        unread = any(report.within(path + ("slots",)) or report.within_by(UNKNOWN, path) for path in holders)
        # With VFs, the missing number of VFs is reported instead.
        if not unread and not has_vfs(attachment) and attachment and not report.within(("fabric", "pods_per_node")):
            message = "neither slots nor pods_per_node is set, and %s has no number of its own" % attachment
            report.add(SLOTS_MISSING, ("fabric", "slots"), message, "set slots, such as {all_rails: 4, per_rail: 4}")
        return
    if not variant.slots:
        return
    if not slots.total:
        report.add(NO_SLOTS, slots.path, "a port has no slots", "set all_rails or per_rail to 1 or more")
    elif fabric.pods_per_node and fabric.pods_per_node > slots.total and not _whole(variant, rails):
        message = "pods_per_node is %d, and a port has %d slots" % (fabric.pods_per_node, slots.total)
        remedy = "raise all_rails or per_rail, or lower pods_per_node"
        report.add(SLOTS_FEW, slots.path, message, remedy)
    else:
        _devices(fabric, variant, rails, slots, report)


SLOTS_MANY = rule(
    "RY836 too-many-slots: More slots than devices on a port",
    _fabric(_SLOTS + ", vfs: {count: 4}", "sriov"),
    _fabric(_SLOTS + ", vfs: {count: 6}", "sriov"),
    why="With sriov, slot K is VF K, counted from the first VF of vfs.range. With host-device a pod gets the port"
    " itself, which is one slot.",
)


def _whole(variant: Variant, rails: t.Sequence[Rail]) -> bool:
    """Return whether a pod gets the port itself on a compute rail, so that each rail has one slot."""
    compute = [rail for rail in rails if rail.role == COMPUTE] or rails
    attachments = [variant.attachment_on(rail) for rail in compute] or [variant.attachment]
    return "host-device" in attachments


def _devices(fabric: Fabric, variant: Variant, rails: t.Sequence[Rail], slots: Slots, report: Report) -> None:
    """Report more slots than a port has devices."""
    if _whole(variant, rails) and slots.total > 1:
        message = "a port has %d slots, and with host-device it can have one" % slots.total
        report.add(SLOTS_MANY, slots.path, message, "set {all_rails: 1, per_rail: 0}, or use the attachment sriov")
    for rail in rails:
        vfs: Setting | None = variant.pod_vfs_on(fabric, rail) if variant.has_vfs_on(rail) else None
        if vfs and vfs.value and slots.total > vfs.value:
            message = "a port has %d slots, and %s has %d VFs" % (slots.total, rail.name, vfs.value)
            more = "widen vfs.range to %d VFs" if vfs.path[-1] == "range" else "set vfs.count to %d"
            report.add(SLOTS_MANY, slots.path, message, "lower all_rails or per_rail, or " + more % slots.total)


SPOOFING = rule(
    "RY842 vf-without-spoof-check: VFs that let a pod use the MAC address of another",
    _fabric(_SLOTS + ", vfs: {count: 6, trust: true}", "sriov"),
    _fabric(_SLOTS + ", vfs: {count: 6, trust: false}", "sriov"),
    WARNING,
    why="A container with CAP_NET_ADMIN or CAP_NET_RAW can then send from the MAC address of another slot. The agent"
    " needs neither trust nor a disabled check.",
)


def _spoofing(fabric: Fabric, variant: Variant, rails: t.Sequence[Rail], report: Report) -> None:
    """Report settings by which the NIC does not stop a pod that uses another MAC address."""
    for rail in rails:
        if variant.attachment_on(rail) != "sriov":
            continue
        settings = variant.vfs_on(fabric, rail)
        for attribute in vf_attributes.SETTINGS:
            setting: Setting | None = settings.get(attribute.name)
            if (
                setting
                and setting.value is not None
                and setting.value is attribute.unsafe
                and not report.has(setting.path)
            ):
                assigned = (attribute.name, str(setting.value).lower())
                message = "with %s: %s, a pod can use the MAC address of another" % assigned
                remedy = "set %s to %s" % (attribute.name, str(not setting.value).lower())
                report.add(SPOOFING, setting.path, message, remedy)


CLAIM_DEVICES = rule(
    "RY840 claim-too-large: More rails than devices in a claim",
    _many(33),
    _many(32),
    WARNING,
    why="A ResourceClaim has at most 32 devices. A slot on every rail (all_rails) is one device, so it is not limited.",
)

KUBECONFIG = rule(
    "RY841 agent-kubeconfig: Kubeconfig that the agent does not use",
    _fabric(_SLOTS.replace("}", ", kubeconfig: /etc/railyard/kubeconfig}")),
    _fabric(_DRA % ", kubeconfig: /etc/railyard/kubeconfig"),
    why="Device plugins do not use the API server. The DRA driver reads a file with an absolute path.",
)


def _driver(fabric: Fabric, variant: Variant, report: Report) -> None:
    """Check that claims can get the devices of the DRA driver, and that its kubeconfig is a path."""
    uses_dra = kubelet_plugin(variant) == DRA
    setting = variant.slots.get("kubeconfig")
    if setting and setting.value and not uses_dra:
        remedy = "remove it, set kubelet_plugin: dra, or set kubeconfig: null in the group"
        report.add(KUBECONFIG, setting.path, "device plugins do not use a kubeconfig", remedy)
    elif setting and setting.value and not setting.value.startswith("/"):
        message = "%s is not an absolute path" % setting.value
        report.add(KUBECONFIG, setting.path, message, "write the path from the root of the node")
    slots = slots_of(fabric, variant)
    rails = [rail for rail in fabric.compute_rails if rail.name in variant.ports and rail.for_pods]
    if uses_dra and len(rails) > RESULTS_MAX and slots and slots.per_rail:
        message = "a claim with one slot of each rail has %d devices, and the limit is %d" % (len(rails), RESULTS_MAX)
        remedy = "use all_rails for pods on all rails; the template with one slot of each rail is left out"
        report.add(CLAIM_DEVICES, slots.path, message, remedy)


NAME_UNUSED = rule(
    "RY838 name-without-object: Name of an object that the agent does not use",
    _fabric(_SLOTS) + 'names: {network: "{rail}-rdma"}\n',
    _fabric(_SLOTS) + "names: {resource_prefix: rails.example.com}\n",
    why="Pods request slots by resource_prefix and the name of a rail. There are no networks, pools or policies.",
)

DEVICE_NAME = rule(
    "RY839 agent-device-name: Rail name or resource prefix that is invalid for devices of the agent",
    _named("1-"),
    _named("gpu"),
    why="Prefix and rail are the vendor and the class of a CDI device. Both must begin with a letter, and together they"
    " are part of an annotation. The name rails is reserved for the resource with a slot on every rail.",
)


def _names(fabric: Fabric, report: Report) -> None:
    """Report names that the agent does not use or cannot have."""
    for kind in fabric.names:
        if kind not in _NAMES:
            message = "%s has no effect with provider: agent" % kind
            report.add(
                NAME_UNUSED, fabric.names_path + (kind,), message, "remove it; %s are used" % " and ".join(_NAMES)
            )
    prefix = Naming(fabric.name, fabric.provider, fabric.names).common("resource_prefix")
    path = fabric.names_path + ("resource_prefix",)
    if not report.has(path) and not re.match("[a-z]", prefix):
        report.add(DEVICE_NAME, path, "%s does not begin with a letter" % prefix, "write one that does")
    for rail in fabric.rails:
        # A rail of several planes is read as one rail per plane, all at one place.
        if report.within(rail.path):
            continue
        if rail.name == RAILS:
            message = "rails is the resource for a slot on every rail"
            report.add(DEVICE_NAME, rail.path, message, "give the rail another name, such as gpu01")
        elif not re.match("[a-z]", rail.name):
            message = "%s does not begin with a letter" % rail.name
            report.add(DEVICE_NAME, rail.path, message, "give the rail another name, such as gpu01")
        elif len(prefix) + 1 + len(rail.name) > _LONGEST and not report.has(path):
            message = "%s_%s has %d characters, and the limit is %d" % (
                prefix,
                rail.name,
                len(prefix) + 1 + len(rail.name),
                _LONGEST,
            )
            report.add(DEVICE_NAME, path, message, "shorten the prefix or the name of the rail")


POOL_SHORT = rule(
    "RY837 slots-beyond-pool: Pool without addresses for the slots of a node",
    _fabric(_SLOTS) + "nodes:\n  ai-1: {profile: hgx}\n  ai-40: {profile: hgx}\n",
    _fabric(_SLOTS) + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: hgx}\n",
    why="The node with index I has the I-th part of the pool, so that no other node is renumbered when nodes change.",
)


def _pools(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Check that a pool shared by all nodes has addresses for the slots of each node."""
    most = {rail.name: most_slots(fabric, variants, rail) for rail in fabric.rails}
    last_node: dict[str, tuple[int, str]] = {}
    for variant in variants if any(most.values()) else ():
        for node in variants.nodes_of(variant):
            for name in ports_of(node, variant):
                last_node[name] = max(last_node.get(name, (0, "")), (node.index or 0, node.name))
    planners = fabric.planners()
    short: list[tuple[Path, Rail, str]] = []
    for rail in fabric.rails if last_node else ():
        slots = most[rail.name]
        if not slots:
            continue
        for bits, planner in planners[rail.name].items() if rail.mode == SUBNET else ():
            key = "pods" + SUFFIX[bits]
            path = rail.where(key)
            if report.within(path) or report.within(rail.path) or not isinstance(planner, SharedSubnetPlanner):
                continue
            index, node_name = last_node.get(rail.name, (0, ""))
            if planner.scheme.pods is None:
                message = "slots need addresses, and %s has no pods in %s" % (rail.name, planner.network)
                report.add(NO_PODS, path, message, "add a range for pods")
            elif planner.pods and index * slots > planner.pods.size:
                room = count(planner.pods.size // slots, "node")
                message = "%s has index %d, and with %d slots per port %s (%s) has addresses for %s" % (
                    node_name,
                    index,
                    slots,
                    key,
                    planner.scheme.own_pods,
                    room,
                )
                short.append((path, rail, message))
    if short:
        path, rail, message = short[0]
        if len({each for each, _rail, _message in short}) > 1:
            path = demands_of(fabric, variants)[rail.name][1]
            message = "on %s, %s" % (count(len({each.name for _path, each, _message in short}), "rail"), message)
        report.add(POOL_SHORT, path, message, "widen the range, lower the index, or use the mode block")

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY6xx: VFs, their attributes, MAC addresses and GUIDs."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import vf_attributes
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    Path,
    Report,
    rule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import vf_identity
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import INFINIBAND
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    Fabric,
    Rail,
    Setting,
    VfSettings,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan, PlannedNode
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_rules import UNKNOWN


def _fabric(vfs: str, more: str = "", attachment: str = "sriov") -> str:
    return "fabric: {name: ai, provider: spiderpool, mtu: %d, attachment: %s%s%s}" % (
        4092 if attachment == "ib-sriov" else 4200,
        attachment,
        more,
        vfs and ", vfs: {%s}" % vfs,
    )


_GOOD = _fabric("count: 4, trust: true")

_INFINIBAND_VFS = 16

ONE_DEVICE = rule(
    "RY613 too-few-devices: Fewer devices than pods on a node",
    "fabric: {name: ai, provider: network-operator, mtu: 4200, attachment: host-device, pods_per_node: 2}",
    "fabric: {name: ai, provider: network-operator, mtu: 4200, attachment: host-device, pods_per_node: 1}",
    why="With host-device a pod gets the port itself, and a node has one on each rail.",
)


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    known = variants.with_unused()
    _unused(fabric, known, report)
    checked_firmware: set[int] = set()
    for variant in known:
        served = variants.rails_of(variant)
        _used(fabric, variant, served, checked_firmware, report)
        rails = [rail for rail in fabric.compute_rails if rail.name in served]
        attachments = {variant.attachment_path_on(rail): variant.attachment_on(rail) for rail in rails}
        attachments = attachments or {variant.attachment_path: variant.attachment}
        whole = [path for path, attachment in attachments.items() if attachment == "host-device"]
        if whole and (fabric.pods_per_node or 0) > 1 and not any(map(report.has, whole)):
            message = "pods_per_node is %d, but host-device has one device per rail" % (fabric.pods_per_node or 0)
            report.add(ONE_DEVICE, ("fabric", "pods_per_node"), message, "set it to 1, or use the attachment sriov")


VFS_UNUSED = rule(
    "RY601 vfs-without-attachment: VFs that the attachment does not use",
    "fabric: {name: ai, provider: spiderpool, mtu: 4200, attachment: macvlan, vfs: {count: 4}}",
    _GOOD,
)


def _unused(fabric: Fabric, variants: t.Sequence[Variant], report: Report) -> None:
    """Report VF settings that no attachment uses. Settings of all nodes are used if one attachment uses VFs."""
    if not variants or any(variant.attachment is None for variant in variants):
        return
    # (place of vfs, nodes and rails that could use it)
    rails = fabric.rails
    holders: list[tuple[Path, t.Sequence[Variant], list[Rail]]] = [(("fabric",), variants, rails)] if fabric.vfs else []
    holders += [(rail.path, variants, [rail]) for rail in rails if rail.vfs]
    for profile in fabric.profiles.values():
        if profile.vfs:
            holders.append((profile.path, [each for each in variants if each.profile is profile], rails))
    for group in fabric.groups.values():
        if group.vfs:
            holders.append((group.path, [each for each in variants if group in each.groups], rails))
    for path, users, able in holders:
        used = any(
            each.has_vfs_on(rail) or report.has(each.attachment_path_on(rail)) for each in users for rail in able
        )
        if users and able and not used:
            message = "the attachment %s does not use VFs" % users[0].attachment_on(able[0])
            fitting = "ib-sriov" if fabric.link_layer_on(able[0]) == INFINIBAND else "sriov"
            report.add(VFS_UNUSED, path + ("vfs",), message, "remove vfs, or set attachment: %s" % fitting)


FIRMWARE_VFS = rule(
    "RY607 firmware-vf-count: Fewer VFs in firmware than planned",
    _fabric("count: 8") + "\n" + example_file.profile("firmware: {num_of_vfs: 4}"),
    _fabric("count: 8") + "\n" + example_file.profile("firmware: {num_of_vfs: 8}"),
)

FIRMWARE_OFF = rule(
    "RY608 sriov-off-in-firmware: SR-IOV disabled in firmware",
    _fabric("count: 8") + "\n" + example_file.profile("firmware: {sriov_en: false}"),
    _fabric("count: 8") + "\n" + example_file.profile("firmware: {sriov_en: true}"),
)

PODS_MANY = rule(
    "RY610 too-few-vfs: Fewer VFs than pods on a node",
    _fabric("count: 4", ", pods_per_node: 8"),
    _fabric("count: 8", ", pods_per_node: 8"),
    why="Each pod takes one VF of every rail, so the pods above that count stay pending.",
)

PART = rule(
    "RY619 vf-range: Range of VFs that the port does not have",
    _fabric("count: 8, range: 5-9"),
    _fabric("count: 10, range: 5-9"),
    why="VFs are numbered from 0. VFs outside of the range belong to others: they get no MAC address, no settings and"
    " no pods.",
)

NO_VFS = rule("RY611 zero-vfs: Zero VFs for an attachment that needs them", _fabric("count: 0"), _fabric("count: 8"))


def _used(
    fabric: Fabric, variant: Variant, rails: t.Collection[str], checked_firmware: set[int], report: Report
) -> None:
    """Report VF counts that the attachment, the pods or the firmware do not allow."""
    firmware = variant.firmware
    for rail in fabric.rails:
        if rail.name not in rails or not variant.has_vfs_on(rail):
            continue
        vfs = variant.vfs_on(fabric, rail)
        _settings(fabric, rail, vfs, report.has(variant.attachment_path_on(rail)), report)
        if "count" not in vfs:
            _uncounted(rail, variant, report)
            continue
        count, path = vfs["count"].value, vfs["count"].path
        if count == 0:
            message = "the attachment %s needs VFs, and %s has 0" % (variant.attachment_on(rail), rail.name)
            report.add(NO_VFS, path, message, "set the number of pods on a node that need a VF")
        elif count and fabric.pods_per_node and fabric.pods_per_node > count:
            message = "pods_per_node is %d, but %s has %d VFs" % (fabric.pods_per_node, rail.name, count)
            report.add(PODS_MANY, path, message, "set it to %d or more" % fabric.pods_per_node)
        elif count and "range" in vfs:
            _part(fabric, rail, vfs, variant.pod_vfs_on(fabric, rail), report)
        if not firmware or not count or id(firmware) in checked_firmware:
            continue
        if firmware.sriov_en is False:
            message = "sriov_en is false, but %s has %d VFs" % (rail.name, count)
            report.add(FIRMWARE_OFF, firmware.path + ("sriov_en",), message, "set sriov_en: true")
            checked_firmware.add(id(firmware))
        elif firmware.num_of_vfs is not None and firmware.num_of_vfs < count:
            message = "%d is less than the %d VFs of %s" % (firmware.num_of_vfs, count, rail.name)
            report.add(FIRMWARE_VFS, firmware.path + ("num_of_vfs",), message, "set it to %d or more" % count)
            checked_firmware.add(id(firmware))


def _part(fabric: Fabric, rail: Rail, vfs: VfSettings, pods: Setting | None, report: Report) -> None:
    """Report a range that the count does not contain, or that has too few VFs for the pods of a node."""
    count, part = vfs["count"].value, vfs["range"]
    numbers = vf_attributes.numbers(part.value, count) if part.value else None
    if numbers and numbers[-1] >= count:
        message = "VF %d is not one of the %d VFs of %s, which are 0 to %d" % (numbers[-1], count, rail.name, count - 1)
        report.add(PART, part.path, message, "end the range at %d or lower, or raise count" % (count - 1))
    elif numbers and pods and fabric.pods_per_node and fabric.pods_per_node > pods.value:
        message = "pods_per_node is %d, but %s has %d VFs in its range" % (
            fabric.pods_per_node,
            rail.name,
            pods.value,
        )
        report.add(PODS_MANY, part.path, message, "widen the range to %d VFs or more" % fabric.pods_per_node)


VFS_MISSING = rule("RY602 missing-vf-count: Missing VF count", _fabric(""), _GOOD)


def _uncounted(rail: Rail, variant: Variant, report: Report) -> None:
    """Report a missing VF count, unless an unreadable key may contain it."""
    # The count, or vfs itself, may be misspelt in any place where it can be set.
    for path in [("fabric",), rail.path, variant.profile.path] + [group.path for group in variant.groups]:
        if report.within(path + ("vfs",)) or report.within_by(UNKNOWN, path):
            return
    message = "the attachment %s needs VFs, and %s has no VF count" % (variant.attachment_on(rail), rail.name)
    if rail.attachment:
        report.add(VFS_MISSING, rail.path + ("vfs",), message, "set it for the rail, such as vfs: {count: 4}")
        return
    report.add(VFS_MISSING, ("fabric", "vfs"), message, "set it for all rails, such as vfs: {count: 4}")


RATES = rule(
    "RY603 vf-rate-order: Minimum VF rate above the maximum",
    _fabric("count: 4, min_tx_rate: 20000, max_tx_rate: 10000"),
    _fabric("count: 4, min_tx_rate: 10000, max_tx_rate: 20000"),
)

QOS = rule(
    "RY604 vf-priority-without-vlan: VF priority without a VLAN",
    _fabric("count: 4, qos: 3"),
    _fabric("count: 4, vlan: 100, qos: 3"),
)

ETHERNET_ONLY = rule(
    "RY605 vf-attribute-link-layer: Ethernet VF attribute on InfiniBand",
    _fabric("count: 4, vlan: 100", "", "ib-sriov"),
    _fabric("count: 4, link_state: enable", "", "ib-sriov"),
)

INFINIBAND_MANY = rule(
    "RY606 many-vfs: More VFs than InfiniBand cards commonly support",
    _fabric("count: 32", "", "ib-sriov"),
    _fabric("count: 16", "", "ib-sriov"),
    WARNING,
)

LINK_DOWN = rule(
    "RY612 vf-link-down: VF link permanently down",
    _fabric("count: 4, link_state: disable"),
    _fabric("count: 4, link_state: auto"),
    WARNING,
)


def _settings(fabric: Fabric, rail: Rail, vfs: t.Mapping[str, Setting], wrong_attachment: bool, report: Report) -> None:
    """Report attributes of VFs that contradict each other or the link layer.

    ``wrong_attachment``: the attachment is reported already, so it or the link layer is a mistake.
    """
    values = {key: setting.value for key, setting in vfs.items()}
    count = values.get("count")
    for attribute in vf_attributes.above_limit(values):
        limit, unit = attribute.at_most or "", attribute.unit
        message = "%d %s is above %s, %d %s" % (values[attribute.name], unit, limit, values[limit], unit)
        remedy = "lower it, or raise %s (0 means unlimited)" % limit
        report.add(RATES, vfs[attribute.name].path, message, remedy)
    if values.get("link_state") == "disable":
        message = "a VF with link_state: disable carries no traffic"
        report.add(LINK_DOWN, vfs["link_state"].path, message, "write auto, or enable")
    if fabric.link_layer_on(rail) == INFINIBAND:
        for attribute in vf_attributes.SETTINGS:
            if attribute.name in vfs and not attribute.fits(INFINIBAND) and not wrong_attachment:
                path = vfs[attribute.name].path
                message = "%s has no effect on InfiniBand" % attribute.name
                remedy = "remove it"
                if rail.link_layer or any(each.link_layer for each in fabric.rails):
                    message += ", which %s has" % rail.name
                    remedy = "remove it, and set it in vfs of the rails with Ethernet"
                report.add(ETHERNET_ONLY, path, message, remedy)
        if count and count > _INFINIBAND_VFS:
            message = "%d VFs per port; InfiniBand cards commonly support %d" % (count, _INFINIBAND_VFS)
            report.add(INFINIBAND_MANY, vfs["count"].path, message, "check the limit of the card")
        return
    for attribute in vf_attributes.without_effect(values):
        name, required, path = attribute.name, attribute.requires, vfs[attribute.name].path
        if not report.within(path[:-1]):
            message = "%s %s %s, and %s is not set" % (name, values[name], attribute.reason, required)
            report.add(QOS, path, message, "set %s, or remove %s" % (required, name))


COLLISION = rule(
    "RY609 vf-identity-collision: Two VFs with the same MAC address or GUID",
    # Found by search: on gpu01, VF 0 of both nodes hashes to 12:da:a9:45:6e:8f.
    _fabric("count: 1") + "\nnodes:\n  ai-632966: {profile: hgx, index: 1}\n  ai-6307574: {profile: hgx, index: 2}",
    _fabric("count: 1") + "\nnodes:\n  ai-1: {profile: hgx, index: 1}\n  ai-2: {profile: hgx, index: 2}",
)


def check_plan(plan: Plan, report: Report) -> None:
    """Report VFs, or slots of macvlan, that share a MAC address or GUID."""

    def owned() -> t.Iterator[tuple[str, tuple[PlannedNode, Rail, int]]]:
        rails = {rail.name: rail for rail in plan.fabric.rails}
        for node in plan.nodes:
            for name, values in node.identities.items():
                rail = rails[name]
                for vf, value in enumerate(values):
                    yield value, (node, rail, vf)  # counted from the first VF or slot of the plan

    every = [values for node in plan.nodes for values in node.identities.values()]
    if len(set().union(*every)) == sum(map(len, every)):
        return
    seed = plan.fabric.mac_seed or plan.fabric.name
    for value, first, second in vf_identity.collisions(owned()):
        report.add(
            COLLISION,
            second[0].node.path,
            "%s would have %s, which %s has" % (_owner(*second), value, _owner(*first)),
            "set fabric.mac_seed to another text than %s; all of them get new ones" % seed,
        )


def _owner(node: PlannedNode, rail: Rail, number: int) -> str:
    kind = "VF" if node.variant.has_vfs_on(rail) else "slot"
    return "%s %d of %s on %s" % (kind, number, node.node.name, rail.name)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY8xx: Kubernetes: attachments and modes that a provider supports, and limits of its objects.

The names of objects are in ``check_objects``.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import (
    LINK,
    NONE,
    PREFIX,
    SUBNET,
    Demand,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    Path,
    Report,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.settings_checks.check_rendered import (
    MOST_LISTED,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.address_demands import demands_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import (
    ATTACHMENTS,
    EXCLUSIVE,
    HOST,
    SHARED,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    Fabric,
    Node,
    Port,
    Rail,
    Setting,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.host_model import CONTAINER, GPUDIRECT
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.object_names import Naming
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import PROVIDERS, facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants, ports_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.settings_catalog.kubernetes_rules import (
    BLOCK_SHORT,
    BLOCKS,
    INJECTED,
    LINK_SHARED,
    LINK_TWICE,
    LOCAL_ROUTER,
    MASTERS,
    MIXED_MODES,
    MODE_NOT_SERVED,
    NETDEV_RAILS,
    NO_MASTER,
    NOT_SERVED,
    POOL_LARGE,
    RANGES_LARGE,
    TABLE_TAKEN,
    WITHOUT_OPERATOR,
    WITHOUT_PODS,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    IPV6,
    SUFFIX,
    Range,
    link_local,
    show,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import Ranges, partial_blocks
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count

_SPIDERPOOL_TABLE = 500
_SPIDERPOOL_POOL = 5000


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    _attachments(fabric, variants, report)
    _modes(fabric, variants, report)
    facts = facts_of(fabric.provider)
    if not facts.kubernetes:
        _without_kubernetes(fabric, report)
        return
    if facts.networks:
        _masters(fabric, variants, report)
    if not facts.link_local_gateway:
        _local_router(fabric, report)
    if facts.lists_addresses:
        _spiderpool(fabric, variants, report)
    if facts.injects:
        _injection_order(variants, fabric, report)
    if facts.cuts_blocks:
        _blocks(fabric, variants, report)


def _attachments(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Report attachments that the provider does not support."""
    if fabric.provider is None:
        return
    kinds = {each.attachment: each.attachment_path for each in reversed(variants.with_unused()) if each.attachment}
    if not kinds and fabric.attachment:
        kinds = {fabric.attachment: ("fabric", "attachment")}
    for attachment, path in kinds.items():
        reason = facts_of(fabric.provider).refused(attachment)
        # An attachment that does not fit the link layer is reported already.
        if reason and not report.has(path):
            message = "%s does not support %s: %s" % (fabric.provider, attachment, reason)
            report.add(NOT_SERVED, path, message, "use one of %s" % ", ".join(facts_of(fabric.provider).served))


def _without_kubernetes(fabric: Fabric, report: Report) -> None:
    found: list[tuple[Path, str]] = []
    if fabric.pods_per_node is not None:
        found.append((("fabric", "pods_per_node"), "the number of pods"))
    found += [(fabric.names_path + (kind,), "the name of a Kubernetes object") for kind in fabric.names]
    for rail in fabric.rails:
        for bits, scheme in rail.schemes.items():
            if scheme.pods is not None:
                found.append((rail.where("pods" + SUFFIX[bits]), "a range of pod addresses"))
    names = [name for name, facts in PROVIDERS.items() if facts.kubernetes]
    served = "%s or %s" % (", ".join(names[:-1]), names[-1])
    for path, subject in dict.fromkeys(found):
        message = "%s has no effect with provider: none" % subject
        report.add(WITHOUT_PODS, path, message, "remove it, or set provider: %s" % served)
    for path, setting in _operator_drivers(fabric):
        if setting.value == CONTAINER:
            message = "the GPU Operator runs the GPU driver's container, and with provider: none there is no Kubernetes"
            report.add(WITHOUT_OPERATOR, path, message, "set gpu_driver: host, and install the driver on the nodes")


def _operator_drivers(fabric: Fabric) -> t.Iterator[tuple[Path, Setting]]:
    """Yield path and setting of each ``gpu_driver``."""
    hosts = [profile.host for profile in fabric.profiles.values()] + [group.host for group in fabric.groups.values()]
    for host in (fabric.host, *hosts):
        setting = host.get(GPUDIRECT, {}).get("gpu_driver")
        if setting:
            yield setting.path, setting


def _modes(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Report address modes that the provider does not support."""
    facts = facts_of(fabric.provider)
    unserved: dict[str, list[Rail]] = {}
    for rail in fabric.rails:
        if rail.mode in (None, NONE) or fabric.provider is None:
            continue
        pods = rail.mode != "subnet" or any(scheme.pods for scheme in rail.schemes.values())
        if facts.mode_refused(rail.mode) and pods:
            unserved.setdefault(rail.mode or "", []).append(rail)
        if rail.mode == LINK:
            _link(fabric, rail, variants, report)
    for mode, rails in unserved.items():
        paths = {rail.paths.get("mode", rail.where("pods")) for rail in rails}
        path: Path = paths.pop() if len(paths) == 1 else ("fabric", "provider")
        reason = facts.mode_refused(mode)
        message = "%s cannot give pods addresses in the mode %s, as on %s: %s" % (
            fabric.provider,
            mode,
            rails[0].name,
            reason,
        )
        fits = [each for each in ("subnet", "block", "prefix") if not facts.mode_refused(each)]
        report.add(MODE_NOT_SERVED, path, message, "use the mode %s" % " or ".join(fits))


def _link(fabric: Fabric, rail: Rail, variants: Variants, report: Report) -> None:
    """Report rails of mode link on which pods would need the address of the port."""
    for variant in variants:
        count = variant.vfs_on(fabric, rail).get("count")
        if variant.has_vfs and count and count.value == 1:
            if all(scheme.host != NONE for scheme in rail.schemes.values()):
                message = "the port of %s and its VF would have the same address" % rail.name
                remedy = "set host: none, which leaves it to the pod; or use host-device, or the mode prefix"
                report.add(LINK_TWICE, rail.where("mode"), message, remedy)
            continue
        if variant.attachment in (None, "host-device", HOST) or (variant.has_vfs and not count):
            continue
        users = "%d VFs" % count.value if variant.has_vfs and count else str(variant.attachment)
        message = "a link of %s has one address, which the port needs, and %s needs one for each pod" % (
            rail.name,
            users,
        )
        remedy = "use the attachment host-device, or sriov with one VF; or the mode prefix"
        report.add(LINK_SHARED, rail.where("mode"), message, remedy)


def _masters(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Check that each network has one netdev name on all of its nodes."""
    naming = Naming(fabric.name, fabric.provider, fabric.names)
    owners: dict[str, tuple[str, str]] = {}
    resources: dict[str, tuple[str, str]] = {}
    for variant in variants:
        kind = ATTACHMENTS.get(variant.attachment or "")
        if not kind or not kind.master or _unread(variant, report):
            continue
        profile_checked = False
        names = {
            rail.name: naming.name("network", naming.values(rail, kind.name, variant.name)) for rail in fabric.rails
        }
        for node in variants.nodes_of(variant):
            if node.ports or not profile_checked:
                profile_checked = profile_checked or not node.ports
                ports = ports_of(node, variant)
                _master(node, names, ports, owners, report)
                if facts_of(fabric.provider).shared_netdevs:
                    _one_resource(node, names, ports, resources, report)


def _local_router(fabric: Fabric, report: Report) -> None:
    """Report link-local gateways of pods, which the provider does not support."""
    for rail in fabric.rails:
        scheme = rail.schemes.get(IPV6)
        if not scheme or not isinstance(scheme.gateway, int) or not link_local(scheme.gateway, IPV6):
            continue
        if scheme.pods or rail.mode == PREFIX:
            message = "%s does not support the gateway %s for pods of %s" % (
                fabric.provider,
                show(scheme.gateway, IPV6),
                rail.name,
            )
            remedy = "give the leaf an address of %s too, and write that; or set provider: cni" % scheme.network
            report.add(LOCAL_ROUTER, rail.where("gateway6"), message, remedy)


def _unread(variant: Variant, report: Report) -> bool:
    """Return whether a profile's ports could not be read, or may be under a misspelt key."""
    path = variant.profile.path
    return report.has(path) or report.has(path + ("ports",)) or (not variant.profile.ports and report.within(path))


def _master(
    node: Node,
    networks: t.Mapping[str, str],
    ports: t.Mapping[str, Port],
    owners: dict[str, tuple[str, str]],
    report: Report,
) -> None:
    """Report ports without a netdev name, or with another name than the network has on other nodes."""
    for rail, port in ports.items():
        network = networks.get(rail)
        if network is None or report.within(port.path) or report.has(("names", "network")):
            continue
        path: Path = port.paths.get("netdev", port.path)
        if port.netdev is None:
            message = "the network %s needs the name of a netdev, and the port of %s has none" % (network, rail)
            report.add(NO_MASTER, path, message, "add netdev: a port with another name is renamed")
            continue
        master, first = owners.setdefault(network, (port.netdev, node.name))
        if master != port.netdev:
            message = "the network %s needs %s here, but %s on %s" % (network, port.netdev, master, first)
            remedy = "set the same netdev for all, with pci to identify the port; or use {profile} in names.network"
            report.add(MASTERS, path, message, remedy)


def _one_resource(
    node: Node,
    networks: t.Mapping[str, str],
    ports: t.Mapping[str, Port],
    owners: dict[str, tuple[str, str]],
    report: Report,
) -> None:
    """Report netdevs that are on different rails on different nodes."""
    for rail, port in ports.items():
        if rail not in networks or port.netdev is None or report.within(port.path):
            continue
        other, first = owners.setdefault(port.netdev, (rail, node.name))
        if other != rail:
            message = "%s is on %s here, and on %s it is on %s" % (port.netdev, rail, first, other)
            remedy = "give each rail's port the same netdev on all nodes, with pci to identify it"
            report.add(NETDEV_RAILS, port.paths.get("netdev", port.path), message, remedy)


def _injection_order(variants: Variants, fabric: Fabric, report: Report) -> None:
    """Report netdevs that do not sort as their rails, because injected interfaces follow the order of netdevs."""
    for variant in variants:
        kind = ATTACHMENTS.get(variant.attachment or "")
        if not kind or not kind.master:
            continue
        ports = [variant.ports[rail.name] for rail in fabric.rails if rail.name in variant.ports]
        for before, port in zip(ports, ports[1:]):
            if before.netdev is None or port.netdev is None or before.netdev < port.netdev:
                continue
            if report.within(port.path) or report.within(before.path):
                continue
            message = "%s of %s sorts before %s of %s" % (port.netdev, port.rail, before.netdev, before.rail)
            remedy = (
                "name netdevs in the order of the rails, such as %s, and set pci; or name networks in pods" % port.rail
            )
            report.add(INJECTED, port.paths.get("netdev", port.path), message, remedy)
            break


def _blocks(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Report pod ranges from which nv-ipam cannot allocate as planned."""
    demands = demands_of(fabric, variants)
    vfs = any(variant.has_vfs for variant in variants)
    if any(facts_of(fabric.provider).refused(variant.attachment) for variant in variants):
        return
    for rail in fabric.rails:
        demand = demands[rail.name][0]
        for bits, scheme in rail.schemes.items() if rail.mode == SUBNET else ():
            path = rail.where("pods" + SUFFIX[bits])
            if scheme.pods is None or report.within(path):
                continue
            first = scheme.network.usable.first
            pods = scheme.pods.without(scheme.excluded)
            if pods is None:
                continue
            block = max(2, demand.pods_per_node or 0)
            if pods.first >= first + block or (pods.first != first and not demand.pods_per_node):
                message = "nv-ipam allocates from %s on, but pods of %s begin at %s" % (
                    show(first, bits),
                    rail.name,
                    show(pods.first, bits),
                )
                report.add(BLOCKS, path, message, "begin pods there, or use the mode prefix")
            elif demand.pods_per_node is None and not vfs and demand.nodes:
                message = (
                    "nv-ipam divides %s into blocks of pods_per_node addresses, and pods_per_node is not set"
                    % rail.name
                )
                remedy = "set pods_per_node, or use the mode prefix"
                report.add(BLOCKS, ("fabric", "pods_per_node"), message, remedy)
            elif demand.pods_per_node == 1 and pods.last - first + 1 < 2 * demand.planned_nodes:
                message = "nv-ipam's blocks have at least 2 addresses, and {} has {:,} for {}".format(
                    rail.name, pods.last - first + 1, count(demand.planned_nodes, "node")
                )
                report.add(BLOCKS, path, message, "widen the range, or use the mode prefix")
            elif demand.pods_per_node:
                _holes(rail, Range(first, first + block * demand.planned_nodes - 1, bits), pods, demand, path, report)


def _holes(rail: Rail, whole: Range, pods: Ranges, demand: Demand, where: Path, report: Report) -> None:
    """Report a node's block of ``whole`` that has fewer pod addresses than ``pods_per_node``."""
    needed, block = demand.pods_per_node or 1, max(2, demand.pods_per_node or 1)
    missing = Ranges.of(whole).without(pods.parts)
    partial = sorted(partial_blocks(whole, block, missing.parts)) if missing and demand.planned_nodes else []
    for index, _blocks, available in partial:
        if available < needed:
            first = whole.first + index * block
            message = "nv-ipam's block %s of %s has %s for pods, and pods_per_node is %d" % (
                Range(first, first + block - 1, whole.bits),
                rail.name,
                count(available, "address", "addresses"),
                needed,
            )
            remedy = (
                "move gateway and excluded addresses after the last block, lower pods_per_node, or use the mode prefix"
            )
            report.add(BLOCK_SHORT if available else BLOCKS, where, message, remedy)
            return


def _spiderpool(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Report tables, pools and RDMA modes that Spiderpool does not support."""
    if fabric.routing.mode == "source":
        for rail in fabric.rails:
            if fabric.routing.first_table + rail.number - 1 == _SPIDERPOOL_TABLE:
                path: Path = ("fabric", "routing", "first_table")
                message = "%s, rail %d, would have table %d" % (rail.name, rail.number, _SPIDERPOOL_TABLE)
                report.add(TABLE_TAKEN, path, message, "set another number, such as 101")
    for rail in fabric.rails:
        for scheme in rail.schemes.values():
            pods = scheme.pods.without(scheme.excluded) if scheme.pods and rail.mode == "subnet" else None
            if pods is None:
                continue
            pods_path = rail.where("pods" + SUFFIX[scheme.network.bits])
            ranges = len(pods.merged().parts)
            if ranges > 1 and pods.size > MOST_LISTED:
                message = "pods of %s are %d ranges of %s, and Spiderpool lists each address of several ranges" % (
                    rail.name,
                    ranges,
                    count(pods.size, "address", "addresses"),
                )
                report.add(RANGES_LARGE, pods_path, message, "write one range, or smaller ones")
            elif pods.size > _SPIDERPOOL_POOL:
                message = "pods of {} has {:,} addresses, and Spiderpool allocates {:,} of a pool".format(
                    rail.name, pods.size, _SPIDERPOOL_POOL
                )
                report.add(
                    POOL_LARGE, pods_path, message, "shorten the range, or raise the limit and suppress this finding"
                )
    modes: dict[str, Variant] = {}
    for variant in variants:
        kind = ATTACHMENTS.get(variant.attachment or "")
        if kind and (kind.master or variant.rdma_mode == EXCLUSIVE):
            modes.setdefault(variant.rdma_mode, variant)
    if SHARED in modes and EXCLUSIVE in modes:
        message = "%s is served in the mode shared, and nodes of %s are exclusive" % (
            modes[SHARED].attachment,
            modes[EXCLUSIVE].name,
        )
        remedy = "restrict its plugin to nodes in the mode shared, and suppress this finding; or use one mode"
        report.add(MIXED_MODES, modes[EXCLUSIVE].attachment_path, message, remedy)

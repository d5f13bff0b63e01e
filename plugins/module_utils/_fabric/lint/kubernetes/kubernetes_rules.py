# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY8xx: Kubernetes: attachments and modes that a provider supports, and netdevs of its networks.

The names of objects are in ``object_rules``, the limits of IPAM in ``ipam_rules``.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import LINK, NONE, PREFIX
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    Path,
    Report,
    rule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ATTACHMENTS, HOST
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
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    IPV6,
    SUFFIX,
    link_local,
    show,
)


def _fabric(more: str) -> str:
    return "fabric: {name: ai, mtu: 4200, %s}\n" % more


_MACVLAN = "attachment: macvlan, provider: spiderpool"

_NAMES = 'names: {network: "{rail}-{profile}", resource: "{rail}_{profile}"}\n'

_SIX = (
    'rails: {count: 2, name: "gpu{n:02}", subnet: "172.16.{n+10}.0/24", pods: .1-.200, hosts: .201-.253,\n'
    '  subnet6: "fd00:{n}::/64", pods6: "::1-::100", hosts6: "::1001-::10ff", gateway6: "%s"}\n'
)


_RAILS = 'rails: {count: 2, name: "gpu{n:02}", subnet: "172.16.{n+10}.0/24", %s}\n'

_NO_PODS = _RAILS % "hosts: .1-.253"


_HOST = (
    _fabric(_MACVLAN) + "rails:\n  gpu01: {subnet: 172.16.11.0/24, pods: .1-.200, hosts: .201-.253}\n"
    "  stor1: {role: storage, attachment: host, subnet: 172.16.12.0/24%s, hosts: .201-.253}\n"
    "profiles: {hgx: {ports: {gpu01: {netdev: nic1}, stor1: {netdev: nic2}}}}\n"
)


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    _attachments(fabric, variants, report)
    _modes(fabric, variants, report)
    facts = facts_of(fabric.provider)
    if not facts.kubernetes:
        _without_kubernetes(fabric, report)
        return
    _host_rails(fabric, report)
    if facts.networks:
        _masters(fabric, variants, report)
    if not facts.link_local_gateway:
        _local_router(fabric, report)
    if facts.injects and fabric.objects.get("injection", True):
        _injection_order(variants, fabric, report)


NOT_SERVED = rule(
    "RY801 provider-attachment: Attachment that the provider does not support",
    _fabric("attachment: ipvlan, provider: network-operator"),
    _fabric("attachment: ipvlan, provider: spiderpool"),
)


def _attachments(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Report attachments that the provider does not support."""
    if fabric.provider is None:
        return
    facts = facts_of(fabric.provider)
    kinds = {each.attachment: each.attachment_path for each in reversed(variants.with_unused()) if each.attachment}
    if not kinds and fabric.attachment:
        kinds = {fabric.attachment: ("fabric", "attachment")}
    for rail in fabric.rails:
        # Only processes of the node use a rail with the attachment host, beside rails for pods.
        if rail.attachment and not (rail.attachment == HOST and facts.kubernetes):
            kinds.setdefault(rail.attachment, rail.paths["attachment"])
    for attachment, path in kinds.items():
        reason = facts.refused(attachment)
        # An attachment that does not fit the link layer is reported already.
        if reason and not report.has(path):
            message = "%s does not support %s: %s" % (fabric.provider, attachment, reason)
            report.add(NOT_SERVED, path, message, "use one of %s" % ", ".join(facts.served))


WITHOUT_PODS = rule(
    "RY830 pods-without-kubernetes: Setting for pods in a fabric without Kubernetes",
    _fabric("provider: none") + _RAILS % "pods: .1-.200, hosts: .201-.253",
    _fabric("provider: none") + _NO_PODS,
    why="With provider: none, the plan contains nothing for Kubernetes, so the setting would have no effect.",
)


HOST_RAIL = rule(
    "RY846 pods-on-host-rail: Setting for pods on a rail of the node's own processes",
    _HOST % ", pods: .1-.200",
    _HOST % "",
    why="With attachment: host, no pod is attached to the rail, so the setting would have no effect.",
)


def _host_rails(fabric: Fabric, report: Report) -> None:
    """Report pod addresses of rails without pods."""
    for rail in fabric.rails if not report.within(("rails",)) else ():
        if rail.for_pods:
            continue
        found = [rail.where("pods" + SUFFIX[bits]) for bits, scheme in rail.schemes.items() if scheme.pods]
        for path in found:
            message = "%s has attachment: host, so no pod is attached to it" % rail.name
            report.add(HOST_RAIL, path, message, "remove it, or set another attachment for the rail")


WITHOUT_OPERATOR = rule(
    "RY831 driver-container-without-kubernetes: Driver container in a fabric without Kubernetes",
    _fabric("provider: none, gpudirect: {gpu_driver: container}") + _NO_PODS,
    _fabric("provider: none, gpudirect: {gpu_driver: host}") + _NO_PODS,
    why="The GPU Operator, which runs the driver in a container, needs Kubernetes.",
)


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


MODE_NOT_SERVED = rule(
    "RY802 provider-address-mode: Address mode that the provider does not support",
    _fabric("attachment: macvlan, provider: cni"),
    _fabric("attachment: macvlan, provider: cni")
    + "addresses: {mode: block, block: 16}\n"
    + 'rails: {count: 2, name: "gpu{n:02}", subnet: "172.16.{n+10}.0/24", pods: .1-.200, hosts: .201-.253}',
)


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


LINK_SHARED = rule(
    "RY812 link-without-pod-address: Link without an address for pods",
    _fabric("attachment: macvlan, provider: spiderpool")
    + "addresses: {mode: link, supernet: 172.16.0.0/12, rail_prefix: 16}\nrails: {gpu01: {}, gpu02: {}}",
    _fabric("attachment: host-device, provider: network-operator")
    + "addresses: {mode: link, supernet: 172.16.0.0/12, rail_prefix: 16}\nrails: {gpu01: {}, gpu02: {}}",
    why="A /31 has one address for the leaf and one for the port. A pod can get the address of the port together with"
    " the device: with host-device, or with one VF.",
)


LINK_TWICE = rule(
    "RY818 link-address-conflict: Same link address for a port and its VF",
    _fabric("attachment: sriov, provider: spiderpool, vfs: {count: 1}")
    + "addresses: {mode: link, supernet: 172.16.0.0/12, rail_prefix: 16}\nrails: {gpu01: {}, gpu02: {}}",
    _fabric("attachment: host-device, provider: network-operator")
    + "addresses: {mode: link, supernet: 172.16.0.0/12, rail_prefix: 16}\nrails: {gpu01: {}, gpu02: {}}",
    why="With host-device, the address moves into the pod with the port. A VF is an interface beside its port, so"
    " only one of the two can have the address. With host: none, it is the VF.",
)


def _link(fabric: Fabric, rail: Rail, variants: Variants, report: Report) -> None:
    """Report rails of mode link on which pods would need the address of the port."""
    for variant in variants:
        count = variant.pod_vfs_on(fabric, rail)
        attachment, has_vfs = variant.attachment_on(rail), variant.has_vfs_on(rail)
        if has_vfs and count and count.value == 1:
            if all(scheme.host != NONE for scheme in rail.schemes.values()):
                message = "the port of %s and its VF would have the same address" % rail.name
                remedy = "set host: none, which leaves it to the pod; or use host-device, or the mode prefix"
                report.add(LINK_TWICE, rail.where("mode"), message, remedy)
            continue
        if attachment in (None, "host-device", HOST) or (has_vfs and not count):
            continue
        users = "%d VFs" % count.value if has_vfs and count else str(attachment)
        message = "a link of %s has one address, which the port needs, and %s needs one for each pod" % (
            rail.name,
            users,
        )
        remedy = "use the attachment host-device, or sriov with one VF; or the mode prefix"
        report.add(LINK_SHARED, rail.where("mode"), message, remedy)


def _has_master(variant: Variant, rail: Rail) -> bool:
    """Return whether interfaces of pods on a rail are created on a netdev that objects name."""
    kind = ATTACHMENTS.get(variant.attachment_on(rail) or "")
    return bool(kind and kind.master)


def _masters(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Check that each network has one netdev name on all of its nodes."""
    naming = Naming(fabric.name, fabric.provider, fabric.names)
    owners: dict[str, tuple[str, str]] = {}
    resources: dict[str, tuple[str, str]] = {}
    for variant in variants:
        names = {
            rail.name: naming.name("network", naming.values(rail, variant.attachment_on(rail) or "", variant.name))
            for rail in fabric.rails
            if _has_master(variant, rail)
        }
        if not names or _unread(variant, report):
            continue
        profile_checked = False
        for node in variants.nodes_of(variant):
            if node.ports or not profile_checked:
                profile_checked = profile_checked or not node.ports
                ports = ports_of(node, variant)
                _master(node, names, ports, owners, report)
                if facts_of(fabric.provider).shared_netdevs:
                    _one_resource(node, names, ports, resources, report)


LOCAL_ROUTER = rule(
    "RY819 link-local-gateway: Link-local gateway that the provider does not accept",
    _fabric(_MACVLAN) + _SIX % "fe80::1",
    _fabric(_MACVLAN) + _SIX % "::fffe",
    why="The webhooks of Spiderpool and nv-ipam require a pool's gateway in its subnet. Ports accept a link-local"
    " one, and so do pods with plain CNI, whose routes name the interface.",
)


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


NO_MASTER = rule(
    "RY808 network-without-netdev: Port without a netdev name that its network needs",
    example_file.PORTS.replace("netdev: enp11s0f0np0, ", ""),
    example_file.PORTS,
    why="The network object contains the name of the netdev (master). With pci, the port gets that name.",
)


MASTERS = rule(
    "RY809 network-netdev-mismatch: One network on netdevs with different names",
    example_file.PORTS + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: hgx, ports: {gpu01: {netdev: nic7}}}\n",
    example_file.PORTS
    + 'nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: hgx, ports: {gpu01: {pci: "0000:0f:00.0"}}}\n',
    why="A network object has one master, and a node without a netdev of that name cannot start its pods. Ports that"
    " are identified by pci, slot, serial or mac get the name in netdev, so all nodes can use the same name.",
)


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
        interface = port.interface
        if interface is None:
            message = "the network %s needs the name of a netdev, and the port of %s has none" % (network, rail)
            remedy = "add netdev: a port with another name is renamed"
            report.add(NO_MASTER, port.paths.get("netdev", port.path), message, remedy)
            continue
        master, first = owners.setdefault(network, (interface, node.name))
        if master != interface:
            message = "the network %s needs %s here, but %s on %s" % (network, interface, master, first)
            remedy = "set the same netdev for all, with pci to identify the port; or use {profile} in names.network"
            report.add(MASTERS, port.paths.get("netdev", port.path), message, remedy)


NETDEV_RAILS = rule(
    "RY816 netdev-on-two-rails: Netdev on different rails of different nodes",
    _fabric(_MACVLAN)
    + _NAMES
    + "\n"
    + example_file.PORTS
    + "  dgx: {ports: {gpu01: {netdev: enp12s0f0np0}, gpu02: {netdev: enp14s0f0np0}}}\n"
    + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: dgx}\n",
    _fabric(_MACVLAN)
    + _NAMES
    + "\n"
    + example_file.PORTS
    + "  dgx: {ports: {gpu01: {netdev: enp13s0f0np0}, gpu02: {netdev: enp14s0f0np0}}}\n"
    + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: dgx}\n",
    why="k8s-rdma-shared-dev-plugin has one list of netdevs for each resource in the whole cluster, so the device would"
    " be allocated for both rails.",
)


def _one_resource(
    node: Node,
    networks: t.Mapping[str, str],
    ports: t.Mapping[str, Port],
    owners: dict[str, tuple[str, str]],
    report: Report,
) -> None:
    """Report netdevs that serve different rails on different nodes. A netdev with VLANs serves several rails."""
    served: dict[str, list[str]] = {}
    for rail, port in ports.items():
        if rail not in networks or report.within(port.path):
            continue
        for function in port.functions:
            if function.netdev is not None:
                served.setdefault(function.netdev, []).append(rail)
    for netdev, rails in served.items():
        text = " and ".join(rails)
        other, first = owners.setdefault(netdev, (text, node.name))
        if other != text:
            port = ports[rails[0]]
            message = "%s serves %s here, and %s on %s" % (netdev, text, other, first)
            remedy = "give each rail's port the same netdev on all nodes, with pci to identify it"
            report.add(NETDEV_RAILS, port.paths.get("netdev", port.path), message, remedy)


INJECTED = rule(
    "RY817 netdev-order: Netdev names that do not sort in the order of the rails",
    "profiles:\n  hgx:\n    ports:\n      gpu01: {netdev: nic9}\n      gpu02: {netdev: nic10}\n",
    "profiles:\n  hgx:\n    ports:\n      gpu01: {netdev: nic09}\n      gpu02: {netdev: nic10}\n",
    WARNING,
    why="When Spiderpool injects networks, it sorts them by the names of their masters, so net1 of a pod is not rail 1."
    " Pods that name their networks in the annotation are not affected.",
)


def _injection_order(variants: Variants, fabric: Fabric, report: Report) -> None:
    """Report netdevs that do not sort as their rails, because injected interfaces follow the order of netdevs."""
    for variant in variants:
        ports = [
            variant.ports[rail.name]
            for rail in fabric.rails
            if rail.name in variant.ports and _has_master(variant, rail)
        ]
        for before, port in zip(ports, ports[1:]):
            if before.interface is None or port.interface is None or before.interface < port.interface:
                continue
            if report.within(port.path) or report.within(before.path):
                continue
            message = "%s of %s sorts before %s of %s" % (port.interface, port.rail, before.interface, before.rail)
            names = "%s and %s" % (before.rail, port.rail)
            remedy = "name netdevs in the order of the rails, such as %s, and set pci; or name networks in pods" % names
            report.add(INJECTED, port.paths.get("netdev", port.path), message, remedy)
            break

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY8xx: Kubernetes: what each provider serves, and the names of its objects."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.addressing import LINK, NONE
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.attachments import (
    ATTACHMENTS,
    EXCLUSIVE,
    OPERATOR,
    SHARED,
    SPIDERPOOL,
    mode_refused,
    refused,
    served_by,
)
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.finding import WARNING, Path, Report, Rule, rule
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.model import Fabric, Node, Port, Rail
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.naming import SHAPES, Naming
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.variants import Variant, Variants, ports_of

_PORTS = """
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0"}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}
"""


def _fabric(more: str) -> str:
    return "fabric: {name: ai, mtu: 4200, %s}\n" % more


def _names(more: str) -> str:
    return "names: {%s}\n" % more


_MACVLAN = "attachment: macvlan, provider: spiderpool"
_SRIOV = "provider: network-operator, attachment: sriov, vfs: {count: 4}"

NOT_SERVED = rule(
    "RY801",
    "The provider does not serve the attachment",
    _fabric("attachment: ipvlan, provider: network-operator"),
    _fabric("attachment: ipvlan, provider: spiderpool"),
)
MODE_NOT_SERVED = rule(
    "RY802",
    "The provider cannot give pods their addresses in the rail's mode",
    _fabric("attachment: macvlan, provider: cni"),
    _fabric("attachment: macvlan, provider: cni")
    + "addresses: {mode: block, block: 16}\n"
    + 'rails: {count: 2, name: "gpu{n:02}", subnet: "172.16.{n+10}.0/24", pods: .1-.200, hosts: .201-.253}',
)
RESOURCE = rule(
    "RY803",
    "A resource's name is not safe for every device plugin",
    _names('resource: "{rail}-rdma"'),
    _names('resource: "{rail}_rdma"'),
    why="A hyphen or a dot in one name ends k8s-rdma-shared-dev-plugin for all resources of a node, and the SR-IOV"
    " operator up to 1.6 refuses it.",
)
NETWORK = rule(
    "RY804",
    "A network's name is not safe in a pod's annotation",
    _names('network: "{rail}.{attachment}"'),
    _names('network: "{rail}-{attachment}"'),
    why="Pods name their networks in k8s.v1.cni.cncf.io/networks, whose parser takes lower-case letters, digits and"
    " hyphens alone.",
)
OBJECT = rule(
    "RY805",
    "The name of a pool, policy, namespace or resource prefix is none that Kubernetes takes",
    _names('pool: "{fabric}_{rail}"'),
    _names('pool: "{fabric}-{rail}"'),
)
INTERFACE = rule(
    "RY806",
    "A pod's interface has a name that the kernel does not take, or that is taken",
    _names('interface: "accelerator-net{n}"'),
    _names('interface: "rdma{n}"'),
)
SAME_NAME = rule(
    "RY807",
    "Two objects would have one name",
    _names('network: "{attachment}"'),
    _names('network: "{rail}-{attachment}"'),
)
NO_MASTER = rule(
    "RY808",
    "The attachment is made on a netdev, and a port has no name for it",
    _PORTS.replace("netdev: enp11s0f0np0, ", ""),
    _PORTS,
    why="The network's object names the netdev (master). With pci besides, the port is given that name on the node.",
)
MASTERS = rule(
    "RY809",
    "One network would be made on differently named netdevs",
    _PORTS + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: hgx, ports: {gpu01: {netdev: eth7}}}\n",
    _PORTS + 'nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: hgx, ports: {gpu01: {pci: "0000:0f:00.0"}}}\n',
    why="A network's object has one master, and a node without a netdev of that name cannot start its pods. Ports that"
    " are known by pci, slot, serial or mac get the name that netdev says, so all nodes can have one name.",
)
TABLE_TAKEN = rule(
    "RY810",
    "A rail's routing table is Spiderpool's own",
    _fabric(_MACVLAN + ", routing: {first_table: 499}"),
    _fabric(_MACVLAN + ", routing: {first_table: 101}"),
    WARNING,
    why="Spiderpool keeps the routes to a node's pods in table 500 (hostRuleTable), which a rule before all others"
    " looks up.",
)
POOL_LARGE = rule(
    "RY811",
    "A pool has more addresses than Spiderpool gives out of one",
    'rails: {count: 2, name: "gpu{n:02}", subnet: "172.{n+16}.0.0/16", pods: .0.1-.99.255, hosts: .200.1-.201.255}',
    'rails: {count: 2, name: "gpu{n:02}", subnet: "172.{n+16}.0.0/16", pods: .0.1-.15.255, hosts: .200.1-.201.255}',
    WARNING,
    why="Its SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS is 5000 until it is raised.",
)
LINK_SHARED = rule(
    "RY812",
    "A link has one address, and the attachment needs more",
    _fabric("attachment: macvlan, provider: spiderpool")
    + "addresses: {mode: link, supernet: 172.16.0.0/12, rail_prefix: 16}\nrails: {gpu01: {}, gpu02: {}}",
    _fabric("attachment: host-device, provider: network-operator")
    + "addresses: {mode: link, supernet: 172.16.0.0/12, rail_prefix: 16}\nrails: {gpu01: {}, gpu02: {}}",
    why="Of a /31 one address is the leaf's and one the port's. A pod can have the port's with the device itself:"
    " host-device, or one VF.",
)
MIXED_MODES = rule(
    "RY813",
    "Spiderpool's device plugin runs on all nodes, and some are in the rdma mode exclusive",
    _fabric(_MACVLAN)
    + _PORTS
    + "  dgx:\n    attachment: sriov\n    vfs: {count: 4}\n"
    + "    ports: {gpu01: {netdev: eth1}, gpu02: {netdev: eth2}}\n"
    + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: dgx}\n",
    _fabric(_MACVLAN) + _PORTS,
    WARNING,
    why="The chart has no node selector for k8s-rdma-shared-dev-plugin, which ends where the mode is exclusive.",
)
POOL_OF_ALL = rule(
    "RY814",
    "A pool that each node needs for itself has a name for all of them",
    _fabric(_MACVLAN)
    + "addresses: {mode: prefix, node_prefix: 27, supernet: 172.16.0.0/12, rail_prefix: 16}\n"
    + "rails: {gpu01: {}, gpu02: {}}\n"
    + _names('pool: "{fabric}-{rail}"'),
    _fabric(_MACVLAN)
    + "addresses: {mode: prefix, node_prefix: 27, supernet: 172.16.0.0/12, rail_prefix: 16}\n"
    + "rails: {gpu01: {}, gpu02: {}}\n"
    + _names('pool: "{fabric}-{rail}-{node}"'),
)

_SPIDERPOOL_TABLE = 500
_SPIDERPOOL_POOL = 5000
_RULES: dict[str, Rule] = {"resource": RESOURCE, "network": NETWORK, "interface": INTERFACE}


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    _served(fabric, variants, report)
    _modes(fabric, variants, report)
    if fabric.name and not report.within(("rails",)) and not report.has(("fabric", "name")):
        _names_of(fabric, variants, report)
    _masters(fabric, variants, report)
    if fabric.provider == SPIDERPOOL:
        _spiderpool(fabric, variants, report)


def _served(fabric: Fabric, variants: Variants, report: Report) -> None:
    if fabric.provider is None:
        return
    kinds = {each.attachment: each.attachment_path for each in reversed(variants.with_unused()) if each.attachment}
    if not kinds and fabric.attachment:
        kinds = {fabric.attachment: ("fabric", "attachment")}
    for attachment, path in kinds.items():
        why = refused(fabric.provider, attachment or "")
        # Where the attachment is wrong for the link layer, another will stand here anyway.
        if why and not report.has(path):
            message = "%s does not serve %s: %s" % (fabric.provider, attachment, why)
            report.add(NOT_SERVED, path, message, "take one of %s" % ", ".join(served_by(fabric.provider)))


def _modes(fabric: Fabric, variants: Variants, report: Report) -> None:
    unserved: dict[str, list[Rail]] = {}
    for rail in fabric.rails:
        if rail.mode in (None, NONE) or fabric.provider is None:
            continue
        pods = rail.mode != "subnet" or any(scheme.pods for scheme in rail.schemes.values())
        if mode_refused(fabric.provider, rail.mode or "") and pods:
            unserved.setdefault(rail.mode or "", []).append(rail)
        if rail.mode == LINK:
            _link(fabric, rail, variants, report)
    for mode, rails in unserved.items():
        paths = {rail.paths.get("mode", rail.where("pods")) for rail in rails}
        path: Path = paths.pop() if len(paths) == 1 else ("fabric", "provider")
        why = mode_refused(fabric.provider or "", mode)
        message = "%s cannot give pods addresses in the mode %s, as on %s: %s" % (
            fabric.provider,
            mode,
            rails[0].name,
            why,
        )
        fits = [each for each in ("subnet", "block", "prefix") if not mode_refused(fabric.provider or "", each)]
        report.add(MODE_NOT_SERVED, path, message, "take the mode %s" % " or ".join(fits))


def _link(fabric: Fabric, rail: Rail, variants: Variants, report: Report) -> None:
    for variant in variants:
        count = variant.vfs_on(fabric, rail).get("count")
        if variant.attachment in (None, "host-device") or (variant.has_vfs and (not count or count.value == 1)):
            continue
        what = "%d VFs" % count.value if variant.has_vfs and count else str(variant.attachment)
        message = "a link of %s has one address for the port, and %s needs one for each pod" % (rail.name, what)
        remedy = "take the attachment host-device, or sriov with one VF; or the mode prefix"
        report.add(LINK_SHARED, rail.where("mode"), message, remedy)


def _names_of(fabric: Fabric, variants: Variants, report: Report) -> None:
    naming = Naming(fabric.name, fabric.provider, fabric.names)
    for kind in ("resource_prefix", "namespace"):
        _shape(fabric, kind, naming.common(kind), report)
    owners: dict[tuple[str, str], tuple[t.Any, ...]] = {}
    for rail in fabric.rails:
        own = rail.mode not in (None, NONE, "subnet") and fabric.provider != OPERATOR
        for variant in variants:
            if rail.name not in variant.ports or not variant.attachment:
                continue
            values = naming.values(rail, variant.attachment, variant.name)
            wide = (rail.name, variant.attachment)
            named: list[tuple[str, tuple[t.Any, ...]]] = [("resource", wide), ("network", wide)]
            named.append(("interface", (rail.name,)))
            if variant.has_vfs:
                named.append(("policy", wide + (variant.name,)))
            for kind, owner in named:
                _one(fabric, naming, kind, values, owner, owners, report)
            if rail.mode in (None, NONE):
                continue
            if own:
                _pools(fabric, naming, rail, variants.nodes_of(variant), values, owners, report)
            else:
                more = dict(values, node="", i=0)
                _one(fabric, naming, "pool", more, (rail.name,), owners, report, rail.mode)


def _one(
    fabric: Fabric,
    naming: Naming,
    kind: str,
    values: t.Mapping[str, t.Any],
    owner: tuple[t.Any, ...],
    owners: dict[tuple[str, str], tuple[t.Any, ...]],
    report: Report,
    mode: str | None = None,
) -> bool:
    name = naming.name(kind, values, mode)
    if not _shape(fabric, kind, name, report):
        return False
    first = owners.setdefault((kind, name), owner)
    if first == owner:
        return True
    # A profile in the template makes several of one, which is as good; one of several is not.
    message = "%s would be the %s of %s and of %s" % (name, kind, _shown(first), _shown(owner))
    remedy = "tell them apart, by {rail} and {attachment}" if kind != "interface" else "tell rails apart, by {k}"
    if kind == "policy":
        remedy = "tell them apart, by {rail} and {profile}"
    report.add(SAME_NAME, fabric.names_path + (kind,), message, remedy)
    return False


def _shown(owner: t.Sequence[t.Any]) -> str:
    return " ".join(str(each) for each in owner)


def _pools(
    fabric: Fabric,
    naming: Naming,
    rail: Rail,
    nodes: t.Sequence[Node],
    values: t.Mapping[str, t.Any],
    owners: dict[tuple[str, str], tuple[t.Any, ...]],
    report: Report,
) -> None:
    form = naming.template("pool", rail.mode)
    if not form.fields & {"node", "i"}:
        message = "in the mode %s each node has a pool of its own on %s" % (rail.mode, rail.name)
        report.add(POOL_OF_ALL, fabric.names_path + ("pool",), message, "put {node} into the name")
        return
    # The template's own words are the same for all: a pool's name is safe when the longest node's is, and as
    # nodes' names differ, so do their pools' but for templates that end in numbers.
    if "node" in form.fields and rail.number == 1:
        longest = max(nodes, key=lambda node: len(node.name), default=None)
        if longest is not None:
            _shape(fabric, "pool", form.fill(dict(values, node=longest.name, i=longest.index or 0)), report)
    probe = dict(values, node="*", i=-1)
    if not _rails_apart(fabric, form.fill(probe), rail, owners, report):
        return


def _rails_apart(
    fabric: Fabric, name: str, rail: Rail, owners: dict[tuple[str, str], tuple[t.Any, ...]], report: Report
) -> bool:
    first = owners.setdefault(("pool", name), (rail.name,))
    if first == (rail.name,):
        return True
    message = "the pools of %s and of %s would have one name on every node" % (_shown(first), rail.name)
    report.add(SAME_NAME, fabric.names_path + ("pool",), message, "tell rails apart, by {rail}")
    return False


def _shape(fabric: Fabric, kind: str, name: str, report: Report) -> bool:
    pattern, words = SHAPES[kind]
    if pattern.match(name):
        return True
    what = kind.replace("_", " ")
    message = "%s, %d characters, is no name for a %s" % (name, len(name), what)
    report.add(_RULES.get(kind, OBJECT), fabric.names_path + (kind,), message, "use %s" % words)
    return False


def _masters(fabric: Fabric, variants: Variants, report: Report) -> None:
    """That each network is made on one netdev, by a name that all of its nodes have."""
    naming = Naming(fabric.name, fabric.provider, fabric.names)
    owners: dict[str, tuple[str, str]] = {}
    for variant in variants:
        kind = ATTACHMENTS.get(variant.attachment or "")
        if not kind or not kind.master or _unread(variant, report):
            continue
        plain = False
        names = {
            rail.name: naming.name("network", naming.values(rail, kind.name, variant.name)) for rail in fabric.rails
        }
        for node in variants.nodes_of(variant):
            if node.ports or not plain:
                plain = plain or not node.ports
                _master(node, names, ports_of(node, variant), owners, report)


def _unread(variant: Variant, report: Report) -> bool:
    """Whether a profile's ports could not be read, or may stand under a misspelt key."""
    path = variant.profile.path
    return report.has(path) or report.has(path + ("ports",)) or (not variant.profile.ports and report.within(path))


def _master(
    node: Node,
    networks: t.Mapping[str, str],
    ports: t.Mapping[str, Port],
    owners: dict[str, tuple[str, str]],
    report: Report,
) -> None:
    for rail, port in ports.items():
        network = networks.get(rail)
        if network is None or report.within(port.path) or report.has(("names", "network")):
            continue
        path: Path = port.paths.get("netdev", port.path)
        if port.netdev is None:
            message = "the network %s is made on a netdev by its name, and the port of %s has none" % (network, rail)
            report.add(NO_MASTER, path, message, "add netdev: the port gets that name where it has another")
            continue
        master, first = owners.setdefault(network, (port.netdev, node.name))
        if master != port.netdev:
            message = "the network %s would be made on %s, and on %s it is %s" % (network, port.netdev, first, master)
            remedy = "write one netdev for all, with pci beside it; or put {profile} into names.network"
            report.add(MASTERS, path, message, remedy)


def _spiderpool(fabric: Fabric, variants: Variants, report: Report) -> None:
    if fabric.routing.mode == "source":
        for rail in fabric.rails:
            if fabric.routing.first_table + rail.number - 1 == _SPIDERPOOL_TABLE:
                path: Path = ("fabric", "routing", "first_table")
                message = "%s, rail %d, would have table %d" % (rail.name, rail.number, _SPIDERPOOL_TABLE)
                report.add(TABLE_TAKEN, path, message, "begin elsewhere, such as at 101")
    for rail in fabric.rails:
        for scheme in rail.schemes.values():
            if rail.mode == "subnet" and scheme.pods and scheme.pods.size > _SPIDERPOOL_POOL:
                where = rail.where("pods" if scheme.network.bits == 32 else "pods6")
                message = "pods of %s has %d addresses, and Spiderpool gives %d out of a pool" % (
                    rail.name,
                    scheme.pods.size,
                    _SPIDERPOOL_POOL,
                )
                report.add(POOL_LARGE, where, message, "shorten the range, or raise the limit and let this stand")
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
        remedy = "keep its plugin to the nodes in the mode shared by a label, and let this stand; or take one mode"
        report.add(MIXED_MODES, modes[EXCLUSIVE].attachment_path, message, remedy)

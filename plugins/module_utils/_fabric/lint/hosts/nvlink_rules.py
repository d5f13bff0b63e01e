# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY62x: NVLink domains, and the IMEX daemons of their nodes."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    NOTE,
    WARNING,
    Path,
    Report,
    rule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import host_model, nvlink_model
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Node
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import first_of

_SHOWN = 3
_NODES = 'nodes:\n  ai-[1:2]: {profile: hgx, address: "10.1.16.[1:2]"%s}\n'
_DOMAIN = ", nvlink_domain: r1"
_HOST = "fabric: {name: ai, attachment: host, provider: none, mtu: 4200, imex: {daemon: host}}\n"
_PODS = "fabric: {name: ai, attachment: macvlan, provider: spiderpool, mtu: 4200, imex: {daemon: %s}%s}\n"
_RAILS = (
    "rails:\n  gpu01: {subnet: 172.16.11.0/24, hosts: .201-.253}\n  gpu02: {subnet: 172.16.12.0/24, hosts: .201-.253}\n"
)


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    domains = nvlink_model.domains(fabric)
    if domains:
        _several(fabric, report)
    for name, nodes in domains.items():
        models = {id(node): variants.of(node) for node in nodes}
        _size(name, nodes, models, report)
        _models(name, nodes, report)
        _places(name, nodes, report)
        _daemons(fabric, name, nodes, models, report)
    _imex(fabric, variants, domains, report)


def _path(node: Node) -> Path:
    """Return the place of the key at a node, or the place of the node if its group or unit has the key."""
    return node.path + ("nvlink_domain",) if node.nvlink_domain else node.path


TWO_DOMAINS = rule(
    "RY622 several-nvlink-domains: Node in several NVLink domains",
    "groups:\n  front: {nvlink_domain: r1}\n  back: {nvlink_domain: r2}\n"
    "nodes:\n  ai-[1:2]: {profile: hgx, groups: [front, back]}\n",
    "groups:\n  front: {nvlink_domain: r1}\n  back: {}\nnodes:\n  ai-[1:2]: {profile: hgx, groups: [front, back]}\n",
)


def _several(fabric: Fabric, report: Report) -> None:
    reported: set[Path] = set()
    for node in fabric.nodes:
        names = nvlink_model.candidates(fabric, node)
        if len(names) > 1 and node.path not in reported:
            reported.add(node.path)
            message = "%s gets the NVLink domains %s from its groups and unit" % (node.name, " and ".join(names))
            report.add(TWO_DOMAINS, node.path, message, "set nvlink_domain at one of them, or at the node")


TOO_LARGE = rule(
    "RY620 nvlink-domain-size: NVLink domain that is larger than a rack",
    "nodes:\n  ai-[01:19]: {profile: hgx, nvlink_domain: r1}\n",
    "nodes:\n  ai-[01:18]: {profile: hgx, nvlink_domain: r1}\n",
    WARNING,
    why="The largest published domain, NVL72, has 18 compute trays with 4 GPUs each (NVIDIA GB200 NVL72, GB300 NVL72).",
)

ONE_NODE = rule(
    "RY621 nvlink-domain-of-one-node: NVLink domain with one node",
    "nodes:\n  ai-1: {profile: hgx, nvlink_domain: r1}\n  ai-2: {profile: hgx}\n",
    "nodes:\n  ai-[1:2]: {profile: hgx, nvlink_domain: r1}\n",
    WARNING,
)


def _size(name: str, nodes: t.Sequence[Node], models: t.Mapping[int, Variant | None], report: Report) -> None:
    gpus = sum(_gpus(models[id(node)]) for node in nodes)
    if len(nodes) > nvlink_model.MAX_NODES or gpus > nvlink_model.MAX_GPUS:
        message = "the NVLink domain %s has %d nodes with %d GPUs; NVL72 has %d nodes with %d GPUs" % (
            *(name, len(nodes), gpus),
            *(nvlink_model.MAX_NODES, nvlink_model.MAX_GPUS),
        )
        report.add(TOO_LARGE, _path(nodes[0]), message, "name a domain for each rack, or suppress this finding")
    elif len(nodes) == 1:
        message = "%s is the only node of the NVLink domain %s" % (nodes[0].name, name)
        report.add(ONE_NODE, _path(nodes[0]), message, "add the other nodes of the rack, or remove nvlink_domain")


def _gpus(variant: Variant | None) -> int:
    """Return the number of GPUs of a node; 0 if its profile lists none."""
    if variant is None:
        return 0
    if variant.profile.gpus is not None:
        return len(variant.profile.gpus)
    return len({gpu for port in variant.ports.values() for gpu in port.gpus})


MIXED = rule(
    "RY623 mixed-nvlink-domain: Nodes of one NVLink domain with different profiles or IMEX daemons",
    """
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0, gpu: 0}
      gpu02: {netdev: enp12s0f0np0, gpu: 1}
  dgx:
    ports:
      gpu01: {netdev: enp11s0f0np0, gpu: 0}
      gpu02: {netdev: enp12s0f0np0, gpu: 1}
nodes:
  ai-1: {profile: hgx, nvlink_domain: r1}
  ai-2: {profile: dgx, nvlink_domain: r1}
""",
    _NODES % _DOMAIN,
    WARNING,
    why="The compute trays of a rack are equal, and IMEX expects its daemon on all nodes of its list.",
)


def _models(name: str, nodes: t.Sequence[Node], report: Report) -> None:
    profiles = list(dict.fromkeys(str(node.profile) for node in nodes))
    if len(profiles) > 1:
        other = next(node for node in nodes if node.profile != nodes[0].profile)
        message = "the nodes of the NVLink domain %s have the profiles %s" % (name, first_of(profiles, _SHOWN))
        report.add(MIXED, _path(other), message, "correct nvlink_domain or profile of the nodes")


SPLIT = rule(
    "RY624 divided-nvlink-domain: NVLink domain in several units or racks",
    'nodes:\n  ai-[1:2]: {profile: hgx, nvlink_domain: r1, rack: "a[1:2]"}\n',
    "nodes:\n  ai-[1:2]: {profile: hgx, nvlink_domain: r1, rack: a1}\n",
    NOTE,
    why="The NVLink cables of a domain do not leave the rack (NVL72). NVL36x2 joins two racks.",
)


def _places(name: str, nodes: t.Sequence[Node], report: Report) -> None:
    for what in ("unit", "rack"):
        places = list(dict.fromkeys(getattr(node, what) for node in nodes))
        if len(places) > 1:
            texts = [str(place) if place else "none" for place in places]
            found = first_of(texts, _SHOWN)
            message = "the nodes of the NVLink domain %s belong to several %ss: %s" % (name, what, found)
            remedy = "compare nvlink_domain and %s of its nodes with the racks" % what
            report.add(SPLIT, _path(nodes[0]), message, remedy)
            return


NO_DOMAIN = rule(
    "RY625 imex-without-domain: IMEX daemon of a node without an NVLink domain",
    _HOST + _RAILS + _NODES % "",
    _HOST + _RAILS + _NODES % _DOMAIN,
)

NO_ADDRESS = rule(
    "RY626 imex-without-address: Node without an IP address for the nodes file of IMEX",
    _HOST + _RAILS + "nodes:\n  ai-[1:2]: {profile: hgx, nvlink_domain: r1}\n",
    _HOST + _RAILS + _NODES % _DOMAIN,
    why="The nodes file of IMEX contains an IP address of each node, in the same order on all nodes.",
)

IMEX_DRIVER = rule(
    "RY627 imex-without-host-driver: IMEX daemon on the host, and the GPU driver in a container",
    _PODS % ("host", ", gpudirect: {gpu_driver: container}") + _NODES % _DOMAIN,
    _PODS % ("compute-domain", ", gpudirect: {gpu_driver: container}") + _NODES % _DOMAIN,
    why="The packages of nvidia-imex and the GPU driver of a host have the same release. Without a GPU driver on the"
    " host, the DRA driver of NVIDIA runs IMEX.",
)

IMEX_KUBERNETES = rule(
    "RY628 imex-of-host-in-kubernetes: IMEX daemon on the host of Kubernetes nodes",
    _PODS % ("host", "") + _NODES % _DOMAIN,
    _PODS % ("compute-domain", "") + _NODES % _DOMAIN,
    WARNING,
    why="The GPU driver has one IMEX session. If the service nvidia-imex of the host has it, pods of ComputeDomains"
    " never start (NVIDIA/aicr pull request 2520), unless the DRA driver has its feature HostManagedIMEX enabled"
    " (kubernetes-sigs/dra-driver-nvidia-gpu pull request 1236).",
)


def _imex(fabric: Fabric, variants: Variants, domains: t.Mapping[str, t.Sequence[Node]], report: Report) -> None:
    in_domain = {id(node) for nodes in domains.values() for node in nodes}
    warned = False
    for variant in variants:
        daemon = nvlink_model.imex_daemon(fabric, variant)
        # the service of a node without a domain can stay as it is, but a file without domains sets nothing
        if daemon is None or (daemon != nvlink_model.HOST and domains):
            continue
        setting = variant.host[host_model.IMEX].get("daemon")
        if setting and setting.value is None:
            continue
        nodes = variants.nodes_of(variant)
        outside = [node for node in nodes if id(node) not in in_domain]
        if outside:
            names = first_of([node.name for node in outside], _SHOWN)
            message = "imex.daemon is %s, and nvlink_domain is missing on %s" % (daemon, names)
            remedy = "set nvlink_domain, or set imex only for groups or profiles whose nodes have one"
            report.add(NO_DOMAIN, outside[0].path, message, remedy)
        if daemon != nvlink_model.HOST:
            continue
        unknown = [n for n in nodes if id(n) in in_domain and not (n.address and nvlink_model.is_ip(n.address))]
        if unknown:
            names = first_of([node.name for node in unknown], _SHOWN)
            message = "IMEX needs an IP address of each node, which is missing on %s" % names
            report.add(NO_ADDRESS, unknown[0].path, message, "set address to the management address of the node")
        path = setting.path if setting else variant.path
        if host_model.value(variant.host, host_model.GPUDIRECT, "gpu_driver") == host_model.CONTAINER:
            message = "imex.daemon is host, and gpudirect.gpu_driver is container"
            report.add(IMEX_DRIVER, path, message, "set imex.daemon to compute-domain, or gpu_driver to host")
        elif facts_of(fabric.provider).kubernetes and not warned:
            warned = True
            message = "imex.daemon is host, and the nodes belong to a Kubernetes cluster"
            remedy = "set imex.daemon to compute-domain, or suppress this finding if the DRA driver has HostManagedIMEX"
            report.add(IMEX_KUBERNETES, path, message, remedy)


def _daemons(
    fabric: Fabric, name: str, nodes: t.Sequence[Node], models: t.Mapping[int, Variant | None], report: Report
) -> None:
    kinds: dict[str, Node] = {}
    for node in nodes:
        variant = models[id(node)]
        if variant:
            kinds.setdefault(nvlink_model.imex_daemon(fabric, variant) or "not managed", node)
    if len(kinds) > 1 and nvlink_model.HOST in kinds:
        texts = ["%s on %s" % (kind, node.name) for kind, node in kinds.items()]
        message = "the IMEX daemons of the NVLink domain %s differ: %s" % (name, first_of(texts, _SHOWN))
        node = list(kinds.values())[1]
        report.add(MIXED, node.path, message, "set the same imex.daemon for all nodes of the domain")

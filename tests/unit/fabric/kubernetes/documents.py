# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small plan documents in the shape of ``Plan.document()``, one for each provider, attachment and address mode."""

from __future__ import annotations

import ipaddress
import typing as t

Document = t.Dict[str, t.Any]

# What objects of a plan without an operator's defaults must set.
REGISTRY: dict[str, t.Any] = {"registry": "registry.example"}

ATTACHMENTS = {
    "spiderpool": ("macvlan", "ipvlan", "sriov", "ib-sriov", "ipoib"),
    "network-operator": ("macvlan", "host-device", "ipoib", "sriov", "ib-sriov"),
    "cni": ("macvlan", "ipvlan", "host-device", "sriov"),
}
# What each provider can serve: `cni` has no manager of a range for all nodes, nv-ipam gives blocks as it likes.
MODES = {
    "spiderpool": ("subnet", "block", "prefix", "link", "none"),
    "network-operator": ("subnet", "prefix", "link", "none"),
    "cni": ("block", "prefix", "link"),
}
EXCLUSIVE = ("sriov", "ib-sriov", "host-device")
PREFIXES = {"spiderpool": "spidernet.io", "network-operator": "nvidia.com", "cni": "rdma"}


def combinations() -> list[tuple[str, str, str]]:
    return [
        (provider, attachment, mode)
        for provider, attachments in ATTACHMENTS.items()
        for attachment in attachments
        for mode in MODES[provider]
        if mode != "link" or attachment in EXCLUSIVE
        if mode != "none" or attachment == "ib-sriov"
    ]


def document(
    provider: str = "spiderpool",
    attachment: str = "macvlan",
    mode: str = "subnet",
    nodes: int = 2,
    rails: int = 2,
    families: t.Sequence[int] = (4,),
    vfs: int | None = None,
    cross_rail: bool = True,
    routing: str = "source",
    profile_of: t.Callable[[int], str] = lambda index: "hgx",
    netdev_of: t.Callable[[str, int], str | None] = lambda profile, rail: "enp%ds0np0" % (10 + rail),
    taken: t.Mapping[str, str] | None = None,
) -> Document:
    exclusive = attachment in EXCLUSIVE
    if vfs is None:
        vfs = (1 if mode == "link" else 8) if attachment in ("sriov", "ib-sriov") else 0
    rail_list = [_rail(number, mode, attachment, families, provider, taken) for number in range(1, rails + 1)]
    node_list = []
    for index in range(1, nodes + 1):
        profile = profile_of(index)
        name = "%s-%04d" % (profile, index)
        node_list.append(
            {
                "name": name,
                "index": index,
                "unit": None,
                "place": index,
                "rack": None,
                "site": None,
                "profile": profile,
                "attachment": attachment,
                "rdma_mode": "exclusive" if exclusive else "shared",
                "groups": [],
                "gpus": {str(gpu): None for gpu in range(rails)},
                "other_ports": [],
                "ports": [
                    _port(rail, name, index, profile, mode, attachment, families, vfs, netdev_of, routing, cross_rail)
                    for rail in rail_list
                ],
            }
        )
    return {
        "format": 1,
        "fabric": {
            "name": "ai",
            "attachment": attachment,
            "attachments": [attachment],
            "provider": provider,
            "rdma_mode": "exclusive" if exclusive else "shared",
            "link_layer": "infiniband" if attachment in ("ib-sriov", "ipoib") else "ethernet",
            "mtu": 4200,
            "reserved": {},
            "rails": [rail["name"] for rail in rail_list],
            "max_nodes": nodes,
            "pods_per_node": 8,
            "routing": {"mode": routing, "cross_rail": cross_rail},
            "subnets": {rail["name"]: _whole(rail, routing == "source" and cross_rail) for rail in rail_list},
            "qos": None,
            "namespace": "kube-system" if provider == "spiderpool" else "default",
            "resource_prefix": PREFIXES[provider],
        },
        "rails": rail_list,
        "units": [],
        "nodes": node_list,
    }


def _rail(
    number: int, mode: str, attachment: str, families: t.Sequence[int], provider: str, taken: t.Mapping[str, str] | None
) -> Document:
    name = "gpu%02d" % number
    wide = mode in ("prefix", "link")
    network = "%s-%s" % (name, attachment)
    return {
        "name": name,
        "number": number,
        "base": name,
        "plane": None,
        "mode": mode,
        "subnet": ("10.%d.0.0/15" % (2 * number) if wide else "172.16.%d.0/24" % (10 + number))
        if 4 in families and mode != "none"
        else None,
        "subnet6": ("fd00:%x::/48" % number if wide else "fd00:0:%x::/64" % number)
        if 6 in families and mode != "none"
        else None,
        "mtu": 4200,
        "table": 100 + number,
        "rule_priority": 10000 + number,
        "taken": dict(taken or {}) if mode == "subnet" else {},
        "pool": "ai-%s" % name if mode == "subnet" or provider == "network-operator" else None,
        "pool6": "v6-ai-%s" % name if mode == "subnet" or provider == "network-operator" else None,
        "networks": [{"attachment": attachment, "network": network, "resource": "%s_%s" % (name, attachment)}],
    }


def _whole(rail: Document, default: bool) -> Document:
    """Return the networks of a rail, and the routes through its gateways."""
    several = rail["mode"] in ("prefix", "link")
    found = {key: rail[key] for key in ("mode", "subnet", "subnet6")}
    for six, anywhere in (("", "0.0.0.0/0"), ("6", "::/0")):
        reached = [anywhere] if default else [rail["subnet" + six]] if several else []
        found["routes" + six] = reached if rail["subnet" + six] else []
    return found


def _port(
    rail: Document,
    node: str,
    index: int,
    profile: str,
    mode: str,
    attachment: str,
    families: t.Sequence[int],
    vfs: int,
    netdev_of: t.Callable[[str, int], str | None],
    routing: str,
    cross_rail: bool,
) -> Document:
    name, number = rail["name"], rail["number"]
    pods: Document = {}
    addresses: Document = {"address": None, "address6": None, "gateway": None, "gateway6": None}
    for family, six in ((4, ""), (6, "6")):
        if family in families and mode != "none":
            share = _share(rail["subnet" + six], mode, index)
            if share["address"]:
                addresses["address" + six] = share["address"]
            addresses["gateway" + six] = share["gateway"]
            for key in ("first", "last", "subnet", "gateway"):
                pods[key + six] = share[key]
    shared_pool = mode == "subnet"
    pool = "ai-%s" % name if shared_pool else "ai-%s-%s" % (name, node)
    return dict(
        addresses,
        rail=name,
        number=number,
        base=name,
        plane=None,
        pci="0000:%02x:00.0" % (10 + number),
        netdev=netdev_of(profile, number),
        match=None,
        rdma={"name": "mlx5_%s" % name, "type": "hardware"},
        gpus=[number - 1],
        mtu=4200,
        table=rail["table"] if routing == "source" else None,
        rule_priority=rail["rule_priority"] if routing == "source" else None,
        routes=[],
        sysctl={"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2},
        vfs={"count": vfs, "attributes": []} if vfs else None,
        firmware=None,
        leaf=None,
        pods=pods or None,
        names={
            "resource": "%s_%s" % (name, attachment.replace("-", "_")),
            "network": "%s-%s" % (name, attachment),
            "pool": pool,
            "pool6": "v6-" + pool,
            "policy": "ai-%s-%s" % (name, profile),
            "interface": "net%d" % number,
        },
        expect={"speed": 400, "width": 4, "pcie_gen": 5, "pcie_lanes": 16, "gpu_distance": "PIX"},
    )


def _share(text: str, mode: str, index: int) -> Document:
    subnet = ipaddress.ip_network(text)
    prefix = subnet.prefixlen

    def at(number: int) -> str:
        return str(subnet[number])

    if mode == "subnet":
        return {
            "address": "%s/%d" % (at(200 + index), prefix),
            "gateway": at(254),
            "first": at(1),
            "last": at(199),
            "subnet": text,
        }
    if mode == "block":
        first = 1 + (index - 1) * 16
        return {
            "address": "%s/%d" % (at(200 + index), prefix),
            "gateway": at(254),
            "first": at(first),
            "last": at(first + 15),
            "subnet": text,
        }
    if mode == "prefix":
        base = (index - 1) * 32
        own = "%s/%d" % (at(base), subnet.max_prefixlen - 5)
        return {
            "address": "%s/%d" % (at(base + 2), subnet.max_prefixlen - 5),
            "gateway": at(base + 1),
            "first": at(base + 3),
            "last": at(base + 30),
            "subnet": own,
        }
    base = (index - 1) * 2
    own = "%s/%d" % (at(base), subnet.max_prefixlen - 1)
    return {"address": None, "gateway": at(base + 1), "first": at(base), "last": at(base), "subnet": own}

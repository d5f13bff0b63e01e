# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The CNI plugins behind the one that makes a pod's interface: RDMA device, ARP, source routing.

Spiderpool has a coordinator for this; with the other providers it is the chain's work. With plain CNI one plugin of
ours, which Ansible lays on the nodes, does it all; operators bring ``tuning`` and ``sbr``.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    Network,
    Object,
    Port,
    Share,
    View,
    compact,
    stated,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import CNI

RAIL = "railyard-rail"
EVERYTHING = {4: "0.0.0.0/0", 6: "::/0"}


def plugins(
    view: View, network: Network, port: Port, mtu: int | None = None, function: str | None = None
) -> list[Object]:
    """The plugins after the first, in order.

    :param mtu: for interfaces whose first plugin cannot set it. :param function: PCI address of a function that no
    device plugin hands
        out, so that nobody tells it to the RDMA plugin.
    """
    chain: list[Object] = []
    if network.isolated and network.attachment != "ib-sriov":
        # ib-sriov-cni binds the VF's driver anew, and moves the RDMA device itself.
        chain.append(dict({"type": "rdma"}, **({"deviceID": function} if function else {})))
    shares = view.shares(port)
    sysctl = (port.get("sysctl") or {}) if any(share.version == 4 for share in shares) else {}
    if view.provider == CNI:
        return chain + _rail(shares, port, mtu, sysctl)
    tuning: Object = {"type": "tuning"}
    if mtu is not None:
        tuning["mtu"] = mtu
    if sysctl:
        tuning["sysctl"] = {"net.ipv4.conf.IFNAME.%s" % key: str(value) for key, value in sorted(sysctl.items())}
    if len(tuning) > 1:
        chain.append(tuning)
    if any(share.default for share in shares):
        # Its `table` is not said: plugins up to 1.5 do not know the key, and from 1.6 on they then add rules alone, to
        # a table that nothing fills. Left to itself it takes the first free table from 100 on, and fills it, in all.
        chain.append({"type": "sbr"})
    return chain


def _rail(shares: t.Sequence[Share], port: Port, mtu: int | None, sysctl: t.Mapping[str, t.Any]) -> list[Object]:
    """The pod's interface as the node's port is; the rail's table too, where the plan has tables."""
    conf = stated({"type": RAIL, "mtu": mtu, "sysctl": dict(sorted(sysctl.items()))})
    if shares and port["table"] is not None:
        conf.update(table=port["table"], priority=port["rule_priority"])
        conf["routes"] = [
            {"dst": to, "gw": share.gateway}
            for share in shares
            for to in ((EVERYTHING[share.version],) if share.default else share.routes)
        ]
    return [conf] if len(conf) > 1 else []


def meta(chain: t.Sequence[Object]) -> str:
    """The chain as operators want it: JSON objects with commas between, without brackets."""
    return ",".join(compact(plugin) for plugin in chain)

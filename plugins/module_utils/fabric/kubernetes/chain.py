# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The CNI plugins behind the one that makes a pod's interface: RDMA device, ARP, source routing.

Spiderpool has a coordinator for this; with the other providers it is the chain's work.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.kubernetes.base import (
    Network,
    Object,
    Port,
    View,
    compact,
)


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
    tuning: Object = {"type": "tuning"}
    if mtu is not None:
        tuning["mtu"] = mtu
    shares = view.shares(port)
    if any(share.version == 4 for share in shares):
        tuning["sysctl"] = {
            "net.ipv4.conf.IFNAME.%s" % key: str(value) for key, value in sorted((port.get("sysctl") or {}).items())
        }
    if len(tuning) > 1:
        chain.append(tuning)
    if any(share.default for share in shares):
        # Without a table the plugin takes the first free one from 100 on: a plugin that knows no `table`
        # still gives each rail its own.
        chain.append({"type": "sbr", "table": port["table"]})
    return chain


def meta(chain: t.Sequence[Object]) -> str:
    """The chain as operators want it: JSON objects with commas between, without brackets."""
    return ",".join(compact(plugin) for plugin in chain)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Which attachment goes with which link layer, rdma mode, provider and address mode, and why not with the others.

This is the one place that knows. Rules, the plan and the documentation ask here.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

ETHERNET = "ethernet"
INFINIBAND = "infiniband"
SHARED = "shared"
EXCLUSIVE = "exclusive"


@dataclass(frozen=True)
class Attachment:
    """``link_layers`` and ``modes``: those it takes, the one that follows first. ``vfs``: it hands out VFs.
    ``master``: its interfaces are made on a netdev that Kubernetes objects name. ``wide``: why a mode that it takes is
    not what one wants."""

    name: str
    link_layers: tuple[str, ...]
    modes: tuple[str, ...]
    vfs: bool = False
    master: bool = False
    wide: str = ""


ATTACHMENTS: dict[str, Attachment] = {
    each.name: each
    for each in (
        Attachment("macvlan", (ETHERNET,), (SHARED,), master=True),
        Attachment("ipvlan", (ETHERNET,), (SHARED,), master=True),
        Attachment(
            "sriov", (ETHERNET,), (EXCLUSIVE, SHARED), vfs=True, wide="every pod of a node sees every VF's RDMA device"
        ),
        Attachment(
            "ib-sriov",
            (INFINIBAND,),
            (EXCLUSIVE, SHARED),
            vfs=True,
            wide="every pod of a node sees every VF's RDMA device",
        ),
        Attachment("ipoib", (INFINIBAND,), (SHARED,), master=True),
        Attachment(
            "host-device",
            (ETHERNET, INFINIBAND),
            (EXCLUSIVE, SHARED),
            wide="the RDMA device stays behind when its netdev moves into a pod, where every other pod sees it",
        ),
    )
}

# Why an attachment does not take a link layer or an rdma mode.
LINK_LAYER_REASONS = {
    ("macvlan", INFINIBAND): "the kernel makes macvlan interfaces on Ethernet alone",
    ("ipvlan", INFINIBAND): "the kernel makes ipvlan interfaces on Ethernet alone",
    ("sriov", INFINIBAND): "InfiniBand's VFs have GUIDs for MAC addresses and a plugin of their own",
    ("ib-sriov", ETHERNET): "it sets GUIDs, which Ethernet's VFs do not have",
    ("ipoib", ETHERNET): "IP over InfiniBand needs InfiniBand",
}
_ONE_DEVICE = "its pods use the node's own RDMA device, which in the mode exclusive no pod would see"
MODE_REASONS = {
    ("macvlan", EXCLUSIVE): _ONE_DEVICE,
    ("ipvlan", EXCLUSIVE): _ONE_DEVICE,
    ("ipoib", EXCLUSIVE): _ONE_DEVICE,
}

SPIDERPOOL = "spiderpool"
OPERATOR = "network-operator"
CNI = "cni"
PROVIDERS = (SPIDERPOOL, OPERATOR, CNI)

_REFUSED = {
    (SPIDERPOOL, "host-device"): "its networks (SpiderMultusConfig) are macvlan, ipvlan, sriov, ib-sriov and ipoib",
    (OPERATOR, "ipvlan"): "it has networks for macvlan, host-device, ipoib, sriov and ib-sriov alone",
    (CNI, "ib-sriov"): "somebody must give each VF a GUID and make it known to the subnet manager, and operators do",
    (CNI, "ipoib"): "the ipoib plugin comes with an operator, not with the plain plugins",
}
# In the modes that are not here, every provider can.
_MODES_REFUSED = {
    (CNI, "subnet"): "plain plugins know of no address that another node has given out",
    (OPERATOR, "block"): "nv-ipam chooses itself which node gets which block",
}


def refused(provider: str, attachment: str) -> str | None:
    """Why the provider does not serve the attachment; None where it does."""
    return _REFUSED.get((provider, attachment))


def mode_refused(provider: str, mode: str) -> str | None:
    """Why the provider cannot give pods their addresses in an address mode; None where it can."""
    return _MODES_REFUSED.get((provider, mode))


def served_by(provider: str) -> list[str]:
    """The attachments that a provider serves."""
    return [name for name in ATTACHMENTS if not refused(provider, name)]


def link_layer_of(attachment: str | None) -> str:
    """The link layer that follows from an attachment; Ethernet where it is not known."""
    known = ATTACHMENTS.get(attachment or "")
    return known.link_layers[0] if known else ETHERNET


def rdma_mode_of(attachment: str | None) -> str:
    """The rdma mode that follows from an attachment; shared where it is not known."""
    known = ATTACHMENTS.get(attachment or "")
    return known.modes[0] if known else SHARED


def has_vfs(attachment: str | None) -> bool:
    known = ATTACHMENTS.get(attachment or "")
    return bool(known and known.vfs)


def table() -> t.Iterator[tuple[str, str, str, str]]:
    """Rows for documentation: attachment, link layers, rdma modes, providers."""
    for each in ATTACHMENTS.values():
        providers = [name for name in PROVIDERS if not refused(name, each.name)]
        yield each.name, ", ".join(each.link_layers), ", ".join(each.modes), ", ".join(providers)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Which attachment goes with which link layer and RDMA mode, and why not with the others. Rules, the plan and the
documentation read this table; what each provider serves is in ``provider_facts``.
"""

from __future__ import annotations

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
        # without Kubernetes: the processes of the node use its ports
        Attachment("host", (ETHERNET, INFINIBAND), (SHARED, EXCLUSIVE)),
    )
}

HOST = "host"

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

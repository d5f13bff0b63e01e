# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The link layers and RDMA modes of each attachment, and why others are not supported.

Rules, the plan and the documentation use this table. ``provider_facts`` has the attachments of each provider.
"""

from __future__ import annotations

from dataclasses import dataclass

ETHERNET = "ethernet"
INFINIBAND = "infiniband"
# MTU of a new interface: the default of Linux, and that of RFC 4392 for InfiniBand.
DEFAULT_MTU = {ETHERNET: 1500, INFINIBAND: 2044}
SHARED = "shared"
EXCLUSIVE = "exclusive"


@dataclass(frozen=True)
class Attachment:
    """An attachment.

    ``link_layers`` and ``modes``: the link layers and RDMA modes that it supports, the default first. ``vfs``: pods get
    VFs. ``master``: its interfaces are created on a netdev that Kubernetes objects name. ``shared_drawback``: why the
    RDMA mode shared, although supported, is not recommended.
    """

    name: str
    link_layers: tuple[str, ...]
    modes: tuple[str, ...]
    vfs: bool = False
    master: bool = False
    shared_drawback: str = ""


_EVERY_VF = "every pod of a node sees the RDMA device of every VF"
_LEFT_BEHIND = "the RDMA device stays on the node when its netdev moves into a pod, and every other pod sees it"
ATTACHMENTS: dict[str, Attachment] = {
    each.name: each
    for each in (
        Attachment("macvlan", (ETHERNET,), (SHARED,), master=True),
        Attachment("ipvlan", (ETHERNET,), (SHARED,), master=True),
        Attachment("sriov", (ETHERNET,), (EXCLUSIVE, SHARED), vfs=True, shared_drawback=_EVERY_VF),
        Attachment("ib-sriov", (INFINIBAND,), (EXCLUSIVE, SHARED), vfs=True, shared_drawback=_EVERY_VF),
        Attachment("ipoib", (INFINIBAND,), (SHARED,), master=True),
        Attachment("host-device", (ETHERNET, INFINIBAND), (EXCLUSIVE, SHARED), shared_drawback=_LEFT_BEHIND),
        # Without Kubernetes: processes of the node use its ports.
        Attachment("host", (ETHERNET, INFINIBAND), (SHARED, EXCLUSIVE)),
    )
}

HOST = "host"

# Why an attachment does not support a link layer or an RDMA mode.
LINK_LAYER_REASONS = {
    ("macvlan", INFINIBAND): "the kernel supports macvlan interfaces on Ethernet only",
    ("ipvlan", INFINIBAND): "the kernel supports ipvlan interfaces on Ethernet only",
    ("sriov", INFINIBAND): "VFs of InfiniBand have GUIDs, which the attachment ib-sriov sets",
    ("ib-sriov", ETHERNET): "it sets GUIDs, which VFs of Ethernet do not have",
    ("ipoib", ETHERNET): "IP over InfiniBand needs InfiniBand",
}
_ONE_DEVICE = "its pods use the RDMA device of the node, which they cannot see in the mode exclusive"
MODE_REASONS = {
    ("macvlan", EXCLUSIVE): _ONE_DEVICE,
    ("ipvlan", EXCLUSIVE): _ONE_DEVICE,
    ("ipoib", EXCLUSIVE): _ONE_DEVICE,
}
# Of providers that do not support the mode on InfiniBand.
IPOIB_REMOVED = "the kernel removes an IPoIB interface when its RDMA device moves to a pod"


def link_layer_of(attachment: str | None) -> str:
    """Return the default link layer of an attachment; Ethernet for an unknown one."""
    known = ATTACHMENTS.get(attachment or "")
    return known.link_layers[0] if known else ETHERNET


def has_vfs(attachment: str | None) -> bool:
    """Return whether pods get VFs with an attachment."""
    known = ATTACHMENTS.get(attachment or "")
    return bool(known and known.vfs)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a preset of a server model consists of. A fact that its document does not contain is None or empty."""

from __future__ import annotations

import typing as t


class Document(t.NamedTuple):
    """The document with the facts of a preset.

    :param place: the section and table, or the file.
    :param address: URL or repository.
    :param version: the commit or date of the document.
    :param read: the date on which the facts were compared with it.
    """

    title: str
    place: str
    address: str
    version: str
    read: str


class PresetPort(t.NamedTuple):
    """A port of a compute rail.

    :param pci: the PCI function of the port.
    :param gpus: the numbers of the GPUs that it serves.
    :param rdma: the name of its RDMA device in the document. It depends on the driver, so it is shown and not planned.
    :param ethernet: the name of its netdev with the link layer Ethernet.
    :param infiniband: the same with InfiniBand.
    :param cage: the label of the cage or port on the server.
    """

    pci: str
    gpus: tuple[int, ...] = ()
    rdma: str | None = None
    ethernet: str | None = None
    infiniband: str | None = None
    cage: str | None = None

    def netdev(self, link_layer: str | None) -> str | None:
        """Return the name of the netdev with a link layer (``ethernet`` or ``infiniband``)."""
        return {"ethernet": self.ethernet, "infiniband": self.infiniband}.get(link_layer or "")


class PresetOtherPort(t.NamedTuple):
    """A port without a compute rail. The fabric file determines its use."""

    name: str
    pci: str


class Preset(t.NamedTuple):
    """The published port map of one or several server models.

    :param names: the names of the models. They have the same map.
    :param ports: in the order of rails, planes counted.
    :param gpus: number -> PCI address or None.
    :param gpu_distance: the distance from each port to its GPUs, in the terms of nvidia-smi.
    :param link_layer: the only link layer of the ports; None if they support several, or it is unknown.
    :param other_ports: all other network ports of the server; None if the document does not list them.
    :param product: the product name of the server's DMI table, with hyphens for spaces.
    """

    names: tuple[str, ...]
    title: str
    document: Document
    ports: tuple[PresetPort, ...]
    gpus: t.Mapping[int, str | None] = {}
    gpu_distance: str | None = None
    link_layer: str | None = None
    other_ports: tuple[PresetOtherPort, ...] | None = None
    product: str | None = None

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The layers of verify and drift, from the bottom up, and what a code of a failure consists of."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import playbook


class Layer(t.NamedTuple):
    """One layer. ``after``: the layers that are not checked on a rail on which this layer failed."""

    name: str
    title: str
    after: tuple[str, ...]


# Packets of pods take the same path as those of the nodes.
TRAFFIC = ("reach", "rdma", "pods")
_ALL = ("firmware", "driver", "mode", "link", "address", "qos", "cabling", *TRAFFIC, "kubernetes", "nccl")
LAYERS = {
    layer.name: layer
    for layer in (
        Layer("node", "Nodes answer", _ALL),
        Layer("firmware", "NIC firmware", ()),
        Layer("driver", "NICs, drivers and VFs", ("link", "address", "qos", "cabling", *TRAFFIC, "kubernetes")),
        Layer("mode", "RDMA mode", ("kubernetes", "pods")),
        Layer("link", "Links and RDMA devices", ("address", "qos", "cabling", *TRAFFIC, "kubernetes")),
        Layer("address", "Addresses, routes and rules", TRAFFIC),
        Layer("qos", "QoS and tuning", ()),
        Layer("cabling", "Cabling", TRAFFIC),
        Layer("reach", "Reachability", ("rdma", "pods")),
        Layer("rdma", "RDMA", ("pods",)),
        Layer("kubernetes", "Kubernetes", ("pods",)),
        Layer("pods", "Pods", ("nccl",)),
        Layer("nccl", "NCCL", ()),
    )
}
# Layers of configuration on a node or in the cluster: only these can drift.
STATE = ("node", "firmware", "driver", "mode", "link", "address", "qos", "kubernetes", "nccl")

HOSTS = playbook("hosts")
KUBERNETES = playbook("kubernetes")


class Code(t.NamedTuple):
    """One kind of failure.

    :param code: permanent; its meaning never changes.
    :param name: unique, for people.
    :param cause: the likely cause, unless an observation shows another.
    :param playbook: the playbook that fixes it; None if it must be fixed by hand.
    :param after: layers that are not checked on the same rail after it; None: those of its layer.
    :param drift: whether drift reports it, because it is configuration of a node or cluster.
    :param interface: whether others own this configuration with ``managed: false``.
    :param degraded: whether traffic determines the state of the rail. A bond with a failed member can carry traffic.
    """

    code: str
    name: str
    layer: str
    title: str
    cause: str
    remedy: str
    playbook: str | None = HOSTS
    after: tuple[str, ...] | None = None
    drift: bool = True
    interface: bool = False
    degraded: bool = False

    @property
    def label(self) -> str:
        """Return the code as it is shown to people."""
        return "%s (%s)" % (self.name, self.code)

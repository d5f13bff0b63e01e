# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY90x to RY94x: the rails of GPUs."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    rule,
)


def _ports(first: str, second: str, more: str = "") -> str:
    ports = "profiles:\n  hgx:\n%s    ports:\n      gpu01: {netdev: nic1%s}\n      gpu02: {netdev: nic2%s}\n"
    return ports % (more and "    %s\n" % more, first and ", " + first, second and ", " + second)


_GOOD = _ports("gpu: 0", "gpu: 1", "gpus: 2")

GPU_TWICE = rule(
    "RY901 gpu-on-two-rails: GPU on two rails",
    _ports("gpu: 0", "gpu: [0, 1]"),
    _ports("gpu: 0", "gpu: 1"),
    WARNING,
    why="In a rail-optimised network, all GPUs with the same number use the same rail, and so the same leaf. Several"
    " planes of one rail may serve one GPU.",
)

GPU_IDLE = rule(
    "RY902 gpu-without-port: GPU without a port",
    _ports("gpu: 0", "gpu: 1", "gpus: 4"),
    _ports("gpu: [0, 1]", "gpu: [2, 3]", "gpus: 4"),
    WARNING,
    why="Its traffic would cross bridges of the host to the NIC of another GPU.",
)

GPU_UNKNOWN = rule("RY903 undefined-gpu: Port of an undefined GPU", _ports("gpu: 0", "gpu: 2", "gpus: 2"), _GOOD)

GPU_PCI = rule(
    "RY904 duplicate-device-address: Two devices with the same PCI address",
    _ports("gpu: 0", "gpu: 1", 'gpus: {0: "0000:1b:00.0", 1: "0000:1b:00.0"}'),
    _ports("gpu: 0", "gpu: 1", 'gpus: {0: "0000:1b:00.0", 1: "0000:43:00.0"}'),
)

FAR = rule(
    "RY905 far-gpu: GPU distance that includes other processors",
    _ports("gpu: 0", "gpu: 1", "gpu_distance: SYS"),
    _ports("gpu: 0", "gpu: 1", "gpu_distance: PXB"),
    WARNING,
    why="SYS includes paths over the link between two processors, where GPUDirect RDMA loses most of its bandwidth, and"
    " on many servers does not work at all.",
)

DISTANCE_IDLE = rule(
    "RY906 gpu-distance-without-gpu: GPU distance without a GPU",
    _ports("", "", "gpu_distance: PIX"),
    _ports("gpu: 0", "gpu: 1", "gpu_distance: PIX"),
    WARNING,
)

CROSSED = rule(
    "RY907 gpu-rail-mismatch: GPU on different rails in two profiles",
    _ports("gpu: 0", "gpu: 1")
    + "  dgx:\n    ports:\n      gpu01: {netdev: nic1, gpu: 1}\n      gpu02: {netdev: nic2, gpu: 0}\n"
    + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: dgx}\n",
    _ports("gpu: 0", "gpu: 1")
    + "  dgx:\n    ports:\n      gpu01: {netdev: nic1, gpu: 0}\n      gpu02: {netdev: nic2, gpu: 1}\n"
    + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: dgx}\n",
    WARNING,
    why="GPUs with the same number communicate most, and a rail connects them by one switch. Server models with"
    " different numbers of GPUs are not compared.",
)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY90x to RY94x: which GPU is served by which rail."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils.fabric.finding import WARNING, Path, Report, rule
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.model import Fabric, Port, Profile
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.variants import Variant, Variants


def _ports(first: str, second: str, more: str = "") -> str:
    ports = "profiles:\n  hgx:\n%s    ports:\n      gpu01: {netdev: nic1%s}\n      gpu02: {netdev: nic2%s}\n"
    return ports % (more and "    %s\n" % more, first and ", " + first, second and ", " + second)


_GOOD = _ports("gpu: 0", "gpu: 1", "gpus: 2")

GPU_TWICE = rule(
    "RY901",
    "A GPU is served by two rails",
    _ports("gpu: 0", "gpu: [0, 1]"),
    _ports("gpu: 0", "gpu: 1"),
    WARNING,
    why="In a rail-optimised network a GPU's traffic leaves by one rail, the one whose leaf all GPUs of that number are"
    " on. Planes of one rail may serve one GPU together.",
)
GPU_IDLE = rule(
    "RY902",
    "A GPU is served by no rail",
    _ports("gpu: 0", "gpu: 1", "gpus: 4"),
    _ports("gpu: [0, 1]", "gpu: [2, 3]", "gpus: 4"),
    WARNING,
    why="Its traffic would cross the host's bridges to another GPU's NIC.",
)
GPU_UNKNOWN = rule(
    "RY903",
    "A port serves a GPU that the model does not have",
    _ports("gpu: 0", "gpu: 2", "gpus: 2"),
    _GOOD,
)
GPU_PCI = rule(
    "RY904",
    "Two devices have one PCI address",
    _ports("gpu: 0", "gpu: 1", 'gpus: {0: "0000:1b:00.0", 1: "0000:1b:00.0"}'),
    _ports("gpu: 0", "gpu: 1", 'gpus: {0: "0000:1b:00.0", 1: "0000:43:00.0"}'),
)
FAR = rule(
    "RY905",
    "GPUs may be on another processor than their port",
    _ports("gpu: 0", "gpu: 1", "gpu_distance: SYS"),
    _ports("gpu: 0", "gpu: 1", "gpu_distance: PXB"),
    WARNING,
    why="SYS allows the link between two processors on the way, where GPUDirect RDMA loses most of its bandwidth, and"
    " on many servers does not work at all.",
)
DISTANCE_IDLE = rule(
    "RY906",
    "A distance to GPUs is asked for, and no port has a GPU",
    _ports("", "", "gpu_distance: PIX"),
    _ports("gpu: 0", "gpu: 1", "gpu_distance: PIX"),
    WARNING,
)
CROSSED = rule(
    "RY907",
    "One GPU is on different rails in two server models",
    _ports("gpu: 0", "gpu: 1")
    + "  dgx:\n    ports:\n      gpu01: {netdev: nic1, gpu: 1}\n      gpu02: {netdev: nic2, gpu: 0}\n"
    + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: dgx}\n",
    _ports("gpu: 0", "gpu: 1")
    + "  dgx:\n    ports:\n      gpu01: {netdev: nic1, gpu: 0}\n      gpu02: {netdev: nic2, gpu: 1}\n"
    + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: dgx}\n",
    WARNING,
    why="Ranks with one number talk to each other most, and rails exist so that they are one switch apart. Models with"
    " different numbers of GPUs are not compared.",
)


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    for variant in variants.with_unused():
        if not report.within(variant.profile.path + ("gpus",)):
            _model(fabric, variant, report)
            for node in variants.nodes_of(variant):
                for port in node.ports.values():
                    _known(variant.profile, port, report)
    _crossed(fabric, variants, report)


def _known(profile: Profile, port: Port | None, report: Report) -> list[int]:
    """The GPUs of a port that the model has; the others are reported."""
    if port is None or profile.gpus is None:
        return list(port.gpus) if port else []
    for gpu in port.gpus:
        if gpu not in profile.gpus:
            known = ", ".join(str(each) for each in sorted(profile.gpus)) or "none"
            message = "%s has no GPU %d; its GPUs are %s" % (profile.name, gpu, known)
            remedy = "correct the number, or gpus of %s" % profile.name
            report.add(GPU_UNKNOWN, port.paths.get("gpu", port.path), message, remedy)
    return [gpu for gpu in port.gpus if gpu in profile.gpus]


def _bases(fabric: Fabric) -> dict[str, str]:
    return {rail.name: rail.base for rail in fabric.rails}


def _model(fabric: Fabric, variant: Variant, report: Report) -> None:
    profile, bases = variant.profile, _bases(fabric)
    servers: dict[int, str] = {}
    twice: list[tuple[Path, str]] = []
    for port in variant.ports.values():
        if port.rail not in bases:
            continue  # which rail's plane it would be is not known
        base = bases[port.rail]
        path = port.paths.get("gpu", port.path)
        for gpu in _known(profile, port, report):
            first = servers.setdefault(gpu, base)
            if first != base:
                twice.append((path, "GPU %d is served by %s and by %s" % (gpu, first, base)))
    if twice:
        path, message = twice[0]
        more = "; so are %d more" % (len(twice) - 1) if len(twice) > 1 else ""
        remedy = "keep it at the nearer one; if all are equally near, suppress this finding under lint"
        report.add(GPU_TWICE, path, message + more, remedy)
    idle = [gpu for gpu in sorted(profile.gpus or ()) if gpu not in servers]
    if idle and all(name in bases for name in variant.ports) and not report.within(profile.path + ("ports",)):
        message = "no port serves GPU %s" % ", ".join(str(each) for each in idle)
        remedy = "add them to the nearest port, such as gpu: [0, 1]"
        report.add(GPU_IDLE, profile.path + ("gpus",), message, remedy)
    _addresses(variant, report)
    if (
        profile.gpu_distance
        and not any(port.gpus for port in variant.ports.values())
        and not report.within(profile.path)
    ):
        message = "gpu_distance is %s, and no port of %s has a GPU" % (profile.gpu_distance, profile.name)
        report.add(DISTANCE_IDLE, profile.path + ("gpu_distance",), message, "say gpu at the ports, or take it out")
    elif profile.gpu_distance == "SYS":
        message = "gpu_distance SYS takes any GPU for near"
        report.add(FAR, profile.path + ("gpu_distance",), message, "write what the server has: PIX, PXB, PHB or NODE")


def _addresses(variant: Variant, report: Report) -> None:
    profile = variant.profile
    owners = {port.pci: "the port of %s" % port.rail for port in variant.ports.values() if port.pci}
    for gpu, pci in (profile.gpus or {}).items():
        if pci is None:
            continue
        first = owners.setdefault(pci, "GPU %d" % gpu)
        if first != "GPU %d" % gpu:
            message = "%s is the PCI address of %s too" % (pci, first)
            report.add(GPU_PCI, profile.path + ("gpus", str(gpu)), message, "name the one of GPU %d" % gpu)


def _crossed(fabric: Fabric, variants: Variants, report: Report) -> None:
    bases = _bases(fabric)
    known: dict[frozenset[int], tuple[str, dict[int, str]]] = {}
    for variant in variants:
        where = {gpu: bases.get(port.rail, port.rail) for port in variant.ports.values() for gpu in port.gpus}
        if not where or report.within(variant.profile.path + ("ports",)):
            continue
        first, other = known.setdefault(frozenset(where), (variant.name, where))
        for gpu in sorted(where):
            if where[gpu] != other[gpu] and first != variant.name:
                message = "GPU %d is on %s in %s, and on %s in %s" % (gpu, where[gpu], variant.name, other[gpu], first)
                remedy = "number the GPUs, or put the ports on the rails, in one order for all models"
                report.add(CROSSED, variant.profile.path + ("ports",), message, remedy)
                break

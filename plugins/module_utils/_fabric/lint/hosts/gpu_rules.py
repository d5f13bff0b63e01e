# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY90x to RY94x: the rails of GPUs."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    Path,
    Report,
    rule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Port, Profile
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant, Variants
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count, first_of


def _ports(first: str, second: str, more: str = "") -> str:
    ports = "profiles:\n  hgx:\n%s    ports:\n      gpu01: {netdev: nic1%s}\n      gpu02: {netdev: nic2%s}\n"
    return ports % (more and "    %s\n" % more, first and ", " + first, second and ", " + second)


_GOOD = _ports("gpu: 0", "gpu: 1", "gpus: 2")


def check(fabric: Fabric, variants: Variants, report: Report) -> None:
    for variant in variants.with_unused():
        if not report.within(variant.profile.path + ("gpus",)):
            _profile_gpus(fabric, variant, report)
            for node in variants.nodes_of(variant):
                for port in node.ports.values():
                    _known(variant.profile, port, report)
    _crossed(fabric, variants, report)


GPU_UNKNOWN = rule("RY903 undefined-gpu: Port of an undefined GPU", _ports("gpu: 0", "gpu: 2", "gpus: 2"), _GOOD)


def _known(profile: Profile, port: Port | None, report: Report) -> list[int]:
    """Return the GPUs of a port that its profile has. Report the others."""
    if port is None or profile.gpus is None:
        return list(port.gpus) if port else []
    for gpu in port.gpus:
        if gpu not in profile.gpus:
            known = ", ".join(str(each) for each in sorted(profile.gpus)) or "none"
            message = "%s has no GPU %d; it has %s" % (profile.name, gpu, known)
            remedy = "correct the number, or gpus of %s" % profile.name
            report.add(GPU_UNKNOWN, port.paths.get("gpu", port.path), message, remedy)
    return [gpu for gpu in port.gpus if gpu in profile.gpus]


def _bases(fabric: Fabric) -> dict[str, str]:
    """Return rail -> the rail without its plane."""
    return {rail.name: rail.base for rail in fabric.rails}


GPU_TWICE = rule(
    "RY901 gpu-on-two-rails: GPU on two rails",
    _ports("gpu: 0", "gpu: [0, 1]"),
    _ports("gpu: 0", "gpu: 1"),
    WARNING,
    why="In a rail-optimised network, all GPUs with the same number use the same rail, and so the same leaf. Several"
    " planes of one rail may serve one GPU. The port map of a preset is not reported.",
)

GPU_IDLE = rule(
    "RY902 gpu-without-port: GPU without a port",
    _ports("gpu: 0", "gpu: 1", "gpus: 4"),
    _ports("gpu: [0, 1]", "gpu: [2, 3]", "gpus: 4"),
    WARNING,
    why="Its traffic would cross bridges of the host to the NIC of another GPU.",
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


def _profile_gpus(fabric: Fabric, variant: Variant, report: Report) -> None:
    """Report GPUs of a profile without a rail or with several, and distances that check nothing."""
    profile, bases = variant.profile, _bases(fabric)
    compute = {rail.name for rail in fabric.compute_rails}
    published = profile.preset.path if profile.preset else None
    # GPU -> the rails that serve it, and whether the preset has this
    servers: dict[int, dict[str, bool]] = {}
    twice: dict[int, Path] = {}
    for port in variant.ports.values():
        if port.rail not in bases:
            continue  # the undefined rail is reported already
        base = bases[port.rail]
        path = port.paths.get("gpu", port.path)
        known = _known(profile, port, report)
        # A storage port can be near a GPU whose traffic with others takes a compute rail.
        from_preset = published is not None and path[: len(published)] == published
        for gpu in known if port.rail in compute else ():
            rails = servers.setdefault(gpu, {})
            if any(other != base for other in rails) and not (from_preset and all(rails.values())):
                twice.setdefault(gpu, path)
            rails.setdefault(base, from_preset)
    if twice:
        gpu, path = next(iter(twice.items()))
        message = "GPU %d is served by several rails: %s" % (gpu, first_of([*servers[gpu]], 3))
        more = "; also %s" % count(len(twice) - 1, "other GPU") if len(twice) > 1 else ""
        remedy = "keep it on the nearer rail; if all are equally near, suppress this finding under lint"
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
        report.add(DISTANCE_IDLE, profile.path + ("gpu_distance",), message, "set gpu at the ports, or remove it")
    elif profile.gpu_distance == "SYS":
        message = "gpu_distance SYS allows any GPU"
        report.add(
            FAR, profile.path + ("gpu_distance",), message, "write the server's own distance: PIX, PXB, PHB or NODE"
        )


GPU_PCI = rule(
    "RY904 duplicate-device-address: Two devices with the same PCI address",
    _ports("gpu: 0", "gpu: 1", 'gpus: {0: "0000:1b:00.0", 1: "0000:1b:00.0"}'),
    _ports("gpu: 0", "gpu: 1", 'gpus: {0: "0000:1b:00.0", 1: "0000:43:00.0"}'),
)


def _addresses(variant: Variant, report: Report) -> None:
    """Report two devices of a profile with the same PCI address."""
    profile = variant.profile
    owners = {
        function.pci: "the port of %s" % port.rail
        for port in variant.ports.values()
        for function in port.functions
        if function.pci
    }
    for gpu, pci in (profile.gpus or {}).items():
        if pci is None:
            continue
        first = owners.setdefault(pci, "GPU %d" % gpu)
        if first != "GPU %d" % gpu:
            message = "%s is also the PCI address of %s" % (pci, first)
            report.add(GPU_PCI, profile.path + ("gpus", str(gpu)), message, "write the address of GPU %d" % gpu)


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


def _crossed(fabric: Fabric, variants: Variants, report: Report) -> None:
    """Report a GPU that is on different rails in two profiles with the same GPUs."""
    bases = _bases(fabric)
    storage = {rail.name for rail in fabric.rails} - {rail.name for rail in fabric.compute_rails}
    known: dict[frozenset[int], tuple[str, dict[int, str]]] = {}
    for variant in variants:
        ports = [port for port in variant.ports.values() if port.rail not in storage]
        rails = {gpu: bases.get(port.rail, port.rail) for port in ports for gpu in port.gpus}
        if not rails or report.within(variant.profile.path + ("ports",)):
            continue
        first, other = known.setdefault(frozenset(rails), (variant.name, rails))
        for gpu in sorted(rails):
            if rails[gpu] != other[gpu] and first != variant.name:
                message = "GPU %d is on %s in %s, and on %s in %s" % (gpu, rails[gpu], variant.name, other[gpu], first)
                remedy = "number the GPUs, or assign the ports to rails, in the same order for all models"
                report.add(CROSSED, variant.profile.path + ("ports",), message, remedy)
                break

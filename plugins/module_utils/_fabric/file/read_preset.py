# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reader of ``preset`` of a profile: the published port map of a server model, assigned to the rails of the fabric."""

from __future__ import annotations

import itertools
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path, Report, rule
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    Fabric,
    OtherPort,
    Port,
    Profile,
    Rail,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.infiniband_model import NO_IPOIB
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.interface_model import Member, Plane
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.catalog import PRESETS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.preset import Preset, PresetPort
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section

_RAILS = """
fabric: {name: ai, attachment: host-device, provider: agent, mtu: 4200}
rails: {count: %d, name: "gpu{n:02}", subnet: "172.{n+15}.0.0/24", hosts: .201-.253, pods: .1-.200, gateway: .254}
"""
_PRESET = "profiles:\n  hgx: {preset: dgx-h100%s}\n"

COUNT = rule(
    "RY220 preset-rail-count: Preset with another number of ports than compute rails",
    _RAILS % 4 + _PRESET % "",
    _RAILS % 8 + _PRESET % "",
    why="A preset has a port for each compute rail, in their order, each NIC and plane counted.",
)

PORT_ELSEWHERE = rule(
    "RY221 preset-port-on-other-rail: Port of a preset on two rails",
    _RAILS % 8 + _PRESET % ', ports: {gpu01: {pci: "0000:40:00.0"}}',
    _RAILS % 8 + _PRESET % ', ports: {gpu01: {pci: "0000:40:00.0"}, gpu02: {pci: "0000:18:00.0", netdev: nic2}}',
)

LINK_LAYER = rule(
    "RY222 preset-link-layer: Preset of a server whose ports have another link layer",
    _RAILS % 8 + "profiles:\n  hgx: {preset: azure-nd-h100-v5}\n",
    _RAILS % 8 + _PRESET % "",
)


def read_preset(fabric: Fabric, section: Section, path: Path, report: Report) -> Profile | None:
    """Return the preset of a profile, as a profile; None without one, or if it does not fit the rails.

    :param fabric: its rails and their link layers have been read.
    :param path: the place of the profile.
    """
    name = section.choice("preset", tuple(PRESETS), remedy="list them with validate.yml -e show_presets=true")
    if name is None:
        return None
    preset, rails = PRESETS[name], fabric.compute_rails
    path = path + ("preset",)
    if rails and not divided(preset, rails):
        message = "%s has %d ports, and the fabric has %d compute rails (planes counted)"
        report.add(COUNT, path, message % (name, len(preset.ports), len(rails)), _count_remedy(preset, rails))
        return None
    layers = {fabric.link_layer_on(rail) for rail in rails} - {None, preset.link_layer}
    if preset.link_layer and layers:
        message = "the ports of %s are %s, and the rails are %s"
        remedy = "set link_layer: %s, or choose the preset of another server" % preset.link_layer
        report.add(
            LINK_LAYER, path, message % (name, preset.link_layer, " and ".join(sorted(map(str, layers)))), remedy
        )
    return preset_profile(fabric, name, path)


def _count_remedy(preset: Preset, rails: t.Sequence[Rail]) -> str:
    planes, rest = divmod(len(preset.ports), len(rails))
    one_card = len({port.pci.partition(".")[0] for port in preset.ports[:planes]}) == 1
    per_rail = ", such as %d rails with planes: %d" % (len(rails), planes) if one_card and not rest else ""
    remedy = "describe %d rails%s; or write the ports of the profile instead of the preset"
    return remedy % (len(preset.ports), per_rail)


def divided(preset: Preset, rails: t.Sequence[Rail]) -> list[tuple[PresetPort, ...]]:
    """Return the ports of a preset for each rail: one, or one for each of its planes; empty if they do not fit.

    :param rails: the compute rails, each NIC and each plane with its own network counted.
    """
    sizes = [1 if len(rails) == len(preset.ports) else rail.device_planes for rail in rails]
    starts = list(itertools.accumulate([0, *sizes]))
    if starts[-1] != len(preset.ports):
        return []
    return [preset.ports[start : start + size] for start, size in zip(starts, sizes)]


def preset_profile(fabric: Fabric, name: str, path: Path) -> Profile:
    """Return the preset as a profile for the compute rails of a fabric.

    :param name: a name in the catalog, of a preset whose ports fit the compute rails.
    :param path: the place of ``preset`` in the file.
    """
    preset = PRESETS[name]
    profile = Profile(name, path, gpus=dict(preset.gpus) or None, gpu_distance=preset.gpu_distance)
    for rail, port in zip(fabric.compute_rails, _ports(fabric, preset, path)):
        profile.ports[rail.name] = port
    for other in preset.other_ports or ():
        place = path + (other.name,)
        port = Port(other.name, place, pci=other.pci, keys=("pci",))
        profile.other_ports[other.name] = OtherPort(other.name, place, "management", port)
    return profile


def _ports(fabric: Fabric, preset: Preset, path: Path) -> list[Port]:
    """Return the ports of a preset on the compute rails of a fabric, in the order of rails."""
    found = []
    for rail, ports in zip(fabric.compute_rails, divided(preset, fabric.compute_rails)):
        layer = _interface_layer(fabric, rail)
        first, gpus = ports[0], tuple(dict.fromkeys(gpu for port in ports for gpu in port.gpus))
        netdev = first.netdev(layer)
        keys = ("pci", *(["netdev"] if netdev else []), *(["gpu"] if gpus else []))
        made = Port(rail.name, path + (rail.name,), netdev, first.pci, gpus=gpus, keys=keys)
        if len(ports) > 1:
            planes = tuple([Plane(function=Member(pci=port.pci, netdev=port.netdev(layer))) for port in ports])
            made = made._replace(planes=planes, keys=("planes", *keys[-1:]) if gpus else ("planes",))
        found.append(made)
    return found


def _interface_layer(fabric: Fabric, rail: Rail) -> str | None:
    """Return the link layer of the interfaces of a rail; None if its ports have no interface."""
    return None if fabric.ipoib_mode_on(rail) == NO_IPOIB else fabric.link_layer_on(rail)


def check_overrides(profile: Profile, report: Report) -> None:
    """Report ports that the file gives to one rail while the preset has them on another. The preset's port remains."""
    owners = {port.pci: rail for rail, port in (profile.preset.ports if profile.preset else {}).items()}
    for rail, port in profile.ports.items():
        owner = owners.get(port.pci, rail)
        if owner != rail and owner in profile.ports and profile.ports[owner].pci == port.pci and port.base:
            message = "%s is the port of %s in the preset %s" % (
                port.pci,
                owner,
                profile.preset and profile.preset.name,
            )
            remedy = "correct it for the port of %s, or set pci of %s too" % (rail, owner)
            report.add(PORT_ELSEWHERE, port.paths["pci"], message, remedy)
            profile.ports[rail] = port._replace(pci=port.base.pci)


def other_ports_of(profile: Profile) -> dict[str, OtherPort]:
    """Return the other ports of the preset of a profile, without those that the file has on a rail."""
    taken = {function.pci for port in profile.ports.values() for function in port.functions}
    others = profile.preset.other_ports if profile.preset else {}
    return {name: other for name, other in others.items() if other.port.pci not in taken}

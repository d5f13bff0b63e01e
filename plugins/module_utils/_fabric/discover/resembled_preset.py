# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The preset that a discovered profile resembles, and the profile as its differences from the preset."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_findings import Findings
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.server_models import Model
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_preset import divided, preset_profile
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    Fabric,
    OtherPort,
    Port,
    Profile,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.catalog import ALL
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.preset import Preset
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.preset_differences import differences

# A machine resembles a preset if it has at least this number of every 4 ports, and of every 4 facts, of the preset.
_ALIKE = 3
# Key of the file -> value of a port.
_VALUES = {"netdev": "netdev", "pci": "pci", "gpu": "gpus"}


def with_preset(fabric: Fabric, profile: Profile, model: Model, findings: Findings) -> Profile:
    """Return the profile with the preset that it resembles most, and a finding that names all differences.

    The profile is unchanged if it resembles none, or if the preset cannot express it.
    """
    rails = fabric.compute_rails
    places = [place for rail in rails for place in _places(rail.name, profile.ports.get(rail.name))]
    functions: dict[str, str | None] = {nic.pci: nic.model.partition(":")[0] for nic in model.nics.values()}
    layers = {fabric.link_layer_on(rail) for rail in rails}
    candidates = [preset for preset in ALL if preset.link_layer is None or {preset.link_layer} == layers]
    gpus = [pci for pci in (profile.gpus or {}).values() if pci]
    found = _most_alike(candidates, [pci for _rail, pci in places], functions, gpus)
    if found is None:
        return profile
    preset, same = found[0], found[1]
    name = preset.names[0]
    about = "%s (%s)" % (" or ".join(preset.names), preset.document.title)
    nodes = [node.name for node in model.nodes]
    fits = bool(divided(preset, rails)) and len(places) == len(preset.ports) and 4 * same >= _ALIKE * len(places)
    if not fits or not _expressible(fabric, profile, name):
        message = (
            "it resembles the preset %s, but its ports belong to other rails, or rails have more or fewer ports" % about
        )
        remedy = "compare the rails with the preset: playbooks/validate.yml -e show_presets=%s" % name
        findings.add("DS322", ("profiles", profile.name), message, remedy, nodes)
        return profile
    apart = differences(preset, [rail for rail, _pci in places], functions, gpus)
    place = ("profiles", profile.name, "preset")
    kinds = ([*apart.ports, *apart.unlisted], [*apart.gpus, *_served(preset, places, profile)], apart.others)
    for texts in filter(None, kinds):
        message = "it differs from the preset %s: %s" % (about, "; ".join(texts))
        remedy = "check whether cards are missing or have other slots; the keys below override the preset"
        findings.add("DS321", place, message, remedy, nodes)
    if not any(kinds):
        message = "all ports match the preset %s" % about
        findings.add("DS320", place, message, "check that it is this server model", nodes)
    return _overriding(profile, preset_profile(fabric, name, place))


def _places(rail: str, port: Port | None) -> list[tuple[str, str | None]]:
    """Return the rail and PCI address of each function of a port; None for a port with a bond or VLAN."""
    if port is None or port.bond or port.vlan:
        return [(rail, None)]
    return [(rail, function.pci) for function in port.functions]


def _served(preset: Preset, places: t.Sequence[tuple[str, str | None]], profile: Profile) -> list[str]:
    """Return the ports that serve other GPUs than in the preset."""
    pairs = [(profile.ports[rail], port) for (rail, pci), port in zip(places, preset.ports) if pci == port.pci]
    texts = [
        "%s serves GPU %s, preset %s" % (own.rail, _numbers(own.gpus), _numbers(port.gpus))
        for own, port in pairs
        if port.gpus and own.gpus != port.gpus
    ]
    return list(dict.fromkeys(texts))


def _numbers(gpus: t.Sequence[int]) -> str:
    return " and ".join(map(str, gpus)) or "none"


def _most_alike(
    candidates: t.Sequence[Preset],
    observed: t.Sequence[str | None],
    functions: t.Collection[str],
    gpus: t.Collection[str],
) -> tuple[Preset, int] | None:
    """Return the preset with the largest part in the machine, and how many of its ports have the same rail.

    :param observed: the PCI addresses of the rail ports, in the order of rails.
    """
    best: tuple[tuple[float, ...], Preset] | None = None
    for preset in candidates:
        ports = [port.pci in functions for port in preset.ports]
        others = [other.pci in functions for other in preset.other_ports or ()]
        facts = ports + others + [pci in gpus for pci in preset.gpus.values() if pci]
        if any(4 * sum(each) < _ALIKE * len(each) for each in (ports, facts)):
            continue
        same = sum(own == port.pci for own, port in zip(observed, preset.ports))
        score = (sum(facts) / len(facts), same, len(ports))
        if best is None or score > best[0]:
            best = score, preset
    return (best[1], int(best[0][1])) if best else None


def _expressible(fabric: Fabric, profile: Profile, name: str) -> bool:
    """Return whether the profile has a value for each value of the preset: no key removes a single value."""
    base = preset_profile(fabric, name, ())
    ports = [(profile.ports[rail], port) for rail, port in base.ports.items() if rail in profile.ports]
    return all(
        not getattr(port, value) or getattr(own, value) for own, port in ports for value in _VALUES.values()
    ) and not any(own.bond or own.vlan for own, _port in ports)


def _overriding(profile: Profile, base: Profile) -> Profile:
    """Return the profile with ``base`` as its preset: equal ports come from the preset."""
    ports = {rail: _port(port, base.ports.get(rail)) for rail, port in profile.ports.items()}
    places = {other.port.pci: other for other in base.other_ports.values()}
    others: dict[str, OtherPort] = {}
    for other in profile.other_ports.values():
        same = places.get(other.port.pci)
        if same and same.role != other.role:
            same = replace(same, role=other.role, port=same.port._replace(keys=(), base=same.port))
        others[same.name if same else other.name] = same or other
    return replace(profile, ports=ports, other_ports=others, preset=base)


def _port(port: Port, base: Port | None) -> Port:
    """Return a port with the keys that differ from ``base``; ``base`` itself if none differ."""
    if base is None:
        return port
    values = {field: value for field, value in zip(Port._fields, port) if field not in ("rail", "path", "keys", "base")}
    keys = tuple(
        [
            "gpu" if field == "gpus" else field
            for field, value in values.items()
            if value not in (getattr(base, field), ())
        ]
    )
    keys = tuple([key for key in keys if key != "rdma_port"])
    return port._replace(keys=keys, base=base) if keys else base

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""How an observed machine differs from a preset."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.preset import Preset


class Differences(t.NamedTuple):
    """Differences as texts for people, each empty without differences.

    :param ports: ports of rails at another place than in the preset.
    :param gpus: GPUs at another place.
    :param others: ports without a rail that the machine does not have.
    :param unlisted: ports of the machine that the preset does not have, although it has all ports of the machine.
    """

    ports: list[str]
    gpus: list[str]
    others: list[str]
    unlisted: list[str]

    @property
    def all(self) -> list[str]:
        return [*self.ports, *self.gpus, *self.others, *self.unlisted]


def differences(
    preset: Preset,
    rails: t.Sequence[str | None],
    functions: t.Mapping[str, str | None],
    gpus: t.Collection[str],
    known: t.Collection[str] = (),
) -> Differences:
    """Compare a machine with a preset. A port or GPU that is only missing is a difference without another place.

    :param rails: the rail of each port of the preset; None: the port is not compared.
    :param functions: the PCI addresses of the network functions of the machine, with the PCI vendor of each.
    :param gpus: the PCI addresses of its GPUs.
    :param known: PCI addresses of further functions that the machine may have.
    """
    others = preset.other_ports or ()
    listed = {port.pci for port in preset.ports} | {other.pci for other in others} | set(known)
    vendors = {functions[port.pci] for port in preset.ports if port.pci in functions}
    strangers = sorted(
        pci for pci, vendor in functions.items() if pci not in listed and (vendor in vendors or not vendors)
    )
    missing = [(rail, port) for rail, port in zip(rails, preset.ports) if rail and port.pci not in functions]
    cages = [" (%s)" % port.cage if port.cage else "" for _rail, port in missing]
    return Differences(
        ["%s%s: no NIC at %s" % (rail, cage, port.pci) for (rail, port), cage in zip(missing, cages)],
        _gpus(preset, gpus),
        ["%s: no NIC at %s" % (other.name, other.pci) for other in others if other.pci not in functions],
        ["NIC at %s" % pci for pci in strangers] if preset.other_ports is not None or missing else [],
    )


def _gpus(preset: Preset, observed: t.Collection[str]) -> list[str]:
    """Return the GPUs at other places. Without GPUs at unknown places, GPUs of the preset are only missing."""
    missing = {number: pci for number, pci in preset.gpus.items() if pci and pci not in observed}
    strangers = sorted(set(observed) - set(preset.gpus.values()))
    if not strangers:
        return []
    texts = []
    for number, pci in sorted(missing.items()):
        place = strangers.pop(0) if strangers else "no other place"
        texts.append("GPU %d at %s, preset %s" % (number, place, pci))
    return texts

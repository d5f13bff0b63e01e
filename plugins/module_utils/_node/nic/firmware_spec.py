# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Desired firmware parameters, from the options of a module."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol import vendor_firmware
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.vendor_firmware import (
    FirmwareParameters,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import MANAGEMENT

PORT_SPEC: dict[str, t.Any] = {
    "pci": {"type": "str", "required": True},
    "link_type": {"type": "str", "choices": ["eth", "ib"]},
    "link_types": {"type": "dict"},
    "sriov_en": {"type": "bool"},
    "num_of_vfs": {"type": "int"},
    "parameters": {"type": "dict"},
    "version": {"type": "str"},
}

SPEC: dict[str, t.Any] = {
    **MANAGEMENT,
    "ports": {"type": "list", "elements": "dict", "options": PORT_SPEC},
    "tool": {"type": "str", "default": "auto"},
    "reset": {"type": "str", "choices": ["never", "allowed"], "default": "never"},
    "never_reset": {"type": "list", "elements": "str", "default": []},
    "timeout": {"type": "float", "default": 120.0},
    "state": {"type": "str", "choices": ["present", "gathered"], "default": "present"},
}


class ParameterSpec:
    """The desired value of one parameter: ``value`` for the tool, ``shown`` for changes."""

    def __init__(self, value: t.Any, shown: t.Any, place: str, every_port: bool = False) -> None:
        self.value = value
        self.shown = shown
        self.place = place
        # for all existing ports
        self.every_port = every_port

    def argument(self) -> str:
        number = vendor_firmware.number(self.value)
        return str(self.value).strip() if number is None else str(number)


def parameter_specs(
    port: t.Mapping[str, t.Any], place: str, ports: int, known: FirmwareParameters
) -> t.Iterator[tuple[str, ParameterSpec]]:
    """Yield a port's options as (parameter of the card, desired value). Raises :class:`RailyardError`."""
    types = port.get("link_types") or {}
    for number, kind in types.items():
        where = "%s.link_types[%s]" % (place, number)
        if not str(number).isdigit() or int(number) < 1:
            raise RailyardError("%r is not a port number" % (number,), where, "number the card's ports from 1")
        if str(kind).lower() not in known.link_types:
            raise RailyardError("%r is not a link type" % (kind,), where, "write eth or ib")
        shown = known.link_types[str(kind).lower()]
        yield "%s%d" % (known.link_type, int(number)), ParameterSpec(shown, shown, where)
    if port.get("link_type"):
        shown = known.link_types[port["link_type"]]
        for number in range(1, ports + 1):
            if str(number) not in {str(key) for key in types}:
                spec = ParameterSpec(shown, shown, place + ".link_type", every_port=True)
                yield "%s%d" % (known.link_type, number), spec
    for parameter, option in known.options.items():
        value, where = port.get(option), "%s.%s" % (place, option)
        if value is not None:
            if value < 0:
                raise RailyardError("%d is not a number of VFs" % value, where, "write 0 or more")
            yield parameter, ParameterSpec(value, value, where)
    errors: list[RailyardError] = []
    for name, given in (port.get("parameters") or {}).items():
        where = "%s.parameters.%s" % (place, name)
        try:
            value = known.value(str(name), given)
        except ValueError as error:
            errors.append(RailyardError("%r is not a valid value" % (given,), where, "write %s" % error))
            continue
        parameter = known.parameter(str(name))
        every_port = parameter.endswith("_P*")
        elements = known.elements(parameter, ports)
        if elements is None:
            remedy = "write it as the tool's query prints it (%s), or use one of %s"
            remedy %= (known.forms, ", ".join(known.aliases))
            errors.append(RailyardError("%r is not a parameter name" % parameter, where, remedy))
            continue
        for each in elements:
            yield each, ParameterSpec(value, vendor_firmware.plain(value), where, every_port)
    raise_all(errors)


def port_elements(name: str, ports: int) -> list[str]:
    """Return the names of a parameter for all ports of the card, from the name for one port."""
    base = re.sub(r"\d+$", "", name)
    return ["%s%d" % (base, number + 1) for number in range(ports)]


def is_value(observed: vendor_firmware.Plain, spec: ParameterSpec) -> bool:
    return vendor_firmware.same(observed, spec.value)

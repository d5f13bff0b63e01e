# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Desired firmware parameters, from the options of a module."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import firmware_parameters
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    RailyardError,
    raise_all,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import MANAGEMENT
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic import firmware_tool

LINK_TYPES = {"ib": "IB(1)", "eth": "ETH(2)"}

LINK_TYPE = re.compile(r"^LINK_TYPE_P(\d+)$")

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
        number = firmware_tool.number(self.value)
        return str(self.value).strip() if number is None else str(number)


def parameter_specs(port: t.Mapping[str, t.Any], place: str, ports: int) -> t.Iterator[tuple[str, ParameterSpec]]:
    """Yield a port's options as (parameter of the card, desired value). Raises :class:`RailyardError`."""
    types = port.get("link_types") or {}
    for number, kind in types.items():
        where = "%s.link_types[%s]" % (place, number)
        if not str(number).isdigit() or int(number) < 1:
            raise RailyardError("%r is not a port number" % (number,), where, "number the card's ports from 1")
        if str(kind).lower() not in LINK_TYPES:
            raise RailyardError("%r is not a link type" % (kind,), where, "write eth or ib")
        shown = LINK_TYPES[str(kind).lower()]
        yield "LINK_TYPE_P%d" % int(number), ParameterSpec(shown, shown, where)
    if port.get("link_type"):
        shown = LINK_TYPES[port["link_type"]]
        for number in range(1, ports + 1):
            if str(number) not in {str(key) for key in types}:
                yield "LINK_TYPE_P%d" % number, ParameterSpec(shown, shown, place + ".link_type", every_port=True)
    if port.get("sriov_en") is not None:
        yield "SRIOV_EN", ParameterSpec(port["sriov_en"], port["sriov_en"], place + ".sriov_en")
    if port.get("num_of_vfs") is not None:
        if port["num_of_vfs"] < 0:
            raise RailyardError(
                "%d is not a number of VFs" % port["num_of_vfs"], place + ".num_of_vfs", "write 0 or more"
            )
        yield "NUM_OF_VFS", ParameterSpec(port["num_of_vfs"], port["num_of_vfs"], place + ".num_of_vfs")
    errors: list[RailyardError] = []
    for name, given in (port.get("parameters") or {}).items():
        where = "%s.parameters.%s" % (place, name)
        try:
            value = firmware_parameters.value(str(name), given)
        except ValueError as error:
            errors.append(RailyardError("%r is not a valid value" % (given,), where, "write %s" % error))
            continue
        parameter = firmware_parameters.parameter(str(name))
        every_port = parameter.endswith("_P*")
        try:
            elements = _elements(parameter, where, ports)
        except RailyardError as error:
            errors.append(error)
            continue
        for each in elements:
            yield each, ParameterSpec(value, firmware_tool.plain(value), where, every_port)
    raise_all(errors)


def _elements(name: str, place: str, ports: int) -> list[str]:
    """Return ``NAME``, the elements of ``NAME[3]`` or ``NAME[3..5]``, or one parameter per port for ``NAME_P*``."""
    match = firmware_parameters.NAME.match(name)
    if not match:
        raise RailyardError(
            "%r is not a parameter name" % name,
            place,
            "write it as the tool's query prints it (%s), or use one of %s"
            % (firmware_parameters.FORMS, ", ".join(firmware_parameters.ALIASES)),
        )
    base, first, last, every = match.groups()
    if every:
        return ["%s%d" % (base, number + 1) for number in range(ports)]
    if first is None:
        return [base]
    return ["%s[%d]" % (base, at) for at in range(int(first), int(last or first) + 1)]


def port_elements(name: str, ports: int) -> list[str]:
    """Return the names of a parameter for all ports of the card, from the name for one port."""
    base = re.sub(r"\d+$", "", name)
    return ["%s%d" % (base, number + 1) for number in range(ports)]


def is_value(observed: firmware_tool.Plain, spec: ParameterSpec) -> bool:
    return firmware_tool.same(observed, spec.value)

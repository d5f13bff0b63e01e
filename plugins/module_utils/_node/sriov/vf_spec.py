# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The desired state of PFs and their VFs, parsed from a module's options and checked before the node is read."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import vf_attributes
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._common.vf_attributes import VF_ATTRIBUTES, VfAttribute
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import MANAGEMENT
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import VF_CODES
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import port_reference

MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z")
GUID = re.compile(r"[0-9a-f]{16}\Z")
# In the order in which they are set: the identity first, because a VF's driver reads it only when it binds.
ATTRIBUTES = tuple(sorted(VF_CODES, key=lambda name: not vf_attributes.BY_NAME[name].identity))

VF_SPEC = dict(
    {"index": {"type": "int", "required": True}},
    **{attribute.name: attribute.option() for attribute in VF_ATTRIBUTES},
)
PORT_SPEC = {
    "pci": {"type": "str"},
    "netdev": {"type": "str"},
    "count": {"type": "int"},
    "range": {"type": "str"},
    "attributes": {"type": "list", "elements": "dict", "default": [], "options": VF_SPEC},
}

SPEC: dict[str, t.Any] = {
    **MANAGEMENT,
    "ports": {"type": "list", "elements": "dict", "default": [], "options": PORT_SPEC},
    "allow_recreate": {"type": "bool", "default": False},
    "autoprobe": {"type": "bool"},
    "timeout": {"type": "int", "default": 120},
    "persist": {"type": "bool", "default": True},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}


class Vf(t.NamedTuple):
    """The spec of one VF; ``attributes`` has only those that are set."""

    place: str
    number: int
    attributes: dict[str, t.Any]


class Port(t.NamedTuple):
    """The spec of one PF. ``place``: the place of its options. ``ours``: the numbers of the VFs that are configured;
    others have another owner. None: all."""

    place: str
    pci: str | None
    netdev: str | None
    vf_count: int | None
    vfs: list[Vf]
    options: dict[str, t.Any]
    ours: range | None = None

    def is_ours(self, number: int) -> bool:
        return self.ours is None or number in self.ours

    @property
    def name(self) -> str:
        return self.netdev or self.pci or "?"


def ports(options: t.Mapping[str, t.Any]) -> list[Port]:
    """Return the ports of the option ``ports``. Raises all errors together."""
    found, errors = ports_of(options)
    raise_all(errors)
    return found


def ports_of(options: t.Mapping[str, t.Any]) -> tuple[list[Port], list[RailyardError]]:
    """Return the ports of the option ``ports``, and their errors. A port without a valid reference has no PF."""
    errors: list[RailyardError] = []
    found = [_port("ports[%d]" % n, each, errors) for n, each in enumerate(options.get("ports") or [])]
    port_reference.refuse_duplicate_ports(found, errors)
    for name in (attribute.name for attribute in vf_attributes.IDENTITIES):
        given = [(vf.attributes.get(name), "%s.%s" % (vf.place, name)) for port in found for vf in port.vfs]
        port_reference.refuse_duplicates(given, name, errors)
    return found, errors


def _port(place: str, options: t.Mapping[str, t.Any], errors: list[RailyardError]) -> Port:
    reference = port_reference.read(options, place, errors)
    count = options.get("count")
    if count is not None and count < 0:
        errors.append(RailyardError("%d is not a number of VFs" % count, place + ".count", "give 0 or more"))
    ours = port_reference.vf_range(options, place, errors)
    if ours and count and ours[-1] >= count:
        message = "VF %d does not exist: count is %d" % (ours[-1], count)
        errors.append(RailyardError(message, place + ".range", "end the range below count"))
    vfs = [
        _vf("%s.attributes[%d]" % (place, n), each, count, errors)
        for n, each in enumerate(options.get("attributes") or [])
    ]
    port_reference.refuse_duplicates(((vf.number, vf.place) for vf in vfs), "VF", errors)
    for vf in vfs:
        if ours and vf.number not in ours:
            message = "VF %d is outside of the range %s" % (vf.number, options["range"])
            errors.append(RailyardError(message, vf.place + ".index", "widen the range, or remove the entry"))
    return Port(*reference, count, vfs, dict(options), ours)


def _vf(place: str, options: t.Mapping[str, t.Any], count: int | None, errors: list[RailyardError]) -> Vf:
    index = options["index"]
    if index < 0 or (count is not None and index >= count):
        errors.append(
            RailyardError(
                "VF %d does not exist" % index + ("" if count is None else ": count is %d" % count),
                place + ".index",
                "number VFs from 0, below count",
            )
        )
    wanted: dict[str, t.Any] = {}
    for name in ATTRIBUTES:
        value = options.get(name)
        if value is None:
            continue
        value, problem, remedy = _checked(vf_attributes.BY_NAME[name], value)
        if problem:
            errors.append(RailyardError(problem, "%s.%s" % (place, name), remedy))
        wanted[name] = value
    for attribute in vf_attributes.without_effect(wanted):
        name, value, required = attribute.name, wanted[attribute.name], attribute.requires
        message = "%s %s %s, and %s is not set" % (name, value, attribute.reason, required)
        errors.append(RailyardError(message, "%s.%s" % (place, name), "set %s, or remove %s" % (required, name)))
    for attribute in vf_attributes.above_limit(wanted):
        name, limit, unit = attribute.name, attribute.at_most or "", attribute.unit
        errors.append(
            RailyardError(
                "%d %s is more than %s, %d %s" % (wanted[name], unit, limit, wanted[limit], unit),
                "%s.%s" % (place, name),
                "give at most %s, or no %s" % (limit, limit),
            )
        )
    return Vf(place, index, wanted)


def _checked(attribute: VfAttribute, value: t.Any) -> tuple[t.Any, str, str]:
    """Return the value in the kernel's form, the problem (empty if valid), and the remedy."""
    if attribute.kind == vf_attributes.MAC:
        value = str(value).strip().lower().replace("-", ":")
        if not MAC.match(value):
            return value, "%r is not a MAC address" % value, "write it as 02:00:00:00:00:01"
        if int(value[:2], 16) & 1 or not value.strip("0:"):
            return value, "%s is not a unicast address" % value, "give a unicast address other than zero"
    elif attribute.kind == vf_attributes.GUID:
        value = vf_attributes.guid(str(value))
        if not GUID.match(value.replace(":", "")):
            return value, "%r is not a GUID" % value, "write eight bytes as 00:11:22:33:44:55:66:77"
        if not value.strip("0:"):
            return value, "a VF with a zero GUID never gets a link", "give a GUID other than zero"
    elif attribute.kind == vf_attributes.CHOICE and value not in attribute.choices:
        message = "%r is not a %s" % (value, attribute.name.replace("_", " "))
        return value, message, "give one of " + ", ".join(attribute.choices)
    elif attribute.kind == vf_attributes.NUMBER:
        low, high = attribute.limits
        if not low <= value <= high:
            return value, "%d is not within %d..%d" % (value, low, high), "give a number within %d..%d" % (low, high)
    return value, "", ""

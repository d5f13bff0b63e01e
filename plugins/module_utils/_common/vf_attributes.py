# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The attributes of VFs, one row each: values, limits, and which attributes depend on each other.

The reader and the JSON Schema of the fabric file, lint, the plan, discovery, the options of the module sriov_vfs, and
the desired and observed state of a node are derived from this table. It does not contain how other programs name an
attribute: ``_node.netlink.link_messages`` has the kernel's names, ``_nic_vendors`` those of a vendor's driver, and
``_fabric.importers.kinds.upstream_vf_fields`` those of manifests.
"""

from __future__ import annotations

import re
import typing as t

ETHERNET = "ethernet"
INFINIBAND = "infiniband"

NUMBER, FLAG, CHOICE, MAC, GUID = "number", "flag", "choice", "mac", "guid"
# Kind -> type of a module's option.
OPTION_TYPES = {NUMBER: "int", FLAG: "bool", CHOICE: "str", MAC: "str", GUID: "str"}
MEGABITS = "Mb/s"


class VfAttribute(t.NamedTuple):
    """One attribute.

    ``kind``: NUMBER, FLAG, CHOICE, MAC or GUID. ``link_layer``: the only one that has it; None: both have it.
    ``default``: the value of a new VF. ``neutral``: the value that a VF has if its driver does not support the
    attribute; None for an identity. ``limits``: the least and the greatest number, in ``unit``.
    ``choices``: in the order of the kernel's numbers, from 0.

    ``partner``: the attribute that the kernel sets in the same message. ``requires``: the attribute without which this
    one has no effect, because of ``reason``. ``at_most``: the attribute whose value is the greatest for this one,
    unless it is 0. ``unsafe``: the value with which a VF can send from the MAC address of another.
    """

    name: str
    kind: str
    link_layer: str | None = None
    default: t.Any = None
    neutral: t.Any = None
    limits: tuple[int, int] = (0, 0)
    unit: str = ""
    choices: tuple[str, ...] = ()
    partner: str | None = None
    requires: str | None = None
    reason: str = ""
    at_most: str | None = None
    unsafe: bool | None = None

    @property
    def identity(self) -> bool:
        """Return whether each VF has its own value, which the plan derives and the VF's driver reads when it binds."""
        return self.kind in (MAC, GUID)

    @property
    def rate(self) -> bool:
        """Return whether the value is a rate, which some drivers accept only while the PF has a link."""
        return self.unit == MEGABITS

    def fits(self, link_layer: str | None) -> bool:
        return self.link_layer in (None, link_layer)

    def is_neutral(self, value: t.Any) -> bool:
        return self.neutral is not None and bool(value == self.neutral)

    def option(self) -> dict[str, t.Any]:
        """Return the entry of a module's argument specification."""
        entry: dict[str, t.Any] = {"type": OPTION_TYPES[self.kind]}
        return dict(entry, choices=list(self.choices)) if self.choices else entry


def _number(name: str, greatest: int, **more: t.Any) -> VfAttribute:
    return VfAttribute(name, NUMBER, ETHERNET, 0, 0, (0, greatest), **more)


# The kernel passes rates to drivers as numbers of type int.
_MAX_RATE = 2**31 - 1

# In the order of the fabric file's documentation and of the plan.
VF_ATTRIBUTES = (
    VfAttribute("mac", MAC, ETHERNET),
    _number("vlan", 4094, partner="qos"),
    _number("qos", 7, partner="vlan", requires="vlan", reason="is part of a VLAN tag"),
    VfAttribute("trust", FLAG, ETHERNET, default=False, neutral=False, unsafe=True),
    VfAttribute("spoofchk", FLAG, ETHERNET, default=True, neutral=False, unsafe=False),
    VfAttribute("link_state", CHOICE, None, default="auto", neutral="auto", choices=("auto", "enable", "disable")),
    _number("min_tx_rate", _MAX_RATE, unit=MEGABITS, partner="max_tx_rate", at_most="max_tx_rate"),
    _number("max_tx_rate", _MAX_RATE, unit=MEGABITS, partner="min_tx_rate"),
    VfAttribute("node_guid", GUID, INFINIBAND),
    VfAttribute("port_guid", GUID, INFINIBAND),
)
BY_NAME = {attribute.name: attribute for attribute in VF_ATTRIBUTES}
# What the fabric file can set.
SETTINGS = tuple(attribute for attribute in VF_ATTRIBUTES if not attribute.identity)
# What the plan derives for each VF.
IDENTITIES = tuple(attribute for attribute in VF_ATTRIBUTES if attribute.identity)


def above_limit(values: t.Mapping[str, t.Any]) -> list[VfAttribute]:
    """Return the attributes whose value is above the value of the attribute that limits them."""
    return [
        attribute
        for attribute in VF_ATTRIBUTES
        if attribute.at_most and 0 < (values.get(attribute.at_most) or 0) < (values.get(attribute.name) or 0)
    ]


def without_effect(values: t.Mapping[str, t.Any]) -> list[VfAttribute]:
    """Return the attributes that have a value although the attribute that they require has none.

    A required attribute whose value is None could not be read, and counts as given.
    """
    return [
        attribute
        for attribute in VF_ATTRIBUTES
        if attribute.requires and values.get(attribute.name) and values.get(attribute.requires, 0) == 0
    ]


_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?\Z")


def numbers(text: str | int | None, count: int) -> range | None:
    """Return the numbers of the VFs of a text such as ``5-9`` or ``5``, from 0; None for an invalid text.

    :param count: number of VFs of the port, which all are meant if ``text`` is None.
    """
    if text is None:
        return range(count)
    match = _RANGE.match(str(text).strip())
    if not match:
        return None
    first = int(match.group(1))
    last = int(match.group(2) or first)
    return range(first, last + 1) if first <= last else None


def guid(text: str) -> str:
    """Return a GUID of any usual spelling as ``00:11:22:33:44:55:66:77``."""
    digits = re.sub(r"[:.-]", "", text.strip().lower())
    digits = digits[2:] if digits.startswith("0x") else digits
    return ":".join(digits[start : start + 2] for start in range(0, len(digits), 2))

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Readers of a port of a profile, a group or a node."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_values import filled
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    Path,
    Report,
    Rule,
    rule,
    shown,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import EXPECTED, Port
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.interface_model import (
    BOND_MODES,
    FUNCTION_KEYS,
    HASH_POLICIES,
    LACP_RATES,
    Bond,
    Member,
    Plane,
    Vlan,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import file_rules, name_syntax
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section, number_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Mapping, Scalar, Sequence

MAX_GPU = 63
# Key -> minimum, maximum and unit.
NUMBERS = {
    "port": (1, 16, ""),
    "speed": (1, 3200, "Gb/s"),
    "width": (1, 16, "lanes"),
    "pcie_gen": (1, 7, ""),
    "pcie_lanes": (1, 32, "lanes"),
}
_NAMES = ("netdev", "pci", "rdma", "slot", "serial", "mac")
_SINGLE = (*_NAMES, *NUMBERS)
_MEMBERS, _PLANES = "bond.members.", "planes."
_PLANE_KEYS = ("rdma_port", *FUNCTION_KEYS)
MAX_MEMBERS = 8
MAX_VLAN = 4094
# The port number of an RDMA device is a byte (ibv_query_port(3)); only switches use 0.
MAX_RDMA_PORT = 254

# Key -> its texts with their places. Only gpu can have several. Keys below bond and vlan are ``bond.mode``,
# ``bond.members.0.pci``, ``planes.0.pci`` and ``vlan.id``; ``bond``, ``planes`` and ``vlan`` themselves have no text.
Texts = t.Dict[str, t.List[t.Tuple[str, Path]]]


class _Kind(t.NamedTuple):
    """A kind of text: the function that makes its value (None if it is invalid), and the finding about an invalid
    text."""

    make: t.Callable[[str], str | None]
    rule: Rule
    problem: str
    remedy: str


def _matching(pattern: t.Pattern[str]) -> t.Callable[[str], str | None]:
    return lambda text: text if pattern.match(text) else None


NETDEV_NAME = rule(
    "RY209 netdev-name: Invalid netdev name",
    """
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0-gpu01, pci: "0000:0b:00.0"}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}
""",
    example_file.RDMA_PORTS,
)

RDMA_NAME = rule(
    "RY210 rdma-device-name: Invalid RDMA device name",
    """
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0", rdma: mlx5/gpu01}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}
""",
    example_file.RDMA_PORTS,
)

PCI_ADDRESS = rule(
    "RY407 invalid-pci-address: Invalid PCI address",
    example_file.ports('gpu01: {netdev: nic1, pci: "0000:0b:00:0"}', "gpu02: {netdev: nic2}"),
    example_file.PORTS,
)

IDENTITY = rule(
    "RY416 invalid-port-match: Invalid slot, serial number or MAC address of a port",
    example_file.ports('gpu01: {netdev: nic1, mac: "01:00:5e:00:00:01"}', "gpu02: {netdev: nic2}"),
    example_file.ports("gpu01: {netdev: nic1, slot: PCIE_1}", "gpu02: {netdev: nic2, slot: PCIE_2}"),
)


_KINDS = {
    "netdev": _Kind(
        _matching(name_syntax.NETDEV),
        NETDEV_NAME,
        "not a valid name of a netdev",
        "use at most 15 characters, without slash, colon, percent sign and space; not lo, all or default",
    ),
    "pci": _Kind(
        name_syntax.pci, PCI_ADDRESS, "not a PCI address", "write domain:bus:device.function, such as 0000:0b:00.0"
    ),
    "rdma": _Kind(
        _matching(name_syntax.RDMA),
        RDMA_NAME,
        "not a valid name of an RDMA device",
        "use at most 63 letters, digits, dots, hyphens and underscores; for port 3 of a device, write NAME:3",
    ),
    "slot": _Kind(
        _matching(name_syntax.TOKEN),
        IDENTITY,
        "not a label of a slot",
        "write the label of the slot, at most 64 characters",
    ),
    "serial": _Kind(
        _matching(name_syntax.TOKEN),
        IDENTITY,
        "not a serial number",
        "write the serial number of the card, at most 64 characters",
    ),
    "mac": _Kind(
        name_syntax.mac,
        IDENTITY,
        "not a MAC address of a port",
        "write six pairs of hexadecimal digits, such as b8:3f:d2:00:00:01",
    ),
}


def port_texts(section: Section, on_rail: bool = True) -> Texts:
    """Return the keys of a port in a section, as texts.

    :param on_rail: whether the port belongs to a rail. Other ports are functions, which identify their cards.
    """
    texts: Texts = {}
    for key in _SINGLE:
        text = section.text(key)
        if text is not None:
            texts[key] = [(text, section.path + (key,))]
    if section.has("gpu"):
        listed = not isinstance(section.value("gpu"), Scalar)
        path = section.path + ("gpu",)
        texts["gpu"] = [(text, path + (at,) if listed else path) for at, text in enumerate(section.texts("gpu"))]
    else:
        section.value("gpu")
    if not on_rail:
        return texts
    _bond_texts(section, texts)
    _vlan_texts(section, texts)
    _planes_texts(section, texts)
    managed = section.flag("managed")
    if managed is not None:
        texts["managed"] = [("true" if managed else "false", section.path + ("managed",))]
    return texts


def _bond_texts(section: Section, texts: Texts) -> None:
    """Add the keys of the bond. With null, an override removes it."""
    own = section.section("bond")
    if own is None:
        if section.written_null("bond"):
            texts["bond"] = []
        return
    texts["bond"] = []
    filled(own, section.report, "its name and members")
    for key, text in (
        ("name", own.text("name")),
        ("mode", own.choice("mode", BOND_MODES)),
        ("hash_policy", own.choice("hash_policy", HASH_POLICIES)),
        ("lacp_rate", own.choice("lacp_rate", LACP_RATES)),
        ("primary", own.text("primary")),
        ("min_links", own.text("min_links")),
    ):
        if text is not None:
            texts["bond." + key] = [(text, own.path + (key,))]
    members = own.items("members")
    if members is None and own.has("members"):
        message, remedy = "one value instead of a list", 'write it as a list, such as [{pci: "0000:29:00.0"}, ...]'
        own.report.add(file_rules.KIND, own.path + ("members",), message, remedy)
    for at, member in enumerate(members or ()):
        if member is None:
            continue
        found = {key: member.text(key) for key in FUNCTION_KEYS}
        if not any(member.has(key) for key in FUNCTION_KEYS if key != "port"):
            member.value("pci", "set a key that identifies the member: pci, slot, serial, mac or netdev")
        member.done()
        for key, text in found.items():
            if text is not None:
                texts["%s%d.%s" % (_MEMBERS, at, key)] = [(text, member.path + (key,))]
    own.done()


def _vlan_texts(section: Section, texts: Texts) -> None:
    """Add the keys of the VLAN: its number, or a mapping. With null, an override removes it."""
    value = section.value("vlan")
    if value is None:
        if section.written_null("vlan"):
            texts["vlan"] = []
        return
    texts["vlan"] = []
    if not isinstance(value, Mapping):
        text = section.text("vlan")
        if text is not None:
            texts["vlan.id"] = [(text, section.path + ("vlan",))]
        return
    own = section.section("vlan")
    if own is None:
        return
    filled(own, section.report, "its number")
    for key in ("id", "name"):
        text = own.text(key)
        if text is not None:
            texts["vlan." + key] = [(text, own.path + (key,))]
    own.done()


def _planes_texts(section: Section, texts: Texts) -> None:
    """Add the keys of the planes: numbers of ports of the RDMA device, or mappings."""
    value = section.value("planes")
    if value is None:
        if section.written_null("planes"):
            texts["planes"] = []
        return
    texts["planes"] = []
    path = section.path + ("planes",)
    if isinstance(value, Sequence) and value.items and all(isinstance(item, Scalar) for item in value.items):
        for at, text in enumerate(section.texts("planes")):
            texts["%s%d.rdma_port" % (_PLANES, at)] = [(text, path + (at,))]
        return
    planes = section.items("planes")
    if planes is None:
        message, remedy = (
            "one value instead of a list",
            "write the number of the RDMA port of each plane: [3, 6, 9, 12]",
        )
        section.report.add(file_rules.KIND, path, message, remedy)
    for at, plane in enumerate(planes or ()):
        if plane is None:
            continue
        for key, value_of in {key: plane.text(key) for key in _PLANE_KEYS}.items():
            if value_of is not None:
                texts["%s%d.%s" % (_PLANES, at, key)] = [(value_of, plane.path + (key,))]
        if not any(plane.has(key) for key in _PLANE_KEYS):
            plane.value("pci", "set what carries the plane: rdma_port, pci or netdev")
        plane.done()


def make_port(rail: str, path: Path, texts: Texts, report: Report) -> Port:
    """Return the port of a rail from its texts. An invalid value is reported and None, unless it is a name."""
    rdma_port = None
    for text, place in texts.get("rdma", ()):
        name, colon, number = text.partition(":")
        if colon:
            # The notation of NCCL and UCX.
            rdma_port = number_of(number, place, 1, MAX_RDMA_PORT, "", report)
            texts = dict(texts, rdma=[(name, place)])
    values = _values(texts, "", report)
    if "bond" in texts:
        values["bond"] = _bond(texts, report)
    if "vlan" in texts:
        values["vlan"] = _vlan(texts, report)
    for text, _place in texts.get("managed", ()):
        values["managed"] = text == "true"
    planes = _planes(texts, report)
    if planes:
        values["planes"] = planes
        # The first plane has the interface, unless the file names another.
        first = planes[0].function
        if first and "bond" not in values and not any(key in values for key in FUNCTION_KEYS):
            values.update(first._asdict())
    keys = tuple([key for key in texts if "." not in key])
    return Port(rail, path, gpus=_gpus(texts.get("gpu", ()), report), rdma_port=rdma_port, keys=keys, **values)


def _values(texts: Texts, prefix: str, report: Report) -> dict[str, t.Any]:
    """Return the names, addresses and numbers of a port, or of the member whose keys have this prefix."""
    values: dict[str, t.Any] = {}
    for key, kind in _KINDS.items():
        for text, place in texts.get(prefix + key, ()):
            values[key] = _named(kind, text, place, key in ("netdev", "rdma"), report)
    for key, (low, high, unit) in NUMBERS.items():
        for text, place in texts.get(prefix + key, ()):
            values[key] = number_of(text, place, low, high, unit, report)
    return values


def _named(kind: _Kind, text: str, place: Path, name: bool, report: Report) -> str | None:
    """Return the value of a text. An invalid text is reported; it remains the value if it is a name, or else None."""
    value = kind.make(text)
    if value is None:
        report.add(kind.rule, place, "%s is %s" % (shown(text), kind.problem), kind.remedy)
        # An invalid name still identifies the device; an invalid address or number does not.
        value = text if name else None
    return value


def _bond(texts: Texts, report: Report) -> Bond | None:
    values: dict[str, t.Any] = {}
    for key in ("mode", "hash_policy", "lacp_rate"):
        for text, _place in texts.get("bond." + key, ()):
            values[key] = text
    for key in ("name", "primary"):
        for text, place in texts.get("bond." + key, ()):
            values[key] = _named(_KINDS["netdev"], text, place, True, report)
    for text, place in texts.get("bond.min_links", ()):
        values["min_links"] = number_of(text, place, 1, MAX_MEMBERS, "", report)
    numbers = {key[len(_MEMBERS) :].partition(".")[0]: None for key in texts if key.startswith(_MEMBERS)}
    members = tuple([Member(**_values(texts, "%s%s." % (_MEMBERS, number), report)) for number in numbers])
    return Bond(members=members, **values) if values or members else None


def _vlan(texts: Texts, report: Report) -> Vlan | None:
    number = name = None
    for text, place in texts.get("vlan.id", ()):
        number = number_of(text, place, 1, MAX_VLAN, "", report)
    for text, place in texts.get("vlan.name", ()):
        name = _named(_KINDS["netdev"], text, place, True, report)
    return Vlan(number, name) if number or name else None


def _planes(texts: Texts, report: Report) -> tuple[Plane, ...]:
    planes: list[Plane] = []
    for number in {key[len(_PLANES) :].partition(".")[0]: None for key in texts if key.startswith(_PLANES)}:
        prefix = "%s%s." % (_PLANES, number)
        rdma_port = None
        for text, place in texts.get(prefix + "rdma_port", ()):
            rdma_port = number_of(text, place, 1, MAX_RDMA_PORT, "", report)
        values = _values(texts, prefix, report)
        planes.append(Plane(rdma_port, Member(**values) if values else None))
    return tuple(planes)


def identified(section: Section, texts: Texts) -> bool:
    """Return whether a key identifies the port. If not, report it, unless a key is probably misspelt."""
    if any(key in texts or section.has(key) for key in (*_NAMES, "bond", "planes")):
        return True
    section.value("netdev", "set a key that identifies the port: netdev, pci, slot, serial, mac, rdma or bond")
    return False


def expected(section: Section) -> dict[str, int]:
    """Return the values that a profile expects of all its ports."""
    values = {}
    for key in EXPECTED:
        low, high, unit = NUMBERS[key]
        value = section.number(key, low, high, unit)
        if value is not None:
            values[key] = value
    return values


INVALID_GPU = rule(
    "RY408 invalid-gpu: Invalid or duplicate GPU number",
    example_file.ports("gpu01: {netdev: nic1, gpu: [0, 0]}", "gpu02: {netdev: nic2, gpu: [1, 2]}"),
    example_file.ports(
        'gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0", rdma: mlx5_gpu01, gpu: 0}',
        'gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0", rdma: mlx5_gpu02, gpu: 1}',
    ),
)


def _gpus(texts: t.Sequence[tuple[str, Path]], report: Report) -> tuple[int, ...]:
    gpus: list[int] = []
    for text, place in texts:
        if not re.match(r"[0-9]{1,2}\Z", text) or int(text) > MAX_GPU:
            message = "%s is not a GPU number" % shown(text)
            report.add(INVALID_GPU, place, message, "write a number from 0 to %d, or a list of numbers" % MAX_GPU)
        elif int(text) in gpus:
            report.add(INVALID_GPU, place, "GPU %s is listed twice" % text, "keep one of the two")
        else:
            gpus.append(int(text))
    return tuple(gpus)

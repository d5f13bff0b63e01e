# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Readers of values that several sections have."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import vf_attributes
from ansible_collections.railyard.fabric.plugins.module_utils._common.vf_attributes import VfAttribute
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    Path,
    Report,
    Rule,
    rule,
    shown,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ETHERNET, INFINIBAND
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    DEVICE_PLUGIN,
    DRA,
    SLOT_KEYS,
    Setting,
    SlotSettings,
    VfSettings,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import file_rules, name_syntax
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section, text_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    FAMILY,
    IPV4,
    IPV6,
    SUFFIX,
    Network,
    Range,
    bits_of,
    network,
    parse_address,
    parse_network,
    parse_range,
    show,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import Ranges
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Sequence

MAX_LABEL = 40
# Maximum number of ranges of a key. For a subnet with more, ``taken`` is the better description.
MAX_RANGES = 256
MAX_PODS = 4096
# The maximum number of nodes of a fabric.
MAX_NODES = 65536
# The maximum number of VFs of a port, according to NVIDIA's documentation.
MAX_VFS = 127
_MTU = {ETHERNET: (576, 9978), INFINIBAND: (576, 65520)}
_LABEL_REMEDY = "use at most %d lower-case letters, digits and hyphens, with a letter or digit at both ends" % MAX_LABEL
_FORMS = {
    IPV4: ("172.16.11.0/24", "172.16.11.254, .254 or +254", "172.16.11.1-172.16.11.200, .1-.200 or +1-+200"),
    IPV6: ("fd00:11::/64", "fd00:11::fe, ::fe or +254", "fd00:11::1-fd00:11::ff, ::1-::ff or +1-+255"),
}


def filled(section: Section, report: Report, entry: str) -> bool:
    """Return whether a section has entries. Report an empty one; ``entry`` describes what to add."""
    if not section.mapping.entries:
        report.add(file_rules.EMPTY, section.path, "%s is empty" % section.path[-1], "add %s" % entry)
    return bool(section.mapping.entries)


def label(text: str, path: Path, broken: Rule, subject: str, report: Report) -> None:
    """Report a name that is not a DNS label of at most MAX_LABEL characters. ``subject``: what has the name."""
    if not name_syntax.label(text, MAX_LABEL):
        report.add(broken, path, "%s is not a valid name of %s" % (shown(text), subject), _LABEL_REMEDY)


def read_mtu(link_layer: str | None, section: Section, required: str = "") -> int | None:
    """Return the MTU in bytes. ``required``: the remedy if it is missing; empty: it is optional."""
    low, high = _MTU[link_layer or INFINIBAND]
    return section.number("mtu", low, high, "bytes", required)


def read_vfs(section: Section) -> VfSettings:
    """Return the settings of ``vfs``. The value of a key that could not be read is None."""
    vfs = section.section("vfs")
    if not vfs:
        return {}
    values: dict[str, t.Any] = {"count": vfs.number("count", 0, MAX_VFS, "VFs")}
    values["range"] = _read_vf_range(vfs)
    for attribute in vf_attributes.SETTINGS:
        values[attribute.name] = _read_vf_attribute(vfs, attribute)
    vfs.done()
    return {key: Setting(value, vfs.path + (key,)) for key, value in values.items() if vfs.has(key)}


def _read_vf_range(section: Section) -> str | None:
    """Return the numbers of the VFs that Railyard configures, as ``first-last``."""
    text = section.text("range")
    numbers = None if text is None else vf_attributes.numbers(text, 0)
    if numbers:
        return "%d-%d" % (numbers[0], numbers[-1])
    if text is not None:
        message = "%s is not a range of VFs" % shown(text)
        section.report.add(file_rules.KIND, section.path + ("range",), message, "write first-last from 0, such as 5-9")
    return None


def _read_vf_attribute(section: Section, attribute: VfAttribute) -> t.Any:
    if attribute.kind == vf_attributes.NUMBER:
        return section.number(attribute.name, *attribute.limits, attribute.unit)
    if attribute.kind == vf_attributes.FLAG:
        return section.flag(attribute.name)
    return section.choice(attribute.name, attribute.choices)


def read_slots(section: Section) -> SlotSettings:
    """Return key of ``slots`` -> its setting; None for null. The value of a key that could not be read is None."""
    slots = section.section("slots")
    if not slots:
        return {}
    values: dict[str, t.Any] = {key: slots.number(key, 0, MAX_PODS, "slots") for key in SLOT_KEYS}
    values["kubelet_plugin"] = slots.choice("kubelet_plugin", (DEVICE_PLUGIN, DRA))
    values["kubeconfig"] = slots.text("kubeconfig")
    slots.done()
    return {
        key: Setting(value, slots.path + (key,)) if slots.has(key) else None
        for key, value in values.items()
        if key in slots.mapping.entries
    }


def template(
    text: str, path: Path, fields: t.Collection[str], texts: t.Collection[str], report: Report
) -> name_syntax.Template | None:
    """Return a text as template; None for one with an invalid field, which is reported."""
    try:
        return name_syntax.Template(text, fields, texts)
    except name_syntax.BadTemplate as error:
        message = "%s has the invalid field %s" % (shown(text), shown(str(error)))
        valid = ", ".join("{%s}" % field for field in [*fields, *texts])
        remedy = "use the fields %s; numbers also as {n+10} or {n:02}" % valid
        if path[-1] in ("subnet", "subnet6"):
            remedy += "; for larger networks, write addresses.supernet with rail_prefix"
        report.add(file_rules.TEMPLATE, path, message, remedy)
        return None


INVALID_NETWORK = rule(
    "RY302 invalid-network: Invalid network",
    example_file.rails("subnet: 172.16.11.0, hosts: .201-.253"),
    example_file.RAILS,
)

HOST_BITS = rule(
    "RY303 network-host-bits: Network with host bits set",
    example_file.rails("subnet: 172.16.11.1/24, hosts: .201-.253"),
    example_file.RAILS,
)


def read_network(text: str, path: Path, report: Report, bits: int = 0) -> Network | None:
    """Return a network of a family, of either family if ``bits`` is 0; None for an invalid text, which is reported."""
    if _other_family(text, bits, path, report):
        return None
    bits = bits or bits_of(text)
    parsed = parse_network(text, bits)
    if parsed is None:
        message = "%s is not a network" % shown(text)
        report.add(INVALID_NETWORK, path, message, "write it as address/prefix, such as %s" % _FORMS[bits][0])
        return None
    address, prefix = parsed
    net = network(address, prefix, bits)
    if net.first != address:
        message = "%s is an address in %s, not a network" % (text, net)
        remedy = "write %s" % net
        if path[0] == "rails" and len(path) == 2:
            remedy = "write addresses.supernet, with rail_prefix: %d, which cuts a network for each rail" % prefix
        report.add(HOST_BITS, path, message, remedy)
    return net


def read_address(text: str, path: Path, subnet: Network, report: Report) -> int | None:
    """Return an address, which may be in a short form for the subnet; None for an invalid text, which is reported."""
    if _other_family(text, subnet.bits, path, report):
        return None
    address = parse_address(text, subnet)
    if address is None:
        _report_invalid(text, path, "an address, such as %s" % _FORMS[subnet.bits][1], report)
    return address


def read_texts(
    section: Section, key: str, fill: t.Callable[[str, Path], str | None]
) -> list[tuple[str | None, Path]] | None:
    """Return the texts of a key with one range or a list of ranges, each with its path; None if the key is absent.

    A text that could not be read is None, and reported.

    :param fill: the function that fills the fields of a text.
    """
    value, path, report = section.value(key, lists=True), section.path + (key,), section.report
    if value is None:
        return None
    if not isinstance(value, Sequence):
        text = text_of(value, path, report)
        return [(text and fill(text, path), path)]
    if not value.items:
        report.add(file_rules.EMPTY, path, "%s is empty" % key, "write one or more ranges, or remove the key")
    if len(value.items) > MAX_RANGES:
        message = "%d ranges; the maximum is %d" % (len(value.items), MAX_RANGES)
        report.add(file_rules.RANGE, path, message, "write fewer ranges, and the addresses to exclude in taken")
        return [(None, path)]
    texts: list[tuple[str | None, Path]] = []
    for at, item in enumerate(value.items):
        text = text_of(item, path + (at,), report)
        texts.append((text and fill(text, path + (at,)), path + (at,)))
    return texts


def read_ranges(
    section: Section, key: str, subnet: Network, fill: t.Callable[[str, Path], str | None]
) -> Ranges | None:
    """Return the ranges of a key; None if the key is absent, or if one could not be read, which is reported."""
    texts = read_texts(section, key, fill)
    ranges = [None if text is None else read_range(text, path, subnet, section.report) for text, path in texts or ()]
    parts = tuple(part for part in ranges if part is not None)
    return Ranges(parts) if parts and len(parts) == len(ranges) else None


REVERSED_RANGE = rule(
    "RY308 reversed-range: Range that ends before it begins",
    example_file.rails("subnet: 172.16.11.0/24, gateway: .254, pods: .200-.1, hosts: .201-.253"),
    example_file.RAILS,
)


def read_range(text: str, path: Path, subnet: Network, report: Report) -> Range | None:
    """Return a range, whose addresses may be in a short form for the subnet; None for an invalid text, which is
    reported."""
    if _other_family(text, subnet.bits, path, report):
        return None
    parsed = parse_range(text, subnet)
    if parsed is None:
        form = "first-last, such as %s" % _FORMS[subnet.bits][2]
        wide = re.match(r"\.([0-9]{1,9})-\.([0-9]{1,9})\Z", text.replace(" ", ""))
        if wide:
            form = "offsets from the network address: +%d-+%d" % (int(wide.group(1)), int(wide.group(2)))
        if "," in text:
            form = "the ranges as a list: [%s]" % ", ".join(text.replace(",", " ").split())
        _report_invalid(text, path, form, report)
        return None
    first, last = parsed
    if first > last:
        message = "%s comes after %s" % (show(first, subnet.bits), show(last, subnet.bits))
        remedy = "write %s" % Range(last, first, subnet.bits)
        start, end = first & subnet.size - 1, last & subnet.size - 1
        if start <= end and not (subnet.holds(first) and subnet.holds(last)):
            # The short form replaces octets of the network address.
            remedy = "write +%d-+%d, which are offsets from the network address" % (start, end)
        report.add(REVERSED_RANGE, path, message, remedy)
        return None
    return Range(first, last, subnet.bits)


WRONG_FAMILY = rule(
    "RY305 wrong-address-family: Address of the wrong IP family",
    example_file.rails("subnet: fd00:11::/64"),
    'rails: {count: 2, name: "gpu{n:02}", subnet6: "fd00:{n+10}::/64", hosts6: "::c9-::fd"}',
)


def _other_family(text: str, bits: int, path: Path, report: Report) -> bool:
    """Return whether a text has an address of the other family, and report it. ``bits`` 0: both are valid."""
    family = IPV6 if text.count(":") > 1 else IPV4 if text.count(".") > 2 else 0
    if not bits or not family or family == bits:
        return False
    key = next(part for part in reversed(path) if isinstance(part, str))
    right_key = key.rstrip("6") + SUFFIX[family]
    message = "%s is %s, and %s is for %s" % (shown(text), FAMILY[family], shown(key), FAMILY[bits])
    report.add(WRONG_FAMILY, path, message, "set %s instead" % right_key)
    return True


INVALID_ADDRESS = rule(
    "RY301 invalid-address: Invalid address",
    example_file.rails("subnet: 172.16.11.0/24, gateway: 172.16.11.254/24, hosts: .201-.253"),
    example_file.RAILS,
)


def _report_invalid(text: str, path: Path, form: str, report: Report) -> None:
    report.add(INVALID_ADDRESS, path, "invalid value: %s" % shown(text), "write %s" % form)

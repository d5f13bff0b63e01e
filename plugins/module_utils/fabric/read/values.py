# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Values that several sections of a fabric file have."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.fabric import names
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.addresses import (
    IPV4,
    IPV6,
    Network,
    Range,
    bits_of,
    network,
    parse_address,
    parse_network,
    parse_range,
    show,
)
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.attachments import ETHERNET, INFINIBAND
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.finding import Path, Report, Rule, shown
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.model import Setting, VfSettings
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.rules import addresses as address_rules
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.rules import file as file_rules
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.section import Section

MAX_LABEL = 40
# NVIDIA documents 127 as the most VFs a port can have.
MAX_VFS = 127
_MTU = {ETHERNET: (576, 9978), INFINIBAND: (576, 65520)}
_MAX_RATE = 1000 * 1000
_LABEL_REMEDY = "use lower-case letters, digits and hyphens, at most %d, a letter or digit first and last"
_FORMS = {
    IPV4: ("172.16.11.0/24", "172.16.11.254 or .254", "172.16.11.1-172.16.11.200 or .1-.200"),
    IPV6: ("fd00:11::/64", "fd00:11::fe or ::fe", "fd00:11::1-fd00:11::ff or ::1-::ff"),
}
_FAMILY = {IPV4: "IPv4", IPV6: "IPv6"}


def filled(section: Section, report: Report, what: str) -> bool:
    """Whether a section that needs entries has some."""
    if not section.mapping.entries:
        report.add(file_rules.EMPTY, section.path, "%s is empty" % section.path[-1], "describe %s" % what)
    return bool(section.mapping.entries)


def label(text: str, path: Path, rule: Rule, what: str, report: Report, limit: int = MAX_LABEL) -> None:
    if not names.label(text, limit):
        report.add(rule, path, "%s is no name for %s" % (shown(text), what), _LABEL_REMEDY % limit)


def read_mtu(link_layer: str | None, section: Section, required: str = "") -> int | None:
    low, high = _MTU[link_layer or INFINIBAND]
    return section.number("mtu", low, high, "bytes", required)


def read_vfs(section: Section) -> VfSettings:
    vfs = section.section("vfs")
    if not vfs:
        return {}
    values = {
        "count": vfs.number("count", 0, MAX_VFS, "VFs"),
        "vlan": vfs.number("vlan", 0, 4094),
        "qos": vfs.number("qos", 0, 7),
        "trust": vfs.flag("trust"),
        "spoofchk": vfs.flag("spoofchk"),
        "link_state": vfs.choice("link_state", ("auto", "enable", "disable")),
        "min_tx_rate": vfs.number("min_tx_rate", 0, _MAX_RATE, "Mb/s"),
        "max_tx_rate": vfs.number("max_tx_rate", 0, _MAX_RATE, "Mb/s"),
    }
    vfs.done()
    return {key: Setting(value, vfs.path + (key,)) for key, value in values.items() if vfs.has(key)}


def template(
    text: str, path: Path, fields: t.Collection[str], texts: t.Collection[str], report: Report
) -> names.Template | None:
    """A text with fields; None, reported, for one with a field that is none."""
    try:
        return names.Template(text, fields, texts)
    except names.BadTemplate as error:
        message = "%s has a part that is no template" % shown(text)
        known = ["{%s}" % each for each in list(fields) + list(texts)]
        remedy = "write %s, numbers also as {n+10} or {n:02} (found %s)" % (" ".join(known), shown(str(error)))
        report.add(file_rules.TEMPLATE, path, message, remedy)
        return None


def read_network(text: str, path: Path, report: Report, bits: int = 0) -> Network | None:
    """A network of a family; of either for ``bits`` 0."""
    if _other_family(text, bits, path, report):
        return None
    bits = bits or bits_of(text)
    found = parse_network(text, bits)
    if found is None:
        message = "%s is not a network" % shown(text)
        report.add(address_rules.NETWORK, path, message, "write it as address/prefix, such as %s" % _FORMS[bits][0])
        return None
    address, prefix = found
    net = network(address, prefix, bits)
    if net.first != address:
        message = "%s is an address in %s, not a network" % (text, net)
        report.add(address_rules.HOST_BITS, path, message, "write %s" % net)
    return net


def read_address(text: str, path: Path, subnet: Network, report: Report) -> int | None:
    if _other_family(text, subnet.bits, path, report):
        return None
    address = parse_address(text, subnet)
    if address is None:
        _no_address(text, path, "an address, such as %s" % _FORMS[subnet.bits][1], report)
    return address


def read_range(text: str, path: Path, subnet: Network, report: Report) -> Range | None:
    if _other_family(text, subnet.bits, path, report):
        return None
    found = parse_range(text, subnet)
    if found is None:
        _no_address(text, path, "first-last, such as %s" % _FORMS[subnet.bits][2], report)
        return None
    first, last = found
    if first > last:
        message = "%s comes after %s" % (show(first, subnet.bits), show(last, subnet.bits))
        report.add(address_rules.BACKWARDS, path, message, "write %s" % Range(last, first, subnet.bits))
        return None
    return Range(first, last, subnet.bits)


def _other_family(text: str, bits: int, path: Path, report: Report) -> bool:
    """Whether a text is meant for the other family; what is none at all says no."""
    meant = IPV6 if text.count(":") > 1 else IPV4 if text.count(".") > 2 else 0
    if not bits or not meant or meant == bits:
        return False
    key = str(path[-1])
    right = key.rstrip("6") + ("6" if meant == IPV6 else "")
    message = "%s is %s, and %s is for %s" % (shown(text), _FAMILY[meant], shown(key), _FAMILY[bits])
    report.add(address_rules.FAMILY, path, message, "write it as %s" % right)
    return True


def _no_address(text: str, path: Path, form: str, report: Report) -> None:
    report.add(address_rules.ADDRESS, path, "invalid value: %s" % shown(text), "write %s" % form)

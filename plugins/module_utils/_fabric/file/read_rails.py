# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reader of the sections ``rails`` and ``addresses``: rails, their NICs and planes, and address schemes."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_planner import supernet_problem
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import (
    BLOCK,
    FIRST,
    LAST,
    LINK,
    MODES,
    NONE,
    NUMBERINGS,
    PREFIX,
    RAILS,
    SECOND,
    SUBNET,
    Scheme,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.rail_keys import RailKeys
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_rail_kind import KIND_KEYS, read_kind
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_rail_parts import Part, read_parts
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_units import entries_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_values import (
    filled,
    label,
    read_address,
    read_mtu,
    read_network,
    read_range,
    read_ranges,
    read_texts,
    read_vfs,
    template,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path, Report, rule, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ETHERNET
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.common_networks import set_parts
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    Fabric,
    Rail,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import file_rules, name_syntax
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    IPV6,
    SUFFIX,
    Network,
    Range,
    is_offset,
    nth_subnet,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import Ranges
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Scalar

MAX_RAILS = 64
# Keys of one family. Those of IPv6 end with a 6.
_IPV4_KEYS = ("subnet", "gateway", "pods", "hosts", "node_prefix", "block", "node_aggregate")
_IPV6_KEYS = tuple(key + "6" for key in _IPV4_KEYS)
# Keys of addresses that do not apply to a rail without pods.
_OF_PODS = ("pods", "pods6", "block", "block6")
_COMMON = ("mode", "leaf_end", "host", "taken", "numbering")
# Keys of rails, planes and addresses. The keys of supernets are valid only in addresses.
_KEYS = _IPV4_KEYS + _IPV6_KEYS + _COMMON
_SUPERNET_KEYS = ("supernet", "rail_prefix", "supernet6", "rail_prefix6")
# If one of these keys has a single value, the rails are generated: a rail with that name would have a mapping.
_GENERATOR = ("count", "name", "nics", "planes", "mtu") + tuple(key for key in _KEYS if key != "taken")
# Mode -> the keys that it uses, beside subnet. The planner itself reports unused pods and hosts.
_USED = {
    SUBNET: ("gateway", "pods", "hosts", "taken", "numbering"),
    BLOCK: ("gateway", "pods", "hosts", "taken", "block", "numbering"),
    PREFIX: ("gateway", "pods", "hosts", "taken", "node_prefix", "host", "node_aggregate"),
    LINK: ("pods", "hosts", "taken", "host", "leaf_end", "node_aggregate"),
    NONE: (),
}
QosSection = t.Tuple[Rail, Section]


def read_rails(fabric: Fabric, section: Section, addresses: Section | None, report: Report) -> list[QosSection]:
    """Read the rails. Return the rails with a section ``qos``, which needs the QoS of the fabric first."""
    if not filled(section, report, "each rail, or a generator with count"):
        return []
    reader = _Reader(fabric, section, addresses, report)
    entries = section.mapping.entries
    if any(key in entries and isinstance(entries[key][1], Scalar) and section.has(key) for key in _GENERATOR):
        reader.generated()
    else:
        reader.listed()
    reader.done()
    set_parts(fabric)
    return reader.qos


_RAILS_OF = "addresses: {mode: prefix, node_prefix: 27, supernet: %s, rail_prefix: 16}\nrails: {gpu01: {}, gpu02: {}}\n"

SUBNET_SIZE = rule(
    "RY304 rail-subnet-too-small: Rail subnet too small",
    example_file.rails("subnet: 172.16.11.0/32"),
    example_file.rails("subnet: 172.16.11.0/31, hosts: .0-.1"),
    why="A cable between two nodes needs two addresses: a /31 of IPv4 (RFC 3021) and a /127 of IPv6 (RFC 6164) are"
    " enough, and both of their addresses are usable.",
)

UNUSED_KEY = rule(
    "RY321 key-without-effect: Key without effect in the address mode",
    example_file.rails("subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253, node_prefix: 27"),
    example_file.RAILS,
    why="Each mode has its own keys. A key of another mode has no effect, which is easy to overlook.",
)

SUPERNET_SIZE = rule(
    "RY327 supernet-too-small: Supernet too small for all rails",
    _RAILS_OF % "172.16.0.0/16",
    _RAILS_OF % "172.16.0.0/15",
)

RAIL_NAME = rule(
    "RY202 rail-name: Invalid rail name",
    """
rails:
  GPU_1: {subnet: 172.16.11.0/24, hosts: .201-.253}
profiles:
  hgx:
    ports:
      GPU_1: {netdev: enp11s0f0np0}
""",
    """
rails:
  gpu01: {subnet: 172.16.11.0/24, hosts: .201-.253}
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0}
""",
)


class _Reader:
    """Reads the rails. Call :meth:`listed` or :meth:`generated`, then :meth:`done`."""

    def __init__(self, fabric: Fabric, section: Section, addresses: Section | None, report: Report) -> None:
        self.fabric = fabric
        self.section = section
        self.addresses = addresses
        self.report = report
        # Family -> (supernet, prefix length of a rail's subnet, whether the file has a supernet); read once.
        self._supernets: dict[int, tuple[Network | None, int | None, bool]] = {}
        # Family -> whether the supernet was read as one of which rails have parts.
        self._divided: dict[int, bool] = {}
        # Family -> the highest number of a rail whose subnet is part of the supernet.
        self._highest: dict[int, int] = {}
        # Keys that have an effect on a rail.
        self._used: set[str] = set()
        self.qos: list[QosSection] = []

    def done(self) -> None:
        """Report findings of the section ``addresses``."""
        section = self.addresses
        if section is None:
            return
        for key in _KEYS + _SUPERNET_KEYS:
            section.value(key)
        section.done()
        for bits, most in self._highest.items():
            supernet, prefix, _given = self._supernets[bits]
            problem = supernet_problem(supernet, prefix, most) if supernet and prefix is not None else None
            if problem:
                broken = SUPERNET_SIZE if problem.kind == RAILS else SUBNET_SIZE
                self.report.add(broken, section.path + (problem.key,), problem.message, problem.remedy)
        for bits, suffix in SUFFIX.items():
            key = "rail_prefix" + suffix
            if section.has(key) and self._divided.get(bits) is False:
                message = "%s has no effect with node_aggregate%s" % (key, suffix)
                remedy = "remove it, or remove node_aggregate%s to give each rail one network" % suffix
                self.report.add(UNUSED_KEY, section.path + (key,), message, remedy)
        modes = {rail.mode for rail in self.fabric.rails}
        for key in _KEYS:
            if section.has(key) and key not in self._used and modes and None not in modes:
                where = "the modes of the rails" if len(modes) > 1 else "the mode of the rails"
                self._report_unused(key, section.path + (key,), where)

    def listed(self) -> None:
        """Read rails of which each has an entry, or a range of names."""
        remedy = "add its keys, such as {subnet: 172.16.11.0/24, hosts: .201-.253}"
        known: dict[str, str] = {}
        for pattern, path, names, own in entries_of(self.section, remedy, self.report):
            if len(known) + len(names) > MAX_RAILS:
                self._too_many(len(known) + len(names))
                return
            parts = read_parts(own, self.report) if own else [Part()]
            before = len(self.fabric.rails)
            for place, name in enumerate(names, 1):
                label(name, path, RAIL_NAME, "a rail", self.report)
                if known.setdefault(name, pattern) != pattern:
                    message = "%s is also in %s" % (shown(name), shown(known[name]))
                    self.report.add(RAIL_NAME, path, message, "give every rail one entry")
                    continue
                number = len(known)
                if own is None:
                    self._add(name, number, Part(), path)
                    continue
                for part in parts:
                    fields = {"n": place if names.ranges else number, **part.fields}
                    self._rail(name, number, part, own, fields if names.ranges or part.fields else None)
            if own and len(self.fabric.rails) > before:
                own.done()

    def generated(self) -> None:
        """Read rails that a generator describes."""
        section, report = self.section, self.report
        count = section.number("count", 1, MAX_RAILS, "rails", "set the number of rails") or 0
        text = section.text("name", 'set the names of the rails, such as name: "gpu{n:02}"')
        names = template(text, section.path + ("name",), ("n",), (), report) if text is not None else None
        for key in _GENERATOR + ("taken", "vfs") + KIND_KEYS:
            section.value(key)
        parts = read_parts(section, report)
        if count * len(parts) > MAX_RAILS:
            self._too_many(count * len(parts))
            names = None
        known: set[str] = set()
        for number in range(1, count + 1) if names else ():
            name = names.fill({"n": number}) if names else ""
            if name in known:
                message = "rails %d and %d have the same name %s" % (number - 1, number, shown(name))
                report.add(RAIL_NAME, section.path + ("name",), message, "add {n:02} to the name")
                self.fabric.rails = []
                break
            known.add(name)
            label(name, section.path + ("name",), RAIL_NAME, "a rail", report)
            for part in parts:
                self._rail(name, number, part, section, {"n": number, **part.fields})
        section.done()

    def _too_many(self, count: int) -> None:
        message = "%d rails; the maximum is %d" % (count, MAX_RAILS)
        self.report.add(file_rules.RANGE, self.section.path, message, "write a file for each fabric")

    def _add(self, name: str, number: int, part: Part, path: Path) -> Rail:
        """Add a rail, or a part of it, to the fabric, and return it."""
        own_name = name + ("n%d" % part.nic if part.nics > 1 else "") + ("p%d" % part.plane if part.planes > 1 else "")
        rail = Rail(own_name, len(self.fabric.rails) + 1, path, name, number, part.plane, part.planes)
        rail.nic, rail.nics, rail.device_planes = part.nic, part.nics, part.device_planes
        same = next((each for each in self.fabric.rails if each.name == own_name and each.base != name), None)
        if same:
            message = "%s belongs to %s, and to %s" % (own_name, shown(same.base), shown(name))
            if own_name in (same.base, name):
                whole = same.base if own_name == name else name
                message = "%s is also the name of a NIC or plane of %s" % (shown(own_name), shown(whole))
            self.report.add(RAIL_NAME, path, message, "rename one of the rails")
        self.fabric.rails.append(rail)
        if rail.number > MAX_RAILS:
            self._too_many(rail.number)
        return rail

    def _rail(self, name: str, number: int, part: Part, own: Section, fields: t.Mapping[str, int] | None) -> None:
        """Read a rail, or a part of it. ``own``: the section of the rail."""
        sections = [*part.sections, own]
        rail = self._add(name, number, part, sections[0].path)
        qos = read_kind(self.fabric, rail, own, self.report)
        if qos:
            self.qos.append((rail, qos))
        keys = RailKeys(sections, self.addresses, () if rail.for_pods else _OF_PODS, fields, self.report)
        for key in _KEYS:
            keys.section(key)
        keys.paths.update(rail.paths)
        rail.paths = keys.paths
        mode = keys.choice("mode", MODES)
        if mode == BLOCK and not rail.for_pods and not own.has("mode"):
            mode = SUBNET
        rail.mtu = read_mtu(self.fabric.link_layer_on(rail), own)
        if own.has("mtu"):
            rail.paths["mtu"] = own.path + ("mtu",)
        rail.vfs = read_vfs(own)
        for bits, suffix in SUFFIX.items():
            net = self._network(rail, keys, bits, suffix)
            if net:
                rail.schemes[bits] = self._scheme(keys, mode or SUBNET, net, suffix)
        rail.mode = self._mode(rail, keys, own, mode)
        self._check_unused(rail, sections)
        if rail.mode == NONE:
            rail.schemes = {}
        for section in part.sections:
            section.done()

    def _mode(self, rail: Rail, keys: RailKeys, own: Section, mode: str | None) -> str | None:
        """Return the rail's mode; None if it or a key that it requires is missing or invalid, which is reported.

        :param mode: the mode in the file.
        """
        if mode is None and "mode" in keys.paths:
            return None
        if mode == NONE:
            return NONE
        missing = []
        for bits, suffix in SUFFIX.items():
            family_keys = _IPV6_KEYS if suffix else _IPV4_KEYS
            is_used = any(key in keys.paths for key in family_keys)
            if bits not in rail.schemes and is_used and "subnet" + suffix not in keys.paths:
                missing.append("subnet" + suffix)
        if not rail.schemes and not missing and not any(key in keys.paths for key in ("subnet", "subnet6")):
            if mode is None and self.fabric.link_layer_on(rail) != ETHERNET:
                return NONE
            missing.append("subnet")
        if self.addresses and any(self.addresses.misspelt(key) for key in ("supernet", "supernet6")):
            return None
        for key in missing:
            example = "fd00:11::/64" if key.endswith("6") else "172.16.11.0/24"
            remedy = "set it, such as %s: %s, or set addresses.%s" % (key, example, key.replace("subnet", "supernet"))
            own.value(key, remedy)
        return (mode or SUBNET) if rail.schemes and not missing else None

    def _network(self, rail: Rail, keys: RailKeys, bits: int, suffix: str) -> Network | None:
        """Return the rail's network of a family: its ``subnet``, or its part of the supernet; None if it has none."""
        key = "subnet" + suffix
        text = keys.text(key)
        if key in keys.paths:
            return None if text is None else read_network(text, keys.paths[key], self.report, bits)
        aggregated = "node_aggregate" + suffix in keys.paths
        supernet, prefix, in_file = self._supernet(bits, suffix, not aggregated)
        if aggregated and in_file:
            # Each rail has a part of each node's aggregate, not of the supernet.
            keys.paths[key] = ("addresses", "supernet" + suffix)
            return supernet
        if in_file:
            keys.paths[key] = ("addresses", "supernet" + suffix)
        if not supernet or prefix is None:
            return None
        self._highest[bits] = rail.number
        return nth_subnet(supernet, prefix, rail.number)

    def _supernet(self, bits: int, suffix: str, divided: bool) -> tuple[Network | None, int | None, bool]:
        """Return the supernet of a family, the prefix length of a rail's part, and whether the file has a supernet.

        :param divided: whether rails have parts of the supernet, so that ``rail_prefix`` is required.
        """
        if bits not in self._supernets or divided > self._divided[bits]:
            self._divided[bits] = divided
            self._supernets[bits] = self._read_supernet(bits, suffix, divided)
        return self._supernets[bits]

    def _read_supernet(self, bits: int, suffix: str, divided: bool) -> tuple[Network | None, int | None, bool]:
        section = self.addresses
        if not section:
            return None, None, False
        for key in _SUPERNET_KEYS:
            section.value(key)
        key = "supernet" + suffix
        text, in_file = section.text(key), section.has(key)
        net = read_network(text, section.path + (key,), self.report, bits) if text else None
        remedy = "set the prefix length of each rail's part of %s, such as %d" % (key, 64 if suffix else 24)
        prefix = section.number("rail_prefix" + suffix, 1, bits - 1, "bits", remedy if in_file and divided else "")
        return net, prefix, in_file

    def _scheme(self, keys: RailKeys, mode: str, net: Network, suffix: str) -> Scheme:
        gateway: int | str | None = keys.text("gateway" + suffix)
        if gateway is not None and gateway not in (FIRST, LAST, NONE):
            gateway = read_address(str(gateway), keys.paths["gateway" + suffix], net, self.report)
        aggregate = keys.number("node_aggregate" + suffix, 1, net.bits - 1)
        ranges: dict[str, Ranges | None] = {}
        for key in ("pods" + suffix, "hosts" + suffix):
            section = keys.section(key)
            ranges[key] = read_ranges(section, key, net, keys.fill) if section else None
        return Scheme(
            mode,
            net,
            gateway,
            ranges["pods" + suffix],
            ranges["hosts" + suffix],
            keys.number("node_prefix" + suffix, 1, net.bits),
            keys.number("block" + suffix, 1, 1 << 16),
            keys.choice("host", (FIRST, LAST, NONE)) if _used("host", mode) else None,
            keys.choice("leaf_end", (FIRST, SECOND)) if _used("leaf_end", mode) else None,
            self._taken(keys, net),
            aggregate if _used("node_aggregate", mode) else None,
            keys.choice("numbering", NUMBERINGS) if _used("numbering", mode) else None,
        )

    def _taken(self, keys: RailKeys, net: Network) -> tuple[tuple[str, Range], ...]:
        """Return the taken ranges of the network's family, with their names."""
        section = keys.section("taken")
        own = section.section("taken") if section else None
        taken = []
        for name in own.mapping.entries if own else ():
            for text, path in (read_texts(own, name, keys.fill) if own else None) or ():
                # Addresses belong to one family; offsets apply to each family of the rail.
                if text is None or not (is_offset(text) or (text.count(":") > 1) == (net.bits == IPV6)):
                    continue
                part = read_range(text, path, net, self.report)
                if part:
                    taken.append((name, part))
        return tuple(taken)

    def _check_unused(self, rail: Rail, sections: t.Sequence[Section]) -> None:
        """Report keys of the rail without effect in its mode."""
        if rail.mode is None:
            return
        for key, path in rail.paths.items():
            if _used(key, rail.mode):
                self._used.add(key)
            elif any(section.has(key) for section in sections):
                near = name_syntax.nearest(key, [used for used in _USED[rail.mode] if used not in rail.paths])
                self._report_unused(key, path, "the mode %s%s" % (rail.mode, name_syntax.did_you_mean(near)))

    def _report_unused(self, key: str, path: Path, where: str) -> None:
        modes = [mode for mode in MODES if _used(key, mode)]
        message = "%s has no effect in %s" % (key, where)
        self.report.add(UNUSED_KEY, path, message, "remove it, or set the mode %s" % " or ".join(modes))


def _used(key: str, mode: str) -> bool:
    """Return whether a rail's key has an effect in a mode. The planner itself reports unused pods and hosts."""
    ipv4_key = key[:-1] if key.endswith("6") else key
    return key in ("mode", "mtu", *KIND_KEYS) or ipv4_key in _USED[mode] or (ipv4_key == "subnet" and mode != NONE)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The sections ``rails`` and ``addresses``: rails, their planes, and how their addresses are given out."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_planner import (
    BLOCK,
    FIRST,
    LAST,
    LINK,
    MODES,
    NONE,
    PREFIX,
    RAILS,
    SECOND,
    SUBNET,
    Scheme,
    supernet_problem,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.catalog import (
    address_rules,
    file_rules,
    name_rules,
    rail_rules,
)
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
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path, Report, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ETHERNET
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric, Rail
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import name_syntax
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import (
    IPV4,
    IPV6,
    Network,
    Range,
    cut,
    is_offset,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import Ranges
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Scalar

MAX_RAILS = 64
PLANES = (1, 2, 4)
# Keys of a family; IPv6 has them with a 6 at the end.
_OF_FAMILY = ("subnet", "gateway", "pods", "hosts", "node_prefix", "block")
_SIX = tuple(key + "6" for key in _OF_FAMILY)
_COMMON = ("mode", "leaf_end", "host", "taken")
# What a rail, a plane of it, and addresses may have. Only addresses have supernet and rail_prefix.
_KEYS = _OF_FAMILY + _SIX + _COMMON
# Where one of these has a single value, the rails are generated: a rail of that name would have a mapping.
_GENERATOR = ("count", "name", "planes", "mtu") + tuple(key for key in _KEYS if key != "taken")
# Keys that a mode uses, beside subnet. The planner itself reports findings about pods and hosts.
_USED = {
    SUBNET: ("gateway", "pods", "hosts", "taken"),
    BLOCK: ("gateway", "pods", "hosts", "taken", "block"),
    PREFIX: ("gateway", "pods", "hosts", "taken", "node_prefix", "host"),
    LINK: ("pods", "hosts", "taken", "host", "leaf_end"),
    NONE: (),
}


class _Words:
    """What the sections say of one rail: the plane's word before the rail's, and both before that of ``addresses``.

    Texts of generated rails and of rails with planes are filled in with their numbers.
    """

    def __init__(self, sections: t.Sequence[Section], numbers: t.Mapping[str, int] | None, report: Report) -> None:
        self._sections = sections
        self._numbers = numbers
        self._report = report
        self.paths: dict[str, Path] = {}

    def section(self, key: str) -> Section | None:
        """The section that has the key. All sections know the key from now on."""
        for section in self._sections:
            section.value(key)
        found = next((section for section in self._sections if section.has(key)), None)
        if found:
            self.paths[key] = found.path + (key,)
        return found

    def text(self, key: str) -> str | None:
        section = self.section(key)
        text = section.text(key) if section else None
        return text if text is None or section is None else self.fill(text, section.path + (key,))

    def number(self, key: str, low: int, high: int) -> int | None:
        section = self.section(key)
        return section.number(key, low, high) if section else None

    def choice(self, key: str, choices: t.Sequence[str]) -> str | None:
        section = self.section(key)
        return section.choice(key, choices) if section else None

    def fill(self, text: str, path: Path) -> str | None:
        if self._numbers is None:
            return text
        form = template(text, path, tuple(self._numbers), (), self._report)
        return form.fill(self._numbers) if form else None


def read_rails(fabric: Fabric, section: Section, addresses: Section | None, report: Report) -> None:
    if not filled(section, report, "each rail, or a generator with count"):
        return
    reader = _Reader(fabric, section, addresses, report)
    entries = section.mapping.entries
    if any(key in entries and isinstance(entries[key][1], Scalar) and section.has(key) for key in _GENERATOR):
        reader.generated()
    else:
        reader.listed()
    reader.done()


class _Reader:
    def __init__(self, fabric: Fabric, section: Section, addresses: Section | None, report: Report) -> None:
        self.fabric = fabric
        self.section = section
        self.addresses = addresses
        self.report = report
        # Family -> the network that rails' subnets are cut from, and how long they are; read once.
        self._supernets: dict[int, tuple[Network | None, int | None, bool]] = {}
        # Family -> the highest rail whose subnet is cut from the supernet.
        self._cut: dict[int, int] = {}
        # Keys of addresses that mean something on some rail.
        self._used: set[str] = set()

    def done(self) -> None:
        section = self.addresses
        if section is None:
            return
        for key in _KEYS + ("supernet", "rail_prefix", "supernet6", "rail_prefix6"):
            section.value(key)
        section.done()
        for bits, most in self._cut.items():
            supernet, prefix, _given = self._supernets[bits]
            problem = supernet_problem(supernet, prefix, most) if supernet and prefix is not None else None
            if problem:
                rule = address_rules.SUPERNET if problem.kind == RAILS else address_rules.SUBNET_SIZE
                self.report.add(rule, section.path + (problem.key,), problem.message, problem.remedy)
        modes = {rail.mode for rail in self.fabric.rails}
        for key in _KEYS:
            if section.has(key) and key not in self._used and modes and None not in modes:
                self._idle(
                    key, section.path + (key,), "the modes of the rails" if len(modes) > 1 else "the rails' mode"
                )

    def listed(self) -> None:
        entries = self.section.mapping.entries
        if len(entries) > MAX_RAILS:
            self._too_many(len(entries))
            return
        for number, name in enumerate(entries, 1):
            label(name, self.section.path + (name,), name_rules.RAIL_NAME, "a rail", self.report)
            own = self.section.section(name, "describe the rail: {subnet: 172.16.11.0/24, hosts: .201-.253}")
            if own is None:
                self._add(name, number, 1, 1, self.section.path + (name,))
                continue
            planes = self._planes(own)
            for at, more in enumerate(planes, 1):
                numbers = {"n": number, "p": at} if own.has("planes") else None
                self._rail(name, number, at, len(planes), [more, own] if more else [own], numbers)
            own.done()

    def generated(self) -> None:
        section, report = self.section, self.report
        count = section.number("count", 1, MAX_RAILS, "rails", "say how many rails there are")
        text = section.text("name", "name the rails, such as name: gpu{n:02}, in quotes")
        form = template(text, section.path + ("name",), ("n",), (), report) if text is not None else None
        for key in _GENERATOR + ("taken", "vfs"):
            section.value(key)
        planes = self._planes(section)
        if (count or 0) * len(planes) > MAX_RAILS:
            self._too_many((count or 0) * len(planes))
            form = None
        known: set[str] = set()
        for number in range(1, (count or 0) + 1) if form else ():
            name = form.fill({"n": number}) if form else ""
            if name in known:
                message = "rails %d and %d would both be %s" % (number - 1, number, shown(name))
                report.add(name_rules.RAIL_NAME, section.path + ("name",), message, "put {n:02} into the name")
                self.fabric.rails = []
                break
            known.add(name)
            label(name, section.path + ("name",), name_rules.RAIL_NAME, "a rail", report)
            for at, more in enumerate(planes, 1):
                numbers = {"n": number, "p": at} if section.has("planes") else {"n": number}
                self._rail(name, number, at, len(planes), [more, section] if more else [section], numbers)
        section.done()

    def _too_many(self, count: int) -> None:
        message = "%d rails; %d are the most" % (count, MAX_RAILS)
        self.report.add(file_rules.RANGE, self.section.path, message, "describe one fabric a file")

    def _planes(self, section: Section) -> list[Section | None]:
        """A section a plane, None where a plane has no words of its own."""
        section.value("planes")
        path = section.path + ("planes",)
        if not section.has("planes"):
            return [None]
        found: list[Section | None] = []
        items = section.items("planes")
        if items is not None:
            found = items
        else:
            text = section.text("planes")
            if text is None:
                return [None]
            found = [None] * int(text) if text in ("1", "2", "4") else []
        if len(found) not in PLANES:
            number = str(len(found)) if items is not None else shown(section.text("planes") or "")
            message = "%s is not a number of planes" % number
            self.report.add(rail_rules.PLANES, path, message, "write 1, 2 or 4, or a list of as many planes")
            return [None]
        return found

    def _add(self, name: str, number: int, plane: int, planes: int, path: Path) -> Rail:
        full = "%sp%d" % (name, plane) if planes > 1 else name
        rail = Rail(full, len(self.fabric.rails) + 1, path, name, number, plane, planes)
        self.fabric.rails.append(rail)
        if rail.number > MAX_RAILS:
            self._too_many(rail.number)
        return rail

    def _rail(
        self,
        name: str,
        number: int,
        plane: int,
        planes: int,
        sections: list[Section],
        numbers: t.Mapping[str, int] | None,
    ) -> None:
        own = sections[-1]
        rail = self._add(name, number, plane, planes, own.path if len(sections) == 1 else sections[0].path)
        words = _Words(sections + ([self.addresses] if self.addresses else []), numbers, self.report)
        for key in _KEYS:
            words.section(key)
        rail.paths = words.paths
        mode = words.choice("mode", MODES)
        rail.mtu = read_mtu(self.fabric.link_layer, own)
        if own.has("mtu"):
            rail.paths["mtu"] = own.path + ("mtu",)
        rail.vfs = read_vfs(own)
        for bits, six in ((IPV4, ""), (IPV6, "6")):
            net = self._network(rail, words, bits, six)
            if net:
                rail.schemes[bits] = self._scheme(words, mode or SUBNET, net, six)
        rail.mode = self._mode(rail, words, own, mode)
        self._unused(rail, sections)
        if rail.mode == NONE:
            rail.schemes = {}
        if len(sections) > 1:
            sections[0].done()

    def _mode(self, rail: Rail, words: _Words, own: Section, mode: str | None) -> str | None:
        """The rail's mode; None where what it needs is missing and has been reported."""
        if mode is None and "mode" in words.paths:
            return None
        if mode == NONE:
            return NONE
        wanted = []
        for bits, six in ((IPV4, ""), (IPV6, "6")):
            words_of_it = [key for key in words.paths if key in _OF_FAMILY] if not six else []
            words_of_it += [key for key in words.paths if key in _SIX] if six else []
            if bits not in rail.schemes and words_of_it and "subnet" + six not in words.paths:
                wanted.append("subnet" + six)
        if not rail.schemes and not wanted and not any(key in words.paths for key in ("subnet", "subnet6")):
            if mode is None and self.fabric.link_layer != ETHERNET:
                return NONE
            wanted.append("subnet")
        if self.addresses and any(self.addresses.misspelt(key) for key in ("supernet", "supernet6")):
            return None
        for key in wanted:
            example = "fd00:11::/64" if key.endswith("6") else "172.16.11.0/24"
            remedy = "write it, such as %s: %s, or cut the rails' from addresses.supernet" % (key, example)
            own.value(key, remedy)
        return (mode or SUBNET) if rail.schemes and not wanted else None

    def _network(self, rail: Rail, words: _Words, bits: int, six: str) -> Network | None:
        text = words.text("subnet" + six)
        if "subnet" + six in words.paths:
            return None if text is None else read_network(text, words.paths["subnet" + six], self.report, bits)
        supernet, prefix, given = self._supernet(bits, six)
        if given:
            words.paths["subnet" + six] = ("addresses", "supernet" + six)
        if not supernet or prefix is None:
            return None
        self._cut[bits] = rail.number
        return cut(supernet, prefix, rail.number)

    def _supernet(self, bits: int, six: str) -> tuple[Network | None, int | None, bool]:
        """The supernet of a family, the prefix length of a rail's part, and whether the file has a supernet at all."""
        if bits in self._supernets:
            return self._supernets[bits]
        found: tuple[Network | None, int | None, bool] = (None, None, False)
        section = self.addresses
        if section:
            for key in ("supernet", "rail_prefix", "supernet6", "rail_prefix6"):
                section.value(key)
            text = section.text("supernet" + six)
            net = read_network(text, section.path + ("supernet" + six,), self.report, bits) if text else None
            given = section.has("supernet" + six)
            remedy = "say how long each rail's part of supernet%s is, such as %d" % (six, 64 if six else 24)
            prefix = section.number("rail_prefix" + six, 1, bits - 1, "bits", remedy if given else "")
            found = (net, prefix, given)
        self._supernets[bits] = found
        return found

    def _scheme(self, words: _Words, mode: str, net: Network, six: str) -> Scheme:
        gateway: int | str | None = words.text("gateway" + six)
        if gateway is not None and gateway not in (FIRST, LAST, NONE):
            gateway = read_address(str(gateway), words.paths["gateway" + six], net, self.report)
        ranges: dict[str, Ranges | None] = {}
        for key in ("pods" + six, "hosts" + six):
            section = words.section(key)
            ranges[key] = read_ranges(section, key, net, words.fill) if section else None
        return Scheme(
            mode,
            net,
            gateway,
            ranges["pods" + six],
            ranges["hosts" + six],
            words.number("node_prefix" + six, 1, net.bits),
            words.number("block" + six, 1, 1 << 16),
            words.choice("host", (FIRST, LAST, NONE)) if _used("host", mode) else None,
            words.choice("leaf_end", (FIRST, SECOND)) if _used("leaf_end", mode) else None,
            self._taken(words, net),
        )

    def _taken(self, words: _Words, net: Network) -> tuple[tuple[str, Range], ...]:
        section = words.section("taken")
        own = section.section("taken") if section else None
        found = []
        for name in own.mapping.entries if own else ():
            for text, path in (read_texts(own, name, words.fill) if own else None) or ():
                # Addresses are of one family, and offsets of each that the rail has.
                if text is None or not (is_offset(text) or (text.count(":") > 1) == (net.bits == IPV6)):
                    continue
                held = read_range(text, path, net, self.report)
                if held:
                    found.append((name, held))
        return tuple(found)

    def _unused(self, rail: Rail, sections: t.Sequence[Section]) -> None:
        """Keys of the rail that say nothing in its mode."""
        if rail.mode is None:
            return
        for key, path in rail.paths.items():
            if _used(key, rail.mode):
                self._used.add(key)
            elif any(section.has(key) for section in sections):
                near = name_syntax.nearest(key, [each for each in _USED[rail.mode] if each not in rail.paths])
                self._idle(key, path, "the mode %s%s" % (rail.mode, name_syntax.did_you_mean(near)))

    def _idle(self, key: str, path: Path, where: str) -> None:
        modes = [mode for mode in MODES if _used(key, mode)]
        message = "%s has no effect in %s" % (key, where)
        self.report.add(address_rules.UNUSED, path, message, "take it out, or take the mode %s" % " or ".join(modes))


def _used(key: str, mode: str) -> bool:
    """Whether a rail's key has an effect in a mode. The planner itself reports findings about pods and hosts."""
    plain = key[:-1] if key.endswith("6") else key
    return key in ("mode", "mtu") or plain in _USED[mode] or (plain == "subnet" and mode != NONE)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Names: what each kind may look like, host ranges, templates of generated rails, and misspelt words."""

from __future__ import annotations

import difflib
import re
import string
import sys
import typing as t

_LABEL = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
LABEL = re.compile(_LABEL + r"\Z")
NODE = re.compile(r"(?=.{1,253}\Z)(?:%s\.)*%s\Z" % ((r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?",) * 2))
HOST = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# IFNAMSIZ holds 15 bytes and a zero; the kernel refuses the slash, the colon and white space, and fills in a number for
# %d. lo is the loopback; all and default mean every netdev in sysctl; bonding_masters is a file beside netdevs.
NETDEV = re.compile(r"(?!(?:\.{1,2}|lo|all|default|bonding_masters)\Z)[!-$&-.0-9;-~]{1,15}\Z")
# What the kernel calls netdevs before udev names them: a rename to such a name collides with another card's.
NETDEV_OF_KERNEL = re.compile(r"(?:eth|ib|usb|wlan|wwan)\d+\Z")
# IB_DEVICE_NAME_MAX is 64 with the zero; the rest is what udev and verbs tools take without quoting.
RDMA = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}\Z")
# What drivers call their devices: a rename to such a name collides once cards are found in another order.
RDMA_OF_KERNEL = re.compile(
    r"(?:mlx[45]|mthca|bnxt_re|bng_re|ionic|irdma|i40iw|cxgb4|ocrdma|hfi1|qib|qedr|efa|hns|mana|erdma|usnic|vmw_pvrdma"
    r"|rxe|siw)_?\d+\Z"
)
MAC = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}\Z")
# What a slot's label or a card's serial number may hold: what SMBIOS and VPD print.
TOKEN = re.compile(r"[!-~](?:[ -~]{0,62}[!-~])?\Z")
PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([01][0-9a-f])\.([0-7])\Z")

_RANGE = re.compile(r"\[([0-9]+|[A-Za-z]):([0-9]+|[A-Za-z])(?::([0-9]+))?\]")
_ZEROS = re.compile(r"(?<![0-9])0+(?=[0-9])")
_FIELD = re.compile(r"\{([^{}]*)\}")
_COUNTER = re.compile(r"([a-z])([+-][0-9]{1,9})?(?::0([1-9]))?\Z")


def label(text: str, limit: int) -> bool:
    """A lower-case DNS label of at most ``limit`` characters: safe in Kubernetes, in file names and in DNS."""
    return len(text) <= limit and bool(LABEL.match(text))


def pci(text: str) -> str | None:
    """A PCI address with its domain and in lower case, as sysfs spells it."""
    found = PCI.match(text.lower())
    return "%s:%s:%s.%s" % ((found.group(1) or "0000",) + found.groups()[1:]) if found else None


def mac(text: str) -> str | None:
    """A unicast MAC address in lower case with colons; None for anything else."""
    plain = text.lower().replace("-", ":")
    return plain if MAC.match(plain) and not int(plain[:2], 16) & 1 and plain != "00:00:00:00:00:00" else None


def nearest(text: str, choices: t.Iterable[str]) -> str | None:
    """The choice that ``text`` was probably meant to be."""
    known = list(choices)
    # gpu1 is gpu01, and not gpu16 or gpu10, which have as many characters in common with it.
    same = [each for each in known if _unpadded(each) == _unpadded(text[:64].lower())]
    close = same or difflib.get_close_matches(text[:64].lower(), known, n=1, cutoff=0.6)
    return close[0] if close else None


def _unpadded(text: str) -> str:
    """A name with its numbers as they count, without zeros before them."""
    return _ZEROS.sub("", text)


def did_you_mean(near: str | None) -> str:
    """The question to put after a message."""
    return " (did you mean %s?)" % near if near else ""


def trailing_number(name: str) -> int | None:
    """The number at the end of a node's name, without its domain."""
    found = re.search(r"([0-9]{1,9})\Z", name.partition(".")[0])
    return int(found.group(1)) if found else None


class BadRange(ValueError):
    """A host range that cannot be expanded."""


class HostRange:
    """A text with Ansible's host ranges: ``ai-[01:16]``, ``rack[a:c]-[1:8:2]``; the last range counts fastest.

    :raises BadRange: for an invalid range, with the reason as message.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts: list[str] = []
        self._ranges: list[range] = []
        # The width of a numeral, or None for letters.
        self._widths: list[int | None] = []
        end = 0
        for found in _RANGE.finditer(text):
            self._parts.append(text[end : found.start()])
            self._add(*found.groups())
            end = found.end()
        self._parts.append(text[end:])
        for part in self._parts:
            if "[" in part or "]" in part:
                raise BadRange("a range is [first:last] or [first:last:step], of numbers or of letters")

    def __len__(self) -> int:
        count = 1
        for each in self._ranges:
            count *= len(each)
        return min(count, sys.maxsize)  # more than that, len() cannot say

    @property
    def ranges(self) -> int:
        return len(self._ranges)

    @property
    def last(self) -> int:
        """How many values the last range has; 1 without ranges."""
        return len(self._ranges[-1]) if self._ranges else 1

    def __iter__(self) -> t.Iterator[str]:
        return (text for text, _number in self.numbered())

    def numbered(self) -> t.Iterator[tuple[str, int | None]]:
        """Each text, and the number that the last range put into it where that was a number."""
        return self._expand(0, self._parts[0], None)

    def _add(self, first: str, last: str, step: str | None) -> None:
        size = int(step) if step else 1
        if first.isdigit() != last.isdigit():
            raise BadRange("[%s:%s] mixes numbers and letters" % (first, last))
        if not size:
            raise BadRange("the step of [%s:%s:0] is nothing" % (first, last))
        if max(len(first), len(last)) > 9:
            raise BadRange("[%s:%s] has more than nine digits" % (first, last))
        if first.isdigit():
            low, high = int(first), int(last)
            width = len(first) if first.startswith("0") and len(first) > 1 else 0
            if width and len(last) != width:
                raise BadRange("%s and %s are not equally long" % (first, last))
            self._widths.append(width)
        else:
            low, high = string.ascii_letters.index(first), string.ascii_letters.index(last)
            self._widths.append(None)
        if low > high:
            raise BadRange("%s comes after %s" % (first, last))
        self._ranges.append(range(low, high + 1, size))

    def _expand(self, level: int, head: str, number: int | None) -> t.Iterator[tuple[str, int | None]]:
        if level == len(self._ranges):
            yield head, number
            return
        width = self._widths[level]
        for value in self._ranges[level]:
            text = string.ascii_letters[value] if width is None else "%0*d" % (width, value)
            last = None if width is None else value
            yield from self._expand(level + 1, head + text + self._parts[level + 1], last)


class BadTemplate(ValueError):
    """A template with an invalid field."""


class Template:
    """A text with fields: ``gpu{n:02}`` for n = 3 is ``gpu03``, ``172.16.{n+10}.0/24`` is ``172.16.13.0/24``.

    A field is a name, for numbers with what to add to it (``{n+10}``) and the digits to fill up to (``{n:02}``).

    :param fields: the names that it may have: ``n p`` and so on for numbers, those in ``texts`` for texts.
    :raises BadTemplate: with the invalid field.
    """

    def __init__(self, text: str, fields: t.Collection[str] = ("n",), texts: t.Collection[str] = ()) -> None:
        self.text = text
        # For the operator %: the values are put in by one step, at tens of thousands of ports.
        self._form = ""
        self._offsets: list[tuple[str, int]] = []
        self.fields: set[str] = set()
        end = 0
        for found in _FIELD.finditer(text):
            self._form += self._literal(text[end : found.start()])
            self._form += self._field(found.group(0), found.group(1), fields, texts)
            end = found.end()
        self._form += self._literal(text[end:])

    def fill(self, values: t.Mapping[str, t.Any]) -> str:
        """The text with the values of at least its fields."""
        if not self._offsets:
            return self._form % values
        more = dict(values)
        for name, offset in self._offsets:
            more["%s%+d" % (name, offset)] = values[name] + offset
        return self._form % more

    def _literal(self, text: str) -> str:
        if "{" in text or "}" in text:
            raise BadTemplate(self.text)
        return text.replace("%", "%%")

    def _field(self, whole: str, inner: str, fields: t.Collection[str], texts: t.Collection[str]) -> str:
        if inner in texts:
            self.fields.add(inner)
            return "%%(%s)s" % inner
        counter = _COUNTER.match(inner)
        if not counter or counter.group(1) not in fields:
            raise BadTemplate(whole)
        name, offset = counter.group(1), int(counter.group(2) or 0)
        self.fields.add(name)
        if offset:
            self._offsets.append((name, offset))
            name = "%s%+d" % (name, offset)
        return "%%(%s)0%dd" % (name, int(counter.group(3) or 0)) if counter.group(3) else "%%(%s)d" % name


class RailTemplates:
    """A template for each rail, filled like a :class:`Template` by values that name the rail.

    :param of: the rail's name -> its template.
    """

    def __init__(self, of: t.Mapping[str, Template]) -> None:
        self._of = of
        self.fields = {each for template in of.values() for each in template.fields}

    @property
    def text(self) -> dict[str, str]:
        return {rail: template.text for rail, template in self._of.items()}

    def fill(self, values: t.Mapping[str, t.Any]) -> str:
        # of a rail without a template lint has a finding
        template = self._of.get(values.get("rail", ""))
        return template.fill(values) if template else str(values.get("rail", ""))


def fill(template: str, number: int) -> str:
    """:class:`Template` for a rail's number alone."""
    return Template(template).fill({"n": number})

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names: the syntax of each kind, host ranges, templates of generated names, and suggestions for misspelt words."""

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
# Maximum length of a netdev's name: IFNAMSIZ without the zero.
NETDEV_MAX = 15
# The kernel refuses slash, colon and white space, and replaces %d by a
# number. lo is the loopback; all and default mean every netdev in sysctl; bonding_masters is a file beside the netdevs.
NETDEV = re.compile(r"(?!(?:\.{1,2}|lo|all|default|bonding_masters)\Z)[!-$&-.0-9;-~]{1,%d}\Z" % NETDEV_MAX)
# Names that only IPoIB interfaces get from the kernel and udev: ib0, ibp24s0, ibs1, ibo1.
NETDEV_OF_IPOIB = re.compile(r"ib(?:[0-9]|[opsP][0-9])")
# Names that the kernel gives before udev renames netdevs. A rename to one of them can collide with another netdev.
NETDEV_OF_KERNEL = re.compile(r"(?:eth|ib|usb|wlan|wwan)\d+\Z")
# IB_DEVICE_NAME_MAX is 64 with the zero; the characters are those that udev and verbs tools accept without quotes.
RDMA = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}\Z")
# Names that drivers give. A rename to one of them can collide when devices are found in another order.
RDMA_OF_KERNEL = re.compile(
    r"(?:mlx[45]|mthca|bnxt_re|bng_re|ionic|irdma|i40iw|cxgb4|ocrdma|hfi1|qib|qedr|efa|hns|mana|erdma|usnic|vmw_pvrdma"
    r"|hbl|rxe|siw)_?\d+\Z"
)
MAC = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}\Z")
# Labels of slots and serial numbers of cards, as SMBIOS and VPD contain them.
TOKEN = re.compile(r"[!-~](?:[ -~]{0,62}[!-~])?\Z")
PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([01][0-9a-f])\.([0-7])\Z")

_RANGE = re.compile(r"\[([0-9]+|[A-Za-z]):([0-9]+|[A-Za-z])(?::([0-9]+))?\]")
_DIGITS = re.compile(r"([0-9]+)")
_ZEROS = re.compile(r"(?<![0-9])0+(?=[0-9])")
_FIELD = re.compile(r"\{([^{}]*)\}")
_COUNTER = re.compile(r"([a-z])([+-][0-9]{1,9})?(?::0([1-9]))?\Z")


def label(text: str, limit: int) -> bool:
    """Return whether a text is a DNS label in lower case of at most ``limit`` characters, as Kubernetes requires."""
    return len(text) <= limit and bool(LABEL.match(text))


def pci(text: str) -> str | None:
    """Return a PCI address as sysfs spells it: in lower case, with the domain; None for an invalid text."""
    match = PCI.match(text.lower())
    return "%s:%s:%s.%s" % ((match.group(1) or "0000",) + match.groups()[1:]) if match else None


def mac(text: str) -> str | None:
    """Return a unicast MAC address in lower case with colons; None for another text."""
    plain = text.lower().replace("-", ":")
    return plain if MAC.match(plain) and not int(plain[:2], 16) & 1 and plain != "00:00:00:00:00:00" else None


def nearest(text: str, choices: t.Iterable[str]) -> str | None:
    """Return the choice of which ``text`` is probably a misspelling; None if no choice is similar."""
    known = list(choices)
    # gpu1 means gpu01, not gpu16 or gpu10, which have as many characters in common with it.
    same = [choice for choice in known if _unpadded(choice) == _unpadded(text[:64].lower())]
    close = same or difflib.get_close_matches(text[:64].lower(), known, n=1, cutoff=0.6)
    return close[0] if close else None


def _unpadded(text: str) -> str:
    """Return a name without leading zeros of its numbers."""
    return _ZEROS.sub("", text)


def natural(text: str) -> list[tuple[int, int, str]]:
    """Return a sort key that places ens9 before ens10."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in _DIGITS.split(text) if part]


def did_you_mean(near: str | None) -> str:
    """Return the question that ends a message; empty if there is no suggestion."""
    return " (did you mean %s?)" % near if near else ""


def remedy_of(near: str | None, otherwise: str) -> str:
    """Return the remedy for a text that is similar to ``near``, which is a guess; ``otherwise`` without such a text."""
    return "if you mean %s, write that; otherwise %s" % (near, otherwise) if near else otherwise


def trailing_number(name: str) -> int | None:
    """Return the number at the end of a name before its first dot; None without a number."""
    match = re.search(r"([0-9]{1,9})\Z", name.partition(".")[0])
    return int(match.group(1)) if match else None


class BadRange(ValueError):
    """A host range that cannot be expanded."""


class HostRange:
    """A text with Ansible's host ranges, such as ``ai-[01:16]`` or ``rack[a:c]-[1:8:2]``.

    Iteration yields the texts; the last range changes fastest.

    :raises BadRange: for an invalid range, with the reason as message.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts: list[str] = []
        self._ranges: list[range] = []
        # Per range: digits to pad to, 0 without padding, None for letters.
        self._widths: list[int | None] = []
        end = 0
        for match in _RANGE.finditer(text):
            self._parts.append(text[end : match.start()])
            self._add(*match.groups())
            end = match.end()
        self._parts.append(text[end:])
        for part in self._parts:
            if "[" in part or "]" in part:
                raise BadRange("a range is [first:last] or [first:last:step], of numbers or of letters")

    def __len__(self) -> int:
        count = 1
        for numbers in self._ranges:
            count *= len(numbers)
        return min(count, sys.maxsize)  # the maximum that len() can return

    @property
    def ranges(self) -> int:
        """The number of ranges in the text."""
        return len(self._ranges)

    @property
    def last(self) -> int:
        """The number of values of the last range; 1 without ranges."""
        return len(self._ranges[-1]) if self._ranges else 1

    def __iter__(self) -> t.Iterator[str]:
        return (text for text, _number in self.numbered())

    def numbered(self) -> t.Iterator[tuple[str, int | None]]:
        """Yield each text with the value of the last range; None if it is a letter, or without ranges."""
        return self._expand(0, self._parts[0], None)

    def _add(self, first: str, last: str, step: str | None) -> None:
        size = int(step) if step else 1
        if first.isdigit() != last.isdigit():
            raise BadRange("[%s:%s] mixes numbers and letters" % (first, last))
        if not size:
            raise BadRange("the step of [%s:%s:0] is 0" % (first, last))
        if max(len(first), len(last)) > 9:
            raise BadRange("[%s:%s] has more than nine digits" % (first, last))
        if first.isdigit():
            low, high = int(first), int(last)
            width = len(first) if first.startswith("0") and len(first) > 1 else 0
            if width and len(last) != width:
                raise BadRange("%s and %s have different numbers of digits" % (first, last))
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


def expanded(pattern: str) -> list[str]:
    """Return the texts of a host range; an invalid one as it is."""
    try:
        return list(HostRange(pattern))
    except BadRange:
        return [pattern]


class BadTemplate(ValueError):
    """A template with an invalid field."""


class Template:
    """A text with fields. For n = 3, ``gpu{n:02}`` is ``gpu03`` and ``172.16.{n+10}.0/24`` is ``172.16.13.0/24``.

    A field is a name. A field for a number can have an offset (``{n+10}``) and a number of digits (``{n:02}``).

    :param fields: the valid names of numbers, one letter each.
    :param texts: the valid names of texts.
    :raises BadTemplate: with the invalid field as message.
    """

    def __init__(self, text: str, fields: t.Collection[str] = ("n",), texts: t.Collection[str] = ()) -> None:
        self.text = text
        # For the operator %, which fills all fields in one step: a template is filled for tens of thousands of ports.
        self._form = ""
        self._offsets: list[tuple[str, int]] = []
        self.fields: set[str] = set()
        end = 0
        for match in _FIELD.finditer(text):
            self._form += self._literal(text[end : match.start()])
            self._form += self._field(match.group(0), match.group(1), fields, texts)
            end = match.end()
        self._form += self._literal(text[end:])

    def fill(self, values: t.Mapping[str, t.Any]) -> str:
        """Return the text with the values of its fields. ``values`` may have more keys."""
        if not self._offsets:
            return self._form % values
        shifted = dict(values)
        for name, offset in self._offsets:
            shifted["%s%+d" % (name, offset)] = values[name] + offset
        return self._form % shifted

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
    """A template for each rail, with the methods of :class:`Template`. Values have the rail's name under ``rail``.

    :param templates: the rail's name -> its template.
    """

    def __init__(self, templates: t.Mapping[str, Template]) -> None:
        self._templates = templates
        self.fields = {field for template in templates.values() for field in template.fields}

    @property
    def text(self) -> dict[str, str]:
        """The rail's name -> the text of its template."""
        return {rail: template.text for rail, template in self._templates.items()}

    def fill(self, values: t.Mapping[str, t.Any]) -> str:
        """Return the text of the rail's template; the rail's name without a template, which lint reports."""
        template = self._templates.get(values.get("rail", ""))
        return template.fill(values) if template else str(values.get("rail", ""))


def fill(template: str, number: int) -> str:
    """Return a :class:`Template` filled with a rail's number as ``n``."""
    return Template(template).fill({"n": number})

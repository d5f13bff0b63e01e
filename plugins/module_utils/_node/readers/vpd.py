# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The Vital Product Data of a card: its name, part number and serial number.

Source: the PCI Local Bus Specification 3.0, appendix I, and the kernel's ``Documentation/ABI/testing/sysfs-bus-pci``
(``vpd``).
"""

from __future__ import annotations

import os
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

# Tags: of large resources with the top bit, of small ones without their length.
NAME, READ_ONLY, WRITABLE, END = 0x82, 0x90, 0x91, 0x78
LARGE = (NAME, READ_ONLY, WRITABLE)
# The data is read from a slow store word by word; a store that does not answer must not hold up a run.
CHUNK = 64
PATIENCE = 1.0
LONGEST = 4096


class Vpd(t.NamedTuple):
    """Each None where the card does not say it."""

    name: str | None
    part_number: str | None
    serial: str | None


def read(system: System, path: str, patience: float = PATIENCE) -> Vpd | None:
    """A function's VPD from its sysfs file; None where there is none, or it cannot be read within ``patience`` s."""
    data = bytearray()
    deadline = time.monotonic() + patience
    try:
        fd = os.open(system.path(path), os.O_RDONLY)
    except OSError:
        return None
    try:
        while len(data) < LONGEST and wants_more(data):
            if time.monotonic() > deadline:
                return None
            chunk = os.pread(fd, CHUNK, len(data))
            if not chunk:
                break
            data += chunk
    except OSError:
        return None
    finally:
        os.close(fd)
    return decode(bytes(data))


def wants_more(data: bytes | bytearray) -> bool:
    """Whether what has been read ends before the read-only part does."""
    place = 0
    for tag, start, length in _resources(data):
        place = start + length
        if tag in (READ_ONLY, END):
            return place > len(data)
    # after an invalid tag, nothing can be parsed
    return place >= len(data) or (data[place] in LARGE and place + 3 > len(data))


def decode(data: bytes) -> Vpd | None:
    """The VPD's fields; None where this is not VPD."""
    name: str | None = None
    fields: dict[bytes, str] = {}
    known = False
    for tag, start, length in _resources(data):
        value = data[start : start + length]
        if tag == NAME:
            name, known = _text(value), True
        elif tag == READ_ONLY:
            fields.update(_fields(value))
            known = True
    return Vpd(name, fields.get(b"PN") or None, fields.get(b"SN") or None) if known else None


def _resources(data: bytes | bytearray) -> t.Iterator[tuple[int, int, int]]:
    """Tag, start and length of each resource, up to the end tag or to invalid data."""
    place = 0
    while place < len(data):
        tag = data[place]
        if tag & 0x80:
            if place + 3 > len(data) or tag not in LARGE:
                return
            length = data[place + 1] | data[place + 2] << 8
            yield tag, place + 3, length
            place += 3 + length
        else:
            if tag & 0x78 != END:
                return
            yield END, place + 1, 0
            return


def _fields(value: bytes) -> dict[bytes, str]:
    found: dict[bytes, str] = {}
    place = 0
    while place + 3 <= len(value):
        keyword, length = value[place : place + 2], value[place + 2]
        text = value[place + 3 : place + 3 + length]
        if len(text) < length:
            break
        found.setdefault(bytes(keyword), _text(text))
        place += 3 + length
    return found


def _text(value: bytes) -> str:
    text = value.partition(b"\0")[0].decode("ascii", "replace").strip()
    return "".join(char for char in text if char.isprintable())

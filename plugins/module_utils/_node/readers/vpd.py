# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Vital Product Data of a card: name, part number, serial number and UUID.

Source: the PCI Local Bus Specification 3.0, appendix I, and the kernel's ``Documentation/ABI/testing/sysfs-bus-pci``
(``vpd``). The field of the UUID (``V3``) is NVIDIA's: ``kernel-boot/rdma_topo`` of rdma-core, commit 691953d8d.
"""

from __future__ import annotations

import os
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

# Tags: those of large resources with the top bit, that of the small one without its length.
NAME, READ_ONLY, WRITABLE, END = 0x82, 0x90, 0x91, 0x78
LARGE = (NAME, READ_ONLY, WRITABLE)
# The memory of VPD is slow; if it does not answer, the run must not wait for it. In bytes, seconds and bytes.
CHUNK = 64
PATIENCE = 1.0
LONGEST = 4096


class Vpd(t.NamedTuple):
    """The fields; None if the card does not have them. ``uuid``: of a NIC, which its DMA function has too."""

    name: str | None
    part_number: str | None
    serial: str | None
    uuid: str | None = None


def read(system: System, path: str, patience: float = PATIENCE) -> Vpd | None:
    """Read a VPD from its sysfs file. None if the file is missing or reading takes over ``patience`` seconds."""
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
    """Return whether ``data`` ends before the end of the read-only part."""
    offset = 0
    for tag, start, length in _resources(data):
        offset = start + length
        if tag in (READ_ONLY, END):
            return offset > len(data)
    # after an invalid tag, nothing can be parsed
    return offset >= len(data) or (data[offset] in LARGE and offset + 3 > len(data))


def decode(data: bytes) -> Vpd | None:
    """Decode VPD; None if the data is not VPD."""
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
    if not known:
        return None
    return Vpd(name, fields.get(b"PN") or None, fields.get(b"SN") or None, fields.get(b"V3") or None)


def _resources(data: bytes | bytearray) -> t.Iterator[tuple[int, int, int]]:
    """Yield (tag, start, length) of each resource, up to the end tag or invalid data."""
    offset = 0
    while offset < len(data):
        tag = data[offset]
        if tag & 0x80:
            if offset + 3 > len(data) or tag not in LARGE:
                return
            length = data[offset + 1] | data[offset + 2] << 8
            yield tag, offset + 3, length
            offset += 3 + length
        else:
            if tag & 0x78 != END:
                return
            yield END, offset + 1, 0
            return


def _fields(value: bytes) -> dict[bytes, str]:
    found: dict[bytes, str] = {}
    offset = 0
    while offset + 3 <= len(value):
        keyword, length = value[offset : offset + 2], value[offset + 2]
        text = value[offset + 3 : offset + 3 + length]
        if len(text) < length:
            break
        found.setdefault(bytes(keyword), _text(text))
        offset += 3 + length
    return found


def _text(value: bytes) -> str:
    text = value.partition(b"\0")[0].decode("ascii", "replace").strip()
    return "".join(char for char in text if char.isprintable())

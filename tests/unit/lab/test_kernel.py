# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels that QEMU can start are uncompressed."""

from __future__ import annotations

import gzip
import lzma
import struct
from pathlib import Path

import pytest

from lab import kernel

NOTE = struct.pack("<III4sQ", 4, 8, 0x12, b"Xen\0", 0x1000000)
ELF = b"\x7fELF" + bytes(2000) + NOTE + bytes(2000)


def image(payload: bytes, setup: int = 3, offset: int = 0x2D0) -> bytes:
    """A file with the header of a bzImage."""
    payload += struct.pack("<I", len(ELF))
    head = bytearray((setup + 1) * 512)
    head[0x1F1] = setup
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", head, 0x248, offset, len(payload))
    return bytes(head) + bytes(offset) + payload + bytes(100)


def test_the_elf_file_replaces_the_image(tmp_path: Path) -> None:
    place = tmp_path / "kernel"
    place.write_bytes(image(lzma.compress(ELF)))
    assert kernel.uncompress(place, Path("/"))
    assert place.read_bytes() == ELF


@pytest.mark.parametrize(
    "content",
    [
        image(lzma.compress(ELF.replace(NOTE, bytes(len(NOTE))))),
        image(gzip.compress(ELF)),
        image(lzma.compress(b"another format" + NOTE)),
        ELF,
        b"",
    ],
    ids=["without a PVH note", "gzip", "another format", "not a bzImage", "empty"],
)
def test_another_kernel_does_not_change(tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "kernel"
    place.write_bytes(content)
    assert not kernel.uncompress(place, Path("/"))
    assert place.read_bytes() == content

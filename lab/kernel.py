# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Uncompress the kernel of an image, because an emulated guest needs ten seconds for that at each boot.

See Documentation/arch/x86/boot.rst of Linux for the header of a bzImage, and pvh.h of Xen for the note.
"""

from __future__ import annotations

import lzma
import struct
import subprocess
from pathlib import Path

from lab import host as hosts

_SECTOR = 512
_XZ, _ZSTD, _ELF = b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"\x7fELF"
_SIZE = 4  # bytes at the end of the payload: the size of the kernel
# QEMU starts an ELF file at the entry point in this note.
_PVH_NOTES = tuple(struct.pack("<III4s", 4, size, 0x12, b"Xen\0") for size in (4, 8))


def uncompress(place: Path, tree: Path) -> bool:
    """Replace a bzImage by its ELF file. Return False, without a change, if QEMU cannot start the ELF file.

    :param tree: a root filesystem that has zstd.
    """
    image = place.read_bytes()
    if image[0x202:0x206] != b"HdrS":
        return False
    offset, length = struct.unpack_from("<II", image, 0x248)
    begin = ((image[0x1F1] or 4) + 1) * _SECTOR + offset
    elf = _content(image[begin : begin + length], tree)
    if not elf.startswith(_ELF) or not any(note in elf for note in _PVH_NOTES):
        return False
    place.write_bytes(elf)
    return True


def _content(payload: bytes, tree: Path) -> bytes:
    if payload.startswith(_XZ):
        return lzma.LZMADecompressor().decompress(payload)
    if payload.startswith(_ZSTD):
        command = hosts.as_root(["chroot", str(tree), "zstd", "-dcq"])
        return subprocess.run(command, input=payload[:-_SIZE], capture_output=True).stdout
    return b""

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Vital Product Data by the PCI specification, whole, cut off and wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import vpd
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.vpd import Vpd

NAME = b"NVIDIA ConnectX-7 HHHL adapter Card, 400GbE"
FIELDS = {
    b"PN": b"MCX75310AAS-NEAT",
    b"EC": b"A5",
    b"V2": b"MCX75310AAS-NEAT",
    b"SN": b"MT2321X01234  ",
    b"V3": b"f" * 32,
    b"VA": b"MLX:MN=MLNX:CSKU=V2:UUID=V3:PCI=V0:MODL=CX75310A",
}
WHOLE = Vpd(NAME.decode(), "MCX75310AAS-NEAT", "MT2321X01234", "f" * 32)


def resource(tag: int, body: bytes) -> bytes:
    return bytes((tag, len(body) & 0xFF, len(body) >> 8)) + body


def field(keyword: bytes, value: bytes) -> bytes:
    return keyword + bytes((len(value),)) + value


def card(name: bytes = NAME, fields: dict[bytes, bytes] = FIELDS, tail: bytes = b"") -> bytes:
    """A card's VPD with its checksum, a writable part, and the end tag."""
    start = resource(0x82, name)
    body = b"".join(field(*each) for each in fields.items())
    head = bytes((0x90, (len(body) + 5) & 0xFF, (len(body) + 5) >> 8)) + body + b"RV\x02"
    check = -sum(start + head) & 0xFF
    return start + head + bytes((check, 0)) + resource(0x91, field(b"RW", bytes(64))) + b"\x78" + tail


def test_the_product_data_of_a_card() -> None:
    assert vpd.decode(card()) == WHOLE
    # what is behind the end tag is not looked at
    assert vpd.decode(card(tail=resource(0x90, field(b"SN", b"other")))) == WHOLE


@pytest.mark.parametrize(
    ("data", "reported"),
    [
        (b"", None),
        (bytes(256), None),
        (b"\xff" * 256, None),
        (b"\x78", None),
        (b"\x82\x05", None),
        (resource(0x82, NAME) + b"\x78", Vpd(NAME.decode(), None, None)),
        (resource(0x90, field(b"SN", b"\0\0\0")), Vpd(None, None, None)),
        (resource(0x90, field(b"SN", b"MT1\0\xff\xff")), Vpd(None, None, "MT1")),
        # a field whose length is larger than its part
        (resource(0x90, field(b"PN", b"MCX") + b"SN\x20MT23"), Vpd(None, "MCX", None)),
    ],
)
def test_truncated_or_wrong_data_is_not_guessed(data: bytes, reported: Vpd | None) -> None:
    assert vpd.decode(data) == reported


def test_data_truncated_at_any_point_is_partial_or_missing() -> None:
    whole = card()
    for length in range(len(whole)):
        found = vpd.decode(whole[:length])
        assert found is None or found.serial in (None, "MT2321X01234")


def test_no_more_is_read_than_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "vpd"
    place.write_bytes(card(tail=bytes(32768)))
    read: list[int] = []
    pread = os.pread

    def counted(fd: int, size: int, offset: int) -> bytes:
        read.append(size)
        return pread(fd, size, offset)

    monkeypatch.setattr(os, "pread", counted)
    assert vpd.read(System(str(tmp_path)), "/vpd") == WHOLE
    assert sum(read) <= len(card()) + vpd.CHUNK
    # a store of zeros is given up at once
    place.write_bytes(bytes(32768))
    read.clear()
    assert vpd.read(System(str(tmp_path)), "/vpd") is None
    assert len(read) == 1


def test_missing_slow_or_unreadable_data_reads_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(str(tmp_path))
    assert vpd.read(system, "/vpd") is None
    (tmp_path / "vpd").write_bytes(card())
    assert vpd.read(system, "/vpd", patience=-1) is None

    def fails(_fd: int, _size: int, _offset: int) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "pread", fails)
    assert vpd.read(system, "/vpd") is None

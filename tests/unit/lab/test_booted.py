# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which stored guest a new node may start from."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from lab import booted
from lab.image import Image
from lab.qemu import Qemu
from lab.state import Lab

QEMU = Qemu("/usr/bin/qemu-system-x86_64", "/usr/bin/qemu-img", "10.0.2")
LAB = Lab("default", 2, 8, 1024, "tcg", 1, "/cache/abc", "1", [22001, 22002])


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return Image(tmp_path, "1")


def test_a_guest_is_stored_for_every_lab_with_the_same_machine(image: Image) -> None:
    other = dataclasses.replace(LAB, name="other", nodes=4, ports=[22003, 22004, 22005, 22006])
    assert booted.place(other, 1, image, QEMU) == booted.place(LAB, 1, image, QEMU)


def test_another_machine_has_another_place(image: Image) -> None:
    changed = [{"rails": 4}, {"memory": 2048}, {"cpus": 2}, {"kubelet_ports": [22003, 22004]}]
    places = [booted.place(dataclasses.replace(LAB, **each), 1, image, QEMU) for each in changed]  # type: ignore[arg-type]
    places += [
        booted.place(LAB, 1, image, QEMU),
        booted.place(LAB, 2, image, QEMU),
        booted.place(LAB, 1, Image(image.directory, "2"), QEMU),
        booted.place(LAB, 1, image, dataclasses.replace(QEMU, version="10.1.0")),
    ]
    assert len({each.directory for each in places}) == len(places)


def test_guests_boot_with_kvm_and_where_nothing_is_stored(image: Image) -> None:
    assert booted.find(LAB, 1, image, QEMU) is None
    stored = booted.place(LAB, 1, image, QEMU)
    stored.directory.mkdir()
    assert booted.find(LAB, 1, image, QEMU) == stored
    assert booted.find(dataclasses.replace(LAB, accel="kvm"), 1, image, QEMU) is None

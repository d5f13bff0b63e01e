# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stored guest that a new node starts from."""

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


def test_labs_with_the_same_machine_share_a_stored_guest(image: Image) -> None:
    other = dataclasses.replace(LAB, name="other", nodes=4, ports=[22003, 22004, 22005, 22006])
    assert booted.directory(other, 1, image, QEMU) == booted.directory(LAB, 1, image, QEMU)


def test_a_different_machine_has_a_different_stored_guest(image: Image) -> None:
    changed = [{"rails": 4}, {"memory": 2048}, {"cpus": 2}, {"kubelet_ports": [22003, 22004]}]
    places = [booted.directory(dataclasses.replace(LAB, **each), 1, image, QEMU) for each in changed]  # type: ignore[arg-type]
    places += [
        booted.directory(LAB, 1, image, QEMU),
        booted.directory(LAB, 2, image, QEMU),
        booted.directory(LAB, 1, Image(image.directory, "2"), QEMU),
        booted.directory(LAB, 1, image, dataclasses.replace(QEMU, version="10.1.0")),
    ]
    assert len(set(places)) == len(places)


def test_guests_boot_with_kvm_and_without_a_stored_guest(image: Image) -> None:
    assert not booted.find(LAB, 1, image, QEMU)
    stored = booted.directory(LAB, 1, image, QEMU)
    stored.mkdir()
    assert booted.find(LAB, 1, image, QEMU) == stored
    assert not booted.find(dataclasses.replace(LAB, accel="kvm"), 1, image, QEMU)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image's recipe and the health of its cache."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lab import image
from lab.guest_system import GuestSystem

DEBIAN = GuestSystem("debian-12", "debian", "bookworm")


def test_recipe_is_the_same_each_time() -> None:
    assert image.recipe_hash(image.recipe(DEBIAN)) == image.recipe_hash(image.recipe(DEBIAN))


def test_recipe_changes_with_everything_that_shapes_the_image(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hashes = [image.recipe_hash(image.recipe(DEBIAN))]
    hashes.append(image.recipe_hash(image.recipe(GuestSystem("debian-13", "debian", "trixie"))))
    hashes.append(image.recipe_hash(image.recipe(GuestSystem("ubuntu-12", "ubuntu", "bookworm"))))
    setup = tmp_path / "guest-setup.sh"
    setup.write_text(image.SETUP.read_text() + "\n# another\n")
    bytecode = tmp_path / "guest-bytecode.py"
    bytecode.write_text(image.BYTECODE.read_text() + "\n# another\n")
    for name, value in (
        ("SETUP", setup),
        ("BYTECODE", bytecode),
        ("PACKAGES", [*image.PACKAGES, "jq"]),
        ("DISK_GIB", image.DISK_GIB + 1),
        ("LEAVE_OUT", image.LEAVE_OUT[1:]),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(image, name, value)
            hashes.append(image.recipe_hash(image.recipe(DEBIAN)))
    assert len(set(hashes)) == len(hashes) == 8


@pytest.fixture
def built(tmp_path: Path) -> Path:
    directory = tmp_path / "image"
    directory.mkdir()
    for name in image.FILES:
        (directory / name).write_bytes(name.encode() * 100)
    with open(directory / "root.raw", "wb") as disk:
        disk.truncate(64 << 20)
        disk.seek(40 << 20)
        disk.write(b"content")
    (directory / "manifest.json").write_text(json.dumps(image._manifest(directory)))
    return directory


def test_whole_image_is_found(built: Path) -> None:
    assert image.fault(built) is None
    found = image.find(built)
    assert found is not None
    assert found.id == json.loads((built / "manifest.json").read_text())["id"]


def test_touched_image_is_still_whole(built: Path) -> None:
    for name in image.FILES:
        os.utime(built / name, ns=(1, 1))
    assert image.fault(built) is None


@pytest.mark.parametrize("name", image.FILES)
def test_missing_file_is_noticed(built: Path, name: str) -> None:
    (built / name).unlink()
    assert image.fault(built) == "%s is missing" % name
    assert image.find(built) is None


@pytest.mark.parametrize("name", image.FILES)
def test_truncated_file_is_noticed(built: Path, name: str) -> None:
    os.truncate(built / name, 10)
    assert "has 10 bytes and not" in str(image.fault(built))


@pytest.mark.parametrize(("name", "offset"), [("kernel", 5), ("root.raw", 40 << 20), ("root.raw", 3)])
def test_changed_byte_is_noticed(built: Path, name: str, offset: int) -> None:
    with open(built / name, "r+b") as handle:
        handle.seek(offset)
        handle.write(b"!")
    assert image.fault(built) == "%s has changed since it was built" % name


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"files": {}, "id": "1"}', '{"files": 3, "id": "1"}'])
def test_broken_manifest_is_noticed(built: Path, text: str) -> None:
    (built / "manifest.json").write_text(text)
    assert "its manifest cannot be read" in str(image.fault(built))


def test_no_image_at_all(tmp_path: Path) -> None:
    assert image.find(tmp_path / "none") is None


def test_content_hash_does_not_depend_on_holes(tmp_path: Path) -> None:
    with open(tmp_path / "sparse", "wb") as sparse:
        sparse.truncate(8 << 20)
        sparse.seek(5 << 20)
        sparse.write(b"x")
    (tmp_path / "full").write_bytes((tmp_path / "sparse").read_bytes())
    assert image.content_hash(tmp_path / "sparse") == image.content_hash(tmp_path / "full")
    os.truncate(tmp_path / "full", 9 << 20)
    assert image.content_hash(tmp_path / "sparse") != image.content_hash(tmp_path / "full")

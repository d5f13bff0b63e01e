# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``make release`` builds is whole and works by itself; ``make release`` runs Galaxy's own checks."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tools import release


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release.build(tmp_path_factory.mktemp("build"))


def test_the_archive_has_only_the_files_that_users_need(archive: Path) -> None:
    release.check_content(archive)


# make compat does this with other releases of ansible-core
@pytest.mark.long
def test_it_works_by_itself(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANSIBLE_CONFIG", raising=False)
    assert "playbooks found by name" in release.check_playbooks(archive, tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tests/functional/test_release.py", b"", "tests/functional/test_release.py does not belong in it"),
        ("plugins/modules/new.pyc", b"", "plugins/modules/new.pyc does not belong in it"),
        (
            "roles/x/files/id",
            b"-----BEGIN OPENSSH PRIVATE KEY-----\n" + b"A" * 64 + b"\n",
            "seems to hold a private key",
        ),
    ],
)
def test_foreign_objects_are_named(archive: Path, tmp_path: Path, name: str, content: bytes, message: str) -> None:
    """The archive with one file more."""
    (tmp_path / "more").write_bytes(content)
    other = tmp_path / "other.tar.gz"
    with tarfile.open(archive) as old, tarfile.open(other, "w:gz", compresslevel=1) as new:
        for member in old:
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
        new.add(tmp_path / "more", name)
    with pytest.raises(release.Wrong, match=message):
        release.check_content(other)


def test_a_missing_file_is_named(archive: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.tar.gz"
    with tarfile.open(archive) as old, tarfile.open(other, "w:gz", compresslevel=1) as new:
        for member in old:
            if member.name != "meta/runtime.yml":
                new.addfile(member, old.extractfile(member) if member.isfile() else None)
    with pytest.raises(release.Wrong, match="meta/runtime.yml is not in it"):
        release.check_content(other)

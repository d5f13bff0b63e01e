# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's package sources, in all the forms that people have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import LabError
from lab.host import DISTRIBUTIONS, Host

DEB822 = """\
# a comment
Types: deb deb-src
URIs: http://mirror.invalid/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main
 contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.invalid/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.invalid/off
Suites: bookworm
Components: main
Enabled: no

Types: deb-src
URIs: http://mirror.invalid/source
Suites: bookworm
Components: main
"""
ONE_LINE = """\
deb http://mirror.invalid/debian bookworm main contrib # here
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg arch=amd64] http://mirror.invalid/s bookworm-security main
# deb http://mirror.invalid/off bookworm main
deb-src http://mirror.invalid/debian bookworm main
"""
OTHERS = """\
deb [signed-by=/etc/apt/keyrings/vendor.gpg] http://vendor.invalid/linux/debian bookworm main
deb http://vendor.invalid/containers bookworm stable
deb http://vendor.invalid/node nodistro main
"""


def debian(root: Path, **files: str) -> Host:
    (root / "etc/apt/sources.list.d").mkdir(parents=True)
    for name, text in files.items():
        (root / "etc/apt/sources.list.d" / name.replace("_", ".")).write_text(text)
    return Host("debian", "bookworm", "12", root)


def test_deb822_sources_are_taken_without_what_is_off_or_only_source(tmp_path: Path) -> None:
    text = debian(tmp_path, debian_sources=DEB822).release_sources()
    assert "Suites: bookworm bookworm-updates\nComponents: main contrib\n" in text
    assert "Suites: bookworm-security\n" in text
    assert "backports" not in text
    assert text.count("Types: deb\n") == 2


def test_another_release_comes_from_the_places_of_the_hosts_own(tmp_path: Path) -> None:
    text = debian(tmp_path, debian_sources=DEB822).release_sources("trixie")
    assert "URIs: http://mirror.invalid/debian\nSuites: trixie trixie-updates\nComponents: main contrib\n" in text
    assert "URIs: http://mirror.invalid/debian-security\nSuites: trixie-security\n" in text
    assert "bookworm" not in text


def test_one_line_sources_are_taken_with_their_key(tmp_path: Path) -> None:
    text = debian(tmp_path, debian_list=ONE_LINE).release_sources()
    assert text.count("Types: deb\n") == 2
    assert "URIs: http://mirror.invalid/debian\nSuites: bookworm\nComponents: main contrib\n" in text
    assert text.count("Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg") == 1


def test_sources_list_itself_is_read(tmp_path: Path) -> None:
    host = debian(tmp_path)
    (tmp_path / "etc/apt/sources.list").write_text(ONE_LINE)
    assert len(host.sources()) == 2


def test_other_vendors_and_disabled_files_are_left_out(tmp_path: Path) -> None:
    host = debian(tmp_path, debian_sources=DEB822, vendor_list=OTHERS, old_disabled=ONE_LINE)
    assert "vendor.invalid" not in host.release_sources()
    assert len(host.sources()) == 2


def test_backports_use_the_mirror_of_the_release(tmp_path: Path) -> None:
    text = debian(tmp_path, debian_sources=DEB822).backports_sources()
    assert "URIs: http://mirror.invalid/debian\nSuites: bookworm bookworm-backports\n" in text
    assert "security" not in text


@pytest.mark.parametrize("text", ["", OTHERS, "deb http://mirror.invalid/debian trixie main\n"])
def test_host_without_its_own_sources_is_reported(tmp_path: Path, text: str) -> None:
    with pytest.raises(LabError, match="no package source for debian bookworm .* Remedy: add"):
        debian(tmp_path, other_list=text).release_sources()


def test_os_release_is_read(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text('ID=ubuntu\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\n')
    host = Host.read(tmp_path)
    assert (host.id, host.codename, host.version) == ("ubuntu", "noble", "24.04")
    assert host.distribution is DISTRIBUTIONS["ubuntu"]


@pytest.mark.parametrize("text", [None, "", "ID=fedora\nVERSION_ID=42\n", "ID=debian\n"])
def test_machine_that_the_lab_cannot_be_built_on_is_reported(tmp_path: Path, text: str | None) -> None:
    (tmp_path / "etc").mkdir()
    if text is not None:
        (tmp_path / "etc/os-release").write_text(text)
    with pytest.raises(LabError, match="Remedy: run it on Debian"):
        Host.read(tmp_path)

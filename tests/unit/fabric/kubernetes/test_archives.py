# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files for installation: from any source, only files with a known checksum are used."""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view import software_versions
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.software_versions import File
from ansible_collections.railyard.fabric.plugins.plugin_utils import _archives, _helm

from . import software_files

NAME = "spiderpool-1.2.2.tgz"
# The hosts of public registries; in pieces, so that this file names none.
REGISTRIES = [each + ".io" for each in ("ghcr", "quay", "docker", "gcr", "registry.k8s")] + ["nvcr" + ".io"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return software_files.spiderpool(tmp_path / "files")


@pytest.fixture
def served(archive: Path) -> t.Iterator[tuple[str, list[str]]]:
    """The archive's folder on a web server, and the requests that it got."""
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_words: t.Any) -> None:
            asked.append(self.path)

    handler = functools.partial(Handler, directory=str(archive.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield "http://127.0.0.1:%d" % server.server_port, asked
        server.shutdown()


def wrong(*words: str, **given: t.Any) -> None:
    with pytest.raises(RailyardError) as caught:
        _archives.found("spiderpool", **given)
    text = str(caught.value)
    assert text.startswith("spiderpool: ") and "Remedy: " in text and "\n" not in text
    for word in words:
        assert word in text


def test_a_file_of_a_directory_or_itself(archive: Path) -> None:
    file = File(NAME, software_files.digest(archive))
    for source in (archive.parent, archive, os.path.relpath(archive)):
        found = _archives.found("spiderpool", str(source), file)
        assert found.content == archive.read_bytes() and os.path.samefile(found.path, archive)


def test_a_missing_or_different_chart_is_refused(archive: Path, tmp_path: Path) -> None:
    wrong("no source is configured for %s" % NAME, source="", file=File(NAME, "0" * 64))
    wrong("has no checksum here", "sha256sum", source=str(archive), file=File(NAME, ""))
    wrong("SHA-256", "should have 000", source=str(archive), file=File(NAME, "0" * 64))
    wrong("cannot be read", NAME, source=str(tmp_path / "nowhere"), file=File(NAME, "0" * 64))


def test_a_web_server_is_asked_once(served: tuple[str, list[str]], archive: Path, own_cache: Path) -> None:
    url, asked = served
    file = File(NAME, software_files.digest(archive))
    for source in (url, url + "/", "%s/%s" % (url, NAME)):
        assert _archives.found("spiderpool", source, file).content == archive.read_bytes()
    assert asked == ["/" + NAME], "it is kept by its checksum"
    kept = next(own_cache.rglob(NAME))
    kept.write_bytes(b"tampered with")
    assert _archives.found("spiderpool", url, file).content == archive.read_bytes()
    assert len(asked) == 2 and kept.read_bytes() == archive.read_bytes()


def test_a_download_with_a_wrong_checksum_is_neither_used_nor_kept(
    served: tuple[str, list[str]], archive: Path, own_cache: Path
) -> None:
    url, _asked = served
    wrong("SHA-256", source=url, file=File(NAME, "0" * 64))
    wrong("cannot be fetched", "404", source=url + "/no", file=File(NAME, "0" * 64))
    wrong("cannot be fetched", source="http://127.0.0.1:1", file=File(NAME, "0" * 64))
    assert not list(own_cache.rglob("*.tgz"))


def test_no_password_of_an_address_is_shown(
    served: tuple[str, list[str]], archive: Path, tmp_path: Path, own_cache: Path
) -> None:
    url = served[0].replace("://", "://me:hush@")
    assert _archives.found("spiderpool", url, File(NAME, software_files.digest(archive))).content
    assert not [path for path in own_cache.rglob("*") if "hush" in str(path)]
    denied = program(tmp_path / "denied", 'echo "Error: $2: 401" >&2; exit 1\n')
    for source in (url, url + "/no", url.replace("http:", "oci:"), "http://me:hu/sh@127.0.0.1:1"):
        with pytest.raises(RailyardError) as caught:
            _archives.found("spiderpool", source, File(NAME, "0" * 64), denied)
        assert "hu" not in str(caught.value) and "me:***@127.0.0.1" in str(caught.value), str(caught.value)


def program(path: Path, text: str) -> str:
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def test_a_registry_is_asked_through_helm(archive: Path, tmp_path: Path) -> None:
    """Helm's own words are its own; here are its arguments, and that its files are compared with the checksum."""
    log = tmp_path / "log"
    script = 'echo "$@" >> %s\nwhile [ "$1" != --destination ]; do shift; done\ncp %s "$2"/other-name.tgz\n' % (
        log,
        archive,
    )
    asked = program(tmp_path / "helm", script)
    file = File(NAME, software_files.digest(archive))
    for source in ("oci://registry.example/charts", "oci://registry.example/charts/spiderpool"):
        found = _archives.found("spiderpool", source, file, asked)
        assert os.path.basename(found.path) == NAME and found.content == archive.read_bytes()
    assert log.read_text().startswith("pull oci://registry.example/charts/spiderpool --version 1.2.2 --destination ")
    assert len(log.read_text().splitlines()) == 1
    wrong("SHA-256", source="oci://registry.example/other", file=File(NAME, "0" * 64), helm=asked)
    denied = program(tmp_path / "denied", "echo 'Error: 401' >&2; exit 1\n")
    wrong("401", "helm registry login", source="oci://registry.example/x", file=File(NAME, "1" * 64), helm=denied)


def test_a_chart_in_a_directory_is_used_as_it_is(tmp_path: Path, archive: Path) -> None:
    subprocess.run(["tar", "xzf", str(archive), "-C", str(tmp_path)], check=True)
    found = _archives.found("spiderpool", str(tmp_path / "spiderpool"), File(NAME, ""))
    packed = _archives.chart(_archives.Archive(str(archive), archive.read_bytes()))
    assert _archives.chart(found) == packed and packed.version == "1.2.2" and packed.definitions


def test_a_file_without_a_chart_is_one_line(tmp_path: Path) -> None:
    for name, content in (("text.tgz", b"text"), ("cut.tgz", software_files.spiderpool(tmp_path).read_bytes()[:300])):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(RailyardError, match="cannot be unpacked"):
            _archives.chart(_archives.Archive(str(tmp_path / name), content))
    other = software_files.packed(tmp_path / "other.tgz", {"values.yaml": {}}, "x")
    with pytest.raises(RailyardError, match="no Chart.yaml"):
        _archives.chart(_archives.Archive(str(other), other.read_bytes()))
    broken = software_files.packed(tmp_path / "b.tgz", {"Chart.yaml": {"name": "x"}, "values.yaml": "a: [\n"}, "x")
    with pytest.raises(RailyardError, match="YAML"):
        _archives.chart(_archives.Archive(str(broken), broken.read_bytes()))


def test_every_pin_has_version_and_checksum() -> None:
    for name, pin in software_versions.PINS.items():
        for way, files in pin.files.items():
            assert software_versions.files(name, way, "", {}) == tuple(files)
            assert all(len(each.sha256) in (0, 64) for each in files)
            if pin.chart:
                (file,) = files
                assert pin.version in file.name
                (other,) = software_versions.files(name, way, "9.9.9", {})
                assert other.name == file.name.replace(pin.version, "9.9.9") and not other.sha256
            else:
                assert [each.sha256 for each in software_versions.files(name, way, "v9", {})] == [""] * len(files)


def test_checksums_can_be_given_by_the_user() -> None:
    (file,) = software_versions.files("network-operator", "", "", {"network-operator-26.4.1.tgz": "a" * 64})
    assert file.sha256 == "a" * 64
    for given, message in (
        ({"network-operator.tgz": "a" * 64}, "not one of its files"),
        ({"network-operator-26.4.1.tgz": "A" * 64}, "not a SHA-256"),
        ({"network-operator-26.4.1.tgz": "a" * 63}, "not a SHA-256"),
    ):
        with pytest.raises(RailyardError, match=message):
            software_versions.files("network-operator", "", "", given)
    with pytest.raises(RailyardError, match="manifests, operator"):
        software_versions.files("calico", "helm", "", {})


def test_the_version_of_helm_is_checked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_helm, "missing_collection", lambda collection: None)
    three = program(tmp_path / "three", "echo v3.17.2\n")
    assert _helm.program(three) == three
    for text, message in (("echo v4.1.4\n", "v4.1.4"), ("exit 3\n", "(none)"), ("echo nonsense\n", "nonsense")):
        other = program(tmp_path / "other", text)
        with pytest.raises(RailyardError) as caught:
            _helm.program(other)
        assert message in str(caught.value) and "Helm 3" in str(caught.value)
    with pytest.raises(RailyardError, match="is not a program"):
        _helm.program(str(tmp_path / "none"))
    monkeypatch.undo()
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = RailyardError("the collection kubernetes.core is not installed")
    monkeypatch.setattr(_helm, "missing_collection", lambda collection: missing)
    with pytest.raises(RailyardError) as caught:
        _helm.program("")
    lines = str(caught.value).splitlines()
    assert (
        len(lines) == 2
        and "there is no helm on the PATH" in lines[0]
        and "kubernetes.core is not installed" in lines[1]
    )


def test_the_project_names_no_registry() -> None:
    root = software_files.ROOT
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("no git checkout")
    paths = [path for path in listed.stdout.decode().split("\0") if path and (root / path).is_file()]
    assert len(paths) > 100
    found = [
        "%s: %s" % (path, host) for path in paths for host in REGISTRIES if host.encode() in (root / path).read_bytes()
    ]
    assert found == []

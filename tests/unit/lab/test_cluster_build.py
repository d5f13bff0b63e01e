# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the cluster's programs come from: their recipe, the health of their cache, and which ones are taken."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab.cluster import binaries, build, official
from lab.errors import LabError
from lab.host import Host

DEBIAN = Host("debian", "bookworm", "12")


def program(place: Path, output: str, status: int = 0) -> Path:
    """A program that prints its version."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("#!/bin/sh\necho '%s'\nexit %d\n" % (output, status))
    place.chmod(0o755)
    return place


def fill(
    place: Path,
    api: str = "Kubernetes v1.20.2",
    manager: str = "Kubernetes v1.20.2",
    files: tuple[str, ...] = build.FILES,
) -> Path:
    """A directory of programs as a build leaves it."""
    printed = {"etcd": "etcd Version: 3.4.23", "kube-apiserver": api}
    for name in files:
        program(place / name, printed.get(name, manager))
    sizes = {name: (place / name).stat().st_size for name in files}
    (place / "manifest.json").write_text(json.dumps({"version": "1.20.2", "sizes": sizes}))
    return place


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What is built, by a compiler that takes no time; the rest is as it is."""
    done: list[Path] = []

    def quick(host: Host, sets: dict[Path, tuple[str, ...]]) -> None:
        time.sleep(0.2)
        done.extend(fill(place, files=files) for place, files in sets.items())

    monkeypatch.setattr(build, "_build", quick)
    monkeypatch.setattr(build.hosts.Host, "read", classmethod(lambda cls: DEBIAN))
    monkeypatch.delenv(binaries.ASSETS, raising=False)
    monkeypatch.setenv(official.VARIABLE, official.BUILD)
    return done


def test_recipe_names_everything_that_shapes_the_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    places = {build.directory(tmp_path)}
    assert places == {build.directory(tmp_path)}
    changes = (
        ("FORMAT", 99),
        ("SUITE", "trixie"),
        ("SOURCE", "k8s"),
        ("PACKAGES", build.PACKAGES[1:]),
        ("TAGS", build.TAGS + ",other"),
        ("FILES", build.FILES[1:]),
    )
    for name, value in changes:
        with monkeypatch.context() as patch:
            patch.setattr(build, name, value)
            places.add(build.directory(tmp_path))
    assert len(places) == 1 + len(changes)


@pytest.mark.parametrize("name", build.FILES)
def test_missing_short_or_plain_file_is_noticed(tmp_path: Path, name: str) -> None:
    place = fill(tmp_path / "built")
    assert build.fault(place) is None
    (place / name).chmod(0o644)
    assert build.fault(place) == "%s is not executable" % name
    size = (place / name).stat().st_size
    (place / name).write_bytes((place / name).read_bytes()[:-1])
    assert build.fault(place) == "%s has %d bytes and not %d" % (name, size - 1, size)
    (place / name).unlink()
    assert build.fault(place) == "%s is missing" % name


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"sizes": {"etcd": 1}}', '{"sizes": {"etcd": null}}'])
def test_damaged_manifest_is_noticed(tmp_path: Path, text: str) -> None:
    place = fill(tmp_path / "built")
    (place / "manifest.json").write_text(text)
    assert "manifest cannot be read" in (build.fault(place) or "")


def test_many_at_once_build_once_and_what_a_killed_build_left_is_swept(builds: list[Path], tmp_path: Path) -> None:
    left = tmp_path / (build.directory(tmp_path).name + ".abc.building")
    (left / "source").mkdir(parents=True)
    with ThreadPoolExecutor(4) as pool:
        places = {place for places in pool.map(lambda _number: build.ensure(tmp_path), range(4)) for place in places}
    assert places == {build.directory(tmp_path)}
    assert len(builds) == 1
    assert not left.exists()


def test_whole_cache_is_not_built_again_and_a_half_one_is(
    builds: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place,) = build.ensure(tmp_path)
    build.ensure(tmp_path)
    assert len(builds) == 1
    (place / "kube-apiserver").unlink()
    build.ensure(tmp_path)
    assert len(builds) == 2
    assert "kube-apiserver is missing; building it again" in capsys.readouterr().err


def test_programs_of_nodes_are_a_set_of_their_own_beside_the_control_plane(builds: list[Path], tmp_path: Path) -> None:
    control = build.ensure(tmp_path)
    both = build.ensure(tmp_path, nodes=True)
    assert both[:1] == control and len(set(both)) == 2
    assert builds == both  # each set once
    (both[1] / "kubelet").unlink()
    assert build.ensure(tmp_path) == control
    assert len(builds) == 2
    build.ensure(tmp_path, nodes=True)
    assert builds[2:] == both[1:]


def test_cluster_with_kubelets_takes_programs_of_one_release(builds: list[Path], tmp_path: Path) -> None:
    assert binaries.ensure(tmp_path).kubelet is None
    found = binaries.ensure(tmp_path, nodes=True)
    place = str(build.directory(tmp_path, build.NODE_FILES))
    assert (found.scheduler, found.kubelet) == (place + "/kube-scheduler", place + "/kubelet")
    assert binaries.again(found, nodes=True)
    program(Path(str(found.kubelet)), "Kubernetes v1.19.2")
    assert not binaries.again(found, nodes=True)
    assert binaries.again(found, nodes=False)


@pytest.mark.parametrize("name", ["kube-controller-manager", "kube-scheduler", "kubelet"])
def test_named_programs_without_one_that_nodes_need_are_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    assets = fill(tmp_path / "assets", files=(*build.FILES, *build.NODE_FILES))
    monkeypatch.setenv(binaries.ASSETS, str(assets))
    assert binaries.ensure(tmp_path, nodes=True).origin == binaries.ASSETS
    program(assets / name, "Kubernetes v1.19.2")
    with pytest.raises(LabError, match="there is no %s 1.20.*Remedy: .*kube-scheduler and kubelet" % name):
        binaries.ensure(tmp_path, nodes=True)


def test_built_program_that_does_not_run_is_built_again(builds: list[Path], tmp_path: Path) -> None:
    (place,) = build.ensure(tmp_path)
    text = (place / "kube-apiserver").read_text()
    (place / "kube-apiserver").write_text(text.replace("exit 0", "exit 1"))
    assert build.fault(place) is None
    found = binaries.ensure(tmp_path)
    assert len(builds) == 2
    assert found.version == "1.20.2"
    assert found.manager == str(place / "kube-controller-manager")


def test_distribution_without_the_sources_gets_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="Ubuntu has no source package .* Remedy: point KUBEBUILDER_ASSETS at"):
        build._build(Host("ubuntu", "noble", "24.04"), {tmp_path / "built": build.FILES})
    assert not (tmp_path / "built").exists()


def test_too_little_room_is_reported_before_anything_is_fetched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build, "FREE_GIB", 1 << 30)
    with pytest.raises(LabError, match="Remedy: free some space there, or set RAILYARD_LAB_CACHE"):
        build._build(DEBIAN, {tmp_path / "built": build.FILES})


def test_sources_are_asked_for_from_where_the_host_gets_its_release(tmp_path: Path) -> None:
    apt = tmp_path / "etc/apt/sources.list.d"
    apt.mkdir(parents=True)
    (apt / "debian.sources").write_text(
        "Types: deb\nURIs: http://deb.example/debian\nSuites: trixie trixie-updates\nComponents: main\n\n"
        "Types: deb\nURIs: http://deb.example/security\nSuites: trixie-security\nComponents: main\n"
    )
    text = Host("debian", "trixie", "13", tmp_path).sources_of("bookworm", types="deb deb-src")
    assert text.splitlines() == [
        "Types: deb deb-src",
        "URIs: http://deb.example/debian",
        "Suites: bookworm",
        "Components: main",
    ]


def test_named_programs_have_priority(builds: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assets = fill(tmp_path / "assets", "Kubernetes v1.36.2", "Kubernetes v1.36.0")
    monkeypatch.setenv(binaries.ASSETS, str(assets))
    found = binaries.ensure(tmp_path / "cache")
    assert (found.api, found.release, found.origin) == (str(assets / "kube-apiserver"), (1, 36), "KUBEBUILDER_ASSETS")
    assert found.manager == str(assets / "kube-controller-manager")
    assert builds == []


def test_controller_manager_of_another_release_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assets = fill(tmp_path / "assets", "Kubernetes v1.36.2", "Kubernetes v1.35.2")
    monkeypatch.setenv(binaries.ASSETS, str(assets))
    assert binaries.ensure(tmp_path).manager is None
    (assets / "kube-controller-manager").unlink()
    assert binaries.ensure(tmp_path).manager is None


@pytest.mark.parametrize(
    ("name", "output", "status", "wrong"),
    [
        ("kube-apiserver", "Kubernetes v1.19.16", 0, "is 1.19.16, older than 1.20"),
        ("kube-apiserver", "Kubernetes v1.36.2", 1, "does not run"),
        ("kube-apiserver", "hello", 0, "does not run"),
        ("etcd", "", 139, "does not run"),
    ],
)
def test_named_programs_that_cannot_be_used_are_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, output: str, status: int, wrong: str
) -> None:
    assets = fill(tmp_path / "assets")
    program(assets / name, output, status)
    monkeypatch.setenv(binaries.ASSETS, str(assets))
    with pytest.raises(LabError, match="%s.*Remedy: .*unset it" % wrong):
        binaries.ensure(tmp_path)


def test_programs_on_the_path_are_taken_when_they_are_of_use(
    builds: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = fill(tmp_path / "bin", "Kubernetes v1.30.1", "Kubernetes v1.30.1")
    monkeypatch.setenv("PATH", "%s:/usr/bin:/bin" % path)
    assert binaries.ensure(tmp_path / "cache").origin == "PATH"
    assert builds == []
    program(path / "kube-apiserver", "Kubernetes v1.18.0")
    assert binaries.ensure(tmp_path / "cache").origin == "built"
    assert "older than 1.20" in capsys.readouterr().err


def test_packages_with_the_tag_are_inputs_of_the_openapi_definitions(tmp_path: Path) -> None:
    tagged, plain = "// +k8s:openapi-gen=true\npackage x\n", "package x\n"
    for file, text in {
        "pkg/api/doc.go": tagged,
        "pkg/api/types.go": tagged,
        "pkg/other/doc.go": plain,
        "pkg/tested/api_test.go": tagged,
        "staging/src/k8s.io/api/core/v1/doc.go": tagged,
        "staging/src/k8s.io/sample-apiserver/pkg/doc.go": tagged,
        "vendor/example.com/api/doc.go": tagged,
    }.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    assert build._openapi_inputs(tmp_path) == [
        "k8s.io/kubernetes/pkg/api",
        "k8s.io/kubernetes/vendor/k8s.io/api/core/v1",
    ]


def test_programs_report_the_version_of_the_source_in_both_packages_that_have_one() -> None:
    words = build._version_flags("1.20.2").split()
    assert words.count("-X") == 8 and len(words) == 16
    for package in ("client-go/pkg/version", "component-base/version"):
        assert "k8s.io/kubernetes/vendor/k8s.io/%s.gitVersion=v1.20.2" % package in words
        assert "k8s.io/kubernetes/vendor/k8s.io/%s.gitMinor=20" % package in words

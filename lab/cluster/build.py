# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes' own programs, built once from Debian's source package, with Debian's etcd.

The toolchain is not installed: Go and the rest are unpacked beside the source and removed with it. There are two sets
of programs, the control plane and what a lab with kubelets needs in addition. Each set is cached under the hash of its
recipe, is there whole or not at all, and is built again when it is damaged; sets that are missing together are built
from one source tree.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from lab import apt
from lab import host as hosts
from lab.errors import LabError
from lab.image import recipe_hash
from lab.progress import run, say
from lab.state import locked, write_file

FORMAT = 1
# The last release of Debian whose source package has the server's sources; later ones only have kubectl's.
SUITE = "bookworm"
SOURCE = "kubernetes"
GO = "golang-1.19"
# The source contains reflect2 1.0.1, with which the server crashes (SIGSEGV) at its first patch since Go 1.18.
REFLECT = "golang-github-modern-go-reflect2-dev"
REFLECT_PATH = "github.com/modern-go/reflect2"
PACKAGES = [GO + "-go", GO + "-src", REFLECT, "etcd-server"]
ETCD = "tree/usr/bin/etcd"  # the program of its package, in the directory of the build
# type.go: compiled with a later Go than that of the release, its test treats an empty string as null, and the server
# would refuse custom resources with empty strings. As in later releases, only nil is null.
# controller.go: the server creates its whole OpenAPI document again in the second after a CRD changes. While tests load
# and remove CRDs, this takes most of its processor time. With the patch, clients see the change within a minute.
PATCHES = (
    (
        "vendor/k8s.io/kube-openapi/pkg/validation/validate/type.go",
        "if data == nil || reflect.DeepEqual(reflect.Zero(reflect.TypeOf(data)), reflect.ValueOf(data)) {",
        "if data == nil {",
    ),
    (
        "vendor/k8s.io/kube-aggregator/pkg/controllers/openapi/controller.go",
        "successfulUpdateDelayLocal = time.Second",
        "successfulUpdateDelayLocal = time.Minute",
    ),
)
ROOT = "k8s.io/kubernetes"
OPENAPI = ROOT + "/pkg/generated/openapi"
OPENAPI_TAG = b"+k8s:openapi-gen="
OPENAPI_EXAMPLES = ("vendor/k8s.io/code-generator", "vendor/k8s.io/sample-apiserver")
# Without the clients of cloud providers and of Docker
TAGS = "providerless,dockerless,selinux,notest"
FILES = ("etcd", "kube-apiserver", "kube-controller-manager")
NODE_FILES = ("kubelet", "kube-scheduler")
# Required commands and their packages.
TOOLS = {"dpkg-source": "dpkg-dev"}
FREE_GIB = 5
BUILD_REMEDY = (
    "see the log; with %d GiB free in %s, run the command again, or point KUBEBUILDER_ASSETS at ready binaries"
)


def recipe(files: tuple[str, ...]) -> dict[str, Any]:
    """Return everything that a set of programs depends on."""
    return {
        "format": FORMAT,
        "source": [SUITE, SOURCE],
        "packages": PACKAGES,
        "patches": PATCHES,
        "tags": TAGS,
        "files": list(files),
    }


def directory(cache: Path, files: tuple[str, ...] | None = None) -> Path:
    """Return the directory of a set of programs of the current recipe. Default: the control plane's."""
    return cache / ("kubernetes-" + recipe_hash(recipe(files or FILES)))


def fault(place: Path, files: tuple[str, ...] | None = None) -> str | None:
    """Return a text about the problem of the programs in ``place``; None if they are complete."""
    try:
        sizes = json.loads((place / "manifest.json").read_text(encoding="utf-8"))["sizes"]
        expected = {name: int(sizes[name]) for name in files or FILES}
    except (OSError, ValueError, KeyError, TypeError) as error:
        return "its manifest cannot be read (%s)" % error
    for name, size in expected.items():
        try:
            status = (place / name).stat()
        except OSError:
            return "%s is missing" % name
        if status.st_size != size:
            return "%s has %d bytes and not %d" % (name, status.st_size, size)
        if not status.st_mode & 0o100:
            return "%s is not executable" % name
    return None


def ensure(cache: Path, nodes: bool = False) -> list[Path]:
    """Return the directory of the control plane's programs, and with ``nodes`` that of the nodes' programs.

    Missing programs are built. Raises LabError if this fails.
    """
    sets: dict[Path, tuple[str, ...]] = {
        directory(cache, files): files for files in ((FILES, NODE_FILES) if nodes else (FILES,))
    }
    with contextlib.ExitStack() as stack:
        for place in sorted(sets):
            lock = cache / (place.name + ".lock")
            stack.enter_context(locked(lock, "another command is building Kubernetes; waiting for it"))
        missing = {place: files for place, files in sets.items() if fault(place, files)}
        for place, files in missing.items():
            if place.exists():
                say("the cached Kubernetes is damaged: %s; building it again" % fault(place, files))
            sweep(place)
        if missing:
            _build(hosts.Host.read(), missing)
        for place, files in missing.items():
            wrong = fault(place, files)
            if wrong:
                raise LabError("what was built in %s is not whole: %s" % (place, wrong), "run the command again")
    return list(sets)


def discard(place: Path) -> None:
    """Mark programs as damaged, because they do not run. The next ``ensure`` builds them again."""
    (place / "manifest.json").unlink(missing_ok=True)


def sweep(place: Path) -> None:
    """Remove directories of killed commands. The caller holds the lock, so no other command is building."""
    for left in place.parent.glob(place.name + ".*.building"):
        shutil.rmtree(left, ignore_errors=True)


def _build(host: hosts.Host, sets: dict[Path, tuple[str, ...]]) -> None:
    """Build these sets of programs from one source tree, each into its directory."""
    first = next(iter(sets))
    log = first.with_name(first.name + ".log")
    log.unlink(missing_ok=True)
    names = [name for files in sets.values() for name in files]
    if host.id != "debian":
        raise LabError(
            "%s has no source package of the Kubernetes server to build from" % host.id.capitalize(),
            "point KUBEBUILDER_ASSETS at a directory with %s; make lab CLUSTER=0 needs none of them" % ", ".join(names),
        )
    free = shutil.disk_usage(first.parent).free >> 30
    if free < FREE_GIB:
        raise LabError(
            "building Kubernetes takes %d GiB in %s, where %d are free" % (FREE_GIB, first.parent, free),
            "free some space there, or set RAILYARD_LAB_CACHE to a directory that has it",
        )
    missing = sorted({package for command, package in TOOLS.items() if hosts.find(command) is None})
    if missing:
        hosts.install(missing, log)
    say("building Kubernetes from Debian's source package: once, three to four minutes on two cores (log: %s)" % log)
    work = Path(tempfile.mkdtemp(prefix=first.name + ".", suffix=".building", dir=first.parent))
    try:
        version = _fetch(host, work, log)
        _compile(work, version, [name for name in names if name != "etcd"], log)
        for place, files in sets.items():
            compiled = {name: work / "source/_output/bin" / name for name in files if name != "etcd"}
            keep(work, place, {**compiled, **({"etcd": work / ETCD} if "etcd" in files else {})}, version)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    say("Kubernetes %s is ready: %s" % (version, ", ".join(map(str, sets))))


def keep(work: Path, place: Path, programs: dict[str, Path], version: str) -> None:
    """Move programs (name -> path below ``work``) to their directory. Damaged programs there are replaced."""
    result = work / ("result-" + place.name)
    result.mkdir(mode=0o755)
    for name, path in programs.items():
        shutil.move(path, result / name)
        (result / name).chmod(0o755)
    sizes = {name: (result / name).stat().st_size for name in programs}
    write_file(result / "manifest.json", json.dumps({"version": version, "sizes": sizes}, indent=2))
    if place.exists():
        os.rename(place, work / ("damaged-" + place.name))
    os.rename(result, place)


def _fetch(host: hosts.Host, work: Path, log: Path) -> str:
    """Download and unpack the source and the toolchain. Return the version of the source, such as ``1.20.2``."""
    remedy = "see that this host's package sources also serve %s and its source packages, then run the command again"
    get = apt.aside(work, host.sources_of(SUITE, types="deb deb-src"))
    run([*get, "update"], log, "reading the package lists", remedy % SUITE)
    say("  fetching the source and Go")
    # apt-get downloads to the current directory
    run(["env", "-C", str(work), *get, "download", *PACKAGES], log, "fetching the toolchain", remedy % SUITE)
    source = ["source", "--download-only", "%s/%s" % (SOURCE, SUITE)]
    run(["env", "-C", str(work), *get, *source], log, "fetching the source", remedy % SUITE)
    again = BUILD_REMEDY % (FREE_GIB, work.parent)
    for package in sorted(work.glob("*.deb")):
        run(["dpkg", "-x", str(package), str(work / "tree")], log, "unpacking the toolchain", again)
    descriptions = list(work.glob("*.dsc"))
    if len(descriptions) != 1:
        raise LabError("no source package came with the source (log: %s)" % log, again)
    # apt has verified it with the signed list; not every host has the uploader's key
    unpack = ["dpkg-source", "--no-check", "-x", str(descriptions[0]), str(work / "source")]
    run(unpack, log, "unpacking the source", again)
    named = re.search(r"_(?:\S*really)?(\d+\.\d+\.\d+)", descriptions[0].name)
    if named is None:
        raise LabError("the source package %s has no version that can be read" % descriptions[0].name, again)
    return named.group(1)


def _compile(work: Path, version: str, names: list[str], log: Path) -> None:
    """Compile programs into ``source/_output/bin``.

    Upstream's make first generates all code again. The package contains that code, except the OpenAPI definitions.
    """
    source, go = work / "source", work / "tree/usr/lib" / GO.replace("golang", "go")
    remedy = BUILD_REMEDY % (FREE_GIB, work.parent)
    _patch(work, remedy)
    workspace = source / ".go/src" / ROOT
    workspace.parent.mkdir(parents=True)
    workspace.symlink_to("../../..")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("GO", "CGO_"))}
    env.update(
        PATH="%s:%s" % (go / "bin", os.environ.get("PATH", os.defpath)),
        HOME=str(work),
        PWD=str(workspace),  # Go does not find packages by the path without links
        GOROOT=str(go),
        GOPATH=str(source / ".go"),
        GOCACHE=str(work / "gocache"),
        GOPROXY="off",
        GO111MODULE="off",
        CGO_ENABLED="0",
        GOGC="400",  # fewer garbage collections in the compiler: a tenth less processor time, more memory
    )
    output = source / "_output/bin"
    generator = output / "openapi-gen"
    inside = ["env", "-C", str(workspace)]
    # without data for debuggers; with the same options, common packages are compiled once
    build = [*inside, "go", "build", "-tags=" + TAGS, "-trimpath", "-gcflags=all=-dwarf=false"]
    build.append("-ldflags=-s -w " + _version_flags(version))
    say("  generating the OpenAPI definitions")
    package = ROOT + "/vendor/k8s.io/kube-openapi/cmd/openapi-gen"
    run([*build, "-o", str(generator), package], log, "compiling openapi-gen", remedy, env=env)
    generate = [*inside, str(generator), "-p", OPENAPI, "-O", "zz_generated.openapi"]
    generate += ["-h", str(source / "hack/boilerplate/boilerplate.generatego.txt"), "-r", str(work / "violations")]
    generate += ["-i", ",".join(_openapi_inputs(source))]
    run(generate, log, "generating the OpenAPI definitions", remedy, env=env)
    what = "compiling " + ", ".join(names)
    say("  " + what)
    packages = ["%s/cmd/%s" % (ROOT, name) for name in names]
    run([*build, "-o", "%s/" % output, *packages], log, what, remedy, env=env)


def _patch(work: Path, remedy: str) -> None:
    """Change the parts of the source that do not work with a later Go."""
    source = work / "source"
    for file, before, after in PATCHES:
        text = (source / file).read_text(encoding="utf-8")
        if text.count(before) != 1:
            raise LabError("%s of the source is not as expected" % file, remedy)
        (source / file).write_text(text.replace(before, after), encoding="utf-8")
    vendored, fresh = source / "vendor" / REFLECT_PATH, work / "tree/usr/share/gocode/src" / REFLECT_PATH
    for old in vendored.glob("*.go"):
        old.unlink()
    for new in fresh.glob("*.go"):
        shutil.copy(new, vendored)


def _openapi_inputs(source: Path) -> list[str]:
    """Return the packages with types that are in the server's OpenAPI definitions."""
    found = set()
    for top in ("cmd", "pkg", "plugin", "staging/src/k8s.io"):
        for path in (source / top).rglob("*.go"):
            if OPENAPI_TAG in path.read_bytes() and not path.name.endswith("_test.go"):
                found.add(str(path.parent.relative_to(source)).replace("staging/src/", "vendor/"))
    return ["%s/%s" % (ROOT, name) for name in sorted(found) if not name.startswith(OPENAPI_EXAMPLES)]


def _version_flags(version: str) -> str:
    """Return the linker's options for the version that a program reports. Clients refuse v0.0.0, the default."""
    major, minor = version.split(".")[:2]
    values = {"gitVersion": "v" + version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "archive"}
    return " ".join(
        "-X %s/vendor/k8s.io/%s.%s=%s" % (ROOT, package, *pair)
        for package in ("client-go/pkg/version", "component-base/version")
        for pair in values.items()
    )

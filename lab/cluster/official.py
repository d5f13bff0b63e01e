# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of an official release of Kubernetes, downloaded once, with Debian's etcd.

The release is pinned with the checksum in its changelog, and the archive is unpacked only if it has this checksum. The
programs are cached under the hash of their recipe, as those of a build.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lab import apt, node_image
from lab import host as hosts
from lab.cluster import build
from lab.download import DownloadError, download
from lab.errors import LabError
from lab.image import recipe_hash
from lab.progress import run, say
from lab.state import locked

# Upstream's CHANGELOG/CHANGELOG-1.36.md has the SHA-512 of this archive under "Server Binaries". 1.36 is the
# last release with support for the containerd 1.7 of the guests.
VERSION = "1.36.1"
ARCHIVE = "kubernetes-server-linux-amd64.tar.gz"
SHA512 = (
    "1e88dcb75f4b6fde297a3305e62c3b17dd479baec86b0bd6f7cd3f3ba4421b3e"
    "cf7f6ff5885ab75d3d611b68bc5844ad8af6416375f1a800c5e8e73f35aff19c"
)
# Upstream's server, or a mirror of it in this variable. BUILD: download nothing.
SERVER = "https://dl.k8s.io"
VARIABLE = "RAILYARD_LAB_KUBERNETES"
BUILD = "build"
INSIDE = "kubernetes/server/bin"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")
FILES = ("etcd", *PROGRAMS)
FREE_GIB = 2


class Unavailable(Exception):
    """The release cannot be used here. The text is the reason."""


def server() -> str | None:
    """Return the URL of the server; None disables the download. Raises LabError for another value."""
    value = os.environ.get(VARIABLE) or SERVER
    if value == BUILD:
        return None
    try:
        url = urlsplit(value)
        valid = url.scheme in ("http", "https") and url.hostname and url.username is None
    except ValueError:  # brackets without an IPv6 address
        valid = False
    if not valid:
        raise LabError(
            "%s is not an HTTP URL without a user name" % VARIABLE,  # the value may have a password
            "set it to the URL of a mirror such as %s, or to '%s' to download nothing" % (SERVER, BUILD),
        )
    return value.rstrip("/")


def directory(cache: Path) -> Path:
    """Return the directory of the programs of the pinned release."""
    recipe: dict[str, Any] = {"release": [VERSION, ARCHIVE, SHA512], "files": list(FILES), "etcd": node_image.SUITE}
    return cache / ("kubernetes-%s-%s" % (VERSION, recipe_hash(recipe)))


def ensure(cache: Path) -> Path:
    """Return the directory of the programs. They are downloaded if they are missing.

    :raises Unavailable: if they cannot be downloaded.
    """
    place = directory(cache)
    url = server()
    if url is None:
        raise Unavailable("%s is '%s'" % (VARIABLE, BUILD))
    with locked(cache / (place.name + ".lock"), "another command is downloading Kubernetes; waiting for it"):
        wrong = build.fault(place, FILES)
        if wrong:
            if place.exists():
                say("the cached Kubernetes %s is damaged: %s; downloading it again" % (VERSION, wrong))
            build.sweep(place)
            _install(place, "%s/v%s/%s" % (url, VERSION, ARCHIVE))
    return place


def _install(place: Path, url: str) -> None:
    """Download the archive, and make the directory of the programs from it and Debian's etcd."""
    cache = place.parent
    archive = cache / ("kubernetes-%s-%s" % (VERSION, ARCHIVE))
    for other in cache.glob("kubernetes-*-%s*" % ARCHIVE):  # of another version, which nothing resumes
        if not other.name.startswith(archive.name):
            other.unlink()
    free = shutil.disk_usage(cache).free >> 30
    if free < FREE_GIB:
        raise Unavailable("it takes %d GiB in %s, where %d are free" % (FREE_GIB, cache, free))
    log = place.with_name(place.name + ".log")
    log.unlink(missing_ok=True)
    work = Path(tempfile.mkdtemp(prefix=place.name + ".", suffix=".building", dir=cache))
    try:
        download(url, archive, SHA512)
        programs = _unpack(archive, work)
        programs["etcd"] = _etcd(work, log)
        build.keep(work, place, programs, VERSION)
        archive.unlink()
    except DownloadError as error:
        raise Unavailable(str(error)) from None
    except LabError as error:
        raise Unavailable(error.message) from None
    except OSError as error:
        raise Unavailable("%s: %s" % (error.filename or cache, error.strerror)) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
    say("Kubernetes %s is ready: %s" % (VERSION, place))


def _unpack(archive: Path, work: Path) -> dict[str, Path]:
    """Extract the programs: name -> path. The archive also has images of containers, which the lab does not use."""
    found = {}
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                folder, _, name = member.name.rpartition("/")
                content = tar.extractfile(member) if folder == INSIDE and name in PROGRAMS else None
                if content is not None:
                    found[name] = work / name
                    with content, open(found[name], "wb") as program:
                        shutil.copyfileobj(content, program)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise Unavailable("%s cannot be unpacked: %s" % (archive, error)) from None
    missing = [name for name in PROGRAMS if name not in found]
    if missing:
        raise Unavailable("%s has no %s" % (archive, ", ".join(missing)))
    return found


def _etcd(work: Path, log: Path) -> Path:
    """Unpack the etcd of the distribution, on Debian of the guests' release, because Debian 12's is older than 3.5."""
    host = hosts.Host.read()
    remedy = "see that this host's package sources answer, then run the command again"
    get = apt.aside(work, host.sources_of(node_image.SUITE if host.id == "debian" else host.codename))
    run([*get, "update"], log, "reading the package lists", remedy)
    run(["env", "-C", str(work), *get, "download", "etcd-server"], log, "fetching etcd", remedy)
    for package in work.glob("*.deb"):
        run(["dpkg", "-x", str(package), str(work / "tree")], log, "unpacking etcd", remedy)
    return work / build.ETCD

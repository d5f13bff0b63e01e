# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Archives of charts, and manifests: find or fetch them, verify their checksums, and read them without unpacking.

A file is read from a directory of the control node, from a web server or, for charts, from an OCI registry by Helm.
Fetched files are cached under their checksum, so that each is fetched once.
"""

from __future__ import annotations

import glob
import hashlib
import os
import posixpath
import subprocess
import tarfile
import tempfile
import typing as t

import yaml
from ansible.module_utils.urls import open_url

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._common.urls import parted
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.software.chart_values import Chart
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.software_versions import File

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WEB = ("https://", "http://")
_OCI = "oci://"
# Timeout in seconds, and maximum size in bytes, 50 times that of the largest published file.
_TIMEOUT = 60
_LARGEST = 100 * 1024 * 1024


class Archive(t.NamedTuple):
    """A file on the control node, or the unpacked folder of a chart."""

    path: str
    content: bytes


def cache() -> str:
    """Return the directory of fetched files."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "railyard", "archives")


def found(software: str, source: str, file: File, helm: str = "") -> Archive:
    """Return the file.

    :param source: a directory or URL that contains the file, or the file itself. A folder with a ``Chart.yaml`` is an
        unpacked chart, which is used without a checksum.
    :param helm: the program that fetches from an OCI registry.
    :raises RailyardError: if the file is missing or has another checksum.
    """
    place = "%s: source" % software
    if not source:
        raise RailyardError(
            "no source is configured for %s" % file.name,
            place,
            "name a directory of the control node or a URL that has it; docs/cluster-software.md lists where upstream"
            " publishes it",
        )
    web = source.startswith((*_WEB, _OCI))
    if not web:
        source = os.path.abspath(os.path.expanduser(source))
        if os.path.isfile(os.path.join(source, "Chart.yaml")):
            return Archive(source, b"")
    if not file.sha256:
        raise RailyardError(
            "%s has no checksum here" % file.name,
            "%s: checksums" % software,
            "check that the file is upstream's, then set the output of sha256sum %s as checksums: {%s: SHA256}"
            % (file.name, file.name),
        )
    if not web:
        path = os.path.join(source, file.name) if os.path.isdir(source) else source
        return Archive(path, _verified(_read(path, place, file.name), file, path, place))
    kept = os.path.join(cache(), file.sha256, file.name)
    if os.path.isfile(kept):
        content = _read(kept, place, file.name)
        if _digest(content) == file.sha256:
            return Archive(kept, content)
    url = source if source.endswith((".tgz", ".yaml", ".yml")) else source.rstrip("/") + "/" + file.name
    content = _pulled(source, file, helm, place) if source.startswith(_OCI) else _fetched(url, place)
    content = _verified(content, file, url, place)
    _keep(kept, content)
    return Archive(kept, content)


def _read(path: str, place: str, name: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise RailyardError(
            "%s cannot be read: %s" % (path, error.strerror or error),
            place,
            "copy %s to this path, or set another source" % name,
        ) from error


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _verified(content: bytes, file: File, where: str, place: str) -> bytes:
    digest = _digest(content)
    if digest != file.sha256:
        raise RailyardError(
            "%s has the SHA-256 %s and should have %s" % (where, digest, file.sha256),
            place,
            "check that it is the complete file of that release; a file that is meant to differ needs its own checksum",
        )
    return content


def _fetched(url: str, place: str) -> bytes:
    try:
        # The message of the client about an invalid address contains a part of the password.
        parted(url)
        content: bytes = open_url(url, timeout=_TIMEOUT, http_agent="railyard").read(_LARGEST + 1)
    except Exception as error:  # urllib's tree, TLS's and the proxy's
        raise RailyardError(
            "%s cannot be fetched: %s" % (url, " ".join(str(error).split())),
            place,
            "check that it can be reached from the control node, or set a directory that contains the file",
        ) from error
    if len(content) > _LARGEST:
        raise RailyardError("%s is larger than %d bytes" % (url, _LARGEST), place, "check the URL")
    return content


def _pulled(source: str, file: File, helm: str, place: str) -> bytes:
    """Return the chart from an OCI registry. ``source``: the reference of the chart, or the path above it."""
    name, _dash, version = file.name[: -len(".tgz")].rpartition("-")
    reference = (
        source.rstrip("/") if posixpath.basename(source.rstrip("/")) == name else source.rstrip("/") + "/" + name
    )
    with tempfile.TemporaryDirectory(prefix="railyard-") as folder:
        argv = [helm, "pull", reference, "--version", version, "--destination", folder]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        files = glob.glob(os.path.join(folder, "*.tgz"))
        if done.returncode or not files:
            raise RailyardError(
                "%s cannot be pulled: %s" % (reference, " ".join(done.stderr.split()) or "helm left no file"),
                place,
                "check that the control node can reach it and helm is logged in (helm registry login), or"
                " name a directory that holds %s" % file.name,
            )
        return _read(files[0], place, file.name)


def _keep(path: str, content: bytes) -> None:
    """Write the file atomically, because other runs may write it at the same time."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), delete=False) as file:
            file.write(content)
        os.replace(file.name, path)
    except OSError as error:
        raise RailyardError(
            "%s cannot be written: %s" % (error.filename or path, error.strerror or error),
            "control node",
            "make the directory writable, or set another one with XDG_CACHE_HOME",
        ) from error


# -- reading


def documents(content: bytes, where: str) -> list[dict[str, t.Any]]:
    """Return the objects of a manifest.

    :raises RailyardError: if it is not YAML, or contains other documents than objects.
    """
    try:
        found_objects = [each for each in yaml.load_all(content, Loader=_LOADER) if each]
    except yaml.YAMLError as error:
        raise RailyardError(
            "it is not valid YAML: %s" % " ".join(str(error).split()), where, "check that the file is complete"
        ) from error
    for each in found_objects:
        if not isinstance(each, dict) or not each.get("kind") or not (each.get("metadata") or {}).get("name"):
            raise RailyardError(
                "it contains a document that is not an object", where, "download upstream's manifest again"
            )
    return found_objects


def chart(archive: Archive) -> Chart:
    """Return the chart of an archive, or of an unpacked folder.

    :raises RailyardError: if it is not a chart.
    """
    try:
        members = _packed(archive) if archive.content else _unpacked(archive.path)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise RailyardError(
            "it cannot be unpacked: %s" % error, archive.path, "check that the file is complete"
        ) from error
    tops = sorted({path.partition("/")[0] for path in members if path.endswith("/Chart.yaml")}, key=len)
    if not tops:
        raise RailyardError("it is not a chart: it has no Chart.yaml", archive.path, "set the archive of a chart")
    return _chart({path.partition("/")[2]: content for path, content in members.items()}, archive.path)


def _packed(archive: Archive) -> dict[str, bytes]:
    found_members: dict[str, bytes] = {}
    with tarfile.open(archive.path, "r:gz") as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isfile() and member.size <= _LARGEST else None
            if file:
                found_members[member.name] = file.read()
    return found_members


def _unpacked(folder: str) -> dict[str, bytes]:
    found_members = {}
    for directory, _folders, files in os.walk(folder):
        for name in files:
            path = os.path.join(directory, name)
            with open(path, "rb") as file:
                found_members["chart/" + os.path.relpath(path, folder)] = file.read()
    return found_members


def _chart(members: t.Mapping[str, bytes], where: str) -> Chart:
    about = _mapping(members.get("Chart.yaml", b""), where)
    wants = about.get("dependencies") or []
    names = {each["name"]: each.get("alias") or each["name"] for each in wants}
    parts: dict[str, Chart] = {}
    for top in sorted({path.split("/")[1] for path in members if path.startswith("charts/") and path.count("/") > 1}):
        prefix = "charts/%s/" % top
        below = {path[len(prefix) :]: content for path, content in members.items() if path.startswith(prefix)}
        if "Chart.yaml" in below:
            part = _chart(below, where)
            parts[names.get(part.name, part.name)] = part
    return Chart(
        str(about.get("name") or ""),
        str(about.get("version") or ""),
        str(about.get("kubeVersion") or ""),
        _mapping(members.get("values.yaml", b""), where),
        parts,
        {each.get("alias") or each["name"]: each["condition"] for each in wants if each.get("condition")},
        [
            each
            for path, content in sorted(members.items())
            if path.startswith("crds/") and path.endswith((".yaml", ".yml"))
            for each in documents(content, where)
        ],
    )


def _mapping(content: bytes, where: str) -> dict[str, t.Any]:
    try:
        value = yaml.load(content, Loader=_LOADER) or {}
    except yaml.YAMLError as error:
        raise RailyardError(
            "its YAML cannot be read: %s" % " ".join(str(error).split()), where, "correct the YAML"
        ) from error
    return value if isinstance(value, dict) else {}

#!/usr/bin/env python3
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Download upstream's charts, manifests and schemas to vendor/, for tests that compare the collection with them.

Releases and SHA-256 of charts and manifests are those of the collection itself (``PINS``), of schemas those of
tests/schemas. Two charts are packed from a source tree and have no published checksum (docs/cluster-software.md); they
are not fetched.
"""

from __future__ import annotations

import hashlib
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "vendor"
sys.path[:0] = [str(ROOT), str(ROOT / "collections")]

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.software_versions import PINS  # noqa: E402
from tools import reduced_schemas  # noqa: E402

HOST = "https://raw.githubusercontent.com"
# Repository, branch or tag, and directory. {0} is the release.
SOURCES = {
    "calico": "projectcalico/calico/{0}/manifests",
    "flannel": "flannel-io/flannel/{0}/Documentation",
    "multus": "k8snetworkplumbingwg/multus-cni/{0}/deployments",
    "spiderpool": "spidernet-io/spiderpool/github_pages/charts",
    "gpu-operator": "NVIDIA/gpu-operator/gh-pages/stable",
}


def wanted() -> dict[str, tuple[str, str]]:
    """Return path below vendor/ -> URL and SHA-256, of all files that have both."""
    found = {
        "charts/" + file.name: ("/".join([HOST, SOURCES[name].format(pin.version), file.name]), file.sha256)
        for name, pin in PINS.items()
        for files in pin.files.values()
        for file in files
        if name in SOURCES and file.sha256
    }
    for file, (path, sha256) in reduced_schemas.pinned().items():
        found["schemas/%s" % file] = ("%s/%s" % (HOST, path), sha256)
    return found


def fetch(url: str, sha256: str, path: Path) -> str:
    """Download a file, and write it if its checksum is correct. Return an error message; empty on success."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            content = answer.read()
    except (urllib.error.URLError, TimeoutError) as error:
        return "%s cannot be fetched: %s. Remedy: see that this machine reaches that host" % (url, error)
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        return "%s has the SHA-256 %s and must have %s. Remedy: nothing was written; see what changed" % (
            url,
            found,
            sha256,
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    os.replace(part, path)
    return ""


def main() -> int:
    failed = 0
    for name, (url, sha256) in wanted().items():
        path = PLACE / name
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256:
            print("%s: is there" % name)
            continue
        wrong = fetch(url, sha256, path)
        print(wrong or "%s: fetched" % name, file=sys.stderr if wrong else sys.stdout)
        failed += bool(wrong)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

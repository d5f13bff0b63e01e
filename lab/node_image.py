# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Additions to the image of guests that are Kubernetes nodes: a newer kernel, containerd, kubelet, the image of pods.

The kernel is that of the backports of the guests' release: soft RDMA works in a pod's network namespace from Linux 7.2
on.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from pathlib import Path
from typing import Any

from lab import archive as archives
from lab import host as hosts
from lab.guest_system import CLUSTER_SYSTEM, DEBIAN_RELEASES
from lab.progress import run, say

HOOK = Path(__file__).resolve().parent / "guest-node.sh"
FILES = HOOK.with_name("node")
SUITE = DEBIAN_RELEASES[CLUSTER_SYSTEM]
BACKPORTS = SUITE + "-backports"
KERNEL = "linux-image-amd64/" + BACKPORTS
PACKAGES = ["containerd", "runc", "python3-grpcio"]
UNUSED = ("sound", "drivers/gpu", "drivers/media", "drivers/staging", "drivers/net/wireless")
LEAVE_OUT = tuple("/usr/lib/modules/*/kernel/%s/*" % part for part in UNUSED)
# One image serves as every pod's sandbox and as a container for tests: without a command it waits.
POD_IMAGE = "lab.railyard/pod:1"
POD_PACKAGES = ["catatonit", "iproute2", "iputils-ping", "ethtool", "ibverbs-utils", "perftest"]
POD_ENTRYPOINT = ["/usr/bin/catatonit", "-P"]


def recipe(kubelet: Path, digest: str) -> dict[str, Any]:
    """Return all inputs of these additions. ``digest``: that of the kubelet's content."""
    files = {str(place.relative_to(FILES)): place.read_text(encoding="utf-8") for place in _files()}
    return {
        "node": {
            "backports": BACKPORTS,
            "packages": [KERNEL, *PACKAGES],
            "leave_out": list(LEAVE_OUT),
            "files": files,
            "hook": HOOK.read_text(encoding="utf-8"),
            "pod": [POD_IMAGE, POD_PACKAGES, POD_ENTRYPOINT],
            "kubelet": [kubelet.name, digest],
        }
    }


def _files() -> list[Path]:
    return sorted(place for place in FILES.rglob("*") if place.is_file() and "__pycache__" not in place.parts)


def build_pod_image(work: Path, source: Path, log: Path, remedy: str) -> Path:
    """Build the image of pods from packages. Return an archive for containerd."""
    say("  making the pods' image")
    layer, archive = work / "pod-layer.tar", work / "pod.tar"
    command = [hosts.tool("mmdebstrap"), "--mode=root", "--variant=essential", "--format=tar", "--skip=output/dev"]
    command += ["--dpkgopt=path-exclude=/usr/share/%s/*" % part for part in ("doc", "man", "locale", "info")]
    command += ["--include=" + ",".join(POD_PACKAGES), SUITE, str(layer), str(source)]
    run(hosts.as_root(command), log, "making the pods' image", remedy)
    run(hosts.as_root(["chown", "%d:%d" % (os.geteuid(), os.getegid()), str(layer)]), log, "owning it", remedy)
    write_archive(archive, layer)
    return archive


def write_archive(archive: Path, layer: Path) -> None:
    """Write an image of one uncompressed layer in the form of ``docker save``."""
    digest = hashlib.sha256()
    with open(layer, "rb") as data:
        while block := data.read(1 << 20):
            digest.update(block)
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": POD_ENTRYPOINT, "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest.hexdigest()]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [POD_IMAGE], "Layers": [layer.name]}]
    with tarfile.open(archive, "w") as tar:
        for name, value in (("config.json", config), ("manifest.json", manifest)):
            archives.add(tar, name, json.dumps(value).encode())
        tar.add(layer, layer.name)

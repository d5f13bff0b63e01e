# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guests' image: a kernel, an initrd and a root filesystem, made from a distribution's packages.

An image is cached under the hash of its recipe. It is built in a temporary directory and renamed, so that the cache has
only complete images. An image whose files have changed, by size and time and then by content, is built again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import host as hosts
from lab import kernel, node_image
from lab.errors import LabError
from lab.guest_system import GuestSystem
from lab.progress import run, say
from lab.state import locked, write_file

SETUP = Path(__file__).resolve().parent / "guest-setup.sh"
BYTECODE = SETUP.with_name("guest-bytecode.py")
PACKAGES = [
    # a host as the collection expects one
    *("systemd-sysv", "udev", "dbus", "openssh-server", "sudo", "python3", "python3-apt", "python3-pyroute2"),
    *("python3-netaddr", "iproute2", "iputils-ping", "kmod", "procps", "pciutils", "ethtool", "initramfs-tools"),
    *("zstd", "libnss-myhostname"),
    # the RDMA stack, its tests, card tools and pod interfaces
    *("rdma-core", "ibverbs-utils", "infiniband-diags", "perftest", "mstflint", "containernetworking-plugins"),
    # for looking around
    *("tcpdump", "less"),
]
LEAVE_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
DISK_GIB = 4
FILES = ("kernel", "initrd", "root.raw", "id_ed25519", "id_ed25519.pub", "host_key.pub")


@dataclass(frozen=True)
class Image:
    """A finished image: the directory of its files and an id that changes with its content."""

    directory: Path
    id: str

    @property
    def kernel(self) -> Path:
        return self.directory / "kernel"

    @property
    def initrd(self) -> Path:
        return self.directory / "initrd"

    @property
    def root(self) -> Path:
        return self.directory / "root.raw"

    @property
    def key(self) -> Path:
        return self.directory / "id_ed25519"

    @property
    def host_key(self) -> str:
        return (self.directory / "host_key.pub").read_text(encoding="ascii").strip()


def cache_directory() -> Path:
    """Return the directory of images and of an unpacked QEMU, which labs share."""
    own = os.environ.get("RAILYARD_LAB_CACHE")
    if own:
        return Path(own).expanduser().resolve()
    shared = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(shared).expanduser().resolve() / "railyard" / "lab"


def recipe(system: GuestSystem, kubelet: Path | None = None) -> dict[str, Any]:
    """Return all inputs of the image; with a kubelet, of the image of Kubernetes nodes."""
    values = {
        "distribution": [system.distribution, system.codename],
        "network": system.network,
        "packages": _packages(system, kubelet),
        "leave_out": list(LEAVE_OUT),
        "disk_gib": DISK_GIB,
        "setup": [place.read_text(encoding="utf-8") for place in (SETUP, BYTECODE, Path(kernel.__file__))],
    }
    return {**values, **node_image.recipe(kubelet, content_hash(kubelet))} if kubelet else values


def _packages(system: GuestSystem, kubelet: Path | None) -> list[str]:
    kernel = node_image.KERNEL if kubelet else system.kernel
    return [kernel, *(node_image.PACKAGES if kubelet else ()), *system.network_packages, *PACKAGES]


def recipe_hash(values: dict[str, Any]) -> str:
    """Return the name of the image of a recipe."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def content_hash(place: Path) -> str:
    """Return a hash of a file's content without holes and zeros, so that a large sparse file is read quickly."""
    digest = hashlib.sha256()
    size, chunk = place.stat().st_size, 1 << 20
    digest.update(b"%d" % size)
    with open(place, "rb", buffering=0) as handle:
        offset = 0
        while offset < size:
            try:
                offset = os.lseek(handle.fileno(), offset, os.SEEK_DATA) // chunk * chunk
            except OSError:
                break
            handle.seek(offset)
            data = handle.read(chunk)
            if data.strip(b"\0"):
                digest.update(b"%d:" % offset)
                digest.update(data)
            offset += chunk
    return digest.hexdigest()


def _manifest(directory: Path) -> dict[str, Any]:
    files = {}
    for name in FILES:
        status = (directory / name).stat()
        files[name] = {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": content_hash(directory / name)}
    return {"files": files, "id": hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:16]}


def fault(directory: Path) -> str | None:
    """Return why the image in ``directory`` is damaged; None if it is complete."""
    try:
        manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
        files = {name: manifest["files"][name] for name in FILES}
        str(manifest["id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return "its manifest cannot be read (%s)" % error
    for name, expected in files.items():
        try:
            status = (directory / name).stat()
        except OSError:
            return "%s is missing" % name
        if status.st_size != expected["size"]:
            return "%s has %d bytes and not %d" % (name, status.st_size, expected["size"])
        if status.st_mtime_ns != expected["mtime_ns"] and content_hash(directory / name) != expected["sha256"]:
            return "%s has changed since it was built" % name
    return None


def find(directory: Path) -> Image | None:
    """Return the image in ``directory``; None if it is missing or damaged."""
    if not directory.is_dir() or fault(directory):
        return None
    return Image(directory, json.loads((directory / "manifest.json").read_text(encoding="utf-8"))["id"])


def ensure(host: hosts.Host, system: GuestSystem, cache: Path, kubelet: Path | None = None) -> Image:
    """Return the image of the current recipe. It is built if it is missing or damaged. Raises LabError on failure."""
    directory = cache / recipe_hash(recipe(system, kubelet))
    with locked(cache / (directory.name + ".lock"), "another command is building the image; waiting for it"):
        image = find(directory)
        if image is None:
            if directory.exists():
                say("the cached image is damaged: %s; building it again" % fault(directory))
            _build(host, system, directory, kubelet)
            image = find(directory)
    if image is None:
        raise LabError("the image in %s changed while it was built" % directory, "run the command again")
    return image


def _build(host: hosts.Host, system: GuestSystem, directory: Path, kubelet: Path | None) -> None:
    """Build the image in a temporary directory, and rename it."""
    log = directory.with_name(directory.name + ".log")
    log.unlink(missing_ok=True)
    say("building the guests' image: %s, network managed by %s (once; log: %s)" % (system.name, system.network, log))
    work = Path(tempfile.mkdtemp(prefix=directory.name + ".", suffix=".building", dir=directory.parent))
    try:
        work.chmod(0o755)
        result = work / "image"
        result.mkdir(mode=0o755)
        _key(result)
        tree = work / "tree"
        _debootstrap(host, system, work, tree, kubelet, log)
        _extract(tree, result, log)
        write_file(result / "manifest.json", json.dumps(_manifest(result), indent=2))
        if directory.exists():
            os.rename(directory, work / "damaged")
        os.rename(result, directory)
    finally:
        # The tree belongs to root.
        with contextlib.suppress(LabError):
            subprocess.run(hosts.as_root(["rm", "-rf", "--one-file-system", str(work)]), check=False)
    say("the image is ready: %s" % directory)


def _key(result: Path) -> None:
    command = [hosts.tool("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", "railyard lab"]
    done = subprocess.run([*command, "-f", str(result / "id_ed25519")], capture_output=True, text=True)
    if done.returncode != 0:
        raise LabError("cannot make the lab's SSH key: %s" % done.stderr.strip(), "see that ssh-keygen works here")


def _debootstrap(
    host: hosts.Host, system: GuestSystem, work: Path, tree: Path, kubelet: Path | None, log: Path
) -> None:
    """Unpack the guests' root filesystem into ``tree`` and configure it. The key is in ``work/image``."""
    remedy = (
        "see that this host's package sources answer (apt-get update) and that there are %d GiB free in %s,"
        " then run the command again" % (DISK_GIB, work.parent)
    )
    sources = work / "release.sources"
    backports = [host.sources_of(node_image.BACKPORTS)] if kubelet else []
    sources.write_text("\n".join([host.release_sources(system.codename), *backports]), encoding="utf-8")
    script = work / "guest-setup.sh"
    shutil.copy(SETUP, script)
    shutil.copy(BYTECODE, work)
    command = [
        hosts.tool("mmdebstrap"),
        "--mode=root",
        "--variant=minbase",
        "--format=directory",
        "--include=" + ",".join(_packages(system, kubelet)),
    ]
    left_out = (*LEAVE_OUT, *(node_image.LEAVE_OUT if kubelet else ()))
    command += ["--dpkgopt=path-exclude=" + pattern for pattern in left_out]
    for hook, phase in (("essential", "early"), ("customize", "late")):
        words = (hook, script, phase, work / "image/id_ed25519.pub", system.network)
        command.append('--%s-hook=sh "%s" %s "$1" "%s" %s' % words)
    if kubelet:
        pod = node_image.build_pod_image(work, sources, log, remedy)
        additions = (node_image.HOOK, node_image.FILES, kubelet, pod)
        command.append('--customize-hook=sh "%s" "$1" "%s" "%s" "%s"' % additions)
    line = hosts.as_root([*command, system.codename, str(tree), str(sources)])
    run(line, log, "building the root filesystem", remedy, show=_shown)


def _shown(line: str) -> str | None:
    """The lines of mmdebstrap that show progress."""
    for begin in (
        "running apt-get update",
        "downloading",
        "extracting",
        "installing essential",
        "installing remaining",
        "cleaning",
    ):
        if line.startswith("I: " + begin):
            return "  " + line[3:].rstrip(".")
    return None


def _extract(tree: Path, result: Path, log: Path) -> None:
    """Turn the tree into a filesystem, and take out what QEMU is given beside it."""
    remedy = "see the log and the free space in %s, then run the command again" % result.parent
    say("  making the filesystem")
    disk = result / "root.raw"
    owner = "%d:%d" % (os.geteuid(), os.getegid())
    make = [hosts.tool("mke2fs"), "-q", "-t", "ext4", "-L", "railyard", "-E", "nodiscard", "-d", str(tree), str(disk)]
    run(hosts.as_root([*make, "%dG" % DISK_GIB]), log, "making the filesystem", remedy)
    for link, name in (("vmlinuz", "kernel"), ("initrd.img", "initrd")):
        # Debian keeps these links at the root, Ubuntu in /boot; both name the newest kernel.
        places = [place for place in (tree / link, tree / "boot" / link) if place.is_symlink()]
        if not places:
            raise LabError("the image has no %s" % link, remedy)
        target = os.readlink(places[0])
        source = tree / target.lstrip("/") if target.startswith("/") else places[0].parent / target
        run(hosts.as_root(["cp", str(source), str(result / name)]), log, "taking out %s" % name, remedy)
    public = tree / "etc/ssh/ssh_host_ed25519_key.pub"
    run(hosts.as_root(["cp", str(public), str(result / "host_key.pub")]), log, "taking out the host key", remedy)
    run(hosts.as_root(["chown", owner, *(str(result / name) for name in FILES)]), log, "owning the image", remedy)
    kernel.uncompress(result / "kernel", tree)
    for name in FILES:
        (result / name).chmod(0o600 if name == "id_ed25519" else 0o444)

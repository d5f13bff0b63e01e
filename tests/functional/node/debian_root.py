# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Debian node of a test's own: this machine's files under a layer that is thrown away, with real apt, dpkg and mount.

Packages are small, with the vendor's names, versions and layout, and are built, indexed and signed with Debian's own
tools. What a machine without NICs and kernel modules has no is in and keeps state: depmod's listings, DKMS, the
initial RAM filesystem's tools, systemctl. Each scenario runs in a child process, and its root goes with it.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import functools
import gzip
import hashlib
import http.server
import os
import shutil
import subprocess
import textwrap
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from tests.functional.node.child_process import in_child

CLONE_NEWNS = 0x00020000
MS_REC, MS_PRIVATE, MS_BIND = 0x4000, 0x40000, 0x1000
RUNNING, OTHER = "6.1.0-25-amd64", "6.1.0-26-amd64"
INBOX = "kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko"
CORE = "kernel/drivers/infiniband/core/ib_core.ko"
BUILT = "updates/dkms/mlx5_core.ko"
DOCA, MLNX = "/srv/doca/2.9.3/debian12.5/x86_64", "/srv/MLNX_OFED_LINUX-24.10-1.1.4.0-debian12.5-x86_64"
LOG = Path("/srv/log")

# What DKMS does of it: the driver's module for every kernel whose headers are there, in front of the kernel's own.
BUILD = """\
#!/bin/sh
# dkms autoinstall -k RELEASE; without headers, or where /srv/fail-dkms is, it fails as the real one does
[ "$1" = autoinstall ] || exit 1
release=$3
echo "dkms $*" >> /srv/log
[ -e /srv/fail-dkms ] && { echo "Error! Bad return status for module build on kernel: $release" >&2; exit 10; }
[ -d /lib/modules/$release/build ] || { echo "Error! Your kernel headers for $release cannot be found" >&2; exit 1; }
mkdir -p /lib/modules/$release/updates/dkms
echo "version=$(cat /usr/src/ofa_kernel/VERSION) srcversion=OFED$(cat /usr/src/ofa_kernel/VERSION)" \\
    > /lib/modules/$release/updates/dkms/mlx5_core.ko
exec depmod $release
"""
DEPMOD = """\
#!/bin/sh
module=kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko
[ -e /lib/modules/$1/updates/dkms/mlx5_core.ko ] && module=updates/dkms/mlx5_core.ko
echo "$module: kernel/drivers/infiniband/core/ib_core.ko" > /lib/modules/$1/modules.dep
echo "kernel/drivers/infiniband/core/ib_core.ko:" >> /lib/modules/$1/modules.dep
"""
MODINFO = """\
#!/bin/sh
echo "filename:       $1"
tr ' ' '\\n' < "$1" | sed 's/=/:        /'
"""
INITRAMFS = """\
#!/bin/sh
# update-initramfs -u -k RELEASE
echo "update-initramfs $*" >> /srv/log
module=$(sed -n 's/mlx5_core.ko:.*/mlx5_core.ko/p' /lib/modules/$3/modules.dep)
echo "usr/lib/modules/$3/$module" > /boot/initrd.img-$3
"""
# A masked unit is neither started nor restarted.
SYSTEMCTL = """\
#!/bin/sh
echo "systemctl $*" >> /srv/log
unit=/run/systemd/system/openibd.service
case "$1" in
mask) ln -sf /dev/null $unit ;;
unmask) rm -f $unit ;;
restart) [ -L $unit ] && { echo "Failed to restart openibd.service: Unit openibd.service is masked." >&2; exit 1; }
    echo RESTARTED >> /srv/log
    cp /lib/modules/6.1.0-25-amd64/updates/dkms/mlx5_core.ko /srv/running
    sed 's/.*srcversion=//' /srv/running > /sys/module/mlx5_core/srcversion
    mkdir -p /sys/module/mlx_compat; echo live > /sys/module/mlx_compat/initstate ;;
esac
exit 0
"""
DISTRIBUTION = """\
Types: deb
URIs: file:/srv/debian
Suites: ./
Trusted: yes
"""


class DebianNode(System):
    """The node in this process's root. ``kernel``: what runs."""

    def read_bytes(self, path: str) -> bytes | None:
        return RUNNING.encode() if path == "/proc/sys/kernel/osrelease" else super().read_bytes(path)

    @staticmethod
    def dpkg() -> dict[str, str]:
        reported = subprocess.run(["dpkg-query", "-W"], check=True, capture_output=True, text=True).stdout
        rows = [line.split("\t") for line in reported.splitlines()]
        return {name: version for name, version in rows if name.startswith(("doca", "mlnx", "ofed", "rdma-core-x"))}

    @staticmethod
    def modules(release: str) -> str:
        return Path("/lib/modules/%s/modules.dep" % release).read_text().partition(":")[0]

    @staticmethod
    def log() -> list[str]:
        return LOG.read_text().splitlines() if LOG.exists() else []


def sh(*argv: str, **options: t.Any) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, **options)
    assert not done.returncode, done.stdout + done.stderr
    return done.stdout


def package(
    place: Path, name: str, version: str, depends: str = "", scripts: t.Mapping[str, str] | None = None
) -> None:
    """Build one package with dpkg-deb."""
    tree = place / ".build" / name
    shutil.rmtree(tree, ignore_errors=True)
    (tree / "DEBIAN").mkdir(parents=True)
    fields = ["Package: " + name, "Version: " + version, "Architecture: all", "Maintainer: test <n@example.com>"]
    fields += ["Depends: " + depends] if depends else []
    (tree / "DEBIAN/control").write_text("\n".join([*fields, "Description: %s, for a test" % name]) + "\n")
    for script, text in (scripts or {}).items():
        (tree / "DEBIAN" / script).write_text("#!/bin/sh\nset -e\n" + textwrap.dedent(text))
        (tree / "DEBIAN" / script).chmod(0o755)
    (tree / "usr/share/doc" / name).mkdir(parents=True)
    sh("dpkg-deb", "--root-owner-group", "-Znone", "-b", str(tree), "%s/%s_%s_all.deb" % (place, name, version))
    shutil.rmtree(place / ".build")


def index(place: Path, key: str | None = None) -> None:
    """The repository's index, signed where there is a key (in ``GNUPGHOME``)."""
    text = sh("dpkg-scanpackages", "-m", ".", cwd=str(place))
    (place / "Packages").write_text(text)
    (place / "Packages.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    lines = ["Date: Sat, 21 Nov 2026 12:00:00 UTC", "Architectures: all amd64", "SHA256:"]
    for name in ("Packages", "Packages.gz"):
        data = (place / name).read_bytes()
        lines.append(" %s %d %s" % (hashlib.sha256(data).hexdigest(), len(data), name))
    (place / "Release").write_text("\n".join(lines) + "\n")
    if key:
        sh("gpg", "--batch", "--yes", "-u", key, "--clearsign", "-o", str(place / "InRelease"), str(place / "Release"))


def driver(place: Path, ofed: str, metas: t.Mapping[str, str]) -> None:
    """The vendor's packages: the metas, the kernel's part that is built by DKMS, and one of a name that Debian has."""
    place.mkdir(parents=True, exist_ok=True)
    train = ofed.partition("-")[0].replace(".", "")
    kernel = "%s.OFED.%s.1-1" % (ofed.partition("-")[0], ofed.replace("-", "."))
    scripts = {
        "postinst": """
            if [ "$1" = configure ]; then
                [ -e /srv/die ] && kill -9 $PPID && exit 1
                [ "$RUN_FW_UPDATER" = no ] || echo BURNT >> /srv/log
                mkdir -p /usr/src/ofa_kernel; echo %s > /usr/src/ofa_kernel/VERSION
                dkms autoinstall -k %s || exit 1
                systemctl restart openibd || true
            fi
            """
        % (ofed, RUNNING),
        "prerm": """
            [ "$1" = remove ] || exit 0
            for release in %s %s; do
                rm -f /lib/modules/$release/updates/dkms/mlx5_core.ko; depmod $release
            done
            """
        % (RUNNING, OTHER),
    }
    package(place, "mlnx-ofed-kernel-dkms", kernel, scripts=scripts)
    package(place, "rdma-core-x", "%smlnx54-1.%s114" % (train, train))
    for name, version in metas.items():
        depends = "mlnx-ofed-kernel-dkms (= %s), rdma-core-x (>= %smlnx)" % (kernel, train)
        package(place, name, version, depends)


def _furnish() -> None:
    """A node whose kernels have an inbox driver, with a distribution of its own, of which nothing is installed yet."""
    for name in ("dpkg/info", "dpkg/updates", "dpkg/triggers", "apt/lists/partial"):
        Path("/var/lib", name).mkdir(parents=True)
    Path("/var/lib/dpkg/status").write_text("")
    Path("/var/cache/apt/archives/partial").mkdir(parents=True)
    shutil.rmtree("/etc/apt/sources.list.d", ignore_errors=True)
    Path("/etc/apt/sources.list").write_text("")
    Path("/etc/apt/sources.list.d").mkdir()
    Path("/etc/apt/sources.list.d/debian.sources").write_text(DISTRIBUTION)
    for place in ("/srv/debian", "/run/systemd/system", "/boot", "/etc/modprobe.d"):
        Path(place).mkdir(parents=True, exist_ok=True)
    programs = {
        "dkms": BUILD, "depmod": DEPMOD, "modinfo": MODINFO, "update-initramfs": INITRAMFS, "systemctl": SYSTEMCTL,
        "lsinitramfs": '#!/bin/sh\nexec cat "$1"\n',
    }  # fmt: skip
    for name, text in programs.items():
        path = Path("/usr/sbin") / name  # where apt lets packages' scripts look
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
    for release in (RUNNING, OTHER):
        for place in (INBOX, CORE):
            module = Path("/lib/modules", release, place)
            module.parent.mkdir(parents=True)
            # a kernel may give its own modules a srcversion, and Debian's does not
            module.write_text("srcversion=INBOX intree=Y" if place == INBOX else "intree=Y")
        Path("/lib/modules", release, "build").mkdir()
        Path("/boot/vmlinuz-" + release).write_text("")
        sh("depmod", release)
        sh("update-initramfs", "-u", "-k", release)
    LOG.unlink()
    for name in ("ib_core", "mlx5_core"):
        Path("/sys/module", name, "holders").mkdir(parents=True)
        Path("/sys/module", name, "initstate").write_text("live\n")
    Path("/sys/module/mlx5_core/srcversion").write_text("INBOX\n")
    Path("/sys/bus/pci/devices").mkdir(parents=True)
    package(Path("/srv/debian"), "rdma-core-x", "44.0-2")
    index(Path("/srv/debian"))
    sh("apt-get", "update")
    sh("apt-get", "install", "-y", "rdma-core-x")


def key(name: str) -> str:
    """Make a key; its public half, armoured."""
    os.environ["GNUPGHOME"] = "/srv/gnupg"
    Path("/srv/gnupg").mkdir(mode=0o700, exist_ok=True)
    sh("gpg", "--batch", "--passphrase", "", "--quick-gen-key", name, "ed25519", "sign", "never")
    return sh("gpg", "--export", "--armor", name)


@contextlib.contextmanager
def web(place: str, logins: t.Mapping[str, str]) -> t.Iterator[str]:
    """A web server of this machine with the files of ``place``: its address, without the scheme.

    :param logins: user -> password; who gives none of them is refused. It may change while the server runs.
    """

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: t.Any) -> None:
            super().__init__(*arguments, directory=place)

        def do_GET(self) -> None:
            message = (self.headers.get("Authorization") or "").rpartition(" ")[2]
            user, _colon, password = base64.b64decode(message).decode().partition(":")
            if logins.get(user) == password:
                super().do_GET()
                return
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="packages"')
            self.end_headers()

        def log_message(self, *_arguments: t.Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        os.environ.pop(name, None)
    try:
        yield "127.0.0.1:%d" % server.server_port
    finally:
        server.shutdown()


@functools.lru_cache(None)
def why_not() -> str:
    """Why there can be no such root here; empty where there can."""
    if not all(shutil.which(name) for name in ("apt-get", "dpkg-deb", "dpkg-scanpackages", "mkfs.ext4")):
        return "this is no Debian with dpkg-dev and e2fsprogs"
    command = (
        "mount -t tmpfs none /mnt && mkdir /mnt/u /mnt/w /mnt/m"
        " && mount -t overlay none -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w /mnt/m"
    )
    try:
        done = subprocess.run(["unshare", "--mount", "sh", "-c", command], capture_output=True, text=True)
    except OSError as error:
        return str(error)
    return done.stderr.strip() if done.returncode else ""


def on_debian(scenario: t.Callable[..., None]) -> t.Callable[..., None]:
    """A test that runs the scenario on a Debian node of its own."""

    @functools.wraps(scenario)
    def test(**arguments: t.Any) -> None:
        if why_not():
            pytest.skip("no root of one's own here: %s" % why_not())

        def work() -> None:
            _enter()
            _furnish()
            scenario(DebianNode(), **arguments)

        in_child(work)

    # pytest must see the test's own arguments, without the node
    del test.__wrapped__  # type: ignore[attr-defined]
    return test


def _enter() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    os.environ.pop("SSH_CONNECTION", None)

    def call(name: str, *arguments: t.Any) -> None:
        if getattr(libc, name)(*arguments):
            raise OSError(ctypes.get_errno(), "%s: %s" % (name, os.strerror(ctypes.get_errno())))

    call("unshare", CLONE_NEWNS)
    call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    call("mount", b"none", b"/mnt", b"tmpfs", 0, None)
    for name in ("u", "w", "m"):
        os.mkdir("/mnt/" + name)
    call("mount", b"none", b"/mnt/m", b"overlay", 0, b"lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w")
    for name in ("proc", "sys", "run", "srv", "boot", "var/lib/dpkg", "var/lib/apt", "var/cache/apt"):
        os.makedirs("/mnt/m/" + name, exist_ok=True)
        call("mount", b"none", ("/mnt/m/" + name).encode(), b"proc" if name == "proc" else b"tmpfs", 0, None)
    call("mount", b"/dev", b"/mnt/m/dev", None, MS_BIND | MS_REC, None)
    os.chroot("/mnt/m")
    os.chdir("/")

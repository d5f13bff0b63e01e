# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests that are given more than the lab's image has: packages of this machine's distribution, and a boot loader."""

from __future__ import annotations

import base64
import subprocess
import tempfile
import time
import typing as t
from pathlib import Path

from lab import access, apt, guest, image, process, qemu, qmp
from lab import host as hosts
from lab import state as labs
from tests.integration.conftest import LAB, Node

# The label of the guests' root filesystem: by it GRUB finds its configuration.
LABEL = "railyard"
PAGE = 1 << 20


def install(node: Node, *names: str) -> None:
    """Install packages in a guest without a network: fetched here, with the dependencies that are missing there."""
    if node.run("dpkg-query -W -f '${Status}\\n' %s 2>/dev/null || true" % " ".join(names)).count(
        "ok installed"
    ) == len(names):
        return
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        (work / "status").write_text(node.run("cat /var/lib/dpkg/status"))
        (work / "apt").mkdir()
        get = apt.aside(work / "apt", hosts.Host.read().release_sources())
        get += ["-o", "Dir::State::status=%s" % (work / "status")]
        fetch = ["install", "--download-only", "-y", "--no-install-recommends", *names]
        for arguments in (["update"], fetch):
            done = subprocess.run([*get, *arguments], capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
        packages = sorted((work / "apt/archives").glob("*.deb"))
        assert packages
        for package in packages:
            node.put("/var/tmp/debs/" + package.name, package.read_bytes())
    node.run("DEBIAN_FRONTEND=noninteractive dpkg -i /var/tmp/debs/*.deb; rm -r /var/tmp/debs", timeout=300)


class Grub:
    """A guest that its own GRUB boots, from its own disk, with the configuration that its own update-grub wrote."""

    def __init__(self, node: Node) -> None:
        lab = labs.load(LAB)
        assert lab, "the lab %r is not up" % LAB
        self.node = node
        self._lab = lab
        self._number = lab.node_number(node.name)
        found = image.find(Path(lab.image))
        assert found
        self._image = found
        self._qemu = qemu.ensure(hosts.Host.read(), image.cache_directory())

    @property
    def _disk(self) -> Path:
        return self._lab.directory / ("%s.grub.raw" % self.node.name)

    def begin(self) -> None:
        if "BOOT_IMAGE=" in self.node.run("cat /proc/cmdline"):
            return
        install(self.node, "grub2-common", "grub-pc-bin")
        arguments = self._arguments()
        self.node.put(
            "/etc/default/grub",
            "GRUB_DEFAULT=0\nGRUB_TIMEOUT=0\nGRUB_TERMINAL=console\nGRUB_DISABLE_OS_PROBER=true\n"
            'GRUB_CMDLINE_LINUX_DEFAULT=""\nGRUB_CMDLINE_LINUX="%s"\n' % arguments,
        )
        self.node.run("mkdir -p /boot/grub && update-grub", timeout=300)
        early = "search --no-floppy --label --set=root %s\nset prefix=($root)/boot/grub\nconfigfile $prefix/grub.cfg\n"
        self.node.put("/var/tmp/early.cfg", early % LABEL)
        # the first sector, and the core that it loads from the next one on
        modules = "biosdisk ext2 search search_label configfile normal linux echo test all_video gzio minicmd"
        self.node.run(
            "cd /var/tmp && grub-mkimage -O i386-pc -c early.cfg -p /boot/grub -o core.img %s &&"
            " cat /usr/lib/grub/i386-pc/boot.img core.img > grub.img && cp -r /usr/lib/grub/i386-pc /boot/grub/"
            % modules,
            timeout=300,
        )
        data = base64.b64decode(self.node.run("base64 /var/tmp/grub.img"))
        self._disk.write_bytes(data + bytes(-len(data) % PAGE))
        self._start(self._command())
        assert "BOOT_IMAGE=" in self.node.run("cat /proc/cmdline")

    def end(self) -> None:
        """The kernel is QEMU's to give again."""
        self._start(None)
        self._disk.unlink()

    def _arguments(self) -> str:
        argv = guest.command(self._lab, self._number, self._image, self._qemu)
        given = argv[argv.index("-append") + 1].split()
        return " ".join(word for word in given if not word.startswith("root=") and word != "ro")

    def _command(self) -> list[str]:
        """The guest's machine without a kernel, and with the disk that GRUB's first sectors are on."""
        argv = guest.command(self._lab, self._number, self._image, self._qemu)
        for option in ("-kernel", "-initrd", "-append"):
            at = argv.index(option)
            del argv[at : at + 2]
        root = next(at for at, word in enumerate(argv) if word.startswith("virtio-blk-pci,drive=root"))
        # behind the root's, so that names of disks stay
        other = argv[root].replace("drive=root", "drive=grub").replace("addr=0x1d", "addr=0x1d.1") + ",bootindex=0"
        argv[root] += ",multifunction=on"
        drive = "if=none,id=grub,format=raw,readonly=on,file=%s" % str(self._disk).replace(",", ",,")
        return [*argv, "-drive", drive, "-device", other]

    def _start(self, argv: t.Sequence[str] | None) -> None:
        lab, number = self._lab, self._number
        self.node.run("sync; systemctl poweroff", check=False)
        self.node.forget()
        for _second in range(300):
            if self.node.name not in process.members(lab.directory):
                break
            time.sleep(1)
        # one that hangs is ended
        process.stop(
            lab.directory, [each for each in process.members(lab.directory).values() if each.part == self.node.name]
        )
        with labs.changing(lab.name):
            if argv is None:
                guest.start(lab, number, self._image, self._qemu)
            else:
                qmp.monitor_socket(lab.run, number).unlink(missing_ok=True)
                process.spawn(
                    list(argv), lab.directory, self.node.name, lab.log(self.node.name), self._qemu.environment
                )
            access.wait(lab, [number])

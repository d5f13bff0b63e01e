# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""KVM or emulation, decided by trying: a /dev/kvm that opens may not boot a kernel."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from pathlib import Path

from lab.errors import LabError
from lab.image import Image
from lab.progress import say
from lab.qemu import Qemu
from lab.state import write_file

# Seconds in which a guest's kernel must start its first program.
SECONDS = 60.0


def boots(qemu: Qemu, image: Image) -> bool:
    """Return whether a guest's kernel starts its first program under KVM in :data:`SECONDS`."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    argv = [
        qemu.system,
        *qemu.arguments,
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
        "-machine",
        "q35",
        "-accel",
        "kvm",
        "-cpu",
        "host",
        "-smp",
        "2",
        "-m",
        "512",
        "-serial",
        "stdio",
        "-kernel",
        str(image.kernel),
        "-initrd",
        str(image.initrd),
        "-append",
        "console=ttyS0 panic=-1 rdinit=/init",
    ]
    process = subprocess.Popen(
        argv, env=qemu.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    console, end = b"", time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
            if select.select([process.stdout], [], [], 0.5)[0]:
                data = os.read(process.stdout.fileno(), 65536)
                console += data
                if b"Run /init as init process" in console:
                    return True
                if not data:
                    return False
        return False
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def decide(wanted: str, qemu: Qemu, image: Image, cache: Path) -> str:
    """Return ``kvm`` or ``tcg``. The result of a test of KVM is cached for this boot of the host and this QEMU.

    :param wanted: ``kvm``, ``tcg`` or ``auto``.
    :raises LabError: for ``kvm``, if KVM does not work.
    """
    if wanted == "tcg":
        return "tcg"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    key = "%s %s %d" % (boot, qemu.version, os.geteuid())
    file = cache / "accelerator.json"
    try:
        cached = json.loads(file.read_text(encoding="utf-8"))
        works = cached["works"] if cached["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        works = None
    if works is None:
        say("trying KVM")
        works = boots(qemu, image)
        write_file(file, json.dumps({"key": key, "works": works}))
        say("KVM boots a kernel here" if works else "KVM does not boot a kernel here: the guests are emulated")
    if wanted == "kvm" and not works:
        raise LabError(
            "KVM does not boot a guest's kernel on this machine",
            "make sure that you may read and write /dev/kvm, or use --accel auto",
        )
    return "kvm" if works else "tcg"

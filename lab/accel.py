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

SECONDS = 60.0


def boots(qemu: Qemu, image: Image) -> bool:
    """Whether a guest's kernel reaches its first program under KVM within a few seconds."""
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
    seen, end = b"", time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
            if select.select([process.stdout], [], [], 0.5)[0]:
                data = os.read(process.stdout.fileno(), 65536)
                seen += data
                if b"Run /init as init process" in seen:
                    return True
                if not data:
                    return False
        return False
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def decide(wanted: str, qemu: Qemu, image: Image, cache: Path) -> str:
    """``kvm`` or ``tcg``; what was tried is remembered for this boot of the host and this QEMU.

    Raises LabError when KVM is asked for by name and does not work.
    """
    if wanted == "tcg":
        return "tcg"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    key = "%s %s %d" % (boot, qemu.version, os.geteuid())
    place = cache / "accelerator.json"
    try:
        remembered = json.loads(place.read_text(encoding="utf-8"))
        works = remembered["works"] if remembered["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        works = None
    if works is None:
        say("trying KVM")
        works = boots(qemu, image)
        write_file(place, json.dumps({"key": key, "works": works}))
        say("KVM boots a kernel here" if works else "KVM does not boot a kernel here: the guests are emulated")
    if wanted == "kvm" and not works:
        raise LabError(
            "KVM does not boot a guest's kernel on this machine",
            "see that /dev/kvm is yours to use, or take --accel auto",
        )
    return "kvm" if works else "tcg"

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Store the memory and the disk of guests that have just booted, so that new labs start from them.

An emulated guest needs a minute to boot. ``lab up`` stores each new guest in the directory of its image when its boot
has ended. A later lab starts the same machine with the stored memory, and with a disk over the stored disk.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab import access, guest, process, qmp
from lab.errors import LabError
from lab.image import Image
from lab.progress import say
from lab.qemu import Qemu
from lab.state import Lab, locked, node_name

PREFIX = "booted-"
FREE_GIB = 4
# Seconds in which QEMU must read or write the memory of a guest
SECONDS = 120.0


def directory(lab: Lab, node: int, image: Image, qemu: Qemu) -> Path:
    """Return the directory of a stored guest. Its name depends on everything that the guest's memory depends on."""
    machine = [node, lab.rails, lab.memory, lab.cpus, lab.cluster, image.id, qemu.version]
    source = Path(guest.__file__).read_text(encoding="utf-8")
    name = hashlib.sha256(json.dumps([machine, source]).encode()).hexdigest()[:16]
    return image.directory / (PREFIX + name)


def find(lab: Lab, node: int, image: Image, qemu: Qemu) -> Path | None:
    """Return the directory of the stored guest for a new node, or None. With KVM, guests always boot."""
    stored = directory(lab, node, image, qemu)
    return stored if lab.accel == "tcg" and stored.is_dir() else None


def resume(lab: Lab, node: int) -> bool:
    """Continue a machine that was started with a stored memory. Return False if it cannot use this memory."""
    end = time.monotonic() + SECONDS
    try:
        with qmp.Monitor(lab.run, node) as monitor:
            while monitor.execute("query-status")["status"] == "inmigrate":
                if time.monotonic() > end:
                    return False
                time.sleep(0.05)
            monitor.execute("cont")
    except LabError:
        return False
    return True


def discard(lab: Lab, node: int, stored: Path) -> None:
    """Remove a stored guest, and the machine and the disk of a node that was started from it."""
    member = process.members(lab.directory).get(node_name(node))
    if member:
        process.stop(lab.directory, [member])
    lab.disk(node).unlink(missing_ok=True)
    shutil.rmtree(stored, ignore_errors=True)


def store(lab: Lab, nodes: list[int], image: Image, qemu: Qemu) -> None:
    """Store nodes that have booted for the first time. A node that cannot be stored is reported."""
    with ThreadPoolExecutor() as pool:
        running = list(pool.map(lambda node: _boot_has_ended(lab, node), nodes))
    for node in (node for node, ended in zip(nodes, running) if ended):
        final = directory(lab, node, image, qemu)
        work = final.with_suffix(".new")
        with locked(final.with_suffix(".lock"), "another command stores %s; waiting for it" % node_name(node)):
            if final.exists():
                continue
            shutil.rmtree(work, ignore_errors=True)  # of a command that was killed
            try:
                _write(lab, node, work)
                os.rename(work, final)
                say("stored %s as booted: it starts in seconds in the next lab of this size" % node_name(node))
            except LabError as error:
                shutil.rmtree(work, ignore_errors=True)
                say("%s is not stored: %s" % (node_name(node), error))


def _boot_has_ended(lab: Lab, node: int) -> bool:
    """Wait for the end of the boot, which continues after SSH answers. Return False if a unit has failed."""
    line = "systemctl is-system-running --wait"
    return (access.run(lab, node, line, access.BOOT_SECONDS[lab.accel]) or "").strip() == "running"


def _write(lab: Lab, node: int, target: Path) -> None:
    """Write memory and disk of a node to a new directory. Raises LabError if it cannot be written."""
    remedy = "free some space in %s" % target.parent
    if shutil.disk_usage(target.parent).free < FREE_GIB << 30:
        raise LabError("%s has less than %d GiB free" % (target.parent, FREE_GIB), remedy)
    with qmp.Monitor(lab.run, node) as monitor:
        monitor.execute("stop")
        try:
            target.mkdir(mode=0o700)
            monitor.execute("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
            monitor.execute("migrate", uri="file:%s" % (target / guest.STORED_MEMORY))
            end = time.monotonic() + SECONDS
            while (answer := monitor.execute("query-migrate"))["status"] != "completed":
                if answer["status"] in ("failed", "cancelled") or time.monotonic() > end:
                    raise LabError("cannot write its memory: %s" % answer.get("error-desc", answer["status"]), remedy)
                time.sleep(0.05)
            shutil.copyfile(lab.disk(node), target / guest.STORED_DISK)
        except OSError as error:
            raise LabError("cannot copy its disk: %s" % error, remedy) from None
        finally:
            monitor.execute("cont")

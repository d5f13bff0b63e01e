# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory and disk of guests that have just booted, from which the guests of a new lab start.

An emulated guest boots for a minute. The first one of its kind is stored in the directory of its image when its boot
has ended. A later lab starts the same machine with this memory and an overlay of this disk, which takes seconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab import access, guest, process, qmp
from lab.errors import LabError
from lab.guest import Booted
from lab.image import Image
from lab.progress import say
from lab.qemu import Qemu
from lab.state import Lab, node_name

PREFIX = "booted-"
FREE_GIB = 4
STORE_SECONDS = 120.0


def place(lab: Lab, node: int, image: Image, qemu: Qemu) -> Booted:
    """Return where a guest like this one is stored. The name follows from all that its memory depends on."""
    machine = [node, lab.rails, lab.memory, lab.cpus, lab.cluster, image.id, qemu.version]
    source = Path(guest.__file__).read_text(encoding="utf-8")
    name = hashlib.sha256(json.dumps([machine, source]).encode()).hexdigest()[:16]
    return Booted(image.directory / (PREFIX + name))


def find(lab: Lab, node: int, image: Image, qemu: Qemu) -> Booted | None:
    """Return the stored guest for a new node, or None. With KVM, a guest boots in seconds."""
    stored = place(lab, node, image, qemu)
    return stored if lab.accel == "tcg" and stored.directory.is_dir() else None


def resume(lab: Lab, node: int) -> bool:
    """Continue a machine that was started with a stored memory. Return False if it has ended."""
    try:
        with qmp.Monitor(lab.run, node) as monitor:
            end = time.monotonic() + STORE_SECONDS
            while monitor.execute("query-status")["status"] == "inmigrate":
                if time.monotonic() > end:
                    return False
                time.sleep(0.05)
            monitor.execute("cont")
    except LabError:
        return False
    return True


def discard(lab: Lab, node: int, stored: Booted) -> None:
    """Remove a stored guest that does not start, and what its machine left, so that the node can boot."""
    member = process.members(lab.directory).get(node_name(node))
    if member:
        process.stop(lab.directory, [member])
    lab.disk(node).unlink(missing_ok=True)
    shutil.rmtree(stored.directory, ignore_errors=True)


def store(lab: Lab, nodes: list[int], image: Image, qemu: Qemu) -> None:
    """Store these nodes, which have booted for the first time. A node that cannot be stored boots next time."""
    with ThreadPoolExecutor(max_workers=max(1, len(nodes))) as pool:
        ready = list(pool.map(lambda node: _has_booted(lab, node), nodes))
    stored = []
    for node in (node for node, booted in zip(nodes, ready) if booted):
        final = place(lab, node, image, qemu)
        if shutil.disk_usage(image.directory).free < FREE_GIB << 30:
            say("%s is not stored: %s has less than %d GiB free" % (node_name(node), image.directory, FREE_GIB))
            continue
        work = Path(tempfile.mkdtemp(prefix=final.directory.name + ".", dir=image.directory))
        try:
            _write(lab, node, Booted(work))
            with contextlib.suppress(OSError):  # another command has stored this guest
                os.rename(work, final.directory)
            stored.append(node_name(node))
        except LabError as error:
            say("%s is not stored: %s" % (node_name(node), error))
        finally:
            shutil.rmtree(work, ignore_errors=True)
    if stored:
        say("stored %s as booted: the next lab like this one starts in seconds" % ", ".join(stored))


def _has_booted(lab: Lab, node: int) -> bool:
    """Wait for the end of the boot, which continues after SSH answers. Return False if a unit has failed."""
    line = "systemctl is-system-running --wait"
    return (access.run(lab, node, line, access.BOOT_SECONDS[lab.accel]) or "").strip() == "running"


def _write(lab: Lab, node: int, target: Booted) -> None:
    with qmp.Monitor(lab.run, node) as monitor:
        monitor.execute("stop")
        try:
            monitor.execute("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
            monitor.execute("migrate", uri="file:%s" % target.memory)
            end = time.monotonic() + STORE_SECONDS
            while (answer := monitor.execute("query-migrate"))["status"] != "completed":
                if answer["status"] in ("failed", "cancelled") or time.monotonic() > end:
                    raise LabError(
                        "its memory cannot be written: %s" % answer.get("error-desc", answer["status"]),
                        "see the free space in %s" % target.directory.parent,
                    )
                time.sleep(0.05)
            shutil.copyfile(lab.disk(node), target.disk)
        except OSError as error:
            raise LabError(
                "its disk cannot be copied: %s" % error, "see the free space in %s" % error.filename
            ) from None
        finally:
            monitor.execute("cont")

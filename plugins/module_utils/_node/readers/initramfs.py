# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Initramfs images, which load modules before the root filesystem's modprobe.d is available.

Images of initramfs-tools and dracut. An image has a copy of modprobe.d from the time of its build, so an image that
has the module and is older than a file with options of the module is stale.
"""

from __future__ import annotations

import json
import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Unsupported
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

IMAGES = ("/boot/initrd.img-%s", "/boot/initramfs-%s.img", "/boot/initrd-%s")
# Listing an image takes seconds. The result is stored, so that a run without changes does not list it again.
KNOWN = "/var/lib/railyard/initramfs.json"
LIST_TIMEOUT = 300.0
BUILD_TIMEOUT = 1800.0


class Initramfs:
    """The images of all installed kernels, for one module (``ib_core``)."""

    def __init__(self, system: System, module: str) -> None:
        self._system = system
        self._module = module
        self._listed: dict[str, bool] = {}
        #: images that no tool on this node can list
        self.unknown: set[str] = set()

    def images(self) -> list[tuple[str, str]]:
        """Return (kernel release, image path) of each installed kernel that has an image."""
        found = []
        for release in self._system.listdir("/lib/modules"):
            for pattern in IMAGES:
                # not a broken link
                if os.path.isfile(self._system.path(pattern % release)):
                    found.append((release, pattern % release))
                    break
        return found

    def built_in(self, release: str) -> bool:
        """Return whether the module is built into the kernel, which does not read modprobe.d."""
        listing = self._system.read("/lib/modules/%s/modules.builtin" % release) or ""
        return any(line.endswith("/%s.ko" % self._module) for line in listing.splitlines())

    def stale(self, files: t.Iterable[str], rewritten: bool = False) -> list[tuple[str, str]]:
        """Return (release, image) of the images that have the module and are older than one of the files.

        :param files: the files with options of the module.
        :param rewritten: one of them is about to be written, so every image is older.
        """
        newest = max((self._change_time(path) for path in files), default=0)
        return [
            (release, image)
            for release, image in self.images()
            if (rewritten or os.stat(self._system.path(image)).st_mtime_ns < newest) and self.holds_module(image)
        ]

    def holds_module(self, image: str) -> bool:
        """Return whether the image has the module. False if no tool can list it, which is added to ``unknown``."""
        if image not in self._listed:
            known = self._known().get(image)
            if known is not None and known.get("stamp") == self._stamp(image):
                self._listed[image] = bool(known.get("module"))
            else:
                self._list(image)
        return self._listed.get(image, False)

    def learnt(self) -> list[Change]:
        """Return the change that stores new results of images without the module; empty if there are none."""
        known = self._known()
        new = {
            image: {"stamp": self._stamp(image), "module": False}
            for image, entry in self._listed.items()
            if not entry and known.get(image, {}).get("stamp") != self._stamp(image)
        }
        if not new:
            return []
        kept = {image: entry for image, entry in known.items() if self._system.exists(image)}
        kept.update(new)
        text = json.dumps(kept, indent=2, sort_keys=True) + "\n"
        return [
            Change(
                KNOWN,
                self._module,
                None,
                "not in %s" % ", ".join(sorted(new)),
                lambda: self._system.write_file(KNOWN, text),
            )
        ]

    def rebuild(self, release: str, image: str) -> Change:
        """Return the change that rebuilds an image."""

        def act() -> None:
            for program, argv in (
                ("update-initramfs", ["-u", "-k", release]),
                ("dracut", ["--force", image, release]),
            ):
                path = self._system.which(program)
                if path:
                    self._system.check([path, *argv], "fix what it reports and run again", timeout=BUILD_TIMEOUT)
                    break
            else:
                raise Unsupported(
                    "is older than the options that it must contain, and neither update-initramfs nor dracut is here",
                    image,
                    "rebuild the image with the distribution's own tool",
                )
            self._listed.pop(image, None)

        return Change(image, "modprobe.d", "older", "rebuilt", act)

    def _list(self, image: str) -> None:
        for program in ("lsinitramfs", "lsinitrd"):
            path = self._system.which(program)
            if path:
                listing = self._system.check(
                    [path, image], "rebuild the image, which cannot be read", timeout=LIST_TIMEOUT
                )
                self._listed[image] = "/%s.ko" % self._module in listing
                return
        self.unknown.add(image)

    def _stamp(self, image: str) -> list[int]:
        stat = os.stat(self._system.path(image))
        return [stat.st_mtime_ns, stat.st_size]

    def _known(self) -> dict[str, t.Any]:
        try:
            known = json.loads(self._system.read(KNOWN) or "{}")
        except (ValueError, RailyardError):
            return {}
        if not isinstance(known, dict):
            return {}
        return {image: entry for image, entry in known.items() if isinstance(entry, dict)}

    def _change_time(self, path: str) -> int:
        try:
            # the time of its installation; mtime may be from a package
            return os.stat(self._system.path(path)).st_ctime_ns
        except OSError:
            return 0

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Attributes of sysfs that are read every few seconds: their files stay open, because opening costs most of a read.

An open file belongs to one device. If the driver was loaded again, the kernel answers ENODEV, and the file of the new
device is opened. If a device was renamed, the file follows it, and not the name: callers note the change by
:meth:`KeptFiles.follow`.
"""

from __future__ import annotations

import io
import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

# Files of one rail that stay open. Others are opened for each read.
_KEPT = 64
# Bytes. An attribute of sysfs has at most a page; a counter has a line.
_MOST = 4096


class KeptFiles:
    """Reads attributes of one rail. An object belongs to one thread at a time."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._files: dict[str, io.FileIO] = {}
        # directory -> identity of the device that has this name
        self._devices: dict[str, int | None] = {}

    def follow(self, directory: str, identity: int | None) -> None:
        """Close the files in a directory of a device, if another device has this name now.

        :param identity: a number that no other device has; None if there is no device.
        """
        if self._devices.get(directory) != identity:
            self._devices[directory] = identity
            self._close([path for path in self._files if path.startswith(directory + "/")])

    def close(self) -> None:
        """Close all files. :meth:`read` opens them again."""
        self._close(list(self._files))

    def _close(self, paths: t.Iterable[str]) -> None:
        for path in paths:
            self._files.pop(path).close()

    def read(self, path: str) -> str | None:
        """As :meth:`.System.read`."""
        file = self._files.get(path)
        try:
            if file is None and len(self._files) < _KEPT:
                file = self._files[path] = io.FileIO(self._system.path(path))
            # a file that was deleted or replaced, which sysfs reports as an error
            if file is not None and os.fstat(file.fileno()).st_nlink:
                data = os.pread(file.fileno(), _MOST, 0)
                if len(data) < _MOST:
                    return data.decode("utf-8", "replace").strip()
        except OSError:
            pass
        self._close([path] if path in self._files else [])
        return self._system.read(path)

    def read_int(self, path: str) -> int | None:
        """As :meth:`.System.read_int`."""
        text = self.read(path)
        try:
            return None if text is None else int(text, 0)
        except ValueError:
            return None

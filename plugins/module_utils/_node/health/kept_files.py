# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Attributes of sysfs that are read every few seconds: their files stay open, because opening costs most of a read.

An open file belongs to one device. After a reload of the driver, the kernel returns ENODEV, and :class:`KeptFiles`
opens the file of the new device. After a rename, the file still belongs to the renamed device: callers report the
change with :meth:`KeptFiles.follow`.
"""

from __future__ import annotations

import io
import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System, as_int

# Files of one rail that stay open. Others are opened for each read.
_KEPT = 64
# Bytes. An attribute of sysfs has at most a page; a counter has a line.
_MOST = 4096


class KeptFiles:
    """Reads attributes of one rail. An object belongs to one thread at a time."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._files: dict[str, io.FileIO] = {}
        # directory -> identity of its device
        self._devices: dict[str, int] = {}

    def follow(self, directory: str, identity: int) -> None:
        """Close the files in the directory of a device if the name belongs to another device now.

        :param identity: a number that differs between devices.
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
        return as_int(self.read(path))

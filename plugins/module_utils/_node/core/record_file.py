# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records that programs keep across restarts, in one JSON file. A change is on disk when the method returns.

Several processes may change a file: each change holds the lock of the file, and first reads the file again.
"""

from __future__ import annotations

import json
import os
import threading
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

FORMAT = 1
# Seconds to wait for another process that changes the file.
SECONDS = 20.0
Row = t.Dict[str, t.Any]
Record = t.TypeVar("Record")
# Inode number, times of the last change in nanoseconds, and size: another program replaced the file if they differ.
Version = t.Tuple[int, int, int, int]


class RecordFile(t.Generic[Record]):
    """Records by key; safe for several threads and processes.

    :param name: the name of the list in the file.
    :param build, row, key: functions that return a record from its row, the row of a record, and its key.
    :param damaged: (what is unknown if the file is damaged, remedy).
    :raises RailyardError: if the file is damaged: an empty record would give slots to two pods.
    """

    def __init__(
        self,
        system: System,
        path: str,
        name: str,
        build: t.Callable[[Row], Record],
        row: t.Callable[[Record], Row],
        key: t.Callable[[Record], str],
        damaged: tuple[str, str],
    ) -> None:
        self._system = system
        self._path = path
        self._name = name
        self._build = build
        self._row = row
        self._key = key
        self._damaged = damaged
        self._lock = threading.Lock()
        self._version: Version | None = None
        self._records: dict[str, Record] = {}
        self._follow()

    def all(self) -> dict[str, Record]:
        """Return the records after the last change by this object."""
        with self._lock:
            return dict(self._records)

    def put(self, record: Record) -> None:
        """Add a record, or replace the one of its key. Raises :class:`RailyardError` if it cannot be written."""
        self.update(self._key(record), lambda _observed: record)

    def remove(self, key: str) -> None:
        """Remove the record, if it exists. Raises :class:`RailyardError` if the file cannot be written."""
        self.update(key, lambda _observed: None)

    def update(self, key: str, change: t.Callable[[Record | None], Record | None]) -> None:
        """Replace a record under the lock of the file.

        :param change: returns the record to keep, from the observed one; None: no record.
        :raises RailyardError: if the file is damaged, cannot be written, or another process does not release its lock.
        """
        with self._lock, boot_lock.turn(self._system, "", SECONDS, self._path + ".lock"):
            self._follow()
            observed = self._records.get(key)
            record = change(observed)
            if record is None and observed is not None:
                self._write({each: value for each, value in self._records.items() if each != key})
            elif record is not None:
                self._write({**self._records, key: record})

    def _follow(self) -> None:
        """Read the file if it was replaced since the last call. The records stay if it was removed."""
        version = self._observed()
        if version is not None and version != self._version:
            self._records = self._read()
            self._version = version

    def _observed(self) -> Version | None:
        try:
            status = os.stat(self._system.path(self._path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise RailyardError("cannot be read: %s" % error.strerror, self._path, self._damaged[1]) from None
        return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size

    def _write(self, records: dict[str, Record]) -> None:
        document = {"format": FORMAT, self._name: [self._row(each) for _key, each in sorted(records.items())]}
        try:
            self._system.write_file(self._path, json.dumps(document, indent=1) + "\n", 0o600)
        except RailyardError as error:
            remedy = "free space on the filesystem of the file, or make it writable for root"
            raise RailyardError(error.message, self._path, remedy) from None
        self._records = records
        self._version = self._observed()

    def _read(self) -> dict[str, Record]:
        text = self._system.read_file(self._path)
        if text is None:
            # the file exists, so an error of its filesystem must not become an empty record
            raise RailyardError("cannot be read", self._path, self._damaged[1])
        try:
            document = json.loads(text)
            if document["format"] != FORMAT:
                raise ValueError("format %r" % document["format"])
            records = [self._build(row) for row in document[self._name]]
            by_key = {self._key(each): each for each in records}
            if len(by_key) < len(records):
                raise ValueError("a key has several rows")
            return by_key
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            unknown, remedy = self._damaged
            raise RailyardError("is damaged (%r), so %s" % (error, unknown), self._path, remedy) from None

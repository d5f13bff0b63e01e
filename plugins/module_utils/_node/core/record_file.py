# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Records that a program keeps across restarts, in one JSON file. A change is on disk when the method returns."""

from __future__ import annotations

import json
import threading
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

FORMAT = 1
Row = t.Dict[str, t.Any]
Record = t.TypeVar("Record")


class RecordFile(t.Generic[Record]):
    """Records by key; safe for several threads.

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
        self._row = row
        self._key = key
        self._lock = threading.Lock()
        self._records = {key(each): each for each in self._read(build, damaged)}

    def all(self) -> dict[str, Record]:
        with self._lock:
            return dict(self._records)

    def put(self, record: Record) -> None:
        """Add a record, or replace the one of its key. Raises :class:`RailyardError` if it cannot be written."""
        with self._lock:
            self._write({**self._records, self._key(record): record})

    def remove(self, key: str) -> None:
        """Remove the record, if it exists. Raises :class:`RailyardError` if the file cannot be written."""
        with self._lock:
            if key in self._records:
                self._write({each: value for each, value in self._records.items() if each != key})

    def _write(self, records: dict[str, Record]) -> None:
        document = {"format": FORMAT, self._name: [self._row(each) for _key, each in sorted(records.items())]}
        try:
            self._system.write_file(self._path, json.dumps(document, indent=1) + "\n", 0o600)
        except RailyardError as error:
            remedy = "free space on the filesystem of the file, or make it writable for root"
            raise RailyardError(error.message, self._path, remedy) from None
        self._records = records

    def _read(self, build: t.Callable[[Row], Record], damaged: tuple[str, str]) -> list[Record]:
        text = self._system.read_file(self._path)
        if text is None:
            return []
        try:
            document = json.loads(text)
            if document["format"] != FORMAT:
                raise ValueError("format %r" % document["format"])
            return [build(row) for row in document[self._name]]
        except (KeyError, TypeError, ValueError) as error:
            unknown, remedy = damaged
            raise RailyardError("is damaged (%r), so %s" % (error, unknown), self._path, remedy) from None

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of the plugins that module cni_networks installed, and of the network files that it wrote.

Nothing else decides which of these files the module owns. If the record is missing or invalid, it owns none of them.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

RECORD = "/var/lib/railyard/cni.json"
Row = t.Dict[str, t.Any]


class Record:
    """The record of one node.

    :param directory: the container runtime's directory of plugins.
    """

    def __init__(self, system: System, directory: str) -> None:
        self._system = system
        self._directory = directory

    def plugins(self) -> dict[str, dict[str, Row]]:
        """Return the installed plugins: directory -> plugin -> row. The runtime's directory may have changed."""
        document = self._document()
        try:
            records = {str(document["directory"]): document["plugins"], **(document.get("others") or {})}
            return {
                directory: {name: dict(row) for name, row in plugins.items() if {"installed", "source"} <= set(row)}
                for directory, plugins in records.items()
            }
        except (ValueError, KeyError, TypeError, AttributeError):
            return {}

    def networks(self) -> set[str]:
        """Return the paths of the network files."""
        paths: t.Any = self._document().get("networks")
        valid = isinstance(paths, list) and all(isinstance(path, str) for path in paths)
        return set(paths) if valid else set()

    def write_plugin(self, name: str, row: Row) -> None:
        records = self.plugins()
        records.setdefault(self._directory, {})[name] = row
        self._write(records, self.networks())

    def write_networks(self, networks: t.AbstractSet[str]) -> None:
        self._write(self.plugins(), networks)

    def _document(self) -> dict[str, t.Any]:
        try:
            document = json.loads(self._system.read(RECORD) or "{}")
        except ValueError:
            return {}
        return document if isinstance(document, dict) else {}

    def _write(self, records: dict[str, dict[str, Row]], networks: t.AbstractSet[str]) -> None:
        plugins = records.pop(self._directory, {})
        document: Row = {"directory": self._directory, "plugins": plugins, "networks": sorted(networks)}
        document.update({"others": records} if records else {})
        self._system.write_file(RECORD, json.dumps(document, indent=2, sort_keys=True) + "\n", 0o644)

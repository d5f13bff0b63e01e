# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The CNI plugins of a node: observed plugins, their versions, and the installation of missing plugins.

A plugin is replaced only if this module installed it, and it has not changed since. Files are copied, not linked:
Multus may look for plugins inside its container, where the target of a link is missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
import typing as t
import zlib
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.cni import rail_plugin
from ansible_collections.railyard.fabric.plugins.module_utils._node.cni.cni_record import RECORD, Record, Row
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import packed_program
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

# The module of the plugin railyard-rail.
_ENTRY = "_node.cni.rail_plugin"
# Projects of plugins that are not part of the CNI project's release.
PROJECTS = {"rdma": "rdma-cni", "sriov": "sriov-cni"}
# Larger files are not plugins, and would only use memory.
MEMBER_MAX = 256 * 2**20
# Errors of a truncated archive.
BROKEN = (OSError, EOFError, tarfile.TarError, zlib.error)


class Plugins:
    """The plugins in the container runtime's directory.

    :param sources: directories or tar archives with plugins. The first that exists is used.
    :param checksum: SHA-256 of the archive.
    """

    def __init__(self, system: System, directory: str, sources: t.Sequence[str], checksum: str | None) -> None:
        self.directory = directory
        self.record = Record(system, directory)
        self._system = system
        self._source = next((each.rstrip("/") for each in sources if system.exists(each)), None)
        self._sources = ", ".join(sources)
        self._checksum = checksum
        self._supported: dict[str, list[str] | None] = {}
        self._members: dict[str, str] | None = None

    def observe(self, names: t.Sequence[str]) -> list[Row]:
        """Return a row per plugin: ``name``, ``path`` (None: missing), ``source`` (of a missing plugin, if it has it),
        ``ours`` (whether this module installed it), and ``versions`` of the CNI specification.
        """
        record = self._installed()
        rows = []
        for name in names:
            path = self._path(name)
            exists = self._system.exists(path)
            available = not exists and name != rail_plugin.NAME and self._in_source(name)
            ours = name == rail_plugin.NAME or self._installed_from(path, record.get(name)) is not None
            rows.append(
                {
                    "name": name,
                    "path": path if exists else None,
                    "source": self._source if available else None,
                    "ours": exists and ours,
                    "versions": self._versions(path) if exists else None,
                }
            )
        return rows

    def errors(self, names: t.Sequence[str], versions: t.AbstractSet[str]) -> list[RailyardError]:
        """Return an error per plugin that is missing, does not work, or does not support one of the CNI versions."""
        errors = []
        for name in names:
            if name == rail_plugin.NAME:
                continue
            path = self._path(name)
            exists = self._system.exists(path)
            if not exists and not self._in_source(name):
                errors.append(self._missing(name))
                continue
            # the versions of a plugin in an archive are known only after it is installed
            program = path if exists else self._in_directory(name) or ""
            supported = self._versions(program) if program else list(versions)
            if supported is None:
                errors.append(
                    RailyardError(
                        "is not a working CNI plugin",
                        program,
                        "check that it is a program for this machine, %s" % os.uname().machine,
                    )
                )
            for version in sorted(versions - set(supported or versions)):
                errors.append(
                    RailyardError(
                        "supports the CNI specification %s, not %s" % (", ".join(supported or []), version),
                        program,
                        "install a newer plugin, or set an older `cni_version` in kubernetes_options",
                    )
                )
        return errors

    def changes(self, names: t.Sequence[str]) -> list[Change]:
        """Return the changes that install missing plugins and update outdated ones."""
        record = self._installed()
        changes = []
        for name in names:
            path = self._path(name)
            if name == rail_plugin.NAME:
                changes += self._rail_plugin_changes(path)
                continue
            before = self._installed_from(path, record.get(name))
            stamp = self._source_stamp(name)
            if (self._system.exists(path) and before in (None, stamp)) or not self._in_source(name):
                continue
            changes.append(Change(path, "plugin", before, stamp, self._installer(name, stamp)))
        return changes

    def removals(self, names: t.Sequence[str], absent: bool) -> list[Change]:
        """Return the changes that remove plugins that this module installed, except ``names``.

        They are removed only with all networks (``absent``): an unused plugin does no damage, and the deletion of a pod
        that still has a network needs the plugin.
        """
        if not absent:
            return []
        records = self.record.plugins()
        changes = []
        for directory, record in {self.directory: {}, **records}.items():
            for name in sorted({*record, rail_plugin.NAME} - set(names)):
                path = "%s/%s" % (directory, name)
                before = self._installed_from(path, record.get(name))
                if before is None and name == rail_plugin.NAME and self._system.exists(path):
                    before = "as packed"
                if before is not None:
                    changes.append(Change(path, "plugin", before, None, partial(self._system.remove_file, path)))
        if self._system.exists(RECORD):
            recorded = sorted({name for record in records.values() for name in record})
            changes.append(Change(RECORD, "plugins", recorded, None, partial(self._system.forget_file, RECORD)))
        return changes

    # -- railyard-rail ------------------------------------------------------------------------------------------------

    def _rail_plugin_changes(self, path: str) -> list[Change]:
        installed = self._system.read_bytes(path)
        desired = self.program(installed)
        if installed is not None and packed_program.same(installed, desired):
            return []
        before = None if installed is None else "other"
        return [Change(path, "plugin", before, "as packed", partial(self._system.write_file, path, desired, 0o755))]

    def program(self, installed: bytes | None = None) -> bytes:
        """Return ``railyard-rail`` as a program.

        :param installed: the installed program. Its interpreter is used while it exists, as runs may differ in it.
        """
        first_line = (installed or b"").partition(b"\n")[0]
        path = first_line[2:].split(b" ")[0].decode("utf-8", "replace") if first_line.startswith(b"#!") else None
        python = packed_program.interpreter(self._system, path)
        compiled = packed_program.is_running(self._system, python)
        modules = packed_program.imported(_ENTRY)
        return packed_program.executable(python, modules, _ENTRY, compiled)

    # -- files and their record ---------------------------------------------------------------------------------------

    def _path(self, name: str) -> str:
        return "%s/%s" % (self.directory, name)

    def _stamp(self, path: str) -> str:
        """Return time and size of a file; empty if it does not exist."""
        try:
            status = os.stat(self._system.path(path))
        except OSError:
            return ""
        return "%d:%d" % (status.st_mtime_ns, status.st_size)

    def _source_stamp(self, name: str) -> str:
        path = self._in_directory(name) or str(self._source)
        return "%s %s" % (path, self._stamp(path))

    def _installed_from(self, path: str, row: Row | None) -> str | None:
        """Return the stamp of the source that this module installed a plugin from; None if it did not install it."""
        stamp = self._stamp(path)
        if not row or not stamp:
            return None
        if row["installed"] == stamp:
            return str(row["source"])
        coming = row.get("coming")
        # installed by a run that was interrupted before it wrote the record
        if isinstance(coming, dict) and coming.get("sha256") == _digest(self._system.read_bytes(path)):
            return str(coming.get("source"))
        return None

    def _installed(self) -> dict[str, Row]:
        return self.record.plugins().get(self.directory, {})

    def _in_directory(self, name: str) -> str | None:
        """Return the path of a plugin in the source; None if the source is not a directory."""
        if self._source and os.path.isdir(self._system.path(self._source)):
            return "%s/%s" % (self._source, name)
        return None

    def _in_source(self, name: str) -> bool:
        """Return whether the source has a plugin. Opening an archive takes time."""
        path = self._in_directory(name)
        if path:
            return os.access(self._system.path(path), os.X_OK)
        return bool(self._source) and name in self._archive()

    # -- an archive ---------------------------------------------------------------------------------------------------

    def _archive(self) -> dict[str, str]:
        if self._members is None:
            try:
                with self._open_archive() as archive:
                    self._members = {
                        os.path.basename(member.name): member.name
                        for member in archive.getmembers()
                        if member.isfile() and member.mode & 0o100 and member.size < MEMBER_MAX
                    }
            except BROKEN:
                raise self._incomplete_archive() from None
        return self._members

    def _incomplete_archive(self) -> RailyardError:
        return RailyardError("is not a complete tar archive", str(self._source), "download the archive again")

    def _open_archive(self) -> tarfile.TarFile:
        source = str(self._source)
        path = self._system.path(source)
        if self._checksum:
            self._verify(path, source)
        try:
            return tarfile.open(path)
        except (OSError, tarfile.TarError):
            raise RailyardError("is not a tar archive", source, "download the released archive") from None

    def _verify(self, path: str, source: str) -> None:
        digest = hashlib.sha256()
        with open(path, "rb") as stream:
            for part in iter(lambda: stream.read(1 << 20), b""):
                digest.update(part)
        expected = str(self._checksum).rpartition(":")[2].lower()
        if digest.hexdigest() != expected:
            raise RailyardError(
                "its SHA-256 is %s, not %s" % (digest.hexdigest(), expected),
                source,
                "download the archive again from the origin of the checksum",
            )

    # -- installing ---------------------------------------------------------------------------------------------------

    def _installer(self, name: str, stamp: str) -> t.Callable[[], None]:
        def act() -> None:
            path, data = self._path(name), self._data(name)
            before = self._installed_from(path, self._installed().get(name))
            # recorded before the installation, so that the plugin of an interrupted run is recognized
            row: Row = {"installed": "" if before is None else self._stamp(path), "source": before or ""}
            self.record.write_plugin(name, dict(row, coming={"sha256": _digest(data), "source": stamp}))
            self._system.write_file(path, data, 0o755)
            self._supported.pop(path, None)
            self.record.write_plugin(name, {"installed": self._stamp(path), "source": stamp})

        return act

    def _data(self, name: str) -> bytes:
        path = self._in_directory(name)
        data = self._system.read_bytes(path) if path else None
        if not path:
            try:
                with self._open_archive() as archive:
                    stream = archive.extractfile(self._archive()[name])
                    data = stream.read() if stream else None
            except BROKEN:
                raise self._incomplete_archive() from None
        if data is None:
            raise RailyardError("plugin %s cannot be read" % name, str(self._source), "check that it is complete")
        return data

    # -- versions -----------------------------------------------------------------------------------------------------

    def _versions(self, path: str) -> list[str] | None:
        """Return the versions of the CNI specification that a plugin supports; None if it does not answer."""
        if path not in self._supported:
            result = self._system.run(["env", "CNI_COMMAND=VERSION", self._system.path(path)], timeout=60)
            try:
                self._supported[path] = [str(version) for version in json.loads(result.out)["supportedVersions"]]
            except (ValueError, KeyError, TypeError):
                self._supported[path] = None
        return self._supported[path]

    def _missing(self, name: str) -> RailyardError:
        not_in_source = ", and not available in %s" % self._sources if self._sources else ""
        project = PROJECTS.get(name)
        remedy = "install %s, which contains it" % project if project else "install the CNI plugins"
        return RailyardError(
            "is not in %s%s" % (self.directory, not_in_source),
            "plugin %s" % name,
            "%s, or set cni_sources (option source of the module) to a directory or archive with it" % remedy,
        )


def _digest(data: bytes | None) -> str:
    return hashlib.sha256(data or b"").hexdigest()

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The CNI plugins of a node: the installed ones, their versions, and the installation of missing ones.

An installed plugin is never replaced, unless this module installed it and it was not changed since. Files are copied,
not linked: Multus may look for plugins inside its container, where the target of a link is missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tarfile
import typing as t
import zlib
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.cni import rail_plugin
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import packed_program
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

RECORD = "/var/lib/railyard/cni.json"
# The modules that railyard-rail imports; a unit test compares this list with the imports.
PACKED = (
    "_common.errors",
    "_common.urls",
    "_node.cni.rail_plugin",
    "_node.netlink.codec",
    "_node.netlink.in_namespace",
    "_node.netlink.link_messages",
    "_node.netlink.rtnetlink",
    "_node.netlink.vf_setter",
)
# The projects of plugins that are not the CNI project's own.
MAKERS = {"rdma": "rdma-cni", "sriov": "sriov-cni"}
# Larger files are not plugins, and would only use memory.
MEMBER_MAX = 256 * 2**20
# Errors of a truncated archive.
BROKEN = (OSError, EOFError, tarfile.TarError, zlib.error)
Row = t.Dict[str, t.Any]


class Plugins:
    """``directory``: the runtime's; ``sources``: directories or tar archives; the first existing one is used."""

    def __init__(self, system: System, directory: str, sources: t.Sequence[str], checksum: str | None) -> None:
        self.directory = directory
        self._system = system
        self._source = next((each.rstrip("/") for each in sources if system.exists(each)), None)
        self._sources = ", ".join(sources)
        self._checksum = checksum
        self._supported: dict[str, list[str] | None] = {}
        self._held: dict[str, str] | None = None

    def observe(self, names: t.Sequence[str]) -> list[Row]:
        """Each plugin: ``name``, ``path`` (None: missing), ``source`` (of a missing one, if available), ``ours``, and
        ``versions`` of the specification.
        """
        record = self._record()
        rows = []
        for name in names:
            path = self._path(name)
            there = self._system.exists(path)
            offered = not there and name != rail_plugin.NAME and self._offered(name)
            rows.append(
                {
                    "name": name,
                    "path": path if there else None,
                    "source": self._source if offered else None,
                    "ours": there and (name == rail_plugin.NAME or self._ours(path, record.get(name)) is not None),
                    "versions": self._versions(path) if there else None,
                }
            )
        return rows

    def errors(self, names: t.Sequence[str], versions: t.AbstractSet[str]) -> list[RailyardError]:
        """All that keeps the networks from working."""
        found = []
        for name in names:
            if name == rail_plugin.NAME:
                continue
            path = self._path(name)
            there = self._system.exists(path)
            if not there and not self._offered(name):
                found.append(self._missing(name))
                continue
            # the versions of a plugin in an archive are known only after it is installed
            asked = path if there else self._in_directory(name) or ""
            known = self._versions(asked) if asked else list(versions)
            if known is None:
                found.append(
                    RailyardError(
                        "is not a working CNI plugin",
                        asked,
                        "check that it is a program for this machine, %s" % os.uname().machine,
                    )
                )
            for version in sorted(versions - set(known or versions)):
                found.append(
                    RailyardError(
                        "supports the CNI specification %s, not %s" % (", ".join(known or []), version),
                        asked,
                        "install a newer plugin, or set an older `cni_version` in kubernetes_options",
                    )
                )
        return found

    def changes(self, names: t.Sequence[str]) -> list[Change]:
        """The missing and outdated plugins."""
        record = self._record()
        changes = []
        for name in names:
            path = self._path(name)
            if name == rail_plugin.NAME:
                changes += self._own(path)
                continue
            held = self._system.exists(path)
            before = self._ours(path, record.get(name))
            stamp = self._source_stamp(name)
            if (held and before in (None, stamp)) or not self._offered(name):
                continue
            changes.append(Change(path, "plugin", before, stamp, self._installer(name, stamp)))
        return changes

    def leftovers(self, names: t.Sequence[str], absent: bool) -> list[Change]:
        """Plugins that this module installed. They are removed only with all networks: an unused plugin does no harm,
        and a pod that still has a network needs it to be deleted.
        """
        if not absent:
            return []
        records = self._records()
        changes = []
        for directory, record in {self.directory: {}, **records}.items():
            for name in sorted({*record, rail_plugin.NAME} - set(names)):
                path = "%s/%s" % (directory, name)
                before = self._ours(path, record.get(name))
                if before is None and name == rail_plugin.NAME and self._system.exists(path):
                    before = "as packed"
                if before is not None:
                    changes.append(Change(path, "plugin", before, None, partial(self._system.remove_file, path)))
        if self._system.exists(RECORD):
            known = sorted({name for record in records.values() for name in record})
            changes.append(Change(RECORD, "plugins", known, None, partial(self._system.forget_file, RECORD)))
        return changes

    # -- our own plugin -----------------------------------------------------------------------------------------------

    def _own(self, path: str) -> list[Change]:
        held = self._system.read_bytes(path)
        wanted = self.program(held)
        if held is not None and packed_program.same(held, wanted):
            return []
        before = None if held is None else "other"
        return [Change(path, "plugin", before, "as packed", partial(self._system.write_file, path, wanted, 0o755))]

    def program(self, held: bytes | None = None) -> bytes:
        """``railyard-rail`` as a program. It keeps the interpreter that it was installed with while that exists: a
        later run may use another.
        """
        kept = (held or b"").partition(b"\n")[0]
        path = kept[2:].split(b" ")[0].decode("utf-8", "replace") if kept.startswith(b"#!") else None
        # isolated and without site: three times as fast
        python = packed_program.interpreter(self._system, path)
        ours = os.path.realpath(self._system.path(python)) == os.path.realpath(sys.executable)
        return b"#!%s -IS\n" % python.encode() + packed_program.pack(PACKED, "_node.cni.rail_plugin", compiled=ours)

    # -- files and their record ---------------------------------------------------------------------------------------

    def _path(self, name: str) -> str:
        return "%s/%s" % (self.directory, name)

    def _stamp(self, path: str) -> str:
        try:
            found = os.stat(self._system.path(path))
        except OSError:
            return ""
        return "%d:%d" % (found.st_mtime_ns, found.st_size)

    def _source_stamp(self, name: str) -> str:
        path = self._in_directory(name) or str(self._source)
        return "%s %s" % (path, self._stamp(path))

    def _ours(self, path: str, row: Row | None) -> str | None:
        """The source that this module installed the plugin from; None for others and for missing ones."""
        stamp = self._stamp(path)
        if not row or not stamp:
            return None
        if row["installed"] == stamp:
            return str(row["source"])
        coming = row.get("coming")
        # installed by a run that was interrupted before it recorded that
        if isinstance(coming, dict) and coming.get("sha256") == _digest(self._system.read_bytes(path)):
            return str(coming.get("source"))
        return None

    def _record(self) -> dict[str, Row]:
        return self._records().get(self.directory, {})

    def _records(self) -> dict[str, dict[str, Row]]:
        """The installed plugins: directory -> plugin -> row. The runtime's directory may have changed."""
        try:
            held = json.loads(self._system.read(RECORD) or "{}")
            records = {str(held["directory"]): held["plugins"], **(held.get("others") or {})}
            return {
                directory: {name: dict(row) for name, row in plugins.items() if {"installed", "source"} <= set(row)}
                for directory, plugins in records.items()
            }
        except (ValueError, KeyError, TypeError, AttributeError):
            return {}

    def _keep(self, name: str, row: Row) -> None:
        others = self._records()
        record = others.pop(self.directory, {})
        record[name] = row
        kept: Row = {"directory": self.directory, "plugins": record}
        kept.update({"others": others} if others else {})
        self._system.write_file(RECORD, json.dumps(kept, indent=2, sort_keys=True) + "\n", 0o644)

    def _in_directory(self, name: str) -> str | None:
        """The path of a plugin in the source, if that is a directory."""
        if self._source and os.path.isdir(self._system.path(self._source)):
            return "%s/%s" % (self._source, name)
        return None

    def _offered(self, name: str) -> bool:
        """Whether the source has a plugin. Opening an archive takes time."""
        path = self._in_directory(name)
        if path:
            return os.access(self._system.path(path), os.X_OK)
        return bool(self._source) and name in self._archive()

    # -- an archive ---------------------------------------------------------------------------------------------------

    def _archive(self) -> dict[str, str]:
        """The programs in the archive: name -> member."""
        if self._held is None:
            try:
                with self._opened() as archive:
                    self._held = {
                        os.path.basename(member.name): member.name
                        for member in archive.getmembers()
                        if member.isfile() and member.mode & 0o100 and member.size < MEMBER_MAX
                    }
            except BROKEN:
                raise self._cut() from None
        return self._held

    def _cut(self) -> RailyardError:
        return RailyardError("is not a complete tar archive", str(self._source), "download the archive again")

    def _opened(self) -> tarfile.TarFile:
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
        wanted = str(self._checksum).rpartition(":")[2].lower()
        if digest.hexdigest() != wanted:
            raise RailyardError(
                "its SHA-256 is %s, not %s" % (digest.hexdigest(), wanted),
                source,
                "download the archive again from the origin of the checksum",
            )

    # -- installing ---------------------------------------------------------------------------------------------------

    def _installer(self, name: str, stamp: str) -> t.Callable[[], None]:
        def act() -> None:
            path, data = self._path(name), self._data(name)
            held = self._ours(path, self._record().get(name))
            # recorded first: otherwise the plugin of an interrupted run would never be recognized and removed
            row: Row = {"installed": "" if held is None else self._stamp(path), "source": held or ""}
            self._keep(name, dict(row, coming={"sha256": _digest(data), "source": stamp}))
            self._system.write_file(path, data, 0o755)
            self._supported.pop(path, None)
            self._keep(name, {"installed": self._stamp(path), "source": stamp})

        return act

    def _data(self, name: str) -> bytes:
        path = self._in_directory(name)
        data = self._system.read_bytes(path) if path else None
        if not path:
            try:
                with self._opened() as archive:
                    stream = archive.extractfile(self._archive()[name])
                    data = stream.read() if stream else None
            except BROKEN:
                raise self._cut() from None
        if data is None:
            raise RailyardError("plugin %s cannot be read" % name, str(self._source), "check that it is complete")
        return data

    # -- versions -----------------------------------------------------------------------------------------------------

    def _versions(self, path: str) -> list[str] | None:
        """The versions of the CNI specification that a plugin supports; None if it does not answer."""
        if path not in self._supported:
            result = self._system.run(["env", "CNI_COMMAND=VERSION", self._system.path(path)], timeout=60)
            try:
                known = json.loads(result.out)["supportedVersions"]
                self._supported[path] = [str(each) for each in known]
            except (ValueError, KeyError, TypeError):
                self._supported[path] = None
        return self._supported[path]

    def _missing(self, name: str) -> RailyardError:
        where = ", and not available in %s" % self._sources if self._sources else ""
        maker = MAKERS.get(name)
        remedy = "install %s, which contains it" % maker if maker else "install the CNI plugins"
        return RailyardError(
            "is not in %s%s" % (self.directory, where),
            "plugin %s" % name,
            "%s, or set `source` to a directory or archive with it" % remedy,
        )


def _digest(data: bytes | None) -> str:
    return hashlib.sha256(data or b"").hexdigest()

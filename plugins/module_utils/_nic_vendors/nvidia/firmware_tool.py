# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The programs mstconfig and mstfwreset (mstflint), or mlxconfig and mlxfwreset (NVIDIA MFT).

Both have the same interface. Newer releases (mstflint 4.31, MFT 4.31) can write the result of a query as JSON to a
file. All print it as a table, whose columns depend on the release and on the card's firmware. Errors are printed to
standard output.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Unsupported
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.nic_vendor import Node, Result
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.vendor_firmware import (
    ABOUT,
    FirmwareTool,
    Parameter,
    QueryResult,
    plain,
)

COLUMNS = {"default": "default", "current": "current", "next boot": "next"}
PACKAGES = "install the package mstflint (or NVIDIA MFT), or name the program in 'tool'"
QUERY_SECONDS = 120.0
SET_SECONDS = 180.0
RESET_SECONDS = 600.0

# Permanent errors of a query, and their remedies.
QUERY_REMEDIES = {
    "NV access registers": "power-cycle the server: a reboot is not enough after a change of the mode of a BlueField",
    "query device current configuration": (
        "leave the card's firmware parameters out: some cards (ConnectX-3 EN) have them in the firmware image"
    ),
    "Unsupported device": (
        "use a release of the tool that supports the card (mstflint 4.25 is the last for a ConnectX-3), or leave "
        "its firmware parameters out"
    ),
}

_UNSUPPORTED = re.compile(r"(?:doesn't support|does not support|Unknown Parameter:?) '?([A-Z0-9_]+(?:\[\d+\])?)", re.I)


def parse_text(text: str) -> QueryResult:
    """Parse the table of a query. Rows that do not match the header's columns are left out."""
    about: dict[str, str] = {}
    parameters: dict[str, Parameter] = {}
    columns: list[str] = []
    for line in text.splitlines():
        if line.strip().startswith("Configurations:"):
            heads = re.split(r"\s{2,}", line.strip())[1:]
            columns = [COLUMNS.get(head.lower(), head.lower()) for head in heads]
        elif columns:
            row = _row(line, len(columns))
            if row:
                name, read_only, values = row
                parameters[name] = _parameter(dict(zip(columns, values)), read_only)
        else:
            label, colon, value = line.partition(":")
            key = label.strip().lower().replace(" ", "_")
            if colon and key in ABOUT and plain(value) is not None:
                about[key] = value.strip()
    return QueryResult(about, parameters)


def _row(line: str, count: int) -> tuple[str, bool, list[str]] | None:
    # '*' marks a value that changes at the next boot, RO one that cannot be changed
    match = re.match(r"^\s*(\*)?\s*(RO\s)?\s*([A-Z][A-Z0-9_]*(?:\[[0-9.]+\])?)\s+(\S.*)$", line, re.I)
    if not match or line.startswith("-"):
        return None
    values = match.group(4).split()
    if len(values) != count:
        # a value that fills its column is not followed by a space
        values = re.findall(r"[^\s()]+\(\d+\)|\S+", match.group(4))
    if len(values) != count:
        return None
    return match.group(3).upper(), bool(match.group(2)), values


def parse_json(text: str) -> QueryResult:
    """Parse the file that ``-j`` writes; keys are case-insensitive. Raises ValueError for other contents."""
    for device in _lower(json.loads(text)).values():
        fields = _lower(device)
        about: dict[str, str] = {key: str(fields[key]) for key in ABOUT if plain(fields.get(key)) is not None}
        parameters = {}
        for name, row in (fields.get("tlv_configuration") or {}).items():
            columns = _lower(row)
            values = {short: columns.get(short + "_value") for short in ("default", "current", "next")}
            parameters[name.upper()] = _parameter(values, bool(columns.get("read_only")))
        return QueryResult(about, parameters)
    return QueryResult({}, {})


def _lower(mapping: t.Any) -> dict[str, t.Any]:
    if not isinstance(mapping, dict):
        raise ValueError("not a JSON object")
    return {str(key).lower(): value for key, value in mapping.items()}


def _parameter(values: t.Mapping[str, t.Any], read_only: bool) -> Parameter:
    row: Parameter = {column: plain(values.get(column)) for column in ("default", "current", "next")}
    row["read_only"] = read_only
    return row


class Tool(FirmwareTool):
    """The node's tool. ``choice``: ``auto``, ``mstconfig``, ``mlxconfig`` or the path of one of them."""

    reset_level = "3"

    def __init__(self, node: Node, choice: str = "auto") -> None:
        self._node = node
        self._json = True
        self._verbose = True
        names = ("mstconfig", "mlxconfig") if choice == "auto" else (choice,)
        paths = [path for path in map(self._find, names) if path]
        if not paths:
            raise Unsupported("%s is not installed" % " or ".join(names), "tool", PACKAGES)
        self.path = paths[0]
        self.name = os.path.basename(self.path)

    def _find(self, name: str) -> str | None:
        return name if "/" in name and self._node.exists(name) else self._node.which(name)

    def check_reset(self) -> None:
        if self._reset_program() is None:
            raise self._no_reset_program()

    def _reset_program(self) -> str | None:
        """Return the path of mstfwreset for mstconfig, or of mlxfwreset for mlxconfig; None if it is not installed."""
        name = self.name.replace("config", "fwreset")
        return self._find(os.path.join(os.path.dirname(self.path), name)) or self._node.which(name)

    def query(self, device: str, names: t.Sequence[str]) -> QueryResult:
        remaining = list(names)
        about: dict[str, str] = {}
        while remaining:
            result, table = self._query(device, remaining)
            about = table.about or about
            if all(name in table.parameters for name in remaining):
                return table
            refused = _UNSUPPORTED.search(result.out + result.err) if result.rc else None
            if not refused or refused.group(1).upper() not in remaining:
                if result.rc:
                    raise self._error(device, "query", result)
                return table
            remaining.remove(refused.group(1).upper())
        return QueryResult(about, {})

    def _query(self, device: str, names: t.Sequence[str]) -> tuple[Result, QueryResult]:
        while True:
            directory = tempfile.mkdtemp(prefix="railyard-") if self._json else None
            try:
                file = os.path.join(directory, "query.json") if directory else ""
                argv = [self.path, "-d", device] + (["-e"] if self._verbose else []) + (["-j", file] if file else [])
                result = self._node.run(argv + ["q"] + list(names), QUERY_SECONDS)
                unknown = re.search(r"invalid argument: -(\w)", result.out + result.err) if result.rc else None
                if unknown and unknown.group(1) == "j" and self._json:
                    self._json = False
                    continue
                if unknown and unknown.group(1) == "e" and self._verbose:
                    self._verbose = False
                    continue
                return result, self._table(file, result.out)
            finally:
                if directory:
                    shutil.rmtree(directory, ignore_errors=True)

    def _table(self, file: str, out: str) -> QueryResult:
        if not file:
            return parse_text(out)
        try:
            with open(file, encoding="utf-8") as stream:
                return parse_json(stream.read())
        except (OSError, ValueError):
            return QueryResult({}, {})

    def set(self, device: str, values: t.Mapping[str, str]) -> None:
        # in one call, because the tool checks its rules against all values
        argv = [self.path, "-d", device, "-y", "set"] + ["%s=%s" % item for item in values.items()]
        result = self._node.run(argv, SET_SECONDS)
        if result.rc:
            raise self._error(device, "set", result)

    def reset(self, device: str) -> None:
        program = self._reset_program()
        if program is None:
            raise self._no_reset_program()
        result = self._node.run([program, "-d", device, "-l", self.reset_level, "-y", "reset"], RESET_SECONDS)
        if result.rc:
            raise RailyardError(
                "%s: %s" % (os.path.basename(program), messages(result)), device, "reboot the node instead of the reset"
            )

    def _no_reset_program(self) -> RailyardError:
        name = self.name.replace("config", "fwreset")
        return Unsupported("%s is not installed" % name, "reset", PACKAGES + ", or use reset: never and reboot")

    def _error(self, device: str, command: str, result: Result) -> RailyardError:
        text = messages(result)
        message = "%s %s: %s" % (self.name, command, text)
        if result.rc == 124:
            return RailyardError(message, device, "see the kernel's messages (dmesg) of the card")
        if re.search(r"semaphore", text, re.I):
            remedy = "wait for the tool that uses the card, or run '%s -d %s clear_semaphore'" % (
                self.path,
                device,
            )
            return RailyardError(message, device, remedy)
        if re.search(r"Failed to (open|identify)|Permission denied|Operation not permitted", text, re.I):
            return self._no_access(device, message)
        if command == "set":
            remedy = "use values that the card allows; state: gathered shows the staged ones"
            return RailyardError(message, device, remedy)
        for part, remedy in QUERY_REMEDIES.items():
            if part in text:
                return RailyardError(message, device, remedy)
        return RailyardError(message, device, "run '%s -d %s -e q' by hand" % (self.path, device))

    def _no_access(self, device: str, message: str) -> RailyardError:
        locked = re.search(r"\[(integrity|confidentiality)\]", self._node.read("/sys/kernel/security/lockdown") or "")
        if locked:
            why = "kernel lockdown (%s, as with Secure Boot) denies the tool access to the card" % locked.group(1)
            return Unsupported(
                "%s; %s" % (message, why),
                device,
                "load the signed module mstflint_access, use a release of the tool that works through fwctl, or turn "
                "Secure Boot off",
            )
        vendor = (self._node.read("/sys/bus/pci/devices/%s/vendor" % device) or "0x15b3")[2:]
        if vendor != "15b3":
            message = "%s; its PCI vendor is %s" % (message, vendor)
            return RailyardError(message, device, "name a port of an NVIDIA (Mellanox) card")
        return RailyardError(message, device, "run the task with become, and see 'lspci -s %s'" % device)


def messages(result: Result) -> str:
    """Return the tool's messages: its -E- lines, else the first lines of its output, else its exit status."""
    lines = [line.strip() for line in (result.out + "\n" + result.err).splitlines() if line.strip()]
    errors = [line[3:].strip() for line in lines if line.startswith("-E-")]
    return " / ".join((errors or lines)[:3]) or "exit status %d" % result.rc

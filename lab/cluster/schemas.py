# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Upstream's CustomResourceDefinitions: read from directories of YAML files, and applied unchanged."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.cluster.api import MANAGER, Api, Refused
from lab.errors import LabError
from lab.progress import say
from lab.state import REPOSITORY

DEFAULT = REPOSITORY / "tests" / "schemas"
PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
YAML = "application/yaml"
RULES = b"x-kubernetes-validations:"
CEL = (1, 25)  # the first release that checks them by default
SECONDS = 120.0


@dataclass(frozen=True)
class Schema:
    """A CRD of a file."""

    name: str
    file: Path
    text: bytes


def read(directories: list[Path]) -> tuple[dict[str, Schema], list[str]]:
    """Return the CRDs in these directories and their subdirectories, by name, and a line per overridden directory.

    What comes later wins: directories in the order given, files in the order of their paths. Raises LabError for a
    directory without CRDs, and for a file that has none or several.
    """
    found: dict[str, Schema] = {}
    overridden: dict[str, tuple[Schema, Schema]] = {}
    for directory in directories:
        files = sorted(place for place in directory.rglob("*") if place.suffix in (".yaml", ".yml"))
        if not files:
            raise LabError("no CRDs in %s" % directory, "give a folder of CRD files, or --no-crds")
        for file in files:
            schema = _schema(file)
            before = found.get(schema.name)
            if before is not None and _content(before.text) != _content(schema.text):
                overridden[schema.name] = (schema, before)
            found[schema.name] = schema
    folders: dict[tuple[Path, Path], int] = {}
    for schema, before in overridden.values():
        pair = (schema.file.parent, before.file.parent)
        folders[pair] = folders.get(pair, 0) + 1
    lines = ["%d CRDs: the version in %s replaces the version in %s" % (many, *pair) for pair, many in folders.items()]
    return found, lines


def _content(text: bytes) -> bytes:
    """Return the text without comments, separators and empty lines."""
    return b"\n".join(line for line in text.splitlines() if line.strip() not in (b"", b"---") and line[:1] != b"#")


def _schema(file: Path) -> Schema:
    """Return the CRD in a file. Only its name is parsed; the server parses the YAML."""
    text = file.read_bytes()
    body = text.decode("utf-8", "replace")
    kinds = re.findall(r"^kind: *[\"']?(\w+)", body, re.MULTILINE)
    metadata = re.search(r"^metadata:\n((?:[ #].*\n|\n)+)", body, re.MULTILINE)
    name = re.search(r"^  name: *[\"']?([a-z0-9.-]+)", metadata.group(1) if metadata else "", re.MULTILINE)
    if kinds != ["CustomResourceDefinition"] or name is None:
        raise LabError(
            "%s does not contain exactly one CRD" % file,
            "keep one CustomResourceDefinition per file in that folder, and nothing else",
        )
    return Schema(name.group(1), file, text)


def apply(api: Api, schemas: dict[str, Schema]) -> list[str]:
    """Apply these CRDs, and wait until the server serves them. Return the names of changed CRDs.

    They are created or replaced, not applied: an older server refuses to apply a schema with keywords that it does not
    know, and drops those when it is given the whole.
    """
    before = _present(api)
    changed = []
    for name, schema in sorted(schemas.items()):
        old = before.get(name)
        after = _put(api, schema, old)
        if old is None or (old["uid"], old["generation"]) != (after["uid"], after["generation"]):
            changed.append(name)
    _wait(api, set(schemas))
    ignored = sum(RULES in schema.text for schema in schemas.values())
    if changed and ignored and api.cluster.binaries.release < CEL:
        say("%d CRDs have CEL rules, which a server before %d.%d does not check" % (ignored, *CEL))
    return changed


def _put(api: Api, schema: Schema, old: dict[str, Any] | None) -> dict[str, Any]:
    """Create or replace a CRD. Return its metadata."""
    for _attempt in range(20):
        try:
            metadata: dict[str, Any] = api.request(*_request(schema, old), kind=YAML)["metadata"]
            return metadata
        except Refused as error:
            if error.status != 409:
                raise LabError(error.message, "fix %s, or leave it out of the folder" % schema.file) from None
        # controllers of the server write to it too
        old = _present(api).get(schema.name)
    raise LabError("%s is written to by another program all the time" % schema.name, "run the command again")


def _request(schema: Schema, old: dict[str, Any] | None) -> tuple[str, str, bytes]:
    if old is None:
        return "POST", "%s?fieldManager=%s" % (PATH, MANAGER), schema.text
    # the server replaces only the version that the request names
    seen = b'\nmetadata:\n  resourceVersion: "%s"\n' % old["resourceVersion"].encode("ascii")
    text = (b"\n" + schema.text).replace(b"\nmetadata:\n", seen, 1)
    return "PUT", "%s/%s?fieldManager=%s" % (PATH, schema.name, MANAGER), text


def _present(api: Api) -> dict[str, dict[str, Any]]:
    """Return the metadata of the CRDs on the server, by name."""
    return {item["metadata"]["name"]: item["metadata"] for item in api.get(PATH)["items"]}


def _wait(api: Api, names: set[str]) -> None:
    """Wait until the server serves these CRDs and lists them in its discovery."""
    end = time.monotonic() + SECONDS
    while True:
        waiting = _waiting(api, names)
        if not waiting:
            return
        if time.monotonic() > end:
            name, why = sorted(waiting.items())[0]
            raise LabError(
                "the server does not serve %d CRDs, such as %s: %s" % (len(waiting), name, why),
                "see that no other CRD has its group and names",
            )
        time.sleep(0.1)


def _waiting(api: Api, names: set[str]) -> dict[str, str]:
    """Return the CRDs that the server does not serve yet, with the reason."""
    waiting = {}
    served: dict[str, set[str]] = {}
    for item in api.get(PATH)["items"]:
        name, spec = item["metadata"]["name"], item["spec"]
        if name not in names:
            continue
        conditions = {one["type"]: one for one in item["status"].get("conditions") or ()}
        if conditions.get("Established", {}).get("status") != "True":
            waiting[name] = conditions.get("NamesAccepted", {}).get("message") or "not established"
            continue
        for version in spec["versions"]:
            path = "/apis/%s/%s" % (spec["group"], version["name"])
            if version["served"]:
                if path not in served:
                    served[path] = _resources(api, path)
                if spec["names"]["plural"] not in served[path]:
                    waiting[name] = "not in %s" % path
    return waiting


def _resources(api: Api, path: str) -> set[str]:
    """Return the resources that the server lists for a group and version."""
    try:
        return {one["name"] for one in api.get(path)["resources"]}
    except Refused as error:
        if error.status == 404:
            return set()
        raise

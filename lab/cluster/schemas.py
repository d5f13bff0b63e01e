# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Upstream's CustomResourceDefinitions: found in folders of YAML files, and applied to the server as they are."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path

from lab.cluster.api import Api
from lab.errors import LabError
from lab.progress import say
from lab.state import REPOSITORY

DEFAULT = REPOSITORY.parent / "shared" / "schemas"
PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SECONDS = 60.0


@dataclass(frozen=True)
class Schema:
    """One CRD as its file has it."""

    name: str
    file: Path
    text: bytes


def read(directories: list[Path]) -> tuple[dict[str, Schema], list[str]]:
    """The CRDs in these directories and the folders in them, by name, and a line for each that another one overrides.

    What comes later wins: directories in the order given, files in the order of their paths. Raises LabError for a
    directory without CRDs, and for a file that has none or several.
    """
    found: dict[str, Schema] = {}
    overridden: list[str] = []
    for directory in directories:
        files = sorted(place for place in directory.rglob("*") if place.suffix in (".yaml", ".yml", ".json"))
        if not files:
            raise LabError("no CRDs in %s" % directory, "give a folder of CRD files, or --no-crds")
        for file in files:
            schema = _schema(file)
            before = found.get(schema.name)
            if before is not None and _content(before.text) != _content(schema.text):
                overridden.append("%s: %s is taken, not %s, which differs" % (schema.name, file, before.file))
            found[schema.name] = schema
    return found, overridden


def _content(text: bytes) -> bytes:
    """The text without the lines that say nothing to a server."""
    return b"\n".join(line for line in text.splitlines() if line.strip() not in (b"", b"---") and line[:1] != b"#")


def _schema(file: Path) -> Schema:
    """The CRD in a file. The server reads the YAML; here it is only asked for its name."""
    text = file.read_bytes()
    body = text.decode("utf-8", "replace")
    remedy = "keep one CustomResourceDefinition a file in that folder, and nothing else"
    kinds = re.findall(r"^kind: *[\"']?(\w+)", body, re.MULTILINE)
    metadata = re.search(r"^metadata:\n((?:[ #].*\n|\n)+)", body, re.MULTILINE)
    name = re.search(r"^  name: *[\"']?([a-z0-9.-]+)", metadata.group(1) if metadata else "", re.MULTILINE)
    if file.suffix == ".json":
        try:
            document = json.loads(body)
            return Schema(str(document["metadata"]["name"]), file, text)
        except (ValueError, KeyError, TypeError):
            raise LabError("%s is no CRD" % file, remedy) from None
    if kinds != ["CustomResourceDefinition"] or name is None:
        raise LabError("%s is no single CRD" % file, remedy)
    return Schema(name.group(1), file, text)


def apply(api: Api, schemas: dict[str, Schema]) -> list[str]:
    """Bring these CRDs onto the server and wait until it serves them; the names of those that this changed."""
    before = _generations(api)
    changed = []
    for number, (name, schema) in enumerate(sorted(schemas.items()), 1):
        after = api.apply("%s/%s" % (PATH, name), schema.text)["metadata"]
        if before.get(name) != (after["uid"], after["generation"]):
            changed.append(name)
        if number % 10 == 0 and changed:
            say("  %d of %d CRDs" % (number, len(schemas)))
    _wait(api, set(schemas))
    return changed


def _generations(api: Api) -> dict[str, tuple[str, int]]:
    return {
        item["metadata"]["name"]: (item["metadata"]["uid"], item["metadata"]["generation"])
        for item in api.get(PATH)["items"]
    }


def _wait(api: Api, names: set[str]) -> None:
    """Wait until the server serves these CRDs."""
    end = time.monotonic() + SECONDS
    while True:
        waiting = {}
        for item in api.get(PATH)["items"]:
            conditions = {one["type"]: one for one in item.get("status", {}).get("conditions", [])}
            if conditions.get("Established", {}).get("status") != "True":
                refusal = conditions.get("NamesAccepted", {})
                waiting[item["metadata"]["name"]] = refusal.get("message") or "not established"
        waiting = {name: why for name, why in waiting.items() if name in names}
        if not waiting:
            return
        if time.monotonic() > end:
            name, why = sorted(waiting.items())[0]
            raise LabError(
                "the server does not serve %d CRDs, such as %s: %s" % (len(waiting), name, why), "see that file"
            )
        time.sleep(0.1)

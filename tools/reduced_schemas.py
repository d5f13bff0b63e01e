#!/usr/bin/env python3
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write tests/schemas from upstream's CustomResourceDefinitions: what a server validates, without texts.

A reduced definition is a definition that an API server accepts. It has the kinds, fields, types, limits, defaults and
rules of upstream's, and no descriptions, messages or printer columns. Its first lines name its source.

Usage: tools/reduced_schemas.py [--check] [FOLDER]
FOLDER has upstream's files in folders with the names of SOURCES (default: RAILYARD_SCHEMAS, ../shared/schemas or
vendor/schemas). Other folders of tests/schemas stay. For another release, change SOURCES, put its files into FOLDER,
and run the tool.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import typing as t
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "tests" / "schemas"


class Source(t.NamedTuple):
    """Where upstream publishes the files of a folder. ``version``: a tag or a commit of the repository."""

    project: str
    version: str
    directory: str


_SRIOV = "k8snetworkplumbingwg/sriov-network-operator", "249e20012faf17b4f38057f29608bde2b21c5c9a"
SOURCES = {
    "kueue": Source("kubernetes-sigs/kueue", "ff69552e79ad21652c36caa97038382e55625cf7", "config/components/crd/bases"),
    "monitoring": Source(*_SRIOV, "test/util/crds"),
    "multus": Source(*_SRIOV, "deployment/sriov-network-operator-chart/crds"),
    "network-operator": Source(
        "Mellanox/network-operator", "b06827e085c59726b699faffcc526342d4d8e395", "config/crd/bases"
    ),
    "nic-configuration-operator": Source(
        "Mellanox/nic-configuration-operator", "8bfbeb34ba25215dd06402cd01bae0108341a8d4", "config/crd/bases"
    ),
    "nv-ipam": Source("Mellanox/nvidia-k8s-ipam", "3ce4a34ced9636f1589c891b609c2ffd565ee5b2", "deploy/crds"),
    "spiderpool": Source("spidernet-io/spiderpool", "v1.2.2", "charts/spiderpool/crds"),
    "sriov-network-operator": Source(*_SRIOV, "config/crd/bases"),
    "volcano": Source("volcano-sh/volcano", "ed72c7c815a9fd547a787134676f73d42e9d049c", "config/crd/volcano/bases"),
}

# Fields of a definition by their place: those that are kept, and those that are texts for people. Any other is an
# error, so that no constraint is lost. Source: the API reference of apiextensions.k8s.io/v1.
_SPEC = {"group", "names", "scope", "versions", "conversion", "preserveUnknownFields"}
_VERSION = {"name", "served", "storage", "schema", "subresources", "selectableFields"}
_VERSION_TEXTS = {"additionalPrinterColumns", "deprecated", "deprecationWarning"}
_RULE = {"rule", "reason", "fieldPath", "optionalOldSelf"}
_RULE_TEXTS = {"message", "messageExpression"}
_TEXTS = {"description", "title", "example", "externalDocs", "id", "$schema"}
_VALUES = {
    *("type", "format", "nullable", "default", "enum", "required", "pattern", "multipleOf", "uniqueItems"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems"),
    *("minProperties", "maxProperties", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"),
    *("x-kubernetes-int-or-string", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"),
}
_RULES = "x-kubernetes-validations"
_SCHEMA = {"items", "additionalProperties", "not"}
_SCHEMA_LISTS = {"allOf", "anyOf", "oneOf"}
_SCHEMA_MAPS = {"properties", "patternProperties", "definitions"}

Values = t.Dict[str, t.Any]


class Refused(ValueError):
    """A definition has a field that this tool does not know."""


def reduced(text: str, file: str, source: Source) -> str:
    """Return the reduced definition as YAML.

    :param text: upstream's file.
    :raises Refused: for a field that is neither kept nor a text.
    """
    whole = yaml.safe_load(text)
    spec = _kept(whole["spec"], _SPEC, set(), file)
    spec["versions"] = [_version(each, file) for each in spec["versions"]]
    head = "# Written by tools/reduced_schemas.py. Source: %s, %s,\n# %s/%s\n# SHA-256 of the source: %s\n"
    # The reader of the lab finds the name of a definition in this form.
    kind = "apiVersion: %s\nkind: CustomResourceDefinition\nmetadata:\n  name: %s\n"
    return (
        head % (*source, file, hashlib.sha256(text.encode("utf-8")).hexdigest())
        + kind % (whole["apiVersion"], whole["metadata"]["name"])
        + yaml.safe_dump({"spec": spec}, default_flow_style=None, sort_keys=False, width=120)
    )


def _kept(values: Values, known: set[str], texts: set[str], place: str) -> Values:
    unknown = set(values) - known - texts
    if unknown:
        raise Refused(
            "%s has the unknown field %s. Remedy: add it to what %s keeps or drops"
            % (place, sorted(unknown)[0], Path(__file__).name)
        )
    return {key: value for key, value in values.items() if key in known}


def _version(values: Values, file: str) -> Values:
    version = _kept(values, _VERSION, _VERSION_TEXTS, file)
    version["schema"] = {"openAPIV3Schema": schema(version["schema"]["openAPIV3Schema"], file)}
    return version


def schema(values: Values, place: str) -> Values:
    """Return a schema without texts.

    :param place: where it is, for errors.
    :raises Refused: for a keyword that is neither kept nor a text.
    """
    known = _VALUES | _SCHEMA | _SCHEMA_LISTS | _SCHEMA_MAPS | {_RULES}
    kept = _kept(values, known, _TEXTS, place)
    for key, value in kept.items():
        inner = "%s.%s" % (place, key)
        if key in _SCHEMA and isinstance(value, dict):
            kept[key] = schema(value, inner)
        elif key in _SCHEMA_LISTS:
            kept[key] = [schema(each, inner) for each in value]
        elif key in _SCHEMA_MAPS:
            kept[key] = {name: schema(each, "%s.%s" % (inner, name)) for name, each in value.items()}
        elif key == _RULES:
            kept[key] = [_kept(each, _RULE, _RULE_TEXTS, inner) for each in value]
    return kept


def all_reduced(folder: Path) -> dict[Path, str]:
    """Return the path below tests/schemas and the text of each reduced definition of a folder of upstream's files."""
    return {
        PLACE / name / file.name: reduced(file.read_text(encoding="utf-8"), file.name, source)
        for name, source in SOURCES.items()
        for file in sorted((folder / name).glob("*.yaml"))
    }


def pinned() -> dict[Path, tuple[str, str]]:
    """Return FOLDER/FILE of each of upstream's definitions -> its path in upstream's repository and its SHA-256."""
    found = {}
    for path in sorted(PLACE.glob("*/*.yaml")):
        source = SOURCES[path.parent.name]
        with path.open(encoding="utf-8") as file:
            digest = next(line for line in file if line.startswith("# SHA-256")).split()[-1]
        found[path.relative_to(PLACE)] = ("/".join([*source, path.name]), digest)
    return found


def main(argv: t.Sequence[str]) -> int:
    sys.path.insert(0, str(ROOT))
    from tests import upstream

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if a file would change")
    parser.add_argument("folder", nargs="?", type=Path, default=upstream.folder("schemas"), metavar="FOLDER")
    arguments = parser.parse_args(argv)
    files = all_reduced(arguments.folder) if arguments.folder else {}
    if not files:
        print("No definitions in %s. Remedy: make vendor, or name a folder" % arguments.folder, file=sys.stderr)
        return 1
    given = {path.parent for path in files}
    there = {path: path.read_text(encoding="utf-8") for path in PLACE.glob("*/*.yaml") if path.parent in given}
    changed = sorted(path for path in {*files, *there} if files.get(path) != there.get(path))
    for path in changed:
        done = "differs" if arguments.check else "written" if path in files else "removed"
        print("%s: %s" % (path.relative_to(ROOT), done))
        if arguments.check:
            continue
        if path in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[path], encoding="utf-8")
        else:
            path.unlink()
    return int(bool(changed) and arguments.check)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A strict reader of CustomResourceDefinitions: what a server with strict field validation would say of an object.

Unknown fields are errors wherever the schema does not preserve them. The definitions in tests/schemas are upstream's
without descriptions.
"""

from __future__ import annotations

import functools
import re
import typing as t

from tests import upstream, yaml_text

# Kinds of the server itself, which no CustomResourceDefinition describes.
BUILT_IN = {"ConfigMap", "DaemonSet", "Secret", "Deployment", "DeviceClass", "ResourceClaimTemplate"}
_FORMATS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_TYPES = {"string": str, "boolean": bool, "object": dict, "array": list}


@functools.lru_cache(maxsize=None)
def _definitions(flavour: str) -> dict[tuple[str, str], dict[str, t.Any]]:
    """(apiVersion, kind) -> schema and scope; ``flavour`` decides for kinds that two upstreams define: ``bundled`` or
    ``upstream``.
    """
    found = {}
    order = ["sriov-network-operator", "multus", "spiderpool"]
    if flavour == "upstream":
        order.reverse()
    files = sorted(upstream.SCHEMAS.glob("*/*.yaml"), key=lambda file: (_rank(order, file.parent.name), file.name))
    for file in files:
        definition = yaml_text.load(file.read_text(encoding="utf-8"))
        spec = definition["spec"]
        for version in spec["versions"]:
            key = ("%s/%s" % (spec["group"], version["name"]), spec["names"]["kind"])
            found[key] = {"schema": version["schema"]["openAPIV3Schema"], "scope": spec["scope"], "file": file.name}
    return found


def _rank(order: t.Sequence[str], name: str) -> int:
    return order.index(name) if name in order else -1


def problems(thing: t.Mapping[str, t.Any], flavour: str = "upstream") -> list[str]:
    """What is wrong with an object, each with its path; kinds of the server itself have no schema here and pass."""
    key = (thing["apiVersion"], thing["kind"])
    definition = _definitions(flavour).get(key)
    if definition is None:
        return [] if thing["kind"] in BUILT_IN else ["%s %s has no schema here" % key]
    found = list(_metadata(thing, definition["scope"]))
    schema = dict(definition["schema"])
    schema["properties"] = {
        name: each for name, each in schema["properties"].items() if name not in ("apiVersion", "kind", "metadata")
    }
    body = {name: value for name, value in thing.items() if name not in ("apiVersion", "kind", "metadata")}
    found.extend(violations(body, schema, thing["kind"]))
    return found


def known(thing: t.Mapping[str, t.Any]) -> bool:
    return thing["kind"] in BUILT_IN or (thing["apiVersion"], thing["kind"]) in _definitions("upstream")


_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?\Z")
_QUALIFIED = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?\Z"
)
_SUBDOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*\Z")


def _metadata(thing: t.Mapping[str, t.Any], scope: str) -> t.Iterator[str]:
    metadata = thing["metadata"]
    unknown = set(metadata) - {"name", "namespace", "labels", "annotations"}
    if unknown:
        yield "metadata: unknown %s" % sorted(unknown)
    if not _SUBDOMAIN.match(metadata["name"]):
        yield "metadata.name: %r is no DNS subdomain" % metadata["name"]
    if (scope == "Namespaced") != ("namespace" in metadata):
        yield "metadata.namespace: the kind is of scope %s" % scope
    for key, value in metadata.get("labels", {}).items():
        if not _QUALIFIED.match(key) or not isinstance(value, str) or not _LABEL_VALUE.match(value):
            yield "metadata.labels: %s=%r is not a label" % (key, value)
    for key, value in metadata.get("annotations", {}).items():
        if not _QUALIFIED.match(key) or not isinstance(value, str):
            yield "metadata.annotations: %s=%r is not an annotation" % (key, value)


def violations(value: t.Any, schema: t.Mapping[str, t.Any], path: str) -> t.Iterator[str]:
    """Yield each violation of a schema by a value, with its path below ``path``."""
    if value is None:
        if not schema.get("nullable"):
            yield "%s: null" % path
        return
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            yield "%s: neither integer nor string" % path
        return
    kind = schema.get("type")
    if kind in ("integer", "number"):
        if isinstance(value, bool) or not isinstance(value, int if kind == "integer" else (int, float)):
            yield "%s: %r is not of type %s" % (path, value, kind)
            return
        low, high = _FORMATS.get(schema.get("format", "int64"), _FORMATS["int64"])
        if not low <= value <= high:
            yield "%s: %r is too large" % (path, value)
    elif kind in _TYPES and (not isinstance(value, _TYPES[kind])):
        yield "%s: %r is not of type %s" % (path, value, kind)
        return
    yield from _limits(value, schema, path)
    if isinstance(value, dict) and kind == "object":
        yield from _fields(value, schema, path)
    elif isinstance(value, list) and kind == "array":
        for at, each in enumerate(value):
            yield from violations(each, schema.get("items", {}), "%s[%d]" % (path, at))


def _limits(value: t.Any, schema: t.Mapping[str, t.Any], path: str) -> t.Iterator[str]:
    if "enum" in schema and value not in schema["enum"]:
        yield "%s: %r is not one of %s" % (path, value, schema["enum"])
    if "minimum" in schema and value < schema["minimum"]:
        yield "%s: %r is less than %s" % (path, value, schema["minimum"])
    if "maximum" in schema and value > schema["maximum"]:
        yield "%s: %r is more than %s" % (path, value, schema["maximum"])
    if isinstance(value, str):
        pattern = schema.get("pattern", "")
        # Go takes flags in the middle of a pattern.
        flags = re.IGNORECASE if "(?i)" in pattern else 0
        if not re.search(pattern.replace("(?i)", ""), value, flags):
            yield "%s: %r does not match %s" % (path, value, pattern)
    if isinstance(value, (str, list)):
        for key, sign in (("minLength", 1), ("maxLength", -1), ("minItems", 1), ("maxItems", -1)):
            of = str if key.endswith("Length") else list
            if isinstance(value, of) and key in schema and sign * (len(value) - schema[key]) < 0:
                yield "%s: length %d against %s %s" % (path, len(value), key, schema[key])


def _fields(value: t.Mapping[str, t.Any], schema: t.Mapping[str, t.Any], path: str) -> t.Iterator[str]:
    properties = schema.get("properties", {})
    rest = schema.get("additionalProperties")
    for name in schema.get("required", []):
        if name not in value:
            yield "%s.%s: required" % (path, name)
    for name, each in value.items():
        if name in properties:
            yield from violations(each, properties[name], "%s.%s" % (path, name))
        elif isinstance(rest, dict):
            yield from violations(each, rest, "%s.%s" % (path, name))
        elif not rest and not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield "%s.%s: unknown field" % (path, name)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Find out which of two CustomResourceDefinitions is newer. They contain no release, so versions and fields are
compared."""

from __future__ import annotations

import typing as t

Object = t.Mapping[str, t.Any]
# A schema with this key accepts any field.
_ANY = "x-kubernetes-preserve-unknown-fields"
# Fields of every object, even if the schema does not contain them.
_EVERYWHERE = ("apiVersion", "kind", "metadata")


def missing(one: Object, other: Object) -> list[str]:
    """Return the versions and fields that ``other`` has and ``one`` does not, such as ``v1`` and ``v1.spec.mtu``."""
    own = {version["name"]: version for version in one["spec"]["versions"]}
    found: list[str] = []
    for version in other["spec"]["versions"]:
        name = version["name"]
        if name in own:
            below = _fields(name, _schema(own[name]), _schema(version))
            found += [each for each in below if each[len(name) + 1 :] not in _EVERYWHERE]
        elif version.get("served"):
            found.append(name)
    return found


def _schema(version: Object) -> Object:
    made: Object = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return made


def _fields(path: str, one: Object, other: Object) -> t.Iterator[str]:
    own, rest = one.get("properties") or {}, one.get("additionalProperties")
    for key, below in (other.get("properties") or {}).items():
        place = "%s.%s" % (path, key)
        if key in own:
            yield from _fields(place, own[key], below)
        elif isinstance(rest, t.Mapping):
            yield from _fields(place, rest, below)
        elif not (one.get(_ANY) or rest):
            yield place
    for key in ("items", "additionalProperties"):
        if isinstance(one.get(key), t.Mapping) and isinstance(other.get(key), t.Mapping):
            yield from _fields(path + "[]", one[key], other[key])

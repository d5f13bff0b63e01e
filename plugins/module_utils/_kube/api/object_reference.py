# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Which object is meant, and how it is called when people read of it."""

from __future__ import annotations

import hashlib
import json
import typing as t

Object = t.Dict[str, t.Any]
# apiVersion and kind.
Kind = t.Tuple[str, str]

# What was last applied to an object, so that a field which somebody took over since is told from one never ours.
APPLIED = "railyard.fabric/applied"
# Set on an object that another made with the very values of the plan: it stays when ours go.
ADOPTED = "railyard.fabric/adopted"


class Key(t.NamedTuple):
    """One object of a server; ``namespace`` is empty where its kind has none."""

    api: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, found: t.Mapping[str, t.Any], kind: Kind | None = None) -> Key:
        """:param kind: for items of a list, which do not say theirs."""
        api, name = kind or (found["apiVersion"], found["kind"])
        metadata = found["metadata"]
        return cls(api, name, metadata.get("namespace") or "", metadata["name"])

    @property
    def type(self) -> Kind:
        return self.api, self.kind

    def __str__(self) -> str:
        place = "%s/%s" % (self.namespace, self.name) if self.namespace else self.name
        return "%s %s" % (self.kind, place)


def group(api: str) -> str:
    """The group of an apiVersion; empty for the core's."""
    return api.partition("/")[0] if "/" in api else ""


def selected(found: t.Mapping[str, t.Any], labels: t.Mapping[str, str]) -> bool:
    """Whether an object carries all of these labels."""
    own = found["metadata"].get("labels") or {}
    return all(own.get(key) == value for key, value in labels.items())


def marked(wanted: t.Mapping[str, t.Any]) -> Object:
    """The object with the digest of itself among its annotations, as it is sent. The given one stays as it is."""
    text = json.dumps(wanted, sort_keys=True, separators=(",", ":"))
    metadata = dict(wanted["metadata"])
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]
    metadata["annotations"] = dict(metadata.get("annotations") or {}, **{APPLIED: digest})
    return dict(wanted, metadata=metadata)


def digest_of(found: t.Mapping[str, t.Any]) -> str:
    """The digest of what was last applied; empty where we never applied it."""
    return str((found["metadata"].get("annotations") or {}).get(APPLIED, ""))


def adopted(found: t.Mapping[str, t.Any]) -> bool:
    """Whether another made it, and we only took it over."""
    return ADOPTED in (found["metadata"].get("annotations") or {})

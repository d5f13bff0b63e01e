# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""References to objects: their keys, names in messages, and annotations."""

from __future__ import annotations

import hashlib
import json
import typing as t

Object = t.Dict[str, t.Any]
# apiVersion and kind.
Kind = t.Tuple[str, str]

# Annotation: digest of what was last applied. It shows whether a field was ours before.
APPLIED = "railyard.fabric/applied"
# Annotation of an object that another manager created with the planned values: teardown keeps it.
ADOPTED = "railyard.fabric/adopted"


class Key(t.NamedTuple):
    """The identity of an object; ``namespace`` is empty for cluster-scoped kinds."""

    api: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, found: t.Mapping[str, t.Any], kind: Kind | None = None) -> Key:
        """Return the key of an object.

        :param kind: for items of a list, which do not contain theirs.
        """
        api, name = kind or (found["apiVersion"], found["kind"])
        metadata = found["metadata"]
        return cls(api, name, metadata.get("namespace") or "", metadata["name"])

    @property
    def type(self) -> Kind:
        return self.api, self.kind

    def __str__(self) -> str:
        place = "%s/%s" % (self.namespace, self.name) if self.namespace else self.name
        return "%s %s" % (self.kind, place)


def first_of(names: t.Sequence[str], shown: int) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - shown
    return ", ".join(names[:shown]) + (" and %d more" % more if more > 0 else "")


def sent_as_one() -> None:
    """The action of a change that is part of a request for the whole object: it does nothing."""
    raise NotImplementedError("objects are sent as a whole")


def group(api: str) -> str:
    """Return the group of an apiVersion; empty for the core group."""
    return api.partition("/")[0] if "/" in api else ""


def selected(found: t.Mapping[str, t.Any], labels: t.Mapping[str, str]) -> bool:
    """Return whether an object has all of these labels."""
    own = found["metadata"].get("labels") or {}
    return all(own.get(key) == value for key, value in labels.items())


def marked(wanted: t.Mapping[str, t.Any]) -> Object:
    """Return a copy of the object with its digest as an annotation, as it is sent."""
    text = json.dumps(wanted, sort_keys=True, separators=(",", ":"))
    metadata = dict(wanted["metadata"])
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]
    metadata["annotations"] = dict(metadata.get("annotations") or {}, **{APPLIED: digest})
    return dict(wanted, metadata=metadata)


def digest_of(found: t.Mapping[str, t.Any]) -> str:
    """Return the digest of what was last applied; empty if Railyard never applied the object."""
    return str((found["metadata"].get("annotations") or {}).get(APPLIED, ""))


def version_of(found: t.Mapping[str, t.Any]) -> str:
    """Return the resourceVersion of an object; empty if the object does not have one."""
    return str(found["metadata"].get("resourceVersion") or "")


def adopted(found: t.Mapping[str, t.Any]) -> bool:
    """Return whether another manager created the object and Railyard adopted it."""
    return ADOPTED in (found["metadata"].get("annotations") or {})

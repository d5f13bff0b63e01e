# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Predict what server-side apply would change in an object. Nothing is sent if nothing differs.

An apply changes something if a desired value differs or is missing, if a desired field is not owned by us, or if we own
a field that is not desired any more. The server lists the fields that we own in ``metadata.managedFields``. That also
shows which lists are atomic and which keys identify the items of others, so no schema is needed.
"""

from __future__ import annotations

import calendar
import json
import time
import typing as t

Owned = t.Mapping[str, t.Any]

# Fields that managedFields does not list, because they identify the object.
_IDENTITY = {"": ("apiVersion", "kind"), "metadata": ("name", "namespace")}


# Seconds that an entry of managedFields may be older than its object: the server first writes the entry, then calls the
# webhooks that change objects, and then sets the time of the creation. Both are whole seconds.
_WRITTEN_BEFORE = 3


class Difference(t.NamedTuple):
    """One field: its path, observed and desired value (None: missing). Both are equal if only the ownership differs."""

    path: str
    before: t.Any
    after: t.Any


def owned_by(live: t.Mapping[str, t.Any], manager: str) -> Owned:
    """Return the fields that a manager owns by server-side apply, as ``fieldsV1``."""
    entries = [
        entry
        for entry in live["metadata"].get("managedFields") or ()
        if entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource")
    ]
    # the next apply removes entries of other versions, so only the version in use counts
    entries.sort(key=lambda entry: entry.get("apiVersion") != live.get("apiVersion"))
    return entries[0].get("fieldsV1") or {} if entries else {}


def written_by(live: t.Mapping[str, t.Any], manager: str, operation: str = "Apply") -> bool:
    """Return whether a manager wrote fields of this object, and not only of an object that it was copied from.

    An entry of ``managedFields`` that is older than the object, by more than a create takes, was copied with it. False
    also if nothing is known, because another program removed the entries.
    """
    created = _seconds(live["metadata"].get("creationTimestamp")) or 0
    return any(
        entry.get("manager") == manager
        and entry.get("operation") == operation
        and not entry.get("subresource")
        and (_seconds(entry.get("time")) or created) >= created - _WRITTEN_BEFORE
        for entry in live["metadata"].get("managedFields") or ()
    )


def _seconds(moment: t.Any) -> int | None:
    """Return a time of the API server in seconds since 1970; None without one."""
    return calendar.timegm(time.strptime(str(moment), "%Y-%m-%dT%H:%M:%SZ")) if moment else None


def managers_of(live: t.Mapping[str, t.Any]) -> str:
    """Return the managers of an object for a message."""
    entries = live["metadata"].get("managedFields") or ()
    return " and ".join(sorted({str(entry["manager"]) for entry in entries if entry.get("manager")})) or "unknown"


def owned_labels(live: t.Mapping[str, t.Any], manager: str) -> set[str]:
    """Return the labels that a manager set, by any operation."""
    entries = live["metadata"].get("managedFields") or ()
    return _owned_keys([entry for entry in entries if entry.get("manager") == manager], "labels")


def makers(live: t.Mapping[str, t.Any], manager: str) -> list[str]:
    """Return the other managers that own fields of an object outside its metadata and status."""
    return sorted(
        {
            str(entry.get("manager"))
            for entry in live["metadata"].get("managedFields") or ()
            if entry.get("manager") != manager
            and not entry.get("subresource")
            and set(entry.get("fieldsV1") or ()) - {"f:metadata", "f:status"}
        }
    )


def released(live: t.Mapping[str, t.Any], manager: str, marks: t.Sequence[str]) -> dict[str, t.Any]:
    """Return the merge patch of ``metadata`` that removes a manager's labels, annotations and entry.

    :param marks: annotations that are removed in any case.
    """
    entries = live["metadata"].get("managedFields") or []
    mine = [entry for entry in entries if entry.get("manager") == manager]
    others = [entry for entry in entries if entry.get("manager") != manager]
    patch: dict[str, t.Any] = {"managedFields": others or [{}]}
    for part, always in (("labels", ()), ("annotations", marks)):
        keys = (_owned_keys(mine, part) - _owned_keys(others, part)) | set(always)
        patch[part] = dict.fromkeys(sorted(keys))
    return patch


def _owned_keys(entries: t.Iterable[t.Mapping[str, t.Any]], part: str) -> set[str]:
    """Return the keys of ``metadata.labels`` or ``metadata.annotations`` in entries of managedFields."""
    parts = (((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:" + part) or {} for entry in entries)
    return {key[2:] for fields in parts for key in fields if key.startswith("f:")}


def differences(wanted: t.Mapping[str, t.Any], live: t.Mapping[str, t.Any], manager: str) -> list[Difference]:
    """Return what an apply of ``wanted`` would change; empty if nothing.

    :param live: the object as the server returns it, with its ``managedFields`` and ``apiVersion``.
    """
    return list(_mapping("", wanted, live, owned_by(live, manager)))


def _compare(path: str, wanted: t.Any, live: t.Any, owned: Owned | None) -> t.Iterator[Difference]:
    if owned is None:
        # an empty value has no owner
        if _has_value(wanted) or not holds(live, wanted):
            yield Difference(path, live, wanted)
    elif owned and isinstance(wanted, dict) and isinstance(live, dict):
        yield from _mapping(path, wanted, live, owned)
    elif owned and isinstance(wanted, list) and isinstance(live, list):
        yield from _items(path, wanted, live, owned)
    elif not holds(live, wanted):
        # an atomic value: a scalar, an atomic list or map, or an empty one
        yield Difference(path, live, wanted)


def _mapping(
    path: str, wanted: t.Mapping[str, t.Any], live: t.Mapping[str, t.Any], owned: Owned
) -> t.Iterator[Difference]:
    identity = _IDENTITY.get(path, ())
    for key, value in wanted.items():
        if key in identity:
            continue
        place = _below(path, key)
        if key not in live:
            yield Difference(place, None, value)
        else:
            yield from _compare(place, value, live[key], owned.get("f:" + key, {} if place == "metadata" else None))
    for field in owned:
        if field.startswith("f:") and field[2:] not in wanted:
            yield Difference(_below(path, field[2:]), live.get(field[2:]), None)


def _items(path: str, wanted: list[t.Any], live: list[t.Any], owned: Owned) -> t.Iterator[Difference]:
    """Compare a list whose items are identified by keys (``k:``) or by their values (``v:``)."""
    left = {field: json.loads(field[2:]) for field in owned if field[:2] in ("k:", "v:")}
    for at, item in enumerate(wanted):
        field = next((field for field, key in left.items() if _has_key(item, key)), None)
        place = "%s[%d]" % (path, at)
        if field is None:
            yield Difference(place, None, item)
            continue
        key = left.pop(field)
        found = next((each for each in live if _has_key(each, key)), None)
        if found is None:
            yield Difference(place, None, item)
        elif isinstance(item, dict):
            yield from _mapping(place, item, found, owned[field])
    for key in left.values():
        yield Difference(path, next((each for each in live if _has_key(each, key)), key), None)


def _has_key(item: t.Any, key: t.Any) -> bool:
    """Return whether an item of a list has this key. The server's defaults are keys that the item does not contain."""
    if isinstance(item, dict):
        return isinstance(key, dict) and all(item.get(name, value) == value for name, value in key.items())
    return not isinstance(key, dict) and bool(item == key)


def holds(live: t.Any, wanted: t.Any) -> bool:
    """Return whether ``live`` contains all of ``wanted``. The server adds defaults to mappings, also within lists."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(key in live and holds(live[key], value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(live, list) and len(live) == len(wanted) and all(map(holds, live, wanted))
    # values from playbooks may have types of Ansible, which are subclasses of the plain types
    return isinstance(live, bool) is isinstance(wanted, bool) and bool(live == wanted)


def _has_value(wanted: t.Any) -> bool:
    if isinstance(wanted, dict):
        return any(map(_has_value, wanted.values()))
    return bool(wanted) if isinstance(wanted, list) else True


def unkept(wanted: t.Any, got: t.Any, path: str = "") -> t.Iterator[Difference]:
    """Yield what was sent and not stored: fields that the server dropped, and values that a webhook changed."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        for key, value in wanted.items():
            if key not in got:
                yield Difference(_below(path, key), None, value)
            else:
                yield from unkept(value, got[key], _below(path, key))
    elif isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
        for at, value in enumerate(wanted):
            yield from unkept(value, got[at], "%s[%d]" % (path, at))
    elif not holds(got, wanted):
        yield Difference(path, got, wanted)


def shape(wanted: t.Any) -> t.Any:
    """Return the fields of an object without their values.

    A server that is too old to refuse unknown fields drops the same fields from all objects with one shape.
    """
    if isinstance(wanted, dict):
        return tuple(sorted((key, shape(value)) for key, value in wanted.items()))
    if isinstance(wanted, list):
        return tuple(sorted({shape(value) for value in wanted}, key=repr))
    return None


def _below(path: str, key: str) -> str:
    return "%s.%s" % (path, key) if path else key

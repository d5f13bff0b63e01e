# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write CustomResourceDefinitions: create and replace them before objects that need them, and delete them when it is
safe.

They are replaced as a whole and not applied. An old server drops keywords of a newer schema, which server-side apply
would report as missing in each run. A digest shows what was sent.
"""

from __future__ import annotations

import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_errors import refusal
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import (
    METADATA,
    USER_AGENT,
    Resource,
    Server,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.concurrency import Say, each
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import (
    Key,
    Object,
    digest_of,
    first_of,
    marked,
    selected,
    version_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.compare_objects import managers_of, written_by

API = "apiextensions.k8s.io/v1"
KIND = "CustomResourceDefinition"
DEFINITIONS = Resource("/apis/" + API, "customresourcedefinitions", False)
# Helm's annotation of objects of a release, which only that release may change.
_RELEASE = "meta.helm.sh/release-name"
# Timeout and interval, in seconds, of the wait until a definition is served.
_SERVED = 60.0
_LOOK = 0.5
# A schema with this key accepts any field.
_ANY = "x-kubernetes-preserve-unknown-fields"
# Fields of every object, even if the schema does not contain them.
_EVERYWHERE = ("apiVersion", "kind", "metadata")


class Definitions:
    """The definitions that one piece of software needs.

    :param owner: label and value of the definitions that it created; the first software that creates one owns it.
    """

    def __init__(self, server: Server, owner: tuple[str, str], check: bool, say: Say) -> None:
        self.server = server
        self.label, self.name = owner
        self.check = check
        self.say = say
        self.done: list[Change] = []
        self.warnings: list[str] = []

    def present(self, wanted: t.Sequence[Object]) -> None:
        """Write definitions that are missing or differ, and wait until the server serves them.

        :raises RailyardError: for all refusals, before anything is written.
        """
        live = self._live([one["metadata"]["name"] for one in wanted])
        writes: list[tuple[Object, Object | None]] = []
        errors: list[RailyardError] = []
        for plain in wanted:
            name = plain["metadata"]["name"]
            made = marked(self._labelled(plain))
            found = live.get(name)
            if found is None:
                writes.append((made, None))
                continue
            if self._others(found):
                continue
            if digest_of(found) == digest_of(made):
                continue
            newer = self._newer(made, found)
            if newer is True:
                continue
            error = _lost(made, found) or _ending(found) or newer
            if error:
                errors.append(error)
            writes.append((_with_existing(made, found), found))
        raise_all(errors)
        each(lambda write: self._write(*write), writes, self.server.connections, self.say, "applying %ss" % KIND)
        self.done.sort(key=lambda change: change.subject)
        if writes and not self.check:
            self._served([made["metadata"]["name"] for made, _found in writes])

    def absent(self, timeout: float, shared: t.Container[str] = (), before: t.Mapping[str, str] | None = None) -> None:
        """Delete the definitions that this software created, with the remaining objects of their kinds.

        :param shared: names of those that stay while objects of them exist, which others may have created.
        :param before: in check mode, the labels of objects that would be deleted first.
        :raises RailyardError: for objects with finalizers: without a controller these would never be removed.
        """
        labelled = self.server.list(DEFINITIONS, "%s=%s" % (self.label, self.name))
        # the server names the manager of a request without one after its user agent
        found = [one for one in labelled if written_by(one, USER_AGENT, "Update")]
        self.warnings += sorted(
            "%s %s: has the label %s, was not written by Railyard (managers: %s), and is kept. Remedy: delete it by"
            " hand if nothing needs it" % (KIND, one["metadata"]["name"], self.label, managers_of(one))
            for one in labelled
            if one not in found
        )
        left = {
            one["metadata"]["name"]: [each for each in self.objects(one) if not (before and selected(each, before))]
            for one in found
        }
        kept = {name for name, objects in left.items() if name in shared and objects}
        self.warnings += [
            "%s %s stays, because it has %d objects that others may have created" % (KIND, name, len(left[name]))
            for name in sorted(kept)
        ]
        found = [one for one in found if one["metadata"]["name"] not in kept]
        going = sorted((name, objects) for name, objects in left.items() if name not in kept)
        raise_all([error for name, objects in going for error in _held(name, objects)])
        for one in sorted(found, key=lambda item: str(item["metadata"]["name"])):
            name = one["metadata"]["name"]
            if not self.server.delete(DEFINITIONS, _key(name), one["metadata"]["uid"], self.check, version_of(one)):
                raise Refused("it changed since it was read", str(_key(name)), "run again, which reads it again")
            count = len(left[name])
            self.done.append(_change(name, "present, with %d objects" % count if count else "present", None))
        end = time.monotonic() + timeout
        uids = {one["metadata"]["uid"] for one in found}
        while found and not self.check:
            live = self.server.list(DEFINITIONS, "%s=%s" % (self.label, self.name), METADATA)
            found = [one for one in live if one["metadata"]["uid"] in uids]
            if found and time.monotonic() >= end:
                raise RailyardError(
                    "it is deleted and still exists after %g s" % timeout,
                    "%s %s" % (KIND, found[0]["metadata"]["name"]),
                    "see which objects of its kind remain, and run again",
                )
            if found:
                time.sleep(_LOOK)

    def objects(self, definition: t.Mapping[str, t.Any]) -> list[Object]:
        """Return all objects of the definition's kind, with only their metadata."""
        spec = definition["spec"]
        served = [version["name"] for version in spec["versions"] if version["served"]]
        if not served:
            return []
        resource = Resource("/apis/%s/%s" % (spec["group"], served[0]), spec["names"]["plural"], False)
        return self.server.list(resource, accept=METADATA)

    def _live(self, names: t.Sequence[str]) -> dict[str, Object]:
        live: dict[str, Object] = {}

        def one(name: str) -> None:
            status, answer = self.server.ask("GET", DEFINITIONS.of(name=name))
            if status < 400:
                live[name] = answer
            elif status != 404:
                raise refusal(status, answer, "get", DEFINITIONS.name, self.server.url)

        each(one, names, self.server.connections, self.say, "reading %ss" % KIND)
        return live

    def _labelled(self, plain: Object) -> Object:
        metadata = dict(
            plain["metadata"], labels=dict(plain["metadata"].get("labels") or {}, **{self.label: self.name})
        )
        metadata.pop("creationTimestamp", None)
        return {"apiVersion": API, "kind": KIND, "metadata": metadata, "spec": plain["spec"]}

    def _others(self, found: Object) -> bool:
        """Return whether other software owns the definition."""
        owner = (found["metadata"].get("labels") or {}).get(self.label)
        release = (found["metadata"].get("annotations") or {}).get(_RELEASE)
        if release and not owner:
            self.warnings.append(
                "%s %s is part of Helm's release %s and stays unchanged" % (KIND, found["metadata"]["name"], release)
            )
            return True
        return owner is not None and owner != self.name

    def _newer(self, made: Object, found: Object) -> RailyardError | bool:
        """Return whether a definition without an owner, such as one that Helm installed, stays because it is newer than
        ours.

        Return an error if each of them has something that the other does not have.
        """
        if self.label in (found["metadata"].get("labels") or {}):
            return False
        more = missing_fields(made, found)
        if not more:
            return False
        name, extra = found["metadata"]["name"], first_of(more, 1)
        if not missing_fields(found, made):
            self.warnings.append("%s %s existed before, is newer (it has %s) and stays unchanged" % (KIND, name, extra))
            return True
        return Refused(
            "it existed before, and has %s, which the one of %s does not have" % (extra, self.name),
            str(_key(name)),
            "use a release of %s that has it; if nothing needs it: kubectl label crd %s %s=%s, then run again"
            % (self.name, name, self.label, self.name),
        )

    def _write(self, made: Object, found: Object | None) -> None:
        name = made["metadata"]["name"]
        query = "?dryRun=All" if self.check else ""
        if found is None:
            status, answer = self.server.ask("POST", DEFINITIONS.of() + query, made)
        else:
            status, answer = self.server.ask("PUT", DEFINITIONS.of(name=name) + query, made)
        if status >= 400:
            raise refusal(status, answer, "create" if found is None else "update", DEFINITIONS.name, str(_key(name)))
        before = "present" if found else None
        self.done.append(_change(name, before, "renewed" if found else "present"))

    def _served(self, names: t.Sequence[str]) -> None:
        end = time.monotonic() + _SERVED
        while True:
            waiting = [name for name, found in self._live(names).items() if not _established(found)]
            if not waiting:
                return
            if time.monotonic() >= end:
                raise RailyardError(
                    "it is not served after %g s" % _SERVED,
                    "%s %s" % (KIND, waiting[0]),
                    "see its conditions (kubectl describe crd %s)" % waiting[0],
                )
            time.sleep(_LOOK)


def _key(name: str) -> Key:
    return Key(API, KIND, "", name)


def _change(name: str, before: str | None, after: str | None) -> Change:
    return Change(str(_key(name)), "object", before, after, lambda: None)


def _with_existing(made: Object, found: Object) -> Object:
    """Return our definition with labels, annotations and the conversion webhook that others set in the existing one."""
    metadata = dict(made["metadata"], resourceVersion=found["metadata"]["resourceVersion"])
    for key in ("labels", "annotations"):
        metadata[key] = dict(found["metadata"].get(key) or {}, **(made["metadata"].get(key) or {}))
    spec = dict(made["spec"])
    conversion = found["spec"].get("conversion") or {}
    if conversion.get("strategy") == "Webhook" and "conversion" not in spec:
        spec["conversion"] = conversion
    return dict(made, metadata=metadata, spec=spec)


def _lost(made: Object, found: Object) -> RailyardError | None:
    """Return an error if objects stored in a removed version could no longer be read; else None."""
    versions = {version["name"] for version in made["spec"]["versions"]}
    lost = [each for each in (found.get("status") or {}).get("storedVersions") or () if each not in versions]
    if not lost:
        return None
    return Refused(
        "objects are stored as %s, which the new definition no longer has" % ", ".join(lost),
        str(_key(made["metadata"]["name"])),
        "install the release between first, which stores them again, and remove %s from status.storedVersions"
        % lost[0],
    )


def _ending(found: Object) -> RailyardError | None:
    if not found["metadata"].get("deletionTimestamp"):
        return None
    return Refused(
        "it is deleted and still exists, as long as objects of its kind do",
        str(_key(found["metadata"]["name"])),
        "see which of them have finalizers that no controller removes, then run again",
    )


def _held(name: str, objects: t.Sequence[Object]) -> t.Iterator[RailyardError]:
    held = [one["metadata"] for one in objects if one["metadata"].get("finalizers")]
    if held:
        first = held[0]
        where = "/".join(part for part in (first.get("namespace"), first["name"]) if part)
        more = " and %d more" % (len(held) - 1) if len(held) > 1 else ""
        yield Refused(
            "%s%s would never be deleted: it waits for %s, and its controller is gone"
            % (where, more, ", ".join(first["finalizers"])),
            "%s %s" % (KIND, name),
            "install the software again and delete the objects while it runs, then remove it",
        )


def _established(found: Object) -> bool:
    conditions = (found.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def missing_fields(one: Object, other: Object) -> list[str]:
    """Return the versions and fields that ``other`` has and ``one`` does not, such as ``v1`` and ``v1.spec.mtu``.

    This shows which of two definitions is newer, because they do not contain a release.
    """
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


def _fields(path: str, one: t.Mapping[str, t.Any], other: t.Mapping[str, t.Any]) -> t.Iterator[str]:
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

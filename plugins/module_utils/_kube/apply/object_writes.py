# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The observed objects of a server and the writes that bring them to the desired state: one list per kind, no write if
nothing differs.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._common.replacement_rules import Rule
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import JSON, Resource, Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.concurrency import Say, each
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import (
    Key,
    Kind,
    Object,
    adopted,
    marked,
    selected,
    sent_as_one,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.compare_objects import (
    Difference,
    differences,
    owned_by,
)

Live = t.Dict[Key, Object]


@dataclass
class DesiredObjects:
    """The desired state of a server.

    :param objects: in the order of application. :param labels: those of all these objects.
    :param family: the labels of ``labels`` that objects of our other plans have too.
    :param kinds: all kinds that an earlier plan may have had, in the order of application.
    :param force: take over fields of other managers, which ``force_variable`` of the caller allows.
    :param rules: what updates of a kind cannot do; all objects of it are read, including those of other programs.
    :param replace: consent to delete objects before they are created again.
    :param makers: kind -> remedy if the server does not have it. :param started: labels of what users start by
        hand: without being desired it is not pruned, but removed with the rest.
    """

    objects: t.Sequence[Object]
    labels: t.Mapping[str, str]
    family: t.Mapping[str, str]
    kinds: t.Sequence[Kind]
    makers: t.Mapping[Kind, str] = field(default_factory=dict)
    started: t.Sequence[t.Mapping[str, str]] = ()
    manager: str = "railyard"
    force: bool = False
    force_variable: str = "kubernetes_force"
    rules: t.Mapping[Kind, Rule] = field(default_factory=dict)
    replace: bool = False

    @property
    def own_kinds(self) -> list[Kind]:
        """The kinds of the objects, in their order."""
        return list(dict.fromkeys((each["apiVersion"], each["kind"]) for each in self.objects))

    def by_hand(self, found: t.Mapping[str, t.Any]) -> bool:
        return any(selected(found, labels) for labels in self.started)


@dataclass
class Write:
    """One object that differs; ``wanted`` is None if it is deleted, ``live`` if it is created.

    ``ours``: no other manager created it. ``adopts``: another did, with the desired values. ``releases``: it loses our
    labels and stays. ``replaces``: it is deleted and created again. ``step``: writes of a kind are sent in this order.
    """

    key: Key
    resource: Resource
    wanted: Object | None
    live: Object | None
    fields: list[Difference] = field(default_factory=list)
    ours: bool = True
    adopts: bool = False
    replaces: bool = False
    step: int = 0

    @property
    def releases(self) -> bool:
        return self.wanted is None and not self.ours

    def changes(self) -> list[Change]:
        """As our modules report changes. They carry no action, because whole objects are sent."""
        subject, fields = str(self.key), [] if self.adopts else self.fields
        found = [Change(subject, each.path, each.before, each.after, sent_as_one) for each in fields]
        if self.adopts:
            return [Change(subject, "object", "made by another", "adopted", sent_as_one)]
        if self.releases:
            return [Change(subject, "object", "adopted", "released", sent_as_one)]
        if self.replaces:
            return [Change(subject, "object", "present", "replaced", sent_as_one), *found]
        if self.wanted is None or self.live is None:
            there = None if self.live is None else "present", None if self.wanted is None else "present"
            return [Change(subject, "object", *there, sent_as_one)]
        return found


def served(server: Server, desired: DesiredObjects) -> dict[Kind, Resource]:
    """The kinds that the server has, of the desired ones and those that an earlier run may have created.

    :raises RailyardError: for each desired kind that it does not have.
    """
    wanted = desired.own_kinds
    found = server.resources(dict.fromkeys([*wanted, *desired.kinds]))
    raise_all(
        [
            RailyardError(
                "the cluster has no kind %s of %s" % (kind[1], kind[0]),
                server.url,
                desired.makers.get(kind, "install the software that defines it, with its CustomResourceDefinitions"),
            )
            for kind in wanted
            if kind not in found
        ]
    )
    return found


class Settled(t.Dict[str, t.Any]):
    """An object that is as desired, reduced to its identity: there may be tens of thousands."""


def settler(desired: DesiredObjects) -> t.Callable[[Object], Object]:
    """Reduces an observed object; one that must be written stays whole."""
    wanted = {Key.of(plain): plain for plain in desired.objects}

    def keep(found: Object) -> Object:
        plain, metadata = wanted.get(Key.of(found)), found["metadata"]
        if plain is None:
            return found if adopted(found) else plainly(found)
        ours = selected(found, desired.labels) and not metadata.get("deletionTimestamp")
        if ours and not differences(marked(plain), found, desired.manager):
            kept = {name: metadata[name] for name in ("name", "namespace", "labels", "uid") if name in metadata}
            return Settled(apiVersion=found["apiVersion"], kind=found["kind"], metadata=kept)
        return found

    return keep


def keeper(desired: DesiredObjects) -> t.Callable[[Object], Object]:
    """Reduces an observed object when all are removed. One of ours that lost its labels gets them again."""
    planned = {Key.of(plain) for plain in desired.objects}

    def keep(found: Object) -> Object:
        key, metadata = Key.of(found), found["metadata"]
        if key in planned and owned_by(found, desired.manager) and not _not_ours(key, found, desired):
            metadata["labels"] = dict(metadata.get("labels") or {}, **desired.labels)
        return found if adopted(found) else plainly(found)

    return keep


def plainly(found: Object) -> Object:
    """An object without managedFields, which are most of it."""
    found["metadata"].pop("managedFields", None)
    return found


def observed(
    server: Server,
    resources: t.Mapping[Kind, Resource],
    labels: t.Mapping[str, str],
    say: Say,
    keep: t.Callable[[Object], Object] = plainly,
    accept: str = JSON,
    whole: t.Container[Kind] = (),
) -> Live:
    """All objects with these labels. :param keep: reduces each object as it is read, to save memory.

    :param whole: kinds of which objects without these labels are read too.
    """
    selector = ",".join("%s=%s" % item for item in sorted(labels.items()))
    found: dict[Kind, list[Object]] = {}

    def one(kind: Kind) -> None:
        def kept(item: Object) -> Object:
            # items of a list of a built-in kind contain no kind
            item.update(apiVersion=kind[0], kind=kind[1])
            return keep(item)

        found[kind] = server.list(resources[kind], "" if kind in whole else selector, accept, kept)

    each(one, list(resources), server.connections, say, "reading")
    return {Key.of(item): item for kind in resources for item in found[kind]}


def decided(
    desired: DesiredObjects, resources: t.Mapping[Kind, Resource], live: Live, prune: bool
) -> tuple[list[Write], list[str]]:
    """The writes, in order, and warnings: creations and changes in the order of application, then deletions in reverse.

    :raises RailyardError: for each desired object that cannot be applied, before anything is sent.
    """
    writes: list[Write] = []
    errors: list[RailyardError] = []
    keys = set()
    for plain in desired.objects:
        key = Key.of(plain)
        keys.add(key)
        found = live.get(key)
        if isinstance(found, Settled):
            continue
        wanted = marked(plain)
        if found is None:
            writes.append(Write(key, resources[key.type], wanted, None))
            continue
        error = _not_ours(key, found, desired)
        if error:
            errors.append(error)
        fields = differences(wanted, found, desired.manager)
        if ends(found):
            # it is created again when it is gone
            writes.append(Write(key, resources[key.type], wanted, found, fields, replaces=True))
        elif fields:
            ours = bool(owned_by(found, desired.manager)) and not adopted(found)
            writes.append(Write(key, resources[key.type], wanted, found, fields, ours))
    raise_all(errors)
    order = {kind: number for number, kind in enumerate(dict.fromkeys(write.key.type for write in writes))}
    writes.sort(key=lambda write: order[write.key.type])
    left, warnings = leaving(desired, resources, live, keys)
    return writes + (left if prune else []), warnings


def leaving(
    desired: DesiredObjects, resources: t.Mapping[Kind, Resource], live: Live, keys: t.Container[Key] = ()
) -> tuple[list[Write], list[str]]:
    """The deletions of objects with our labels that are not in ``keys``, and a warning for each under deletion."""
    found = going(desired, resources, live, keys)
    ending = ["%s: %s" % (write.key, ending_of(write.live or {})) for write in found if ends(write.live)]
    return [write for write in found if not ends(write.live)], ending


def going(
    desired: DesiredObjects,
    resources: t.Mapping[Kind, Resource],
    live: Live,
    keys: t.Container[Key] = (),
    all_of: bool = False,
) -> list[Write]:
    """The deletions of objects with our labels that are not in ``keys``, in reverse order of application.

    Objects that are under deletion already are among them.

    :param all_of: with what users started by hand, which is deleted first.
    """
    order = {kind: number for number, kind in enumerate(dict.fromkeys([*resources, *desired.kinds]))}
    order.update({kind: number for number, kind in enumerate(desired.kinds)})
    found = [
        (key, each)
        for key, each in live.items()
        if key not in keys and selected(each, desired.labels) and (all_of or not desired.by_hand(each))
    ]
    found.sort(key=lambda item: (desired.by_hand(item[1]), order[item[0].type], item[0]), reverse=True)
    return [Write(key, resources[key.type], None, each, ours=not adopted(each)) for key, each in found]


def ends(found: t.Mapping[str, t.Any] | None) -> bool:
    """Whether an object is under deletion."""
    return bool(found and found["metadata"].get("deletionTimestamp"))


def ending_of(found: t.Mapping[str, t.Any]) -> str:
    """Why a deleted object still exists."""
    finalizers = found["metadata"].get("finalizers") or ["none (it is about to disappear)"]
    return "it is deleted and still exists; its finalizers: %s" % ", ".join(finalizers)


def _not_ours(key: Key, found: t.Mapping[str, t.Any], desired: DesiredObjects) -> RailyardError | None:
    """The error for an object with other values of our labels. One without the labels has no owner."""
    own = found["metadata"].get("labels") or {}
    other = [
        "%s=%s" % (name, own[name])
        for name in desired.labels
        if own.get(name, desired.labels[name]) != desired.labels[name]
    ]
    if not other:
        return None
    family = all(own.get(name) == value for name, value in desired.family.items())
    return Refused(
        "it exists already and belongs to another owner: %s" % ", ".join(other),
        str(key),
        "change the names in one of the two fabric files, or tear the other one down first"
        if family
        else "choose another name in the fabric file (names), or have its owner delete it",
    )

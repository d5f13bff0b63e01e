# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare the objects of a server with the desired ones, and determine the writes: one list per kind, none if nothing
differs."""

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
    digest_of,
    first_of,
    marked,
    selected,
    sent_as_one,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.compare_objects import (
    Difference,
    differences,
    managers_of,
    owned_by,
    written_by,
)

Live = t.Dict[Key, Object]
# Maximum number of objects named in a line.
_SHOWN = 5


@dataclass
class DesiredObjects:
    """The desired state of a server.

    :param objects: in the order of application.
    :param labels: the labels of all these objects.
    :param family: those of ``labels`` that objects of our other plans have too.
    :param kinds: all kinds that an earlier plan may have had, in the order of application.
    :param force: take over fields of other managers; ``force_variable`` is the variable that allows it.
    :param rules: kind -> what updates cannot do; all objects of the kind are read, including those of other programs.
    :param replace: consent to delete objects before they are created again.
    :param makers: kind -> remedy if the server does not have it.
    :param started: labels of objects that users start by hand. Prune keeps them, and removal deletes them.
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
        """Return whether a user started the object by hand."""
        return any(selected(found, labels) for labels in self.started)


@dataclass
class Write:
    """One object that differs.

    ``wanted``: None for a deletion; ``live``: None for a creation. ``ours``: no other manager created it. ``adopts``:
    another manager did, with the desired values. ``releases``: it loses our labels and stays. ``replaces``: it is
    deleted and created again. ``step``: writes of a kind are sent in this order.
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
        """Whether only our labels are removed, because another manager created the object."""
        return self.wanted is None and not self.ours

    def changes(self) -> list[Change]:
        """Return the changes in the format of our modules. They have no action, because whole objects are sent."""
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
    """Return the kinds that the server has, of the desired ones and those that an earlier run may have created.

    :raises RailyardError: for each desired kind that the server does not have.
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
    """An object that is as desired, reduced to its identity, because there may be tens of thousands."""


class Applied(t.Dict[str, t.Any]):
    """An object that we applied, without its managedFields, which are the largest part of it."""


def applied(found: Object, desired: DesiredObjects) -> bool:
    """Return whether we applied this object, so that it is ours to delete. Labels do not show that: they are copied."""
    return isinstance(found, Applied) or written_by(found, desired.manager)


def reduced(found: Object, desired: DesiredObjects) -> Object:
    """Return an object without managedFields, unless these are needed to release it or to name its managers."""
    ours = applied(found, desired)
    if adopted(found) or (selected(found, desired.labels) and not ours):
        return found
    return Applied(plainly(found)) if ours else plainly(found)


def settler(desired: DesiredObjects) -> t.Callable[[Object], Object]:
    """Return a function that reduces observed objects. Objects that must be written stay whole."""
    wanted = {Key.of(plain): plain for plain in desired.objects}

    def keep(found: Object) -> Object:
        plain, metadata = wanted.get(Key.of(found)), found["metadata"]
        if plain is None:
            return reduced(found, desired)
        ours = selected(found, desired.labels) and not metadata.get("deletionTimestamp")
        if ours and not differences(marked(plain), found, desired.manager):
            kept = {name: metadata[name] for name in ("name", "namespace", "labels", "uid") if name in metadata}
            return Settled(apiVersion=found["apiVersion"], kind=found["kind"], metadata=kept)
        return found

    return keep


def keeper(desired: DesiredObjects) -> t.Callable[[Object], Object]:
    """Return a function that reduces observed objects for a removal. Objects of ours that lost their labels get them
    again."""
    planned = {Key.of(plain): plain for plain in desired.objects}

    def keep(found: Object) -> Object:
        key, metadata = Key.of(found), found["metadata"]
        if key in planned and owned_by(found, desired.manager) and not _not_ours(key, found, desired):
            metadata["labels"] = dict(metadata.get("labels") or {}, **desired.labels)
            if digest_of(found) == digest_of(marked(planned[key])) and not adopted(found):
                # also if a backup was restored, whose entries are older than the object
                return Applied(plainly(found))
        return reduced(found, desired)

    return keep


def plainly(found: Object) -> Object:
    """Return an object without managedFields, which are the largest part of it."""
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
    """Return all objects with these labels.

    :param keep: reduces each object as it is read, to save memory.
    :param whole: kinds of which objects without these labels are read too.
    """
    selector = ",".join("%s=%s" % item for item in sorted(labels.items()))
    found: dict[Kind, list[Object]] = {}

    def one(kind: Kind) -> None:
        def kept(item: Object) -> Object:
            # items of a list of a built-in kind do not contain the kind
            item.update(apiVersion=kind[0], kind=kind[1])
            return keep(item)

        found[kind] = server.list(resources[kind], "" if kind in whole else selector, accept, kept)

    each(one, list(resources), server.connections, say, "reading")
    return {Key.of(item): item for kind in resources for item in found[kind]}


def decided(
    desired: DesiredObjects, resources: t.Mapping[Kind, Resource], live: Live, prune: bool
) -> tuple[list[Write], list[str]]:
    """Return the writes in order, and warnings.

    Creations and changes come first, in the order of application, then deletions in reverse order.

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
            # it is created again after its deletion has ended
            writes.append(Write(key, resources[key.type], wanted, found, fields, replaces=True))
        elif fields:
            ours = bool(owned_by(found, desired.manager)) and not adopted(found)
            writes.append(Write(key, resources[key.type], wanted, found, fields, ours))
    raise_all(errors)
    order = {kind: number for number, kind in enumerate(dict.fromkeys(write.key.type for write in writes))}
    writes.sort(key=lambda write: order[write.key.type])
    deletions, warnings = leaving(desired, resources, live, keys)
    return writes + (deletions if prune else []), warnings + (kept(desired, live, keys) if prune else [])


def leaving(
    desired: DesiredObjects, resources: t.Mapping[Kind, Resource], live: Live, keys: t.Container[Key] = ()
) -> tuple[list[Write], list[str]]:
    """Return deletions of objects with our labels that are not in ``keys``, and a warning for each object under
    deletion."""
    deletions = going(desired, resources, live, keys)
    warnings = ["%s: %s" % (write.key, ending_of(write.live or {})) for write in deletions if ends(write.live)]
    return [write for write in deletions if not ends(write.live)], warnings


def going(
    desired: DesiredObjects,
    resources: t.Mapping[Kind, Resource],
    live: Live,
    keys: t.Container[Key] = (),
    by_users_too: bool = False,
) -> list[Write]:
    """Return deletions of objects with our labels that we applied and that are not in ``keys``, in reverse order of
    application.

    Objects that are already under deletion are included.

    :param by_users_too: include objects that users started by hand, which are deleted first.
    """
    order = {kind: number for number, kind in enumerate(dict.fromkeys([*resources, *desired.kinds]))}
    order.update({kind: number for number, kind in enumerate(desired.kinds)})
    found = [
        (key, each)
        for key, each in live.items()
        if key not in keys and selected(each, desired.labels)
        if (by_users_too if desired.by_hand(each) else applied(each, desired) or adopted(each))
    ]
    found.sort(key=lambda item: (desired.by_hand(item[1]), order[item[0].type], item[0]), reverse=True)
    return [Write(key, resources[key.type], None, each, ours=not adopted(each)) for key, each in found]


def kept(desired: DesiredObjects, live: Live, keys: t.Container[Key] = ()) -> list[str]:
    """Return a warning for the objects of each kind that have our labels, are not in ``keys``, and were made by others.

    They stay: a copy of one of our objects has our labels too.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for key, one in live.items():
        if key in keys or not selected(one, desired.labels) or desired.by_hand(one) or ends(one):
            continue
        if not applied(one, desired) and not adopted(one):
            found.setdefault((key.kind, managers_of(one)), []).append(str(key).partition(" ")[2])
    return [
        "%s %s: has the labels of Railyard, was not applied by Railyard (managers: %s), and is kept. Remedy: remove the"
        " labels %s, or delete the object by hand"
        % (kind, first_of(names, _SHOWN), managers, " and ".join(sorted(desired.labels)))
        for (kind, managers), names in found.items()
    ]


def ends(found: t.Mapping[str, t.Any] | None) -> bool:
    """Return whether an object is under deletion."""
    return bool(found and found["metadata"].get("deletionTimestamp"))


def ending_of(found: t.Mapping[str, t.Any]) -> str:
    """Return why a deleted object still exists."""
    finalizers = found["metadata"].get("finalizers") or ["none (it is about to disappear)"]
    return "it is deleted and still exists; its finalizers: %s" % ", ".join(finalizers)


def _not_ours(key: Key, found: t.Mapping[str, t.Any], desired: DesiredObjects) -> RailyardError | None:
    """Return an error for an object with other values of our labels; None for one without the labels, which has no
    owner."""
    observed_labels = found["metadata"].get("labels") or {}
    other = [
        "%s=%s" % (name, observed_labels[name])
        for name in desired.labels
        if observed_labels.get(name, desired.labels[name]) != desired.labels[name]
    ]
    if not other:
        return None
    family = all(observed_labels.get(name) == value for name, value in desired.family.items())
    return Refused(
        "it exists already and belongs to another owner: %s" % ", ".join(other),
        str(key),
        "change the names in one of the two fabric files, or tear the other one down first"
        if family
        else "choose another name in the fabric file (names), or have its owner delete it",
    )

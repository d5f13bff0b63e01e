# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What there is of ours on a server, and the writes that bring it to what is wanted: one list a kind, no write where
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
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.compare_objects import (
    Difference,
    differences,
    owned_by,
)

Live = t.Dict[Key, Object]


@dataclass
class Wish:
    """What shall be on the server.

    :param objects: in the order of application. :param labels: those that all of this wish's objects carry.
    :param family: the labels of ``labels`` that objects of other wishes of ours carry too.
    :param kinds: all kinds that an earlier wish may have had, in the order of application.
    :param rules: what updates of a kind do not do; all its objects are read, whoever made them.
    :param replace: consent to delete objects before they are created again.
    :param makers: kind -> remedy where the server does not have it. :param started: labels of what people start by
        hand: it is never applied, nor pruned, but goes with the rest.
    """

    objects: t.Sequence[Object]
    labels: t.Mapping[str, str]
    family: t.Mapping[str, str]
    kinds: t.Sequence[Kind]
    makers: t.Mapping[Kind, str] = field(default_factory=dict)
    started: t.Sequence[t.Mapping[str, str]] = ()
    manager: str = "railyard"
    force: bool = False
    rules: t.Mapping[Kind, Rule] = field(default_factory=dict)
    replace: bool = False

    def by_hand(self, found: t.Mapping[str, t.Any]) -> bool:
        return any(selected(found, labels) for labels in self.started)


@dataclass
class Write:
    """One object that differs; ``wanted`` is None where it goes, ``live`` where it comes.

    ``ours``: no other made it. ``adopts``: another made it, with the wanted values. ``releases``: it loses our labels
    and stays. ``replaces``: it is deleted and created again. ``step``: writes of a kind are sent in this order.
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
        """As our modules report changes. The act is the writer's, who sends objects and not fields."""
        subject, fields = str(self.key), [] if self.adopts else self.fields
        found = [Change(subject, each.path, each.before, each.after, _sent_as_one) for each in fields]
        if self.adopts:
            return [Change(subject, "object", "made by another", "adopted", _sent_as_one)]
        if self.releases:
            return [Change(subject, "object", "adopted", "released", _sent_as_one)]
        if self.replaces:
            return [Change(subject, "object", "present", "replaced", _sent_as_one), *found]
        if self.wanted is None or self.live is None:
            there = None if self.live is None else "present", None if self.wanted is None else "present"
            return [Change(subject, "object", *there, _sent_as_one)]
        return found


def _sent_as_one() -> None:
    raise NotImplementedError("an object is sent as one, by kube.apply")


def served(server: Server, wish: Wish) -> dict[Kind, Resource]:
    """The kinds that the server has, of those that are wanted and those that an earlier run may have made.

    :raises RailyardError: for each wanted kind that it does not have.
    """
    wanted = list(dict.fromkeys((each["apiVersion"], each["kind"]) for each in wish.objects))
    found = server.resources(dict.fromkeys([*wanted, *wish.kinds]))
    raise_all(
        [
            RailyardError(
                "the cluster has no kind %s of %s" % (kind[1], kind[0]),
                server.url,
                wish.makers.get(kind, "install what brings it, with its CustomResourceDefinitions"),
            )
            for kind in wanted
            if kind not in found
        ]
    )
    return found


class Settled(t.Dict[str, t.Any]):
    """An object that is as it is wanted, without what nobody will ask of it: there may be tens of thousands."""


def settler(wish: Wish) -> t.Callable[[Object], Object]:
    """What is kept of an object of the server: all of it only where it is to be written over."""
    wanted = {Key.of(plain): plain for plain in wish.objects}

    def keep(found: Object) -> Object:
        plain, metadata = wanted.get(Key.of(found)), found["metadata"]
        if plain is None:
            return found if adopted(found) else plainly(found)
        ours = selected(found, wish.labels) and not metadata.get("deletionTimestamp")
        if ours and not differences(marked(plain), found, wish.manager):
            kept = {name: metadata[name] for name in ("name", "namespace", "labels", "uid") if name in metadata}
            return Settled(apiVersion=found["apiVersion"], kind=found["kind"], metadata=kept)
        return found

    return keep


def keeper(wish: Wish) -> t.Callable[[Object], Object]:
    """What is kept of an object where all of the wish goes. One of ours that lost its labels has them again."""
    planned = {Key.of(plain) for plain in wish.objects}

    def keep(found: Object) -> Object:
        key, metadata = Key.of(found), found["metadata"]
        if key in planned and owned_by(found, wish.manager) and not _not_ours(key, found, wish):
            metadata["labels"] = dict(metadata.get("labels") or {}, **wish.labels)
        return found if adopted(found) else plainly(found)

    return keep


def plainly(found: Object) -> Object:
    """An object without the notes on who set its fields, which are most of it."""
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
    """All objects with these labels. :param keep: what is kept of each, so that no more is ever held.

    :param whole: kinds of which objects without these labels are read too.
    """
    selector = ",".join("%s=%s" % item for item in sorted(labels.items()))
    found: dict[Kind, list[Object]] = {}

    def one(kind: Kind) -> None:
        def kept(item: Object) -> Object:
            # items of a list of a built-in kind do not say what they are
            item.update(apiVersion=kind[0], kind=kind[1])
            return keep(item)

        found[kind] = server.list(resources[kind], "" if kind in whole else selector, accept, kept)

    each(one, list(resources), server.connections, say, "reading")
    return {Key.of(item): item for kind in resources for item in found[kind]}


def decided(wish: Wish, resources: t.Mapping[Kind, Resource], live: Live, prune: bool) -> tuple[list[Write], list[str]]:
    """The writes, in order: what comes or changes as the wish has it, then what goes, the last applied first.

    Beside them, warnings.
    :raises RailyardError: for each wanted object that cannot be had, before anything is sent.
    """
    writes: list[Write] = []
    errors: list[RailyardError] = []
    keys = set()
    for plain in wish.objects:
        if wish.by_hand(plain):
            continue
        key = Key.of(plain)
        keys.add(key)
        found = live.get(key)
        if isinstance(found, Settled):
            continue
        wanted = marked(plain)
        if found is None:
            writes.append(Write(key, resources[key.type], wanted, None))
            continue
        error = _not_ours(key, found, wish)
        if error:
            errors.append(error)
        fields = differences(wanted, found, wish.manager)
        if ends(found):
            # it is waited for, and created again
            writes.append(Write(key, resources[key.type], wanted, found, fields, replaces=True))
        elif fields:
            ours = bool(owned_by(found, wish.manager)) and not adopted(found)
            writes.append(Write(key, resources[key.type], wanted, found, fields, ours))
    raise_all(errors)
    order = {kind: number for number, kind in enumerate(dict.fromkeys(write.key.type for write in writes))}
    writes.sort(key=lambda write: order[write.key.type])
    left, warnings = leaving(wish, resources, live, keys)
    return writes + (left if prune else []), warnings


def leaving(
    wish: Wish, resources: t.Mapping[Kind, Resource], live: Live, keys: t.Container[Key] = ()
) -> tuple[list[Write], list[str]]:
    """The deletes of what is this wish's and not among ``keys``, and a warning for each that is going already."""
    found = going(wish, resources, live, keys)
    ending = ["%s: %s" % (write.key, ending_of(write.live or {})) for write in found if ends(write.live)]
    return [write for write in found if not ends(write.live)], ending


def going(
    wish: Wish,
    resources: t.Mapping[Kind, Resource],
    live: Live,
    keys: t.Container[Key] = (),
    all_of: bool = False,
) -> list[Write]:
    """What is this wish's and not among ``keys``, in the order in which it goes: the last applied first.

    What somebody deleted already stands in its place among the others.

    :param all_of: with what people started by hand, which goes first.
    """
    order = {kind: number for number, kind in enumerate(dict.fromkeys([*resources, *wish.kinds]))}
    order.update({kind: number for number, kind in enumerate(wish.kinds)})
    found = [
        (key, each)
        for key, each in live.items()
        if key not in keys and selected(each, wish.labels) and (all_of or not wish.by_hand(each))
    ]
    found.sort(key=lambda item: (wish.by_hand(item[1]), order[item[0].type], item[0]), reverse=True)
    return [Write(key, resources[key.type], None, each, ours=not adopted(each)) for key, each in found]


def ends(found: t.Mapping[str, t.Any] | None) -> bool:
    """Whether an object was deleted already, and is still there."""
    return bool(found and found["metadata"].get("deletionTimestamp"))


def ending_of(found: t.Mapping[str, t.Any]) -> str:
    """Why an object that was deleted is still there."""
    finalizers = found["metadata"].get("finalizers") or ["none (it goes in a moment)"]
    return "it is deleted and still there; its finalizers: %s" % ", ".join(finalizers)


def _not_ours(key: Key, found: t.Mapping[str, t.Any], wish: Wish) -> RailyardError | None:
    """One that has none of the labels is nobody's: somebody took them away, or it was there before."""
    own = found["metadata"].get("labels") or {}
    other = [
        "%s=%s" % (name, own[name]) for name in wish.labels if own.get(name, wish.labels[name]) != wish.labels[name]
    ]
    if not other:
        return None
    family = all(own.get(name) == value for name, value in wish.family.items())
    return Refused(
        "it is there already and is another's: %s" % ", ".join(other),
        str(key),
        "give one of the two other names in its fabric file, or tear the other one down first"
        if family
        else "give yours another name in the fabric file (names), or have its owner delete it",
    )

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which order objects are written whose kind has rules, what of them is deleted first, and what is refused."""

from __future__ import annotations

import itertools
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.replacement_rules import (
    Claim,
    Found,
    Rule,
    Use,
    overlapping,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import Resource
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import (
    ADOPTED,
    Key,
    Object,
    marked,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.object_replacement import Arranged, arranged
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.object_writes import (
    DesiredObjects,
    Write,
    decided,
)

OURS = {"managed-by": "railyard", "fabric": "ai"}
POOL = ("example/v1", "Pool")
RESOURCES = {POOL: Resource("/apis/example/v1", "pools", False)}


def claims(found: Found) -> list[Claim]:
    spec = found["spec"]
    net, first, last = spec["net"], spec["first"], spec["last"]
    return [
        Claim("nets", net * 100, net * 100 + 99, True, "net %d" % net),
        Claim("net %d" % net, first, last, False, "%d-%d" % (first, last)),
    ]


def uses(found: Found) -> list[Use]:
    net = "net %d" % found["spec"]["net"]
    return [Use(net, int(n), n, pod) for n, pod in (found.get("status") or {}).items()]


RULE = Rule(
    immutable=("spec.net",),
    resets=("spec.block",),
    claims=claims,
    uses=uses,
    assigned=lambda found: found.get("assigned") or (),
)


def pool(name: str, net: int, first: int, last: int, **more: t.Any) -> Object:
    spec = {"net": net, "first": first, "last": last, **more}
    return {"apiVersion": "example/v1", "kind": "Pool", "metadata": {"name": name, "labels": dict(OURS)}, "spec": spec}


def there(made: Object, used: t.Mapping[str, str] | None = None, ours: bool = True, **more: t.Any) -> Object:
    found = {**marked(made), **more, "status": dict(used or {})}
    fields = {"f:spec": {"f:" + key: {} for key in made["spec"]}}
    entry = {"manager": "railyard" if ours else "kubectl-create", "operation": "Apply" if ours else "Update"}
    found["metadata"] = {**found["metadata"], "uid": "u", "managedFields": [dict(entry, fieldsV1=fields)]}
    if not ours:
        found["metadata"]["labels"] = {}
    return found


class Done(t.NamedTuple):
    plan: Arranged
    steps: list[tuple[int, str, str]]

    def errors(self) -> list[str]:
        return [str(error) for error in self.plan.errors]


def arrange(wanted: t.Sequence[Object], live: t.Sequence[Object], prune: bool = True) -> Done:
    desired = DesiredObjects(wanted, OURS, {"managed-by": "railyard"}, [POOL], rules={POOL: RULE})
    found = {Key.of(each): each for each in live}
    writes, _warnings = decided(desired, RESOURCES, found, prune)
    plan = arranged(desired, writes, found, prune)
    early = {write.key.name for write in plan.early}

    def word(write: Write) -> str:
        if write.wanted is None:
            return "delete first" if write.key.name in early else "delete"
        return "replace" if write.replaces else "create" if write.live is None else "change"

    return Done(plan, sorted((write.step, word(write), write.key.name) for write in writes))


def test_another_value_of_an_immutable_field_is_a_replacement() -> None:
    done = arrange([pool("a", 2, 1, 9)], [there(pool("a", 1, 1, 9))])
    assert done.steps == [(0, "replace", "a")]
    assert done.plan.lines() == ["Pool a (1 to 2): spec.net cannot be changed"]
    # a change of another field does not matter
    assert arrange([pool("a", 1, 1, 8)], [there(pool("a", 1, 1, 9))]).plan == Arranged()


def test_swapped_networks_are_two_replacements_and_no_order() -> None:
    done = arrange([pool("a", 2, 1, 9), pool("b", 1, 1, 9)], [there(pool("a", 1, 1, 9)), there(pool("b", 2, 1, 9))])
    assert done.steps == [(0, "replace", "a"), (0, "replace", "b")]
    assert done.plan.lines() == ["Pool a (1 to 2), b (2 to 1): spec.net cannot be changed"]


def test_an_unplanned_object_is_deleted_first_if_its_numbers_are_reused() -> None:
    old = [there(pool("old", 1, 1, 9)), there(pool("aside", 7, 1, 9))]
    done = arrange([pool("new", 1, 1, 9)], old)
    assert done.steps == [(0, "create", "new"), (0, "delete", "aside"), (0, "delete first", "old")]
    assert done.plan.lines() == ["Pool old (1-9): it left the plan, and a planned object takes its addresses"]
    (error,) = arrange([pool("new", 1, 1, 9)], old, prune=False).errors()
    assert "it left the plan and still has 1-9, which Pool new needs" in error and "kubernetes_prune=true" in error


def test_objects_release_numbers_before_others_take_them() -> None:
    count = 6
    before = [there(pool("p%d" % n, 1, n * 10, n * 10 + 9)) for n in range(1, count)]
    wider = [pool("p%d" % n, 1, n * 20, n * 20 + 19) for n in range(1, count)]
    done = arrange(wider, before)
    order = {name: step for step, _word, name in done.steps}
    assert {word for _step, word, _name in done.steps} == {"change"} and done.plan.reasons == []
    held = {each["metadata"]["name"]: claims(each)[1] for each in before}
    for one, other in itertools.permutations(wider, 2):
        mine, theirs = claims(one)[1], held[other["metadata"]["name"]]
        if mine.first <= theirs.last and theirs.first <= mine.last:
            assert order[other["metadata"]["name"]] < order[one["metadata"]["name"]]


def test_a_cycle_starts_with_the_least_used_object() -> None:
    ranges = [(1, 9), (11, 19), (21, 29)]
    names = "abc"
    turned = [pool(name, 1, *ranges[(n + 1) % 3]) for n, name in enumerate(names)]
    before = [there(pool(name, 1, *ranges[n])) for n, name in enumerate(names)]
    done = arrange(turned, before)
    assert [(word, name) for _step, word, name in done.steps if word == "replace"] == [("replace", "a")]
    assert done.plan.errors == [] and len({step for step, _word, _name in done.steps}) == 3
    before[0]["status"] = {"5": "pod-a"}
    done = arrange(turned, before)
    assert [name for _step, word, name in done.steps if word == "replace"] == ["b"]
    # and a's pod would lose its number by the change
    assert ["pod-a (5)" in error and "loses addresses" in error for error in done.errors()] == [True]


def test_an_object_in_use_is_not_deleted() -> None:
    used = {"3": "team/one", "4": "team/two", "5": "team/three", "6": "team/four", "7": "team/five"}
    (error,) = arrange([pool("a", 2, 1, 9)], [there(pool("a", 1, 1, 9), used)]).errors()
    assert error.startswith("Pool a: it must be deleted first, and 5 of its addresses are in use by team/one (3), ")
    assert "and 1 more. Remedy: end these pods" in error
    (error,) = arrange([pool("new", 1, 1, 9)], [there(pool("old", 1, 1, 9), used)]).errors()
    assert error.startswith("Pool old: it must be deleted first")
    # numbers that stay do not matter, those that would be lost do
    assert arrange([pool("a", 1, 1, 8)], [there(pool("a", 1, 1, 9), {"8": "x"})]).errors() == []
    (error,) = arrange([pool("a", 1, 1, 8)], [there(pool("a", 1, 1, 9), {"9": "x"})]).errors()
    assert "it loses addresses, and 1 of its addresses is in use by x (9)" in error


def test_unplanned_objects_in_use_are_reported_with_their_users() -> None:
    done = arrange([], [there(pool("old", 1, 1, 9), {"5": "team/one"})])
    assert done.steps == [(0, "delete", "old")] and done.plan.reasons == [] and done.plan.errors == []
    assert "Pool old left the plan and is deleted, while 1 of its addresses are in use by team/one" in (
        done.plan.warnings[0] if done.plan.warnings else ""
    )


def test_objects_of_others_are_never_deleted() -> None:
    theirs = there(pool("a", 1, 1, 9), ours=False)
    (error,) = arrange([pool("a", 2, 1, 9)], [theirs]).errors()
    assert "it exists already with another spec.net (1 to 2), which cannot be changed, and does not belong to" in error
    (error,) = arrange([pool("b", 1, 5, 15)], [theirs]).errors()
    assert error.startswith("Pool b: 5-15 overlaps with 1-9 of Pool a, which Railyard did not create. Remedy: change")
    another = there(pool("a", 1, 1, 9))
    another["metadata"]["labels"] = dict(OURS, fabric="bi")
    (error,) = arrange([pool("b", 1, 5, 15)], [another]).errors()
    assert "of Pool a, which belongs to another owner: fabric=bi" in error
    copied = there(pool("a", 1, 1, 9), ours=False)
    copied["metadata"]["labels"] = dict(OURS)
    done = arrange([pool("b", 1, 5, 15)], [copied])
    assert "5-15 overlaps with 1-9 of Pool a, which Railyard did not create" in done.errors()[0]
    assert done.steps == [(0, "create", "b")] and done.plan.early == []
    adopted = there(pool("a", 1, 1, 9))
    adopted["metadata"]["annotations"] = {ADOPTED: "kubectl-create"}
    done = arrange([pool("b", 1, 5, 15)], [adopted])
    assert "overlaps with 1-9 of Pool a" in done.errors()[0] and done.plan.early == []


def test_an_object_being_deleted_is_waited_for_without_permission() -> None:
    ending = there(pool("old", 1, 1, 9))
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    done = arrange([pool("new", 1, 1, 9)], [ending])
    assert [write.key.name for write in done.plan.early] == ["old"]
    assert done.plan.reasons == [] and done.plan.errors == []


def test_a_reset_names_what_was_assigned_and_deletes_nothing() -> None:
    before = there(pool("a", 1, 1, 9, block=4), assigned=["n-%d" % n for n in range(6)])
    done = arrange([pool("a", 1, 1, 9, block=8)], [before])
    assert done.steps == [(0, "change", "a")]
    assert done.plan.lines() == [
        "Pool a (4 to 8, assigned to n-0, n-1, n-2, n-3 and 2 more): spec.block changes, and its controller assigns the"
        " addresses of every node again"
    ]
    assert arrange([pool("a", 1, 1, 9, block=8)], [there(pool("a", 1, 1, 9, block=4))]).plan.reasons == []


@pytest.mark.parametrize("seed", range(20))
def test_overlaps_are_those_that_all_pairs_have(seed: int) -> None:
    numbers = itertools.count(seed * 7919)

    def some(count: int) -> list[tuple[int, Claim]]:
        found = []
        for owner in range(count):
            n = next(numbers) * 2654435761 % 2**32
            first = n % 50
            found.append((owner, Claim("ab"[n >> 8 & 1], first, first + (n >> 16) % 7, bool(n >> 24 & 1), "")))
        return found

    one, other = some(12), some(12)
    met = {(a, b) for _mine, owners, _theirs, others in overlapping(one, other) for a in owners for b in others}
    expected = {
        (a, b)
        for a, mine in one
        for b, theirs in other
        if mine.space == theirs.space
        and mine.first <= theirs.last
        and theirs.first <= mine.last
        and not (mine.shared and theirs.shared and mine[:3] == theirs[:3])
    }
    assert met == expected


def test_thousands_of_pools_that_all_move_are_arranged() -> None:
    count = 4000
    before = [there(pool("p%04d" % n, 1, n * 10, n * 10 + 9)) for n in range(count)]
    wider = [pool("p%04d" % n, 1, n * 20, n * 20 + 19) for n in range(count)]
    done = arrange(wider, before)
    # pool n is to have what the pools 2n and 2n + 1 have, so that the steps are as many as n can be doubled
    assert done.plan.errors == [] and max(step for step, _word, _name in done.steps) <= 13

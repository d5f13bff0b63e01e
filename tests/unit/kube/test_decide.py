# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import threading
import time
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Errors, RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_errors import General, Refusal
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import Resource
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.concurrency import SHOWN, each
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import (
    APPLIED,
    Key,
    Object,
    digest_of,
    marked,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.node_labels import patches
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.object_writes import (
    DesiredObjects,
    decided,
    going,
)

OURS = {"managed-by": "railyard", "fabric": "ai"}
POOL, NETWORK = ("example/v1", "Pool"), ("example/v1", "Network")
RESOURCES = {
    POOL: Resource("/apis/example/v1", "pools", False),
    NETWORK: Resource("/apis/example/v1", "networks", False),
}
HAND = {"component": "workload"}


def made(kind: tuple[str, str], name: str, **labels: str) -> Object:
    return {
        "apiVersion": kind[0],
        "kind": kind[1],
        "metadata": {"name": name, "labels": {**OURS, **labels}},
        "spec": {"a": 1},
    }


def seen(wanted: Object, **metadata: t.Any) -> Object:
    found = copy.deepcopy(marked(wanted))
    found["metadata"].update(uid="u-" + wanted["metadata"]["name"], **metadata)
    labels = {"f:" + key: {} for key in found["metadata"]["labels"]}
    fields = {"f:metadata": {"f:labels": labels, "f:annotations": {"f:" + APPLIED: {}}}, "f:spec": {"f:a": {}}}
    found["metadata"]["managedFields"] = [{"manager": "railyard", "operation": "Apply", "fieldsV1": fields}]
    return found


def desired(*objects: Object) -> DesiredObjects:
    return DesiredObjects(objects, OURS, {"managed-by": "railyard"}, [POOL, NETWORK], started=[HAND])


def live(*objects: Object) -> dict[Key, Object]:
    return {Key.of(each): each for each in objects}


def actions(writes: t.Sequence[t.Any]) -> list[tuple[str, str]]:
    return [
        ("create" if write.live is None else "delete" if write.wanted is None else "change", write.key.name)
        for write in writes
    ]


def test_kinds_are_applied_in_order_and_deleted_in_reverse() -> None:
    wanted = desired(made(POOL, "p1"), made(NETWORK, "n1"), made(POOL, "p2"))
    gone = live(seen(made(POOL, "old-p")), seen(made(NETWORK, "old-n")), seen(made(POOL, "p2")))
    writes, warnings = decided(wanted, RESOURCES, gone, prune=True)
    assert actions(writes) == [("create", "p1"), ("create", "n1"), ("delete", "old-n"), ("delete", "old-p")]
    assert warnings == []
    assert actions(decided(wanted, RESOURCES, gone, prune=False)[0]) == [("create", "p1"), ("create", "n1")]


def test_workloads_of_users_stay_until_everything_is_removed() -> None:
    test = made(POOL, "test", **HAND)
    there = live(seen(made(NETWORK, "n1")), seen(test))
    assert actions(decided(desired(made(NETWORK, "n1"), test), RESOURCES, there, prune=True)[0]) == []
    # it may be desired too
    assert actions(decided(desired(test), RESOURCES, live(), prune=True)[0]) == [("create", "test")]
    assert actions(decided(desired(), RESOURCES, there, prune=True)[0]) == [("delete", "n1")]
    assert actions(going(desired(), RESOURCES, there, by_users_too=True)) == [("delete", "test"), ("delete", "n1")]


def test_another_fabrics_object_is_an_error_and_never_pruned() -> None:
    theirs = seen(made(POOL, "p1", fabric="bi"))
    with pytest.raises(RailyardError, match="Pool p1: it exists already and belongs to another owner: fabric=bi"):
        decided(desired(made(POOL, "p1")), RESOURCES, live(theirs), prune=True)
    assert decided(desired(), RESOURCES, live(theirs), prune=True) == ([], [])


def test_an_object_being_deleted_is_neither_deleted_nor_applied() -> None:
    going = seen(made(POOL, "p1"), deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["example/held"])
    writes, warnings = decided(desired(), RESOURCES, live(going), prune=True)
    assert writes == [] and warnings == ["Pool p1: it is deleted and still exists; its finalizers: example/held"]
    # one that is planned is waited for, and created again
    writes, warnings = decided(desired(made(POOL, "p1")), RESOURCES, live(going), prune=True)
    assert [(write.replaces, write.wanted is None) for write in writes] == [(True, False)] and warnings == []


def test_the_digest_shows_what_was_applied_last() -> None:
    plain = made(POOL, "p1")
    once = marked(plain)
    assert digest_of(once) == digest_of(marked(dict(plain))) != ""
    assert APPLIED not in plain["metadata"].get("annotations", {})
    plain["spec"] = {"a": 2}
    assert digest_of(marked(plain)) != digest_of(once)


def test_nodes_lose_labels_with_our_prefix_alone() -> None:
    there = {
        "n1": {"ry/fabric": "ai", "ry/rack": "r1", "rack": "7"},
        "n2": {"ry/fabric": "ai", "ry/old": "x", "rack": "8"},
        "n3": {"ry/fabric": "bi"},
        "n4": {"rack": "9", "ry/unit": "left over"},
    }
    wanted = {"n2": {"ry/fabric": "ai", "ry/rack": "r2"}, "n4": {"ry/fabric": "ai"}, "n9": {"ry/fabric": "ai"}}
    assert [patch[:2] for patch in patches(wanted, there, {"ry/fabric": "ai"}, "ry/")] == [
        ("n1", {"ry/fabric": None, "ry/rack": None}),
        ("n2", {"ry/rack": "r2", "ry/old": None}),
        ("n4", {"ry/fabric": "ai", "ry/unit": None}),
    ]


def test_so_many_at_a_time_and_no_more() -> None:
    lock, running, most = threading.Lock(), [0], [0]
    together = threading.Barrier(4, timeout=120)

    def work(_item: int) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        together.wait()
        with lock:
            running[0] -= 1

    each(work, range(20), 4, lambda text: None, "working")
    assert most[0] == 4


def test_refusals_are_listed_in_order_up_to_a_limit() -> None:
    def refuse(item: int) -> None:
        time.sleep(0.001 * (item % 3))
        raise Refusal("no %d" % item, "thing")

    with pytest.raises(Errors) as error:
        each(refuse, range(SHOWN + 5), 4, lambda text: None, "working")
    assert [str(one).split(".")[0] for one in error.value.errors[:2]] == ["thing: no 0", "thing: no 1"]
    assert "5 more are refused likewise" in str(error.value.errors[-1])


def test_a_general_error_ends_the_work() -> None:
    tried = []

    def fail(item: int) -> None:
        tried.append(item)
        raise General("gone", "server")

    with pytest.raises(General, match="gone"):
        each(fail, range(1000), 2, lambda text: None, "working")
    assert len(tried) < 10

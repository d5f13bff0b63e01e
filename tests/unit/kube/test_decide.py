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
    ADOPTED,
    APPLIED,
    Key,
    Object,
    digest_of,
    marked,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.crd_writes import Definitions
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.node_labels import Labelling, patches
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.object_writes import (
    DesiredObjects,
    decided,
    going,
    keeper,
    kept,
    settler,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.send_writes import Apply
from tests.unit.kube.test_server import Answer, Far

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


def entry(manager: str, operation: str = "Update", when: str = "2026-11-02T00:00:00Z", part: str = "f:spec") -> Object:
    fields = {"f:metadata": {"f:labels": {"f:fabric": {}, "f:managed-by": {}}}, part: {"f:a": {}}}
    return {"manager": manager, "operation": operation, "time": when, "fieldsV1": fields}


CREATED = "2026-11-01T00:00:00Z"
OLDER = "2026-10-01T00:00:00Z"
APPLY = entry("railyard", "Apply")


@pytest.mark.parametrize(
    ("entries", "managers"),
    [
        ([entry("kubectl-client-side-apply")], "kubectl-client-side-apply"),
        ([entry("kubectl-create")], "kubectl-create"),
        ([entry("helm")], "helm"),
        ([entry("argocd-controller", "Apply")], "argocd-controller"),
        # a copy with the managedFields of its original, as backups contain them
        ([entry("railyard", "Apply", OLDER), entry("velero-server")], "railyard and velero-server"),
        # our merge patches are not an apply, such as the annotation of an adopted object
        ([entry("kubectl-create"), entry("railyard")], "kubectl-create and railyard"),
        ([dict(entry("railyard", "Apply"), subresource="status"), entry("helm")], "helm and railyard"),
        # another program cleared them
        ([{}], "unknown"),
        ([], "unknown"),
        (None, "unknown"),
    ],
)
@pytest.mark.parametrize("kind", [NETWORK, POOL])
def test_objects_of_others_with_our_labels_are_kept_and_named(
    kind: tuple[str, str], entries: list[Object] | None, managers: str
) -> None:
    copied = seen(made(kind, "tenant"), creationTimestamp=CREATED)
    copied["metadata"]["managedFields"] = entries
    wanted = desired(made(kind, "n1"))
    there = live(seen(made(kind, "n1")), seen(made(kind, "old")), copied)
    writes, warnings = decided(wanted, RESOURCES, there, prune=True)
    assert actions(writes) == [("delete", "old")]
    (warning,) = warnings
    assert warning.startswith("%s tenant: has the labels of Railyard, was not applied by Railyard" % kind[1])
    assert "(managers: %s)" % managers in warning and "Remedy: remove the labels fabric and managed-by" in warning
    # without prune nothing would be deleted
    assert decided(wanted, RESOURCES, there, prune=False) == ([], [])
    assert actions(going(wanted, RESOURCES, there, by_users_too=True)) == [("delete", "old"), ("delete", "n1")]
    assert kept(wanted, there) == warnings
    # the same after the lists of a run and of a teardown were reduced
    listed = live(*map(settler(wanted), map(copy.deepcopy, there.values())))
    writes, again = decided(wanted, RESOURCES, listed, prune=True)
    assert (actions(writes), again) == ([("delete", "old")], warnings)
    listed = live(*map(keeper(wanted), map(copy.deepcopy, there.values())))
    assert actions(going(wanted, RESOURCES, listed)) == [("delete", "old"), ("delete", "n1")]
    assert kept(wanted, listed) == warnings


@pytest.mark.parametrize(
    "entries",
    [
        [entry("railyard", "Apply")],
        # an object that kubectl created and that we applied later
        [entry("kubectl-create", when=CREATED), APPLY],
        # a field was edited since
        [dict(APPLY, fieldsV1={"f:metadata": APPLY["fieldsV1"]["f:metadata"]}), entry("kubectl-edit")],
        # a kind without spec
        [entry("railyard", "Apply", part="f:data")],
        # the entry was written in the second before that of the creation, as while a webhook runs
        [entry("railyard", "Apply", "2026-10-31T23:59:58Z")],
        # servers before 1.18, and what a release applied that had another API version
        [dict(APPLY, time=None, apiVersion="example/v1beta1")],
    ],
)
def test_objects_that_we_applied_are_deleted(entries: list[Object]) -> None:
    old = seen(made(POOL, "old"), creationTimestamp=CREATED)
    old["metadata"]["managedFields"] = entries
    wanted = desired(made(POOL, "p1"))
    writes, warnings = decided(wanted, RESOURCES, live(seen(made(POOL, "p1")), old), prune=True)
    assert (actions(writes), warnings) == ([("delete", "old")], [])


def test_a_planned_object_of_a_restored_backup_is_torn_down() -> None:
    planned = made(POOL, "p1")
    restored = seen(planned, creationTimestamp=CREATED)
    restored["metadata"]["managedFields"] = [entry("railyard", "Apply", OLDER)]
    wanted = desired(planned)
    assert actions(going(wanted, RESOURCES, live(keeper(wanted)(restored)))) == [("delete", "p1")]


class Objects:
    """A server with the networks ``found``. ``change`` is called before the first deletion arrives."""

    def __init__(self, found: dict[str, Object], change: t.Callable[[dict[str, Object]], t.Any]) -> None:
        self.found, self.change = found, change
        self.versions: list[str] = []
        self.far = Far(self.answer)

    def answer(self, method: str, path: str, query: dict[str, str]) -> Answer:
        if path == "/apis/example/v1":
            rows = [("networks", "Network"), ("pools", "Pool")]
            return 200, {"resources": [{"name": name, "kind": kind, "namespaced": False} for name, kind in rows]}
        if path == "/version":
            return 200, {"major": "1", "minor": "31"}
        if method == "GET":
            items = list(self.found.values()) if path.endswith("networks") else []
            return 200, {"items": copy.deepcopy(items), "metadata": {}}
        assert method == "DELETE", (method, path)
        (name,) = self.found
        if not self.versions:
            self.change(self.found)
        self.versions.append(self.far.bodies[-1]["preconditions"]["resourceVersion"])
        if self.found[name]["metadata"]["resourceVersion"] != self.versions[-1]:
            return 409, {"message": "the ResourceVersion in the precondition does not match"}
        del self.found[name]
        return 200, {}


@pytest.mark.parametrize(
    ("change", "goes"),
    [
        (lambda metadata: None, True),
        # a controller reports a status
        (lambda metadata: metadata.update(resourceVersion="2"), True),
        # a user keeps it
        (lambda metadata: metadata.update(resourceVersion="2", labels={}), False),
        # a second run of kubernetes.yml, with another plan, applies it
        (lambda metadata: metadata.update(resourceVersion="2", annotations={APPLIED: "other"}), False),
        # it is released and made again by another
        (lambda metadata: metadata.update(resourceVersion="2", managedFields=[entry("helm")]), False),
    ],
)
def test_an_object_that_changes_before_its_deletion_is_decided_again(
    change: t.Callable[[Object], t.Any], goes: bool
) -> None:
    old = seen(made(NETWORK, "old"), resourceVersion="1")
    objects = Objects({"old": old}, lambda found: change(found["old"]["metadata"]))
    apply = Apply(objects.far.server(), desired(), False, lambda _text: None)
    apply.present(prune=True)
    assert list(objects.found) == ([] if goes else ["old"]) and objects.versions[0] == "1"
    assert actions(apply.done) == ([("delete", "old")] if goes else [])
    assert apply.warnings == (
        [] if goes else ["Network old changed since it was read, and is kept: run again, which reads it again"]
    )


@pytest.mark.parametrize("still", [True, False])
def test_an_adopted_object_that_changes_before_its_release_is_decided_again(still: bool) -> None:
    old = seen(made(NETWORK, "old"), resourceVersion="1")
    old["metadata"]["annotations"][ADOPTED] = "kubectl-create"
    patches_sent: list[Object] = []

    def answer(method: str, path: str, query: dict[str, str]) -> Answer:
        if method != "PATCH":
            return Objects.answer(objects, method, path, query)
        if not patches_sent:
            old["metadata"]["resourceVersion"] = "2"
            if not still:
                del old["metadata"]["annotations"][ADOPTED]
        patches_sent.append(objects.far.bodies[-1]["metadata"])
        if patches_sent[-1]["resourceVersion"] != old["metadata"]["resourceVersion"]:
            return 409, {"message": "the object has been modified"}
        return 200, {}

    objects = Objects({"old": old}, lambda found: None)
    objects.far = Far(answer)
    apply = Apply(objects.far.server(), desired(), False, lambda _text: None)
    apply.present(prune=True)
    assert [each["resourceVersion"] for each in patches_sent] == (["1", "2"] if still else ["1"])
    assert [write.releases for write in apply.done] == ([True] if still else [])
    assert len(apply.warnings) == (0 if still else 1)


def test_definitions_that_others_wrote_are_kept_and_named() -> None:
    """A user applies a copy of our definition, with its labels, after ours was deleted."""

    def definition(name: str, *entries: Object) -> Object:
        metadata = {"name": name + ".example", "uid": name, "labels": {"software": "x"}, "creationTimestamp": CREATED}
        version = {"name": "v1", "served": True}
        spec = {"group": "example", "names": {"plural": name}, "versions": [version]}
        return {"metadata": dict(metadata, managedFields=list(entries)), "spec": spec}

    found = [
        definition("pools", entry("railyard")),
        definition("networks", entry("kubectl-client-side-apply")),
        definition("old", entry("railyard", when=OLDER), entry("kubectl-create")),
        definition("cleared"),
    ]
    deleted: list[str] = []

    def answer(method: str, path: str, _query: dict[str, str]) -> Answer:
        if method == "DELETE":
            deleted.append(path.rpartition("/")[2])
            return 200, {}
        items = [each for each in found if each["metadata"]["name"] not in deleted]
        return 200, {"items": items if path.endswith("customresourcedefinitions") else [], "metadata": {}}

    run = Definitions(Far(answer).server(), ("software", "x"), False, lambda _text: None)
    run.absent(1)
    assert deleted == ["pools.example"] and [change.subject.partition(" ")[2] for change in run.done] == deleted
    names = [warning.split(":")[0].partition(" ")[2] for warning in run.warnings]
    assert names == ["cleared.example", "networks.example", "old.example"]
    assert "was not written by Railyard (managers: kubectl-client-side-apply), and is kept" in run.warnings[1]


class Nodes:
    """A server with nodes. ``change`` is called before the first patch arrives."""

    def __init__(self, nodes: dict[str, Object], change: t.Callable[[], t.Any] = lambda: None) -> None:
        self.nodes, self.change = nodes, change
        self.far = Far(self.answer)

    def answer(self, method: str, path: str, query: dict[str, str]) -> Answer:
        if method == "GET":
            name = query.get("fieldSelector", "").partition("=")[2]
            found = [each for key, each in self.nodes.items() if name in ("", key)]
            return 200, {"items": copy.deepcopy(found), "metadata": {}}
        change, self.change = self.change, lambda: None
        change()
        metadata = self.nodes[path.rpartition("/")[2]]["metadata"]
        patch = self.far.bodies[-1]["metadata"]
        if patch["resourceVersion"] != metadata["resourceVersion"]:
            return 409, {"message": "the object has been modified"}
        metadata["labels"] = {
            key: value for key, value in {**metadata["labels"], **patch["labels"]}.items() if value is not None
        }
        return 200, {}

    def label(self, wanted: dict[str, dict[str, str]]) -> Labelling:
        run = Labelling(self.far.server(), wanted, {"ry/fabric": "ai"}, "ry/", "railyard")
        run.run(False, lambda _text: None)
        return run


def node(name: str, ours: dict[str, str], others: dict[str, str] | None = None) -> Object:
    rows = [("railyard", ours), ("kubectl-label", others or {})]
    entries = [
        {
            "manager": manager,
            "operation": "Update",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:" + key: {} for key in keys}}},
        }
        for manager, keys in rows
    ]
    return {
        "metadata": {
            "name": name,
            "resourceVersion": "1",
            "labels": {**ours, **(others or {})},
            "managedFields": entries,
        }
    }


def test_labels_that_others_set_on_nodes_are_kept_and_named() -> None:
    nodes = {
        "n1": node("n1", {"ry/fabric": "ai"}, {"ry/rack": "7", "rack": "7"}),
        "n2": node("n2", {"ry/fabric": "ai", "ry/rack": "7"}, {"ry/unit": "u"}),
    }
    run = Nodes(nodes).label({"n2": {"ry/fabric": "ai"}})
    assert nodes["n1"]["metadata"]["labels"] == {"ry/rack": "7", "rack": "7"}
    assert nodes["n2"]["metadata"]["labels"] == {"ry/fabric": "ai", "ry/unit": "u"}
    assert [warning.partition(",")[0] for warning in run.warnings] == [
        "Node n1: the label ry/rack is not planned",
        "Node n2: the label ry/unit is not planned",
    ]


def test_two_fabrics_that_label_a_node_at_once_do_not_share_it() -> None:
    nodes = {"n1": node("n1", {})}

    def other() -> None:
        nodes["n1"] = node("n1", {"ry/fabric": "bi"})
        nodes["n1"]["metadata"]["resourceVersion"] = "2"

    with pytest.raises(RailyardError, match="Node n1: in this plan, and labelled for another one: ry/fabric=bi"):
        Nodes(nodes, other).label({"n1": {"ry/fabric": "ai"}})
    assert nodes["n1"]["metadata"]["labels"] == {"ry/fabric": "bi"}

    # a report of the kubelet does not matter
    nodes = {"n1": node("n1", {})}
    run = Nodes(nodes, lambda: nodes["n1"]["metadata"].update(resourceVersion="2")).label({"n1": {"ry/fabric": "ai"}})
    assert nodes["n1"]["metadata"]["labels"] == {"ry/fabric": "ai"} and len(run.done) == 1


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

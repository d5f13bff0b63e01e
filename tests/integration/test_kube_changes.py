# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan that changes on a live cluster with Spiderpool's webhooks: it converges, or reports what to do next."""

from __future__ import annotations

import json
import threading
import time
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.cluster_ready import NAD
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import ADOPTED
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply import preflight
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.send_writes import Apply
from ansible_collections.railyard.fabric.plugins.plugin_utils._cluster_access import Planned
from lab.cluster.api import Api
from tests.integration.cluster import Object
from tests.integration.kube_bench import Bench, names, pool, quiet
from tests.standins.admission import Controller

MERGE = "application/merge-patch+json"
POOLS = "/apis/spiderpool.spidernet.io/v2beta1/spiderippools/%s"
# Each changes the plan of Bench.plan() so that no order of plain updates brings the cluster there.
Change = t.Mapping[str, t.Any]
RENAMED: Change = {"names": {"pool": "{rail}-{fabric}"}}
RESUBNETTED: Change = {"rails": {"gpu01": {"subnet": "10.21.0.0/16"}, "gpu02": {"subnet": "10.22.0.0/16"}}}
SWAPPED: Change = {"rails": {"gpu01": {"subnet": "10.2.0.0/16"}, "gpu02": {"subnet": "10.1.0.0/16"}}}
CHANGES = [
    pytest.param(RENAMED, id="renamed"),
    pytest.param(RESUBNETTED, id="resubnetted", marks=pytest.mark.long),
    pytest.param(SWAPPED, id="swapped", marks=pytest.mark.long),
]


@pytest.fixture(autouse=True)
def _webhooks(bench: Bench, spiderpool_controller: Controller) -> None:
    """Every test here runs with Spiderpool's webhooks."""


def specs(bench: Bench, plan: Planned) -> dict[str, Object]:
    """The pools' specs, without the defaults of their CustomResourceDefinition."""
    pools = {name.split()[1]: each for name, each in bench.live(plan).items() if name.startswith("SpiderIPPool ")}
    return {
        name: {key: value for key, value in each["spec"].items() if key not in ("default", "disable")}
        for name, each in pools.items()
    }


def wanted(plan: Planned) -> dict[str, Object]:
    return {each["metadata"]["name"]: each["spec"] for each in plan.objects if each["kind"] == "SpiderIPPool"}


def in_use(bench: Bench, name: str, **pods: str) -> None:
    """What Spiderpool's agents write into a pool's status."""
    given = {address: {"pod": pod, "podUid": "1"} for address, pod in pods.items()}
    status = {"status": {"allocatedIPs": json.dumps(given) if given else None, "allocatedIPCount": len(given)}}
    with Api(bench.cluster.running) as api:
        api.request("PATCH", POOLS % name + "/status", status, MERGE)


@pytest.mark.parametrize("change", CHANGES)
def test_pools_that_cannot_be_changed_are_replaced_with_consent(bench: Bench, change: Change) -> None:
    bench.apply(bench.plan())
    before = bench.live(bench.plan())
    plan = bench.plan(**change)
    # the list comes first, and nothing is done without consent
    text = bench.refused(plan)
    assert "ai-gpu01" in text and "ai-gpu02" in text and "-e kubernetes_replace=true" in text
    assert "Traceback" not in text and bench.proxy.writes == []
    checked = bench.apply(plan, check=True)
    assert [line for line in checked.warnings if line.startswith("to be replaced: SpiderIPPool ai-gpu01 (")]
    assert any("needs consent" in line for line in checked.warnings)
    assert {key: each["metadata"]["uid"] for key, each in bench.live(plan).items()} == {
        key: each["metadata"]["uid"] for key, each in before.items()
    }
    # then check mode reports what is done
    predicted = bench.apply(plan, check=True, replace=True)
    assert not any("needs consent" in line for line in predicted.warnings)
    done = bench.apply(plan, replace=True)
    assert names(done) == names(predicted)
    assert specs(bench, plan) == wanted(plan)
    assert bench.apply(plan).done == []


def test_a_smaller_prefix_per_node_replaces_all_pools(bench: Bench) -> None:
    first = bench.plan(mode="prefix")
    bench.apply(first)
    plan = bench.plan(mode="prefix", addresses={"node_prefix": 28})
    assert "spec.subnet cannot be changed" in bench.refused(plan)
    done = bench.apply(plan, replace=True)
    assert sorted(each for each in names(done) if "SpiderIPPool" in each) == sorted(
        "SpiderIPPool " + name for name in wanted(plan)
    )
    assert specs(bench, plan) == wanted(plan) != wanted(first)
    assert bench.apply(plan).done == []


def test_blocks_that_grow_are_written_in_an_order_that_works(bench: Bench) -> None:
    nodes = {"node-[1:6]": {"profile": "hgx"}}
    bench.apply(bench.plan(mode="block", nodes=nodes))
    plan = bench.plan(mode="block", nodes=nodes, addresses={"block": 32})
    # nothing is deleted for that, so it needs no consent
    done = bench.apply(plan)
    assert len([each for each in names(done) if "SpiderIPPool" in each]) == 12
    assert not [path for method, path in bench.proxy.writes if method == "DELETE"]
    assert specs(bench, plan) == wanted(plan)
    assert bench.apply(plan).done == []


def test_nodes_that_exchange_their_blocks_need_one_deletion_a_rail(bench: Bench) -> None:
    def nodes(one: int, two: int) -> t.Any:
        return {"node-1": {"profile": "hgx", "index": one}, "node-2": {"profile": "hgx", "index": two}}

    bench.apply(bench.plan(mode="block", nodes=nodes(1, 2)))
    plan = bench.plan(mode="block", nodes=nodes(2, 1))
    assert "two objects exchange addresses" in bench.refused(plan)
    in_use(bench, "ai-gpu01-node-1", **{"10.1.0.1": "default/train-0"})
    text = bench.refused(plan, replace=True)
    assert (
        "SpiderIPPool ai-gpu01-node-1: it loses addresses, and 1 of its addresses is in use by default/train-0" in text
    )
    assert bench.proxy.writes == []
    in_use(bench, "ai-gpu01-node-1")
    bench.apply(plan, replace=True)
    assert len([path for method, path in bench.proxy.writes if method == "DELETE"]) == 2
    assert specs(bench, plan) == wanted(plan)


@pytest.mark.parametrize("change", CHANGES[:2])
def test_pods_that_have_addresses_are_named_and_keep_them(bench: Bench, change: Change) -> None:
    bench.apply(bench.plan())
    in_use(bench, "ai-gpu02", **{"10.2.0.1": "team/train-0", "10.2.0.2": "team/train-1"})
    before = bench.live(bench.plan())
    plan = bench.plan(**change)
    text = bench.refused(plan, replace=True)
    assert "SpiderIPPool ai-gpu02: it must be deleted first, and 2 of its addresses are in use by " in text
    assert "team/train-0 (10.2.0.1), team/train-1 (10.2.0.2)" in text and "Remedy: end these pods" in text
    assert bench.proxy.writes == [] and bench.live(plan).keys() == before.keys()
    in_use(bench, "ai-gpu02")
    bench.apply(plan, replace=True)
    assert specs(bench, plan) == wanted(plan)


def test_an_address_assigned_during_the_run_stops_the_deletion(bench: Bench) -> None:
    bench.apply(bench.plan())
    plan = bench.plan(**RESUBNETTED)
    taken: list[int] = []
    lock = threading.Lock()

    def take(_writes: int) -> None:
        # several deletions are sent at once: all wait
        with lock:
            if not taken:
                taken.append(1)
                in_use(bench, "ai-gpu01", **{"10.1.0.1": "default/quick"})

    run = Apply(bench.server(), plan.desired(False, True), False, quiet)
    run._try = lambda *_words: None  # type: ignore[method-assign]
    bench.proxy.seen.clear()
    bench.proxy.after = take
    try:
        with pytest.raises(RailyardError, match="SpiderIPPool ai-gpu01: it changed since it was read.*run again"):
            run.present(True, 20)
    finally:
        bench.proxy.after = lambda writes: None
    assert "ai-gpu01" in specs(bench, plan)
    # the next run names the pod, and does the rest when it is gone
    assert "default/quick" in bench.refused(plan, replace=True)
    in_use(bench, "ai-gpu01")
    bench.apply(plan, replace=True)
    assert specs(bench, plan) == wanted(plan)


def test_a_run_interrupted_after_the_deletion_is_completed_by_the_next(bench: Bench) -> None:
    bench.apply(bench.plan())
    plan = bench.plan(**RESUBNETTED)

    def away(writes: int) -> None:
        bench.proxy.away = writes >= 2

    bench.proxy.after = away
    try:
        text = bench.refused(plan, replace=True)
    finally:
        bench.proxy.after = lambda writes: None
        bench.proxy.away = False
    assert "the API server does not answer" in text and specs(bench, plan) != wanted(plan)
    bench.apply(plan, replace=True)
    assert specs(bench, plan) == wanted(plan)
    assert bench.apply(plan).done == []


def test_a_pool_with_a_finalizer_is_named_and_deleted_by_the_next_run(bench: Bench) -> None:
    bench.apply(bench.plan())
    held = {"metadata": {"finalizers": ["example.org/held"]}}
    with Api(bench.cluster.running) as api:
        api.request("PATCH", POOLS % "ai-gpu01", held, MERGE)
    plan = bench.plan(**RESUBNETTED)
    text = bench.refused(plan, replace=True, timeout=2)
    assert "SpiderIPPool ai-gpu01: it is deleted and still exists; its finalizers: example.org/held" in text
    with Api(bench.cluster.running) as api:
        api.request("PATCH", POOLS % "ai-gpu01", {"metadata": {"finalizers": None}}, MERGE)
    # what is deleted already needs no consent
    bench.apply(plan, replace=True)
    assert specs(bench, plan) == wanted(plan)


def foreign(bench: Bench, name: str, subnet: str, ips: str) -> None:
    made = dict(pool(name), spec={"ipVersion": 4, "subnet": subnet, "ips": [ips]})
    bench.cluster.kubectl("create", "-f", "-", text=json.dumps(made))


def test_an_overlapping_pool_of_another_user_is_named_before_anything_is_written(bench: Bench) -> None:
    foreign(bench, "legacy", "10.2.0.0/16", "10.2.0.7-10.2.0.9")
    text = bench.refused(bench.plan())
    assert text.startswith(
        "SpiderIPPool ai-gpu02: 10.2.0.1-10.2.19.128 overlaps with 10.2.0.7-10.2.0.9 of SpiderIPPool"
    )
    assert "legacy, which Railyard did not create. Remedy: change or delete SpiderIPPool legacy" in text
    assert "report" not in text and bench.proxy.writes == []
    bench.cluster.kubectl("delete", "spiderippool", "legacy")
    bench.apply(bench.plan())
    # another fabric's, which has labels of ours
    text = bench.refused(bench.plan(fabric={"name": "other"}, names={"network": "{fabric}-{rail}"}))
    assert "of SpiderIPPool ai-gpu01, which belongs to another owner: railyard.fabric/fabric=ai" in text


def test_an_object_with_our_values_is_adopted_and_outlives_the_teardown(bench: Bench) -> None:
    plan = bench.plan()
    made = next(each for each in plan.objects if each["metadata"]["name"] == "ai-gpu01")
    # a kind that is read whole, and one that is read by its labels
    other = next(each for each in plan.objects if each["kind"] == "SpiderMultusConfig")
    for each in (made, other):
        theirs = {"name": each["metadata"]["name"], **({"namespace": "kube-system"} if each is other else {})}
        text = json.dumps({**each, "metadata": {**theirs, "labels": {"team": "network"}}})
        bench.cluster.kubectl("create", "-f", "-", text=text)
    before = bench.cluster.get(made)
    checked = bench.apply(plan, check=True)
    done = bench.apply(plan)
    adopted = [line for line in done.warnings if "existed before, created by kubectl-create: it is adopted" in line]
    assert len(adopted) == 2 and sorted(checked.warnings) == sorted(done.warnings)
    adopted = {write.key.name for write in done.done if write.adopts}
    assert adopted == {made["metadata"]["name"], other["metadata"]["name"]}
    assert bench.apply(plan).done == []
    after = bench.cluster.get(made)
    assert after and after["metadata"]["annotations"][ADOPTED] == "kubectl-create"
    gone = bench.absent(plan)
    assert {write.key.name for write in gone.done if write.releases} == adopted
    assert bench.live(plan) == {}
    left = bench.cluster.get(made)
    assert left and before and left["metadata"]["uid"] == before["metadata"]["uid"] and left["spec"] == before["spec"]
    assert left["metadata"]["labels"]["team"] == "network" and not left["metadata"].get("annotations")
    assert not [key for key in left["metadata"]["labels"] if "railyard" in key]
    assert {entry["manager"] for entry in left["metadata"]["managedFields"]} & {"railyard"} == set()
    assert bench.cluster.get(other) is not None
    for each in (made, other):
        bench.cluster.kubectl("delete", each["kind"].lower(), "-n", "kube-system", each["metadata"]["name"])


def test_copies_of_users_outlive_the_prune_and_the_teardown(bench: Bench) -> None:
    """Made by kubectl from our object: without its managedFields, with them, and with those of a server-side apply."""
    plan = bench.plan()
    bench.apply(plan)
    ours = next(each for each in plan.objects if each["kind"] == "SpiderMultusConfig")
    found = bench.cluster.get(ours)
    assert found
    # an entry may be a few seconds older than its object
    time.sleep(4.1)
    owned = found["metadata"]["managedFields"]
    for name, entries in (("tenant-plain", None), ("tenant-backup", owned), ("tenant-applied", None)):
        metadata = {key: found["metadata"][key] for key in ("namespace", "labels", "annotations")}
        metadata.update(name=name, **({"managedFields": entries} if entries else {}))
        words = ["apply", "--server-side"] if name == "tenant-applied" else ["create"]
        bench.cluster.kubectl(*words, "-f", "-", text=json.dumps({**found, "metadata": metadata}))
    copies = ["tenant-applied", "tenant-backup", "tenant-plain"]
    try:
        done = bench.apply(plan)
        assert done.done == [] and len([line for line in done.warnings if "was not applied by Railyard" in line]) >= 1
        gone = bench.absent(plan)
        text = " ".join(gone.warnings)
        assert all("kube-system/" + name in text for name in copies), gone.warnings
        assert sorted(bench.live(plan)) == ["SpiderMultusConfig " + name for name in copies]
    finally:
        bench.cluster.kubectl("delete", "spidermultusconfig", "-n", "kube-system", *copies)


def test_a_network_attachment_made_by_hand_is_reported_before_it_is_overwritten(bench: Bench) -> None:
    plan = bench.plan()
    name = next(each["metadata"]["name"] for each in plan.objects if each["kind"] == "SpiderMultusConfig")

    def attachment(name: str) -> None:
        metadata = {"name": name, "namespace": "kube-system"}
        made = {"apiVersion": NAD[0], "kind": NAD[1], "metadata": metadata, "spec": {"config": "{}"}}
        bench.cluster.kubectl("create", "-f", "-", text=json.dumps(made))

    def warnings() -> list[str]:
        return preflight.overwritten(bench.server(), plan.desired(), "SpiderMultusConfig", NAD, quiet)

    assert warnings() == []
    attachment("another")
    attachment(name)
    try:
        (text,) = warnings()
        assert text.startswith("NetworkAttachmentDefinition kube-system/%s was created by hand" % name)
        assert "kubectl get network-attachment-definitions -n kube-system %s -o yaml" % name in text
    finally:
        bench.cluster.kubectl("delete", "network-attachment-definition", "-n", "kube-system", name, "another")


def test_labels_that_another_user_removed_are_restored(bench: Bench) -> None:
    plan = bench.plan()
    bench.apply(plan)
    bench.cluster.kubectl("label", "spiderippool", "ai-gpu01", "railyard.fabric/fabric-")
    bench.cluster.kubectl(
        "label", "spiderippool", "ai-gpu02", "railyard.fabric/fabric-", "app.kubernetes.io/managed-by-"
    )
    config = ("spidermultusconfig", "-n", "kube-system", "gpu01-macvlan")
    bench.cluster.kubectl("label", *config, "railyard.fabric/fabric-", "app.kubernetes.io/managed-by-")
    done = bench.apply(plan)
    assert names(done) == ["SpiderIPPool ai-gpu01", "SpiderIPPool ai-gpu02", "SpiderMultusConfig gpu01-macvlan"]
    assert len(bench.live(plan)) == len(plan.objects) and bench.apply(plan).done == []
    # and the teardown takes what lost them too
    bench.cluster.kubectl("label", "spiderippool", "ai-gpu01", "railyard.fabric/fabric-")
    bench.absent(plan)
    assert bench.cluster.get(pool("ai-gpu01")) is None


def test_an_object_created_concurrently_is_updated(bench: Bench) -> None:
    """Two runs at once on an empty cluster: the webhook reports each object of the other run as existing."""
    plan = bench.plan()
    other = Apply(bench.server(), plan.desired(), False, quiet)
    begun: list[int] = []

    def meanwhile(writes: int) -> None:
        if not begun:
            begun.append(1)
            other.present(True)

    run = Apply(bench.server(), plan.desired(), False, quiet)
    bench.proxy.after = meanwhile
    try:
        run.present(True)
    finally:
        bench.proxy.after = lambda writes: None
    assert begun and not [write for write in run.done if write.adopts]
    assert bench.apply(plan).done == [] and len(bench.live(plan)) == len(plan.objects)


def test_the_count_of_a_teardown_that_the_webhooks_stop_is_of_all_objects(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = bench.plan()
    bench.apply(plan)

    def away(writes: int) -> None:
        bench.proxy.away = writes >= 4

    bench.proxy.after = away
    try:
        with pytest.raises(RailyardError) as error:
            bench.absent(plan)
    finally:
        bench.proxy.after = lambda writes: None
        bench.proxy.away = False
    count, _of, total = str(error.value).partition(" objects were written before")[0].rpartition("(")[2].split()[:3]
    assert int(count) <= int(total) == len(plan.objects)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: F401, F811  (fixtures that are imported)
"""What ``verify.yml`` and ``drift.yml`` report of pods on rails and their nodes: ``lab/lab up --cluster`` first."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.bad_rails_label import BAD
from tests.integration.agent_lab import (
    ALL_RAILS,
    IN_POD,
    INVENTORY,
    NODE,
    SERVICE,
    GetNode,
    kube,
    offered,
    prepare,
    prepared,
    remove_test_pods,
    slot_addresses,
    wait_for,
    wait_for_slots,
)
from tests.integration.lab_pods import RAILS, SECONDS, Kube, check_interfaces
from tests.playbook import play

pytestmark = pytest.mark.lab

RAIL_NAMES = {rail: "gpu%02d" % rail for rail in RAILS}

# Script in a pod -> code and cause of verify's failure. Each is on a rail of its own.
CHANGED = [
    ("ip rule del from %(address)s", "RV924", "deleted in the pod"),
    ("ip link set net%(rail)d down", "RV920", "set down in the pod"),
    (
        "ip address del %(address)s/24 dev net%(rail)d; ip address add 172.16.%(net)d.99/24 dev net%(rail)d",
        *("RV922", "changed in the pod"),
    ),
    ("ip route flush table 10%(rail)d", "RV924", "deleted in the pod"),
    ("ip link set net%(rail)d mtu 1500", "RV921", "changed in the pod"),
    ("ip link delete net%(rail)d", "RV920", "removed afterwards"),
    ("rdma link delete $(rdma link | grep -o rxe_[0-9a-f]*-net%(rail)d)", "RV925", "deleted"),
]
# Service that is stopped -> code, cause and what was found, of verify and drift.
STOPPED = {
    SERVICE: ("RV005", "", "inactive"),
    "kubelet": ("RV901", "Kubelet stopped posting node status", "is not Ready"),
    # systemd stops the lab's kubelet with it
    "containerd": ("RV901", "Kubelet stopped posting node status", "is not Ready"),
}


@pytest.fixture(scope="module")
def daemon_set(kube: Kube, prepared: None) -> t.Iterator[None]:
    """The test pods of ``kubernetes.yml`` on both nodes."""
    played = play("playbooks/kubernetes.yml", inventory=INVENTORY, timeout=SECONDS)
    assert played.returncode == 0, played.text
    yield
    remove_test_pods(kube)


def ready_pod(kube: Kube) -> str:
    """The ready test pod of the node."""

    def found() -> list[str]:
        pods = [row for row in kube.get("pods")["items"] if row["spec"].get("nodeName") == NODE]
        names = [row["metadata"]["name"] for row in pods if "deletionTimestamp" not in row["metadata"]]
        return [name for name in names if kube.ready(name)]

    return str(wait_for(found, lambda: kube("describe", "pods"))[0])


def judged(kind: str, place: Path, layers: str = "", **more: t.Any) -> dict[str, t.Any]:
    """The verdict of ``verify.yml`` or ``drift.yml``. Without ``layers``, of all."""
    given = {"verify_report_dir": str(place), **({"verify_layers": layers} if layers else {}), **more}
    played = play("playbooks/%s.yml" % kind, inventory=INVENTORY, given=given, timeout=SECONDS)
    file = place / ("%s.json" % kind)
    assert file.exists(), played.text
    verdict: dict[str, t.Any] = json.loads(file.read_text())
    assert (played.returncode == 0) == (verdict["failures"] == []), played.text
    return verdict


def carried(verdict: dict[str, t.Any]) -> set[str]:
    """The rails that carry traffic from pod to pod."""
    return {rail for rail, state in verdict["matrix"][NODE].items() if state == "ok"}


def test_pods_of_a_rebooted_node_are_on_their_rails_without_a_run(
    kube: Kube, daemon_set: None, node: GetNode, tmp_path: Path
) -> None:
    verdict = judged("verify", tmp_path, "kubernetes,pods")
    assert verdict["failures"] == [] and carried(verdict) == set(RAIL_NAMES.values())
    pod = ready_pod(kube)
    restarts = kube.restarts(pod)
    node(NODE).reboot(timeout=SECONDS)
    kube.wait([pod], restarts=restarts + 1)
    wait_for_slots(kube, NODE, ALL_RAILS)
    verdict = judged("verify", tmp_path, "kubernetes,pods")
    assert verdict["failures"] == [] and carried(verdict) == set(RAIL_NAMES.values())


@pytest.mark.parametrize("service", STOPPED)
def test_a_stopped_service_of_a_node_is_named_and_its_pods_keep_their_rails(
    kube: Kube, daemon_set: None, node: GetNode, tmp_path: Path, service: str
) -> None:
    code, cause, found = STOPPED[service]
    pod = ready_pod(kube)
    restarts = kube.restarts(pod)

    def known() -> bool:
        status = kube.get("node", NODE)["status"]
        if service == SERVICE:
            return not offered(kube, NODE, ALL_RAILS)
        return any(each["type"] == "Ready" and each["status"] != "True" for each in status["conditions"])

    node(NODE).run("systemctl stop %s" % service, timeout=SECONDS)
    try:
        wait_for(known, lambda: kube("describe", "node", NODE))
        for kind in ("verify", "drift"):
            verdict = judged(kind, tmp_path, "kubernetes,pods")
            (failure,) = verdict["failures"]
            assert (failure["code"], failure["node"]) == (code, NODE)
            assert found in failure["found"] and cause in str(failure["cause"]), failure
            # the pods carry traffic without the service
            assert carried(verdict) == set(RAIL_NAMES.values())
        if service == SERVICE:
            assert "changed=1" in prepare("--limit", NODE).text
    finally:
        node(NODE).run("systemctl start %s kubelet" % service, timeout=SECONDS)
    wait_for(lambda: not known(), lambda: kube("describe", "node", NODE))
    wait_for_slots(kube, NODE, ALL_RAILS)
    verdict = judged("verify", tmp_path, "kubernetes,pods")
    assert verdict["failures"] == [] and carried(verdict) == set(RAIL_NAMES.values())
    assert kube.restarts(pod) == restarts


def test_a_rail_that_fails_verify_is_cordoned_until_it_is_good(
    kube: Kube, daemon_set: None, node: GetNode, tmp_path: Path
) -> None:
    pod = ready_pod(kube)
    own = "railyard.fabric/gpu02"

    def state() -> tuple[t.Any, ...]:
        live = kube.get("node", NODE)
        units = [offered(kube, NODE, resource) for resource in (own, ALL_RAILS)]
        return live["metadata"]["labels"].get(BAD), bool(live["spec"].get("unschedulable")), *units

    before = state()
    assert before[:2] == (None, False)
    node(NODE).run("ip address flush dev enp2s0")
    try:
        verdict = judged("verify", tmp_path, verify_cordon=True)
        assert {each["rail"] for each in verdict["failures"]} == {"gpu02"}
        wait_for(lambda: state() == ("gpu02", False, 0, 0), lambda: kube("describe", "node", NODE))
        assert "cordoned: failed verify (RV" in node(NODE).run("railyard-agent status || true")
        # slots that the cordon withholds are not reported
        again = judged("verify", tmp_path, verify_cordon=True)
        assert "RV901" not in {each["code"] for each in again["failures"]}
    finally:
        prepare("--limit", NODE)
    assert judged("verify", tmp_path, verify_cordon=True)["failures"] == []
    wait_for(lambda: state() == before, lambda: kube("describe", "node", NODE))
    # the running pod kept the rail all the time
    assert ready_pod(kube) == pod


def test_verify_reports_changes_inside_a_pod(kube: Kube, daemon_set: None, node: GetNode, tmp_path: Path) -> None:
    pod = ready_pod(kube)
    (own,) = [row for row in slot_addresses(NODE, "rails") if row == check_interfaces(kube, pod)]
    assert "default/" + pod in judged("verify", tmp_path, "pods")["slots"][NODE].values()
    try:
        # the test pod has no rights over its network, so the changes are the node's
        for rail, (script, _code, _cause) in enumerate(CHANGED, 1):
            values = {"rail": rail, "address": own[rail - 1], "net": 10 + rail}
            node(NODE).run(IN_POD % ("'%s'" % (script % values)))
        verdict = judged("verify", tmp_path, "pods")
        found = {each["rail"]: (each["code"], each["cause"]) for each in verdict["failures"]}
        expected = {RAIL_NAMES[rail]: code for rail, (_script, code, _cause) in enumerate(CHANGED, 1)}
        assert {rail: code for rail, (code, _cause) in found.items()} == expected, verdict["failures"]
        assert all(cause in found[RAIL_NAMES[rail]][1] for rail, (_script, _code, cause) in enumerate(CHANGED, 1))
        # all other rails carry traffic
        assert carried(verdict) == {RAIL_NAMES[rail] for rail in range(len(CHANGED) + 1, 9)}
    finally:
        # its DaemonSet makes another one
        kube("delete", "pod", pod, "--wait")

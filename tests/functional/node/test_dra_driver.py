# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packed rail agent as a DRA driver, between a kubelet's side of the protocol and an API server over HTTPS."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import sys
import typing as t
from concurrent import futures

import grpc
import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import hook
from tests.functional.node.agent_pods import Pod
from tests.functional.node.agent_program import Node, node_file
from tests.functional.node.fake_dra_kubelet import DraKubelet, Prepared
from tests.functional.node.fake_kubelet import Kubelet, encode
from tests.functional.node.test_rail_agent import FETCH
from tests.standins.dra_api import BY_TOKEN, TOKEN, DraApi
from tests.unit.node.health_states import finding, put, rail, state
from tests.waiting import wait_for

KUBECONFIG = "etc/kubernetes/kubelet.conf"
CLAIMS = "var/lib/railyard/agent/claims.json"
RAILS_0 = Prepared(["r0"], "node-1", "rails-0", ["railyard.fabric/rails=rails-0"])


class DraNode:
    """A node with two rails, its API server and its kubelet."""

    def __init__(self, node: Node, taints: bool = True) -> None:
        self.node = node
        (node.root / "etc/kubernetes").mkdir(parents=True, exist_ok=True)
        self.api = DraApi(node.root / "etc/kubernetes", taints)
        self._kubelets: list[DraKubelet] = []
        self.write()

    def write(self, **changed: t.Any) -> None:
        self.node.write(node_file(kubelet_plugin="dra", **changed))

    def start(self, user: str = "") -> DraKubelet:
        """The agent with its rails, the API server and a kubelet that registers the driver."""
        self.node.start_with_rails()
        self.serve()
        text = self.api.kubeconfig(user) if user else self.api.kubeconfig()
        self.node.put("/" + KUBECONFIG, text)
        return self.kubelet()

    def serve(self) -> None:
        assert self.node.network
        self.api.serve("/proc/%d/ns/net" % self.node.network.pid)

    def kubelet(self, **options: str) -> DraKubelet:
        """As a kubelet that starts: it deletes the node's slices."""
        self.api.wipe()
        found = DraKubelet(self.node.root, **options)
        self._kubelets.append(found)
        return found

    def restart(self) -> DraKubelet:
        """The agent, killed and started again; kubelet goes on."""
        agent = self.node.agent
        assert agent
        agent.kill()
        agent.wait()
        for path in (self.node.root / "var/lib/kubelet/plugins_registry").iterdir():
            path.unlink()
        self.node.start(*self.node._there())
        return self.kubelet()

    @contextlib.contextmanager
    def attached(self, device: str, name: str) -> t.Iterator[Pod]:
        """A pod that has a device. It ends at the end of the block."""
        pod = Pod(name)
        try:
            assert self.node.attach(device, pod) == {"ok": True}
            yield pod
        finally:
            pod.end()

    def published(self) -> dict[str, t.Any]:
        """The devices, once the pool is complete."""
        return wait_for(self.api.devices, lambda: (self.node.log.read_text(), self.api.requests))

    def recorded(self) -> list[str]:
        path = self.node.root / CLAIMS
        return [each["uid"] for each in json.loads(path.read_text())["claims"]] if path.exists() else []

    def close(self) -> None:
        for kubelet in self._kubelets:
            kubelet.close()
        self.api.close()


@pytest.fixture
def dra(node: Node) -> t.Iterator[DraNode]:
    found = DraNode(node)
    yield found
    found.close()


def test_kubelet_finds_the_driver(dra: DraNode) -> None:
    registry = dra.node.root / "var/lib/kubelet/plugins_registry"
    plugins = dra.node.root / "var/lib/kubelet/plugins/railyard.fabric"
    for directory in (registry, plugins):
        directory.mkdir(parents=True)
    # as a killed agent leaves them
    for path in (registry / "railyard.fabric-reg.sock", plugins / "dra.sock"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as killed:
            killed.bind(str(path))
    kubelet = dra.start()
    # as kubelet: names that begin with a dot are not sockets of plugins
    assert [path.name for path in registry.iterdir() if path.name[0] != "."] == ["railyard.fabric-reg.sock"]
    assert (kubelet.type, kubelet.name) == ("DRAPlugin", "railyard.fabric")
    assert kubelet.endpoint == "/var/lib/kubelet/plugins/railyard.fabric/dra.sock"
    assert kubelet.versions == [
        "v1.DRAPlugin",
        "v1beta1.DRAPlugin",
        "v1.DRAResourceHealth",
        "v1alpha1.DRAResourceHealth",
    ]
    assert (plugins / "dra.sock").stat().st_mode & 0o777 == 0o600
    status = wait_for(lambda: [row for row in dra.node.run("status").stdout.splitlines() if " registered" in row])
    assert [row.split() for row in status] == [
        ["railyard.fabric/rails", "2", "0", "registered"],
        ["railyard.fabric/gpu01", "3", "0", "registered"],
        ["railyard.fabric/gpu02", "3", "0", "registered"],
    ]
    # device plugins of the same resources are not offered beside the driver
    assert not (dra.node.root / "var/lib/kubelet/device-plugins").exists()
    assert dra.node.stop() == 0
    assert not list(registry.iterdir()) and not list(plugins.iterdir())


def test_slices_have_a_device_for_each_slot(dra: DraNode) -> None:
    dra.start()
    devices = dra.published()
    assert list(devices) == ["gpu01-2", "gpu01-3", "gpu01-4", "gpu02-2", "gpu02-3", "gpu02-4", "rails-0", "rails-1"]
    assert devices["gpu02-3"]["attributes"] == {
        "resource": {"string": "gpu02"},
        "rails": {"int": 1},
        "rail": {"string": "gpu02"},
        "slot": {"int": 3},
        "interface": {"string": "net2"},
        "mac": {"string": "02:00:00:00:02:03"},
        "address": {"string": "172.16.12.4/24"},
        "address6": {"string": "fd00:12::4/64"},
        "numaNode": {"int": 1},
        "resource.kubernetes.io/pciBusID": {"string": "0000:02:00.0"},
    }
    assert devices["rails-1"]["attributes"] == {
        "resource": {"string": "rails"},
        "rails": {"int": 2},
        "slot": {"int": 1},
    }
    slices = dra.api.slices
    assert sorted(slices) == [
        "node-1-railyard.fabric-gpu01",
        "node-1-railyard.fabric-gpu02",
        "node-1-railyard.fabric-rails",
    ]
    for each in slices.values():
        assert each["spec"]["pool"] == {"name": "node-1", "generation": 1, "resourceSliceCount": 3}
        (owner,) = each["metadata"]["ownerReferences"]
        assert owner == {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "uid-of-the-node"}


def test_slices_are_written_when_something_changed(dra: DraNode) -> None:
    kubelet = dra.start()
    dra.published()
    posts = dra.api.counted("POST")
    # another kubelet finds the slices as they are, if it did not delete them
    lists = dra.api.counted("GET", "resourceslices")
    again = DraKubelet(dra.node.root)
    again.close()
    wait_for(lambda: dra.api.counted("GET", "resourceslices") > lists)
    assert (dra.api.counted("POST"), dra.api.counted("PUT"), dra.api.counted("DELETE")) == (posts, 0, 0)
    # kubelet restarts, and deletes them
    dra.kubelet()
    assert len(dra.published()) == 8
    # a rail that is down
    dra.node.inside("ip", "link", "set", "leaf1", "down")
    tainted = wait_for(lambda: {name for name, device in dra.api.devices().items() if device.get("taints")})
    assert tainted == {"gpu01-2", "gpu01-3", "gpu01-4", "rails-0", "rails-1"}
    assert {each["spec"]["pool"]["generation"] for each in dra.api.slices.values()} == {2}
    taint = dra.api.devices()["rails-0"]["taints"][0]
    assert (taint["key"], taint["effect"]) == ("railyard.fabric/rail-down", "NoSchedule")
    dra.node.inside("ip", "link", "set", "leaf1", "up")
    wait_for(lambda: dra.api.devices() and not any(each.get("taints") for each in dra.api.devices().values()))
    # a cordoned rail
    dra.node.run("cordon", "gpu02")
    taints = wait_for(lambda: {name: row["taints"] for name, row in dra.api.devices().items() if row.get("taints")})
    assert set(taints) == {"gpu02-2", "gpu02-3", "gpu02-4", "rails-0", "rails-1"}
    assert {row["key"] for rows in taints.values() for row in rows} == {"railyard.fabric/rail-cordoned"}
    dra.node.run("uncordon", "gpu02")
    wait_for(lambda: dra.api.devices() and not any(each.get("taints") for each in dra.api.devices().values()))
    # fewer rails in the node file
    first = node_file()["rails"][0]
    dra.write(rails=[dict(first, slots=first["slots"][2:])])
    wait_for(lambda: list(dra.api.devices()) == ["gpu01-2", "gpu01-3", "gpu01-4"])
    wait_for(lambda: list(dra.api.slices) == ["node-1-railyard.fabric-gpu01"])
    assert kubelet.prepare() == {}


def test_devices_get_the_faults_that_the_health_service_reports(dra: DraNode) -> None:
    dra.start()
    assert not any(device.get("taints") for device in dra.published().values())
    planes = [{"plane": 1, "state": "pass"}, {"plane": 2, "state": "fail"}]
    options = {"format": 1, "fabric": "lab", "node": "node-1", "rails": [], "kubernetes": {"device_taints": True}}
    bad = rail(1, "fail", findings=[finding()]), rail(2, degraded=True, planes=planes)

    def tainted(*rails: t.Any) -> dict[str, list[tuple[str, str]]]:
        put(dra.node.root, state(*rails))
        # the agent looks at once when a file of this directory changes, and otherwise every 30 seconds
        dra.node.put("/etc/railyard/health.json", json.dumps(options))
        return {
            name: [(taint["key"], taint["value"]) for taint in device["taints"]]
            for name, device in dra.published().items()
            if device.get("taints")
        }

    fault, plane = ("railyard.fabric/rail-fault", "RV402"), ("railyard.fabric/plane-fault", "2")
    found = wait_for(lambda: tainted(*bad) or None, dra.node.log.read_text)
    assert found["gpu01-2"] == [fault] and found["gpu02-2"] == [plane] and found["rails-0"] == [fault, plane]
    wait_for(lambda: not tainted(rail(1), rail(2)), dra.node.log.read_text)


def test_a_server_that_drops_taints_gets_no_devices_of_a_rail_that_is_down(node: Node) -> None:
    dra = DraNode(node, taints=False)
    try:
        dra.start()
        dra.published()
        node.inside("ip", "link", "set", "leaf1", "down")
        wait_for(lambda: list(dra.api.devices()) == ["gpu02-2", "gpu02-3", "gpu02-4"])
        node.inside("ip", "link", "set", "leaf1", "up")
        wait_for(lambda: len(dra.api.devices()) == 8)
    finally:
        dra.close()


def test_a_claim_is_prepared_attached_and_unprepared(dra: DraNode) -> None:
    kubelet = dra.start(BY_TOKEN)
    claim = dra.api.claim(
        "net", "gpu01-2", {"request": "any/of-two", "device": "gpu02-4"}, {"driver": "gpu", "device": "0"}, pod="a"
    )
    wanted = [
        Prepared(["r0"], "node-1", "gpu01-2", ["railyard.fabric/gpu01=gpu01-2"]),
        Prepared(["any"], "node-1", "gpu02-4", ["railyard.fabric/gpu02=gpu02-4"]),
    ]
    assert kubelet.prepare(claim) == {"uid-of-net": wanted}
    assert kubelet.prepare(claim) == {"uid-of-net": wanted}
    assert dra.api.counted("GET", "resourceclaims") == 1, "it is answered from the record"
    names = json.loads((dra.node.root / "var/run/cdi/railyard.fabric-gpu02.json").read_text())["devices"]
    assert "gpu02-4" in [each["name"] for each in names]
    explained = dra.node.run("explain", "a").stdout
    assert "default/a claim net: gpu01-2\n" in explained
    assert "not attached: its container has not started yet" in explained
    pod = Pod("a")
    try:
        for device in ("gpu01-2", "gpu02-4"):
            assert dra.node.attach(device, pod) == {"ok": True}
        assert pod.links() == {"net1", "net2"}
        status = dra.api.claims["default", "net"]["status"]
        wait_for(lambda: len(status.get("devices", ())) == 2)
        assert [each["device"] for each in status["devices"]] == ["gpu01-2", "gpu02-4"]
        assert status["devices"][0]["networkData"] == {
            "interfaceName": "net1",
            "ips": ["172.16.11.3/24", "fd00:11::3/64"],
            "hardwareAddress": "02:00:00:00:01:02",
        }
        # its containers have ended, its sandbox has not
        pod.end_container()
        assert kubelet.unprepare(claim) == {"uid-of-net": ""}
        assert pod.links() == set()
        assert dra.recorded() == []
        # kubelet may ask again, and for claims that the agent never had
        assert kubelet.unprepare(claim, ("other", "uid", "unknown")) == {"uid-of-net": "", "uid": ""}
    finally:
        pod.end()
    after = dra.api.claim("after", "gpu01-2", pod="b")
    assert isinstance(kubelet.prepare(after)["uid-of-after"], list)


def test_another_host_with_the_address_of_a_running_pod_is_reported(dra: DraNode) -> None:
    dra.write(metrics="127.0.0.1:9465")
    kubelet = dra.start(BY_TOKEN)
    kubelet.prepare(dra.api.claim("net", "gpu01-2", pod="a"))
    node = dra.node
    with dra.attached("gpu01-2", "a"):
        node.inside("ip", "address", "add", "172.16.11.3/24", "dev", "leaf1")
        claim = dra.api.claims["default", "net"]["status"]
        (condition,) = wait_for(
            lambda: [each for row in claim.get("devices", ()) for each in row.get("conditions", ())]
        )
        error = condition["message"]
        assert (condition["type"], condition["status"]) == ("AddressConflict", "True")
        assert error.startswith("pod default/a, slot 2 of rail gpu01: the address 172.16.11.3 is in use by ")
        assert node.logged(error) == 1
        status = node.run("status")
        assert (status.returncode, error in status.stdout) == (1, True)
        assert error in node.run("explain", "a").stdout
        metrics = node.inside(sys.executable, "-c", FETCH)
        assert re.findall(r"^railyard_agent_address_conflicts.*", metrics, re.MULTILINE) == [
            'railyard_agent_address_conflicts{rail="gpu01"} 1',
            'railyard_agent_address_conflicts{rail="gpu02"} 0',
        ]
    wait_for(lambda: node.logged("conflict has ended: ") == 1)
    assert error not in node.run("status").stdout


def test_a_status_that_may_not_be_written_does_not_stop_an_attach(dra: DraNode) -> None:
    kubelet = dra.start()
    kubelet.prepare(dra.api.claim("net", "rails-0", pod="a"))
    with dra.attached("rails-0", "a"):
        wait_for(lambda: dra.node.logged("not possible with the kubelet's credentials; see slots.kubeconfig"))


def test_a_claim_that_cannot_be_prepared_is_refused_with_a_reason(dra: DraNode) -> None:
    # the kubelet's identity gets 403 for a claim that does not exist, which is tried again
    kubelet = dra.start(BY_TOKEN)
    api = dra.api

    def refusal(*claim: str) -> str:
        found = kubelet.prepare(t.cast(t.Any, claim))[claim[1]]
        assert isinstance(found, str)
        return found

    def changed(name: str, **status: t.Any) -> tuple[str, str, str]:
        claim = api.claim(name, "gpu01-2")
        api.claims["default", name]["status"].update(status)
        return claim

    api.claim("net", "rails-0")
    assert "uid is uid-of-net, and kubelet asks for old. Remedy: delete the pod" in refusal("default", "old", "net")
    assert "the API server answers 404" in refusal("default", "none", "none")
    assert "is in pool node-2, and this node's pool is node-1" in refusal(
        *api.claim("pool", {"device": "rails-0", "pool": "node-2"})
    )
    assert "this node does not have device gpu01-9" in refusal(*api.claim("device", "gpu01-9"))
    assert "has no device of driver railyard.fabric" in refusal(
        *api.claim("driver", {"driver": "x", "device": "rails-0"})
    )
    assert "it is not allocated" in refusal(*changed("early", allocation=None))
    assert "reserved for 2 users, and a slot serves one pod" in refusal(
        *changed("shared", reservedFor=[{"resource": "pods", "name": "a", "uid": "a"}] * 2)
    )
    assert "several slots of rail gpu01" in refusal(*api.claim("twice", "gpu01-2", "rails-0"))
    assert dra.recorded() == []
    # nor by two claims of one pod: the scheduler gives it both, and the pod can never have them
    assert kubelet.sync("double", api.claim("one", "gpu01-2", pod="double")) == ""
    second = refusal(*api.claim("two", "rails-0", pod="double"))
    assert "pod default/double has a slot of rail gpu01 by claim one already" in second
    assert "Remedy: request one device of each rail" in second
    assert second in dra.node.run("status").stdout
    assert dra.recorded() == ["uid-of-one"]
    assert kubelet.end(("default", "uid-of-two", "two")) == ""
    assert kubelet.unprepare(("default", "uid-of-two", "two")) == {"uid-of-two": ""}
    assert second not in dra.node.run("status").stdout
    assert "Traceback" not in dra.node.log.read_text()
    for message in (b"\x0a\x7f", encode([(1, [(1, "default"), (2, "uid")])])):
        with pytest.raises(grpc.RpcError) as wrong:
            kubelet.call("NodePrepareResources", message)
        assert wrong.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_prepare_waits_for_the_end_of_the_last_pod(dra: DraNode) -> None:
    """A kubelet repeats a refused call only after 60 to 90 seconds, so no call is refused."""
    kubelet = dra.start()
    first = dra.api.claim("first", "rails-0", pod="a")
    assert kubelet.sync("a", first) == ""
    with dra.attached("rails-0", "a"):
        # deleted by force: the claim is given again before kubelet unprepares it
        dra.api.delete("a")
        second, third = dra.api.claim("second", "rails-0", pod="b"), dra.api.claim("third", "gpu01-2", pod="c")
        with futures.ThreadPoolExecutor(2) as waiting:
            b = waiting.submit(kubelet.sync, "b", second)
            wait_for(lambda: dra.api.counted("GET", "/second") > 1)
            # other pods do not wait
            assert kubelet.sync("c", third) == ""
            assert dra.recorded() == ["uid-of-first", "uid-of-third"], "the claim of a pod with interfaces stays"
            assert not b.done()
            assert kubelet.end(first) == ""
            assert b.result() == ""
    assert dra.recorded() == ["uid-of-second", "uid-of-third"]


def test_the_claims_of_one_call_wait_together(dra: DraNode) -> None:
    kubelet = dra.start()
    first = dra.api.claim("first", "rails-0", pod="a")
    assert kubelet.prepare(first) == {"uid-of-first": [RAILS_0]}
    # a claim of the same call that waits does not delay another one
    second, third = dra.api.claim("second", "rails-0", pod="b"), dra.api.claim("third", "rails-1", pod="c")
    with futures.ThreadPoolExecutor(1) as waiting:
        answers = waiting.submit(kubelet.prepare, second, third)
        wait_for(lambda: dra.recorded() == ["uid-of-first", "uid-of-third"])
        assert kubelet.unprepare(first) == {"uid-of-first": ""}
        assert all(isinstance(each, list) for each in answers.result().values())


def test_a_claim_that_is_released_while_it_waits_is_not_recorded(dra: DraNode) -> None:
    kubelet = dra.start()
    first, second = dra.api.claim("first", "rails-0", pod="a"), dra.api.claim("second", "rails-0", pod="b")
    assert kubelet.sync("a", first) == ""
    with futures.ThreadPoolExecutor(1) as waiting:
        answer = waiting.submit(kubelet.prepare, second)
        wait_for(lambda: dra.api.counted("GET", "/second") > 1)
        assert kubelet.unprepare(second) == {"uid-of-second": ""}
        assert kubelet.end(first) == ""
        assert "kubelet released it" in str(answer.result()["uid-of-second"])
    assert dra.recorded() == []
    assert dra.node.run("status").returncode == 0


def test_a_pod_without_a_claim_keeps_its_slot_until_it_ends(dra: DraNode) -> None:
    """The interfaces of a pod whose claim is not recorded, as after the record was removed."""
    kubelet = dra.start()
    assert kubelet.sync("a", dra.api.claim("first", "rails-0", pod="a")) == ""
    second = dra.api.claim("second", "rails-0", pod="b")
    with dra.attached("rails-0", "a") as pod:
        (dra.node.root / CLAIMS).unlink()
        kubelet = dra.restart()
        wait_for(lambda: dra.published().get("rails-0", {}).get("taints"))
        assert "device rails-0: pod default/a holds it without a claim" in dra.node.run("status").stdout
        with futures.ThreadPoolExecutor(1) as waiting:
            answer = waiting.submit(kubelet.sync, "b", second)
            wait_for(lambda: dra.api.counted("GET", "/second") > 1)
            assert not answer.done()
            pod.end()
            assert answer.result() == ""


@pytest.mark.parametrize("how", ["deleted", "another uid", "given again", "by token"])
def test_claims_that_kubelet_forgot_end(dra: DraNode, how: str) -> None:
    """A kubelet that lost its record, as after kubeadm reset and join, never unprepares its claims."""
    kubelet = dra.start(BY_TOKEN if how == "by token" else "")
    first = dra.api.claim("first", "rails-0", pod="a")
    assert kubelet.sync("a", first) == ""
    assert "claim default/first of pod default/a: prepared, and no container has attached rails-0" in (
        dra.node.run("status").stdout
    )
    row = r"^rails-0 +gpu01 .* default/a +claim first, not attached +\d+s$"
    assert re.search(row, dra.node.run("slots").stdout, re.MULTILINE)
    kubelet.record.clear()
    if how == "given again":
        dra.api.claims["default", "first"]["status"]["reservedFor"] = []
    else:
        dra.api.delete("a")
    if how == "another uid":
        dra.api.claim("first", "rails-1", uid="uid-2", pod="a")
    assert kubelet.end(first) == "", "it does not know the claim"
    assert dra.recorded() == ["uid-of-first"]
    assert kubelet.sync("b", dra.api.claim("second", "rails-0", pod="b")) == ""
    assert dra.recorded() == ["uid-of-second"]
    assert dra.node.logged("claim default/first of pod default/a has ended without a call of kubelet") == 1


def test_forgotten_claims_end_when_the_agent_starts(dra: DraNode) -> None:
    kubelet = dra.start()
    ended, alive = dra.api.claim("ended", "rails-0", pod="a"), dra.api.claim("alive", "rails-1", pod="b")
    attached = dra.api.claim("attached", "gpu01-2", pod="c")
    for claim in (ended, alive, attached):
        assert kubelet.sync(claim[2], claim) == ""
    with dra.attached("gpu01-2", "c"):
        dra.api.delete("a")
        dra.api.delete("c")
        dra.restart()
        wait_for(lambda: dra.recorded() == ["uid-of-alive", "uid-of-attached"])
        wait_for(lambda: dra.api.counted("GET", "/alive") > 1)
    assert dra.recorded() == ["uid-of-alive", "uid-of-attached"]


def test_a_failed_attach_ends_with_its_pod(dra: DraNode) -> None:
    kubelet = dra.start()
    claim = dra.api.claim("net", "rails-0", pod="a")
    assert kubelet.sync("a", claim) == ""
    pod = Pod("a")
    try:
        # as a pod with hostNetwork
        state = dict(pod.state(), pid=dra.node.agent.pid)  # type: ignore[union-attr]
        request = {"do": "attach", "device": "rails-0", "state": state}
        answer = hook.ask(request, str(dra.node.root) + hook.SOCKET)
        assert "hostNetwork: true" in answer["error"]
        assert "Remedy: remove hostNetwork from the pod, or the rails from its limits and claims" in answer["error"]
        assert answer["error"] in dra.node.run("status").stdout
        assert answer["error"] in dra.node.run("explain", "a").stdout
    finally:
        pod.end()
    assert kubelet.end(claim) == ""
    status = dra.node.run("status")
    assert (answer["error"] in status.stdout, status.returncode) == (False, 0)


@pytest.mark.parametrize("version", ["v1", "v1alpha1"])
def test_kubelet_follows_the_health_of_devices(dra: DraNode, version: str) -> None:
    kubelet = dra.start()
    health = kubelet.health(version)
    first = wait_for(lambda: next(health, None))
    assert set(first) == {"gpu01-2", "gpu01-3", "gpu01-4", "gpu02-2", "gpu02-3", "gpu02-4", "rails-0", "rails-1"}
    assert {(each.pool, each.health, each.message) for each in first.values()} == {("node-1", 1, "")}
    dra.node.inside("ip", "link", "set", "leaf1", "down")
    down = next(each for each in health if each["gpu01-2"].health != 1)
    assert down["gpu01-2"].health == down["rails-0"].health == 2
    assert down["rails-0"].message == "rail gpu01: rail1 has no carrier"
    assert (down["gpu02-2"].health, down["gpu02-2"].message) == (1, "")
    # kubelet takes what is older than the limit for unknown
    assert down["gpu01-2"].updated >= first["gpu01-2"].updated > 0
    assert down["gpu01-2"].limit == 120
    dra.node.inside("ip", "link", "set", "leaf1", "up")
    assert next(each for each in health if each["gpu01-2"].health == 1)["rails-0"].message == ""
    assert dra.node.stop() == 0


def test_a_token_is_renewed(dra: DraNode) -> None:
    """An expired token stops nothing but requests, and a new one is used without a restart."""
    token = dra.node.root / "etc/kubernetes/token"
    token.write_text("expired")
    kubelet = dra.start("    tokenFile: token")
    expired = "the API server answers 401: Unauthorized. Remedy: renew the token or the certificate of /%s" % KUBECONFIG
    wait_for(lambda: dra.node.logged(expired))
    first, second = dra.api.claim("first", "rails-0"), dra.api.claim("second", "rails-1", pod="b")
    with futures.ThreadPoolExecutor(1) as waiting:
        answer = waiting.submit(kubelet.prepare, first)
        wait_for(lambda: dra.api.counted("GET", "resourceclaims"))
        token.write_text(TOKEN + "\n")
        assert answer.result() == {"uid-of-first": [RAILS_0]}
    assert len(dra.published()) == 8
    wait_for(lambda: dra.node.logged("DRA driver railyard.fabric: the problem is over"))
    # it expires again, before the claim's status is written
    token.write_text("expired again")
    with dra.attached("rails-0", "p"):
        wait_for(lambda: dra.node.logged("the status of claim default/first is not written"))
        assert kubelet.prepare(first) == {"uid-of-first": [RAILS_0]}, "from the record"
        token.write_text(TOKEN)
        wait_for(lambda: dra.api.claims["default", "first"]["status"].get("devices"))
    found = kubelet.prepare(second)["uid-of-second"]
    assert isinstance(found, list) and found[0].device == "rails-1"
    assert dra.node.agent and dra.node.agent.poll() is None


def test_claims_are_answered_while_the_api_server_is_unreachable(dra: DraNode) -> None:
    kubelet = dra.start()
    known, unknown = dra.api.claim("known", "rails-0"), dra.api.claim("unknown", "rails-1", pod="b")
    dra.published()
    assert kubelet.prepare(known) == {"uid-of-known": [RAILS_0]}
    dra.api.close()
    assert kubelet.prepare(known) == {"uid-of-known": [RAILS_0]}
    # a restart of the agent, which cannot publish now
    kubelet = dra.restart()
    assert kubelet.prepare(known) == {"uid-of-known": [RAILS_0]}
    wait_for(lambda: dra.node.logged("the API server does not answer"))
    # a new claim waits for the API server, within kubelet's patience
    with futures.ThreadPoolExecutor(1) as waiting:
        answer = waiting.submit(kubelet.prepare, unknown)
        # a problem of slices and of claims is one line
        assert dra.node.run("status").stdout.count("the API server does not answer") == 1
        dra.serve()
        found = answer.result()["uid-of-unknown"]
        assert isinstance(found, list) and found[0].device == "rails-1"
    assert len(dra.published()) == 8
    wait_for(lambda: dra.node.logged("DRA driver railyard.fabric: the problem is over"))
    assert kubelet.unprepare(known, unknown) == {"uid-of-known": "", "uid-of-unknown": ""}


def test_an_error_of_the_api_server_is_retried(dra: DraNode) -> None:
    kubelet = dra.start()
    dra.published()
    claim = dra.api.claim("net", "rails-0")
    dra.api.faults += [500, 403]
    assert kubelet.prepare(claim) == {"uid-of-net": [RAILS_0]}


@pytest.mark.parametrize("moment", ["before the record", "after the record", "while slices are written"])
def test_a_killed_agent_continues_after_its_restart(dra: DraNode, moment: str) -> None:
    claim = dra.api.claim("net", "rails-0")
    dying = {"before the record": "resourceclaims", "while slices are written": "resourceslices"}.get(moment)
    seen: list[str] = []

    def during(method: str, path: str) -> None:
        if dying and dying in path and (dying == "resourceclaims" or method == "POST"):
            seen.append(path)
            if len(seen) == (1 if dying == "resourceclaims" else 2):
                assert dra.node.agent
                os.kill(dra.node.agent.pid, signal.SIGKILL)

    dra.api.during = during
    kubelet = dra.start()
    if moment == "while slices are written":
        assert dra.node.agent
        dra.node.agent.wait()
        assert dra.api.devices() == {}, "a pool that is not complete"
        # this kubelet's wait for the connection is not over
        dra.api.wipe = lambda: None  # type: ignore[method-assign]
    elif dying:
        with pytest.raises(grpc.RpcError):
            kubelet.prepare(claim)
        assert dra.recorded() == []
    else:
        kubelet.prepare(claim)
        assert dra.recorded() == ["uid-of-net"]
        dra.api.claims.clear()
    dra.api.during = lambda _method, _path: None
    kubelet = dra.restart()
    assert kubelet.prepare(claim) == {"uid-of-net": [RAILS_0]}
    assert len(dra.published()) == 8


def test_a_damaged_record_stops_the_driver(dra: DraNode) -> None:
    dra.node.put("/" + CLAIMS, "{")
    agent = dra.node.start()
    assert agent.wait(60) == 1
    assert dra.node.logged("does not know which claims have slots")


def test_a_refused_registration_is_shown(dra: DraNode) -> None:
    dra.node.start()
    dra.kubelet(error="not today")
    wait_for(lambda: dra.node.logged("kubelet did not register it: not today. Remedy:"))
    dra.kubelet()
    wait_for(lambda: dra.node.logged("driver railyard.fabric is registered"))


@pytest.mark.parametrize("text", ["with data", "token", "json"])
def test_each_form_of_kubeconfig_works(dra: DraNode, text: str) -> None:
    dra.write(kubeconfig="/etc/kubernetes/other.conf")
    dra.node.start()
    dra.api.serve()
    other = dra.node.root / "etc/kubernetes/other.conf"
    if text == "with data":
        dra.api.kubeconfig_with_data(other)
    elif text == "token":
        other.write_text(dra.api.kubeconfig(BY_TOKEN))
    else:
        kubeconfig = dra.api.kubeconfig(BY_TOKEN)
        other.write_text(json.dumps(yaml.safe_load(kubeconfig), indent=1))
    dra.kubelet()
    assert len(dra.published()) == 8


WRONG = {
    None: "there is no kubeconfig. Remedy: set slots.kubeconfig",
    "    exec:\n      command: aws": "has a credential plugin",
    "    client-certificate: none.crt\n    client-key: none.key": "its certificates cannot be used",
    "    token: wrong": "the API server answers 401: Unauthorized. Remedy: renew the token",
    "    tokenFile: token": "cannot be read",
    "    token: a\n- user:\n    token: b": "token occurs several times",
}


def test_a_wrong_kubeconfig_is_a_problem(dra: DraNode) -> None:
    """The agent reads each corrected kubeconfig without a restart."""
    dra.node.start()
    dra.api.serve()
    kubelet = dra.kubelet()
    for text, error in WRONG.items():
        if text is not None:
            dra.node.put("/" + KUBECONFIG, dra.api.kubeconfig(text))
        wait_for(lambda error=error: dra.node.logged(error), lambda: dra.node.log.read_text())
        assert error in dra.node.run("status").stdout
    dra.node.put("/" + KUBECONFIG, dra.api.kubeconfig())
    assert kubelet.prepare(dra.api.claim("net", "rails-0")) == {"uid-of-net": [RAILS_0]}


@pytest.fixture
def both(node: Node) -> t.Iterator[tuple[DraNode, Kubelet]]:
    """A node with two rails, an API server, and a kubelet for device plugins."""
    plugins = Kubelet(node.root)
    dra = DraNode(node)
    yield dra, plugins
    plugins.stop()
    dra.close()


def test_a_node_changes_from_device_plugins_to_the_driver_and_back(both: tuple[DraNode, Kubelet]) -> None:
    dra, plugins = both
    node = dra.node
    node.write(node_file())
    node.start()
    plugins.devices("railyard.fabric/gpu01")
    # without a kubeconfig, nothing is changed
    dra.write()
    wait_for(lambda: node.logged("there is no kubeconfig"))
    assert "there is no kubeconfig" in node.run("status").stdout
    assert not any(each.ended for each in plugins.plugins.values())
    dra.api.serve()
    node.put("/" + KUBECONFIG, dra.api.kubeconfig())
    kubelet = dra.kubelet()
    wait_for(lambda: all(each.ended for each in plugins.plugins.values()))
    claim = dra.api.claim("net", "rails-0")
    assert kubelet.sync("p", claim) == ""
    assert kubelet.end(claim) == ""
    plugins.plugins.clear()
    node.write(node_file())
    assert plugins.devices("railyard.fabric/gpu01")
    wait_for(lambda: not kubelet.registered)


def test_a_driver_stays_until_its_claims_are_unprepared(both: tuple[DraNode, Kubelet]) -> None:
    """The node file was changed while pods run. Their slots are not offered by device plugins, and the pods can end."""
    dra, plugins = both
    kubelet = dra.start()
    attached, waiting = dra.api.claim("attached", "rails-0", pod="a"), dra.api.claim("waiting", "gpu01-2", pod="b")
    assert [kubelet.sync(each[2], each) for each in (attached, waiting)] == ["", ""]
    pod, rival = Pod("a"), Pod("rival")
    try:
        assert dra.node.attach("rails-0", pod) == {"ok": True}
        dra.node.write(node_file())

        def health(device: str) -> str:
            return plugins.devices("railyard.fabric/" + device.partition("-")[0])[device].health

        expected = {"rails-0": "Unhealthy", "gpu01-2": "Unhealthy", "rails-1": "Healthy", "gpu01-3": "Healthy"}
        wait_for(lambda: {device: health(device) for device in expected} == expected)
        # the same after a restart of the agent
        kubelet = dra.restart()
        kubelet.record.update((each[1], each) for each in (attached, waiting))
        wait_for(lambda: dra.node.logged("driver railyard.fabric is registered with kubelet") == 2)
        wait_for(lambda: {device: health(device) for device in expected} == expected)
        assert "device gpu01-2: claim waiting of pod default/b has it" in dra.node.run("status").stdout
        assert "is prepared for claim waiting" in dra.node.attach("gpu01-2", rival)["error"]
        assert "does not have driver railyard.fabric any more" in kubelet.sync("c", dra.api.claim("new", "rails-1"))
        # a container of the pod starts again
        pod.restart_container()
        assert dra.node.attach("rails-0", pod) == {"ok": True}
        assert kubelet.end(attached) == ""
        wait_for(lambda: health("rails-0") == "Healthy")
        assert kubelet.registered and not dra.api.slices
        assert kubelet.end(waiting) == ""
        wait_for(lambda: not kubelet.registered)
        wait_for(lambda: health("gpu01-2") == "Healthy")
        assert dra.node.run("status").returncode == 0
    finally:
        pod.end()
        rival.end()


@pytest.mark.parametrize("changed", [{"resource_prefix": "other.fabric"}, {"node": "node-2"}])
def test_claims_can_be_unprepared_after_driver_or_node_were_renamed(dra: DraNode, changed: dict[str, str]) -> None:
    kubelet = dra.start()
    claim = dra.api.claim("net", "rails-0", pod="a")
    assert kubelet.sync("a", claim) == ""
    dra.write(**changed)
    name = changed.get("resource_prefix", "railyard.fabric")
    wait_for(lambda: dra.node.logged("the node file was read again"))
    other = DraKubelet(dra.node.root, name)
    other.close()
    assert kubelet.registered
    assert kubelet.end(claim) == ""
    assert dra.recorded() == []
    if name != "railyard.fabric":
        wait_for(lambda: not kubelet.registered)


def test_slots_of_device_plugins_are_not_offered_by_the_driver(both: tuple[DraNode, Kubelet]) -> None:
    """The node file was changed while pods of device plugins run."""
    dra, plugins = both
    dra.node.write(node_file())
    dra.node.start_with_rails()
    plugins.devices("railyard.fabric/rails")
    with dra.attached("rails-0", "a") as pod:
        dra.serve()
        dra.node.put("/" + KUBECONFIG, dra.api.kubeconfig())
        dra.write()
        dra.kubelet()
        tainted = wait_for(lambda: {name: row["taints"] for name, row in dra.api.devices().items() if "taints" in row})
        assert [(name, rows[0]["key"]) for name, rows in tainted.items()] == [("rails-0", "railyard.fabric/slot-held")]
        assert "device rails-0: pod default/a holds it without a claim" in dra.node.run("status").stdout
        pod.restart_container()
        assert dra.node.attach("rails-0", pod) == {"ok": True}
    # status frees the slots of pods that have ended
    dra.node.run("status")
    wait_for(lambda: dra.api.devices() and not any("taints" in row for row in dra.api.devices().values()))


def test_a_node_file_that_cannot_be_served_changes_nothing(both: tuple[DraNode, Kubelet]) -> None:
    dra, plugins = both
    node = dra.node
    node.write(node_file())
    node.start_with_rails()
    names = ["railyard.fabric/" + name for name in ("rails", "gpu01", "gpu02")]
    devices = [plugins.devices(name) for name in names]
    before = dict(plugins.plugins)
    place = node.root / "etc/railyard/agent.json"
    newer = json.dumps({"format": 2, "claims": []})

    def broken(text: str) -> t.Callable[[], object]:
        return lambda: node.put("/etc/railyard/agent.json", text)

    def record() -> None:
        node.put("/" + CLAIMS, newer)
        node.put("/" + KUBECONFIG, "server: https://127.0.0.1:1")
        dra.write()

    def kubeconfig() -> None:
        node.put("/" + KUBECONFIG, "server: https://127.0.0.1:1\ncertificate-authority-data: AAAA")
        (node.root / CLAIMS).unlink()

    def directory() -> None:
        place.unlink()
        place.mkdir()

    infinite = dict(node_file()["rails"][0], mtu=float("inf"))
    faults = {
        "is damaged (ValueError('format 2'))": record,
        "its certificates cannot be used": kubeconfig,
        "attachment is 'bridge'": lambda: node.write(node_file(attachment="bridge")),
        "metrics is 9465, not a text": lambda: node.write(node_file(metrics=9465)),
        "cannot convert float infinity": broken(json.dumps(node_file(rails=[infinite]))),
        "is not JSON: Expecting value": broken(""),
        "maximum recursion depth exceeded": broken("[" * 100000),
        "the node file of the rail agent does not exist": place.unlink,
        "is not JSON: Expecting property name": broken("{"),
        "agent.json: cannot be read: Is a directory": directory,
    }
    with dra.attached("rails-0", "a") as pod:
        for error, act in faults.items():
            act()
            wait_for(lambda error=error: node.logged(error), lambda: node.log.read_text())
            assert error in node.run("status").stdout
            pod.restart_container()
            assert node.attach("rails-0", pod) == {"ok": True}, error
            assert plugins.plugins == before
        place.rmdir()
        node.write(node_file())
        wait_for(lambda: node.logged("agent.json: the problem is over"))
        assert node.run("status").returncode == 0
    assert [plugins.devices(name) for name in names] == devices
    assert "Traceback" not in node.log.read_text()

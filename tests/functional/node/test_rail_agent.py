# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rail agent as it is packed, with a kubelet's side of the protocol on the other end of its sockets."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import typing as t
import urllib.error
import urllib.request
from pathlib import Path

import grpc
import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.version import VERSION
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import agent_service, agent_spec, hook
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent_service import running_agent
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import ethtool
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.in_namespace import in_namespace
from tests.functional.node.agent_pods import Pod
from tests.functional.node.agent_program import Node, node_file
from tests.functional.node.fake_kubelet import Kubelet
from tests.functional.node.own_namespace import why_not
from tests.waiting import retried, wait_for

FETCH = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:9465/metrics', timeout=10).read().decode())"
# of pod resources: devices 2: resource_name 1, device_ids 2
RAILS_1 = (2, [(1, "railyard.fabric/rails"), (2, "rails-1")])
CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.fixture
def kubelet(node: Node) -> t.Iterator[Kubelet]:
    kubelet = Kubelet(node.root)
    yield kubelet
    kubelet.stop()


def test_kubelet_gets_each_resource_with_its_devices(node: Node, kubelet: Kubelet) -> None:
    node.start()
    rails = kubelet.devices("railyard.fabric/rails")
    assert set(rails) == {"rails-0", "rails-1"}
    assert rails["rails-0"].numa == [0, 1]
    gpu02 = kubelet.devices("railyard.fabric/gpu02")
    assert list(gpu02) == ["gpu02-2", "gpu02-3", "gpu02-4"]
    assert gpu02["gpu02-3"].numa == [1]
    plugin = kubelet.plugins["railyard.fabric/gpu02"]
    assert plugin.endpoint == "railyard-gpu02.sock"
    assert plugin.options == [(2, 1)]
    # what kubelet asks again is what it was registered with
    assert plugin.call("GetDevicePluginOptions") == b"\x10\x01"


def test_allocate_answers_both_forms_of_cdi(node: Node, kubelet: Kubelet) -> None:
    node.start()
    kubelet.devices("railyard.fabric/rails")
    assert kubelet.plugins["railyard.fabric/rails"].allocate(["rails-1"], []) == [
        ({"cdi.k8s.io/railyard.fabric_rails": "railyard.fabric/rails=rails-1"}, ["railyard.fabric/rails=rails-1"]),
        ({}, []),
    ]


@pytest.mark.parametrize(
    ("devices", "error"),
    [
        (["rails-0", "rails-1"], "asks for 2.*Remedy: write 'railyard.fabric/rails: 1'"),
        (["rails-7"], "rails-7, which this node does not have.*Remedy: restart kubelet"),
    ],
)
def test_a_bad_allocation_is_refused(node: Node, kubelet: Kubelet, devices: list[str], error: str) -> None:
    node.start()
    kubelet.devices("railyard.fabric/rails")
    plugin = kubelet.plugins["railyard.fabric/rails"]
    with pytest.raises(grpc.RpcError) as refused:
        plugin.allocate(devices)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert re.search(error, refused.value.details())
    with pytest.raises(grpc.RpcError) as refused:
        plugin.call("Allocate", b"\x0a\x7f")
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    # and it serves on
    assert plugin.allocate(["rails-0"])[0][1] == ["railyard.fabric/rails=rails-0"]
    assert "Traceback" not in node.log.read_text()


def test_one_slot_number_is_preferred_on_all_rails(node: Node, kubelet: Kubelet) -> None:
    node.start_with_rails()
    for name in ("gpu01", "gpu02"):
        kubelet.devices("railyard.fabric/" + name)
    free = {name: kubelet.plugins["railyard.fabric/" + name].prefer for name in ("gpu01", "gpu02")}
    assert free["gpu02"](["gpu02-4", "gpu02-2", "gpu02-3"], [], 1) == ["gpu02-2"]
    pod = Pod("one")
    try:
        assert node.attach("gpu01-2", pod) == {"ok": True}
        # a pod of both rails gets slot 3 of both
        assert free["gpu01"](["gpu01-4", "gpu01-3"], [], 1) == ["gpu01-3"]
        assert free["gpu02"](["gpu02-2", "gpu02-3", "gpu02-4"], [], 1) == ["gpu02-3"]
        assert free["gpu02"](["gpu02-2", "gpu02-3", "gpu02-4"], ["gpu02-4"], 2) == ["gpu02-4", "gpu02-3"]
        assert free["gpu02"](["gpu02-2"], [], 1) == ["gpu02-2"]
        # the kubelet takes the pod for ended, and it still has its interfaces
        assert free["gpu01"](["gpu01-2", "gpu01-3"], [], 1) == ["gpu01-3"]
    finally:
        pod.end()


def test_a_plugin_registers_with_each_new_kubelet(node: Node) -> None:
    node.start()
    for _start in range(3):
        kubelet = Kubelet(node.root)
        for name in ("rails", "gpu01", "gpu02"):
            assert kubelet.devices("railyard.fabric/" + name)
        assert sorted(path.name for path in kubelet.directory.iterdir()) == [
            "kubelet.sock",
            "railyard-gpu01.sock",
            "railyard-gpu02.sock",
            "railyard-rails.sock",
        ]
        assert kubelet.plugins["railyard.fabric/gpu01"].allocate(["gpu01-2"])
        kubelet.stop()


def test_a_plugin_registers_again_if_kubelet_does_not_listen(node: Node, kubelet: Kubelet) -> None:
    node.start()
    kubelet.devices("railyard.fabric/gpu01")
    kubelet.devices("railyard.fabric/gpu02")
    lost, other = (kubelet.plugins["railyard.fabric/" + name] for name in ("gpu01", "gpu02"))
    lost.close()
    kubelet.wait(lambda: kubelet.plugins.get("railyard.fabric/gpu01") not in (None, lost))
    assert kubelet.devices("railyard.fabric/gpu01")
    assert kubelet.plugins["railyard.fabric/gpu02"] is other


@pytest.mark.parametrize("kind", ["socket", "file", "link"])
def test_the_path_of_another_program_in_kubelets_directory_is_not_replaced(
    node: Node, kubelet: Kubelet, kind: str
) -> None:
    path = kubelet.directory / "railyard-gpu01.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        if kind == "socket":
            other.bind(str(path))
            other.listen(8)
        elif kind == "file":
            path.write_text("kept")
        else:
            path.symlink_to(node.root / "elsewhere")
        before = path.lstat().st_ino
        node.start()
        assert kubelet.devices("railyard.fabric/gpu02")
        reason = "another program serves it" if kind == "socket" else "it is not a socket"
        kubelet.wait(
            lambda: node.logged("railyard-gpu01.sock: the path is used: %s. Remedy: stop that program" % reason)
        )
        assert path.lstat().st_ino == before
    path.unlink()
    assert kubelet.devices("railyard.fabric/gpu01")


def test_a_refused_registration_is_tried_again(node: Node, kubelet: Kubelet) -> None:
    kubelet.refused = "not today"
    node.start()
    kubelet.wait(lambda: node.logged("kubelet did not register railyard.fabric/gpu01: INTERNAL: not today. Remedy:"))
    kubelet.refused = ""
    assert kubelet.devices("railyard.fabric/gpu01")
    kubelet.wait(lambda: node.logged("railyard.fabric/gpu01: the problem is over"))


def test_a_new_node_file_is_served_without_a_restart(node: Node, kubelet: Kubelet) -> None:
    node.start()
    assert len(kubelet.devices("railyard.fabric/gpu01")) == 3
    kubelet.devices("railyard.fabric/gpu02")
    plugin = kubelet.plugins["railyard.fabric/gpu01"]
    first = node_file()["rails"][0]
    node.write(node_file(rails=[dict(first, slots=first["slots"][:4])]))
    kubelet.wait(lambda: len(kubelet.devices("railyard.fabric/gpu01")) == 2)
    assert kubelet.plugins["railyard.fabric/gpu01"] is plugin, "the stream of kubelet went on"
    kubelet.wait(lambda: kubelet.plugins["railyard.fabric/gpu02"].ended)
    # a file that is wrong is not taken
    node.write({"format": 99})
    kubelet.wait(lambda: node.logged("format is 99"))
    assert plugin.allocate(["gpu01-2"])
    node.write(node_file())
    kubelet.wait(lambda: len(kubelet.devices("railyard.fabric/gpu02")) == 3)


def test_the_agent_ends_with_sigterm_and_starts_again_after_a_kill(node: Node, kubelet: Kubelet) -> None:
    node.start()
    kubelet.devices("railyard.fabric/gpu01")
    assert node.stop() == 0
    kubelet.wait(lambda: all(plugin.ended for plugin in kubelet.plugins.values()))
    assert [path.name for path in kubelet.directory.iterdir()] == ["kubelet.sock"]
    kubelet.plugins.clear()
    killed = node.start()
    kubelet.devices("railyard.fabric/gpu01")
    killed.kill()
    killed.wait()
    kubelet.wait(lambda: kubelet.plugins["railyard.fabric/gpu01"].ended)
    kubelet.plugins.clear()
    node.start()
    assert kubelet.devices("railyard.fabric/gpu01")


def agent_status(node: Node) -> dict[str, t.Any]:
    """Ask the agent as the hook does: until it answers."""
    found = hook.ask({"do": "status"}, str(node.root) + hook.SOCKET, 60)
    assert isinstance(found, dict)
    return found


def test_a_second_agent_is_refused(node: Node, kubelet: Kubelet, program: Path) -> None:
    agent = node.start()
    kubelet.devices("railyard.fabric/gpu01")
    kubelet.wait(lambda: node.logged("serves node"))
    before = {path: path.lstat().st_ino for path in node.root.rglob("*.sock")}
    for _time in range(2):
        second = node.run("run")
        assert (second.returncode, second.stdout) == (1, "")
        expected = r"agent/lock: another agent serves this node: railyard-agent \(pid %d\), since 20.* Remedy: use it"
        assert re.search(expected % agent.pid, second.stderr), second.stderr
    assert {path: path.lstat().st_ino for path in node.root.rglob("*.sock")} == before
    assert agent_status(node)["node"] == "node-1"
    # with other root directories, agents do not affect each other
    other = Node(Path(tempfile.mkdtemp(prefix="agent", dir="/tmp")), program)
    try:
        other.start()
        wait_for(lambda: other.logged("serves node"))
        assert other.stop() == 0
    finally:
        shutil.rmtree(other.root)
    assert agent_status(node)["node"] == "node-1"
    # a killed agent does not leave a lock
    agent.kill()
    agent.wait()
    node.start()
    kubelet.wait(lambda: node.logged("serves node") == 2)
    # nor does the removal of its file
    lock = node.root / agent_service.LOCK.lstrip("/")
    lock.unlink()
    kubelet.wait(lock.exists)
    assert "another agent serves this node" in node.run("run").stderr
    assert node.stop() == 0
    assert not lock.exists()


def test_commands_do_not_wait_for_an_agent_that_hangs(node: Node) -> None:
    agent = node.start()
    wait_for(lambda: node.logged("serves node"))
    agent.send_signal(signal.SIGSTOP)
    try:
        status = node.run("status")
        assert (status.returncode, status.stdout) == (1, "")
        assert "the rail agent does not answer: timed out. Remedy: run systemctl status railyard-agent" in status.stderr
        assert [node.run(*words).returncode for words in (["slots"], ["cordon", "gpu01"])] == [0, 0]
        assert "another agent serves this node" in node.run("run").stderr
    finally:
        agent.send_signal(signal.SIGCONT)
    assert agent_status(node)["node"] == "node-1"


def test_rail_info_has_the_state_of_the_agent(node: Node, kubelet: Kubelet) -> None:
    system = System(str(node.root))
    node.start()
    kubelet.devices("railyard.fabric/gpu01")
    assert node.run("cordon", "gpu01", "--reason", "new cable").returncode == 0

    def cordoned() -> bool:
        found = running_agent.look(system)
        return bool(found and found["error"] is None and found["rails"][0]["cordoned"])

    kubelet.wait(cordoned)
    found = running_agent.look(system)
    assert found is not None and found["version"] == VERSION
    first = found["rails"][0]
    assert (first["rail"], first["healthy"]) == ("gpu01", False) and "new cable" in first["reason"]
    assert {row["resource"]: (row["devices"], row["held"]) for row in found["resources"]} == {
        "railyard.fabric/rails": (2, 0),
        "railyard.fabric/gpu01": (3, 0),
        "railyard.fabric/gpu02": (3, 0),
    }
    assert node.stop() == 0
    stopped = running_agent.look(system)
    assert stopped is not None and "agent.sock: the rail agent does not answer" in stopped["error"]
    assert stopped["error"].endswith("Remedy: run systemctl status railyard-agent")
    (node.root / agent_spec.FILE.lstrip("/")).unlink()
    assert running_agent.look(system) is None


@pytest.mark.parametrize("answer", [[], None, {}, {"version": "0.1.0", "rails": ["gpu01"]}])
def test_another_answer_of_the_agent_has_a_remedy(answer: object, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "ask", lambda _request, _path, _seconds: answer)
    found = running_agent.look(System(str(node.root)))
    assert found is not None and list(found) == ["error"]
    assert "the rail agent answers without its state. Remedy: run hosts.yml --tags agent" in found["error"]


def test_the_socket_is_created_again(node: Node, kubelet: Kubelet) -> None:
    agent = node.start()
    kubelet.wait(lambda: node.logged("serves node"))
    path = node.root / hook.SOCKET.lstrip("/")

    def replace_by_file() -> None:
        path.unlink()
        path.write_text("")

    def replace_by_socket() -> None:
        path.unlink()
        other.bind(str(path))
        other.listen(1)

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        for number, act in enumerate(
            (
                path.unlink,
                replace_by_file,
                replace_by_socket,
                lambda: shutil.rmtree(path.parent),
                lambda: [each.unlink() for each in path.parent.iterdir()],
            ),
            1,
        ):
            act()
            kubelet.wait(lambda number=number: node.logged("agent.sock: it was removed or replaced") == number)
            assert agent_status(node)["node"] == "node-1"
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert agent.poll() is None
    assert node.stop() == 0
    assert list(path.parent.iterdir()) == []


# Directories as systemd gives them to the service: all others are read-only.
READ_ONLY = """
mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"
for directory in %s; do
    mount --bind "$0$directory" "$0$directory" && mount -o remount,bind,rw "$0$directory"
done
exec "$@"
"""


def test_the_agent_ends_if_its_directories_are_read_only(node: Node, kubelet: Kubelet) -> None:
    """So that systemd starts it again with the directories of the unit."""
    if why_not():
        pytest.skip("no namespaces here: %s" % why_not())
    directories = [node.root / each.lstrip("/") for each in agent_service.OWN_DIRECTORIES]
    for directory in directories:
        directory.mkdir(parents=True, exist_ok=True)
    script = READ_ONLY % " ".join(agent_service.OWN_DIRECTORIES)
    agent = node.start("unshare", "--mount", "sh", "-c", script, str(node.root))
    kubelet.devices("railyard.fabric/gpu01")
    kubelet.wait(lambda: node.logged("serves node"))
    # as a program that removes the directory and creates it again
    directories[2].rename(node.root / "old")
    directories[2].mkdir()
    assert agent.wait(60) == 1
    assert node.logged("/var/run/cdi: the agent cannot write it any more. Remedy: run findmnt")


def test_systemd_gets_ready_and_the_watchdog(node: Node, kubelet: Kubelet) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        path = str(node.root / "notify")
        systemd.bind(path)
        systemd.settimeout(30)
        node.start(NOTIFY_SOCKET=path)
        while systemd.recv(100) != b"READY=1":
            pass
        assert [systemd.recv(100) for _tick in range(2)] == [b"WATCHDOG=1"] * 2
        node.stop()
        while systemd.recv(100) != b"STOPPING=1":
            pass


def test_the_watchdog_is_notified_between_registrations(node: Node, kubelet: Kubelet) -> None:
    """Each registration may take seconds, and there are as many as rails."""
    second, go_on = threading.Event(), threading.Event()

    def pause() -> None:
        if kubelet.plugins:
            second.set()
            go_on.wait(4)

    kubelet.pause = pause
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        path = str(node.root / "notify")
        systemd.bind(path)
        systemd.settimeout(30)
        node.start(NOTIFY_SOCKET=path)
        while systemd.recv(100) != b"READY=1":
            pass
        assert second.wait(30)
        systemd.settimeout(1)
        assert {systemd.recv(100) for _step in range(4)} == {b"WATCHDOG=1"}
        go_on.set()


def test_metrics_are_served_at_the_address_of_the_node_file(node: Node, kubelet: Kubelet) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % free.getsockname()[1]
    node.write(node_file(metrics=address))
    node.start()
    kubelet.devices("railyard.fabric/gpu01")
    # the agent serves metrics after it has registered all devices
    kubelet.wait(lambda: not refused(address))
    with urllib.request.urlopen("http://%s/metrics" % address, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = answer.read().decode()
    assert 'railyard_agent_devices{resource="railyard.fabric/gpu01"} 3\n' in text
    assert 'railyard_agent_info{version="%s",fabric="ai",node="node-1",attachment="macvlan"} 1\n' % VERSION in text
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen("http://%s/other" % address, timeout=10)
    node.write(node_file(metrics=None))
    kubelet.wait(lambda: refused(address))


def test_metrics_stay_at_the_last_address_while_the_next_one_is_in_use(node: Node, kubelet: Kubelet) -> None:
    def metrics(address: str) -> bool:
        with urllib.request.urlopen("http://%s/metrics" % address, timeout=10) as answer:
            return b"railyard_agent_info" in answer.read()

    with socket.socket() as free, socket.socket() as used:
        for each in (free, used):
            each.bind(("127.0.0.1", 0))
        used.listen()
        first, second = ("127.0.0.1:%d" % each.getsockname()[1] for each in (free, used))
        free.close()
        node.write(node_file(metrics=first))
        node.start()
        kubelet.devices("railyard.fabric/gpu01")
        node.write(node_file(metrics=second))
        kubelet.wait(lambda: node.logged("metrics cannot be served on " + second))
        assert "metrics cannot be served on " + second in node.run("status").stdout
        assert metrics(first)
        # all addresses with the port of before
        everywhere = "*" + first[first.index(":") :]
        node.write(node_file(metrics=everywhere))
        kubelet.wait(lambda: node.logged("metrics: the problem is over"))
        assert metrics(first)
        node.write(node_file(metrics=second))
        kubelet.wait(lambda: node.logged("metrics cannot be served on " + second) == 2)
    kubelet.wait(lambda: node.logged("metrics: the problem is over") == 2)
    assert metrics(second) and refused(first)


def refused(address: str) -> bool:
    try:
        urllib.request.urlopen("http://%s/metrics" % address, timeout=10).close()
    except urllib.error.URLError:
        return True
    except OSError:
        return False  # it closes just now
    return False


def test_statistics_of_a_driver_are_read(node: Node) -> None:
    node.start_with_rails()
    assert node.network
    with open("/proc/%d/ns/net" % node.network.pid, "rb") as namespace:
        found = in_namespace(
            namespace.fileno(),
            lambda: ethtool.statistics(["rail1", "lo", "absent0"], lambda name: name == "peer_ifindex"),
        )
    leaf = json.loads(node.inside("ip", "-json", "link", "show", "leaf1"))[0]["ifindex"]
    assert found == {"rail1": {"peer_ifindex": leaf}}


def test_a_rail_that_is_down_is_unhealthy(node: Node, kubelet: Kubelet) -> None:
    node.start_with_rails()

    def health(device: str) -> str:
        return kubelet.devices("railyard.fabric/" + device.partition("-")[0])[device].health

    kubelet.wait(lambda: [health(each) for each in ("rails-0", "gpu01-2", "gpu02-2")] == ["Healthy"] * 3)
    node.inside("ip", "link", "set", "leaf1", "down")
    kubelet.wait(lambda: health("gpu01-2") == "Unhealthy")
    kubelet.wait(lambda: health("rails-0") == "Unhealthy")
    assert health("gpu02-2") == "Healthy"
    status = node.run("status")
    assert status.returncode == 1
    assert re.search(r"^gpu01 +rail1 +rail1 has no carrier$", status.stdout, re.MULTILINE)
    assert re.search(r"^gpu02 +rail2 +healthy$", status.stdout, re.MULTILINE)
    assert node.logged("rail gpu01: rail1 has no carrier\n") == 1
    node.inside("ip", "link", "set", "leaf1", "up")
    kubelet.wait(lambda: health("rails-0") == "Healthy")


def test_a_rail_is_unhealthy_until_its_rdma_device_is_there(node: Node, kubelet: Kubelet) -> None:
    """At boot, ports are up before the RDMA driver is loaded. No link changes when its devices appear."""
    content = node_file()
    for number, each in enumerate(content["rails"]):
        each["rdma"] = "mlx5_%d" % number
    node.write(content)
    node.start_with_rails()
    cdi = node.root / "var/run/cdi/railyard.fabric-rails.json"

    def health(device: str) -> str:
        return kubelet.devices("railyard.fabric/" + device.partition("-")[0])[device].health

    def load(number: int) -> None:
        verbs = "/sys/class/infiniband/mlx5_%d/device/infiniband_verbs/uverbs%d" % (number, number)
        node.put(verbs + "/dev", "231:%d\n" % (192 + number))

    kubelet.wait(lambda: node.logged("rail gpu02: the RDMA device mlx5_1 is not on the node\n"))
    assert [health(each) for each in ("rails-0", "gpu01-2", "gpu02-2")] == ["Unhealthy"] * 3
    load(0)
    kubelet.wait(lambda: health("gpu01-2") == "Healthy")
    assert [health(each) for each in ("rails-0", "gpu02-2")] == ["Unhealthy"] * 2
    status = node.run("status").stdout
    assert re.search(r"^gpu02 +rail2 +the RDMA device mlx5_1 is not on the node$", status, re.MULTILINE)
    load(1)
    kubelet.wait(lambda: health("rails-0") == "Healthy")
    # a healthy device has its files
    nodes = json.loads(cdi.read_text())["devices"][0]["containerEdits"]["deviceNodes"]
    assert [each["path"] for each in nodes] == ["/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1"]
    # a container that was created before the second device does not start without its file
    pod = Pod("early")
    try:
        given = [{"path": "/dev/infiniband/uverbs0", "type": "c", "major": 231, "minor": 192}]
        node.put("/run/bundle/config.json", json.dumps({"linux": {"devices": given}}))
        request = {"do": "attach", "device": "rails-0", "state": pod.state(bundle="/run/bundle")}
        answer = hook.ask(request, str(node.root) + hook.SOCKET)
        assert isinstance(answer, dict)
        assert (answer["reason"], pod.links()) == ("device-files", set())
        assert "/dev/infiniband/uverbs1. Remedy: wait until the kubelet starts the container again" in answer["error"]
    finally:
        pod.end()


def test_a_cordoned_rail_gets_no_new_pods(node: Node, kubelet: Kubelet) -> None:
    node.start_with_rails()

    def health(device: str) -> str:
        return kubelet.devices("railyard.fabric/" + device.partition("-")[0])[device].health

    kubelet.wait(lambda: [health(each) for each in ("rails-0", "gpu01-2", "gpu02-2")] == ["Healthy"] * 3)
    assert node.run("cordon", "gpu01", "--reason", "a new cable").stdout == "rail gpu01: cordoned\n"
    kubelet.wait(lambda: [health(each) for each in ("rails-0", "gpu01-2")] == ["Unhealthy"] * 2)
    assert health("gpu02-2") == "Healthy"
    status = node.run("status")
    assert status.returncode == 1
    assert re.search(r"^gpu01 +rail1 +cordoned: a new cable$", status.stdout, re.MULTILINE)
    # the cordon outlives the agent
    node.stop()
    node.start_with_rails()
    kubelet.wait(lambda: health("gpu02-2") == "Healthy")
    assert health("gpu01-2") == "Unhealthy"
    unknown = node.run("cordon", "gpu09")
    assert unknown.returncode == 1
    assert "rail gpu09: unknown rail; node node-1 has gpu01, gpu02. Remedy: use" in unknown.stderr
    assert [node.run("uncordon", rail).returncode for rail in ("gpu01", "gpu01", "gpu09")] == [0, 0, 1]
    kubelet.wait(lambda: [health(each) for each in ("rails-0", "gpu01-2")] == ["Healthy"] * 2)


def test_an_attached_pod_is_reported_by_all_commands(node: Node, kubelet: Kubelet) -> None:
    node.write(node_file(metrics="127.0.0.1:9465"))
    node.start_with_rails()
    kubelet.devices("railyard.fabric/rails")
    pod, other = Pod("first"), Pod("second")
    try:
        assert node.attach("rails-1", pod) == {"ok": True}
        assert pod.links() == {"net1", "net2"}
        status = node.run("status")
        assert re.search(r"^railyard\.fabric/rails +2 +1 +registered$", status.stdout, re.MULTILINE)
        assert status.returncode == 0, status
        row = r"^rails-1 +gpu02 .* default/first +main +\d+s$"
        assert re.search(row, node.run("slots").stdout, re.MULTILINE)
        explained = node.run("explain", "default/first").stdout
        assert "default/first container main: rails-1\n" in explained
        assert re.search(r"  gpu01 +172\.16\.11\.2/24,fd00:11::2/64 +02:00:00:00:01:01 +attached\n", explained)
        # one slot for two pods: the second is refused, and people see why
        rows = [(1, [(1, name), (2, "default"), (3, [(1, "main"), RAILS_1])]) for name in ("first", "second")]
        kubelet.pods = rows
        answer = node.attach("rails-1", other)
        assert "held by pod default/first" in answer["error"]
        assert answer["error"] in node.log.read_text()
        assert answer["error"] in node.run("status").stdout
        # the agent serves metrics after it has registered all devices
        metrics = retried(lambda: node.inside(sys.executable, "-c", FETCH), subprocess.CalledProcessError)
        labels = r'namespace="default",pod="first",rail="gpu01",interface="net1",device="rails-1"'
        assert re.search(r"^railyard_pod_network_transmit_packets_total\{%s\} \d+$" % labels, metrics, re.MULTILINE)
        assert 'railyard_agent_attach_failures_total{reason="held"} 1\n' in metrics
        assert "railyard_agent_attaches_total 2\n" in metrics
        assert 'railyard_agent_devices_held{resource="railyard.fabric/rails"} 1\n' in metrics
        # until kubelet has deleted it
        assert answer["error"] in node.run("explain", "second").stdout
        assert answer["error"] not in node.run("explain", "first").stdout
        kubelet.pods = rows[:1]
        # a new node file, and a new agent, leave the pod as it is
        before = pod.whole()
        node.write(node_file(env={}))
        kubelet.wait(lambda: node.logged("the node file was read again"))
        kubelet.wait(lambda: answer["error"] not in node.run("status").stdout)
        assert pod.whole() == before
        assert node.attach("gpu01-9", other)["reason"] == "device"
        assert node.stop() == 0
        assert pod.whole() == before
    finally:
        pod.end()
        other.end()


def test_the_cdi_files_are_kept(node: Node, kubelet: Kubelet) -> None:
    node.start()
    path = node.root / "var/run/cdi/railyard.fabric-gpu01.json"
    kubelet.devices("railyard.fabric/gpu01")
    names = [device["name"] for device in json.loads(path.read_text())["devices"]]
    assert names == ["gpu01-2", "gpu01-3", "gpu01-4"]
    path.unlink()
    kubelet.wait(path.exists)


def test_without_grpc_it_names_the_package(node: Node) -> None:
    node.put("/broken/grpc.py", "raise ImportError('no grpc here')\n")
    node.start(PYTHONPATH=str(node.root / "broken"))
    assert node.agent
    assert node.agent.wait(30) == 1
    assert node.logged("no grpc here. Remedy: install the package python3-grpcio")


def test_commands_of_administrators_report_the_state(node: Node) -> None:
    assert node.run("version").stdout.strip() == VERSION
    assert node.run().returncode == 2
    lines = node.run("slots").stdout.splitlines()
    assert re.match(r"DEVICE +RAIL +ADDRESS +MAC +POD +CONTAINER +AGE$", lines[0])
    assert len(lines) == 1 + 10
    row = r"rails-1 +gpu02 +172\.16\.12\.2/24,fd00:12::2/64 +02:00:00:00:02:01 +- +- +-$"
    assert any(re.match(row, line) for line in lines)
    unknown = node.run("explain", "ns/nothing")
    assert unknown.returncode == 1
    assert (
        "pod ns/nothing: has no device of railyard.fabric on node node-1. Remedy: run kubectl describe pod"
        in unknown.stderr
    )


def test_explain_shows_allocated_and_attached_devices(node: Node) -> None:
    # pod_resources 1: name 1, namespace 2, containers 3: name 1, devices 2: resource_name 1, device_ids 2
    devices = [(2, [(1, "railyard.fabric/gpu01"), (2, "gpu01-3")]), (2, [(1, "other/gpu"), (2, "0")])]
    kubelet = Kubelet(node.root, [(1, [(1, "job"), (2, "ns"), (3, [(1, "main"), *devices])])])
    try:
        text = node.run("explain", "job").stdout
    finally:
        kubelet.stop()
    assert "ns/job container main: gpu01-3\n" in text
    row = (
        r"gpu01 +172\.16\.11\.4/24,fd00:11::4/64 +02:00:00:00:01:03 +not attached: its container has not started yet\n"
    )
    assert re.search(row, text)
    assert "the rail agent does not answer" in text


def test_pods_are_named_after_the_record_was_deleted(node: Node, kubelet: Kubelet) -> None:
    node.start_with_rails()
    kubelet.devices("railyard.fabric/rails")
    pod, other = Pod("kept"), Pod("new")
    try:
        assert node.attach("rails-0", pod) == {"ok": True}
        # a restart with the record finds nothing to report
        assert node.stop() == 0
        node.start(*node._there())
        kubelet.wait(lambda: node.logged("serves node node-1") == 2)
        # pods of other tests may run on this machine
        assert not node.logged("crictl inspectp %s" % pod.sandbox_id)
        assert node.stop() == 0
        (node.root / "var/lib/railyard/agent/slots.json").unlink()
        node.start(*node._there())
        kubelet.wait(lambda: node.logged("serves node node-1") == 3)
        expected = "in a pod that is not in the record of slots. Remedy: restart the pod that crictl inspectp %s"
        assert node.logged("device rails-0: its interface net1 is " + expected % pod.sandbox_id) == 1
        assert node.logged("device rails-0: its interface net2 is " + expected % pod.sandbox_id) == 1
        # the slot is not given twice: the kernel refuses a second interface with its MAC address
        assert node.attach("rails-0", other)["ok"] is False
        assert "net1" in pod.run("ip", "-brief", "link")
    finally:
        pod.end()
        other.end()

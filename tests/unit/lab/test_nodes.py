# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests that are Kubernetes nodes: their machine, their files, the ways to and from the API server, pods' rails."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from typing import Any, Iterator

import pytest

from lab import cli, guest, image, node_image, process, state
from lab.cluster import kubelets, lifecycle, parts, pki
from lab.cluster import state as cluster_state
from lab.cluster.binaries import Binaries
from lab.cluster.state import NODE_PORTS, PORTS, Cluster
from lab.errors import LabError
from lab.guest_system import GuestSystem
from lab.image import Image
from lab.qemu import Qemu
from tests.waiting import wait_for

IMAGE = Image(Path("/cache/abc"), "1")
QEMU = Qemu("/usr/bin/qemu-system-x86_64", "/usr/bin/qemu-img", "10.0.2")
OLD = Binaries("/e", "/a", "/m", "1.20.2", "built", "/s", "/k")
NEW = Binaries("/e", "/a", "/m", "1.36.2", "PATH", "/s", "/k")
RAILS_PLUGIN = node_image.FILES / "usr/lib/cni/lab-rails"


def lab(nodes: int = 2, rails: int = 8) -> state.Lab:
    ports = [22001 + number for number in range(nodes)]
    return state.Lab("one", nodes, rails, 1536, "tcg", 1, "/cache/abc", "1", ports, [port + 1000 for port in ports])


def cluster(programs: Binaries = OLD, nodes: int = 2) -> Cluster:
    of_lab = lab(nodes)
    ports = dict(zip(NODE_PORTS, range(21001, 21009)))
    made = Cluster("one", ports, programs, None, dict(zip(of_lab.node_names, of_lab.kubelet_ports)))
    made.save()
    return made


# the machine


def test_management_of_a_node_stays_closed_except_for_the_two_apis(labs: Path) -> None:
    argv = guest.command(lab(), 2, IMAGE, QEMU)
    (user,) = [word for word in argv if word.startswith("user,")]
    assert ",restrict=on," in user
    assert "hostfwd=tcp:127.0.0.1:23002-10.0.2.12:10250" in user
    way, _, line = user.partition("guestfwd=tcp:10.0.2.100:6443-cmd:")
    words = shlex.split(line)
    assert words[-1] == str(labs / "one/cluster/cluster.json")
    # QEMU's children must not be taken for its guest
    assert words[:3] == ["/usr/bin/env", "-u", process.MARK]


def test_most_rails_and_nodes_leave_room_for_the_pod_network(labs: Path) -> None:
    largest = lab(state.MAX_NODES, state.MAX_RAILS)
    assert largest.leaves == state.MAX_RAILS + 1
    assert guest.LAN_SLOT > state.MAX_RAILS
    addresses = [guest.lan_address(node) for node in range(1, state.MAX_NODES + 1)]
    assert len({socket.inet_aton(address) for address in addresses}) == state.MAX_NODES


def test_lab_without_nodes_is_not_made_one_silently(labs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = state.Lab("one", 2, 8, 1024, "tcg", 1, "/nowhere", "1", state.free_ports(2, set()))
    plain.save()
    assert cli.main(["up", "--cluster", "--name", "one"]) == 1
    error = capsys.readouterr().err
    assert "are not Kubernetes nodes" in error and "--fresh" in error
    assert state.load("one") == plain


def test_node_objects_of_real_nodes_are_left_to_their_kubelets(labs: Path) -> None:
    lab().save()
    with pytest.raises(LabError, match="have kubelets.*Remedy: run the command without --nodes"):
        lifecycle.up(lifecycle.Spec("one", nodes=["node-1"]))


def test_scheduler_has_a_port_where_there_are_nodes_and_is_read_back_with_it(labs: Path) -> None:
    assert "scheduler" not in lifecycle._ports(lifecycle.Spec("one"), None)
    kubelets_of = {"node-1": 24001}
    ports = lifecycle._ports(lifecycle.Spec("one", kubelets=kubelets_of), None)
    made = Cluster("one", ports, OLD, None, kubelets_of)
    made.save()
    assert cluster_state.load("one") == made
    assert made.ports["scheduler"] and set(lifecycle._ports(lifecycle.Spec("one"), made)) == set(ports)


def test_cluster_without_nodes_is_not_given_some(labs: Path) -> None:
    Cluster("one", dict(zip(PORTS, state.free_ports(4, set()))), OLD).save()
    with pytest.raises(LabError, match="without the guests as its nodes.*Remedy: lab cluster down --name one"):
        lifecycle.up(lifecycle.Spec("one", kubelets={"node-1": 1}))


# the image


def test_image_of_nodes_is_another_and_changes_with_what_shapes_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    system, kubelet = GuestSystem("debian-13", "debian", "trixie"), tmp_path / "kubelet"
    kubelet.write_bytes(b"1.20.2")
    found = [image.recipe_hash(image.recipe(system)), image.recipe_hash(image.recipe(system, kubelet))]
    assert image.recipe_hash(image.recipe(system, kubelet)) == found[1]
    files = tmp_path / "node"
    files.mkdir()
    for name, value in (("PACKAGES", ["runc"]), ("POD_PACKAGES", ["perftest"]), ("LEAVE_OUT", ()), ("FILES", files)):
        with monkeypatch.context() as patch:
            patch.setattr(node_image, name, value)
            found.append(image.recipe_hash(image.recipe(system, kubelet)))
    kubelet.write_bytes(b"1.20.3")
    found.append(image.recipe_hash(image.recipe(system, kubelet)))
    assert len(set(found)) == len(found) == 7


def test_archive_holds_the_layer_under_the_digest_of_its_content(tmp_path: Path) -> None:
    layer = tmp_path / "pod-layer.tar"
    layer.write_bytes(b"x" * (3 << 20))
    node_image.write_archive(tmp_path / "pod.tar", layer)
    with tarfile.open(tmp_path / "pod.tar") as tar:
        (manifest,) = json.load(tar.extractfile("manifest.json") or pytest.fail())
        config = json.load(tar.extractfile(manifest["Config"]) or pytest.fail())
        (name,) = manifest["Layers"]
        content = (tar.extractfile(name) or pytest.fail()).read()
    assert manifest["RepoTags"] == [node_image.POD_IMAGE]
    digest = subprocess.run(["sha256sum"], input=content, capture_output=True, check=True).stdout.decode().split()[0]
    assert config["rootfs"]["diff_ids"] == ["sha256:" + digest]
    assert content == layer.read_bytes()


def test_sandbox_image_of_containerd_is_the_one_in_its_store() -> None:
    text = (node_image.FILES / "etc/containerd/config.toml").read_text()
    assert 'sandbox_image = "%s"' % node_image.POD_IMAGE in text


# what a node is given


def test_each_node_gets_its_own_addresses_and_routes_to_all_others(labs: Path) -> None:
    of_lab, of_cluster = lab(3), cluster(nodes=3)
    pki.ensure(of_cluster.pki, labs / "log", of_lab.node_names)
    for node in of_lab.node_names:
        pki.write_kubeconfig(of_cluster.directory / (node + ".kubeconfig"), of_cluster.pki, node, "https://a", "one")
    each = [kubelets.files(of_lab, of_cluster, node) for node in (1, 2, 3)]
    lan = [content["etc/systemd/network/05-lan0.network.d/node.conf"] for content in each]
    assert "Address=10.77.0.12/24" in lan[1]
    assert "Destination=10.244.1.0/24\nGateway=10.77.0.11\n" in lan[1]
    assert "Destination=10.244.3.0/24\nGateway=10.77.0.13\n" in lan[1]
    assert "10.244.2.0" not in lan[1]
    networks = [json.loads(content["etc/cni/net.d/10-pod-network.conflist"]) for content in each]
    assert [one["plugins"][0]["ipam"]["ranges"][0][0]["subnet"] for one in networks] == [
        "10.244.%d.0/24" % node for node in (1, 2, 3)
    ]
    assert len({content["etc/kubernetes/kubeconfig"] for content in each}) == 3


def test_kubelets_have_keys_of_their_own_in_the_group_of_nodes(tmp_path: Path) -> None:
    pki.ensure(tmp_path / "pki", tmp_path / "log", ["node-1", "node-2"])
    for name in ("node-1", "node-2"):
        show = ["openssl", "x509", "-noout", "-subject", "-in", str(tmp_path / "pki" / (name + ".crt"))]
        subject = subprocess.run(show, capture_output=True, text=True, check=True).stdout.replace(" ", "")
        assert "O=system:nodes" in subject and "CN=system:node:" + name in subject
    show = ["openssl", "x509", "-noout", "-ext", "subjectAltName", "-in", str(tmp_path / "pki/server.crt")]
    assert guest.API_ADDRESS in subprocess.run(show, capture_output=True, text=True, check=True).stdout


def node_object(name: str, boot: str, ready: str = "True", taints: tuple[str, ...] = ()) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready, "message": "no network"}]
    status = {"conditions": conditions, "nodeInfo": {"bootID": boot}}
    return {"metadata": {"name": name}, "spec": {"taints": [{"key": key} for key in taints]}, "status": status}


@pytest.mark.parametrize(
    ("item", "why"),
    [
        (node_object("node-1", "now"), None),
        (node_object("node-2", "now"), "not registered"),
        (node_object("node-1", "before"), "not reported since its last boot"),
        (node_object("node-1", "now", "False"), "no network"),
        (node_object("node-1", "now", "Unknown"), "no network"),
        (node_object("node-1", "now", taints=("node.kubernetes.io/not-ready",)), "taint"),
        (node_object("node-1", "now", taints=("example.org/mine",)), None),
    ],
)
def test_node_is_ready_when_its_kubelet_reported_so_in_this_boot(item: dict[str, Any], why: str | None) -> None:
    waiting = kubelets.not_ready([item], {"node-1": "now"})
    assert list(waiting) == ([] if why is None else ["node-1"])
    assert why is None or why in waiting["node-1"]


def test_node_that_does_not_answer_is_an_error_and_not_waited_for(labs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_lab, of_cluster = lab(), cluster()
    pki.ensure(of_cluster.pki, labs / "log", ["node-1"])
    kubeconfig = of_cluster.directory / "node-1.kubeconfig"
    pki.write_kubeconfig(kubeconfig, of_cluster.pki, "node-1", "https://a", "one")
    monkeypatch.setattr(kubelets, "FILES_SECONDS", 5.0)
    # nothing listens on the node's port
    of_lab.ssh_config.write_text("Host node-1\n  HostName 127.0.0.1\n  Port %d\n" % state.free_ports(1, set())[0])
    with pytest.raises(LabError, match="node-1 does not answer on SSH.*Remedy: lab up --name one"):
        kubelets._join(of_lab, of_cluster, 1)


# the ways between guests and the API server


@pytest.fixture
def echo() -> Iterator[int]:
    """A server of loopback that answers each connection with what it sent, in capitals, when that has ended."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                near, _address = server.accept()
            except OSError:
                return
            with near:
                data = b""
                while part := near.recv(65536):
                    data += part
                near.sendall(data.upper())

    threading.Thread(target=serve, daemon=True).start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def test_pipe_passes_everything_both_ways_and_ends_with_the_server(echo: int, tmp_path: Path) -> None:
    place = tmp_path / "cluster.json"
    place.write_text(json.dumps({"ports": {"api": echo}}))
    text = b"abc" * 1_000_000
    argv = [sys.executable, "-ISE", str(guest.PIPE), str(place)]
    done = subprocess.run(argv, input=text, capture_output=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == text.upper()


@pytest.mark.parametrize("text", [None, "", "{}", '{"ports": {"api": 1}}'])
def test_pipe_without_a_server_ends_quietly(tmp_path: Path, text: str | None) -> None:
    place = tmp_path / "cluster.json"
    if text is not None:
        place.write_text(text)
    argv = [sys.executable, "-ISE", str(guest.PIPE), str(place)]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")


def connect(place: Path, target: str) -> socket.socket:
    """Ask the egress for a connection; it, after the answer's head."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(120)
    sock.connect(str(place))
    sock.sendall(b"CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n" % target.encode())
    return sock


def listens(place: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(place)) == 0


def test_egress_leads_to_the_kubelet_of_an_address_and_to_nothing_else(echo: int, run: Path) -> None:
    place = run / "egress"
    targets = {"10.77.0.11:10250": echo, "10.77.0.12:10250": 1}
    argv = [sys.executable, "-ISE", str(parts.EGRESS_PROGRAM), str(place), json.dumps(targets)]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: listens(place) or process.poll() is not None)
        assert process.poll() is None
        for target in ("10.77.0.12:10250", "10.77.0.13:10250", "127.0.0.1:%d" % echo):
            with connect(place, target) as sock:
                assert sock.recv(65536).startswith(b"HTTP/1.1 502 ")
        text = b"abc" * 100_000
        with connect(place, "10.77.0.11:10250") as sock:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += sock.recv(1)
            assert head.startswith(b"HTTP/1.1 200 ")
            sock.sendall(text)
            sock.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: sock.recv(65536), b""))
        assert answer == text.upper()
    finally:
        process.kill()
        process.wait()


# pods' rails


PLUGIN = """#!/bin/sh
{ echo "$CNI_COMMAND $CNI_IFNAME $(basename $0)"; cat; echo; } >> %(log)s
[ -e %(log)s.fails ] && [ "$(cat %(log)s.fails)" = "$CNI_IFNAME" ] && { echo '{"code": 7, "msg": "no room"}'; exit 1; }
echo '{"cniVersion": "1.0.0", "from": "'$CNI_IFNAME'"}'
"""
RECORD = """#!/bin/sh
echo "RUN $*" >> %s
"""


class Chain:
    """The lab's chained plugin with plugins that record how they are called."""

    def __init__(self, place: Path) -> None:
        self.log = place / "log"
        self.networks = place / "net.d"
        self.networks.mkdir()
        (place / "bin").mkdir()
        for name, text in (("macvlan", PLUGIN % {"log": self.log}), ("railyard-rail", PLUGIN % {"log": self.log})):
            (place / "bin" / name).write_text(text)
        (place / "bin/nsenter").write_text(RECORD % self.log)
        for program in (place / "bin").iterdir():
            program.chmod(0o755)
        text = RAILS_PLUGIN.read_text()
        for constant, value in (("NETWORKS", self.networks), ("PLUGINS", place / "bin")):
            (line,) = [each for each in text.splitlines() if each.startswith(constant + " = ")]
            text = text.replace(line, "%s = %r" % (constant, str(value)))
        self.program = place / "lab-rails"
        self.program.write_text(text)
        self.path = "%s:%s" % (place / "bin", os.environ["PATH"])
        for rail in (1, 2):
            conf = {"cniVersion": "1.0.0", "name": "gpu0%d-macvlan" % rail}
            conf["plugins"] = [{"type": "macvlan", "master": "enp%ds0" % rail}, {"type": "railyard-rail"}]  # type: ignore[assignment]
            (self.networks / ("railyard-gpu0%d.conflist" % rail)).write_text(json.dumps(conf))

    def call(self, command: str, annotation: str | None) -> tuple[int, Any]:
        annotations = {} if annotation is None else {"k8s.v1.cni.cncf.io/networks": annotation}
        config = {
            "runtimeConfig": {"io.kubernetes.cri.pod-annotations": annotations},
            "prevResult": {"ips": ["eth0's"]},
        }
        env = {
            "PATH": self.path,
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": "0123456789ab",
            "CNI_NETNS": "/run/netns/a",
        }
        done = subprocess.run(
            [sys.executable, "-ISE", str(self.program)],
            input=json.dumps(config),
            capture_output=True,
            text=True,
            env={**env, "CNI_IFNAME": "eth0"},
        )
        return done.returncode, json.loads(done.stdout) if done.stdout.strip() else None

    @property
    def calls(self) -> list[str]:
        """What was called, without the plugins' configuration."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line for line in lines if line and not line.startswith("{")]


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path)


def device(rail: int) -> str:
    return "RUN --net=/run/netns/a rdma link add 01234567-net%d type rxe netdev net%d" % (rail, rail)


@pytest.mark.parametrize(
    "annotation",
    [
        "gpu01-macvlan,gpu02-macvlan",
        " kube-system/gpu01-macvlan , kube-system/gpu02-macvlan@net2",
        '[{"name": "gpu01-macvlan"}, {"name": "gpu02-macvlan", "namespace": "a", "interface": "net2"}]',
    ],
)
def test_pod_gets_the_networks_of_its_annotation_in_their_order(chain: Chain, annotation: str) -> None:
    assert chain.call("ADD", annotation) == (0, {"ips": ["eth0's"]})
    expected = []
    for rail in (1, 2):
        expected += ["ADD net%d macvlan" % rail, "ADD net%d railyard-rail" % rail, device(rail)]
    assert chain.calls == expected
    configs = [json.loads(line) for line in chain.log.read_text().splitlines() if line.startswith("{")]
    assert configs[0]["master"] == "enp1s0" and "prevResult" not in configs[0]
    assert configs[1]["prevResult"]["from"] == "net1"


def test_pod_without_the_annotation_gets_no_rails(chain: Chain) -> None:
    assert chain.call("ADD", None) == (0, {"ips": ["eth0's"]})
    assert chain.call("DEL", None) == (0, None)
    assert chain.calls == []


def test_unknown_network_and_failing_plugin_are_errors_of_the_pod(chain: Chain) -> None:
    status, answer = chain.call("ADD", "gpu09-macvlan")
    assert status == 1 and "no network gpu09-macvlan" in answer["msg"]
    chain.log.with_name("log.fails").write_text("net2")
    status, answer = chain.call("ADD", "gpu01-macvlan,gpu02-macvlan")
    assert status == 1 and "gpu02-macvlan: macvlan" in answer["msg"] and "no room" in answer["msg"]


def test_pods_end_removes_every_network_even_after_a_failure(chain: Chain) -> None:
    chain.log.with_name("log.fails").write_text("net2")
    assert chain.call("DEL", "gpu01-macvlan,gpu02-macvlan,gpu09-macvlan") == (0, None)
    assert chain.calls == [
        *("DEL net2 railyard-rail", "DEL net2 macvlan"),
        *("DEL net1 railyard-rail", "DEL net1 macvlan"),
    ]


def test_version_is_answered(chain: Chain) -> None:
    status, answer = chain.call("VERSION", None)
    assert status == 0 and "1.0.0" in answer["supportedVersions"]

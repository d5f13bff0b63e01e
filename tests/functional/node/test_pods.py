# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods seen from their node: found by cgroups, read in namespaces of the kernel's own."""

from __future__ import annotations

import os
import signal
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import ATTACHED, Holder, SlotState
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.prepared_claims import Claim, ClaimState
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import namespace_entry
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import echo_requests, node_pods
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import network_namespaces, pod_processes
from tests.functional.node.child_process import in_child
from tests.functional.node.own_namespace import LiveNode, in_own_namespace, ip
from tests.waiting import wait_for

FIRST, OWN, OTHER = ("net:[%d]" % number for number in (4026531840, 4026532201, 4026532202))
UIDS = ("0f7c1d6a-3c55-4a8c-9d2e-5b1f0a7e6c3d", "11111111-2222-3333-4444-555555555555")
STAT = "%d (a) b) S 1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0 18446744073709551615"


class Proc:
    """A ``/proc`` laid out in a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.system = System(str(root))
        self.process(1, "0::/init.scope", FIRST)

    def process(self, pid: int, cgroup: str, net: str, started: int = 100, **environment: str) -> Path:
        place = self.root / "proc" / str(pid)
        (place / "ns").mkdir(parents=True)
        (place / "ns/net").symlink_to(net)
        (place / "cgroup").write_text(cgroup + "\n")
        (place / "stat").write_text(STAT % (pid, started))
        (place / "environ").write_bytes(b"\0".join(b"%s=%s" % (k.encode(), v.encode()) for k, v in environment.items()))
        return place


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


UNDER = UIDS[0].replace("-", "_")


@pytest.mark.parametrize(
    ("cgroup", "uid"),
    [
        ("0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod%s.slice/cri-a.scope" % UNDER, 0),
        ("0::/kubepods.slice/kubepods-pod%s.slice/crio-ab12.scope" % UNDER, 0),
        ("0::/kubepods/besteffort/pod%s/ab12" % UIDS[0], 0),
        ("12:pids:/kubepods/pod%s/ab12\n4:memory:/kubepods/pod%s/a\n1:name=systemd:/kubepods" % (UIDS[0], UIDS[0]), 0),
        ("0::/kubepods/pod%s" % UIDS[0], 0),
        # a cluster in a cluster's pod
        ("0::/kubepods/pod%s/ab/kubelet.slice/kubelet-kubepods-pod%s.slice/c.scope" % (UIDS[1], UNDER), 0),
        ("0::/user.slice/user-0.slice/session-1.scope", None),
        ("0::/kubepods/podx%s/ab12" % UIDS[0], None),
        ("0::/system.slice/pod0f7c1d6a.service", None),
        ("", None),
    ],
)  # fmt: skip
def test_whose_a_process_is_follows_from_its_cgroup(cgroup: str, uid: int | None) -> None:
    assert pod_processes.uid_in(cgroup + "\n") == (None if uid is None else UIDS[uid])


def test_a_pods_namespace_is_that_of_its_first_process(proc: Proc) -> None:
    group = "0::/kubepods/pod%s/%s" % (UIDS[0], "%s")
    proc.process(70, group % "conmon", FIRST, started=90)  # a runtime's watchman, on the node's network
    proc.process(90, group % "pause", OWN, started=100)
    proc.process(80, group % "main", OTHER, started=200)  # its number has come around; it went elsewhere
    proc.process(95, group % "main", OWN, started=300)
    found = pod_processes.by_pod(proc.system, UIDS)
    assert [each.pid for each in found[UIDS[0]]] == [70, 90, 80, 95] and found[UIDS[1]] == []
    space = pod_processes.namespace(proc.system, UIDS[0])
    assert space.identity == OWN and sorted(space.processes) == [90, 95]


def test_pods_that_cannot_be_read_are_reported_separately(proc: Proc) -> None:
    proc.process(70, "0::/kubepods/pod%s/a" % UIDS[0], FIRST)
    host, gone = node_pods.of(proc.system, UIDS)
    assert (host["namespace"], host["processes"], host["why"]) == (
        None,
        1,
        "it has the node's own network (hostNetwork)",
    )
    assert (gone["namespace"], gone["processes"], gone["why"]) == (None, 0, "no process of it runs here")
    assert host["links"] == host["gids"] == gone["rules"] == []
    for uid, why in zip(UIDS, (host["why"], gone["why"])):
        with pytest.raises(RailyardError, match="pod %s: %s" % (uid, why.split("(")[0])):
            pod_processes.namespace(proc.system, uid)


def test_a_pod_that_ends_during_the_read_is_reported(proc: Proc) -> None:
    proc.process(70, "0::/kubepods/pod%s/a" % UIDS[0], OWN)
    (row,) = node_pods.of(proc.system, UIDS[:1])
    assert (row["namespace"], row["why"]) == (OWN, "its network namespace cannot be entered")


def test_of_devices_that_all_share_a_pod_has_the_gids_of_its_addresses() -> None:
    kinds = ("RoCE v1", "RoCE v2")
    gids = [
        {"device": "mlx5_0", "port": 1, "index": index, "type": kinds[index % 2], "address": address, "netdev": None}
        for index, address in enumerate(("172.16.11.201", "172.16.11.7", "172.16.11.8", "fd00:11::7", None))
    ]
    held = [
        {"netdev": "net1", "address": each, "secondary": False, "dynamic": False}
        for each in ("172.16.11.7/24", "fd00:11::7/64")
    ]
    row = node_pods._row({"uid": UIDS[0], "why": ""}, {"addresses": held}, gids)
    assert [(each["index"], each["type"]) for each in row["gids"]] == [(1, "RoCE v2"), (3, "RoCE v2")]
    own = [dict(gids[1], device="mlx5_9", index=5)]
    # in the mode exclusive they are those of its own devices
    assert node_pods._row({"uid": UIDS[0], "why": ""}, {"addresses": held, "gids": own}, [])["gids"] == own


def test_only_settings_leave_the_node(proc: Proc) -> None:
    group = "0::/kubepods/pod%s/%s" % (UIDS[0], "%s")
    proc.process(70, group % "pause", OWN, started=1, PATH="/bin")
    place = proc.process(
        80,
        group % "main",
        OWN,
        started=2,
        PASSWORD="hush\nNCCL_LIE=1",  # noqa: S106
        NCCL_IB_HCA="=mlx5_0:1",
        UCX_NET_DEVICES="mlx5_0:1",
        MY_NCCL="no",
    )
    proc.process(90, group % "main", OWN, started=3, NCCL_IB_HCA="a child's own", NCCL_DEBUG="INFO")
    (place / "root/etc").mkdir(parents=True)
    (place / "root/etc/nccl.conf").write_text("# NCCL_X=1\nNCCL_IB_TC=106\nNCCL_IB_TC=1\npassword=hush\n")
    (row,) = node_pods.of(proc.system, UIDS[:1])
    assert row["settings"] == {
        "environment": {"NCCL_IB_HCA": "=mlx5_0:1", "UCX_NET_DEVICES": "mlx5_0:1"},
        "file": {"NCCL_IB_TC": "106"},
    }
    # what is not a file is not read, and what leads elsewhere is not followed
    secret = proc.root / "secret"
    secret.write_text("NCCL_STOLEN=1\n")
    file = place / "root/etc/nccl.conf"
    for make in (lambda: os.symlink(secret, file), lambda: os.mkfifo(file), lambda: file.mkdir()):
        file.unlink()
        make()
        (row,) = node_pods.of(proc.system, UIDS[:1])
        assert row["settings"]["file"] is None


def test_held_devices_are_reported_with_claims_that_are_not_attached(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    rows = tuple({"device": device, "request": "r"} for device in ("rails-0", "gpu01-2"))
    ClaimState(system).put(Claim("uid-of-claim", "ns", "net", "uid", "a", rows))
    SlotState(system).take(Holder("rails-0", "uid", "a", "ns", "main", "sandbox", 99, 1, ATTACHED, 1.0))
    assert node_pods.look({"pods": [], "files": []}, system)["held"] == {
        "rails-0": "ns/a",
        "gpu01-2": "ns/a (claim net, not attached)",
    }


def test_files_of_the_node_are_reported_with_their_settings(tmp_path: Path) -> None:
    (tmp_path / "nccl.conf").write_text("# BEGIN railyard.fabric\nNCCL_IB_HCA==mlx5_gpu01:1\n# END\nother=1\n")
    given = {"pods": [], "files": ["/nccl.conf", "/ucx.conf"]}
    found = node_pods.look(given, System(str(tmp_path)))
    assert found == {
        "rdma_mode": None,
        "pods": [],
        "held": {},
        "cordons": {},
        "files": {"/nccl.conf": {"NCCL_IB_HCA": "=mlx5_gpu01:1"}, "/ucx.conf": None},
    }


# -- on the kernel -----------------------------------------------------------------------------------------------------


def pod(live: LiveNode, uid: str, address: str, name: str = "net1", mtu: int = 4200, **environment: str) -> int:
    """A pod with one rail: a veth pair whose other end is in this namespace, as a bridge's port. Its process."""
    place = Path(
        "/run/cgroup/kubepods.slice/kubepods-pod%s.slice/cri-containerd-%s.scope" % (uid.replace("-", "_"), uid)
    )
    if place.exists():  # left by a run that was killed
        for left in (place / "cgroup.procs").read_text().split():
            os.kill(int(left), signal.SIGKILL)
    place.mkdir(parents=True, exist_ok=True)
    script = "mount -t tmpfs none /etc && echo NCCL_IB_TC=106 > /etc/nccl.conf && exec sleep 3600"
    own = dict(os.environ, NCCL_DEBUG="WARN", TOKEN="hush", **environment)
    made = subprocess.Popen(["unshare", "--net", "--mount", "sh", "-c", script], env=own)
    live._started.append(made)
    (place / "cgroup.procs").write_text(str(made.pid))
    inside = ["nsenter", "--net=/proc/%d/ns/net" % made.pid]
    wait_for(lambda: Path("/proc/%d/comm" % made.pid).read_text() == "sleep\n", "the pod does not start")
    end = "pod%d" % made.pid
    ip("link", "add", end, "type", "veth", "peer", "name", name, "netns", str(made.pid))
    ip("link", "set", end, "up", "mtu", "9000", "master", "rail")
    for words in (
        "ip link set lo up",
        "ip link set %s mtu %d up" % (name, mtu),
        "ip address add %s/24 dev %s" % (address, name),
        "ip route add default via 172.16.11.254 dev %s table 101" % name,
        "ip route add 172.16.11.0/24 dev %s table 101" % name,
        "ip rule add priority 10001 from %s lookup 101" % address,
    ):
        subprocess.run([*inside, *words.split()], check=True, capture_output=True)
    return made.pid


def ground(live: LiveNode) -> None:
    os.makedirs("/run/cgroup")
    subprocess.run(["mount", "-t", "cgroup2", "none", "/run/cgroup"], check=True)
    ip("link", "add", "rail", "type", "bridge")
    ip("link", "set", "rail", "up", "mtu", "9000")


@in_own_namespace
def test_a_pods_interfaces_tables_and_rules_are_read_from_the_node(live: LiveNode) -> None:
    ground(live)
    pid = pod(live, UIDS[0], "172.16.11.7")
    try:
        pod(live, UIDS[1], "172.16.11.8", name="rail0", mtu=1500)
        here = os.readlink("/proc/self/ns/net")
        one, other = node_pods.look({"pods": list(UIDS), "files": []}, System())["pods"]
        # who looks has been nowhere
        assert os.readlink("/proc/self/ns/net") == here
        assert one["why"] == other["why"] == "" and one["namespace"] == os.readlink("/proc/%d/ns/net" % pid)
        assert [(row["netdev"], row["up"], row["mtu"]) for row in one["links"]] == [("net1", True, 4200)]
        assert one["addresses"] == [
            {"netdev": "net1", "address": "172.16.11.7/24", "secondary": False, "dynamic": False}
        ]
        assert {(row["netdev"], row["to"], row["via"], row["table"]) for row in one["routes"]} == {
            ("net1", "0.0.0.0/0", "172.16.11.254", 101),
            ("net1", "172.16.11.0/24", None, 101),
        }
        assert one["rules"] == [{"from": "172.16.11.7/32", "oif": None, "table": 101, "priority": 10001}]
        assert one["settings"] == {"environment": {"NCCL_DEBUG": "WARN"}, "file": {"NCCL_IB_TC": "106"}}
        assert [(row["netdev"], row["mtu"]) for row in other["links"]] == [("rail0", 1500)]
    finally:
        leave(live)


@in_own_namespace
def test_from_pod_to_pod_packets_are_as_large_as_planned(live: LiveNode) -> None:
    ground(live)
    pod(live, UIDS[0], "172.16.11.7")
    try:
        pod(live, UIDS[1], "172.16.11.8")
        system = System()

        def within() -> None:
            namespace_entry.move(system, pod_processes.namespace(system, UIDS[0]))
            assert sorted(os.listdir("/sys/class/net")) == ["lo", "net1"]
            base: dict[str, t.Any] = {"rail": "gpu01", "peer": "b", "netdev": "net1", "source": "172.16.11.7"}
            targets = [dict(base, address="172.16.11.8", mtu=size) for size in (4200, 4201)]
            full, larger = echo_requests.reach(targets, 2, 2.0)
            assert (full["received"], full["error"]) == (2, "")
            assert (larger["received"], larger["error"]) == (0, "Message too long")

        here = os.listdir("/sys/class/net")
        in_child(within)
        assert os.listdir("/sys/class/net") == here
    finally:
        leave(live)


def leave(live: LiveNode) -> None:
    """Take the pods' cgroups away, which outlive the test's namespaces."""
    for process in live._started[1:]:
        process.kill()
        process.wait()
    del live._started[1:]
    for place, _directories, _files in os.walk("/run/cgroup/kubepods.slice", topdown=False):
        os.rmdir(place)


def test_a_process_is_known_by_its_start(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    proc.process(70, "", OWN, started=4711)
    assert network_namespaces.started(proc.system, 70) == "4711" and network_namespaces.started(proc.system, 71) is None

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of a node: systemd that keeps state, a real process whose limit is raised, a kernel with scattered memory."""

from __future__ import annotations

import errno
import re
import resource
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Errors, RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.host import memlock, rail_limits
from ansible_collections.railyard.fabric.plugins.module_utils._node.host.rail_limits import RailLimits
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import vf_holders
from tests.unit.node.nic_kernel import Killed
from tests.unit.node.trees import Tree

LIMITS = "Limit                     Soft Limit           Hard Limit           Units     \n%-26s%-21s%-21sbytes"


class Node(System):
    """systemd, its services' processes, and a kernel that has no more than ``memory`` pages."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root), self.answer)
        self.tree = Tree(root)
        self.programs = {"timedatectl"}
        self.services = {"containerd": 812, "kubelet": 0}
        self.loaded = {name: "8388608" for name in self.services}
        #: services of which systemd has read a drop-in of ours
        self.read_drop_ins: set[str] = set()
        self.operations: list[str] = []
        self.kill_at: int | None = None
        self.memory = 10**6
        self.others: dict[str, str] = {}
        self.synchronized = "yes"
        #: what NetworkManager has read
        self.network_manager = ""
        (root / "run/systemd/system").mkdir(parents=True)
        self.process(812, "8388608")
        for netdev in ("rail0", "eth0"):
            self.tree.write("/sys/class/net/%s/address" % netdev, "02:00:00:00:00:01")
            self.tree.write("/proc/sys/net/ipv4/conf/%s/rp_filter" % netdev, "0")
        self.tree.write("/proc/sys/net/ipv4/conf/all/rp_filter", "0")
        for family in ("ipv4", "ipv6"):
            for key, value in (("gc_thresh1", 128), ("gc_thresh2", 512), ("gc_thresh3", 1024)):
                self.tree.write("/proc/sys/net/%s/neigh/default/%s" % (family, key), str(value))
        for size in (2048, 1048576):
            for name in ("nr_hugepages", "free_hugepages"):
                self.tree.write("/sys/kernel/mm/hugepages/hugepages-%dkB/%s" % (size, name), "0")

    def process(self, pid: int, limit: str) -> None:
        self.tree.write("/proc/%d/limits" % pid, LIMITS % ("Max locked memory", limit, limit))

    def give(self, pid: int) -> None:
        self.did("prlimit %d" % pid)
        self.process(pid, "unlimited")

    def which(self, program: str) -> str | None:
        return "/usr/bin/" + program if program in self.programs else None

    def drop_in(self, name: str) -> str | None:
        return self.read_file(memlock.DROP_IN % name)

    def start(self, name: str) -> None:
        """As systemd starts a service."""
        self.services[name] = self.services[name] or 900
        self.loaded[name] = "infinity" if self.drop_in(name) else "8388608"
        self.read_drop_ins = self.read_drop_ins - {name} | ({name} if self.drop_in(name) else set())
        self.process(self.services[name], "unlimited" if self.drop_in(name) else "8388608")

    def answer(self, argv: t.Sequence[str], timeout: float) -> CommandResult:
        if argv[:2] == ["systemctl", "show"]:
            return CommandResult(0, "\n\n".join(self.shown(each[: -len(".service")]) for each in argv[3:]) + "\n", "")
        if argv[0] == "timedatectl":
            return CommandResult(0, self.synchronized + "\n", "")
        self.did(" ".join(argv))
        if argv[0] == "nmcli":
            self.network_manager = self.read_file(rail_limits.NETWORK_MANAGER_FILE) or ""
        if argv[-1] == "daemon-reload":
            self.read_drop_ins = {name for name in self.loaded if self.drop_in(name)}
            for name in self.loaded:
                self.loaded[name] = self.others.get(name) or ("infinity" if self.drop_in(name) else "8388608")
        return CommandResult(0, "", "")

    def shown(self, name: str) -> str:
        if name not in self.services:
            return "MainPID=0\nLimitMEMLOCK=8388608\nId=%s.service\nLoadState=not-found\nNeedDaemonReload=no" % name
        stale = self.loaded[name] != (self.others.get(name) or ("infinity" if self.drop_in(name) else "8388608"))
        paths = ["/lib/systemd/system/service.d/10-others.conf"]
        paths += [memlock.DROP_IN % name] if name in self.read_drop_ins else []
        row = "MainPID=%d\nLimitMEMLOCK=%s\nId=%s.service\nLoadState=loaded\nDropInPaths=%s\nNeedDaemonReload=%s"
        return row % (self.services[name], self.loaded[name], name, " ".join(paths), "yes" if stale else "no")

    def write_attribute(self, path: str, text: str) -> None:
        self.did("%s = %s" % (path, text))
        if path.endswith("nr_hugepages"):
            text = str(min(int(text), self.memory))
        Path(self.path(path)).write_text(text + "\n")

    def write_file(self, path: str, data: str | bytes, mode: int = 0o644) -> None:
        self.did("write " + path)
        super().write_file(path, data, mode)

    def remove_file(self, path: str) -> None:
        self.did("remove " + path)
        super().remove_file(path)

    def boot(self) -> None:
        """What a boot does: /run is empty, services have what their files say."""
        shutil.rmtree(self.path("/run/railyard"), ignore_errors=True)
        for name, pid in self.services.items():
            if pid:
                self.start(name)

    def did(self, what: str) -> None:
        if self.kill_at is not None and len(self.operations) >= self.kill_at:
            raise Killed(what)
        self.operations.append(what)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    return Node(tmp_path)


def run(node: Node, **options: t.Any) -> tuple[list[tuple[t.Any, ...]], dict[str, t.Any], RailLimits]:
    it = RailLimits(options, node, node.give)
    state = it.observe()
    changes = it.changes(state)
    done: list[Change] = []
    state = converge(it, state, changes, done)
    return [(each.subject, each.attribute, each.before, each.after) for each in done], state, it


RAIL: list[dict[str, str]] = [{"netdev": "rail0"}]
BOTH: list[dict[str, str]] = [*RAIL, {"netdev": "eth0"}]
ALL: dict[str, t.Any] = {
    "ports": RAIL,
    "memlock": "unlimited",
    "hugepages": [{"size_kb": 2048, "count": 64}],
    "neighbours": {"gc_thresh1": 4096, "gc_thresh2": 8192, "gc_thresh3": 16384},
    "network_manager": "unmanaged",
    "cloud_init": "disabled",
}


# -- memlock --------------------------------------------------------------------------------------------------------


def test_the_memlock_limit_of_containers_applies_without_a_restart(node: Node) -> None:
    done, state, _it = run(node, memlock="unlimited")
    assert done == [
        (memlock.DROP_IN % "containerd", "LimitMEMLOCK", "8388608", "unlimited"),
        (memlock.DROP_IN % "kubelet", "LimitMEMLOCK", "8388608", "unlimited"),
        ("systemd", "units", "older", "reloaded"),
        ("containerd (pid 812)", "Max locked memory", "8388608", "unlimited"),
    ]
    assert [(row["service"], row["configured"], row["live"]) for row in state["memlock"]] == [
        ("containerd", "unlimited", "unlimited"),
        ("kubelet", "unlimited", None),
    ]
    assert not [each for each in node.operations if "restart" in each]
    assert run(node, memlock="unlimited")[0] == []
    node.start("kubelet")
    assert run(node, memlock="unlimited")[0] == []


def test_a_service_with_the_limit_gets_no_drop_in(node: Node) -> None:
    node.loaded = {"containerd": "infinity", "kubelet": "18446744073709551615"}
    node.process(812, "unlimited")
    assert run(node, memlock="unlimited")[0] == []
    assert node.operations == []


def test_a_drop_in_with_priority_is_reported(node: Node) -> None:
    node.others["kubelet"] = "65536"
    with pytest.raises(RailyardError, match="kubelet: gets LimitMEMLOCK=65536 all the same: another drop-in") as caught:
        run(node, memlock="unlimited")
    assert "systemctl cat kubelet" in caught.value.remedy


def test_without_systemd_no_drop_in_is_written(node: Node) -> None:
    (Path(node.root) / "run/systemd/system").rmdir()
    assert run(node, memlock="unlimited")[0] == []


def test_a_limit_that_cannot_be_raised_names_the_remedy(node: Node) -> None:
    def give(_pid: int) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    it = RailLimits({"memlock": "unlimited"}, node, give)
    with pytest.raises(RailyardError, match="cannot be raised: Operation not permitted") as caught:
        converge(it, {}, it.changes(it.observe()), [])
    assert "restart containerd when it may be" in caught.value.remedy


def test_another_process_with_the_number_of_the_service_gets_no_limit(node: Node) -> None:
    node.tree.write("/proc/812/stat", "812 (containerd) S " + "0 " * 18 + "100 0")
    it = RailLimits({"memlock": "unlimited"}, node, node.give)
    changes = it.changes(it.observe())
    node.tree.write("/proc/812/stat", "812 (train) S " + "0 " * 18 + "200 0")
    with pytest.raises(RailyardError, match="has ended since it was read") as caught:
        changes[-1].act()
    assert caught.value.place == "containerd (pid 812)" and "prlimit 812" not in node.operations


def test_a_real_process_and_its_children() -> None:
    """What a runtime starts from then on has it: asked of the kernel, by /proc."""
    script = (
        "import resource, subprocess, sys\n"
        "resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]))\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "print(subprocess.check_output(['cat', '/proc/self/limits'], text=True))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        limits = memlock.Memlock(System(), ())
        assert limits._live(child.pid) == "65536"
        # as far as this process may raise it
        most = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
        expected = "unlimited" if most == resource.RLIM_INFINITY else str(most)
        memlock.raise_limit(child.pid, most)
        assert limits._live(child.pid) == expected != "65536"
        output, _error = child.communicate("\n")
    assert re.search(r"^Max locked memory\s+%s\s+%s" % (expected, expected), output, re.MULTILINE)


# -- pages, tables, others --------------------------------------------------------------------------------------------


def test_hugepages_now_and_at_boot(node: Node) -> None:
    done, state, _it = run(node, hugepages=[{"size_kb": 2048, "count": 64}])
    assert [(each[1], each[3]) for each in done][1:] == [("nr_hugepages", 64)]
    assert state["hugepages"][0]["count"] == 64
    path = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
    assert (node.read_file(rail_limits.HUGEPAGES_FILE) or "").splitlines()[1:] == ["w %s - - - - 64" % path]
    assert run(node, hugepages=[{"size_kb": 2048, "count": 64}])[0] == []
    assert run(node)[0] == []
    assert [each[3] for each in run(node, hugepages=[])[0]] == [None]


def test_scattered_memory_needs_a_reboot(node: Node) -> None:
    node.memory = 40
    done, state, it = run(node, hugepages=[{"size_kb": 2048, "count": 64}])
    assert [each[1] for each in done] == ["hugepages"] and state["hugepages"][0]["count"] == 40
    assert "memory is too scattered" in it.warnings[-1]
    assert it.outcome(state, []) == {
        "reboot_required": True,
        "reboot_reasons": [
            "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages is 40 and will be as wanted after a reboot"
        ],
    }
    assert run(node, hugepages=[{"size_kb": 2048, "count": 64}])[0] == []


@pytest.mark.parametrize(
    ("memory", "most"), [(1 << 20, 256), (64 << 20, 30720), (256 << 10, 0)], ids=["1 GiB", "64 GiB", "256 MiB"]
)
def test_hugepages_that_leave_too_little_are_refused(node: Node, memory: int, most: int) -> None:
    node.tree.write("/proc/meminfo", "MemTotal:       %d kB\nMemFree:          9 kB" % memory)
    with pytest.raises(RailyardError, match="too little of the node's %d MiB of memory" % (memory >> 10)) as caught:
        run(node, hugepages=[{"size_kb": 2048, "count": most + 1}])
    assert caught.value.place == "hugepages" and not node.operations
    assert run(node, hugepages=[{"size_kb": 2048, "count": most}])[1]["hugepages"][0]["count"] == most


def test_neighbour_tables_grow_and_never_shrink(node: Node) -> None:
    node.tree.write("/proc/sys/net/ipv6/neigh/default/gc_thresh3", "99999")
    done, state, _it = run(node, neighbours={"gc_thresh1": 4096, "gc_thresh3": 16384, "gc_thresh2": None})
    assert [(each[0], each[3]) for each in done][1:] == [
        ("/proc/sys/net/ipv4/neigh/default/gc_thresh3", 16384),
        ("/proc/sys/net/ipv4/neigh/default/gc_thresh1", 4096),
        ("/proc/sys/net/ipv6/neigh/default/gc_thresh1", 4096),
    ]
    assert "net.ipv4.neigh.default.gc_thresh3 = 16384\n" in (node.read_file(rail_limits.NEIGHBOURS_FILE) or "")
    assert state["neighbours"] == {"gc_thresh1": 4096, "gc_thresh2": 512, "gc_thresh3": 16384}


def test_a_later_file_is_reported(node: Node) -> None:
    node.tree.write("/etc/sysctl.d/99-site.conf", "net/ipv4/neigh/default/gc_thresh3=2048")
    _done, _state, it = run(node, neighbours={"gc_thresh3": 16384})
    assert it.warnings[-1].startswith("/etc/sysctl.d/99-site.conf sets net.ipv4.neigh.default.gc_thresh3 after")


def test_networkmanager_and_cloud_init_ignore_rail_ports(node: Node) -> None:
    (Path(node.root) / "etc/NetworkManager").mkdir(parents=True)
    (Path(node.root) / "etc/cloud/cloud.cfg.d").mkdir(parents=True)
    node.programs.add("nmcli")
    done, state, _it = run(node, ports=RAIL, network_manager="unmanaged", cloud_init="disabled")
    assert [each[0] for each in done] == [
        rail_limits.NETWORK_MANAGER_FILE,
        "NetworkManager",
        rail_limits.CLOUD_INIT_FILE,
    ]
    assert "match-device=interface-name:rail0\nmanaged=0" in (node.read_file(rail_limits.NETWORK_MANAGER_FILE) or "")
    assert (state["network_manager"], state["cloud_init"]) == ("unmanaged", "disabled")
    assert run(node, ports=RAIL, network_manager="unmanaged", cloud_init="disabled")[0] == []


def test_networkmanager_is_reloaded_after_an_interrupted_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    wanted: t.Any = {"ports": RAIL, "network_manager": "unmanaged"}
    place = 0
    while True:
        node = Node(tmp_path / str(place))
        (tmp_path / str(place) / "etc/NetworkManager").mkdir(parents=True)
        node.programs.add("nmcli")
        node.kill_at = place
        try:
            run(node, **wanted)
            break
        except Killed:
            node.kill_at = None
        run(node, **wanted)
        assert "rail0\nmanaged=0\n" in node.network_manager
        node.operations.clear()
        assert run(node, **wanted)[0] == node.operations == []
        place += 1
    assert place == 3 and node.operations == [
        "write " + rail_limits.NETWORK_MANAGER_FILE,
        "nmcli general reload conf",
        "write " + rail_limits.NETWORK_MANAGER_FILE,
    ]


def test_a_port_that_gets_its_name_later_is_ignored_by_that_name(node: Node) -> None:
    (Path(node.root) / "etc/NetworkManager").mkdir(parents=True)
    node.tree.write("/sys/bus/pci/devices/0000:0b:00.0/net/rail0/address", "02:00:00:00:00:01")
    node.tree.write("/sys/bus/pci/devices/0000:0c:00.0/vendor", "0x15b3")
    ports = [{"pci": "0000:0b:00.0", "netdev": "gpu01"}, {"pci": "0000:0c:00.0", "netdev": "gpu02"}]
    _done, state, _it = run(node, ports=ports, network_manager="unmanaged")
    text = node.read_file(rail_limits.NETWORK_MANAGER_FILE) or ""
    assert "match-device=interface-name:gpu01,interface-name:gpu02\n" in text
    # the second shows no netdev: its driver is not loaded, or a pod has it
    assert state["rp_filter"] == {"rail0": 0}
    assert run(node, ports=[{"pci": "0000:0b:00.0"}])[1]["rp_filter"] == {"rail0": 0}


def test_without_managers_no_file_is_written(node: Node) -> None:
    assert run(node, ports=RAIL, network_manager="unmanaged", cloud_init="disabled")[0] == []


def test_networkmanager_as_back_end_does_not_ignore_rail_ports(node: Node) -> None:
    node.tree.write("/etc/NetworkManager/system-connections/railyard-gpu01.nmconnection", "")
    with pytest.raises(RailyardError, match="sets the rail ports itself here"):
        run(node, ports=RAIL, network_manager="unmanaged")


def test_the_management_path_stays_with_its_manager(node: Node) -> None:
    (Path(node.root) / "etc/NetworkManager").mkdir(parents=True)
    node.tree.write("/proc/net/route", "Iface\tDestination\tGateway\neth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000")
    with pytest.raises(RailyardError, match="carries the default route"):
        run(node, ports=BOTH, network_manager="unmanaged")
    assert node.operations == []


def test_a_kill_at_any_point_is_completed_by_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    place = 0
    while True:
        node = Node(tmp_path / str(place))
        (Path(node.root) / "etc/NetworkManager").mkdir(parents=True)
        (Path(node.root) / "etc/cloud/cloud.cfg.d").mkdir(parents=True)
        node.kill_at = place
        try:
            run(node, **ALL)
            break
        except Killed:
            pass
        node.kill_at = None
        _done, state, _it = run(node, **ALL)
        assert [row["configured"] for row in state["memlock"]] == ["unlimited"] * 2
        assert state["hugepages"][0]["count"] == 64 and state["cloud_init"] == "disabled"
        assert run(node, **ALL)[0] == []
        place += 1
    assert place > 12


# -- taken back -------------------------------------------------------------------------------------------------------

OURS = [
    memlock.DROP_IN % "containerd",
    memlock.DROP_IN % "kubelet",
    rail_limits.NETWORK_MANAGER_FILE,
    rail_limits.HUGEPAGES_FILE,
    rail_limits.NEIGHBOURS_FILE,
    rail_limits.CLOUD_INIT_FILE,
]
STAYS = [
    "containerd may lock unlimited memory until it is restarted",
    "64 hugepages of 2048 kB stay until the next boot",
    "the neighbour tables stay as large as they are until the next boot",
]


def limited(root: Path) -> Node:
    """A node with all limits, and the files that it had before."""
    node = Node(root)
    (root / "etc/NetworkManager").mkdir(parents=True)
    (root / "etc/cloud/cloud.cfg.d").mkdir(parents=True)
    node.tree.write("/etc/systemd/system/kubelet.service.d/10-kubeadm.conf", "[Service]")
    node.programs.add("nmcli")
    run(node, **ALL)
    assert all(node.exists(path) for path in OURS)
    node.operations.clear()
    return node


@pytest.fixture
def set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    return limited(tmp_path)


def test_our_limits_are_removed(set_up: Node) -> None:
    node = set_up
    it = RailLimits({"state": "absent"}, node, node.give)
    predicted = it.changes(it.observe())
    assert it.outcome({}, predicted) == {"reboot_required": True, "reboot_reasons": STAYS}
    assert not node.operations
    done, state, it = run(node, state="absent")
    assert done == [(each.subject, each.attribute, each.before, each.after) for each in predicted]
    assert [each[0] for each in done] == [
        "/run/railyard/until_boot/rail_limits",
        *OURS[:2],
        "systemd",
        OURS[2],
        "NetworkManager",
        *OURS[3:],
    ]
    assert not any(node.exists(path) for path in OURS)
    # directories that we made are gone too, and others are not
    assert node.listdir("/etc/systemd/system") == ["kubelet.service.d"]
    assert [row["configured"] for row in state["memlock"]] == ["8388608"] * 2
    assert it.outcome(state, [])["reboot_reasons"] == STAYS and it.warnings == []


def test_removal_is_idempotent_and_a_boot_ends_its_reasons(set_up: Node) -> None:
    node = set_up
    run(node, state="absent")
    node.operations.clear()
    done, state, it = run(node, state="absent")
    assert done == [] and node.operations == [] and it.outcome(state, [])["reboot_reasons"] == STAYS
    node.start("containerd")
    done, state, it = run(node, state="absent")
    assert done == [] and it.outcome(state, [])["reboot_reasons"] == STAYS[1:]
    node.boot()
    done, state, it = run(node, state="absent")
    assert done == [] and it.outcome(state, []) == {"reboot_required": False, "reboot_reasons": []}


def test_a_service_of_an_earlier_call_is_reported_until_it_is_restarted(node: Node) -> None:
    node.services["buildkit"], node.loaded["buildkit"] = 931, "8388608"
    node.process(931, "8388608")
    run(node, memlock="unlimited", services=["buildkit"])
    reason = ["buildkit may lock unlimited memory until it is restarted"]
    for _time in range(2):
        _done, state, it = run(node, state="absent")
        assert it.outcome(state, [])["reboot_reasons"] == reason
    node.start("buildkit")
    done, state, it = run(node, state="absent")
    assert done == [] and it.outcome(state, [])["reboot_reasons"] == []


def test_present_clears_the_reasons(set_up: Node) -> None:
    node = set_up
    run(node, state="absent")
    _done, state, it = run(node, **ALL)
    assert it.outcome(state, [])["reboot_required"] is False and all(node.exists(path) for path in OURS)
    assert not node.exists("/run/railyard/until_boot/rail_limits") and run(node, **ALL)[0] == []


def test_absent_on_an_unprepared_node_changes_nothing(node: Node) -> None:
    # a unit that another program has changed, and that systemd has not read, is not ours to load
    node.loaded["containerd"] = "infinity"
    node.process(812, "unlimited")
    done, state, it = run(node, state="absent", ports=[{"netdev": "gone"}])
    assert done == [] and node.operations == [] and it.outcome(state, [])["reboot_reasons"] == []


def test_a_removal_killed_at_any_point_is_completed_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    place = 0
    while True:
        node = limited(tmp_path / str(place))
        node.kill_at = place
        try:
            run(node, state="absent")
            break
        except Killed:
            pass
        node.kill_at = None
        node.operations.clear()
        _done, state, it = run(node, state="absent")
        assert not any(node.exists(path) for path in OURS)
        assert it.outcome(state, [])["reboot_reasons"] == STAYS
        assert [row["configured"] for row in state["memlock"]] == ["8388608"] * 2
        assert run(node, state="absent")[0] == []
        place += 1
    assert place == 10


def test_systemd_is_reloaded_after_an_interrupted_run(node: Node) -> None:
    node.services["containerd"] = 0
    run(node, memlock="unlimited")
    node.kill_at = len(node.operations) + 2
    with pytest.raises(Killed):
        run(node, state="absent")
    node.kill_at = None
    assert not any(node.exists(path) for path in OURS) and not node.exists("/run/railyard/until_boot/rail_limits")
    _done, state, _it = run(node, state="absent")
    assert [row["configured"] for row in state["memlock"]] == ["8388608"] * 2
    assert run(node, state="absent")[0] == []


# -- reported ---------------------------------------------------------------------------------------------------------


def test_settings_that_are_only_reported(node: Node) -> None:
    node.tree.write("/proc/sys/net/ipv4/conf/all/rp_filter", "1")
    node.tree.write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave")
    node.tree.write("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance")
    node.synchronized = "no"
    it = RailLimits({"ports": BOTH}, node)
    state = it.observe()
    assert state["rp_filter"] == {"rail0": 1, "eth0": 1}
    assert state["governors"] == {"powersave": 1, "performance": 1}
    assert [each.partition(":")[0] for each in it.warnings] == [
        "rail0, eth0",
        "The clock is not synchronized. Remedy",
    ]
    # the port's own larger value counts
    node.tree.write("/proc/sys/net/ipv4/conf/rail0/rp_filter", "2")
    assert RailLimits({"ports": RAIL}, node).observe()["rp_filter"] == {"rail0": 2}
    assert node.operations == []


def test_every_error_is_reported_at_once(node: Node) -> None:
    given = {
        "ports": [*RAIL, {"netdev": "rail9"}, {"pci": "0000:09:00.0"}, {}],
        "hugepages": [{"size_kb": 4096, "count": 1}, {"size_kb": 2048, "count": -1}],
        "neighbours": {"gc_thresh1": 4096, "gc_thresh2": 512},
    }
    with pytest.raises(Errors) as caught:
        RailLimits(given, node).observe()
    assert [each.place for each in caught.value.errors] == [
        "ports[1].netdev",
        "ports[2].pci",
        "ports[3]",
        "hugepages[0].size_kb",
        "hugepages[1]",
        "neighbours",
    ]


def test_this_machines_limits_are_read() -> None:
    state = RailLimits({"ports": [{"netdev": "lo"}], "services": []}, System()).observe()
    assert state["rp_filter"]["lo"] in (0, 1, 2) and state["memlock"] == []


def test_a_port_in_a_pod_stays_ignored_by_name(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan knows the port by its function alone, and the interface is in a pod, where it has another name."""
    function = node.tree.function("pci0000:00/0000:00:01.0/0000:0b:00.0")
    node.tree.netdev(function, "ens1")
    wanted: dict[str, t.Any] = {"ports": [{"pci": function}], "network_manager": "unmanaged"}
    (node.tree.root / "etc/NetworkManager").mkdir(parents=True, exist_ok=True)
    run(node, **wanted)
    kept = node.read_file(rail_limits.NETWORK_MANAGER_FILE)
    assert kept and "ens1" in kept
    shutil.rmtree(node.tree.root / ("sys/bus/pci/devices/%s/net/ens1" % function))
    (node.tree.root / "sys/class/net/ens1").unlink()
    monkeypatch.setattr(vf_holders, "moved", lambda _system, each: {each[0]: vf_holders.Moved("a pod has it", "ens1")})
    assert run(node, **wanted)[0] == [] and node.read_file(rail_limits.NETWORK_MANAGER_FILE) == kept

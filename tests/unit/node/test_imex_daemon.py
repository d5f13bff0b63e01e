# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The IMEX daemon of a host: its nodes file and service, with a systemd that keeps state."""

from __future__ import annotations

import contextlib
import os
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.gpu.imex_daemon import (
    NODES,
    RECORD,
    UNIT,
    ImexDaemon,
)
from tests.unit.node.nic_kernel import Killed
from tests.unit.node.trees import Tree

ADDRESSES = ["10.9.0.%d" % number for number in range(1, 19)]
TEXT = "".join("%s\n" % address for address in ADDRESSES)


class Node(System):
    """systemd with nvidia-imex, whose daemon reads its file at its start."""

    def __init__(self, root: Path, state: str = "disabled", active: bool = False) -> None:
        super().__init__(str(root), self.answer)
        self.tree = Tree(root)
        self.state = state
        self.read_by_daemon: str | None = None
        self.active_state = "active" if active else "inactive"
        self.started = 0
        self.installed = True
        self.operations: list[str] = []
        self.kill_at: int | None = None
        (root / "run/systemd/system").mkdir(parents=True)
        (root / "proc/1/fd").mkdir(parents=True)
        self.tree.write(NODES, "")

    def answer(self, argv: t.Sequence[str], _timeout: float) -> CommandResult:
        verb = argv[1]
        if verb == "show":
            if not self.installed:
                return CommandResult(0, "LoadState=not-found\nActiveState=inactive\nUnitFileState=\n", "")
            load = "masked" if self.state.startswith("masked") else "loaded"
            values = (load, self.active_state, self.state, self.started)
            names = ("LoadState", "ActiveState", "UnitFileState", "ExecMainStartTimestampMonotonic")
            return CommandResult(0, "".join("%s=%s\n" % each for each in zip(names, values)), "")
        self.do(verb)
        if verb == "start":
            if self.state.startswith("masked"):
                return CommandResult(1, "", "Unit nvidia-imex.service is masked.")
            if self.active_state not in ("active", "activating", "reloading"):
                self.read_by_daemon = self.read_file(NODES)
                self.started = int(time.monotonic() * 1e6)
            self.active_state = "active"
        elif verb == "stop":
            self.active_state = "inactive"
        elif verb == "enable" and self.state.startswith("masked"):
            return CommandResult(1, "", "Unit file is masked.")
        elif verb == "unmask" and self.state == "masked-runtime" and argv[2] != "--runtime":
            return CommandResult(0, "", "")
        elif not (verb == "disable" and self.state == "masked"):
            self.state = {"enable": "enabled", "disable": "disabled", "mask": "masked", "unmask": "disabled"}[verb]
        return CommandResult(0, "", "")

    @property
    def active(self) -> bool:
        return self.active_state == "active"

    def do(self, operation: str) -> None:
        if self.kill_at is not None and len(self.operations) >= self.kill_at:
            raise Killed()
        self.operations.append(operation)

    def write_file(self, path: str, data: str | bytes, mode: int = 0o644) -> None:
        self.do("write %s" % path)
        super().write_file(path, data, mode)


def run(node: Node, **options: t.Any) -> list[Change]:
    """Run the module once and return its changes."""
    given = {"daemon": "host", "nodes": ADDRESSES, "state": "present", **options}
    one = ImexDaemon(given, node)
    state = one.observe()
    changes = one.changes(state)
    converge(one, state, changes, [])
    return changes


def test_the_daemon_runs_with_the_addresses_of_its_domain(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert [change.attribute for change in run(node)] == ["nodes", "enabled", "active"]
    assert (node.read_file(NODES), node.state, node.active) == (TEXT, "enabled", True)
    assert run(node) == []


def test_a_changed_list_restarts_the_daemon(tmp_path: Path) -> None:
    node = Node(tmp_path)
    run(node)
    changes = run(node, nodes=ADDRESSES[:17])
    assert [(change.attribute, change.kind) for change in changes] == [
        ("active", "step"),
        ("nodes", "setting"),
        ("active", "step"),
    ]
    assert node.read_by_daemon == node.read_file(NODES) == TEXT[: -len("10.9.0.18\n")]


def test_a_run_after_an_interrupted_one_leaves_no_daemon_with_an_old_list(tmp_path: Path) -> None:
    for at in range(8):
        node = Node(tmp_path / str(at))
        run(node, nodes=ADDRESSES[:17])
        node.kill_at = len(node.operations) + at
        try:
            run(node)
        except Killed:
            node.kill_at = None
            run(node)
        assert node.read_by_daemon == TEXT and node.active
        node.kill_at = None
        assert run(node) == []


# The second: the /dev of a container, which has another mount namespace.
@pytest.mark.parametrize("directory", ["/dev/nvidia-caps-imex-channels", "/nvidia-caps-imex-channels"])
def test_a_daemon_that_a_program_uses_is_not_stopped(tmp_path: Path, directory: str) -> None:
    node = Node(tmp_path)
    run(node)
    node.tree.write("/proc/42/comm", "train\n")
    (tmp_path / "proc/42/fd").mkdir()
    (tmp_path / "proc/42/fd/7").symlink_to(directory + "/channel0")
    assert run(node) == []
    for options in ({"nodes": ADDRESSES[:17]}, {"daemon": "compute-domain"}, {"state": "absent"}):
        with pytest.raises(RailyardError, match=r"train \(pid 42\)"):
            run(node, **options)
    assert (node.read_file(NODES), node.active) == (TEXT, True)


def test_compute_domains_mask_the_service_of_the_host(tmp_path: Path) -> None:
    node = Node(tmp_path, "enabled", active=True)
    run(node, daemon="compute-domain")
    assert (node.state, node.active) == ("masked", False)
    assert run(node, daemon="compute-domain") == []
    # and back
    run(node)
    assert (node.state, node.active) == ("enabled", True)


def test_without_the_package_only_the_host_daemon_fails(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.installed = False
    assert run(node, daemon="compute-domain") == []
    with pytest.raises(RailyardError, match="is not installed"):
        run(node)


@pytest.mark.parametrize("state", ["enabled", "disabled", "masked"])
@pytest.mark.parametrize("daemon", ["host", "compute-domain"])
def test_removal_restores_the_former_state(tmp_path: Path, state: str, daemon: str) -> None:
    node = Node(tmp_path, state, active=state == "enabled")
    node.tree.write(NODES, "192.0.2.1\n192.0.2.2")
    run(node, daemon=daemon)
    run(node, daemon=daemon, state="absent")
    assert (node.state, node.active) == (state, state == "enabled")
    assert node.read_file(NODES) == "192.0.2.1\n192.0.2.2\n"
    assert not node.exists(RECORD) and run(node, state="absent") == []


def test_a_missing_file_is_removed_again(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.remove_file(NODES)
    run(node)
    run(node, state="absent")
    assert not node.exists(NODES)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [([], "no address"), (["10.9.0.1", "10.9.0.1"], "given already"), (["tray-01"], "not an IP address")],
)
def test_wrong_lists_are_refused(tmp_path: Path, nodes: list[str], message: str) -> None:
    with pytest.raises(RailyardError, match=message):
        run(Node(tmp_path), nodes=nodes)


def test_another_nodes_file_in_the_configuration_is_refused(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.tree.write("/etc/nvidia-imex/config.cfg", "LOG_LEVEL=4\nIMEX_NODE_CONFIG_FILE=/etc/rack.cfg\n")
    with pytest.raises(RailyardError, match="/etc/rack.cfg"):
        run(node)
    node.tree.write("/etc/nvidia-imex/config.cfg", "LOG_LEVEL=4\nIMEX_NODE_CONFIG_FILE=%s\n" % NODES)
    assert run(node)


def test_a_damaged_record_is_an_error(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.tree.write(RECORD, "{")
    with pytest.raises(RailyardError, match="damaged"):
        run(node, state="absent")
    assert UNIT not in node.operations


@pytest.mark.parametrize("state", ["activating", "deactivating", "failed", "reloading"])
def test_a_daemon_that_starts_or_ends_is_stopped_before_its_list_changes(tmp_path: Path, state: str) -> None:
    node = Node(tmp_path)
    run(node)
    node.active_state = state
    run(node, nodes=ADDRESSES[:17])
    assert (node.read_by_daemon, node.active_state) == (TEXT[: -len("10.9.0.18\n")], "active")


@pytest.mark.parametrize("state", ["activating", "failed"])
def test_a_daemon_that_does_not_stay_active_is_a_difference(tmp_path: Path, state: str) -> None:
    """While systemd waits for the next attempt, a daemon that fails has the state activating."""
    node = Node(tmp_path)
    run(node)
    node.active_state = state
    assert [(change.attribute, change.after) for change in run(node)] == [("active", True)]


def test_a_daemon_that_others_started_before_the_list_changed_is_restarted(tmp_path: Path) -> None:
    node = Node(tmp_path, "enabled")
    node.tree.write(NODES, "192.0.2.1")
    node.answer(["systemctl", "start"], 60)
    node.tree.write(NODES, TEXT.rstrip("\n"))
    one = run(node)
    assert [(change.subject, change.attribute) for change in one] == [
        (UNIT, "active"),
        (UNIT, "nodes"),
        (UNIT, "active"),
    ]
    assert node.read_by_daemon == TEXT and run(node) == []


def test_a_list_with_a_time_in_the_future_restarts_the_daemon_once(tmp_path: Path) -> None:
    node = Node(tmp_path)
    run(node)
    later = time.time() + 86400
    os.utime(tmp_path / NODES.lstrip("/"), (later, later))
    assert run(node)
    assert run(node) == []


@pytest.mark.parametrize("daemon", ["host", "compute-domain"])
def test_a_mask_until_the_next_boot_is_replaced(tmp_path: Path, daemon: str) -> None:
    node = Node(tmp_path, "masked-runtime")
    run(node, daemon=daemon)
    assert node.state == ("enabled" if daemon == "host" else "masked")
    assert run(node, daemon=daemon) == []


def test_an_empty_value_in_the_configuration_does_not_take_the_next_line(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.tree.write("/etc/nvidia-imex/config.cfg", "IMEX_NODE_CONFIG_FILE=\nLOG_LEVEL=4")
    assert run(node)


def test_removal_after_the_package_restores_the_file(tmp_path: Path) -> None:
    node = Node(tmp_path, "enabled")
    node.tree.write(NODES, "192.0.2.1")
    run(node)
    node.installed, node.active_state = False, "inactive"
    run(node, state="absent")
    assert node.read_file(NODES) == "192.0.2.1\n" and not node.exists(RECORD)
    assert node.operations[-1] == "write %s" % NODES


def test_a_record_with_another_type_is_an_error(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.tree.write(RECORD, '{"nodes": ["192.0.2.1"], "enabled": null, "active": false}')
    with pytest.raises(RailyardError, match="damaged"):
        run(node, state="absent")


def test_a_symbolic_link_as_the_list_is_replaced_and_not_followed(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.tree.write("/etc/passwd", "root")
    (tmp_path / NODES.lstrip("/")).unlink()
    (tmp_path / NODES.lstrip("/")).symlink_to(tmp_path / "etc/passwd")
    run(node)
    assert (tmp_path / "etc/passwd").read_text() == "root\n"
    assert node.read_file(NODES) == TEXT and not (tmp_path / NODES.lstrip("/")).is_symlink()


@pytest.mark.parametrize("daemon", ["host", "compute-domain"])
def test_a_removal_after_interrupted_runs_restores_the_former_state(tmp_path: Path, daemon: str) -> None:
    for present_at in range(6):
        for absent_at in range(6):
            node = Node(tmp_path / ("%d-%d" % (present_at, absent_at)), "enabled", active=True)
            node.tree.write(NODES, "192.0.2.1")
            for state, at in (("present", present_at), ("absent", absent_at)):
                node.kill_at = len(node.operations) + at
                with contextlib.suppress(Killed):
                    run(node, daemon=daemon, state=state)
            node.kill_at = None
            run(node, daemon=daemon, state="absent")
            found = (node.read_file(NODES), node.state, node.active_state, node.exists(RECORD))
            assert found == ("192.0.2.1\n", "enabled", "active", False)

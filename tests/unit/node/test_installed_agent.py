# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rail agent as a service of a node: files, restarts and refusals, in a tree of the test's own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import typing as t
import warnings
import zipfile
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import cdi_files, slot_state
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import parse_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import ATTACHED, Holder, SlotState
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent_service.installed_agent import (
    SERVICE,
    RailAgent,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import packed_program
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra import prepared_claims
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.prepared_claims import Claim, ClaimState
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import cordon_file
from tests.unit.node.agent_files import document
from tests.unit.node.packed import reached
from tests.unit.node.service_machine import ServiceMachine

_PORT: dict[str, t.Any] = {
    "rail": "gpu01",
    "number": 1,
    "netdev": "enp1s0",
    "interface": "net1",
    "slots": [{"number": 0, "resource": "rails", "address": "172.16.11.1/24"}],
}
SPEC = document(_PORT, env={})
DUMP = """\
[plugins]
  [plugins.'io.containerd.grpc.v1.cri']
    cdi_spec_dirs = [%s]
    enable_cdi = %s
"""
CDI_DIRS = '"/etc/cdi", "/var/run/cdi"'
FILES = [
    SERVICE.program,
    cdi_files.HOOK,
    SERVICE.command,
    SERVICE.spec,
    SERVICE.unit,
    SERVICE.unit_wanted,
]


class Machine(ServiceMachine):
    """A node with a containerd."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, RailAgent, SPEC)
        self.version: str | None = "1.7.24"
        self.dump = CommandResult(0, DUMP % (CDI_DIRS, "true"), "")
        self.imports: list[str] | None = ["/usr/lib/python3/dist-packages"]

    def which(self, program: str) -> str | None:
        return "/usr/bin/containerd" if program == "containerd" and self.version else super().which(program)

    def answer(self, argv: t.Sequence[str], timeout: float) -> CommandResult:
        line = " ".join(argv)
        if argv[0] == "systemctl":
            return super().answer(argv, timeout)
        if line == "/usr/bin/containerd --version":
            return CommandResult(0, "containerd github.com/containerd/containerd %s~ds1 abc\n" % self.version, "")
        if line.endswith("config dump"):
            return self.dump
        assert "grpc" in line, line
        # isolated, as the service runs
        assert argv[1] == "-I", line
        return CommandResult(1 if self.imports is None else 0, json.dumps(self.imports), "")

    def refused(self, **options: t.Any) -> list[str]:
        agent, before = self.service(**options), self.files()
        with pytest.raises(RailyardError) as caught:
            agent.changes(agent.observe())
        assert self.files() == before
        return str(caught.value).splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def hold(machine: Machine) -> None:
    holder = Holder("rails-0", "uid", "train-0", "default", "main", "sandbox", 99, 1, ATTACHED, 1.0)
    SlotState(machine).take(holder)


def test_the_agent_is_installed_once_and_removed(machine: Machine) -> None:
    done = machine.apply()
    steps = [("systemd", "units"), (SERVICE.name, "service")]
    assert [(each.subject, each.attribute) for each in done][-3:] == [(SERVICE.unit_wanted, "enabled"), *steps]
    assert machine.calls == ["daemon-reload", "restart"]
    assert machine.files() == sorted(FILES)
    assert json.loads(machine.read(SERVICE.spec) or "") == SPEC
    modes = {each: machine.mode(each) for each in FILES[:5]}
    assert modes == dict(zip(FILES, (0o755, 0o755, 0o755, 0o644, 0o644)))
    state = machine.service().observe()
    assert state["service"] == {"enabled": True, "active": True} and state["spec"] == SPEC and state["slots"] == []
    assert (state["runtime"]["version"], state["runtime"]["cdi"]) == ("1.7.24", True)
    for prefix in ("railyard.fabric", "example.com"):
        cdi_files.write_cdi(machine, parse_spec(dict(SPEC, resource_prefix=prefix)))
    others = "/var/run/cdi/example.com-gpu.json", "/var/run/cdi/railyard.fabric-other.json"
    for path in others:
        machine.write_file(path, '{"devices": [{"name": "0", "containerEdits": {"env": ["A=b"]}}]}')
    cordon_file.cordons(machine).put(cordon_file.Cordon("gpu01", "a new cable"))
    machine.apply(state="absent", spec=None)
    assert machine.calls == ["stop", "daemon-reload"] and machine.files() == list(others)


def test_a_cdi_file_of_another_program_is_not_replaced(machine: Machine) -> None:
    path = "/var/run/cdi/nvidia.com-rails.json"
    machine.write_file(path, '{"cdiVersion": "0.5.0", "kind": "nvidia.com/rails", "devices": []}')
    (line,) = machine.refused(spec=dict(SPEC, resource_prefix="nvidia.com"))
    assert line.startswith(path + ": another program has a CDI file with this path. Remedy: set another slots.resource")
    machine.apply()


def test_a_changed_spec_restarts_the_service_and_writes_nothing_else(machine: Machine) -> None:
    (first,) = (each for each in machine.apply() if each.subject == SERVICE.spec)
    assert (first.attribute, first.before, first.after) == ("spec", None, "as planned")
    rail = dict(_PORT, mtu=9000, slots=[*_PORT["slots"], {"number": 1, "resource": "rails"}])
    other = dict(SPEC, env={"NCCL_IB_GID_INDEX": "3"}, rails=[rail])
    *spec, unit, systemd, service = machine.apply(spec=other)
    assert [unit.subject, systemd.subject, service.subject] == [SERVICE.unit, "systemd", SERVICE.name]
    assert {each.subject for each in spec} == {SERVICE.spec}
    name = "spec.rails.%s." % rail["rail"]
    assert [(each.attribute, each.before, each.after) for each in spec] == [
        ("spec.env.NCCL_IB_GID_INDEX", None, "3"),
        (name + "slots.1", None, "as planned"),
        (name + "mtu", None, 9000),
    ]
    assert json.loads(machine.read_file(SERVICE.spec) or "") == other
    back = [(each.attribute, each.before, each.after) for each in machine.apply() if each.subject == SERVICE.spec]
    assert (name + "slots.1", "present", None) in back


def test_a_file_that_was_edited_is_written_again(machine: Machine) -> None:
    machine.apply()
    for path in (SERVICE.program, cdi_files.HOOK, SERVICE.command, SERVICE.unit):
        machine.write_file(path, "edited", 0o755)
        assert path in [each.subject for each in machine.apply()]


@pytest.mark.parametrize("left_out", ["daemon-reload", "restart"])
def test_a_run_that_was_interrupted_before_the_restart_is_completed(machine: Machine, left_out: str) -> None:
    machine.apply()
    agent = machine.service(spec=dict(SPEC, node="node-2"))
    for change in agent.changes(agent.observe()):
        if (change.subject, left_out) in (("systemd", "daemon-reload"), (SERVICE.name, "restart")):
            break
        change.act()
    done = machine.apply(spec=dict(SPEC, node="node-2"))
    assert [each.subject for each in done] == ["systemd", SERVICE.name][left_out == "restart" :]


def test_a_service_that_was_stopped_is_started(machine: Machine) -> None:
    machine.apply()
    machine.active = False
    (change,) = machine.apply()
    assert (change.before, change.after) == ("inactive", "started") and machine.calls == ["restart"]


def test_a_service_that_does_not_start_is_an_error(machine: Machine) -> None:
    machine.starts = False
    agent = machine.service()
    state = agent.observe()
    with pytest.raises(RailyardError, match="railyard-agent.service failed.*Remedy: run 'journalctl -u railyard-agent"):
        converge(agent, state, agent.changes(state), [])


def test_the_agent_of_a_node_with_held_slots_is_not_removed_without_force(machine: Machine) -> None:
    machine.apply()
    hold(machine)
    assert machine.service().observe()["slots"] == [
        {"device": "rails-0", "namespace": "default", "pod": "train-0", "container": "main"}
    ]
    (line,) = machine.refused(state="absent")
    assert line.startswith("slot rails-0: is held by pod default/train-0. Remedy: drain the node first")
    # an upgrade is not refused, and does not touch the record
    before = machine.read(slot_state.FILE)
    machine.apply(spec=dict(SPEC, env={"A": "b"}))
    assert machine.read(slot_state.FILE) == before
    machine.apply(state="absent", force=True)
    assert machine.files() == []


DRA_SPEC = dict(SPEC, kubelet_plugin="dra")


def claim(machine: Machine, driver: str = "railyard.fabric") -> None:
    rows = ({"device": "rails-0", "request": "r"},)
    claims = ClaimState(machine)
    claims.put(Claim("uid-of-claim", "default", "train-0-rails", "uid", "train-0", rows, driver, "node-1"))


@pytest.mark.parametrize(
    ("before", "after", "claimed", "words"),
    [
        (DRA_SPEC, SPEC, True, "kubelet_plugin from dra to device-plugin"),
        (
            DRA_SPEC,
            dict(DRA_SPEC, resource_prefix="other.fabric"),
            True,
            "resource_prefix from railyard.fabric to other",
        ),
        (DRA_SPEC, dict(DRA_SPEC, node="node-2"), True, "node from node-1 to node-2"),
        (SPEC, DRA_SPEC, False, "kubelet_plugin from device-plugin to dra"),
        (SPEC, dict(SPEC, resource_prefix="other.fabric"), False, "resource_prefix from railyard.fabric to other"),
    ],
)
def test_the_way_to_the_kubelet_is_not_changed_while_pods_use_it(
    machine: Machine, before: dict[str, t.Any], after: dict[str, t.Any], claimed: bool, words: str
) -> None:
    machine.apply(spec=before)
    (claim if claimed else hold)(machine)
    (line,) = machine.refused(spec=after)
    user = "is prepared for claim train-0-rails of pod" if claimed else "is held by pod"
    assert line.startswith("slot rails-0: %s default/train-0, and the spec changes %s" % (user, words))
    assert "Remedy: drain the node first" in line
    # other changes are not refused, nor is this one when the pod has ended
    machine.apply(spec=dict(before, env={"A": "b"}))
    machine.remove_file(prepared_claims.FILE if claimed else slot_state.FILE)
    machine.apply(spec=after)


def test_a_pod_of_device_plugins_keeps_its_slot_when_the_node_is_renamed(machine: Machine) -> None:
    machine.apply()
    hold(machine)
    machine.apply(spec=dict(SPEC, node="node-2"))


def test_a_node_file_that_was_lost_is_written_while_pods_hold_slots(machine: Machine) -> None:
    machine.apply()
    hold(machine)
    machine.remove_file(SERVICE.spec)
    machine.apply()
    machine.remove_file(slot_state.FILE)
    machine.apply(spec=DRA_SPEC)
    claim(machine)
    machine.remove_file(SERVICE.spec)
    (line,) = machine.refused(spec=SPEC)
    assert line.startswith("slot rails-0: is prepared for claim train-0-rails of pod default/train-0")
    machine.apply(spec=DRA_SPEC)


def test_the_agent_of_a_node_with_prepared_claims_is_not_removed_without_force(machine: Machine) -> None:
    machine.apply(spec=DRA_SPEC)
    claim(machine)
    assert [row["claim"] for row in machine.service().observe()["claims"]] == ["train-0-rails"]
    (line,) = machine.refused(state="absent")
    assert line.startswith("slot rails-0: is prepared for claim train-0-rails of pod default/train-0. Remedy: drain")
    machine.apply(state="absent", force=True)
    assert machine.files() == []


@pytest.mark.parametrize("record", [slot_state.FILE, prepared_claims.FILE])
def test_a_damaged_record_is_an_error_unless_it_is_removed_with_force(machine: Machine, record: str) -> None:
    machine.apply()
    machine.write_file(record, "{")
    with pytest.raises(RailyardError, match="is damaged"):
        machine.service(state="absent").observe()
    machine.apply(state="absent", force=True)
    assert machine.files() == []


@pytest.mark.parametrize(
    "version, dirs, enabled, wrong",
    [
        ("1.6.20", CDI_DIRS, "true", "containerd 1.6.20 does not support CDI. Remedy: install containerd 1.7 or later"),
        (
            "1.7.24",
            CDI_DIRS,
            "false",
            "CDI is off in containerd 1.7.24. Remedy: under [plugins.'io.containerd.grpc.v1.cri']",
        ),
        (
            "2.1.9",
            CDI_DIRS,
            "false",
            "CDI is off in containerd 2.1.9. Remedy: under [plugins.'io.containerd.cri.v1.runtime']",
        ),
        (
            "2.1.9",
            '"/etc/cdi"',
            "true",
            "containerd reads CDI files from /etc/cdi, not from /var/run/cdi. Remedy: under",
        ),
        (
            None,
            CDI_DIRS,
            "true",
            "containerd is not installed. Remedy: install containerd 1.7",
        ),
    ],
)
def test_a_runtime_without_cdi_is_refused(
    machine: Machine, version: str | None, dirs: str, enabled: str, wrong: str
) -> None:
    machine.version, machine.dump = version, CommandResult(0, DUMP % (dirs, enabled), "")
    (line,) = machine.refused()
    assert wrong in line
    machine.apply(runtime_check=False)


def test_a_containerd_that_started_before_its_configuration_changed_is_refused(machine: Machine) -> None:
    machine.write_file("/etc/containerd/config.toml", "")
    machine.symlink("/usr/bin/containerd", "/proc/77/exe")
    boot = time.time() - 1000
    machine.write_file("/proc/uptime", "%.2f 0.00" % (time.time() - boot))

    def start(seconds_after_boot: int) -> None:
        ticks = seconds_after_boot * os.sysconf("SC_CLK_TCK")
        machine.write_file("/proc/77/stat", "77 (containerd) S %s %d 0" % (" ".join("0" * 18), ticks))

    os.utime(machine.path("/etc/containerd/config.toml"), (boot, boot + 500))
    start(400)
    (line,) = machine.refused()
    assert "/etc/containerd/config.toml: was changed after containerd 1.7.24 started" in line
    assert "Remedy: restart containerd" in line
    machine.apply(runtime_check=False)
    start(600)
    machine.apply()
    machine.write_file("/etc/containerd/conf.d/cdi.toml", "")
    assert len(machine.refused()) == 1
    # CDI is on without the option
    machine.version = "2.1.9"
    machine.apply()


def test_containerd_2_without_the_option_has_cdi(machine: Machine) -> None:
    machine.version, machine.dump = "2.3.0", CommandResult(0, "version = 3\n", "")
    machine.apply()


def test_every_error_is_reported_at_once(machine: Machine) -> None:
    machine.imports = None
    machine.dump = CommandResult(1, "", "broken")
    os.rmdir(machine.path("/run/systemd/system"))
    spec, systemd, grpc, runtime = machine.refused(spec=dict(SPEC, attachment="host"))
    assert spec.startswith("spec: ") and "'host'" in spec
    assert "systemd does not run" in systemd
    assert "its module grpc, with which" in grpc and "install python3-grpcio" in grpc
    assert runtime.startswith("/etc/containerd/config.toml: containerd's configuration cannot be read")


@pytest.mark.parametrize(
    "place, mode, wrong",
    [
        ("/usr/local/lib/railyard", 0o777, "/usr/local/lib/railyard is writable by all users"),
        ("/usr/local/lib", 0o1777, "/usr/local/lib is writable by all users"),
        ("/usr/local/bin", 0o772, "/usr/local/bin is writable by all users"),
        ("/opt/packages", 0o757, "/opt/packages is writable by all users"),
    ],
)
def test_programs_are_not_installed_where_a_user_can_replace_them(
    machine: Machine, place: str, mode: int, wrong: str
) -> None:
    machine.imports = ["/opt/packages/python3", "/opt/not-yet"]
    os.makedirs(machine.path("/opt/packages/python3"))
    os.makedirs(machine.path(place), exist_ok=True)
    os.chmod(machine.path(place), mode)
    assert all(wrong in line and "Remedy: " in line for line in machine.refused())
    os.chmod(machine.path(place), 0o755)
    machine.apply()
    unit = machine.read(SERVICE.unit) or ""
    assert " -I %s run" % SERVICE.program in unit


@pytest.mark.parametrize("entry", ["_node.agent.agent_main", "_node.agent.hook"])
def test_the_programs_have_all_that_they_import(entry: str) -> None:
    assert packed_program.imported(entry) == sorted(reached(entry))


def test_the_packed_programs_run(machine: Machine) -> None:
    machine.apply()
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" "$1" version', sys.executable, machine.path(SERVICE.program)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout, done.stderr
    # without a state on its input it refuses the container
    hook = subprocess.run([machine.path(cdi_files.HOOK), "rails-0"], input="", capture_output=True, text=True)
    assert hook.returncode and hook.stderr and "Traceback" not in hook.stderr


def kubelet(machine: Machine, pid: int, comm: str, *words: str) -> None:
    machine.write_file("/proc/%d/comm" % pid, comm + "\n")
    machine.write_file("/proc/%d/cmdline" % pid, "\0".join([*words, ""]))


@pytest.mark.parametrize(
    ("comm", "words"),
    [
        ("kubelet", ["/usr/bin/kubelet", "--root-dir=/data/kubelet"]),
        ("kubelet", ["/usr/bin/kubelet", "--v=2", "--root-dir", "/data/kubelet"]),
        ("k3s-server", ["k3s", "server", "--kubelet-arg=root-dir=/data/kubelet"]),
    ],
)
def test_a_dra_driver_is_refused_with_another_directory_of_the_kubelet(
    machine: Machine, comm: str, words: list[str]
) -> None:
    for pid in (70, 71):
        kubelet(machine, pid, comm, *words)
    dra = dict(SPEC, kubelet_plugin="dra")
    expected = "/var/lib/kubelet: the kubelet runs with --root-dir=/data/kubelet, .* Remedy: start the kubelet without"
    with pytest.raises(RailyardError, match=expected) as caught:
        machine.apply(spec=dra)
    assert len(caught.value.errors) == 1
    assert not machine.exists(SERVICE.unit)
    # the directory of device plugins is always the same
    machine.apply(spec=SPEC)
    # a link makes both directories one
    os.makedirs(machine.path("/data/kubelet"))
    os.makedirs(machine.path("/var/lib"), exist_ok=True)
    os.symlink(machine.path("/data/kubelet"), machine.path("/var/lib/kubelet"))
    machine.apply(spec=dra)


def test_a_directory_of_the_kubelet_in_home_is_refused(machine: Machine) -> None:
    os.makedirs(machine.path("/home/kubelet"))
    os.makedirs(machine.path("/var/lib"), exist_ok=True)
    os.symlink(machine.path("/home/kubelet"), machine.path("/var/lib/kubelet"))
    expected = "/var/lib/kubelet: it is a link to /home/kubelet, which a service with ProtectHome= cannot read"
    with pytest.raises(RailyardError, match=expected):
        machine.apply(spec=SPEC)
    assert not machine.exists(SERVICE.unit)


def test_systemd_rates_the_unit_as_restricted(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / SERVICE.name
    unit.write_text(SERVICE.unit_text.format(python=sys.executable, stamp="x"))
    argv = [program, "security", "--no-pager", "--offline=true", str(unit)]
    rated = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    found = re.search(r"Overall exposure level for railyard-agent.service: ([0-9.]+)", rated)
    assert found and float(found.group(1)) <= 3.7, rated
    # systemd ignores directives that it does not know
    checked = subprocess.run([program, "verify", str(unit)], capture_output=True, text=True)
    assert "Unknown" not in checked.stderr and "Failed to parse" not in checked.stderr, checked


@pytest.mark.parametrize("path", [SERVICE.program, cdi_files.HOOK])
@pytest.mark.parametrize("change", ["appended", "comment", "second member", "added member"])
def test_a_program_with_anything_else_is_written_again(machine: Machine, path: str, change: str) -> None:
    machine.apply()
    installed = Path(machine.path(path))
    ours = installed.read_bytes()
    if change == "appended":
        installed.write_bytes(ours + b"x")
    else:
        with zipfile.ZipFile(installed, "a") as archive:
            if change == "comment":
                archive.comment = b"x"
            else:
                name = "__main__.py" if change == "second member" else "other.py"
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    archive.writestr(name, archive.read("__main__.py"))
    assert path in [each.subject for each in machine.apply()]

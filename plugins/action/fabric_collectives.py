# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import shlex
import time
import typing as t
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.object_files import as_yaml
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_ranges import fold_names
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import (
    command,
    named,
    playbook,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.collectives import (
    collective_command,
    collective_verdict,
    mpi_job,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.collectives.collective_verdict import (
    Done,
    Judged,
    Planned,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.floors import (
    collective_floors,
    rail_floors,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils import _fabric_files, _output, _planned
from ansible_collections.railyard.fabric.plugins.plugin_utils._controller_action import ControllerAction

_FILE = "collectives.json"
_SOURCE = Path(__file__).resolve().parents[2] / "playbooks/files/mpi_collectives.py"
# The largest output in bytes.
_MOST = 64 << 20
# The variable of each node with its name for the launcher.
_NAME = "__collectives_host"
# PCIe generation -> GT/s of a lane.
_TRANSFERS = {1: 2.5, 2: 5, 3: 8, 4: 16, 5: 32, 6: 64}
# The largest message in bytes.
_SIZES = {collective_command.GPU: 8 << 30, collective_command.HOST: 256 << 20}


class ActionModule(ControllerAction):
    """Prepares and judges collective tests; documented in ``plugins/modules/fabric_collectives.py``."""

    SPEC: t.Mapping[str, t.Any] = {
        "part": {"choices": ["prepare", "judge"], "required": True},
        "launcher": {"choices": list(collective_command.LAUNCHERS), "default": collective_command.MPIRUN},
        "memory": {"choices": [collective_command.GPU, collective_command.HOST], "default": collective_command.GPU},
        "operations": {"type": "list", "elements": "str", "default": list(collective_floors.OPERATIONS)},
        "programs": {"type": "dict", "default": {}},
        "gpus": {"type": "int"},
        "min_bytes": {"type": "int"},
        "max_bytes": {"type": "int"},
        "iterations": {"type": "int", "default": 20},
        "environment": {"type": "dict", "default": {}},
        "arguments": {"type": "list", "elements": "str", "default": []},
        "timeout": {"type": "int", "default": 900},
        "floor": {"type": "float"},
        "ran": {"type": "list", "elements": "dict", "default": []},
        "outputs": {"type": "dict", "default": {}},
        "file": {"type": "path"},
        "kubernetes": {"type": "dict", "default": {}},
        "image": {"type": "str"},
        "resource": {"type": "str", "default": "nvidia.com/gpu"},
        "unknown_allowed": {"type": "bool", "default": False},
        "report_dir": {"type": "path", "default": "reports"},
    }

    def work(self, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        unknown = [each for each in options["operations"] if each not in collective_floors.OPERATIONS]
        if unknown or not options["operations"]:
            message = "%s is not a collective" % (unknown[0] if unknown else "an empty list")
            raise RailyardError(message, "collectives_operations", "use %s" % ", ".join(collective_floors.OPERATIONS))
        floor = options["floor"]
        if floor is not None and not 0 < floor < float("inf"):
            remedy = "name a bandwidth in GB/s above 0"
            raise RailyardError("every result reaches %s GB/s, or none" % floor, "collectives_floor", remedy)
        nodes = self._nodes()
        planned = _facts(nodes, options)
        if options["part"] == "prepare":
            return self._prepared(nodes, planned, options, check)
        return self._verdict(planned, options, check)

    def _nodes(self) -> dict[str, t.Mapping[str, t.Any]]:
        """Return the variables of the nodes of the run, by name."""
        names = self._vars.get("ansible_play_hosts_all") or ()
        found = {str(name): self._vars["hostvars"].raw_get(name) for name in names}
        return {name: each for name, each in found.items() if each.get("railyard_node")}

    def _prepared(
        self, nodes: t.Mapping[str, t.Any], planned: Planned, options: t.Mapping[str, t.Any], check: bool
    ) -> dict[str, t.Any]:
        memory = options["memory"]
        most = options["max_bytes"] or _SIZES[memory]
        least = options["min_bytes"] or min(most, max(most // 8, 1 << 20))
        if not 0 < least <= most:
            message = "%d bytes are more than collectives_max_bytes, which is %d" % (least, most)
            raise RailyardError(message, "collectives_min_bytes", "name a smaller number")
        if options["timeout"] < 1:
            raise RailyardError(
                "%d s is not a time limit" % options["timeout"],
                "collectives_timeout",
                "name a number of seconds from 1",
            )
        if options["launcher"] == collective_command.MPIJOB and not options["image"]:
            remedy = "name an image with Open MPI, sshd and the programs, with -e collectives_image=IMAGE"
            raise RailyardError("an MPIJob needs an image", "collectives_image", remedy)
        tests: list[collective_command.Test] = []
        for operation in options["operations"]:
            program = options["programs"].get(operation) or collective_command.PROGRAMS[operation]
            if memory == collective_command.HOST:
                program = _SOURCE.read_text(encoding="utf-8")
            test = collective_command.Test(
                operation,
                options["launcher"],
                [str(each.get(_NAME) or name) for name, each in nodes.items()],
                planned.gpus,
                memory,
                str(program),
                (least, most),
                options["iterations"],
                planned.environment,
                options["arguments"],
                options["timeout"],
            )
            tests.append(test)
        if options["launcher"] == collective_command.MPIJOB:
            return _jobs(list(nodes), tests, options, check)
        commands = [{"operation": test.operation, "argv": collective_command.argv(test)} for test in tests]
        result: dict[str, t.Any] = {"changed": False, "tests": commands}
        if check:
            shown = [shlex.join(collective_command.argv(_short(test))) for test in tests]
            result["lines"] = ["would run on the launching node:", *shown]
            _output.show(result["lines"])
        return result

    def _verdict(self, planned: Planned, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        results = [
            collective_verdict.judge(done, planned)
            for done in (_outputs(options) if options["outputs"] else _ran(options))
        ]
        state = collective_verdict.state_of(results)
        names = fold_names(planned.nodes)
        lines = ["collectives on %s (%s): %s" % (count(len(planned.nodes), "node"), names, state)]
        lines += ["", *(named(line) for each in results for line in each.lines())]
        content = json.dumps(_document(self._vars, planned, options, state, results), indent=1).encode() + b"\n"
        files = _fabric_files.write(options["report_dir"], {_FILE: content}, check, "verify_report_dir")
        lines += ["", "results: %s" % files[0]["path"]]
        slow = [each for each in results if each.code in ("RV873", "RV874")]
        if slow:
            lines.append("next:    %s" % command(playbook("verify"), _fabric_files.inventory()))
        is_ok = state == collective_verdict.PASS or state == collective_verdict.UNKNOWN and options["unknown_allowed"]
        _output.show(lines, is_ok)
        result = {"changed": False, "state": state, "tests": [each._asdict() for each in results], "lines": lines}
        result.update(bad=not is_ok, msg="the collectives did not pass: %s" % state if not is_ok else "")
        return dict(result, file=files[0]["path"])


def _short(test: collective_command.Test) -> collective_command.Test:
    """Return a test whose program is short enough for people."""
    return test._replace(program="SOURCE") if test.memory == collective_command.HOST else test


def _jobs(
    nodes: t.Sequence[str], tests: t.Sequence[collective_command.Test], options: t.Mapping[str, t.Any], check: bool
) -> dict[str, t.Any]:
    """Write an MPIJob for each test, and show the commands that run and judge it."""
    document = _planned.document(options["file"])
    files, steps = {}, []
    for test in tests:
        made = mpi_job.mpi_job(document, options["kubernetes"], nodes, test, options["image"], options["resource"])
        file = "collectives-%s.yml" % test.operation
        files[file] = as_yaml(made).encode()
        job = "job/%s-launcher -n %s" % (made["metadata"]["name"], made["metadata"]["namespace"])
        log = json.dumps({"collectives_outputs": {test.operation: "%s.log" % test.operation}})
        steps += [
            "",
            "kubectl apply -f %s" % _fabric_files.shown_path(os.path.join(options["report_dir"], file)),
            "kubectl wait --for=condition=complete --timeout=%ds %s" % (test.seconds, job),
            "kubectl logs %s > %s.log" % (job, test.operation),
            command(playbook("collectives"), _fabric_files.inventory()) + " -e %s" % shlex.quote(log),
        ]
    done = _fabric_files.write(options["report_dir"], files, check, "verify_report_dir")
    lines = ["wrote %s; run them one after the other:" % ", ".join(each["path"] for each in done), *steps]
    _output.show(lines)
    return {"changed": False, "tests": [], "lines": lines}


def _facts(nodes: t.Mapping[str, t.Mapping[str, t.Any]], options: t.Mapping[str, t.Any]) -> Planned:
    """Return the part of the plan that tests need.

    :raises RailyardError: if nodes have different numbers of GPUs, or none is planned.
    """
    host_memory = options["memory"] == collective_command.HOST
    gpus = {name: len(each["railyard_node"].get("gpus") or ()) for name, each in nodes.items()}
    given = options["gpus"] or (1 if host_memory else None)
    numbers = set(gpus.values()) if given is None else {given}
    if len(numbers) != 1:
        some = ", ".join("%s has %d" % row for row in list(gpus.items())[:4])
        raise RailyardError(
            "the nodes have different numbers of GPUs: %s" % some,
            "collectives_gpus",
            "run it on equal nodes, with --limit, or name the number to use on each, with -e collectives_gpus=NUMBER",
        )
    (number,) = numbers
    if number < 1:
        raise RailyardError(
            "the plan has no GPUs on the nodes",
            "collectives_gpus",
            "name the number on each node, with -e collectives_gpus=NUMBER, or run with -e collectives_memory=host",
        )
    speeds = [_nic(each) for each in nodes.values()]
    environment = {str(name): str(value) for name, value in options["environment"].items()}
    domains = [each["railyard_node"].get("nvlink_domain") for each in nodes.values()]
    nic = None if None in speeds else min(t.cast("list[float]", speeds), default=None)
    return Planned(list(nodes), number, nic, domains, host_memory, environment, options["floor"])


def _nic(variables: t.Mapping[str, t.Any]) -> float | None:
    """Return the GB/s of all NICs of a node on compute rails; None if a speed is not planned."""
    total = 0.0
    for port in variables["railyard_node"].get("ports") or ():
        if port.get("role", "compute") != "compute":
            continue
        expected = port.get("expect") or {}
        speed = expected.get("speed")
        if not speed:
            return None
        planes = port.get("planes") or {}
        # collectives use several connections, which a bond distributes over its members
        members = len((port.get("lower") or {}).get("functions") or ())
        carried = speed * max(members, planes.get("count", 1) if planes.get("balancing") == "hardware" else 1, 1)
        if expected.get("pcie_gen") in _TRANSFERS and expected.get("pcie_lanes"):
            slot = rail_floors.pcie_gbits(_TRANSFERS[expected["pcie_gen"]], expected["pcie_lanes"])
            carried = min(carried, slot)
        total += carried / 8.0
    return total or None


def _ran(options: t.Mapping[str, t.Any]) -> list[Done]:
    """Return how the tests of the run ended, from results of ansible.builtin.command."""
    found = []
    for each in options["ran"]:
        text = "\n".join(str(each.get(key) or "") for key in ("stderr", "stdout"))
        status = each.get("rc")
        if status is None:
            # the module failed
            text, status = "%s\n%s" % (each.get("msg") or "", text), 255
        found.append(Done(str(each["item"]["operation"]), int(status), text[:_MOST], options["timeout"]))
    return found


def _outputs(options: t.Mapping[str, t.Any]) -> list[Done]:
    """Return the outputs in files: operation -> path."""
    found = []
    for operation, path in options["outputs"].items():
        if operation not in collective_floors.OPERATIONS:
            remedy = "use %s" % ", ".join(collective_floors.OPERATIONS)
            raise RailyardError("%s is not a collective" % operation, "collectives_outputs", remedy)
        raw = _fabric_files.read(os.path.expanduser(str(path)), "name a file with an output", _MOST)
        found.append(Done(str(operation), None, raw.decode("utf-8", "replace")))
    return found


def _document(
    variables: t.Mapping[str, t.Any],
    planned: Planned,
    options: t.Mapping[str, t.Any],
    state: str,
    results: t.Sequence[Judged],
) -> dict[str, t.Any]:
    """Return the content of ``collectives.json``."""
    return {
        "format": 1,
        "fabric": (variables.get("railyard_fabric") or {}).get("name"),
        "ended": int(time.time()),
        "state": state,
        "memory": options["memory"],
        "launcher": None if options["outputs"] else options["launcher"],
        "nodes": list(planned.nodes),
        "gpus": planned.gpus,
        "nic": planned.nic,
        "environment": dict(planned.environment),
        "tests": [each._asdict() for each in results],
    }

# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import time
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import module_options, port_matching
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import VERIFY
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import (
    node_parts,
    probe_pairs,
    probe_targets,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils import _planned, _verify_parts
from ansible_collections.railyard.fabric.plugins.plugin_utils._verify_spool import NODE, OPTIONS, Spool, plain

_INFO, _PROBE, _HOST = "railyard.fabric.rail_info", "railyard.fabric.rail_probe", "railyard.fabric.rail_host"
_PODS = "railyard.fabric.rail_pods"
# The variable with the name of the run.
_RUN = "__proof_run"
READ, CHOOSE, STEP = "read", "choose", "step"
# Kinds of values in the spool beside NODE and OPTIONS: the turns of a node, the servers of its last round, whether a
# round passed, and that it could not end a step.
_TURNS, _SERVED, _PROBED, _GONE = "turns", "served", "probed%d", "gone"
# Seconds that a node waits in a step for another node, and seconds between two checks.
_WAIT_SECONDS, _LOOK_SECONDS = 300.0, 0.1
# Options of rail_probe that are variables of the role proof, and those that probes of pods use too.
_PROBE_OPTIONS: t.Mapping[str, type] = {
    "count": int,
    "size": int,
    "iterations": int,
    "lifetime": int,
    "meet": str,
    "tcp_ports": str,
}
_POD_OPTIONS = ("count", "size", "iterations", "lifetime")
# The type of ports' RDMA devices whose latency is measured.
_HARDWARE = "hardware"
# Modules whose state a verdict reads. Of other modules it reads only changes and errors.
_STATES = ("rdma_netns_mode",)
Row = t.Dict[str, t.Any]


class ActionModule(ActionBase):
    """Reads and probes a node for a verdict; documented in ``plugins/modules/rail_verify.py``."""

    TRANSFERS_FILES = False
    SPEC: t.Mapping[str, t.Any] = {
        "part": {"type": "str", "choices": [READ, CHOOSE, STEP], "required": True},
        "nodes": {"type": "list", "elements": "str", "default": []},
        "max_rounds": {"type": "int", "default": 8},
        "parts": {"type": "path"},
        "step": {"type": "int", "default": 0},
    }

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> Row:
        result: Row = super().run(tmp, task_vars)
        self._vars: t.Mapping[str, t.Any] = task_vars or {}
        self._name = str(self._vars["inventory_hostname"])
        _validated, options = self.validate_argument_spec(argument_spec=dict(self.SPEC))
        if _RUN not in self._vars:
            raise AnsibleActionFail("rail_verify: the fact %s is not set. Remedy: run playbooks/verify.yml." % _RUN)
        # a fact, so that the task of each node has no template
        self._run = str(self._vars[_RUN])
        self._spool = Spool(self._run)
        work: dict[str, t.Callable[[Row], Row]] = {
            READ: self._read,
            CHOOSE: self._choose,
            STEP: self._step,
        }
        self._notices: dict[str, list[t.Any]] = {}
        self._facts: Row = {}
        result.update(work[options["part"]](options))
        for key, notices in self._notices.items():
            result.setdefault(key, []).extend(notices)
        if self._facts:
            # the Python that Ansible found on the node, which it would search again in each task
            result["ansible_facts"] = self._facts
        result.setdefault("changed", False)
        return result

    def _read(self, _options: Row) -> Row:
        """Read the state of the node, and what the modules would change."""
        info = self._execute(
            _INFO, {"subset": self._value("__verify_subset"), "listen": self._value("__verify_listens")}
        )
        if "system" not in info:
            return dict(info, readable=False)
        node = self._value("railyard_node")
        # the verdict reports ports that are not found
        with contextlib.suppress(RailyardError):
            node = port_matching.identify(node, info["nics"])
        probe = {name: self._probe_option(name) for name in _PROBE_OPTIONS}
        hardware = any(port["rdma"]["type"] == _HARDWARE for port in node["ports"])
        probe["latency"] = hardware and boolean(self._value("verify_thorough"))
        row: Row = {"__verify_info": info}
        result: Row = {"readable": True, "tools": info.get("tools") or {}}
        result["probe"] = {name: probe[name] for name in _POD_OPTIONS}
        if boolean(self._value("__verify_states")):
            states = self._states(node)
            row["__verify_modules"] = states
            shown = {
                name: {key: part[key] for key in ("changed", "changes", "diff") if key in part}
                for name, part in (states.get("modules") or {}).items()
                if part.get("changed")
            }
            failed: Row = {key: states[key] for key in ("failed", "msg") if key in states}
            result.update(failed, modules=shown)
        files = [path for path in (node.get("nccl") or {}).values() if path]
        if files and boolean(self._value("__verify_reads_files")):
            row["__verify_inside"] = self._execute(_PODS, {"files": files})
        self._spool.add(self._name, row)
        rails = self._value("__verify_rails")
        ports = [port for port in node["ports"] if not rails or port["rail"] in rails]
        self._spool.note(self._name, NODE, plain(dict(node, ports=ports)))
        counters = {kind: list(rows) for kind, rows in (info.get("counters") or {}).items()}
        noted = {"probe": probe, "deadline": float(self._value("__verify_until")), "counters": counters}
        self._spool.note(self._name, OPTIONS, plain(noted))
        return result

    def _probe_option(self, name: str) -> t.Any:
        """Return a variable of the role proof with its own type. Values of ansible-core have their origin with them."""
        value = self._value("proof_" + name)
        try:
            return None if value is None else _PROBE_OPTIONS[name](value)
        except (TypeError, ValueError):
            message = "proof_%s: %r is not a number. Remedy: set a number, such as 1000" % (name, value)
            raise AnsibleActionFail(message) from None

    def _states(self, node: Row) -> Row:
        """Return the result of ``rail_host`` in check mode, without states that no verdict reads."""
        task = self._task.copy()
        task.action = _HOST
        task.args = {"keep_going": True, "states": True}
        task.check_mode = True
        action = self._shared_loader_obj.action_loader.get(
            _HOST,
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        result = self._without_notices(action.run(task_vars=dict(self._vars, railyard_node=node)))
        for name, part in (result.get("modules") or {}).items():
            if name not in _STATES:
                part.pop("gathered", None)
        return {key: value for key, value in result.items() if key not in ("invocation", "changes", "diff")}

    def _choose(self, options: Row) -> Row:
        """Choose who probes whom, from all nodes that could be read, or from those that link parts of other runs."""
        if options["parts"]:
            nodes, rounds = options["nodes"], self._rounds_across(options)
        else:
            read = self._spool.nodes(NODE)
            nodes = [name for name in options["nodes"] if name in read]
            rounds = probe_pairs.rounds(nodes, options["max_rounds"])
        steps, turns = probe_pairs.turns(rounds, nodes)
        for name, own in turns.items():
            # the last steps of every run have the same numbers, so that tasks name them without templates
            self._spool.note(
                name,
                _TURNS,
                [turn._replace(step=steps - 1 - turn.step, partner_step=steps - 1 - turn.partner_step) for turn in own],
            )
        # without parts, a filter computes the rounds again: results of tasks have no long lists
        return {"nodes": nodes, "steps": steps, **({"rounds": rounds} if options["parts"] else {})}

    def _rounds_across(self, options: Row) -> list[list[probe_pairs.Pair]]:
        """Return the rounds of pairs of different parts. Notes the nodes as their parts have read them.

        Their counters are not read again, because other traffic has raised them since then.
        """
        links = [each.head["links"] for each in _verify_parts.read(options["parts"], VERIFY)]
        for name, notes in (item for each in links for item in each.items()):
            self._spool.note(name, NODE, notes[NODE])
            self._spool.note(name, OPTIONS, dict(notes[OPTIONS], deadline=0, counters={}))
        return node_parts.rounds_across([list(each) for each in links], options["max_rounds"])

    def _step(self, options: Row) -> Row:
        """Probe the partners of this step's rounds, and then serve the partner of the next round or end all servers."""
        options.update(self._spool.noted(self._name, OPTIONS) or {})
        turns = [probe_pairs.Turn(*each) for each in self._spool.noted(self._name, _TURNS) or ()]
        current = [turn for turn in turns if turn.step == options["step"]]
        if not current:
            return {"skipped": True, "skip_reason": "The node has no turn in this step"}
        probes = [turn for turn in current if turn.mode == probe_pairs.PROBE]
        serves = next((turn for turn in current if turn.mode == probe_pairs.SERVE), None)
        ends = any(turn.mode == probe_pairs.END for turn in current)
        failed: list[str] = []
        try:
            self._end_service(options["step"], ends)
            for turn in probes:
                last = turn is probes[-1]
                failed += self._probe(turn, serves if last else None, ends and last, options)
            if serves and not probes:
                failed += self._serve(serves, options)
            if ends and not probes:
                self._end(options)
        except BaseException:
            # it is unreachable and has no later step, so that no node waits for it
            self._spool.note(self._name, _GONE, True)
            raise
        return {"failed": True, "msg": "; ".join(failed)} if failed else {}

    def _probe(self, turn: probe_pairs.Turn, serves: probe_pairs.Turn | None, ends: bool, options: Row) -> list[str]:
        """Probe the partner of a round when it serves. Return errors.

        :param serves: the turn in which the node then serves, in the same module execution.
        :param ends: whether the node then ends its servers, in the same module execution.
        """

        def served_now() -> Row:
            note: Row = self._spool.noted(turn.partner, _SERVED) or {}
            return note if note.get("round") == turn.round else {}

        # if the partner could not be reached, it serves nothing
        served = self._waited(served_now, turn.partner) if turn.partner_step == turn.step else served_now()
        if served.get("late"):
            self._spool.note(self._name, _PROBED % turn.round, False)
            if ends:
                self._end(options)
            return self._serve(serves, options) if serves else []
        fabric = self._value("railyard_fabric")
        node, partner = (self._spool.noted(name, NODE) for name in (self._name, turn.partner))
        targets = probe_targets.targets(
            node, partner, served.get("results") or [], fabric["routing"]["cross_rail"], fabric["link_layer"]
        )
        service = self._service(options) if serves else None
        given = self._given(options, "count", "size", "iterations", "lifetime")
        ending = {"stop": True, "counters": options["counters"]} if ends else {}
        result, failed = self._kept({**given, **(service or {}), **ending, "targets": targets}, key="__proof_results")
        rows = result.get("results") or []
        passed = bool(rows) and all(row["ok"] for row in rows)
        self._spool.note(self._name, _PROBED % turn.round, passed)
        if serves:
            self._note_service(serves, (result.get("served") or []) if service else None)
        if ends and result.get("failed"):
            self._end(options)
        return failed

    def _serve(self, turn: probe_pairs.Turn, options: Row) -> list[str]:
        """Serve the partner of a round, unless the time is over. Return errors."""
        service = self._service(options)
        result, failed = self._kept(dict(service, mode="serve")) if service else ({}, [])
        self._note_service(turn, (result.get("results") or []) if service else None)
        return failed

    def _service(self, options: Row) -> Row | None:
        """Return the options of ``rail_probe`` for servers; None if no further round starts."""
        if options["deadline"] and time.time() >= options["deadline"]:
            return None
        node = self._spool.noted(self._name, NODE)
        layer = self._value("railyard_fabric")["link_layer"]
        ports = module_options.port_options(node["ports"], "rail_probe", node, layer)
        given = self._given(options, "size", "iterations", "lifetime", "latency", "meet", "tcp_ports")
        return dict(given, ports=ports)

    def _note_service(self, turn: probe_pairs.Turn, servers: list[Row] | None) -> None:
        """Write the servers for the partner of a round; None if the time is over."""
        note: Row = {"round": turn.round, "late": servers is None, "results": servers or []}
        if servers is not None:
            note.update(client=turn.partner, client_step=turn.partner_step)
        self._spool.note(self._name, _SERVED, note)

    def _end_service(self, step: int, ends: bool) -> None:
        """Wait until the last client has probed. End servers whose client did not come or did not pass.

        Otherwise they would listen for a long time, also on the management network.

        :param ends: whether this step ends all servers anyway.
        """
        served = self._spool.noted(self._name, _SERVED)
        if not served or not served.get("client"):
            return

        def probed() -> t.Any:
            return self._spool.noted(served["client"], _PROBED % served["round"])

        passed = self._waited(probed, served["client"]) if served["client_step"] == step else probed()
        if not passed and not ends:
            self._kept({"mode": "stop"})
        self._spool.note(self._name, _SERVED, dict(served, client=""))

    def _waited(self, noted: t.Callable[[], t.Any], node: str) -> t.Any:
        """Return what another node writes in this step, or has written when it cannot end the step."""
        end = time.monotonic() + _WAIT_SECONDS
        while True:
            ended = self._spool.noted(node, _GONE) or time.monotonic() >= end
            value = noted()
            # False is a note too, and {} is a note of an earlier round
            if ended or value not in (None, {}):
                return value
            time.sleep(_LOOK_SECONDS)

    def _end(self, options: Row) -> None:
        """End servers after the last round, ask which other runs probed, and read the counters again."""
        if self._spool.noted(self._name, _SERVED) or options["counters"]:
            self._kept({"mode": "stop", "counters": options["counters"]})

    def _kept(self, arguments: Row, key: str = "") -> tuple[Row, list[str]]:
        """Run ``rail_probe``. Keep its results under ``key``, its errors, and which other runs it met.

        :return: the result, and the errors.
        """
        result = self._execute(_PROBE, dict(arguments, run=self._run))
        failed = [result.get("msg", "no message")] if result.get("failed") else []
        failed += [result["serve_error"]] if result.get("serve_error") else []
        row: Row = {"__proof_others": result.get("others") or []}
        if failed and arguments.get("mode") != "stop":
            row["__proof_refused"] = failed
        if key:
            row[key] = result.get("results") or []
        if result.get("counters"):
            row["__verify_after"] = {"counters": result["counters"]}
        self._spool.add(self._name, row)
        return result, failed

    @staticmethod
    def _given(options: Row, *names: str) -> Row:
        """Return the options of probes with these names that are set."""
        return {name: options["probe"][name] for name in names if options["probe"].get(name) not in (None, "")}

    def _execute(self, module: str, arguments: Row) -> Row:
        return self._without_notices(self._execute_module(module, arguments, task_vars=self._vars))

    def _without_notices(self, result: Row) -> Row:
        """Remove warnings, deprecations and facts from a result: the task returns them together."""
        self._facts.update(result.pop("ansible_facts", None) or {})
        for key in ("warnings", "deprecations"):
            notices = result.pop(key, None)
            if notices:
                self._notices.setdefault(key, []).extend(notices)
        return result

    def _value(self, name: str) -> t.Any:
        return _planned.variable(name, self._vars, self._templar)

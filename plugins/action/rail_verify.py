# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import math
import os
import secrets
import time
import typing as t

from ansible import context
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import port_matching
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import (
    DRIFT,
    VERIFY,
    check_share,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers.pod_targets import pod_node
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.narrowing import (
    further_rounds,
    suspect_results,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import (
    group_rounds,
    node_parts,
    probe_pairs,
    probe_targets,
    soak_time,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils import _planned, _verify_parts
from ansible_collections.railyard.fabric.plugins.plugin_utils._verify_spool import (
    ALL,
    LOST,
    NODE,
    NODES,
    PAIRS,
    RUN,
    TURNS,
    Spool,
    plain,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils._verify_spool import END as END_NOTE

_INFO, _PROBE, _HOST = "railyard.fabric.rail_info", "railyard.fabric.rail_probe", "railyard.fabric.rail_host"
_PODS = "railyard.fabric.rail_pods"
# The variables with the result of the part begin, and of kube_pods.
_BEGUN, _WORKLOAD = "__verify_run", "__verify_workload"
BEGIN, READ, CHOOSE, START, COLLECT, END = "begin", "read", "choose", "start", "collect", "end"
NARROW = "narrow"
# Variables of the nodes that the verdict needs: it runs on the control node, which may not have them.
_FOR_VERDICT = ("budget", "share", "unproven_allowed", "file", "report_dir", "history", "part", "parts_dir", "cordon",
                "baselines", "kubernetes_kubeconfig", "kubernetes_context")  # fmt: skip
# More kinds of notes in the spool: the test pod of a node, whether its prober was started, the names of its counters,
# and of those of each rail, and its results in short.
_POD, _STARTED, _COUNTERS, _WATCHED, _BRIEF = "pod", "started", "counters", "watched", "brief"
# Parts of rail_info that verdicts always need, and layers that need more.
_SUBSET = ("system", "nics", "rdma", "gids", "gpus", "vfs", "ip", "sysctls")
_TRAFFIC, _IN_CLUSTER, _IN_PODS = {"reach", "rdma"}, {"kubernetes", "pods", "nccl"}, {"pods", "nccl"}
# Options of rail_probe that are variables of the role proof, with their types.
_PROBE_OPTIONS: t.Mapping[str, type] = {
    "count": int,
    "size": int,
    "iterations": int,
    "lifetime": int,
    "tcp_ports": str,
}
# The type of ports' RDMA devices whose latency is measured.
_HARDWARE = "hardware"
# Modules whose state a verdict reads. Of other modules it reads only changes and errors.
_STATES = ("rdma_netns_mode",)
# Seconds that a prober waits for a partner that was not started yet, and more for each batch of nodes; seconds of a
# turn without its transfers; the maximum seconds of a prober.
_PATIENCE, _BATCH_SECONDS, _TURN_SECONDS, _DEADLINE_MAX = 300, 10, 120, 7200
# Seconds without a message after which a partner is given up: the minimum, and the share of ``proof_lifetime``.
_SILENCE_MIN, _SILENCE_SHARE = 30, 0.5
Row = t.Dict[str, t.Any]


class ActionModule(ActionBase):
    """Reads and probes nodes for a verdict; documented in ``plugins/modules/rail_verify.py``."""

    TRANSFERS_FILES = False
    SPEC: t.Mapping[str, t.Any] = {
        "part": {"type": "str", "choices": [BEGIN, READ, CHOOSE, START, COLLECT, NARROW, END], "required": True},
        "nodes": {"type": "list", "elements": "str", "default": []},
    }

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> Row:
        result: Row = super().run(tmp, task_vars)
        self._vars: t.Mapping[str, t.Any] = task_vars or {}
        self._name = str(self._vars["inventory_hostname"])
        _validated, options = self.validate_argument_spec(argument_spec=dict(self.SPEC))
        part = options["part"]
        # a registered result, so that the task of each node has no template
        try:
            self._begun: Row = self._begin() if part == BEGIN else plain(self._noted_run())
        except RailyardError as error:
            return {**result, **error.as_result()}
        if "run" not in self._begun:
            raise AnsibleActionFail("rail_verify: part begin has not run. Remedy: run playbooks/verify.yml.")
        self._spool = Spool(self._begun["run"])
        self._notices: dict[str, list[t.Any]] = {}
        self._facts: Row = {}
        try:
            if part == BEGIN:
                share = self._value("verify_share")
                check_share(None if share in (None, "") else float(share))
                group_rounds.check_clients(self._begun["clients"])
                result.update(self._begun)
            elif part == CHOOSE:
                result.update(self._choose(options["nodes"]))
            else:
                parts = {
                    READ: self._read,
                    START: self._start,
                    COLLECT: self._collect,
                    NARROW: self._narrow,
                    END: self._end,
                }
                result.update(parts[part]())
        except RailyardError as error:
            result.update(error.as_result())
        for key, notices in self._notices.items():
            result.setdefault(key, []).extend(notices)
        if self._facts:
            # the Python that Ansible found on the node, which it would search again in each task
            result["ansible_facts"] = self._facts
        result.setdefault("changed", False)
        return result

    def _begin(self) -> Row:
        """Return what this run compares, from the variables of the roles. It is the same for all nodes."""
        kind, part = str(self._value("verify_kind")), str(self._value("verify_part") or "")
        layers, rails = (_names(self._value(name)) for name in ("verify_layers", "verify_rails"))
        budget, began = float(self._value("verify_budget")), time.time()
        thorough, kubernetes = (boolean(self._value(name)) for name in ("verify_thorough", "verify_kubernetes"))
        verifies, check = kind == VERIFY, bool(self._task.check_mode)

        def has(names: set[str]) -> bool:
            return not layers or bool(names.intersection(layers))

        pods = verifies and kubernetes and has(_IN_PODS)
        active = ["duplicates", *(["counters", "lldp"] if thorough else [])] if verifies else []
        run: Row = {"run": self._run_name(), "began": began, "until": began + budget if budget > 0 else 0}
        run.update(kind=kind, layers=layers, rails=rails, thorough=thorough, judges=part == node_parts.JUDGE)
        run.update(
            subset=[*_SUBSET, *active],
            listen=float(self._value("verify_lldp_seconds")) if has({"cabling"}) else 0,
            probes=verifies and not check and has(_TRAFFIC),
            # whether the modules of hosts.yml run in check mode
            states=kind == DRIFT or (thorough and not check),
            cluster=kubernetes and has(_IN_CLUSTER),
            objects=kubernetes and part in ("", node_parts.JUDGE) and has({"kubernetes"}),
            # drift does not compare pods: users start and stop them
            pods=pods,
            # hosts.yml has only just written these files in the same run
            files=thorough and has(_IN_PODS),
            max_rounds=int(self._value("verify_max_rounds")),
            # many-to-one rounds: the number of clients of a server
            clients=int(self._value("verify_congestion")) if thorough else 0,
            soft=boolean(self._value("verify_soft_rdma")),
            soak=soak_time.seconds(self._value("verify_soak")) if thorough and not check else 0,
            narrow=boolean(self._value("verify_narrow")),
        )
        run["verdict"] = {name: plain(self._value("verify_" + name)) for name in _FOR_VERDICT}
        Spool(run["run"]).note(ALL, NODES, [str(name) for name in self._vars["ansible_play_hosts_all"]])
        return run

    def _noted_run(self) -> Row:
        """Return the result of part ``begin``. Nodes of other parts have it only on the control node."""
        own = self._vars.get(_BEGUN)
        return own or self._vars["hostvars"].raw_get("localhost").get(_BEGUN) or {}

    def _end(self) -> Row:
        """Return how the run ends on this host: the verdict has noted it."""
        ended: Row = self._spool.noted(self._name, END_NOTE) or {}
        return dict(ended, judged=True) if ended else {}

    def _run_name(self) -> str:
        """Return a name that distinguishes the probers of this run from those of other runs, which report it."""
        job, number = self._value("awx_job_id"), 10000 + secrets.randbelow(90000)
        if job is not None:
            user = self._value("awx_user_name") or "a schedule"
            return "job %s of AWX, by %s (%d)" % (job, user, number)
        user = os.environ.get("USER") or os.environ.get("LOGNAME") or "unknown"
        return "%s@%s (%d)" % (user, os.uname().nodename, number)

    # -- reading a node ------------------------------------------------------------------------------------------------

    def _read(self) -> Row:
        """Read the state of the node and its pods, and what the modules would change."""
        try:
            info = self._execute(_INFO, {"subset": self._parts(), "listen": self._begun["listen"]})
        except AnsibleConnectionFailure as error:
            self._spool.add(self._name, {"info": {"unreachable": True, "msg": str(error)}})
            self._spool.note(self._name, LOST, str(error))
            raise
        row: Row = {"info": info}
        result: Row = {}
        if "system" in info:
            result.update(self._read_more(info, row))
        self._spool.add(self._name, row)
        return result if "system" in info else dict(info)

    def _parts(self) -> list[str]:
        """Return the parts of ``rail_info`` for this node."""
        domain = (self._value("railyard_node") or {}).get("nvlink_domain")
        return [*self._begun["subset"], *(["nvlink"] if domain and self._begun["kind"] == VERIFY else [])]

    def _read_more(self, info: Row, row: Row) -> Row:
        """Read the other parts of a node that answers, and write what its partners need of it."""
        node = self._value("railyard_node")
        # the verdict reports ports that are not found
        with contextlib.suppress(RailyardError):
            node = port_matching.identify(node, info["nics"])
        result: Row = {}
        if self._begun["states"]:
            states = row["states"] = self._states(node)
            # the verdict reports what the modules would change; this task changes nothing
            result.update({key: states[key] for key in ("failed", "msg") if key in states})
        self._read_pods(node, row)
        # the addresses and ports at which partners connect to the node
        meet = {key: self._value("proof_" + key) for key in ("meet", "tcp_ports")}
        meet["management"] = (info.get("management_path") or {}).get("addresses") or []
        self._spool.note(self._name, NODE, plain(probe_targets.probe_node(node, self._begun["rails"], **meet)))
        counters = {kind: list(rows) for kind, rows in (info.get("counters") or {}).items()}
        self._spool.note(self._name, _COUNTERS, plain(counters))
        if self._begun["clients"] or self._begun["soak"]:
            self._spool.note(self._name, _WATCHED, plain(group_rounds.watched(info, node["ports"])))
        return result

    def _read_pods(self, node: Row, row: Row) -> None:
        """Read the node's test pods, and the files with NCCL's and UCX's settings."""
        running = (self._vars.get(_WORKLOAD) or {}).get("running") if self._begun["pods"] else None
        pods = [str(uid) for uid in (running or {}).get(node["name"]) or ()]
        nccl = node.get("nccl") or {} if self._begun["files"] else {}
        files = [nccl[key] for key in ("file", "ucx_file") if nccl.get(key)]
        if not pods and not files:
            return
        inside = row["inside"] = self._execute(_PODS, {"pods": pods, "files": files})
        # without pods that could not be read, whose `why` has the reason
        seen = [each for each in inside.get("pods") or () if not each["why"]]
        if seen:
            self._spool.note(self._name, _POD, plain(pod_node(node, self._value("railyard_fabric"), seen[0])))

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

    # -- the proof -----------------------------------------------------------------------------------------------------

    def _choose(self, names: t.Sequence[str]) -> Row:
        """Choose who probes whom: all nodes that could be read, or those that link parts of other runs."""
        most = self._begun["max_rounds"]
        if self._begun["judges"]:
            rounds, pod_rounds, groups = self._rounds_across(most), [], []
        else:
            read, with_pod = self._spool.nodes(NODE), self._spool.nodes(_POD)
            probed = [name for name in names if name in read] if self._begun["probes"] else []
            rounds, groups = self._rounds(probed), group_rounds.rounds(probed, self._begun["clients"], most)
            # in check mode, pods are read and not probed
            pods = [name for name in names if name in with_pod and self._spool.noted(name, _POD)["ports"]]
            pod_rounds = probe_pairs.rounds(pods, most) if not self._task.check_mode else []
        turns: dict[str, list[t.Any]] = {}
        for number, pairs in enumerate([*rounds, *pod_rounds]):
            for server, client in pairs:
                of_pods = number >= len(rounds)
                turns.setdefault(server, []).append([number, probe_targets.SERVE, client, of_pods])
                turns.setdefault(client, []).append([number, probe_targets.PROBE, server, of_pods])
        for number, of_round in enumerate(groups, len(rounds) + len(pod_rounds)):
            for server, clients in of_round:
                turns.setdefault(server, []).append([number, group_rounds.GATHER, clients, False])
                for client in clients:
                    turns.setdefault(client, []).append([number, group_rounds.WRITE, server, False])
        for name, own in turns.items():
            self._spool.note(name, TURNS, own)
        about: Row = {"token": secrets.token_hex(32), "nodes": len(turns)}
        # a run of pairs between parts is not repeated
        if self._begun["soak"] and not self._begun["judges"]:
            about["soak_until"] = time.time() + self._begun["soak"]
            about["rounds"] = len(rounds) + len(pod_rounds) + len(groups)
        self._spool.note(ALL, RUN, about)
        pairs_of = {
            key: [pair for each in of for pair in each] for key, of in (("pairs", rounds), ("pod_pairs", pod_rounds))
        }
        self._spool.note(ALL, PAIRS, {**pairs_of, "groups": [group for each in groups for group in each]})
        return {"nodes": len(turns)}

    def _rounds(self, names: t.Sequence[str]) -> list[list[probe_pairs.Pair]]:
        """Return the rounds of pairs of these nodes."""
        notes = {name: self._spool.noted(name, NODE) for name in names}
        leaves = {name: str([port["leaves"] for port in note["ports"]]) for name, note in notes.items()}
        return probe_pairs.rounds(names, self._begun["max_rounds"], leaves)

    def _rounds_across(self, most: int) -> list[list[probe_pairs.Pair]]:
        """Return the rounds of pairs of different parts. Notes the nodes as their parts have read them.

        Their counters are not read again: other traffic has raised them since then.
        """
        links = [each.head["links"] for each in _verify_parts.read(str(self._value("verify_parts_dir")), VERIFY)]
        for name, notes in (item for each in links for item in each.items()):
            self._spool.note(name, NODE, notes)
        return node_parts.rounds_across([list(each) for each in links], most)

    def _narrow(self) -> Row:
        """Choose further rounds of pairs if failed ones have no single cause yet."""
        run, until = self._spool.noted(ALL, RUN) or {}, self._begun["until"]
        batch = run.get("batch", 0)
        rounds: list[list[further_rounds.Pair]] = []
        if self._begun["narrow"] and batch < further_rounds.BATCHES and not (until and time.time() >= until):
            briefs = {name: self._spool.noted(name, _BRIEF) for name in sorted(self._spool.nodes(_BRIEF))}
            nodes = {name: self._spool.noted(name, NODE) for name in self._spool.nodes(NODE)}
            share = self._begun["verdict"]["share"]
            wanted = None if share in (None, "") else float(share)
            results = suspect_results.results(briefs, nodes, wanted, self._begun["soft"])
            rounds = further_rounds.rounds(results, suspect_results.leaves(nodes), batch)
        for name in self._spool.nodes(TURNS):
            self._spool.note(name, TURNS, [])
            self._spool.note(name, _STARTED, False)
        turns: dict[str, list[t.Any]] = {}
        for number, pairs in enumerate(rounds):
            for server, client, rails in pairs:
                turns.setdefault(server, []).append([number, probe_targets.SERVE, client, False, rails])
                turns.setdefault(client, []).append([number, probe_targets.PROBE, server, False, rails])
        for name, own in turns.items():
            self._spool.note(name, TURNS, own)
        if turns:
            # probers of this batch accept no connection of an earlier one
            self._spool.note(ALL, RUN, {"token": secrets.token_hex(32), "nodes": len(turns), "batch": batch + 1})
            known = self._spool.noted(ALL, PAIRS)
            self._spool.note(
                ALL, PAIRS, dict(known, pairs=[*known["pairs"], *(pair for each in rounds for pair in each)])
            )
        return {"nodes": len(turns)}

    def _start(self) -> Row:
        """Start the prober of the node with its turns."""
        turns = self._spool.noted(self._name, TURNS)
        if not turns:
            return {"skipped": True, "skip_reason": "The node has no partner"}
        try:
            schedule = self._schedule(turns)
        except AnsibleActionFail as error:
            result: Row = {"failed": True, "msg": str(error)}
        else:
            result = self._probe(schedule)
        if result.get("failed"):
            self._spool.add(self._name, {"refused": [result.get("msg", "no message")]})
            return {"failed": True, "msg": result.get("msg", "no message")}
        self._spool.note(self._name, _STARTED, True)
        return {}

    def _schedule(self, turns: t.Sequence[t.Any]) -> Row:
        """Return the options of ``rail_probe`` with which the prober of the node is started."""
        fabric, run = self._value("railyard_fabric"), self._spool.noted(ALL, RUN)
        values = {name: self._probe_option(name) for name in _PROBE_OPTIONS}
        probe: Row = {key: value for key, value in values.items() if value not in (None, "")}
        hardware = any(port["rdma"]["type"] == _HARDWARE for port in self._noted(NODE)["ports"])
        probe["latency"] = self._begun["soft"] or (hardware and self._begun["thorough"])
        probe["watched"] = self._spool.noted(self._name, _WATCHED)
        layer, cross_rail = fabric["link_layer"], bool(fabric["routing"]["cross_rail"])
        spec: Row = {"mode": "start", "run": self._begun["run"], "token": run["token"], "name": self._name}
        spec.update(probe, listen=self._listen(self._name))
        most = 0
        for of_pods, kind in ((False, NODE), (True, _POD)):
            own = [turn for turn in turns if turn[3] == of_pods]
            if not own:
                continue
            node = self._noted(kind)
            rules = (True, "ethernet") if of_pods else (cross_rail, layer)
            rows = [self._turn(number, mode, partner, kind, *rules) for number, mode, partner, *_others in own]
            for row, rails in ((row, turn[4]) for row, turn in zip(rows, own) if len(turn) > 4):
                # further rounds test some rails
                row["targets"] = [target for target in row["targets"] if target["rail"] in rails]
            ports = [port for port in node["ports"] if port["rdma"].get("transfers", True)]
            part: Row = {"turns": rows, "addresses": probe_targets.listen_addresses(node, rules[1])}
            part["ports"] = probe_targets.served_ports(dict(node, ports=ports), rules[1])
            most = max(most, len(ports))
            spec.update({"pod": dict(part, uid=node["pod"])} if of_pods else part)
        batches = math.ceil(run["nodes"] / max(1, int(context.CLIARGS.get("forks") or 1)))
        patience = _PATIENCE + _BATCH_SECONDS * batches
        transfers = most * (2 if probe.get("latency") else 1)
        test = _TURN_SECONDS + probe.get("lifetime", 0) * transfers
        silence = max(_SILENCE_MIN, probe.get("lifetime", 0) * _SILENCE_SHARE)
        spec.update(patience=patience, test_seconds=test, silence=silence)
        spec["deadline"] = max(patience + test, min(patience + test * (1 + len(turns)), _DEADLINE_MAX))
        if "soak_until" in run:
            # all nodes end it at the same time
            spec.update(soak_seconds=max(0.001, run["soak_until"] - time.time()), soak_turns=run["rounds"])
            spec["deadline"] += spec["soak_seconds"]
        if self._begun["until"]:
            # 0 would be no limit
            spec["begin_seconds"] = max(0.001, self._begun["until"] - time.time())
        return spec

    def _turn(self, number: int, mode: str, partner: t.Any, kind: str, cross_rail: bool, link_layer: str) -> Row:
        """Return a turn of the node in the form of ``rail_probe``. ``partner``: of a server, its clients."""
        node = self._noted(kind)
        if mode == group_rounds.GATHER:
            clients = [(self._spool.noted(name, kind), self._listen(name)) for name in partner]
            return group_rounds.gather_turn(number, node, clients, cross_rail, link_layer)
        other, listen = self._spool.noted(partner, kind), self._listen(partner)
        if mode == group_rounds.WRITE:
            planned, fabric = self._value("railyard_node"), self._value("railyard_fabric")
            return group_rounds.write_turn(number, node, other, listen, planned, fabric, link_layer)
        return probe_targets.turn(number, mode, node, other, listen, cross_rail, link_layer)

    def _listen(self, name: str) -> list[int]:
        """Return the TCP ports on which the prober of a node tries to listen."""
        return probe_targets.listen_ports(self._begun["run"], self._spool.noted(name, NODE)["tcp_ports"])

    def _collect(self) -> Row:
        """Wait for the prober of the node, and take its results."""
        if not self._spool.noted(self._name, _STARTED):
            return {"skipped": True, "skip_reason": "No prober was started on the node"}
        options: Row = {"mode": "collect", "run": self._begun["run"], "name": self._name}
        options["counters"] = self._noted(_COUNTERS) or None
        result = self._probe(options)
        if "results" not in result:
            failed = {"failed": True, "msg": result.get("msg") or result.get("module_stderr") or "no message"}
            self._spool.add(self._name, {"uncollected": failed})
            return failed
        self._spool.note(
            self._name,
            _BRIEF,
            [*(self._spool.noted(self._name, _BRIEF) or ()), *suspect_results.brief(result["results"])],
        )
        row: Row = {"probed": result["results"], "pod_probed": result["pod_results"], "others": result["others"]}
        # a later pass, such as between parts, does not replace the result of a soak
        row.update({key: result[key] for key in ("groups", "soak") if result.get(key)})
        for key in ("refused", "pod_refused"):
            row[key] = [result[key]] if result[key] else []
        if result.get("counters"):
            row["after"] = {"counters": result["counters"]}
        self._spool.add(self._name, row)
        return {}

    def _probe(self, options: Row) -> Row:
        """Run ``rail_probe``. A node on which Ansible cannot run it is a failure, whatever its partners report."""
        try:
            return self._execute(_PROBE, options)
        except AnsibleError as error:
            status = "unreachable" if isinstance(error, AnsibleConnectionFailure) else "failed"
            self._spool.add(self._name, {"uncollected": {status: True, "msg": str(error)}})
            if status == "unreachable":
                self._spool.note(self._name, LOST, str(error))
            raise

    def _noted(self, kind: str) -> Row:
        noted: Row = self._spool.noted(self._name, kind) or {}
        return noted

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


def _names(value: t.Any) -> list[str]:
    """Return the names of a list, or of a text with commas."""
    names = value.split(",") if isinstance(value, str) else value or []
    return [str(name).strip() for name in names if str(name).strip()]

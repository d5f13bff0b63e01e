# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime
import json
import shlex
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._common.version import VERSION
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import port_matching
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import plan_tables
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import command, playbook
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.failure_codes import LAYERS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import (
    DRIFT,
    EARLIER,
    VERIFY,
    NodeReport,
    check_share,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.floors.site_baselines import MODES, USE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import node_parts
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict import verify_output
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict.verify_engine import (
    Asked,
    Verdict,
    bad_rails,
    document,
    judge,
    rail_cordons,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils import (
    _fabric_files,
    _output,
    _planned,
    _run_history,
    _site_baselines,
    _verify_parts,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils._controller_action import ControllerAction
from ansible_collections.railyard.fabric.plugins.plugin_utils._verify_spool import (
    ALL,
    END,
    LOST,
    NODE,
    NODES,
    PAIRS,
    Spool,
)

_PREFIX = "Task failed: "
# Options of the role nccl that override the plan.
_OWN = ("nccl_settings", "nccl_ucx_settings")
# What rail_verify keeps of a node in files; parts keep it too.
_INFO, _STATES, _AFTER, _INSIDE = "info", "states", "after", "inside"
_PROBED, _REFUSED, _OTHERS, _GROUPS = "probed", "refused", "others", "groups"
_POD_PROBED, _POD_REFUSED, _UNCOLLECTED = "pod_probed", "pod_refused", "uncollected"

Row = t.Dict[str, t.Any]


class ActionModule(ControllerAction):
    """Judges the reports of nodes; documented in ``plugins/modules/fabric_verify.py``."""

    SPEC: t.Mapping[str, t.Any] = {
        "kind": {"type": "str", "choices": [VERIFY, DRIFT], "default": VERIFY},
        "run": {"type": "str"},
        "nodes": {"type": "list", "elements": "str", "default": []},
        "layers": {"type": "list", "elements": "str", "choices": list(LAYERS), "default": []},
        "rails": {"type": "list", "elements": "str", "default": []},
        "began": {"type": "float"},
        "budget": {"type": "float"},
        "share": {"type": "float"},
        "unproven_allowed": {"type": "bool", "default": False},
        "soft_rdma": {"type": "bool", "default": False},
        "soak": {"type": "float", "default": 0},
        "thorough": {"type": "bool", "default": True},
        "cluster": {"type": "dict"},
        "file": {"type": "path"},
        "report_dir": {"type": "path", "required": True},
        "history": {"type": "int", "default": 30},
        "baselines": {"type": "str", "choices": list(MODES), "default": USE},
        "part": {"type": "str", "default": ""},
        "parts_dir": {"type": "path"},
    }

    def work(self, options: t.Mapping[str, t.Any], check: bool) -> dict[str, t.Any]:
        """Return the verdict, and write its files. Of a part, only keep what the nodes reported."""
        parts = self._parts(options) if options["part"] == node_parts.JUDGE else []
        spool = Spool(options["run"] or "")
        names = [name for each in parts for name in each.head["nodes"]] or options["nodes"] or spool.noted(ALL, NODES)
        hosts = {name: self._vars["hostvars"].raw_get(name) for name in names or ()}
        unknown_nodes = [name for name, variables in hosts.items() if "railyard_node" not in variables]
        if unknown_nodes:
            remedy = "use the inventory with the fabric file (-i), and its nodes"
            raise RailyardError("not in the plan: %s" % ", ".join(unknown_nodes[:5]), "nodes", remedy)
        if not hosts:
            raise RailyardError("no node is named", "nodes", "name nodes of the fabric with --limit, or none")
        fabric: Row = next(iter(hosts.values()))["railyard_fabric"]
        unknown = [rail for rail in options["rails"] if rail not in fabric["rails"]]
        if unknown:
            remedy = "name some of %s" % ", ".join(fabric["rails"])
            raise RailyardError("no rail is called %s" % ", ".join(unknown), "verify_rails", remedy)
        check_share(options["share"])
        planned = spool.noted(ALL, PAIRS) or {}
        pairs, pod_pairs, groups = (
            [each for part in parts for each in part.head.get(key, ())] + planned.get(key, [])
            for key in ("pairs", "pod_pairs", "groups")
        )
        began = options["began"] or time.time()
        reported = self._reported(names, spool, parts)
        if options["part"] and not parts:
            left = {"began": began, "pairs": pairs, "pod_pairs": pod_pairs, **({"groups": groups} if groups else {})}
            return self._leave(options, spool, reported, left, check)
        reports = [
            _node_report(name, variables, reported[name], options["thorough"]) for name, variables in hosts.items()
        ]
        requested = (options[key] for key in ("layers", "rails", "budget", "share", "unproven_allowed"))
        asked = Asked(names, *requested, **self._tags())
        asked = asked._replace(thorough=options["thorough"], soft=options["soft_rdma"], soak=options["soak"])
        verdict = judge(options["kind"], fabric, reports, asked, pairs, _seen(options["cluster"]), pod_pairs, groups)
        began = min([began, *(each.head["began"] for each in parts)])
        about = {
            "plan": _digest(options["file"]),
            "railyard": VERSION,
            "began": _moment(began),
            "seconds": round(time.time() - began, 1),
        }
        kept = _site_baselines.compare(
            *(verdict, options["report_dir"], options["baselines"], self._vars["hostvars"], about["began"])
        )
        verdict_document = document(verdict, about)
        files = {**_files(verdict, verdict_document), **kept}
        try:
            _run_history.keep(options["report_dir"], options["kind"], options["history"])
            written_files = _fabric_files.write(options["report_dir"], files, check, "verify_report_dir")
        except RailyardError:
            # the verdict is shown even if the file cannot be written
            _output.print_lines(verify_output.lines(verdict, verdict_document, _output.width()), verdict.ok)
            raise
        for each in parts if not check else ():
            each.remove()
        written = [each["path"] for each in written_files]
        self._end(spool, verdict, verdict_document["headline"], written[0])
        ports = verdict_document["ports"]
        lines = verify_output.lines(
            verdict, verdict_document, _output.width(), _commands(options["report_dir"], written[0])
        )
        _output.show(lines, verdict.ok)
        return {
            "changed": any(each["changed"] for each in written_files),
            "ok": verdict.ok,
            "headline": verdict_document["headline"],
            "lines": lines,
            "failures": verdict_document["failures"],
            "bad": bad_rails(verdict),
            "cordons": rail_cordons(verdict),
            "provider": fabric["provider"],
            "counts": {
                "kind": options["kind"],
                "ok": verdict.ok,
                "failures": len(verdict.run.failures),
                "warnings": len(verdict.run.warnings),
                "rails": len(verdict.run.rails),
                "rails_proven": verify_output.rails_proven(verdict_document),
                "rails_unproven": verify_output.rails_unproven(verdict.proof),
                "ports": ports["planned"],
                **{"ports_%s" % key: ports[key] for key in ("good", "failed", "unknown")},
                "nodes": len(verdict.run.reports),
                "nodes_unread": len(verdict_document["unread"]),
            },
            "files": written,
        }

    def _end(self, spool: Spool, verdict: Verdict, headline: str, file: str) -> None:
        """Note how the run ends on each host of the play: part ``end`` of ``rail_verify`` reads it.

        Nodes that do not answer are unreachable. The control node fails. If the limit excludes it, nodes fail for
        their own failures.
        """
        own = str(self._vars["inventory_hostname"])
        run = verdict.run
        lost = {name: each.why for name, each in run.reports.items() if each.info is None and each.code == "RV001"}
        if not verdict.ok:
            remedy = "do the steps above; %s has all failures" % _fabric_files.shown_path(file)
            message = str(RailyardError(headline, run.fabric["name"], remedy))
            nodes = () if own == "localhost" else {each.node for each in run.failures if each.node} - set(lost)
            # an innocent node does not fail if others are unreachable
            for name in nodes or ([] if lost and own != "localhost" else [own]):
                spool.note(str(name), END, {"failed": True, "msg": message})
        for name, why in lost.items():
            spool.note(name, END, {"unreachable": True, "msg": why})

    def _tags(self) -> Row:
        return {
            "tags": [str(tag) for tag in self._vars.get("ansible_run_tags") or () if tag != "all"],
            "skip_tags": [str(tag) for tag in self._vars.get("ansible_skip_tags") or ()],
        }

    def _made_by(self, options: t.Mapping[str, t.Any]) -> Row:
        """Return what must be the same in all parts."""
        own = {key: options[key] for key in ("layers", "rails")}
        about = {"railyard": VERSION, "plan": _digest(options["file"]), "thorough": options["thorough"]}
        return {**about, **own, **self._tags()}

    def _parts(self, options: t.Mapping[str, t.Any]) -> list[_verify_parts.Written]:
        """Return the parts on which this run gives the verdict."""
        parts = _verify_parts.read(options["parts_dir"], options["kind"])
        _verify_parts.check_made_by(parts, self._made_by(options))
        return parts

    @staticmethod
    def _reported(names: t.Sequence[str], spool: Spool, parts: t.Sequence[_verify_parts.Written]) -> dict[str, Row]:
        """Return what nodes reported in this run and in their part."""
        reported: dict[str, Row] = {name: {} for name in names}
        for part in parts:
            reported.update(part.rows())
        for name, row in reported.items():
            for key, value in spool.variables(name).items():
                row[key] = [*row.get(key, ()), *value] if parts and isinstance(value, list) else value
        return reported

    def _leave(
        self, options: t.Mapping[str, t.Any], spool: Spool, reported: t.Mapping[str, Row], about: Row, check: bool
    ) -> Row:
        """Write what nodes reported, for the run that gives the verdict."""
        part = node_parts.parse(options["part"])
        notes = {name: spool.noted(name, NODE) for name in reported}
        units = {name: row["unit"] for name, row in notes.items() if row}
        head = {
            "kind": options["kind"],
            "made_by": self._made_by(options),
            "nodes": list(reported),
            **about,
            "links": {name: notes[name] for name in node_parts.links(units)},
            "lost": sorted(spool.nodes(LOST)),
        }
        done = _verify_parts.write(options["parts_dir"], part, head, reported, check)
        line = "part %s: %d of %d nodes were read; the results are in %s" % (
            *(part, len(units), len(reported), _fabric_files.shown_path(done["path"])),
        )
        _output.show([line])
        return {"changed": done["changed"], "ok": True, "lines": [line], "files": [done["path"]]}


def _commands(report_dir: str, file: str) -> verify_output.Commands:
    """Return the commands that the verdict names, as they are typed in this installation."""
    inventory = _fabric_files.inventory()
    report = command(playbook("report"), inventory)
    if report_dir != "reports":
        report += " -e report_dir=%s" % shlex.quote(_fabric_files.shown_path(report_dir))
    return verify_output.Commands(_fabric_files.shown_path(file), report, lambda play: command(play, inventory))


def _node_report(name: str, variables: t.Mapping[str, t.Any], reported: Row, states: bool) -> NodeReport:
    """Return the report of one host from its variables, and from what it reported."""
    node: Row = variables["railyard_node"]
    info: Row = reported.get(_INFO) or {}
    unread = NodeReport(name, node, None, {})
    if not info:
        # an earlier play of the run failed on the node, such as one of site.yml
        return unread._replace(why="it failed earlier in this run, and was not read", state=EARLIER)
    if "system" not in info:
        return _failed(unread, info)
    try:
        node = port_matching.identify(node, info["nics"])
    except RailyardError as error:
        return unread._replace(why=_first(error), code="RV003")
    if _UNCOLLECTED in reported:
        # partners may have reached the node, but its own results are missing
        found = _failed(unread._replace(plan=node), reported[_UNCOLLECTED])
        lost = "stopped answering" if found.code == "RV001" else "did not report its results"
        return found._replace(why="its results were not collected: %s" % found.why, state=lost)
    state = (reported.get(_STATES) or {}) if states else {}
    if state.get("failed") or state.get("unreachable"):
        return _failed(unread._replace(plan=node), state)
    # a layer that is not planned has no result
    results: dict[str, Row] = state.get("modules") or {}
    after = (reported.get(_AFTER) or {}).get("counters") or {}
    inside, why = _inside(reported.get(_INSIDE))
    if inside is not None:
        inside = dict(inside, own_settings=[key for name in _OWN for key in variables.get(name) or ()])
    probed, pod_probed, others, refused, pod_refused, groups = (
        list(reported.get(key) or ()) for key in (_PROBED, _POD_PROBED, _OTHERS, _REFUSED, _POD_REFUSED, _GROUPS)
    )
    return NodeReport(
        *(name, node, info, results, probed, after),
        refused=_first(refused[0]) if refused else "",
        inside=inside,
        inside_why=why,
        pod_probed=pod_probed,
        pod_refused=_first(pod_refused[0]) if pod_refused else "",
        others=others,
        groups=groups,
        soak=reported.get("soak"),
    )


def _failed(unread: NodeReport, result: Row) -> NodeReport:
    """Return the report of a node whose task failed."""
    return unread._replace(why=_error(result), code="RV001" if result.get("unreachable") else "RV002")


def _inside(result: Row | None) -> tuple[Row | None, str]:
    """Return the result of ``rail_pods``, or why it failed."""
    if not result or result.get("skipped"):
        return None, ""
    if "pods" not in result:
        return None, _error(result)
    return result, ""


def _error(result: Row) -> str:
    return _first(result.get("msg") or result.get("module_stderr"))


def _first(text: t.Any) -> str:
    """Return the first line of a message that is not empty, without the prefix of ansible-core."""
    line = next((line.strip() for line in str(text or "").splitlines() if line.strip()), "no message")
    # the prefix of ansible-core 2.19 for connection errors
    return line[len(_PREFIX) :] if line.startswith(_PREFIX) else line


def _seen(cluster: t.Mapping[str, t.Any] | None) -> Row | None:
    """Return the observed cluster from the results of tasks. An error of ``ready`` or ``objects`` is its error."""
    if cluster is None:
        return None
    ready, objects = _answer(cluster, "ready"), _answer(cluster, "objects")
    for result, key in ((ready, "missing"), (objects, "changes")):
        if result and key not in result:
            return {"server": None, "error": _first(result.get("msg"))}
    observed = {"server": ready.get("server"), "error": ""}
    observed.update(missing=ready.get("missing") or [], changes=objects.get("changes") or [])
    observed.update(withheld=ready.get("withheld") or [], refused=objects.get("errors") or [])
    pods = _answer(cluster, "pods")
    if pods:
        observed["pods"] = pods if "pods" in pods else {"error": _first(pods.get("msg"))}
    return observed


def _answer(cluster: t.Mapping[str, t.Any], key: str) -> Row:
    """Return the result of a task; empty if it was skipped."""
    result: Row = cluster.get(key) or {}
    return {} if result.get("skipped") else result


def _digest(file: str | None) -> str | None:
    """Return the digest of the plan; None if no fabric file can be read here."""
    try:
        return plan_tables.digest(_planned.document(file))
    except RailyardError:
        return None


def _moment(seconds: float) -> str:
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _files(verdict: Verdict, written: Row) -> dict[str, bytes]:
    kind, text = verdict.run.kind, json.dumps(written, indent=1, ensure_ascii=False) + "\n"
    return {"%s.json" % kind: text.encode("utf-8"), "%s.junit.xml" % kind: verify_output.as_junit(verdict, written)}

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of all nodes on one screen: the sum, and then only what is not normal, by rails and nodes."""

from __future__ import annotations

import math
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import port_matching
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import functions as functions_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.change_groups import (
    NODE_RANGES,
    error_groups,
    nodes_text,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_ranges import (
    fold_names,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count, wrapped

Row = t.Mapping[str, t.Any]
# Lines that are not normal on one screen. The number of other lines follows.
MOST_LINES = 30
# A longer reason is shortened: status.json has the whole text.
_LONGEST = 160
UP, IN_POD = "", "in a pod"
# Results of the health service for a rail, a node and the fabric.
PASS, FAIL, UNKNOWN = "pass", "fail", "unknown"
# What ansible-core puts before each error.
_PREFIX = "Task failed: "


class NodeStatus(t.NamedTuple):
    """A node. ``ports``: rail -> :data:`UP`, :data:`IN_POD` or why it is not up; None without an answer.

    ``error``: why the node did not answer, or could not be read. ``agent``: part ``agent`` of ``rail_info``; None
    without an agent. ``agent_planned``: whether the plan has one. ``health``: part ``health`` of ``rail_info``; None
    without the health service. ``health_planned``: whether the plan has it.
    """

    name: str
    rails: t.Sequence[str]
    ports: t.Mapping[str, str] | None
    error: str = ""
    unreachable: bool = False
    agent: Row | None = None
    agent_planned: bool = False
    health: Row | None = None
    health_planned: bool = False


class RailHealth(t.NamedTuple):
    """What the health service of a node reports about a rail. ``reason``: with its remedy; empty if all is planned."""

    state: str
    reason: str = ""


def node_status(name: str, planned: Row, seen: Row, has_health: bool = False) -> NodeStatus:
    """Return the status of a node.

    :param planned: ``railyard_node``. :param has_health: whether the plan has the health service.
    :param seen: the result of ``rail_info`` with the parts ``nics``, ``rdma``, ``agent`` and ``health``.
    """
    rails = [str(port["rail"]) for port in planned.get("ports") or ()]
    has_agent = bool(planned.get("agent"))
    if "nics" not in seen:
        error = " ".join(str(seen.get("msg") or "no result").split())
        error = error[len(_PREFIX) :] if error.startswith(_PREFIX) else error
        return NodeStatus(name, rails, None, error, bool(seen.get("unreachable")), None, has_agent, None, has_health)
    agent: Row | None = seen.get("agent")
    try:
        ports = port_matching.identify(planned, seen["nics"])["ports"]
    except RailyardError:
        # some ports are not found: those that are found have a state too
        ports = planned["ports"]
    states = {str(port["rail"]): port_state(port, seen) for port in ports}
    for row in (agent or {}).get("rails") or ():
        if states.get(row["rail"]) == UP and not row["healthy"] and not row["cordoned"]:
            states[row["rail"]] = row["reason"] or "the agent reports it as unhealthy"
    return NodeStatus(name, rails, states, "", False, agent, has_agent, seen.get("health"), has_health)


def port_state(port: Row, seen: Row) -> str:
    """Return :data:`UP`, :data:`IN_POD`, or why the port of a rail is not up.

    :param port: a port of ``railyard_node``, identified on the node.
    """
    states = [_function_state(function, str(port["netdev"]), seen) for function in functions_of(port)]
    bad = [state for state in states if state]
    if not bad:
        return UP
    if len(states) > 1 and len(bad) < len(states):
        return "%d of %d links: %s" % (len(bad), len(states), bad[0])
    return bad[0]


def _function_state(function: Row, interface: str, seen: Row) -> str:
    """Return the state of a function. ``interface``: the netdev of its port, which may be a bond."""
    pci, name = function.get("pci"), function.get("netdev")
    rows = [row for row in seen["nics"] if (row["pci"] == pci if pci else row["netdev"] == name)]
    if not rows:
        return "its NIC is missing"
    nic = next((row for row in rows if row["netdev"] == name), rows[0])
    netdev = nic["netdev"]
    links = [
        row
        for row in seen.get("rdma") or ()
        if row.get("pci") == nic["pci"] and not row.get("parent") and row.get("netdev") in (None, netdev, interface)
    ]
    if netdev is None and (nic.get("holders") or nic.get("rdma_holders")):
        return IN_POD
    if nic.get("link_layer") == "infiniband":
        if not links:
            return IN_POD if nic.get("rdma_holders") else "without an RDMA device"
    elif netdev is None:
        return "without a netdev"
    elif not nic["up"]:
        return "set down"
    elif not nic["carrier"]:
        return "no carrier"
    return next(("RDMA state %s" % row["state"] for row in links if row["state"] != "ACTIVE"), UP)


def rails_health(node: NodeStatus) -> dict[str, RailHealth]:
    """Return rail -> what the health service reports about each planned rail; empty without it.

    A node that does not answer, and a state that is absent, stale or without a planned rail, are ``unknown``.
    """
    if not node.health_planned and node.health is None:
        return {}
    if node.ports is None:
        reason = "" if node.error else "the node was not read"
    elif node.health is None:
        reason = "the health service is not installed. Remedy: run hosts.yml --tags health"
    else:
        error = node.health["error"]
        reason = "%s: %s. Remedy: %s" % (error["place"], error["message"], error["remedy"]) if error else ""
    if reason or node.health is None:
        return {rail: RailHealth(UNKNOWN, reason) for rail in node.rails}
    found = {str(row["rail"]): RailHealth(str(row["state"]), _health_reason(row)) for row in node.health["rails"]}
    waiting = "; ".join(map(str, node.health["problems"])) if node.health["result"] == UNKNOWN else ""
    absent = "the state of the health service does not have this rail. Remedy: run hosts.yml --tags health"
    planned = {rail: found.get(rail, RailHealth(UNKNOWN, absent)) for rail in node.rails}
    if waiting and all(row.state == PASS for row in planned.values()):
        return {rail: RailHealth(UNKNOWN, waiting) for rail in planned}
    return planned


def _health_reason(row: Row) -> str:
    if row["state"] == PASS and not row["degraded"]:
        return ""
    reason = ("degraded: %s" if row["state"] == PASS else "%s") % (row["reason"] or row["state"])
    return reason + (". Remedy: %s" % row["remedy"].rstrip(".") if row["remedy"] else "")


class FabricStatus:
    """The status of a fabric.

    :param nodes: in the order of the inventory.
    :param version: of this collection, with which agents are compared.
    :param cordoned: cordoned nodes of the cluster; None if no cluster was asked.
    :param verdict: a line about the last verdict.
    :param notes: what could not be read.
    """

    def __init__(
        self,
        fabric: str,
        nodes: t.Sequence[NodeStatus],
        version: str,
        cordoned: t.Sequence[str] | None,
        verdict: str,
        notes: t.Sequence[str] = (),
    ) -> None:
        self.fabric = fabric
        self._nodes, self._version, self._cordoned = nodes, version, cordoned
        self._verdict, self._notes = verdict, list(notes)
        self._read = [node for node in nodes if node.ports is not None]
        self._agents = {node.name: node.agent for node in nodes if node.agent and not node.agent.get("error")}
        self._has_agents = any(node.agent or node.agent_planned for node in nodes)
        self._health = {node.name: found for node in nodes if (found := rails_health(node))}

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of the sum."""
        states = [state for node in self._read for state in (node.ports or {}).values()]
        resources = [row for agent in self._agents.values() for row in agent["resources"]]
        return {
            "nodes": len(self._nodes),
            "nodes_read": len(self._read),
            "ports": sum(len(node.rails) for node in self._nodes),
            "ports_up": sum(state in (UP, IN_POD) for state in states),
            "ports_read": len(states),
            "slots": sum(row["devices"] for row in resources),
            "slots_held": sum(row["held"] for row in resources),
            "agents": len(self._agents),
            "cordoned_rails": sum(row["cordoned"] for agent in self._agents.values() for row in agent["rails"]),
            "cordoned_nodes": len(self._cordoned or ()),
        }

    @property
    def health(self) -> str:
        """The result of the health service for the whole fabric; empty if no node has it."""
        states = [row.state for rows in self._health.values() for row in rows.values()]
        if not states:
            return ""
        return FAIL if FAIL in states else PASS if set(states) == {PASS} else UNKNOWN

    def _health_text(self) -> str:
        """Return the result with its numbers: ``health: fail, 254 of 256 rails pass, 1 fails, 1 unknown, 5 s old``."""
        states = [row.state for rows in self._health.values() for row in rows.values()]
        parts = ["%s, %s of %s pass" % (self.health, "{:,}".format(states.count(PASS)), count(len(states), "rail"))]
        if failed := states.count(FAIL):
            parts.append("{:,} {}".format(failed, "fails" if failed == 1 else "fail"))
        if unknown := states.count(UNKNOWN):
            parts.append("{:,} unknown".format(unknown))
        ages = [node.health["age"] for node in self._read if node.health and node.health["age"] is not None]
        if ages:
            parts.append("at most %d s old" % math.ceil(max(ages)))
        return "health: %s" % ", ".join(parts)

    @property
    def versions(self) -> dict[str, list[str]]:
        """Version of the agent -> nodes, the most frequent version first."""
        found: dict[str, list[str]] = {}
        for name, agent in self._agents.items():
            found.setdefault(agent["version"], []).append(name)
        return dict(sorted(found.items(), key=lambda each: (-len(each[1]), each[0])))

    @property
    def summary(self) -> str:
        """The sum: ``32 nodes: 31 answer, hgx-5 does not; 248 of 256 ports up; ...``."""
        numbers = self.counts
        silent = [node.name for node in self._nodes if node.ports is None]
        answer = "all answer" if len(self._nodes) > 1 else "it answers"
        if silent:
            answer = "%d answer, %s %s not" % (
                len(self._read),
                fold_names(silent, NODE_RANGES),
                "does" if len(silent) == 1 else "do",
            )
        parts = [
            "%s: %s" % (count(numbers["nodes"], "node"), answer),
            "{:,} of {} up".format(numbers["ports_up"], count(numbers["ports"], "port")),
        ]
        if self._has_agents:
            parts.append("{:,} of {} held".format(numbers["slots_held"], count(numbers["slots"], "slot")))
            versions = ["%s on %s" % (version, count(len(names), "node")) for version, names in self.versions.items()]
            parts.append("agents: %s" % (", ".join(versions) or "none answers"))
        if numbers["cordoned_rails"] or numbers["cordoned_nodes"]:
            cordons = [("rail", numbers["cordoned_rails"]), ("node", numbers["cordoned_nodes"])]
            parts.append("cordoned: %s" % ", ".join(count(number, noun) for noun, number in cordons if number))
        if self._health:
            parts.append(self._health_text())
        return "; ".join([*parts, self._verdict])

    def differences(self) -> list[str]:
        """Return a line for each thing that is not normal, by rails and nodes, the most frequent first."""
        silent = (
            (node.name, "", ("no answer: %s" if node.unreachable else "cannot be read: %s") % node.error)
            for node in self._nodes
            if node.ports is None
        )
        bad = (
            (node.name, rail, state)
            for node in self._read
            for rail, state in (node.ports or {}).items()
            # the health service names the same fact with its code and remedy
            if state not in (UP, IN_POD) and self._health_state(node.name, rail) != FAIL
        )
        health = (
            (name, rail, row.reason) for name, rows in self._health.items() for rail, row in rows.items() if row.reason
        )
        rails = [(name, row) for name, agent in self._agents.items() for row in agent["rails"]]
        degraded = (
            (name, row["rail"], "degraded: %s" % row["degraded"])
            for name, row in rails
            if row["healthy"] and row["degraded"]
        )
        cordons = ((name, row["rail"], row["reason"] or "cordoned") for name, row in rails if row["cordoned"])
        cluster = ["%s cordoned in the cluster" % _on(self._cordoned)] if self._cordoned else []
        problems = ((node.name, "", text) for node in self._read for text in _agent_problems(node, self._version))
        found = [line for rows in (silent, bad, health, degraded, cordons) for line in _lines(rows)]
        return [*found, *cluster, *_lines(problems), *self._notes]

    def _health_state(self, node: str, rail: str) -> str:
        row = self._health.get(node, {}).get(rail)
        return row.state if row else ""

    def lines(self, width: int) -> list[str]:
        """Return the screen. ``width``: characters of a line."""
        found = self.differences()
        shown: list[str] = []
        for at, text in enumerate(found):
            more = wrapped("  " + text, width, "    ")
            if at == MOST_LINES or len(shown) + len(more) > 2 * MOST_LINES:
                shown.append("  and %s in status.json" % count(len(found) - at, "more line"))
                break
            shown += more
        head = wrapped("fabric %s: %s" % (self.fabric, self.summary), width, "  ")
        return [*head, *([""] if shown else []), *shown]

    def document(self) -> dict[str, t.Any]:
        """Return the content of ``status.json``."""
        return {
            "fabric": self.fabric,
            "summary": self.summary,
            "counts": self.counts,
            "differences": self.differences(),
            "agents": self.versions,
            **({"health": self.health} if self._health else {}),
            "cordoned_nodes": None if self._cordoned is None else list(self._cordoned),
            "nodes": {
                node.name: {
                    "answers": node.ports is not None,
                    "error": node.error,
                    "ports": None
                    if node.ports is None
                    else {rail: state or "up" for rail, state in node.ports.items()},
                    "agent": node.agent,
                    **({"health": self._node_health(node)} if node.name in self._health else {}),
                }
                for node in self._nodes
            },
        }

    def _node_health(self, node: NodeStatus) -> dict[str, t.Any]:
        """Return the health of a node in ``status.json``. ``age``: of its state in seconds; None without one."""
        age = node.health["age"] if node.health else None
        return {"age": age, "rails": {rail: row._asdict() for rail, row in self._health[node.name].items()}}


def _agent_problems(node: NodeStatus, version: str) -> list[str]:
    agent = node.agent
    if agent is None:
        return ["no rail agent, which the plan has"] if node.agent_planned else []
    if agent.get("error"):
        return [agent["error"]]
    other = "agent %s, and this collection has %s" % (agent["version"], version)
    return [*agent["problems"], *([other] if agent["version"] != version else [])]


def _lines(rows: t.Iterable[tuple[str, str, str]]) -> list[str]:
    """Return a line for each text, with its rails and nodes, the most frequent first.

    :param rows: node, rail (empty: the whole node) and text. Names and addresses in it can differ.
    """
    errors: dict[str, list[Row]] = {}
    for node, rail, text in rows:
        errors.setdefault(node, []).append({"rail": rail, "place": "", "message": text})
    return [
        "%s%s %s" % ("%s on " % fold_names(each.rails) if each.rails else "", _on(each.nodes), _short(each.what))
        for each in error_groups(errors)
    ]


def _on(names: t.Sequence[str]) -> str:
    return "%s:" % (names[0] if len(names) == 1 else nodes_text(names))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."

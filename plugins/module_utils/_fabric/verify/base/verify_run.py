# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The data of one run of verify or drift: reports of nodes, failures, and the checks that failures make unnecessary."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import is_managed
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import named
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.failure_codes import HOSTS, LAYERS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.live_node import Live
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import CODES, after

Row = t.Dict[str, t.Any]
VERIFY, DRIFT = "verify", "drift"
# The code of a check that could not run.
UNKNOWN = "RV006"
_UNREAD_REMEDY = "run 'ansible %s -b -m railyard.fabric.rail_info', and see what it reports"
# Why a layer is not checked at the end of site.yml, which has just prepared the hosts.
NOT_THOROUGH = named("not compared by site.yml: run verify.yml")
_UNMANAGED = (
    "correct the configuration of %s at its owner: the port has managed: false, and hosts.yml does not change it"
)


# The state of a node that a task before verify failed on.
EARLIER = "failed earlier in this run"
# Code of a node without a result -> the end of a sentence about it, and about several nodes.
_UNREAD = {
    "RV001": ("does not answer", "do not answer"),
    "RV002": ("could not be read", "could not be read"),
    "RV003": ("has rail ports that cannot be identified", "have rail ports that cannot be identified"),
}


class NodeReport(t.NamedTuple):
    """What was read on one node.

    :param plan: ``railyard_node``, with the observed names of ports that the plan identifies by slot, serial, MAC or
        RDMA device.
    :param info: the result of ``rail_info``; None without a result, with the reason in ``why``.
    :param states: module -> its result in check mode.
    :param probed: the results of ``rail_probe`` in mode ``probe``, of all rounds.
    :param after: the counters of ``rail_info`` after the last round.
    :param code: the code of ``why``.
    :param refused: why the node could not serve or probe; empty if it could.
    :param inside: the result of ``rail_pods``; None if it did not run or (``inside_why``) failed.
    :param pod_probed, pod_refused: as ``probed`` and ``refused``, of its test pod.
    :param others: runs that probed on the node at the same time, each with ``run`` (its name) and ``since``.
    :param soak: what ``rail_probe`` reports about a soak; None without one.
    :param groups: the results of ``rail_probe`` of many-to-one rounds.
    :param state: what happened to a node without a result, if ``code`` does not say it.
    """

    name: str
    plan: Row
    info: Row | None
    states: t.Mapping[str, Row]
    probed: t.Sequence[Row] = ()
    after: t.Mapping[str, t.Any] = {}
    why: str = ""
    code: str = "RV002"
    refused: str = ""
    inside: Row | None = None
    inside_why: str = ""
    pod_probed: t.Sequence[Row] = ()
    pod_refused: str = ""
    others: t.Sequence[t.Mapping[str, str]] = ()
    groups: t.Sequence[Row] = ()
    soak: Row | None = None
    state: str = ""

    def unread(self, several: bool = False) -> str:
        """Return why the node, or several nodes, have no result, as the end of a sentence about them."""
        return self.state or _UNREAD[self.code][several]

    def group_increase(self, rail: str, counter: str) -> int:
        """Return by how much a counter of the node has increased in many-to-one rounds, which are judged separately."""
        return sum(row["counters"].get(counter, 0) for row in self.groups if row["rail"] == rail)

    @property
    def live(self) -> Live:
        """Return ``info`` by the ports of the plan."""
        return Live(self.info or {})

    def pod(self, uid: str) -> Row | None:
        """Return the row of a pod in the result of ``rail_pods``."""
        return next((row for row in (self.inside or {}).get("pods") or () if row["uid"] == uid), None)


class Failure(t.NamedTuple):
    """One failure as the verdict shows it.

    :param rails: all rails that it concerns; ``rail`` is the first of them.
    :param affected: without ``node``, the nodes whose ports on these rails fail, such as those of a leaf.
    """

    code: str
    node: str | None
    rail: str | None
    peer: str | None
    what: str
    expected: str | None
    found: str | None
    cause: str
    remedy: str
    playbook: str | None
    rails: tuple[str, ...] = ()
    affected: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[str | None, ...]:
        """Return the nodes that the failure concerns; None for no node."""
        return (self.node, self.peer, *self.affected)

    @property
    def layer(self) -> str:
        return CODES[self.code].layer

    def as_dict(self) -> Row:
        """Return the failure as a row of the verdict."""
        registered = CODES[self.code]
        row: Row = {"code": self.code, "name": registered.name, "layer": registered.layer}
        row.update(self._asdict(), rails=list(self.rails))
        affected = list(row.pop("affected"))
        return dict(row, affected=affected) if affected else row

    def line(self, nodes: str | None = None) -> str:
        """Return one line for people.

        :param nodes: the nodes that share the failure, if there are several.
        """
        where = " ".join(each for each in (nodes or self.node, " and ".join(self.rails)) if each) or "cluster"
        if self.peer:
            where += " (with %s)" % self.peer
        observed = "expected %s, found %s" % (self.expected, self.found)
        if self.expected is None or self.found is None:
            observed = self.found or self.expected or CODES[self.code].title
        playbook = " (%s)" % self.playbook if self.playbook else ""
        text = "%s %s: %s: %s. Likely: %s. Remedy: %s%s."
        return text % (CODES[self.code].label, where, self.what, observed, self.cause, self.remedy, playbook)


class Unknown(t.NamedTuple):
    """A check that could not run, which is neither a pass nor a failure. ``rail`` None: of the node or the cluster."""

    layer: str
    node: str | None
    rail: str | None
    what: str
    why: str
    remedy: str

    def line(self, node: str | None, rails: t.Sequence[str]) -> str:
        """Return one line for people. ``node``, ``rails``: the places that share the reason."""
        where = " ".join(filter(None, (node, " and ".join(rails)))) or "cluster"
        return "%s %s: %s: %s. Remedy: %s." % (CODES[UNKNOWN].label, where, self.what, self.why, self.remedy)


class Run:
    """Failures and warnings in the order in which they are found, and the layers that they block.

    :param layers, rails: those to check.
    :param thorough: whether modules ran in check mode, and ports listened for neighbours.
    """

    def __init__(
        self,
        fabric: Row,
        reports: t.Sequence[NodeReport],
        layers: t.Sequence[str],
        rails: t.Sequence[str],
        kind: str = VERIFY,
        thorough: bool = True,
    ) -> None:
        self.fabric = fabric
        self.reports = {each.name: each for each in reports}
        self.layers = list(layers)
        self.rails = list(rails)
        self.kind = kind
        self.thorough = thorough
        self.failures: list[Failure] = []
        self.warnings: list[Failure] = []
        self.checked: dict[str, set[t.Any]] = {name: set() for name in LAYERS}
        self.skipped: dict[str, set[t.Any]] = {name: set() for name in LAYERS}
        self.why_not: dict[str, str] = {}
        # node and rail over which traffic of a layer was successful
        self.carried: dict[str, set[tuple[str, str]]] = {name: set() for name in ("reach", "rdma", "pods")}
        # node and rail -> the planes that have no link or do not exist
        self.lost_planes: dict[tuple[str, str], set[int]] = {}
        # in the order in which they are found
        self.unknowns: dict[Unknown, None] = {}
        # key -> what a layer adds to the verdict's document
        self.shown: dict[str, t.Any] = {}
        # client and server, rail, and verify_share -> the floor of the transfer
        self.floors: dict[tuple[tuple[str, str], str, float | None], t.Any] = {}
        # node and rail -> why traffic has not proven it, unless a failure explains it
        self.untested: dict[tuple[str, str], str] = {}
        # (layer, node, rail) -> how other nodes show that the port of the node fails
        self.evidence: dict[tuple[str, str, str], str] = {}
        self._ports: dict[str, dict[str, Row]] = {}
        self._devices: dict[tuple[str, str], Row | None] = {}
        self._blocked: dict[tuple[str, str | None], set[str]] = {}
        # by node and peer, so that a lookup does not take longer with thousands of nodes
        self._failures: dict[str | None, list[Failure]] = {}
        self._warnings: dict[str | None, list[Failure]] = {}

    # -- what is checked ---------------------------------------------------------------------------------------------

    def nodes(self) -> list[NodeReport]:
        """Return the nodes that could be read."""
        return [each for each in self.reports.values() if each.info is not None]

    def port(self, node: str, rail: str) -> Row:
        """Return the planned port of a node on a rail, which must exist."""
        if node not in self._ports:
            self._ports[node] = {port["rail"]: port for port in self.reports[node].plan["ports"]}
        return self._ports[node][rail]

    def device(self, node: str, rail: str) -> Row | None:
        """Return the observed port of the RDMA device of a planned port."""
        key = (node, rail)
        if key not in self._devices:
            self._devices[key] = self.reports[node].live.device(self.port(node, rail))
        return self._devices[key]

    def ports(self, layer: str) -> t.Iterator[tuple[NodeReport, Row]]:
        """Return the ports that a layer must check: those without a failure that blocks the layer."""
        for report in self.nodes():
            for port in report.plan["ports"]:
                if port["rail"] not in self.rails:
                    continue
                if self.look(layer, report.name, port["rail"]):
                    yield report, port

    def look(self, layer: str, node: str, rail: str | None = None) -> bool:
        """Return whether a place must be checked, and count it as checked or skipped."""
        place = (node, rail)
        if self.blocked(layer, node, rail):
            self.skipped[layer].add(place)
            return False
        self.checked[layer].add(place)
        return True

    def blocked(self, layer: str, node: str, rail: str | None) -> bool:
        """Return whether an earlier failure makes a layer unnecessary on a rail or on the whole node."""
        return layer in self._blocked.get((node, rail), ()) or layer in self._blocked.get((node, None), ())

    def block(self, layers: t.Iterable[str], node: str, rail: str | None) -> None:
        """Do not check these layers on a rail, or with ``rail`` None on the whole node."""
        self._blocked.setdefault((node, rail), set()).update(layers)

    def lose_plane(self, node: str, rails: t.Iterable[str], plane: int) -> None:
        """Note that a plane of these rails carries no traffic."""
        for rail in rails:
            self.lost_planes.setdefault((node, rail), set()).add(plane)

    # -- failures and warnings ---------------------------------------------------------------------------------------

    def has(self, code: str, node: str | None, rail: str | None) -> bool:
        """Return whether there is a failure or warning with this code, with ``rail`` on this rail."""
        return any(
            each.code == code and each.node == node and (rail in each.rails if rail else True)
            for by_node in (self._failures, self._warnings)
            for each in by_node.get(node, ())
        )

    def failed(self, node: str, rail: str | None, layer: str | None = None) -> bool:
        """Return whether there is a failure of the node, with ``rail`` on this rail, with ``layer`` in this layer."""
        return any(
            node in (each.node, *each.affected) and (rail is None or rail in each.rails) and layer in (None, each.layer)
            for each in self.failures_of(node)
        )

    def warnings_of(self, node: str, layer: str) -> list[Failure]:
        """Return the warnings of a layer that name the node as node or as peer, in no order."""
        return [each for each in self._warnings.get(node, ()) if each.layer == layer]

    def covers(self, rail: str | None) -> bool:
        """Return whether a rail must be checked. What concerns no rail always must."""
        return rail is None or rail in self.rails

    def failures_of(self, *nodes: str | None) -> list[Failure]:
        """Return the failures that name one of the nodes as node or as peer, in no order."""
        return [each for node in nodes for each in self._failures.get(node, ())]

    def fail(self, code: str, node: str | None, rail: str | None = None, what: str = "", **about: t.Any) -> None:
        """Add a failure, and block the layers that it makes unnecessary.

        :param about: ``expected``, ``found``, ``cause``, ``remedy``, ``playbook``, ``peer``, ``others`` (further rails
            that it concerns), ``peers`` (further nodes on which it blocks layers), ``affected``.
        """
        if self.kind == DRIFT and not CODES[code].drift:
            return  # the configuration of node and cluster is as planned
        failure = self._made(code, node, rail, what, about)
        self.failures.append(failure)
        _index(self._failures, failure)
        for place in [node, *about.get("peers", ())] if node else failure.affected:
            for each in failure.rails or (None,):
                self.block(after(CODES[code]), str(place), each)

    def unknown(self, layer: str, node: str | None, rail: str | None, what: str, why: str, remedy: str) -> None:
        """Add a check that could not run. The port, if there is one, is then not known to be good."""
        if layer in self.layers and self.covers(rail):
            self.unknowns[Unknown(layer, node, rail, what, why, remedy)] = None

    def unread(self, layer: str, node: str, rail: str | None, what: str) -> None:
        """Add a check that could not run because ``rail_info`` did not return a value."""
        self.unknown(layer, node, rail, what, "the node did not report it", _UNREAD_REMEDY % node)

    def unknown_ports(self) -> dict[tuple[str, str], Unknown]:
        """Return node and rail -> the first check of the port that could not run."""
        found: dict[tuple[str, str], Unknown] = {}
        for each in self.unknowns:
            if each.node and each.rail:
                found.setdefault((each.node, each.rail), each)
        return found

    def unknown_groups(self) -> dict[tuple[Unknown, str | None], list[str]]:
        """Return the checks that could not run for the same reason, without their rail, and node -> the rails."""
        groups: dict[tuple[Unknown, str | None], list[str]] = {}
        for each in self.unknowns:
            rails = groups.setdefault((each._replace(node=None, rail=None), each.node), [])
            rails += [each.rail] if each.rail else []
        return groups

    def fail_drift(self, code: str, node: str | None, rail: str | None = None, what: str = "", **about: t.Any) -> None:
        """Add a failure of drift. For verify it is a warning, because the live state is as planned."""
        add = self.fail if self.kind == DRIFT else self.warn
        add(code, node, rail, what, **about)

    def warn(self, code: str, node: str | None, rail: str | None = None, what: str = "", **about: t.Any) -> None:
        """Add a warning, which does not fail the run. ``about``: as in :meth:`fail`."""
        warning = self._made(code, node, rail, what, about)
        self.warnings.append(warning)
        _index(self._warnings, warning)

    def _made(self, code: str, node: str | None, rail: str | None, what: str, about: Row) -> Failure:
        default = CODES[code]
        playbook = about.get("playbook", default.playbook)
        remedy = about.get("remedy") or default.remedy
        if default.interface and node and rail and not is_managed(self.port(node, rail)):
            playbook, remedy = None, _UNMANAGED % self.port(node, rail)["netdev"]
        if playbook and node and playbook == HOSTS:
            playbook += " --limit %s" % node
        rails = tuple(dict.fromkeys(each for each in (rail, *about.get("others", ())) if each))
        cause = about.get("cause") or default.cause
        evidence = self.evidence.get((default.layer, str(node), str(rail)))
        return Failure(
            code,
            node,
            rail,
            about.get("peer"),
            what or default.title,
            _text(about.get("expected")),
            _text(about.get("found")),
            "%s; %s" % (cause, evidence) if evidence and not about.get("peer") else cause,
            remedy,
            playbook,
            rails,
            tuple(about.get("affected", ())),
        )


def check_share(share: float | None) -> None:
    """Check the part of a port's bandwidth that a transfer must reach; None: the floor follows from the plan.

    :raises RailyardError: for a part that each transfer, or none, would reach.
    """
    if share is not None and not 0 < share <= 1:
        remedy = "write a number above 0 and up to 1, such as 0.8"
        raise RailyardError("%s is not a part of the bandwidth of a port" % share, "verify_share", remedy)


def _index(by_node: dict[str | None, list[Failure]], failure: Failure) -> None:
    for node in {failure.node, *filter(None, failure.nodes)}:
        by_node.setdefault(node, []).append(failure)


def _text(value: t.Any) -> str | None:
    """Return a value as text; None for no value."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(_text(each)) for each in value)
    return str(value)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What one run of verify or drift gathers: failures, and on which rail of which node what is pointless after them."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import (
    CODES,
    HOSTS,
    LAYERS,
    after,
)

Row = t.Dict[str, t.Any]
VERIFY, DRIFT = "verify", "drift"


class Told(t.NamedTuple):
    """What one node told.

    :param plan: ``railyard_node``, with the ports found that the plan knows by slot, serial, MAC or RDMA device.
    :param info: ``rail_info``'s result; None where there is none, and then ``why`` says so.
    :param states: module -> its result in check mode.
    :param probed: the results of ``rail_probe`` in mode ``probe``, of all rounds.
    :param after: ``rail_info``'s counters after the last round.
    :param code: which code ``why`` is of. ``refused``: why it could not serve or probe, empty where it could.
    :param inside: ``rail_pods``'s result; None where it was not asked, or (``inside_why``) could not tell.
    :param pod_probed, pod_refused: what ``probed`` and ``refused`` are, of its test pod.
    :param others: runs that probed on the node at the same time, each with ``run`` (its name) and ``since``.
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


class Failure(t.NamedTuple):
    """One thing that is wrong, in the words of the verdict. ``rails``: all that it is about, first ``rail``."""

    code: str
    node: str | None
    rail: str | None
    peer: str | None
    what: str
    expected: str | None
    found: str | None
    cause: str
    remedy: str
    mends: str | None
    rails: tuple[str, ...] = ()

    @property
    def layer(self) -> str:
        return CODES[self.code].layer

    def as_dict(self) -> Row:
        row = self._asdict()
        del row["rails"]
        return dict(row, layer=self.layer, rails=list(self.rails))

    def line(self, nodes: str | None = None) -> str:
        """One line for a person. ``nodes``: those of which it is said, where these are several."""
        where = " ".join(each for each in (nodes or self.node, " and ".join(self.rails)) if each) or "cluster"
        if self.peer:
            where += " (with %s)" % self.peer
        seen = "expected %s, found %s" % (self.expected, self.found)
        if self.expected is None or self.found is None:
            seen = self.found or self.expected or CODES[self.code].title
        mends = " (%s)" % self.mends if self.mends else ""
        said = "%s %s: %s: %s. Likely: %s. Remedy: %s%s."
        return said % (self.code, where, self.what, seen, self.cause, self.remedy, mends)


class Run:
    """Failures and warnings as they are found, and what they make pointless.

    :param layers, rails: those that were asked for.
    """

    def __init__(
        self, fabric: Row, told: t.Sequence[Told], layers: t.Sequence[str], rails: t.Sequence[str], kind: str = VERIFY
    ) -> None:
        self.fabric = fabric
        self.told = {each.name: each for each in told}
        self.layers = list(layers)
        self.rails = list(rails)
        self.kind = kind
        self.failures: list[Failure] = []
        self.warnings: list[Failure] = []
        self.checked: dict[str, set[t.Any]] = {name: set() for name in LAYERS}
        self.skipped: dict[str, set[t.Any]] = {name: set() for name in LAYERS}
        self.why_not: dict[str, str] = {}
        self.unseen: set[tuple[str, str]] = set()
        # node and rail over which traffic of a layer went well
        self.carried: dict[str, set[tuple[str, str]]] = {name: set() for name in ("reach", "rdma", "pods")}
        self._blocked: dict[tuple[str, str | None], set[str]] = {}
        # by the node and the peer that each names: of thousands of nodes each asks for its own
        self._failures: dict[str | None, list[Failure]] = {}
        self._warnings: dict[str | None, list[Failure]] = {}

    # -- what is looked at -------------------------------------------------------------------------------------------

    def nodes(self) -> list[Told]:
        """Those that could be read."""
        return [each for each in self.told.values() if each.info is not None]

    def ports(self, layer: str) -> t.Iterator[tuple[Told, Row]]:
        """The ports that a layer is to look at: without those on which an earlier one failed."""
        for told in self.nodes():
            for port in told.plan["ports"]:
                if port["rail"] not in self.rails:
                    continue
                if self.look(layer, told.name, port["rail"]):
                    yield told, port

    def look(self, layer: str, node: str, rail: str | None = None) -> bool:
        """Whether there is any use in looking; it is counted."""
        place = (node, rail)
        if self.blocked(layer, node, rail):
            self.skipped[layer].add(place)
            return False
        self.checked[layer].add(place)
        return True

    def blocked(self, layer: str, node: str, rail: str | None) -> bool:
        return layer in self._blocked.get((node, rail), ()) or layer in self._blocked.get((node, None), ())

    def block(self, layers: t.Iterable[str], node: str, rail: str | None) -> None:
        self._blocked.setdefault((node, rail), set()).update(layers)

    # -- what is wrong -----------------------------------------------------------------------------------------------

    def has(self, code: str, node: str | None, rail: str | None) -> bool:
        return any(
            each.code == code and each.node == node and (rail in each.rails if rail else True)
            for told in (self._failures, self._warnings)
            for each in told.get(node, ())
        )

    def failures_of(self, *nodes: str | None) -> list[Failure]:
        """The failures that name one of the nodes, as node or as peer, in no order."""
        return [each for node in nodes for each in self._failures.get(node, ())]

    def fail(self, code: str, node: str | None, rail: str | None = None, what: str = "", **said: t.Any) -> None:
        """Something is wrong. ``said``: ``expected``, ``found``, ``cause``, ``remedy``, ``mends``, ``peer``,
        ``others`` (further rails that it is about), ``peers`` (further nodes on which it makes layers pointless).
        """
        if self.kind == DRIFT and not CODES[code].drift:
            return  # neither node nor cluster is otherwise than planned
        failure = self._made(code, node, rail, what, said)
        self.failures.append(failure)
        _index(self._failures, failure)
        for place in [node, *said.get("peers", ())] if node else []:
            for each in failure.rails or (None,):
                self.block(after(CODES[code]), str(place), each)

    def warn(self, code: str, node: str | None, rail: str | None = None, what: str = "", **said: t.Any) -> None:
        """Something to know, which fails nothing."""
        warning = self._made(code, node, rail, what, said)
        self.warnings.append(warning)
        _index(self._warnings, warning)

    def _made(self, code: str, node: str | None, rail: str | None, what: str, said: Row) -> Failure:
        about = CODES[code]
        mends = said.get("mends", about.mends)
        if mends and node and mends == HOSTS:
            mends += " --limit %s" % node
        rails = tuple(dict.fromkeys(each for each in (rail, *said.get("others", ())) if each))
        return Failure(
            code,
            node,
            rail,
            said.get("peer"),
            what or about.title,
            _text(said.get("expected")),
            _text(said.get("found")),
            said.get("cause") or about.cause,
            said.get("remedy") or about.remedy,
            mends,
            rails,
        )


def _index(by_node: dict[str | None, list[Failure]], failure: Failure) -> None:
    for node in {failure.node, failure.peer} if failure.peer else (failure.node,):
        by_node.setdefault(node, []).append(failure)


def _text(value: t.Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(_text(each)) for each in value)
    return str(value)

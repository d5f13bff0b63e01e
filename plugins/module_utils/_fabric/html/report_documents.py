# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Readers of the documents of a report: verdicts of verify and drift, the plan, and findings of lint.

Any bytes give either a value of the right shape or a :class:`RailyardError` with place and remedy. Unknown keys are
ignored, so that documents of newer versions can be read.
"""

from __future__ import annotations

import json
import math
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import SEVERITIES, label
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import plan_diff
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import playbook
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict.next_steps import Failure

Data = t.Mapping[str, t.Any]

FORMAT = 1
VERIFY, DRIFT = "verify", "drift"
STATES = OK, FAILED, NOT_CHECKED, UNKNOWN = "ok", "failed", "not checked", "unknown"
NOT_PROVEN = "not proven"
# Kind of document -> playbook that writes it.
PLAYS = {VERIFY: playbook("verify"), DRIFT: playbook("drift")}
_WHEN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z")


class Layer(t.NamedTuple):
    """One layer. ``checked``, ``failed`` and ``not_checked`` are counts. ``why_not``: the reason for unchecked ones."""

    name: str
    title: str
    checked: int
    failed: int
    not_checked: int
    why_not: str


class Measure(t.NamedTuple):
    """One transfer. ``gbits`` is in 10^9 bits per second. A value that was not measured is None."""

    rail: str
    source: str
    target: str
    gbits: float | None
    latency_us: float | None
    rtt_ms: float | None
    gpu: bool
    ok: bool


class Counter(t.NamedTuple):
    """A counter of a port before and after the run; None if it could not be read."""

    node: str
    rail: str
    name: str
    before: int | None
    after: int | None

    @property
    def grown(self) -> int:
        """Return the growth of the counter; 0 if unknown."""
        return 0 if self.before is None or self.after is None else self.after - self.before


class UnknownCheck(t.NamedTuple):
    """A check that could not run on the rails of a node; empty ``node``: in the cluster."""

    node: str
    rails: t.Sequence[str]
    layer: str
    what: str
    why: str
    remedy: str


class Verdict(t.NamedTuple):
    """The result of a run of verify or drift.

    ``began`` is empty if the document does not contain it. ``matrix``: node -> rail -> :data:`OK`, :data:`FAILED`,
    :data:`NOT_CHECKED` or :data:`UNKNOWN`. ``unproven``: rail -> why traffic has not proven it; None if no proof was
    requested or the document does not contain it. ``asked``: the options of the run.
    """

    kind: str
    fabric: str
    plan: str
    railyard: str
    began: str
    seconds: float | None
    ok: bool
    asked: Data
    nodes: t.Sequence[str]
    rails: t.Sequence[str]
    layers: t.Sequence[Layer]
    matrix: t.Mapping[str, t.Mapping[str, str]]
    failures: t.Sequence[Failure]
    warnings: t.Sequence[Failure]
    measures: t.Sequence[Measure]
    counters: t.Sequence[Counter]
    boots: t.Mapping[str, str]
    cluster: Data
    unproven: t.Mapping[str, str] | None = None
    headline: str = ""
    unknown: t.Sequence[UnknownCheck] = ()


class LintFinding(t.NamedTuple):
    """One finding of lint."""

    file: str
    code: str
    severity: str
    place: str
    line: int | None
    message: str
    remedy: str
    reason: str
    name: str = ""

    @property
    def label(self) -> str:
        return label(self.name, self.code)


def verdict(raw: bytes, file: str, kind: str) -> Verdict:
    """Read a verdict.

    :param file: name of the file in errors.
    :raises RailyardError: if the bytes are not a document of this kind.
    """
    read = _Reader(file, "run %s again, or take the file away" % PLAYS[kind])
    data = read.document(raw)
    read.format(data)
    if data.get("kind") != kind:
        raise read.wrong("kind", "it is %s, and not %s" % (_shown(data.get("kind")), kind))
    return Verdict(
        kind=kind,
        layers=[_layer(read, each, place) for each, place in read.items(data, "layers")],
        matrix=_matrix(read, data),
        failures=[_failure(read, each, place) for each, place in read.items(data, "failures")],
        warnings=[_failure(read, each, place) for each, place in read.items(data, "warnings")],
        unknown=[_unknown(read, each, place) for each, place in read.items(data, "unknown")],
        measures=[_measure(read, each, place) for each, place in read.items(data, "measures")],
        counters=[_counter(read, each, place) for each, place in read.items(data, "counters")],
        boots={node: str(boot) for node, boot in read.mapping(data, "boots").items() if boot is not None},
        cluster=read.mapping(data, "cluster"),
        unproven=_unproven(read, data),
        nodes=read.names(data, "nodes"),
        rails=read.names(data, "rails"),
        **_head(read, data),
    )


def plan(raw: bytes, file: str) -> dict[str, t.Any]:
    """Read a ``plan.json`` and check the names that the report refers to. Raises RailyardError."""
    document = plan_diff.load(raw, file)
    errors = [] if isinstance(document["fabric"].get("name"), str) else ["fabric.name"]
    for key in ("rails", "nodes"):
        for index, each in enumerate(document[key]):
            if not isinstance(each, dict) or not isinstance(each.get("name"), str):
                errors.append("%s[%d].name" % (key, index))
            elif key == "nodes" and not _ports(each.get("ports")):
                errors.append("nodes[%d].ports" % index)
    if errors:
        message = "it is not a plan: %s is missing or wrong" % errors[0]
        raise RailyardError(message, file, "run %s again, with -e report_dir=DIR" % playbook("plan"))
    return document


def _ports(value: t.Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict) and isinstance(each.get("rail"), str) for each in value
    )


def findings(raw: bytes, file: str) -> list[LintFinding]:
    """Read a ``findings.json``. Raises RailyardError."""
    read = _Reader(file, "run %s again, or take the file away" % playbook("validate"))
    data = read.document(raw)
    read.format(data)
    if not isinstance(data.get("files"), list):
        raise read.wrong("files", "it is not a list")
    found = []
    for each, place in read.items(data, "files"):
        name = read.text(each, "file", place)
        for finding, where in read.items(each, "findings", place):
            severity = read.text(finding, "severity", where)
            if severity not in SEVERITIES:
                raise read.wrong(where + ".severity", "%s is not a severity" % _shown(severity))
            texts = [read.text(finding, key, where) for key in ("code", "place", "message", "remedy", "reason", "name")]
            line = read.whole(finding, "line", where)
            found.append(LintFinding(name, texts[0], severity, texts[1], line, *texts[2:]))
    return found


def _shown(value: t.Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:39] + "…"


class _Reader:
    """Typed access to values of a document. A value of the wrong type raises RailyardError with its place."""

    def __init__(self, file: str, remedy: str) -> None:
        self.file = file
        self.remedy = remedy

    def wrong(self, place: str, message: str) -> RailyardError:
        """Return the error for a value; ``place`` is empty for the whole document."""
        return RailyardError("%s: %s" % (place, message) if place else message, self.file, self.remedy)

    def document(self, raw: bytes) -> Data:
        try:
            data = json.loads(raw.decode("utf-8"), parse_constant=_reject_constant)
        except (ValueError, RecursionError) as error:
            message = "it is empty" if not raw.strip() else "this is not JSON, or only a part of it: %s" % error
            raise self.wrong("", message) from None
        if not isinstance(data, dict):
            raise self.wrong("", "this is not a document of Railyard: it is not a mapping")
        return data

    def format(self, data: Data) -> None:
        if "format" not in data:
            raise self.wrong("", "this is not a document of Railyard: it has no format")
        number = data["format"]
        if number != FORMAT or isinstance(number, bool):
            raise self.wrong("format", "it is %s, and this reads format %d" % (_shown(number), FORMAT))

    def text(self, data: Data, key: str, place: str = "") -> str:
        value = data.get(key)
        if value is None:
            return ""
        if isinstance(value, (dict, list)):
            raise self.wrong(_path(place, key), "%s is not text" % _shown(value))
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    def flag(self, data: Data, key: str, place: str = "", missing: bool | None = None) -> bool:
        value = data.get(key, missing)
        if not isinstance(value, bool):
            raise self.wrong(_path(place, key), "%s is neither true nor false" % _shown(value))
        return value

    def number(self, data: Data, key: str, place: str = "") -> float | None:
        value = data.get(key)
        if value is None:
            return None
        valid = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e15
        if not valid or not math.isfinite(value):
            raise self.wrong(_path(place, key), "%s is not a number of 0 or more" % _shown(value))
        return float(value)

    def whole(self, data: Data, key: str, place: str = "") -> int | None:
        value = data.get(key)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 1 << 64):
            raise self.wrong(_path(place, key), "%s is not a whole number" % _shown(value))
        return value

    def items(self, data: Data, key: str, place: str = "") -> list[tuple[Data, str]]:
        """Return the mappings of a list, each with its place; an empty list if the key is missing."""
        value = data.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.wrong(_path(place, key), "%s is not a list" % _shown(value))
        found: list[tuple[Data, str]] = []
        for number, each in enumerate(value):
            item_place = "%s[%d]" % (_path(place, key), number)
            if not isinstance(each, dict):
                raise self.wrong(item_place, "%s is not a mapping" % _shown(each))
            found.append((each, item_place))
        return found

    def mapping(self, data: Data, key: str) -> Data:
        value = data.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.wrong(key, "%s is not a mapping" % _shown(value))
        return value

    def names(self, data: Data, key: str, place: str = "") -> list[str]:
        value = data.get(key)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.wrong(_path(place, key), "%s is not a list of names" % _shown(value))
        return value


def _reject_constant(text: str) -> float:
    raise ValueError("%s is not a number" % text)


def _path(place: str, key: str) -> str:
    return "%s.%s" % (place, key) if place else key


def _head(read: _Reader, data: Data) -> dict[str, t.Any]:
    """Return the fields of the run that every kind of verdict has."""
    began = read.text(data, "began")
    if began and not _WHEN.match(began):
        raise read.wrong("began", "%s is not a time such as 2026-11-21T20:15:00Z" % _shown(began))
    head: dict[str, t.Any] = {key: read.text(data, key) for key in ("fabric", "plan", "railyard", "headline")}
    return dict(
        head,
        began=began,
        seconds=read.number(data, "seconds"),
        ok=read.flag(data, "ok"),
        asked=read.mapping(data, "asked"),
    )


def _layer(read: _Reader, data: Data, place: str) -> Layer:
    numbers = [read.whole(data, key, place) or 0 for key in ("checked", "failed", "not_checked")]
    name = read.text(data, "name", place)
    title = read.text(data, "title", place) or name
    return Layer(name, title, numbers[0], numbers[1], numbers[2], read.text(data, "why_not", place))


def _failure(read: _Reader, data: Data, place: str) -> Failure:
    texts = {key: read.text(data, key, place) for key in Failure._fields if key != "rails"}
    rails = read.names(data, "rails", place) if data.get("rails") is not None else ()
    return Failure(rails=rails, **texts)


def _unknown(read: _Reader, data: Data, place: str) -> UnknownCheck:
    texts = {key: read.text(data, key, place) for key in UnknownCheck._fields if key != "rails"}
    return UnknownCheck(rails=read.names(data, "rails", place), **texts)


def _measure(read: _Reader, data: Data, place: str) -> Measure:
    rail, source, target = (read.text(data, key, place) for key in ("rail", "from", "to"))
    gbits, latency, rtt = (read.number(data, key, place) for key in ("gbits", "latency_us", "rtt_ms"))
    gpu, ok = read.flag(data, "gpu", place, False), read.flag(data, "ok", place, True)
    return Measure(rail, source, target, gbits, latency, rtt, gpu, ok)


def _counter(read: _Reader, data: Data, place: str) -> Counter:
    node, rail, name = (read.text(data, key, place) for key in ("node", "rail", "name"))
    before, after = (read.whole(data, key, place) for key in ("before", "after"))
    return Counter(node, rail, name, before, after)


def _matrix(read: _Reader, data: Data) -> dict[str, dict[str, str]]:
    result: dict[str, dict[str, str]] = {}
    for node, rails in read.mapping(data, "matrix").items():
        place = "matrix.%s" % node
        if not isinstance(rails, dict):
            raise read.wrong(place, "%s is not a mapping" % _shown(rails))
        for rail, state in rails.items():
            if state not in STATES:
                problem = "%s is not one of %s" % (_shown(state), ", ".join(STATES))
                raise read.wrong("%s.%s" % (place, rail), problem)
        result[node] = dict(rails)
    return result


def _unproven(read: _Reader, data: Data) -> dict[str, str] | None:
    if data.get("proof") is None:
        return None
    result: dict[str, str] = {}
    for rail, each in read.mapping(data, "proof").items():
        place = "proof.%s" % rail
        if not isinstance(each, dict):
            raise read.wrong(place, "%s is not a mapping" % _shown(each))
        if read.text(each, "state", place) == NOT_PROVEN:
            result[rail] = read.text(each, "why", place)
    return result

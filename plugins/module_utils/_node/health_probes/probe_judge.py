# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the probes of all rails of a node say about each rail. Pure.

What only one partner shows is not a failure of this node's port: the finding names the partner, and the rail is
degraded. A partner that is silent on all rails is down or restarts, which is not a failure of this node.
"""

from __future__ import annotations

import statistics
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.health_probes.probe_evidence import (
    WINDOW,
    RailEvidence,
    Sample,
)

NO_REPLY, PATH_MTU, LOSS, LATENCY, MARKS = "RV801", "RV802", "RV803", "RV854", "RV895"
# Seconds for which the last outcome of a partner counts.
_RECENT = 10.0
# Seconds after the second loss of a silent partner from which on other replies count: on other rails they show that it
# runs, and of other partners that this port works.
_LATER = 1.0
# Round trips in the window from which on they are compared.
_FEWEST = 30
# A rail is slow from this many times the usual round trip, plus microseconds that a busy node may add.
_SLOW, _SLOW_PLUS = 4.0, 200.0
# A round trip is late from this many times the usual one, plus microseconds; a rail from this many seconds with one.
_LATE, _LATE_PLUS, _LATE_SECONDS = 10.0, 1000.0, 3
# How many times the mean of the other rails these seconds must be.
_LATE_TIMES = 4.0
# Seconds for which a rail must differ from the others. Load of the node does not meet all rails at the same time.
_LASTING = 10.0
# The share of marked replies from which on a rail is congested, and how many times the share on other rails it must be.
_MARKED, _MARKED_TIMES = 0.2, 4
# Windows whose medians are the history of a rail, and from how many on it is compared.
_HISTORY, _FEWEST_HISTORY = 120, 10


class ProbeFinding(t.NamedTuple):
    """What is wrong. ``peer``: the partner that is the cause or with which alone it happens; None: this node's port.

    A finding without ``peer`` fails the rail, unless it is about the time that packets take.
    """

    code: str
    peer: str | None
    expected: str
    found: str

    @property
    def fails(self) -> bool:
        return self.peer is None and self.code in (NO_REPLY, PATH_MTU, LOSS)


class ProbeVerdict(t.NamedTuple):
    """The findings of a rail. ``unknown``: why its probes say nothing; empty if they do."""

    findings: tuple[ProbeFinding, ...]
    unknown: str = ""


class ProbeJudge:
    """Compares the rails of a node with one another, and with their history."""

    def __init__(self) -> None:
        # rail -> medians of earlier windows, in microseconds
        self._history: dict[str, list[float]] = {}
        self._kept_at: float | None = None
        # rail -> since when it differs from others
        self._slow_since: dict[str, float] = {}

    def judge(self, rails: t.Mapping[str, RailEvidence], now: float) -> dict[str, ProbeVerdict]:
        """Return the verdict of each rail that has partners."""
        alive = _alive(rails)
        verdicts: dict[str, ProbeVerdict] = {}
        times = {
            rail: [each for each in evidence.samples if each.sent >= now - WINDOW] for rail, evidence in rails.items()
        }
        medians = {rail: _median(samples) for rail, samples in times.items()}
        for rail, evidence in rails.items():
            if not evidence.partners:
                continue
            evidence.decide(now)
            findings, unknown = _replies(rail, evidence, alive, now)
            findings += _full_size(evidence)
            findings += _losses(evidence)
            if not findings and not unknown:
                slow = self._slow(rail, evidence, times, medians) or _marked(rail, times)
                began = self._slow_since.setdefault(rail, now) if slow else self._slow_since.pop(rail, now)
                findings += slow if now - began >= _LASTING else []
            named = {each.peer for each in findings}
            for name, partner in zip(evidence.names, evidence.partners):
                partner.named = name in named
            verdicts[rail] = ProbeVerdict(tuple(findings), unknown)
        self._remember(verdicts, medians, now)
        return verdicts

    def _remember(
        self, verdicts: t.Mapping[str, ProbeVerdict], medians: t.Mapping[str, float | None], now: float
    ) -> None:
        """Keep the median of each rail without finding, once per window."""
        if self._kept_at is not None and now - self._kept_at < WINDOW:
            return
        self._kept_at = now
        for rail, verdict in verdicts.items():
            median = medians[rail]
            if median is not None and not verdict.findings:
                self._history[rail] = [*self._history.get(rail, []), median][-_HISTORY:]

    def _slow(
        self,
        rail: str,
        evidence: RailEvidence,
        times: t.Mapping[str, t.Sequence[Sample]],
        medians: t.Mapping[str, float | None],
    ) -> list[ProbeFinding]:
        """Return the finding about round trips that are longer than on the other rails and than before."""
        median = medians[rail]
        usual = [each for name, each in medians.items() if name != rail and each is not None]
        references = [statistics.median(usual)] if usual else []
        history = self._history.get(rail, [])
        if len(history) >= _FEWEST_HISTORY:
            references.append(statistics.median(history))
        if median is None or not references:
            return []
        expected = max(references)
        limit = _SLOW * expected + _SLOW_PLUS
        if median > limit:
            text = "round trips of %s, as on other rails and before" % _microseconds(expected)
            slow = [each for each in times[rail] if each.round_trip > limit]
            return [ProbeFinding(LATENCY, _only(evidence, times[rail], slow), text, "%s" % _microseconds(median))]
        if not usual:
            return []
        late = _LATE * max(expected, median) + _LATE_PLUS
        tail = _later(times[rail], late)
        seconds = _batches(tail)
        if seconds < _LATE_SECONDS:
            return []
        others = [_batches(_later(times[name], late)) for name in times if name != rail and medians[name] is not None]
        if seconds < _LATE_TIMES * statistics.mean(others):
            return []
        found = "%d of %d replies took longer than %s" % (len(tail), len(times[rail]), _microseconds(late))
        expected_text = "no late replies, as on other rails"
        return [ProbeFinding(LATENCY, _only(evidence, times[rail], tail), expected_text, found)]


def _alive(rails: t.Mapping[str, RailEvidence]) -> dict[str, dict[str, float]]:
    """Return node -> rails on which it is not silent -> the time of the last request that it replied to."""
    found: dict[str, dict[str, float]] = {}
    for rail, evidence in rails.items():
        for name, partner in zip(evidence.names, evidence.partners):
            if partner.replied is not None and not partner.silent():
                found.setdefault(name, {})[rail] = partner.replied
    return found


def _replies(
    rail: str, evidence: RailEvidence, alive: t.Mapping[str, t.Mapping[str, float]], now: float
) -> tuple[list[ProbeFinding], str]:
    """Return the findings about partners that do not reply, and why the rail is unknown."""
    pairs = list(zip(evidence.names, evidence.partners))
    silent = [name for name, each in pairs if each.silent() and each.lost_last >= now - _RECENT]
    if not silent:
        return [], ""
    # they replied on other rails after they were silent here
    elsewhere = [
        name
        for name, each in pairs
        if name in silent and any(time >= each.lost_again + _LATER for time in alive.get(name, {}).values())
    ]
    # a partner that replied before they were silent proves nothing about this port
    since = max(each.lost_again for name, each in pairs if name in silent) + _LATER
    if any(each.replied is not None and each.replied >= since and not each.silent() for _name, each in pairs):
        expected = "replies to echo requests, as on other rails of %s"
        # of a port that loses most packets, some partners seem to be silent
        lossy = _lossy(evidence)
        return [ProbeFinding(NO_REPLY, name, expected % name, "none") for name in elsewhere if not lossy], ""
    if len(silent) == 1 and len(pairs) > 1:
        # others are asked now
        return [], ""
    if not elsewhere:
        return [], "%s reply on no rail" % ", ".join(silent)
    expected = "replies to echo requests, as on other rails of %s" % ", ".join(elsewhere)
    return [ProbeFinding(NO_REPLY, None, expected, "no reply from %s" % ", ".join(silent))], ""


def _full_size(evidence: RailEvidence) -> list[ProbeFinding]:
    """Return the findings about packets of the planned MTU."""
    pairs = list(zip(evidence.names, evidence.partners))
    bad = [name for name, each in pairs if each.small_only() and not each.loss]
    if not bad or _lossy(evidence):
        return []
    since = min(each.full_lost_since for name, each in pairs if name in bad)
    passes = any((each.full_replied or 0) > since for _name, each in pairs)
    expected, found = "replies to packets of the planned MTU", "only to small packets"
    if len(bad) > 1 and not passes or len(pairs) == 1:
        return [ProbeFinding(PATH_MTU, None, expected, "%s: %s" % (", ".join(bad), found))]
    if not passes:
        # others are asked now
        return []
    return [
        ProbeFinding(PATH_MTU, name, expected, found)
        for name, each in pairs
        if each.small_only() and not each.full_again
    ]


def _lossy(evidence: RailEvidence) -> bool:
    """Return whether packets of several partners are lost, or perhaps are."""
    return evidence.loss.named or evidence.loss.score > 0


def _losses(evidence: RailEvidence) -> list[ProbeFinding]:
    """Return the findings about lost packets."""
    tests = [(None, evidence.loss), *((name, each.loss) for name, each in zip(evidence.names, evidence.partners))]
    return [
        ProbeFinding(LOSS, name, "no packet loss", "about %.1g %% of packets are lost" % (100 * loss.share))
        for name, loss in tests
        if loss and loss.named
    ]


def _marked(rail: str, times: t.Mapping[str, t.Sequence[Sample]]) -> list[ProbeFinding]:
    """Return the finding about marks of congestion (ECN) that other rails do not have."""
    own = _marked_share(times[rail])
    if own < _MARKED:
        return []
    others = [_marked_share(samples) for name, samples in times.items() if name != rail and len(samples) >= _FEWEST]
    if not others or own < _MARKED_TIMES * statistics.median(others):
        return []
    expected = "%.0f %% of replies with congestion marks, as on other rails" % (100 * statistics.median(others))
    return [ProbeFinding(MARKS, None, expected, "%.0f %%" % (100 * own))]


def _marked_share(samples: t.Sequence[Sample]) -> float:
    return sum(each.marked for each in samples) / len(samples) if len(samples) >= _FEWEST else 0.0


def _batches(samples: t.Iterable[Sample]) -> int:
    """Return how many seconds have one of the replies."""
    return len({each.batch for each in samples})


def _only(evidence: RailEvidence, samples: t.Sequence[Sample], slow: t.Sequence[Sample]) -> str | None:
    """Return the partner with which alone round trips are long; None if they are with others too."""
    partners = {each.partner for each in slow}
    if len(partners) == 1 and len({each.partner for each in samples}) > 1:
        return evidence.names[partners.pop()]
    return None


def _later(samples: t.Iterable[Sample], limit: float) -> list[Sample]:
    return [each for each in samples if each.round_trip > limit]


def _median(samples: t.Sequence[Sample]) -> float | None:
    """Return the median of round trips in microseconds; None if there are too few."""
    return statistics.median(each.round_trip for each in samples) if len(samples) >= _FEWEST else None


def _microseconds(value: float) -> str:
    return "%d µs" % round(value)

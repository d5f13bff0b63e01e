# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the probes of one rail have shown: which partners reply, how fast, and whether packets are lost. Pure.

Times are seconds of one clock that never jumps; round trips are microseconds.
"""

from __future__ import annotations

import collections
import math
import typing as t

# Seconds for which round trips are kept.
WINDOW = 20.0
# A partner is silent after this number of lost requests in a row, the first and last of which are this far apart.
SILENT_AFTER, SILENT_SECONDS = 4, 3.0
# What was lost in a row for this many seconds was an outage. It does not count as loss.
_OUTAGE = 10.0
# Minutes for which requests and losses are counted.
_MINUTES = 5
# Lost full-size packets in a row after which the path does not carry them.
FULL_LOST = 3

# The share of packets that a healthy path may lose, and the share to find as fast as possible.
_HEALTHY, _LOSSY = 0.0002, 0.005
# Evidence of one loss, and of one reply: the logarithm of how much more probable it is on a lossy path.
_OF_LOSS = math.log(_LOSSY / _HEALTHY)
_OF_REPLY = math.log((1 - _LOSSY) / (1 - _HEALTHY))
# Evidence from which on a path is lossy. A path that loses 1 of 100,000 packets reaches it about once in 10^10 packets.
_LOSSY_FROM = 12.0
# The probability, under the assumption that this node loses the packets, from which on a partner is the cause.
_BY_CHANCE = 0.01
# The share of losses at partners other than the worst from which on this node is the cause.
_ELSEWHERE = 0.2
# A lossy path is healthy again after this many seconds without loss, and after this many replies: five times as many
# as it took to lose one packet, within limits.
QUIET = 15.0
_FEWEST_CLEAN, _MOST_CLEAN = 100, 400
# A path that becomes lossy again within this many seconds needs twice as much of both, up to this many times: a small
# loss that lasts looks healthy by chance from time to time.
_RELAPSE = 1200.0
_MOST_RELAPSES = 4


class Outcome(t.NamedTuple):
    """What became of a request. ``batch``: requests with the same number left at the same time; ``round_trip``: None
    if no reply came in time; ``burst``: whether it is one of many that were sent to measure loss.
    """

    partner: int
    sent: float
    batch: int
    full: bool
    burst: bool
    round_trip: float | None
    marked: bool = False


class Sample(t.NamedTuple):
    """The round trip of a small request outside of bursts."""

    sent: float
    batch: int
    partner: int
    round_trip: float
    marked: bool


class Loss:
    """Whether a path loses packets, by a sequential test (CUSUM; Page, Biometrika 41, 1954).

    Lost requests count when a later reply shows that the path works: as one, however many were lost in between. So an
    outage is one loss, and a path without any reply is not lossy but silent.
    """

    def __init__(self) -> None:
        self.score = 0.0
        # partner -> [losses, replies], since there was no evidence of loss
        self.counts: dict[int, list[int]] = {}
        # whether the path is lossy, and the estimated share of lost packets
        self.named = False
        self.share = 1.0
        self.last_loss = 0.0
        self.clean = 0
        # how often the path became lossy again
        self.relapses = 0

    def reply(self, partner: int) -> None:
        self.clean += 1
        if self.score > 0:
            self.score = max(0.0, self.score + _OF_REPLY)
        if self.score or self.named:
            self.counts.setdefault(partner, [0, 0])[1] += 1
        elif self.counts:
            self.counts.clear()

    def loss(self, partner: int, time: float) -> None:
        """Record a loss. ``time``: when the lost request left."""
        self.clean = 0
        self.last_loss = time
        self.score += _OF_LOSS
        self.counts.setdefault(partner, [0, 0])[0] += 1
        losses = sum(row[0] for row in self.counts.values())
        replies = sum(row[1] for row in self.counts.values())
        # the first loss started the measurement, and does not count
        self.share = max(losses - 1, 1) / max(losses - 1 + replies, 1)

    def cause(self, alone: bool) -> int | None:
        """Return the partner whose packets are lost; -1 if those of several partners are; None if it is not known yet.

        :param alone: whether there is only one partner.
        """
        if self.score < _LOSSY_FROM:
            return None
        worst = max(self.counts, key=lambda partner: self.counts[partner][0])
        losses = sum(row[0] for row in self.counts.values())
        elsewhere = losses - self.counts[worst][0]
        if elsewhere >= max(1.0, _ELSEWHERE * losses):
            return -1
        share = self.counts[worst][1] / max(1, sum(row[1] for row in self.counts.values()))
        return worst if alone or share ** (losses - 1) <= _BY_CHANCE else None

    def needed(self) -> int:
        """Return the replies without loss after which a lossy path is healthy again."""
        return round(min(max(5 / self.share, _FEWEST_CLEAN), _MOST_CLEAN)) << self.relapses

    def is_quiet(self, now: float) -> bool:
        """Return whether no packet was lost for as many seconds as a healthy path needs."""
        return now - self.last_loss >= QUIET * (1 << self.relapses)

    def over(self, now: float) -> bool:
        return self.is_quiet(now) and self.clean >= self.needed()


class Partner:
    """The replies of one partner on this rail."""

    def __init__(self) -> None:
        self.sent = self.received = 0
        # small requests that were lost in a row, and when the first and the last of them were sent
        self.lost = 0
        self.lost_since = self.lost_last = 0.0
        # when the next one was sent after the first, which may be an accidental loss of long ago
        self.lost_again = 0.0
        self.replied: float | None = None
        # the same for full-size packets
        self.full_lost = 0
        self.full_lost_since = 0.0
        self.full_replied: float | None = None
        # whether to send a full-size packet again, because it passes to another partner again
        self.full_again = False
        # the test of a partner whose packets are lost
        self.loss: Loss | None = None
        # whether a finding names the partner
        self.named = False

    def watched(self) -> bool:
        """Return whether to probe the partner until it is clear what it is."""
        return self.named or self.loss is not None or (self.full_lost > 0 and self.answers())

    def silent(self) -> bool:
        return self.lost >= SILENT_AFTER and self.lost_last - self.lost_since >= SILENT_SECONDS

    def answers(self) -> bool:
        return self.replied is not None and not self.lost

    def small_only(self) -> bool:
        """Return whether the partner replies to small packets, and not to those of the planned MTU."""
        return self.full_lost >= FULL_LOST and self.answers()


class RailEvidence:
    """The outcomes of all requests on a rail.

    :param partners: the names of the partners; requests name them by their number.
    """

    def __init__(self, partners: t.Sequence[str]) -> None:
        self.names = list(partners)
        self.partners = [Partner() for _name in partners]
        self.loss = Loss()
        self.samples: collections.deque[Sample] = collections.deque()
        # minute -> [requests, of which lost]
        self._minutes: dict[float, list[int]] = {}
        self._last_batch = -1
        # partner, or -1 for several -> when its path was healthy again, and how often it had become lossy again
        self._ended: dict[int, tuple[float, int]] = {}
        self._interrupted = float("-inf")

    def interrupt(self, now: float) -> None:
        """Record a change of the link of this port, or replies that the kernel of this node dropped. Losses at this
        time do not count as packet loss.
        """
        self._interrupted = now

    def record(self, outcome: Outcome) -> None:
        """Record an outcome. Outcomes must come in the order in which their requests were sent."""
        partner = self.partners[outcome.partner]
        partner.sent += 1
        self._count(outcome)
        if outcome.round_trip is None:
            self._lost(partner, outcome)
        else:
            partner.received += 1
            self._replied(partner, outcome, outcome.round_trip)
        horizon = outcome.sent - WINDOW
        while self.samples and self.samples[0].sent < horizon:
            self.samples.popleft()

    def _count(self, outcome: Outcome) -> None:
        minute = outcome.sent // 60
        row = self._minutes.get(minute)
        if row is None:
            self._minutes = {each: row for each, row in self._minutes.items() if each > minute - _MINUTES}
            row = self._minutes[minute] = [0, 0]
        row[0] += 1
        row[1] += outcome.round_trip is None

    def figures(self, now: float) -> dict[str, t.Any]:
        """Return what the rail's probes measured, for the state of the node: requests and replies since the start; the
        share of lost requests of the last five minutes; the median and the 99th percentile of round trips of the
        last seconds, in microseconds; None without values.
        """
        rows = [row for minute, row in self._minutes.items() if minute > now // 60 - _MINUTES]
        requests = sum(row[0] for row in rows)
        times = sorted(each.round_trip for each in self.samples if each.sent >= now - WINDOW)
        return {
            "sent": sum(each.sent for each in self.partners),
            "received": sum(each.received for each in self.partners),
            "loss": sum(row[1] for row in rows) / requests if requests else None,
            "rtt_us": round(times[len(times) // 2], 1) if times else None,
            "tail_us": round(times[min(len(times) - 1, len(times) * 99 // 100)], 1) if times else None,
            "peers": {
                name: {"sent": each.sent, "received": each.received}
                for name, each in zip(self.names, self.partners)
                if each.sent
            },
        }

    def _lost(self, partner: Partner, outcome: Outcome) -> None:
        if outcome.full:
            if not partner.full_lost:
                partner.full_lost_since = outcome.sent
            partner.full_lost += 1
            partner.full_again = False
            return
        if not partner.lost:
            partner.lost_since = partner.lost_again = outcome.sent
        elif partner.lost_again == partner.lost_since:
            partner.lost_again = outcome.sent
        partner.lost += 1
        partner.lost_last = outcome.sent

    def _replied(self, partner: Partner, outcome: Outcome, round_trip: float) -> None:
        test = partner.loss or self.loss
        if partner.full_lost if outcome.full else partner.lost:
            since = partner.full_lost_since if outcome.full else partner.lost_since
            brief = (outcome.full or outcome.sent - since < _OUTAGE) and self._interrupted < since
            # what several partners lost at the same time was lost once
            if brief and (outcome.burst or outcome.batch != self._last_batch):
                self._last_batch = outcome.batch
                test.loss(outcome.partner, since)
        test.reply(outcome.partner)
        if outcome.full:
            if partner.full_lost >= FULL_LOST:
                self._ask_again()
            partner.full_lost, partner.full_replied, partner.full_again = 0, outcome.sent, False
            return
        partner.lost, partner.replied = 0, outcome.sent
        if not outcome.burst:
            self.samples.append(Sample(outcome.sent, outcome.batch, outcome.partner, round_trip, outcome.marked))

    def decide(self, now: float) -> None:
        """Draw the conclusions about loss: who loses packets, and who does no longer."""
        if self.loss.named:
            if self.loss.over(now):
                self._ended[-1] = (now, self.loss.relapses)
                self.loss = Loss()
        else:
            cause = self.loss.cause(len(self.partners) == 1)
            if cause is not None:
                ended, relapses = self._ended.get(cause, (float("-inf"), 0))
                found = self.loss
                found.named = True
                found.relapses = min(relapses + 1, _MOST_RELAPSES) if now - ended < _RELAPSE else 0
                if cause >= 0:
                    self.partners[cause].loss = found
                    self.loss = Loss()
        for number, partner in enumerate(self.partners):
            if partner.loss and partner.loss.over(now):
                self._ended[number] = (now, partner.loss.relapses)
                partner.loss = None

    def _ask_again(self) -> None:
        """Forget lost full-size packets, because they pass again to one partner. The other partners are asked again."""
        for partner in self.partners:
            partner.full_again = partner.full_lost > 0
            partner.full_lost = 0

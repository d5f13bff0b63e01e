# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which requests a rail sends, and when, so that its traffic stays below the planned rate. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.health_probes.probe_evidence import (
    FULL_LOST,
    Loss,
    Partner,
    RailEvidence,
)

# Seconds from one turn to the next. In each, the requests of a second leave together, so that the process wakes seldom.
TURN = 1.0
# Seconds between turns of a burst, and its packets in a turn.
BURST_TURN, BURST_PACKETS = 0.05, 20
# Seconds after which one of the two partners that are probed at a time is replaced.
CHANGE = 30.0
# Seconds from one packet of the planned MTU to the next, unless they would take more than this share of the rate.
FULL_EVERY, _FULL_SHARE = 22.0, 0.6
# Bits that bursts of a rail may take at once, and the share of the rate that refills them.
_BURST_BITS, _BURST_SHARE = 900000.0, 0.05
# Partners that a burst measures, so that it shows whether the port of this node or of a partner loses the packets.
_BURST_PARTNERS = 4
# Partners that are probed beside the two: of findings, and to compare with a silent one.
_SUSPECTS, _WITNESSES = 2, 2
# Bytes around an IP packet on Ethernet, for header and checksum; of a VLAN; and of the smallest frame.
_AROUND, _VLAN, _SMALLEST = 18, 4, 64
# Bytes of a small request with its IP header.
_SMALL = {False: 46, True: 56}
# Requests to a partner whose recovery is tested, as a multiple of the requests to all active partners.
_RECOVERY_REQUESTS = 3
# Full-size packets in a turn that measure again what a lost one showed.
_REPEATED = 2


class Request(t.NamedTuple):
    """A request to send: to which partner, whether with the planned MTU, and whether in a burst."""

    partner: int
    full: bool = False
    burst: bool = False


class Pace:
    """The requests of one rail.

    Half of the rate is for requests. The other half is for the replies that the kernel sends to as many partners.

    :param rate: bits per second that the rail may send, counted in whole frames.
    :param mtu: the planned MTU in bytes.
    :param version6: whether the rail uses IPv6 addresses; ``vlan``: whether frames have a VLAN tag.
    """

    def __init__(
        self, evidence: RailEvidence, rate: float, mtu: int, version6: bool = False, vlan: bool = False
    ) -> None:
        self._evidence = evidence
        around = _AROUND + (_VLAN if vlan else 0)
        self.small_bits = 8 * max(_SMALLEST, _SMALL[version6] + around)
        self.full_bits = 8 * (mtu + around)
        own = rate / 2
        self.full_every = max(FULL_EVERY, self.full_bits / (_FULL_SHARE * own))
        self._refill = _BURST_SHARE * own
        # small requests per second, and without full-size requests
        self.small_rate = (own - self.full_bits / self.full_every - self._refill) / self.small_bits
        self._measuring_rate = (own - self._refill) / self.small_bits
        self._burst_bits = _BURST_BITS
        self._credit = 0.0
        self._next = 0
        # partner -> the number of the last regular full-size request
        self._full_sent: dict[int, int] = {}
        self._full_at: float | None = None
        self._turned: float | None = None
        self.bits = 0

    def active(self, wall: float) -> list[int]:
        """Return the partners to probe now.

        :param wall: seconds since 1970, so that all rails of all nodes change at the same time: each partner is then
            probed by two nodes at any time.
        """
        partners, total = self._evidence.partners, len(self._evidence.partners)
        turned = [(int(wall / CHANGE) + place) % total for place in range(total)]
        chosen = turned[:2]
        chosen += [each for each in turned if each not in chosen and partners[each].watched()][:_SUSPECTS]
        if any(partners[each].lost for each in chosen):
            others = [each for each in turned if each not in chosen and not partners[each].lost]
            chosen += others[:_WITNESSES]
        return chosen

    def measures(self, now: float) -> list[int]:
        """Return the partners to which a burst is necessary; empty if none is."""
        evidence = self._evidence
        if self._burst_bits < BURST_PACKETS * self.small_bits:
            return []
        for number in self._unclear(now):
            return [number]
        if not (_unclear(evidence.loss, now) if evidence.loss.named else evidence.loss.score):
            return []
        with_loss = [each for each in evidence.loss.counts if evidence.loss.counts[each][0]]
        order = [*with_loss, *(each for each in range(len(evidence.partners)) if each not in with_loss)]
        answering = [each for each in order if not evidence.partners[each].silent()]
        return [each for each in answering if not evidence.partners[each].loss][:_BURST_PARTNERS]

    def due(self, now: float) -> float:
        """Return the time of the next turn."""
        if self._turned is None:
            return now
        return self._turned + (BURST_TURN if self.measures(now) else TURN)

    def _unclear(self, now: float) -> list[int]:
        """Return the partners whose packets were lost, and perhaps are not any more."""
        pairs = enumerate(self._evidence.partners)
        return [number for number, each in pairs if each.loss and _unclear(each.loss, now) and not each.silent()]

    def turn(self, now: float, wall: float) -> list[Request]:
        """Return the requests of this turn."""
        passed = min(now - self._turned, 2 * TURN) if self._turned is not None else TURN
        self._turned = now
        self._burst_bits = min(_BURST_BITS, self._burst_bits + passed * self._refill)
        measured = self.measures(now)
        if measured:
            requests = [self._in_turn(measured, burst=True) for _packet in range(BURST_PACKETS)]
            self._burst_bits -= BURST_PACKETS * self.small_bits
        else:
            requests = self._regular(now, passed, self.active(wall))
        self.bits += sum(self.full_bits if each.full else self.small_bits for each in requests)
        return requests

    def _regular(self, now: float, passed: float, active: t.Sequence[int]) -> list[Request]:
        # most requests test the recovery of one partner
        unclear = [number for number in self._unclear(now) if number in active][:1]
        evidence = self._evidence
        measuring = bool(unclear) or (evidence.loss.named and _unclear(evidence.loss, now))
        rate = self.small_rate
        if measuring and self._full_at is not None and not any(each.full_lost for each in evidence.partners):
            # small requests take the share of the full-size ones
            self._full_at = now + self.full_every
            rate = self._measuring_rate
        self._credit = min(self._credit + passed * rate, 2 * rate + 1)
        count = int(self._credit)
        self._credit -= count
        chosen = [*active, *unclear * _RECOVERY_REQUESTS * len(active)]
        requests = [self._in_turn(chosen) for _packet in range(count)]
        if self._full_at is None:
            self._full_at = now + self.full_every / 4
        answering = [each for each in active if self._evidence.partners[each].answers()]
        if now >= self._full_at and answering:
            self._full_at = now + self.full_every
            requests += self._full_size(answering)
        else:
            requests += self._repeated(answering)
        return requests

    def _full_size(self, answering: t.Sequence[int]) -> list[Request]:
        """Return the regular full-size request, to the partner that had none for the longest time.

        If partners lost such requests, another request tests the recovery of one of them. Without credit for both, only
        the recovery is tested.
        """
        partners = self._evidence.partners
        chosen = sorted(answering, key=lambda each: self._full_sent.get(each, 0))
        bad = next((each for each in chosen if partners[each].full_lost), chosen[0])
        chosen = [chosen[0], *([bad] if bad != chosen[0] else [])]
        if len(chosen) > 1 and self._burst_bits < self.full_bits:
            chosen = [bad]
        self._burst_bits -= (len(chosen) - 1) * self.full_bits
        for each in chosen:
            self._next += 1
            self._full_sent[each] = self._next
        return [Request(each, full=True) for each in chosen]

    def _repeated(self, answering: t.Sequence[int]) -> list[Request]:
        """Return full-size requests that show whether one was lost by its size, and whether others pass."""
        partners = self._evidence.partners
        doubtful = [each for each in answering if partners[each].full_again or 0 < partners[each].full_lost < FULL_LOST]
        lost_since = [partners[each].full_lost_since for each in answering if partners[each].full_lost]
        others = [each for each in answering if not partners[each].full_lost]
        if lost_since and others and not any(_full_since(partners[each], min(lost_since)) for each in others):
            doubtful.append(others[0])
        requests = [Request(each, full=True) for each in doubtful[-_REPEATED:]]
        if self._burst_bits < len(requests) * self.full_bits:
            return []
        self._burst_bits -= len(requests) * self.full_bits
        return requests

    def _in_turn(self, partners: t.Sequence[int], burst: bool = False) -> Request:
        self._next += 1
        return Request(partners[self._next % len(partners)], burst=burst)


def _full_since(partner: Partner, time: float) -> bool:
    """Return whether the partner replied to a full-size packet that left after this time."""
    return partner.full_replied is not None and partner.full_replied > time


def _unclear(loss: Loss, now: float) -> bool:
    """Return whether a lossy path was without loss for a while, but not for long enough to be healthy."""
    return loss.is_quiet(now) and loss.clean < loss.needed()

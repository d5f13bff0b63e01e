# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""LACP of a leaf: the LACPDUs of IEEE 802.1AX, and the state of one port.

The leaf is passive: it answers a partner that sends LACPDUs, so ports without a bond get none.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

GROUP = bytes.fromhex("0180c2000002")
# EtherType of the slow protocols, and subtype and version of LACP
HEAD = b"\x88\x09\x01\x01"
# Bits of the state of an actor
ACTIVE, SHORT, AGGREGATION, SYNCHRONIZED, COLLECTING, DISTRIBUTING, DEFAULTED, EXPIRED = (1 << bit for bit in range(8))
FAST_SECONDS, SLOW_SECONDS = 1.0, 30.0
# Seconds without a LACPDU after which the port forgets the partner. The partner sends one per second, because the leaf
# requests short timeouts; the standard's three seconds are too few for an emulated guest on a busy host.
EXPIRY_SECONDS = 15.0


class Party(NamedTuple):
    """One side of a link, as a LACPDU describes it. ``system``: a MAC address of six bytes."""

    priority: int
    system: bytes
    key: int
    port_priority: int
    port: int
    state: int


UNKNOWN = Party(0, bytes(6), 0, 0, 0, 0)
_PARTY = struct.Struct("!H6sHHHB3x")
_SIZE = 2 + _PARTY.size


def frame(source: bytes, actor: Party, partner: Party) -> bytes:
    """Return a LACPDU. ``source``: the MAC address of the sending port."""
    parties = b"".join(
        struct.pack("!BB", kind, _SIZE) + _PARTY.pack(*party) for kind, party in ((1, actor), (2, partner))
    )
    return GROUP + source + HEAD + parties + struct.pack("!BBH12x", 3, 16, 0) + bytes(52)


def read(data: bytes) -> tuple[Party, Party] | None:
    """Return actor and partner of a LACPDU; None for another frame."""
    first, second = 16, 16 + _SIZE
    if data[:6] != GROUP or data[12:16] != HEAD or len(data) < second + _SIZE:
        return None
    if data[first : first + 2] != bytes((1, _SIZE)) or data[second : second + 2] != bytes((2, _SIZE)):
        return None
    return Party(*_PARTY.unpack_from(data, first + 2)), Party(*_PARTY.unpack_from(data, second + 2))


class Lacp:
    """The state of one port.

    ``silent``: the port ignores LACPDUs and sends none. ``partner``: the guest's side, as its last LACPDU described it;
    None without one. ``actor``: the leaf's side.
    """

    def __init__(self) -> None:
        self.silent = False
        self.partner: Party | None = None
        self.actor = UNKNOWN
        self._seen = UNKNOWN  # the leaf's side, as the partner knows it
        self._heard = self._sent = 0.0

    def plug(self, system: bytes, key: int, port: int) -> None:
        """Set the leaf's side. Ports with the same system and key can form one aggregate. A changed side is a new
        link, whose partner is not known yet.
        """
        actor = Party(32768, system, key, 255, port, SHORT | AGGREGATION)
        if self.actor[:5] != actor[:5]:
            self.actor = actor
            self.forget()

    def forget(self) -> None:
        """Forget the partner, as when the link is down."""
        self.partner, self._seen = None, UNKNOWN
        self._update()

    @property
    def bundle(self) -> tuple[bytes, int, bytes, int] | None:
        """The values that all ports of one aggregate share; None for a port without an aggregate."""
        if self.partner is None or not self.actor.state & DISTRIBUTING:
            return None
        return self.actor.system, self.actor.key, self.partner.system, self.partner.key

    def hear(self, pair: tuple[Party, Party], now: float) -> bool:
        """Process a LACPDU. Return whether it needs an answer at once: it describes this side wrongly."""
        self.partner, self._seen = pair
        self._heard = now
        self._update()
        return self._seen != self.actor

    def _update(self) -> None:
        """Set the state of the leaf's side from what the partner sends."""
        state = SHORT | AGGREGATION
        if self.partner is not None and self.partner.state & AGGREGATION:
            state |= SYNCHRONIZED
            if self.partner.state & SYNCHRONIZED and self._seen[:5] == self.actor[:5]:
                state |= COLLECTING | DISTRIBUTING
        self.actor = self.actor._replace(state=state)

    def expire(self, now: float) -> bool:
        """Forget a partner that stopped sending. Return whether it forgot one."""
        if self.partner is None or now - self._heard < EXPIRY_SECONDS:
            return False
        self.forget()
        return True

    def due(self, now: float) -> bool:
        """Return whether the next LACPDU must be sent."""
        if self.partner is None or self.silent:
            return False
        return now - self._sent >= (FAST_SECONDS if self.partner.state & SHORT else SLOW_SECONDS)

    def send(self, source: bytes, now: float) -> bytes:
        """Return the LACPDU that describes both sides."""
        self._sent = now
        return frame(source, self.actor, self.partner or UNKNOWN)

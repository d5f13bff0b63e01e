# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""LLDP neighbours of the cables of rails, from the frames that their leaves send."""

from __future__ import annotations

import contextlib
import socket
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_observed import Neighbour
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import lldp

# Neighbours of one interface, and frames that are read at once.
NEIGHBOURS_MAX, FRAMES_MAX = 8, 64
_Known = t.Dict[Neighbour, float]


class Neighbours:
    """Listens on interfaces. Frames wait in the kernel until :meth:`receive`; nothing is sent.

    A neighbour is valid for the time in its frame. A frame with the time 0 ends it, and so does a lost carrier.
    """

    def __init__(self) -> None:
        # name -> index, socket; None: it cannot be listened on
        self._sockets: dict[str, tuple[int, socket.socket | None]] = {}
        self._known: dict[str, _Known] = {}

    def follow(self, netdevs: t.Mapping[str, int]) -> None:
        """Listen on these interfaces only. ``netdevs``: name -> index."""
        for name, (index, _listener) in list(self._sockets.items()):
            if netdevs.get(name) != index:
                self._close(name)
        for name, index in netdevs.items():
            if name not in self._sockets:
                listener = None
                with contextlib.suppress(OSError):
                    listener = lldp.open_listener(name, index)
                self._sockets[name] = (index, listener)

    def receive(self, now: float) -> None:
        """Read the frames that have arrived. ``now``: seconds of the clock that :meth:`of` uses."""
        for name, (_index, listener) in self._sockets.items():
            for _frame in range(FRAMES_MAX if listener else 0):
                frame = lldp.receive(listener) if listener else None
                if frame is None:
                    break
                self.heard(name, frame, now)

    def heard(self, netdev: str, frame: bytes, now: float) -> None:
        """Apply one frame."""
        row = lldp.parse(frame)
        if row is None:
            return
        known = self._known.setdefault(netdev, {})
        neighbour = Neighbour(row["chassis"], row["port"], row["port_description"], row["system"])
        for other in [each for each in known if (each.chassis, each.port) == (neighbour.chassis, neighbour.port)]:
            del known[other]
        seconds = lldp.seconds(frame)
        if seconds and len(known) < NEIGHBOURS_MAX:
            known[neighbour] = now + seconds

    def forget(self, netdev: str) -> None:
        """Forget the neighbours of an interface that has lost its carrier."""
        self._known.pop(netdev, None)

    def of(self, netdevs: t.Iterable[str], now: float) -> dict[str, tuple[Neighbour, ...]]:
        """Return netdev -> its neighbours, without netdevs that have none."""
        found = {}
        for name in netdevs:
            valid = {each: until for each, until in self._known.get(name, {}).items() if until > now}
            if valid:
                self._known[name] = valid
                found[name] = tuple(valid)
            else:
                self._known.pop(name, None)
        return found

    def close(self) -> None:
        for name in list(self._sockets):
            self._close(name)

    def _close(self, name: str) -> None:
        _index, listener = self._sockets.pop(name)
        if listener:
            listener.close()
        self.forget(name)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The listening side of a prober: partners that connect before their turn wait here, and get keepalives.

Each connection has a thread. Connections whose client has not authenticated itself are limited in number and time: a
new one closes the oldest.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import threading
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe.probe_channel import (
    ALIVE_SECONDS,
    SERVER,
    Channel,
    Hello,
    PartnerLost,
)

# Connections whose client is not authenticated yet.
UNKNOWN_MAX = 64
# The turn of a prober that has ended its schedule.
ENDED = 1 << 30


class Progress:
    """The position of a prober in its schedule, which its threads share. ``changed``: notified of each change.

    :param partners: turn -> the partners, in the order of the schedule. Only a many-to-one turn has several.
    :param test_seconds: the longest time that a test takes. After it, this prober sends no keepalives.
    :param stride: by how much the numbers of a repetition of the schedule are greater; 0: it is not repeated.
    """

    def __init__(self, partners: t.Mapping[int, t.Collection[str]], test_seconds: float, stride: int = 0) -> None:
        self.changed = threading.Condition()
        self.turn = -1
        self.all_started: float | None = None
        self._partners = partners
        self._test_seconds, self._stride = test_seconds, stride
        self._test_began: float | None = None
        self._arrived: dict[tuple[int, str], Channel] = {}

    def enter(self, turn: int) -> None:
        """Begin a turn, with its wait for the partner."""
        with self.changed:
            self.turn, self._test_began = turn, None
            self.changed.notify_all()

    def begin_test(self) -> None:
        self._test_began = time.monotonic()

    def note_all_started(self) -> None:
        """Note that all nodes of the run were started: a partner that does not listen now will not start."""
        with self.changed:
            self.all_started = self.all_started or time.monotonic()
            self.changed.notify_all()

    def taken(self, turn: int, partner: str, seconds: float) -> Channel | None:
        """Return the connection of a partner of this turn; None if it does not connect within ``seconds``."""
        with self.changed:
            self.changed.wait_for(lambda: (turn, partner) in self._arrived, seconds)
            return self._arrived.pop((turn, partner), None)

    def park(self, hello: Hello, channel: Channel) -> None:
        """Keep an authenticated connection until its turn. Raises :class:`PartnerLost` if it ends."""
        if hello.all_started:
            self.note_all_started()
        planned = hello.turn % self._stride if self._stride else hello.turn
        if hello.name not in self._partners.get(planned, ()):
            raise PartnerLost("is not the partner of turn %d" % hello.turn)

        def is_due() -> bool:
            return self.turn > hello.turn or (self.turn == hello.turn and not hello.watch)

        while True:
            with self.changed:
                if is_due() and self.turn == hello.turn:
                    self._arrived[hello.turn, hello.name] = channel
                    self.changed.notify_all()
                    return
                past, started = is_due(), self.all_started is not None
                began = self._test_began
            if past:
                channel.send({"past": True, "ended": self.turn == ENDED})
                raise PartnerLost("connected too late")
            if began is not None and time.monotonic() > began + self._test_seconds:
                raise PartnerLost("waits for a test that does not end")
            channel.send({"alive": True, "all_started": started})
            with self.changed:
                self.changed.wait_for(is_due, ALIVE_SECONDS)


class Listener:
    """Listens at each of the addresses that this node has, on the first of the TCP ports that is free at all of them.

    :param options: ``listen`` (the TCP ports), ``token``, ``name`` and ``silence``, as of the module rail_probe.
    :raises RailyardError: if no port is free, or the node has none of the addresses.
    """

    def __init__(self, addresses: t.Sequence[str], options: t.Mapping[str, t.Any], progress: Progress) -> None:
        self._token, self._name, self._silence = options["token"], options["name"], float(options["silence"])
        self._progress = progress
        self._unknown: list[socket.socket] = []
        self._lock = threading.Lock()
        self._sockets = _bound(addresses, options["listen"])
        self.port = int(self._sockets[0].getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _accept(self) -> None:
        poller = select.poll()
        by_fd = {sock.fileno(): sock for sock in self._sockets}
        for fd in by_fd:
            poller.register(fd, select.POLLIN)
        while True:
            for fd, event in poller.poll():
                if event & select.POLLNVAL or by_fd[fd].fileno() < 0:
                    return
                try:
                    client = by_fd[fd].accept()[0]
                except OSError as error:
                    if error.errno in (errno.EBADF, errno.EINVAL):
                        return  # it was closed
                    time.sleep(0.1)  # too many open files
                    continue
                with self._lock:
                    self._unknown.append(client)
                    if len(self._unknown) > UNKNOWN_MAX:
                        with contextlib.suppress(OSError):
                            self._unknown.pop(0).shutdown(socket.SHUT_RDWR)
                threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        channel = Channel(client, SERVER, self._silence)
        try:
            try:
                hello = channel.accept(self._token, self._name)
            finally:
                with self._lock, contextlib.suppress(ValueError):
                    self._unknown.remove(client)
            self._progress.park(hello, channel)
        except PartnerLost:
            channel.close()


def _bound(addresses: t.Sequence[str], ports: t.Sequence[int]) -> list[socket.socket]:
    why = ""
    for port in ports:
        sockets: list[socket.socket] = []
        try:
            for address in addresses:
                sock = _listening(address, port)
                if sock:
                    sockets.append(sock)
        except OSError as error:
            for sock in sockets:
                sock.close()
            why = ": %s" % error.strerror
            continue
        if sockets:
            return sockets
        message = "the node has none of the addresses at which its partners connect to it: %s" % (
            ", ".join(addresses) or "none is planned"
        )
        raise RailyardError(message, "prober", "run the hosts playbook, or set proof_meet to an address of the node")
    message = "no TCP port of %s is free for the prober%s" % (", ".join(map(str, ports)), why)
    raise RailyardError(message, "tcp_ports", "set a larger range: two ports per rail, and one more")


def _listening(address: str, port: int) -> socket.socket | None:
    """Return a listening socket; None if the node does not have the address. Raises OSError for a used port."""
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        # the port is free although connections of an earlier prober have not timed out
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(UNKNOWN_MAX)
        return sock
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRNOTAVAIL:
            return None
        raise

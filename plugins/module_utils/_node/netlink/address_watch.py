# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Listen for other hosts that have an address, for some seconds after it is in use: a host may answer a probe late.

One thread serves all sockets, and exists only while there are some. The number of sockets, and of frames that are read
in a second, is limited, so that packets of the network and of pods cannot keep the process busy.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.arp import Probes

# Seconds to listen, between two probes, and after the last probe. RFC 5227 probes three times, 1 to 2 s apart, and then
# listens for 2 s.
LISTEN, PROBE, LAST_ANSWER = 6.0, 1.0, 2.0
# While another host has the address: seconds between two probes, and without a claim until the conflict has ended.
PROBE_CONFLICT, FORGET = 10.0, 60.0
# Seconds between two checks whether the processes still exist; a socket keeps their network namespace.
TICK = 0.2
# Seconds after each round of reading, and frames of a round, in which each socket has at least one.
PAUSE, ROUND = 0.05, 64
# If more sockets are open, the oldest without a conflict are closed.
SOCKETS = 256
# How many other hosts of one address are reported.
HOSTS = 4
# Most bytes that are read from the pipe which wakes the thread.
_WAKES = 4096


class Conflict(t.NamedTuple):
    """An address that another host has too. ``since``: seconds since 1970. ``macs``: of the first other hosts."""

    owner: str
    netdev: str
    address: str
    macs: tuple[str, ...]
    since: float


class AddressWatch:
    """The addresses that are listened for. Safe for several threads.

    ``changed``: called from the thread with each conflict that begins, changes (another host) or ends (``over``).
    """

    def __init__(self) -> None:
        self.changed: t.Callable[[Conflict, bool], None] = lambda _conflict, _over: None
        self._lock = threading.Lock()
        self._watched: list[_Watched] = []
        self._thread: threading.Thread | None = None
        # a byte wakes the thread
        self._wake, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def add(self, owner: str, probes: Probes, process: int, namespace: os.stat_result) -> None:
        """Listen for the addresses of ``probes``, which this object closes. An earlier call for the owner ends.

        :param process: the process ID of the owner. Listening ends with this process.
        :param namespace: status of the process's network namespace, as process IDs are used again.
        """
        self.end(owner)
        if not probes.listeners:
            return
        watched = _Watched(owner, probes, process, namespace)
        for (netdev, address), macs in probes.found.items():
            for mac in macs:
                watched.claimed(netdev, address, mac)
        with self._lock:
            self._watched.append(watched)
            self._limit_sockets()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="address-watch", daemon=True)
                self._thread.start()
        for conflict in list(watched.conflicts.values()):
            self.changed(conflict, False)

    def end(self, owner: str) -> None:
        """Stop listening for an owner. The thread that reads its sockets closes them soon."""
        with self._lock:
            for watched in self._watched:
                if watched.owner == owner:
                    watched.until = 0.0

    def close_ended(self, owner: str) -> None:
        """Close the sockets of an owner whose process has ended, and wait for it: they keep its network namespace."""
        now = time.monotonic()
        with self._lock:
            ended = [each for each in self._watched if each.owner == owner and each.over(now)]
            for each in ended:
                each.until = 0.0
        if ended:
            # a full pipe wakes it too
            with contextlib.suppress(BlockingIOError):
                os.write(self._waker, b"x")
        for each in ended:
            each.closed.wait(TICK)

    def conflicts(self) -> list[Conflict]:
        with self._lock:
            return [conflict for watched in self._watched if watched.until for conflict in watched.conflicts.values()]

    def _limit_sockets(self) -> None:
        surplus = sum(len(each.probes.listeners) for each in self._watched if each.until) - SOCKETS
        for watched in self._watched[:-1]:
            if surplus > 0 and watched.until and not watched.conflicts:
                watched.until = 0.0
                surplus -= len(watched.probes.listeners)

    def _run(self) -> None:
        try:
            self._serve()
        except BaseException:
            # open sockets would keep the namespaces of pods, and thereby their slots
            with self._lock:
                watched, self._watched, self._thread = self._watched, [], None
            for each in watched:
                each.close()
            raise

    def _serve(self) -> None:
        while True:
            now = time.monotonic()
            with self._lock:
                ended = [each for each in self._watched if each.over(now)]
                self._watched = [each for each in self._watched if each not in ended]
                # a copy: an owner that is added later starts another thread if this one ends
                watched = list(self._watched)
                over = [conflict for each in ended for conflict in each.conflicts.values()]
                over += [conflict for each in watched for conflict in each.forget(now)]
                if not watched:
                    self._thread = None
            for each in ended:
                each.close()
            for conflict in over:
                self.changed(conflict, True)
            if not watched:
                return
            for each in watched:
                each.probe(now)
            if self._read(watched):
                time.sleep(PAUSE)

    def _read(self, watched: t.Sequence[_Watched]) -> bool:
        """Read the frames of one round. Return whether there were some."""
        poller, owners = select.poll(), {}
        poller.register(self._wake, select.POLLIN)
        for each in watched:
            for descriptor in each.probes.listeners:
                poller.register(descriptor, select.POLLIN)
                owners[descriptor] = each
        ready = poller.poll(TICK * 1000)
        if any(descriptor == self._wake for descriptor, _event in ready):
            os.read(self._wake, _WAKES)
            return False
        for descriptor, _event in ready:
            listener = owners[descriptor].probes.listeners[descriptor]
            for heard in listener.claims(max(1, ROUND // len(ready))):
                # a host that only probes is answered by the kernel, and does not take the address
                if not heard.probe:
                    with self._lock:
                        conflict = owners[descriptor].claimed(listener.name, heard.address, heard.mac)
                    if conflict:
                        self.changed(conflict, False)
        return bool(ready)


class _Watched:
    """The addresses of one owner. ``until``: when listening ends, by the monotonic clock; 0: at once. ``closed``: set
    when its sockets are closed.
    """

    def __init__(self, owner: str, probes: Probes, process: int, namespace: os.stat_result) -> None:
        now = time.monotonic()
        self.owner, self.probes = owner, probes
        self.until = now + LISTEN
        self.conflicts: dict[tuple[str, str], Conflict] = {}
        # when each conflict ends, if there is no further claim
        self._ends: dict[tuple[str, str], float] = {}
        self._process, self._namespace = process, namespace
        self._next_probe = now + PROBE
        self.closed = threading.Event()

    def close(self) -> None:
        self.probes.close()
        self.closed.set()

    def over(self, now: float) -> bool:
        """Return whether listening has ended: by time, by :meth:`AddressWatch.end`, or with the process."""
        if now < self.until:
            with contextlib.suppress(OSError):
                return not os.path.samestat(os.stat("/proc/%d/ns/net" % self._process), self._namespace)
        return True

    def probe(self, now: float) -> None:
        if self._next_probe <= now < self.until - LAST_ANSWER:
            self.probes.send()
            self._next_probe = now + (PROBE_CONFLICT if self.conflicts else PROBE)

    def claimed(self, netdev: str, address: str, mac: str) -> Conflict | None:
        """Record that another host has an address. Return the conflict if it is new or has a new host."""
        key, end = (netdev, address), time.monotonic() + FORGET
        self._ends[key] = end
        self.until = end if self.until else 0.0
        known = self.conflicts.get(key) or Conflict(self.owner, netdev, address, (), time.time())
        if mac in known.macs or len(known.macs) >= HOSTS:
            return None
        self.conflicts[key] = known._replace(macs=(*known.macs, mac))
        return self.conflicts[key]

    def forget(self, now: float) -> list[Conflict]:
        """Remove the conflicts without a recent claim, and return them."""
        return [self.conflicts.pop(key) for key in list(self.conflicts) if self._ends[key] <= now]

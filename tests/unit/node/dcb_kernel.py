# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kernel with DCB, as far as netlink shows it: it keeps state as mlx5's driver does, and can fail on demand.

It takes requests apart with struct alone, so that it shares no layout with the codec that it is to test. The driver's
ways are those of ``drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c`` and ``en/port_buffer.c``.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
import threading
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError

CELL = 144
GET, SET = 78, 79


class Nic:
    """One port. ``replaces``: a new entry for a DSCP takes the place of the old one, as with mlx5."""

    def __init__(self, replaces: bool = True) -> None:
        self.replaces = replaces
        self.dcbx: int | None = 0x0D
        self.classes = 8
        self.prio_tc = [1, 0, 2, 3, 4, 5, 6, 7]
        self.tsa = [255] * 8
        self.bw = [100] * 8
        self.pfc = 0
        self.pfc_classes = 8
        self.delay = 7
        self.prio_buffer = [0] * 8
        self.sizes = [(260000 // CELL) * CELL, 0, 0, 0, 0, 0, 0, 0]
        self.total = 524160
        self.apps: list[tuple[int, int, int]] = []
        self.apptrust: list[int] | None = None
        self.has = {"ets", "pfc", "buffer", "app"}
        self.flaps = 0
        self.keeps_dcbx = False

    @property
    def trust(self) -> str:
        return "dscp" if any(selector == 5 for selector, _priority, _dscp in self.apps) else "pcp"

    # what the driver does; each gives an error number, 0 for none

    def set_ets(self, data: bytes) -> int:
        if "ets" not in self.has:
            return errno.EOPNOTSUPP
        bw, tsa, prio_tc = list(data[3:11]), list(data[19:27]), list(data[27:35])
        shares = [share for share, kind in zip(bw, tsa) if kind == 2]
        if max(prio_tc) > 7 or (shares and (sum(shares) != 100 or 0 in shares)):
            return errno.EINVAL
        self.prio_tc, self.tsa = prio_tc, tsa
        # a class of its own reads back as the whole
        self.bw = [share if kind == 2 else 100 for share, kind in zip(bw, tsa)]
        return 0

    def set_pfc(self, data: bytes) -> int:
        if "pfc" not in self.has:
            return errno.EOPNOTSUPP
        enabled, delay = data[1], struct.unpack_from("=H", data, 4)[0]
        metres = delay if 0 < delay < 1000 else self.delay
        if not self._fits(enabled, metres, self.prio_buffer, self.sizes):
            return errno.EINVAL
        self.flaps += enabled != self.pfc
        self.pfc, self.delay = enabled, metres
        return 0

    def set_buffer(self, data: bytes) -> int:
        if "buffer" not in self.has:
            return errno.EOPNOTSUPP
        prio_buffer = list(data[:8])
        sizes = [size // CELL * CELL for size in struct.unpack_from("=8I", data, 8)]
        if sum(sizes) > self.total or not self._fits(self.pfc, self.delay, prio_buffer, sizes):
            return errno.EINVAL
        self.prio_buffer, self.sizes = prio_buffer, sizes
        return 0

    def _fits(self, enabled: int, metres: int, prio_buffer: list[int], sizes: list[int]) -> bool:
        """Whether each lossless buffer has its headroom, at 100 Gb/s and MTU 4200."""
        least = (301 + 216 * metres // 100) * 100 + 272 * 4200 // 100 + 9216 + 128
        return all(sizes[prio_buffer[each]] >= least for each in range(8) if enabled >> each & 1)

    def set_app(self, entry: tuple[int, int, int]) -> int:
        if "app" not in self.has or entry[0] != 5:
            return errno.EOPNOTSUPP
        if entry[2] > 63:
            return errno.EINVAL
        if self.replaces:
            self.apps = [each for each in self.apps if (each[0], each[2]) != (entry[0], entry[2])]
        if entry in self.apps:
            return errno.EEXIST
        self.apps.append(entry)
        return 0

    def delete_app(self, entry: tuple[int, int, int]) -> int:
        if entry not in self.apps:
            return errno.ENOENT
        self.apps.remove(entry)
        return 0

    # what it reports

    def answer(self) -> bytes:
        part = b""
        if "ets" in self.has:
            rest = bytes(24)
            value = bytes([0, self.classes, 0] + self.bw) + bytes(8) + bytes(self.tsa) + bytes(self.prio_tc) + rest
            part += attribute(1, value)
        if "buffer" in self.has:
            part += attribute(10, bytes(self.prio_buffer) + struct.pack("=9I", *self.sizes, self.total))
        if "pfc" in self.has:
            head = struct.pack("=BBBxHxx", self.pfc_classes, self.pfc, 0, self.delay)
            part += attribute(2, head + struct.pack("=16Q", *range(100, 116)))
        entries = b"".join(attribute(1, struct.pack("=BBH", *each)) for each in self.apps)
        part += attribute(0x8003, entries)
        if self.apptrust is not None:
            part += attribute(0x800B, b"".join(attribute(1, bytes([each])) for each in self.apptrust))
        more = b"" if self.dcbx is None else attribute(14, bytes([self.dcbx]))
        return attribute(0x800D, part) + more


class DcbKernel:
    """Netdevs by name; None: a driver without DCB. Replaces a netlink socket, or serves one.

    ``fail``: (command, attribute) -> error number, once for each time that it is listed. ``requests``: what was sent.
    """

    def __init__(self, **netdevs: Nic | None) -> None:
        self.netdevs = netdevs
        self.fail: list[tuple[tuple[int, int], int]] = []
        self.requests: list[tuple[int, int]] = []
        self.cut_after = -1

    def close(self) -> None:
        pass

    def request(self, kind: int, payload: bytes = b"", flags: int = 0) -> list[bytes]:
        answer, number = self.handle(kind, payload)
        if number:
            raise NetlinkError(number)
        return [answer]

    def handle(self, kind: int, payload: bytes) -> tuple[bytes, int]:
        """The answer's payload and 0, or nothing and an error number."""
        family, command = payload[0], payload[1]
        held = parts(payload[4:])
        name = held[1].rstrip(b"\0").decode()
        if family or name not in self.netdevs:
            return b"", errno.ENODEV
        nic = self.netdevs[name]
        if nic is None:
            return b"", errno.EOPNOTSUPP
        if kind != (GET if command in (21, 22) else SET):
            return b"", errno.EPERM
        head = bytes([0, command, 0, 0]) + attribute(1, held[1])
        if command == 21:
            return head + nic.answer(), 0
        if command == 22:
            return head + attribute(14, bytes([nic.dcbx or 0])), 0
        if not self.cut_after:
            raise KeyboardInterrupt
        self.cut_after -= 1
        if command == 23:
            flags = held[14][0]
            self.requests.append((command, flags))
            refused = nic.keeps_dcbx or bool(flags & 2) or not flags & 1
            if not refused:
                nic.dcbx = flags
            return head + attribute(14, bytes([int(refused)])), 0
        assert command in (20, 27), command
        number = 0
        for part, value in parts(held[13]).items():
            self.requests.append((command, part))
            number = number or self._set(nic, command, part, value)
        return head + attribute(13, struct.pack("=b", -number)), 0

    def _set(self, nic: Nic, command: int, part: int, value: bytes) -> int:
        for at, (what, number) in enumerate(self.fail):
            if what == (command, part):
                del self.fail[at]
                return number
        if part == 3:
            for entry in parts_list(value):
                row = t.cast("tuple[int, int, int]", struct.unpack("=BBH", entry))
                number = nic.set_app(row) if command == 20 else nic.delete_app(row)
                if number:
                    return number
            return 0
        if command == 27:
            return errno.EOPNOTSUPP
        if part == 11:
            if nic.apptrust is None:
                return errno.EOPNOTSUPP
            nic.apptrust = [entry[0] for entry in parts_list(value)]
            return 0
        return {1: nic.set_ets, 2: nic.set_pfc, 10: nic.set_buffer}[part](value)


def attribute(kind: int, value: bytes) -> bytes:
    length = 4 + len(value)
    return struct.pack("=HH", length, kind) + value + bytes(-length % 4)


def parts_list(data: bytes) -> list[bytes]:
    return [value for _kind, value in _walk(data)]


def parts(data: bytes) -> dict[int, bytes]:
    return dict(_walk(data))


def _walk(data: bytes) -> t.Iterator[tuple[int, bytes]]:
    while data:
        length, kind = struct.unpack_from("=HH", data)
        assert 4 <= length <= len(data)
        yield kind & 0x3FFF, data[4:length]
        data = data[length + (-length % 4) :]


class Server:
    """Lets another program talk to the kernel above, over a UNIX socket instead of netlink's."""

    def __init__(self, path: str, kernel: DcbKernel) -> None:
        self.kernel = kernel
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._sock.bind(path)
        self._sock.listen(8)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
        self._thread.join(5)

    def _serve(self) -> None:
        while True:
            try:
                link, _address = self._sock.accept()
            except OSError:
                return
            with link, contextlib.suppress(OSError):
                data = link.recv(65536)
                while data:
                    self._answer(link, data)
                    data = link.recv(65536)

    def _answer(self, link: socket.socket, data: bytes) -> None:
        length, kind, flags, sequence, port = struct.unpack_from("=IHHII", data)
        answer, number = self.kernel.handle(kind, data[16:length])
        if number:
            link.send(_message(2, sequence, port, struct.pack("=i", -number) + data[:16]))
            return
        link.send(_message(kind, sequence, port, answer))
        if flags & 4:
            link.send(_message(2, sequence, port, struct.pack("=i", 0) + data[:16]))


def _message(kind: int, sequence: int, port: int, payload: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(payload), kind, 0, sequence, port) + payload

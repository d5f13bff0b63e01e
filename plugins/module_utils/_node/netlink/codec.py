# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Netlink messages and a socket, as all netlink families use them.

Source: netlink(7) and the kernel's ``include/uapi/linux/netlink.h``. Numbers are in the machine's byte order.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError

NLM_F_REQUEST = 0x1
NLM_F_MULTI = 0x2
NLM_F_ACK = 0x4
NLM_F_DUMP_INTR = 0x10
NLM_F_DUMP = 0x300
NLM_F_CAPPED = 0x100  # in an error: the request is not repeated in it
NLM_F_ACK_TLVS = 0x200  # in an error: attributes follow
NLMSG_NOOP = 1
NLMSG_ERROR = 2
NLMSG_DONE = 3
NLMSG_OVERRUN = 4
NLMSGERR_ATTR_MSG = 1
NLA_TYPE_MASK = 0x3FFF
SOL_NETLINK = 270
NETLINK_CAP_ACK = 10
NETLINK_EXT_ACK = 11
NETLINK_GET_STRICT_CHK = 12

HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port id
ATTRIBUTE = struct.Struct("=HH")  # length, type
# How often a dump is read if the table changes meanwhile.
DUMP_TRIES = 20
# The same for a dump with a bound: of a table that another program may change all the time on purpose.
BOUNDED_TRIES = 3

# Errors whose cause is not the request.
REMEDIES = {
    errno.EMFILE: "raise the limit of open files of the process (LimitNOFILE of its unit)",
    errno.ENFILE: "raise the sysctl fs.file-max",
    errno.ENOBUFS: "run it again; if it repeats, raise the sysctls net.core.rmem_default and net.core.wmem_default",
}

Attributes = t.List[t.Tuple[int, bytes]]


class NetlinkError(RailyardError):
    """The kernel refused a request. ``errno``: the error number; ``reason``: the kernel's text, or empty."""

    def __init__(self, number: int, reason: str = "", place: str = "netlink") -> None:
        text = "%s (%s)" % (os.strerror(number), errno.errorcode.get(number, str(number)))
        super().__init__("%s: %s" % (text, reason) if reason else text, place, REMEDIES.get(number, ""))
        self.errno = number
        self.reason = reason


class Message(t.NamedTuple):
    """One netlink message, without its length and port id."""

    type: int
    flags: int
    sequence: int
    payload: bytes


def align(length: int) -> int:
    return (length + 3) & ~3


def attribute(kind: int, value: bytes) -> bytes:
    """Encode an attribute, padded to 4 bytes."""
    length = ATTRIBUTE.size + len(value)
    return ATTRIBUTE.pack(length, kind) + value + bytes(align(length) - length)


def string(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def u32(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value))


def u8(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=B", value))


def attributes(data: bytes) -> Attributes:
    """Decode attributes: (type without flag bits, value), in order. Raises :class:`RailyardError` if truncated."""
    found: Attributes = []
    place = 0
    while len(data) - place >= ATTRIBUTE.size:
        length, kind = ATTRIBUTE.unpack_from(data, place)
        if length < ATTRIBUTE.size or place + length > len(data):
            raise _malformed("an attribute of %d bytes in the %d that are left" % (length, len(data) - place))
        found.append((kind & NLA_TYPE_MASK, data[place + ATTRIBUTE.size : place + length]))
        place += align(length)
    return found


def table(data: bytes) -> dict[int, bytes]:
    """Decode attributes by type; the last one of each type."""
    return dict(attributes(data))


def text(value: bytes) -> str:
    return value.partition(b"\0")[0].decode("utf-8", "replace")


def number(value: bytes) -> int:
    """Decode an unsigned number of 1, 2, 4 or 8 bytes. Raises :class:`RailyardError` for other lengths."""
    formats = {1: "=B", 2: "=H", 4: "=I", 8: "=Q"}
    if len(value) not in formats:
        raise _malformed("a number of %d bytes" % len(value))
    return int(struct.unpack(formats[len(value)], value)[0])


def number_in(held: t.Mapping[int, bytes], kind: int) -> int | None:
    """Decode the number of an attribute of :func:`table`; None without it. Raises as :func:`number`."""
    return number(held[kind]) if kind in held else None


def encode(kind: int, flags: int, sequence: int, payload: bytes) -> bytes:
    """Encode a message with its header."""
    return HEADER.pack(HEADER.size + len(payload), kind, flags, sequence, 0) + payload


def decode(data: bytes) -> list[Message]:
    """Decode the messages of a datagram. Raises :class:`RailyardError` if one is truncated."""
    messages: list[Message] = []
    place = 0
    while len(data) - place >= HEADER.size:
        length, kind, flags, sequence, _port = HEADER.unpack_from(data, place)
        if length < HEADER.size or place + length > len(data):
            raise _malformed("a message of %d bytes in the %d that are left" % (length, len(data) - place))
        messages.append(Message(kind, flags, sequence, data[place + HEADER.size : place + length]))
        place += align(length)
    return messages


def error_of(message: Message, place: str) -> NetlinkError | None:
    """Return the error of an NLMSG_ERROR or NLMSG_DONE; None for an acknowledgement or the end of a dump."""
    if len(message.payload) < 4:
        # kernels before 2.6 send NLMSG_DONE without a code
        return None
    code = struct.unpack_from("=i", message.payload)[0]
    if not code:
        return None
    reason = ""
    if message.flags & NLM_F_ACK_TLVS:
        rest = message.payload[4:]
        if message.type == NLMSG_ERROR:
            # the header of the request follows, and its payload unless capped
            length = HEADER.size if message.flags & NLM_F_CAPPED else HEADER.unpack_from(rest)[0]
            rest = rest[align(length) :]
        reason = text(table(rest).get(NLMSGERR_ATTR_MSG, b""))
    return NetlinkError(-code, reason, place)


class NetlinkSocket:
    """A socket of one netlink family: sends requests and waits for the answers.

    :param family: the protocol number, such as ``NETLINK_RDMA``.
    :param place: the place that errors report.
    :param sock: another datagram socket, for tests.
    :param timeout: seconds to wait for each part of an answer.
    """

    def __init__(
        self, family: int, place: str = "netlink", sock: socket.socket | None = None, timeout: float = 30.0
    ) -> None:
        self.place = place
        self._sequence = 0
        try:
            self._sock = sock or socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, family)
        except OSError as error:
            absent = error.errno in (errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT)
            reason = "the kernel has no such netlink family" if absent else ""
            raise NetlinkError(error.errno or errno.EIO, reason, place) from None
        self._sock.settimeout(timeout)
        if sock is None:
            try:
                self._sock.bind((0, 0))
            except OSError as error:
                self._sock.close()
                raise NetlinkError(error.errno or errno.EIO, "", place) from None
            # optional: they add texts to errors, and kernels before 4.12 do not have them
            for option in (NETLINK_CAP_ACK, NETLINK_EXT_ACK):
                with contextlib.suppress(OSError):
                    self._sock.setsockopt(SOL_NETLINK, option, 1)

    def close(self) -> None:
        self._sock.close()

    def check_strictly(self) -> None:
        """Let the kernel apply the header of later requests of tables, such as an index, if it can."""
        with contextlib.suppress(OSError):
            self._sock.setsockopt(SOL_NETLINK, NETLINK_GET_STRICT_CHK, 1)

    def request(self, kind: int, payload: bytes = b"", flags: int = 0) -> list[bytes]:
        """Send a request and wait for the acknowledgement. Return the payloads of the answers, often none.

        Raises :class:`NetlinkError`.
        """
        sequence = self._send(kind, NLM_F_REQUEST | NLM_F_ACK | flags, payload)
        answers: list[bytes] = []
        for message in self._answers(sequence):
            if message.type in (NLMSG_ERROR, NLMSG_DONE):
                break
            answers.append(message.payload)
        return answers

    def dump(self, kind: int, payload: bytes = b"", most: int | None = None) -> list[bytes]:
        """Read a table. Return the payloads of all its messages. Raises :class:`NetlinkError`.

        :param most: how many messages are read. A longer table is E2BIG; the socket cannot be used again then.
        """
        tries = DUMP_TRIES if most is None else BOUNDED_TRIES
        for _try in range(tries):
            sequence = self._send(kind, NLM_F_REQUEST | NLM_F_DUMP, payload)
            answers: list[bytes] = []
            inconsistent = False
            for message in self._answers(sequence):
                inconsistent = inconsistent or bool(message.flags & NLM_F_DUMP_INTR)
                if message.type in (NLMSG_ERROR, NLMSG_DONE):
                    break
                answers.append(message.payload)
                if most is not None and len(answers) > most:
                    raise NetlinkError(errno.E2BIG, "the table has more than %d entries" % most, self.place)
                if not message.flags & NLM_F_MULTI:
                    break
            if not inconsistent:
                return answers
        raise RailyardError(
            "the table changed each of the %d times that it was read" % tries,
            self.place,
            "find out what makes and removes devices there all the time",
        )

    def _send(self, kind: int, flags: int, payload: bytes) -> int:
        self._sequence += 1
        try:
            self._sock.send(encode(kind, flags, self._sequence, payload))
        except OSError as error:
            raise NetlinkError(error.errno or errno.EIO, "", self.place) from None
        return self._sequence

    def _answers(self, sequence: int) -> t.Iterator[Message]:
        """Yield the messages that answer this request, including the last one. Raises :class:`NetlinkError`."""
        while True:
            for message in decode(self._receive()):
                # a late answer to an earlier request
                if message.sequence != sequence or message.type == NLMSG_NOOP:
                    continue
                if message.type == NLMSG_OVERRUN:
                    raise NetlinkError(errno.ENOBUFS, "", self.place)
                if message.type in (NLMSG_ERROR, NLMSG_DONE):
                    error = error_of(message, self.place)
                    if error:
                        raise error
                yield message

    def _receive(self) -> bytes:
        try:
            # read the length first, so that the message is not truncated
            length = self._sock.recv_into(bytearray(1), 1, socket.MSG_PEEK | socket.MSG_TRUNC)
            return self._sock.recv(max(length, HEADER.size))
        except socket.timeout:
            raise NetlinkError(errno.ETIMEDOUT, "the kernel gave no answer", self.place) from None
        except OSError as error:
            raise NetlinkError(error.errno or errno.EIO, "", self.place) from None


def _malformed(detail: str) -> RailyardError:
    return RailyardError("the kernel's answer makes no sense: %s" % detail, "netlink", "report this as a bug")

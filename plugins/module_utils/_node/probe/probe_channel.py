# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Authenticated messages between the probers of two nodes.

Both ends have the token of the run, which the control node sends over Ansible's connection. The server sends a nonce,
the client sends its hello with a nonce and proves that it has the token (HMAC, RFC 2104), and the server proves it too.
Each later line is a JSON object after its HMAC, with a key of this connection, a direction and a number. So other
programs can neither send messages nor repeat them. The bytes of a line and the time for it are limited.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import secrets
import select
import socket
import threading
import time
import typing as t

# Bytes of a line of the handshake.
HANDSHAKE_BYTES = 1024
# Bytes of a message: the servers of all rails of a node.
MESSAGE_BYTES = 262144
# Seconds between two keepalives. Clocks of emulated guests differ in speed, up to ten times.
ALIVE_SECONDS = 1.0
# The part of the longest silence in which the handshake must end.
_HANDSHAKE_SHARE = 1 / 2.0
CLIENT, SERVER = "client", "server"
_INVALID = "sent an invalid message"
Message = t.Dict[str, t.Any]


class PartnerLost(Exception):
    """The other end does not answer, or it is not a prober of the run. The text is the reason."""


class Hello(t.NamedTuple):
    """The first message of a client. ``name``, ``to``: the nodes of client and server. ``turn``: of the schedule.

    ``watch``: whether the client only checks that the server is alive. ``all_started``: whether all nodes of the run
    were started.
    """

    name: str
    to: str
    turn: int
    watch: bool
    all_started: bool


class Channel:
    """One end of a connection.

    :param role: :data:`CLIENT` or :data:`SERVER`.
    :param silence: seconds without a message after which a partner is lost.
    """

    def __init__(self, sock: socket.socket, role: str, silence: float) -> None:
        self._sock, self._silence = sock, silence
        self._buffer = b""
        self._key = b""
        self._sends, self._receives = (CLIENT, SERVER) if role == CLIENT else (SERVER, CLIENT)
        self._sent = self._received = 0
        self._lock = threading.Lock()
        # for sending; reading waits with poll(2)
        sock.settimeout(silence)

    def close(self) -> None:
        """Close the connection. A thread that waits for a message gets :class:`PartnerLost`."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def send(self, message: Message) -> None:
        """Send a message. Raises :class:`PartnerLost`."""
        text = json.dumps(message).encode()
        with self._lock:
            mac = _mac(self._key, self._sends, self._sent, text.decode())
            self._sent += 1
            self._write(mac.encode() + b" " + text)

    def receive(self) -> Message:
        """Return the next message, which may be a keepalive.

        :raises PartnerLost: if no message arrives in time, or if it is not authentic.
        """
        mac, _space, text = self._line(time.monotonic() + self._silence, MESSAGE_BYTES).partition(b" ")
        expected = _mac(self._key, self._receives, self._received, text.decode("utf-8", "replace"))
        self._received += 1
        if not hmac.compare_digest(mac, expected.encode()):
            raise PartnerLost("answered with a message that is not authentic")
        return _parsed(text)

    @contextlib.contextmanager
    def alive(self) -> t.Iterator[None]:
        """Send keepalives while this process works for the partner."""
        end = threading.Event()

        def send() -> None:
            while not end.wait(ALIVE_SECONDS):
                with contextlib.suppress(PartnerLost):
                    self.send({"alive": True})

        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()

    # -- the handshake -------------------------------------------------------------------------------------------------

    def connect(self, token: str, hello: Hello) -> None:
        """Prove to a server that this is a prober of the run. Raises :class:`PartnerLost` if the server is not one."""
        until = time.monotonic() + self._silence * _HANDSHAKE_SHARE
        theirs, own = _text(self._hand(until), "nonce"), secrets.token_hex(16)
        row = list(hello)
        self._write(json.dumps({"hello": row, "nonce": own, "proof": _mac(token, CLIENT, theirs, own, row)}).encode())
        proof = _text(self._hand(until), "proof")
        if not hmac.compare_digest(proof.encode(), _mac(token, SERVER, theirs, own, row).encode()):
            raise PartnerLost("is not a prober of this run")
        self._key = _mac(token, "key", theirs, own, row).encode()

    def accept(self, token: str, name: str) -> Hello:
        """Let a client prove that it is a prober of the run. Raises :class:`PartnerLost` if it is not one.

        :param name: of this node; a client that connects to another node is refused.
        """
        until = time.monotonic() + self._silence * _HANDSHAKE_SHARE
        own = secrets.token_hex(16)
        self._write(json.dumps({"nonce": own}).encode())
        message = self._hand(until)
        row, theirs, proof = message.get("hello"), _text(message, "nonce"), _text(message, "proof")
        if not isinstance(row, list) or [type(each) for each in row] != [str, str, int, bool, bool]:
            raise PartnerLost(_INVALID)
        if not hmac.compare_digest(proof.encode(), _mac(token, CLIENT, own, theirs, row).encode()):
            raise PartnerLost("is not a prober of this run")
        hello = Hello(*row)
        if hello.to != name:
            raise PartnerLost("connects to %s, and this node is %s" % (hello.to, name))
        self._write(json.dumps({"proof": _mac(token, SERVER, own, theirs, row)}).encode())
        self._key = _mac(token, "key", own, theirs, row).encode()
        return hello

    def _hand(self, until: float) -> Message:
        return _parsed(self._line(until, HANDSHAKE_BYTES))

    # -- lines ---------------------------------------------------------------------------------------------------------

    def _write(self, line: bytes) -> None:
        try:
            self._sock.sendall(line + b"\n")
        except OSError as error:
            raise PartnerLost(str(error.strerror or error)) from None

    def _line(self, until: float, most: int) -> bytes:
        """Return the next line. ``until``: time of the monotonic clock. ``most``: bytes of a line."""
        while b"\n" not in self._buffer:
            if len(self._buffer) > most:
                raise PartnerLost("sent more than %d bytes in a line" % most)
            self._buffer += self._read(until)
        line, _newline, self._buffer = self._buffer.partition(b"\n")
        return line

    def _read(self, until: float) -> bytes:
        try:
            poller = select.poll()
            poller.register(self._sock, select.POLLIN)
            if not poller.poll(max(0.0, until - time.monotonic()) * 1000):
                raise PartnerLost("does not answer")
            data = self._sock.recv(HANDSHAKE_BYTES)
        except (OSError, ValueError) as error:  # a closed socket has no descriptor
            raise PartnerLost(str(getattr(error, "strerror", None) or "the connection was closed")) from None
        if not data:
            raise PartnerLost("has closed the connection")
        return data


def _mac(key: str | bytes, *parts: t.Any) -> str:
    known = key.encode() if isinstance(key, str) else key
    return hmac.new(known, json.dumps(parts).encode(), hashlib.sha256).hexdigest()


def _parsed(line: bytes) -> Message:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise PartnerLost(_INVALID)
    return message


def _text(message: Message, key: str) -> str:
    value = message.get(key)
    if not isinstance(value, str) or not value.isascii():
        raise PartnerLost(_INVALID)
    return value

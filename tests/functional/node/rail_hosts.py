# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other hosts on a rail, which send and answer frames of neighbour discovery at the leaf's end of its cable."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import arp
from tests.functional.node.own_namespace import LiveNode

PROGRAM = """
import socket, sys, threading, time
netdev, does, frame = sys.argv[1], sys.argv[2], bytes.fromhex(sys.argv[3])
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
sock.bind((netdev, 3))
print("ready", flush=True)
while does == "repeat":
    sock.send(frame)
    time.sleep(0.05)
while True:
    received, (_netdev, _protocol, direction, *_rest) = sock.recvfrom(2048)
    if direction == 4:
        continue
    if does in ("return", "pad"):
        sock.send(received if does == "return" or received[12:14] != b"\\x08\\x06" else received[:42].ljust(60, b"\\0"))
    elif received[12:14] == b"\\x08\\x06" and received[28:32] == bytes(4):
        threading.Timer(float(does), sock.send, (frame,)).start()
"""


class RailHost:
    """A host at ``leafN``.

    :param does: ``repeat``: it sends the frame again and again. ``return``: it returns each frame, as a NIC with VFs or
        a switch may. ``pad``: it returns them with other padding. A number: it sends the frame so many seconds after
        each ARP probe.
    """

    def __init__(self, node: LiveNode, does: str, frame: bytes = b"", leaf: str = "leaf1") -> None:
        inside = ["nsenter", "--net=/proc/%d/ns/net" % node._leaf.pid, sys.executable, "-c", PROGRAM, leaf]
        self._process = subprocess.Popen([*inside, does, frame.hex()], stdout=subprocess.PIPE)
        node.at_end(self.end)
        assert self._process.stdout and self._process.stdout.readline() == b"ready\n"

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def arp_frame(operation: int, mac: str, address: str, target: str, receiver: str = "ff:ff:ff:ff:ff:ff") -> bytes:
    """An ARP packet of a host with this MAC and address."""
    sender, receiving = (bytes.fromhex(each.replace(":", "")) for each in (mac, receiver))
    head = struct.pack(arp.ARP_HEAD, 1, 0x0800, 6, 4, operation)
    packet = head + sender + socket.inet_aton(address) + bytes(6) + socket.inet_aton(target)
    return arp.LinkAddresses(sender).frame(receiving, arp.ETH_P_ARP, packet)


def discovery_frame(mac: str, **values: t.Any) -> bytes:
    """A packet of neighbour discovery, by default an advertisement to all nodes, with a correct checksum.

    Keys: ``type``, ``code``, ``flags``, ``source``, ``to``, ``target`` (16 bytes each), ``options``, ``hops``,
    ``checksum``.
    """
    link = arp.LinkAddresses(bytes.fromhex(mac.replace(":", "")))
    everyone = socket.inet_pton(socket.AF_INET6, "ff02::1")
    given = {"type": 136, "code": 0, "flags": 0x20, "to": everyone, "hops": 255, "options": b"", **values}
    body = struct.pack("!BBHB3x16s", given["type"], given["code"], 0, given["flags"], given["target"])
    body += given["options"]
    checksum = ~arp.icmp_sum(given["source"], given["to"], body) & 0xFFFF
    body = body[:2] + struct.pack("!H", given.get("checksum", checksum)) + body[4:]
    head = struct.pack("!IHBB16s16s", 6 << 28, len(body), 58, given["hops"], given["source"], given["to"])
    return link.frame(link.multicast(given["to"]), arp.ETH_P_IPV6, head + body)


def advertisement(mac: str, address: str, **values: t.Any) -> bytes:
    """A neighbour advertisement to all nodes, as a host answers duplicate address detection."""
    target = socket.inet_pton(socket.AF_INET6, address)
    options = bytes.fromhex("0201" + mac.replace(":", ""))
    return discovery_frame(mac, **{"target": target, "source": target, "options": options, **values})


def detection(mac: str, address: str, **values: t.Any) -> bytes:
    """A neighbour solicitation of duplicate address detection."""
    target = socket.inet_pton(socket.AF_INET6, address)
    base = {"type": 135, "flags": 0, "target": target, "source": bytes(16), "to": arp.solicited_group(target)}
    return discovery_frame(mac, **{**base, **values})

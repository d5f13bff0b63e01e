# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Data Center Bridging of netdevs over rtnetlink: what ``dcb`` of iproute2 reads and sets, by the same messages.

Source: the kernel's ``include/uapi/linux/dcbnl.h`` and ``net/dcb/dcbnl.c``. Of the commands, those of IEEE 802.1Qaz are
used (all drivers of RoCE NICs have them), and DCBX's own. Priorities, traffic classes and buffers are eight each.
"""

from __future__ import annotations

import errno
import socket
import struct
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError, NetlinkSocket

NETLINK_ROUTE = 0
RTM_GETDCB, RTM_SETDCB = 78, 79
CMD_IEEE_SET, CMD_IEEE_GET, CMD_GDCBX, CMD_SDCBX, CMD_IEEE_DEL = 20, 21, 22, 23, 27
ATTR_IFNAME, ATTR_IEEE, ATTR_DCBX = 1, 13, 14
IEEE_ETS, IEEE_PFC, IEEE_APP_TABLE, IEEE_BUFFER, IEEE_APP_TRUST_TABLE = 1, 2, 3, 10, 11
IEEE_APP, APP_TRUST = 1, 1
SELECTOR_DSCP, SELECTOR_PCP = 5, 24
SELECTORS = {"dscp": SELECTOR_DSCP, "pcp": SELECTOR_PCP}
TSA = {0: "strict", 1: "cb-shaper", 2: "ets", 255: "vendor"}
TSA_NUMBERS = {name: number for number, name in TSA.items()}
NLA_F_NESTED = 0x8000
# Who negotiates: the host (its tools, or an LLDP agent there); without the flag the NIC's firmware does.
DCBX_HOST, DCBX_LLD_MANAGED, DCBX_CEE, DCBX_IEEE = 0x1, 0x2, 0x4, 0x8

MESSAGE = struct.Struct("=BBxx")  # struct dcbmsg: family, command
# struct ieee_ets: willing, classes, cbs; then by class tx share, rx share, algorithm; class by priority; and the same
# three that are recommended to the peer
ETS = struct.Struct("=BBB8s8s8s8s8s8s8s")
PFC = struct.Struct("=BBBxHxx8Q8Q")  # struct ieee_pfc: classes, enabled, bypass, delay; pauses sent, pauses received
BUFFER = struct.Struct("=8s8II")  # struct dcbnl_buffer: buffer by priority, bytes by buffer, bytes in all
APP = struct.Struct("=BBH")  # struct dcb_app: selector, priority, protocol


class Ets(t.NamedTuple):
    """How priorities share the wire. ``classes``: how many the NIC has; ``tsa``: algorithms as the kernel's numbers."""

    classes: int
    prio_tc: tuple[int, ...]
    tc_bw: tuple[int, ...]
    tsa: tuple[int, ...]
    raw: bytes

    def with_values(self, prio_tc: t.Sequence[int], tc_bw: t.Sequence[int], tsa: t.Sequence[int]) -> bytes:
        """The structure with these, and all else as it was read."""
        part = list(ETS.unpack(self.raw))
        part[3], part[5], part[6] = bytes(tc_bw), bytes(tsa), bytes(prio_tc)
        return ETS.pack(*part)


class Pfc(t.NamedTuple):
    """``enabled`` by priority; ``delay`` as the driver means it (mlx5: metres of cable); counters of pause frames."""

    classes: int
    enabled: tuple[int, ...]
    delay: int
    raw: bytes

    def with_values(self, enabled: t.Sequence[int], delay: int) -> bytes:
        part = list(PFC.unpack(self.raw))
        part[1], part[3] = sum(bit << priority for priority, bit in enumerate(enabled)), delay
        return PFC.pack(*part)


class Buffer(t.NamedTuple):
    """Receive buffers: which each priority has, the bytes of each, and the bytes of all that can be given out."""

    prio_buffer: tuple[int, ...]
    sizes: tuple[int, ...]
    total: int

    def encoded(self) -> bytes:
        return BUFFER.pack(bytes(self.prio_buffer), *(tuple(self.sizes) + (self.total,)))


class App(t.NamedTuple):
    """One entry of the application table: packets of ``protocol`` (of DSCP: the DSCP) have ``priority``."""

    selector: int
    priority: int
    protocol: int


class Dcb(t.NamedTuple):
    """What a driver reports about a netdev; each None without support. ``trust`` are selectors in order.

    ``dcbx`` holds the DCBX flags.
    """

    ets: Ets | None
    pfc: Pfc | None
    buffer: Buffer | None
    apps: tuple[App, ...]
    trust: tuple[int, ...] | None
    dcbx: int | None

    def dscp2prio(self) -> dict[int, int]:
        """DSCP -> priority, of all entries; of several for one DSCP the highest, as the kernel has it."""
        found: dict[int, int] = {}
        for app in self.apps:
            if app.selector == SELECTOR_DSCP:
                found[app.protocol] = max(app.priority, found.get(app.protocol, 0))
        return found


def decode(payload: bytes) -> Dcb:
    """The answer to ``DCB_CMD_IEEE_GET``."""
    outer = codec.table(payload[MESSAGE.size :])
    inner = codec.table(outer.get(ATTR_IEEE, b""))
    apps = [value for kind, value in codec.attributes(inner.get(IEEE_APP_TABLE, b"")) if kind == IEEE_APP]
    trust = None
    if IEEE_APP_TRUST_TABLE in inner:
        rows = codec.attributes(inner[IEEE_APP_TRUST_TABLE])
        trust = tuple(codec.number(value) for kind, value in rows if kind == APP_TRUST)
    return Dcb(
        _ets(inner.get(IEEE_ETS)),
        _pfc(inner.get(IEEE_PFC)),
        _buffer(inner.get(IEEE_BUFFER)),
        tuple(App(*APP.unpack_from(value)) for value in apps if len(value) >= APP.size),
        trust,
        codec.number(outer[ATTR_DCBX]) if ATTR_DCBX in outer else None,
    )


def _ets(value: bytes | None) -> Ets | None:
    if value is None or len(value) < ETS.size:
        return None
    part = ETS.unpack_from(value)
    return Ets(part[1], tuple(part[6]), tuple(part[3]), tuple(part[5]), value[: ETS.size])


def _pfc(value: bytes | None) -> Pfc | None:
    if value is None or len(value) < PFC.size:
        return None
    part = PFC.unpack_from(value)
    return Pfc(part[0], tuple(part[1] >> priority & 1 for priority in range(8)), part[3], value[: PFC.size])


def _buffer(value: bytes | None) -> Buffer | None:
    if value is None or len(value) < BUFFER.size:
        return None
    part = BUFFER.unpack_from(value)
    return Buffer(tuple(part[0]), tuple(part[1:9]), part[9])


class DcbSocket:
    """Asks the kernel of netdevs in this network namespace. Raises :class:`NetlinkError`."""

    def __init__(self, sock: NetlinkSocket | None = None) -> None:
        self._sock = sock or NetlinkSocket(NETLINK_ROUTE, "dcb")

    def close(self) -> None:
        self._sock.close()

    def read(self, netdev: str) -> Dcb | None:
        """All that the driver reports; None where it has no DCB at all, as of VFs and virtual netdevs."""
        try:
            return decode(self._ask(RTM_GETDCB, CMD_IEEE_GET, netdev))
        except NetlinkError as error:
            if error.errno == errno.EOPNOTSUPP:
                return None
            raise

    def set_ets(self, netdev: str, structure: bytes) -> None:
        self._ieee(CMD_IEEE_SET, netdev, codec.attribute(IEEE_ETS, structure))

    def set_pfc(self, netdev: str, structure: bytes) -> None:
        self._ieee(CMD_IEEE_SET, netdev, codec.attribute(IEEE_PFC, structure))

    def set_buffer(self, netdev: str, buffer: Buffer) -> None:
        self._ieee(CMD_IEEE_SET, netdev, codec.attribute(IEEE_BUFFER, buffer.encoded()))

    def set_app(self, netdev: str, app: App) -> None:
        self._ieee(CMD_IEEE_SET, netdev, _table(app))

    def delete_app(self, netdev: str, app: App) -> None:
        """Delete an entry, if it exists."""
        try:
            self._ieee(CMD_IEEE_DEL, netdev, _table(app))
        except NetlinkError as error:
            if error.errno != errno.ENOENT:
                raise

    def set_trust(self, netdev: str, selectors: t.Sequence[int]) -> None:
        rows = b"".join(codec.u8(APP_TRUST, selector) for selector in selectors)
        self._ieee(CMD_IEEE_SET, netdev, _nested(IEEE_APP_TRUST_TABLE, rows))

    def set_dcbx(self, netdev: str, flags: int) -> None:
        answer = self._ask(RTM_SETDCB, CMD_SDCBX, netdev, codec.u8(ATTR_DCBX, flags))
        if codec.number(codec.table(answer[MESSAGE.size :]).get(ATTR_DCBX, b"\0")):
            # the driver only reports that it refuses
            raise NetlinkError(errno.EOPNOTSUPP, "the driver keeps its DCBX mode", netdev)

    def _ieee(self, command: int, netdev: str, attribute: bytes) -> None:
        answer = self._ask(RTM_SETDCB, command, netdev, _nested(ATTR_IEEE, attribute))
        report = codec.table(answer[MESSAGE.size :]).get(ATTR_IEEE, b"\0")
        # an error number below zero, cut down to one byte
        code = struct.unpack("=b", report[:1])[0]
        if code:
            raise NetlinkError(-code, "", netdev)

    def _ask(self, kind: int, command: int, netdev: str, more: bytes = b"") -> bytes:
        payload = MESSAGE.pack(socket.AF_UNSPEC, command) + codec.string(ATTR_IFNAME, netdev) + more
        answers = self._sock.request(kind, payload)
        return answers[0] if answers else MESSAGE.pack(0, command)


def _nested(kind: int, value: bytes) -> bytes:
    return codec.attribute(kind | NLA_F_NESTED, value)


def _table(app: App) -> bytes:
    return _nested(IEEE_APP_TABLE, codec.attribute(IEEE_APP, APP.pack(*app)))

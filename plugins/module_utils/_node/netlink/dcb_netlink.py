# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Data Center Bridging of netdevs over rtnetlink, with the messages that ``dcb`` of iproute2 uses.

Source: the kernel's ``include/uapi/linux/dcbnl.h`` and ``net/dcb/dcbnl.c``. Only the commands of IEEE 802.1Qaz, which
all drivers of RoCE NICs have, and those of DCBX are used. There are eight priorities, traffic classes and buffers.
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
CMD_IEEE_SET, CMD_IEEE_GET, CMD_SDCBX, CMD_IEEE_DEL = 20, 21, 23, 27
ATTR_IFNAME, ATTR_IEEE, ATTR_DCBX = 1, 13, 14
IEEE_ETS, IEEE_PFC, IEEE_APP_TABLE, IEEE_BUFFER, IEEE_APP_TRUST_TABLE = 1, 2, 3, 10, 11
IEEE_APP, APP_TRUST = 1, 1
SELECTOR_DSCP, SELECTOR_PCP = 5, 24
SELECTORS = {"dscp": SELECTOR_DSCP, "pcp": SELECTOR_PCP}
TSA = {0: "strict", 1: "cb-shaper", 2: "ets", 255: "vendor"}
TSA_NUMBERS = {name: number for number, name in TSA.items()}
NLA_F_NESTED = 0x8000
# DCBX_HOST: the host (its tools, or an LLDP agent) negotiates; without the flag, the NIC's firmware does.
DCBX_HOST, DCBX_LLD_MANAGED, DCBX_IEEE = 0x1, 0x2, 0x8

MESSAGE = struct.Struct("=BBxx")  # struct dcbmsg: family, command
# struct ieee_ets: willing, classes, cbs; then tx share, rx share and algorithm by class; class by priority; then the
# values recommended to the peer
ETS = struct.Struct("=BBB8s8s8s8s8s8s8s")
PFC = struct.Struct("=BBBxHxx8Q8Q")  # struct ieee_pfc: classes, enabled, bypass, delay; pauses sent, pauses received
BUFFER = struct.Struct("=8s8II")  # struct dcbnl_buffer: buffer by priority, bytes by buffer, bytes in all
APP = struct.Struct("=BBH")  # struct dcb_app: selector, priority, protocol


class Ets(t.NamedTuple):
    """Enhanced Transmission Selection: traffic class by priority (``prio_tc``), and by class the bandwidth in percent
    (``tc_bw``) and the algorithm's number (``tsa``). ``classes``: how many traffic classes the NIC has.
    """

    classes: int
    prio_tc: tuple[int, ...]
    tc_bw: tuple[int, ...]
    tsa: tuple[int, ...]
    raw: bytes

    def with_values(self, prio_tc: t.Sequence[int], tc_bw: t.Sequence[int], tsa: t.Sequence[int]) -> bytes:
        """Return ``struct ieee_ets`` with these values, otherwise as read."""
        fields = list(ETS.unpack(self.raw))
        fields[3], fields[5], fields[6] = bytes(tc_bw), bytes(tsa), bytes(prio_tc)
        return ETS.pack(*fields)


class Pfc(t.NamedTuple):
    """Priority flow control: ``enabled`` by priority; ``delay`` in units of the driver (mlx5: metres of cable)."""

    classes: int
    enabled: tuple[int, ...]
    delay: int
    raw: bytes

    @property
    def frames(self) -> tuple[int, int]:
        """The pause frames that were sent and received, of all priorities."""
        fields = PFC.unpack(self.raw)
        return sum(fields[4:12]), sum(fields[12:20])

    def with_values(self, enabled: t.Sequence[int], delay: int) -> bytes:
        fields = list(PFC.unpack(self.raw))
        fields[1], fields[3] = sum(bit << priority for priority, bit in enumerate(enabled)), delay
        return PFC.pack(*fields)


class Buffer(t.NamedTuple):
    """Receive buffers: buffer by priority, bytes of each buffer, and bytes available in total."""

    prio_buffer: tuple[int, ...]
    sizes: tuple[int, ...]
    total: int

    def encoded(self) -> bytes:
        return BUFFER.pack(bytes(self.prio_buffer), *(tuple(self.sizes) + (self.total,)))


class App(t.NamedTuple):
    """One entry of the application table: packets of ``protocol`` (for DSCP, the code point) have ``priority``."""

    selector: int
    priority: int
    protocol: int


class Dcb(t.NamedTuple):
    """The DCB settings that a driver reports for a netdev; None for those that it does not support.

    ``trust``: selectors in order. ``dcbx``: the DCBX flags.
    """

    ets: Ets | None
    pfc: Pfc | None
    buffer: Buffer | None
    apps: tuple[App, ...]
    trust: tuple[int, ...] | None
    dcbx: int | None

    def dscp2prio(self) -> dict[int, int]:
        """Return DSCP -> priority; the highest priority if a DSCP has several entries, as in the kernel."""
        found: dict[int, int] = {}
        for app in self.apps:
            if app.selector == SELECTOR_DSCP:
                found[app.protocol] = max(app.priority, found.get(app.protocol, 0))
        return found


def decode(payload: bytes) -> Dcb:
    """Decode the answer to ``DCB_CMD_IEEE_GET``."""
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
    fields = ETS.unpack_from(value)
    return Ets(fields[1], tuple(fields[6]), tuple(fields[3]), tuple(fields[5]), value[: ETS.size])


def _pfc(value: bytes | None) -> Pfc | None:
    if value is None or len(value) < PFC.size:
        return None
    fields = PFC.unpack_from(value)
    return Pfc(fields[0], tuple(fields[1] >> priority & 1 for priority in range(8)), fields[3], value[: PFC.size])


def _buffer(value: bytes | None) -> Buffer | None:
    if value is None or len(value) < BUFFER.size:
        return None
    fields = BUFFER.unpack_from(value)
    return Buffer(tuple(fields[0]), tuple(fields[1:9]), fields[9])


class DcbSocket:
    """Reads and sets DCB of netdevs in this network namespace. Its methods raise :class:`NetlinkError`."""

    def __init__(self, sock: NetlinkSocket | None = None) -> None:
        self._sock = sock or NetlinkSocket(NETLINK_ROUTE, "dcb")

    def close(self) -> None:
        self._sock.close()

    def read(self, netdev: str) -> Dcb | None:
        """Return the netdev's DCB settings; None if its driver has no DCB, such as for VFs and virtual netdevs."""
        try:
            return decode(self._request(RTM_GETDCB, CMD_IEEE_GET, netdev))
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
        self._ieee(CMD_IEEE_SET, netdev, _app_table(app))

    def delete_app(self, netdev: str, app: App) -> None:
        """Delete an entry, if it exists."""
        try:
            self._ieee(CMD_IEEE_DEL, netdev, _app_table(app))
        except NetlinkError as error:
            if error.errno != errno.ENOENT:
                raise

    def set_trust(self, netdev: str, selectors: t.Sequence[int]) -> None:
        rows = b"".join(codec.u8(APP_TRUST, selector) for selector in selectors)
        self._ieee(CMD_IEEE_SET, netdev, _nested(IEEE_APP_TRUST_TABLE, rows))

    def set_dcbx(self, netdev: str, flags: int) -> None:
        answer = self._request(RTM_SETDCB, CMD_SDCBX, netdev, codec.u8(ATTR_DCBX, flags))
        if codec.number(codec.table(answer[MESSAGE.size :]).get(ATTR_DCBX, b"\0")):
            # the driver reports no error number
            raise NetlinkError(errno.EOPNOTSUPP, "the driver keeps its DCBX mode", netdev)

    def _ieee(self, command: int, netdev: str, attribute: bytes) -> None:
        answer = self._request(RTM_SETDCB, command, netdev, _nested(ATTR_IEEE, attribute))
        report = codec.table(answer[MESSAGE.size :]).get(ATTR_IEEE, b"\0")
        # a negative error number, truncated to one byte
        code = struct.unpack("=b", report[:1])[0]
        if code:
            raise NetlinkError(-code, "", netdev)

    def _request(self, kind: int, command: int, netdev: str, more_attributes: bytes = b"") -> bytes:
        payload = MESSAGE.pack(socket.AF_UNSPEC, command) + codec.string(ATTR_IFNAME, netdev) + more_attributes
        answers = self._sock.request(kind, payload)
        return answers[0] if answers else MESSAGE.pack(0, command)


def _nested(kind: int, value: bytes) -> bytes:
    return codec.attribute(kind | NLA_F_NESTED, value)


def _app_table(app: App) -> bytes:
    return _nested(IEEE_APP_TABLE, codec.attribute(IEEE_APP, APP.pack(*app)))

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""One rail port's quality of service: what it is, what has to be done for what it shall be, and what cannot be."""

from __future__ import annotations

import errno
import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused, Unsupported
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import dcb_netlink, ethtool
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.dcb_netlink import App, Dcb, DcbSocket
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import ARPHRD_INFINIBAND
from ansible_collections.railyard.fabric.plugins.module_utils._node.qos import congestion_control, rdma_traffic_class
from ansible_collections.railyard.fabric.plugins.module_utils._node.qos.qos_spec import Wish
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions

# The driver gives buffers out in cells, and reads back what it gave; no NIC's cell is larger.
CELL = 256
REMEDIES = {
    errno.EPERM: "run the task with become",
    errno.EINVAL: "see the kernel's messages (dmesg) for what the driver has against it",
    errno.EOPNOTSUPP: "leave it out of qos, or use a driver and a NIC that have it",
    errno.ENODEV: "run the task again: the netdev went away meanwhile",
}
BUFFER_REMEDY = "make the buffers larger or cable_len shorter, by the table in docs/qos.md; dmesg may say more"

Row = t.Dict[str, t.Any]
Act = t.Callable[[], None]


class Tools(t.NamedTuple):
    """What asks and tells the kernel; each can be another one in a test."""

    sock: DcbSocket
    marks: rdma_traffic_class.Marks
    pauses: t.Callable[[t.Iterable[str]], dict[str, ethtool.Pause]] = ethtool.pauses
    set_pause: t.Callable[[str, ethtool.Pause], None] = ethtool.set_pause


class LivePort:
    """A port as it is. ``held`` is None where its driver has no DCB."""

    def __init__(self, system: System, tools: Tools, place: str, netdev: str, function: str | None, vfs: bool) -> None:
        self._system = system
        self._tools = tools
        self.place = place
        self.netdev = netdev
        self.pci = function
        self.driver = system.link_name(pci_functions.attribute(function, "driver")) if function else None
        self.held: Dcb | None = tools.sock.read(netdev)
        self.pause = tools.pauses([netdev]).get(netdev)
        # drivers of before DCB had trust: there it is in sysfs, and not in the application table
        self.trust_path = "/sys/class/net/%s/qos/trust" % netdev
        self.map_path = "/sys/class/net/%s/qos/dscp2prio" % netdev
        self.old_trust = system.read(self.trust_path)
        self.ecn = congestion_control.observe(system, netdev, function)
        functions = [] if function is None else [function]
        if vfs and function:
            functions += pci_functions.virtual_functions(system, function)
        self.rdma = [row for each in functions for row in self._rdma(each)]

    def _rdma(self, function: str) -> list[Row]:
        rows = []
        for device in pci_functions.rdma_devices(self._system, function):
            for port in rdma_traffic_class.ports(self._system, device):
                row: Row = {"device": device, "port": port, "pci": function}
                row.update(self._tools.marks.read(device, port))
                rows.append(row)
        return rows

    # -- what it is ------------------------------------------------------------------------------------------------

    @property
    def trust(self) -> str | None:
        """What the NIC goes by. Where no table says, an entry for a DSCP is what turns mlx5 and ice to it."""
        if self.old_trust is not None:
            return self.old_trust
        if self.held is None:
            return None
        if self.held.trust is not None:
            first = self.held.trust[0] if self.held.trust else None
            return next((name for name, number in dcb_netlink.SELECTORS.items() if number == first), None)
        return "dscp" if self.held.dscp2prio() else "pcp"

    @property
    def dscp2prio(self) -> dict[int, int]:
        if self.old_trust is None:
            return self.held.dscp2prio() if self.held else {}
        rows = [line.split() for line in (self._system.read(self.map_path) or "").splitlines()]
        return {int(row[0]): int(row[1]) for row in rows if len(row) > 1 and row[0].isdigit() and row[1].isdigit()}

    @property
    def firmware_dcbx(self) -> bool:
        """Whether the NIC's firmware negotiates DCB with the switch."""
        flags = self.held.dcbx if self.held else None
        return flags is not None and (not flags & dcb_netlink.DCBX_HOST or bool(flags & dcb_netlink.DCBX_LLD_MANAGED))

    def state(self) -> Row:
        """In the shape of the module's options."""
        held = self.held
        ets = pfc = buffers = None
        if held and held.ets:
            names = [dcb_netlink.TSA.get(number, str(number)) for number in held.ets.tsa]
            ets = {"prio_tc": list(held.ets.prio_tc), "tc_bw": list(held.ets.tc_bw), "tc_tsa": names}
        if held and held.pfc:
            pfc = list(held.pfc.enabled)
        if held and (held.buffer or held.pfc):
            have = held.buffer
            buffers = {
                "prio_buffer": list(have.prio_buffer) if have else None,
                "buffer_size": list(have.sizes) if have else None,
                "cable_len": (held.pfc.delay or None) if held.pfc else None,
            }
        qos = {
            "trust": self.trust,
            "dscp2prio": [list(pair) for pair in sorted(self.dscp2prio.items())],
            "pfc": pfc,
            "ets": ets,
            "buffers": buffers,
            "ecn": self.ecn,
            "global_pause": None if self.pause is None else self.pause.rx or self.pause.tx,
        }
        dcbx = None if held is None or held.dcbx is None else "firmware" if self.firmware_dcbx else "host"
        return {
            "netdev": self.netdev,
            "pci": self.pci,
            "driver": self.driver,
            "dcbx": dcbx,
            "qos": qos,
            "rdma": [dict(row) for row in self.rdma],
        }

    # -- what cannot be --------------------------------------------------------------------------------------------

    def refusals(self, wish: Wish, host_dcbx: bool) -> list[RailyardError]:
        """All that stands against it, before anything is done."""
        found: list[RailyardError] = []
        held = self.held
        if self._system.read("/sys/class/net/%s/type" % self.netdev) == str(ARPHRD_INFINIBAND):
            message = "%s is an InfiniBand port, which has service levels instead" % self.netdev
            return [Refused(message, self.place, "leave it out")]
        if held is None:
            parent = self.pci and pci_functions.physical_function(self._system, self.pci)
            if parent:
                return [
                    Refused(
                        "%s is a VF, and has no DCB of its own" % self.netdev, self.place, "name its PF, %s" % parent
                    )
                ]
            return [
                self._lacks("%s has no DCB" % self._who(), "use a NIC and a driver that have it, or leave the port out")
            ]
        if self.firmware_dcbx and not host_dcbx:
            message = "%s: the NIC's firmware negotiates DCB with the switch, which may undo what is set" % self.netdev
            found.append(Refused(message, self.place, "set dcbx: host, or take DCBX off the switch's port"))
        if wish.pfc is not None and held.pfc is None:
            found.append(self._lacks("%s has no PFC" % self._who(), "set pfc to null"))
        elif wish.pfc and held.pfc and sum(wish.pfc) > held.pfc.classes > 0:
            message = "%s can pause %d priorities, and %d are to be" % (self.netdev, held.pfc.classes, sum(wish.pfc))
            found.append(self._lacks(message, "pause fewer: qos.pfc"))
        if wish.ets and held.ets is None:
            found.append(self._lacks("%s has no ETS" % self._who(), "leave ets out of qos"))
        elif wish.ets and held.ets:
            used = max(wish.ets.prio_tc)
            if held.ets.classes and used >= held.ets.classes:
                message = "%s has %d traffic classes, and ets uses class %d" % (self.netdev, held.ets.classes, used)
                found.append(self._lacks(message, "use the lower classes in qos.ets.prio_tc"))
        if wish.prio_buffer or wish.buffer_size:
            if held.buffer is None:
                found.append(self._lacks("%s has no receive buffers to set" % self._who(), "leave buffers out of qos"))
            elif wish.buffer_size and sum(wish.buffer_size) > held.buffer.total > 0:
                message = "%s has %d bytes of buffers, and %d are asked for" % (
                    self.netdev,
                    held.buffer.total,
                    sum(wish.buffer_size),
                )
                found.append(self._lacks(message, "make them smaller: qos.buffers.buffer_size"))
        if wish.ecn and self.ecn is None:
            message = "%s shows no ECN (ecn of NVIDIA's driver, cc_params of mlx5 in debugfs)" % self._who()
            found.append(
                self._lacks(message, "install NVIDIA's driver, or set qos.ecn to null and see to it in firmware")
            )
        if wish.rdma_cm_tos is not None and not [row for row in self.rdma if row["pci"] == self.pci]:
            message = "%s has no RDMA device here" % self._who()
            remedy = "load its driver's RDMA part (mlx5_ib), or bring the device back to this network namespace"
            found.append(RailyardError(message, self.place, remedy))
        return found

    def _who(self) -> str:
        return "%s (driver %s)" % (self.netdev, self.driver) if self.driver else self.netdev

    def _lacks(self, message: str, remedy: str) -> RailyardError:
        return Unsupported(message, self.place, remedy)

    def warnings(self, wish: Wish) -> list[str]:
        found = []
        if wish.ecn and self.ecn and self.ecn["interface"] == "debugfs":
            found.append(
                "%s: this driver does not tell which priorities take part in ECN: see that ROCE_CC_PRIO_MASK of the "
                "firmware has priority %s" % (self.netdev, ", ".join(map(str, wish.ecn["np"])))
            )
        lacking = [row["device"] for row in self.rdma if row["tclass"] is None]
        if wish.tclass is not None and lacking:
            found.append(
                "%s: the driver of %s has no traffic class for all packets: applications must set it themselves "
                "(NCCL_IB_TC=%d)" % (self.netdev, ", ".join(lacking), wish.tclass)
            )
        return found

    # -- what has to be done ---------------------------------------------------------------------------------------

    def changes(self, wish: Wish, host_dcbx: bool) -> list[Change]:
        """In an order in which each step is allowed: the buffers before what may not be lost in them."""
        found: list[Change] = []
        if host_dcbx and self.firmware_dcbx:
            # CEE and IEEE stay as they are; who negotiates is what changes
            flags = ((self.held.dcbx if self.held else None) or dcb_netlink.DCBX_IEEE) & ~dcb_netlink.DCBX_LLD_MANAGED
            remedy = "the firmware's own agent keeps it; with ice and i40e: ethtool --set-priv-flags %s %s"
            remedy %= (self.netdev, "fw-lldp-agent off (ice), disable-fw-lldp on (i40e)")
            act = self._do("dcbx", lambda: self._sock.set_dcbx(self.netdev, flags | dcb_netlink.DCBX_HOST), remedy)
            found.append(self._change("dcbx", "firmware", "host", act))
        if wish.global_pause is not None and self.pause:
            before = self.pause.rx or self.pause.tx
            if before != wish.global_pause or (wish.global_pause and not (self.pause.rx and self.pause.tx)):
                pause = ethtool.Pause(self.pause.autoneg, wish.global_pause, wish.global_pause)
                act = self._do("global_pause", lambda: self._tools.set_pause(self.netdev, pause))
                found.append(self._change("global_pause", before, wish.global_pause, act))
        return found + self._buffer(wish) + self._ets(wish) + self._pfc(wish) + self._trust(wish) + self._ecn(wish)

    @property
    def _sock(self) -> DcbSocket:
        return self._tools.sock

    def _change(self, attribute: str, before: t.Any, after: t.Any, act: Act) -> Change:
        return Change(self.netdev, attribute, before, after, act)

    def _now(self) -> Dcb:
        """As it is at this moment: an earlier step may have moved what a later one must leave."""
        held = self._sock.read(self.netdev)
        if held is None:
            raise RailyardError("has no DCB any more", self.netdev, "run the task again")
        return held

    def _do(self, attribute: str, act: Act, remedy: str = "") -> Act:
        """The act, whose errors name the port, the attribute and a remedy."""
        place = "%s (%s): %s" % (self.place, self.netdev, attribute)

        def run() -> None:
            try:
                act()
            except NetlinkError as error:
                error.place = place
                error.remedy = remedy or REMEDIES.get(error.errno, "see the kernel's messages (dmesg)")
                raise
            except OSError as error:
                number = error.errno or errno.EIO
                advice = remedy or REMEDIES.get(number, "see the kernel's messages (dmesg)")
                raise RailyardError(os.strerror(number), place, advice) from None

        return run

    def _buffer(self, wish: Wish) -> list[Change]:
        have = self.held.buffer if self.held else None
        if have is None or not (wish.prio_buffer or wish.buffer_size):
            return []
        prio_buffer = wish.prio_buffer or have.prio_buffer
        sizes = wish.buffer_size or have.sizes
        if prio_buffer == have.prio_buffer and all(0 <= want - is_ < CELL for want, is_ in zip(sizes, have.sizes)):
            return []
        # the two are one message: a priority must not be sent to a buffer without bytes
        before = {"prio_buffer": list(have.prio_buffer), "buffer_size": list(have.sizes)}
        after = {"prio_buffer": list(prio_buffer), "buffer_size": list(sizes)}
        new = dcb_netlink.Buffer(tuple(prio_buffer), tuple(sizes), have.total)
        act = self._do("buffers", lambda: self._sock.set_buffer(self.netdev, new), BUFFER_REMEDY)
        return [self._change("buffers", before, after, act)]

    def _ets(self, wish: Wish) -> list[Change]:
        have, want = self.held.ets if self.held else None, wish.ets
        if have is None or want is None:
            return []
        classes = have.classes or 8
        strict, ets = dcb_netlink.TSA_NUMBERS["strict"], dcb_netlink.TSA_NUMBERS["ets"]

        def of(prio_tc: t.Sequence[int], tc_bw: t.Sequence[int], tsa: t.Sequence[int]) -> Row:
            """What counts: of a class that is not shared, a driver says what it likes for a share."""
            shares = [share if kind == ets else 0 for share, kind in zip(tc_bw, tsa)]
            names = [dcb_netlink.TSA.get(kind, str(kind)) for kind in tsa]
            return {"prio_tc": list(prio_tc), "tc_bw": shares[:classes], "tc_tsa": names[:classes]}

        tsa = [kind if number < classes else strict for number, kind in enumerate(want.tsa)]
        before, after = of(have.prio_tc, have.tc_bw, have.tsa), of(want.prio_tc, want.tc_bw, tsa)
        if before == after:
            return []

        def act() -> None:
            now = self._now().ets or have
            self._sock.set_ets(self.netdev, now.with_values(want.prio_tc, want.tc_bw, tsa))

        return [self._change("ets", before, after, self._do("ets", act))]

    def _pfc(self, wish: Wish) -> list[Change]:
        have = self.held.pfc if self.held else None
        if have is None:
            return []
        found = []

        def setter(enabled: t.Sequence[int] | None, delay: int | None) -> Act:
            def act() -> None:
                now = self._now().pfc or have
                new = now.with_values(
                    now.enabled if enabled is None else enabled, now.delay if delay is None else delay
                )
                self._sock.set_pfc(self.netdev, new)

            return self._do("pfc" if delay is None else "cable_len", act, BUFFER_REMEDY if wish.buffer_size else "")

        if wish.cable_len is not None and wish.cable_len != have.delay:
            found.append(self._change("cable_len", have.delay, wish.cable_len, setter(None, wish.cable_len)))
        if wish.pfc is not None and wish.pfc != have.enabled:
            found.append(self._change("pfc", list(have.enabled), list(wish.pfc), setter(wish.pfc, None)))
        return found

    def _trust(self, wish: Wish) -> list[Change]:
        """Trust, and with it the entries of DSCPs: of those that nobody asks for, all stay unless the trust is pcp."""
        found: list[Change] = []
        have = self.dscp2prio
        if wish.trust == "pcp" and have and self.old_trust is None:
            before = [list(pair) for pair in sorted(have.items())]
            found.append(self._change("dscp2prio", before, [], self._do("dscp2prio", self._delete_entries)))
        if wish.trust is not None and wish.trust != self.trust:
            found.append(self._change("trust", self.trust, wish.trust, self._do("trust", self._set_trust(wish))))
        wrong = {dscp: priority for dscp, priority in wish.dscp2prio.items() if have.get(dscp) != priority}
        if wrong:
            before = [[dscp, have[dscp]] for dscp in sorted(wrong) if dscp in have]
            after = [list(pair) for pair in sorted(wrong.items())]
            act = self._do("dscp2prio", lambda: self._set_entries(wrong))
            found.append(self._change("dscp2prio", before, after, act))
        return found

    def _set_trust(self, wish: Wish) -> Act:
        def act() -> None:
            if self.old_trust is not None:
                self._system.write_attribute(self.trust_path, wish.trust or "")
            elif self.held and self.held.trust is not None:
                self._sock.set_trust(self.netdev, [dcb_netlink.SELECTORS[wish.trust or "pcp"]])
            elif wish.trust == "dscp":
                self._set_entries(wish.dscp2prio)  # the first entry turns it
            else:
                self._delete_entries()

        return act

    def _set_entries(self, wanted: t.Mapping[int, int]) -> None:
        for dscp, priority in sorted(wanted.items()):
            if self.old_trust is not None:
                self._system.write_attribute(self.map_path, "%d %d " % (dscp, priority))
                continue
            entry = App(dcb_netlink.SELECTOR_DSCP, priority, dscp)
            if entry not in self._now().apps:
                self._sock.set_app(self.netdev, entry)
            # mlx5 has replaced the old one by now; other drivers keep both
            for other in self._now().apps:
                if other.selector == entry.selector and other.protocol == dscp and other.priority != priority:
                    self._sock.delete_app(self.netdev, other)

    def _delete_entries(self) -> None:
        for entry in self._now().apps:
            if entry.selector == dcb_netlink.SELECTOR_DSCP:
                self._sock.delete_app(self.netdev, entry)

    def _ecn(self, wish: Wish) -> list[Change]:
        if wish.ecn is None or self.ecn is None:
            return []
        found = []
        for knob, value in congestion_control.wanted(self.ecn["interface"], wish.ecn, self.netdev, self.pci):
            before = self._system.read_int(knob.path)
            if before != value:
                found.append(
                    self._change(knob.name, before, value, self._do(knob.name, self._writer(knob.path, value)))
                )
        return found

    def _writer(self, path: str, value: int) -> Act:
        return lambda: self._system.write_attribute(path, str(value))

    def rdma_changes(self, wish: Wish) -> list[Change]:
        """The marks of the PF's and the VFs' RDMA devices; the connection manager is loaded by then."""
        found = []
        marks = self._tools.marks
        for row in self.rdma:
            device, port = row["device"], row["port"]
            if wish.tclass is not None and row["tclass"] is not None and row["tclass"] != wish.tclass:
                act = self._do("tclass of %s" % device, _bound(marks.set_tclass, device, port, wish.tclass))
                found.append(Change(device, "traffic_class", row["tclass"], wish.tclass, act))
            for key, name in (("rdma_cm_tos", "default_roce_tos"), ("roce_mode", "default_roce_mode")):
                value = wish.rdma_cm_tos if key == "rdma_cm_tos" else wish.roce_mode
                if value is not None and row[key] != value:
                    act = self._do(
                        "%s of %s" % (name, device), _bound(marks.set_default, device, port, name, str(value))
                    )
                    found.append(Change(device, name, row[key], value, act))
        return found


def _bound(function: t.Callable[..., None], *arguments: t.Any) -> Act:
    return lambda: function(*arguments)

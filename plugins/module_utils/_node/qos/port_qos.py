# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The QoS of one rail port: observed state, changes to the desired state, and refusals."""

from __future__ import annotations

import errno
import os
import typing as t
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Act, Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused, Unsupported
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry import nic_vendors
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import dcb_netlink, ethtool
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.dcb_netlink import App, Dcb, DcbSocket
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import ARPHRD_INFINIBAND
from ansible_collections.railyard.fabric.plugins.module_utils._node.qos import cm_defaults
from ansible_collections.railyard.fabric.plugins.module_utils._node.qos.qos_spec import QosSpec
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions

# Drivers round buffer sizes to cells; no NIC has larger cells.
CELL = 256
REMEDIES = {
    errno.EPERM: "run the task with become",
    errno.EINVAL: "see the kernel's messages (dmesg) for the driver's reason",
    errno.EOPNOTSUPP: "remove it from qos, or use a driver and a NIC that support it",
    errno.ENODEV: "run the task again: the netdev disappeared during the run",
}
BUFFER_REMEDY = "make the buffers larger or cable_len shorter, by the table in docs/qos.md; dmesg may say more"

Row = t.Dict[str, t.Any]


class Tools(t.NamedTuple):
    """The interfaces to the kernel, replaced in tests."""

    sock: DcbSocket
    defaults: cm_defaults.CmDefaults
    pauses: t.Callable[[t.Iterable[str]], dict[str, ethtool.Pause]] = ethtool.pauses
    set_pause: t.Callable[[str, ethtool.Pause], None] = ethtool.set_pause


class LivePort:
    """The observed state of a port. ``dcb`` is None if its driver does not support DCB.

    :param vfs: whether RDMA devices of VFs are included.
    :param part: the numbers of these VFs; None: all.
    """

    def __init__(
        self,
        system: System,
        tools: Tools,
        place: str,
        netdev: str,
        function: str | None,
        vfs: bool,
        part: range | None = None,
    ) -> None:
        self._system = system
        self._tools = tools
        self.place = place
        self.netdev = netdev
        self.pci = function
        self.driver = system.link_name(pci_functions.attribute(function, "driver")) if function else None
        self.dcb: Dcb | None = tools.sock.read(netdev)
        self.pause = tools.pauses([netdev]).get(netdev)
        self._vendor = nic_vendors.of_function(system, function)
        self._trust_path, self._map_path = self._vendor.trust_files(netdev) or ("", "")
        self.old_trust = system.read(self._trust_path) if self._trust_path else None
        self._congestion = self._vendor.congestion_control(system, netdev, function) if function else None
        self.ecn = self._congestion.observe() if self._congestion else None
        functions = [] if function is None else [function]
        if vfs and function:
            of_port = pci_functions.virtual_functions(system, function)
            functions += [vf for number, vf in enumerate(of_port) if part is None or number in part]
        self._class_files: dict[tuple[str, int], str] = {}
        self.rdma = [row for each in functions for row in self._rdma(each)]

    def _rdma(self, function: str) -> list[Row]:
        rows = []
        vendor = nic_vendors.of_function(self._system, function)
        for device in pci_functions.rdma_devices(self._system, function):
            for port in cm_defaults.ports(self._system, device):
                setting = vendor.traffic_class(self._system, device, port)
                row: Row = {"device": device, "port": port, "pci": function, "tclass": setting and setting.value}
                row.update(self._tools.defaults.read(device, port))
                self._class_files[device, port] = setting.path if setting else ""
                rows.append(row)
        return rows

    # -- observed state ---------------------------------------------------------------------------------------------

    @property
    def trust(self) -> str | None:
        """What the NIC classifies packets by. Without a trust table, a DSCP entry switches mlx5 and ice to dscp."""
        if self.old_trust is not None:
            return self.old_trust
        if self.dcb is None:
            return None
        if self.dcb.trust is not None:
            first = self.dcb.trust[0] if self.dcb.trust else None
            return next((name for name, number in dcb_netlink.SELECTORS.items() if number == first), None)
        return "dscp" if self.dcb.dscp2prio() else "pcp"

    @property
    def dscp2prio(self) -> dict[int, int]:
        if self.old_trust is None:
            return self.dcb.dscp2prio() if self.dcb else {}
        rows = [line.split() for line in (self._system.read(self._map_path) or "").splitlines()]
        return {int(row[0]): int(row[1]) for row in rows if len(row) > 1 and row[0].isdigit() and row[1].isdigit()}

    @property
    def firmware_dcbx(self) -> bool:
        """Whether the NIC's firmware negotiates DCB with the switch."""
        flags = self.dcb.dcbx if self.dcb else None
        return flags is not None and (not flags & dcb_netlink.DCBX_HOST or bool(flags & dcb_netlink.DCBX_LLD_MANAGED))

    def state(self) -> Row:
        """In the shape of the module's options."""
        dcb = self.dcb
        ets = pfc = buffers = None
        if dcb and dcb.ets:
            names = [dcb_netlink.TSA.get(number, str(number)) for number in dcb.ets.tsa]
            ets = {"prio_tc": list(dcb.ets.prio_tc), "tc_bw": list(dcb.ets.tc_bw), "tc_tsa": names}
        if dcb and dcb.pfc:
            pfc = list(dcb.pfc.enabled)
        if dcb and (dcb.buffer or dcb.pfc):
            have = dcb.buffer
            buffers = {
                "prio_buffer": list(have.prio_buffer) if have else None,
                "buffer_size": list(have.sizes) if have else None,
                "cable_len": (dcb.pfc.delay or None) if dcb.pfc else None,
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
        dcbx = None if dcb is None or dcb.dcbx is None else "firmware" if self.firmware_dcbx else "host"
        return {
            "netdev": self.netdev,
            "pci": self.pci,
            "driver": self.driver,
            "dcbx": dcbx,
            "qos": qos,
            "rdma": [dict(row) for row in self.rdma],
        }

    # -- refusals --------------------------------------------------------------------------------------------------

    def refusals(self, spec: QosSpec, host_dcbx: bool) -> list[RailyardError]:
        """All reasons against the spec, before anything is changed."""
        if self._system.read("/sys/class/net/%s/type" % self.netdev) == str(ARPHRD_INFINIBAND):
            message = "%s is an InfiniBand port, which has service levels instead of RoCE QoS" % self.netdev
            return [Refused(message, self.place, "leave it out")]
        if self.dcb is None and spec.uses_dcb:
            parent = self.pci and pci_functions.physical_function(self._system, self.pci)
            if parent:
                message = "%s is a VF, which does not have DCB" % self.netdev
                return [Refused(message, self.place, "name its PF, %s" % parent)]
            return self._missing("DCB", self._vendor.no_dcb)
        found: list[RailyardError] = []
        if self.firmware_dcbx and not host_dcbx:
            message = "%s: the NIC's firmware negotiates DCB with the switch, which may undo what is set" % self.netdev
            found.append(Refused(message, self.place, "set dcbx: host, or disable DCBX on the switch port"))
        if self.dcb is not None:
            found += self._dcb_limits(self.dcb, spec)
        if spec.ecn and self.ecn is None:
            found += self._missing(*self._vendor.no_congestion_control)
        if spec.rdma_cm_tos is not None and not [row for row in self.rdma if row["pci"] == self.pci]:
            message = "%s does not have an RDMA device in this network namespace" % self._who()
            module = " (%s)" % self._vendor.rdma_module if self._vendor.rdma_module else ""
            remedy = "load its RDMA driver%s, or bring the device back to this network namespace" % module
            found.append(RailyardError(message, self.place, remedy))
        return found

    def _dcb_limits(self, dcb: Dcb, spec: QosSpec) -> list[RailyardError]:
        """What the driver does not support, or not in this size."""
        found: list[RailyardError] = []
        if spec.pfc is not None and dcb.pfc is None:
            found += self._missing("PFC", "set pfc to null")
        elif spec.pfc and dcb.pfc and sum(spec.pfc) > dcb.pfc.classes > 0:
            message = "%s can pause %d priorities, but pfc has %d" % (self.netdev, dcb.pfc.classes, sum(spec.pfc))
            found.append(Unsupported(message, self.place, "pause fewer priorities in qos.pfc"))
        if spec.ets and dcb.ets is None:
            found += self._missing("ETS", "remove ets from qos")
        elif spec.ets and dcb.ets and max(spec.ets.prio_tc) >= dcb.ets.classes > 0:
            figures = (self.netdev, dcb.ets.classes, max(spec.ets.prio_tc))
            message = "%s has %d traffic classes, but ets uses class %d" % figures
            found.append(Unsupported(message, self.place, "use the lower classes in qos.ets.prio_tc"))
        if (spec.prio_buffer or spec.buffer_size) and dcb.buffer is None:
            found += self._missing("receive buffers that can be set", "remove buffers from qos")
        elif spec.buffer_size and dcb.buffer and sum(spec.buffer_size) > dcb.buffer.total > 0:
            figures = (self.netdev, dcb.buffer.total, sum(spec.buffer_size))
            message = "%s has %d bytes of buffers, but buffer_size adds up to %d" % figures
            found.append(Unsupported(message, self.place, "reduce qos.buffers.buffer_size"))
        return found

    def _who(self) -> str:
        return "%s (driver %s)" % (self.netdev, self.driver) if self.driver else self.netdev

    def _missing(self, what: str, remedy: str) -> list[RailyardError]:
        return [Unsupported("%s does not support %s" % (self._who(), what), self.place, remedy)]

    def warnings(self, spec: QosSpec) -> list[str]:
        warning = self._congestion.warning(spec.ecn) if spec.ecn and self._congestion else None
        found = [warning] if warning else []
        missing = [row["device"] for row in self.rdma if row["tclass"] is None]
        if spec.tclass is not None and missing:
            found.append(
                "%s: the driver of %s cannot set a traffic class for all packets: applications must set it "
                "(NCCL_IB_TC=%d)" % (self.netdev, ", ".join(missing), spec.tclass)
            )
        return found

    # -- changes ---------------------------------------------------------------------------------------------------

    def changes(self, spec: QosSpec, host_dcbx: bool) -> list[Change]:
        """In an order in which the driver accepts each step: a lossless priority always has a buffer with headroom."""
        found: list[Change] = []
        if host_dcbx and self.firmware_dcbx:
            # CEE and IEEE stay; only the negotiating side changes
            flags = ((self.dcb.dcbx if self.dcb else None) or dcb_netlink.DCBX_IEEE) & ~dcb_netlink.DCBX_LLD_MANAGED
            remedy = "stop the firmware's agent; with ice and i40e: ethtool --set-priv-flags %s %s"
            remedy %= (self.netdev, "fw-lldp-agent off (ice), disable-fw-lldp on (i40e)")
            act = self._do("dcbx", lambda: self._sock.set_dcbx(self.netdev, flags | dcb_netlink.DCBX_HOST), remedy)
            found.append(self._change("dcbx", "firmware", "host", act))
        if spec.global_pause is not None and self.pause:
            before = self.pause.rx or self.pause.tx
            if before != spec.global_pause or (spec.global_pause and not (self.pause.rx and self.pause.tx)):
                pause = ethtool.Pause(self.pause.autoneg, spec.global_pause, spec.global_pause)
                act = self._do("global_pause", lambda: self._tools.set_pause(self.netdev, pause))
                found.append(self._change("global_pause", before, spec.global_pause, act))
        pfc = self._pfc(spec)
        if pfc and pfc[-1].attribute == "pfc" and all(new <= old for old, new in zip(pfc[-1].before, pfc[-1].after)):
            found.append(pfc.pop())  # a buffer keeps its headroom until PFC does not pause its priorities
        found += self._buffer(spec) + self._ets(spec) + pfc
        return found + self._trust(spec) + self._ecn(spec)

    @property
    def _sock(self) -> DcbSocket:
        return self._tools.sock

    def _change(self, attribute: str, before: t.Any, after: t.Any, act: Act) -> Change:
        return self._change_of(self.netdev, attribute, before, after, act)

    def _change_of(self, subject: str, attribute: str, before: t.Any, after: t.Any, act: Act) -> Change:
        return Change(subject, attribute, before, after, act, port=None if subject == self.netdev else self.netdev)

    def _now(self) -> Dcb:
        """The state at this moment, which an earlier step may have changed."""
        dcb = self._sock.read(self.netdev)
        if dcb is None:
            raise RailyardError("does not support DCB any more", self.netdev, "run the task again")
        return dcb

    def _do(self, attribute: str, act: Act, remedy: str = "") -> Act:
        """``act`` with errors that name the port, the attribute and a remedy."""
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

    def _buffer(self, spec: QosSpec) -> list[Change]:
        have = self.dcb.buffer if self.dcb else None
        if have is None or not (spec.prio_buffer or spec.buffer_size):
            return []
        prio_buffer = spec.prio_buffer or have.prio_buffer
        sizes = spec.buffer_size or have.sizes
        if prio_buffer == have.prio_buffer and all(0 <= size - own < CELL for size, own in zip(sizes, have.sizes)):
            return []
        # one message for both: a priority must not be mapped to a buffer of size 0
        before = {"prio_buffer": list(have.prio_buffer), "buffer_size": list(have.sizes)}
        after = {"prio_buffer": list(prio_buffer), "buffer_size": list(sizes)}
        new = dcb_netlink.Buffer(tuple(prio_buffer), tuple(sizes), have.total)
        act = self._do("buffers", lambda: self._sock.set_buffer(self.netdev, new), BUFFER_REMEDY)
        return [self._change("buffers", before, after, act)]

    def _ets(self, spec: QosSpec) -> list[Change]:
        have, want = self.dcb.ets if self.dcb else None, spec.ets
        if have is None or want is None:
            return []
        classes = have.classes or 8
        strict, ets = dcb_netlink.TSA_NUMBERS["strict"], dcb_netlink.TSA_NUMBERS["ets"]

        def of(prio_tc: t.Sequence[int], tc_bw: t.Sequence[int], tsa: t.Sequence[int]) -> Row:
            """The values to compare: the share of a strict class is not defined."""
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

    def _pfc(self, spec: QosSpec) -> list[Change]:
        have = self.dcb.pfc if self.dcb else None
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

            return self._do("pfc" if delay is None else "cable_len", act, BUFFER_REMEDY if spec.buffer_size else "")

        if spec.cable_len is not None and spec.cable_len != have.delay:
            found.append(self._change("cable_len", have.delay, spec.cable_len, setter(None, spec.cable_len)))
        if spec.pfc is not None and spec.pfc != have.enabled:
            found.append(self._change("pfc", list(have.enabled), list(spec.pfc), setter(spec.pfc, None)))
        return found

    def _trust(self, spec: QosSpec) -> list[Change]:
        """Trust and the DSCP entries. Entries that the spec does not name stay, except with trust pcp."""
        found: list[Change] = []
        have = self.dscp2prio
        if spec.trust == "pcp" and have and self.old_trust is None:
            before = [list(pair) for pair in sorted(have.items())]
            found.append(self._change("dscp2prio", before, [], self._do("dscp2prio", self._delete_entries)))
        if spec.trust is not None and spec.trust != self.trust:
            found.append(self._change("trust", self.trust, spec.trust, self._do("trust", self._set_trust(spec))))
        wrong = {dscp: priority for dscp, priority in spec.dscp2prio.items() if have.get(dscp) != priority}
        if wrong:
            before = [[dscp, have[dscp]] for dscp in sorted(wrong) if dscp in have]
            after = [list(pair) for pair in sorted(wrong.items())]
            act = self._do("dscp2prio", lambda: self._set_entries(wrong))
            found.append(self._change("dscp2prio", before, after, act))
        return found

    def _set_trust(self, spec: QosSpec) -> Act:
        def act() -> None:
            if self.old_trust is not None:
                self._system.write_attribute(self._trust_path, spec.trust or "")
            elif self.dcb and self.dcb.trust is not None:
                self._sock.set_trust(self.netdev, [dcb_netlink.SELECTORS[spec.trust or "pcp"]])
            elif spec.trust == "dscp":
                self._set_entries(spec.dscp2prio)  # the first entry switches the trust
            else:
                self._delete_entries()

        return act

    def _set_entries(self, wanted: t.Mapping[int, int]) -> None:
        for dscp, priority in sorted(wanted.items()):
            if self.old_trust is not None:
                self._system.write_attribute(self._map_path, "%d %d " % (dscp, priority))
                continue
            entry = App(dcb_netlink.SELECTOR_DSCP, priority, dscp)
            if entry not in self._now().apps:
                self._sock.set_app(self.netdev, entry)
            # mlx5 replaces the old entry; other drivers keep both
            for other in self._now().apps:
                if other.selector == entry.selector and other.protocol == dscp and other.priority != priority:
                    self._sock.delete_app(self.netdev, other)

    def _delete_entries(self) -> None:
        for entry in self._now().apps:
            if entry.selector == dcb_netlink.SELECTOR_DSCP:
                self._sock.delete_app(self.netdev, entry)

    def _ecn(self, spec: QosSpec) -> list[Change]:
        found = []
        for name, path, value in self._congestion.settings(spec.ecn) if spec.ecn and self._congestion else ():
            before = self._system.read_int(path)
            if before != value:
                act = self._do(name, partial(self._system.write_attribute, path, str(value)))
                found.append(self._change(name, before, value, act))
        return found

    def rdma_changes(self, spec: QosSpec) -> list[Change]:
        """The marks of the PF's and the VFs' RDMA devices. The connection manager must be loaded."""
        found = []
        for row in self.rdma:
            device, port = row["device"], row["port"]
            if spec.tclass is not None and row["tclass"] is not None and row["tclass"] != spec.tclass:
                write = partial(self._system.write_attribute, self._class_files[device, port], str(spec.tclass))
                act = self._do("tclass of %s" % device, write)
                found.append(self._change_of(device, "traffic_class", row["tclass"], spec.tclass, act))
            for key, name in (("rdma_cm_tos", "default_roce_tos"), ("roce_mode", "default_roce_mode")):
                value = spec.rdma_cm_tos if key == "rdma_cm_tos" else spec.roce_mode
                if value is not None and row[key] != value:
                    write = partial(self._tools.defaults.set_default, device, port, name, str(value))
                    act = self._do("%s of %s" % (name, device), write)
                    found.append(self._change_of(device, name, row[key], value, act))
        return found

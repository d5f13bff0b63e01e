# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The changes from the observed to the desired state of a PF and its VFs, or the reasons for a refusal."""

from __future__ import annotations

import contextlib
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import vf_attributes
from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import STEP, Act, Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused, Unsupported
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Row
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath
from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov.pf_actions import Pf
from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov.pf_state import (
    MARK,
    is_part_of_interface,
    is_passed_on,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov.vf_spec import Port, Vf

# Seconds to wait for a link before rates are set: some drivers accept rates only with a link.
LINK_PATIENCE = 10.0


class Settings(t.NamedTuple):
    """Settings of all PFs: whether VFs may be removed to change their number, the desired
    ``sriov_drivers_autoprobe`` (None: not changed), and the seconds that each wait may take.
    """

    recreate: bool
    autoprobe: bool | None
    timeout: float

    def deadline(self) -> float:
        return time.monotonic() + self.timeout

    def autoprobe_of(self, pf: Pf) -> bool | None:
        """Return the desired ``sriov_drivers_autoprobe``; None if the kernel (before 4.12) does not have it."""
        if pf.autoprobe is None:
            return None
        wanted = self.autoprobe if self.autoprobe is not None else pf.marked
        return pf.autoprobe if wanted is None else wanted


class PfChanges:
    """The ``changes`` of one PF, or the ``errors`` that prevent them."""

    def __init__(self, settings: Settings, port: Port, pf: Pf) -> None:
        self.port = port
        self.pf = pf
        self._settings = settings
        self.count = pf.count if port.vf_count is None else port.vf_count
        self.recount = self.count != pf.count
        self.autoprobe = settings.autoprobe_of(pf)
        # VFs that would lose their driver or be removed
        self.touched: list[Row] = pf.vfs if self.recount else []
        self.changes: list[Change] = []
        self.errors = self._unsupported_port()
        if not self.errors:
            self._plan()

    def _unsupported_port(self) -> list[RailyardError]:
        port, pf = self.port, self.pf
        found: list[RailyardError] = []
        if pf.total is None and (self.count or port.vfs):
            # the netdev of a virtio NIC belongs to a virtio device, not to the PCI function
            name = "%s (%s)" % (pf.pci, port.netdev) if port.netdev and not pf.netdev else pf.name
            message = "%s has no SR-IOV%s" % (name, " (driver %s)" % pf.driver if pf.driver else "")
            found.append(Unsupported(message, port.place, pf.vendor.enable_sriov))
            return found
        if self.count > (pf.total or 0):
            found.append(
                Unsupported(
                    "%d VFs are more than the %d that %s has" % (self.count, pf.total or 0, pf.name),
                    port.place + ".count",
                    "request fewer, or %s and reboot" % pf.vendor.raise_vf_limit,
                )
            )
        if self.recount and not pf.driver:
            remedy = "load the PF's driver, and see the kernel's messages (dmesg) if it does not bind"
            found.append(Unsupported("%s has no driver, so its VFs cannot change" % pf.name, port.place, remedy))
        if self.recount and self.count and pf.vendor.has_roce_lag and pf.bond and not pf.is_switchdev:
            message = "%s is a member of %s, and VFs in legacy mode end RoCE LAG: the bond loses its RDMA device"
            remedy = "plan no VFs for members of a bond, take it out of the bond, or use switchdev mode"
            found.append(Unsupported(message % (pf.name, pf.bond), port.place + ".count", remedy))
        for vf in port.vfs:
            if vf.number >= self.count and port.vf_count is None:
                found.append(
                    RailyardError(
                        "VF %d does not exist: %s has %d" % (vf.number, pf.name, self.count),
                        vf.place + ".index",
                        "set count",
                    )
                )
        if port.vfs and pf.unreadable and not self.recount:
            found.append(
                Unsupported(
                    "the attributes of the VFs of %s cannot be read: %s" % (pf.name, pf.unreadable),
                    port.place + ".attributes",
                    "use fewer VFs, install a kernel or driver package that reports them (sriov/N in sysfs), or leave "
                    "attributes out",
                )
            )
        return found

    def refusals(self, management: ManagementPath, held: t.Mapping[str, t.Sequence[str]]) -> list[RailyardError]:
        """Return the refusals of the changes: not supported, management path, VFs in use."""
        pf, place = self.pf, self.port.place
        why = management.why_function(pf.pci) if self.changes or self.errors else None
        if why:
            return [*self.errors, Refused("%s is not touched: %s" % (pf.name, why), place, "leave this port out")]
        if not self.changes:
            return self.errors
        found: list[RailyardError] = []
        if self.recount and pf.count and not self._settings.recreate:
            others = ""
            if self.port.ours is not None:
                others = ", also those outside of the range %s, which have another owner" % self.port.options["range"]
            found.append(
                Refused(
                    "%s has %d VFs, which are all removed to have %d%s" % (pf.name, pf.count, self.count, others),
                    place + ".count",
                    "drain the node, then set sriov_allow_recreate to true (option allow_recreate of the module)",
                )
            )
        touched = {vf["pci"] for vf in self.touched}
        found += pf.held_errors({each: who for each, who in held.items() if each in touched})
        return found + self._unsupported()

    def _unsupported(self) -> list[RailyardError]:
        found: list[RailyardError] = []
        reported = set()
        for vf in self.port.vfs:
            for name, value in vf.attributes.items():
                if name in reported or not self._differs(vf, name, value):
                    continue
                why = self.pf.cannot(name, value)
                if why:
                    reported.add(name)
                    message = "%s: VF %d of %s" % (why, vf.number, self.pf.name)
                    found.append(Unsupported(message, "%s.%s" % (vf.place, name), "leave it out for this PF"))
        return found

    # -- the changes -----------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        pf = self.pf
        if self.count and pf.index is not None and not pf.up:
            # VFs follow their PF's link; some drivers set the MAC of a VF only with a link
            self._add(t.cast(str, pf.netdev), "state", "down", "up", pf.set_up)
        if self.autoprobe is not None and pf.autoprobe != self.autoprobe:
            wanted = self.autoprobe
            self._add(pf.pci, "sriov_drivers_autoprobe", pf.autoprobe, wanted, lambda: pf.restore_autoprobe(wanted))
        elif pf.marked is not None:
            mark = MARK % pf.pci
            name = "left by a run that was cut off"
            self._add(mark, name, True, None, lambda: pf.system.remove_file(mark), STEP)
        if self.recount:
            self._plan_new()
        else:
            for vf in self.port.vfs:
                self._plan_existing(vf)
            if self.autoprobe is not False:
                for row in pf.vfs:
                    if row["pci"] and not row["driver"] and self.port.is_ours(row["index"]):
                        self._add(pf.vf_name(row["index"]), "bound", False, True, self._binder(row["index"]))

    def _plan_new(self) -> None:
        pf = self.pf
        suspended = bool(self.autoprobe and self.port.vfs and self.count)
        first = len(self.changes)
        self._add(pf.pci, "sriov_numvfs", pf.count, self.count, lambda: self._create(suspended))
        if not self.count:
            return
        for vf in self.port.vfs:
            for name, value in vf.attributes.items():
                self._add(pf.vf_name(vf.number), name, None, value, self._setter(vf, name))
        if suspended:
            for change in self.changes[first:]:
                _on_failure(change, lambda: pf.restore_autoprobe(True))
        then(self.changes[-1], lambda: self._finish(suspended))

    def _create(self, suspended: bool) -> None:
        self.pf.unbind_all(self._settings.deadline())
        if suspended:
            self.pf.suspend_autoprobe(True)
        self.pf.resize(self.count, self._settings.deadline())

    def _finish(self, suspended: bool) -> None:
        if suspended:
            self.pf.restore_autoprobe(True)
        if self.autoprobe is not False:
            for index in range(self.count):
                self.pf.bind(index, self._settings.deadline())
            for index in range(self.count):
                self.pf.wait_ready(index, self._settings.deadline())

    def _plan_existing(self, vf: Vf) -> None:
        pf = self.pf
        row = pf.vfs[vf.number]
        first = len(self.changes)
        for name, value in vf.attributes.items():
            if self._differs(vf, name, value):
                before = pf.attributes[vf.number][name]
                if _same(name, before, value):
                    before = row["netdev_address"]
                self._add(pf.vf_name(vf.number), name, before, value, self._setter(vf, name))
        identity = [change for change in self.changes[first:] if vf_attributes.BY_NAME[change.attribute].identity]
        if identity and row["driver"] and not is_passed_on(row["driver"]):
            # the driver reads the identity only when it binds. The VF is unbound first, so that the next run
            # observes an unbound VF if this one is interrupted
            bind = self._binder(vf.number)
            for change in identity:
                _on_failure(change, bind)
            _call_before(identity[0], lambda: pf.unbind(vf.number))
            then(identity[-1], bind)
        if identity and row["driver"]:
            self.touched.append(row)

    def _binder(self, index: int) -> Act:
        def bind() -> None:
            self.pf.rebind(index, self._settings.deadline(), self.autoprobe)
            self.pf.wait_ready(index, self._settings.deadline())

        return bind

    def _setter(self, vf: Vf, name: str) -> Act:
        def act() -> None:
            pf = self.pf
            row: Row = next((each for each in pf.attributes if each["index"] == vf.number), {})
            values = {name: vf.attributes[name]}
            partner = vf_attributes.BY_NAME[name].partner
            if partner:
                default = vf_attributes.BY_NAME[partner].default
                values[partner] = vf.attributes.get(partner, row.get(partner) or default)
            if row and all(_same(key, row[key], value) for key, value in values.items()):
                return
            if vf_attributes.BY_NAME[name].rate and pf.netdev:
                with contextlib.suppress(RailyardError):
                    pf.wait_carrier(min(self._settings.deadline(), time.monotonic() + LINK_PATIENCE))
            pf.set_attribute(vf.number, values, self._settings.deadline())
            row.update(values)

        return act

    def _differs(self, vf: Vf, name: str, value: t.Any) -> bool:
        if self.recount:
            return True
        if not _same(name, self.pf.attributes[vf.number][name], value):
            return True
        row = self.pf.vfs[vf.number]
        # the VF was bound before its MAC was set; a bond or bridge sets another MAC on its ports intentionally
        return (
            vf_attributes.BY_NAME[name].kind == vf_attributes.MAC
            and row["netdev_address"] not in (None, value)
            and not is_part_of_interface(self.pf.system, row["netdev"])
        )

    def _add(self, subject: str, attribute: str, before: t.Any, after: t.Any, act: Act, kind: str = "") -> None:
        port = None if subject in (self.pf.pci, self.pf.netdev) else self.pf.pci
        self.changes.append(Change(subject, attribute, before, after, act, kind, port))


def _same(name: str, live: t.Any, wanted: t.Any) -> bool:
    """Return whether the observed value is the desired one; an unsupported attribute has its neutral value."""
    return live == wanted or (live is None and vf_attributes.BY_NAME[name].is_neutral(wanted))


def _call_before(change: Change, first: t.Callable[[], t.Any]) -> None:
    """Extend a change to call ``first`` before it."""
    act = change.act

    def both() -> None:
        first()
        act()

    change.act = both


def then(change: Change, after: t.Callable[[], t.Any]) -> None:
    """Extend a change to call ``after`` after it."""
    act = change.act

    def both() -> None:
        act()
        after()

    change.act = both


def _on_failure(change: Change, cleanup: t.Callable[[], t.Any]) -> None:
    """Extend a change to call ``cleanup`` if it fails. The failure of the change is raised."""
    act = change.act

    def attempt() -> None:
        try:
            act()
        except Exception:
            with contextlib.suppress(RailyardError):
                cleanup()
            raise

    change.act = attempt

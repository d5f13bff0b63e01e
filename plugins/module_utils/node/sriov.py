# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""VFs of the rail ports: how many, and what each is and may do."""

from __future__ import annotations

import contextlib
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.errors import (
    RailyardError,
    Refused,
    Unsupported,
    raise_all,
)
from ansible_collections.railyard.fabric.plugins.module_utils.node import holders, pci, sriov_wish
from ansible_collections.railyard.fabric.plugins.module_utils.node.branch import Branch, netdev_pci
from ansible_collections.railyard.fabric.plugins.module_utils.node.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils.node.rtnl import Rtnl
from ansible_collections.railyard.fabric.plugins.module_utils.node.rtnl_rows import Row
from ansible_collections.railyard.fabric.plugins.module_utils.node.sriov_pf import MARK, Pf, is_neutral
from ansible_collections.railyard.fabric.plugins.module_utils.node.sriov_wish import IDENTITY, Port, Vf
from ansible_collections.railyard.fabric.plugins.module_utils.node.subsystem import State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils.node.system import System

MODULE = "sriov_vfs"
# Before the RDMA links, which may stand on VFs.
RANK = 10
TIMEOUT = 120
# Two names, one setting of the kernel.
PARTNERS = {"vlan": "qos", "qos": "vlan", "min_tx_rate": "max_tx_rate", "max_tx_rate": "min_tx_rate"}
# How long a link that was not there before may take to come, before rates are set; only then do some drivers take them.
LINK_PATIENCE = 10.0

Act = t.Callable[[], None]
Holders = t.Callable[[System, t.Sequence[str], Rtnl], t.Dict[str, t.List[str]]]


class SriovVfs(Subsystem):
    """The VFs of a node's PFs. See the module's documentation for the options.

    :param holders_of: who holds VFs, for tests.
    """

    def __init__(
        self,
        options: t.Mapping[str, t.Any],
        system: System,
        table: Rtnl | None = None,
        holders_of: Holders = holders.of,
    ) -> None:
        super().__init__()
        self._system = system
        self._table = table or Rtnl()
        self._holders_of = holders_of
        self._ports = sriov_wish.ports(options)
        self._gather = options.get("state") == "gathered"
        self._allow_recreate = bool(options.get("allow_recreate"))
        self._autoprobe: bool | None = options.get("autoprobe")
        timeout = options.get("timeout")
        self._timeout = TIMEOUT if timeout is None else float(timeout)
        self._persist = bool(options.get("persist", False))
        self._pfs: list[tuple[Port, Pf]] = []

    @classmethod
    def from_options(cls, options: t.Mapping[str, t.Any], system: System) -> SriovVfs:
        return cls(options, system)

    # -- observing -------------------------------------------------------------------------------------------------

    def observe(self) -> State:
        """``ports`` in the shape of the option, and ``pfs`` with what else there is to know of the same PFs."""
        errors: list[RailyardError] = []
        self._pfs = []
        for port in self._ports or self._every_pf():
            try:
                address = self._resolve(port)
            except RailyardError as error:
                errors.append(error)
                continue
            taken = [other for other, pf in self._pfs if pf.pci == address]
            if taken:
                message = "%s is the PF %s, as is %s" % (port.name, address, taken[0].name)
                errors.append(RailyardError(message, port.place, "give each PF once"))
                continue
            self._pfs.append((port, Pf(self._system, self._table, address)))
        raise_all(errors)
        pfs = [pf for _port, pf in self._pfs]
        if self._gather:
            self.warnings = ["%s: VFs cannot be read: %s" % (pf.name, pf.unreadable) for pf in pfs if pf.unreadable]
        return {"ports": [_port_state(pf) for pf in pfs], "pfs": [_pf_state(pf) for pf in pfs]}

    def _every_pf(self) -> list[Port]:
        if not self._gather:
            return []
        found = pci.network_functions(self._system)
        found = [each for each in found if self._system.exists(pci.attribute(each, "sriov_totalvfs"))]
        return [Port(each, each, None, None, [], {}) for each in found]

    def _resolve(self, port: Port) -> str:
        behind = netdev_pci(self._system, port.netdev) if port.netdev else None
        if port.pci:
            if not self._system.exists("%s/%s" % (pci.DEVICES, port.pci)):
                raise RailyardError(
                    "there is no PCI function %s" % port.pci, port.place + ".pci", "see 'lspci -D' for what there is"
                )
            if behind and behind != port.pci:
                raise RailyardError(
                    "netdev %s is %s, not %s" % (port.netdev, behind, port.pci),
                    port.place,
                    "correct one of the two, or leave netdev out",
                )
        elif not behind:
            there = self._system.exists("/sys/class/net/%s" % port.netdev)
            raise RailyardError(
                "netdev %s is no PCI function" % port.netdev if there else "there is no netdev %s" % port.netdev,
                port.place + ".netdev",
                "see 'ip link' for what there is, or name the PF by pci",
            )
        address = port.pci or t.cast(str, behind)
        parent = pci.physical_function(self._system, address)
        if parent:
            raise RailyardError("%s is itself a VF, of %s" % (port.name, parent), port.place, "name the PF")
        return address

    # -- comparing -------------------------------------------------------------------------------------------------

    def changes(self, state: State) -> list[Change]:
        branch = Branch.observe(self._system)
        plans = [_Plan(self, port, pf) for port, pf in self._pfs]
        held = self._held(plans)
        errors: list[RailyardError] = []
        for plan in plans:
            errors.extend(plan.errors or plan.refusals(branch, held))
        raise_all(errors)
        changes = [change for plan in plans for change in plan.changes]
        linked = [plan.pf for plan in plans if plan.recount and plan.pf.carrier]
        if changes and linked:
            # once for all PFs: their links come back side by side
            _then(changes[-1], lambda: self._wait_carriers(linked))
        if self._persist:
            changes += self._boot_changes(branch)
        return changes

    def _wait_carriers(self, pfs: t.Sequence[Pf]) -> None:
        for pf in pfs:
            pf.wait_carrier(self.deadline())

    def _held(self, plans: t.Sequence[_Plan]) -> dict[str, list[str]]:
        suspects = [vf["pci"] for plan in plans for vf in plan.touched if vf["pci"]]
        return self._holders_of(self._system, suspects, self._table) if suspects else {}

    def _boot_changes(self, branch: Branch) -> list[Change]:
        from ansible_collections.railyard.fabric.plugins.module_utils.node.boot import BootState

        kept = []
        for port, pf in self._pfs:
            if not (port.vf_count or port.vfs):
                continue
            why = branch.why_function(pf.pci)
            if why:
                self.warnings.append("%s: %s is not kept for boot: %s" % (port.place, pf.name, why))
            else:
                kept.append(_without_none(port.options))
        options = {"ports": kept, "timeout": self._timeout, "autoprobe": self._autoprobe}
        return BootState(self._system, RANK, MODULE).changes(_without_none(options) if kept else None)

    # -- what plans need -------------------------------------------------------------------------------------------

    def deadline(self) -> float:
        return time.monotonic() + self._timeout

    def may_recreate(self) -> bool:
        return self._allow_recreate

    def autoprobe_of(self, pf: Pf) -> bool | None:
        """What ``sriov_drivers_autoprobe`` shall be; None where the kernel (before 4.12) has no such thing."""
        if pf.autoprobe is None:
            return None
        wanted = self._autoprobe if self._autoprobe is not None else pf.marked
        return pf.autoprobe if wanted is None else wanted


class _Plan:
    """What must happen to one PF: ``changes``, or the ``errors`` that keep it from happening."""

    def __init__(self, owner: SriovVfs, port: Port, pf: Pf) -> None:
        self.port = port
        self.pf = pf
        self._owner = owner
        self.count = pf.count if port.vf_count is None else port.vf_count
        self.recount = self.count != pf.count
        self.autoprobe = owner.autoprobe_of(pf)
        # VFs that would lose their driver, or be gone
        self.touched: list[Row] = pf.vfs if self.recount else []
        self.changes: list[Change] = []
        self.errors = self._impossible()
        if not self.errors:
            self._plan()

    def _impossible(self) -> list[RailyardError]:
        port, pf = self.port, self.pf
        found: list[RailyardError] = []
        if pf.total is None and (self.count or port.vfs):
            found.append(
                Unsupported(
                    "%s has no SR-IOV" % pf.name,
                    port.place,
                    "enable SR-IOV in the NIC's firmware (mlx_linktype, sriov_en) and in the BIOS, then reboot",
                )
            )
            return found
        if self.count > (pf.total or 0):
            found.append(
                Unsupported(
                    "%d VFs are more than the %d that %s has" % (self.count, pf.total or 0, pf.name),
                    port.place + ".count",
                    "ask for fewer, or raise the firmware's limit (mlx_linktype, num_of_vfs) and reboot",
                )
            )
        if self.recount and not pf.driver:
            remedy = "load the PF's driver, and see the kernel's messages (dmesg) if it did not take the PF"
            found.append(Unsupported("%s has no driver, so its VFs cannot change" % pf.name, port.place, remedy))
        for vf in port.vfs:
            if vf.number >= self.count and port.vf_count is None:
                found.append(
                    RailyardError(
                        "there is no VF %d among the %d of %s" % (vf.number, self.count, pf.name),
                        vf.place + ".index",
                        "give count",
                    )
                )
        if port.vfs and pf.unreadable and not self.recount:
            found.append(
                Unsupported(
                    "the attributes of the VFs of %s cannot be read: %s" % (pf.name, pf.unreadable),
                    port.place + ".attributes",
                    "have fewer VFs, a kernel or driver package that tells of them (sriov/N in sysfs), or leave "
                    "attributes out",
                )
            )
        return found

    def refusals(self, branch: Branch, held: t.Mapping[str, t.Sequence[str]]) -> list[RailyardError]:
        """Why what could be done must not be."""
        if not self.changes:
            return []
        pf, place = self.pf, self.port.place
        why = branch.why_function(pf.pci)
        if why:
            return [Refused("%s is not touched: %s" % (pf.name, why), place, "leave this port out")]
        found: list[RailyardError] = []
        if self.recount and pf.count and not self._owner.may_recreate():
            found.append(
                Refused(
                    "%s has %d VFs; to have %d all are taken away first" % (pf.name, pf.count, self.count),
                    place + ".count",
                    "drain the node, then give allow_recreate: true",
                )
            )
        touched = {vf["pci"] for vf in self.touched}
        found += pf.held_errors({each: who for each, who in held.items() if each in touched})
        return found + self._unsupported()

    def _unsupported(self) -> list[RailyardError]:
        found: list[RailyardError] = []
        told = set()
        for vf in self.port.vfs:
            for name, value in vf.attributes.items():
                if name in told or not self._differs(vf, name, value):
                    continue
                why = self.pf.cannot(name, value)
                if why:
                    told.add(name)
                    message = "%s: VF %d of %s" % (why, vf.number, self.pf.name)
                    found.append(Unsupported(message, "%s.%s" % (vf.place, name), "leave it out for this PF"))
        return found

    # -- the changes -----------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        pf = self.pf
        if self.count and pf.index is not None and not pf.up:
            # VFs follow their PF's link; some drivers give a VF its MAC only then
            self._add(t.cast(str, pf.netdev), "up", False, True, pf.set_up)
        if self.autoprobe is not None and pf.autoprobe != self.autoprobe:
            wanted = self.autoprobe
            self._add(pf.pci, "sriov_drivers_autoprobe", pf.autoprobe, wanted, lambda: pf.unhush(wanted))
        elif pf.marked is not None:
            mark = MARK % pf.pci
            self._add(mark, "left by a run that was cut off", True, None, lambda: pf.system.remove_file(mark))
        if self.recount:
            self._plan_new()
        else:
            for vf in self.port.vfs:
                self._plan_existing(vf)
            if self.autoprobe is not False:
                for row in pf.vfs:
                    if row["pci"] and not row["driver"]:
                        self._add(pf.vf_name(row["index"]), "bound", False, True, self._binder(row["index"]))

    def _plan_new(self) -> None:
        pf = self.pf
        hush = bool(self.autoprobe and self.port.vfs and self.count)
        first = len(self.changes)
        self._add(pf.pci, "sriov_numvfs", pf.count, self.count, lambda: self._create(hush))
        if not self.count:
            return
        for vf in self.port.vfs:
            for name, value in vf.attributes.items():
                self._add(pf.vf_name(vf.number), name, None, value, self._setter(vf, name))
        if hush:
            for change in self.changes[first:]:
                _or_else(change, lambda: pf.unhush(True))
        _then(self.changes[-1], lambda: self._finish(hush))

    def _create(self, hush: bool) -> None:
        if hush:
            self.pf.hush(True)
        self.pf.resize(self.count, self._owner.deadline())

    def _finish(self, hush: bool) -> None:
        if hush:
            self.pf.unhush(True)
        if self.autoprobe is not False:
            for index in range(self.count):
                self.pf.bind(index, self._owner.deadline())
            for index in range(self.count):
                self.pf.wait_ready(index, self._owner.deadline())

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
        identity = [change for change in self.changes[first:] if change.attribute in IDENTITY]
        if identity and row["driver"] and not _is_passed_on(row["driver"]):
            # its driver reads what it is only when it takes it; unbound first, so that a run that is cut off in between
            # leaves an unbound VF, which the next run sees
            bind = self._binder(vf.number)
            for change in identity:
                _or_else(change, bind)
            _before(identity[0], lambda: pf.unbind(vf.number))
            _then(identity[-1], bind)
        if identity and row["driver"]:
            self.touched.append(row)

    def _binder(self, index: int) -> Act:
        def bind() -> None:
            self.pf.bind(index, self._owner.deadline())
            self.pf.wait_ready(index, self._owner.deadline())

        return bind

    def _setter(self, vf: Vf, name: str) -> Act:
        def act() -> None:
            pf = self.pf
            row: Row = next((each for each in pf.attributes if each["index"] == vf.number), {})
            values = {name: vf.attributes[name]}
            partner = PARTNERS.get(name)
            if partner:
                values[partner] = vf.attributes.get(partner, row.get(partner) or 0)
            if row and all(_same(key, row[key], value) for key, value in values.items()):
                return
            if "max_tx_rate" in values and pf.netdev:
                with contextlib.suppress(RailyardError):
                    pf.wait_carrier(min(self._owner.deadline(), time.monotonic() + LINK_PATIENCE))
            pf.set_attribute(vf.number, values, self._owner.deadline())
            row.update(values)

        return act

    def _differs(self, vf: Vf, name: str, value: t.Any) -> bool:
        if self.recount:
            return True
        if not _same(name, self.pf.attributes[vf.number][name], value):
            return True
        row = self.pf.vfs[vf.number]
        # a VF that was bound before it had its MAC; a bond or bridge gives its parts another one rightly
        return (
            name == "mac"
            and row["netdev_address"] not in (None, value)
            and not any(
                entry == "master" or entry.startswith("upper_")
                for entry in self.pf.system.listdir("/sys/class/net/%s" % row["netdev"])
            )
        )

    def _add(self, subject: str, attribute: str, before: t.Any, after: t.Any, act: Act) -> None:
        self.changes.append(Change(subject, attribute, before, after, act))


def _same(name: str, live: t.Any, wanted: t.Any) -> bool:
    """Whether the live value is as wanted; what the driver does not know counts as what it is without it."""
    return live == wanted or (live is None and is_neutral(name, wanted))


def _is_passed_on(driver: str) -> bool:
    """Whether the driver only passes the VF on to a process or a virtual machine, which sets it up by itself."""
    return "vfio" in driver or driver.startswith(("uio", "igb_uio", "pci-stub"))


def _before(change: Change, first: t.Callable[[], t.Any]) -> None:
    act = change.act

    def both() -> None:
        first()
        act()

    change.act = both


def _then(change: Change, after: t.Callable[[], t.Any]) -> None:
    act = change.act

    def both() -> None:
        act()
        after()

    change.act = both


def _or_else(change: Change, mend: t.Callable[[], t.Any]) -> None:
    """Where the change fails, leave the node in order; the first failure is what is told."""
    act = change.act

    def attempt() -> None:
        try:
            act()
        except Exception:
            with contextlib.suppress(RailyardError):
                mend()
            raise

    change.act = attempt


def _port_state(pf: Pf) -> Row:
    return {"pci": pf.pci, "netdev": pf.netdev, "count": pf.count, "attributes": [dict(row) for row in pf.attributes]}


def _pf_state(pf: Pf) -> Row:
    return {
        "pci": pf.pci,
        "netdev": pf.netdev,
        "driver": pf.driver,
        "rdma_device": pf.rdma_device,
        "link_layer": "infiniband" if pf.infiniband else "ethernet",
        "total": pf.total,
        "autoprobe": pf.autoprobe,
        "switchdev": bool(pf.representors),
        "vfs": [dict(row) for row in pf.vfs],
    }


def _without_none(value: t.Any) -> t.Any:
    if isinstance(value, dict):
        return {key: _without_none(each) for key, each in value.items() if each is not None}
    return [_without_none(each) for each in value] if isinstance(value, list) else value

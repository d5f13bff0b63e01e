# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The VFs of rail ports: their number and their attributes."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._node.boot.persistent import PersistentSubsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.staying import Staying, without
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Layer, State
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Row
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import port_reference, vf_holders
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath
from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov import vf_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov.pf_actions import Pf
from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov.pf_state import MARK
from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov.unmanaged_vfs import UnmanagedVfs
from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov.vf_changes import PfChanges, Settings, then
from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov.vf_spec import Port

MODULE = "sriov_vfs"
# Before the RDMA links, which may use VFs.
RANK = 10
TIMEOUT = 120


class Seen(t.Dict[str, t.Any]):
    """The observed state in the shape of the module's options, and the ports with their PFs."""

    pfs: list[tuple[Port, Pf]]


class SriovVfs(PersistentSubsystem):
    """The VFs of a node's PFs. See the module's documentation for the options.

    :param holders_of: a function that returns the holders of VFs, for tests.
    """

    changes_devices = True

    def __init__(
        self,
        options: t.Mapping[str, t.Any],
        system: System,
        table: Rtnetlink | None = None,
        holders_of: vf_holders.Holders = vf_holders.of,
    ) -> None:
        super().__init__(system, RANK, MODULE, options.get("state") == "absent", bool(options.get("persist", False)))
        self._table = table or Rtnetlink()
        self._holders_of = holders_of
        # errors of the options are raised together with those of the node
        self._ports, self._errors = vf_spec.ports_of(options)
        self._gather = options.get("state") == "gathered"
        # a PF without rules at boot has none on purpose
        self._runs_at_boot = "persist" not in options
        timeout = options.get("timeout")
        self._settings = Settings(
            self._absent or bool(options.get("allow_recreate")),
            None if self._absent else options.get("autoprobe"),
            TIMEOUT if timeout is None else timeout,
        )
        self._named = bool(self._ports)
        # read once, because removal deletes the file
        self._persistent: dict[str, t.Any] | None = None

    # -- observing -------------------------------------------------------------------------------------------------

    def observe(self) -> Seen:
        """Return ``ports`` in the shape of the option, and ``pfs`` with more facts about the same PFs."""
        errors = list(self._errors)
        observed = Seen()
        observed.pfs = []
        if self._absent and self._persistent is None:
            self._find_persistent()
        for port in self._ports or self._every_pf():
            if not port.pci and not port.netdev:
                continue
            try:
                address = self._resolve(port)
            except RailyardError as error:
                errors.append(error)
                continue
            same_pf = [other for other, pf in observed.pfs if pf.pci == address]
            if same_pf:
                message = "%s is the PF %s, as is %s" % (port.name, address, same_pf[0].name)
                errors.append(RailyardError(message, port.place, "name each PF once"))
                continue
            observed.pfs.append((port, Pf(self._system, self._table, address, self._holders_of, port.ours)))
        raise_all(errors)
        pfs = [pf for _port, pf in observed.pfs]
        if self._gather:
            self.warnings = ["%s: VFs cannot be read: %s" % (pf.name, pf.unreadable) for pf in pfs if pf.unreadable]
        observed.update(ports=[_port_state(pf) for pf in pfs], pfs=[_pf_state(pf) for pf in pfs])
        return observed

    def _every_pf(self) -> list[Port]:
        if not self._gather:
            return []
        found = pci_functions.network_functions(self._system)
        found = [each for each in found if self._system.exists(pci_functions.attribute(each, "sriov_totalvfs"))]
        return [Port(each, each, None, None, [], {}) for each in found]

    def _find_persistent(self) -> None:
        """Read the PFs that this module has configured: its persistent options, and the marks of interrupted runs."""
        boot = self._boot()
        self._persistent = boot.read() or {}
        if self._named:
            self._ports = [port._replace(vf_count=_removed_count(port.options), vfs=[]) for port in self._ports]
            return
        found: dict[str, Port] = {}
        for options in boot.ports():
            address = self._address(options)
            if address:
                count = _removed_count(options) if options.get("count") else None
                found[address] = Port(boot.file, address, None, count, [], options)
        directory, _slash, prefix = (MARK % "").rpartition("/")
        for name in self._system.listdir(directory):
            address = name[len(prefix) :]
            if name.startswith(prefix) and self._system.exists("%s/%s" % (pci_functions.DEVICES, address)):
                place = "%s/%s" % (directory, name)
                if self._system.read_int(place) != 0:
                    found[address] = Port(place, address, None, 0, [], {})
                else:
                    # an interrupted run was rebinding an existing VF
                    found.setdefault(address, Port(place, address, None, None, [], {}))
        self._ports = [found[address] for address in sorted(found)]

    def _address(self, options: t.Mapping[str, t.Any]) -> str | None:
        """Return the PCI address of a persistent port's PF; None if it does not exist."""
        try:
            names = {key: str(options[key]) for key in ("pci", "netdev") if options.get(key)}
            (port,) = vf_spec.ports({"ports": [names]})
            return self._resolve(port._replace(netdev=None) if port.pci else port)
        except RailyardError:
            return None

    def _resolve(self, port: Port) -> str:
        port_reference.check_pair(self._system, port)
        return port_reference.physical_function_of(self._system, port)

    # -- changes ---------------------------------------------------------------------------------------------------

    def changes(self, state: State) -> list[Change]:
        self.warnings = []
        observed = t.cast(Seen, state)
        management = ManagementPath.observe(self._system)
        if self._absent:
            return self._reverted(observed, management)
        plans = [PfChanges(self._settings, port, pf) for port, pf in observed.pfs]
        live = self._live(plans, management)
        if self._runs_at_boot:
            return live
        configured = [(port, pf) for port, pf in observed.pfs if port.vf_count or port.vfs]
        if not self._persist:
            pfs = [pf for _port, pf in configured if not management.why_function(pf.pci)]
            return self._unmanaged(pfs, plans) + live
        kept = self._kept(configured, management)
        # first, because NetworkManager sets VFs up as soon as they exist
        return self._unmanaged([pf for _port, pf in kept], plans) + live + self._boot_changes(kept)

    def _unmanaged(self, pfs: t.Sequence[Pf], plans: t.Sequence[PfChanges]) -> list[Change]:
        rules = self._rules()
        replaced = {str(vf["pci"]) for plan in plans for vf in plan.touched}
        changes = rules.changes(pfs, replaced)
        self.warnings += rules.warnings
        return changes

    def _rules(self) -> UnmanagedVfs:
        return UnmanagedVfs(self._system, self._table, self._holders_of, self._persist)

    def _live(self, plans: t.Sequence[PfChanges], management: ManagementPath) -> list[Change]:
        held = self._held_vfs(plans)
        errors: list[RailyardError] = []
        for plan in plans:
            errors.extend(plan.refusals(management, held))
        raise_all(errors)
        changes = [change for plan in plans for change in plan.changes]
        linked = [plan.pf for plan in plans if plan.recount and plan.pf.carrier]
        if changes and linked:
            # once for all PFs: their links return at the same time
            then(changes[-1], lambda: self._wait_carriers(linked))
        return changes

    def _wait_carriers(self, pfs: t.Sequence[Pf]) -> None:
        for pf in pfs:
            pf.wait_carrier(self._settings.deadline())

    def _held_vfs(self, plans: t.Sequence[PfChanges]) -> dict[str, list[str]]:
        suspects = [vf["pci"] for plan in plans for vf in plan.touched if vf["pci"]]
        return self._holders_of(self._system, suspects, self._table) if suspects else {}

    # -- removal ---------------------------------------------------------------------------------------------------

    def _reverted(self, observed: Seen, management: ManagementPath) -> list[Change]:
        staying: list[Staying] = []
        plans = []
        moved = vf_holders.moved(self._system, [pf.pci for _port, pf in observed.pfs if pf.count])
        kept = self._persistent or {}
        for port, pf in observed.pfs:
            why = moved[pf.pci].why if pf.pci in moved else management.why_function(pf.pci)
            autoprobe = pf.autoprobe
            stays = bool(pf.count and why and (pf.pci in moved or not self._named))
            if stays:
                staying.append(Staying("vfs", (pf.pci,), str(why)))
            elif pf.count and port.vf_count is None:
                # VFs that another program created
                staying.append(Staying("vf-attributes", (pf.pci,)))
            if not stays and (port.vf_count is not None or pf.marked is not None):
                plan = PfChanges(self._settings, port, pf)
                # the mark of an interrupted run is removed last, as it may be the only record of its VFs
                plan.changes.sort(key=lambda change: change.attribute != "sriov_numvfs")
                plans.append(plan)
                autoprobe = plan.autoprobe
            if autoprobe is False and kept.get("autoprobe") is False:
                staying.append(Staying("autoprobe", (pf.pci,)))
        changes = self._live(plans, management)
        boot = self._boot()
        # a later run may be able to remove VFs that were in use before
        self._staying = without(boot.staying(staying), "vfs", {plan.pf.pci for plan in plans if not plan.count})
        named = {pf.pci for _port, pf in observed.pfs} if self._named else None
        changes += self._rules().removal(named)
        if not self._persist:
            return changes
        remaining = [each for each in boot.ports() if named is not None and self._address(each) not in named]
        return changes + boot.changes(dict(kept, ports=remaining) if remaining else None, staying=self._staying)

    # -- boot ------------------------------------------------------------------------------------------------------

    def _kept(self, configured: t.Sequence[tuple[Port, Pf]], management: ManagementPath) -> list[tuple[Port, Pf]]:
        """Return the ports to make persistent, and warn about those of the management path."""
        kept = []
        before = [self._address(each) for each in self._boot().ports()]
        for port, pf in configured:
            # a port that is persistent already stays: its VFs exist at each boot, and a default route may be temporary
            why = None if pf.pci in before else management.why_function(pf.pci)
            if why:
                self.warnings.append("%s: %s is not made persistent: %s" % (port.place, pf.name, why))
            else:
                kept.append((port, pf))
        return kept

    def _boot_changes(self, kept: t.Sequence[tuple[Port, Pf]]) -> list[Change]:
        ports = [_without_none(port.options) for port, _pf in kept]
        options = {"ports": ports, "timeout": self._settings.timeout, "autoprobe": self._settings.autoprobe}
        return self._boot().changes(_without_none(options) if kept else None)


def _removed_count(options: t.Mapping[str, t.Any]) -> int | None:
    """Return the number of VFs that removal leaves: 0, or None for no change, if some VFs have another owner."""
    return None if options.get("range") else 0


def _port_state(pf: Pf) -> Row:
    return {"pci": pf.pci, "netdev": pf.netdev, "count": pf.count, "attributes": [dict(row) for row in pf.attributes]}


def _pf_state(pf: Pf) -> Row:
    return {
        "pci": pf.pci,
        "netdev": pf.netdev,
        "driver": pf.driver,
        "rdma_device": pf.rdma_device,
        "link_layer": pf.link_layer,
        "total": pf.total,
        "autoprobe": pf.autoprobe,
        "switchdev": bool(pf.representors),
        "vfs": [dict(row) for row in pf.vfs],
    }


def _without_none(value: t.Any) -> t.Any:
    if isinstance(value, dict):
        return {key: _without_none(each) for key, each in value.items() if each is not None}
    return [_without_none(each) for each in value] if isinstance(value, list) else value


LAYER = Layer(vf_spec.SPEC, SriovVfs)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""QoS of RoCE on rail ports: settings of all ports, or of one, applied as a whole."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    RailyardError,
    Refused,
    Unsupported,
    raise_all,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.boot.persistent import PersistentSubsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.staying import Staying, without
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Layer, State
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.dcb_netlink import DcbSocket
from ansible_collections.railyard.fabric.plugins.module_utils._node.qos import cm_defaults, dcb_managers, qos_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.qos.port_qos import LivePort, Tools
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import port_reference, vf_holders
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import (
    ManagementPath,
    netdev_pci,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.port_reference import PortReference

MODULE = "roce_qos"
# After the VFs, and after the names of RDMA devices.
RANK = 40


class Seen(t.Dict[str, t.Any]):
    """The observed state in the shape of the module's options, and the ports."""

    live: list[LivePort]


class RoceQos(PersistentSubsystem):
    """The QoS of a node's rail ports. See the module's documentation for the options.

    :param tools: the interfaces to the kernel, for tests.
    """

    def __init__(self, options: t.Mapping[str, t.Any], system: System, tools: Tools | None = None) -> None:
        super().__init__(system, RANK, MODULE, options.get("state") == "absent", bool(options.get("persist", False)))
        self._refuse_ports(options)
        self._tools = tools
        self._options = options
        self._gather = options.get("state") == "gathered"
        self._ports = qos_spec.ports(options)
        self._vf_ranges = qos_spec.vf_ranges(options)
        desired = {} if self._gather or self._absent else options
        self._spec = qos_spec.qos_of(desired)
        # Place of a port -> its own QoS in place of that of all ports.
        self._own = qos_spec.qos_of_ports(desired)
        self._host_dcbx = options.get("dcbx", "host") == "host"
        self._tolerant = options.get("others") == "warn"
        self._vfs = options.get("vfs") is not False
        self._alone: list[str] = []

    # -- observed state --------------------------------------------------------------------------------------------

    def observe(self) -> Seen:
        """``ports`` in the shape of the options, and ``others``: other programs that configure DCB."""
        if self._tools is None:
            self._tools = Tools(DcbSocket(), cm_defaults.CmDefaults(self._system))
        errors: list[RailyardError] = []
        seen = Seen()
        seen.live = []
        held = vf_holders.moved(self._system, [port.pci for port in self._ports])
        self._alone = [
            vf_holders.not_changed(str(port.netdev or port.pci), port.pci, held[port.pci].why)
            for port in self._ports
            if port.pci in held
        ]
        for port in self._ports or (self._every_port() if self._gather else []):
            if port.pci in held:
                continue
            try:
                netdev, function = self._resolve(port)
            except RailyardError as error:
                errors.append(error)
                continue
            taken = [live for live in seen.live if live.netdev == netdev]
            if taken:
                message = "%s is the netdev %s, as is %s" % (port.netdev or port.pci, netdev, taken[0].place)
                errors.append(RailyardError(message, port.place, "name each port once"))
                continue
            part = self._vf_ranges.get(port.place)
            seen.live.append(LivePort(self._system, self._tools, port.place, netdev, function, self._vfs, part))
        raise_all(errors)
        others = [other._asdict() for other in dcb_managers.others(self._system)]
        seen.update(ports=[live.state() for live in seen.live], others=others)
        return seen

    def _every_port(self) -> list[PortReference]:
        """The Ethernet PFs with a netdev in this network namespace."""
        found = []
        for function in pci_functions.network_functions(self._system):
            netdevs = pci_functions.netdevs(self._system, function)
            found += [PortReference(netdev, function, netdev) for netdev in netdevs]
        return found

    def _resolve(self, port: PortReference) -> tuple[str, str | None]:
        """The netdev and the PCI function of a port. A netdev that does not have its name yet is found by ``pci``."""
        port_reference.check_pair(self._system, port)
        netdev = port_reference.netdev_of(self._system, port)
        return netdev, port.pci or netdev_pci(self._system, netdev)

    # -- changes ---------------------------------------------------------------------------------------------------

    def changes(self, state: State) -> list[Change]:
        if self._absent:
            # the earlier settings of the ports are not known: nothing is changed
            names = [str(port.get("netdev") or port.get("pci")) for port in self._boot().ports()]
            return self._revert_all([Staying("qos", tuple(names))] if names else [])
        seen = t.cast(Seen, state)
        self.warnings = list(self._alone)
        management = ManagementPath.observe(self._system)
        others = dcb_managers.others(self._system)
        errors: list[RailyardError] = []
        for live in seen.live:
            why = management.why_netdev(live.netdev)
            if why:
                remedy = "leave the management network's ports out"
                errors.append(Refused("%s %s" % (live.netdev, why), live.place, remedy))
                continue
            errors += live.refusals(self._spec_of(live), self._host_dcbx)
            self.warnings += live.warnings(self._spec_of(live))
        netdevs = [live.netdev for live in seen.live]
        for other in others:
            if other.netdev and other.netdev not in netdevs:
                continue
            if self._tolerant:
                self.warnings.append("%s: %s" % (other.message, other.remedy))
            elif netdevs:
                remedy = other.remedy + ", or set qos_others to warn (option others of the module)"
                errors.append(Refused(other.message, other.netdev or "node", remedy))
        manager = self._manager(seen.live, errors)
        raise_all(errors)
        found = [change for live in seen.live for change in live.changes(self._spec_of(live), self._host_dcbx)]
        found += manager
        found += [change for live in seen.live for change in live.rdma_changes(self._spec_of(live))]
        return found + self._boot_changes(seen) if self._persist else found

    def _spec_of(self, live: LivePort) -> qos_spec.QosSpec:
        """Return the desired QoS of a port."""
        return self._own.get(live.place, self._spec)

    def _manager(self, live: t.Sequence[LivePort], errors: list[RailyardError]) -> list[Change]:
        """Load the connection manager if its defaults are desired."""
        tools = self._tools
        if tools is None or tools.defaults.has_manager() or not any(each.rdma for each in live):
            return []
        specs = [self._spec_of(each) for each in live]
        if all(spec.rdma_cm_tos is None and spec.roce_mode is None for spec in specs):
            return []
        system = self._system
        modprobe = system.which("modprobe") or "modprobe"
        if system.run([modprobe, "--dry-run", "--quiet", "rdma_cm"]).rc:
            kernel = system.read("/proc/sys/kernel/osrelease")
            message = "the kernel %s does not have the module rdma_cm" % kernel
            errors.append(Unsupported(message, "qos.rdma_cm_tos", "install one that has it, or set it to null"))
            return []

        def act() -> None:
            if not system.exists(cm_defaults.CONFIG):
                system.check([modprobe, "configfs"], "see the kernel's messages (dmesg)")
            system.check([modprobe, "rdma_cm"], "see the kernel's messages (dmesg)")
            if not system.exists(cm_defaults.RDMA_CM):
                mount = [system.which("mount") or "mount", "-t", "configfs", "configfs", cm_defaults.CONFIG]
                system.check(mount, "mount configfs at %s" % cm_defaults.CONFIG)

        return [Change("rdma_cm", "module", None, "loaded", act)]

    def _boot_changes(self, seen: Seen) -> list[Change]:
        boot = self._boot()
        if not self._ports:
            return boot.changes(None)
        again = {name for live in seen.live for name in (live.netdev, live.pci)}
        again |= {name for port in self._ports for name in (port.netdev, port.pci)}
        left = without([each for each in boot.staying([]) if each.id == "qos"], "qos", again)
        options = {key: self._options.get(key) for key in ("qos", "dcbx", "others", "vfs")}
        rows: list[dict[str, t.Any]] = [{"pci": port.pci, "netdev": port.netdev} for port in self._ports]
        for row, given in zip(rows, self._options.get("ports") or ()):
            row.update({key: given[key] for key in ("range", "qos") if given.get(key)})
        options["ports"] = rows
        return boot.changes(options, self._events(), left=left)

    def _events(self) -> list[str]:
        """The udev matches for a new netdev or RDMA device of a port. No setting causes such an event."""
        found = []
        for port in self._ports:
            function = port.pci or netdev_pci(self._system, port.netdev or "")
            for kind in ("net", "infiniband") if function else ():
                found.append('ACTION=="add", SUBSYSTEM=="%s", KERNELS=="%s"' % (kind, function))
        return found


LAYER = Layer(qos_spec.SPEC, RoceQos, required_if=[("state", "present", ["qos"])])

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""PCI settings of rail ports: ACS between a port and its GPUs, read request size, and the expected PCIe link.

The ACS bits to clear, and the exceptions for Grace and Vera processors and DMA Direct functions, are those of the
kernel's ``pci=disable_acs_redir`` and rdma-core's ``rdma_topo``.
"""

from __future__ import annotations

import json
import typing as t
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry import nic_vendors
from ansible_collections.railyard.fabric.plugins.module_utils._node.boot.persistent import PersistentSubsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.staying import Staying
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Layer, State
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.host import pci_tuning_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.host.pci_tuning_spec import DISABLED, PciSpec, Port
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions as pci
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.pci_config import ACS_IN_THE_WAY, Config
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.pci_functions import is_pci_address
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath

MODULE = "pci_tuning"
# After the VFs and before the RDMA links: this layer creates and removes no device.
RANK = 15
NVIDIA = "10de"
TOPOLOGY_TIMEOUT = 60.0
Row = t.Dict[str, t.Any]


class Bridge(t.NamedTuple):
    """A bridge between rail ports and their GPUs. ``ports``: the ports whose path to a GPU it is on."""

    pci: str
    config: Config
    ports: list[Port]

    def in_the_way(self) -> list[str]:
        acs = self.config.acs
        return [name for name in acs[1] if name in ACS_IN_THE_WAY] if acs else []


class Seen(t.Dict[str, t.Any]):
    """The observed state in the shape of the options, with configuration spaces and bridges as attributes."""

    spec: PciSpec
    configs: dict[str, Config]
    bridges: list[Bridge]


class PciTuning(PersistentSubsystem):
    """See the module's documentation for the options."""

    def __init__(self, options: t.Mapping[str, t.Any], system: System) -> None:
        super().__init__(system, RANK, MODULE, options.get("state") == "absent", bool(options.get("persist", False)))
        self._refuse_ports(options)
        self._options = options

    # -- observing ----------------------------------------------------------------------------------------------------

    def observe(self) -> Seen:
        seen = Seen()
        spec = seen.spec = PciSpec({} if self._absent else self._options, self._system)
        seen.configs = {port.pci: Config(self._system, port.pci) for port in spec.ports}
        seen.bridges = self._bridges(spec)
        rows = [self._port_row(port, seen.configs[port.pci], spec) for port in spec.ports]
        findings = [{"port": None, "attribute": "gpus", "expected": "there", "found": each} for each in spec.missing]
        for port, row in zip(spec.ports, rows):
            findings += self._findings(port, row)
        self.warnings = [self._sentence(each) for each in findings]
        open_ = bool(seen.bridges) and not any(bridge.in_the_way() for bridge in seen.bridges)
        seen.update(
            acs=DISABLED if open_ else None,
            ports=rows,
            bridges=[_bridge_row(bridge) for bridge in seen.bridges],
            findings=findings,
            rdma_topo=self._system.which("rdma_topo"),
        )
        return seen

    def _bridges(self, spec: PciSpec) -> list[Bridge]:
        serves: dict[str, list[Port]] = {}
        for port in spec.ports:
            for _number, gpu in port.gpus:
                for bridge in spec.bridges(port.pci, gpu):
                    users = serves.setdefault(bridge, [])
                    if port not in users:
                        users.append(port)
        return [Bridge(each, Config(self._system, each), serves[each]) for each in sorted(serves)]

    def _port_row(self, port: Port, config: Config, spec: PciSpec) -> Row:
        system = self._system
        link = pci.link(system, port.pci)
        port_path = pci.path(system, port.pci)
        above = port_path[-2] if len(port_path) > 1 and is_pci_address(port_path[-2]) else None
        slot = pci.link(system, above) if above else {}
        return {
            "pci": port.pci,
            "netdev": port.netdev,
            "gpus": [int(number) for number, _gpu in port.gpus],
            "max_read_request": config.max_read_request,
            "max_payload": config.max_payload,
            "link": {
                "gen": pci.generation(link["speed"]),
                "lanes": link["width"],
                "max_gen": pci.generation(link["max_speed"]),
                "max_lanes": link["max_width"],
                "slot_gen": pci.generation(slot.get("max_speed")),
                "slot_lanes": slot.get("max_width"),
            },
            "near": [
                {
                    "gpu": int(number),
                    "pci": gpu,
                    "distance": spec.distance(port.pci, gpu),
                    "bridges": spec.bridges(port.pci, gpu),
                }
                for number, gpu in port.gpus
            ],
            "iommu": system.read(pci.attribute(port.pci, "iommu_group/type")),
        }

    def _findings(self, port: Port, row: Row) -> list[Row]:
        found: list[Row] = []
        link = row["link"]

        def report(attribute: str, expected: t.Any, found_value: t.Any) -> None:
            found.append({"port": port.pci, "attribute": attribute, "expected": expected, "found": found_value})

        for attribute, key in (("pcie_gen", "gen"), ("pcie_lanes", "lanes")):
            expected = port.expect.get(attribute)
            possible = [each for each in (link["max_" + key], link["slot_" + key]) if each is not None]
            if expected is not None and link[key] != expected:
                report(attribute, expected, link[key])
            elif expected is None and link[key] is not None and possible and link[key] < min(possible):
                # both ends support more; the cause may be a bent pin, a dirty contact, a wrong riser or bifurcation
                report(attribute, min(possible), link[key])
        expected = port.expect.get("gpu_distance")
        for near in row["near"]:
            order = pci.PROXIMITIES
            if expected in order and order.index(near["distance"]) > order.index(expected):
                report("gpu_distance", expected, near["distance"])
        if self._options.get("acs") == DISABLED and (row["iommu"] or "").startswith("DMA"):
            report("iommu", "identity", row["iommu"])
        return found

    @staticmethod
    def _sentence(finding: Row) -> str:
        if finding["port"] is None:
            return "%s. The plan's settings for it are not applied." % finding["found"]
        if finding["attribute"] == "iommu":
            return (
                "%s: the IOMMU translates what it sends (%s), so that GPUDirect goes through the root complex with any "
                "setting of ACS. Remedy: the kernel argument iommu=pt." % (finding["port"], finding["found"])
            )
        return "%s: %s is %s, not %s. Remedy: see its slot, riser and the firmware's settings." % (
            finding["port"],
            finding["attribute"],
            "unknown" if finding["found"] is None else finding["found"],
            finding["expected"],
        )

    # -- comparing ----------------------------------------------------------------------------------------------------

    def changes(self, state: State) -> list[Change]:
        if self._absent:
            return self._revert_all(self._left_live())
        seen = t.cast(Seen, state)
        management = ManagementPath.observe(self._system)
        errors: list[RailyardError] = []
        changes: list[Change] = []
        for port in seen.spec.ports:
            changes += self._request_changes(port, seen.configs[port.pci], management, errors)
        if seen.spec.acs == DISABLED:
            changes += self._acs_changes(seen, management, errors)
        if changes and not errors:
            errors += self._locked(changes[0])
        raise_all(errors)
        return changes + (self._boot_changes(seen, management) if self._persist else [])

    def _request_changes(
        self, port: Port, config: Config, management: ManagementPath, errors: list[RailyardError]
    ) -> list[Change]:
        size = port.max_read_request
        current_size = config.max_read_request
        if size is None or size == current_size:
            return []
        if current_size is None:
            text = "%s is not a PCI Express function, and has no read request size" % port.pci
            errors.append(RailyardError(text, port.place, "leave max_read_request out for it"))
            return []
        why = management.why_card(port.pci)
        if why:
            errors.append(Refused("%s is not touched: %s" % (port.pci, why), port.place, "take it out of the ports"))
            return []
        wanted = size
        return [Change(port.pci, "MaxReadReq", current_size, wanted, lambda: config.set_max_read_request(wanted))]

    def _acs_changes(self, seen: Seen, management: ManagementPath, errors: list[RailyardError]) -> list[Change]:
        bridges = [bridge for bridge in seen.bridges if bridge.in_the_way()]
        if not bridges:
            return []
        errors += self._special(bridges)
        paths = {each: pci.path(self._system, each) for each in self._system.listdir(pci.DEVICES)}
        changes = []
        for bridge in bridges:
            place = bridge.ports[0].place
            below = [each for each, port_path in paths.items() if bridge.pci in port_path[:-1]]
            why = [management.why_function(each) for each in below if management.why_function(each)]
            if why:
                text = "the bridge %s is not touched: below it, %s" % (bridge.pci, why[0])
                errors.append(Refused(text, place, "set acs: leave, or leave the gpus of that port out"))
            drivers = {each: self._system.link_name(pci.attribute(each, "driver")) or "" for each in below}
            passed = [each for each, driver in drivers.items() if driver.startswith("vfio")]
            if passed:
                text = "%s below the bridge %s is handed on by VFIO, and ACS keeps it apart from the others"
                remedy = "take it back first, or set acs: leave on this node"
                errors.append(Refused(text % (passed[0], bridge.pci), place, remedy))
            clear = bridge.in_the_way()
            before = bridge.config.acs[1] if bridge.config.acs else []
            after = [name for name in before if name not in clear]
            changes.append(Change(bridge.pci, "ACSCtl", before, after, partial(bridge.config.clear_acs, clear)))
        return changes

    def _special(self, bridges: t.Sequence[Bridge]) -> list[RailyardError]:
        """Return a refusal for machines on which each bridge needs its own ACS bits."""
        system = self._system
        why = ""
        for bridge in bridges:
            if pci.hexadecimal(system, bridge.pci, "vendor") == NVIDIA:
                why = "the bridge %s is a Grace or Vera processor's" % bridge.pci
        for function in [] if why else system.listdir(pci.DEVICES):
            special = nic_vendors.of_function(system, function).acs_devices
            kind = special.get(pci.hexadecimal(system, function, "device") or "") if special else None
            if kind:
                why = "%s is %s" % (function, kind)
        if not why and self._known_to_rdma_topo(bridges):
            why = "rdma_topo knows this machine's NICs and GPUs"
        if not why:
            return []
        remedy = "use 'rdma_topo write-grub-acs' of rdma-core 61 or later and reboot, and set acs: leave"
        return [Refused("%s: clearing ACS would break what runs there" % why, "acs", remedy)]

    def _known_to_rdma_topo(self, bridges: t.Sequence[Bridge]) -> bool:
        program = self._system.which("rdma_topo")
        if not program:
            return False
        done = self._system.run([program, "topology", "-j"], TOPOLOGY_TIMEOUT)
        try:
            complexes = json.loads(done.out) if done.rc == 0 else []
        except ValueError:
            return False
        text = json.dumps(complexes)
        return any('"%s"' % port.pci in text for bridge in bridges for port in bridge.ports)

    def _locked(self, change: Change) -> list[RailyardError]:
        lockdown = self._system.read("/sys/kernel/security/lockdown") or "[none]"
        if "[none]" in lockdown:
            return []
        text = "the kernel is locked down (Secure Boot) and does not let configuration space be written"
        remedy = "switch Secure Boot off; for ACS, the kernel argument pci=disable_acs_redir= does it too"
        return [Refused(text, change.subject, remedy)]

    # -- boot ---------------------------------------------------------------------------------------------------------

    def _left_live(self) -> list[Staying]:
        """Return the persistent settings, which stay live: the former values of the registers are unknown."""
        kept = [port for port in self._boot().ports() if port.get("pci")]
        sized = [str(port["pci"]) for port in kept if port.get("max_read_request")]
        opened = [str(port["pci"]) for port in kept if port.get("gpus")]
        return [Staying(name, tuple(ports)) for name, ports in (("read-request", sized), ("acs", opened)) if ports]

    def _boot_changes(self, seen: Seen, management: ManagementPath) -> list[Change]:
        ports: list[Row] = []
        gpus: dict[str, str] = {}
        devices: list[str] = []
        # a port that is persistent already stays: a default route over a rail port may be temporary
        before = [each.get("pci") for each in self._boot().ports()]
        for port in seen.spec.ports:
            open_ = bool(port.gpus) and seen.spec.acs == DISABLED
            if (port.pci not in before and management.why_card(port.pci)) or not (open_ or port.max_read_request):
                continue
            kept: Row = {"pci": port.pci}
            if port.max_read_request:
                kept["max_read_request"] = port.max_read_request
            devices.append(port.pci)
            if open_:
                kept["gpus"] = [number for number, _gpu in port.gpus]
                gpus.update(port.gpus)
                devices += [gpu for _number, gpu in port.gpus]
            ports.append(kept)
        if not ports:
            return self._boot().changes(None)
        if gpus:
            devices += [bridge.pci for bridge in seen.bridges if bridge.config.acs]
        # when a device is added, and after its driver, which may reset the device, is bound
        match = 'ACTION=="add|bind", SUBSYSTEM=="pci", KERNEL=="%s"'
        options: Row = {"ports": ports, "acs": seen.spec.acs}
        if gpus:
            options["gpus"] = gpus
        again = [match % each for each in sorted(set(devices))]
        return self._boot().changes(options, again)


def _bridge_row(bridge: Bridge) -> Row:
    acs = bridge.config.acs
    return {
        "pci": bridge.pci,
        "acs": acs[1] if acs else None,
        "acs_supported": acs[0] if acs else None,
        "ports": [port.pci for port in bridge.ports],
    }


LAYER = Layer(pci_tuning_spec.SPEC, PciTuning)

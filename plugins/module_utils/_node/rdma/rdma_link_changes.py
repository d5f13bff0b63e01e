# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the RDMA devices to remove, rename and create, so that a node's ports have the desired links."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    RailyardError,
    Refused,
    Unsupported,
    collected,
    raise_all,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.staying import Staying
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkSocket
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import network_namespaces
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import port_reference, vf_holders
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import (
    ManagementPath,
    lower_netdevs,
    netdev_pci,
)

HARDWARE = "hardware"
MODULES = {"rxe": "rdma_rxe", "siw": "siw"}
NAME = re.compile(r"[A-Za-z0-9_.:-]{1,63}")

Options = t.Mapping[str, t.Any]
Row = t.Dict[str, t.Any]


class Port:
    """One desired port. ``place``: the place of its options."""

    def __init__(self, place: str, options: Options) -> None:
        self.place = place
        self.name = str(options["name"])
        self.type = str(options.get("type") or HARDWARE)
        self.present = options.get("state", "present") == "present"
        self.errors: list[RailyardError] = []
        _place, self.pci, self.netdev = port_reference.read(options, place, self.errors)
        if not self.present and not options.get("pci") and not options.get("netdev"):
            self.errors = []  # a port to remove needs only a name

    def as_options(self) -> Row:
        return {"name": self.name, "type": self.type, "netdev": self.netdev, "pci": self.pci}

    def same_device(self, options: Options) -> bool:
        """Return whether the options name the same device: by its name, its PCI address or its netdev."""
        other = Port("", options)
        if self.name == other.name or self.type != other.type:
            return self.name == other.name
        if self.type == HARDWARE and self.pci and other.pci:
            # the netdev may differ, because a renamed rail renames it too
            return self.pci == other.pci
        return bool(self.netdev) and self.netdev == other.netdev


class LinkPlan:
    """The devices to remove (``deletes``), rename (``names``) and create (``creates``), and the ``errors``."""

    def __init__(self, system: System, devices: t.Sequence[Row]) -> None:
        self.errors: list[RailyardError] = []
        self.deletes: list[Row] = []
        self.names: dict[str, str] = {}
        self.creates: list[tuple[Port, str]] = []
        #: messages about ports in another network namespace, which are not changed
        self.ignored: list[str] = []
        #: kernel modules to load for the links to create
        self.modules: list[str] = []
        self._system = system
        self._devices = list(devices)
        self._by_name = {row["name"]: row for row in devices}
        self._places: dict[str, str] = {}
        self._management = ManagementPath.observe(system)

    def kept_devices(self) -> list[Row]:
        return [row for row in self._devices if row not in self.deletes]

    def resolve(self, ports: t.Sequence[Port]) -> None:
        self._refuse_same_devices(ports)
        for port in ports:
            with collected(self.errors):
                self._check(port)
                if not port.present:
                    self._plan_absent(port)
                elif port.type == HARDWARE:
                    self._plan_hardware(port)
                else:
                    self._plan_soft(port)
        for port in ports:
            if port.present:
                self._free_name(port)

    def plan_removal(self, ports: t.Sequence[Port], named: bool) -> list[Staying]:
        """Plan the removal of the ports' links. Return the settings that stay until the next boot.

        :param named: whether the options name these ports, so that one on the management path is an error.
        """
        staying = []
        renamed = []
        for port in ports:
            row = self._by_name.get(port.name)
            if port.type == HARDWARE:
                pci = port.pci or netdev_pci(self._system, port.netdev or "") or ""
                if row is not None or vf_holders.is_hidden(self._system, pci, "infiniband"):
                    renamed.append(port.name)
                continue
            why = None
            if row is not None and row["type"] == port.type:
                why = None if named else self._why_management(row["netdev"], row["pci"])
                why = why or (None if row["netdev"] else "its netdev is in another network namespace")
            if why:
                staying.append(Staying("rdma-link", (port.name,), why))
                continue
            with collected(self.errors):
                self._plan_absent(port)
        return staying + ([Staying("rdma-name", tuple(renamed))] if renamed else [])

    @property
    def touched(self) -> list[tuple[str, str, bool]]:
        """(device, action, whether a process that only has it open is a user) of each device to remove or rename."""
        touched = [(row["name"], "taken away", True) for row in self.deletes]
        return touched + [(now, "renamed", False) for now, then in self.names.items() if now != then]

    def refuse_in_use(self, sock: NetlinkSocket) -> None:
        indexes = {device["name"]: device["index"] for device in rdma_netlink.devices(sock)}
        for name, what, contexts in self.touched:
            users = rdma_netlink.holders(sock, self._system, indexes[name], contexts) if name in indexes else []
            if users:
                self.errors.append(in_use(name, what, users, self._places[name]))

    def _refuse_same_devices(self, ports: t.Sequence[Port]) -> None:
        present = [port for port in ports if port.present]
        for number, port in enumerate(present):
            for other in present[:number]:
                if port.same_device(other.as_options()):
                    what = "name %s" % port.name if port.name == other.name else "device"
                    self.errors.append(
                        RailyardError("the same %s as %s" % (what, other.place), port.place, "name each device once")
                    )

    def _check(self, port: Port) -> None:
        if not NAME.fullmatch(port.name) or port.name in (".", ".."):
            raise RailyardError(
                "%r cannot name an RDMA device" % port.name,
                port.place + ".name",
                "use 1 to 63 letters, digits, '_', '-', '.' and ':'",
            )
        raise_all(port.errors)
        if port.present and port.type != HARDWARE and not port.netdev:
            raise RailyardError("names no netdev", port.place, "give netdev")
        port_reference.check_pair(self._system, port)
        function = port.pci or netdev_pci(self._system, port.netdev or "")
        raise_all(port_reference.refusal(self._management, port.place, port.netdev, function))

    def _why_management(self, netdev: str | None, pci: str | None) -> str | None:
        why = self._management.why_netdev(netdev) if netdev else None
        if why:
            return "%s %s" % (netdev, why)
        return self._management.why_function(pci) if pci else None

    def _plan_absent(self, port: Port) -> None:
        row = self._by_name.get(port.name)
        if port.type == HARDWARE:
            raise Refused(
                "a hardware device cannot be taken away", port.place, "give type: rxe or siw, or leave the port out"
            )
        if row is None or row["type"] != port.type or (port.netdev and row["netdev"] != port.netdev):
            return
        raise_all(port_reference.refusal(self._management, port.place, row["netdev"], row["pci"]))
        self._plan_delete(row, port)

    def _plan_hardware(self, port: Port) -> None:
        functions = self._functions(port)
        rows = [row for row in self._devices if row["type"] == HARDWARE and row["pci"] in functions]
        if len(rows) > 1 and len(functions) > 1:
            names = ", ".join(sorted(row["name"] for row in rows))
            raise RailyardError(
                "the functions below %s have an RDMA device each (%s), and the bond has none" % (port.netdev, names),
                port.place,
                "see dmesg for the reason: the driver joins functions of one card, in the modes active-backup,"
                " balance-xor and 802.3ad, and without VFs of the mode legacy",
            )
        if rows:
            self._plan_name(rows[0], port)
        elif not any(self._is_moved(port, pci, "infiniband") for pci in functions):
            raise self._not_visible(port, functions[0])

    def _functions(self, port: Port) -> list[str]:
        """Return the port's PCI function, or the functions of its bond: any of them may have the RDMA device."""
        if port.netdev and not port.pci and not netdev_pci(self._system, port.netdev):
            below = [netdev_pci(self._system, name) for name in lower_netdevs(self._system, port.netdev)]
            functions = [pci for pci in below if pci]
            if functions:
                return functions
        return [port_reference.function_of(self._system, port)]

    def _is_moved(self, port: Port, pci: str | None, what: str) -> bool:
        """Return whether the port is in another network namespace. It is reported and not changed then."""
        moved = vf_holders.moved(self._system, [pci], what).get(pci or "")
        if moved:
            self.ignored.append(vf_holders.not_changed(port.name, str(pci), moved.why))
        return moved is not None

    def _not_visible(self, port: Port, pci: str) -> RailyardError:
        driver = self._system.link_name("/sys/bus/pci/devices/%s/driver" % pci)
        message = "no RDMA device of %s is visible here" % pci
        namespaces = [each.name for each in network_namespaces.others(self._system)]
        if driver is None:
            return RailyardError("%s: the function has no driver" % message, port.place, "load or bind its driver")
        if namespaces and self._system.read("/sys/module/ib_core/parameters/netns_mode") == "N":
            return RailyardError(
                "%s: with rdma mode exclusive it may be in another network namespace (%s)"
                % (message, ", ".join(namespaces)),
                port.place,
                "end the pod that has it, or leave the port out",
            )
        return RailyardError(
            "%s: its driver %s gives none" % (message, driver),
            port.place,
            "load the driver's RDMA part (mlx5_ib, irdma, bnxt_re, ...), or use type: rxe for a NIC without RDMA",
        )

    def _plan_soft(self, port: Port) -> None:
        netdev = port.netdev or ""
        try:
            port_reference.check_netdev(self._system, netdev, port.place + ".netdev")
        except RailyardError:
            if self._is_moved(port, port.pci, "net"):
                return
            raise
        if port.type == "rxe" and "DEVTYPE=vlan" in (self._system.read("/sys/class/net/%s/uevent" % netdev) or ""):
            below = next(iter(lower_netdevs(self._system, netdev)), "the interface below it")
            raise Unsupported(
                "%s is a VLAN, on which the kernel makes no rxe device" % netdev,
                port.place + ".netdev",
                "give %s: its device has the GIDs of the VLAN too" % below,
            )
        row = next((row for row in self._devices if row["type"] == port.type and row["netdev"] == netdev), None)
        if row:
            self._plan_name(row, port)
        else:
            self._need_module(port)
            self.creates.append((port, netdev))

    def _need_module(self, port: Port) -> None:
        module = MODULES[port.type]
        if module in self.modules or self._system.exists("/sys/module/%s" % module):
            return
        modprobe = self._system.which("modprobe") or "modprobe"
        if self._system.run([modprobe, "--dry-run", "--quiet", module]).rc:
            raise Unsupported(
                "the kernel %s has no module %s" % (self._system.read("/proc/sys/kernel/osrelease"), module),
                port.place + ".type",
                "install a kernel that has it, or use another type",
            )
        self.modules.append(module)

    def _plan_name(self, row: Row, port: Port) -> None:
        self.names[row["name"]] = port.name
        self._places[row["name"]] = port.place

    def _plan_delete(self, row: Row, port: Port) -> None:
        if row not in self.deletes:
            self.deletes.append(row)
        self._places[row["name"]] = port.place

    def _free_name(self, port: Port) -> None:
        """Plan the removal of a soft link that has the port's name, or add an error if the name is not available."""
        row = self._by_name.get(port.name)
        if row is None or row in self.deletes or port.name in self.names:
            return
        if port.type == HARDWARE or row["type"] == HARDWARE:
            self.errors.append(
                RailyardError(
                    "the name %s is held by the %s device of %s"
                    % (port.name, row["type"], row["pci"] or row["netdev"]),
                    port.place + ".name",
                    "give that device a name in the same call, or choose another name",
                )
            )
            return
        why = self._why_management(row["netdev"], row["pci"])
        if why:
            self.errors.append(
                Refused("the name %s is held by the link of %s" % (port.name, why), port.place, "choose another name")
            )
            return
        self._plan_delete(row, port)


def in_use(name: str, what: str, users: t.Sequence[rdma_netlink.Holder], place: str) -> Refused:
    """Return the refusal to change a device with users. ``what``: ``taken away`` or ``renamed``."""
    message = "%s is in use by %s and is not %s" % (name, ", ".join(str(user) for user in users), what)
    return Refused(message, place, "end the users, or set rdma_links_force to true (option force of the module)")

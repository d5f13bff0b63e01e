# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of a node for users and later steps, read from sysfs and by two netlink dumps."""

from __future__ import annotations

import errno
import functools
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.info import rdma_ports
from ansible_collections.railyard.fabric.plugins.module_utils._node.info.interfaces import (
    Interfaces,
    Selection,
    duplicates,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError, NetlinkSocket
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import (
    ARPHRD_INFINIBAND,
    hardware_address,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import dma_functions, pci_functions, vpd
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import management_path, port_reference
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath

if t.TYPE_CHECKING:
    from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.ethtool import DriverInfo
    from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link
    from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink
    from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.verbs import DeviceReport

SUBSETS = ("system", "nics", "rdma", "gids", "gpus", "vfs", "ip")
# Subsets that take time, send frames or are large: read only if they are named.
BY_NAME = ("sysctls", "counters", "lldp", "duplicates", "nvlink")
# Host settings, read by the code of their modules: read only if they are named.
HOST_PARTS = ("pci", "kernel", "limits", "gpudirect", "qos", "driver", "infiniband")
# Settings of netdevs that matter on a node with several NICs.
SYSCTLS = ("arp_announce", "arp_filter", "arp_ignore", "rp_filter")
# Seconds to wait for ARP replies: twice what a host on the same link needs.
ARP_PATIENCE = 0.5
Row = t.Dict[str, t.Any]


class Info:
    """A node. Each part is read at its first use.

    The parameters replace the readers of the kernel in tests. ``links``: see :meth:`.rtnetlink.Rtnetlink.links`.
    """

    def __init__(
        self,
        system: System,
        links: t.Callable[[], list[Link]] | None = None,
        rdma_socket: t.Callable[[System], NetlinkSocket | None] = rdma_netlink.connect,
        drivers: t.Callable[[t.Iterable[str]], dict[str, DriverInfo]] | None = None,
        verbs: t.Callable[[t.Mapping[str, int]], dict[str, DeviceReport]] | None = None,
        management_of: t.Callable[[System], ManagementPath] | None = None,
        permanent: t.Callable[[t.Iterable[str]], dict[str, bytes]] | None = None,
        table: t.Callable[[], Rtnetlink] | None = None,
    ) -> None:
        self._system = system
        self._links = links
        self._connect = rdma_socket
        self._drivers = drivers
        self._verbs = verbs
        self._management_of = management_of
        self._vpds: dict[str, vpd.Vpd | None] = {}
        self._permanent = permanent
        self._table = table

    def look(
        self,
        subset: t.Sequence[str],
        netdevs: t.Sequence[str] | None = None,
        functions: t.Sequence[str] | None = None,
        listen: float = 0,
    ) -> Row:
        """Return the requested parts.

        :param netdevs: return rows of ports only for these netdevs and ``functions``.
        :param functions: PCI addresses.
        :param listen: seconds to listen for LLDP neighbours that no daemon knows.
        """
        for name in netdevs or ():
            port_reference.check_netdev(self._system, name, "netdevs")
        for address in functions or ():
            port_reference.check_function(self._system, address, "pci")
        selection = self.selection(netdevs, functions)

        def selected(rows: t.Iterable[Row]) -> list[Row]:
            return [
                row
                for row in rows
                if selection is None or row.get("pci") in selection.functions or row["netdev"] in selection.netdevs
            ]

        found: Row = {}
        if "system" in subset:
            from ansible_collections.railyard.fabric.plugins.module_utils._node.info import system_info

            found.update(system_info.look(self._system, self.management, self._rdma_socket, self._table))
        if "nics" in subset:
            found["nics"] = selected(self.nics)
            found["interfaces"] = selected(self.interfaces)
            rows = self._dma.rows((row["pci"] for row in found["nics"]), self._gpus)
            found["dma_functions"] = [row for row in rows if row["nics"] or selection is None]
        if "rdma" in subset:
            found["rdma"] = selected(self.rdma())
        if "gids" in subset:
            ports = {(row["device"], row["port"]) for row in selected(self.rdma())}
            found["gids"] = [row for row in self.gids() if (row["device"], row["port"]) in ports]
        if "gpus" in subset:
            found["gpus"] = self.gpus()
        if "vfs" in subset:
            found["vfs"] = self.vfs(selected(self.nics))
        if "ip" in subset:
            found["ip"] = self.ip(selected([*self.nics, *self.interfaces]))
        if any(part in subset for part in BY_NAME):
            found.update(self._by_name(subset, selected(self.nics), selected(self.interfaces), listen))
        return found

    def selection(self, netdevs: t.Sequence[str] | None, functions: t.Sequence[str] | None) -> Selection | None:
        """Return the ports and interfaces that belong to these netdevs and PCI addresses; None for all."""
        if netdevs is None and functions is None:
            return None
        return self._interfaces.selection(netdevs or (), functions or ())

    def _by_name(
        self, subset: t.Sequence[str], nics: t.Sequence[Row], interfaces: t.Sequence[Row], listen: float
    ) -> Row:
        from ansible_collections.railyard.fabric.plugins.module_utils._node.metrics import port_counters
        from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import counters, lldp, sysctl

        system = self._system
        found: Row = {}
        netdevs = [row["netdev"] for row in [*nics, *interfaces] if row["netdev"] in self.links]
        rails = [row for row in nics if not row["management_path"]]
        if "sysctls" in subset:
            found["sysctls"] = {name: {key: sysctl.effective(system, name, key) for key in SYSCTLS} for name in netdevs}
        if "nvlink" in subset:
            from ansible_collections.railyard.fabric.plugins.module_utils._node.info import nvlink_state

            found["nvlink"] = nvlink_state.look(system)
        if "duplicates" in subset:
            # a VRF has no neighbours: its members have the neighbours of its address
            asking = [row for row in interfaces if not row["management_path"] and row["kind"] != "vrf"]
            found["duplicates"] = self._duplicates([*rails, *asking])
        if "lldp" in subset:
            # without management ports, which may never receive a frame, and InfiniBand, which does not have LLDP
            names = [row["netdev"] for row in rails if row["link_layer"] == "ethernet"]
            up = {name: self.links[name].ifindex for name in names if self.links[name].carrier}
            found["lldp"] = lldp.look(system, up, listen)
        if "counters" in subset:
            functions = {row["pci"] for row in nics}
            ports = [row for row in self.rdma() if row["netdev"] in netdevs or row["pci"] in functions]
            found["counters"] = port_counters.look(system, netdevs, counters.names(ports))
        return found

    def _duplicates(self, rows: t.Sequence[Row]) -> list[Row]:
        asked: dict[str, list[str]] = {}
        for row in self.ip([row for row in rows if row["carrier"]])["addresses"]:
            if ":" not in row["address"]:
                asked.setdefault(row["netdev"], []).append(row["address"].partition("/")[0])
        macs = {row["netdev"]: row["mac"] for row in [*self.nics, *self.interfaces]}
        return duplicates(asked, macs, ARP_PATIENCE)

    # -- the node -----------------------------------------------------------------------------------------------------

    @functools.cached_property
    def management(self) -> ManagementPath:
        return (self._management_of or ManagementPath.observe)(self._system)

    # -- ports --------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def links(self) -> dict[str, Link]:
        if self._links:
            return {link.name: link for link in self._links()}
        from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink

        with Rtnetlink() as table:
            return {link.name: link for link in table.links()}

    @functools.cached_property
    def netdevs(self) -> dict[str, list[str]]:
        """Netdevs by PCI function, including those of another bus (virtio) on it, without representors of VFs."""
        system = self._system
        found: dict[str, list[str]] = {}
        for name in system.listdir("/sys/class/net"):
            function = management_path.netdev_pci(system, name)
            if function:
                found.setdefault(function, []).append(name)
        for function, names in found.items():
            if len(names) > 1:
                found[function] = [name for name in names if not pci_functions.is_representor(system, name)]
        return found

    @functools.cached_property
    def nics(self) -> list[Row]:
        """The network PFs: a row per netdev, and a row for a function without netdev in this namespace."""
        from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import vf_holders

        system = self._system
        functions = [each for each in pci_functions.network_functions(system) if not dma_functions.is_one(system, each)]
        functions += [
            function
            for function in self.netdevs
            if function not in functions and not pci_functions.physical_function(system, function)
        ]
        names = [name for function in functions for name in self.netdevs.get(function, [])]
        drivers, permanent = self._driver_infos(names), self._permanent_addresses(names)
        labels = pci_functions.slots(system)
        gpus = [(row["index"], dma_functions.place(system, row["pci"])) for row in self._gpus]
        found = []
        for function in sorted(functions):
            places = self._dma.places(function)
            path, numa_node = places[0]
            near = {index: dma_functions.proximity(places, gpu) for index, gpu in gpus}
            best = min(near.values(), key=pci_functions.PROXIMITIES.index) if near else None
            card = self._card(function)
            shared = {
                "pci": function,
                "pci_path": path,
                "vendor": pci_functions.hexadecimal(system, function, "vendor"),
                "device": pci_functions.hexadecimal(system, function, "device"),
                "driver": system.link_name(pci_functions.attribute(function, "driver")),
                "slot": pci_functions.slot(path, labels),
                "serial": card.serial,
                "part_number": card.part_number,
                "product_name": card.name,
                "numa_node": numa_node,
                "pcie": pci_functions.link(system, function),
                "rdma": pci_functions.rdma_devices(system, function),
                "gpus": [index for index, proximity in near.items() if proximity == best],
                "gpu_proximity": best,
                "vfs": pci_functions.number(system, function, "sriov_numvfs"),
                "max_vfs": pci_functions.number(system, function, "sriov_totalvfs"),
                "management_path": self.management.why_card(function) if self.management.known else None,
            }
            netdevs: list[str | None] = [*self.netdevs.get(function, [])]
            # the holder of a netdev that was moved to another network namespace
            moved = None if netdevs else vf_holders.moved(system, [function]).get(function)
            shared["holders"] = [moved.why] if moved else []
            shared["rdma_holders"] = vf_holders.rdma_holders(system, function)
            rows = [dict(shared, **self._netdev(name, drivers, permanent)) for name in netdevs or [None]]
            if moved:
                # a plan may identify the port by its MAC
                rows[0]["mac"] = rows[0]["permanent_mac"] = moved.mac
            found += rows
        return found

    @functools.cached_property
    def _interfaces(self) -> Interfaces:
        ports = {
            name: function
            for function, names in self.netdevs.items()
            if not pci_functions.physical_function(self._system, function)
            for name in names
        }
        return Interfaces(self.links, ports)

    @property
    def interface_names(self) -> list[str]:
        return list(self._interfaces.lower)

    @functools.cached_property
    def interfaces(self) -> list[Row]:
        """The bonds, VLANs, bridges, teams and VRFs above the network PFs."""
        if not self._interfaces.lower:
            return []
        sock = self._rdma_socket
        return self._interfaces.rows(
            self._system, self.management, rdma_netlink.links(sock, self._devices) if sock else []
        )

    def _card(self, function: str) -> vpd.Vpd:
        """Return the vital product data of a function. It is read once for all functions of a card."""
        device = function.rpartition(".")[0]
        if device not in self._vpds:
            self._vpds[device] = vpd.read(self._system, pci_functions.attribute(function, "vpd"))
        return self._vpds[device] or vpd.Vpd(None, None, None)

    @functools.cached_property
    def _dma(self) -> dma_functions.DmaFunctions:
        return dma_functions.DmaFunctions(self._system, lambda function: self._card(function).uuid)

    def _netdev(self, name: str | None, drivers: t.Mapping[str, DriverInfo], permanent: t.Mapping[str, bytes]) -> Row:
        link = self.links.get(name or "")
        info, permanent_mac = drivers.get(name or ""), permanent.get(name or "")
        speed = self._system.read_int("/sys/class/net/%s/speed" % name) if name else None
        return {
            "netdev": name,
            "master": self._interfaces.master(link),
            "altnames": list(link.altnames) if link else [],
            "mac": hardware_address(link.address) if link and link.address else None,
            "permanent_mac": hardware_address(permanent_mac) if permanent_mac else None,
            "link_layer": None if not link else "infiniband" if link.type == ARPHRD_INFINIBAND else "ethernet",
            "up": link.up if link else None,
            "operstate": link.operstate.lower() if link else None,
            "carrier": link.carrier if link else None,
            "mtu": link.mtu if link else None,
            "max_mtu": (link.max_mtu or None) if link else None,
            "speed": speed if speed and speed > 0 else None,
            "firmware": info.firmware if info else None,
        }

    def _driver_infos(self, names: t.Sequence[str]) -> dict[str, DriverInfo]:
        if self._drivers:
            return self._drivers(names)
        from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import ethtool

        return ethtool.driver_infos(names)

    def _permanent_addresses(self, names: t.Sequence[str]) -> dict[str, bytes]:
        addresses = {name: self.links[name].permanent for name in names if name in self.links}
        unknown = [name for name, address in addresses.items() if not address]
        if unknown and self._permanent:
            addresses.update(self._permanent(unknown))
        elif unknown:
            # kernels before 5.6 do not report it over rtnetlink
            from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import ethtool

            addresses.update(ethtool.permanent_addresses(unknown))
        return addresses

    # -- RDMA ---------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _rdma_socket(self) -> NetlinkSocket | None:
        return self._connect(self._system)

    @functools.cached_property
    def _devices(self) -> list[Row]:
        return rdma_netlink.devices(self._rdma_socket) if self._rdma_socket else []

    @functools.cached_property
    def _reports(self) -> dict[str, DeviceReport]:
        """The reports of libibverbs by device. The library is loaded only if a device exists."""
        ports = {row["name"]: row["ports"] or 1 for row in self._devices if not row["parent"]}
        if not ports:
            return {}
        if self._verbs:
            return self._verbs(ports)
        from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import verbs

        return verbs.ask(ports)

    def rdma(self) -> list[Row]:
        """Return a row per port of an RDMA device."""
        sock = self._rdma_socket
        if not sock:
            return []
        devices = {row["name"]: row for row in self._devices}
        kinds = {name: rdma_netlink.link_type(sock, self._system, row) for name, row in devices.items()}
        reports = self._reports
        return [
            rdma_ports.row(
                self._system, link, devices[link["device"]], kinds[link["device"]], reports.get(link["device"])
            )
            for link in rdma_netlink.links(sock, self._devices)
        ]

    def gids(self) -> list[Row]:
        """Return the used entries of the GID tables, in the order of device, port and index."""
        from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import gids

        names = {link.ifindex: name for name, link in self.links.items()}
        found: list[Row] = []
        for device in (row for row in self._devices if not row["parent"]):
            name = device["name"]
            report = self._reports.get(name)
            if report is None or report.gids is None:
                found += gids.from_sysfs(self._system, name)
            else:
                found += [gids.row(name, g.port, g.place, g.gid, g.kind, names.get(g.netdev)) for g in report.gids]
        return found

    # -- GPUs and VFs -------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _gpus(self) -> list[Row]:
        system = self._system
        return [
            {
                "index": index,
                "pci": function,
                "maker": pci_functions.GPU_VENDORS[pci_functions.hexadecimal(system, function, "vendor") or ""],
                "device": pci_functions.hexadecimal(system, function, "device"),
                "driver": system.link_name(pci_functions.attribute(function, "driver")),
                "numa_node": pci_functions.numa_node(system, function),
            }
            for index, function in enumerate(pci_functions.gpu_functions(system))
        ]

    def gpus(self) -> list[Row]:
        """Return the GPUs with the proximity of each NIC, in the order in which their drivers number them."""
        system = self._system
        nics = {row["pci"]: self._dma.places(row["pci"]) for row in self.nics}
        found = []
        for row in self._gpus:
            gpu = dma_functions.place(system, row["pci"])
            near = {nic: dma_functions.proximity(places, gpu) for nic, places in nics.items()}
            found.append(dict(row, pcie=pci_functions.link(system, row["pci"]), nics=near))
        return found

    def vfs(self, nics: t.Sequence[Row]) -> list[Row]:
        """Return the VFs of these NICs with their holders."""
        system = self._system
        pfs = {row["pci"]: row["netdev"] for row in reversed(nics)}
        functions = {pf: pci_functions.virtual_functions(system, pf) for pf in pfs}
        all_vfs = [vf for vfs in functions.values() for vf in vfs]
        if not all_vfs:
            return []
        from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink
        from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import vf_holders

        found: list[Row] = []
        with Rtnetlink() as table:
            holders = vf_holders.of(system, all_vfs, table)
            for pf in sorted(pfs):
                attributes = _attributes(table, pfs[pf]) if functions[pf] else {}
                for index, vf in enumerate(functions[pf]):
                    netdevs = self.netdevs.get(vf)
                    found.append(
                        {
                            "pf": pf,
                            "pf_netdev": pfs[pf],
                            "index": index,
                            "pci": vf,
                            "driver": system.link_name(pci_functions.attribute(vf, "driver")),
                            "netdev": netdevs[0] if netdevs else None,
                            "rdma": pci_functions.rdma_devices(system, vf),
                            "attributes": attributes.get(index),
                            "holders": holders[vf],
                        }
                    )
        return found

    def ip(self, rows: t.Sequence[Row]) -> Row:
        """Return the IP configuration of these ports and interfaces."""
        names = {self.links[row["netdev"]].ifindex: row["netdev"] for row in rows if row["netdev"] in self.links}
        if not names:
            return {"addresses": [], "routes": [], "rules": []}
        from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import ip_state
        from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink

        with (self._table or Rtnetlink)() as table:
            return ip_state.look(table, names)


def _attributes(table: Rtnetlink, netdev: str | None) -> dict[int, Row]:
    """Return VF attributes by index; empty if a NIC has more VFs than the kernel can put into one message."""
    try:
        link = table.link(netdev, vfs=True) if netdev else None
    except NetlinkError as error:
        if error.errno != errno.EMSGSIZE:
            raise
        link = None
    rows = link.vfs if link else ()
    return {row["index"]: {key: row[key] for key in row if key != "index"} for row in rows}


def look(options: t.Mapping[str, t.Any], system: System) -> Row:
    """Return the requested parts. ``options``: of module rail_info."""
    subset = SUBSETS if "all" in options["subset"] else options["subset"]
    subset = [*subset, *(part for part in BY_NAME if part in options["subset"])]
    node = Info(system)
    found = node.look(subset, options["netdevs"], options["pci"], options["listen"])
    if any(part in options["subset"] for part in HOST_PARTS):
        from ansible_collections.railyard.fabric.plugins.module_utils._node.info import host_info

        selection = node.selection(options["netdevs"], options["pci"])
        netdevs, functions = (sorted(selection.netdevs), sorted(selection.functions)) if selection else (None, None)
        interfaces = node.interface_names if "limits" in options["subset"] else []
        found.update(host_info.look(system, options["subset"], netdevs, functions, interfaces))
    return found

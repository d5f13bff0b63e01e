# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Health and cordons of rails and slots. The kubelet does not allocate devices of a rail that is down or cordoned."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import cdi_files, stacked_ports
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import (
    AgentSpec,
    Device,
    RailSpec,
    SlotSpec,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.host_links import port_name, vf_pci
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import Holder
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.service_process import Problems
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.cordon_file import Cordon, cordons
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.kubelet_messages import DeviceState
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.pci_functions import numa_node

ADMINISTRATOR = "by an administrator"
UNREAD = "its link was not read yet"
# Type of soft RDMA devices -> kernel module.
SOFT_MODULES = {"rxe": "rdma_rxe", "siw": "siw"}


def check_rail(spec: AgentSpec, rail: str) -> None:
    """Raise :class:`.RailyardError` if the node does not have this rail."""
    rails = [each.rail for each in spec.rails]
    if rail not in rails:
        message = "unknown rail; node %s has %s" % (spec.node, ", ".join(rails))
        raise RailyardError(message, "rail %s" % rail, "use the name of one of these rails")


class Health(t.NamedTuple):
    """Why a rail cannot serve new pods. ``down``: the state of its port. ``cordon``: the reason of its cordon. Both are
    empty if the rail is healthy. ``members``: of its bond, or the planes of its NIC; None without both.
    """

    down: str = ""
    cordon: str = ""
    members: stacked_ports.Members | None = None

    @property
    def healthy(self) -> bool:
        return not (self.down or self.cordon)

    @property
    def reason(self) -> str:
        return "; ".join(filter(None, [self.down, self.cordon and "cordoned: " + self.cordon]))

    @property
    def degraded(self) -> str:
        """Why the bond or NIC of a rail that serves pods carries less than planned; empty otherwise."""
        return "; ".join(self.members.problems) if self.members and not self.down else ""


def look(
    spec: AgentSpec,
    holders: t.Iterable[Holder],
    cordoned: t.Mapping[str, Cordon],
    rdma: t.Mapping[tuple[str, int | None], str],
    system: System,
) -> dict[str, Health]:
    """Return rail -> health. ``cordoned``: by rail. ``rdma``: of :func:`rdma_down`. Raises :class:`.NetlinkError`."""
    with Rtnetlink() as kernel:
        links = {link.name: link for link in kernel.links()}
    by_index = {link.ifindex: link for link in links.values()}
    # a port that is in a pod is healthy until it returns
    away = {row["rail"] for holder in holders for row in holder.interfaces if row.get("host")}

    def find(which: int | str) -> Link | None:
        return by_index.get(which) if isinstance(which, int) else links.get(which)

    members = {rail.rail: stacked_ports.members(system, rail) for rail in spec.rails}

    def reason(rail: RailSpec) -> str:
        link = find(port_name(system, rail))
        port = down(rail, link, rail.attachment == "host-device" and rail.rail in away)
        planes = members[rail.rail] if rail.planes else None
        if planes and link and link.up:
            # the NIC distributes packets over the remaining planes
            port = "" if planes.active else "no plane of %s carries traffic" % rail.netdev
        if link and not port:
            port = stacked_ports.difference(system, find, rail, link)
        return "; ".join(filter(None, [port, rdma.get((rail.rail, None), "")]))

    def cordon(rail: RailSpec) -> str:
        return (cordoned[rail.rail].reason or ADMINISTRATOR) if rail.rail in cordoned else ""

    return {rail.rail: Health(reason(rail), cordon(rail), members[rail.rail]) for rail in spec.rails}


def down(rail: RailSpec, link: Link | None, away: bool) -> str:
    """Return why a rail's port cannot serve pods; empty if it can.

    :param link: the port; None if the node does not have it.
    :param away: whether it is in a pod.
    """
    if link is None:
        return "" if away else "%s is not on the node" % rail.netdev
    if not link.up:
        return "%s is set down" % rail.netdev
    return "" if link.carrier else "%s has no carrier" % rail.netdev


def rdma_down(spec: AgentSpec, holders: t.Iterable[Holder], system: System) -> dict[tuple[str, int | None], str]:
    """Return why RDMA of a rail or slot cannot serve pods: rail and slot number -> reason.

    The number is None if the reason is the same for all slots of the rail. With VFs, each slot has an RDMA device, and
    that of the port is not given to pods. In RDMA mode exclusive, a device that is in a pod is not on the node.
    """
    away = set()
    if spec.rdma_mode == "exclusive":
        away = {(row["rail"], row.get("rdma")) for holder in holders for row in holder.interfaces}
    found: dict[tuple[str, int | None], str] = {}
    for rail in spec.rails:
        if rail.soft:
            # the layer rdma_links and the boot program load it for the port's own device; the unit may not load modules
            module = SOFT_MODULES[rail.rdma_type]
            loaded = system.exists("/sys/module/" + module)
            found[rail.rail, None] = "" if loaded else "the kernel module %s is not loaded" % module
        elif rail.has_vfs:
            for slot in rail.slots:
                found[rail.rail, slot.number] = _vf_down(spec, rail, slot, system)
        elif rail.rdma and (rail.rail, rail.rdma) not in away:
            found[rail.rail, None] = _device_down(spec, rail, system)
    return {place: reason for place, reason in found.items() if reason}


def _vf_down(spec: AgentSpec, rail: RailSpec, slot: SlotSpec, system: System) -> str:
    name = "VF %s of %s" % (slot.vf, rail.netdev)
    if vf_pci(system, rail, slot) is None:
        return "%s is not on the node" % name
    if rail.rdma and not cdi_files.verbs(system, spec, rail, slot):
        return "%s has no RDMA device with a verbs file" % name
    return ""


def _device_down(spec: AgentSpec, rail: RailSpec, system: System) -> str:
    """Return why the planned RDMA device of a port cannot serve pods: it is absent, or belongs to another port."""
    directory = "/sys/class/infiniband/%s" % rail.rdma
    if not system.exists(directory):
        return "the RDMA device %s is not on the node" % rail.rdma
    netdev = port_name(system, rail)
    ports = {*rail.functions, _parent("/sys/class/net/" + netdev, system)} - {None}
    parent = _parent(directory, system)
    # a device of several ports, such as a bond, belongs to the netdevs of all of them
    if parent and ports and parent not in ports and netdev not in _netdevs(directory, system):
        return "the RDMA device %s belongs to %s, and not to %s" % (rail.rdma, parent, rail.netdev)
    if not cdi_files.verbs(system, spec, rail):
        return "the RDMA device %s has no verbs file, as without the kernel module ib_uverbs" % rail.rdma
    return ""


def _parent(directory: str, system: System) -> str | None:
    """Return the name of the device, usually a PCI function, that a netdev or RDMA device in sysfs belongs to."""
    link = directory + "/device"
    return os.path.basename(system.real_path(link)) if system.link_target(link) else None


def _netdevs(directory: str, system: System) -> set[str]:
    """Return the netdevs of the ports of an RDMA device."""
    ports = ["%s/ports/%s/gid_attrs/ndevs" % (directory, port) for port in system.listdir(directory + "/ports")]
    return {system.read("%s/%s" % (port, index)) or "" for port in ports for index in system.listdir(port)}


class DeviceHealth:
    """The health of the devices of a node file. :meth:`look` observes it, and logs each change."""

    def __init__(self, system: System, problems: Problems) -> None:
        self._system = system
        self._problems = problems
        self._rails: dict[str, Health] = {}
        self._rdma_down: dict[tuple[str, int | None], str] = {}
        self._numa: dict[str, int | None] = {}

    def follow(self, spec: AgentSpec) -> None:
        """Follow another node file."""
        self._numa = {rail.rail: self._numa_node(rail) for rail in spec.rails}

    @property
    def incomplete(self) -> bool:
        """Whether an RDMA device is missing. Not every kernel reports one that appears."""
        return bool(self._rdma_down)

    def look(self, spec: AgentSpec, holders: t.Collection[Holder]) -> None:
        """Observe links, RDMA devices and cordons. Raises :class:`.RailyardError`."""
        rdma = rdma_down(spec, holders, self._system)
        observed = look(spec, holders, cordons(self._system).all(), rdma, self._system)
        for rail, health in observed.items():
            before_rail = self._rails.get(rail, Health())
            if (before_rail.reason, before_rail.degraded) != (health.reason, health.degraded):
                degraded = health.degraded and "is degraded: " + health.degraded
                self._problems.log("rail %s: %s" % (rail, health.reason or degraded or "is healthy again"))
        before = self.slot_problems()
        self._rails, self._rdma_down = observed, rdma
        self._problems.log_new(before, self.slot_problems())

    def rail(self, rail: str) -> Health:
        return self._rails.get(rail, Health(UNREAD))

    def slot_problems(self) -> list[str]:
        """Return a problem per slot whose RDMA device is missing, if the others of its rail are not affected."""
        rows = sorted(
            (rail, number, reason) for (rail, number), reason in self._rdma_down.items() if number is not None
        )
        return ["slot %d of rail %s: %s" % (number, rail, reason) for rail, number, reason in rows]

    def device_state(self, device: Device) -> DeviceState:
        """Return the state of a device for the kubelet."""
        rails = {rail: self.rail(rail) for rail in device.slots}
        for rail, slot in device.slots.items():
            reason = self._rdma_down.get((rail, slot.number))
            if reason:
                rails[rail] = rails[rail]._replace(down="; ".join(filter(None, [rails[rail].down, reason])))
        bad = {rail: health for rail, health in rails.items() if not health.healthy}
        reason = "; ".join("rail %s: %s" % (rail, health.reason) for rail, health in bad.items())
        nodes = {self._numa[rail] for rail in device.slots}
        numa = tuple(sorted(node for node in nodes if node is not None))
        cordoned = bool(bad) and not any(health.down for health in bad.values())
        return DeviceState(device.id, not bad, numa, reason, cordoned)

    def _numa_node(self, rail: RailSpec) -> int | None:
        if rail.functions:
            # one card has all functions of a bond
            return numa_node(self._system, rail.functions[0])
        node = self._system.read_int("/sys/class/net/%s/device/numa_node" % rail.netdev)
        return None if node is None or node < 0 else node

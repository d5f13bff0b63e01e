# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The node file of the rail agent: the rails of this node, their slots, and the devices that the kubelet allocates.

A slot is what one pod holds on one rail port, with the interface, MAC and addresses of the plan. A device is what a
container requests: one slot of one rail (resource ``gpu01``), or the slots with the same number on all rails (resource
``rails``).
"""

from __future__ import annotations

import ipaddress
import json
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rail_routes import RouteSpec
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import IP, Interface

FILE = "/etc/railyard/agent.json"
FORMAT = 1
REMEDY = "run the playbook again, which writes the file"
# The resource whose devices have a slot on every rail.
ALL_RAILS = "rails"
ATTACHMENTS = ("macvlan", "ipvlan", "ipoib", "sriov", "ib-sriov", "host-device")
RDMA_MODES = ("shared", "exclusive")
# How the kubelet gets devices from the agent: by device plugins, or by a driver of Dynamic Resource Allocation.
DEVICE_PLUGIN, DRA = "device-plugin", "dra"
KUBELET_PLUGINS = (DEVICE_PLUGIN, DRA)
# The address of metrics if the node file does not have one.
METRICS = "127.0.0.1:9465"
# Types of RDMA devices that the agent makes on a pod's interface. Other devices belong to a port or VF.
SOFT_RDMA = ("rxe", "siw")


class SlotSpec(t.NamedTuple):
    """One slot of a rail. ``vf``: the index of its VF. ``mac``: None if the interface keeps the MAC that it has."""

    number: int
    resource: str
    address: Interface | None
    address6: Interface | None
    mac: str | None
    vf: int | None

    @property
    def addresses(self) -> list[Interface]:
        """IPv4 and IPv6, if the slot has them."""
        return [each for each in (self.address, self.address6) if each]


class LowerSpec(t.NamedTuple):
    """The interfaces and functions below a VLAN or bond. ``vlan``: its id. ``parent``: the parent of the VLAN.
    ``bond``: the name of the bond. ``functions``: the PCI addresses of the members, or of the only function.
    """

    vlan: int | None
    parent: str | None
    bond: str | None
    functions: tuple[str, ...]


class PlaneSpec(t.NamedTuple):
    """A plane over which the NIC of a rail distributes packets. ``number``: from 1. ``rdma_port``: the number of the
    port of the RDMA device that carries it. ``pci``: its function. One of the two is not None.
    """

    number: int
    rdma_port: int | None
    pci: str | None


class NcclSpec(t.NamedTuple):
    """The fields of NCCL_IB_HCA for a slot's RDMA device: the numbers of its ports, its rail and its plane. ``ports``:
    empty for every port. ``rail``, ``plane``: None if the entry does not have it.
    """

    ports: tuple[int, ...]
    rail: int | None
    plane: int | None


class RailSpec(t.NamedTuple):
    """One rail of the node. ``netdev``: the port; its PCI address if the plan does not name the netdev. ``table``: the
    rail's routing table in the pod; None without one. ``speed``: Gb/s, as planned. ``lower``: None if the port is the
    interface of its only function. ``rdma_port``: the number of the RDMA device's port; None if it has one port.
    ``nccl``: None if NCCL gets no rail and plane. ``planes``: empty unless the plan lists what carries them.
    """

    rail: str
    number: int
    netdev: str
    pci: str | None
    rdma: str | None
    rdma_type: str
    interface: str
    mtu: int | None
    table: int | None
    rule_priority: int | None
    gateway: IP | None
    gateway6: IP | None
    routes: tuple[RouteSpec, ...]
    sysctl: dict[str, str]
    slots: tuple[SlotSpec, ...]
    plane: int | None
    leaf: str | None
    speed: int | None
    attachment: str
    lower: LowerSpec | None
    rdma_port: int | None
    nccl: NcclSpec | None
    planes: tuple[PlaneSpec, ...]

    @property
    def moved(self) -> bool:
        """Whether an interface of the node is moved to the pod, and returns when the pod ends."""
        return self.has_vfs or self.attachment == "host-device"

    @property
    def has_vfs(self) -> bool:
        """Whether a slot is a VF of the port."""
        return self.attachment in ("sriov", "ib-sriov")

    @property
    def functions(self) -> tuple[str, ...]:
        """The PCI addresses of the functions below the interface that the plan has."""
        if self.lower:
            return self.lower.functions
        of_planes = tuple([plane.pci for plane in self.planes if plane.pci])
        if of_planes:
            return of_planes
        return (self.pci,) if self.pci else ()

    @property
    def soft(self) -> bool:
        return self.rdma_type in SOFT_RDMA

    @property
    def gateways(self) -> list[IP]:
        """IPv4 and IPv6, if the rail has them."""
        return [each for each in (self.gateway, self.gateway6) if each]


class Device(t.NamedTuple):
    """What a container requests. ``slots``: rail -> slot, in the order of the rails."""

    id: str
    resource: str
    number: int
    slots: dict[str, SlotSpec]


class AgentSpec(t.NamedTuple):
    """The node file. ``attachment``: that of rails without their own. ``metrics``: address and port of metrics; None:
    they are off. ``kubeconfig``: of the DRA driver; None: the kubelet's.
    """

    fabric: str
    node: str
    resource_prefix: str
    attachment: str
    rdma_mode: str
    conflict_check: bool
    gateway_check: bool
    metrics: str | None
    kubelet_plugin: str
    kubeconfig: str | None
    env: dict[str, str]
    rails: tuple[RailSpec, ...]

    def rail(self, name: str) -> RailSpec:
        return next(rail for rail in self.rails if rail.rail == name)

    def resources(self) -> dict[str, list[Device]]:
        """Return resource -> its devices in the order of their numbers; ``rails`` first."""
        slots: dict[str, dict[int, dict[str, SlotSpec]]] = {ALL_RAILS: {}}
        for rail in self.rails:
            for slot in rail.slots:
                slots.setdefault(slot.resource, {}).setdefault(slot.number, {})[rail.rail] = slot
        return {
            resource: [
                Device(device_id(resource, number), resource, number, by_rail)
                for number, by_rail in sorted(numbers.items())
            ]
            for resource, numbers in slots.items()
            if numbers
        }

    def device(self, identity: str) -> Device | None:
        """Return a device by its id; None if the node file does not have it."""
        matching = (device for devices in self.resources().values() for device in devices if device.id == identity)
        return next(matching, None)


def device_id(resource: str, number: int) -> str:
    """Return the id of a device, such as ``gpu01-4``."""
    return "%s-%d" % (resource, number)


def read_spec(system: System) -> AgentSpec:
    """Return the content of the node file. Raises :class:`RailyardError` if it is missing or wrong."""
    text = system.read_file(FILE)
    if text is None:
        raise RailyardError("the node file of the rail agent does not exist", FILE, REMEDY)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RailyardError("is not JSON: %s" % error, FILE, REMEDY) from None
    return parse_spec(document)


def parse_spec(document: t.Any) -> AgentSpec:
    """Check the document of a node file, and return its content. Raises :class:`RailyardError` if it is wrong."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        file_format = document.get("format") if isinstance(document, dict) else None
        raise RailyardError("format is %r, and this agent reads format %d" % (file_format, FORMAT), FILE, REMEDY)
    try:
        spec = AgentSpec(
            fabric=str(document["fabric"]),
            node=str(document["node"]),
            resource_prefix=str(document["resource_prefix"]),
            attachment=_one_of(document, "attachment", ATTACHMENTS),
            rdma_mode=_one_of(document, "rdma_mode", RDMA_MODES),
            conflict_check=bool(document.get("conflict_check", True)),
            gateway_check=bool(document.get("gateway_check", False)),
            metrics=_text({"metrics": METRICS, **document}, "metrics"),
            kubelet_plugin=_one_of({"kubelet_plugin": DEVICE_PLUGIN, **document}, "kubelet_plugin", KUBELET_PLUGINS),
            kubeconfig=_text(document, "kubeconfig"),
            env=_strings(document.get("env")),
            rails=tuple(_rail({"attachment": document["attachment"], **row}) for row in document["rails"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise RailyardError("a value is missing or wrong: %r" % error, FILE, REMEDY) from None
    _check_unique(spec)
    return spec


def _rail(row: dict[str, t.Any]) -> RailSpec:
    return RailSpec(
        rail=str(row["rail"]),
        number=int(row["number"]),
        netdev=str(row["netdev"] or row["pci"]),
        pci=row.get("pci"),
        rdma=row.get("rdma"),
        rdma_type=str(row.get("rdma_type") or "hardware"),
        interface=str(row["interface"]),
        mtu=_number(row, "mtu"),
        table=_number(row, "table"),
        rule_priority=_number(row, "rule_priority"),
        gateway=_ip(row, "gateway"),
        gateway6=_ip(row, "gateway6"),
        routes=tuple(
            RouteSpec(ipaddress.ip_network(route["to"]), _ip(route, "via"), _number(route, "table"))
            for route in row.get("routes") or []
        ),
        sysctl=_strings(row.get("sysctl")),
        slots=tuple(
            SlotSpec(
                number=int(slot["number"]),
                resource=str(slot["resource"]),
                address=_interface(slot, "address"),
                address6=_interface(slot, "address6"),
                mac=slot.get("mac"),
                vf=_number(slot, "vf"),
            )
            for slot in row["slots"]
        ),
        plane=_number(row, "plane"),
        leaf=row.get("leaf"),
        speed=_number(row, "speed"),
        attachment=_one_of(row, "attachment", ATTACHMENTS),
        lower=_lower(row),
        rdma_port=_number(row, "rdma_port"),
        nccl=_nccl(row),
        planes=_planes(row),
    )


def _planes(row: dict[str, t.Any]) -> tuple[PlaneSpec, ...]:
    planes = [
        PlaneSpec(int(each["plane"]), _number(each, "rdma_port"), _text(each, "pci"))
        for each in row.get("planes") or ()
    ]
    nameless = [plane.number for plane in planes if plane.pci is None and not (plane.rdma_port and row.get("rdma"))]
    if nameless:
        raise ValueError("rail %s has neither a function nor an RDMA port for plane %d" % (row["rail"], nameless[0]))
    return tuple(planes)


def _nccl(row: dict[str, t.Any]) -> NcclSpec | None:
    numbers = row.get("nccl")
    if numbers is None:
        return None
    ports = tuple(int(number) for number in numbers["ports"])
    return NcclSpec(ports, _number(numbers, "rail"), _number(numbers, "plane"))


def _lower(row: dict[str, t.Any]) -> LowerSpec | None:
    lower = row.get("lower")
    if lower is None:
        return None
    if row["attachment"] not in ("macvlan", "ipvlan"):
        # it is the node's own: the kernel removes a VLAN with the namespace of a pod, and does not move a bond
        raise ValueError("rail %s has attachment %s on a bond or VLAN" % (row["rail"], row["attachment"]))
    functions = tuple(str(each) for each in lower["functions"] if each)
    if not functions:
        raise ValueError("rail %s has no PCI function" % row["rail"])
    return LowerSpec(_number(lower, "vlan"), _text(lower, "parent"), _text(lower, "bond"), functions)


def _check_unique(spec: AgentSpec) -> None:
    checked: list[tuple[str, list[t.Any]]] = [
        ("rail", [rail.rail for rail in spec.rails]),
        ("interface", [rail.interface for rail in spec.rails]),
        ("address", [address.ip for rail in spec.rails for slot in rail.slots for address in slot.addresses]),
        ("slot", [(rail.rail, slot.number) for rail in spec.rails for slot in rail.slots]),
    ]
    for kind, values in checked:
        repeated = sorted({str(value) for value in values if values.count(value) > 1})
        if repeated:
            raise RailyardError("%s %s occurs several times" % (kind, ", ".join(repeated)), FILE, REMEDY)


def _one_of(row: dict[str, t.Any], key: str, values: t.Sequence[str]) -> str:
    if row[key] not in values:
        raise ValueError("%s is %r, not one of %s" % (key, row[key], ", ".join(values)))
    return str(row[key])


def _strings(values: dict[str, t.Any] | None) -> dict[str, str]:
    return {str(key): str(value) for key, value in (values or {}).items()}


def _text(row: dict[str, t.Any], key: str) -> str | None:
    if row.get(key) is not None and not isinstance(row[key], str):
        raise ValueError("%s is %r, not a text" % (key, row[key]))
    return row.get(key)


def _number(row: dict[str, t.Any], key: str) -> int | None:
    return None if row.get(key) is None else int(row[key])


def _ip(row: dict[str, t.Any], key: str) -> IP | None:
    return None if row.get(key) is None else ipaddress.ip_address(row[key])


def _interface(row: dict[str, t.Any], key: str) -> Interface | None:
    return None if row.get(key) is None else ipaddress.ip_interface(row[key])

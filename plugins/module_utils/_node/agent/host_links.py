# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The node's side of a slot: the port, VF or RDMA device of its interface, and their return from the pod."""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import (
    AgentSpec,
    RailSpec,
    SlotSpec,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.attach_request import AttachError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.pod_desired import place
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import Holder, Row
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.in_namespace import in_namespace
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import network_namespaces

PCI = "/sys/bus/pci/devices/%s"


class Source(t.NamedTuple):
    """The origin of a slot's interface. ``port``: its name in errors. ``ifindex``: of the interface on the node; None
    while it is in the pod. ``host``: state on the node of an interface that is moved; None if one is made on a port.
    """

    port: str
    ifindex: int | None
    rdma: str | None
    host: Row | None


def source(
    system: System, kernel: Rtnetlink, spec: AgentSpec, rail: RailSpec, slot: SlotSpec, before: Row | None
) -> Source:
    """Return the origin of a slot's interface, read from the node.

    :param before: the slot's row in the record of the same sandbox, from an earlier attach.
    :raises AttachError: reason ``port`` or ``rdma``, if the node does not have it.
    """
    pci = _pci(system, rail, slot) if spec.has_vfs else rail.pci
    port = rail.netdev if not spec.has_vfs else "VF %s of %s" % (slot.vf, rail.netdev)
    name = port_name(system, rail) if not spec.has_vfs else next(iter(system.listdir(PCI % pci + "/net")), "")
    link = kernel.link(name) if name else None
    host = (before or {}).get("host")
    if link is None and not (spec.moved and host):
        raise AttachError("port", place(rail, slot), port=port)
    if link is not None and spec.moved and host is None:
        host = {"name": link.name, "mtu": link.mtu, "up": link.up, "pci": pci}
    rdma = rail.rdma
    if rail.rdma is not None and spec.has_vfs and not rail.soft:
        # the VF's device may have any name; the VF's directory shows it even while it is in a pod
        rdma = next(iter(system.listdir(PCI % pci + "/infiniband")), (before or {}).get("rdma"))
        if rdma is None:
            raise AttachError("rdma", place(rail, slot), rdma="of " + port)
    return Source(port, None if link is None else link.ifindex, rdma, host)


def port_name(system: System, rail: RailSpec) -> str:
    if rail.netdev != rail.pci:
        return rail.netdev
    return next(iter(system.listdir(PCI % rail.pci + "/net")), rail.netdev)


def vf_pci(system: System, rail: RailSpec, slot: SlotSpec) -> str | None:
    """Return the PCI address of a slot's VF; None if the port does not have this VF."""
    port = PCI % rail.pci if rail.pci else "/sys/class/net/%s/device" % rail.netdev
    return system.link_name("%s/virtfn%s" % (port, slot.vf))


def _pci(system: System, rail: RailSpec, slot: SlotSpec) -> str:
    pci = vf_pci(system, rail, slot)
    if pci is None:
        raise AttachError("port", place(rail, slot), port="VF %s of %s" % (slot.vf, rail.netdev))
    return pci


def restore(system: System, kernel: Rtnetlink, holder: Holder) -> bool:
    """Restore name, MTU and state of interfaces that returned from a holder's namespace.

    :return: whether all of them have returned. An interface without a device or driver does not count.
    """
    rows = [row for row in holder.interfaces if row.get("host")]
    if not rows:
        return True
    links = kernel.links()
    returned = True
    for row in rows:
        host = row["host"]
        names = system.listdir(PCI % host["pci"] + "/net") if host["pci"] else []
        alias = holder.alias(row["rail"])
        link = next((candidate for candidate in links if candidate.alias == alias or candidate.name in names), None)
        if link is None:
            waiting = bool(host["pci"]) and system.exists(PCI % host["pci"] + "/driver")
            returned = returned and not waiting
            continue
        if link.name == host["name"] and link.alias != alias:
            # restored already, or never moved
            continue
        if link.name != host["name"]:
            kernel.set_link(link.ifindex, up=False)
        kernel.set_link(link.ifindex, name=host["name"], mtu=host["mtu"])
        kernel.set_link(link.ifindex, up=host["up"])
        # Last: the alias marks an interface that is not restored yet, also for an agent that starts after a kill.
        kernel.set_link(link.ifindex, alias="")
    return returned


def unrecorded(system: System, holders: t.Iterable[Holder]) -> list[str]:
    """Return a message per interface of the agent in a pod that is not recorded, as after the record was deleted."""
    known = {alias for holder in holders for alias in holder.aliases}

    def links() -> list[Link]:
        with Rtnetlink() as kernel:
            return kernel.links()

    messages = []
    for namespace in network_namespaces.others(system):
        # namespaces and processes may end during the loop
        with contextlib.suppress(OSError, RailyardError):
            with open("/proc/%d/ns/net" % min(namespace.processes, default=0), "rb") as stream:
                inside = in_namespace(stream.fileno(), links)
            for link in inside:
                words = (link.alias or "").split(" ")
                if len(words) == 4 and words[0] == "railyard" and link.alias not in known:
                    messages.append(
                        "device %s: its interface %s is in a pod that is not in the record of slots. Remedy: restart"
                        " the pod that crictl inspectp %s shows." % (words[1], link.name, words[2])
                    )
    return sorted(messages)

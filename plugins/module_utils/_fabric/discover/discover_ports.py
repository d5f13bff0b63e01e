# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The port of a rail in a profile: its interface, functions and RDMA device, as most nodes have them."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_findings import Findings
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.observed_nodes import most_common
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.observed_ports import Nic
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.server_models import Model
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Port
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.interface_model import Member, Plane
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import RDMA, RDMA_OF_KERNEL


def port_of(model: Model, rail: str, soft: str | None, findings: Findings) -> Port:
    """Return the port of a rail in the profile of a server model, and report nodes that differ.

    :param soft: the type of the soft RDMA devices of the model.
    """
    path = ("profiles", model.name, "ports", rail)
    ports = [(node.name, nic) for node, nic in model.on(rail)]
    bare = [node for node, nic in ports if nic.rdma is None and not nic.hidden]
    if bare:
        remedy = "load its driver, or set soft_rdma to rxe or siw in the profile"
        findings.add("DS402", path, "the port has no RDMA device", remedy, bare)
    common = model.nics[model.rails[rail]]
    # The device of a bond that cannot be in the plan is not that of its first member.
    device = None if common.bond and common.obstacle else most_common(nic.rdma for _node, nic in ports)
    if soft:
        _soft(path, rail, soft, ports, findings)
        device = None if device == "%s_%s" % (soft, rail) else device
    numbers = {(nic.rdma, nic.rdma_port) for _node, nic in ports if nic.rdma}
    number = numbers.pop()[1] if len(numbers) == 1 else None
    # Several ports have the device, so its name is needed, also if the kernel assigns it.
    numbered = number or any(plane.rdma_port for plane in common.planes)
    if not device or not RDMA.match(device) or (RDMA_OF_KERNEL.match(device) and not numbered):
        device = None
    else:
        odd = [node for node, nic in ports if nic.rdma and nic.rdma != device]
        if odd:
            message = "its RDMA device does not have the name %s" % device
            findings.add("DS405", path, message, "run hosts.yml, which sets this name", odd)
    port = _interface(path, model, rail, ports, findings)
    return port._replace(
        rdma=device, rdma_port=number if device else None, gpus=model.gpus[rail], planes=_planes(common)
    )


def _planes(nic: Nic) -> tuple[Plane, ...]:
    """Return the planes of a NIC that balances in hardware: the numbers of its RDMA ports, its functions, or both."""
    if len({plane.pci for plane in nic.planes}) == 1:
        return tuple([Plane(plane.rdma_port) for plane in nic.planes])
    return tuple([Plane(each.rdma_port, Member(pci=each.pci, netdev=each.netdev)) for each in nic.planes])


def _interface(
    path: tuple[str, ...], model: Model, rail: str, ports: t.Sequence[tuple[str, Nic]], findings: Findings
) -> Port:
    """Return the port of a rail with its interface and functions."""
    nic = model.nics[model.rails[rail]]
    for obstacle in dict.fromkeys(each.obstacle for _node, each in ports if each.obstacle):
        remedy = "end that before you run hosts.yml, which would otherwise refuse the port; or remove the rail"
        odd = [node for node, each in ports if each.obstacle == obstacle]
        findings.add("DS213", path, obstacle, remedy, odd)
    if nic.obstacle or not (nic.bond or nic.vlan):
        netdev = most_common(each.members[0].netdev if each.members else each.function_netdev for _node, each in ports)
        return Port(rail, path, netdev, None if nic.only_netdev else nic.pci)
    managed = None
    if not all(each.managed for _node, each in ports if each.netdev):
        managed = False
        message = "bonds and VLANs of rail ports are configured by others, so the plan only compares them"
        remedy = "to configure them with hosts.yml, remove managed, and the present configuration from the nodes"
        findings.add("DS214", ("profiles", model.name), message, remedy)
    vlan = most_common(each.vlan for _node, each in ports)
    bond = most_common(each.bond for _node, each in ports)
    if bond is None:
        netdev = most_common(each.function_netdev for _node, each in ports)
        return Port(rail, path, netdev, None if nic.only_netdev else nic.pci, vlan=vlan, managed=managed)
    odd = [node for node, each in ports if each.bond and each.bond != bond]
    if odd:
        message = "the bond has another name or other settings than %s with mode %s, as most nodes have" % bond[:2]
        remedy = "configure the same bond on all nodes" if managed is False else "run hosts.yml, which changes it"
        findings.add("DS408", path, message, remedy, odd)
    members = []
    for at, member in enumerate(bond.members):
        names = {node: each.members[at].netdev for node, each in ports if each.bond}
        common = most_common(names.values())
        members.append(member._replace(netdev=common))
        odd = [node for node, name in names.items() if name != common]
        if odd:
            message = "%s, a member of %s, does not have the name %s" % (member.pci, bond.name, common)
            remedy = "rename it" if managed is False else "run hosts.yml, which sets this name"
            findings.add("DS405", path, message, remedy, odd)
    primary = next((member.netdev for member in members if bond.primary and member.pci == bond.primary), None)
    return Port(rail, path, bond=bond._replace(members=tuple(members), primary=primary), vlan=vlan, managed=managed)


def _soft(path: tuple[str, ...], rail: str, soft: str, ports: t.Sequence[tuple[str, Nic]], findings: Findings) -> None:
    for node, nic in ports:
        if nic.rdma and RDMA_OF_KERNEL.match(nic.rdma):
            message = "its soft RDMA device is %s, a name that the kernel assigns; the plan has %s_%s" % (
                nic.rdma, soft, rail,
            )  # fmt: skip
            findings.add("DS406", path, message, "delete it before you run hosts.yml", [node])

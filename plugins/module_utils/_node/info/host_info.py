# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Host settings of a node, read by the subsystems of their modules.

Each part imports the code of a module, so it is read only if it is requested by name.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import netdev_pci

PARTS = ("pci", "kernel", "limits", "gpudirect", "qos", "driver", "infiniband")
Row = t.Dict[str, t.Any]
Builder = t.Callable[[t.Mapping[str, t.Any], System], Subsystem]


def look(
    system: System,
    parts: t.Sequence[str],
    netdevs: t.Sequence[str] | None = None,
    functions: t.Sequence[str] | None = None,
    interfaces: t.Sequence[str] = (),
) -> Row:
    """Return the requested :data:`PARTS`, each in the shape of its module's ``gathered``.

    :param netdevs: return rows of ports only for these netdevs and ``functions``.
    :param functions: PCI addresses.
    :param interfaces: netdevs above the ports, such as bonds, whose ``limits`` are read too.
    """
    host: Row = {}
    selected = None if netdevs is None and functions is None else _functions(system, netdevs or (), functions or ())
    for part in PARTS:
        if part not in parts:
            continue
        options: Row = {"state": "gathered"}
        if part == "limits":
            options["ports"] = [
                {"pci": function}
                for function in pci_functions.network_functions(system)
                if selected is None or function in selected
            ]
            options["ports"] += [{"netdev": name} for name in interfaces if netdevs is None or name in netdevs]
        state = dict(_builder(part)(options, system).observe())
        if selected is not None and part in ("pci", "qos", "infiniband"):
            state["ports"] = [row for row in state["ports"] if row["pci"] in selected]
        if selected is not None and part == "pci":
            state["bridges"] = [row for row in state["bridges"] if selected.intersection(row["ports"])]
            state["findings"] = [row for row in state["findings"] if row["port"] in selected]
        host[part] = state
    return host


def _functions(system: System, netdevs: t.Iterable[str], functions: t.Iterable[str]) -> set[str]:
    return {function for function in [netdev_pci(system, name) for name in netdevs] if function}.union(functions)


def _builder(part: str) -> Builder:
    if part == "pci":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.host.pci_tuning import PciTuning

        return PciTuning
    if part == "kernel":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.boot.kernel_arguments import KernelArguments

        return KernelArguments
    if part == "limits":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.host.rail_limits import RailLimits

        return RailLimits
    if part == "gpudirect":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.gpu.gpudirect_modules import GpuDirect

        return GpuDirect
    if part == "driver":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.nic_driver import NicDriver

        return NicDriver
    if part == "infiniband":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma.infiniband_ports import IbPorts

        return IbPorts
    from ansible_collections.railyard.fabric.plugins.module_utils._node.qos.roce_qos import RoceQos

    return RoceQos

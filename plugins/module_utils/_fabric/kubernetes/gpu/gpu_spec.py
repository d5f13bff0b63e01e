# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The planned GPUDirect path of the whole cluster, and the values of the GPU Operator's chart that follow from it.

The GPU Operator has one setting for all nodes. Values that no node sets are taken from the options, which must not
contradict the plan.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import gpudirect_paths as choice
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.gpu.gpu_settings import Wanted, as_yaml
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import Object, View
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.host_model import (
    AUTO,
    DMABUF,
    HOST,
    NONE,
    PEERMEM,
    PROPRIETARY,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.vendor_driver import CONTAINER
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry.vendor_drivers import INSTALLED


def values(view: View, options: Options) -> Object:
    """Return the values of the chart ``gpu-operator`` that the rails need. The user sets all others.

    With DMA-BUF, the kernel exports GPU memory to the NIC, which needs the open kernel modules and no nvidia-peermem.
    With peermem, the module is built against the RDMA core of the NIC driver: the host's, or the container's. Hosts
    with their own GPU driver load the modules themselves, and the operator installs none.
    """
    spec = wanted(view, options)
    peermem = spec.path == PEERMEM and spec.gpu_driver != HOST
    driver: Object = {
        "kernelModuleType": kind(spec),
        "rdma": {"enabled": peermem, "useHostMofed": peermem and spec.nic_driver != CONTAINER},
    }
    if spec.gpu_driver:
        driver["enabled"] = spec.gpu_driver == CONTAINER
    made: Object = {
        "driver": driver,
        "gdrcopy": {"enabled": spec.gdrcopy},
        # What changes them comes before the chart, as with all charts here.
        "operator": {"upgradeCRD": False},
    }
    if facts_of(view.provider).node_features:
        # Its chart contains Node Feature Discovery. A second one would overwrite its labels, and vice versa.
        made["nfd"] = {"enabled": False}
    return made


def nic_container(view: View | None, options: Options) -> bool:
    """Return whether the Network Operator installs the NIC driver.

    :raises RailyardError: if the option contradicts the plan.
    """
    kinds = {kind for kind in _values(view, "driver", "kind") if kind is not None}
    planned = None if not kinds else CONTAINER in kinds
    if options.driver and planned is not None and planned != (options.driver == CONTAINER):
        raise _contradiction("driver", options.driver, "driver: %s" % ", ".join(sorted(kinds)))
    return (options.driver == CONTAINER) if planned is None else planned


def wanted(view: View | None, options: Options) -> Wanted:
    """Return the planned settings of the GPU Operator.

    :raises RailyardError: if an option contradicts the plan.
    """
    # The operator does not change nodes with their own GPU driver. So if it installs the driver of some nodes, only
    # the settings of these count.
    drivers = _values(view, "gpudirect", "gpu_driver")
    containers = [node for node in _nodes(view) if (node.get("gpudirect") or {}).get("gpu_driver") == CONTAINER]
    gpu_driver = CONTAINER if CONTAINER in drivers else HOST if HOST in drivers else ""
    nodes = containers or _nodes(view)
    flavours = {each for each in _values(nodes, "gpudirect", "flavour") if each}
    path = _path(_values(nodes, "gpudirect", "path"), flavours, options)
    return Wanted(
        path=path,
        nic_driver=_nic_driver(view, nodes, options, path),
        gpu_driver=gpu_driver,
        gdrcopy=_gdrcopy(_values(nodes, "gpudirect", "gdrcopy"), options) and gpu_driver != HOST,
        flavour=flavours.pop() if len(flavours) == 1 else "",
    )


def kind(spec: Wanted) -> str:
    """Return the chart's ``driver.kernelModuleType``: open for DMA-BUF, which needs it; else the operator decides."""
    return spec.flavour or (choice.OPEN if spec.path == DMABUF else AUTO)


def _path(planned: t.Collection[t.Any], flavours: set[t.Any], options: Options) -> str:
    """Return the GPUDirect path. ``planned``: the paths of the nodes."""
    known = {path for path in planned if path not in (None, AUTO)}
    if options.gpudirect and known and options.gpudirect not in known:
        raise _contradiction("gpudirect", options.gpudirect, "gpudirect.path: %s" % ", ".join(sorted(known)))
    if options.gpudirect:
        return options.gpudirect
    # With nvidia-peermem, DMA-BUF still works on nodes that use it, but not vice versa. With `auto`, nodes whose GPU
    # driver cannot export DMA-BUF use nvidia-peermem.
    return next(
        (path for path in (PEERMEM, DMABUF, NONE) if path in known), PEERMEM if flavours == {PROPRIETARY} else DMABUF
    )


def _gdrcopy(values: t.Collection[t.Any], options: Options) -> bool:
    known = {each for each in values if each is not None}
    if options.gdrcopy is not None and known and options.gdrcopy not in known:
        given, planned = as_yaml(options.gdrcopy), as_yaml(not options.gdrcopy)
        raise _contradiction("gdrcopy", given, "gpudirect.gdrcopy: %s" % planned)
    return options.gdrcopy if options.gdrcopy is not None else (True in known if known else True)


def _nic_driver(view: View | None, nodes: t.Sequence[t.Any], options: Options, path: str) -> str:
    """Return the kind of NIC driver: ``inbox``, ``ofed`` or ``container``."""
    kinds = {each for each in _values(nodes, "driver", "kind") if each}
    if nic_container(view, options):
        return CONTAINER
    if kinds:
        return choice.OFED if kinds.intersection(INSTALLED) else choice.INBOX
    # Not set: nvidia-peermem is planned only where a driver exists that it can be built against.
    return choice.OFED if path == PEERMEM else choice.INBOX


def _nodes(view: View | None) -> t.Sequence[t.Any]:
    return () if view is None else view.nodes


def _values(nodes: View | t.Sequence[t.Any] | None, layer: str, key: str) -> set[t.Any]:
    """Return all values of a layer's key. Nodes without the layer are left out."""
    given = _nodes(nodes) if nodes is None or isinstance(nodes, View) else nodes
    return {node[layer][key] for node in given if node.get(layer)}


def _contradiction(option: str, given: str, planned: str) -> RailyardError:
    """Return the error for an option that contradicts the plan."""
    return RailyardError(
        "is %s, and the plan's nodes have %s" % (given, planned),
        "kubernetes.%s" % option,
        "remove kubernetes_options.%s, or change the fabric file, which determines it" % option,
    )

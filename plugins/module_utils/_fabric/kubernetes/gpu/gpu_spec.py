# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What the plan sets for GPU memory's way to the NIC, as one for the whole cluster: the GPU Operator has one setting
for all nodes. What is not set for a node is taken from the options, which must not contradict the plan.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import gpudirect_paths as choice
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.gpu.gpu_settings import Wanted
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import View
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.driver_model import CONTAINER, INSTALLED
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.host_model import (
    AUTO,
    DMABUF,
    HOST,
    NONE,
    PEERMEM,
    PROPRIETARY,
)


def nic_container(view: View | None, options: Options) -> bool:
    """Whether the Network Operator brings the NIC driver.

    :raises RailyardError: if the option contradicts the plan.
    """
    kinds = {kind for kind in _values(view, "driver", "kind") if kind is not None}
    planned = None if not kinds else CONTAINER in kinds
    if options.driver and planned is not None and planned != (options.driver == CONTAINER):
        raise _contradiction("driver", options.driver, "driver: %s" % ", ".join(sorted(kinds)))
    return (options.driver == CONTAINER) if planned is None else planned


def wanted(view: View | None, options: Options) -> Wanted:
    """:raises RailyardError: if an option contradicts the plan."""
    # Where nodes have a GPU driver of their own beside others whose driver the operator brings, it leaves theirs alone;
    # what it is to set counts for the others.
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
    """The chart's ``driver.kernelModuleType``: DMA-BUF needs the open modules, for the rest the operator knows best."""
    return spec.flavour or (choice.OPEN if spec.path == DMABUF else AUTO)


def _path(planned: t.Collection[t.Any], flavours: set[t.Any], options: Options) -> str:
    known = {path for path in planned if path not in (None, AUTO)}
    if options.gpudirect and known and options.gpudirect not in known:
        raise _contradiction("gpudirect", options.gpudirect, "gpudirect.path: %s" % ", ".join(sorted(known)))
    if options.gpudirect:
        return options.gpudirect
    # what loads nvidia-peermem serves nodes with DMA-BUF too, and not the other way round
    # ... and is what `auto` comes to on nodes whose GPU driver cannot export DMA-BUF
    return next(
        (path for path in (PEERMEM, DMABUF, NONE) if path in known), PEERMEM if flavours == {PROPRIETARY} else DMABUF
    )


def _gdrcopy(values: t.Collection[t.Any], options: Options) -> bool:
    known = {each for each in values if each is not None}
    if options.gdrcopy is not None and known and options.gdrcopy not in known:
        given, planned = _word(options.gdrcopy), _word(not options.gdrcopy)
        raise _contradiction("gdrcopy", given, "gpudirect.gdrcopy: %s" % planned)
    return options.gdrcopy if options.gdrcopy is not None else (True in known if known else True)


def _nic_driver(view: View | None, nodes: t.Sequence[t.Any], options: Options, path: str) -> str:
    kinds = {each for each in _values(nodes, "driver", "kind") if each}
    if nic_container(view, options):
        return CONTAINER
    if kinds:
        return choice.OFED if kinds.intersection(INSTALLED) else choice.INBOX
    # not set: nvidia-peermem is asked for where there is something to build it against
    return choice.OFED if path == PEERMEM else choice.INBOX


def _nodes(view: View | None) -> t.Sequence[t.Any]:
    return () if view is None else view.nodes


def _values(nodes: View | t.Sequence[t.Any] | None, layer: str, key: str) -> set[t.Any]:
    """The values that nodes have for a layer's key. Nodes without the layer are left out."""
    given = _nodes(nodes) if nodes is None or isinstance(nodes, View) else nodes
    return {node[layer][key] for node in given if node.get(layer)}


def _word(value: bool) -> str:
    return "true" if value else "false"


def _contradiction(option: str, given: str, planned: str) -> RailyardError:
    return RailyardError(
        "is %s, and the plan's nodes have %s" % (given, planned),
        "kubernetes.%s" % option,
        "take kubernetes_options.%s out: it follows from the fabric file; or say there what it is to be" % option,
    )

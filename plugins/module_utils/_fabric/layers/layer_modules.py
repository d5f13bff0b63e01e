# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modules of the chosen layers of a node, each with the options that the plan and variables determine."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import nccl_objects
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import plain_cni
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import nccl_settings
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.layer_table import (
    HOST_LAYERS,
    LAYERS,
    PREFLIGHT,
    REMOVABLE,
    HostLayer,
    Options,
    Values,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import port_options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import playbook

PRESENT, ABSENT = "present", "absent"
# Python module or program that the modules need on a node -> its package; the default of preflight_packages.
PACKAGES = {"pyroute2": "python3-pyroute2", "perftest": "perftest"}
# Where the role cni copies an archive of plugins to.
_ARCHIVES = "/var/cache/railyard"
# Files that are reverted even if the plan does not have them.
_NCCL_FILE, _UCX_FILE = "/etc/nccl.conf", "/etc/ucx/ucx.conf"


def _cni(node: Values, fabric: Values, given: Values) -> Options | None:
    if fabric["provider"] != "cni":
        return None
    return {"networks": plain_cni.of_node(fabric, node, given.get("kubernetes_options") or {})}


def _nccl(node: Values, fabric: Values, given: Values) -> Options | None:
    if not node["nccl"]:
        return None
    settings = {
        "file": (nccl_objects.host_settings, "nccl_settings"),
        "ucx_file": (nccl_objects.host_ucx, "nccl_ucx_settings"),
    }
    files = [
        {"path": node["nccl"][key], "settings": dict(planned_settings(fabric, node), **(given.get(variable) or {}))}
        for key, (planned_settings, variable) in settings.items()
        if node["nccl"].get(key)
    ]
    addresses = nccl_settings.gid_addresses(fabric, node)
    for file in files:
        if addresses and file["path"] == node["nccl"]["file"] and nccl_settings.GID_INDEX not in file["settings"]:
            file["gid_index"] = {"setting": nccl_settings.GID_INDEX, "addresses": addresses}
    return {"files": files} if files else None


# Module -> its options, where they are derived like Kubernetes objects.
_OF_OBJECTS = {"cni_networks": _cni, "nccl_files": _nccl}
# Variables that do not map to one option.
_OTHER_VARIABLES = (
    "agent_install",
    "cni_archive",
    "cni_install",
    "kubernetes_options",
    "nccl_settings",
    "nccl_ucx_settings",
    "preflight_management_interfaces",
    "preflight_packages",
)
VARIABLES = (
    *(variable.name for each in HOST_LAYERS for variable in each.variables if variable.name),
    *_OTHER_VARIABLES,
)


def check_variables(defined: Values, layers: t.Collection[str]) -> None:
    """Check that no variable is set that has no effect in a run that prepares these layers.

    :param defined: the variables of the task.
    :raises RailyardError: for all such variables.
    """
    errors = [
        error
        for row in HOST_LAYERS
        for name, error in (row.removed().items() if row.layer in layers else ())
        if defined.get(name) is not None
    ]
    for layer in REMOVABLE:
        name = layer + "_state"
        if layer in layers and defined.get(name) not in (None, PRESENT):
            remedy = "remove it; %s with -e teardown_hosts=true --tags %s reverts the layer" % (
                playbook("teardown"),
                layer,
            )
            errors.append(
                RailyardError("this run prepares the layer, and the variable has no effect here", name, remedy)
            )
    raise_all(errors)


def named_layers(names: t.Collection[str]) -> list[str]:
    """Return the layers that are named, in the order of preparation. Raises :class:`RailyardError` for other names."""
    unknown = sorted(set(names) - set(LAYERS))
    if unknown:
        raise RailyardError("%s is not a layer" % unknown[0], "layers", "use layers of %s" % ", ".join(LAYERS))
    return [layer for layer in LAYERS if layer in names]


def chosen_layers(task: t.Collection[str], run: t.Collection[str], skip: t.Collection[str]) -> list[str]:
    """Return the layers that ``--tags`` and ``--skip-tags`` select. The preflight is selected with any other layer.

    :param task: the tags of the task: those of all layers and of its play.
    :param run: the values of ``--tags``.
    :param skip: the values of ``--skip-tags``.
    """
    others = {"all", "tagged", *task}.difference(LAYERS)
    everything = bool(others.intersection(run))
    chosen = [each for each in LAYERS if everything or each in run]
    return [each for each in LAYERS if each not in skip and (each in chosen or (chosen and each == PREFLIGHT))]


def layer_modules(
    node: Values, fabric: Values, given: Values, layers: t.Collection[str], state: str = PRESENT
) -> list[dict[str, t.Any]]:
    """Return the option ``modules`` of ``rail_host``.

    :param node: ``railyard_node``.
    :param fabric: ``railyard_fabric``.
    :param given: the variables of :data:`VARIABLES` that are defined.
    :raises RailyardError: for a plan that a layer cannot implement, such as some CNI networks.
    """
    if given.get("cni_archive"):
        given = dict(given, cni_sources=["%s/%s" % (_ARCHIVES, os.path.basename(given["cni_archive"]))])
    rows = []
    for each in HOST_LAYERS[::-1] if state == ABSENT else HOST_LAYERS:
        if each.layer not in layers or (state == ABSENT and not each.removable):
            continue
        options = _absent(each, node) if state == ABSENT else _present(each, node, fabric, given)
        if options is None:
            continue
        for variable in each.variables:
            value = given.get(variable.name)
            value = variable.default if value in (None, "") else value
            if value is not None:
                options[variable.option] = value
        stated = {key: value for key, value in options.items() if value is not None}
        rows.append({"layer": each.layer, "module": each.module, "options": stated})
    return rows


def _present(row: HostLayer, node: Values, fabric: Values, given: Values) -> Options | None:
    """Return the options that the plan determines; None if the layer has nothing to do."""
    if row.module in _OF_OBJECTS:
        return _OF_OBJECTS[row.module](node, fabric, given)
    return row.options(node, fabric, port_options(node["ports"], row.module) if row.ports else [])


def _absent(row: HostLayer, node: Values) -> Options:
    """Return the options that revert a layer. The module reverts all that it finds on the node, planned or not."""
    options: Options = {"state": ABSENT}
    if row.module == "nccl_files":
        nccl = node.get("nccl") or {}
        paths = [nccl.get("file") or _NCCL_FILE, nccl.get("ucx_file") or _UCX_FILE]
        options["files"] = [{"path": path} for path in paths]
    return options

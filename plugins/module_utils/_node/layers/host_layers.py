# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run all layers of a node, in order, in one process."""

from __future__ import annotations

import typing as t

from ansible.module_utils.common.arg_spec import ModuleArgumentSpecValidator

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import layer as layers
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.layer import Result
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Layer
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.layers import boot_program, layer_needs
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import installed_tools

Row = t.Mapping[str, t.Any]
# Keys of a module's result that are combined in the result of the node.
_CHANGES, _REASONS = "changes", "reboot_reasons"


def run(options: Row, system: System, check: bool, warnings: list[str]) -> Result:
    """Run the module ``rail_host`` and return its result; see the module's documentation.

    All options are checked before the first layer runs. Check mode runs all layers, and reports all of their errors.
    """
    system.management_interfaces = options.get("management_interfaces") or ()
    boot_id = system.read("/proc/sys/kernel/random/boot_id")
    result: Result = {"modules": {}, "needs": {}, "system": {"boot_id": boot_id}}
    needs, parts = result["needs"], result["modules"]
    if boot_id and boot_id == options["control_boot_id"]:
        needs["control_node"] = True
        return _combined(result)
    missing = _missing(options["packages"] or {}, system)
    if missing:
        needs["packages"] = missing
        # check mode predicts the layers as far as possible without the packages
        if not check:
            return _combined(result)
    try:
        chosen = [(each, *_checked(each["module"], each["options"] or {})) for each in options["modules"] or ()]
    except RailyardError as error:
        return _failed(result, layers.failure(error, {}))
    at_boot: set[str] = set()
    goes_on = check and not options["keep_going"]
    refused: list[tuple[str, Row]] = []
    for each, layer, module_options in chosen:
        name = each["module"]
        if each["skip_missing"] and _is_missing(name, layer, module_options, system):
            needs[each["layer"]] = True
            continue
        parts[name] = layers.run(name, layer.build, module_options, system, check, warnings)
        if name == "rail_ports":
            at_boot = _names_at_boot(module_options, parts[name])
        if not options["states"]:
            parts[name].pop("gathered", None)
        waits = parts[name].get("failed") and all(error.get("port") in at_boot for error in parts[name]["errors"])
        if goes_on and not waits:
            parts[name] = layer_needs.judged(name, parts[name], {key: parts[key] for key in parts if key != name})
        if parts[name].get("failed") and not options["keep_going"]:
            if waits:
                # after the reboot, all layers run again
                warnings.append("%s waits for the reboot: %s" % (each["layer"], parts[name]["msg"]))
            elif not goes_on:
                return _failed(result, parts[name], layer=each["layer"])
            else:
                refused.append((each["layer"], parts[name]))
    left = {name: part["not_judged"] for name, part in parts.items() if "not_judged" in part}
    if left:
        result["not_judged"] = left
    if options.get("preview"):
        return dict(_combined(result), errors=_errors(refused))
    return _failed(result, _together(refused), layer=refused[0][0]) if refused else _combined(result)


def _errors(refused: t.Sequence[tuple[str, Row]]) -> list[dict[str, t.Any]]:
    """Return the errors of several layers, each with its layer."""
    return [dict(error, layer=layer) for layer, part in refused for error in part["errors"]]


def _together(refused: t.Sequence[tuple[str, Row]]) -> Result:
    """Return the reason why several layers failed."""
    traces = [part["exception"] for _layer, part in refused if "exception" in part]
    message = "\n".join(part["msg"] for _layer, part in refused)
    reason: Result = {"failed": True, "msg": message, "errors": _errors(refused)}
    return dict(reason, exception="\n".join(traces)) if traces else reason


def _names_at_boot(options: Row, part: Row) -> set[str]:
    """Return the names that rail ports get only at the next boot. Until then, other layers do not find these ports."""
    if not part.get(_REASONS) or "gathered" not in part:
        return set()
    names = {port["netdev"] for port in options.get("ports") or () if port["netdev"]}
    return names - {port["netdev"] for port in part["gathered"]["ports"]}


def _missing(packages: t.Mapping[str, str], system: System) -> list[str]:
    tools = installed_tools.look(system) if packages else {}
    return [package for tool, package in packages.items() if tool not in tools]


def _checked(name: str, module_options: Row) -> tuple[Layer, dict[str, t.Any]]:
    """Return the layer of a module, and its options after Ansible's validation. Raises :class:`RailyardError`."""
    layer = _layer(name)
    validated = ModuleArgumentSpecValidator(layer.spec, required_if=layer.required_if).validate(dict(module_options))
    if validated.error_messages:
        raise RailyardError("; ".join(validated.error_messages), name, "see 'ansible-doc railyard.fabric.%s'" % name)
    return layer, dict(validated.validated_parameters)


def _is_missing(name: str, layer: Layer, options: Row, system: System) -> bool:
    """Return whether the module reports that something is missing on the node, such as what a package installs."""
    gathered = layers.run(name, layer.build, dict(options, state="gathered"), system, True, [])
    return bool(gathered.get("missing"))


def _failed(result: Result, part: Row, **more: str) -> Result:
    """Return the result of a failed run, without the states of layers, which Ansible would print in full."""
    reason = {key: part[key] for key in ("failed", "msg", "errors", "exception") if key in part}
    combined = {key: value for key, value in _combined(result).items() if key != "modules"}
    return dict(combined, **reason, **more)


def _combined(result: Result) -> Result:
    """Return the result with the changes, diffs and reboot reasons of all its modules."""
    parts = list(result["modules"].values())
    diffs = [part["diff"] for part in parts if part.get("diff") and any(part["diff"].values())]
    changes = [change for part in parts for change in part[_CHANGES]]
    reasons = [reason for part in parts for reason in part.get(_REASONS) or ()]
    combined = {"changed": bool(changes), _CHANGES: changes, "diff": diffs}
    return dict(result, **combined, reboot_required=bool(reasons), reboot_reasons=reasons)


def _layer(name: str) -> Layer:
    """Return the layer of a module. Imports only this one: imports take most of the time of a converged run."""
    if name == "cni_networks":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.cni.node_networks import LAYER
    elif name == "gpudirect":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.gpu.gpudirect_modules import LAYER
    elif name == "health_service":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.health_service.installed_health import LAYER
    elif name == "imex_daemon":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.gpu.imex_daemon import LAYER
    elif name == "kernel_arguments":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.boot.kernel_arguments import LAYER
    elif name == "mlx_linktype":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.nic_firmware import LAYER
    elif name == "nccl_files":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.host.settings_files import LAYER
    elif name == "nic_driver":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.nic_driver import LAYER
    elif name == "rail_agent":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.agent_service.installed_agent import LAYER
    elif name == "rail_limits":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.host.rail_limits import LAYER
    elif name == "rail_ports":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.rail_ports import LAYER
    elif name == "rdma_netns_mode":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma.rdma_mode import LAYER
    else:
        try:
            return boot_program.layer(name)
        except RailyardError:
            remedy = "name modules of the layers, as the action plugin does"
            raise RailyardError("is not a module of a layer", name, remedy) from None
    return LAYER

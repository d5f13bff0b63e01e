# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The layers of a node in their order: the modules of each, and the module options that the plan determines."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import nccl_objects
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import plain_cni
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import port_options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import playbook

Values = t.Mapping[str, t.Any]
Options = t.Dict[str, t.Any]
PRESENT, ABSENT = "present", "absent"
PREFLIGHT = "preflight"
# Python module or program that the modules need on a node -> its package; the default of preflight_packages.
PACKAGES = {"pyroute2": "python3-pyroute2", "perftest": "perftest"}
# Files that are reverted even if the plan does not have them.
_NCCL_FILE, _UCX_FILE = "/etc/nccl.conf", "/etc/ucx/ucx.conf"


class Variable(t.NamedTuple):
    """A variable of a role that sets an option of a module.

    ``default``: the role's default, where it differs from the module's.
    """

    name: str
    option: str
    default: t.Any = None


class LayerModule(t.NamedTuple):
    """A module of a layer.

    ``options`` returns the options that the plan determines; None if the layer has nothing to do. ``planned``: variable
    of the role -> key of the fabric file that determines it; the variable has no effect here. ``ROLE_ports`` is such a
    variable of each layer whose role has it.
    """

    layer: str
    module: str
    options: t.Callable[[Values, Values, Values], Options | None]
    variables: t.Sequence[Variable] = ()
    removable: bool = True
    planned: t.Mapping[str, str] = {}


def _ports(module: str, required: bool = True) -> t.Callable[[Values, Values, Values], Options | None]:
    """Return the ``options`` function of a module whose only option is ``ports``.

    :param required: skip the module if there are no ports.
    """

    def options(node: Values, _fabric: Values, _given: Values) -> Options | None:
        ports = port_options(node["ports"], module)
        return {"ports": ports} if ports or not required else None

    return options


def _driver(node: Values, _fabric: Values, _given: Values) -> Options | None:
    return dict(node["driver"]) if node["driver"] else None


def _firmware(node: Values, _fabric: Values, _given: Values) -> Options | None:
    ports = port_options(node["ports"], "mlx_linktype")
    kept = [port["pci"] for port in node["other_ports"] if port.get("pci")]
    return {"ports": ports, "never_reset": kept} if ports else None


def _rdma_mode(node: Values, _fabric: Values, _given: Values) -> Options | None:
    return {"mode": node["rdma_mode"]}


def _pci(node: Values, _fabric: Values, _given: Values) -> Options | None:
    pci = node["pci"]
    if not pci:
        return None
    ports = port_options(node["ports"], "pci_tuning")
    return {"ports": ports, "gpus": node["gpus"], "acs": pci["acs"], "max_read_request": pci["max_read_request"]}


def _kernel(node: Values, _fabric: Values, _given: Values) -> Options | None:
    kernel = (node["pci"] or {}).get("kernel")
    return {"iommu": kernel["iommu"], "arguments": kernel["arguments"]} if kernel else None


def _infiniband(node: Values, fabric: Values, _given: Values) -> Options | None:
    ports = port_options(node["ports"], "ib_ports")
    manager = (fabric["infiniband"] or {}).get("subnet_manager")
    return {"ports": ports, "subnet_manager": manager} if ports else None


def _cni(node: Values, fabric: Values, given: Values) -> Options | None:
    if fabric["provider"] != "cni":
        return None
    return {"networks": plain_cni.of_node(fabric, node, given.get("kubernetes_options") or {})}


def _agent(node: Values, _fabric: Values, _given: Values) -> Options | None:
    return {"spec": node["agent"]} if node["agent"] else None


def _limits(node: Values, _fabric: Values, _given: Values) -> Options | None:
    limits = node["limits"]
    return dict(limits, ports=port_options(node["ports"], "rail_limits")) if limits else None


def _gpudirect(node: Values, _fabric: Values, _given: Values) -> Options | None:
    gpudirect = node["gpudirect"]
    # With a GPU driver from a container, the GPU Operator loads its modules.
    if not gpudirect or gpudirect["gpu_driver"] != "host":
        return None
    return {key: gpudirect[key] for key in ("path", "gdrcopy", "flavour")}


def _qos(node: Values, fabric: Values, _given: Values) -> Options | None:
    ports = port_options(node["ports"], "roce_qos")
    return {"ports": ports, "qos": fabric["qos"]} if ports and fabric["qos"] else None


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
    return {"files": files} if files else None


# In the order of preparation. QoS comes late: buffer sizes depend on the MTU of the ports, and DSCP values are set on
# RDMA devices, by their planned names.
MODULES = (
    LayerModule(
        "ofed",
        "nic_driver",
        _driver,
        [Variable("ofed_source", "source"), Variable("ofed_key", "key"), Variable("ofed_restart", "restart")],
        removable=False,
        planned={"ofed_driver": "driver"},
    ),
    LayerModule(
        "nic_firmware",
        "mlx_linktype",
        _firmware,
        [Variable("nic_firmware_reset", "reset")],
        removable=False,
        planned={"nic_firmware_never_reset": "other_ports"},
    ),
    LayerModule("rdma_mode", "rdma_netns_mode", _rdma_mode, planned={"rdma_mode_mode": "fabric.rdma_mode"}),
    LayerModule(
        "sriov",
        "sriov_vfs",
        _ports("sriov_vfs"),
        [Variable("sriov_allow_recreate", "allow_recreate"), Variable("sriov_timeout", "timeout")],
    ),
    LayerModule(
        "pci",
        "pci_tuning",
        _pci,
        planned={"pci_acs": "pci.acs", "pci_gpus": "gpus", "pci_max_read_request": "pci.max_read_request"},
    ),
    LayerModule(
        "pci",
        "kernel_arguments",
        _kernel,
        [Variable("pci_boot_loader_allowed", "allow_change")],
        planned={
            "pci_iommu": "pci.iommu",
            "pci_kernel_arguments": "pci.kernel_arguments",
            "pci_kernel_managed": "pci.iommu",
        },
    ),
    LayerModule(
        "infiniband",
        "ib_ports",
        _infiniband,
        planned={"infiniband_subnet_manager": "fabric.infiniband.subnet_manager"},
    ),
    LayerModule(
        "rail_ports", "rail_ports", _ports("rail_ports", required=False), [Variable("rail_ports_backend", "backend")]
    ),
    LayerModule(
        "rdma_links",
        "rdma_link",
        _ports("rdma_link", required=False),
        [
            Variable("rdma_links_wait_active", "wait_active", 60),
            Variable("rdma_links_force", "force"),
            Variable("", "complete", default=True),
        ],
    ),
    LayerModule(
        "cni",
        "cni_networks",
        _cni,
        [
            Variable("cni_directory", "directory"),
            Variable("cni_plugin_directory", "plugin_directory"),
            Variable("cni_sources", "source", ["/usr/lib/cni", "/usr/libexec/cni"]),
            Variable("cni_checksum", "checksum"),
        ],
        planned={"cni_networks": "rails"},
    ),
    LayerModule(
        "agent",
        "rail_agent",
        _agent,
        [Variable("agent_runtime_check", "runtime_check"), Variable("agent_force", "force")],
        planned={"agent_spec": "rails"},
    ),
    LayerModule(
        "limits",
        "rail_limits",
        _limits,
        planned={
            "limits_" + key: "limits." + key
            for key in ("memlock", "hugepages", "neighbours", "network_manager", "cloud_init")
        },
    ),
    LayerModule(
        "gpudirect",
        "gpudirect",
        _gpudirect,
        [Variable("gpudirect_unload", "unload")],
        planned={"gpudirect_" + key: "gpudirect." + key for key in ("path", "gdrcopy", "flavour")},
    ),
    LayerModule(
        "qos",
        "roce_qos",
        _qos,
        [Variable("qos_dcbx", "dcbx"), Variable("qos_others", "others")],
        planned={"qos_qos": "qos"},
    ),
    LayerModule("nccl", "nccl_files", _nccl, planned={"nccl_file": "nccl.file", "nccl_ucx_file": "nccl.ucx"}),
)
LAYERS = (PREFLIGHT, *dict.fromkeys(each.layer for each in MODULES))
REMOVABLE = tuple(dict.fromkeys(each.layer for each in MODULES if each.removable))
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
VARIABLES = (*(variable.name for each in MODULES for variable in each.variables if variable.name), *_OTHER_VARIABLES)


def without_effect(defined: Values, layers: t.Collection[str]) -> list[RailyardError]:
    """Return an error for each defined variable of these layers' roles that the plan overrides."""
    errors = []
    for row in MODULES:
        ports = {row.layer + "_ports": "ports"}
        for name, key in {**ports, **row.planned}.items() if row.layer in layers else ():
            if defined.get(name) is not None:
                remedy = "set %s in the fabric file, and remove the variable %s" % (key, name)
                errors.append(RailyardError("the plan sets it, so the variable has no effect here", name, remedy))
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
    return list({error.place: error for error in errors}.values())


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
    rows = []
    for each in MODULES[::-1] if state == ABSENT else MODULES:
        if each.layer not in layers or (state == ABSENT and not each.removable):
            continue
        options = _absent(each, node) if state == ABSENT else each.options(node, fabric, given)
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


def _absent(row: LayerModule, node: Values) -> Options:
    """Return the options that revert a layer. The module reverts all that it finds on the node, planned or not."""
    options: Options = {"state": ABSENT}
    if row.module == "nccl_files":
        nccl = node.get("nccl") or {}
        paths = [nccl.get("file") or _NCCL_FILE, nccl.get("ucx_file") or _UCX_FILE]
        options["files"] = [{"path": path} for path in paths]
    return options

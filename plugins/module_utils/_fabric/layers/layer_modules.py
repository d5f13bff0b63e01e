# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The layers of a node in their order: the modules of each, and the options that a module gets from the plan."""

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
# What the modules need on a node, each with the name of its package; the default of preflight_packages.
PACKAGES = {"pyroute2": "python3-pyroute2", "perftest": "perftest"}
# Files that are reverted even if the plan does not have them.
_NCCL_FILE, _UCX_FILE = "/etc/nccl.conf", "/etc/ucx/ucx.conf"


class Variable(t.NamedTuple):
    """A variable of a role, which becomes an option of its module; ``default`` where the role's is not the module's."""

    name: str
    option: str
    default: t.Any = None


class LayerModule(t.NamedTuple):
    """A module of a layer. ``options`` are those that follow from the plan; None if the layer has nothing to do.

    ``planned``: variables of the role that have no effect here, because the plan decides them -> the key of the
    fabric file. ``ROLE_ports`` is one of each layer whose role has it.
    """

    layer: str
    module: str
    options: t.Callable[[Values, Values, Values], Options | None]
    variables: t.Sequence[Variable] = ()
    removable: bool = True
    planned: t.Mapping[str, str] = {}


def _ports(module: str, required: bool = True) -> t.Callable[[Values, Values, Values], Options | None]:
    """The options of a module that only takes ports; with ``required`` it is left out if there are none."""

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
    # a GPU driver from a container comes with Kubernetes, and so do its modules
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
        {"path": node["nccl"][key], "settings": dict(of_plan(fabric, node), **(given.get(own) or {}))}
        for key, (of_plan, own) in settings.items()
        if node["nccl"].get(key)
    ]
    return {"files": files} if files else None


# The order is that of preparation. QoS is late: buffers are for the MTU that the ports have by now, and marks go onto
# RDMA devices with their names.
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
# Variables that do not become options as they are.
_OWN = (
    "agent_install",
    "cni_archive",
    "cni_install",
    "kubernetes_options",
    "nccl_settings",
    "nccl_ucx_settings",
    "preflight_packages",
)
VARIABLES = (*(variable.name for each in MODULES for variable in each.variables if variable.name), *_OWN)


def without_effect(defined: Values, layers: t.Collection[str]) -> list[RailyardError]:
    """Errors for variables of the roles of these layers that are defined, and that the plan decides."""
    errors = []
    for each in MODULES:
        ports = {each.layer + "_ports": "ports"}
        for name, key in {**ports, **each.planned}.items() if each.layer in layers else ():
            if defined.get(name) is not None:
                remedy = "set %s in the fabric file, and remove the variable %s" % (key, name)
                errors.append(RailyardError("the plan decides it, and the variable has no effect here", name, remedy))
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
    return list({each.place: each for each in errors}.values())


def chosen_layers(task: t.Collection[str], run: t.Collection[str], skip: t.Collection[str]) -> list[str]:
    """The layers that ``--tags`` and ``--skip-tags`` choose; the preflight comes with each.

    :param task: the tags of the task, which has those of all layers and those of its play.
    """
    others = {"all", "tagged", *task}.difference(LAYERS)
    everything = bool(others.intersection(run))
    chosen = [each for each in LAYERS if everything or each in run]
    return [each for each in LAYERS if each not in skip and (each in chosen or (chosen and each == PREFLIGHT))]


def layer_modules(
    node: Values, fabric: Values, given: Values, layers: t.Collection[str], state: str = PRESENT
) -> list[dict[str, t.Any]]:
    """The option ``modules`` of ``rail_host``.

    :param node: ``railyard_node``; ``fabric``: ``railyard_fabric``; ``given``: the defined ones of :data:`VARIABLES`.
    :raises RailyardError: for a plan that a layer cannot describe, such as of CNI networks.
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


def _absent(each: LayerModule, node: Values) -> Options:
    """What is found on a node decides what is reverted, and not the plan."""
    options: Options = {"state": ABSENT}
    if each.module == "nccl_files":
        held = node.get("nccl") or {}
        paths = [held.get("file") or _NCCL_FILE, held.get("ucx_file") or _UCX_FILE]
        options["files"] = [{"path": path} for path in paths]
    return options

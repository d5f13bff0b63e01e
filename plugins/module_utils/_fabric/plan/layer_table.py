# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The layers of a host, one row per module, in the order of preparation.

The option ``modules`` of ``rail_host``, the tags of playbooks, the variables of roles that set options, and the codes
of drift are derived from this table. ``_node.layers`` imports the code of each module.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import health_file, port_view

Values = t.Mapping[str, t.Any]
Options = t.Dict[str, t.Any]
Ports = t.List[Options]
PREFLIGHT = "preflight"


class Variable(t.NamedTuple):
    """A variable of a role that sets an option of a module.

    ``default``: the role's default, where it differs from the module's. Without ``name``, it is always set.
    """

    name: str
    option: str
    default: t.Any = None


class Drift(t.NamedTuple):
    """How drift reports the changes that a module predicts.

    ``code``: of a change, unless ``attributes`` has another for its attribute. ``file``: of a change in a file.
    ``refused``: of a refusal. ``observed``: attributes that the layers of verify compare from ``rail_info``.
    """

    code: str
    attributes: t.Mapping[str, str] = {}
    file: str = "RV550"
    refused: str = "RV590"
    observed: t.Sequence[str] = ()


def _whole(port: Values) -> t.Iterable[Values]:
    return (port,)


class HostLayer(t.NamedTuple):
    """A module of a layer.

    ``ports``: returns the module's options of a planned port; None for a port that it does not manage. ``parts``:
    returns the parts of a port that the module manages: the port, each function, or each netdev.
    ``options``: returns the options that the plan determines, from ``railyard_node``, ``railyard_fabric`` and the
    options of the ports; None if the layer has nothing to do. ``removable``: whether ``state: absent`` reverts it.
    ``variables``: the variables of the role that set options. ``planned``: removed variables of the role, without
    ``LAYER_`` -> the key of the fabric file. ``drift``: None if verify compares its state.
    """

    layer: str
    module: str
    options: t.Callable[[Values, Values, Ports], Options | None]
    ports: t.Callable[[Values], Options | None] | None = None
    removable: bool = True
    variables: t.Sequence[Variable] = ()
    planned: t.Mapping[str, str] = {}
    drift: Drift | None = None
    parts: t.Callable[[Values], t.Iterable[Values]] = _whole

    def removed(self) -> dict[str, RailyardError]:
        """Return the removed variables of the role, each with the error that its use is."""
        return {
            name: RailyardError(
                "the plan sets the value, and the variable has no effect",
                name,
                "remove it and set %s in the fabric file, or run the module railyard.fabric.%s" % (key, self.module),
            )
            for name, key in (("%s_%s" % (self.layer, suffix), key) for suffix, key in self.planned.items())
        }


def _pick(values: Values, *keys: str) -> Options:
    return {key: values.get(key) for key in keys}


def _names(port: Values) -> Options:
    return _pick(port, "pci", "netdev")


def _only_ports(_node: Values, _fabric: Values, ports: Ports) -> Options | None:
    return {"ports": ports}


def _if_ports(_node: Values, _fabric: Values, ports: Ports) -> Options | None:
    return {"ports": ports} if ports else None


def _of_objects(_node: Values, _fabric: Values, _ports: Ports) -> Options | None:
    """Options that are derived like Kubernetes objects; ``_fabric.layers.layer_modules`` returns them."""
    return None


def _driver(node: Values, _fabric: Values, _ports: Ports) -> Options | None:
    return dict(node["driver"]) if node["driver"] else None


def _firmware_port(port: Values) -> Options | None:
    firmware = port.get("firmware")
    return dict(firmware, pci=port["pci"]) if firmware else None


def _firmware(node: Values, _fabric: Values, ports: Ports) -> Options | None:
    never_reset = [port["pci"] for port in node["other_ports"] if port.get("pci")]
    return {"ports": ports, "never_reset": never_reset} if ports else None


def _rdma_mode(node: Values, _fabric: Values, _ports: Ports) -> Options | None:
    return {"mode": node["rdma_mode"]}


def _vf_port(port: Values) -> Options | None:
    vfs = port.get("vfs")
    if not vfs:
        return None
    attributes = [{key: vf[key] for key in vf if vf[key] is not None} for vf in vfs["attributes"]]
    return dict(_names(port), count=vfs["count"], **_vf_range(vfs), attributes=attributes)


def _vf_range(vfs: Values | None) -> Options:
    """Return the option for ports of which other programs own some VFs; empty for others."""
    return {"range": vfs["range"]} if vfs and vfs.get("range") else {}


def _pci_port(port: Values) -> Options:
    return _pick(port, "pci", "netdev", "gpus", "expect")


def _pci(node: Values, _fabric: Values, ports: Ports) -> Options | None:
    pci = node["pci"]
    return dict(_pick(pci, "acs", "max_read_request"), ports=ports, gpus=node["gpus"]) if pci else None


def _kernel(node: Values, _fabric: Values, _ports: Ports) -> Options | None:
    kernel = (node["pci"] or {}).get("kernel")
    return _pick(kernel, "iommu", "arguments") if kernel else None


def _infiniband_port(port: Values) -> Options | None:
    ipoib = port.get("ipoib")
    # Without an IPoIB interface, there is neither a mode nor a child interface to configure.
    return dict(_names(port), **_pick(ipoib, "mode", "pkeys")) if ipoib and port_view.has_interface(port) else None


def _infiniband(_node: Values, fabric: Values, ports: Ports) -> Options | None:
    return {"ports": ports, "subnet_manager": (fabric["infiniband"] or {}).get("subnet_manager")} if ports else None


def _rail_port(port: Values) -> Options | None:
    if not (port_view.is_managed(port) and port_view.has_interface(port)):
        return None
    keys = ("address", "gateway", "address6", "gateway6", "table", "rule_priority", "routes", "sysctl")
    options = _pick(port, "rail", "pci", "netdev", "mtu", *keys)
    lower = port.get("lower")
    return dict(options, lower=dict(lower, functions=list(map(_names, lower["functions"])))) if lower else options


def _rail_parts(port: Values) -> t.Iterable[Values]:
    """Return the port, and a port without addresses for the netdev of each other function that carries a plane."""
    others = [] if port.get("lower") else [each for each in port_view.functions(port) if each is not port]
    own = _names(port)
    return [
        port,
        *(
            dict(_names(each), rail="%s-plane%d" % (port["rail"], each["plane"]), mtu=port["mtu"], lower=None)
            for each in others
            if _names(each) != own
        ),
    ]


def _rdma_port(port: Values) -> Options | None:
    rdma = port["rdma"]
    # Others name the hardware devices of an unmanaged port, but only Railyard creates planned soft devices.
    managed = port_view.is_managed(port) and rdma.get("managed", True)
    if not rdma["name"] or (rdma["type"] == "hardware" and not managed):
        return None
    below = dict(_names(port), netdev=port_view.rdma_netdev(port))
    return dict(below, **_pick(rdma, "name", "type"))


def _agent(node: Values, _fabric: Values, _ports: Ports) -> Options | None:
    return {"spec": node["agent"]} if node["agent"] else None


def _health(node: Values, fabric: Values, _ports: Ports) -> Options | None:
    return {"spec": health_file.spec(node, fabric)} if fabric.get("health") else None


def _limits_port(port: Values) -> Options | None:
    return _names(port) if port_view.is_managed(port) else None


def _limits(node: Values, _fabric: Values, ports: Ports) -> Options | None:
    limits = node["limits"]
    if limits and not ports:
        limits = dict(limits, network_manager=None)
    return dict(limits, ports=ports) if limits else None


def _gpudirect(node: Values, _fabric: Values, _ports: Ports) -> Options | None:
    gpudirect = node["gpudirect"]
    # With a GPU driver from a container, the GPU Operator loads its modules.
    managed = gpudirect and gpudirect["gpu_driver"] == "host"
    return _pick(gpudirect, "path", "gdrcopy", "flavour") if managed else None


def _imex(node: Values, _fabric: Values, _ports: Ports) -> Options | None:
    imex = node.get("imex")
    return _pick(imex, "daemon", "nodes") if imex else None


def _qos_port(port: Values) -> Options | None:
    # The NIC below a soft RDMA device applies no QoS to it.
    if port["rdma"]["type"] != "hardware" or ("qos" in port and port["qos"] is None):
        return None
    qos = port.get("qos_on_nic", port.get("qos"))
    return dict(_names(port), **_vf_range(port.get("vfs")), qos=qos)


def _qos(_node: Values, fabric: Values, ports: Ports) -> Options | None:
    ports = [port for port in ports if fabric["qos"] or port.get("qos")]
    if not ports:
        return None
    # The QoS of the fabric is the default of all ports, or else the QoS of the first port.
    default = fabric["qos"] or ports[0]["qos"]
    return {
        "ports": [{key: value for key, value in port.items() if key != "qos" or value != default} for port in ports],
        "qos": default,
    }


# Changes of bonds, of their members, and of VLANs.
_LOWER = {
    "interface": "RV411",
    "master": "RV413",
    "bond.mode": "RV415",
    **dict.fromkeys(
        ("bond.hash_policy", "bond.lacp_rate", "bond.miimon", "bond.min_links", "bond.primary", "mac"), "RV416"
    ),
}
# QoS comes late: buffer sizes depend on the MTU of the ports, and DSCP values are set on RDMA devices, by their planned
# names.
HOST_LAYERS = (
    HostLayer(
        "ofed",
        "nic_driver",
        _driver,
        removable=False,
        variables=[Variable("ofed_source", "source"), Variable("ofed_key", "key"), Variable("ofed_restart", "restart")],
        planned={"driver": "driver"},
        drift=Drift("RV210"),
    ),
    HostLayer(
        "nic_firmware",
        "mlx_linktype",
        _firmware,
        _firmware_port,
        parts=port_view.each_function,
        removable=False,
        variables=[Variable("nic_firmware_reset", "reset")],
        planned={"ports": "firmware", "never_reset": "other_ports"},
        drift=Drift("RV101", refused="RV102"),
    ),
    HostLayer(
        "rdma_mode",
        "rdma_netns_mode",
        _rdma_mode,
        planned={"mode": "fabric.rdma_mode"},
        drift=Drift("RV301", file="RV302", observed=("netns",)),
    ),
    HostLayer(
        "sriov",
        "sriov_vfs",
        _if_ports,
        _vf_port,
        parts=port_view.each_function,
        variables=[Variable("sriov_allow_recreate", "allow_recreate"), Variable("sriov_timeout", "timeout")],
        planned={"ports": "vfs"},
        drift=Drift("RV206", {"bound": "RV205"}, observed=("sriov_numvfs", "state")),
    ),
    HostLayer(
        "pci",
        "pci_tuning",
        _pci,
        _pci_port,
        parts=port_view.each_function,
        planned={"ports": "ports", "gpus": "gpus", "acs": "pci.acs", "max_read_request": "pci.max_read_request"},
        drift=Drift("RV602"),
    ),
    HostLayer(
        "pci",
        "kernel_arguments",
        _kernel,
        variables=[Variable("pci_boot_loader_allowed", "allow_change")],
        planned={"iommu": "pci.iommu", "kernel_managed": "pci.iommu", "kernel_arguments": "pci.kernel_arguments"},
        drift=Drift("RV603"),
    ),
    HostLayer(
        "infiniband",
        "ib_ports",
        _infiniband,
        _infiniband_port,
        parts=port_view.each_function,
        planned={"ports": "infiniband", "subnet_manager": "fabric.infiniband.subnet_manager"},
        drift=Drift("RV408"),
    ),
    HostLayer(
        "rail_ports",
        "rail_ports",
        _if_ports,
        _rail_port,
        parts=_rail_parts,
        variables=[Variable("rail_ports_backend", "backend")],
        planned={"ports": "ports"},
        drift=Drift("RV506", {"address": "RV501", **_LOWER}, observed=("name", "mtu", "state")),
    ),
    HostLayer(
        "rdma_links",
        "rdma_link",
        _only_ports,
        _rdma_port,
        variables=[
            Variable("rdma_links_wait_active", "wait_active", 60),
            Variable("rdma_links_force", "force"),
            Variable("", "complete", default=True),
        ],
        planned={"ports": "ports"},
        drift=Drift("RV405", observed=("name",)),
    ),
    HostLayer(
        "cni",
        "cni_networks",
        _of_objects,
        variables=[
            Variable("cni_directory", "directory"),
            Variable("cni_plugin_directory", "plugin_directory"),
            Variable("cni_sources", "source", ["/usr/lib/cni", "/usr/libexec/cni"]),
            Variable("cni_checksum", "checksum"),
        ],
        planned={"networks": "rails"},
        drift=Drift("RV550"),
    ),
    HostLayer(
        "agent",
        "rail_agent",
        _agent,
        variables=[Variable("agent_runtime_check", "runtime_check"), Variable("agent_force", "force")],
        planned={"spec": "slots"},
        drift=Drift("RV005"),
    ),
    HostLayer(
        "limits",
        "rail_limits",
        _limits,
        _limits_port,
        parts=port_view.each_netdev,
        planned={
            "ports": "ports",
            **{key: "limits." + key for key in ("memlock", "hugepages", "neighbours", "network_manager", "cloud_init")},
        },
        drift=Drift("RV604"),
    ),
    HostLayer(
        "gpudirect",
        "gpudirect",
        _gpudirect,
        variables=[Variable("gpudirect_unload", "unload")],
        planned={key: "gpudirect." + key for key in ("path", "gdrcopy", "flavour")},
        drift=Drift("RV605"),
    ),
    HostLayer(
        "imex",
        "imex_daemon",
        _imex,
        planned={"daemon": "imex.daemon", "nodes": "nvlink_domain"},
        drift=Drift("RV448"),
    ),
    HostLayer(
        "qos",
        "roce_qos",
        _qos,
        _qos_port,
        parts=port_view.each_function,
        variables=[Variable("qos_dcbx", "dcbx"), Variable("qos_others", "others")],
        planned={"ports": "ports", "qos": "qos"},
        drift=Drift("RV601"),
    ),
    HostLayer("nccl", "nccl_files", _of_objects, planned={"file": "nccl.file", "ucx_file": "nccl.ucx"}),
    # last: it compares what the other layers set
    HostLayer("health", "health_service", _health, planned={"spec": "health"}, drift=Drift("RV007")),
)
BY_MODULE = {row.module: row for row in HOST_LAYERS}
# The tags of hosts.yml in the order of preparation, and the layers that teardown.yml reverts.
LAYERS = (PREFLIGHT, *dict.fromkeys(row.layer for row in HOST_LAYERS))
REMOVABLE = tuple(dict.fromkeys(row.layer for row in HOST_LAYERS if row.removable))

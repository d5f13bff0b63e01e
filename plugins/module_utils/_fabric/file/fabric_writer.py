# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""From a fabric to the text of a file that reads back to the same plan.

What follows from something else is not written; what a generator, a supernet or the file's ``addresses`` gave is at
each rail, since a rail's own word wins.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_planner import SUBNET, Scheme
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.yaml_layout import Comments, render
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import link_layer_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.driver_model import written as _driver
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    AgentSettings,
    Fabric,
    Firmware,
    HostSettings,
    Node,
    Port,
    Profile,
    Rail,
    Routing,
    Setting,
    Unit,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.infiniband_model import (
    written as _infiniband,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.qos_model import Qos
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import IPV6, Range, show
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import written
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import trailing_number

Data = t.Dict[str, t.Any]

_PORT = (
    "netdev", "pci", "rdma", "slot", "serial", "mac", "port", "gpu", "speed", "width", "pcie_gen", "pcie_lanes",
)  # fmt: skip
_NUMBERED = re.compile(r"(.*?)([0-9]+)\Z")


def write(fabric: Fabric, comments: Comments | None = None) -> str:
    """The text of a file of this fabric.

    :param comments: path of a key, such as ``("rails", "gpu01")`` -> lines to put above it; ``()``: at the top.
    """
    return render(document(fabric), comments)


def document(fabric: Fabric) -> Data:
    """The sections of the file as nested mappings."""
    found: Data = {"plugin": "railyard.fabric.rails", "fabric": _general(fabric)}
    if fabric.qos:
        found["qos"] = _qos(fabric.qos)
    if fabric.names:
        found["names"] = {kind: template.text for kind, template in fabric.names.items()}
    if fabric.units:
        found["units"] = {unit.name: _unit(unit) for unit in fabric.units.values()}
    found["rails"] = _rails(fabric)
    found["profiles"] = {profile.name: _profile(profile) for profile in fabric.profiles.values()}
    if fabric.groups:
        found["groups"] = {
            group.name: _stated(
                attachment=group.attachment,
                slots=_settings(group.slots),
                driver=_driver(group.driver),
                firmware=_firmware(group.firmware),
                infiniband=group.partitions and group.partitions.written(),
                vfs=_settings(group.vfs),
                **_host(group.host),
                ports=_ports(group.ports),
                vars=group.vars or None,
            )
            for group in fabric.groups.values()
        }
    found["nodes"] = _nodes(fabric)
    if fabric.lint:
        found["lint"] = [{"rule": each.rule, "place": each.place, "reason": each.reason} for each in fabric.lint]
    return found


def _stated(**values: t.Any) -> Data:
    return {key: value for key, value in values.items() if value is not None}


def _general(fabric: Fabric) -> Data:
    followed = link_layer_of(fabric.attachment)
    return _stated(
        name=fabric.name,
        attachment=fabric.attachment,
        provider=fabric.provider,
        link_layer=fabric.link_layer if fabric.link_layer != followed else None,
        rdma_mode=fabric.rdma_mode,
        mtu=fabric.mtu,
        mac_seed=fabric.mac_seed,
        max_nodes=fabric.max_nodes,
        pods_per_node=fabric.pods_per_node,
        slots=_settings(fabric.slots),
        agent=_different(fabric.agent, AgentSettings(), ("metrics", "metrics_port", "gateway_check")),
        reserved={name: str(net) for name, net in fabric.reserved.items()} or None,
        routing=_routing(fabric.routing),
        infiniband=_infiniband(fabric.infiniband),
        vfs=_settings(fabric.vfs),
        **_host(fabric.host),
    )


def _routing(routing: Routing) -> Data | None:
    return _different(routing, Routing(), ("first_table", "first_priority", "mode", "cross_rail"))


def _different(settings: t.Any, default: t.Any, keys: t.Iterable[str]) -> Data | None:
    """The values that are not the default's."""
    return {key: getattr(settings, key) for key in keys if getattr(settings, key) != getattr(default, key)} or None


def _settings(given: t.Mapping[str, Setting]) -> Data | None:
    return {key: setting.value for key, setting in given.items()} or None


def _host(settings: HostSettings) -> Data:
    found: Data = {}
    for layer, settings_of in settings.items():
        values = {key: setting.value for key, setting in settings_of.items()}
        if "kernel_arguments" in values:
            values["kernel_arguments"] = list(values["kernel_arguments"])
        if "hugepages" in values:
            values["hugepages"] = {_page_size(size): count for size, count in values["hugepages"].items()}
        found[layer] = values
    return found


def _page_size(size_kb: int) -> str:
    """A size as the file has it, in the largest unit that fits."""
    for unit in ("K", "M"):
        if size_kb % 1024:
            return "%d%s" % (size_kb, unit)
        size_kb //= 1024
    return "%dG" % size_kb


def _qos(qos: Qos) -> Data:
    found: Data = {
        "priority": qos.priority,
        "dscp": qos.dscp,
        "cnp_priority": qos.cnp_priority,
        "cnp_dscp": qos.cnp_dscp,
        "trust": qos.trust,
        "pfc": list(qos.pfc),
        "ecn": qos.ecn,
    }
    if qos.ets:
        found["ets"] = {
            "prio_tc": dict(enumerate(qos.ets.prio_tc)),
            "tc_bw": dict(qos.ets.tc_bw),
            "strict": list(qos.ets.strict),
        }
    if qos.buffers:
        found["buffers"] = _stated(
            prio_buffer=dict(enumerate(qos.buffers.prio_buffer)),
            buffer_size=dict(qos.buffers.buffer_size) or None,
            cable_len=qos.buffers.cable_len,
        )
    return found


def _unit(unit: Unit) -> Data:
    return _stated(
        number=unit.number if unit.number != trailing_number(unit.name) else None,
        site=unit.site,
        nodes=unit.nodes,
        leaf=unit.leaf.text if unit.leaf else None,
        leaf_port=unit.leaf_port.text if unit.leaf_port else None,
        leaves=dict(unit.leaves) or None,
    )


def _rails(fabric: Fabric) -> Data:
    found: Data = {}
    for rail in fabric.rails:
        if rail.planes == 1:
            found[rail.name] = _rail(rail)
            continue
        # What the rail has for all of its planes is at the rail, the addresses of each at the plane.
        base = found.setdefault(rail.base, dict(_stated(mtu=rail.mtu, vfs=_settings(rail.vfs)), planes=[]))
        base["planes"].append({key: value for key, value in _rail(rail).items() if key not in ("mtu", "vfs")})
    return found


def _rail(rail: Rail) -> Data:
    found: Data = {}
    if rail.mode and rail.mode != SUBNET:
        found["mode"] = rail.mode
    for scheme in rail.schemes.values():
        found.update(_scheme(scheme))
    taken: dict[str, list[Range]] = {}
    for scheme in rail.schemes.values():
        for name, held in scheme.taken:
            taken.setdefault(name, []).append(held)
    found.update(
        _stated(
            taken={name: written(held) for name, held in taken.items()} or None, mtu=rail.mtu, vfs=_settings(rail.vfs)
        )
    )
    return found


def _scheme(scheme: Scheme) -> Data:
    bits = scheme.network.bits
    six = "6" if bits == IPV6 else ""
    gateway = show(scheme.gateway, bits) if isinstance(scheme.gateway, int) else scheme.gateway
    found = _stated(
        subnet=str(scheme.network),
        gateway=gateway,
        pods=written(scheme.pods.parts) if scheme.pods else None,
        hosts=written(scheme.hosts.parts) if scheme.hosts else None,
        node_prefix=scheme.node_prefix,
        block=scheme.block,
    )
    return dict(
        {key + six: value for key, value in found.items()}, **_stated(host=scheme.host, leaf_end=scheme.leaf_end)
    )


def _firmware(firmware: Firmware | None) -> Data | None:
    if firmware is None:
        return None
    return _stated(
        link_type=firmware.link_type,
        sriov_en=firmware.sriov_en,
        num_of_vfs=firmware.num_of_vfs,
        version=firmware.version,
        parameters=firmware.parameters or None,
    )


def _port(port: Port) -> Data:
    found: Data = {}
    for key in _PORT:
        value = (list(port.gpus) or None) if key == "gpu" else getattr(port, key)
        if value is not None:
            found[key] = value[0] if key == "gpu" and len(value) == 1 else value
    return found


def _ports(ports: t.Mapping[str, Port | None]) -> Data | None:
    return {rail: None if port is None else _port(port) for rail, port in ports.items()} or None


def _profile(profile: Profile) -> Data:
    gpus: t.Any = profile.gpus
    if gpus is not None and list(gpus) == list(range(len(gpus))) and not any(gpus.values()):
        gpus = len(gpus)
    return _stated(
        attachment=profile.attachment,
        slots=_settings(profile.slots),
        soft_rdma=profile.soft_rdma,
        driver=_driver(profile.driver),
        firmware=_firmware(profile.firmware),
        infiniband=profile.partitions and profile.partitions.written(),
        vfs=_settings(profile.vfs),
        **_host(profile.host),
        **profile.expected,
        gpus=gpus,
        gpu_distance=profile.gpu_distance,
        ports=_ports(profile.ports),
        other_ports={
            other.name: dict(_stated(role=other.role), **_port(other.port)) for other in profile.other_ports.values()
        }
        or None,
    )


# -- nodes -------------------------------------------------------------------------------------------------------------


def _nodes(fabric: Fabric) -> Data:
    """Nodes that differ by their number alone are one range."""
    found: Data = {}
    run: list[tuple[str, Data]] = []
    for node in fabric.nodes:
        own = _node(fabric, node)
        if run and not (_follows(run[-1], (node.name, own)) and _as_wide(run[0], (node.name, own))):
            _add(found, run)
            run = []
        run.append((node.name, own))
    _add(found, run)
    return found


def _node(fabric: Fabric, node: Node) -> Data:
    number = trailing_number(node.name)
    unit = fabric.units.get(node.unit or "")
    followed = number
    if node.unit is not None:
        followed = fabric.places.index(unit.number, node.place) if fabric.places and unit and node.place else None
    return _stated(
        profile=node.profile,
        unit=node.unit,
        place=node.place if node.unit is not None and node.place != number else None,
        rack=node.rack,
        index=node.index if node.index != followed else None,
        address=node.address,
        groups=list(node.groups) or None,
        ports=_ports(node.ports),
        vars=node.vars or None,
    )


def _follows(before: tuple[str, Data], after: tuple[str, Data]) -> bool:
    """Whether a node is the next of a range."""
    one, other = dict(before[1]), dict(after[1])
    first, second = one.pop("address", None), other.pop("address", None)
    index, following = one.pop("index", None), other.pop("index", None)
    if one != other or "place" in one or not _next(before[0], after[0]):
        return False
    if (index is None) != (following is None) or (index is not None and following != index + 1):
        return False
    return first is None and second is None or (first is not None and second is not None and _next(first, second))


def _as_wide(first: tuple[str, Data], last: tuple[str, Data]) -> bool:
    """Whether a range can reach so far: where its first number has zeros before it, all are as long (not 01 to 100)."""
    pairs = [(first[0], last[0]), (first[1].get("address", ""), last[1].get("address", ""))]
    numbers = [(_NUMBERED.match(one), _NUMBERED.match(other)) for one, other in pairs]
    return not any(
        one and other and one.group(2).startswith("0") and len(one.group(2)) != len(other.group(2))
        for one, other in numbers
    )


def _next(one: str, other: str) -> bool:
    """Whether two texts count on by one at their ends, in a form that a range has."""
    first = _NUMBERED.match(one)
    if not first or len(first.group(2)) > 9:
        return False
    width = len(first.group(2)) if first.group(2).startswith("0") else 0
    return other == "%s%0*d" % (first.group(1), width, int(first.group(2)) + 1)


def _add(found: Data, run: t.Sequence[tuple[str, Data]]) -> None:
    if not run:
        return
    (first, own), (last, other) = run[0], run[-1]
    if len(run) > 1:
        if "address" in own:
            own = dict(own, address=_range(own["address"], other["address"]))
        if "index" in own:
            own = dict(own, index="[%d:%d]" % (own["index"], other["index"]))
        found[_range(first, last)] = own
    else:
        found[first] = own


def _range(first: str, last: str) -> str:
    one, other = _NUMBERED.match(first), _NUMBERED.match(last)
    return "%s[%s:%s]" % (one.group(1), one.group(2), other.group(2)) if one and other else first

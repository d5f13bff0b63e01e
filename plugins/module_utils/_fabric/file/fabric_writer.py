# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writer of fabric files. The text of a fabric, read again, gives the same plan.

Values that are derived from others are not written. Values from a generator, a supernet or ``addresses`` are written at
each rail, because those of a rail take precedence.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import SUBNET, Scheme
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_fabric import PLUGIN
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.yaml_layout import Comments, render
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import link_layer_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.driver_model import file_value as _driver
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    HARDWARE,
    AgentSettings,
    Fabric,
    Firmware,
    Group,
    HostSettings,
    Node,
    NodeSettings,
    Port,
    Profile,
    Rail,
    Routing,
    Setting,
    Unit,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.health_model import HealthSettings
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.infiniband_model import (
    file_value as _infiniband,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.interface_model import Bond, Plane
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.qos_model import Qos
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import SUFFIX, Range, show
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import file_value
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import trailing_number

Data = t.Dict[str, t.Any]

_PORT_KEYS = (
    "bond", "netdev", "pci", "vlan", "planes", "rdma", "managed", "slot", "serial", "mac", "port", "gpu", "speed",
    "width", "pcie_gen", "pcie_lanes",
)  # fmt: skip
_NUMBERED = re.compile(r"(.*?)([0-9]+)\Z")


def write(fabric: Fabric, comments: Comments | None = None) -> str:
    """Return the fabric file of a fabric.

    :param comments: path of a key, such as ``("rails", "gpu01")`` -> lines of the comment above it; ``()``: at the top.
    """
    return render(document(fabric), comments)


def document(fabric: Fabric) -> Data:
    """Return the sections of the file as nested mappings."""
    sections: Data = {"plugin": PLUGIN, "fabric": _general(fabric)}
    if fabric.qos:
        sections["qos"] = _qos(fabric.qos)
    if fabric.names:
        sections["names"] = {kind: template.text for kind, template in fabric.names.items()}
    if fabric.units:
        sections["units"] = {unit.name: _unit(unit) for unit in fabric.units.values()}
    sections["rails"] = _rails(fabric)
    sections["profiles"] = {profile.name: _profile(profile) for profile in fabric.profiles.values()}
    if fabric.groups:
        sections["groups"] = {
            group.name: dict(
                _without_none(**_node_settings(group), ports=_ports(group.ports), vars=group.vars or None),
                **_domain(group),
            )
            for group in fabric.groups.values()
        }
    sections["nodes"] = _nodes(fabric)
    if fabric.health:
        sections["health"] = _health(fabric.health)
    if fabric.lint:
        sections["lint"] = [{"rule": each.code, "place": each.place, "reason": each.reason} for each in fabric.lint]
    return sections


def _health(health: HealthSettings) -> Data:
    """Return the section ``health``, with ``enabled`` so that it is never empty."""
    found = _different(health, HealthSettings(), ("interval", "quiet", "metrics", "metrics_port")) or {}
    kubernetes = _without_none(kubeconfig=health.kubeconfig, **(health.kubernetes or {}))
    return {
        "enabled": health.enabled,
        **found,
        **({"thresholds": dict(health.thresholds)} if health.thresholds else {}),
        **({"probe": {"rate": health.probe_rate}} if health.probe_rate else {}),
        **({"kubernetes": kubernetes} if kubernetes else {}),
    }


def _without_none(**values: t.Any) -> Data:
    return {key: value for key, value in values.items() if value is not None}


def _general(fabric: Fabric) -> Data:
    default_layer = link_layer_of(fabric.attachment)
    return _without_none(
        name=fabric.name,
        attachment=fabric.attachment,
        provider=fabric.provider,
        link_layer=fabric.link_layer if fabric.link_layer != default_layer else None,
        rdma_mode=fabric.rdma_mode,
        mtu=fabric.mtu,
        mac_seed=fabric.mac_seed,
        max_nodes=fabric.max_nodes,
        pods_per_node=fabric.pods_per_node,
        slots=_settings(fabric.slots),
        agent=_different(fabric.agent, AgentSettings(), ("metrics", "metrics_port", "gateway_check")),
        objects=dict(fabric.objects) or None,
        reserved={name: str(net) for name, net in fabric.reserved.items()} or None,
        routing=_routing(fabric.routing),
        infiniband=_infiniband(fabric.infiniband),
        vfs=_settings(fabric.vfs),
        **_host(fabric.host),
    )


def _routing(routing: Routing) -> Data | None:
    return _different(routing, Routing(), ("first_table", "first_priority", "mode", "cross_rail"))


def _different(settings: t.Any, default: t.Any, keys: t.Iterable[str]) -> Data | None:
    """Return the values that differ from those of ``default``; None if all are equal."""
    return {key: getattr(settings, key) for key in keys if getattr(settings, key) != getattr(default, key)} or None


def _settings(settings: t.Mapping[str, Setting | None]) -> Data | None:
    return {key: setting and setting.value for key, setting in settings.items()} or None


def _host(settings: HostSettings) -> Data:
    layers: Data = {}
    for layer, settings_of in settings.items():
        values = {key: setting.value for key, setting in settings_of.items()}
        if "kernel_arguments" in values:
            values["kernel_arguments"] = list(values["kernel_arguments"])
        if "hugepages" in values:
            values["hugepages"] = {_page_size(size): count for size, count in values["hugepages"].items()}
        layers[layer] = values
    return layers


def _page_size(size_kb: int) -> str:
    """Return a size as written in the file, in the largest unit that divides it."""
    for unit in ("K", "M"):
        if size_kb % 1024:
            return "%d%s" % (size_kb, unit)
        size_kb //= 1024
    return "%dG" % size_kb


def _qos(qos: Qos) -> Data:
    section: Data = {
        "priority": qos.priority,
        "dscp": qos.dscp,
        "cnp_priority": qos.cnp_priority,
        "cnp_dscp": qos.cnp_dscp,
        "trust": qos.trust,
        "pfc": list(qos.pfc),
        "ecn": qos.ecn,
    }
    if qos.profile:
        # values that the profile determines depend on the NICs
        section = {"profile": qos.profile.name, **{key: section[key] for key in section if key in qos.file_keys}}
    if qos.ets:
        section["ets"] = {
            "prio_tc": dict(enumerate(qos.ets.prio_tc)),
            "tc_bw": dict(qos.ets.tc_bw),
            "strict": list(qos.ets.strict),
        }
    if qos.buffers:
        section["buffers"] = _without_none(
            prio_buffer=dict(enumerate(qos.buffers.prio_buffer)),
            buffer_size=dict(qos.buffers.buffer_size) or None,
            cable_len=qos.buffers.cable_len,
        )
    return section


def _unit(unit: Unit) -> Data:
    return _without_none(
        number=unit.number if unit.number != trailing_number(unit.name) else None,
        site=unit.site,
        nodes=unit.nodes,
        leaf=unit.leaf.text if unit.leaf else None,
        leaf_port=unit.leaf_port.text if unit.leaf_port else None,
        leaves=dict(unit.leaves) or None,
        nvlink_domain=unit.nvlink_domain,
    )


def _rails(fabric: Fabric) -> Data:
    rails: Data = {}
    run: list[tuple[str, Data]] = []
    for rail in fabric.rails:
        whole = rail.planes == 1 and rail.nics == 1
        own = _rail(rail) if whole else {}
        # Rails that divide a network have the same settings, which one range of names has.
        divides = "numbering" in own or any("node_aggregate" + suffix in own for suffix in SUFFIX.values())
        one = (rail.name, own)
        if run and not (divides and own == run[0][1] and _is_next(run[-1][0], rail.name) and _same_width(run[0], one)):
            _add_range(rails, run)
            run = []
        if divides:
            run.append(one)
            continue
        if whole:
            rails[rail.name] = own
            continue
        # Settings of all parts are written at the rail, the addresses of each part at its NIC or plane.
        common = dict(_kind(rail), **_without_none(mtu=rail.mtu, vfs=_settings(rail.vfs)), **_device_planes(rail))
        base = rails.setdefault(rail.base, common)
        addresses = {key: value for key, value in _rail(rail).items() if key not in common}
        if rail.nics > 1:
            nics = base.setdefault("nics", [])
            if len(nics) < rail.nic:
                nics.append({} if rail.planes > 1 else addresses)
            base = nics[-1]
        if rail.planes > 1:
            base.setdefault("planes", []).append(addresses)
    _add_range(rails, run)
    return rails


def _device_planes(rail: Rail) -> Data:
    return {"planes": {"count": rail.device_planes, "balancing": HARDWARE}} if rail.device_planes > 1 else {}


def _kind(rail: Rail) -> Data:
    """Return the values of the rail's kind."""
    qos = _qos(rail.qos) if isinstance(rail.qos, Qos) else rail.qos
    return _without_none(
        role=rail.role if rail.has_role else None,
        link_layer=rail.link_layer,
        attachment=rail.attachment,
        qos=qos,
        infiniband=_infiniband(rail.infiniband),
    )


def _rail(rail: Rail) -> Data:
    section = _kind(rail)
    if rail.mode and rail.mode != SUBNET:
        section["mode"] = rail.mode
    for scheme in rail.schemes.values():
        section.update(_scheme(scheme))
    taken: dict[str, list[Range]] = {}
    for scheme in rail.schemes.values():
        for name, part in scheme.taken:
            taken.setdefault(name, []).append(part)
    ranges = {name: file_value(parts) for name, parts in taken.items()}
    section.update(_device_planes(rail))
    section.update(_without_none(taken=ranges or None, mtu=rail.mtu, vfs=_settings(rail.vfs)))
    return section


def _scheme(scheme: Scheme) -> Data:
    bits = scheme.network.bits
    suffix = SUFFIX[bits]
    gateway = show(scheme.gateway, bits) if isinstance(scheme.gateway, int) else scheme.gateway
    of_family = _without_none(
        subnet=str(scheme.network),
        gateway=gateway,
        pods=file_value(scheme.pods.parts) if scheme.pods else None,
        hosts=file_value(scheme.hosts.parts) if scheme.hosts else None,
        node_prefix=scheme.node_prefix,
        block=scheme.block,
        node_aggregate=scheme.node_aggregate,
    )
    both_families = _without_none(host=scheme.host, leaf_end=scheme.leaf_end, numbering=scheme.numbering)
    return dict({key + suffix: value for key, value in of_family.items()}, **both_families)


def _firmware(firmware: Firmware | None) -> Data | None:
    if firmware is None:
        return None
    return _without_none(
        link_type=firmware.link_type,
        sriov_en=firmware.sriov_en,
        num_of_vfs=firmware.num_of_vfs,
        version=firmware.version,
        parameters=firmware.parameters or None,
    )


def _port(port: Port) -> Data:
    gpus = list(port.gpus) or None
    keys: Data = {key: getattr(port, key) for key in _PORT_KEYS if key not in ("gpu", "bond", "vlan", "planes")}
    keys["gpu"] = gpus[0] if gpus and len(gpus) == 1 else gpus
    if port.rdma and port.rdma_port:
        keys["rdma"] = "%s:%d" % (port.rdma, port.rdma_port)
    keys["bond"] = _bond(port.bond) if port.bond else None
    vlan = port.vlan
    keys["vlan"] = vlan and (vlan.id if vlan.name is None else _without_none(**vlan._asdict()))
    keys["planes"] = [_plane(plane) for plane in port.planes] or None
    # With null, a port has no bond, VLAN or planes although its base has them.
    removed = {key: None for key in ("bond", "vlan", "planes") if key in port.keys and not getattr(port, key)}
    return dict(_without_none(**{key: keys[key] for key in _PORT_KEYS}), **removed)


def _bond(bond: Bond) -> Data:
    settings = bond._asdict()
    settings["members"] = [_without_none(**member._asdict()) for member in bond.members] or None
    return _without_none(**settings)


def _plane(plane: Plane) -> t.Any:
    function = plane.function._asdict() if plane.function else {}
    values = _without_none(rdma_port=plane.rdma_port, **function)
    return plane.rdma_port if list(values) == ["rdma_port"] else values


def _ports(ports: t.Mapping[str, Port | None]) -> Data | None:
    return {rail: None if port is None else _port(port) for rail, port in ports.items()} or None


def _node_settings(settings: NodeSettings, soft_rdma: str | None = None, nic: str | None = None) -> Data:
    return {
        "attachment": settings.attachment,
        "slots": _settings(settings.slots),
        "soft_rdma": soft_rdma,
        "nic": nic,
        "driver": _driver(settings.driver),
        "firmware": _firmware(settings.firmware),
        "infiniband": settings.partitions and settings.partitions.file_value(),
        "vfs": _settings(settings.vfs),
        **_host(settings.host),
    }


def _overridden(port: Port) -> Data:
    """Return the keys with which a port overrides its base; all keys of a port without one."""
    return {key: value for key, value in _port(port).items() if port.base is None or key in port.keys}


def _overrides(ports: t.Mapping[str, Port], base: t.Mapping[str, Port]) -> Data | None:
    """Return the ports of a profile that differ from its preset; None for a port that the profile removes."""
    found: Data = {rail: None for rail in base if rail not in ports}
    found.update((rail, _overridden(port)) for rail, port in ports.items() if port is not base.get(rail))
    return {rail: keys for rail, keys in found.items() if keys != {}} or None


def _other_ports(profile: Profile) -> Data | None:
    """Return the other ports of a profile that its preset does not have."""
    base = profile.preset.other_ports if profile.preset else {}
    on_rails = {function.pci for port in profile.ports.values() for function in port.functions}
    found: Data = {
        name: None for name, other in base.items() if name not in profile.other_ports and other.port.pci not in on_rails
    }
    for name, other in profile.other_ports.items():
        same = base.get(name)
        if other is not same:
            role = other.role if same is None or other.role != same.role else None
            found[name] = dict(_without_none(role=role), **_overridden(other.port))
    return found or None


def _profile(profile: Profile) -> Data:
    gpus: t.Any = profile.gpus
    preset = profile.preset
    if preset and gpus == preset.gpus:
        gpus = None
    if gpus is not None and list(gpus) == list(range(len(gpus))) and not any(gpus.values()):
        gpus = len(gpus)
    gpu_distance = profile.gpu_distance if not preset or profile.gpu_distance != preset.gpu_distance else None
    return _without_none(
        preset=preset.name if preset else None,
        **_node_settings(profile, profile.soft_rdma, profile.nic),
        **profile.expected,
        gpus=gpus,
        gpu_vendor=profile.gpu_vendor,
        gpu_model=profile.gpu_model,
        gpu_distance=gpu_distance,
        ports=_overrides(profile.ports, preset.ports) if preset else _ports(profile.ports),
        other_ports=_other_ports(profile),
    )


# -- nodes -------------------------------------------------------------------------------------------------------------


def _nodes(fabric: Fabric) -> Data:
    """Return the section ``nodes``. Consecutive nodes that differ only by their number are one range."""
    section: Data = {}
    run: list[tuple[str, Data]] = []
    for node in fabric.nodes:
        own = _node(fabric, node)
        if run and not (_continues(run[-1], (node.name, own)) and _same_width(run[0], (node.name, own))):
            _add_range(section, run)
            run = []
        run.append((node.name, own))
    _add_range(section, run)
    return section


def _domain(place: Group | Node) -> Data:
    return {} if place.nvlink_domain is None else {"nvlink_domain": place.nvlink_domain or None}


def _node(fabric: Fabric, node: Node) -> Data:
    number = trailing_number(node.name)
    unit = fabric.units.get(node.unit or "")
    derived_index = number
    if node.unit is not None:
        derived_index = fabric.places.index(unit.number, node.place) if fabric.places and unit and node.place else None
    found = _without_none(
        profile=node.profile,
        unit=node.unit,
        place=node.place if node.unit is not None and node.place != number else None,
        rack=node.rack,
        index=node.index if node.index != derived_index else None,
        address=node.address,
        groups=list(node.groups) or None,
        ports=_ports(node.ports),
        vars=node.vars or None,
    )
    return dict(found, **_domain(node))


def _continues(before: tuple[str, Data], after: tuple[str, Data]) -> bool:
    """Return whether two nodes can be consecutive in a range."""
    left, right = dict(before[1]), dict(after[1])
    left_address, right_address = left.pop("address", None), right.pop("address", None)
    left_index, right_index = left.pop("index", None), right.pop("index", None)
    if left != right or "place" in left or not _is_next(before[0], after[0]):
        return False
    if right_index != (None if left_index is None else left_index + 1):
        return False
    if left_address is None or right_address is None:
        return left_address is right_address
    return _is_next(left_address, right_address)


def _same_width(first: tuple[str, Data], last: tuple[str, Data]) -> bool:
    """Return whether numbers of a range with leading zeros have as many digits at its end (not 01 to 100)."""
    pairs = [(first[0], last[0]), (first[1].get("address", ""), last[1].get("address", ""))]
    matches = [(_NUMBERED.match(start), _NUMBERED.match(end)) for start, end in pairs]
    return not any(
        start and end and start.group(2).startswith("0") and len(start.group(2)) != len(end.group(2))
        for start, end in matches
    )


def _is_next(text: str, following: str) -> bool:
    """Return whether the number at the end of a text is one less than that of the following text."""
    match = _NUMBERED.match(text)
    if not match or len(match.group(2)) > 9:
        return False
    width = len(match.group(2)) if match.group(2).startswith("0") else 0
    return following == "%s%0*d" % (match.group(1), width, int(match.group(2)) + 1)


def _add_range(section: Data, run: t.Sequence[tuple[str, Data]]) -> None:
    """Add consecutive nodes to the section as one entry."""
    if not run:
        return
    (first, own), (last, other) = run[0], run[-1]
    if len(run) == 1:
        section[first] = own
        return
    if "address" in own:
        own = dict(own, address=_range(own["address"], other["address"]))
    if "index" in own:
        own = dict(own, index="[%d:%d]" % (own["index"], other["index"]))
    section[_range(first, last)] = own


def _range(first: str, last: str) -> str:
    """Return the host range from one name or address to another."""
    start, end = _NUMBERED.match(first), _NUMBERED.match(last)
    return "%s[%s:%s]" % (start.group(1), start.group(2), end.group(2)) if start and end else first

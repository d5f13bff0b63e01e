# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drafts of rails from the ports that device plugins and policies register, for each server model."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._common import vf_attributes
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import (
    import_rules,
    layout_rules,
    name_counting,
    node_selectors,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import (
    Device,
    Facts,
    PodNetwork,
    Pool,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found, Place
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import natural

# The limit of ConnectX.
_MOST_VFS = 127


@dataclass
class Draft:
    """A rail under construction. ``number``: the number in the names of its objects, from 0 or 1."""

    place: Place
    number: int | None = None
    netdev: str | None = None
    pci: str | None = None
    resource: str | None = None
    network: str | None = None
    namespace: str = ""
    networks: list[PodNetwork] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)
    pools: list[Pool] = field(default_factory=list)
    # number of a server model -> (netdev, PCI address) of its port, if models of nodes have different ports
    models: dict[int, tuple[str | None, str | None]] = field(default_factory=dict)
    # VLAN above the port that is the interface of the rail, and its name
    vlan: int | None = None
    vlan_name: str | None = None
    # attributes that were inferred from the numbering
    counted: list[str] = field(default_factory=list)

    @property
    def label(self) -> str:
        """Return the name to show in messages."""
        return self.network or self.resource or self.netdev or self.pci or "a rail"


def of_devices(facts: Facts, found: Found) -> list[Draft]:
    """Return one draft per port that device plugins register.

    Objects are compared only if a node can have both. If the nodes have different ports by label, there are several
    server models, and a draft has the port of each.
    """
    for device in facts.devices:
        device.nodes = facts.config_nodes.get(device.config_map or "", device.nodes)
    models = node_selectors.distinct(device.nodes for device in facts.devices if device.netdevs or device.pci)
    per_model = [
        [device for device in facts.devices if node_selectors.overlap(device.nodes, model)] for model in models
    ]
    # a model for each node by name is often one for all of them
    tables: dict[t.Any, list[node_selectors.Selector]] = {}
    for model, devices in zip(models, per_model):
        table = [(bare(each.resource), *_ports(each), each.vfs, each.vf_range) for each in devices]
        tables.setdefault(tuple(map(str, table)), []).append(model)
    facts.models = [node_selectors.Selector(sum((each.terms for each in same), ())) for same in tables.values()]
    chosen = [per_model[models.index(same[0])] for same in tables.values()]
    rails: list[Draft] = []
    for at, devices in enumerate(chosen):
        of_model = _of_model(devices, found)
        if len(chosen) == 1:
            return of_model
        for draft in of_model:
            _join(rails, draft, at)
    return rails


def _join(rails: list[Draft], draft: Draft, model: int) -> None:
    """Add the draft of a model to that of the same rail: with its resource, or with the number in its name."""
    number = name_counting.ordinal(bare(draft.devices[0].resource))
    candidates = [each for each in rails if model not in each.models]
    resources = {bare(device.resource) for device in draft.devices}
    same = [each for each in candidates if resources & {bare(device.resource) for device in each.devices}]
    if not same and number is not None:
        same = [each for each in candidates if name_counting.ordinal(bare(each.devices[0].resource)) == number]
    if same:
        same[0].models[model] = draft.netdev, draft.pci
        same[0].devices.extend(each for each in draft.devices if each not in same[0].devices)
        return
    draft.models[model] = draft.netdev, draft.pci
    rails.append(draft)


def _of_model(devices: t.Sequence[Device], found: Found) -> list[Draft]:
    """Return one draft per port of the nodes that have these devices. Report resources of several ports."""
    rails: list[Draft] = []
    ports_of: dict[str, set[str]] = {}
    for device in devices:
        identities = (netdev or address or "" for netdev, address in _ports(device))
        ports_of.setdefault(bare(device.resource), set()).update(identities)
    for device in devices:
        ports = ports_of[bare(device.resource)]
        if len(ports) > 1:
            message = "%s selects %s: a pod gets any or all of them" % (
                shown(device.resource),
                name_counting.compact(sorted(ports, key=natural)),
            )
            remedy = "give the port of each rail a resource of its own"
            found.add(import_rules.ONE_RESOURCE, device.place, message, remedy, "a rail and a resource for each port")
        if device.netdevs and device.pci and len(device.netdevs) != len(device.pci):
            numbers = (shown(device.resource), len(device.netdevs), len(device.pci))
            message = "%s selects %d ports by name and %d by PCI address" % numbers
            remedy = "write pci of each port, of %s, into the profile" % ", ".join(device.pci[:8])
            found.add(import_rules.NOT_KNOWN, device.place, message, remedy, "only the names")
        for netdev, address in _ports(device):
            draft = find_by_port(rails, netdev, address)
            if draft is None:
                draft = Draft(device.place)
                rails.append(draft)
            before = draft.netdev, draft.pci
            draft.netdev, draft.pci = draft.netdev or netdev or None, draft.pci or address
            if before == (None, None):
                pass
            elif any(_share_vfs(device, other) for other in draft.devices):
                names = (draft.devices[0].resource, device.resource, draft.netdev or draft.pci)
                message = "two resources, %s and %s, contain %s" % names
                remedy = "keep one: its devices are counted twice"
                found.add(import_rules.RESOURCE_TWICE, device.place, message, remedy, "the first")
            draft.devices.append(device)
            if len(ports) == 1 and draft.resource is None:
                draft.resource = device.resource
    for draft in rails:
        _keep_kernel_devices(draft, found)
    return rails


def _share_vfs(device: Device, other: Device) -> bool:
    """Return whether two resources of a port have the same devices."""
    if bare(other.resource) == bare(device.resource):
        return False
    parts = [vf_attributes.numbers(each.vf_range, 0) for each in (device, other) if each.vf_range]
    return len(parts) < 2 or bool(set(parts[0] or ()) & set(parts[1] or ()))


def _keep_kernel_devices(draft: Draft, found: Found) -> None:
    """Keep the devices with RDMA of a port. Report VFs that pods would take from another owner."""
    passed_on = [device for device in draft.devices if device.driver]
    kernel = [device for device in draft.devices if not device.driver]
    for device in passed_on:
        if kernel and all(not _share_vfs(device, other) for other in kernel):
            continue
        name = draft.netdev or draft.pci or draft.label
        message = "VFs%s of %s use the driver %s, without RDMA device and netdev" % (
            " " + device.vf_range if device.vf_range else "",
            shown(name),
            device.driver,
        )
        remedy = "leave them to their owner with vfs.range of the rail, such as range: 4-7, or end their use"
        found.add(layout_rules.OWNER, device.place, message, remedy, "VFs with their kernel driver")
    if kernel and passed_on:
        draft.devices = kernel
        draft.resource = kernel[0].resource


def vfs_of(draft: Draft) -> dict[str, t.Any]:
    """Return ``count`` and ``range`` of the VFs of a rail, as far as devices have them."""
    own = [each for each in draft.devices if bare(each.resource) == bare(draft.resource or "")] or draft.devices
    counts = [each.vfs for each in draft.devices if each.vfs]
    found: dict[str, t.Any] = {"count": min(max(counts), _MOST_VFS)} if counts else {}
    text = next((each.vf_range for each in own if each.vf_range), None)
    numbers = vf_attributes.numbers(text, 0) if text else None
    if numbers and numbers != range(found.get("count", 0)):
        found["range"] = text
        found["count"] = min(max(found.get("count", 0), numbers[-1] + 1), _MOST_VFS)
    return found


def _ports(device: Device) -> list[tuple[str, str | None]]:
    """Return the ports of a resource as (netdev, PCI address). The netdev may be empty, the address None."""
    if device.netdevs and len(device.netdevs) == len(device.pci):
        return list(zip(device.netdevs, device.pci))
    return [(name, None) for name in device.netdevs] or [("", address) for address in device.pci]


def bare(resource: str) -> str:
    """Return a resource's name without its prefix."""
    return resource.rpartition("/")[2]


def pod_count(draft: Draft) -> int | None:
    """Return how many VFs of the rail pods get; None if no object has the number."""
    vfs = vfs_of(draft)
    numbers = vf_attributes.numbers(vfs.get("range"), vfs.get("count") or 0)
    return len(numbers) if numbers else None


def find_by_port(
    rails: t.Sequence[Draft], netdev: str, address: str | None = None, resource: str | None = None
) -> Draft | None:
    """Return the rail of a port; if its rail differs by server model, the rail with the resource."""
    matches = [each for each in rails if _has_port(each, netdev, address)]
    if len(matches) > 1 and resource:
        named = [each for each in matches if any(bare(one.resource) == bare(resource) for one in each.devices)]
        matches = named or matches
    return matches[0] if matches else None


def _has_port(draft: Draft, netdev: str, address: str | None) -> bool:
    ports = [(draft.netdev, draft.pci), *draft.models.values()]
    return any((netdev and name == netdev) or (address and pci == address) for name, pci in ports)

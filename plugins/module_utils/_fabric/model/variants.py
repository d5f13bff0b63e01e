# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What a profile, with the groups of a node over it, comes to: worked out once for all nodes that share them."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import host_model as host
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import (
    INFINIBAND,
    has_vfs,
    rdma_mode_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.driver_model import Driver
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    Fabric,
    Firmware,
    Group,
    HostSettings,
    Node,
    Port,
    Profile,
    Rail,
    SlotSettings,
    VfSettings,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.infiniband_model import Partitions


@dataclass
class Variant:
    """A server model as some nodes have it. ``ports``: rail -> its port, in the order of the profile.

    ``attachment_path``: where the attachment is. ``vfs``: the groups' and the profile's own words; ``host`` and
    ``slots``: the fabric's too.
    """

    profile: Profile
    groups: tuple[Group, ...]
    attachment: str | None
    attachment_path: Path
    rdma_mode: str
    firmware: Firmware | None
    partitions: Partitions | None
    driver: Driver | None
    slots: SlotSettings
    vfs: VfSettings
    host: HostSettings
    ports: dict[str, Port]
    # Nodes with words of their own -> their ports: every rule asks for them.
    merged: dict[int, dict[str, Port]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.profile.name

    def vfs_on(self, fabric: Fabric, rail: Rail) -> VfSettings:
        """The VF settings on a rail: the fabric's, the rail's over them, the profile's and the groups' over both."""
        return dict(fabric.vfs, **dict(rail.vfs, **self.vfs))

    @property
    def has_vfs(self) -> bool:
        return has_vfs(self.attachment)

    @property
    def path(self) -> Path:
        """Where the last setting of it is."""
        return self.groups[-1].path if self.groups else self.profile.path


class Variants:
    """The variants of a fabric's nodes."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._known: dict[tuple[str, tuple[str, ...]], Variant] = {}
        self._aliases: dict[tuple[str, tuple[str, ...]], Variant] = {}
        # The nodes of each variant, in the order of the file.
        self.nodes: dict[int, list[Node]] = {}
        for node in fabric.nodes:
            variant = self._find(node)
            if variant:
                self.nodes.setdefault(id(variant), []).append(node)

    def __iter__(self) -> t.Iterator[Variant]:
        return iter(self._known.values())

    def of(self, node: Node) -> Variant | None:
        """A node's variant; None where its profile is not described."""
        return self._find(node)

    def with_unused(self) -> list[Variant]:
        """The variants, and those of profiles that no node has."""
        used = {variant.profile.name for variant in self}
        return list(self) + [_made(self._fabric, p, ()) for p in self._fabric.profiles.values() if p.name not in used]

    def tables(self) -> t.Iterator[tuple[Variant, dict[str, Port]]]:
        """Ports by rail: of each variant, also of profiles that no node has, and of nodes with words of their own."""
        for variant in self.with_unused():
            yield variant, variant.ports
            for node in self.nodes_of(variant):
                if node.ports:
                    yield variant, ports_of(node, variant)

    def rails_of(self, variant: Variant) -> set[str]:
        """The rails on which nodes of a variant have ports, be it by words of their own."""
        found = set(variant.ports)
        for node in self.nodes_of(variant):
            found.update(rail for rail, port in node.ports.items() if port is not None)
        return found

    def nodes_of(self, variant: Variant) -> list[Node]:
        return self.nodes.get(id(variant), [])

    def _find(self, node: Node) -> Variant | None:
        key = (node.profile or "", node.groups)
        known = self._known.get(key) or self._aliases.get(key)
        if known:
            return known
        profile = self._fabric.profiles.get(node.profile or "")
        if profile is None:
            return None
        groups = tuple(self._fabric.groups[name] for name in node.groups if name in self._fabric.groups)
        # Groups that the file does not describe make no variant of their own.
        short = (profile.name, tuple(group.name for group in groups))
        if short not in self._known:
            self._known[short] = _made(self._fabric, profile, groups)
        if short != key:
            self._aliases[key] = self._known[short]
        return self._known[short]


def ports_of(node: Node, variant: Variant) -> dict[str, Port]:
    """A node's ports by rail: its variant's, with the node's own words over them."""
    if not node.ports:
        return variant.ports
    found = variant.merged.get(id(node))
    if found is None:
        found = variant.merged[id(node)] = over(variant.ports, node.ports)
    return found


def over(ports: t.Mapping[str, Port], own: t.Mapping[str, Port | None]) -> dict[str, Port]:
    """Ports with others' words over them; None takes a port away."""
    merged = dict(ports)
    for rail, port in own.items():
        if port is None:
            merged.pop(rail, None)
        else:
            merged[rail] = port.over(merged.get(rail))
    return merged


def _made(fabric: Fabric, profile: Profile, groups: tuple[Group, ...]) -> Variant:
    attachment = fabric.attachment
    path: Path = ("fabric", "attachment")
    if profile.attachment:
        attachment, path = profile.attachment, profile.path + ("attachment",)
    firmware, vfs, ports = profile.firmware, dict(profile.vfs), profile.ports
    settings = host.over(fabric.host, profile.host)
    driver, partitions = profile.driver, profile.partitions
    slots = dict(fabric.slots, **profile.slots)
    for group in groups:
        if group.attachment:
            attachment, path = group.attachment, group.path + ("attachment",)
        driver = group.driver or driver
        firmware = group.firmware or firmware
        partitions = group.partitions or partitions
        slots.update(group.slots)
        vfs.update(group.vfs)
        settings = host.over(settings, group.host)
        ports = over(ports, group.ports) if group.ports else ports
    mode = rdma_mode_of(attachment)
    if fabric.rdma_mode and attachment == fabric.attachment:
        mode = fabric.rdma_mode
    return Variant(profile, groups, attachment, path, mode, firmware, partitions, driver, slots, vfs, settings, ports)


def guids(fabric: Fabric) -> bool:
    """Whether VFs have GUIDs, and not MAC addresses."""
    return fabric.link_layer == INFINIBAND

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variants: profiles merged with the groups of nodes, once for all nodes with the same profile and groups."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._common import vf_attributes
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import host_model as host
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import HOST, has_vfs
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
    Setting,
    VfSettings,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.infiniband_model import (
    Infiniband,
    Partitions,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of

# Attachment and link layer; kind -> the first rail that has it.
Kind = t.Tuple[t.Optional[str], t.Optional[str]]
Kinds = t.Dict[Kind, Rail]


@dataclass
class Variant:
    """The merged settings of a profile and groups.

    ``attachment``: of rails without their own; ``attachment_path``: its place. ``vfs``: settings of the profile and the
    groups; ``host`` and ``slots``: also of the fabric. ``ports``: rail -> its port, in the order of the profile.
    ``node_ports``: ``id`` of a node with overrides -> its ports.
    """

    profile: Profile
    groups: tuple[Group, ...]
    attachment: str | None
    attachment_path: Path
    rdma_mode: str
    firmware: Firmware | None
    partitions: Partitions | None
    driver: Driver | None
    slots: t.Mapping[str, Setting]
    vfs: VfSettings
    host: HostSettings
    ports: dict[str, Port]
    node_ports: dict[int, dict[str, Port]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.profile.name

    @property
    def gpus(self) -> t.Mapping[int, str | None]:
        """GPU number -> PCI address: the GPUs of the profile, or without these the GPUs of its ports."""
        if self.profile.gpus is not None:
            return self.profile.gpus
        return {gpu: None for port in self.ports.values() for gpu in port.gpus}

    def vfs_on(self, fabric: Fabric, rail: Rail) -> VfSettings:
        """Return the VF settings on a rail. The order of precedence is groups, profile, rail, fabric."""
        return dict(fabric.vfs, **dict(rail.vfs, **self.vfs))

    def pod_vfs_on(self, fabric: Fabric, rail: Rail) -> Setting | None:
        """Return how many VFs of a port pods can get: the size of ``range``, or else ``count``. None: not set."""
        settings = self.vfs_on(fabric, rail)
        part = settings.get("range")
        numbers = vf_attributes.numbers(part.value, 0) if part and part.value is not None else None
        return Setting(len(numbers), part.path) if part and numbers else settings.get("count")

    def attachment_on(self, rail: Rail) -> str | None:
        """Return the attachment on a rail. The rail takes precedence over the group, the profile and the fabric."""
        return rail.attachment or self.attachment

    def attachment_path_on(self, rail: Rail) -> Path:
        """Return the place of the attachment on a rail."""
        return rail.paths["attachment"] if rail.attachment else self.attachment_path

    def has_vfs_on(self, rail: Rail) -> bool:
        """Return whether pods get VFs on a rail."""
        return has_vfs(self.attachment_on(rail))

    def pkeys_on(self, fabric: Fabric, rail: Rail) -> tuple[Partitions | Infiniband | None, tuple[int, ...]]:
        """Return the section with the partition keys of a rail, and the keys. The rail takes precedence over the group,
        the profile and the fabric."""
        own = rail.infiniband if rail.infiniband and rail.infiniband.pkeys else None
        section = own or self.partitions or fabric.infiniband
        return section, section.pkeys if section else ()

    @property
    def path(self) -> Path:
        """The place of the last group, or of the profile without groups."""
        return self.groups[-1].path if self.groups else self.profile.path


class Variants:
    """The variants of a fabric's nodes."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._variants: dict[tuple[str, tuple[str, ...]], Variant] = {}
        self._aliases: dict[tuple[str, tuple[str, ...]], Variant] = {}
        # ``id`` of a variant with nodes -> the kinds of its rails.
        self._kinds: dict[int, Kinds] = {}
        # ``id`` of a variant -> its nodes, in the order of the file.
        self.nodes: dict[int, list[Node]] = {}
        for node in fabric.nodes:
            variant = self._find(node)
            if variant:
                self.nodes.setdefault(id(variant), []).append(node)
        if any(rail.attachment or rail.link_layer for rail in fabric.rails):
            for variant in self:
                variant.rdma_mode = rdma_mode(fabric, self.kinds_of(variant))

    def __iter__(self) -> t.Iterator[Variant]:
        return iter(self._variants.values())

    def of(self, node: Node) -> Variant | None:
        """Return the variant of a node; None if its profile is undefined."""
        return self._find(node)

    def with_unused(self) -> list[Variant]:
        """Return the variants, and one for each profile without nodes."""
        used = {variant.profile.name for variant in self}
        unused = [profile for profile in self._fabric.profiles.values() if profile.name not in used]
        return [*self, *(_merged_variant(self._fabric, profile, ()) for profile in unused)]

    def tables(self) -> t.Iterator[tuple[Variant, dict[str, Port]]]:
        """Yield the ports by rail of each variant, also of unused profiles, and of each node with overrides."""
        for variant in self.with_unused():
            yield variant, variant.ports
            for node in self.nodes_of(variant):
                if node.ports:
                    yield variant, ports_of(node, variant)

    def rails_of(self, variant: Variant) -> set[str]:
        """Return the rails on which nodes of a variant have ports, including overrides of nodes."""
        rails = set(variant.ports)
        for node in self.nodes_of(variant):
            rails.update(rail for rail, port in node.ports.items() if port is not None)
        return rails

    def kinds_of(self, variant: Variant) -> Kinds:
        """Return (attachment, link layer) -> the first rail with it on which nodes of a variant have ports."""
        known = self._kinds.get(id(variant))
        if known is not None:
            return known
        names = self.rails_of(variant)
        kinds: Kinds = {}
        for rail in self._fabric.rails:
            if rail.name in names:
                kinds.setdefault((variant.attachment_on(rail), self._fabric.link_layer_on(rail)), rail)
        if id(variant) in self.nodes:
            self._kinds[id(variant)] = kinds
        return kinds

    def nodes_of(self, variant: Variant) -> list[Node]:
        """Return the nodes of a variant, in the order of the file."""
        return self.nodes.get(id(variant), [])

    def _find(self, node: Node) -> Variant | None:
        key = (node.profile or "", node.groups)
        variant = self._variants.get(key) or self._aliases.get(key)
        if variant:
            return variant
        profile = self._fabric.profiles.get(node.profile or "")
        if profile is None:
            return None
        groups = tuple(self._fabric.groups[name] for name in node.groups if name in self._fabric.groups)
        # Undefined groups do not change the variant.
        defined = (profile.name, tuple(group.name for group in groups))
        if defined not in self._variants:
            self._variants[defined] = _merged_variant(self._fabric, profile, groups)
        if defined != key:
            self._aliases[key] = self._variants[defined]
        return self._variants[defined]


def ports_of(node: Node, variant: Variant) -> dict[str, Port]:
    """Return a node's ports by rail: those of its variant, with the overrides of the node."""
    if not node.ports:
        return variant.ports
    ports = variant.node_ports.get(id(node))
    if ports is None:
        ports = variant.node_ports[id(node)] = _overlay(variant.ports, node.ports)
    return ports


def _overlay(ports: t.Mapping[str, Port], overrides: t.Mapping[str, Port | None]) -> dict[str, Port]:
    """Return ports by rail with overrides. An override of None removes the port."""
    merged = dict(ports)
    for rail, port in overrides.items():
        if port is None:
            merged.pop(rail, None)
        else:
            merged[rail] = port.with_base(merged.get(rail))
    return merged


def _merged_variant(fabric: Fabric, profile: Profile, groups: tuple[Group, ...]) -> Variant:
    attachment = fabric.attachment
    path: Path = ("fabric", "attachment")
    if profile.attachment:
        attachment, path = profile.attachment, profile.path + ("attachment",)
    firmware, vfs, ports = profile.firmware, dict(profile.vfs), profile.ports
    settings = host.overlay(fabric.host, profile.host)
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
        settings = host.overlay(settings, group.host)
        ports = _overlay(ports, group.ports) if group.ports else ports
    mode = rdma_mode(fabric, [(attachment, fabric.link_layer)])
    stated = {key: setting for key, setting in slots.items() if setting}
    return Variant(profile, groups, attachment, path, mode, firmware, partitions, driver, stated, vfs, settings, ports)


def rdma_mode(fabric: Fabric, kinds: t.Collection[Kind]) -> str:
    """Return the RDMA mode of nodes whose rails have these attachments and link layers; a node has one.

    The mode of the file applies if the nodes have the fabric's attachment or several attachments. Otherwise, the first
    default that all of them support applies. A rail with the attachment HOST has no preference.
    """
    attachments = {attachment for attachment, _layer in kinds}
    if fabric.rdma_mode and (fabric.attachment in attachments or len(attachments) > 1):
        return fabric.rdma_mode
    facts = facts_of(fabric.provider)
    of_pods = [kind for kind in kinds if kind[0] != HOST] or kinds or [(fabric.attachment, fabric.link_layer)]
    modes = [facts.rdma_modes(*kind) for kind in of_pods]
    return next((mode for mode in modes[0] if all(mode in others for others in modes)), modes[0][0])

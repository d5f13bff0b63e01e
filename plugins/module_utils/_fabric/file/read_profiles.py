# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Readers of the sections ``profiles`` and ``groups``: server models, and settings of some nodes."""

from __future__ import annotations

import re

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_driver import (
    read_driver,
    read_firmware,
    read_partitions,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_host import read_host
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_ports import (
    INVALID_GPU,
    MAX_GPU,
    PCI_ADDRESS,
    expected,
    identified,
    make_port,
    port_texts,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_preset import (
    check_overrides,
    other_ports_of,
    read_preset,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_units import read_domain
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_values import (
    filled,
    label,
    read_slots,
    read_vfs,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_variables import (
    group_name,
    read_variables,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Report, rule, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import ATTACHMENTS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    DISTANCES,
    GPU_VENDORS,
    ROLES,
    Fabric,
    Group,
    NodeSettings,
    OtherPort,
    Port,
    Profile,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import file_rules, name_syntax
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Mapping
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry.nic_families import FAMILIES

PROFILE_NAME = rule(
    "RY204 profile-name: Invalid profile name",
    """
profiles:
  HGX CX-5:
    ports:
      gpu01: {netdev: enp11s0f0np0}
      gpu02: {netdev: enp12s0f0np0}
nodes:
  ai-1: {profile: HGX CX-5}
""",
    """
profiles:
  hgx-cx5:
    ports:
      gpu01: {netdev: enp11s0f0np0}
      gpu02: {netdev: enp12s0f0np0}
nodes:
  ai-1: {profile: hgx-cx5}
""",
)


def read_profile(fabric: Fabric, name: str, parent: Section, report: Report) -> Profile:
    """Return a profile. ``fabric``: with the rails, to which a preset assigns its ports."""
    path = parent.path + (name,)
    label(name, path, PROFILE_NAME, "a profile", report)
    profile = Profile(name, path)
    section = parent.section(name, "add its ports")
    if not section:
        return profile
    profile.preset = read_preset(fabric, section, path, report)
    _read_settings(profile, section, report)
    profile.gpus = _gpus(section, report)
    profile.gpu_vendor = section.choice("gpu_vendor", GPU_VENDORS)
    profile.gpu_model = _gpu_model(section, report)
    profile.gpu_distance = section.choice("gpu_distance", DISTANCES)
    profile.expected = expected(section)
    if profile.preset:
        profile.gpus = profile.preset.gpus if profile.gpus is None else profile.gpus
        profile.gpu_distance = profile.gpu_distance or profile.preset.gpu_distance
        profile.ports = dict(profile.preset.ports)
    required = "" if section.has("preset") else "add its ports by rail, such as gpu01: {netdev: enp11s0f0np0}"
    ports = section.section("ports", required)
    if ports and (section.has("preset") or filled(ports, report, "at least one port")):
        _read_ports(profile.ports, ports, section.has("preset"), report)
    if profile.preset:
        check_overrides(profile, report)
        profile.other_ports = other_ports_of(profile)
    others = section.section("other_ports")
    if others:
        _read_other_ports(profile.other_ports, others, section.has("preset"), report)
    section.done()
    return profile


def _gpu_model(section: Section, report: Report) -> str | None:
    """Return the type of the GPUs, a word that Slurm accepts in ``Type=``."""
    text = section.text("gpu_model")
    if text is None or re.match(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}\Z", text):
        return text
    message = "%s is not a type of GPUs" % shown(text)
    report.add(file_rules.KIND, section.path + ("gpu_model",), message, "write a part of the GPU's name, such as h100")
    return None


def _read_ports(ports: dict[str, Port], section: Section, overrides: bool, report: Report) -> None:
    """Add the ports of the section to the preset's, which they override key by key; null removes one.

    :param overrides: whether the profile has a preset, so that null can be valid.
    """
    for rail in section.mapping.entries:
        base = ports.get(rail)
        if base and section.written_null(rail):
            section.value(rail)
            del ports[rail]
            continue
        own = section.section(rail, _required(section, rail, overrides))
        if own is None:
            continue
        texts = port_texts(own)
        if base is None:
            identified(own, texts)
        own.done()
        ports[rail] = make_port(rail, own.path, texts, report).with_base(base)


def _required(section: Section, key: str, overrides: bool) -> str:
    """Return the remedy if a port has no keys; empty where null is valid."""
    return "" if overrides and not section.written_null(key) else "add keys to %s, or remove it" % shown(key)


def _read_other_ports(others: dict[str, OtherPort], section: Section, overrides: bool, report: Report) -> None:
    """Add the ports of the section to the preset's, as :func:`_read_ports` does."""
    for name in section.mapping.entries:
        base = others.get(name)
        if base and section.written_null(name):
            section.value(name)
            del others[name]
            continue
        own = section.section(name, _required(section, name, overrides))
        if own:
            others[name] = _other_port(name, own, base, report)


def _read_settings(settings: NodeSettings, section: Section, report: Report) -> None:
    """Read what profiles and groups have in common, in the order in which messages list the keys."""
    settings.attachment = section.choice("attachment", tuple(ATTACHMENTS))
    settings.slots = read_slots(section)
    if isinstance(settings, Profile):
        settings.soft_rdma = section.choice("soft_rdma", ("rxe", "siw"))
        settings.nic = section.choice("nic", tuple(FAMILIES), remedy="write one of them, or remove nic")
    settings.driver = read_driver(section)
    settings.firmware = read_firmware(section, report)
    settings.partitions = read_partitions(section, report)
    settings.vfs = read_vfs(section)
    settings.host = read_host(section, report)


def _other_port(name: str, section: Section, base: OtherPort | None, report: Report) -> OtherPort:
    role = section.choice("role", ROLES, "" if base else "set its role: storage or management")
    texts = port_texts(section, on_rail=False)
    if base is None:
        identified(section, texts)
    section.done()
    port = make_port(name, section.path, texts, report).with_base(base.port if base else None)
    return OtherPort(name, section.path, role or (base.role if base else None), port)


def _gpus(section: Section, report: Report) -> dict[int, str | None] | None:
    """Return GPU number -> PCI address, if known, from a number of GPUs or from their PCI addresses."""
    value = section.value("gpus")
    if value is None:
        return None
    path = section.path + ("gpus",)
    if not isinstance(value, Mapping):
        count = section.number("gpus", 0, MAX_GPU + 1, "GPUs")
        return None if count is None else {number: None for number in range(count)}
    own = section.section("gpus")
    gpus: dict[int, str | None] = {}
    for key in own.mapping.entries if own else ():
        text = own.text(key) if own else None
        if not re.match(r"(0|[1-9][0-9]?)\Z", key) or int(key) > MAX_GPU:
            message = "%s is not a GPU number" % shown(key)
            report.add(INVALID_GPU, path + (key,), message, "write a number from 0 to %d" % MAX_GPU)
            continue
        pci = None if text is None else name_syntax.pci(text)
        if text is not None and pci is None:
            remedy = "write domain:bus:device.function, such as 0000:1b:00.0"
            report.add(PCI_ADDRESS, path + (key,), "%s is not a PCI address" % shown(text), remedy)
        gpus[int(key)] = pci
    return gpus


def read_groups(fabric: Fabric, section: Section, report: Report) -> None:
    for name, own in section.sections():
        group_name(name, own.path, report)
        group = Group(name, own.path)
        _read_settings(group, own, report)
        group.ports = _group_ports(own, report)
        group.vars = read_variables(own, report)
        domain, null = own.text("nvlink_domain"), own.written_null("nvlink_domain")
        group.nvlink_domain = read_domain(domain, own.path, report, null)
        own.done()
        fabric.groups[name] = group


def _group_ports(section: Section, report: Report) -> dict[str, Port | None]:
    """Return rail -> the port that overrides that of the profile; None removes it."""
    own = section.section("ports")
    ports: dict[str, Port | None] = {}
    for rail, (_key, value) in own.mapping.entries.items() if own else ():
        path = section.path + ("ports", rail)
        if value.null:
            ports[rail] = None
            continue
        port = own.section(rail) if own else None
        if port:
            ports[rail] = make_port(rail, path, port_texts(port), report)
            port.done()
    return ports

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reader of the fabric file. The readers report invalid values; lint checks whether values go together."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_general import (
    read_general,
    read_lint,
    read_names,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_health import read_health
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_nodes import read_nodes
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_profiles import (
    read_groups,
    read_profile,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_rails import read_rails
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_units import read_units
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_values import filled
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Report, rule, shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import qos_model
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Document

PLUGIN = "railyard.fabric.rails"


def read(document: Document, report: Report) -> Fabric:
    """Return the fabric of a document, as far as it can be read. Other values are None and reported."""
    return read_sections(Section(document.root, (), report), report)


WRONG_PLUGIN = rule(
    "RY116 wrong-plugin: File of another inventory plugin",
    "plugin: railyard.fabric.rail\n" + example_file.ONE_RAIL,
    "plugin: railyard.fabric.rails\n" + example_file.ONE_RAIL,
)


def read_sections(top: Section, report: Report) -> Fabric:
    """Return the fabric of the top section, as :func:`read` does."""
    plugin = top.text("plugin", "begin the file with plugin: %s" % PLUGIN)
    if plugin not in (None, PLUGIN):
        message = "%s is not %s" % (shown(plugin or ""), PLUGIN)
        report.add(WRONG_PLUGIN, ("plugin",), message, "begin the file with plugin: %s" % PLUGIN)
    fabric = Fabric()
    general = top.section("fabric", "add name, attachment, provider and mtu")
    if general:
        read_general(fabric, general, report)
    addresses = top.section("addresses")
    units = top.section("units")
    if units and filled(units, report, "a unit"):
        read_units(fabric, units, report)
    rails = top.section("rails", "describe each rail, such as gpu01: {subnet: 172.16.11.0/24, hosts: .201-.253}")
    own_qos = read_rails(fabric, rails, addresses, report) if rails else []
    profiles = top.section("profiles", "describe a server model and its ports")
    if profiles and filled(profiles, report, "a server model"):
        for name in profiles.mapping.entries:
            fabric.profiles[name] = read_profile(fabric, name, profiles, report)
    groups = top.section("groups")
    if groups:
        read_groups(fabric, groups, report)
    nodes = top.section("nodes", "name the nodes, such as ai-[1:2]: {profile: hgx}")
    if nodes and filled(nodes, report, "a node"):
        read_nodes(fabric, nodes, report)
    names = top.section("names")
    if names:
        read_names(fabric, names, report)
    qos = top.section("qos") if top.has("qos") else None
    nics = {profile.nic for profile in fabric.profiles.values()}
    nic = nics.pop() if len(nics) == 1 else None
    if qos:
        fabric.qos = qos_model.read(qos, report, nic=nic)
    else:
        top.value("qos")
    for rail, section in own_qos:
        rail.qos = qos_model.read(section, report, qos, nic)
    health = top.section("health")
    if health:
        fabric.health = read_health(health)
    read_lint(fabric, top, report)
    top.done()
    return fabric

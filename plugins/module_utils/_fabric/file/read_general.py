# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Readers of the sections ``fabric``, ``names`` and ``lint``."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_driver import read_infiniband
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_host import read_host
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_values import (
    MAX_NODES,
    MAX_PODS,
    label,
    read_mtu,
    read_network,
    read_slots,
    read_vfs,
    template,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    RULES,
    Report,
    Suppression,
    rule,
    rule_of,
    shown,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import object_names
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import (
    ATTACHMENTS,
    ETHERNET,
    EXCLUSIVE,
    HOST,
    INFINIBAND,
    SHARED,
    link_layer_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    METRICS_HOSTS,
    OBJECT_KEYS,
    AgentSettings,
    Fabric,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import PROVIDERS, facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import file_rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import (
    RailTemplates,
    Template,
    did_you_mean,
    nearest,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Mapping, Sequence

FABRIC_NAME = rule(
    "RY201 fabric-name: Invalid fabric name",
    "fabric: {name: AI_East, attachment: macvlan, provider: spiderpool, mtu: 4200}",
    "fabric: {name: ai-east, attachment: macvlan, provider: spiderpool, mtu: 4200}",
)


def read_general(fabric: Fabric, section: Section, report: Report) -> None:
    fabric.name = section.text("name", "name the fabric")
    if fabric.name is not None:
        label(fabric.name, section.path + ("name",), FABRIC_NAME, "a fabric", report)
    attachments = tuple(ATTACHMENTS)
    section.value("attachment")
    providers = tuple(PROVIDERS)
    fabric.provider = section.choice("provider", providers, "set the provider: %s" % ", ".join(providers))
    has_pods = facts_of(fabric.provider).kubernetes
    required = "set how pods are attached to the rails: %s" % ", ".join(each for each in attachments if each != HOST)
    fabric.attachment = section.choice("attachment", attachments, required if has_pods else "")
    if not has_pods and not section.has("attachment"):
        fabric.attachment = HOST
    fabric.link_layer = section.choice("link_layer", (ETHERNET, INFINIBAND))
    # If the attachment could not be read, its link layer is unknown.
    known = fabric.attachment is not None or not (section.has("attachment") or section.misspelt("attachment"))
    if not section.has("link_layer") and not section.misspelt("link_layer") and known:
        fabric.link_layer = link_layer_of(fabric.attachment)
    fabric.rdma_mode = section.choice("rdma_mode", (SHARED, EXCLUSIVE))
    fabric.mtu = read_mtu(
        fabric.link_layer, section, "set the MTU that all switches of the rails support, such as mtu: 4200"
    )
    fabric.mac_seed = section.text("mac_seed")
    fabric.max_nodes = section.number("max_nodes", 1, MAX_NODES, "nodes")
    fabric.pods_per_node = section.number("pods_per_node", 1, MAX_PODS, "pods")
    fabric.slots = read_slots(section)
    agent = section.section("agent")
    if agent:
        fabric.agent = _agent(agent)
    objects = section.section("objects")
    if objects:
        given = {key: objects.flag(key) for key in OBJECT_KEYS}
        fabric.objects = {key: value for key, value in given.items() if value is not None}
        objects.done()
    reserved = section.section("reserved")
    if reserved:
        for name in reserved.mapping.entries:
            text = reserved.text(name)
            net = None if text is None else read_network(text, reserved.path + (name,), report)
            if net:
                fabric.reserved[name] = net
    routing = section.section("routing")
    if routing:
        _routing(fabric, routing)
    fabric.infiniband = read_infiniband(section, report)
    fabric.vfs = read_vfs(section)
    fabric.host = read_host(section, report)
    section.done()


def _agent(section: Section) -> AgentSettings:
    default = AgentSettings()
    settings = AgentSettings(
        metrics=section.choice("metrics", tuple(METRICS_HOSTS)) or default.metrics,
        metrics_port=section.number("metrics_port", 1024, 65535) or default.metrics_port,
        gateway_check=section.flag("gateway_check") or default.gateway_check,
        path=section.path,
    )
    section.done()
    return settings


def _routing(fabric: Fabric, section: Section) -> None:
    routing = fabric.routing
    routing.first_table = section.number("first_table", 1, 2**32 - 1) or routing.first_table
    routing.first_priority = section.number("first_priority", 1, 32765) or routing.first_priority
    routing.mode = section.choice("mode", ("source", "destination")) or routing.mode
    cross_rail = section.flag("cross_rail")
    routing.cross_rail = routing.cross_rail if cross_rail is None else cross_rail
    section.done()


def read_names(fabric: Fabric, section: Section, report: Report) -> None:
    fabric.names_path = section.path
    for kind, (fields, texts) in object_names.FIELDS.items():
        if "k" in fields and isinstance(section.value(kind), Mapping):
            _names_by_rail(fabric, kind, section, report)
            continue
        text = section.text(kind)
        if text is None:
            continue
        name_template = template(text, section.path + (kind,), fields, texts, report)
        if name_template:
            fabric.names[kind] = name_template
    section.done()


def _names_by_rail(fabric: Fabric, kind: str, names: Section, report: Report) -> None:
    """Read a mapping from rails to templates of their names. Each rail must have one."""
    section = names.section(kind)
    if section is None:
        return
    templates: dict[str, Template] = {}
    rails = [rail.name for rail in fabric.rails]
    for rail in rails or list(section.mapping.entries):
        text = section.text(rail, "set the name of the %s of %s" % (kind, rail))
        path = section.path + (rail,)
        name_template = None if text is None else template(text, path, *object_names.FIELDS[kind], report)
        if name_template:
            templates[rail] = name_template
    section.done()
    fabric.names[kind] = RailTemplates(templates)


def read_lint(fabric: Fabric, top: Section, report: Report) -> None:
    """Read the suppressions of the section ``lint`` into the fabric and the report."""
    value = top.value("lint")
    if value is None:
        return
    if not isinstance(value, Sequence):
        remedy = "write - {rule: no-host-addresses, place: rails.gpu01, reason: ...}"
        report.add(file_rules.KIND, ("lint",), "%s instead of a list" % value.kind, remedy)
        return
    for section in top.items("lint") or ():
        if section:
            _suppression(fabric, section, report)


INVALID_SUPPRESSION = rule(
    "RY117 invalid-suppression: Suppression of a rule that does not exist or cannot be suppressed",
    """
lint:
  - {rule: RY303, place: rails.gpu01, reason: "a local convention"}
""",
    example_file.RAILS,
    why="Findings that make the plan impossible, or would damage a node, cannot be suppressed.",
)


def _suppression(fabric: Fabric, section: Section, report: Report) -> None:
    text = section.text("rule", "add rule: the name or code of the finding, such as no-host-addresses or RY314")
    place = section.text("place", "add place: the place of the finding, such as rails.gpu01")
    reason = section.text("reason", "add reason: why the finding is accepted")
    section.done()
    if text is None:
        return
    path = section.path + ("rule",)
    known = rule_of(RULES, text)
    if known is None:
        near = nearest(text, [*RULES, *(each.name for each in RULES.values())])
        message = "unknown rule %s%s" % (shown(text), did_you_mean(near))
        report.add(INVALID_SUPPRESSION, path, message, "write the name or code of the finding to suppress")
    elif not known.suppressible:
        message = "%s cannot be suppressed" % known.label
        report.add(INVALID_SUPPRESSION, path, message, "fix the finding, and remove this entry")
    elif place is not None and reason is not None:
        suppression = Suppression(known.code, place, " ".join(reason.split()), section.path)
        fabric.lint.append(suppression)
        report.suppress(suppression)

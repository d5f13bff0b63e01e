# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reader of the keys that make a kind of rail: role, link layer, attachment, QoS and InfiniBand settings."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.read_driver import read_infiniband
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Report
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import (
    ATTACHMENTS,
    ETHERNET,
    INFINIBAND,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import (
    COMPUTE,
    RAIL_ROLES,
    Fabric,
    Rail,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.qos_model import LEAVE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.file_section import Section
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Mapping

KIND_KEYS = ("role", "link_layer", "attachment", "qos", "infiniband")


def read_kind(fabric: Fabric, rail: Rail, own: Section, report: Report) -> Section | None:
    """Read the kind of a rail. Return its section ``qos``, which overrides values of the fabric; None without one.

    Without ``link_layer``, an attachment that does not support the fabric's link layer determines it.

    :param own: the section of the rail.
    """
    rail.role = own.choice("role", RAIL_ROLES) or COMPUTE
    rail.attachment = own.choice("attachment", tuple(ATTACHMENTS))
    rail.link_layer = own.choice("link_layer", (ETHERNET, INFINIBAND))
    kind = ATTACHMENTS.get(rail.attachment or "")
    if kind and fabric.link_layer not in kind.link_layers and not own.has("link_layer"):
        rail.link_layer = kind.link_layers[0]
    rail.infiniband = read_infiniband(own, report, of_rail=True)
    qos = None
    if isinstance(own.value("qos"), Mapping):
        qos = own.section("qos")
    else:
        rail.qos = own.choice("qos", (LEAVE,))
    for key in KIND_KEYS:
        if own.has(key):
            rail.paths[key] = own.path + (key,)
    return qos

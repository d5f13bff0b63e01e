# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a planned port is: one answer for all readers of ``railyard_node.ports``."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import COMPUTE

Values = t.Mapping[str, t.Any]


def link_layer_of(fabric: Values, port: Values) -> str:
    """Return the link layer of a port. ``fabric``: ``railyard_fabric``."""
    return str(port.get("link_layer") or fabric["link_layer"])


def attachment_of(node: Values, port: Values) -> str:
    """Return the attachment of pods on a port. ``node``: ``railyard_node``."""
    return str(port.get("attachment") or node["attachment"])


def role_of(port: Values) -> str:
    """Return the role of a port's rail: compute or storage. The row of a rail in the plan document is as good."""
    return str(port.get("role") or COMPUTE)


def qos_of(fabric: Values, port: Values) -> Values | None:
    """Return the QoS settings of a port; None if it has none, as on InfiniBand."""
    settings: Values | None = port["qos"] if "qos" in port else fabric["qos"]
    return settings


def compute_ports(ports: t.Sequence[Values]) -> t.Sequence[Values]:
    """Return the ports of compute rails; all ports if none is."""
    return [port for port in ports if role_of(port) == COMPUTE] or ports

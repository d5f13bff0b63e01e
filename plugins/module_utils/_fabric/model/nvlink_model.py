# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""NVLink domains: nodes whose GPUs one NVLink network connects, such as the 18 compute trays of a GB200 NVL72.

IMEX shares GPU memory between the nodes of a domain. Its daemon runs as the service ``nvidia-imex`` of the host, or in
pods of NVIDIA's DRA driver, one for each ComputeDomain. Both on one node exclude each other: the GPU driver has one
IMEX session (NVIDIA/aicr pull request 2520, 2026-09).
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import host_model
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import NO_DOMAIN, Fabric, Node
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variant
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import IPV6, parse_address

# The largest published domain: NVL72 has 18 compute trays with 4 GPUs (NVIDIA GB200 NVL72 and GB300 NVL72).
MAX_NODES, MAX_GPUS = 18, 72
# Values of ``imex.daemon``.
HOST, COMPUTE_DOMAIN = "host", "compute-domain"
DAEMONS = (HOST, COMPUTE_DOMAIN)


def candidates(fabric: Fabric, node: Node) -> list[str]:
    """Return the domains that the file gives a node: its own, or else the domains of its groups and of its unit.

    With null, a node has none, and a group removes the domain of the unit.
    """
    given = [node.nvlink_domain]
    if node.nvlink_domain is None:
        given = [fabric.groups[name].nvlink_domain for name in node.groups if name in fabric.groups]
        unit = fabric.units.get(node.unit or "")
        if unit and NO_DOMAIN not in given:
            given.append(unit.nvlink_domain)
    return [name for name in dict.fromkeys(given) if name]


def domains(fabric: Fabric) -> dict[str, list[Node]]:
    """Return domain -> its nodes, both in the order of the file; empty if the file has no domains."""
    places: list[t.Any] = [*fabric.units.values(), *fabric.groups.values(), *fabric.nodes]
    if not any(each.nvlink_domain for each in places):
        return {}
    found: dict[str, list[Node]] = {}
    for node in fabric.nodes:
        for name in candidates(fabric, node)[:1]:
            found.setdefault(name, []).append(node)
    return found


def imex_daemon(fabric: Fabric, variant: Variant) -> str | None:
    """Return where the IMEX daemon of the nodes runs; None if the file does not manage it.

    The default is the host without Kubernetes, else ComputeDomains.
    """
    if host_model.IMEX not in variant.host:
        return None
    default = COMPUTE_DOMAIN if facts_of(fabric.provider).kubernetes else HOST
    return str(host_model.value(variant.host, host_model.IMEX, "daemon", default))


def imex_nodes(nodes: t.Iterable[Node]) -> list[str]:
    """Return the addresses of a domain's nodes for the nodes file of IMEX, in the order of the fabric file.

    IMEX compares the lists of all nodes, so that all have the same order. It accepts IP addresses only.
    """
    return [node.address for node in nodes if node.address and is_ip(node.address)]


def is_ip(text: str) -> bool:
    """Return whether an address of a node is an IP address, and not a host name."""
    return parse_address(text) is not None or parse_address(text, bits=IPV6) is not None

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RY35x: addresses and names that refer to the control node, or to no host."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path, Report, rule
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Fabric
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.variants import Variants
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import IPV6, SUFFIX
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.special_networks import (
    IMPLICIT,
    host_problem,
    mapped,
    network_problem,
)

_SIX = 'rails: {count: 2, name: "gpu{n:02}", subnet6: "%s", hosts6: "::c9-::fd"}\n'

RAIL = rule(
    "RY352 unusable-network: Network that hosts cannot have",
    example_file.rails("subnet: 239.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253"),
    example_file.RAILS,
)

SPECIAL_USE = rule(
    "RY353 special-use-network: Network with a special use",
    example_file.rails("subnet: 169.254.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253"),
    example_file.RAILS,
    why="Hosts configure link-local addresses by themselves, and much software refuses addresses from 240.0.0.0 on.",
    suppressible=True,
)

MAPPED = rule(
    "RY354 ipv4-mapped-network: IPv4 network written as IPv6",
    _SIX % "::ffff:10.{n}.0.0/112",
    _SIX % "fd00:{n+10}::/64",
    why="An IPv4-mapped network is never compared with the IPv4 network that it contains, and Kubernetes rejects it.",
)


def check(fabric: Fabric, _variants: Variants, report: Report) -> None:
    _nodes(fabric, report)
    for rail in fabric.rails:
        for net in rail.networks:
            path = rail.where("subnet" + SUFFIX[net.bits])
            plain = mapped(net)
            problem = network_problem(net)
            if plain:
                message = "%s of %s is the IPv4 network %s" % (net, rail.name, plain)
                report.add(MAPPED, path, message, "write it as IPv4, with the key %s" % str(path[-1]).rstrip("6"))
            elif problem:
                why, seldom = problem
                remedy = "use a unique local network, such as fd00:11::/64" if net.bits == IPV6 else ""
                remedy = remedy or "use a private network, such as 172.16.11.0/24"
                report.add(SPECIAL_USE if seldom else RAIL, path, "%s: %s" % (rail.name, why), remedy)
    for name, net in fabric.reserved.items():
        plain = mapped(net)
        if plain:
            message = "%s is the IPv4 network %s, and would be compared only with IPv6 networks" % (net, plain)
            report.add(MAPPED, ("fabric", "reserved", name), message, "write %s" % plain)


NODE = rule(
    "RY350 special-node-address: Invalid address of a node",
    "nodes:\n  ai-1: {profile: hgx, address: 127.0.0.1}",
    "nodes:\n  ai-1: {profile: hgx, address: 10.1.16.1}",
    why="A loopback address is that of the control node, which the playbooks would then prepare and reboot. For nodes"
    " behind forwarded ports, set ansible_host and ansible_port in vars.",
    suppressible=True,
)

NODE_NAME = rule(
    "RY351 control-node-name: Node name of the control node",
    "nodes:\n  localhost: {profile: hgx, index: 1, address: 10.1.16.1}",
    "nodes:\n  ai-1: {profile: hgx, address: 10.1.16.1}",
    why="Ansible treats localhost, 127.0.0.1 and ::1 as the machine on which it runs, and does not use SSH for them.",
)


def _nodes(fabric: Fabric, report: Report) -> None:
    """Report names and addresses of nodes that do not refer to a node."""
    checked: set[Path] = set()
    for node in fabric.nodes:
        if node.name in IMPLICIT or node.address is None and "ansible_host" not in node.vars:
            named = host_problem(node.name)
        else:
            named = None
        if named:
            message = "%s %s" % (node.name, named)
            report.add(NODE_NAME, node.path, message, "name the node as its cluster does, such as ai-1")
            continue
        path = node.path + ("address",)
        problem = None if node.address is None or path in checked else host_problem(node.address)
        if problem:
            checked.add(path)
            message = "%s of %s %s" % (node.address, node.name, problem)
            report.add(NODE, path, message, "write the address by which Ansible reaches the node from the control node")

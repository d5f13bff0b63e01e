# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY35x: addresses and names that refer to the control node, or to no host."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import rule

_RAIL = "rails:\n  gpu01: {%s}\n  gpu02: {subnet: 172.16.12.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253}\n"

_GOOD = _RAIL % "subnet: 172.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253"

_SIX = 'rails: {count: 2, name: "gpu{n:02}", subnet6: "%s", hosts6: "::c9-::fd"}\n'

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

RAIL = rule(
    "RY352 unusable-network: Network that hosts cannot have",
    _RAIL % "subnet: 239.16.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253",
    _GOOD,
)

SPECIAL_USE = rule(
    "RY353 special-use-network: Network with a special use",
    _RAIL % "subnet: 169.254.11.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253",
    _GOOD,
    why="Hosts configure link-local addresses by themselves, and much software refuses addresses from 240.0.0.0 on.",
    suppressible=True,
)

MAPPED = rule(
    "RY354 ipv4-mapped-network: IPv4 network written as IPv6",
    _SIX % "::ffff:10.{n}.0.0/112",
    _SIX % "fd00:{n+10}::/64",
    why="An IPv4-mapped network is never compared with the IPv4 network that it contains, and Kubernetes rejects it.",
)

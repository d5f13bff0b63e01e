# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY820 to RY829: problems that only rendered objects show: objects that cannot be rendered, and derived names."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    rule,
)

_PORTS = (
    "profiles:\n"
    '  hgx: {ports: {gpu01: {netdev: nic1, pci: "0000:0b:00.0"}, gpu02: {netdev: nic2, pci: "0000:0c:00.0"}}}\n'
    '  dgx: {attachment: ipvlan, ports: {gpu01: {netdev: %s1, pci: "0000:1b:00.0"},'
    ' gpu02: {netdev: %s2, pci: "0000:1c:00.0"}}}\n'
    "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: dgx}\n"
)

_TAKEN = (
    'rails: {count: 2, name: "gpu{n:02}", subnet: "172.16.{n+10}.0/24", pods: .1-.200, hosts: .201-.250,\n'
    '  subnet6: "fd00:{n}::/64", pods6: "::1-::100", hosts6: "::1001-::10ff", taken: {routers: "%s"}}\n'
)

_SIX = (
    "addresses: {mode: prefix, supernet6: 'fd00::/32', rail_prefix6: 48, node_prefix6: %d}\n"
    "rails: {gpu01: {}, gpu02: {}}\n"
)

_VFS = (
    "fabric: {name: ai, attachment: sriov, provider: network-operator, mtu: 4200, vfs: {count: 4}, pods_per_node: 4}\n"
    "names: {resource: %s}\n"
)

UNRENDERED = rule(
    "RY820 objects-not-rendered: Kubernetes objects that cannot be rendered",
    _PORTS % ("nic", "nic"),
    _PORTS % ("ens", "ens"),
    why="render.yml and kubernetes.yml would reject the plan. Here k8s-rdma-shared-dev-plugin would allocate one netdev"
    " under two resources on every node.",
)

LISTED = rule(
    "RY821 too-many-taken-addresses: Too many taken addresses for Spiderpool",
    _TAKEN % "::1:0:0-::1:ffff:ffff",
    _TAKEN % "::1:0-::1:ff",
    why="Its agent lists all taken addresses of a family for each address that a pod gets, and so does its controller"
    " if a rail has several ranges. Both run out of memory (1 GiB in the chart) at a few million addresses.",
)

TOO_LONG = rule(
    "RY822 derived-name-too-long: Name too long for a name derived from it",
    _VFS % '"a_long_name_of_a_resource_on_every_node_of_this_cluster_{rail}"',
    _VFS % '"{rail}_{attachment}"',
    why="Each name is within its limit, but controllers use it in the longer name of a label, a file or a socket. The"
    " limits are in docs/kubernetes-objects.md.",
)

POOL_FIXED = rule(
    "RY823 pool-not-changeable: Pool with too many addresses to be changed",
    _SIX % 64,
    _SIX % 112,
    WARNING,
    why="Spiderpool's controller lists all addresses of a pool at every change of the pool, and runs out of memory"
    " (1 GiB in the chart) at a few million. Such a pool can be created, used and deleted, but not changed.",
)

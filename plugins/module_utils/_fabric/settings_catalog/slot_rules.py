# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY83x: slots of the rail agent."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import WARNING, rule


def _fabric(more: str, attachment: str = "macvlan", provider: str = "agent") -> str:
    return "fabric: {name: ai, mtu: 4200, attachment: %s, provider: %s%s}\n" % (attachment, provider, more)


_SLOTS = ", slots: {all_rails: 4, per_rail: 2}"
_RAILS = 'rails: {count: 2, name: "%s{n}", subnet: "172.16.{n+10}.0/24", pods: .1-.200, hosts: .201-.253}\n'
_DRA = ", slots: {all_rails: 4, per_rail: 2, kubelet_plugin: dra%s}"
_PROFILE = 'profiles: {hgx: {ports: {%s1: {netdev: nic1, pci: "0000:0b:00.0"}, %s2: {netdev: nic2}}}}\n'


def _named(name: str) -> str:
    return _fabric(_SLOTS) + _RAILS % name + _PROFILE % (name, name)


SLOTS_UNUSED = rule(
    "RY832 slots-without-agent: Slots with a provider other than the agent",
    _fabric(_SLOTS, provider="spiderpool"),
    _fabric(_SLOTS),
    why="Other providers give each pod any free address of a pool.",
)

SLOTS_MISSING = rule(
    "RY833 missing-slots: Missing number of slots",
    _fabric(""),
    _fabric(_SLOTS),
    why="Each slot has its own address, so the plan must contain their number.",
)

NO_SLOTS = rule(
    "RY834 zero-slots: Zero slots",
    _fabric(", slots: {all_rails: 0, per_rail: 0}"),
    _fabric(_SLOTS),
)

SLOTS_FEW = rule(
    "RY835 too-few-slots: Fewer slots than pods on a node",
    _fabric(", pods_per_node: 8" + _SLOTS),
    _fabric(", pods_per_node: 6" + _SLOTS),
    why="Each pod has one slot of a rail, so the pods above that count stay pending.",
)

SLOTS_MANY = rule(
    "RY836 too-many-slots: More slots than devices on a port",
    _fabric(_SLOTS + ", vfs: {count: 4}", "sriov"),
    _fabric(_SLOTS + ", vfs: {count: 6}", "sriov"),
    why="With sriov, slot K is VF K. With host-device a pod gets the port itself, which is one slot.",
)

POOL_SHORT = rule(
    "RY837 slots-beyond-pool: Pool without addresses for the slots of a node",
    _fabric(_SLOTS) + "nodes:\n  ai-1: {profile: hgx}\n  ai-40: {profile: hgx}\n",
    _fabric(_SLOTS) + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: hgx}\n",
    why="The node with index I has the I-th part of the pool, so that no other node is renumbered when nodes change.",
)

NAME_UNUSED = rule(
    "RY838 name-without-object: Name of an object that the agent does not use",
    _fabric(_SLOTS) + 'names: {network: "{rail}-rdma"}\n',
    _fabric(_SLOTS) + "names: {resource_prefix: rails.example.com}\n",
    why="Pods request slots by resource_prefix and the name of a rail. There are no networks, pools or policies.",
)

DEVICE_NAME = rule(
    "RY839 agent-device-name: Rail name or resource prefix that is invalid for devices of the agent",
    _named("1-"),
    _named("gpu"),
    why="Prefix and rail are the vendor and the class of a CDI device. Both must begin with a letter, and together they"
    " are part of an annotation. The name rails is reserved for the resource with a slot on every rail.",
)


def _many(count: int) -> str:
    rails = 'rails: {count: %d, name: "r{n:02}", subnet: "172.16.{n}.0/24", pods: .1-.200, hosts: .201-.253}\n' % count
    ports = ", ".join("r%02d: {netdev: nic%d}" % (number, number) for number in range(1, count + 1))
    return _fabric(_DRA % "") + rails + "profiles: {hgx: {ports: {%s}}}\n" % ports


CLAIM_DEVICES = rule(
    "RY840 claim-too-large: More rails than devices in a claim",
    _many(33),
    _many(32),
    WARNING,
    why="A ResourceClaim has at most 32 devices. A slot on every rail (all_rails) is one device, so it is not limited.",
)

KUBECONFIG = rule(
    "RY841 agent-kubeconfig: Kubeconfig that the agent does not use",
    _fabric(_SLOTS.replace("}", ", kubeconfig: /etc/railyard/kubeconfig}")),
    _fabric(_DRA % ", kubeconfig: /etc/railyard/kubeconfig"),
    why="Device plugins do not use the API server. The DRA driver reads a file with an absolute path.",
)

SPOOFING = rule(
    "RY842 vf-without-spoof-check: VFs that let a pod use the MAC address of another",
    _fabric(_SLOTS + ", vfs: {count: 6, trust: true}", "sriov"),
    _fabric(_SLOTS + ", vfs: {count: 6, trust: false}", "sriov"),
    WARNING,
    why="A container with CAP_NET_ADMIN or CAP_NET_RAW can then send from the MAC address of another slot. The agent"
    " needs neither trust nor a disabled check.",
)

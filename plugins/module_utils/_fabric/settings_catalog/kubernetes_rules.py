# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY8xx: Kubernetes: attachments and modes that a provider supports, and limits of its objects.

The rules of names are in ``object_rules``.
"""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    WARNING,
    rule,
)

_PORTS = """
profiles:
  hgx:
    ports:
      gpu01: {netdev: enp11s0f0np0, pci: "0000:0b:00.0"}
      gpu02: {netdev: enp12s0f0np0, pci: "0000:0c:00.0"}
"""


def _fabric(more: str) -> str:
    return "fabric: {name: ai, mtu: 4200, %s}\n" % more


_MACVLAN = "attachment: macvlan, provider: spiderpool"

_OPERATOR = "attachment: macvlan, provider: network-operator"

_NAMES = 'names: {network: "{rail}-{profile}", resource: "{rail}_{profile}"}\n'

_SIX = (
    'rails: {count: 2, name: "gpu{n:02}", subnet: "172.16.{n+10}.0/24", pods: .1-.200, hosts: .201-.253,\n'
    '  subnet6: "fd00:{n}::/64", pods6: "::1-::100", hosts6: "::1001-::10ff", gateway6: "%s"}\n'
)

_RANGES = 'rails: {count: 2, name: "gpu{n:02}", subnet6: "fd00:{n}::/64", pods6: [%s], hosts6: +1-+9}\n'


def _rails(pods: str) -> str:
    return 'rails: {count: 2, name: "gpu{n:02}", subnet: "172.16.{n+10}.0/24", pods: %s, hosts: .201-.253}\n' % pods


NOT_SERVED = rule(
    "RY801 provider-attachment: Attachment that the provider does not support",
    _fabric("attachment: ipvlan, provider: network-operator"),
    _fabric("attachment: ipvlan, provider: spiderpool"),
)

MODE_NOT_SERVED = rule(
    "RY802 provider-address-mode: Address mode that the provider does not support",
    _fabric("attachment: macvlan, provider: cni"),
    _fabric("attachment: macvlan, provider: cni")
    + "addresses: {mode: block, block: 16}\n"
    + 'rails: {count: 2, name: "gpu{n:02}", subnet: "172.16.{n+10}.0/24", pods: .1-.200, hosts: .201-.253}',
)

NO_MASTER = rule(
    "RY808 network-without-netdev: Port without a netdev name that its network needs",
    _PORTS.replace("netdev: enp11s0f0np0, ", ""),
    _PORTS,
    why="The network object contains the name of the netdev (master). With pci, the port gets that name.",
)

MASTERS = rule(
    "RY809 network-netdev-mismatch: One network on netdevs with different names",
    _PORTS + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: hgx, ports: {gpu01: {netdev: nic7}}}\n",
    _PORTS + 'nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: hgx, ports: {gpu01: {pci: "0000:0f:00.0"}}}\n',
    why="A network object has one master, and a node without a netdev of that name cannot start its pods. Ports that"
    " are identified by pci, slot, serial or mac get the name in netdev, so all nodes can use the same name.",
)

TABLE_TAKEN = rule(
    "RY810 spiderpool-routing-table: Routing table number that Spiderpool uses",
    _fabric(_MACVLAN + ", routing: {first_table: 499}"),
    _fabric(_MACVLAN + ", routing: {first_table: 101}"),
    WARNING,
    why="Spiderpool keeps the routes to a node's pods in table 500 (hostRuleTable), which a rule before all others"
    " looks up.",
)

POOL_LARGE = rule(
    "RY811 pool-above-spiderpool-limit: Pool with more addresses than Spiderpool allocates from it",
    'rails: {count: 2, name: "gpu{n:02}", subnet: "172.{n+16}.0.0/16", pods: .0.1-.99.255, hosts: .200.1-.201.255}',
    'rails: {count: 2, name: "gpu{n:02}", subnet: "172.{n+16}.0.0/16", pods: .0.1-.15.255, hosts: .200.1-.201.255}',
    WARNING,
    why="SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS is 5000 by default.",
)

LINK_SHARED = rule(
    "RY812 link-without-pod-address: Link without an address for pods",
    _fabric("attachment: macvlan, provider: spiderpool")
    + "addresses: {mode: link, supernet: 172.16.0.0/12, rail_prefix: 16}\nrails: {gpu01: {}, gpu02: {}}",
    _fabric("attachment: host-device, provider: network-operator")
    + "addresses: {mode: link, supernet: 172.16.0.0/12, rail_prefix: 16}\nrails: {gpu01: {}, gpu02: {}}",
    why="A /31 has one address for the leaf and one for the port. A pod can get the address of the port together with"
    " the device: with host-device, or with one VF.",
)

LINK_TWICE = rule(
    "RY818 link-address-conflict: Same link address for a port and its VF",
    _fabric("attachment: sriov, provider: spiderpool, vfs: {count: 1}")
    + "addresses: {mode: link, supernet: 172.16.0.0/12, rail_prefix: 16}\nrails: {gpu01: {}, gpu02: {}}",
    _fabric("attachment: host-device, provider: network-operator")
    + "addresses: {mode: link, supernet: 172.16.0.0/12, rail_prefix: 16}\nrails: {gpu01: {}, gpu02: {}}",
    why="With host-device, the address moves into the pod with the port. A VF is an interface beside its port, so"
    " only one of the two can have the address. With host: none, it is the VF.",
)

MIXED_MODES = rule(
    "RY813 device-plugin-rdma-mode: Device plugin on nodes of the RDMA mode exclusive",
    _fabric(_MACVLAN)
    + _PORTS
    + "  dgx:\n    attachment: sriov\n    vfs: {count: 4}\n"
    + "    ports: {gpu01: {netdev: nic1}, gpu02: {netdev: nic2}}\n"
    + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: dgx}\n",
    _fabric(_MACVLAN) + _PORTS,
    WARNING,
    why="The chart has no node selector for k8s-rdma-shared-dev-plugin, which exits on nodes of the mode exclusive.",
)

LOCAL_ROUTER = rule(
    "RY819 link-local-gateway: Link-local gateway that the provider does not accept",
    _fabric(_MACVLAN) + _SIX % "fe80::1",
    _fabric(_MACVLAN) + _SIX % "::fffe",
    why="The webhooks of Spiderpool and nv-ipam require a pool's gateway in its subnet. Ports accept a link-local"
    " one, and so do pods with plain CNI, whose routes name the interface.",
)

BLOCKS = rule(
    "RY815 ipam-addresses-differ: Addresses that the provider's IPAM cannot allocate as planned",
    _fabric(_OPERATOR + ", pods_per_node: 4") + _rails(".11-.200"),
    _fabric(_OPERATOR + ", pods_per_node: 4") + _rails(".1-.200"),
    why="In a subnet, nv-ipam allocates blocks of pods_per_node addresses, at least two, from the first address on."
    " With the mode prefix, each node gets the addresses of the plan.",
)

BLOCK_SHORT = rule(
    "RY336 excluded-address-in-block: Excluded address in a node's block of pod addresses",
    _fabric(_OPERATOR + ", pods_per_node: 4") + _rails("[.1-.3, .5-.200]"),
    _fabric(_OPERATOR + ", pods_per_node: 4") + _rails("[.1-.100, .120-.200]"),
    WARNING,
    why="nv-ipam divides the subnet into blocks regardless of exclusions and of the gateway, so the node with such a"
    " block has fewer addresses than pods_per_node.",
)

RANGES_LARGE = rule(
    "RY337 pool-ranges-too-large: Pool of several ranges with too many addresses for Spiderpool",
    _RANGES % "+16-+1500000, +1600000-+1700000",
    _RANGES % "+16-+3000, +4000-+5000",
    why="If a pool has several ranges, Spiderpool's webhook lists all their addresses to sort them, and its controller"
    " runs out of memory. The addresses of a single range are not listed.",
)

NETDEV_RAILS = rule(
    "RY816 netdev-on-two-rails: Netdev on different rails of different nodes",
    _fabric(_MACVLAN)
    + _NAMES
    + _PORTS
    + "  dgx: {ports: {gpu01: {netdev: enp12s0f0np0}, gpu02: {netdev: enp14s0f0np0}}}\n"
    + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: dgx}\n",
    _fabric(_MACVLAN)
    + _NAMES
    + _PORTS
    + "  dgx: {ports: {gpu01: {netdev: enp13s0f0np0}, gpu02: {netdev: enp14s0f0np0}}}\n"
    + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: dgx}\n",
    why="k8s-rdma-shared-dev-plugin has one list of netdevs for each resource in the whole cluster, so the device would"
    " be allocated for both rails.",
)

INJECTED = rule(
    "RY817 netdev-order: Netdev names that do not sort in the order of the rails",
    "profiles:\n  hgx:\n    ports:\n      gpu01: {netdev: nic9}\n      gpu02: {netdev: nic10}\n",
    "profiles:\n  hgx:\n    ports:\n      gpu01: {netdev: nic09}\n      gpu02: {netdev: nic10}\n",
    WARNING,
    why="When Spiderpool injects networks, it sorts them by the names of their masters, so net1 of a pod is not rail 1."
    " Pods that name their networks in the annotation are not affected.",
)

_NO_PODS = 'rails: {count: 2, name: "gpu{n:02}", subnet: "172.16.{n+10}.0/24", hosts: .1-.253}\n'

WITHOUT_PODS = rule(
    "RY830 pods-without-kubernetes: Setting for pods in a fabric without Kubernetes",
    _fabric("provider: none") + _rails(".1-.200"),
    _fabric("provider: none") + _NO_PODS,
    why="With provider: none, the plan contains nothing for Kubernetes, so the setting would have no effect.",
)

WITHOUT_OPERATOR = rule(
    "RY831 driver-container-without-kubernetes: Driver container in a fabric without Kubernetes",
    _fabric("provider: none, gpudirect: {gpu_driver: container}") + _NO_PODS,
    _fabric("provider: none, gpudirect: {gpu_driver: host}") + _NO_PODS,
    why="The GPU Operator, which runs the driver in a container, needs Kubernetes.",
)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""RY8xx: Kubernetes: what each provider serves, and what its objects can say. Their names are in ``objects``."""

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
    "RY801",
    "The provider does not serve the attachment",
    _fabric("attachment: ipvlan, provider: network-operator"),
    _fabric("attachment: ipvlan, provider: spiderpool"),
)

MODE_NOT_SERVED = rule(
    "RY802",
    "The provider cannot give pods their addresses in the rail's mode",
    _fabric("attachment: macvlan, provider: cni"),
    _fabric("attachment: macvlan, provider: cni")
    + "addresses: {mode: block, block: 16}\n"
    + 'rails: {count: 2, name: "gpu{n:02}", subnet: "172.16.{n+10}.0/24", pods: .1-.200, hosts: .201-.253}',
)

NO_MASTER = rule(
    "RY808",
    "The attachment is made on a netdev, and a port has no name for it",
    _PORTS.replace("netdev: enp11s0f0np0, ", ""),
    _PORTS,
    why="The network's object names the netdev (master). With pci besides, the port is given that name on the node.",
)

MASTERS = rule(
    "RY809",
    "One network would be made on differently named netdevs",
    _PORTS + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: hgx, ports: {gpu01: {netdev: nic7}}}\n",
    _PORTS + 'nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: hgx, ports: {gpu01: {pci: "0000:0f:00.0"}}}\n',
    why="A network's object has one master, and a node without a netdev of that name cannot start its pods. Ports that"
    " are known by pci, slot, serial or mac get the name that netdev says, so all nodes can have one name.",
)

TABLE_TAKEN = rule(
    "RY810",
    "A rail's routing table is Spiderpool's own",
    _fabric(_MACVLAN + ", routing: {first_table: 499}"),
    _fabric(_MACVLAN + ", routing: {first_table: 101}"),
    WARNING,
    why="Spiderpool keeps the routes to a node's pods in table 500 (hostRuleTable), which a rule before all others"
    " looks up.",
)

POOL_LARGE = rule(
    "RY811",
    "A pool has more addresses than Spiderpool gives out of one",
    'rails: {count: 2, name: "gpu{n:02}", subnet: "172.{n+16}.0.0/16", pods: .0.1-.99.255, hosts: .200.1-.201.255}',
    'rails: {count: 2, name: "gpu{n:02}", subnet: "172.{n+16}.0.0/16", pods: .0.1-.15.255, hosts: .200.1-.201.255}',
    WARNING,
    why="Its SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS is 5000 until it is raised.",
)

LINK_SHARED = rule(
    "RY812",
    "A link has one address, and the attachment needs more",
    _fabric("attachment: macvlan, provider: spiderpool")
    + "addresses: {mode: link, supernet: 172.16.0.0/12, rail_prefix: 16}\nrails: {gpu01: {}, gpu02: {}}",
    _fabric("attachment: host-device, provider: network-operator")
    + "addresses: {mode: link, supernet: 172.16.0.0/12, rail_prefix: 16}\nrails: {gpu01: {}, gpu02: {}}",
    why="Of a /31 one address is the leaf's and one the port's. A pod can have the port's with the device itself:"
    " host-device, or one VF.",
)

LINK_TWICE = rule(
    "RY818",
    "A link's one address would be the port's and its VF's at once",
    _fabric("attachment: sriov, provider: spiderpool, vfs: {count: 1}")
    + "addresses: {mode: link, supernet: 172.16.0.0/12, rail_prefix: 16}\nrails: {gpu01: {}, gpu02: {}}",
    _fabric("attachment: host-device, provider: network-operator")
    + "addresses: {mode: link, supernet: 172.16.0.0/12, rail_prefix: 16}\nrails: {gpu01: {}, gpu02: {}}",
    why="With host-device the address goes with the port into the pod. A VF is another interface beside its port, so"
    " one of the two must do without: host: none leaves the address to the pod.",
)

MIXED_MODES = rule(
    "RY813",
    "Spiderpool's device plugin runs on all nodes, and some are in the rdma mode exclusive",
    _fabric(_MACVLAN)
    + _PORTS
    + "  dgx:\n    attachment: sriov\n    vfs: {count: 4}\n"
    + "    ports: {gpu01: {netdev: nic1}, gpu02: {netdev: nic2}}\n"
    + "nodes:\n  ai-1: {profile: hgx}\n  ai-2: {profile: dgx}\n",
    _fabric(_MACVLAN) + _PORTS,
    WARNING,
    why="The chart has no node selector for k8s-rdma-shared-dev-plugin, which ends where the mode is exclusive.",
)

LOCAL_ROUTER = rule(
    "RY819",
    "The provider's pools do not take a link-local gateway",
    _fabric(_MACVLAN) + _SIX % "fe80::1",
    _fabric(_MACVLAN) + _SIX % "::fffe",
    why="The webhooks of Spiderpool and nv-ipam want a pool's gateway in its subnet. Ports take a link-local one, and"
    " so do pods with plain CNI, whose routes name the interface.",
)

BLOCKS = rule(
    "RY815",
    "The operator's address manager would give out other addresses than the rail's pods",
    _fabric(_OPERATOR + ", pods_per_node: 4") + _rails(".11-.200"),
    _fabric(_OPERATOR + ", pods_per_node: 4") + _rails(".1-.200"),
    why="In one subnet nv-ipam cuts blocks of pods_per_node addresses, two or more, from the subnet's first address on."
    " With the mode prefix each node's addresses are where the plan says.",
)

BLOCK_SHORT = rule(
    "RY336",
    "An excluded address is in a node's block of addresses for pods",
    _fabric(_OPERATOR + ", pods_per_node: 4") + _rails("[.1-.3, .5-.200]"),
    _fabric(_OPERATOR + ", pods_per_node: 4") + _rails("[.1-.100, .120-.200]"),
    WARNING,
    why="nv-ipam cuts blocks without regard to its exclusions, so the node that gets such a block has fewer addresses"
    " than pods_per_node.",
)

RANGES_LARGE = rule(
    "RY337",
    "Several ranges of a pool have more addresses than Spiderpool can list",
    _RANGES % "+16-+1500000, +1600000-+1700000",
    _RANGES % "+16-+3000, +4000-+5000",
    why="Where a pool has several ranges, Spiderpool's webhook lists their addresses one by one to sort them, and its"
    " controller runs out of memory. One range is not listed.",
)

IFNAMES = rule(
    "RY816",
    "A netdev is of one rail on some nodes and of another on others",
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
    " be handed out for both rails.",
)

INJECTED = rule(
    "RY817",
    "The netdevs do not sort as the rails count",
    "profiles:\n  hgx:\n    ports:\n      gpu01: {netdev: nic9}\n      gpu02: {netdev: nic10}\n",
    "profiles:\n  hgx:\n    ports:\n      gpu01: {netdev: nic09}\n      gpu02: {netdev: nic10}\n",
    WARNING,
    why="Where Spiderpool injects networks by itself it does so in the text order of their masters, so net1 of a pod"
    " is then not rail 1. Pods that name their networks in the annotation are not affected.",
)

_NO_PODS = 'rails: {count: 2, name: "gpu{n:02}", subnet: "172.16.{n+10}.0/24", hosts: .1-.253}\n'

WITHOUT_PODS = rule(
    "RY830",
    "Setting for pods in a fabric without Kubernetes",
    _fabric("provider: none") + _rails(".1-.200"),
    _fabric("provider: none") + _NO_PODS,
    why="With provider: none nothing is planned for Kubernetes, and such a setting would have no effect.",
)

WITHOUT_OPERATOR = rule(
    "RY831",
    "Driver container in a fabric without Kubernetes",
    _fabric("provider: none, gpudirect: {gpu_driver: container}") + _NO_PODS,
    _fabric("provider: none, gpudirect: {gpu_driver: host}") + _NO_PODS,
    why="The GPU Operator, which runs the driver in a container, needs Kubernetes.",
)

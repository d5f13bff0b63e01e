# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules IM1xx to IM5xx: findings of the import. They have their own registry, because they do not check fabric files.

Each rule has an example of manifests with the finding (``bad``) and without it (``good``).
"""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    ERROR,
    WARNING,
    Rule,
    register,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.example_manifests import (
    BOTH,
    CONFIG_MAP,
    DEVICE,
    DEVICE_2,
    FOUR,
    GOOD_DEVICES,
    GOOD_NETWORK,
    GOOD_POLICY,
    GOOD_POOL,
    GOOD_SRIOV,
    SECOND,
    SECOND_POOL,
    devices,
    network,
    pool,
)

IMPORT_RULES: dict[str, Rule] = {}


def rule(header: str, bad: str, good: str, severity: str = WARNING) -> Rule:
    return register(IMPORT_RULES, header, bad, good, severity)


def changed(header: str, good: str, old: str, new: str, severity: str = WARNING) -> Rule:
    """Return a rule whose bad example is the good one with ``old`` replaced by ``new``."""
    return rule(header, good.replace(old, new), good, severity)


# -- reading

TEXT = rule("IM101 manifest-not-utf8: File that is not UTF-8 text", BOTH + "# \udcff\n", BOTH)
SYNTAX = rule(
    "IM102 manifest-invalid-yaml: Invalid YAML",
    pool("subnet: 172.16.11.0/24", "ips: [172.16.11.1-172.16.11.200"),
    GOOD_POOL,
    ERROR,
)
NO_MANIFEST = rule("IM103 no-manifest: File without a manifest", "Rails are parallel networks.", BOTH)
NOTHING = rule(
    "IM104 nothing-imported: No manifest that describes a rail", "apiVersion: v1\nkind: Namespace\n", BOTH, ERROR
)
WRONG_KIND = changed("IM105 wrong-kind: Misspelt kind or API group", GOOD_POOL, "SpiderIPPool", "SpiderIpPool")
TWICE = rule(
    "IM108 conflicting-networks: Two different definitions of one network",
    GOOD_NETWORK + "---" + SECOND.replace("gpu2-macvlan", "gpu1-macvlan"),
    GOOD_NETWORK + "---" + SECOND,
)
VARIABLE = changed("IM107 unset-variable: Variable without a value", GOOD_POOL, "gpu1-net11", "${POOL}")
CHART = rule(
    "IM112 unknown-chart: Helm values of an unknown chart",
    BOTH + "---\nrdmaSharedDevicePlugin:\n  image: k8s-rdma-shared-dev-plugin\n",
    BOTH + "---\nrdma:\n  rdmaSharedDevicePlugin:\n    deviceConfig: {configList: [%s]}\n" % DEVICE,
    ERROR,
)
JSON = rule(
    "IM109 invalid-json: Invalid JSON in a manifest",
    CONFIG_MAP + '    {"configList": [%s]\n' % DEVICE,
    CONFIG_MAP + '    {"configList": [%s]}\n' % DEVICE,
    ERROR,
)
ANNOTATION = rule(
    "IM110 invalid-networks-annotation: Invalid list of a pod's networks",
    GOOD_NETWORK + "---\nmetadata:\n  annotations:\n    k8s.v1.cni.cncf.io/networks: spiderpool/gpu1_macvlan!\n",
    GOOD_NETWORK + "---\nmetadata:\n  annotations:\n    k8s.v1.cni.cncf.io/networks: spiderpool/gpu1-macvlan\n",
)

# -- fields

LEVEL = rule(
    "IM201 misplaced-field: Field on the wrong level",
    network(
        "cniType: macvlan",
        "rdmaResourceName: spidernet.io/shared_gpu1",
        "macvlan: {master: [enp11s0f0np0]}",
        "ippools: {ipv4: [gpu1-net11]}",
    ),
    GOOD_NETWORK,
)
REMOVED = changed(
    "IM202 removed-field: Field that was removed from the API", GOOD_SRIOV, "rdmaIsolation: true", "enableRdma: true"
)
MISSPELT = rule(
    "IM203 misspelt-field: Misspelt field",
    GOOD_SRIOV.replace("mtu: 4200", "MaxTxRateMbps: 1000"),
    GOOD_SRIOV.replace("mtu: 4200", "maxTxRateMbps: 1000"),
)
UNKNOWN = changed("IM204 unknown-field: Unknown field", GOOD_NETWORK, "  mtu: 4200", "  zone: east")
KIND = rule(
    "IM205 wrong-field-type: Value of the wrong type",
    GOOD_POOL + "  ipVersion: ipv4\n  multusName: spiderpool/gpu1-macvlan\n",
    GOOD_POOL + "  ipVersion: 4\n  multusName: [spiderpool/gpu1-macvlan]\n",
)
ROUTE_WORDS = rule(
    "IM206 route-field-names: Route with to and via",
    GOOD_POOL + "  routes:\n    - {to: 172.16.0.0/16, via: 172.16.11.254}\n",
    GOOD_POOL + "  routes:\n    - {dst: 172.16.0.0/16, gw: 172.16.11.254}\n",
)
PKEY = rule(
    "IM207 manifest-partition-key: Partition key not of the form 0x...",
    network("cniType: ib-sriov", "ibsriov: {resourceName: spidernet.io/gpu1, pkey: 1000}"),
    network("cniType: ib-sriov", 'ibsriov: {resourceName: spidernet.io/gpu1, pkey: "0x1000"}'),
)
SECTION = changed(
    "IM208 cni-type-mismatch: cniType that does not match its section",
    GOOD_NETWORK,
    "cniType: macvlan",
    "cniType: ipvlan",
    ERROR,
)
NOT_KNOWN = changed(
    "IM209 unsupported-setting: Setting without an equivalent in the fabric file",
    GOOD_POLICY,
    "isRdma: true",
    "isRdma: false",
)
ATTACHMENT = rule(
    "IM210 unsupported-attachment: Missing or unsupported attachment",
    network("cniType: ovs", "ovs: {bridge: br0}"),
    GOOD_NETWORK,
    ERROR,
)
FIELD_LOST = rule(
    "IM211 field-not-imported: Field that is not imported",
    GOOD_POOL + "  podAffinity: {matchLabels: {app: training}}\n",
    GOOD_POOL,
)
KIND_LOST = rule(
    "IM212 object-not-imported: Object that is not imported",
    BOTH
    + "---\napiVersion: sriovnetwork.openshift.io/v1\nkind: OVSNetwork\nmetadata: {name: ovs}\nspec: {vlan: 100}\n",
    BOTH,
)


# -- addresses

HOST_BITS = changed("IM301 subnet-host-bits: Subnet with host bits set", GOOD_POOL, "172.16.11.0/24", "172.16.11.0/16")
SUBNET = changed(
    "IM302 invalid-pool-subnet: Invalid subnet of a pool", GOOD_POOL, "172.16.11.0/24", "172.16.11.0", ERROR
)
RANGE = changed(
    "IM303 range-notation: Range not written as first-last", GOOD_POOL, "172.16.11.1-172.16.11.200", "172.16.11.0/25"
)
OUTSIDE = changed("IM304 range-outside-subnet: Range outside its subnet", GOOD_POOL, "172.16.11.200", "172.16.11.256")
UNUSABLE = changed(
    "IM305 unusable-pod-address: Range with the gateway or an address that pods cannot have",
    GOOD_POOL,
    "172.16.11.200",
    "172.16.11.255",
)
GATEWAY = changed(
    "IM306 gateway-outside-subnet: Gateway outside its subnet", GOOD_POOL, "172.16.11.254", "172.16.12.254", ERROR
)
SUBNETS = changed(
    "IM308 pools-of-several-subnets: Pools of several subnets on one rail",
    FOUR,
    "[gpu1-net11]",
    "[gpu1-net11, gpu2-net12]",
    ERROR,
)
OVERLAP = changed(
    "IM309 pool-overlap: Overlapping pools",
    GOOD_POOL
    + "---"
    + GOOD_POOL.replace("gpu1-net11", "gpu1-more").replace("11.1-172.16.11.200", "11.201-172.16.11.220")
    + "---"
    + GOOD_NETWORK.replace("[gpu1-net11]", "[gpu1-net11, gpu1-more]"),
    "172.16.11.201-172.16.11.220",
    "172.16.11.1-172.16.11.200",
)
RAILS_OVERLAP = changed(
    "IM310 duplicate-rail-subnet: Subnets or pools of two rails that overlap", FOUR, "172.16.12", "172.16.11", ERROR
)
ONE_POOL = changed(
    "IM328 pool-of-several-rails: One pool for the pods of several rails", FOUR, "[gpu2-net12]", "[gpu1-net11]"
)
NO_SUBNET = rule("IM311 missing-subnet: Rail without a known subnet", GOOD_NETWORK, BOTH, ERROR)
LAYOUT = rule(
    "IM312 irregular-node-prefixes: Node prefixes that are not cut from their rail's network",
    GOOD_POOL.replace("gpu1-net11", "enp11s0f0np0-rail1-node1")
    .replace("172.16.11.0/24", "172.16.11.0/27")
    .replace("172.16.11.254", "172.16.11.1")
    .replace("172.16.11.1-172.16.11.200", "172.16.11.2-172.16.11.30"),
    BOTH,
    ERROR,
)
POOL_UNKNOWN = changed("IM313 undefined-pool: Undefined pool", BOTH, "[gpu1-net11]", "[gpu1-net1]")
POOL_UNUSED = rule("IM314 unused-pool: Unused pool", BOTH + "---" + SECOND_POOL, FOUR)
WILDCARD = changed(
    "IM315 wildcard-too-wide: Wildcard that matches the pools of other rails",
    GOOD_POOL.replace("gpu1-net11", "rail01-node1")
    + "---"
    + GOOD_POOL.replace("gpu1-net11", "rail10-node1").replace("172.16.11", "172.16.20")
    + "---"
    + GOOD_NETWORK.replace("gpu1-net11", "rail01*"),
    "rail01",
    "rail1",
)
MATCH_MASTER = changed(
    "IM316 match-master-subnet: matchMasterSubnet without effect",
    GOOD_NETWORK,
    "{ipv4: [gpu1-net11]}",
    "{ipv4: [gpu1-net11], matchMasterSubnet: true}",
)
IPAM = rule(
    "IM317 node-local-ipam: IPAM plugin without cluster-wide allocation",
    """
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: gpu1}
spec:
  config: '{"type": "macvlan", "master": "enp11s0f0np0",
    "ipam": {"type": "host-local", "subnet": "172.16.11.0/24"}}'
""",
    BOTH,
)
BLOCKS = rule(
    "IM318 unpredictable-blocks: Blocks of addresses that nv-ipam chooses",
    """
apiVersion: nv-ipam.nvidia.com/v1alpha1
kind: IPPool
metadata: {name: gpu1}
spec: {subnet: 172.16.11.0/24, perNodeBlockSize: 16, gateway: 172.16.11.254}
""",
    GOOD_POOL,
    ERROR,
)
OWN_BLOCKS = rule(
    "IM324 converted-to-blocks: Pool divided into one block per node",
    """
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: gpu1}
spec:
  config: '{"type": "macvlan", "master": "enp11s0f0np0",
    "ipam": {"type": "whereabouts", "range": "172.16.11.1-172.16.11.200/24"}}'
""",
    BOTH,
)
NO_HOSTS = changed(
    "IM320 no-host-addresses-left: No addresses left for the ports of a rail",
    BOTH,
    "172.16.11.200",
    "172.16.11.253",
    ERROR,
)
CIDR_POOL = """
apiVersion: nv-ipam.nvidia.com/v1alpha1
kind: CIDRPool
metadata: {name: rail-1}
spec:
  cidr: 10.101.0.0/16
  perNodeNetworkPrefix: 27
  gatewayIndex: 1
  perNodeExclusions: [{startIndex: 2, endIndex: 2}]
---
apiVersion: mellanox.com/v1alpha1
kind: MacvlanNetwork
metadata: {name: rail-1}
spec: {master: eth1, mtu: 4200, ipam: '{"type": "nv-ipam", "poolName": "rail-1", "poolType": "cidrpool"}'}
"""
HOSTS = rule("IM319 unknown-host-addresses: Unknown addresses of the ports", BOTH, CIDR_POOL)
HOST_IN_PODS = changed(
    "IM321 host-address-in-pool: Port address among the pod addresses",
    CIDR_POOL,
    "  perNodeExclusions: [{startIndex: 2, endIndex: 2}]\n",
    "",
    ERROR,
)
HELD = rule(
    "IM325 addresses-in-use: Addresses of a rail that another object uses",
    CIDR_POOL
    + "---\napiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: services}\n"
    + "spec: {addresses: [10.101.7.10-10.101.7.20]}\n",
    CIDR_POOL,
    ERROR,
)

_OF_NODE = GOOD_POOL.replace("  gateway:", "  nodeName: [ai-1]\n  gateway:")
_OF_NODE_2 = _OF_NODE.replace("net11", "more").replace("ai-1", "ai-2")
_NODES_POOLS = GOOD_NETWORK.replace("[gpu1-net11]", "[gpu1-net11, gpu1-more]")
UNEVEN = rule(
    "IM326 uneven-node-pools: Pools of nodes that are not blocks of one size",
    _OF_NODE.replace(".200]", ".16]") + "---" + _OF_NODE_2.replace(".1-172", ".17-172") + "---" + _NODES_POOLS,
    _OF_NODE.replace(".200]", ".16]")
    + "---"
    + _OF_NODE_2.replace(".1-172", ".17-172").replace(".200]", ".32]")
    + "---"
    + _NODES_POOLS,
)
LOST = changed(
    "IM327 excluded-node-addresses: Addresses of each node that only the manifests keep from pods",
    CIDR_POOL,
    "startIndex: 2, endIndex: 2",
    "startIndex: 10, endIndex: 12",
    ERROR,
)

# -- resources and names

UNREGISTERED = rule(
    "IM401 unregistered-resource: Resource that no device plugin registers",
    GOOD_DEVICES + "---" + GOOD_NETWORK.replace("shared_gpu1", "gpu1rdma"),
    GOOD_DEVICES + "---" + GOOD_NETWORK,
)
MISMATCH = rule(
    "IM402 resource-of-another-port: Network with the resource of another port",
    devices(DEVICE, DEVICE_2) + "---" + GOOD_NETWORK.replace("shared_gpu1", "shared_gpu2"),
    devices(DEVICE, DEVICE_2) + "---" + GOOD_NETWORK,
)
RESOURCE_NAME = rule(
    "IM403 invalid-resource-name: Resource name that the device plugin rejects",
    devices(DEVICE.replace("shared_gpu1", "shared-gpu1")),
    GOOD_DEVICES,
)
NO_RESOURCES = rule("IM404 no-resources: Empty list of resources", '{"configList": []}', GOOD_DEVICES, ERROR)
SELECTOR = rule(
    "IM405 resource-without-port-name: Resource that does not select a port by name",
    devices(DEVICE.replace('"ifNames": ["enp11s0f0np0"]', '"vendors": ["15b3"]')),
    GOOD_DEVICES,
    ERROR,
)
ONE_RESOURCE = rule(
    "IM406 shared-resource: One resource for the ports of several rails",
    devices(DEVICE.replace('["enp11s0f0np0"]', '["enp11s0f0np0", "enp12s0f0np0"]')),
    devices(DEVICE, DEVICE_2),
)
NO_UNITS = rule(
    "IM407 resource-without-devices: Resource without devices", devices(DEVICE.replace("100", "0")), GOOD_DEVICES
)
RESOURCE_TWICE = rule(
    "IM408 duplicate-resource: Resource or port registered twice",
    devices(DEVICE, DEVICE_2.replace("shared_gpu2", "shared_gpu1")),
    devices(DEVICE, DEVICE_2),
)
NETWORK_UNKNOWN = rule(
    "IM409 undefined-network: Pods on an undefined network",
    GOOD_NETWORK + "---\nmetadata:\n  annotations:\n    k8s.v1.cni.cncf.io/networks: gpu1-macvlan,gpu2-macvlan\n",
    GOOD_NETWORK + "---\nmetadata:\n  annotations:\n    k8s.v1.cni.cncf.io/networks: gpu1-macvlan\n",
)
NO_RESOURCE = changed(
    "IM410 network-without-resource: Network without a resource",
    GOOD_NETWORK,
    "    rdmaResourceName: spidernet.io/shared_gpu1\n",
    "",
)
NAMES = changed(
    "IM411 names-not-importable: Names that a fabric file cannot have", FOUR, "gpu2-macvlan", "gpu2.macvlan"
)

# -- rails and the fabric

_IPOIB = """
apiVersion: mellanox.com/v1alpha1
kind: IPoIBNetwork
metadata: {name: rail-1}
spec: {master: ibs1, ipam: '{"type": "%s", "poolName": "rail-1", "range": "172.16.11.1-172.16.11.200/24"}'}
"""

ATTACHMENTS = rule(
    "IM501 different-attachments: Rails with different attachments",
    GOOD_NETWORK + "---" + SECOND.replace("cniType: macvlan", "cniType: ipvlan").replace("macvlan:", "ipvlan:"),
    GOOD_NETWORK + "---" + SECOND,
)
ISOLATION = changed(
    "IM502 missing-rdma-isolation: VF without its RDMA device", GOOD_SRIOV, "    rdmaIsolation: true\n", ""
)
NO_PORT = rule("IM503 missing-port: Rail without a known port", GOOD_SRIOV, GOOD_POLICY + "---" + GOOD_SRIOV, ERROR)
COUNTED = rule(
    "IM504 completed-rail: Rail completed from the numbering of the others",
    BOTH + "---" + SECOND,
    FOUR,
)
MTU = changed("IM505 unknown-mtu: Unknown MTU", BOTH, "    mtu: 4200\n", "")
MTUS = rule(
    "IM506 conflicting-mtu: Conflicting MTUs of a rail",
    GOOD_POLICY.replace("isRdma: true", "mtu: 9000") + "---" + GOOD_SRIOV,
    GOOD_POLICY + "---" + GOOD_SRIOV,
)
NODES = rule(
    "IM507 unknown-nodes: Unknown nodes", BOTH, BOTH.replace("  gateway:", "  nodeName: [ai-1]\n  gateway:"), ERROR
)
NODES_NAMED = changed(
    "IM508 nodes-from-pools: Nodes known from pools only", BOTH, "  gateway:", "  nodeName: [ai-1]\n  gateway:"
)
VFS = changed("IM509 unknown-vf-count: Unknown number of VFs", GOOD_POLICY, "numVfs: 8", "numVfs: 0")
TWO_NETWORKS = rule(
    "IM510 two-networks-per-port: Two networks on one port",
    GOOD_NETWORK + "---" + SECOND.replace("enp12s0f0np0", "enp11s0f0np0"),
    GOOD_NETWORK + "---" + SECOND,
)
LINK = rule(
    "IM511 link-type-mismatch: Link type that contradicts the attachment",
    GOOD_POLICY.replace("linkType: eth", "linkType: ib") + "---" + GOOD_SRIOV,
    GOOD_POLICY + "---" + GOOD_SRIOV,
    ERROR,
)
QOS = rule(
    "IM514 qos-from-template: QoS taken from a NIC configuration template",
    BOTH
    + "---\napiVersion: configuration.net.nvidia.com/v1alpha1\nkind: NicConfigurationTemplate\nmetadata: {name: nics}\n"
    + 'spec: {template: {roceOptimized: {enabled: true, qos: {trust: dscp, pfc: "0,0,0,1,0,0,0,0", tos: 96}}}}\n',
    BOTH,
)
MANAGER = rule("IM515 unsupported-ipam: IPAM plugin that no provider uses", _IPOIB % "whereabouts", _IPOIB % "nv-ipam")
PROVIDER = rule("IM512 unknown-provider: Unknown provider", GOOD_DEVICES, BOTH)
GPUS = rule("IM513 gpus-from-names: GPUs of ports derived from names only", BOTH, BOTH.replace("gpu1", "first"))

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""IM1xx to IM5xx: what the import finds. They have a registry of their own, for they are no rules of a fabric file.

Of each rule ``bad`` is a piece of manifests in which it finds something, and ``good`` one in which it does not.
"""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import (
    ERROR,
    WARNING,
    Rule,
    example,
    register,
)

IMPORT_RULES: dict[str, Rule] = {}

_POOL = """
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata: {name: gpu1-net11}
spec:
"""
_NETWORK = """
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderMultusConfig
metadata: {name: gpu1-macvlan, namespace: spiderpool}
spec:
"""
_POLICY = """
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovNetworkNodePolicy
metadata: {name: gpu1, namespace: spiderpool}
spec:
"""
_CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: devices}
data:
  config.json: |
"""


def _rule(code: str, name: str, severity: str, title: str, bad: str, good: str) -> Rule:
    return register(IMPORT_RULES, Rule(code, name, severity, title, example(bad), example(good)))


def _pool(*lines: str) -> str:
    return _POOL + "".join("  %s\n" % line for line in lines)


def _network(*lines: str) -> str:
    return _NETWORK + "".join("  %s\n" % line for line in lines)


def _policy(*lines: str) -> str:
    return _POLICY + "".join("  %s\n" % line for line in lines)


def _devices(*entries: str) -> str:
    return '{"configList": [\n%s\n]}\n' % ",\n".join("  " + entry for entry in entries)


_GOOD_POOL = _pool("subnet: 172.16.11.0/24", "gateway: 172.16.11.254", "ips: [172.16.11.1-172.16.11.200]")
_GOOD_NETWORK = _network(
    "cniType: macvlan",
    "macvlan:",
    "  master: [enp11s0f0np0]",
    "  mtu: 4200",
    "  rdmaResourceName: spidernet.io/shared_gpu1",
    "  ippools: {ipv4: [gpu1-net11]}",
)
_GOOD_SRIOV = _network(
    "cniType: sriov",
    "sriov:",
    "  resourceName: spidernet.io/gpu1_vfs",
    "  rdmaIsolation: true",
    "  mtu: 4200",
    "  ippools: {ipv4: [gpu1-net11]}",
)
_GOOD_POLICY = _policy(
    "nodeSelector: {kubernetes.io/os: linux}",
    "resourceName: gpu1_vfs",
    "numVfs: 8",
    "nicSelector: {pfNames: [enp11s0f0np0]}",
    "linkType: eth",
    "isRdma: true",
)
_DEVICE = (
    '{"resourcePrefix": "spidernet.io", "resourceName": "shared_gpu1", "rdmaHcaMax": 100,'
    ' "selectors": {"ifNames": ["enp11s0f0np0"]}}'
)
_DEVICE_2 = _DEVICE.replace("gpu1", "gpu2").replace("enp11", "enp12")
_GOOD_DEVICES = _devices(_DEVICE)
_SECOND = _GOOD_NETWORK.replace("gpu1", "gpu2").replace("enp11", "enp12").replace("net11", "net12")
_SECOND_POOL = _GOOD_POOL.replace("gpu1", "gpu2").replace("172.16.11", "172.16.12").replace("net11", "net12")
_BOTH = _GOOD_POOL + "---" + _GOOD_NETWORK
_FOUR = _BOTH + "---" + _SECOND_POOL + "---" + _SECOND

# -- reading

TEXT = _rule("IM101", "manifest-not-utf8", WARNING, "File that is not UTF-8 text", _BOTH + "# \udcff\n", _BOTH)
SYNTAX = _rule(
    "IM102",
    "manifest-invalid-yaml",
    ERROR,
    "Invalid YAML",
    _pool("subnet: 172.16.11.0/24", "ips: [172.16.11.1-172.16.11.200"),
    _GOOD_POOL,
)
NO_MANIFEST = _rule("IM103", "no-manifest", WARNING, "File without a manifest", "Rails are parallel networks.", _BOTH)
NOTHING = _rule(
    "IM104", "nothing-imported", ERROR, "No manifest that describes a rail", "apiVersion: v1\nkind: Namespace\n", _BOTH
)
WRONG_KIND = _rule(
    "IM105",
    "wrong-kind",
    WARNING,
    "Misspelt kind or API group",
    _GOOD_POOL.replace("SpiderIPPool", "SpiderIpPool"),
    _GOOD_POOL,
)
ELIDED = _rule(
    "IM106",
    "elided-lines",
    WARNING,
    "Lines left out and replaced by dots",
    _devices(_DEVICE, "....", _DEVICE_2),
    _devices(_DEVICE, _DEVICE_2),
)
VARIABLE = _rule(
    "IM107",
    "unset-variable",
    WARNING,
    "Variable without a value",
    _GOOD_POOL.replace("gpu1-net11", "${POOL}"),
    "$ POOL=gpu1-net11\n$ cat <<EOF | kubectl apply -f -\n%sEOF\n" % _GOOD_POOL.replace("gpu1-net11", "${POOL}"),
)
TWICE = _rule(
    "IM108",
    "conflicting-networks",
    WARNING,
    "Two different definitions of one network",
    _GOOD_NETWORK + "---" + _GOOD_NETWORK.replace("macvlan:", "ipvlan:").replace("cniType: macvlan", "cniType: ipvlan"),
    _GOOD_NETWORK + "---" + _SECOND,
)
JSON = _rule(
    "IM109",
    "invalid-json",
    ERROR,
    "Invalid JSON in a manifest",
    _CONFIG_MAP + '    {"configList": [%s]\n' % _DEVICE,
    _CONFIG_MAP + '    {"configList": [%s]}\n' % _DEVICE,
)
ANNOTATION = _rule(
    "IM110",
    "invalid-networks-annotation",
    WARNING,
    "Invalid list of a pod's networks",
    _GOOD_NETWORK + "---\nmetadata:\n  annotations:\n    k8s.v1.cni.cncf.io/networks: spiderpool/gpu1_macvlan!\n",
    _GOOD_NETWORK + "---\nmetadata:\n  annotations:\n    k8s.v1.cni.cncf.io/networks: spiderpool/gpu1-macvlan\n",
)
DOUBLED = _rule(
    "IM111",
    "duplicate-json-key",
    WARNING,
    "Duplicate key in JSON",
    _devices(_DEVICE.replace("{", '{"rdmaHcaMax": 5, ', 1), _DEVICE_2),
    _devices(_DEVICE, _DEVICE_2),
)

# -- fields

LEVEL = _rule(
    "IM201",
    "misplaced-field",
    WARNING,
    "Field on the wrong level",
    _network(
        "cniType: macvlan",
        "rdmaResourceName: spidernet.io/shared_gpu1",
        "macvlan: {master: [enp11s0f0np0]}",
        "ippools: {ipv4: [gpu1-net11]}",
    ),
    _GOOD_NETWORK,
)
REMOVED = _rule(
    "IM202",
    "removed-field",
    WARNING,
    "Field that was removed from the API",
    _GOOD_SRIOV.replace("rdmaIsolation: true", "enableRdma: true"),
    _GOOD_SRIOV,
)
MISSPELT = _rule(
    "IM203",
    "misspelt-field",
    WARNING,
    "Misspelt field",
    _GOOD_SRIOV.replace("mtu: 4200", "MaxTxRateMbps: 1000"),
    _GOOD_SRIOV.replace("mtu: 4200", "maxTxRateMbps: 1000"),
)
UNKNOWN = _rule(
    "IM204",
    "unknown-field",
    WARNING,
    "Unknown field",
    _GOOD_NETWORK.replace("  mtu: 4200", "  zone: east"),
    _GOOD_NETWORK,
)
KIND = _rule(
    "IM205",
    "wrong-field-type",
    WARNING,
    "Value of the wrong type",
    _GOOD_POOL + "  ipVersion: ipv4\n  multusName: spiderpool/gpu1-macvlan\n",
    _GOOD_POOL + "  ipVersion: 4\n  multusName: [spiderpool/gpu1-macvlan]\n",
)
ROUTE_WORDS = _rule(
    "IM206",
    "route-field-names",
    WARNING,
    "Route with to and via",
    _GOOD_POOL + "  routes:\n    - {to: 172.16.0.0/16, via: 172.16.11.254}\n",
    _GOOD_POOL + "  routes:\n    - {dst: 172.16.0.0/16, gw: 172.16.11.254}\n",
)
PKEY = _rule(
    "IM207",
    "manifest-partition-key",
    WARNING,
    "Partition key not of the form 0x...",
    _network("cniType: ib-sriov", "ibsriov: {resourceName: spidernet.io/gpu1, pkey: 1000}"),
    _network("cniType: ib-sriov", 'ibsriov: {resourceName: spidernet.io/gpu1, pkey: "0x1000"}'),
)
SECTION = _rule(
    "IM208",
    "cni-type-mismatch",
    ERROR,
    "cniType that does not match its section",
    _GOOD_NETWORK.replace("cniType: macvlan", "cniType: ipvlan"),
    _GOOD_NETWORK,
)
NOT_KNOWN = _rule(
    "IM209",
    "unsupported-setting",
    WARNING,
    "Setting without an equivalent in the fabric file",
    _GOOD_NETWORK.replace("  mtu: 4200", "  vlanID: 100"),
    _GOOD_NETWORK,
)
ATTACHMENT = _rule(
    "IM210",
    "unsupported-attachment",
    ERROR,
    "Missing or unsupported attachment",
    _network("cniType: ovs", "ovs: {bridge: br0}"),
    _GOOD_NETWORK,
)
FIELD_LOST = _rule(
    "IM211",
    "field-not-imported",
    WARNING,
    "Field that is not imported",
    _GOOD_POOL + "  podAffinity: {matchLabels: {app: training}}\n",
    _GOOD_POOL,
)
KIND_LOST = _rule(
    "IM212",
    "object-not-imported",
    WARNING,
    "Object that is not imported",
    _BOTH
    + "---\napiVersion: sriovnetwork.openshift.io/v1\nkind: OVSNetwork\nmetadata: {name: ovs}\nspec: {vlan: 100}\n",
    _BOTH,
)

# -- addresses

HOST_BITS = _rule(
    "IM301",
    "subnet-host-bits",
    WARNING,
    "Subnet with host bits set",
    _GOOD_POOL.replace("172.16.11.0/24", "172.16.11.0/16"),
    _GOOD_POOL,
)
SUBNET = _rule(
    "IM302",
    "invalid-pool-subnet",
    ERROR,
    "Invalid subnet of a pool",
    _GOOD_POOL.replace("172.16.11.0/24", "172.16.11.0"),
    _GOOD_POOL,
)
RANGE = _rule(
    "IM303",
    "range-notation",
    WARNING,
    "Range not written as first-last",
    _GOOD_POOL.replace("172.16.11.1-172.16.11.200", "172.16.11.0/25"),
    _GOOD_POOL,
)
OUTSIDE = _rule(
    "IM304",
    "range-outside-subnet",
    WARNING,
    "Range outside its subnet",
    _GOOD_POOL.replace("172.16.11.200", "172.16.11.256"),
    _GOOD_POOL,
)
UNUSABLE = _rule(
    "IM305",
    "unusable-pod-address",
    WARNING,
    "Range with the gateway or an address that pods cannot have",
    _GOOD_POOL.replace("172.16.11.200", "172.16.11.255"),
    _GOOD_POOL,
)
GATEWAY = _rule(
    "IM306",
    "gateway-outside-subnet",
    ERROR,
    "Gateway outside its subnet",
    _GOOD_POOL.replace("172.16.11.254", "172.16.12.254"),
    _GOOD_POOL,
)
SUBNETS = _rule(
    "IM308",
    "pools-of-several-subnets",
    ERROR,
    "Pools of several subnets on one rail",
    _GOOD_POOL + "---" + _SECOND_POOL + "---" + _GOOD_NETWORK.replace("[gpu1-net11]", "[gpu1-net11, gpu2-net12]"),
    _BOTH,
)
OVERLAP = _rule(
    "IM309",
    "pool-overlap",
    WARNING,
    "Overlapping pools",
    _GOOD_POOL
    + "---"
    + _GOOD_POOL.replace("gpu1-net11", "gpu1-more")
    + "---"
    + _GOOD_NETWORK.replace("[gpu1-net11]", "[gpu1-net11, gpu1-more]"),
    _BOTH,
)
RAILS_OVERLAP = _rule(
    "IM310", "duplicate-rail-subnet", ERROR, "Two rails with one subnet", _FOUR.replace("172.16.12", "172.16.11"), _FOUR
)
NO_SUBNET = _rule("IM311", "missing-subnet", ERROR, "Rail without a known subnet", _GOOD_NETWORK, _BOTH)
LAYOUT = _rule(
    "IM312",
    "irregular-node-prefixes",
    ERROR,
    "Node prefixes that are not cut from their rail's network",
    _GOOD_POOL.replace("gpu1-net11", "enp11s0f0np0-rail1-node1")
    .replace("172.16.11.0/24", "172.16.11.0/27")
    .replace("172.16.11.254", "172.16.11.1")
    .replace("172.16.11.1-172.16.11.200", "172.16.11.2-172.16.11.30"),
    _BOTH,
)
POOL_UNKNOWN = _rule(
    "IM313",
    "undefined-pool",
    WARNING,
    "Undefined pool",
    _BOTH.replace("[gpu1-net11]", "[gpu1-net1]"),
    _BOTH,
)
POOL_UNUSED = _rule("IM314", "unused-pool", WARNING, "Unused pool", _BOTH + "---" + _SECOND_POOL, _FOUR)
WILDCARD = _rule(
    "IM315",
    "wildcard-too-wide",
    WARNING,
    "Wildcard that matches the pools of other rails",
    _GOOD_POOL.replace("gpu1-net11", "rail1-node1")
    + "---"
    + _GOOD_POOL.replace("gpu1-net11", "rail10-node1").replace("172.16.11", "172.16.20")
    + "---"
    + _GOOD_NETWORK.replace("gpu1-net11", "rail1*"),
    _GOOD_POOL.replace("gpu1-net11", "rail01-node1") + "---" + _GOOD_NETWORK.replace("gpu1-net11", "rail01*"),
)
MATCH_MASTER = _rule(
    "IM316",
    "match-master-subnet",
    WARNING,
    "matchMasterSubnet without effect",
    _GOOD_NETWORK.replace("{ipv4: [gpu1-net11]}", "{ipv4: [gpu1-net11], matchMasterSubnet: true}"),
    _GOOD_NETWORK,
)
IPAM = _rule(
    "IM317",
    "node-local-ipam",
    WARNING,
    "IPAM plugin without cluster-wide allocation",
    """
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: gpu1}
spec:
  config: '{"type": "macvlan", "master": "enp11s0f0np0",
    "ipam": {"type": "host-local", "subnet": "172.16.11.0/24"}}'
""",
    _BOTH,
)
BLOCKS = _rule(
    "IM318",
    "unpredictable-blocks",
    ERROR,
    "Blocks of addresses that nv-ipam chooses",
    """
apiVersion: nv-ipam.nvidia.com/v1alpha1
kind: IPPool
metadata: {name: gpu1}
spec: {subnet: 172.16.11.0/24, perNodeBlockSize: 16, gateway: 172.16.11.254}
""",
    _GOOD_POOL,
)
OWN_BLOCKS = _rule(
    "IM324",
    "converted-to-blocks",
    WARNING,
    "Pool divided into one block per node",
    """
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: gpu1}
spec:
  config: '{"type": "macvlan", "master": "enp11s0f0np0",
    "ipam": {"type": "whereabouts", "range": "172.16.11.1-172.16.11.200/24"}}'
""",
    _BOTH,
)
HOSTS = _rule(
    "IM319",
    "unknown-host-addresses",
    WARNING,
    "Unknown addresses of the ports",
    _BOTH,
    _BOTH + "---\n$ INTERFACE=enp11s0f0np0 IPV4_IP=172.16.11.201/24 ENABLE_POLICY_ROUTE=true ./setNicAddr.sh\n",
)
NO_HOSTS = _rule(
    "IM320",
    "no-host-addresses-left",
    ERROR,
    "No addresses left for the ports of a rail",
    _BOTH.replace("172.16.11.200", "172.16.11.253"),
    _BOTH,
)
HOST_IN_PODS = _rule(
    "IM321",
    "host-address-in-pool",
    ERROR,
    "Port address among the pod addresses",
    _BOTH + "---\n$ INTERFACE=enp11s0f0np0 IPV4_IP=172.16.11.10/24 ENABLE_POLICY_ROUTE=true ./setNicAddr.sh\n",
    _BOTH + "---\n$ INTERFACE=enp11s0f0np0 IPV4_IP=172.16.11.201/24 ENABLE_POLICY_ROUTE=true ./setNicAddr.sh\n",
)
ADDRESS = _rule(
    "IM322",
    "invalid-port-address",
    WARNING,
    "Invalid port address",
    _BOTH + "---\n$ INTERFACE=enp11s0f0np0 IPV4_IP=172.16.11.201 ENABLE_POLICY_ROUTE=true ./setNicAddr.sh\n",
    _BOTH + "---\n$ INTERFACE=enp11s0f0np0 IPV4_IP=172.16.11.201/24 ENABLE_POLICY_ROUTE=true ./setNicAddr.sh\n",
)
DEFAULT_ROUTE = _rule(
    "IM323",
    "default-route-on-rail",
    WARNING,
    "Node's default route over a rail",
    _BOTH + "---\n$ INTERFACE=enp11s0f0np0 IPV4_IP=172.16.11.201/24 IPV4_GATEWAY=172.16.11.254 ./setNicAddr.sh\n",
    _BOTH
    + "---\n$ INTERFACE=enp11s0f0np0 IPV4_IP=172.16.11.201/24 IPV4_GATEWAY=172.16.11.254 \\\n"
    + "    ENABLE_POLICY_ROUTE=true ./setNicAddr.sh\n",
)
_CIDR_POOL = """
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
HELD = _rule(
    "IM325",
    "addresses-in-use",
    ERROR,
    "Addresses of a rail that another object uses",
    _CIDR_POOL
    + "---\napiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: services}\n"
    + "spec: {addresses: [10.101.7.10-10.101.7.20]}\n",
    _CIDR_POOL,
)

_OF_NODE = _GOOD_POOL.replace("  gateway:", "  nodeName: [ai-1]\n  gateway:")
_OF_NODE_2 = _OF_NODE.replace("net11", "more").replace("ai-1", "ai-2")
_NODES_POOLS = _GOOD_NETWORK.replace("[gpu1-net11]", "[gpu1-net11, gpu1-more]")
UNEVEN = _rule(
    "IM326",
    "uneven-node-pools",
    WARNING,
    "Pools of nodes that are not blocks of one size",
    _OF_NODE.replace(".200]", ".16]") + "---" + _OF_NODE_2.replace(".1-172", ".17-172") + "---" + _NODES_POOLS,
    _OF_NODE.replace(".200]", ".16]")
    + "---"
    + _OF_NODE_2.replace(".1-172", ".17-172").replace(".200]", ".32]")
    + "---"
    + _NODES_POOLS,
)

# -- resources and names

UNREGISTERED = _rule(
    "IM401",
    "unregistered-resource",
    WARNING,
    "Resource that no device plugin registers",
    _GOOD_DEVICES + "---" + _GOOD_NETWORK.replace("shared_gpu1", "gpu1rdma"),
    _GOOD_DEVICES + "---" + _GOOD_NETWORK,
)
MISMATCH = _rule(
    "IM402",
    "resource-of-another-port",
    WARNING,
    "Network with the resource of another port",
    _devices(_DEVICE, _DEVICE_2) + "---" + _GOOD_NETWORK.replace("shared_gpu1", "shared_gpu2"),
    _devices(_DEVICE, _DEVICE_2) + "---" + _GOOD_NETWORK,
)
RESOURCE_NAME = _rule(
    "IM403",
    "invalid-resource-name",
    WARNING,
    "Resource name that the device plugin rejects",
    _devices(_DEVICE.replace("shared_gpu1", "shared-gpu1")),
    _GOOD_DEVICES,
)
NO_RESOURCES = _rule("IM404", "no-resources", ERROR, "Empty list of resources", '{"configList": []}', _GOOD_DEVICES)
SELECTOR = _rule(
    "IM405",
    "resource-without-port-name",
    ERROR,
    "Resource that does not select a port by name",
    _devices(_DEVICE.replace('"ifNames": ["enp11s0f0np0"]', '"vendors": ["15b3"]')),
    _GOOD_DEVICES,
)
ONE_RESOURCE = _rule(
    "IM406",
    "shared-resource",
    WARNING,
    "One resource for the ports of several rails",
    _devices(_DEVICE.replace('["enp11s0f0np0"]', '["enp11s0f0np0", "enp12s0f0np0"]')),
    _devices(_DEVICE, _DEVICE_2),
)
NO_UNITS = _rule(
    "IM407",
    "resource-without-devices",
    WARNING,
    "Resource without devices",
    _devices(_DEVICE.replace("100", "0")),
    _GOOD_DEVICES,
)
RESOURCE_TWICE = _rule(
    "IM408",
    "duplicate-resource",
    WARNING,
    "Resource or port registered twice",
    _devices(_DEVICE, _DEVICE_2.replace("shared_gpu2", "shared_gpu1")),
    _devices(_DEVICE, _DEVICE_2),
)
NETWORK_UNKNOWN = _rule(
    "IM409",
    "undefined-network",
    WARNING,
    "Pods on an undefined network",
    _GOOD_NETWORK + "---\nmetadata:\n  annotations:\n    k8s.v1.cni.cncf.io/networks: gpu1-macvlan,gpu2-macvlan\n",
    _GOOD_NETWORK + "---\nmetadata:\n  annotations:\n    k8s.v1.cni.cncf.io/networks: gpu1-macvlan\n",
)
NO_RESOURCE = _rule(
    "IM410",
    "network-without-resource",
    WARNING,
    "Network without a resource",
    _GOOD_NETWORK.replace("    rdmaResourceName: spidernet.io/shared_gpu1\n", ""),
    _GOOD_NETWORK,
)
NAMES = _rule(
    "IM411",
    "names-not-importable",
    WARNING,
    "Names that a fabric file cannot have",
    _FOUR.replace("gpu2-macvlan", "gpu2.macvlan"),
    _FOUR,
)

# -- rails and the fabric

_IPOIB = """
apiVersion: mellanox.com/v1alpha1
kind: IPoIBNetwork
metadata: {name: rail-1}
spec: {master: ibs1, ipam: '{"type": "%s", "poolName": "rail-1", "range": "172.16.11.1-172.16.11.200/24"}'}
"""

ATTACHMENTS = _rule(
    "IM501",
    "different-attachments",
    ERROR,
    "Rails with different attachments",
    _GOOD_NETWORK + "---" + _SECOND.replace("cniType: macvlan", "cniType: ipvlan").replace("macvlan:", "ipvlan:"),
    _FOUR,
)
ISOLATION = _rule(
    "IM502",
    "missing-rdma-isolation",
    WARNING,
    "VF without its RDMA device",
    _GOOD_SRIOV.replace("    rdmaIsolation: true\n", ""),
    _GOOD_SRIOV,
)
NO_PORT = _rule(
    "IM503",
    "missing-port",
    ERROR,
    "Rail without a known port",
    _GOOD_SRIOV,
    _GOOD_POLICY + "---" + _GOOD_SRIOV,
)
COUNTED = _rule(
    "IM504",
    "completed-rail",
    WARNING,
    "Rail completed from the numbering of the others",
    _BOTH + "---\nmetadata:\n  annotations:\n    k8s.v1.cni.cncf.io/networks: gpu1-macvlan,gpu2-macvlan\n",
    _FOUR,
)
MTU = _rule("IM505", "unknown-mtu", WARNING, "Unknown MTU", _BOTH.replace("    mtu: 4200\n", ""), _BOTH)
MTUS = _rule(
    "IM506",
    "conflicting-mtu",
    WARNING,
    "Conflicting MTUs of a rail",
    _GOOD_POLICY.replace("isRdma: true", "mtu: 9000") + "---" + _GOOD_SRIOV,
    _GOOD_POLICY + "---" + _GOOD_SRIOV,
)
NODES = _rule(
    "IM507",
    "unknown-nodes",
    ERROR,
    "Unknown nodes",
    _BOTH,
    _BOTH.replace("  gateway:", "  nodeName: [ai-1]\n  gateway:"),
)
NODES_NAMED = _rule(
    "IM508",
    "nodes-from-pools",
    WARNING,
    "Nodes known from pools only",
    _BOTH.replace("  gateway:", "  nodeName: [ai-1]\n  gateway:"),
    _BOTH,
)
VFS = _rule(
    "IM509",
    "unknown-vf-count",
    WARNING,
    "Unknown number of VFs",
    _GOOD_POLICY.replace("numVfs: 8", "numVfs: 0"),
    _GOOD_POLICY,
)
TWO_NETWORKS = _rule(
    "IM510",
    "two-networks-per-port",
    WARNING,
    "Two networks on one port",
    _GOOD_NETWORK + "---" + _GOOD_NETWORK.replace("gpu1-macvlan", "gpu1-again"),
    _FOUR,
)
LINK = _rule(
    "IM511",
    "link-type-mismatch",
    ERROR,
    "Link type that contradicts the attachment",
    _GOOD_POLICY.replace("linkType: eth", "linkType: ib") + "---" + _GOOD_SRIOV,
    _GOOD_POLICY + "---" + _GOOD_SRIOV,
)
QOS = _rule(
    "IM514",
    "qos-from-template",
    WARNING,
    "QoS taken from a NIC configuration template",
    _BOTH
    + "---\napiVersion: configuration.net.nvidia.com/v1alpha1\nkind: NicConfigurationTemplate\nmetadata: {name: nics}\n"
    + 'spec: {template: {roceOptimized: {enabled: true, qos: {trust: dscp, pfc: "0,0,0,1,0,0,0,0", tos: 96}}}}\n',
    _BOTH,
)
MANAGER = _rule(
    "IM515",
    "unsupported-ipam",
    WARNING,
    "IPAM plugin that no provider uses",
    _IPOIB % "whereabouts",
    _IPOIB % "nv-ipam",
)
PROVIDER = _rule("IM512", "unknown-provider", WARNING, "Unknown provider", _GOOD_DEVICES, _BOTH)
GPUS = _rule(
    "IM513",
    "gpus-from-names",
    WARNING,
    "GPUs of ports derived from names only",
    _BOTH,
    _BOTH.replace("gpu1", "first"),
)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""IM1xx to IM5xx: what the import finds. They have a registry of their own, for they are no rules of a fabric file.

Of each rule ``bad`` is a piece of manifests in which it finds something, and ``good`` one in which it does not.
"""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import ERROR, WARNING, Rule

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


def _rule(code: str, severity: str, title: str, bad: str, good: str) -> Rule:
    made = Rule(code=code, severity=severity, title=title, bad=bad.strip("\n") + "\n", good=good.strip("\n") + "\n")
    if IMPORT_RULES.setdefault(code, made) is not made:
        raise ValueError("%s is there already" % code)
    return made


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

TEXT = _rule("IM101", WARNING, "A file is not UTF-8 text", _BOTH + "# \udcff\n", _BOTH)
SYNTAX = _rule(
    "IM102",
    ERROR,
    "A manifest is not YAML",
    _pool("subnet: 172.16.11.0/24", "ips: [172.16.11.1-172.16.11.200"),
    _GOOD_POOL,
)
NO_MANIFEST = _rule("IM103", WARNING, "A file holds no manifest", "Rails are parallel networks.", _BOTH)
NOTHING = _rule("IM104", ERROR, "Nothing says what a rail is", "apiVersion: v1\nkind: Namespace\n", _BOTH)
WRONG_KIND = _rule(
    "IM105",
    WARNING,
    "A kind, or its API group, is misspelt",
    _GOOD_POOL.replace("SpiderIPPool", "SpiderIpPool"),
    _GOOD_POOL,
)
ELIDED = _rule(
    "IM106",
    WARNING,
    "Dots stand for what was left out",
    _devices(_DEVICE, "....", _DEVICE_2),
    _devices(_DEVICE, _DEVICE_2),
)
VARIABLE = _rule(
    "IM107",
    WARNING,
    "A variable has no value",
    _GOOD_POOL.replace("gpu1-net11", "${POOL}"),
    "$ POOL=gpu1-net11\n$ cat <<EOF | kubectl apply -f -\n%sEOF\n" % _GOOD_POOL.replace("gpu1-net11", "${POOL}"),
)
TWICE = _rule(
    "IM108",
    WARNING,
    "One network is defined twice, and not alike",
    _GOOD_NETWORK + "---" + _GOOD_NETWORK.replace("macvlan:", "ipvlan:").replace("cniType: macvlan", "cniType: ipvlan"),
    _GOOD_NETWORK + "---" + _SECOND,
)
JSON = _rule(
    "IM109",
    ERROR,
    "The JSON in a manifest is broken",
    _CONFIG_MAP + '    {"configList": [%s]\n' % _DEVICE,
    _CONFIG_MAP + '    {"configList": [%s]}\n' % _DEVICE,
)
ANNOTATION = _rule(
    "IM110",
    WARNING,
    "The list of a pod's networks is broken",
    _GOOD_NETWORK + "---\nmetadata:\n  annotations:\n    k8s.v1.cni.cncf.io/networks: spiderpool/gpu1_macvlan!\n",
    _GOOD_NETWORK + "---\nmetadata:\n  annotations:\n    k8s.v1.cni.cncf.io/networks: spiderpool/gpu1-macvlan\n",
)
DOUBLED = _rule(
    "IM111",
    WARNING,
    "A key of an object of JSON stands twice",
    _devices(_DEVICE.replace("{", '{"rdmaHcaMax": 5, ', 1), _DEVICE_2),
    _devices(_DEVICE, _DEVICE_2),
)

# -- fields

LEVEL = _rule(
    "IM201",
    WARNING,
    "A field stands on the wrong level",
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
    WARNING,
    "A field is no longer there",
    _GOOD_SRIOV.replace("rdmaIsolation: true", "enableRdma: true"),
    _GOOD_SRIOV,
)
MISSPELT = _rule(
    "IM203",
    WARNING,
    "A field is misspelt",
    _GOOD_SRIOV.replace("mtu: 4200", "MaxTxRateMbps: 1000"),
    _GOOD_SRIOV.replace("mtu: 4200", "maxTxRateMbps: 1000"),
)
UNKNOWN = _rule(
    "IM204",
    WARNING,
    "A field is unknown",
    _GOOD_NETWORK.replace("  mtu: 4200", "  zone: east"),
    _GOOD_NETWORK,
)
KIND = _rule(
    "IM205",
    WARNING,
    "A value is of the wrong kind",
    _GOOD_POOL + "  ipVersion: ipv4\n  multusName: spiderpool/gpu1-macvlan\n",
    _GOOD_POOL + "  ipVersion: 4\n  multusName: [spiderpool/gpu1-macvlan]\n",
)
ROUTE_WORDS = _rule(
    "IM206",
    WARNING,
    "A route is written with to and via",
    _GOOD_POOL + "  routes:\n    - {to: 172.16.0.0/16, via: 172.16.11.254}\n",
    _GOOD_POOL + "  routes:\n    - {dst: 172.16.0.0/16, gw: 172.16.11.254}\n",
)
PKEY = _rule(
    "IM207",
    WARNING,
    "A partition key is no text of the form 0x...",
    _network("cniType: ib-sriov", "ibsriov: {resourceName: spidernet.io/gpu1, pkey: 1000}"),
    _network("cniType: ib-sriov", 'ibsriov: {resourceName: spidernet.io/gpu1, pkey: "0x1000"}'),
)
SECTION = _rule(
    "IM208",
    ERROR,
    "cniType and the section do not agree",
    _GOOD_NETWORK.replace("cniType: macvlan", "cniType: ipvlan"),
    _GOOD_NETWORK,
)
NOT_KNOWN = _rule(
    "IM209",
    WARNING,
    "This is not taken over into the fabric file",
    _GOOD_NETWORK.replace("  mtu: 4200", "  vlanID: 100"),
    _GOOD_NETWORK,
)
ATTACHMENT = _rule(
    "IM210",
    ERROR,
    "Nothing says how pods get onto the rails, or in no way for rails",
    _network("cniType: ovs", "ovs: {bridge: br0}"),
    _GOOD_NETWORK,
)
FIELD_LOST = _rule(
    "IM211",
    WARNING,
    "A field is not carried over",
    _GOOD_POOL + "  podAffinity: {matchLabels: {app: training}}\n",
    _GOOD_POOL,
)
KIND_LOST = _rule(
    "IM212",
    WARNING,
    "An object is not carried over",
    _BOTH
    + "---\napiVersion: sriovnetwork.openshift.io/v1\nkind: OVSNetwork\nmetadata: {name: ovs}\nspec: {vlan: 100}\n",
    _BOTH,
)

# -- addresses

HOST_BITS = _rule(
    "IM301",
    WARNING,
    "A subnet has host bits",
    _GOOD_POOL.replace("172.16.11.0/24", "172.16.11.0/16"),
    _GOOD_POOL,
)
SUBNET = _rule(
    "IM302", ERROR, "A pool's subnet is none", _GOOD_POOL.replace("172.16.11.0/24", "172.16.11.0"), _GOOD_POOL
)
RANGE = _rule(
    "IM303",
    WARNING,
    "A range is not written as first-last",
    _GOOD_POOL.replace("172.16.11.1-172.16.11.200", "172.16.11.0/25"),
    _GOOD_POOL,
)
OUTSIDE = _rule(
    "IM304",
    WARNING,
    "A range leaves its subnet",
    _GOOD_POOL.replace("172.16.11.200", "172.16.11.256"),
    _GOOD_POOL,
)
UNUSABLE = _rule(
    "IM305",
    WARNING,
    "A range holds the gateway, or an address that no pod can have",
    _GOOD_POOL.replace("172.16.11.200", "172.16.11.255"),
    _GOOD_POOL,
)
GATEWAY = _rule(
    "IM306",
    ERROR,
    "A gateway is not in its subnet",
    _GOOD_POOL.replace("172.16.11.254", "172.16.12.254"),
    _GOOD_POOL,
)
SUBNETS = _rule(
    "IM308",
    ERROR,
    "The pools of one rail are of several subnets",
    _GOOD_POOL + "---" + _SECOND_POOL + "---" + _GOOD_NETWORK.replace("[gpu1-net11]", "[gpu1-net11, gpu2-net12]"),
    _BOTH,
)
OVERLAP = _rule(
    "IM309",
    WARNING,
    "An address is in two pools",
    _GOOD_POOL
    + "---"
    + _GOOD_POOL.replace("gpu1-net11", "gpu1-more")
    + "---"
    + _GOOD_NETWORK.replace("[gpu1-net11]", "[gpu1-net11, gpu1-more]"),
    _BOTH,
)
RAILS_OVERLAP = _rule("IM310", ERROR, "Two rails have one subnet", _FOUR.replace("172.16.12", "172.16.11"), _FOUR)
NO_SUBNET = _rule("IM311", ERROR, "Nothing says a rail's subnet", _GOOD_NETWORK, _BOTH)
LAYOUT = _rule(
    "IM312",
    ERROR,
    "The prefixes of nodes are not cut out of their rail's network",
    _GOOD_POOL.replace("gpu1-net11", "enp11s0f0np0-rail1-node1")
    .replace("172.16.11.0/24", "172.16.11.0/27")
    .replace("172.16.11.254", "172.16.11.1")
    .replace("172.16.11.1-172.16.11.200", "172.16.11.2-172.16.11.30"),
    _BOTH,
)
POOL_UNKNOWN = _rule(
    "IM313",
    WARNING,
    "A network takes addresses from a pool that is not there",
    _BOTH.replace("[gpu1-net11]", "[gpu1-net1]"),
    _BOTH,
)
POOL_UNUSED = _rule("IM314", WARNING, "No network takes addresses from a pool", _BOTH + "---" + _SECOND_POOL, _FOUR)
WILDCARD = _rule(
    "IM315",
    WARNING,
    "A wildcard catches the pools of other rails",
    _GOOD_POOL.replace("gpu1-net11", "rail1-node1")
    + "---"
    + _GOOD_POOL.replace("gpu1-net11", "rail10-node1").replace("172.16.11", "172.16.20")
    + "---"
    + _GOOD_NETWORK.replace("gpu1-net11", "rail1*"),
    _GOOD_POOL.replace("gpu1-net11", "rail01-node1") + "---" + _GOOD_NETWORK.replace("gpu1-net11", "rail01*"),
)
MATCH_MASTER = _rule(
    "IM316",
    WARNING,
    "matchMasterSubnet stands at an attachment that has it not",
    _GOOD_NETWORK.replace("{ipv4: [gpu1-net11]}", "{ipv4: [gpu1-net11], matchMasterSubnet: true}"),
    _GOOD_NETWORK,
)
IPAM = _rule(
    "IM317",
    WARNING,
    "Addresses come from a plugin that cannot give them cluster-wide",
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
    ERROR,
    "nv-ipam gives nodes blocks of its own choice",
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
    WARNING,
    "Nobody counts addresses for the whole cluster, so each node gets a block",
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
    WARNING,
    "Nothing says the ports' own addresses",
    _BOTH,
    _BOTH + "---\n$ INTERFACE=enp11s0f0np0 IPV4_IP=172.16.11.201/24 ENABLE_POLICY_ROUTE=true ./setNicAddr.sh\n",
)
NO_HOSTS = _rule(
    "IM320",
    ERROR,
    "A rail has no addresses left for its ports",
    _BOTH.replace("172.16.11.200", "172.16.11.253"),
    _BOTH,
)
HOST_IN_PODS = _rule(
    "IM321",
    ERROR,
    "A port's own address is among the pod addresses",
    _BOTH + "---\n$ INTERFACE=enp11s0f0np0 IPV4_IP=172.16.11.10/24 ENABLE_POLICY_ROUTE=true ./setNicAddr.sh\n",
    _BOTH + "---\n$ INTERFACE=enp11s0f0np0 IPV4_IP=172.16.11.201/24 ENABLE_POLICY_ROUTE=true ./setNicAddr.sh\n",
)
ADDRESS = _rule(
    "IM322",
    WARNING,
    "A port's address is none",
    _BOTH + "---\n$ INTERFACE=enp11s0f0np0 IPV4_IP=172.16.11.201 ENABLE_POLICY_ROUTE=true ./setNicAddr.sh\n",
    _BOTH + "---\n$ INTERFACE=enp11s0f0np0 IPV4_IP=172.16.11.201/24 ENABLE_POLICY_ROUTE=true ./setNicAddr.sh\n",
)
DEFAULT_ROUTE = _rule(
    "IM323",
    WARNING,
    "The node's own default route goes over a rail",
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
    ERROR,
    "Another object has addresses of a rail's network",
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
    WARNING,
    "The nodes' pools of one subnet are not blocks of one size",
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
    WARNING,
    "No device plugin registers a resource that is asked for",
    _GOOD_DEVICES + "---" + _GOOD_NETWORK.replace("shared_gpu1", "gpu1rdma"),
    _GOOD_DEVICES + "---" + _GOOD_NETWORK,
)
MISMATCH = _rule(
    "IM402",
    WARNING,
    "A network names the resource of another port",
    _devices(_DEVICE, _DEVICE_2) + "---" + _GOOD_NETWORK.replace("shared_gpu1", "shared_gpu2"),
    _devices(_DEVICE, _DEVICE_2) + "---" + _GOOD_NETWORK,
)
RESOURCE_NAME = _rule(
    "IM403",
    WARNING,
    "A resource's name is refused",
    _devices(_DEVICE.replace("shared_gpu1", "shared-gpu1")),
    _GOOD_DEVICES,
)
NO_RESOURCES = _rule("IM404", ERROR, "The list of resources is empty", '{"configList": []}', _GOOD_DEVICES)
SELECTOR = _rule(
    "IM405",
    ERROR,
    "A resource selects no port by its name",
    _devices(_DEVICE.replace('"ifNames": ["enp11s0f0np0"]', '"vendors": ["15b3"]')),
    _GOOD_DEVICES,
)
ONE_RESOURCE = _rule(
    "IM406",
    WARNING,
    "One resource stands for the ports of several rails",
    _devices(_DEVICE.replace('["enp11s0f0np0"]', '["enp11s0f0np0", "enp12s0f0np0"]')),
    _devices(_DEVICE, _DEVICE_2),
)
NO_UNITS = _rule(
    "IM407", WARNING, "A resource has no units to give", _devices(_DEVICE.replace("100", "0")), _GOOD_DEVICES
)
RESOURCE_TWICE = _rule(
    "IM408",
    WARNING,
    "A resource, or a port, is registered twice",
    _devices(_DEVICE, _DEVICE_2.replace("shared_gpu2", "shared_gpu1")),
    _devices(_DEVICE, _DEVICE_2),
)
NETWORK_UNKNOWN = _rule(
    "IM409",
    WARNING,
    "Pods ask for networks that no manifest defines",
    _GOOD_NETWORK + "---\nmetadata:\n  annotations:\n    k8s.v1.cni.cncf.io/networks: gpu1-macvlan,gpu2-macvlan\n",
    _GOOD_NETWORK + "---\nmetadata:\n  annotations:\n    k8s.v1.cni.cncf.io/networks: gpu1-macvlan\n",
)
NO_RESOURCE = _rule(
    "IM410",
    WARNING,
    "A network names no resource",
    _GOOD_NETWORK.replace("    rdmaResourceName: spidernet.io/shared_gpu1\n", ""),
    _GOOD_NETWORK,
)
NAMES = _rule(
    "IM411",
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
    ERROR,
    "Rails differ in how pods get onto them",
    _GOOD_NETWORK + "---" + _SECOND.replace("cniType: macvlan", "cniType: ipvlan").replace("macvlan:", "ipvlan:"),
    _FOUR,
)
ISOLATION = _rule(
    "IM502",
    WARNING,
    "A VF comes without its RDMA device",
    _GOOD_SRIOV.replace("    rdmaIsolation: true\n", ""),
    _GOOD_SRIOV,
)
NO_PORT = _rule(
    "IM503",
    ERROR,
    "Nothing says which port is on a rail",
    _GOOD_SRIOV,
    _GOOD_POLICY + "---" + _GOOD_SRIOV,
)
COUNTED = _rule(
    "IM504",
    WARNING,
    "A rail was completed by counting on from the others",
    _BOTH + "---\nmetadata:\n  annotations:\n    k8s.v1.cni.cncf.io/networks: gpu1-macvlan,gpu2-macvlan\n",
    _FOUR,
)
MTU = _rule("IM505", WARNING, "Nothing says the MTU", _BOTH.replace("    mtu: 4200\n", ""), _BOTH)
MTUS = _rule(
    "IM506",
    WARNING,
    "A rail's MTU is said twice, and not alike",
    _GOOD_POLICY.replace("isRdma: true", "mtu: 9000") + "---" + _GOOD_SRIOV,
    _GOOD_POLICY + "---" + _GOOD_SRIOV,
)
NODES = _rule(
    "IM507",
    ERROR,
    "Nothing names the nodes",
    _BOTH,
    _BOTH.replace("  gateway:", "  nodeName: [ai-1]\n  gateway:"),
)
NODES_NAMED = _rule(
    "IM508",
    WARNING,
    "Only pools name nodes",
    _BOTH.replace("  gateway:", "  nodeName: [ai-1]\n  gateway:"),
    _BOTH,
)
VFS = _rule(
    "IM509",
    WARNING,
    "Nothing says how many VFs a port has",
    _GOOD_POLICY.replace("numVfs: 8", "numVfs: 0"),
    _GOOD_POLICY,
)
TWO_NETWORKS = _rule(
    "IM510",
    WARNING,
    "Two networks are on one port",
    _GOOD_NETWORK + "---" + _GOOD_NETWORK.replace("gpu1-macvlan", "gpu1-again"),
    _FOUR,
)
LINK = _rule(
    "IM511",
    ERROR,
    "The link type and the attachment do not agree",
    _GOOD_POLICY.replace("linkType: eth", "linkType: ib") + "---" + _GOOD_SRIOV,
    _GOOD_POLICY + "---" + _GOOD_SRIOV,
)
QOS = _rule(
    "IM514",
    WARNING,
    "The QoS of the NICs follows from a template",
    _BOTH
    + "---\napiVersion: configuration.net.nvidia.com/v1alpha1\nkind: NicConfigurationTemplate\nmetadata: {name: nics}\n"
    + 'spec: {template: {roceOptimized: {enabled: true, qos: {trust: dscp, pfc: "0,0,0,1,0,0,0,0", tos: 96}}}}\n',
    _BOTH,
)
MANAGER = _rule(
    "IM515",
    WARNING,
    "The networks' address manager is none of the providers'",
    _IPOIB % "whereabouts",
    _IPOIB % "nv-ipam",
)
PROVIDER = _rule("IM512", WARNING, "Nothing says who serves the networks", _GOOD_DEVICES, _BOTH)
GPUS = _rule(
    "IM513",
    WARNING,
    "The GPUs of the ports follow from names alone",
    _BOTH,
    _BOTH.replace("gpu1", "first"),
)

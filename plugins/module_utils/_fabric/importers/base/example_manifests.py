# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parts of manifests for the examples of import rules."""

from __future__ import annotations

POOL = """
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata: {name: gpu1-net11}
spec:
"""
NETWORK = """
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderMultusConfig
metadata: {name: gpu1-macvlan, namespace: spiderpool}
spec:
"""
POLICY = """
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovNetworkNodePolicy
metadata: {name: gpu1, namespace: spiderpool}
spec:
"""
CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: devices}
data:
  config.json: |
"""


def pool(*lines: str) -> str:
    return POOL + "".join("  %s\n" % line for line in lines)


def network(*lines: str) -> str:
    return NETWORK + "".join("  %s\n" % line for line in lines)


def policy(*lines: str) -> str:
    return POLICY + "".join("  %s\n" % line for line in lines)


def devices(*entries: str) -> str:
    return '{"configList": [\n%s\n]}\n' % ",\n".join("  " + entry for entry in entries)


GOOD_POOL = pool("subnet: 172.16.11.0/24", "gateway: 172.16.11.254", "ips: [172.16.11.1-172.16.11.200]")
GOOD_NETWORK = network(
    "cniType: macvlan",
    "macvlan:",
    "  master: [enp11s0f0np0]",
    "  mtu: 4200",
    "  rdmaResourceName: spidernet.io/shared_gpu1",
    "  ippools: {ipv4: [gpu1-net11]}",
)
GOOD_SRIOV = network(
    "cniType: sriov",
    "sriov:",
    "  resourceName: spidernet.io/gpu1_vfs",
    "  rdmaIsolation: true",
    "  mtu: 4200",
    "  ippools: {ipv4: [gpu1-net11]}",
)
GOOD_POLICY = policy(
    "nodeSelector: {kubernetes.io/os: linux}",
    "resourceName: gpu1_vfs",
    "numVfs: 8",
    "nicSelector: {pfNames: [enp11s0f0np0]}",
    "linkType: eth",
    "isRdma: true",
)
DEVICE = (
    '{"resourcePrefix": "spidernet.io", "resourceName": "shared_gpu1", "rdmaHcaMax": 100,'
    ' "selectors": {"ifNames": ["enp11s0f0np0"]}}'
)
DEVICE_2 = DEVICE.replace("gpu1", "gpu2").replace("enp11", "enp12")
GOOD_DEVICES = devices(DEVICE)
SECOND = GOOD_NETWORK.replace("gpu1", "gpu2").replace("enp11", "enp12").replace("net11", "net12")
SECOND_POOL = GOOD_POOL.replace("gpu1", "gpu2").replace("172.16.11", "172.16.12").replace("net11", "net12")
BOTH = GOOD_POOL + "---" + GOOD_NETWORK
FOUR = BOTH + "---" + SECOND_POOL + "---" + SECOND

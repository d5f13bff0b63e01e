#!/bin/sh
# A /27 a node and rail, the nodes of a rail side by side.
INTERFACE="eno3np1" ENABLE_RDMA_DEFAULT_ROUTE="true" RDMA_SUBNET="172.16.0.0/16" IPV4_GATEWAY="172.16.1.1" ./setNicAddr.sh
RDMA_CIDR=172.16.0.0/16 ./setRdmaRule.sh

cat <<EOF | kubectl apply -f -
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata:
  name: eno3np1-rail1-node1
spec:
  ipVersion: 4
  subnet: 172.16.1.0/27
  gateway: 172.16.1.1
  ips:
    - 172.16.1.2-172.16.1.30
  routes:
    - dst: 172.16.0.0/16
      gw: 172.16.1.1
---
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata:
  name: eno3np2-rail2-node1
spec:
  ipVersion: 4
  subnet: 172.16.2.0/27
  gateway: 172.16.2.1
  ips:
    - 172.16.2.2-172.16.2.30
---
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata:
  name: eno3np1-rail1-node2
spec:
  ipVersion: 4
  subnet: 172.16.1.32/27
  gateway: 172.16.1.33
  ips:
    - 172.16.1.34-172.16.1.62
---
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata:
  name: eno3np2-rail2-node2
spec:
  ipVersion: 4
  subnet: 172.16.2.32/27
  gateway: 172.16.2.33
  ips:
    - 172.16.2.34-172.16.2.62
EOF

cat <<EOF | kubectl apply -f -
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderMultusConfig
metadata:
  name: sriov-eno3np1
  namespace: kube-system
spec:
  cniType: sriov
  sriov:
    resourceName: "spidernet.io/eno3np1"
    rdmaIsolation: true
    mtu: 4200
    ippools:
      ipv4:
      - eno3np1-rail1*
      matchMasterSubnet: true
---
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderMultusConfig
metadata:
  name: sriov-eno3np2
  namespace: kube-system
spec:
  cniType: sriov
  sriov:
    resourceName: "spidernet.io/eno3np2"
    rdmaIsolation: true
    mtu: 4200
    ippools:
      ipv4:
      - eno3np2-rail2*
      matchMasterSubnet: true
---
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovNetworkNodePolicy
metadata: {name: rail1, namespace: kube-system}
spec:
  nodeSelector: {kubernetes.io/os: linux}
  resourceName: eno3np1
  numVfs: 8
  nicSelector: {pfNames: [eno3np1]}
  linkType: eth
  isRdma: true
---
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovNetworkNodePolicy
metadata: {name: rail2, namespace: kube-system}
spec:
  nodeSelector: {kubernetes.io/os: linux}
  resourceName: eno3np2
  numVfs: 8
  nicSelector: {pfNames: [eno3np2]}
  linkType: eth
  isRdma: true
EOF

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The validators themselves: what is published, and refused or silently cut by the server, must be found here."""

from __future__ import annotations

import copy
import typing as t

import pytest

from . import schema, webhooks

API = "spiderpool.spidernet.io/v2beta1"


def config(name: str = "gpu01", annotations: t.Mapping[str, str] | None = None, **spec: t.Any) -> dict[str, t.Any]:
    metadata = {"name": name, "namespace": "kube-system", "annotations": dict(annotations or {})}
    return {"apiVersion": API, "kind": "SpiderMultusConfig", "metadata": metadata, "spec": spec}


def pool(name: str = "gpu01", **spec: t.Any) -> dict[str, t.Any]:
    spec = {"subnet": "172.16.11.0/24", **spec}
    return {"apiVersion": API, "kind": "SpiderIPPool", "metadata": {"name": name}, "spec": spec}


def policy(name: str = "p", **spec: t.Any) -> dict[str, t.Any]:
    whole = {"resourceName": "r", "nodeSelector": {}, "nicSelector": {"pfNames": ["a"]}, "numVfs": 4, **spec}
    return {
        "apiVersion": "sriovnetwork.openshift.io/v1",
        "kind": "SriovNetworkNodePolicy",
        "metadata": {"name": name, "namespace": "spiderpool"},
        "spec": whole,
    }


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (config(cniType="macvlan", rdmaResourceName="a/b"), "rdmaResourceName: unknown field"),
        (config(cniType="macvlan", ippools={"ipv4": ["a"]}), "ippools: unknown field"),
        (config(cniType="macvlan", macvlan={"master": ["a"], "enableRdma": True}), "enableRdma: unknown field"),
        (config(cniType="macvlan", macvlan={}), "macvlan.master: required"),
        (config(cniType="sriov", sriov={"matchMasterSubnet": True}), "matchMasterSubnet: unknown field"),
        (config(cniType="sriov", sriov={"MaxTxRateMbps": 5}), "MaxTxRateMbps: unknown field"),
        (config(cniType="ib-sriov", ibsriov={"pkey": 1000}), "is not of type string"),
        (config(cniType="bridge"), "is not one of"),
        (pool(ipVersion="ipv4"), "is not of type integer"),
        (pool(ipVersion=5), "is not one of"),
        (pool(routes=[{"to": "10.0.0.0/8", "via": "172.16.11.1"}]), "dst: required"),
        (pool(gateway=None), "null"),
        (pool(default=1), "is not of type boolean"),
        (policy(priority=100), "more than 99"),
        (policy(mtu=0), "less than 1"),
        ({**pool(), "metadata": {"name": "Gpu_1"}}, "no DNS subdomain"),
        ({**pool(), "metadata": {"name": "a", "namespace": "b"}}, "scope Cluster"),
        ({**pool(), "metadata": {"name": "a", "labels": {"a": "b/c"}}}, "is not a label"),
        ({**pool(), "kind": "SpiderPool"}, "has no schema"),
    ],
)
def test_schema_finds(thing: dict[str, t.Any], words: str) -> None:
    assert words in "; ".join(schema.problems(thing))


def test_schema_accepts_valid_objects() -> None:
    macvlan = {"master": ["a"], "rdmaResourceName": "a/b", "ippools": {"ipv4": ["p"]}}
    assert schema.problems(config(cniType="macvlan", macvlan=macvlan)) == []
    assert schema.problems(pool(ips=["172.16.11.1-172.16.11.9"], gateway="172.16.11.254", ipVersion=4)) == []
    assert schema.problems(policy(), "bundled") == schema.problems(policy()) == []


INJECT = {"cni.spidernet.io/rdma-resource-inject": "all"}
MACVLAN = {"master": ["a"], "rdmaResourceName": "a/b", "ippools": {"ipv4": ["p"]}}


@pytest.mark.parametrize(
    ("things", "words"),
    [
        ([pool(subnet="172.16.11.0/16")], "unformatted subnet"),
        ([pool(ips=["172.18.0.1"])], "not match base subnet"),
        ([pool(ips=["172.16.11.1-172.16.11.9"], gateway="172.16.11.5")], "conflicts with 'spec.gateway'"),
        ([pool(gateway="172.17.0.1")], "spec.gateway: Invalid value"),
        ([pool(routes=[{"dst": "0.0.0.0/0", "gw": "172.16.11.1"}])], "specify 'spec.gateway'"),
        (
            [pool("a", ips=["172.16.11.1-172.16.11.9"]), pool("b", ips=["172.16.11.9"])],
            "overlap with IPPool a in IP ranges",
        ),
        ([pool("a"), pool("b", subnet="172.16.0.0/16")], "overlap"),
        ([pool("a"), pool("a")], "twice"),
        ([config(cniType="macvlan")], "no spec.macvlanConfig specified"),
        ([config(cniType="macvlan", macvlan=MACVLAN, sriov={})], "please remove other CNI configs"),
        ([config(cniType="macvlan", macvlan={**MACVLAN, "master": ["a", "b"]})], "the bond property is nil"),
        (
            [config(cniType="macvlan", macvlan={**MACVLAN, "ippools": {"matchMasterSubnet": True}})],
            "not supported for macvlan",
        ),
        ([config(cniType="sriov", sriov={})], "[resourceName] specified"),
        (
            [config(annotations=INJECT, cniType="macvlan", macvlan={**MACVLAN, "ippools": {}})],
            "no any ippools configured",
        ),
        (
            [config(annotations=INJECT, cniType="macvlan", macvlan={"master": ["a"], "ippools": {"ipv4": ["p"]}})],
            "rdmaResourceName can not empty",
        ),
        ([policy(numVfs=0)], "numVfs: 0"),
        ([policy(numVfs=129)], "numVfs: 129"),
        ([policy(nicSelector={})], "nicSelector: empty"),
        ([policy(deviceType="vfio-pci", isRdma=True)], "isRdma with vfio-pci"),
        ([policy(resourceName="a-b")], "resourceName: a-b"),
        ([policy(nicSelector={"pfNames": ["a#2-4"]})], "pfNames: a#2-4"),
        ([policy("a", nicSelector={"pfNames": ["a#0-1"]}), policy("b", nicSelector={"pfNames": ["a#1-3"]})], "overlap"),
    ],
)
def test_webhooks_find(things: list[dict[str, t.Any]], words: str) -> None:
    before = copy.deepcopy(things)
    assert words in "; ".join(webhooks.problems(things))
    assert things == before

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manifests found in the wild, read and written again: what upstream refused or cut before, it takes now."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.output import import_run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.output.import_run import run
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import object_components

from . import schema, webhooks
from .documents import REGISTRY
from .plans import planned

ROOT = Path(__file__).resolve().parents[4]
NODES = Options("ai", {"ai-[1:2]": {"address": "10.1.16.[1:2]"}}, mtu=4200)
RECORDED = sorted((ROOT / "tests/recordings/manifests").glob("*.*"))
FOUND = [path for path in RECORDED if path.name not in ("README.md", "values.yaml")]


@pytest.mark.parametrize("path", FOUND, ids=[path.stem for path in FOUND])
def test_imported_fabrics_render_to_valid_objects(path: Path) -> None:
    outcome = run([(path.name, path.read_bytes())], NODES)
    # what no manifest holds is decided as proposed
    text = re.sub(r"  # DECIDE: subnet, such as (\S+);.*\n  (\w+): {}", r"  \2: {subnet: \1}", outcome.text)
    objects = list(object_components.objects(planned(text), REGISTRY))
    assert objects
    assert webhooks.problems(objects) == []
    assert [(each["kind"], problem) for each in objects for problem in schema.problems(each)] == []


def _pool(number: int) -> str:
    net = "172.16.1%d" % number
    pool = "---\napiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\nmetadata: {name: gpu%d-net1%d}\n"
    spec = "spec: {gateway: %s.254, subnet: %s.0/24, ips: [%s.1-%s.200]}\n" % (net, net, net, net)
    return pool % (number, number) + spec


def _network(number: int, kind: str = "macvlan") -> str:
    body = {
        "macvlan": "macvlan: {master: [enp1%ds0f0np0], rdmaResourceName: spidernet.io/shared_gpu%d, %s}",
        "sriov": "sriov: {resourceName: spidernet.io/gpu%d_vf%d, rdmaIsolation: true, %s}",
    }[kind]
    pools = "ippools: {ipv4: [gpu%d-net1%d]}" % (number, number)
    head = "---\napiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderMultusConfig\n"
    name = "metadata: {name: gpu%d-%s, namespace: spiderpool}\n" % (number, kind)
    return head + name + "spec: {cniType: %s, %s}\n" % (kind, body % (number, number, pools))


def _policy(number: int) -> str:
    head = "---\napiVersion: sriovnetwork.openshift.io/v1\nkind: SriovNetworkNodePolicy\n"
    name = "metadata: {name: policy-%d, namespace: spiderpool}\n" % number
    spec = "spec: {nicSelector: {pfNames: [enp1%ds0f0np0]}, numVfs: 4, resourceName: gpu%d_vf%d, isRdma: true}\n"
    return head + name + spec % (number, number, number)


def _definition(number: int) -> str:
    ipam = '{"type": "whereabouts", "range": "172.16.1%d.0/24", "range_end": "172.16.1%d.200"}' % (number, number)
    config = '{"type": "macvlan", "master": "enp1%ds0f0np0", "ipam": %s}' % (number, ipam)
    head = "---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\n"
    return head + "metadata: {name: gpu%d-rail, namespace: ai}\nspec: {config: '%s'}\n" % (number, config)


def _operators(number: int) -> str:
    pool = "---\napiVersion: nv-ipam.nvidia.com/v1alpha1\nkind: IPPool\nmetadata: {name: gpu%d-pool}\n" % number
    spec = "spec: {subnet: 172.16.1%d.0/24, perNodeBlockSize: 4, gateway: 172.16.1%d.1,\n" % (number, number)
    spec += "  exclusions: [{startIP: 172.16.1%d.200, endIP: 172.16.1%d.254}]}\n" % (number, number)
    head = "---\napiVersion: mellanox.com/v1alpha1\nkind: MacvlanNetwork\nmetadata: {name: gpu%d-rail}\n" % number
    ipam = """ipam: '{"type": "nv-ipam", "poolName": "gpu%d-pool"}'""" % number
    return pool + spec + head + "spec: {networkNamespace: default, master: enp1%ds0f0np0, %s}\n" % (number, ipam)


EQUIVALENT = {
    "spiderpool": _pool(1) + _network(1) + _pool(2) + _network(2),
    "spiderpool, one rail": _pool(1) + _network(1),
    "spiderpool, sriov": "".join(_pool(each) + _policy(each) + _network(each, "sriov") for each in (1, 2)),
    "whereabouts": _definition(1) + _definition(2),
    "network operator": _operators(1) + _operators(2),
    **{path.stem: path.read_text("utf-8") for path in FOUND if path.suffix == ".yml"},
}


def _identities(objects: t.Iterable[t.Any]) -> set[tuple[str, str]]:
    return {(each["kind"], each["metadata"]["name"]) for each in objects if each and "metadata" in each}


@pytest.mark.parametrize("name", EQUIVALENT)
def test_an_imported_fabric_renders_the_objects_of_its_manifests_only(name: str) -> None:
    text = EQUIVALENT[name]
    outcome = run([("manifests.yml", text.encode())], NODES)
    rendered = list(object_components.objects(planned(outcome.text), REGISTRY))
    given = _identities(yaml.safe_load_all(text))
    # a reservation has the name of the rail's pool; ConfigMaps of the SR-IOV device plugin are not rendered
    taken = {each for each in _identities(rendered) if each[0] == "SpiderReservedIP"}
    left = {each for each in given if each[0] in ("SpiderReservedIP", "ConfigMap", "DaemonSet")}
    assert _identities(rendered) - taken == given - left
    assert bool(taken) == any(kind == "SpiderReservedIP" for kind, _name in given)
    for each in rendered:
        assert not [key for key in each["metadata"].get("annotations", {}) if key.endswith("resource-inject")]
        if "mtu: " not in text and '"mtu"' not in text:
            assert "'mtu'" not in str(each["spec"])


@pytest.mark.parametrize("name", ["spiderpool", "spiderpool, sriov", "network operator"])
def test_what_an_import_leaves_out_is_named_and_can_be_added(name: str) -> None:
    outcome = run([("manifests.yml", EQUIVALENT[name].encode())], NODES)
    less = _identities(object_components.objects(planned(outcome.text), REGISTRY))
    summary = import_run.summary(outcome)
    for key in outcome.left_out:
        assert "    # not in the manifests: " in outcome.text and "(%s)" % key in summary
        whole = outcome.text.replace("    %s: false\n" % key, "    %s: true\n" % key)
        assert whole != outcome.text
        more = list(object_components.objects(planned(whole), REGISTRY))
        assert _identities(more) > less or (key == "network_mtu" and "'mtu': 4200" in str(more)), key


def test_options_override_the_file() -> None:
    outcome = run([("manifests.yml", EQUIVALENT["spiderpool"].encode())], NODES)
    options = dict(REGISTRY, metrics=True)
    kinds = {each["kind"] for each in object_components.objects(planned(outcome.text), options)}
    assert kinds == {"SpiderIPPool", "SpiderMultusConfig", "ServiceMonitor", "PrometheusRule"}

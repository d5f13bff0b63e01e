# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cilium as the network of a cluster in which Multus attaches the rails."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply import preflight
from ansible_collections.railyard.fabric.plugins.plugin_utils import _cluster_access

LIST = "https://far:6443/api/v1/configmaps?fieldSelector=metadata.name%3Dcilium-config"
ONE = "https://far:6443/api/v1/namespaces/kube-system/configmaps/cilium-config"


def config(namespace: str = "kube-system", **data: str) -> dict[str, t.Any]:
    """A ConfigMap as Cilium's chart writes it, with more keys than that which is read."""
    more = {"ipam": "cluster-pool", "cni-log-file": "/var/run/cilium/cilium-cni.log"}
    named = {name.replace("_", "-"): value for name, value in data.items()}
    return {"metadata": {"name": "cilium-config", "namespace": namespace}, "data": {**more, **named}}


def warnings(answers: dict[str, tuple[int, dict[str, t.Any]]]) -> list[str]:
    def send(method: str, url: str, _headers: t.Any, _body: t.Any) -> tuple[int, bytes]:
        assert method == "GET"
        status, body = answers[url]
        return status, json.dumps(body).encode()

    return preflight.cilium_renames_configurations(Server("https://far:6443", send, dict, 1, lambda _text: None))


@pytest.mark.parametrize(
    "items",
    [
        [],  # Calico, Flannel
        [config(cni_exclusive="false")],
        [config()],  # chained to another plugin: the chart then writes no such key
        [{"metadata": {"name": "cilium-config", "namespace": "kube-system"}}],
    ],
)
def test_a_network_that_renames_no_file_gives_no_warning(items: list[dict[str, t.Any]]) -> None:
    assert warnings({LIST: (200, {"items": items})}) == []


@pytest.mark.parametrize("namespace", ["kube-system", "cilium"])
def test_an_exclusive_cilium_is_reported_with_its_remedy(namespace: str) -> None:
    (line,) = warnings({LIST: (200, {"items": [config(namespace, cni_exclusive="true")]})})
    assert line.startswith("ConfigMap %s/cilium-config: cni-exclusive is true" % namespace)
    assert "Remedy: " in line and "-n %s --reuse-values --set cni.exclusive=false" % namespace in line


@pytest.mark.parametrize(
    ("inventory", "read"), [("macvlan-roce", True), ("host-device", True), ("agent", False), ("slurm", False)]
)
def test_only_fabrics_with_multus_read_it(inventory: str, read: bool) -> None:
    file = Path(__file__).resolve().parents[3] / "inventories" / inventory / "fabric.yml"
    kubernetes = {"registry": "registry.example"}
    assert _cluster_access.Planned({"file": str(file), "kubernetes": kubernetes}).facts.networks is read


DENIED = (403, {"kind": "Status", "code": 403})


def test_without_the_right_to_list_the_usual_namespace_is_read() -> None:
    assert len(warnings({LIST: DENIED, ONE: (200, config(cni_exclusive="true"))})) == 1
    assert warnings({LIST: DENIED, ONE: (200, config(cni_exclusive="false"))}) == []
    assert warnings({LIST: DENIED, ONE: DENIED}) == []
    assert warnings({LIST: DENIED, ONE: (404, {"kind": "Status", "code": 404})}) == []

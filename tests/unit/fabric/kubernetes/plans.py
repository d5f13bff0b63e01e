# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fabric files for each provider, attachment, address mode and family, and the plan's own documents of them."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from tests import yaml_text

from .documents import Document


def fabric_file(provider: str, attachment: str, mode: str, families: t.Sequence[int], nodes: int = 3) -> Document:
    vfs = attachment in ("sriov", "ib-sriov")
    pods = 1 if mode == "link" or attachment == "host-device" else 2
    whole: Document = {
        "plugin": "railyard.fabric.rails",
        "fabric": {
            "name": "ai",
            "attachment": attachment,
            "provider": provider,
            "mtu": 4092 if attachment == "ipoib" else 4200,
            "pods_per_node": pods,
        },
        "addresses": {"mode": mode},
        "rails": {"gpu%02d" % number: _rail(number, mode, families) for number in (1, 2)},
        "profiles": {"hgx": {"ports": {"gpu%02d" % number: _port(number, attachment) for number in (1, 2)}}},
        "nodes": {"n-[1:%d]" % nodes: {"profile": "hgx"}},
    }
    if vfs:
        whole["fabric"]["vfs"] = {"count": 1 if mode == "link" else 4}
    sizes = {"prefix": (("node_prefix", 27), ("node_prefix6", 112)), "block": (("block", 16), ("block6", 16))}
    for family, (key, size) in zip((4, 6), sizes.get(mode, ())):
        if family in families:
            whole["addresses"][key] = size
    if mode == "link" and vfs:
        # The port and its one VF must not share the one address.
        whole["addresses"]["host"] = "none"
    return whole


def _rail(number: int, mode: str, families: t.Sequence[int]) -> Document:
    rail: Document = {}
    common = mode in ("subnet", "block")
    if mode != "none" and 4 in families:
        rail["subnet"] = "10.%d.0.0/16" % number
        if common:
            rail.update(pods=".0.1-.19.128", hosts=".100.1-.100.255", gateway=".255.254")
    if mode != "none" and 6 in families:
        rail["subnet6"] = "fd00:0:0:%d::/64" % number if common else "fd00:%d::/48" % number
        if common:
            rail.update(pods6="::1-::100", hosts6="::1001-::10ff", gateway6="::fffe")
    return rail


def _port(number: int, attachment: str) -> Document:
    infiniband = attachment in ("ipoib", "ib-sriov")
    return {
        "pci": "0000:%02x:00.0" % (10 + number),
        "netdev": ("ibp%ds0" if infiniband else "enp%ds0np0") % (10 + number),
        "rdma": "mlx5_gpu%02d" % number,
        "gpu": number - 1,
    }


def planned(whole: Document | str | bytes) -> Document:
    """The document of a file's plan. The file must have no errors."""
    text = yaml_text.dump(whole, sort_keys=False) if isinstance(whole, dict) else whole
    outcome = lint(text.encode("utf-8") if isinstance(text, str) else text)
    assert outcome.plan is not None, [finding.text("fabric.yml") for finding in outcome.errors]
    made: Document = outcome.plan.document()
    return made

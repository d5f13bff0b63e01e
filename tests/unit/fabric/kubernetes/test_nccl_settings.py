# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's and UCX's settings on a node from its two variables, the same as from the whole plan."""

from __future__ import annotations

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import (
    nccl_objects,
    object_components,
)

from .documents import REGISTRY, combinations, document


@pytest.mark.parametrize("provider, attachment, mode", combinations())
def test_a_host_has_the_settings_of_the_whole_plan(provider: str, attachment: str, mode: str) -> None:
    plan = document(provider, attachment, mode, families=(4, 6))
    files = {node: own["/etc/nccl.conf"] for node, own in object_components.node_files(plan, REGISTRY)}
    for node in plan["nodes"]:
        settings = nccl_objects.host_settings(plan["fabric"], node)
        assert nccl_objects.text(settings) == files[node["name"]]
        assert not [key for key in settings if "GID_INDEX" in key]
        # the host sees every device of its own, whatever pods see
        devices = [port["rdma"]["name"] for port in node["ports"]]
        ucx = nccl_objects.host_ucx(plan["fabric"], node)
        assert ucx.get("UCX_NET_DEVICES", "") == ",".join("%s:1" % name for name in devices if name)

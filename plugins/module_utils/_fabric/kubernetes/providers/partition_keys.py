# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""InfiniBand partitions of pods: the key in a network, and the secret from which ib-kubernetes reads its access.

Sources: README of ib-sriov-cni (``pkey`` is for ib-kubernetes, the plugin ignores it); of ib-kubernetes
``pkg/utils/utils.go``, ``pkg/sm/plugins/ufm/ufm.go`` and ``deployment/ib-kubernetes.yaml``.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import View
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.infiniband_model import DEFAULT
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import attachment_of

# Required keys of the secret. The README's example has UFM_USER, with which the daemon exits at once.
UFM_KEYS = ("UFM_USERNAME", "UFM_PASSWORD", "UFM_ADDRESS")


class Secret(t.NamedTuple):
    """A secret that a user or another program creates, and the keys that must have a value."""

    namespace: str
    name: str
    keys: tuple[str, ...]


def of_pods(view: View, options: Options) -> str | None:
    """Return the key of the pods' networks, without the bit of full members (15 bits); None without a partition.

    :raises RailyardError: if the plan does not have the pods' partition, or has several and the option does not select
        one.
    """
    if not view.of("ib-sriov"):
        return None
    tables = _tables(view)
    planned = sorted({int(key, 16) & DEFAULT for keys in tables for key in keys})
    names = ", ".join(map(_text, planned))
    if options.pkey:
        key = int(options.pkey, 16)
        # every port is in the default partition, so the plan never names it
        if planned and key not in (*planned, DEFAULT):
            raise RailyardError(
                "%s is not one of the plan's partitions (%s)" % (_text(key), names),
                "kubernetes.pkey",
                "use one of them, or add it to fabric.infiniband.pkeys",
            )
        return _text(key)
    if len(planned) > 1 and options.ufm_secret:
        raise RailyardError(
            "ib-kubernetes puts a network's pods into one partition, and the plan has %d (%s)" % (len(planned), names),
            "fabric.infiniband.pkeys",
            "set kubernetes_options.pkey to that of the pods",
        )
    if len(tables) > 1 and options.ufm_secret:
        raise RailyardError(
            "ib-kubernetes puts a network's pods into one partition, and not all nodes have %s" % names,
            "kubernetes.pkey",
            "set kubernetes_options.pkey to that of the pods, or plan fabric.infiniband.pkeys for all nodes",
        )
    return _text(planned[0]) if len(planned) == len(tables) == 1 else None


def secrets(view: View, options: Options) -> list[Secret]:
    """Return the secrets that ib-kubernetes reads in the namespace of its operator."""
    if not options.ufm_secret or not view.of("ib-sriov"):
        return []
    return [Secret(options.operator(view.provider), options.ufm_secret, UFM_KEYS)]


def _tables(view: View) -> set[tuple[str, ...]]:
    """Return the distinct lists of keys of nodes whose pods have VFs."""
    ports = [port for node in view.nodes for port in node["ports"] if attachment_of(node, port) == "ib-sriov"]
    return {tuple(sorted((port.get("ipoib") or {}).get("pkeys") or ())) for port in ports}


def _text(key: int) -> str:
    return "0x%04x" % key

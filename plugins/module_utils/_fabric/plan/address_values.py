# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses as text in the plan: addresses of a node's pods, and taken addresses of a rail."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.allocate.address_schemes import Share
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import Rail
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.plan_memory import SharedKeys
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import show

_PODS = SharedKeys()


def taken_texts(rail: Rail) -> dict[str, str]:
    """Return name -> taken addresses of a rail, as text; ranges are joined by a comma."""
    ranges: dict[str, list[str]] = {}
    for scheme in rail.schemes.values():
        for name, addresses in scheme.taken:
            ranges.setdefault(name, []).append(str(addresses))
    return {name: ", ".join(texts) for name, texts in ranges.items()}


def add_pods(
    pods: dict[str, t.Any] | None, share: Share, bits: int, suffix: str, gateway: str | None
) -> dict[str, t.Any] | None:
    """Add the pod addresses of one family. Return None if neither family has any.

    :param pods: the addresses of the other family; None without them.
    """
    if share.pods_first is None or share.pods_last is None:
        return pods
    if pods is None:
        pods = _PODS.copy(dict.fromkeys(_POD_KEYS))
    pods["first" + suffix] = show(share.pods_first, bits)
    pods["last" + suffix] = show(share.pods_last, bits)
    pods["subnet" + suffix] = "%s/%d" % (show(share.subnet, bits), share.prefix)
    pods["gateway" + suffix] = gateway
    if share.ranges:
        pods["ranges" + suffix] = [str(each) for each in share.ranges]
    return pods


_POD_KEYS = ("first", "last", "subnet", "gateway", "first6", "last6", "subnet6", "gateway6")

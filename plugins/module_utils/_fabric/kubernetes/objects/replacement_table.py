# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fields of our objects that cannot change in place, according to upstream's webhooks and controllers.

Spiderpool refuses another subnet or family of a pool, subnets that partly overlap, and addresses that two pools of one
subnet have. NVIDIA's nv-ipam accepts all of these, and reassigns the addresses of every node when a pool's network
changes.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.replacement_rules import Claim, Found, Rule, Use
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text import ip_integers
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import without

# Name of the space in which subnets of a family are compared. Addresses are compared within their subnet.
_SUBNETS = "subnets of IPv%d"


def _claims(found: Found) -> list[Claim]:
    """Return what a SpiderIPPool claims: its subnet, and its addresses except excluded ones."""
    spec = found.get("spec") or {}
    subnet = str(spec.get("subnet") or "")
    net = ip_integers.network_of(subnet)
    if net is None:
        return []
    version = 4 if net.bits == ip_integers.IPV4 else 6
    claims = [Claim(_SUBNETS % version, net.first, net.last, True, subnet)]
    excluded = _ranges(spec.get("excludeIPs"), net.bits)
    for part in _ranges(spec.get("ips"), net.bits):
        claims += [Claim(subnet, rest.first, rest.last, False, str(rest)) for rest in without([part], excluded)]
    return claims


def _ranges(texts: t.Iterable[str] | None, bits: int) -> list[ip_integers.Range]:
    parsed = filter(None, (ip_integers.parse_range(str(text), bits=bits) for text in texts or ()))
    return [ip_integers.Range(first, last, bits) for first, last in parsed if first <= last]


def _uses(found: Found) -> list[Use]:
    """Return the addresses in use. ``status.allocatedIPs`` is JSON text: address -> the pod that has it."""
    subnet = str((found.get("spec") or {}).get("subnet") or "")
    bits = ip_integers.bits_of(subnet)
    try:
        allocated = json.loads((found.get("status") or {}).get("allocatedIPs") or "{}")
    except (TypeError, ValueError):
        return []
    uses = []
    for address, given in sorted(allocated.items() if isinstance(allocated, dict) else ()):
        number = ip_integers.parse_address(str(address), bits=bits)
        pod = (given or {}).get("pod") if isinstance(given, dict) else None
        if number is not None:
            uses.append(Use(subnet, number, str(address), str(pod or "a pod that its status does not name")))
    return uses


def _assigned(found: Found) -> list[str]:
    """Return the nodes to which nv-ipam assigned addresses of the pool."""
    allocations = (found.get("status") or {}).get("allocations") or ()
    return sorted(str(each.get("nodeName")) for each in allocations)


_NV_IPAM = "nv-ipam.nvidia.com/v1alpha1"
RULES: dict[tuple[str, str], Rule] = {
    ("spiderpool.spidernet.io/v2beta1", "SpiderIPPool"): Rule(
        immutable=("spec.subnet", "spec.ipVersion"), claims=_claims, uses=_uses
    ),
    (_NV_IPAM, "IPPool"): Rule(resets=("spec.subnet", "spec.perNodeBlockSize", "spec.gateway"), assigned=_assigned),
    (_NV_IPAM, "CIDRPool"): Rule(resets=("spec.cidr", "spec.perNodeNetworkPrefix"), assigned=_assigned),
    # of Kubernetes itself
    ("apps/v1", "DaemonSet"): Rule(immutable=("spec.selector",)),
    ("resource.k8s.io/v1", "ResourceClaimTemplate"): Rule(immutable=("spec.spec.devices",)),
}


def closed(found: Found) -> tuple[str, str, str] | None:
    """Return effect, remedy and name of a field by which a user withholds addresses of a pool; None without one."""
    spec, metadata = found.get("spec") or {}, found["metadata"]
    name = metadata["name"]
    if spec.get("disable"):
        return (
            "is disabled (spec.disable), so that no pod gets an address of it",
            'a user set it: kubectl patch spiderippool %s --type=merge -p \'{"spec":{"disable":false}}\'' % name,
            "spec.disable",
        )
    if spec.get("excludeIPs"):
        return (
            "excludes addresses that the plan gives to pods (spec.excludeIPs %s)" % ", ".join(spec["excludeIPs"]),
            "a user set it: write them in the fabric file under 'taken' of the rail, or remove them from the pool",
            "spec.excludeIPs",
        )
    return None

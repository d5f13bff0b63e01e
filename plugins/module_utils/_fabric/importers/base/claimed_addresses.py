# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses that an object of the cluster can allocate or has allocated. Ports never get one of them, and slots of the
agent none that is allocated.

All texts of all manifests are searched, including kinds and fields that are not imported: an address in an unknown
field may be in use.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import pool_ranges
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Claim, Pool
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.manifest_values import Leaf, joined
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import Network, Range
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import common, single
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import Mapping, Sequence, Value

_ADDRESS = r"[0-9a-fA-F:]*(?:\.[0-9]+){3}|[0-9a-fA-F]*:[0-9a-fA-F:.]+"
_TEXT = re.compile(r"(?<![\w.:])(%s)(?:\s*-\s*(%s))?(/[0-9]{1,3})?(?![\w.:])" % (_ADDRESS, _ADDRESS))
_FIRST = re.compile(r"start|first|begin|from|lower|min", re.IGNORECASE)
_LAST = re.compile(r"end|last|stop|to\Z|upper|max", re.IGNORECASE)
# Destinations of routes, and copies of the object itself: these addresses are not allocated.
_OTHER = re.compile(r"(.*\.)?(dst|to|destination|hijackCIDR\[\]|managedFields.*|annotations\[kubectl.*)\Z")
# Fields with the network around a pool's ranges. An IPPool with ``range`` is the record of whereabouts' allocations.
_SUBNET = {"SpiderSubnet": ("spec.subnet",), "IPPool": ("spec.range",)}
# Kind -> the part of its objects with addresses that pods have, or nodes for their pods.
_ALLOCATED = {"SpiderIPPool": "status", "IPPool": "status", "SpiderEndpoint": "", "Pod": ""}


def of_object(kind: str, name: str, trees: t.Iterable[tuple[str, Value]]) -> t.Iterator[Claim]:
    """Return the claims of an object. Networks in fields that a reader has used are not claimed here."""
    owner = owner_of(kind, name)
    for path, tree in trees:
        for at, claim in _of_tree(kind, tree, path):
            yield claim._replace(owner=owner, allocated=kind in _ALLOCATED and at.startswith(_ALLOCATED[kind]))


def owner_of(kind: str, name: str) -> str:
    """Return the text that identifies an object in claims."""
    return ("%s %s" % (kind, name)).strip()


def _of_tree(kind: str, tree: Value, path: str) -> t.Iterator[tuple[str, Claim]]:
    """Yield each claim with the path of its value."""
    if isinstance(tree, Mapping):
        yield from ((path, claim) for claim in _pairs(tree))
        for key, (_name, entry) in tree.entries.items():
            yield from ((path, claim) for claim in _of_text(key, False))
            yield from _of_tree(kind, entry, joined(path, key))
    elif isinstance(tree, Sequence):
        for item in tree.items:
            yield from _of_tree(kind, item, path + "[]")
    elif isinstance(tree, Leaf) and not _OTHER.match(path):
        claims = _of_text(tree.text, tree.used or path in _SUBNET.get(kind, ()))
        yield from ((path, claim) for claim in claims)


def _pairs(mapping: Mapping) -> t.Iterator[Claim]:
    """Return ranges whose ends are two fields of one object, such as startIP and endIP."""
    ends: list[list[tuple[int, int]]] = [[], []]
    for key, (_name, entry) in mapping.entries.items():
        parsed = pool_ranges.address(entry.text.strip()) if isinstance(entry, Leaf) else None
        for end, pattern in enumerate((_FIRST, _LAST)):
            if parsed and pattern.search(key):
                ends[end].append(parsed)
    for first, bits in ends[0]:
        for last, last_bits in ends[1]:
            if bits == last_bits and first <= last:
                yield Claim(Range(first, last, bits))


def _of_text(text: str, interpreted: bool) -> t.Iterator[Claim]:
    if "." not in text and ":" not in text:
        return
    for found in _TEXT.finditer(text):
        first = pool_ranges.address(found.group(1))
        last = pool_ranges.address(found.group(2)) if found.group(2) else None
        if first is None:
            continue
        if last is not None and last[1] == first[1] and first[0] <= last[0]:
            yield Claim(Range(first[0], *last))
            continue
        net = pool_ranges.exact(found.group(1) + found.group(3)) if found.group(3) else None
        if net is None:
            yield Claim(single(*first))
        elif not interpreted and net.prefix:
            yield Claim(net.addresses)


def of_pool(pool: Pool) -> t.Iterator[Claim]:
    """Return all addresses that a pool can allocate, its excluded addresses, and its routers."""
    if pool.net is None:
        return
    bits = pool.net.bits
    ranges = [*pool.ranges, *pool.excluded, *(single(each, bits) for each in pool.routers)]
    if pool.block or pool.node_prefix:
        ranges = [pool.net.addresses]
    if pool.gateway is not None:
        ranges.append(single(pool.gateway, bits))
    for each in ranges:
        yield Claim(each, owner_of(pool.kind, pool.label))


def within(claims: t.Iterable[Claim], net: Network) -> list[Range]:
    """Return the claimed addresses in a network."""
    return common((claim.range for claim in claims), [net])

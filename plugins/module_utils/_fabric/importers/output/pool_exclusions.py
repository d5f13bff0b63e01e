# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Patches that keep other address managers from giving the addresses of slots to pods, one file for each object."""

from __future__ import annotations

import ipaddress
import json
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.yaml_layout import render
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import (
    Pool,
    PoolObject,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.slot_ranges import Exclusion
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import Range, parse_network, show

# Names of objects as the API server accepts them: they become a path and a command.
_NAME = re.compile(r"[a-z0-9.-]*\Z")
_WHAT = "Keeps these addresses, which the fabric file gives to slots of the rail agent, from other pods."


class Patch(t.NamedTuple):
    """A file for ``kubectl patch``. ``arguments``: of the command, without the path of the file."""

    name: str
    text: str
    arguments: str

    def command(self, path: str) -> str:
        """Return the command that applies the file at ``path``."""
        return "kubectl patch %s --type merge --patch-file %s" % (self.arguments, path)


def patches(exclusions: t.Iterable[Exclusion]) -> list[Patch]:
    """Return the patches of all objects, in the order of their pools. Networks that share a pool have one each."""
    of_objects: dict[tuple[str, str, str], list[Exclusion]] = {}
    for pool, ranges in exclusions:
        if pool.object and all(_NAME.match(each) for each in pool.object[:3]):
            of_objects.setdefault(pool.object[:3], []).append((pool, ranges))
    return [_patch(listed) for listed in of_objects.values()]


def _patch(listed: t.Sequence[Exclusion]) -> Patch:
    """Return the patch of an object, which may contain several pools."""
    owner = listed[0][0].object
    if owner is None:
        raise AssertionError("only pools with an object come here")
    key = owner.field.rpartition(".")[2]
    value: t.Any = owner.text
    for pool, ranges in listed:
        value = _with_ranges(value, pool, ranges) if owner.text else _listed(owner, ranges)
    kind = owner.resource.partition(".")[0]
    name = "-".join(filter(None, (kind, owner.namespace, owner.name))) + ".yml"
    arguments = "%s %s%s" % (owner.resource, owner.name, " -n %s" % owner.namespace if owner.namespace else "")
    return Patch(name, render({"spec": {key: value}}, {(): [_WHAT]}), arguments)


def _listed(owner: PoolObject, ranges: t.Sequence[Range]) -> list[t.Any]:
    """Return the exclusions of a pool with further ranges. A merge patch replaces the whole list."""
    if owner.field == "spec.exclusions":
        more: list[t.Any] = [
            {"startIP": show(each.first, each.bits), "endIP": show(each.last, each.bits)} for each in ranges
        ]
    else:
        more = [str(each) for each in ranges]
    return [*owner.excluded, *(each for each in more if each not in owner.excluded)]


def _with_ranges(text: str, pool: Pool, ranges: t.Sequence[Range]) -> str:
    """Return the JSON of a network with further prefixes in ``exclude`` of the part that has the pool's network."""
    root = json.loads(text)
    sections = [root] if "range" in root or "ipRanges" in root else []
    sections += [each["ipam"] for each in (root, *root.get("plugins", ())) if isinstance(each.get("ipam"), dict)]
    prefixes = [str(prefix) for each in ranges for prefix in _prefixes(each)]
    for section in sections:
        for part in (section, *section.get("ipRanges", ())):
            written = str(part.get("range", "")).rpartition("-")[2]
            if pool.net and parse_network(written, pool.net.bits) and _is_of(written, pool):
                part["exclude"] = [*part.get("exclude", ()), *prefixes]
    return json.dumps(root)


def _is_of(written: str, pool: Pool) -> bool:
    return pool.net is not None and ipaddress.ip_network(written, strict=False) == ipaddress.ip_network(str(pool.net))


def _prefixes(part: Range) -> t.Iterable[t.Any]:
    """Return the prefixes of a range."""
    kind = ipaddress.IPv4Address if part.bits == 32 else ipaddress.IPv6Address
    return ipaddress.summarize_address_range(kind(part.first), kind(part.last))

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Patches that keep other address managers from giving the addresses of slots to pods, one file for each object."""

from __future__ import annotations

import ipaddress
import json
import re
import shlex
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.yaml_layout import render
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import (
    Pool,
    PoolObject,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.slot_ranges import Exclusion
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import Range, network_of, show
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_ranges import merged

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
        return "kubectl patch %s --type merge --patch-file %s" % (self.arguments, shlex.quote(path))


def patches(exclusions: t.Iterable[Exclusion]) -> list[Patch]:
    """Return the patches of all objects, in the order of their pools. Networks that share a pool have one each."""
    of_objects: dict[tuple[str, str, str], tuple[PoolObject, list[Exclusion]]] = {}
    for pool, ranges in exclusions:
        if pool.object and all(_NAME.match(each) for each in pool.object[:3]):
            of_objects.setdefault(pool.object[:3], (pool.object, []))[1].append((pool, ranges))
    return [_patch(*each) for each in of_objects.values()]


def _patch(owner: PoolObject, listed: t.Sequence[Exclusion]) -> Patch:
    """Return the patch of an object, which may contain several pools."""
    key = owner.field.rpartition(".")[2]
    value: t.Any = owner.text or _listed(owner, merged(each for _pool, ranges in listed for each in ranges))
    for pool, ranges in listed if owner.text else ():
        value = _with_ranges(value, pool, ranges)
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
    sections = [root, *_objects([each.get("ipam") for each in (root, *_objects(root.get("plugins")))])]
    ends = ([ipaddress.ip_address(show(end, each.bits)) for end in (each.first, each.last)] for each in ranges)
    prefixes = [str(prefix) for first, last in ends for prefix in ipaddress.summarize_address_range(first, last)]
    for section in sections:
        for part in (section, *_objects(section.get("ipRanges"))):
            if network_of(str(part.get("range", "")).rpartition("-")[2]) == pool.net:
                written = part.get("exclude")
                listed = written if isinstance(written, list) else [written] if written else []
                part["exclude"] = [*listed, *(each for each in prefixes if each not in listed)]
    return json.dumps(root)


def _objects(value: t.Any) -> list[dict[str, t.Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []

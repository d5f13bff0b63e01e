# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects as files for Argo CD or Flux: a directory per component, each with a kustomization.

Each value has one notation in YAML, so that files differ only if the plan does. A general YAML writer takes longer for
the pools of a large fabric than all other steps together. Objects contain only mappings, lists, strings, numbers and
booleans. Strings are plain only if no version of YAML reads them as another type.
"""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import (
    nccl_objects,
    object_components,
    test_workload,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    RAIL,
    Document,
    Object,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of

# Letters first, and nothing that is an indicator or could make a number or a date of it; or an IPv4 address, network
# or range.
_PLAIN = re.compile(
    r"[A-Za-z_/][A-Za-z0-9_./-]*(?:[ @=][A-Za-z0-9_./-]+)*\Z"
    r"|\d+\.\d+\.\d+\.\d+(?:/\d+)?(?:-\d+\.\d+\.\d+\.\d+)?\Z"
)
# Strings that some version of YAML reads as a boolean, null or a number.
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none"))
_cache: dict[str, str] = {}
_CACHED = 100_000


def as_yaml(thing: t.Mapping[str, t.Any]) -> str:
    """Return one document without a separator; it ends with a line break.

    :raises TypeError: for a type that objects do not have.
    """
    if not thing:
        return "{}\n"
    lines: list[str] = []
    _mapping(lines, thing, "", "")
    return "\n".join(lines) + "\n"


def _mapping(lines: list[str], mapping: t.Mapping[str, t.Any], indent: str, first: str) -> None:
    """Add a mapping. ``first``: the start of its first line, which is its indent or the dash of a list."""
    for key, value in mapping.items():
        head = "%s%s:" % (first, _scalar(key))
        first = indent
        if isinstance(value, dict):
            if value:
                lines.append(head)
                _mapping(lines, value, indent + "  ", indent + "  ")
            else:
                lines.append(head + " {}")
        elif isinstance(value, (list, tuple)):
            if value:
                lines.append(head)
                _list(lines, value, indent)
            else:
                lines.append(head + " []")
        elif isinstance(value, str) and "\n" in value:
            _block(lines, head, value, indent + "  ")
        else:
            lines.append("%s %s" % (head, _scalar(value)))


def _list(lines: list[str], values: t.Sequence[t.Any], indent: str) -> None:
    for value in values:
        if isinstance(value, dict) and value:
            _mapping(lines, value, indent + "  ", indent + "- ")
        elif isinstance(value, (list, tuple, dict)):
            # Flow style, which is also JSON; no list of lists in the objects is meant to be read by users.
            lines.append("%s- %s" % (indent, _quoted(value)))
        else:
            lines.append("%s- %s" % (indent, _scalar(value)))


def _block(lines: list[str], head: str, value: str, indent: str) -> None:
    body = value[:-1] if value.endswith("\n") else value
    plain = not value.startswith((" ", "\n")) and not value.endswith("\n\n") and all(map(_printable, value.split("\n")))
    if not plain:
        lines.append("%s %s" % (head, _quoted(value)))
        return
    lines.append("%s |%s" % (head, "" if value.endswith("\n") else "-"))
    lines.extend(indent + line if line else "" for line in body.split("\n"))


def _printable(line: str) -> bool:
    return line.isprintable() and not line.endswith(" ") or not line


def _scalar(value: t.Any) -> str:
    if isinstance(value, str):
        known = _cache.get(value)
        if known is None:
            known = value if _PLAIN.match(value) and value.lower() not in _WORDS else _quoted(value)
            if len(_cache) < _CACHED:
                _cache[value] = known
        return known
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if value is None:
        return "null"
    raise TypeError("%r is not a type that objects have" % (value,))


def _quoted(value: t.Any) -> str:
    """Return a string as JSON in ASCII: YAML's double quotes support all escapes of JSON, except surrogate pairs."""
    quoted = json.dumps(value)
    return _PAIR.sub(_joined, quoted) if "\\ud" in quoted else quoted


_PAIR = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})")


def _joined(found: t.Match[str]) -> str:
    high, low = int(found.group(1), 16), int(found.group(2), 16)
    return "\\U%08x" % (0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF))


KUSTOMIZATION = "kustomization.yaml"
# Components that are not in the root kustomization, because users start them to test the rails.
ON_DEMAND = (test_workload.COMPONENT,)
VALUES = "values"
NODES = "nodes"


def render(document: Document, given: t.Mapping[str, t.Any] | None = None, nodes: bool = False) -> dict[str, str]:
    """Return path -> text, ordered by path. The same plan gives the same bytes.

    ``COMPONENT/KIND[-RAIL].yaml`` contains objects and ``values/CHART.yaml`` values for Helm. With ``nodes``,
    ``nodes/NODE/PATH`` contains files of nodes, which no cluster applies. For a fabric without Kubernetes,
    ``nccl/VARIANT.conf`` contains NCCL's settings of each variant, and only schedulers get objects.

    :raises RailyardError: for an option or a plan that the provider does not support.
    """
    parts: dict[str, list[str]] = {}
    for component, made in object_components.components(document, given):
        parts.setdefault("%s/%s" % (component, _file(made)), []).append(as_yaml(made))
    files = {path: "---\n" + "---\n".join(texts) for path, texts in parts.items()}
    if parts:
        files.update(_kustomizations(parts))
    if not facts_of(document["fabric"]["provider"]).kubernetes:
        view = object_components.viewed(document)
        for variant, node in nccl_objects.samples(view).items():
            files["nccl/%s.conf" % variant] = nccl_objects.text(nccl_objects.host(view, node))
    for chart, settings in object_components.values(document, given).items():
        files["%s/%s.yaml" % (VALUES, chart)] = "---\n" + as_yaml(settings)
    for name, own in object_components.node_files(document, given) if nodes else ():
        for path, text in own.items():
            files["%s/%s%s" % (NODES, name, path)] = text
    return dict(sorted(files.items()))


def _file(made: Object) -> str:
    rail = made["metadata"]["labels"].get(RAIL)
    kind = made["kind"].lower()
    return "%s-%s.yaml" % (kind, rail) if rail else "%s.yaml" % kind


def _kustomizations(paths: t.Iterable[str]) -> dict[str, str]:
    """Return the kustomizations. Resources are in the order of application, from which file names may differ."""
    folders: dict[str, list[str]] = {}
    for path in paths:
        folder, _slash, name = path.partition("/")
        folders.setdefault(folder, []).append(name)
    made = {"%s/%s" % (folder, KUSTOMIZATION): _kustomization(names) for folder, names in folders.items()}
    made[KUSTOMIZATION] = _kustomization([folder for folder in folders if folder not in ON_DEMAND])
    return made


def _kustomization(resources: t.Sequence[str]) -> str:
    return "---\n" + as_yaml(
        {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": list(resources)}
    )

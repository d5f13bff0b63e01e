# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which nodes an object selects: node selectors, node affinities and names of nodes.

Source: ``NodeSelector`` and ``LabelSelector`` of the Kubernetes API. A list of terms matches if one of them does, and a
term if all of its requirements do.
"""

from __future__ import annotations

import itertools
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.manifest_values import use
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.yaml_source import (
    Mapping,
    Scalar,
    Sequence,
    Value,
)

HOSTNAME = "kubernetes.io/hostname"
# Labels that do not distinguish nodes with rails from each other.
_NEUTRAL = ("kubernetes.io/os", "feature.node.kubernetes.io/network-sriov.capable", "node-role.kubernetes.io/worker")
_IN, _NOT_IN, _EXISTS, _ABSENT = "In", "NotIn", "Exists", "DoesNotExist"


class Requirement(t.NamedTuple):
    """A requirement of a label of the node. ``operator``: as in Kubernetes; only In and NotIn have ``values``."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def __str__(self) -> str:
        if self.operator == _IN and len(self.values) == 1:
            return "%s=%s" % (self.key, next(iter(self.values)))
        values = " (%s)" % ", ".join(sorted(self.values)) if self.values else ""
        return "%s %s%s" % (self.key, self.operator, values)


class Selector(t.NamedTuple):
    """The nodes that match one of the terms; without terms, all nodes."""

    terms: tuple[frozenset[Requirement], ...] = ()

    def __str__(self) -> str:
        return " or ".join(", ".join(sorted(map(str, term))) for term in self.terms)

    @property
    def names(self) -> list[str]:
        """Return the names of the nodes, if it selects nodes by name alone; empty otherwise."""
        found: list[str] = []
        for term in self.terms:
            one = next(iter(term)) if len(term) == 1 else None
            if one is None or one.key != HOSTNAME or one.operator != _IN:
                return []
            found.extend(sorted(one.values))
        return found


ALL = Selector()


def of_names(names: t.Iterable[str]) -> Selector:
    """Return the selector of nodes by name; of all nodes without names."""
    values = frozenset(names)
    return Selector((frozenset([Requirement(HOSTNAME, _IN, values)]),)) if values else ALL


def read(value: Value | None) -> Selector:
    """Return the selector in a ``nodeSelector``, node affinity or label selector, and mark it as read."""
    use(value)
    if not isinstance(value, Mapping):
        return ALL
    for key in ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"):
        if key in value.entries:
            return read(value.entries[key][1])
    if "nodeSelectorTerms" in value.entries:
        terms = value.entries["nodeSelectorTerms"][1]
        return _selector(_term(each) for each in getattr(terms, "items", ()) if isinstance(each, Mapping))
    return _selector([_term(value)])


def _selector(terms: t.Iterable[frozenset[Requirement]]) -> Selector:
    found = tuple(dict.fromkeys(terms))
    return Selector(found) if all(found) else ALL


def _term(value: Mapping) -> frozenset[Requirement]:
    """Return the requirements of a mapping of labels, of a label selector, or of a term of a node selector."""
    found: set[Requirement] = set()
    structured = {"matchLabels", "matchExpressions", "matchFields", "preferredDuringSchedulingIgnoredDuringExecution"}
    labels: Value | None = value
    if structured & set(value.entries):
        labels = _entry(value, "matchLabels")
        for key in ("matchExpressions", "matchFields"):
            for item in getattr(_entry(value, key), "items", ()):
                found.update(_expression(item))
    for name, (_key, entry) in labels.entries.items() if isinstance(labels, Mapping) else ():
        if isinstance(entry, Scalar) and name not in _NEUTRAL:
            found.add(Requirement(name, _IN, frozenset([entry.text.strip()])))
    return frozenset(found)


def _expression(item: Value) -> t.Iterator[Requirement]:
    key, operator = (getattr(_entry(item, name), "text", "").strip() for name in ("key", "operator"))
    values = _entry(item, "values")
    listed = values.items if isinstance(values, Sequence) else ()
    texts = frozenset(each.text.strip() for each in listed if isinstance(each, Scalar))
    key = HOSTNAME if key == "metadata.name" else key
    if key and key not in _NEUTRAL and operator in (_IN, _NOT_IN, _EXISTS, _ABSENT):
        yield Requirement(key, operator, texts)


def _entry(value: Value | None, key: str) -> Value | None:
    return value.entries[key][1] if isinstance(value, Mapping) and key in value.entries else None


def overlap(first: Selector, second: Selector) -> bool:
    """Return whether a node can match both."""
    if not first.terms or not second.terms:
        return True
    return any(_possible(one | other) for one in first.terms for other in second.terms)


def _possible(requirements: frozenset[Requirement]) -> bool:
    for _key, group in itertools.groupby(sorted(requirements, key=lambda each: each.key), lambda each: each.key):
        own = list(group)
        operators = {each.operator for each in own}
        present = operators & {_IN, _EXISTS}
        if _ABSENT in operators and present:
            return False
        allowed = [each.values for each in own if each.operator == _IN]
        denied = {value for each in own if each.operator == _NOT_IN for value in each.values}
        if allowed and not frozenset.intersection(*allowed) - denied:
            return False
    return True


def distinct(selectors: t.Iterable[Selector]) -> list[Selector]:
    """Return the selectors of which a node matches at most one, in their order; one of all nodes without such.

    Selectors that overlap with others of the result select additional objects of the same nodes.
    """
    found: list[Selector] = []
    every = [each for each in dict.fromkeys(selectors) if each.terms]
    for each in every:
        if not any(overlap(each, other) for other in found):
            found.append(each)
    return found if len(found) > 1 else [ALL]

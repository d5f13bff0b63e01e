# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The topology of the fabric as objects that schedulers read, for the schedulers of the option ``schedulers``.

Kueue gets a Topology and a ResourceFlavor for each profile, because a pod set runs on nodes of one flavor. Volcano gets
a tree of HyperNodes. Both refer to the labels that :mod:`node_selectors` gives to nodes.

Sources: Kueue 0.19, ``apis/kueue/v1beta2/topology_types.go`` and ``resourceflavor_types.go``; Volcano 1.15,
``config/crd/volcano/bases/topology.volcano.sh_hypernodes.yaml`` and ``pkg/scheduler/api/hyper_node_info.go``, both read
on 2026-11-29.
"""

from __future__ import annotations

import collections
import hashlib
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.node_selectors import (
    LEVELS,
    level_labels,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    FABRIC,
    LABEL,
    PROFILE,
    Node,
    Object,
    View,
    made,
)

COMPONENT = "topology"
KUEUE = "kueue.x-k8s.io/v1beta2"
VOLCANO = "topology.volcano.sh/v1alpha1"
# The lowest level of every Topology. Kueue permits changes of the levels only if this one is the lowest.
_HOST = "kubernetes.io/hostname"
# Level -> tier of its HyperNodes. The numbers are the same in every fabric, because jobs contain them.
_TIERS = {label: tier for tier, label in enumerate(reversed(LEVELS), 1)}

# The levels above a node, widest first, each as label and value.
_Path = t.Tuple[t.Tuple[str, str], ...]


def objects(view: View, options: Options) -> t.Iterator[Object]:
    """Yield the objects of the chosen schedulers."""
    if "kueue" in options.schedulers:
        yield from _of_kueue(view)
    if "volcano" in options.schedulers:
        yield from _of_volcano(view)


def _of_kueue(view: View) -> t.Iterator[Object]:
    """Yield a Topology for each profile, then the ResourceFlavors.

    A level is a label that all nodes of the profile have: Kueue ignores nodes without the label of a level.
    """
    profiles: dict[str, list[Node]] = {}
    for node in view.nodes:
        profiles.setdefault(node["profile"], []).append(node)
    labels = view.labels(COMPONENT)
    for profile, nodes in profiles.items():
        common = set.intersection(*(set(level_labels(node)) for node in nodes))
        levels = [{"nodeLabel": label} for label in (*(each for each in LEVELS if each in common), _HOST)]
        yield made(KUEUE, "Topology", _name(view, profile), labels, {"levels": levels})
    for profile in profiles:
        spec = {"nodeLabels": {FABRIC: view.name, PROFILE: profile}, "topologyName": _name(view, profile)}
        yield made(KUEUE, "ResourceFlavor", _name(view, profile), labels, spec)


def _of_volcano(view: View) -> t.Iterator[Object]:
    """Yield a HyperNode for each site, unit and NVLink domain, the smallest first.

    As in Kueue, an NVLink domain with nodes of two units counts twice: a HyperNode has one parent.
    """
    nodes: dict[_Path, list[str]] = {}
    for node in view.nodes:
        nodes.setdefault(tuple(level_labels(node).items()), []).append(node["name"])
    children: dict[_Path, dict[_Path, None]] = {}
    for path in nodes:
        while path:
            children.setdefault(path, {})
            children.setdefault(path[:-1], {})[path] = None
            path = path[:-1]
    paths = sorted((path for path in children if path), key=lambda path: _TIERS[path[-1][0]])
    # The name of an NVLink domain or unit with several parents contains their names too.
    below: dict[tuple[str, str], int] = {}
    for path in paths:
        below[path[-1]] = below.get(path[-1], 0) + 1
    names = {path: _hyper_node(view, path if below[path[-1]] > 1 else path[-1:]) for path in paths}
    same = collections.Counter(names.values())
    for path, name in names.items():
        if same[name] > 1:  # sites that differ in characters which names of objects cannot have
            names[path] = "%s-%s" % (name, hashlib.sha256(repr(path).encode("utf-8")).hexdigest()[:8])
    for path in paths:
        members: list[Object] = [_member("HyperNode", "exactMatch", {"name": names[each]}) for each in children[path]]
        if members:
            # Volcano updates members by label only for HyperNodes without HyperNodes.
            members += [_member("Node", "exactMatch", {"name": name}) for name in nodes.get(path, ())]
        else:
            match = {"matchLabels": {FABRIC: view.name, **dict(path)}}
            members = [_member("Node", "labelMatch", match)]
        label = path[-1][0]
        spec = {"tier": _TIERS[label], "tierName": _short(label), "members": members}
        yield made(VOLCANO, "HyperNode", names[path], view.labels(COMPONENT), spec)


def _member(kind: str, selector: str, value: Object) -> Object:
    return {"type": kind, "selector": {selector: value}}


def _short(label: str) -> str:
    """Return a label without its prefix."""
    return label[len(LABEL) :]


def _name(view: View, profile: str) -> str:
    return "%s-%s" % (view.name, profile)


def _hyper_node(view: View, path: _Path) -> str:
    """Return the name of a HyperNode: level and values in lower case, without characters that only labels may have."""
    text = "-".join((view.name, _short(path[-1][0]), *(value for _label, value in path)))
    return re.sub(r"[^a-z0-9]*\.[^a-z0-9]*", ".", text.lower().replace("_", "-"))

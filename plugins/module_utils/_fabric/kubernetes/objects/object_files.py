# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Objects as files for Argo CD or Flux: a directory per component, each with a kustomization."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import (
    nccl_objects,
    object_components,
    test_workload,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view import object_yaml
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    RAIL,
    Document,
    Object,
)

KUSTOMIZATION = "kustomization.yaml"
# Components that are not in the root kustomization, because users start them to test the rails.
ON_DEMAND = (test_workload.COMPONENT,)
VALUES = "values"
NODES = "nodes"


def render(document: Document, given: t.Mapping[str, t.Any] | None = None, nodes: bool = False) -> dict[str, str]:
    """Return path -> text, ordered by path. The same plan gives the same bytes.

    ``COMPONENT/KIND[-RAIL].yaml`` contains objects and ``values/CHART.yaml`` values for Helm. With ``nodes``,
    ``nodes/NODE/PATH`` contains files of nodes, which no cluster applies. For a fabric without Kubernetes,
    ``nccl/VARIANT.conf`` contains NCCL's settings of each variant, and there are no objects.

    :raises RailyardError: for an option or a plan that the provider does not support.
    """
    parts: dict[str, list[str]] = {}
    for component, made in object_components.components(document, given):
        parts.setdefault("%s/%s" % (component, _file(made)), []).append(object_yaml.text(made))
    files = {path: "---\n" + "---\n".join(texts) for path, texts in parts.items()}
    if parts:
        files.update(_kustomizations(parts))
    else:
        view = object_components.viewed(document)
        for variant, node in nccl_objects.samples(view).items():
            files["nccl/%s.conf" % variant] = nccl_objects.text(nccl_objects.host(view, node))
    for chart, settings in object_components.values(document, given).items():
        files["%s/%s.yaml" % (VALUES, chart)] = "---\n" + object_yaml.text(settings)
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
    return "---\n" + object_yaml.text(
        {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": list(resources)}
    )

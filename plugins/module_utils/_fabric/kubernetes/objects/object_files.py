# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Objects as files for those who let Argo CD or Flux apply them: a folder a component, each with its kustomization."""

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
# Rendered, and left out of the root's kustomization: these are run by hand, to see rails work.
ON_DEMAND = (test_workload.COMPONENT,)
VALUES = "values"
NODES = "nodes"


def render(document: Document, given: t.Mapping[str, t.Any] | None = None, nodes: bool = False) -> dict[str, str]:
    """Path -> text, in the order of their names. The same plan gives the same bytes.

    ``COMPONENT/KIND[-RAIL].yaml`` holds objects, ``values/CHART.yaml`` values for Helm, and with ``nodes``
    ``nodes/NODE/PATH`` what lies on nodes, which no cluster applies. A fabric without Kubernetes has NCCL's settings of
    each kind of node instead of objects, ``nccl/VARIANT.conf``.

    :raises RailyardError: for an option or a plan that cannot be served.
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
    """Resources in the order of application. The names of files may sort differently."""
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

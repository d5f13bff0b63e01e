# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""All objects of a plan by component, in the order of application: dependencies first. The package's entry point."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.gpu import gpu_spec
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import (
    metric_objects,
    nccl_objects,
    test_workload,
    topology_objects,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import (
    device_plugins,
    partition_keys,
    rail_agent,
    sriov_operator_objects,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers.all_providers import (
    PROVIDERS,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view import node_selectors
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    Document,
    Node,
    Object,
    View,
)

Maker = t.Callable[[View, Options], t.Iterator[Object]]


def viewed(document: Document) -> View:
    """Return the plan as providers see it.

    :raises RailyardError: if the provider does not support an attachment of the plan.
    """
    view = View(document)
    PROVIDERS[view.provider].check(view)
    return view


def components(document: Document, given: t.Mapping[str, t.Any] | None = None) -> t.Iterator[tuple[str, Object]]:
    """Yield each object with its component. Objects are created on demand and not kept.

    :param document: the plan, from ``Plan.document()``.
    :param given: options, see :class:`Options`.
    :raises RailyardError: for an option or a plan that the provider does not support.
    """
    view, options = viewed(document), Options.of(given, document["fabric"])
    # Schedulers of a cluster that Railyard does not manage (provider none) get files on demand.
    order: list[tuple[str, Maker]] = [
        (node_selectors.COMPONENT, node_selectors.objects),
        (topology_objects.COMPONENT, topology_objects.objects),
    ]
    if PROVIDERS[view.provider].facts.kubernetes:
        order += [
            (sriov_operator_objects.COMPONENT, sriov_operator_objects.policies),
            (view.provider, PROVIDERS[view.provider].objects),
            (nccl_objects.COMPONENT, nccl_objects.objects),
            (metric_objects.COMPONENT, metric_objects.objects),
            (test_workload.COMPONENT, test_workload.objects),
        ]
    elif not options.schedulers:
        return
    for component, make in order:
        for made in make(view, options):
            yield component, made


def objects(document: Document, given: t.Mapping[str, t.Any] | None = None) -> t.Iterator[Object]:
    """Yield every object of the plan, in the order of application."""
    return (made for _component, made in components(document, given))


def values(document: Document, given: t.Mapping[str, t.Any] | None = None) -> dict[str, Object]:
    """Return chart -> the values that the plan determines."""
    view, options = viewed(document), Options.of(given, document["fabric"])
    provider = PROVIDERS[view.provider]
    if not provider.facts.kubernetes:
        return {}
    charts = dict(provider.charts)
    if sriov_operator_objects.alone(view, options):
        charts["sriov-network-operator"] = sriov_operator_objects.values
    charts["gpu-operator"] = gpu_spec.values
    return {chart: make(view, options) for chart, make in charts.items()}


def node_files(
    document: Document, given: t.Mapping[str, t.Any] | None = None
) -> t.Iterator[tuple[str, dict[str, str]]]:
    """Yield node -> path on the node -> text of files outside the cluster: NCCL's file, and with ``cni`` the
    configuration."""
    view, options = viewed(document), Options.of(given, document["fabric"])
    for node in view.nodes:
        yield node["name"], _files(view, options, node)


def _files(view: View, options: Options, node: Node) -> dict[str, str]:
    files = {"/etc/nccl.conf": nccl_objects.text(nccl_objects.host(view, node))}
    return dict(files, **PROVIDERS[view.provider].node_files(view, options, node))


def node_labels(document: Document, given: t.Mapping[str, t.Any] | None = None) -> dict[str, dict[str, str]]:
    """Return node -> the labels by which policies, workloads and schedulers select nodes."""
    view, options = View(document), Options.of(given, document["fabric"])
    return node_selectors.of_nodes(view, options) if view.networks or options.schedulers else {}


def allocatable(document: Document, given: t.Mapping[str, t.Any] | None = None) -> dict[str, dict[str, int]]:
    """Return node -> resource -> the units that the node must report."""
    view = View(document)
    if PROVIDERS[view.provider].facts.slots:
        return rail_agent.allocatable(view)
    return device_plugins.allocatable(view, Options.of(given, document["fabric"])) if view.networks else {}


def software(document: Document, given: t.Mapping[str, t.Any] | None = None) -> list[str]:
    """Return the software that the cluster needs, in the order of installation, with the names of
    :mod:`software_versions`."""
    view, options = viewed(document), Options.of(given, document["fabric"])
    alone = ["sriov-operator"] if sriov_operator_objects.alone(view, options) else []
    return alone + list(PROVIDERS[view.provider].software)


def secrets(document: Document, given: t.Mapping[str, t.Any] | None = None) -> list[partition_keys.Secret]:
    """Return the secrets that users or other programs create and that applied objects read."""
    view = viewed(document)
    return PROVIDERS[view.provider].secrets(view, Options.of(given, document["fabric"]))

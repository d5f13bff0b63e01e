# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A collective test in Kubernetes: an MPIJob of Kubeflow, whose workers have all rails of their nodes."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import test_workload
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.object_components import viewed
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    Document,
    Object,
    made,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.collectives import collective_command
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.collectives.collective_command import Test

_HOSTNAME, _INSTANCE = "kubernetes.io/hostname", "app.kubernetes.io/instance"
# Workers of the MPI operator are servers of SSH.
_SERVER = ["/usr/sbin/sshd", "-De"]


def name(operation: str) -> str:
    """Return the name of the MPIJob."""
    return "railyard-%s" % operation.replace("_", "-")


def mpi_job(
    document: Document, given: t.Mapping[str, t.Any], nodes: t.Sequence[str], test: Test, image: str, resource: str
) -> Object:
    """Return the MPIJob.

    :param document: the plan, from ``Plan.document()``.
    :param given: options of Kubernetes objects, see :class:`Options`.
    :param nodes: the nodes of the plan on which the workers run, one on each.
    :param image: an image with Open MPI, sshd and the programs.
    :param resource: the resource of GPUs, such as ``nvidia.com/gpu``.
    :raises RailyardError: if the provider attaches no pods, or if the nodes have different networks.
    """
    view = viewed(document)
    if not view.networks:
        raise RailyardError(
            "provider %s attaches no pods to rails" % view.provider,
            "collectives_launcher",
            "use mpirun or srun, on the hosts",
        )
    images = {**dict(given.get("images") or {}), "test": image}
    options = Options.of({**given, "images": images}, document["fabric"])
    pairs = zip(test_workload.objects(view, options), test_workload.names(view).values())
    workloads = [workload for workload, among in pairs if set(among) & set(nodes)]
    if len(workloads) != 1:
        remedy = "name nodes with the same networks, with --limit"
        raise RailyardError("the nodes have different networks", "collectives_launcher", remedy)
    workload = workloads[0]
    worker = workload["spec"]["template"]
    container = worker["spec"]["containers"][0]
    container.update(name="mpi", command=_SERVER)
    for kind in ("requests", "limits"):
        container["resources"].setdefault(kind, {})[resource] = str(test.gpus)
    # not the labels of the test pods, which verify tests
    worker["metadata"]["labels"] = {_INSTANCE: name(test.operation)}
    _place(worker, nodes)
    command = collective_command.argv(test)
    launcher: Object = {"name": "mpi", "image": options.reference("test"), "command": command}
    if test.environment:
        launcher["env"] = [{"name": key, "value": value} for key, value in test.environment.items()]
    spec: Object = {
        "slotsPerWorker": test.gpus,
        "mpiImplementation": "OpenMPI",
        "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 0, "activeDeadlineSeconds": test.seconds},
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": {"spec": {"containers": [launcher]}}},
            "Worker": {"replicas": len(nodes), "restartPolicy": "Never", "template": worker},
        },
    }
    labels = view.labels("collectives")
    return made("kubeflow.org/v2beta1", "MPIJob", name(test.operation), labels, spec, options.workload_namespace)


def _place(worker: Object, nodes: t.Sequence[str]) -> None:
    """Let the workers run on these nodes, each on another."""
    terms = [{"matchExpressions": [{"key": _HOSTNAME, "operator": "In", "values": list(nodes)}]}]
    others = {"labelSelector": {"matchLabels": worker["metadata"]["labels"]}, "topologyKey": _HOSTNAME}
    worker["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [others]},
    }

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A pod on every node with all of its compute rails: one DaemonSet for each set of nodes with the same networks."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import nccl_objects
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import rail_agent
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    FABRIC,
    VARIANT,
    Object,
    RailSet,
    View,
    label_value,
    made,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.slot_model import RAILS

COMPONENT = "workload"
NETWORKS = "k8s.v1.cni.cncf.io/networks"
# The annotation in which Multus lists the attached networks.
NETWORK_STATUS = NETWORKS[: -len("networks")] + "network-status"
_NAME, _INSTANCE = "app.kubernetes.io/name", "app.kubernetes.io/instance"


def objects(view: View, options: Options) -> t.Iterator[Object]:
    """Yield nothing until ``images`` names the image ``test``: each site chooses the tools that it trusts in its
    cluster."""
    if "test" in options.images:
        for rails in view.sets:
            yield _daemon_set(view, options, rails)


def annotation(view: View, rails: RailSet) -> str:
    """Return the pod's networks with the planned interface names, so that net1 is rail 1 for any network names."""
    networks = [view.network(name) for name in rails.compute]
    return ",".join("%s/%s@%s" % (view.namespace, network.name, network.interface) for network in networks)


def resources(view: View, rails: RailSet) -> dict[str, str]:
    """Return one unit of each network's resource.

    The resource is that of a device plugin for VFs or shared devices; plain IPoIB without RDMA has none. The agent has
    one resource for all rails, unless a node has no slots of it.
    """
    if facts_of(view.provider).slots and all(
        any(slot["resource"] == RAILS for rail in node["agent"]["rails"] for slot in rail["slots"])
        for node in view.nodes
        if node["name"] in rails.nodes
    ):
        return {view.qualified(RAILS): "1"}
    return {view.qualified(view.network(name).resource): "1" for name in rails.compute}


def names(view: View) -> dict[str, list[str]]:
    """Return DaemonSet -> the nodes on which it starts a pod."""
    return {_name(view, rails): list(rails.nodes) for rails in view.sets}


def settings(view: View, options: Options, daemon_sets: t.Container[str]) -> list[dict[str, t.Any]]:
    """Return the settings of NCCL and UCX in the pods of these DaemonSets: ``nodes``, ``nccl`` (file) and ``ucx``
    (environment)."""
    samples, nodes = nccl_objects.samples(view), names(view)
    return [
        {
            "nodes": nodes[_name(view, rails)],
            "nccl": nccl_objects.pod(view, options, samples[rails.variants[0]]),
            "ucx": nccl_objects.ucx(view, samples[rails.variants[0]]),
        }
        for rails in view.sets
        if _name(view, rails) in daemon_sets
    ]


def selector(daemon_sets: t.Iterable[str]) -> str:
    """Return the label selector of the pods of these DaemonSets."""
    return "%s=rails,%s in (%s)" % (_NAME, _INSTANCE, ",".join(map(label_value, daemon_sets)))


def _name(view: View, rails: RailSet) -> str:
    only = view.whole_sets == [rails]
    return "%s-rails" % view.name if only else "%s-rails-%s" % (view.name, rails.name)


def _daemon_set(view: View, options: Options, rails: RailSet) -> Object:
    variant, name = rails.variants[0], _name(view, rails)
    match = {_NAME: "rails", _INSTANCE: label_value(name)}
    units = resources(view, rails)
    template = rail_agent.template_for(view, [node for node in view.nodes if node["name"] in rails.nodes], list(units))
    asked: Object = {"requests": dict(units), "limits": dict(units)}
    if template:
        asked = {"claims": [{"name": "rails"}]}
    container: Object = {
        "name": "rails",
        "image": options.reference("test"),
        "command": ["sleep", "infinity"],
        # Registered memory must not be swapped or counted against the default lock limit.
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
        "resources": asked,
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    volumes: list[Object] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    metadata: Object = {"labels": match}
    if facts_of(view.provider).networks:
        metadata["annotations"] = {NETWORKS: annotation(view, rails)}
        _configure(view, variant, container, volumes)
    pods: Object = {
        "metadata": metadata,
        "spec": {
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _nodes(view, rails)}},
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "volumes": volumes,
        },
    }
    if template:
        pods["spec"]["resourceClaims"] = [{"name": "rails", "resourceClaimTemplateName": template}]
    return made(
        "apps/v1",
        "DaemonSet",
        name,
        view.labels(COMPONENT),
        {"selector": {"matchLabels": match}, "template": pods},
        namespace=options.workload_namespace,
    )


def _configure(view: View, variant: str, container: Object, volumes: list[Object]) -> None:
    """Add the settings of NCCL and UCX, which with the agent are not needed."""
    mount = {"name": "nccl", "mountPath": "/etc/nccl.conf", "subPath": nccl_objects.FILE, "readOnly": True}
    container["volumeMounts"].insert(0, mount)
    volumes.insert(0, {"name": "nccl", "configMap": {"name": nccl_objects.name(view, variant), "optional": True}})
    settings = nccl_objects.ucx(view, nccl_objects.samples(view)[variant])
    if settings:
        # The server drops an empty list, which would be drift in every run.
        container["env"] = [{"name": key, "value": value} for key, value in settings.items()]


def _nodes(view: View, rails: RailSet) -> Object:
    """Return the node affinity of a set: labels, and names where another set has nodes with the same labels."""
    labels = [
        {"key": FABRIC, "operator": "In", "values": [view.name]},
        {"key": VARIANT, "operator": "In", "values": list(rails.variants)},
    ]
    beside = [
        node
        for other in view.sets
        if rails.shares(other)
        for node, variant in other.nodes.items()
        if variant in rails.variants
    ]
    if not beside:
        terms: list[Object] = [{"matchExpressions": labels}]
    elif len(beside) <= len(rails.nodes):
        terms = [{"matchExpressions": labels, "matchFields": [_named(node, "NotIn") for node in beside]}]
    else:
        terms = [{"matchExpressions": labels, "matchFields": [_named(node, "In")]} for node in rails.nodes]
    return {"nodeSelectorTerms": terms}


def _named(node: str, operator: str) -> Object:
    """Return a node's name as a requirement. The API accepts one value per requirement."""
    return {"key": "metadata.name", "operator": operator, "values": [node]}

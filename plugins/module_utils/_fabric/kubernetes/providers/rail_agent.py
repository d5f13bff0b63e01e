# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rail agent of each node as a device plugin or DRA driver.

Device plugins need no objects in the cluster. A DRA driver has device classes and templates of claims.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers.provider import (
    OwnTables,
    PodRoutes,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    Document,
    Node,
    Object,
    Port,
    Share,
    View,
    made,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import DRA
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import AGENT, facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.slot_model import RAILS, RESULTS_MAX
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_view import compute_ports

FILE = "/etc/railyard/agent.json"
API = "resource.k8s.io/v1"
SLICE = (API, "ResourceSlice")
# Names of templates, after the fabric's.
EACH_RAIL = "each-rail"


class RailAgent(OwnTables):
    """The kubelet allocates slots to pods, and a hook of the container runtime creates their interfaces."""

    facts = AGENT

    def objects(self, view: View, options: Options) -> t.Iterator[Object]:
        """Yield a class for each resource, and templates of claims; nothing if all nodes have device plugins."""
        rails = _rails_by_resource(view)
        for resource in rails:
            yield _device_class(view, options, resource)
        if RAILS in rails:
            yield _template(view, options, RAILS, [RAILS])
        single = _single(view, rails)
        if 1 < len(single) <= RESULTS_MAX:
            yield _template(view, options, EACH_RAIL, single, same="slot")
            yield _template(view, options, EACH_RAIL + "-any-slot", single)

    def node_files(self, view: View, options: Options, node: Node) -> dict[str, str]:
        return {FILE: json.dumps(node["agent"], indent=2) + "\n"}

    def pod_routes(self, attachment: str, port: Port, shares: t.Sequence[Share]) -> PodRoutes:
        """Return the planned table. The main table has a route only if the rail has no table."""
        routes = super().pod_routes(attachment, port, shares)
        return routes if routes.table is None else routes._replace(in_main=())


def _rails_by_resource(view: View) -> dict[str, str | None]:
    """Return resource -> rail of nodes with a DRA driver; ``rails`` comes first and has None."""
    found = {
        slot["resource"]
        for node in view.nodes
        if by_dra(node)
        for rail in node["agent"]["rails"]
        for slot in rail["slots"]
    }
    order = [RAILS, *view.rails]
    return {resource: None if resource == RAILS else resource for resource in order if resource in found}


def _single(view: View, resources: t.Iterable[str]) -> list[str]:
    """Return the resources of single rails from which a job with all GPUs gets its devices."""
    rails = [view.rails[resource] for resource in resources if resource != RAILS]
    return [rail["name"] for rail in compute_ports(rails)]


def _device_class(view: View, options: Options, resource: str) -> Object:
    """Return a DeviceClass. With ``extendedResourceName``, pods with the resource as a limit get a device of this
    class."""
    expression = 'device.driver == "%s" && device.attributes["%s"].resource == "%s"'
    return made(
        API,
        "DeviceClass",
        device_class(view, resource),
        view.labels(AGENT.name, None if resource == RAILS else resource),
        {
            "selectors": [{"cel": {"expression": expression % (view.prefix, view.prefix, resource)}}],
            **({"extendedResourceName": view.qualified(resource)} if options.extended_resources else {}),
        },
    )


def version_warnings(objects: t.Iterable[Object], version: tuple[int, int]) -> list[str]:
    """Return warnings about fields that an API server of this version drops."""
    if version >= (1, 36) or not any("extendedResourceName" in (each.get("spec") or {}) for each in objects):
        return []
    message = (
        "Kubernetes %d.%d drops extendedResourceName of DeviceClasses unless its feature gate DRAExtendedResource is"
    )
    message += " on, and each run then writes it again. Remedy: set kubernetes_options.extended_resources to false."
    return [message % version]


def device_class(view: View, resource: str) -> str:
    return "%s.%s" % (resource, view.prefix)


def _template(view: View, options: Options, name: str, resources: t.Sequence[str], same: str | None = None) -> Object:
    """Return a template of a claim with one device of each resource.

    :param same: an attribute that must be equal on all devices, which Kueue does not support; None without one.
    """
    requests = [
        {
            "name": resource,
            "exactly": {"deviceClassName": device_class(view, resource), "allocationMode": "ExactCount", "count": 1},
        }
        for resource in resources
    ]
    devices: Object = {"requests": requests}
    if same:
        devices["constraints"] = [{"matchAttribute": "%s/%s" % (view.prefix, same), "requests": list(resources)}]
    return made(
        API,
        "ResourceClaimTemplate",
        template_name(view, name),
        view.labels(AGENT.name),
        {"spec": {"devices": devices}},
        namespace=options.workload_namespace,
    )


def template_name(view: View, name: str) -> str:
    return "%s-%s" % (view.name, name)


def template_for(view: View, nodes: t.Sequence[Node], units: t.Sequence[str]) -> str | None:
    """Return the template of a claim with one device of each of these resources.

    None if a node has no DRA driver, or if there is no such template.
    """
    if not facts_of(view.provider).slots or not all(by_dra(node) for node in nodes):
        return None
    if units == [view.qualified(RAILS)]:
        return template_name(view, RAILS)
    single = _single(view, _rails_by_resource(view))
    whole = sorted(units) == sorted(map(view.qualified, single)) and 1 < len(single) <= RESULTS_MAX
    return template_name(view, EACH_RAIL) if whole else None


def by_dra(node: Node) -> bool:
    """Return whether the node's agent is a DRA driver."""
    return bool(node["agent"]["kubelet_plugin"] == DRA)


def allocatable(view: View) -> dict[str, dict[str, int]]:
    """Return node -> resource with its prefix -> the slots that the node must have."""
    wanted: dict[str, dict[str, int]] = {}
    for node in view.nodes:
        resources: dict[str, set[int]] = {}
        for rail in node["agent"]["rails"]:
            for slot in rail["slots"]:
                # a unit of `rails` is one slot on every rail, and all of them have the same number
                resources.setdefault(view.qualified(slot["resource"]), set()).add(slot["number"])
        wanted[node["name"]] = {resource: len(numbers) for resource, numbers in resources.items()}
    return wanted


def of_slices(prefix: str, slices: t.Iterable[Document]) -> dict[str, dict[str, int]]:
    """Return node -> resource with its prefix -> devices without a taint in the driver's ResourceSlices.

    Slices of an older generation than others of the same node are ignored. ``prefix``: the driver's name.
    """
    own = [each["spec"] for each in slices if each["spec"].get("driver") == prefix and each["spec"].get("nodeName")]
    newest: dict[str, int] = {}
    for spec in own:
        newest[spec["nodeName"]] = max(newest.get(spec["nodeName"], 0), spec["pool"]["generation"])
    found: dict[str, dict[str, int]] = {}
    for spec in own:
        counts = found.setdefault(spec["nodeName"], {})
        if spec["pool"]["generation"] < newest[spec["nodeName"]]:
            continue
        for device in spec.get("devices") or ():
            resource = "%s/%s" % (prefix, device["attributes"]["resource"]["string"])
            counts[resource] = counts.get(resource, 0) + (not device.get("taints"))
    return found

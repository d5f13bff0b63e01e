# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check whether a cluster is as planned.

Every node must have the planned number of every rail's resource, and the status of every object must show that its
controller accepted it. Each problem is reported with its most likely reason.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.bad_rails_label import has_bad
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import (
    object_components,
    replacement_table,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import (
    rail_agent,
    sriov_operator_objects,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    FABRIC,
    Document,
    Object,
    View,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import did_you_mean, nearest
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import playbook

NAD = ("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition")
STATE = ("sriovnetwork.openshift.io/v1", "SriovNetworkNodeState")
# Kind -> the kind whose objects show its state: a network's definition, the node states of a policy, the slices of a
# DRA driver.
BESIDE = {
    "DeviceClass": rail_agent.SLICE,
    "SpiderMultusConfig": NAD,
    "SriovNetwork": NAD,
    "SriovIBNetwork": NAD,
    "SriovNetworkNodePolicy": STATE,
}

# Lines of a report, and subjects in a line.
_SHOWN = 20
_NAMES = 4
# The API server abbreviates thousands: 1000 units are "1k".
_THOUSANDS = ("", "k", "M", "G")
_HOSTS = playbook("hosts")
_FUNCTIONS = ("sriov", "ib-sriov", "host-device")
_NO_AGENT = "its rail agent does not run, or is not registered with its kubelet: systemctl status railyard-agent (%s)"
_NO_SLOT = "slots of rails that are down or cordoned count as missing, or the agent has slots of an earlier plan (%s)"
_QUANTITY = re.compile(r"(\d+)([kMG]?)\Z")
Kind = t.Tuple[str, str]
# (kind, namespace, name); the namespace is empty for cluster-scoped kinds.
Name = t.Tuple[str, str, str]
Live = t.Mapping[Name, Object]


class Missing(t.NamedTuple):
    """Something that a node or object is missing, with the most likely reason.

    ``field``: the field by which a user caused it. ``command``: shows details if the subject is appended. ``rail``: the
    rail of a missing resource. ``playbook``: fixes the problem, if one does.
    """

    subject: str
    what: str
    reason: str
    field: str = ""
    command: str = ""
    rail: str | None = None
    playbook: str | None = None


def beside(kinds: t.Iterable[Kind]) -> set[Kind]:
    """Return the kinds whose objects show the state of objects of ``kinds``."""
    return {BESIDE[kind] for _api, kind in kinds if kind in BESIDE}


class Goal:
    """The desired state of a cluster. ``given``: the options of Kubernetes objects."""

    def __init__(self, document: Document, given: t.Mapping[str, t.Any] | None, objects: t.Sequence[Object]) -> None:
        view = View(document)
        self._wanted = object_components.allocatable(document, given)
        self._fabric = view.name
        self._objects = objects
        # VFs for DPDK are a second resource of a rail
        named = {
            view.qualified(network.resource) + end: network
            for network in view.networks
            for end in ("", sriov_operator_objects.DPDK)
        }
        # the agent's resource for all rails has no rail
        self._rails = {resource: network.rail for resource, network in named.items()}
        self._slots = facts_of(view.provider).slots
        self._attachments = {resource: network.attachment for resource, network in named.items()}
        self._pool_nodes = _pool_nodes(view)
        self._prefix = view.prefix
        self._by_dra = {node["name"] for node in view.nodes if self._slots and rail_agent.by_dra(node)}
        self.kinds = {(each["apiVersion"], each["kind"]) for each in objects}

    @property
    def resources(self) -> int:
        """The number of (node, resource) pairs, by which progress is measured."""
        return sum(map(len, self._wanted.values()))

    def beside(self) -> set[Kind]:
        """Return the kinds that must be read in addition to :attr:`kinds`."""
        return beside(self.kinds)

    def reached(self, nodes: t.Mapping[str, Object], live: Live) -> int:
        """Return how many of :attr:`resources` exist in the planned number."""
        nodes = self._with_slices(nodes, live)
        return sum(
            _units(nodes.get(node), resource) == units or self._cordoned(nodes.get(node), resource)
            for node, resources in self._wanted.items()
            for resource, units in resources.items()
        )

    def _cordoned(self, node: Object | None, resource: str) -> bool:
        """Return whether the agent withholds the resource as verify has cordoned its rail, or any for ``rails``."""
        labels = (node or {}).get("metadata", {}).get("labels") or {}
        return self._slots and has_bad(labels, self._rails.get(resource))

    def missing(self, nodes: t.Mapping[str, Object], live: Live) -> list[Missing]:
        """Return all differences from the desired state.

        :param nodes: the nodes of the cluster, by name.
        :param live: objects of :attr:`kinds` and :meth:`beside`.
        """
        nodes = self._with_slices(nodes, live)
        found = [each for name, wanted in self._wanted.items() for each in self._of_node(name, wanted, nodes)]
        for each in self._objects:
            metadata = each["metadata"]
            name = (each["kind"], metadata.get("namespace") or "", metadata["name"])
            observed = live.get(name)
            subject = "%s %s" % (each["kind"], metadata["name"])
            if observed is None:
                found.append(Missing(subject, "is not in the cluster", "it was deleted: run again"))
            elif each["kind"] in _JUDGES:
                judged = _JUDGES[each["kind"]](self, observed, live)
                found.extend([Missing(subject, *judged)] if judged else [])
        found.extend(_states(live, set(self._wanted)) if STATE in self.beside() else [])
        return found

    def _with_slices(self, nodes: t.Mapping[str, Object], live: Live) -> t.Mapping[str, Object]:
        """Return the nodes. Devices of DRA drivers are added as if they were allocatable resources."""
        if not self._by_dra:
            return nodes
        slices = (each for (kind, _space, _name), each in live.items() if kind == rail_agent.SLICE[1])
        devices = rail_agent.of_slices(self._prefix, slices)
        return {
            name: dict(node, status=dict(node["status"], allocatable=devices.get(name, {})))
            if name in self._by_dra
            else node
            for name, node in nodes.items()
        }

    def withheld(self, live: Live) -> list[Missing]:
        """Return pools that are as planned, but on which a user set a field that withholds addresses."""
        found = []
        for each in self._objects:
            observed = (
                live.get((each["kind"], "", each["metadata"]["name"])) if each["kind"] == "SpiderIPPool" else None
            )
            closed = replacement_table.closed(observed) if observed else None
            if closed:
                found.append(Missing("SpiderIPPool %s" % each["metadata"]["name"], *closed))
        return found

    def _of_node(self, name: str, wanted: t.Mapping[str, int], nodes: t.Mapping[str, Object]) -> t.Iterator[Missing]:
        """Yield the differences of one node. ``wanted``: resource -> units."""
        node = nodes.get(name)
        if node is None:
            suggestion = did_you_mean(nearest(name, [each for each in nodes if each not in self._wanted]))
            yield Missing(
                name,
                "is not a node of the cluster%s" % suggestion,
                "its kubelet has not joined, or is registered under another name than the fabric file's"
                " (kubectl get nodes)",
            )
            return
        conditions = node["status"].get("conditions") or ()
        ready: Object = next((each for each in conditions if each["type"] == "Ready"), {})
        if ready.get("status") != "True":
            why = "%s: %s" % (ready.get("reason") or "no reason", ready.get("message") or "no message")
            yield Missing(name, "is not Ready", "its kubelet does not run or is not ready (%s)" % why.rstrip("."))
        short = [
            resource
            for resource, units in wanted.items()
            if _units(node, resource) != units and not self._cordoned(node, resource)
        ]
        if len(short) == len(wanted) > 1 and not any(self._served(node, resource) for resource in short):
            yield Missing(name, "reports none of its %d rails' resources" % len(wanted), *self._no_plugin(node))
            return
        for resource in short:
            units, rail = _units(node, resource), self._rails.get(resource)
            scope = "rail %s" % rail if rail else "all rails"
            yield Missing(
                name,
                "reports %s of %d %s (%s)" % ("none" if units is None else units, wanted[resource], resource, scope),
                self._reason_of_shortage(resource, units, wanted[resource]),
                rail=rail,
                playbook=_HOSTS if self._by_hosts(resource, units) else None,
            )

    def _served(self, node: Object, resource: str) -> bool:
        """Return whether a device plugin serves the resource. The kubelet keeps resources of an ended agent with 0
        units."""
        units = _units(node, resource)
        return bool(units) if self._slots else units is not None

    def _no_plugin(self, node: Object) -> tuple[str, str, str]:
        """Return reason, field and command for a node without device plugins."""
        if self._slots:
            return _NO_AGENT % _HOSTS, "", ""
        if (node["metadata"].get("labels") or {}).get(FABRIC) != self._fabric:
            reason = "it does not have the label %s=%s, by which device plugins select it: run again"
            return reason % (FABRIC, self._fabric), "", ""
        command = "kubectl get pods -A -o wide --field-selector spec.nodeName="
        return "no device plugin runs on it, or none found a port", "", command

    def _by_hosts(self, resource: str, units: int | None) -> bool:
        """Return whether the node and not its device plugin causes the short resource, so that hosts.yml fixes it."""
        return self._slots or not units or self._attachments[resource] in _FUNCTIONS

    def _reason_of_shortage(self, resource: str, units: int | None, wanted: int) -> str:
        """Return the reason for a resource with fewer units than planned. ``units``: None if the node does not report
        it."""
        if self._slots:
            return (_NO_AGENT if units is None else _NO_SLOT) % _HOSTS
        functions = self._attachments[resource] in _FUNCTIONS
        if units is None or units == 0:
            if functions:
                return "its device plugin sees no such function: see the port's VFs, driver and link (%s)" % _HOSTS
            return "its device plugin sees no such netdev with an RDMA device: see the port's name (%s)" % _HOSTS
        if functions:
            return "the port has another number of VFs, or some are bound to another driver (%s)" % _HOSTS
        return "its device plugin runs with another rdmaHcaMax than %d: restart it, it reads its file once" % wanted


class Group(t.NamedTuple):
    """Subjects with the same problem and the same reason."""

    subjects: list[str]
    what: str
    reason: str
    field: str
    command: str
    rail: str | None
    playbook: str | None


def grouped(missing: t.Sequence[Missing]) -> list[Group]:
    """Return the problems, with equal ones of several subjects as one group."""
    found: dict[Missing, list[str]] = {}
    for each in missing:
        found.setdefault(each._replace(subject=""), []).append(each.subject)
    return [Group(subjects, *same[1:]) for same, subjects in found.items()]


def reason_of(group: t.Mapping[str, t.Any], subject: str) -> str:
    """Return the reason of a group, with its command for one subject. ``group``: as in the module's result."""
    command = group.get("command")
    return "%s (%s%s)" % (group["reason"], command, subject) if command else str(group["reason"])


def lines(groups: t.Sequence[Group]) -> list[str]:
    """Return a line for each group, with its first subjects."""
    found = []
    for group in groups[:_SHOWN]:
        subjects = group.subjects
        more = " and %d more" % (len(subjects) - _NAMES) if len(subjects) > _NAMES else ""
        reason = reason_of(group._asdict(), subjects[0] if len(subjects) == 1 else "NODE")
        found.append("%s%s: %s. Likely: %s." % (", ".join(subjects[:_NAMES]), more, group.what, reason))
    if len(groups) > _SHOWN:
        found.append("and %d more lines of this kind." % (len(groups) - _SHOWN))
    return found


def _units(node: Object | None, resource: str) -> int | None:
    """Return how many units of a resource a node reports; None if it does not report the resource."""
    quantity = ((node or {}).get("status", {}).get("allocatable") or {}).get(resource)
    found = _QUANTITY.match(str(quantity))
    return int(found.group(1)) * 1000 ** _THOUSANDS.index(found.group(2)) if found else None


def _pool_nodes(view: View) -> dict[str, set[str]]:
    """Return pool -> the nodes that get addresses from it."""
    found: dict[str, set[str]] = {}
    for node in view.nodes:
        for port in node["ports"]:
            for name in (port["names"].get("pool"), port["names"].get("pool6")):
                if name and port.get("pods"):
                    found.setdefault(name, set()).add(node["name"])
    return found


# What, reason and field of :class:`Missing`.
Judged = t.Optional[t.Tuple[str, ...]]


def _spider_pool(goal: Goal, observed: Object, live: Live) -> Judged:
    if (observed.get("spec") or {}).get("disable"):
        return replacement_table.closed(observed)
    if (observed.get("status") or {}).get("totalIPCount") is not None:
        return None
    return (
        "has no count of addresses yet",
        "Spiderpool's controller does not run (kubectl get pods -A, spiderpool-controller)",
    )


def _allocations(goal: Goal, observed: Object, live: Live) -> Judged:
    served = {each["nodeName"] for each in (observed.get("status") or {}).get("allocations") or ()}
    missing = goal._pool_nodes.get(observed["metadata"]["name"], set()) - served
    if not missing:
        return None
    return (
        "gives no addresses to %d nodes, such as %s" % (len(missing), min(missing)),
        "nv-ipam's controller does not run, or the pool is too small for the cluster's nodes",
    )


def _state(goal: Goal, observed: Object, live: Live) -> Judged:
    status = observed.get("status") or {}
    if status.get("state") in ("ready", "ignore"):
        return None
    steps = ["%s %s" % (s["name"], s["state"]) for s in status.get("appliedStates") or () if s["state"] != "ready"]
    why = status.get("reason") or ", ".join(step for step in steps if not step.endswith("ignore"))
    return (
        "is %s" % (status.get("state") or "not processed yet"),
        "the network operator reports: %s" % why.rstrip(".")
        if why
        else "the network operator does not run, or is busy",
    )


def _definition(goal: Goal, observed: Object, live: Live) -> Judged:
    metadata = observed["metadata"]
    place = observed.get("spec", {}).get("networkNamespace") or metadata.get("namespace") or "default"
    if (NAD[1], place, metadata["name"]) in live:
        return None
    return (
        "has no NetworkAttachmentDefinition in namespace %s" % place,
        "the controller that creates it does not run, or refuses this object (its log names the object)",
    )


def _daemon_set(goal: Goal, observed: Object, live: Live) -> Judged:
    status = observed.get("status") or {}
    desired, ready = status.get("desiredNumberScheduled") or 0, status.get("numberReady") or 0
    if desired == ready > 0 and status.get("observedGeneration", 0) >= observed["metadata"].get("generation", 0):
        return None
    what = "has %d of %d pods ready" % (ready, desired)
    if not desired:
        return what, "no node has the labels of its selector, or its nodes have taints that it does not tolerate"
    labels = (observed["spec"].get("selector") or {}).get("matchLabels") or {}
    selector = ",".join("%s=%s" % label for label in sorted(labels.items()))
    command = "kubectl -n %s describe pods -l %s" % (observed["metadata"].get("namespace") or "default", selector)
    return what, "its pods are starting, or their events name the reason (%s)" % command


def _states(live: Live, planned: set[str]) -> t.Iterator[Missing]:
    """Yield the problems that the SriovNetworkNodeStates of planned nodes show."""
    states = {name: each for (kind, _space, name), each in live.items() if kind == STATE[1]}
    for node in sorted(planned):
        status = (states.get(node) or {}).get("status") or {}
        if node not in states:
            yield Missing(
                node, "has no SriovNetworkNodeState", "the SR-IOV operator's config daemon does not run on it"
            )
        elif status.get("syncStatus") != "Succeeded":
            error = status.get("lastSyncError") or "no message"
            state = status.get("syncStatus") or "not processed yet"
            yield Missing(node, "has SR-IOV policies %s" % state, "its daemon: %s" % error)


_JUDGES: dict[str, t.Callable[[Goal, Object, Live], Judged]] = {
    "SpiderIPPool": _spider_pool,
    "IPPool": _allocations,
    "CIDRPool": _allocations,
    "NicClusterPolicy": _state,
    "NicNodePolicy": _state,
    "MacvlanNetwork": _state,
    "HostDeviceNetwork": _state,
    "IPoIBNetwork": _state,
    "SpiderMultusConfig": _definition,
    "SriovNetwork": _definition,
    "SriovIBNetwork": _definition,
    "DaemonSet": _daemon_set,
}

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Whether a cluster has come to where the plan has it: every node with every rail's resource at the planned number,
and every object taken up by its controller as far as its status says. What lacks has the likeliest reason beside it.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import (
    object_components,
    replacement_table,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import sriov_operator_objects
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    FABRIC,
    Document,
    Object,
    View,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import did_you_mean, nearest
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.playbook_names import playbook

NAD = ("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition")
STATE = ("sriovnetwork.openshift.io/v1", "SriovNetworkNodeState")
# Kinds that are judged by another one's objects: a network by the definition made of it, a policy by its nodes' states.
BESIDE = {"SpiderMultusConfig": NAD, "SriovNetwork": NAD, "SriovIBNetwork": NAD, "SriovNetworkNodePolicy": STATE}

# Lines of a report, and subjects in a line.
_SHOWN = 20
_NAMES = 4
# The API server writes whole thousands shorter: 1000 units are "1k".
_THOUSANDS = ("", "k", "M", "G")
_HOSTS = playbook("hosts")
_FUNCTIONS = ("sriov", "ib-sriov", "host-device")
# The id of a pool that is in use, and gives fewer addresses than planned.
EXCLUDED = "pool-excludes"
_QUANTITY = re.compile(r"(\d+)([kMG]?)\Z")
Kind = t.Tuple[str, str]
# (kind, namespace, name), the namespace empty where there is none.
Name = t.Tuple[str, str, str]
Live = t.Mapping[Name, Object]


class Lack(t.NamedTuple):
    """What is not there yet: of which node or object, what, and the likeliest reason with what to look at.

    For programs: ``rail``, ``playbook`` (what fixes it) and ``id`` (which kind of thing it is) where they are known.
    """

    subject: str
    what: str
    reason: str
    rail: str | None = None
    playbook: str | None = None
    id: str = ""


def beside(kinds: t.Iterable[Kind]) -> set[Kind]:
    """The kinds by whose objects those of ``kinds`` are judged."""
    return {BESIDE[kind] for _api, kind in kinds if kind in BESIDE}


class Goal:
    """What a plan's cluster must come to."""

    def __init__(self, document: Document, given: t.Mapping[str, t.Any] | None, objects: t.Sequence[Object]) -> None:
        view = View(document)
        self._wanted = object_components.allocatable(document, given)
        self._fabric = view.name
        self._objects = objects
        # DPDK's VFs of a rail are a resource beside the rail's own
        named = {
            view.qualified(network.resource) + end: network
            for network in view.networks
            for end in ("", sriov_operator_objects.DPDK)
        }
        self._rails = {resource: network.rail for resource, network in named.items()}
        self._attachments = {resource: network.attachment for resource, network in named.items()}
        self._pool_nodes = _pool_nodes(view)
        self.kinds = {(each["apiVersion"], each["kind"]) for each in objects}

    @property
    def resources(self) -> int:
        """How many resources of nodes are counted: the measure of progress."""
        return sum(map(len, self._wanted.values()))

    def beside(self) -> set[Kind]:
        """The kinds that are read beside the objects' own."""
        return beside(self.kinds)

    def reached(self, nodes: t.Mapping[str, Object]) -> int:
        """How many of the resources are there at the planned number."""
        return sum(
            _units(nodes.get(node), resource) == units
            for node, resources in self._wanted.items()
            for resource, units in resources.items()
        )

    def lacks(self, nodes: t.Mapping[str, Object], live: Live) -> list[Lack]:
        """:param nodes: the cluster's, by name. :param live: objects of :attr:`kinds` and :meth:`beside`."""
        found = [lack for name, wanted in self._wanted.items() for lack in self._of_node(name, wanted, nodes)]
        for each in self._objects:
            metadata = each["metadata"]
            name = (each["kind"], metadata.get("namespace") or "", metadata["name"])
            have = live.get(name)
            subject = "%s %s" % (each["kind"], metadata["name"])
            if have is None:
                found.append(Lack(subject, "is not in the cluster", "somebody deleted it: run again"))
            elif each["kind"] in _JUDGES:
                judged = _JUDGES[each["kind"]](self, have, live)
                found.extend([Lack(subject, *judged)] if judged else [])
        found.extend(_states(live, set(self._wanted)) if STATE in self.beside() else [])
        return found

    def withheld(self, live: Live) -> list[Lack]:
        """Pools that are there as planned, and that somebody set something on so that they give fewer addresses."""
        found = []
        for each in self._objects:
            have = live.get((each["kind"], "", each["metadata"]["name"])) if each["kind"] == "SpiderIPPool" else None
            closed = replacement_table.closed(have) if have else None
            if closed:
                kind = "" if (have or {})["spec"].get("disable") else EXCLUDED
                found.append(Lack("SpiderIPPool %s" % each["metadata"]["name"], *closed, id=kind))
        return found

    def _of_node(self, name: str, wanted: t.Mapping[str, int], nodes: t.Mapping[str, Object]) -> t.Iterator[Lack]:
        node = nodes.get(name)
        if node is None:
            near = did_you_mean(nearest(name, [each for each in nodes if each not in self._wanted]))
            yield Lack(
                name,
                "is not a node of the cluster%s" % near,
                "its kubelet has not joined, or is registered under another name than the fabric file's"
                " (kubectl get nodes)",
            )
            return
        conditions = node["status"].get("conditions") or ()
        ready: Object = next((each for each in conditions if each["type"] == "Ready"), {})
        if ready.get("status") != "True":
            why = "%s: %s" % (ready.get("reason") or "no word", ready.get("message") or "nothing said")
            yield Lack(name, "is not Ready", "its kubelet does not run or says so (%s)" % why.rstrip("."))
        short = [resource for resource, units in wanted.items() if _units(node, resource) != units]
        if len(short) == len(wanted) > 1 and all(_units(node, resource) is None for resource in short):
            yield Lack(name, "reports none of its %d rails' resources" % len(wanted), self._no_plugin(node))
            return
        for resource in short:
            units = _units(node, resource)
            yield Lack(
                name,
                "reports %s of %d %s (rail %s)"
                % ("none" if units is None else units, wanted[resource], resource, self._rails[resource]),
                self._short(resource, units, wanted[resource]),
                self._rails[resource],
                _HOSTS if self._by_hosts(resource, units) else None,
            )

    def _no_plugin(self, node: Object) -> str:
        if (node["metadata"].get("labels") or {}).get(FABRIC) != self._fabric:
            return "it does not carry the label %s=%s, by which device plugins find it: run again" % (
                FABRIC,
                self._fabric,
            )
        return (
            "no device plugin runs on it, or none found a port (kubectl get pods -A -o wide --field-selector"
            " spec.nodeName=%s)" % node["metadata"]["name"]
        )

    def _by_hosts(self, resource: str, units: int | None) -> bool:
        """Whether the node is the reason for a short resource, and not its device plugin."""
        return not units or self._attachments[resource] in _FUNCTIONS

    def _short(self, resource: str, units: int | None, wanted: int) -> str:
        functions = self._attachments[resource] in _FUNCTIONS
        if units is None or units == 0:
            if functions:
                return "its device plugin sees no such function: see the port's VFs, driver and link (%s)" % _HOSTS
            return "its device plugin sees no such netdev with an RDMA device: see the port's name (%s)" % _HOSTS
        if functions:
            return "the port has another number of VFs, or some are bound to another driver (%s)" % _HOSTS
        return "its device plugin runs with another rdmaHcaMax than %d: restart it, it reads its file once" % wanted


class Alike(t.NamedTuple):
    """Subjects of which the same is missing for the same reason. ``reasons``: that of each subject."""

    subjects: list[str]
    what: str
    reason: str
    reasons: list[str]
    rail: str | None
    playbook: str | None
    id: str


def alike(lacks: t.Sequence[Lack]) -> list[Alike]:
    """What lacks alike, once; a reason that names its node says the same of each, and then names NODE."""
    found: dict[Lack, list[Lack]] = {}
    for lack in lacks:
        found.setdefault(lack._replace(subject="", reason=lack.reason.replace(lack.subject, "NODE")), []).append(lack)
    return [
        Alike(
            [each.subject for each in group],
            same.what,
            group[0].reason if len(group) == 1 else same.reason,
            [each.reason for each in group],
            same.rail,
            same.playbook,
            same.id,
        )
        for same, group in found.items()
    ]


def told(groups: t.Sequence[Alike]) -> list[str]:
    """A line for each, with its first subjects."""
    lines = []
    for subjects, what, reason in (each[:3] for each in groups[:_SHOWN]):
        more = " and %d more" % (len(subjects) - _NAMES) if len(subjects) > _NAMES else ""
        lines.append("%s%s: %s. Likely: %s." % (", ".join(subjects[:_NAMES]), more, what, reason))
    if len(groups) > _SHOWN:
        lines.append("and %d more lines of this kind." % (len(groups) - _SHOWN))
    return lines


def _units(node: Object | None, resource: str) -> int | None:
    said = ((node or {}).get("status", {}).get("allocatable") or {}).get(resource)
    found = _QUANTITY.match(str(said))
    return int(found.group(1)) * 1000 ** _THOUSANDS.index(found.group(2)) if found else None


def _pool_nodes(view: View) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node in view.nodes:
        for port in node["ports"]:
            for name in (port["names"].get("pool"), port["names"].get("pool6")):
                if name and port.get("pods"):
                    found.setdefault(name, set()).add(node["name"])
    return found


Judged = t.Optional[t.Tuple[str, str]]


def _spider_pool(goal: Goal, have: Object, live: Live) -> Judged:
    if (have.get("spec") or {}).get("disable"):
        return replacement_table.closed(have)
    if (have.get("status") or {}).get("totalIPCount") is not None:
        return None
    return (
        "has no count of addresses yet",
        "Spiderpool's controller does not run (kubectl get pods -A, spiderpool-controller)",
    )


def _allocations(goal: Goal, have: Object, live: Live) -> Judged:
    got = {each["nodeName"] for each in (have.get("status") or {}).get("allocations") or ()}
    missing = goal._pool_nodes.get(have["metadata"]["name"], set()) - got
    if not missing:
        return None
    return (
        "gives no addresses to %d nodes, such as %s" % (len(missing), min(missing)),
        "nv-ipam's controller does not run, or the pool is too small for the cluster's nodes",
    )


def _state(goal: Goal, have: Object, live: Live) -> Judged:
    status = have.get("status") or {}
    if status.get("state") in ("ready", "ignore"):
        return None
    steps = ["%s %s" % (s["name"], s["state"]) for s in status.get("appliedStates") or () if s["state"] != "ready"]
    why = status.get("reason") or ", ".join(step for step in steps if not step.endswith("ignore"))
    return (
        "is %s" % (status.get("state") or "not looked at"),
        "the network operator says: %s" % why.rstrip(".") if why else "the network operator does not run, or is at it",
    )


def _definition(goal: Goal, have: Object, live: Live) -> Judged:
    metadata = have["metadata"]
    place = have.get("spec", {}).get("networkNamespace") or metadata.get("namespace") or "default"
    if (NAD[1], place, metadata["name"]) in live:
        return None
    return (
        "has no NetworkAttachmentDefinition in namespace %s" % place,
        "the controller that makes it of this object does not run, or refuses it (its log names the object)",
    )


def _daemon_set(goal: Goal, have: Object, live: Live) -> Judged:
    status = have.get("status") or {}
    desired, ready = status.get("desiredNumberScheduled") or 0, status.get("numberReady") or 0
    if desired == ready > 0 and status.get("observedGeneration", 0) >= have["metadata"].get("generation", 0):
        return None
    return (
        "has %d of %d pods ready" % (ready, desired),
        "its image cannot be pulled, or no node has the labels of its selector (kubectl describe says which)",
    )


def _states(live: Live, planned: set[str]) -> t.Iterator[Lack]:
    states = {name: each for (kind, _space, name), each in live.items() if kind == STATE[1]}
    for node in sorted(planned):
        status = (states.get(node) or {}).get("status") or {}
        if node not in states:
            yield Lack(node, "has no SriovNetworkNodeState", "the SR-IOV operator's config daemon does not run on it")
        elif status.get("syncStatus") != "Succeeded":
            said = status.get("lastSyncError") or "nothing said"
            yield Lack(
                node, "has SR-IOV policies %s" % (status.get("syncStatus") or "not looked at"), "its daemon: %s" % said
            )


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

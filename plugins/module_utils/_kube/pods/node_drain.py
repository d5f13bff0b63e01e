# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""A node without pods for as long as it reboots: cordoned, drained by evictions, and given back.

Which pods stay and which are in the way is decided before anything is done, as ``kubectl drain`` decides it: pods of
DaemonSets and of the kubelet itself stay; pods of nobody, and pods whose data ends with them, take leave. Evictions
heed disruption budgets, and are tried again until the time is over. An annotation says that the cordon is ours, so that
a later run can take it back where this one was cut off, and never takes back another's.
"""

from __future__ import annotations

import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_errors import Gone
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import PODS, Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.concurrency import Say
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import Key, Object
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.node_labels import KIND, NODES

OURS = "reboot.railyard.fabric/cordoned"
MIRROR = "kubernetes.io/config.mirror"
# Seconds between looks at what is left.
PAUSE = 2.0
# Pods that a line names.
_SHOWN = 6


class Leave(t.NamedTuple):
    """What may be done to pods. ``empty_dirs``: those with data in an emptyDir, which ends with them, may go;
    ``unmanaged``: those that nobody makes anew. ``grace``: seconds until one is ended by force, None for its own."""

    empty_dirs: bool = False
    unmanaged: bool = False
    grace: int | None = None


class Pod(t.NamedTuple):
    """A pod that is to go, or is in the way. ``ways``: what takes leave; empty for nothing."""

    key: Key
    uid: str
    leaving: bool
    ways: tuple[str, ...]

    @property
    def name(self) -> str:
        return "%s/%s" % (self.key.namespace, self.key.name)


_EMPTY_DIR, _UNMANAGED = "empty_dirs", "unmanaged"


def classed(pod: Object) -> Pod | None:
    """A pod that has to go; None for one that stays."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    owner = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), None)
    if MIRROR in (metadata.get("annotations") or {}) or (owner and owner["kind"] == "DaemonSet" and not ended):
        return None
    ways: tuple[str, ...] = ()
    if not ended and owner is None:
        ways += (_UNMANAGED,)
    if not ended and any("emptyDir" in volume for volume in spec.get("volumes") or ()):
        ways += (_EMPTY_DIR,)
    key = Key("v1", "Pod", metadata["namespace"], metadata["name"])
    return Pod(key, metadata["uid"], bool(metadata.get("deletionTimestamp")), ways)


class Drain:
    """One node. ``done`` are the changes so far, ``waits`` pods that could not go at once, each with the reason."""

    def __init__(self, server: Server, node: str, leave: Leave, manager: str, check: bool, say: Say) -> None:
        self.server = server
        self.node = node
        self.leave = leave
        self.manager = manager
        self.check = check
        self.say = say
        self.done: list[Change] = []
        self.waits: dict[str, str] = {}

    def drained(self, timeout: float) -> None:
        """Keep new pods off the node and have those that are there end, within ``timeout`` seconds.

        :raises RailyardError: for pods that take leave, with nothing done; for those that did not end in time, after
            the node takes pods again, unless somebody else had cordoned it.
        """
        node = self._read()
        pods = self._pods()
        self._see_leave(pods)
        cordoned = bool(node["spec"].get("unschedulable"))
        if not cordoned:
            self._patch({"metadata": {"annotations": {OURS: "true"}}, "spec": {"unschedulable": True}}, False, True)
        try:
            self._evict(pods, time.monotonic() + timeout, timeout)
        except RailyardError:
            if not cordoned:
                self._give_back()
            raise

    def restored(self) -> None:
        """Let the node take pods again where it was drained by us; another's cordon stays.

        :raises RailyardError: for what the server refuses.
        """
        node = self._read()
        if OURS in (node["metadata"].get("annotations") or {}):
            before = bool(node["spec"].get("unschedulable"))
            self._patch({"metadata": {"annotations": {OURS: None}}, "spec": {"unschedulable": None}}, before, False)

    def _read(self) -> Object:
        try:
            return self.server.get(NODES.of(name=self.node), "nodes", "Node %s" % self.node)
        except Gone:
            raise RailyardError(
                "the cluster has no node of this name",
                "Node %s" % self.node,
                "see the names in 'kubectl get nodes', which must be the plan's, or drain by hand and run without "
                "reboot_drain",
            ) from None

    def _pods(self) -> list[Pod]:
        rows = self.server.list(PODS, fields="spec.nodeName=%s" % self.node)
        return [pod for pod in map(classed, rows) if pod]

    def _see_leave(self, pods: t.Sequence[Pod]) -> None:
        errors: list[RailyardError] = []
        for way, given, said, remedy in (
            (_UNMANAGED, self.leave.unmanaged, "nobody makes these pods anew", "-e reboot_drain_unmanaged=true"),
            (
                *(_EMPTY_DIR, self.leave.empty_dirs, "these pods have data in an emptyDir, which ends with them"),
                "-e reboot_drain_empty_dirs=true",
            ),
        ):
            names = [pod.name for pod in pods if way in pod.ways and not pod.leaving]
            if names and not given:
                remedy = "move what they do elsewhere, or let them be ended with %s" % remedy
                errors.append(Refused("%s: %s" % (said, _few(names)), "Node %s" % self.node, remedy))
        raise_all(errors)

    def _evict(self, pods: t.Sequence[Pod], end: float, timeout: float) -> None:
        """Ask for all of them, then again for those that were refused, until none is left."""
        asked: set[str] = set()
        told = False
        while True:
            for pod in pods:
                if pod.leaving or pod.uid in asked:
                    continue
                why = self.server.evict(pod.key, pod.uid, self.leave.grace, self.check)
                if why:
                    self.waits[pod.name] = why
                    continue
                self.waits.pop(pod.name, None)
                asked.add(pod.uid)
                self.done.append(Change("Pod " + pod.name, "state", "on %s" % self.node, "evicted", _sent))
            if self.check:
                return
            left = self._left(pods)
            if not left:
                return
            if not told:
                self.say("%s: waiting for %d pods to end" % (self.node, len(left)))
                told = True
            if time.monotonic() >= end:
                raise_all([self._late(pod, timeout) for pod in left])
            time.sleep(PAUSE)
            pods = left

    def _left(self, pods: t.Sequence[Pod]) -> list[Pod]:
        """Those of the pods that are still there. Later ones tolerate the cordon, and will be back in any case."""
        uids = {pod.uid for pod in pods}
        return [pod for pod in self._pods() if pod.uid in uids]

    def _late(self, pod: Pod, timeout: float) -> RailyardError:
        why = self.waits.get(pod.name)
        if why:
            return RailyardError(
                "it could not be evicted within %g s: %s" % (timeout, why),
                "Pod %s" % pod.name,
                "see its disruption budget (kubectl get poddisruptionbudgets -n %s), bring more of its kind up "
                "elsewhere, or give more time with -e reboot_drain_timeout=SECONDS" % pod.key.namespace,
            )
        return RailyardError(
            "it was told to end and has not within %g s" % timeout,
            "Pod %s" % pod.name,
            "see what it still does, or give more time with -e reboot_drain_timeout=SECONDS",
        )

    def _patch(self, made: Object, before: bool, after: bool) -> None:
        self.server.merge(NODES, Key(*KIND, "", self.node), made, self.manager, self.check)
        self.done.append(Change("Node " + self.node, "spec.unschedulable", before, after, _sent))

    def _give_back(self) -> None:
        """After a failure, which is what is told whatever comes of this."""
        try:
            self.restored()
        except RailyardError as error:
            self.say("%s stays cordoned: %s" % (self.node, error))


def _few(names: t.Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (" and %d more" % more if more > 0 else "")


def _sent() -> None:
    raise NotImplementedError("a request is sent as one")

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Drain a node for a reboot: cordon it, evict its pods, and uncordon it afterwards.

Before anything is changed, pods are classified as by ``kubectl drain``: pods of DaemonSets and static pods stay; pods
without a controller, and pods with data in an emptyDir, need consent. Evictions respect disruption budgets, and are
tried again until the timeout. An annotation marks our own cordon, so that a later run can remove it after an
interruption and never removes that of another user.
"""

from __future__ import annotations

import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_errors import Gone
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import PODS, Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.concurrency import Say
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import (
    Key,
    Object,
    first_of,
    sent_as_one,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.node_labels import KIND, NODES

OURS = "reboot.railyard.fabric/cordoned"
MIRROR = "kubernetes.io/config.mirror"
# Interval of checks of the remaining pods, in seconds.
PAUSE = 2.0
# Maximum number of pods named in a line.
_SHOWN = 6


class Consent(t.NamedTuple):
    """``empty_dirs``: evict pods whose emptyDir data is lost; ``unmanaged``: evict pods that no controller recreates.

    ``grace``: seconds until a pod is killed; None: the pod's own.
    """

    empty_dirs: bool = False
    unmanaged: bool = False
    grace: int | None = None


class Pod(t.NamedTuple):
    """A pod that must be evicted. ``ways``: the kinds of consent that it needs."""

    key: Key
    uid: str
    leaving: bool
    ways: tuple[str, ...]

    @property
    def name(self) -> str:
        return "%s/%s" % (self.key.namespace, self.key.name)


_EMPTY_DIR, _UNMANAGED = "empty_dirs", "unmanaged"


def classed(pod: Object) -> Pod | None:
    """Return the pod if it must be evicted; None if it stays."""
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
    """The drain of one node.

    ``done``: changes so far; ``waits``: pods that could not be evicted at once, with reasons.
    """

    def __init__(self, server: Server, node: str, consent: Consent, manager: str, check: bool, say: Say) -> None:
        self.server = server
        self.node = node
        self.consent = consent
        self.manager = manager
        self.check = check
        self.say = say
        self.done: list[Change] = []
        self.waits: dict[str, str] = {}

    def drained(self, timeout: float) -> None:
        """Cordon the node and evict its pods within ``timeout`` seconds.

        :raises RailyardError: for pods that need consent, before anything is changed; for pods that did not end in
            time, after the node is uncordoned, unless another user had cordoned it.
        """
        node = self._read()
        pods = self._pods()
        self._check_consent(pods)
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
        """Uncordon the node if we drained it. The cordon of another user stays.

        :raises RailyardError: for refusals of the server.
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
                "compare the plan's names with 'kubectl get nodes', or drain by hand and run without reboot_drain",
            ) from None

    def _pods(self) -> list[Pod]:
        rows = self.server.list(PODS, fields="spec.nodeName=%s" % self.node)
        return [pod for pod in map(classed, rows) if pod]

    def _check_consent(self, pods: t.Sequence[Pod]) -> None:
        errors: list[RailyardError] = []
        for way, given, message, remedy in (
            (
                _UNMANAGED,
                self.consent.unmanaged,
                "no controller recreates these pods",
                "-e reboot_drain_unmanaged=true",
            ),
            (
                *(_EMPTY_DIR, self.consent.empty_dirs, "these pods have data in an emptyDir, which would be lost"),
                "-e reboot_drain_empty_dirs=true",
            ),
        ):
            names = [pod.name for pod in pods if way in pod.ways and not pod.leaving]
            if names and not given:
                remedy = "move their work elsewhere, or allow to delete them with %s" % remedy
                errors.append(Refused("%s: %s" % (message, first_of(names, _SHOWN)), "Node %s" % self.node, remedy))
        raise_all(errors)

    def _evict(self, pods: t.Sequence[Pod], end: float, timeout: float) -> None:
        """Evict all pods, and retry those that were refused, until none remains."""
        asked: set[str] = set()
        reported = False
        while True:
            for pod in pods:
                if pod.leaving or pod.uid in asked:
                    continue
                why = self.server.evict(pod.key, pod.uid, self.consent.grace, self.check)
                if why:
                    self.waits[pod.name] = why
                    continue
                self.waits.pop(pod.name, None)
                asked.add(pod.uid)
                self.done.append(Change("Pod " + pod.name, "state", "on %s" % self.node, "evicted", sent_as_one))
            if self.check:
                return
            left = self._left(pods)
            if not left:
                return
            if not reported:
                self.say("%s: waiting for %d pods to end" % (self.node, len(left)))
                reported = True
            if time.monotonic() >= end:
                raise_all([self._late(pod, timeout) for pod in left])
            time.sleep(PAUSE)
            pods = left

    def _left(self, pods: t.Sequence[Pod]) -> list[Pod]:
        """Return the pods that still exist. Newer pods are ignored: they tolerate the cordon."""
        uids = {pod.uid for pod in pods}
        return [pod for pod in self._pods() if pod.uid in uids]

    def _late(self, pod: Pod, timeout: float) -> RailyardError:
        why = self.waits.get(pod.name)
        if why:
            return RailyardError(
                "it could not be evicted within %g s: %s" % (timeout, why),
                "Pod %s" % pod.name,
                "see its disruption budget (kubectl get poddisruptionbudgets -n %s), start more replicas elsewhere, "
                "or allow more time with -e reboot_drain_timeout=SECONDS" % pod.key.namespace,
            )
        return RailyardError(
            "it was evicted and did not end within %g s" % timeout,
            "Pod %s" % pod.name,
            "see its log, or allow more time with -e reboot_drain_timeout=SECONDS",
        )

    def _patch(self, made: Object, before: bool, after: bool) -> None:
        self.server.merge(NODES, Key(*KIND, "", self.node), made, self.manager, self.check)
        self.done.append(Change("Node " + self.node, "spec.unschedulable", before, after, sent_as_one))

    def _give_back(self) -> None:
        """Uncordon the node after a failure. An error of this step is ignored, so that the failure is reported."""
        try:
            self.restored()
        except RailyardError as error:
            self.say("%s stays cordoned: %s" % (self.node, error))

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drain a node for a reboot: cordon it, evict its pods, and uncordon it afterwards.

The cordon comes first, because the scheduler may bind a pod at any moment before it. Pods are then classified as by
``kubectl drain``: pods of DaemonSets and static pods stay; pods without a controller, and pods with data in an
emptyDir, need consent. Evictions respect disruption budgets, and are tried again until the timeout. The node is drained
when a list of its pods has none that must be evicted, and the node is still cordoned after that.

An annotation contains the identifier of the run that holds the cordon. A later run takes over the cordon of an
interrupted run, and only the holder removes it. The cordon of another user stays.
"""

from __future__ import annotations

import time
import typing as t
import uuid

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import PODS, Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.concurrency import Say
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import (
    Key,
    Object,
    first_of,
    sent_as_one,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.pods import cordon_holders

OURS = cordon_holders.REBOOT
MIRROR = "kubernetes.io/config.mirror"
_CORDON_TAINT = "node.kubernetes.io/unschedulable"
# Interval of checks of the remaining pods, in seconds.
PAUSE = 2.0
# Maximum number of pods named in a line.
_SHOWN = 6
# How often a node is cordoned again that others uncordon during its drain.
_MAX_CORDONS = 3


class Consent(t.NamedTuple):
    """``empty_dirs``: evict pods whose emptyDir data is lost; ``unmanaged``: evict pods that no controller recreates.

    ``grace``: seconds until a pod is killed; None: the pod's own.
    """

    empty_dirs: bool = False
    unmanaged: bool = False
    grace: int | None = None


class Pod(t.NamedTuple):
    """A pod that must be evicted.

    ``ways``: the kinds of consent that it needs. ``tolerates``: it may be scheduled to a cordoned node.
    """

    key: Key
    uid: str
    leaving: bool
    ways: tuple[str, ...]
    tolerates: bool = False

    @property
    def name(self) -> str:
        return "%s/%s" % (self.key.namespace, self.key.name)

    @property
    def returns(self) -> bool:
        """Whether a controller creates it again on the cordoned node, so that evictions do not end it."""
        return self.tolerates and _UNMANAGED not in self.ways


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
    tolerates = any(map(_tolerates_cordon, spec.get("tolerations") or ()))
    return Pod(key, metadata["uid"], bool(metadata.get("deletionTimestamp")), ways, tolerates)


def _tolerates_cordon(toleration: t.Mapping[str, t.Any]) -> bool:
    """Return whether a toleration matches the taint of a cordoned node, which has no value."""
    if toleration.get("effect") not in (None, "", "NoSchedule"):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", _CORDON_TAINT)
    return toleration.get("key") == _CORDON_TAINT and not toleration.get("value")


class Drain:
    """The drain of one node.

    ``done``: changes so far; ``waits``: pods that could not be evicted at once, with reasons; ``cordon``: the
    identifier of the cordon, for later calls of this run.

    :param cordon: the identifier that an earlier call of this run returned, if this run holds the cordon.
    """

    def __init__(
        self, server: Server, node: str, consent: Consent, manager: str, check: bool, say: Say, cordon: str = ""
    ) -> None:
        self.server = server
        self.node = node
        self.consent = consent
        self.manager = manager
        self.check = check
        self.say = say
        self.done: list[Change] = []
        self.waits: dict[str, str] = {}
        self.cordon = cordon or uuid.uuid4().hex[:12]
        # whether only this identifier is accepted, because this run holds the cordon
        self._held = bool(cordon)
        # whether this call cordoned the node
        self._set = False

    def drained(self, timeout: float) -> None:
        """Cordon the node and evict its pods within ``timeout`` seconds.

        A call with the identifier of an earlier one checks that the node is still drained, and drains it again if not.

        :raises RailyardError: for pods that need consent or did not end in time, after the node is uncordoned, unless
            it was cordoned before this call; and if another run holds the cordon.
        """
        if self.check:
            return self._predict()
        continues = self._held
        opened = self._close()
        try:
            self._empty(timeout, continues and not opened)
        except RailyardError:
            if self._set:
                self._give_back()
            raise
        return None

    def restored(self) -> None:
        """Uncordon the node if we drained it. The cordon of another user stays, as does that of another run if this run
        has drained the node.

        :raises RailyardError: for refusals of the server.
        """

        def decide(node: Object) -> Object:
            holder = cordon_holders.holder_of(node, OURS)
            if holder is None or (self._held and holder != self.cordon):
                return {}
            return cordon_holders.released(node, OURS, self.manager)

        node, made = cordon_holders.patched(self.server, self.node, self.manager, self.check, decide)
        if "spec" in made:
            self._note(cordon_holders.is_cordoned(node), False)

    def _predict(self) -> None:
        """Add the changes of a drain, and the pods that could not be evicted at once."""
        node = cordon_holders.read(self.server, self.node)
        pods = self._pods()
        self._check_consent(pods)
        if not cordon_holders.is_cordoned(node):
            self._close()
        self._evict(pods, set())

    def _close(self) -> bool:
        """Cordon the node, or take over the cordon of an earlier run. Return whether it was schedulable.

        :raises Refused: if this run held the cordon and another run has taken it over.
        """
        opened = False

        def decide(node: Object) -> Object:
            nonlocal opened
            holder = cordon_holders.holder_of(node, OURS)
            # our patch may have arrived, and its answer not
            opened = not cordon_holders.is_cordoned(node) or (opened and holder == self.cordon)
            if self._held and holder not in (None, self.cordon):
                raise Refused(
                    "another run drains it since this run drained it (annotation %s: %s)" % (OURS, holder),
                    "Node %s" % self.node,
                    "let that run reboot the node, and run again when it has ended",
                )
            if cordon_holders.is_cordoned(node) and holder in (None, self.cordon):
                return {}
            return cordon_holders.held(OURS, self.cordon)

        _node, made = cordon_holders.patched(self.server, self.node, self.manager, self.check, decide)
        self._held = self._held or bool(made) or opened
        if opened:
            self._set = True
            self._note(False, True)
        return opened

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

    def _empty(self, timeout: float, continues: bool) -> None:
        """Evict pods until a list of them has none that must be evicted, and the node is still cordoned after it.

        :param continues: the node has been cordoned since an earlier call, which evicted the pods before the cordon.
        """
        end = time.monotonic() + timeout
        pods = self._pods()
        before = set() if continues else {pod.uid for pod in pods}
        asked: set[str] = set()
        cordons, reported = 0, False

        def due(pods: t.Iterable[Pod]) -> list[Pod]:
            return [pod for pod in pods if pod.uid in before or not pod.returns]

        pods = due(pods)
        while True:
            self._check_consent(pods)
            self._evict(pods, asked)
            pods = due(self._pods())
            if not pods:
                if not self._close():
                    return
                cordons += 1
                if cordons > _MAX_CORDONS:
                    raise self._reopened(cordons)
                continue
            if not reported:
                self.say("%s: waiting for %d pods to end" % (self.node, len(pods)))
                reported = True
            if time.monotonic() >= end:
                raise_all([self._late(pod, pod.uid in asked, timeout) for pod in pods])
            time.sleep(PAUSE)

    def _evict(self, pods: t.Sequence[Pod], asked: set[str]) -> None:
        """Evict the pods that are not in ``asked``, and add those that the server accepts."""
        self.waits = {}
        for pod in pods:
            if pod.leaving or pod.uid in asked:
                continue
            why = self.server.evict(pod.key, pod.uid, self.consent.grace, self.check)
            if why:
                self.waits[pod.name] = why
                continue
            asked.add(pod.uid)
            self.done.append(Change("Pod " + pod.name, "state", "on %s" % self.node, "evicted", sent_as_one))

    def _late(self, pod: Pod, asked: bool, timeout: float) -> RailyardError:
        why = self.waits.get(pod.name)
        if why:
            return RailyardError(
                "it could not be evicted within %g s: %s" % (timeout, why),
                "Pod %s" % pod.name,
                "see its disruption budget (kubectl get poddisruptionbudgets -n %s), start more replicas elsewhere, "
                "or allow more time with -e reboot_drain_timeout=SECONDS" % pod.key.namespace,
            )
        if not asked and not pod.leaving:
            return RailyardError(
                "it was created on %s while the node was drained, at the end of the %g s" % (self.node, timeout),
                "Pod %s" % pod.name,
                "see who creates pods with spec.nodeName, or allow more time with -e reboot_drain_timeout=SECONDS",
            )
        return RailyardError(
            "it was evicted and did not end within %g s" % timeout,
            "Pod %s" % pod.name,
            "see its log, or allow more time with -e reboot_drain_timeout=SECONDS",
        )

    def _reopened(self, times: int) -> RailyardError:
        return RailyardError(
            "others uncordoned it %d times while it was drained" % times,
            "Node %s" % self.node,
            "find the program that uncordons it (kubectl get node %s -o yaml --show-managed-fields), stop it, and run "
            "again" % self.node,
        )

    def _note(self, before: bool, after: bool) -> None:
        self.done.append(Change("Node " + self.node, "spec.unschedulable", before, after, sent_as_one))

    def _give_back(self) -> None:
        """Uncordon the node after a failure. An error of this step is ignored, so that the failure is reported."""
        try:
            self.restored()
        except RailyardError as error:
            self.say("%s stays cordoned: %s" % (self.node, error))

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""ResourceClaims of this node's pods: prepared when kubelet asks, and recorded until it unprepares them.

A device is prepared for one claim at a time. The record answers kubelet again after a restart of the agent, without the
API server. Sources: ``types.go`` of ``k8s.io/api/resource/v1``; KEP-3063 and KEP-4381.
"""

from __future__ import annotations

import threading
import time
import typing as t
import urllib.parse

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.record_file import RecordFile, Row
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.node_api import ApiError, ApiServer
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.dra_messages import (
    ClaimReference,
    PreparedDevice,
)

FILE = "/var/lib/railyard/agent/claims.json"
# Seconds for all claims of one call. Kubelet waits 45.
BUDGET = 30.0
Answer = t.Union[str, t.Sequence[PreparedDevice]]
_PAUSE = 1.0
RECREATE = "delete the pod, so that it gets another claim"


class Claim(t.NamedTuple):
    """A prepared claim, with the pod that it is reserved for. ``devices``: rows of ``device`` and ``request``."""

    uid: str
    namespace: str
    name: str
    pod_uid: str
    pod_name: str
    devices: tuple[Row, ...]

    @property
    def pod(self) -> str:
        return "%s/%s" % (self.namespace, self.pod_name)

    @property
    def device_names(self) -> list[str]:
        return [row["device"] for row in self.devices]

    def as_dict(self) -> Row:
        return dict(self._asdict(), devices=list(self.devices))


class Offer(t.NamedTuple):
    """What this node offers. ``devices``: device -> its name for the container runtime, and the rails that it is on."""

    driver: str
    pool: str
    devices: dict[str, tuple[str, tuple[str, ...]]]


class ClaimState:
    """The record of prepared claims, by uid. Raises :class:`RailyardError` if the file is damaged."""

    def __init__(self, system: System) -> None:
        self._file: RecordFile[Claim] = RecordFile(
            system,
            FILE,
            "claims",
            lambda row: Claim(**dict(row, devices=tuple(row["devices"]))),
            Claim.as_dict,
            lambda claim: claim.uid,
            (
                "the agent does not know which claims have slots",
                "drain the node, remove the file, and restart railyard-agent",
            ),
        )

    def claims(self) -> dict[str, Claim]:
        return self._file.all()

    def of_device(self, device: str) -> Claim | None:
        return next((claim for claim in self.claims().values() if device in claim.device_names), None)

    def put(self, claim: Claim) -> None:
        self._file.put(claim)

    def remove(self, uid: str) -> None:
        self._file.remove(uid)


class PreparedClaims:
    """Kubelet's two calls. Safe for several threads.

    :param offer: what the node offers now. :param holder: the pod (NAMESPACE/NAME) whose interfaces a device still has,
        other than this claim's pod; None if it is free. :param release: takes the interfaces of a claim's pod away.
    """

    def __init__(
        self,
        state: ClaimState,
        api: t.Callable[[], ApiServer],
        offer: t.Callable[[], Offer],
        holder: t.Callable[[str, Claim], str | None],
        release: t.Callable[[Claim], None],
        log: t.Callable[[str], None],
        budget: float = BUDGET,
    ) -> None:
        self._state = state
        self._api = api
        self._offer = offer
        self._holder = holder
        self._release = release
        self._log = log
        self._budget = budget
        self._lock = threading.Lock()
        self.errors: dict[str, str] = {}

    def prepare(self, references: t.Sequence[ClaimReference]) -> dict[str, Answer]:
        """NodePrepareResources: the devices of each claim by its uid, or the error."""
        deadline = time.monotonic() + self._budget
        answers: dict[str, Answer] = {}
        for reference in references:
            try:
                answers[reference.uid] = self._prepare(reference, deadline)
                self.errors.pop(reference.uid, None)
            except RailyardError as error:
                answers[reference.uid] = self.errors[reference.uid] = str(error)
                self._log("claim %s is not prepared: %s" % (reference, error))
        return answers

    def unprepare(self, references: t.Sequence[ClaimReference]) -> dict[str, str]:
        """NodeUnprepareResources: the error of each claim by its uid, empty for none."""
        answers = {}
        for reference in references:
            answers[reference.uid] = ""
            self.errors.pop(reference.uid, None)
            claim = self._state.claims().get(reference.uid)
            if claim is None:
                continue
            try:
                self._release(claim)
                with self._lock:
                    self._state.remove(claim.uid)
            except RailyardError as error:
                answers[reference.uid] = str(error)
                self._log("claim %s is not released: %s" % (reference, error))
        return answers

    def _prepare(self, reference: ClaimReference, deadline: float) -> list[PreparedDevice]:
        offer = self._offer()
        known = self._state.claims().get(reference.uid)
        if known is None:
            claim = read_claim(self._get(reference, deadline), reference, offer)
            with self._lock:
                self._check_free(claim)
                self._state.put(claim)
        else:
            claim = known
        return [_answer(row, claim, offer) for row in claim.devices]

    def _check_free(self, claim: Claim) -> None:
        for device in claim.device_names:
            other = self._state.of_device(device)
            if other is not None and other.uid != claim.uid:
                message = "it is prepared for claim %s/%s of pod %s" % (other.namespace, other.name, other.pod)
                raise RailyardError(message, "device " + device, "wait for the end of that pod, or delete it")
            pod = self._holder(device, claim)
            if pod is not None:
                remedy = "wait for the end of that pod, or delete it"
                raise RailyardError("it is held by pod %s" % pod, "device " + device, remedy)

    def _get(self, reference: ClaimReference, deadline: float) -> Row:
        path = claim_path(reference.namespace, reference.name)
        while True:
            left = deadline - time.monotonic()
            try:
                return self._api().request("GET", path, seconds=min(10.0, left))
            except ApiError as error:
                # an authorizer may learn of the claim later than kubelet
                if error.status == 404 or time.monotonic() + _PAUSE > deadline:
                    raise
            time.sleep(_PAUSE)


def claim_path(namespace: str, name: str) -> str:
    return "/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims/%s" % (
        urllib.parse.quote(namespace, safe=""),
        urllib.parse.quote(name, safe=""),
    )


def read_claim(document: Row, reference: ClaimReference, offer: Offer) -> Claim:
    """The claim that kubelet named, from the API server's object, if this node can serve it.

    :raises RailyardError: if the object is another claim, is not allocated, or has devices that this node cannot give.
    """
    place = "claim %s" % str(reference)
    uid = (document.get("metadata") or {}).get("uid")
    if uid != reference.uid:
        raise RailyardError("its uid is %s, and kubelet asks for %s" % (uid, reference.uid), place, RECREATE)
    status = document.get("status") or {}
    allocation = status.get("allocation")
    if not allocation:
        raise RailyardError("it is not allocated", place, "wait for the scheduler, or delete the pod")
    users = status.get("reservedFor") or []
    if len(users) != 1 or users[0].get("resource") != "pods":
        message = "it is reserved for %d users, and a slot serves one pod" % len(users)
        raise RailyardError(message, place, "use a ResourceClaimTemplate, which makes a claim for each pod")
    rows = []
    for result in (allocation.get("devices") or {}).get("results") or []:
        if result.get("driver") == offer.driver:
            _check_result(result, offer, place)
            rows.append({"device": result["device"], "request": str(result.get("request", "")).partition("/")[0]})
    if not rows:
        raise RailyardError("it has no device of driver %s" % offer.driver, place, "see kubectl get resourceclaim")
    rails = [rail for row in rows for rail in offer.devices[row["device"]][1]]
    twice = sorted({rail for rail in rails if rails.count(rail) > 1})
    if twice:
        message = "it has several slots of rail %s, and a pod has one interface on a rail" % ", ".join(twice)
        raise RailyardError(message, place, "ask for one device of each rail")
    pod = users[0]
    return Claim(
        reference.uid, reference.namespace, reference.name, str(pod.get("uid")), str(pod.get("name")), tuple(rows)
    )


def _check_result(result: Row, offer: Offer, place: str) -> None:
    if result.get("pool") != offer.pool:
        message = "device %s is of pool %s, and this node's pool is %s" % (
            result.get("device"),
            result.get("pool"),
            offer.pool,
        )
        raise RailyardError(message, place, RECREATE)
    if result.get("device") not in offer.devices:
        raise RailyardError("this node does not have device %s" % result.get("device"), place, RECREATE)


def _answer(row: Row, claim: Claim, offer: Offer) -> PreparedDevice:
    known = offer.devices.get(row["device"])
    if known is None:
        place = "claim %s/%s" % (claim.namespace, claim.name)
        raise RailyardError("this node does not have device %s any more" % row["device"], place, RECREATE)
    requests = (row["request"],) if row["request"] else ()
    return PreparedDevice(requests, offer.pool, row["device"], (known[0],))

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""ResourceClaims of this node's pods: prepared on request of the kubelet, and recorded until it unprepares them.

A device is prepared for one claim at a time. After a restart of the agent, the record answers the kubelet without the
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
# Seconds for all claims of one call. The kubelet waits 45.
BUDGET = 30.0
# The error of a claim, or its devices.
Answer = t.Union[str, t.Sequence[PreparedDevice]]
# Seconds between two requests for a claim.
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
        """Return the claim's row in the record."""
        return dict(self._asdict(), devices=list(self.devices))


class Offer(t.NamedTuple):
    """The node's devices. ``devices``: device -> its qualified CDI name, and its rails."""

    driver: str
    pool: str
    devices: dict[str, tuple[str, tuple[str, ...]]]


class ClaimState:
    """The record of prepared claims. Its methods raise :class:`RailyardError` if the file is damaged."""

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
        """Return the claim that the device is prepared for, or None."""
        return next((claim for claim in self.claims().values() if device in claim.device_names), None)

    def put(self, claim: Claim) -> None:
        """Record a claim. Raises :class:`RailyardError` if the record cannot be written."""
        self._file.put(claim)

    def remove(self, uid: str) -> None:
        """Remove a claim, if it is recorded. Raises :class:`RailyardError` if the record cannot be written."""
        self._file.remove(uid)


class PreparedClaims:
    """The kubelet's calls NodePrepareResources and NodeUnprepareResources. Safe for several threads.

    ``errors``: uid of a claim -> why the last preparation failed.

    :param api: returns the client of the API server.
    :param offer: returns the node's devices.
    :param holder: returns the pod (NAMESPACE/NAME) that holds a device, unless it is the claim's pod; None if the
        device is free.
    :param release: removes the interfaces of a claim's pod.
    :param log: writes a message to the agent's log.
    :param budget: seconds for all claims of one call.
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
        """Answer NodePrepareResources: uid of each claim -> its devices, or the error."""
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
        """Answer NodeUnprepareResources: uid of each claim -> the error; empty if it is released."""
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
        claim = self._state.claims().get(reference.uid)
        if claim is None:
            claim = read_claim(self._get(reference, deadline), reference, offer)
            with self._lock:
                self._check_free(claim)
                self._state.put(claim)
        return [_answer(row, claim, offer) for row in claim.devices]

    def _check_free(self, claim: Claim) -> None:
        for device in claim.device_names:
            current = self._state.of_device(device)
            if current is not None and current.uid != claim.uid:
                message = "it is prepared for claim %s/%s of pod %s" % (current.namespace, current.name, current.pod)
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
                # the node authorizer may receive the claim later than the kubelet, so 403 is tried again
                if error.status == 404 or time.monotonic() + _PAUSE > deadline:
                    raise
            time.sleep(_PAUSE)


def claim_path(namespace: str, name: str) -> str:
    return "/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims/%s" % (
        urllib.parse.quote(namespace, safe=""),
        urllib.parse.quote(name, safe=""),
    )


def read_claim(document: Row, reference: ClaimReference, offer: Offer) -> Claim:
    """Return the claim of the kubelet's reference.

    :param document: the ResourceClaim from the API server.
    :raises RailyardError: if the document is another claim, is not allocated, or has devices that this node does not
        have.
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
    repeated = sorted({rail for rail in rails if rails.count(rail) > 1})
    if repeated:
        message = "it has several slots of rail %s, and a pod has one interface per rail" % ", ".join(repeated)
        raise RailyardError(message, place, "request one device of each rail")
    pod = users[0]
    return Claim(
        reference.uid, reference.namespace, reference.name, str(pod.get("uid")), str(pod.get("name")), tuple(rows)
    )


def _check_result(result: Row, offer: Offer, place: str) -> None:
    if result.get("pool") != offer.pool:
        message = "device %s is in pool %s, and this node's pool is %s" % (
            result.get("device"),
            result.get("pool"),
            offer.pool,
        )
        raise RailyardError(message, place, RECREATE)
    if result.get("device") not in offer.devices:
        raise RailyardError("this node does not have device %s" % result.get("device"), place, RECREATE)


def _answer(row: Row, claim: Claim, offer: Offer) -> PreparedDevice:
    if row["device"] not in offer.devices:
        place = "claim %s/%s" % (claim.namespace, claim.name)
        raise RailyardError("this node does not have device %s any more" % row["device"], place, RECREATE)
    cdi_name, _rails = offer.devices[row["device"]]
    requests = (row["request"],) if row["request"] else ()
    return PreparedDevice(requests, offer.pool, row["device"], (cdi_name,))

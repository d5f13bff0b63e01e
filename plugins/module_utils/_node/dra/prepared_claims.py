# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""ResourceClaims of this node's pods: prepared on request of the kubelet, and recorded until it unprepares them.

A device is prepared for one claim at a time. After a restart of the agent, the record answers the kubelet without the
API server. A kubelet that lost its own record never unprepares its claims, so claims that have ended in the API server
are removed too. Sources: ``types.go`` of ``k8s.io/api/resource/v1``; KEP-3063 and KEP-4381; ``node_authorizer.go``.
"""

from __future__ import annotations

import contextlib
import threading
import time
import typing as t
import urllib.parse

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.record_file import RecordFile, Row
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.node_api import (
    SECONDS,
    WRONG_SERVER,
    ApiError,
    ApiServer,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.dra_messages import (
    ClaimReference,
    PreparedDevice,
)

FILE = "/var/lib/railyard/agent/claims.json"
# Seconds for all claims of one call. The kubelet waits 45.
BUDGET = 30.0
# The error of a claim, or its devices.
Answer = t.Union[str, t.Sequence[PreparedDevice]]
# Seconds between two attempts to prepare a claim.
_PAUSE = 1.0
# Seconds for which the error of a claim is shown. The kubelet repeats a refused call after 60 to 90 seconds.
ERROR_SECONDS = 300.0
RECREATE = "delete the pod, so that it gets another claim"
ONE_PER_RAIL = "request one device of each rail, in all claims and limits of the pod"


class Claim(t.NamedTuple):
    """A prepared claim, with the pod that it is reserved for. ``devices``: rows of ``device`` and ``request``.

    ``driver``, ``pool``: as allocated. The driver stays registered until the claim is unprepared. ``since``: seconds
    since 1970. A claim stays prepared across a reboot, as the kubelet's own record of it does.
    """

    uid: str
    namespace: str
    name: str
    pod_uid: str
    pod_name: str
    devices: tuple[Row, ...]
    driver: str = ""
    pool: str = ""
    since: float = 0.0

    @property
    def pod(self) -> str:
        return "%s/%s" % (self.namespace, self.pod_name)

    @property
    def place(self) -> str:
        """The claim as messages name it."""
        return "claim %s/%s" % (self.namespace, self.name)

    @property
    def device_names(self) -> list[str]:
        return [row["device"] for row in self.devices]

    def is_of(self, pod_uid: str, pod: str) -> bool:
        """Return whether a pod is the claim's pod. Without a uid, it is compared by NAMESPACE/NAME."""
        return self.pod_uid == pod_uid if pod_uid else self.pod == pod

    def as_dict(self) -> Row:
        """Return the claim's row in the record."""
        return dict(self._asdict(), devices=list(self.devices))


class Offer(t.NamedTuple):
    """The node's devices. ``devices``: device -> its qualified CDI name, and its rails. ``draining``: only claims that
    are prepared already are served.
    """

    driver: str
    pool: str
    devices: dict[str, tuple[str, tuple[str, ...]]]
    draining: bool = False


class ClaimState(RecordFile[Claim]):
    """The record of prepared claims. Its methods raise :class:`RailyardError` if the file is damaged."""

    def __init__(self, system: System) -> None:
        super().__init__(
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
        return self.all()

    def by_device(self) -> dict[str, Claim]:
        """Return the claims by their devices."""
        return {device: claim for claim in self.claims().values() for device in claim.device_names}

    def of_device(self, device: str) -> Claim | None:
        """Return the claim that the device is prepared for, or None."""
        return self.by_device().get(device)


class Busy(RailyardError):
    """The error of a claim with a device that another pod has. ``device``: this device."""

    def __init__(self, message: str, device: str) -> None:
        super().__init__(message, "device " + device, "wait for the end of that pod, or delete it")
        self.device = device


class PreparedClaims:
    """The kubelet's calls NodePrepareResources and NodeUnprepareResources. Safe for several threads.

    :param api: returns the client of the API server.
    :param offer: returns the node's devices. Claims that are recorded already are answered without it.
    :param holder: returns the pod (NAMESPACE/NAME) that holds a device, unless it is the claim's pod; None if the
        device is free.
    :param release: removes the interfaces of a claim's pod.
    :param released: called after a claim was removed from the record.
    :param log: writes a message to the agent's log.
    :param attached: whether a pod has interfaces of a claim's devices.
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
        released: t.Callable[[Claim], None] = lambda _claim: None,
        attached: t.Callable[[Claim], bool] = lambda _claim: False,
        budget: float = BUDGET,
    ) -> None:
        self._state = state
        self._api = api
        self._offer = offer
        self._holder = holder
        self._release = release
        self._released = released
        self._log = log
        self._attached = attached
        self._budget = budget
        # held while the record is compared and written, and notified when a claim was released
        self._changed = threading.Condition()
        # uid of a claim -> its last call of prepare, until unprepare
        self._calls: dict[str, object] = {}
        self._errors: dict[str, tuple[str, float]] = {}

    @property
    def errors(self) -> dict[str, str]:
        """uid of a claim -> why its last preparation failed, while the kubelet repeats it."""
        with self._changed:
            oldest = time.monotonic() - ERROR_SECONDS
            self._errors = {uid: (text, at) for uid, (text, at) in self._errors.items() if at >= oldest}
            return {uid: text for uid, (text, _at) in self._errors.items()}

    def prepare(self, references: t.Sequence[ClaimReference]) -> dict[str, Answer]:
        """Answer NodePrepareResources: uid of each claim -> its devices, or the error.

        While another pod has a device, the call waits for its end, because the kubelet repeats a refused call only
        after 60 to 90 seconds.
        """
        deadline = time.monotonic() + self._budget
        call = object()
        with self._changed:
            self._calls.update((reference.uid, call) for reference in references)
        answers: dict[str, Answer] = {}
        left = list(references)
        while left:
            waiting = []
            for reference in left:
                try:
                    answers[reference.uid] = self._prepare(reference, deadline, call)
                except RailyardError as error:
                    answers[reference.uid] = str(error)
                    if isinstance(error, Busy) and time.monotonic() + _PAUSE < deadline:
                        waiting.append(reference)
            left = waiting
            if left:
                with self._changed:
                    self._changed.wait(_PAUSE)
        with self._changed:
            for reference in references:
                answer = answers[reference.uid]
                if self._calls.get(reference.uid) is call:
                    del self._calls[reference.uid]
                    self._errors.pop(reference.uid, None)
                    if isinstance(answer, str):
                        self._errors[reference.uid] = answer, time.monotonic()
                if isinstance(answer, str):
                    self._log("claim %s is not prepared: %s" % (reference, answer))
        return answers

    def unprepare(self, references: t.Sequence[ClaimReference]) -> dict[str, str]:
        """Answer NodeUnprepareResources: uid of each claim -> the error; empty if it is released."""
        answers = {}
        for reference in references:
            answers[reference.uid] = ""
            with self._changed:
                # a call of prepare that still waits must not record the claim
                self._calls.pop(reference.uid, None)
                self._errors.pop(reference.uid, None)
                claim = self._state.claims().get(reference.uid)
            if claim is None:
                continue
            try:
                self._release(claim)
                self._remove(claim)
            except RailyardError as error:
                answers[reference.uid] = str(error)
                self._log("claim %s is not released: %s" % (reference, error))
        return answers

    def remove_ended(self, device: str | None = None, seconds: float = BUDGET) -> None:
        """Remove recorded claims that have ended in the API server, and whose pod has no interfaces.

        :param device: only the claim with this device; None: all claims.
        :param seconds: for all requests.
        :raises RailyardError: if the API server does not answer. Claims whose end is not certain stay.
        """
        deadline = time.monotonic() + seconds
        for claim in self._state.claims().values():
            if device is not None and device not in claim.device_names:
                continue
            if self._attached(claim) or not self._has_ended(claim, deadline):
                continue
            with self._changed:
                if not self._attached(claim):
                    self._remove(claim)
                    text = "%s of pod %s has ended without a call of kubelet, and is removed from the record"
                    self._log(text % (claim.place, claim.pod))

    def _remove(self, claim: Claim) -> None:
        with self._changed:
            self._state.remove(claim.uid)
            self._changed.notify_all()
        self._released(claim)

    def _has_ended(self, claim: Claim, deadline: float) -> bool:
        """Return whether a claim is not reserved for its pod any more, or does not exist.

        :raises RailyardError: if it cannot be known.
        """
        path = claim_path(claim.namespace, claim.name)
        try:
            document = self._request(path, deadline)
        except ApiError as error:
            if error.absent:
                return True
            # the node authorizer refuses claims that no pod of this node has, also claims that do not exist
            return error.status == 403 and not self._pod_exists(claim, deadline)
        uid = _part(document, "metadata").get("uid")
        if not uid:
            raise RailyardError("the API server's answer is not a claim", path, WRONG_SERVER)
        users = [user.get("uid") for user in _rows(_part(document, "status"), "reservedFor")]
        return uid != claim.uid or claim.pod_uid not in users

    def _pod_exists(self, claim: Claim, deadline: float) -> bool:
        """Return whether the claim's pod is on this node. Raises :class:`RailyardError` if it cannot be known."""
        selector = "spec.nodeName=%s,metadata.name=%s" % (claim.pool or self._offer().pool, claim.pod_name)
        path = "/api/v1/namespaces/%s/pods?fieldSelector=%s" % (_quoted(claim.namespace), _quoted(selector))
        document = self._request(path, deadline)
        if document.get("kind") != "PodList":
            raise RailyardError("the API server's answer is not a list of pods", path, WRONG_SERVER)
        return claim.pod_uid in [_part(pod, "metadata").get("uid") for pod in _rows(document, "items")]

    def _request(self, path: str, deadline: float) -> Row:
        return self._api().request("GET", path, seconds=min(SECONDS, deadline - time.monotonic()))

    def _prepare(self, reference: ClaimReference, deadline: float, call: object) -> list[PreparedDevice]:
        offer = self._offer()
        claim = self._state.claims().get(reference.uid)
        if claim is None and offer.draining:
            message = "the node file does not have driver %s any more" % offer.driver
            raise RailyardError(message, "claim %s" % str(reference), RECREATE)
        if claim is None:
            claim = read_claim(self._get(reference, deadline), reference, offer)._replace(since=time.time())
            try:
                self._record(claim, offer, call)
            except Busy as error:
                # if the API server does not answer, the device stays with its claim
                with contextlib.suppress(RailyardError):
                    self.remove_ended(error.device, deadline - time.monotonic())
                self._record(claim, offer, call)
        return [_answer(row, claim, offer) for row in claim.devices]

    def _record(self, claim: Claim, offer: Offer, call: object) -> None:
        with self._changed:
            if self._calls.get(claim.uid) is not call:
                message = "kubelet released it, or called again, while it was prepared"
                raise RailyardError(message, claim.place, "none is needed")
            self._check_rails(claim, offer)
            self._check_free(claim)
            self._state.put(claim)

    def _check_rails(self, claim: Claim, offer: Offer) -> None:
        """Refuse a second slot of a rail for one pod, which no later attempt can give it."""
        own = {rail for device in claim.device_names for rail in offer.devices[device][1]}
        for other in self._state.claims().values():
            if other.uid == claim.uid or not other.is_of(claim.pod_uid, claim.pod):
                continue
            rails = {rail for device in other.device_names for rail in offer.devices.get(device, ("", ()))[1]}
            if own & rails:
                message = "pod %s has a slot of rail %s by claim %s already, and a pod has one interface per rail"
                shared = ", ".join(sorted(own & rails))
                raise RailyardError(message % (claim.pod, shared, other.name), claim.place, ONE_PER_RAIL)

    def _check_free(self, claim: Claim) -> None:
        for device in claim.device_names:
            current = self._state.of_device(device)
            if current is not None and current.uid != claim.uid:
                raise Busy("it is prepared for %s of pod %s" % (current.place, current.pod), device)
            pod = self._holder(device, claim)
            if pod is not None:
                raise Busy("it is held by pod %s" % pod, device)

    def _get(self, reference: ClaimReference, deadline: float) -> Row:
        path = claim_path(reference.namespace, reference.name)
        while True:
            try:
                return self._request(path, deadline)
            except ApiError as error:
                # the node authorizer may receive the claim later than the kubelet, so 403 is tried again
                if error.status == 404 or time.monotonic() + _PAUSE > deadline:
                    raise
            time.sleep(_PAUSE)


def claim_path(namespace: str, name: str) -> str:
    return "/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims/%s" % (_quoted(namespace), _quoted(name))


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def _rows(document: Row, key: str) -> list[Row]:
    """Return a list of objects within a document; empty if the document does not have it."""
    rows = document.get(key)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _part(document: t.Any, key: str) -> Row:
    """Return an object within a document; empty if the document does not have it."""
    part = document.get(key) if isinstance(document, dict) else None
    return part if isinstance(part, dict) else {}


def read_claim(document: Row, reference: ClaimReference, offer: Offer) -> Claim:
    """Return the claim of the kubelet's reference.

    :param document: the ResourceClaim from the API server.
    :raises RailyardError: if the document is another claim, is not allocated, or has devices that this node does not
        have.
    """
    place = "claim %s" % str(reference)
    uid = _part(document, "metadata").get("uid")
    if uid != reference.uid:
        raise RailyardError("its uid is %s, and kubelet asks for %s" % (uid, reference.uid), place, RECREATE)
    status = _part(document, "status")
    allocation = _part(status, "allocation")
    if not allocation:
        raise RailyardError("it is not allocated", place, "wait for the scheduler, or delete the pod")
    users = _rows(status, "reservedFor")
    if len(users) != 1 or users[0].get("resource") != "pods":
        message = "it is reserved for %d users, and a slot serves one pod" % len(users)
        raise RailyardError(message, place, "use a ResourceClaimTemplate, which makes a claim for each pod")
    rows = []
    for result in _rows(_part(allocation, "devices"), "results"):
        if result.get("driver") == offer.driver:
            _check_result(result, offer, place)
            rows.append({"device": str(result["device"]), "request": str(result.get("request", "")).partition("/")[0]})
    if not rows:
        raise RailyardError("it has no device of driver %s" % offer.driver, place, "see kubectl get resourceclaim")
    rails = [rail for row in rows for rail in offer.devices[row["device"]][1]]
    repeated = sorted({rail for rail in rails if rails.count(rail) > 1})
    if repeated:
        message = "it has several slots of rail %s, and a pod has one interface per rail" % ", ".join(repeated)
        raise RailyardError(message, place, ONE_PER_RAIL)
    pod = users[0]
    names = (reference.uid, reference.namespace, reference.name, str(pod.get("uid")), str(pod.get("name")))
    return Claim(*names, tuple(rows), offer.driver, offer.pool)


def _check_result(result: Row, offer: Offer, place: str) -> None:
    if result.get("pool") != offer.pool:
        message = "device %s is in pool %s, and this node's pool is %s" % (
            result.get("device"),
            result.get("pool"),
            offer.pool,
        )
        raise RailyardError(message, place, RECREATE)
    if str(result.get("device")) not in offer.devices:
        raise RailyardError("this node does not have device %s" % result.get("device"), place, RECREATE)


def _answer(row: Row, claim: Claim, offer: Offer) -> PreparedDevice:
    if row["device"] not in offer.devices:
        raise RailyardError("this node does not have device %s any more" % row["device"], claim.place, RECREATE)
    cdi_name, _rails = offer.devices[row["device"]]
    requests = (row["request"],) if row["request"] else ()
    return PreparedDevice(requests, claim.pool or offer.pool, row["device"], (cdi_name,))

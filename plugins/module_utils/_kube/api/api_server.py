# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""One API server: JSON over the connection of the ``kubernetes`` Python client (:mod:`connect`). Objects are sent
unchanged."""

from __future__ import annotations

import json
import threading
import time
import typing as t
from urllib.parse import urlencode

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Unsupported
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_errors import (
    PASSING,
    Unreachable,
    refusal,
    untrusted,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.concurrency import Say
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import Key, Kind, Object, group

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON = "application/json"
CREATED = 201
# Only metadata: a whole Node is a hundred times as large.
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
# Server-side apply is on by default from 1.16; 1.20 is the oldest release that is tested.
OLDEST = (1, 20)
# The first release with evictions in policy/v1.
EVICTS = (1, 22)
# The first release with fieldValidation=Strict.
STRICT = (1, 25)
USER_AGENT = "railyard"
# Objects in one page of a list.
_PAGE = 2000
# Tries of a list whose continue token expired.
_LISTS = 3
# Seconds between tries of one request before the first answer, short so that a wrong address is reported soon; and
# seconds for which a server that has answered may be unreachable, such as a control plane during an upgrade.
_AGAIN = (0.5, 1.0)
_AWAY = 60.0
_LONGEST = 4.0
_STARTING = (500, *PASSING)


class Resource(t.NamedTuple):
    """The path of a kind."""

    path: str
    plural: str
    namespaced: bool

    @property
    def name(self) -> str:
        """The plural with its group, as CRDs and roles have it."""
        parts = self.path.split("/")
        return "%s.%s" % (self.plural, parts[2]) if parts[1] == "apis" else self.plural

    def of(self, namespace: str = "", name: str = "") -> str:
        """Return the path of an object."""
        place = "/namespaces/%s" % namespace if self.namespaced and namespace else ""
        return "%s%s/%s%s" % (self.path, place, self.plural, "/" + name if name else "")


PODS = Resource("/api/v1", "pods", True)

# Method, URL, headers, body -> status, body.
Send = t.Callable[[str, str, t.Dict[str, str], t.Optional[bytes]], t.Tuple[int, bytes]]


class Server:
    """One API server. Several threads may send requests. ``sent``: verb -> number of requests.

    :param url: without a slash at its end.
    :param send: method, URL, headers and body -> status and body.
    :param headers: returns the credentials; called for each request, since tokens expire.
    :param say: called with a message while the server is unreachable.
    """

    def __init__(
        self, url: str, send: Send, headers: t.Callable[[], dict[str, str]], connections: int, say: Say
    ) -> None:
        self.url = url
        self.connections = connections
        self.sent: dict[str, int] = {}
        self._transport = send
        self._headers = headers
        self._say = say
        self._lock = threading.Lock()
        self._kinds: dict[str, dict[str, Resource] | None] = {}
        self._version: tuple[int, int] | None = None
        self._answered = False
        self._away = False

    @property
    def version(self) -> tuple[int, int]:
        """Return (major, minor) of the server.

        :raises RailyardError: for a server that is too old.
        """
        if self._version is None:
            answer = self.get("/version")
            self._version = int(answer["major"]), int(str(answer["minor"]).rstrip("+"))
            if self._version < OLDEST:
                raise Unsupported(
                    "the server is Kubernetes %d.%d" % self._version,
                    self.url,
                    "upgrade it to %d.%d or later" % OLDEST,
                )
        return self._version

    @property
    def strict(self) -> bool:
        """Whether the server refuses unknown fields if asked to."""
        return self.version >= STRICT

    def resources(self, kinds: t.Iterable[Kind]) -> dict[Kind, Resource]:
        """Return the kinds that the server has."""
        found = {}
        for api, kind in kinds:
            resource = (self._served(api) or {}).get(kind)
            if resource:
                found[api, kind] = resource
        return found

    def _served(self, api: str) -> dict[str, Resource] | None:
        if api not in self._kinds:
            path = "/apis/%s" % api if group(api) else "/api/%s" % api
            status, answer = self.ask("GET", path)
            if status == 404:
                self._kinds[api] = None
            elif status >= 400:
                raise refusal(status, answer, "get", path, self.url)
            else:
                self._kinds[api] = {
                    each["kind"]: Resource(path, each["name"], each["namespaced"])
                    for each in answer["resources"]
                    if "/" not in each["name"]
                }
        return self._kinds[api]

    def get(self, path: str, resource: str = "", place: str = "") -> Object:
        """Return the object or list at a path."""
        status, answer = self.ask("GET", path)
        if status >= 400:
            raise refusal(status, answer, "get", resource or path, place or self.url)
        return answer

    def list(
        self,
        resource: Resource,
        selector: str = "",
        accept: str = JSON,
        keep: t.Callable[[Object], Object] = lambda item: item,
        fields: str = "",
    ) -> list[Object]:
        """Return all objects of a kind at one moment, not earlier than this call.

        :param selector: of labels; ``fields``: of fields.
        :param keep: reduces an object to what is needed; the rest is freed before the next page is read.
        """
        for again in reversed(range(_LISTS)):
            try:
                return [keep(item) for item in self._pages(resource, selector, accept, fields)]
            except _Expired:
                if not again:
                    raise
        raise AssertionError("unreachable")

    def _pages(self, resource: Resource, selector: str, accept: str, fields: str) -> t.Iterator[Object]:
        query = {"limit": str(_PAGE)}
        if selector:
            query["labelSelector"] = selector
        if fields:
            query["fieldSelector"] = fields
        while True:
            status, answer = self.ask("GET", "%s?%s" % (resource.of(), urlencode(query)), accept=accept)
            if status == 410 and "continue" in query:
                raise _Expired(
                    "the list of %s takes longer than the server keeps its continue token" % resource.name,
                    self.url,
                    "run again when the server has less load",
                )
            if status >= 400:
                raise refusal(status, answer, "list", resource.name, self.url)
            items = answer.pop("items", None) or []
            for at, item in enumerate(items):
                items[at] = None  # the caller keeps what it needs
                yield item
            token = (answer.get("metadata") or {}).get("continue")
            if not token:
                return
            query["continue"] = token

    def apply(
        self, resource: Resource, key: Key, wanted: t.Mapping[str, t.Any], manager: str, force: bool, dry: bool
    ) -> tuple[bool, Object]:
        """Send a server-side apply. Return whether it created the object, and the object after it.

        :raises Refusal: see :mod:`api_errors`.
        """
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        if dry:
            query["dryRun"] = "All"
        if self.strict:
            query["fieldValidation"] = "Strict"
        path = "%s?%s" % (resource.of(key.namespace, key.name), urlencode(query))
        status, answer = self.ask("PATCH", path, wanted, APPLY)
        if status >= 400:
            raise refusal(status, answer, "patch", resource.name, str(key))
        return status == CREATED, answer

    def merge(
        self, resource: Resource, key: Key, patch: t.Mapping[str, t.Any], manager: str, dry: bool, version: str = ""
    ) -> None:
        """Send a merge patch, for objects that others own.

        :param version: patch the object only if it still has this resourceVersion.
        :raises Exists: if it has another.
        """
        if version:
            patch = dict(patch, metadata=dict(patch["metadata"], resourceVersion=version))
        query = {"fieldManager": manager}
        if dry:
            query["dryRun"] = "All"
        path = "%s?%s" % (resource.of(key.namespace, key.name), urlencode(query))
        status, answer = self.ask("PATCH", path, patch, MERGE)
        if status >= 400:
            raise refusal(status, answer, "patch", resource.name, str(key))

    def delete(self, resource: Resource, key: Key, uid: str, dry: bool, version: str = "") -> bool:
        """Delete the object with this uid. It is not an error if the object does not exist any more.

        :param version: delete it only if it still has this resourceVersion; return False if it has another.
        """
        options: Object = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
        if version:
            options["preconditions"]["resourceVersion"] = version
        if dry:
            options["dryRun"] = ["All"]
        status, answer = self.ask("DELETE", resource.of(key.namespace, key.name), options)
        if status >= 400 and status not in (404, 409):
            raise refusal(status, answer, "delete", resource.name, str(key))
        return status != 409 or not version

    def evict(self, pod: Key, uid: str, grace: int | None, dry: bool) -> str:
        """Evict the pod with this uid, as its disruption budgets allow. It is not an error if the pod is gone.

        :param grace: seconds until the pod is killed; None: the pod's own.
        :return: the server's reason why it cannot be evicted now; empty after an eviction (with ``dry``: if it is
            possible).
        :raises Refusal: if another try would fail too.
        """
        options: Object = {"preconditions": {"uid": uid}}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if dry:
            options["dryRun"] = ["All"]
        version = "policy/v1" if self.version >= EVICTS else "policy/v1beta1"
        body = {"apiVersion": version, "kind": "Eviction", "deleteOptions": options}
        body["metadata"] = {"name": pod.name, "namespace": pod.namespace}
        path = "%s/eviction" % PODS.of(pod.namespace, pod.name)
        # A disruption budget refuses with the status of too many requests. The caller goes on with other pods.
        status, answer = self.ask("POST", path, body, again=[each for each in PASSING if each != 429])
        if status == 429:
            causes = (answer.get("details") or {}).get("causes") or [{}]
            texts = [str(each) for each in (answer.get("message"), causes[0].get("message")) if each]
            return " ".join(" ".join(texts).split()).rstrip(".") or "the server gives no reason"
        if status >= 400 and status not in (404, 409):
            raise refusal(status, answer, "create", "pods/eviction", str(pod))
        return ""

    def may(self, verb: str, resource: Resource) -> bool:
        """Return whether the user has this permission in all namespaces."""
        attributes = {"verb": verb, "group": group(resource.path[6:]), "resource": resource.plural}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        status, answer = self.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        if status >= 400:
            raise refusal(status, answer, "create", "selfsubjectaccessreviews.authorization.k8s.io", self.url)
        return bool(answer["status"].get("allowed"))

    def ask(
        self,
        method: str,
        path: str,
        body: t.Any = None,
        content: str = JSON,
        accept: str = JSON,
        again: t.Sequence[int] = PASSING,
    ) -> tuple[int, Object]:
        """Send a request and return status and answer.

        Every request here is idempotent, so a request without an answer is sent again.

        :param again: statuses for which the request is sent again later.
        :raises RailyardError: if the server does not answer.
        """
        pauses = self._pauses()
        while True:
            passing: tuple[int, Object] | None = None
            try:
                if self._away:
                    # a server that just started refuses requests until it has read kinds, roles and webhooks
                    self._check_ready()
                passing = status, answer = self._send(method, path, body, content, accept)
                if status not in again:
                    self._answered = True
                    return status, answer
                reason = str(answer.get("message") or "HTTP status %d" % status)
            except RailyardError:
                raise
            except Exception as error:  # exceptions of urllib3, which is imported only with the client
                reason = why(error)
                if "certificate" in reason.lower():
                    raise untrusted(reason, self.url) from error
                self._gone(reason)
            pause = next(pauses, None)
            if pause is None and passing:
                return passing
            if pause is None:
                raise self._unreachable(reason)
            time.sleep(pause)

    def _pauses(self) -> t.Iterator[float]:
        """Yield the seconds between tries of one request."""
        begun = time.monotonic()
        if not self._answered:
            yield from _AGAIN
            return
        pause = _AGAIN[0]
        while time.monotonic() - begun < _AWAY:
            yield pause
            pause = min(_LONGEST, 2 * pause)

    def _gone(self, reason: str) -> None:
        with self._lock:
            reported, self._away = self._away, self._answered
        if self._answered and not reported:
            self._say("%s does not answer (%s); waiting for it for %g s" % (self.url, reason, _AWAY))

    def _check_ready(self) -> None:
        """Check that the server is ready. The check passes for users who may not read /readyz.

        :raises _NotReady: while the server is not ready.
        """
        status, _answer = self._send("GET", "/readyz", None, JSON, "*/*")
        if status in _STARTING:
            raise _NotReady("it is starting, /readyz answers %d" % status)
        self._away = False

    def _unreachable(self, reason: str) -> Unreachable:
        return Unreachable(
            "the API server does not answer: %s" % reason.rstrip("."),
            self.url,
            "check that it runs and can be reached from here, then run again: it continues where this run stopped",
        )

    def _send(self, method: str, path: str, body: t.Any, content: str, accept: str) -> tuple[int, Object]:
        headers = dict(self._headers(), **{"Accept": accept, "User-Agent": USER_AGENT})
        data = None
        if body is not None:
            headers["Content-Type"] = content
            data = json.dumps(body, separators=(",", ":")).encode("utf-8")
        with self._lock:
            self.sent[method] = self.sent.get(method, 0) + 1
        status, text = self._transport(method, self.url + path, headers, data)
        try:
            value = json.loads(text)
        except ValueError:
            value = {"message": text.decode("utf-8", "replace").strip()}
        return status, value if isinstance(value, dict) else {"message": str(value)}


class _Expired(RailyardError):
    """The continue token of a list has expired."""


class _NotReady(Exception):
    """The server answers but is not ready."""


def why(error: BaseException) -> str:
    """Return the innermost reason, without the objects that urllib3 prepends."""
    reason = getattr(error, "reason", None)
    text = str(reason if reason is not None and not isinstance(reason, str) else error)
    return " ".join(text.rpartition(">: ")[2].split()).rstrip(".")

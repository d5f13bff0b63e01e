# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""One API server: JSON over the connection that the ``kubernetes`` Python client makes (:mod:`connect`); objects go as
they are.
"""

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
# Names and labels alone: all of a Node is a hundred times as much.
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
# Server-side apply is on by default from 1.16; 1.20 is the oldest that this is tried on.
OLDEST = (1, 20)
# The first release whose evictions are of the API that is here to stay.
EVICTS = (1, 22)
# The first release that can be told to refuse what it does not know.
STRICT = (1, 25)
# Objects in one answer: no list is too large for either end, and few are in more than one.
_PAGE = 2000
# Lists begun anew because the server forgot the moment of the first page.
_LISTS = 3
# Seconds: between tries of one request before the server has answered at all, so that a wrong address is told soon; and
# for which one that answered before may be away, as a control plane is while it is upgraded.
_AGAIN = (0.5, 1.0)
_AWAY = 60.0
_LONGEST = 4.0
_STARTING = (500, *PASSING)


class Resource(t.NamedTuple):
    """How a kind is asked for."""

    path: str
    plural: str
    namespaced: bool

    @property
    def name(self) -> str:
        """With its group, as CRDs and roles call it."""
        parts = self.path.split("/")
        return "%s.%s" % (self.plural, parts[2]) if parts[1] == "apis" else self.plural

    def of(self, namespace: str = "", name: str = "") -> str:
        place = "/namespaces/%s" % namespace if self.namespaced and namespace else ""
        return "%s%s/%s%s" % (self.path, place, self.plural, "/" + name if name else "")


PODS = Resource("/api/v1", "pods", True)

# Method, URL, headers, body -> status, body.
Send = t.Callable[[str, str, t.Dict[str, str], t.Optional[bytes]], t.Tuple[int, bytes]]


def _whole(item: Object) -> Object:
    return item


class Server:
    """Requests may come from several threads. ``sent`` counts them by verb, for those who ask what a run costs.

    :param url: without a slash at its end. :param send: method, URL, headers and body -> status and body.
    :param headers: who asks, anew for each request, since tokens end. :param say: is told when the server is away.
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
        """:raises RailyardError: where the server is too old."""
        if self._version is None:
            said = self.get("/version")
            self._version = int(said["major"]), int(str(said["minor"]).rstrip("+"))
            if self._version < OLDEST:
                raise Unsupported(
                    "the server is Kubernetes %d.%d" % self._version,
                    self.url,
                    "bring it to %d.%d or later" % OLDEST,
                )
        return self._version

    @property
    def strict(self) -> bool:
        return self.version >= STRICT

    def resources(self, kinds: t.Iterable[Kind]) -> dict[Kind, Resource]:
        """Those of the kinds that the server has."""
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
        status, answer = self.ask("GET", path)
        if status >= 400:
            raise refusal(status, answer, "get", resource or path, place or self.url)
        return answer

    def list(
        self,
        resource: Resource,
        selector: str = "",
        accept: str = JSON,
        keep: t.Callable[[Object], Object] = _whole,
        fields: str = "",
    ) -> list[Object]:
        """All objects of a kind as they were at one moment, no earlier than now: decisions must not rest on older ones.

        :param selector: of labels; ``fields``: of fields.
        :param keep: what is kept of an object; the others of its answer are gone when the next answer is read.
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
                    "the list of %s takes longer than the server remembers its beginning" % resource.name,
                    self.url,
                    "run again when the server has less to do",
                )
            if status >= 400:
                raise refusal(status, answer, "list", resource.name, self.url)
            items = answer.pop("items", None) or []
            for at, item in enumerate(items):
                items[at] = None  # whoever asked keeps what is needed of it
                yield item
            token = (answer.get("metadata") or {}).get("continue")
            if not token:
                return
            query["continue"] = token

    def apply(
        self, resource: Resource, key: Key, wanted: t.Mapping[str, t.Any], manager: str, force: bool, dry: bool
    ) -> tuple[bool, Object]:
        """Server-side apply; whether this made it, and the object as it then is, or would be.

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

    def merge(self, resource: Resource, key: Key, patch: t.Mapping[str, t.Any], manager: str, dry: bool) -> None:
        """A merge patch, for what is not ours as a whole."""
        query = {"fieldManager": manager}
        if dry:
            query["dryRun"] = "All"
        path = "%s?%s" % (resource.of(key.namespace, key.name), urlencode(query))
        status, answer = self.ask("PATCH", path, patch, MERGE)
        if status >= 400:
            raise refusal(status, answer, "patch", resource.name, str(key))

    def delete(self, resource: Resource, key: Key, uid: str, dry: bool, version: str = "") -> bool:
        """Delete the object that was seen, and no later one of its name. One that is gone already is no error.

        :param version: delete it only if it is still of this resourceVersion; False where it is another.
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
        """Have the pod that was seen end, as its disruption budgets allow; one that is gone already is no error.

        :param grace: seconds until it is ended by force; None: the pod's own.
        :return: why not now, in the server's words; empty where it is done, or would be.
        :raises Refusal: where another try would end the same.
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
        # a budget's no is the same status as that of too many requests, and whoever asks has other pods meanwhile
        status, answer = self.ask("POST", path, body, again=[each for each in PASSING if each != 429])
        if status == 429:
            causes = (answer.get("details") or {}).get("causes") or [{}]
            said = [str(each) for each in (answer.get("message"), causes[0].get("message")) if each]
            return " ".join(" ".join(said).split()).rstrip(".") or "the server says that it is too early"
        if status >= 400 and status not in (404, 409):
            raise refusal(status, answer, "create", "pods/eviction", str(pod))
        return ""

    def may(self, verb: str, resource: Resource) -> bool:
        """Whether who asks may do this everywhere."""
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
        """Status and answer. Every request here may be sent twice without harm, so one that got no answer is.

        :param again: statuses that are worth another try after a while.
        :raises RailyardError: where nobody answers.
        """
        pauses = self._pauses()
        while True:
            passing: tuple[int, Object] | None = None
            try:
                if self._away:
                    # a server that just started refuses what it has not read yet: kinds, roles, webhooks
                    self._see_ready()
                passing = status, answer = self._send(method, path, body, content, accept)
                if status not in again:
                    self._answered = True
                    return status, answer
                said = str(answer.get("message") or "HTTP status %d" % status)
            except RailyardError:
                raise
            except Exception as error:  # urllib3's tree, which is imported with the client alone
                said = why(error)
                if "certificate" in said.lower():
                    raise untrusted(said, self.url) from error
                self._gone(said)
            pause = next(pauses, None)
            if pause is None and passing:
                return passing
            if pause is None:
                raise self._unreachable(said)
            time.sleep(pause)

    def _pauses(self) -> t.Iterator[float]:
        """Seconds between tries of one request."""
        begun = time.monotonic()
        if not self._answered:
            yield from _AGAIN
            return
        pause = _AGAIN[0]
        while time.monotonic() - begun < _AWAY:
            yield pause
            pause = min(_LONGEST, 2 * pause)

    def _gone(self, said: str) -> None:
        with self._lock:
            told, self._away = self._away, self._answered
        if self._answered and not told:
            self._say("%s does not answer (%s); waiting for it for %g s" % (self.url, said, _AWAY))

    def _see_ready(self) -> None:
        """:raises _NotReady: while the server says that it is not. Who may not ask goes on."""
        status, _answer = self._send("GET", "/readyz", None, JSON, "*/*")
        if status in _STARTING:
            raise _NotReady("it is starting, /readyz says %d" % status)
        self._away = False

    def _unreachable(self, said: str) -> Unreachable:
        return Unreachable(
            "the API server does not answer: %s" % said.rstrip("."),
            self.url,
            "see that it runs and can be reached from here, then run again: what is done stays, and the rest follows",
        )

    def _send(self, method: str, path: str, body: t.Any, content: str, accept: str) -> tuple[int, Object]:
        headers = dict(self._headers(), **{"Accept": accept, "User-Agent": "railyard"})
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
    """A list's moment that the server has forgotten."""


class _NotReady(Exception):
    """A server that answers and is not to be asked yet."""


def why(error: BaseException) -> str:
    """The innermost reason, without the objects that urllib3 writes before it."""
    reason = getattr(error, "reason", None)
    text = str(reason if reason is not None and not isinstance(reason, str) else error)
    return " ".join(text.rpartition(">: ")[2].split()).rstrip(".")

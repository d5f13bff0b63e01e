# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""One API server as a kubeconfig names it: JSON over the connection that the ``kubernetes`` Python client makes.

Only the client's reading of kubeconfigs (certificates, tokens, programs that give tokens, proxies) is used; objects go
as they are.
"""

from __future__ import annotations

import importlib
import json
import os
import threading
import time
import typing as t
from urllib.parse import urlencode

from ansible_collections.railyard.fabric.plugins.module_utils.errors import RailyardError, Unsupported
from ansible_collections.railyard.fabric.plugins.module_utils.kube.answers import PASSING, Unreachable, refusal
from ansible_collections.railyard.fabric.plugins.module_utils.kube.objects import Key, Kind, Object, group

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON = "application/json"
# Names and labels alone: all of a Node is a hundred times as much.
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
# Server-side apply is on by default from 1.16; 1.20 is the oldest that this is tried on.
OLDEST = (1, 20)
# The first release that can be told to refuse what it does not know.
STRICT = (1, 25)
# Seconds: for one answer, and between tries of one request while the server is away.
_ANSWER = 120.0
_AGAIN = (0.5, 1.0, 2.0, 4.0)


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


class Server:
    """Requests may come from several threads. ``sent`` counts them by verb, for those who ask what a run costs."""

    def __init__(self, client: t.Any, connections: int) -> None:
        self._configuration = client.configuration
        self._http = client.rest_client.pool_manager
        self._lock = threading.Lock()
        self._kinds: dict[str, dict[str, Resource] | None] = {}
        self._version: tuple[int, int] | None = None
        self.url: str = self._configuration.host.rstrip("/")
        self.connections = connections
        self.sent: dict[str, int] = {}

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

    def list(self, resource: Resource, selector: str = "", accept: str = JSON) -> list[Object]:
        """All objects of a kind in one answer, that of the moment: the next decision must not rest on an older one."""
        query = "?" + urlencode({"labelSelector": selector}) if selector else ""
        status, answer = self.ask("GET", resource.of() + query, accept=accept)
        if status >= 400:
            raise refusal(status, answer, "list", resource.name, self.url)
        items: list[Object] = answer.get("items") or []
        return items

    def apply(
        self, resource: Resource, key: Key, wanted: t.Mapping[str, t.Any], manager: str, force: bool, dry: bool
    ) -> Object:
        """Server-side apply; the object as it then is, or would be.

        :raises Refusal: see :mod:`answers`.
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
        return answer

    def merge(self, resource: Resource, key: Key, patch: t.Mapping[str, t.Any], manager: str, dry: bool) -> None:
        """A merge patch, for what is not ours as a whole."""
        query = {"fieldManager": manager}
        if dry:
            query["dryRun"] = "All"
        path = "%s?%s" % (resource.of(key.namespace, key.name), urlencode(query))
        status, answer = self.ask("PATCH", path, patch, MERGE)
        if status >= 400:
            raise refusal(status, answer, "patch", resource.name, str(key))

    def delete(self, resource: Resource, key: Key, uid: str, dry: bool) -> None:
        """Delete the object that was seen, and no later one of its name. One that is gone already is no error."""
        options: Object = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
        if dry:
            options["dryRun"] = ["All"]
        status, answer = self.ask("DELETE", resource.of(key.namespace, key.name), options)
        if status >= 400 and status not in (404, 409):
            raise refusal(status, answer, "delete", resource.name, str(key))

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
        self, method: str, path: str, body: t.Any = None, content: str = JSON, accept: str = JSON
    ) -> tuple[int, Object]:
        """Status and answer. Every request here may be sent twice without harm, so one that got no answer is.

        :raises RailyardError: where nobody answers.
        """
        said = ""
        for pause in (*_AGAIN, None):
            try:
                status, answer = self._send(method, path, body, content, accept)
                if status not in PASSING or pause is None:
                    return status, answer
            except RailyardError:
                raise
            except Exception as error:  # urllib3's tree, which is imported with the client alone
                said = _why(error)
                if "certificate" in said.lower():
                    pause = None
            if pause is None:
                break
            time.sleep(pause)
        raise Unreachable(
            "the API server does not answer: %s" % said,
            self.url,
            "see that it runs and can be reached from here, then run again: what is done stays, and the rest follows",
        )

    def _send(self, method: str, path: str, body: t.Any, content: str, accept: str) -> tuple[int, Object]:
        headers = {"Accept": accept, "User-Agent": "railyard"}
        data = None
        if body is not None:
            headers["Content-Type"] = content
            data = json.dumps(body, separators=(",", ":")).encode("utf-8")
        # programs that give tokens are asked for a new one here, when the old one ends
        for auth in self._configuration.auth_settings().values():
            if auth.get("value"):
                headers[auth["key"]] = auth["value"]
        with self._lock:
            self.sent[method] = self.sent.get(method, 0) + 1
        answer = self._http.request(
            method, self.url + path, body=data, headers=headers, timeout=_ANSWER, retries=False, redirect=False
        )
        try:
            value = json.loads(answer.data)
        except ValueError:
            value = {"message": answer.data.decode("utf-8", "replace").strip()}
        return int(answer.status), value if isinstance(value, dict) else {"message": str(value)}


def connect(kubeconfig: str | None, context: str | None, connections: int) -> Server:
    """The server of a context.

    :param kubeconfig: a file; else that of ``K8S_AUTH_KUBECONFIG``, ``KUBECONFIG`` or ``~/.kube/config``, else the
        account of the pod in which this runs.
    :raises RailyardError: where there is no client, no file or no such context.
    """
    try:
        client = importlib.import_module("kubernetes.client")
        config = importlib.import_module("kubernetes.config")
    except ImportError as error:
        raise Unsupported(
            "the Python package kubernetes is not there",
            "control node",
            "install it where Ansible runs: pip install kubernetes, or the distribution's python3-kubernetes",
        ) from error
    path = kubeconfig or os.environ.get("K8S_AUTH_KUBECONFIG") or os.environ.get("KUBECONFIG") or ""
    configuration = client.Configuration()
    configuration.connection_pool_maxsize = connections
    try:
        if path or os.path.exists(os.path.expanduser("~/.kube/config")) or "KUBERNETES_SERVICE_HOST" not in os.environ:
            config.load_kube_config(
                os.path.expanduser(path) or None,
                context or os.environ.get("K8S_AUTH_CONTEXT"),
                client_configuration=configuration,
                persist_config=False,
            )
        else:
            config.load_incluster_config(client_configuration=configuration)
    except Exception as error:  # the client's, of its YAML reader, and of what it runs to get a token
        raise RailyardError(
            "it cannot be used: %s" % " ".join(str(error).split()).rstrip("."),
            path or "~/.kube/config",
            "name a kubeconfig with -e kubernetes_kubeconfig=PATH, and its context with -e kubernetes_context=NAME",
        ) from error
    return Server(client.ApiClient(configuration), connections)


def _why(error: BaseException) -> str:
    """The innermost reason, without the objects that urllib3 writes before it."""
    reason = getattr(error, "reason", None)
    text = str(reason if reason is not None and not isinstance(reason, str) else error)
    return " ".join(text.rpartition(">: ")[2].split()).rstrip(".")

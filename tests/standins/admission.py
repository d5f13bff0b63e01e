# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Spiderpool's controller for a test's API server: its admission webhooks over HTTPS, and what it does with pools.

The rules are those of :mod:`tests.standins.spiderpool`. As the real controller does, each request reads what is in the
cluster from the API server. Pools that are being deleted lose their finalizer once no pod has an address of them, and
others get their counts into the status.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import ipaddress
import json
import ssl
import threading
import time
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lab.cluster.api import Api, Refused, Unreachable
from lab.cluster.state import Cluster
from tests.standins import spiderpool
from tests.standins.spiderpool.model import DEFAULTS, GROUP, KINDS, NOTHING, VERSION, Known, Object, Settings
from tests.waiting import wait_for

NAME = "spiderpool-controller"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
CUSTOM = "/apis/%s/%s" % (GROUP, VERSION)
ATTACHMENTS = "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions"
# Requests in flight -> the seconds that one takes.
Latency = t.Callable[[int], float]


def measured(in_flight: int) -> float:
    """What Spiderpool 1.2.2 took with 512 pools on two processors: 0.04 s alone, 0.51 s with eight at once."""
    return float(0.04 * in_flight**1.22)


class Controller:
    """Serves from the moment it is made until :meth:`stop`.

    :param settings: what the chart's values decide; may be replaced at any time.
    :param latency: how long each request takes, by how many there are at once.
    """

    def __init__(self, running: Cluster, settings: Settings = DEFAULTS, latency: Latency | None = None) -> None:
        self.running, self.settings, self.latency = running, settings, latency
        #: kind and operation of each request, such as ("validate", "SpiderIPPool", "CREATE", "ai-gpu01", True)
        self.requests: list[tuple[str, str, str, str, bool]] = []
        #: the most requests that there were at once
        self.most = 0
        self._in_flight = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        # One client of the API server per thread
        self._clients = threading.local()
        # The certificate of the API server is valid for the address of this server.
        self._authority = base64.b64encode((running.pki / "ca.crt").read_bytes()).decode("ascii")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(running.pki / "server.crt", running.pki / "server.key")
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"controller": self}))
        self._server.daemon_threads = True
        # The handshake belongs to the thread of the connection, not to the one that accepts.
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._threads = [
            threading.Thread(target=each, daemon=True) for each in (self._server.serve_forever, self._control)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def register(self) -> None:
        """Make the webhook configurations as the chart does; from then on the API server asks."""
        with Api(self.running) as api:
            for made in self.configurations():
                api.apply("%s/%s/%s" % (REGISTRATION, _plural(made), NAME), made, manager="helm")
            self._await_calls(api)

    def unregister(self) -> None:
        """The API server asks no more, as when the chart is removed."""
        with Api(self.running) as api:
            for made in self.configurations():
                api.delete("%s/%s/%s" % (REGISTRATION, _plural(made), NAME))

    def stop(self) -> None:
        """Stop answering; the webhooks stay registered, so that the API server refuses what they are for."""
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join()

    def configurations(self) -> list[Object]:
        """The chart's two objects, with this server's address instead of a Service."""
        made = []
        for way, operations in (("Mutating", ["CREATE", "UPDATE"]), ("Validating", ["CREATE", "UPDATE", "DELETE"])):
            webhooks = []
            for kind, (plural, _namespaced) in KINDS.items():
                own = operations if kind == "SpiderIPPool" else ["CREATE", "UPDATE"]
                path = "%s/%s" % ("mutate" if way == "Mutating" else "validate", kind)
                rule = {"apiGroups": [GROUP], "apiVersions": [VERSION], "operations": own, "resources": [plural]}
                webhooks.append(
                    {
                        "name": spiderpool.webhook(kind),
                        "admissionReviewVersions": ["v1"],
                        "clientConfig": {
                            "url": "https://127.0.0.1:%d/%s" % (self.port, path),
                            "caBundle": self._authority,
                        },
                        "failurePolicy": "Fail",
                        "rules": [rule],
                        "sideEffects": "None",
                    }
                )
            made.append(
                {
                    "apiVersion": "admissionregistration.k8s.io/v1",
                    "kind": way + "WebhookConfiguration",
                    "metadata": {"name": NAME},
                    "webhooks": webhooks,
                }
            )
        return made

    def review(self, way: str, request: Object) -> Object:
        """The answer to one AdmissionReview's request."""
        old, made = request.get("oldObject"), request.get("object")
        operation, kind = request["operation"], request["kind"]["kind"]
        name = (made or old or {})["metadata"].get("name", "")
        dry = bool(request.get("dryRun"))
        with self._lock:
            self.requests.append((way, kind, operation, name, dry))
        answer: Object = {"uid": request["uid"], "allowed": True}
        if way == "mutate":
            changed = spiderpool.mutate(made or {})
            patch = [
                {"op": "add", "path": "/" + key, "value": changed[key]}
                for key in changed
                if changed[key] != (made or {}).get(key)
            ]
            if patch:
                answer["patchType"] = "JSONPatch"
                answer["patch"] = base64.b64encode(json.dumps(patch).encode()).decode("ascii")
            return answer
        known = self._known(kind) if _compares(request) else NOTHING
        try:
            if operation == "CREATE":
                spiderpool.create(made or {}, known, self.settings)
            elif operation == "UPDATE":
                spiderpool.update(old or {}, made or {}, known, self.settings)
            else:
                spiderpool.delete(old or {}, self.settings)
        except spiderpool.Denied as error:
            answer["allowed"] = False
            status = {"message": str(error), "code": error.code, "reason": error.reason}
            answer["status"] = {"status": "Failure", "metadata": {}, **status}
        return answer

    def answer(self, way: str, request: Object) -> Object:
        """:meth:`review`, with the latency of those that come at once: as long as that, or as its own lists take."""
        begun = time.monotonic()
        with self._lock:
            self._in_flight += 1
            in_flight = self._in_flight
            self.most = max(self.most, in_flight)
        try:
            response = self.review(way, request)
            if self.latency and way == "validate" and _compares(request):
                time.sleep(max(0.0, begun + self.latency(in_flight) - time.monotonic()))
            return response
        finally:
            with self._lock:
                self._in_flight -= 1

    def _api(self) -> Api:
        if not hasattr(self._clients, "api"):
            self._clients.api = Api(self.running)
        client: Api = self._clients.api
        return client

    def _known(self, kind: str) -> Known:
        if kind == "SpiderIPPool":
            return Known(pools=self._api().get(CUSTOM + "/spiderippools")["items"])
        if kind == "SpiderMultusConfig":
            return Known(attachments=_items(self._api(), ATTACHMENTS))
        return Known()

    def _await_calls(self, api: Api) -> None:
        """The API server takes a moment until it calls webhooks that are new to it."""
        probe: Object = {"apiVersion": "%s/%s" % (GROUP, VERSION), "kind": "SpiderReservedIP"}
        probe.update(metadata={"name": "railyard-probe"}, spec={"ipVersion": 4, "ips": ["192.0.2.1"]})
        path = "%s/spiderreservedips?dryRun=All" % CUSTOM

        def called() -> bool:
            before = len(self.requests)
            with contextlib.suppress(Refused):
                api.request("POST", path, probe)
            return {each[0] for each in self.requests[before:]} == {"mutate", "validate"}

        wait_for(called, "the API server calls no webhooks")
        with self._lock:
            self.requests.clear()
            self.most = 0

    def _control(self) -> None:
        while not self._ended.wait(0.05):
            try:
                for pool in _items(self._api(), CUSTOM + "/spiderippools"):
                    self._sync(self._api(), pool)
            except (Refused, Unreachable):
                continue  # it changed meanwhile, or the server is away: the next turn sees

    def _sync(self, api: Api, pool: Object) -> None:
        path = "%s/spiderippools/%s" % (CUSTOM, pool["metadata"]["name"])
        if spiderpool.ends(pool):
            left = copy.deepcopy(pool)
            left["metadata"]["finalizers"].remove(GROUP)
            api.request("PUT", path, left)
        elif not pool["metadata"].get("deletionTimestamp") and not pool.get("status"):
            counted = dict(pool, status={"allocatedIPCount": 0, "totalIPCount": _count(pool["spec"])})
            api.request("PUT", path + "/status?fieldManager=" + NAME, counted)


class _Handler(BaseHTTPRequestHandler):
    controller: Controller
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        way = self.path.partition("?")[0].strip("/").partition("/")[0]
        try:
            response = self.controller.answer(way, review["request"])
        except spiderpool.Exhausted:
            self.close_connection = True  # the process is gone before it answers
            return
        text = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_arguments: t.Any) -> None:
        """Nothing: the requests are in the controller."""


def _compares(request: Object) -> bool:
    """Whether an object is compared with others, for which Spiderpool lists them; not one under deletion."""
    metadata = (request.get("object") or {}).get("metadata") or {}
    return request["operation"] != "DELETE" and not metadata.get("deletionTimestamp")


def _plural(made: Object) -> str:
    return str(made["kind"]).lower() + "s"


def _items(api: Api, path: str) -> list[Object]:
    """The objects of a kind; none where the kind is not on the server."""
    try:
        found: list[Object] = api.get(path)["items"]
    except Refused as error:
        if error.status != 404:
            raise
        return []
    return found


def _count(spec: Object) -> int:
    count = 0
    for text in spec.get("ips") or []:
        first, _hyphen, last = text.partition("-")
        count += int(ipaddress.ip_address(last or first)) - int(ipaddress.ip_address(first)) + 1
    return min(count, (1 << 63) - 1)

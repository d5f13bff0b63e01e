# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small API server over HTTPS, with what the agent and the health service of one node use: ResourceSlices,
ResourceClaims, its Node, and its pods.

Clients are known by a certificate of the server's own authority or by a token. Rules of the real one that matter here:
a node writes slices of its own name only, and reads only claims of its pods (403 for a claim that does not exist). An
update needs the newest resourceVersion, a slice has at most 128 devices (64 with taints), names of devices are DNS
labels, and the generation of a slice that changes must not fall. A node may not change its taints. Sources:
``types.go`` and ``validation.go`` of resource.k8s.io, the node authorizer, and the admission plugin NodeRestriction.
"""

from __future__ import annotations

import copy
import json
import re
import ssl
import threading
import typing as t
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.in_namespace import in_namespace
from lab.cluster import pki
from tests.waiting import retried

GROUP = "/apis/resource.k8s.io/v1"
SLICES = GROUP + "/resourceslices"
_CLAIM = re.compile(GROUP + r"/namespaces/([^/]+)/resourceclaims/([^/]+)(/status)?")
_PODS = re.compile("/api/v1/namespaces/([^/]+)/pods")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
NODE = "node-1"
TOKEN = "token-of-a-service-account"
KUBECONFIG = """apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority: pki/ca.crt
    server: https://127.0.0.1:%d
  name: default-cluster
contexts:
- context: {cluster: default-cluster, namespace: default, user: default-auth}
  name: default-context
current-context: default-context
preferences: {}
users:
- name: default-auth
  user:
%s
"""
BY_CERTIFICATE = "    client-certificate: pki/%s.crt\n    client-key: pki/%s.key" % (NODE, NODE)
RIGHTS = Path(__file__).resolve().parents[2] / "docs" / "agent-rights.yml"
HEALTH_RIGHTS = RIGHTS.parent / "health-rights.yml"
# group, namespace, resource, name, subresource
_PATH = re.compile(r"/(?:api|apis/([^/]+))/v1(/namespaces/[^/]+)?/([a-z]+)(?:/([^/]+)(/[a-z]+)?)?")
BY_TOKEN = "    token: " + TOKEN
Row = t.Dict[str, t.Any]


class DraApi:
    """Serves until :meth:`close`; ``slices`` and ``claims`` are what it stores.

    :param taints: whether it keeps taints of devices, as with the feature gate DRADeviceTaints. ``during``: called with
        each request's method and path before it is answered. ``rights``: the file with those of the token.
    """

    def __init__(self, directory: Path, taints: bool = True, rights: Path = RIGHTS) -> None:
        self.taints = taints
        self.rights = rights
        self.node: Row = {"kind": "Node", "metadata": {"name": NODE, "uid": "uid-of-the-node", "resourceVersion": "0"}}
        self.node.update(spec={}, status={"conditions": [{"type": "Ready", "status": "True"}]})
        self.slices: dict[str, Row] = {}
        self.claims: dict[tuple[str, str], Row] = {}
        # namespace and name -> uid
        self.pods: dict[tuple[str, str], str] = {}
        # a claim -> the pod whose spec has it, as in the graph of the node authorizer
        self._named: dict[tuple[str, str], tuple[str, str]] = {}
        self.requests: list[tuple[str, str]] = []
        self.faults: list[int] = []
        self.during: t.Callable[[str, str], None] = lambda _method, _path: None
        self.lock = threading.RLock()
        self._version = 0
        self._pki = directory / "pki"
        pki.ensure(self._pki, directory / "pki.log", [NODE])
        self._server: ThreadingHTTPServer | None = None
        self.port = 0

    def serve(self, namespace: str = "/proc/self/ns/net") -> None:
        """Listen on 127.0.0.1 of a network namespace, on the same port each time."""
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _do(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                data = self.rfile.read(length)
                certificate: t.Any = t.cast(ssl.SSLSocket, self.connection).getpeercert() or {}
                subject = dict(pair for rdn in certificate.get("subject", ()) for pair in rdn)
                user = str(subject.get("commonName", ""))
                if self.headers.get("Authorization") == "Bearer " + TOKEN:
                    user = "system:serviceaccount:railyard:agent"
                api.during(self.command, self.path)
                with api.lock:
                    code, found = api.answer(self.command, self.path, json.loads(data) if data else {}, user)
                body = json.dumps(found).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _do

            def log_message(self, *_arguments: t.Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_arguments: t.Any) -> None:
                pass

        def listening() -> Server:
            return retried(lambda: Server(("127.0.0.1", self.port), Handler), OSError)

        with open(namespace, "rb") as there:
            server = in_namespace(there.fileno(), listening)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._pki / "server.crt", self._pki / "server.key")
        context.load_verify_locations(self._pki / "ca.crt")
        context.verify_mode = ssl.CERT_OPTIONAL
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = server.server_address[1]
        self._server = server
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def kubeconfig(self, user: str = BY_CERTIFICATE) -> str:
        """The text of a kubeconfig beside the directory ``pki``, in the form that kubeadm writes."""
        return KUBECONFIG % (self.port, user)

    def kubeconfig_with_data(self, path: Path) -> None:
        """A kubeconfig that has the certificates themselves."""
        pki.write_kubeconfig(path, self._pki, NODE, "https://127.0.0.1:%d" % self.port, "lab")

    def counted(self, method: str, part: str = "") -> int:
        with self.lock:
            return sum(each == method and part in path for each, path in self.requests)

    # -- what a test puts there and reads

    def claim(self, name: str, *devices: str | Row, uid: str = "", pod: str = "p") -> tuple[str, str, str]:
        """An allocated claim of namespace default, reserved for a pod; as kubelet names it."""
        uid = uid or "uid-of-" + name
        base = {"driver": "railyard.fabric", "pool": NODE}
        results = [
            dict(base, request="r%d" % number, device=each) if isinstance(each, str) else {**base, **each}
            for number, each in enumerate(devices)
        ]
        user = {"resource": "pods", "name": pod, "uid": "uid-of-" + pod}
        with self.lock:
            self.pods["default", pod] = user["uid"]
            self._named["default", name] = ("default", pod)
            self.claims["default", name] = {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": name, "namespace": "default", "uid": uid},
                "status": {"allocation": {"devices": {"results": results}}, "reservedFor": [user]},
            }
        return "default", uid, name

    def delete(self, pod: str) -> None:
        """A pod of namespace default, and its claims, as with ``kubectl delete --force``."""
        with self.lock:
            uid = self.pods.pop(("default", pod))
            for key, claim in list(self.claims.items()):
                if [user["uid"] for user in claim["status"]["reservedFor"]] == [uid]:
                    del self.claims[key]

    def wipe(self) -> None:
        """As a kubelet that starts: all slices of its node."""
        with self.lock:
            self.slices.clear()

    def devices(self) -> dict[str, Row]:
        """The devices of the node's pool as the scheduler sees them; none while the pool is not complete."""
        with self.lock:
            specs = [copy.deepcopy(each["spec"]) for _name, each in sorted(self.slices.items())]
        newest = max((spec["pool"]["generation"] for spec in specs), default=0)
        current = [spec for spec in specs if spec["pool"]["generation"] == newest]
        if any(spec["pool"]["resourceSliceCount"] != len(current) for spec in current):
            return {}
        return {device["name"]: device for spec in current for device in spec["devices"]}

    # -- requests

    def answer(self, method: str, target: str, body: Row, user: str) -> tuple[int, Row]:
        path, _mark, query = target.partition("?")
        self.requests.append((method, path))
        if self.faults:
            return _status(self.faults.pop(0), "a fault of the test")
        if not user:
            return _status(401, "Unauthorized")
        kubelet = user == "system:node:" + NODE
        if not kubelet and not user.startswith("system:serviceaccount:"):
            return _status(403, "user %s is not of this node" % user)
        if not kubelet and not allowed(method, path, self.rights):
            return _status(403, "user %s may not %s %s" % (user, method, path))
        claim = _CLAIM.fullmatch(path)
        if claim:
            return self._on_claim(method, (claim[1], claim[2]), bool(claim[3]), body, kubelet)
        if path in ("/api/v1/nodes/" + NODE, "/api/v1/nodes/%s/status" % NODE):
            return self._on_node(method, path.endswith("/status"), body, kubelet)
        pods = _PODS.fullmatch(path)
        if pods and method == "GET":
            return self._on_pods(pods[1], urllib.parse.parse_qs(query))
        if path == SLICES or path.startswith(SLICES + "/"):
            return self._on_slices(method, path[len(SLICES) + 1 :], urllib.parse.parse_qs(query), body)
        return _status(404, "the server could not find the requested resource")

    def _on_claim(self, method: str, key: tuple[str, str], status: bool, body: Row, kubelet: bool) -> tuple[int, Row]:
        have = self.claims.get(key)
        if kubelet and not (have and self._named.get(key) in self.pods):
            return _status(403, "no relationship found between node '%s' and this object" % NODE)
        if have is None:
            code, found = _status(404, "resourceclaims %s not found" % key[1])
            return code, dict(found, details={"name": key[1], "kind": "resourceclaims"})
        if method == "GET" and not status:
            return 200, have
        if method != "PATCH" or not status:
            return _status(405, method)
        if kubelet:
            return _status(403, "node may not write the status of claims")
        if body["metadata"].get("uid", have["metadata"]["uid"]) != have["metadata"]["uid"]:
            return _status(409, "uid")
        have["status"]["devices"] = body["status"]["devices"]
        return 200, have

    def _on_node(self, method: str, status: bool, body: Row, kubelet: bool) -> tuple[int, Row]:
        node = self.node
        if method == "PATCH" and status:
            # a strategic merge
            for row in body["status"]["conditions"]:
                others = [each for each in node["status"]["conditions"] if each["type"] != row["type"]]
                node["status"]["conditions"] = others + ([] if row.get("$patch") == "delete" else [row])
        elif method == "PATCH":
            if kubelet:
                return _status(403, 'node "%s" is not allowed to modify taints' % NODE)
            if body["metadata"]["resourceVersion"] != node["metadata"]["resourceVersion"]:
                return _status(409, "the object has been modified")
            node["spec"].update(body["spec"])
        elif method != "GET":
            return _status(405, method)
        if method == "PATCH":
            self._version += 1
            node["metadata"]["resourceVersion"] = str(self._version)
        return 200, node

    def _on_pods(self, namespace: str, query: dict[str, list[str]]) -> tuple[int, Row]:
        pairs = dict(part.split("=") for part in query.get("fieldSelector", [""])[0].split(",") if part)
        if pairs.pop("spec.nodeName", None) != NODE:
            return _status(403, "can only list/watch pods with spec.nodeName field selector")
        assert set(pairs) <= {"metadata.name"}, pairs
        items = [
            {"metadata": {"name": name, "namespace": where, "uid": uid}}
            for (where, name), uid in self.pods.items()
            if where == namespace and name == pairs.get("metadata.name", name)
        ]
        return 200, {"kind": "PodList", "apiVersion": "v1", "items": items}

    def _on_slices(self, method: str, name: str, query: dict[str, list[str]], body: Row) -> tuple[int, Row]:
        if method == "GET" and not name:
            pairs = dict(part.split("=") for part in query["fieldSelector"][0].split(","))
            assert set(pairs) <= {"spec.nodeName", "spec.driver"}, pairs
            if pairs.get("spec.nodeName") != NODE:
                return _status(403, "a node lists its own slices only")
            return 200, {
                "kind": "ResourceSliceList",
                "items": [
                    each for each in self.slices.values() if pairs.get("spec.driver") in (None, each["spec"]["driver"])
                ],
            }
        if method == "POST" and not name:
            name = body["metadata"]["name"]
            if name in self.slices:
                return _status(409, "%s already exists" % name)
        elif name not in self.slices:
            return _status(404, "%s not found" % name)
        if method == "DELETE":
            return 200, self.slices.pop(name)
        if method not in ("POST", "PUT"):
            return _status(405, method)
        have = self.slices.get(name)
        if have and body["metadata"].get("resourceVersion") != have["metadata"]["resourceVersion"]:
            return _status(409, "the object has been modified")
        wrong = list(_wrong(body, have))
        if wrong:
            return _status(422, ", ".join(wrong))
        new = copy.deepcopy(body)
        for device in new["spec"]["devices"]:
            if not self.taints:
                device.pop("taints", None)
            for taint in device.get("taints", ()):
                taint["timeAdded"] = "2026-11-23T00:00:00Z"
        self._version += 1
        new["metadata"].update(resourceVersion=str(self._version), uid="uid-of-" + name)
        self.slices[name] = new
        return 201 if have is None else 200, new


def allowed(method: str, path: str, rights: Path) -> bool:
    """Whether the file of rights in the documentation has this request."""
    roles = [each for each in yaml.safe_load(rights.read_text())["items"] if each["kind"] == "ClusterRole"]
    group, _namespace, resource, name, below = _PATH.fullmatch(path).groups()  # type: ignore[union-attr]
    verbs = {"GET": "get" if name else "list", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
    asked = ("apiGroups", group or ""), ("resources", resource + (below or "")), ("verbs", verbs[method])
    return any(all(value in rule[key] for key, value in asked) for role in roles for rule in role["rules"])


def _wrong(body: Row, have: Row | None) -> t.Iterator[str]:
    spec = body["spec"]
    if (body["apiVersion"], body["kind"]) != ("resource.k8s.io/v1", "ResourceSlice"):
        yield "kind"
    if spec["nodeName"] != NODE:
        yield "spec.nodeName"
    for field in ("nodeName", "driver") if have else ():
        if have and have["spec"][field] != spec[field]:
            yield "spec.%s is immutable" % field
    if have and have["spec"]["pool"]["name"] != spec["pool"]["name"]:
        yield "spec.pool.name is immutable"
    if have and have["spec"]["pool"]["generation"] > spec["pool"]["generation"]:
        yield "spec.pool.generation must not fall"
    if spec["pool"]["resourceSliceCount"] < 1:
        yield "spec.pool.resourceSliceCount"
    tainted = any(device.get("taints") for device in spec["devices"])
    if len(spec["devices"]) > (64 if tainted else 128):
        yield "spec.devices: too many"
    names = [device["name"] for device in spec["devices"]]
    if len(set(names)) < len(names) or not all(_LABEL.fullmatch(name) for name in names):
        yield "spec.devices.name"
    for device in spec["devices"]:
        if len(device["attributes"]) > 32:
            yield "spec.devices.attributes: too many"
        for name, value in device["attributes"].items():
            domain, slash, own = name.rpartition("/")
            ((kind, held),) = value.items()
            right: t.Any = {"int": int, "bool": bool, "string": str}.get(kind)
            if right is None or type(held) is not right or (kind == "string" and len(held) > 64):
                yield "spec.devices.attributes[%s]" % name
            if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]{0,31}", own) or (slash and "." not in domain):
                yield "the name of attribute %s" % name
        for taint in device.get("taints", ()):
            if taint["effect"] not in ("NoSchedule", "NoExecute", "None") or "/" not in taint["key"]:
                yield "spec.devices.taints"


def _status(code: int, message: str) -> tuple[int, Row]:
    return code, {"kind": "Status", "status": "Failure", "code": code, "message": message}

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server for replayed nodes that answers only where the test pods run."""

from __future__ import annotations

import contextlib
import json
import threading
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks import replay_fabric

# All layers except that of the objects of the cluster, which this server does not have.
_LAYERS = "node,firmware,driver,mode,link,address,qos,cabling,reach,rdma,pods"


@contextlib.contextmanager
def cluster(directory: Path, share: int) -> t.Iterator[list[str]]:
    """Run the server for the fabric of a directory of the replay. Yield options of ansible-playbook that name it.

    :param share: each ``share``-th node has a pod; verify reports that the others have none.
    """
    made = replay_fabric.plan((directory / "fabric.yml").read_text())
    pods = [_pod(planned.node.name, number) for number, planned in enumerate(made.nodes) if not number % share]
    body = json.dumps({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": pods}).encode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer = body if "/pods" in self.path else b'{"kind": "DaemonSet", "items": []}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_values: t.Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = "http://127.0.0.1:%d" % server.server_address[1]
        known = {"clusters": [{"name": "c", "cluster": {"server": url}}], "users": [{"name": "u", "user": {}}]}
        known["contexts"] = [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
        (directory / "kubeconfig").write_text(json.dumps({**known, "current-context": "c"}))
        try:
            yield ["-e", json.dumps({"kubernetes_kubeconfig": str(directory / "kubeconfig"), "verify_layers": _LAYERS})]
        finally:
            server.shutdown()
            thread.join()


def _pod(node: str, number: int) -> dict[str, t.Any]:
    """Return a running pod of the test workload."""
    uid = "00000000-0000-4000-8000-%012d" % number
    return {
        "metadata": {"name": "rails-%d" % number, "namespace": "default", "uid": uid},
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]},
    }

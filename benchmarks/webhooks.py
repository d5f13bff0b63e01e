# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`playbooks/kubernetes.yml` beside ``kubectl apply --server-side`` where webhooks look at every object.

The lab's API server asks the tests' model of Spiderpool's webhooks. Its answers take as long as those of Spiderpool
1.2.2 with 512 pools: 0.04 s where one request is under way, 0.51 s where eight are. ``RAILYARD_BENCH_NODES`` (64) nodes
have 8 rails with a pool each. ``kubectl`` is the lab's, and applies the same objects as one List.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
import typing as t
from pathlib import Path

from benchmarks.figures import PAIRS, say, spread
from benchmarks.kubernetes import NODES, OPTIONS, plain_fabric, planned, play

NAME = "bench-webhooks"


def main() -> int:
    from lab.cluster import lifecycle

    spec = lifecycle.Spec(NAME, nodes=["ai-%04d" % (node + 1) for node in range(NODES)])
    missing = lifecycle.missing(spec)
    if missing:
        print("The benchmark with webhooks is left out: %s" % missing, flush=True)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        try:
            cluster, _done = lifecycle.up(spec, fresh=True)
            return _figures(Path(scratch), cluster)
        finally:
            lifecycle.down(NAME)


def _figures(place: Path, cluster: t.Any) -> int:
    from tests.standins.admission import Controller, measured

    file = place / "fabric.yml"
    file.write_text(plain_fabric(NODES))
    objects = planned(file).objects
    whole = place / "objects.json"
    whole.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    say("objects of %d nodes; load average of the machine" % NODES, "%d; %.1f" % (len(objects), os.getloadavg()[0]))
    controller = Controller(
        cluster.running if hasattr(cluster, "running") else cluster, place / "pki", latency=measured
    )
    try:
        controller.register()
        figures: dict[str, list[float]] = {}
        for _pair in range(PAIRS):
            for what, connections in (("kubernetes.yml", 8), ("kubernetes.yml, kubernetes_connections=1", 1)):
                controller.most = 0
                figures.setdefault(what + ": first run", []).append(_ours(file, cluster, connections))
                say("  requests at the same time that the webhooks saw at the most", str(controller.most))
                figures.setdefault(what + ": nothing to do", []).append(_ours(file, cluster, connections))
                play("playbooks/teardown.yml", _given(file, cluster, connections))
            figures.setdefault("kubectl apply --server-side: first run", []).append(_kubectl(cluster, "apply", whole))
            figures.setdefault("kubectl apply --server-side: nothing to do", []).append(
                _kubectl(cluster, "apply", whole)
            )
            _kubectl(cluster, "delete", whole)
    finally:
        controller.unregister()
        controller.stop()
    for what, seconds in figures.items():
        say(what + ", wall", spread(seconds, "s"))
    say("load average of the machine at the end", "%.1f" % os.getloadavg()[0])
    return 0


def _given(file: Path, cluster: t.Any, connections: int) -> str:
    return json.dumps(
        {
            "fabric_file": str(file),
            "kubernetes_kubeconfig": str(cluster.kubeconfig),
            "kubernetes_connections": connections,
            "kubernetes_wait": False,
            "kubernetes_options": OPTIONS,
            "teardown_consent": "scale",
        }
    )


def _ours(file: Path, cluster: t.Any, connections: int) -> float:
    return play("playbooks/kubernetes.yml", _given(file, cluster, connections)).wall


def _kubectl(cluster: t.Any, verb: str, whole: Path) -> float:
    from lab.cluster import tools
    from lab.image import cache_directory

    words = ["--server-side"] if verb == "apply" else ["--wait=true", "--ignore-not-found"]
    argv = [tools.ensure("kubectl", cache_directory()), "--kubeconfig", str(cluster.kubeconfig), verb, *words]
    begun = time.monotonic()
    subprocess.run([*argv, "-f", str(whole)], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begun

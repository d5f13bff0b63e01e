# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare `playbooks/kubernetes.yml` with ``kubectl apply --server-side`` on a server with webhooks for every object.

The lab's API server asks the tests' model of Spiderpool's webhooks. Its answers take as long as those of Spiderpool
1.2.2 with 512 pools: 0.04 s where one request is under way, 0.51 s where eight are. ``RAILYARD_BENCH_NODES`` (64) nodes
have 8 rails with a pool each. ``kubectl`` is the lab's, and applies the same objects as one List.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import typing as t
from pathlib import Path

from benchmarks.figures import PAIRS, ratio, say, spread
from benchmarks.kubernetes import NODES, OPTIONS, on_cluster, plain_fabric, planned, play

NAME = "bench-webhooks"
_OURS, _THEIRS = "kubernetes.yml", "kubectl apply --server-side"
_FIRST, _AGAIN = ": first run", ": nothing to do"


def main() -> int:
    return on_cluster(NAME, _figures)


def _figures(place: Path, cluster: t.Any) -> int:
    from tests.standins.admission import Controller, measured

    file = place / "fabric.yml"
    file.write_text(plain_fabric(NODES))
    objects = planned(file).objects
    whole = place / "objects.json"
    whole.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    say("objects of %d nodes; load average of the machine" % NODES, "%d; %.1f" % (len(objects), os.getloadavg()[0]))
    controller = Controller(cluster, latency=measured)
    try:
        controller.register()
        figures: dict[str, list[float]] = {}

        def took(what: str, seconds: float) -> None:
            figures.setdefault(what, []).append(seconds)
            say("  " + what, "%.1f s" % seconds)  # each takes a minute or more

        for _pair in range(PAIRS):
            for what, connections in ((_OURS, 8), (_OURS + ", kubernetes_connections=1", 1)):
                controller.most = 0
                took(what + _FIRST, _ours(file, cluster, connections))
                say("  requests at the same time that the webhooks saw at the most", str(controller.most))
                took(what + _AGAIN, _ours(file, cluster, connections))
                play("playbooks/teardown.yml", _given(file, cluster, connections))
            took(_THEIRS + _FIRST, _kubectl(cluster, "apply", whole))
            took(_THEIRS + _AGAIN, _kubectl(cluster, "apply", whole))
            _kubectl(cluster, "delete", whole)
    finally:
        controller.unregister()
        controller.stop()
    for what, seconds in figures.items():
        say(what + ", wall", spread(seconds, "s"))
    for when in (_FIRST, _AGAIN):
        say("ratio to kubectl" + when, ratio(figures[_OURS + when], figures[_THEIRS + when]))
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

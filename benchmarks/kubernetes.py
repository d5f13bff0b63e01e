# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`playbooks/kubernetes.yml` on the lab's API server: its requests, and its time compared with `kubernetes.core.k8s`.

The cluster is `bench-kube`, without guests. 64 nodes of 8 rails with a pool each (Spiderpool, `sriov`,
mode prefix); ``RAILYARD_BENCH_NODES`` takes another number of nodes, and from 1,024 on kubernetes.core is left out.
Requests are counted by a proxy before the server, in runs of their own; times are of runs that ask the server itself.

At last Node and pool objects get the statuses that kubelets and controllers would write, and runs that wait for them
are measured too.

kubernetes.core gets the first ``RAILYARD_BENCH_OBJECTS`` (32) pools, a task each, and what that takes, without the
start of the playbook, is multiplied up to all objects. It is looked for where Ansible looks for collections, and in
``RAILYARD_BENCH_COLLECTIONS``.
"""

from __future__ import annotations

import collections
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import typing as t
from pathlib import Path

from benchmarks.figures import BIN, PAIRS, ROOT, ratio, say, spread
from benchmarks.planner import RAILS, fabric

NAME = "bench-kube"
NODES = int(os.environ.get("RAILYARD_BENCH_NODES", "64"))
SUBSET = int(os.environ.get("RAILYARD_BENCH_OBJECTS", "32"))
LARGE = 1024
TAKEN_UP = "all objects are accepted"
MERGE = "application/merge-patch+json"
POOLS = "/apis/spiderpool.spidernet.io/v2beta1/spiderippools/%s/status"
STATES = "/apis/sriovnetwork.openshift.io/v1/namespaces/kube-system/sriovnetworknodestates"
DEFINITIONS = "/apis/k8s.cni.cncf.io/v1/namespaces/%s/network-attachment-definitions"
OPTIONS = {"operator_namespace": "kube-system", "sriov_namespace": "kube-system"}


class Run(t.NamedTuple):
    """A playbook's run: wall and processor seconds, MB (10^6) of memory of its largest process, and its output."""

    wall: float
    processor: float
    megabytes: float
    text: str


def main() -> int:
    from lab.cluster.proxy import Proxy

    def figures(place: Path, cluster: t.Any) -> int:
        proxy = Proxy(cluster)
        try:
            return _figures(place, cluster, proxy)
        finally:
            proxy.close()

    return on_cluster(NAME, figures)


def on_cluster(name: str, figures: t.Callable[[Path, t.Any], int]) -> int:
    """Call ``figures`` with a scratch directory and a new cluster of ``NODES`` nodes."""
    from lab.cluster import lifecycle

    spec = lifecycle.Spec(name, nodes=["ai-%04d" % (node + 1) for node in range(NODES)])
    with tempfile.TemporaryDirectory() as scratch:
        try:
            cluster, _done = lifecycle.up(spec, fresh=True)
            return figures(Path(scratch), cluster)
        finally:
            lifecycle.down(name)


def _figures(place: Path, cluster: t.Any, proxy: t.Any) -> int:
    kubeconfig: Path = cluster.kubeconfig
    whole, smaller = place / "fabric.yml", place / "one-less.yml"
    for path, nodes in ((whole, NODES), (smaller, NODES - 1)):
        path.write_text(plain_fabric(nodes))
    proxied = place / "kubeconfig"
    proxied.write_text(_PROXIED % proxy.url)
    plan = planned(whole)
    objects = plan.objects
    pools = [each for each in objects if each["kind"] == "SpiderIPPool"]
    say("objects of %d nodes x %d rails, of them pools" % (NODES, RAILS), "%d, %d" % (len(objects), len(pools)))

    first = _ours(whole, kubeconfig)
    say("first run, wall (processor of the control node, memory at the most)", _measured(first))
    runs: dict[str, list[Run]] = {"again": [], "less": [], "more": []}
    for _pair in range(PAIRS):
        runs["again"].append(_ours(whole, kubeconfig, "nothing differs"))
        runs["less"].append(_ours(smaller, kubeconfig, "%d removed" % RAILS))
        runs["more"].append(_ours(whole, kubeconfig, "%d created" % RAILS))
    say("run with nothing to do, wall", spread([run.wall for run in runs["again"]], "s"))
    say("  and its processor seconds, memory", "%.1f s, %.0f MB" % runs["again"][-1][1:3])
    say("one node less, wall", spread([run.wall for run in runs["less"]], "s"))
    say("one node more, wall", spread([run.wall for run in runs["more"]], "s"))

    for text, path in (("nothing to do", whole), ("one node less", smaller), ("one node more", whole)):
        proxy.seen.clear()
        _ours(path, proxied)
        say("requests of a run with %s" % text, _requests(proxy))

    _waited(cluster, plan, (whole, kubeconfig, proxied), proxy)

    rival = _collections()
    if NODES >= LARGE:
        return 0
    if rival is None:
        print("kubernetes.core is missing, so nothing is compared. RAILYARD_BENCH_COLLECTIONS names its directory.")
        return 0
    _compared(place, kubeconfig, rival, pools, len(objects), first)
    return 0


def plain_fabric(nodes: int) -> str:
    """Return a fabric file of Spiderpool with one pool per node and rail."""
    return fabric(nodes, "sriov", ports=False).replace("network-operator", "spiderpool")


def _waited(cluster: t.Any, plan: t.Any, paths: tuple[Path, Path, Path], proxy: t.Any) -> None:
    """Compare runs that wait until every node reports every rail, on a ready cluster, with runs that do not wait."""
    whole, kubeconfig, proxied = paths
    begun = time.monotonic()
    _speak_for(cluster, plan)
    say("statuses written as kubelets and controllers would", "%.0f s" % (time.monotonic() - begun))
    waited, beside = [], []
    for _pair in range(PAIRS):
        waited.append(_ours(whole, kubeconfig, TAKEN_UP, wait=True))
        beside.append(_ours(whole, kubeconfig, "nothing differs"))
    say("run with nothing to do that waits, too, wall", spread([run.wall for run in waited], "s"))
    say("  / run that does not wait", ratio([run.wall for run in waited], [run.wall for run in beside]))
    say("  and its processor seconds, memory", "%.1f s, %.0f MB" % waited[-1][1:3])
    proxy.seen.clear()
    _ours(whole, proxied, TAKEN_UP, wait=True)
    say("requests of it", _requests(proxy))


def _speak_for(cluster: t.Any, plan: t.Any) -> None:
    """Write the status of a ready cluster: kubelets report all resources, controllers have accepted all objects."""
    from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import object_components
    from lab.cluster.api import Api

    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
    with Api(cluster) as api:
        for node, units in object_components.allocatable(plan.document, plan.given).items():
            allocatable = {resource: str(many) for resource, many in units.items()}
            status = {"status": {"allocatable": allocatable, "conditions": [ready]}}
            api.request("PATCH", "/api/v1/nodes/%s/status" % node, status, MERGE)
            state = {"apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovNetworkNodeState"}
            api.request("POST", STATES, dict(state, metadata={"name": node}))
            api.request("PATCH", "%s/%s/status" % (STATES, node), {"status": {"syncStatus": "Succeeded"}}, MERGE)
        for each in plan.objects:
            name, place = each["metadata"]["name"], each["metadata"].get("namespace")
            if each["kind"] == "SpiderIPPool":
                api.request("PATCH", POOLS % name, {"status": {"totalIPCount": 1}}, MERGE)
            elif each["kind"] == "SpiderMultusConfig":
                made = {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition"}
                api.request("POST", DEFINITIONS % place, dict(made, metadata={"name": name}))


def _compared(place: Path, kubeconfig: Path, rival: str, pools: t.Sequence[t.Any], count: int, first: Run) -> None:
    """Compare runs of kubernetes.core with ours, alternately, on unchanged objects, and measure its creations."""
    subset, nothing = place / "subset.json", place / "nothing.json"
    # other names, because our objects exist
    renamed = [_alike(each) for each in pools]
    subset.write_text(json.dumps(renamed[:SUBSET]))
    nothing.write_text("[]")
    every = place / "every.json"
    every.write_text(json.dumps(renamed))
    start = [_theirs(rival, kubeconfig, nothing) for _pair in range(PAIRS)]
    base = statistics.median(run.wall for run in start)
    made = _theirs(rival, kubeconfig, subset)
    again, beside = [], []
    for _pair in range(PAIRS):
        again.append(base + (_theirs(rival, kubeconfig, subset).wall - base) * count / SUBSET)
        beside.append(_ours(place / "fabric.yml", kubeconfig, "nothing differs").wall)
    created = base + (made.wall - base) * count / SUBSET
    say("kubernetes.core.k8s, a task an object, from %d to %d objects: first" % (SUBSET, count), "%.0f s" % created)
    say("  / kubernetes.yml, first run, wall (no pair: that was minutes ago)", "%.1f" % (created / first.wall))
    say("  nothing to do", spread(again, "s"))
    say("  / kubernetes.yml with nothing to do, wall (goal: at least 10)", ratio(again, beside))
    one = _theirs(rival, kubeconfig, every, "-e", "one_task=true")
    one_again = _theirs(rival, kubeconfig, every, "-e", "one_task=true")
    say(
        "kubernetes.core.k8s, one task with %d pools: first; nothing to do" % len(renamed),
        "%.1f s; %.1f s" % (one.wall, one_again.wall),
    )
    say("  / kubernetes.yml with nothing to do, wall", "%.1f" % (one_again.wall / min(beside)))


def _alike(pool: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the pool with another name and without labels, so that our runs do not delete it."""
    return dict(pool, metadata={"name": "k8s-" + pool["metadata"]["name"]})


def _requests(proxy: t.Any) -> str:
    reviews = sum("reviews" in path for _method, path in proxy.seen)
    lists = collections.Counter(proxy.lists)
    reads = sum(method == "GET" for method, _path in proxy.seen) - sum(lists.values())
    writes = collections.Counter(method for method, _path in proxy.writes)
    dry = sum("dryRun" in path for _method, path in proxy.seen)
    return "%d lists of %d kinds, %d other reads, %d access reviews, %d dry runs; writes: %s" % (
        sum(lists.values()),
        len(lists),
        reads,
        reviews,
        dry,
        ", ".join("%d %s" % (many, method) for method, many in sorted(writes.items())) or "none",
    )


def _measured(run: Run) -> str:
    return "%.1f s (%.1f s, %.0f MB)" % (run.wall, run.processor, run.megabytes)


def _ours(file: Path, kubeconfig: Path, expected: str = "", wait: bool = False) -> Run:
    words = {
        "fabric_file": str(file),
        "kubernetes_kubeconfig": str(kubeconfig),
        "kubernetes_wait": wait,
        "kubernetes_wait_timeout": 60,
    }
    run = play("playbooks/kubernetes.yml", json.dumps(dict(words, kubernetes_options=OPTIONS)))
    if expected not in run.text:
        sys.exit("kubernetes.yml did not print '%s':\n%s" % (expected, run.text))
    return run


def _theirs(rival: str, kubeconfig: Path, objects: Path, *words: str) -> Run:
    given = json.dumps({"objects_file": str(objects), "kubernetes_kubeconfig": str(kubeconfig)})
    return play("benchmarks/k8s_tasks.yml", given, *words, ANSIBLE_COLLECTIONS_PATH=rival)


def play(playbook: str, given: str, *words: str, **environment: str) -> Run:
    """Run a playbook. Memory and processor time are those of Ansible and the processes that it waited for."""
    env = dict(os.environ, ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"), **environment)
    argv = [str(BIN / "ansible-playbook"), "-i", "localhost,", playbook, "-e", given, *words]
    with tempfile.TemporaryFile() as out:
        begun = time.monotonic()
        process = subprocess.Popen(
            argv, cwd=ROOT, env=env, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
        _pid, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = " ".join(out.read().decode("utf-8", "replace").split())
    if process.returncode:
        sys.exit("%s failed:\n%s" % (playbook, text[-4000:]))
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6, text)


def _collections() -> str | None:
    """Return the path of collections with kubernetes.core; None if it is not installed."""
    places = [os.environ.get("RAILYARD_BENCH_COLLECTIONS", ""), str(ROOT / "collections")]
    places += ["~/.ansible/collections", "/usr/share/ansible/collections", *sys.path]
    for place in filter(None, places):
        if (Path(place).expanduser() / "ansible_collections/kubernetes/core").is_dir():
            return str(Path(place).expanduser())
    return None


def planned(path: Path) -> t.Any:
    from ansible_collections.railyard.fabric.plugins.plugin_utils._cluster_access import Planned

    return Planned({"file": str(path), "kubernetes": OPTIONS})


_PROXIED = """apiVersion: v1
kind: Config
clusters: [{name: it, cluster: {server: "%s"}}]
users: [{name: who, user: {}}]
contexts: [{name: it, context: {cluster: it, user: who}}]
current-context: it
"""

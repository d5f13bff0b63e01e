# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starting a cluster or its missing parts, and ending it."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import guest, process
from lab import state as labs
from lab.cluster import binaries, nodes, parts, pki, schemas, state
from lab.cluster.api import Api
from lab.cluster.state import Cluster
from lab.errors import LabError
from lab.image import cache_directory
from lab.progress import say


@dataclass
class Spec:
    """The options of ``lab cluster up``. None: the default. ``kubelet``: the version that the guests have, if any."""

    name: str
    crds: list[str] | None = None
    nodes: list[str] | None = None
    kubelets: dict[str, int] = field(default_factory=dict)
    kubelet: str = ""


@dataclass
class Done:
    """The actions of ``up``."""

    started: list[str] = field(default_factory=list)
    crds: list[str] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        actions = [
            "started %s" % ", ".join(self.started) if self.started else "",
            "changed %d CRDs" % len(self.crds) if self.crds else "",
            "changed the Node objects %s" % ", ".join(self.nodes) if self.nodes else "",
        ]
        return "; ".join(action for action in actions if action) or "changed nothing"


def up(spec: Spec, fresh: bool = False) -> tuple[Cluster, Done]:
    """Start a cluster, or its missing parts. Return it, and the actions. A complete cluster is not changed."""
    nodes.check(spec.nodes or [])
    lab = labs.load(spec.name) if spec.nodes is not None else None
    if lab and lab.cluster:
        raise LabError(
            "the nodes of lab '%s' have kubelets, which make their Node objects" % spec.name,
            "run the command without --nodes",
        )
    done = Done()
    with state.changing(spec.name):
        if fresh:
            _end(spec.name)
        cluster = state.load(spec.name)
        if cluster is None:
            _end(spec.name)  # processes of a cluster whose state was removed
        cluster = _ready(spec, cluster)
        wanted, overridden = _schemas(cluster)
        done.started = _start(cluster)
        with Api(cluster) as api:
            if wanted:
                done.crds = schemas.apply(api, wanted)
                for line in overridden if done.crds else ():
                    say(line)
            if spec.nodes is not None:
                done.nodes = nodes.apply(api, spec.nodes)
    return cluster, done


def _ready(spec: Spec, cluster: Cluster | None) -> Cluster:
    """Return the cluster with working programs, ports, keys and kubeconfig, after saving its state."""
    kubelets = spec.kubelets or (cluster.kubelets if cluster else {})
    if cluster and kubelets != cluster.kubelets:
        raise LabError(
            "the cluster of lab '%s' was made without the guests as its nodes" % spec.name,
            "lab cluster down --name %s, then run the command again" % spec.name,
        )
    programs = cluster.binaries if cluster else None
    if programs is None or not binaries.again(programs, nodes=bool(kubelets)):
        programs = binaries.ensure(cache_directory(), nodes=bool(kubelets), version=spec.kubelet)
    if cluster and programs.release != cluster.binaries.release:
        raise LabError(
            "the cluster of lab '%s' was made by Kubernetes %s, and there is %s now"
            % (spec.name, cluster.binaries.version, programs.version),
            "add --fresh to end it and start over",
        )
    crds = spec.crds if spec.crds is not None or cluster is None else cluster.crds
    directory = state.directory(spec.name)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with state.choosing_ports():
        ports = cluster.ports if cluster and not _lost_a_port(cluster) else _ports(spec, cluster)
        ready = Cluster(spec.name, ports, programs, crds, kubelets)
        if ready != cluster:
            ready.save()
    pki.ensure(ready.pki, directory / "host.log", list(kubelets))
    pki.write_kubeconfig(ready.kubeconfig, ready.pki, "admin", ready.url, ready.context)
    for part in ("manager", *(["scheduler"] if kubelets else [])):
        pki.write_kubeconfig(directory / (part + ".kubeconfig"), ready.pki, part, ready.url, ready.context)
    for node in kubelets:
        url = "https://%s:%d" % (guest.API_ADDRESS, guest.API_PORT)
        pki.write_kubeconfig(directory / (node + ".kubeconfig"), ready.pki, node, url, ready.context)
    return ready


def _lost_a_port(cluster: Cluster) -> bool:
    """Return whether another process uses the port of a part that is not running."""
    alive = process.members(cluster.directory)
    uses = {binaries.ETCD: ("etcd", "peer"), binaries.API: ("api",), binaries.MANAGER: ("manager",)}
    uses[binaries.SCHEDULER] = ("scheduler",)
    needed = [cluster.ports[port] for part in cluster.parts if part not in alive for port in uses.get(part, ())]
    return not all(labs.port_is_free(port) for port in needed)


def _ports(spec: Spec, cluster: Cluster | None) -> dict[str, int]:
    if cluster:
        say("a port of the cluster is taken by another program: it gets new ones")
        _stop(spec.name)
    names = state.NODE_PORTS if spec.kubelets or (cluster and cluster.kubelets) else state.PORTS
    return dict(zip(names, labs.free_ports(len(names), state.promised_ports(but=spec.name))))


def _schemas(cluster: Cluster) -> tuple[dict[str, schemas.Schema], list[str]]:
    """Read the desired CRDs before anything is started. Return them, and messages about overridden directories."""
    return schemas.read([schemas.DEFAULT] if cluster.crds is None else [Path(place) for place in cluster.crds])


def _start(cluster: Cluster) -> list[str]:
    """Start the parts that do not run, and wait until all work. Return the names of started parts."""
    alive = process.members(cluster.directory)
    missing = [part for part in cluster.parts if part not in alive]
    if missing:
        say("starting %s (Kubernetes %s, %s)" % (", ".join(missing), cluster.binaries.version, cluster.binaries.origin))
    if cluster.binaries.manager is None:
        say(
            "kube-controller-manager %d.%d is missing: namespaces end only when they are finalized by hand"
            % cluster.binaries.release
        )
    for part in cluster.parts:
        if part in missing:
            parts.start(cluster, part)
        parts.wait(cluster, part)
    return missing


def down(name: str) -> bool:
    """End the cluster of a lab and remove its state. Return False if it did not exist."""
    directory = state.directory(name)
    with state.changing(name):
        there = directory.exists() or bool(process.members(directory))
        _end(name)
    return there


def _stop(name: str) -> None:
    """End the cluster's processes, each before the processes that it depends on."""
    directory = state.directory(name)
    alive = process.members(directory)
    if alive:
        say("ending %s" % ", ".join(sorted(alive)))
    for part in sorted(alive, key=lambda part: part == binaries.ETCD):
        # only etcd needs time to save its data; the other parts would wait for their clients to disconnect
        process.stop(directory, [alive[part]], patience=5.0 if part == binaries.ETCD else 0.5)
    left = process.members(directory)
    if left:
        raise LabError(
            "these processes do not end: %s" % ", ".join(str(member.pid) for member in left.values()),
            "end them by hand, then run the command again",
        )


def _end(name: str) -> None:
    _stop(name)
    directory = state.directory(name)
    shutil.rmtree(labs.run_directory(directory), ignore_errors=True)
    if directory.exists():
        shutil.rmtree(directory)
    labs.remove_empty(directory.parent)


def summary(cluster: Cluster) -> dict[str, Any]:
    """Return the current state of the cluster, for ``lab cluster status``."""
    alive = process.members(cluster.directory)
    found: dict[str, Any] = {
        "name": cluster.name,
        "url": cluster.url,
        "kubeconfig": str(cluster.kubeconfig),
        "version": cluster.binaries.version,
        "binaries": dataclasses.asdict(cluster.binaries),
        "parts": [
            {
                "name": part,
                "pid": alive[part].pid if part in alive else None,
                "up": part in alive and parts.works(cluster, part),
                "running_seconds": round(alive[part].age()) if part in alive else None,
            }
            for part in cluster.parts
        ],
        "crds": None,
        "nodes": None,
    }
    if next(part["up"] for part in found["parts"] if part["name"] == binaries.API):
        # 1.36 reports itself ready for a moment after the end of etcd, but does not answer
        with contextlib.suppress(LabError), Api(cluster) as api:
            found["crds"] = len(api.get(schemas.PATH)["items"])
            found["nodes"] = [_node(item) for item in api.get(nodes.PATH)["items"]]
    return found


def _node(item: dict[str, Any]) -> dict[str, Any]:
    ready = [one for one in item.get("status", {}).get("conditions", []) if one["type"] == "Ready"]
    return {
        "name": item["metadata"]["name"],
        "ready": ready[0]["status"] if ready else "Unknown",
        "message": ready[0].get("message", "") if ready else "it has no conditions",
    }

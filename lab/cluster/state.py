# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one cluster is, and where it keeps what it must remember: ``.lab/NAME/cluster/``."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import state as labs
from lab.cluster.binaries import API, ETCD, MANAGER, SCHEDULER, Binaries
from lab.errors import LabError

FORMAT = 1
PORTS = ("etcd", "peer", "api", "manager")
NODE_PORTS = (*PORTS, "scheduler")  # with kubelets
EGRESS = "egress"  # the way from the API server to the kubelets


@dataclass(frozen=True)
class Cluster:
    """One cluster: its loopback ports, its programs, and where its CRDs come from (None: not given).

    ``kubelets`` has the loopback port of each node's kubelet, in the order of the nodes; it is empty without any.
    """

    name: str
    ports: dict[str, int]
    binaries: Binaries
    crds: list[str] | None = None
    kubelets: dict[str, int] = field(default_factory=dict)

    @property
    def directory(self) -> Path:
        return directory(self.name)

    @property
    def pki(self) -> Path:
        return self.directory / "pki"

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def url(self) -> str:
        return "https://127.0.0.1:%d" % self.ports["api"]

    @property
    def context(self) -> str:
        return "railyard-lab-" + self.name

    @property
    def parts(self) -> list[str]:
        """The processes that this cluster has when it is up, in the order in which they start."""
        nodes = [SCHEDULER] if self.kubelets else []
        return [*([EGRESS] if nodes else []), ETCD, API, *([MANAGER] if self.binaries.manager else []), *nodes]

    def log(self, part: str) -> Path:
        return self.directory / ("%s.log" % part)

    def save(self) -> None:
        text = json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, indent=2)
        labs.write_file(self.directory / "cluster.json", text)


def directory(name: str) -> Path:
    """The state directory of the cluster of lab ``name``."""
    return labs.state_directory(name) / labs.CLUSTER


def load(name: str) -> Cluster | None:
    """The cluster as it was last written down, or None. Raises LabError when that cannot be read."""
    place = directory(name) / "cluster.json"
    try:
        raw: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
        if raw.pop("format") != FORMAT:
            raise ValueError("another format")
        ports = {part: int(raw["ports"][part]) for part in (NODE_PORTS if raw.get("kubelets") else PORTS)}
        return Cluster(**{**raw, "ports": ports, "binaries": Binaries(**raw["binaries"])})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
        raise LabError(
            "%s cannot be read: %s" % (place, error), "start over: lab cluster up --fresh --name %s" % name
        ) from None


def require(name: str) -> Cluster:
    """The cluster of lab ``name``; raises LabError for a lab without one."""
    cluster = load(name)
    if cluster is None:
        raise LabError("lab '%s' has no cluster" % name, "lab cluster up --name %s" % name)
    return cluster


def names() -> list[str]:
    """The labs of this checkout that have a cluster."""
    return [name for name in labs.names() if (labs.base_directory() / name / labs.CLUSTER).is_dir()]


def changing(name: str) -> contextlib.AbstractContextManager[None]:
    """The lock that every command takes which changes this cluster; the guests of the same lab have another."""
    place = labs.state_directory(name).parent / (".%s.cluster.lock" % name)
    return labs.locked(place, "another command is changing the cluster of lab '%s'; waiting for it" % name)


def choosing_ports() -> contextlib.AbstractContextManager[None]:
    """The lock under which ports are chosen and written down, so that two clusters do not take the same."""
    return labs.locked(labs.base_directory() / ".cluster-ports.lock", "another cluster is choosing its ports")


def promised_ports(but: str) -> set[int]:
    """The ports that the other labs of this checkout have written down, whether or not they are up."""
    taken: set[int] = set()
    for name in labs.names():
        with contextlib.suppress(LabError):
            lab = labs.load(name)
            taken.update((*lab.ports, *lab.kubelet_ports) if lab else ())
        with contextlib.suppress(LabError):
            cluster = load(name) if name != but else None
            taken.update(cluster.ports.values() if cluster else ())
    return taken

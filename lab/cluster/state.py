# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a cluster, and its directory ``.lab/NAME/cluster/``."""

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
# The first release in which pods request devices of a DRA driver by limits, as of a device plugin.
DRA_SINCE = (1, 36)


@dataclass(frozen=True)
class Cluster:
    """One cluster: its loopback ports, its programs, and the directories of its CRDs (None: not given).

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
        """The processes of this cluster, in the order in which they start."""
        nodes = [SCHEDULER] if self.kubelets else []
        return [*([EGRESS] if nodes else []), ETCD, API, *([MANAGER] if self.binaries.manager else []), *nodes]

    @property
    def dra(self) -> bool:
        """Whether the rail agent is a DRA driver on this cluster by default."""
        return self.binaries.release >= DRA_SINCE

    def log(self, part: str) -> Path:
        return self.directory / ("%s.log" % part)

    def save(self) -> None:
        text = json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, indent=2)
        labs.write_file(self.directory / "cluster.json", text)


def directory(name: str) -> Path:
    """Return the state directory of the cluster of lab ``name``."""
    return labs.state_directory(name) / labs.CLUSTER


def load(name: str) -> Cluster | None:
    """Return the cluster of lab ``name``, or None. Raises LabError if its state cannot be read."""
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
    """Return the cluster of lab ``name``. Raises LabError if the lab does not have one."""
    cluster = load(name)
    if cluster is None:
        raise LabError("lab '%s' has no cluster" % name, "lab cluster up --name %s" % name)
    return cluster


def names() -> list[str]:
    """Return the names of the labs of this checkout that have a cluster."""
    return [name for name in labs.names() if (labs.base_directory() / name / labs.CLUSTER).is_dir()]


def changing(name: str) -> contextlib.AbstractContextManager[None]:
    """Return the lock of commands that change this cluster. The guests of the lab have another lock."""
    place = labs.state_directory(name).parent / (".%s.cluster.lock" % name)
    return labs.locked(place, "another command is changing the cluster of lab '%s'; waiting for it" % name)


def choosing_ports() -> contextlib.AbstractContextManager[None]:
    """Return the lock under which ports are chosen and saved, so that two clusters do not choose the same."""
    return labs.locked(labs.base_directory() / ".cluster-ports.lock", "another cluster is choosing its ports")


def promised_ports(but: str) -> set[int]:
    """Return the saved ports of the other labs of this checkout, whether or not they run."""
    taken: set[int] = set()
    for name in labs.names():
        with contextlib.suppress(LabError):
            lab = labs.load(name)
            taken.update((*lab.ports, *lab.kubelet_ports) if lab else ())
        with contextlib.suppress(LabError):
            cluster = load(name) if name != but else None
            taken.update(cluster.ports.values() if cluster else ())
    return taken

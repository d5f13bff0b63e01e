# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a lab, and its files and directories."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import random
import re
import shutil
import socket
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator

from lab.errors import LabError

FORMAT = 1
MAX_NODES = 64
MAX_RAILS = 24  # device slots 1..24 of the guests' root bus
REPOSITORY = Path(__file__).resolve().parent.parent
USER = "ops"
PORTS_FIRST, PORTS_LAST = 22001, 29999
CLUSTER = "cluster"  # the directory of a lab's Kubernetes within its own


def base_directory() -> Path:
    """Return the directory of the labs of this checkout."""
    return Path(os.environ.get("RAILYARD_LAB_DIR") or REPOSITORY / ".lab").expanduser().resolve()


def state_directory(name: str) -> Path:
    """Return the state directory of the lab ``name``. Raises LabError for an invalid name."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,31}", name):
        raise LabError(
            "'%s' is not a valid name of a lab" % name,
            "use up to 32 of a-z, 0-9, - and _, beginning with a letter or digit",
        )
    return base_directory() / name


@dataclass(frozen=True)
class Lab:
    """One lab: its size, the image of its guests, and the ports of its guests.

    ``memory``: MiB per node. ``image``: the directory of the image; ``image_id``: its ID when the disks were created.
    ``ports``: the loopback SSH port of each node. ``kubelet_ports``: that of its kubelet, if it has one. ``kubelet``:
    the version of the kubelet in the image, such as ``1.20.2``; empty without one, and in older states. ``system``:
    the guests' distribution and version. ``network``: the program that manages their network. ``layout``: which leaves
    act as one switch, one of :data:`.leaf.LAYOUTS`.
    """

    name: str
    nodes: int
    rails: int
    memory: int
    accel: str
    cpus: int
    image: str
    image_id: str
    ports: list[int] = field(default_factory=list)
    kubelet_ports: list[int] = field(default_factory=list)
    system: str = "unknown"  # a lab that was started before this field existed
    network: str = "networkd"
    layout: str = "rails"
    kubelet: str = ""

    @property
    def cluster(self) -> bool:
        """Whether the guests are nodes of the lab's Kubernetes."""
        return bool(self.kubelet_ports)

    @property
    def leaves(self) -> int:
        """The number of leaves: one per rail, and one for the pod network of Kubernetes nodes."""
        return self.rails + self.cluster

    @property
    def directory(self) -> Path:
        return state_directory(self.name)

    @property
    def run(self) -> Path:
        return run_directory(self.directory)

    @property
    def node_names(self) -> list[str]:
        return [node_name(number) for number in range(1, self.nodes + 1)]

    @property
    def ssh_config(self) -> Path:
        return self.directory / "ssh_config"

    def console(self, node: int) -> Path:
        return self.directory / ("%s.console.log" % node_name(node))

    def disk(self, node: int) -> Path:
        return self.directory / ("%s.qcow2" % node_name(node))

    def log(self, part: str) -> Path:
        """Return the log of a process of the lab, such as ``node-1`` or ``leaf``."""
        return self.directory / ("%s.log" % part)

    def node_number(self, text: str) -> int:
        """Return the number of a node (``node-2`` or ``2``). Raises LabError if the lab does not have it."""
        match = re.fullmatch(r"(?:node-)?([1-9][0-9]*)", text)
        if not match or int(match.group(1)) > self.nodes:
            raise LabError(
                "lab '%s' has no node '%s'" % (self.name, text), "choose from %s" % ", ".join(self.node_names)
            )
        return int(match.group(1))

    def rail_number(self, text: str) -> int:
        """Return the number of a rail (``3``, ``gpu03``). Raises LabError if the lab does not have it."""
        match = re.fullmatch(r"(?:[a-z][a-z_-]*)?0*([1-9][0-9]*)", text)
        if not match or int(match.group(1)) > self.rails:
            raise LabError(
                "lab '%s' has no rail '%s'" % (self.name, text),
                "write a number from 1 to %d, or a name that ends in it such as gpu01" % self.rails,
            )
        return int(match.group(1))

    def rail_port(self, text: str) -> tuple[int, int]:
        """Parse ``NODE:RAIL``. Return node number and rail number."""
        node, colon, rail = text.partition(":")
        if not colon:
            raise LabError("'%s' is not a rail port" % text, "write NODE:RAIL, such as node-1:3")
        return self.node_number(node), self.rail_number(rail)

    def save(self) -> None:
        write_file(self.directory / "lab.json", json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, indent=2))


def node_name(number: int) -> str:
    return "node-%d" % number


def run_directory(directory: Path) -> Path:
    """Return the directory of the lab's sockets, which is short, because a socket's path has at most 107 bytes."""
    tag = hashlib.sha256(os.fsencode(directory)).hexdigest()[:10]
    parent = Path("/run") if os.geteuid() == 0 and os.access("/run", os.W_OK) else Path("/tmp")
    return parent / ("railyard-lab-%d-%s" % (os.geteuid(), tag))


def make_run_directory(directory: Path) -> Path:
    """Create the directory of sockets, or check that only this user can access the existing one."""
    run = run_directory(directory)
    run.mkdir(mode=0o700, exist_ok=True)
    status = os.lstat(run)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise LabError(
            "%s is not a directory that only this user can access" % run, "remove it and run the command again"
        )
    return run


def load(name: str) -> Lab | None:
    """Return the lab ``name``, or None if it does not exist. Raises LabError if its state cannot be read."""
    place = state_directory(name) / "lab.json"
    try:
        raw: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
        if raw.pop("format") != FORMAT:
            raise ValueError("another format")
        return Lab(**raw)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
        raise LabError(
            "%s cannot be read: %s" % (place, error), "start over: lab up --fresh --name %s" % name
        ) from None


def require(name: str) -> Lab:
    """Return the lab ``name``. Raises LabError if it does not exist."""
    lab = load(name)
    if lab is None:
        others = ", ".join(guest_names()) or "none"
        raise LabError("lab '%s' does not exist (labs: %s)" % (name, others), "lab up --name %s" % name)
    return lab


def names() -> list[str]:
    """Return the names of all labs of this checkout."""
    base = base_directory()
    return sorted(entry.name for entry in base.iterdir() if entry.is_dir()) if base.is_dir() else []


def guest_names() -> list[str]:
    """Return the names of the labs with guests. Other labs have only a cluster."""
    return [name for name in names() if (base_directory() / name / "lab.json").exists()]


@contextlib.contextmanager
def locked(place: Path, waiting: str) -> Iterator[None]:
    """Hold the lock of the file ``place``. Print ``waiting`` once if another process has it."""
    from lab.progress import say

    place.parent.mkdir(parents=True, exist_ok=True)
    with open(place, "a", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(waiting)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def changing(name: str) -> contextlib.AbstractContextManager[None]:
    """Return the lock of commands that change the lab ``name``."""
    directory = state_directory(name)
    return locked(directory.parent / (".%s.lock" % name), "another command is changing lab '%s'; waiting for it" % name)


def write_file(place: Path, text: str, mode: int = 0o600) -> None:
    """Write a file atomically."""
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_name("%s.%d.new" % (place.name, os.getpid()))
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with open(descriptor, "w", encoding="utf-8") as handle:
        handle.write(text if text.endswith("\n") else text + "\n")
    os.replace(fresh, place)


def remove(directory: Path) -> None:
    """Remove the state and sockets of a lab's guests, but not its cluster.

    The logs of consoles are moved to the parent directory, for guests that did not boot.
    """
    shutil.rmtree(run_directory(directory), ignore_errors=True)
    for console in directory.glob("*.console.log"):
        os.replace(console, directory.parent / (".%s.%s" % (directory.name, console.name)))
    for entry in directory.iterdir() if directory.exists() else ():
        if entry.is_dir() and not entry.is_symlink():
            if entry.name != CLUSTER:
                shutil.rmtree(entry)
        else:
            entry.unlink()
    remove_empty(directory)


def remove_empty(directory: Path) -> None:
    """Remove a lab's directory if it is empty."""
    with contextlib.suppress(OSError):
        directory.rmdir()


def port_is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count: int, taken: set[int]) -> list[int]:
    """Return free loopback ports below the range from which the kernel assigns ports to connections.

    The search starts at a random port, so that concurrent commands, which use their ports later, choose different ones.

    :param taken: ports that are never returned.
    """
    found: list[int] = []
    start = random.randrange(PORTS_LAST - PORTS_FIRST)
    for number in range(PORTS_LAST - PORTS_FIRST + 1):
        port = PORTS_FIRST + (start + number) % (PORTS_LAST - PORTS_FIRST + 1)
        if port in taken or not port_is_free(port):
            continue
        found.append(port)
        if len(found) == count:
            return found
    raise LabError(
        "127.0.0.1 does not have %d free ports between %d and %d" % (count, PORTS_FIRST, PORTS_LAST),
        "end labs that you no longer need",
    )

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start and end a lab, and reboot its nodes."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lab import accel, access, booted, bytecode, cable, guest, guest_system, leaf, process, qmp, state
from lab import host as hosts
from lab import image as images
from lab import qemu as qemus
from lab.cluster import binaries
from lab.errors import LabError
from lab.guest_system import GuestSystem
from lab.progress import say
from lab.state import Lab, node_name

LEAF = "leaf"
DEFAULTS = {"nodes": 2, "rails": 8, "memory": 1024}
CLUSTER_MEMORY = 1536  # for kubelet, containerd and some pods
# Several emulated processors of a guest wait for each other on a busy host, and do not make it faster.
CPUS = {"kvm": 2, "tcg": 1}


@dataclass(frozen=True)
class Spec:
    """The options of ``lab up``. None: the default, or the value of the existing lab."""

    name: str
    nodes: int | None = None
    rails: int | None = None
    memory: int | None = None
    cpus: int | None = None
    accel: str | None = None
    cluster: bool = False
    system: str | None = None
    network: str | None = None
    layout: str | None = None


def up(spec: Spec, fresh: bool = False) -> tuple[Lab, bool]:
    """Start a lab, or its missing parts. Return it, and whether anything was started.

    :param fresh: end an existing lab first.
    """
    directory = state.state_directory(spec.name)
    system = system_of(spec)
    with state.changing(spec.name):
        if fresh:
            _end(directory)
        lab = state.load(spec.name)
        if lab is None:
            _end(directory)  # processes of a lab whose state was removed
        else:
            _check_options(spec, lab)
            alive = process.members(directory)
            if spec.layout not in (None, lab.layout):
                lab = set_layout(lab, str(spec.layout))
            if all(part in alive for part in [LEAF, *lab.node_names]) and lab.ssh_config.exists():
                access.wait(lab, list(range(1, lab.nodes + 1)))
                return lab, False
        return _start(spec, system, lab), True


def set_layout(lab: Lab, layout: str) -> Lab:
    """Connect the leaves of a lab by a layout. Return the changed lab. Raises LabError on failure."""
    changed = dataclasses.replace(lab, layout=layout)
    if LEAF in process.members(lab.directory):
        cable.change(lab, {"do": "layout", "layout": layout})
    changed.save()
    return changed


def system_of(spec: Spec) -> GuestSystem:
    """Return the system of new guests. Raises LabError for options that this machine or another option excludes."""
    return guest_system.choose(hosts.Host.read(), spec.system, spec.network, spec.cluster)


def _check_options(spec: Spec, lab: Lab) -> None:
    """Raise LabError if the existing lab has other options."""
    for name in ("nodes", "rails", "memory", "cpus", "accel", "system", "network"):
        wanted, present = getattr(spec, name), getattr(lab, name)
        if wanted is not None and wanted != present and (name, wanted) != ("accel", "auto"):
            raise LabError(
                "lab '%s' exists with --%s %s, not %s" % (lab.name, name, present, wanted),
                "add --fresh to end it and start over, or use another --name",
            )
    if spec.cluster and not lab.cluster:
        raise LabError(
            "the guests of lab '%s' are not Kubernetes nodes" % lab.name,
            "add --fresh to end it and start over, or use another --name",
        )


def _start(spec: Spec, system: GuestSystem, lab: Lab | None) -> Lab:
    cache = images.cache_directory()
    host = hosts.Host.read()
    hosts.ensure_tools(cache / "host.log")
    qemu = qemus.ensure(host, cache)
    if lab is None:
        programs = binaries.ensure(cache, nodes=True) if spec.cluster else None
        image = images.ensure(host, system, cache, Path(str(programs.kubelet)) if programs else None)
        accelerator = accel.decide(spec.accel or "auto", qemu, image, cache)
        lab = _new(spec, system, image, accelerator, programs.version if programs else "")
        lab.save()
    else:
        image = _image_of(lab)
    state.make_run_directory(lab.directory)
    access.write_config(lab, image)
    alive = process.members(lab.directory)
    if LEAF not in alive:
        _start_leaf(lab)
    missing = [node for node in range(1, lab.nodes + 1) if node_name(node) not in alive]
    if missing:
        say(
            "starting %s with %d rails each (%s)"
            % (", ".join(map(node_name, missing)), lab.rails, "KVM" if lab.accel == "kvm" else "emulated")
        )
    _start_guests(lab, missing, image, qemu)
    return lab


def _start_guests(lab: Lab, nodes: list[int], image: images.Image, qemu: qemus.Qemu) -> None:
    """Start these nodes, new ones from a stored boot if there is one, and wait until all nodes accept logins."""
    new = [node for node in nodes if not lab.disk(node).exists()]
    stored = {node: found for node in new if (found := booted.find(lab, node, image, qemu))}
    for node in nodes:
        guest.start(lab, node, image, qemu, stored.get(node))
    _monitors(lab, nodes)
    for node in [node for node in stored if not booted.resume(lab, node)]:
        say("%s does not start from %s, and boots" % (node_name(node), stored[node]))
        booted.discard(lab, node, stored.pop(node))
        guest.start(lab, node, image, qemu)
        _monitors(lab, [node])
    cable.sync_carrier(lab)
    access.wait(lab, list(range(1, lab.nodes + 1)))
    access.set_clocks(lab, stored)
    if lab.accel == "tcg":
        booted.store(lab, [node for node in new if node not in stored], image, qemu)
        bytecode.send(lab, new)


def _new(spec: Spec, system: GuestSystem, image: images.Image, accelerator: str, kubelet: str) -> Lab:
    taken: set[int] = set()
    for name in state.names():
        with contextlib.suppress(LabError):
            other = state.load(name)
            taken |= {*other.ports, *other.kubelet_ports} if other else set()
    defaults = {**DEFAULTS, "memory": CLUSTER_MEMORY} if spec.cluster else DEFAULTS
    size = {key: getattr(spec, key) or default for key, default in defaults.items()}
    ports = state.free_ports(size["nodes"] * (2 if spec.cluster else 1), taken)
    lab = Lab(
        name=spec.name,
        cpus=spec.cpus or CPUS[accelerator],
        accel=accelerator,
        image=str(image.directory),
        image_id=image.id,
        system=system.name,
        network=system.network,
        layout=spec.layout or leaf.RAILS,
        ports=ports[: size["nodes"]],
        kubelet_ports=ports[size["nodes"] :],
        kubelet=kubelet,
        **size,
    )
    lab.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    return lab


def _image_of(lab: Lab) -> images.Image:
    """Return the base image of the lab's disks. Raises LabError if it is missing or has changed."""
    image = images.find(Path(lab.image))
    if image is None or image.id != lab.image_id:
        raise LabError(
            "the image of lab '%s' is missing or damaged (%s)" % (lab.name, lab.image),
            "start over: lab up --fresh --name %s" % lab.name,
        )
    return image


def _start_leaf(lab: Lab) -> None:
    env = {**os.environ, "PYTHONPATH": str(state.REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [sys.executable, "-m", "lab.leaf", str(lab.run), str(lab.nodes), str(lab.leaves)]
    argv += ["--layout", lab.layout, "--members", str(lab.rails)]
    (lab.run / "leaf.control").unlink(missing_ok=True)
    process.spawn(argv, lab.directory, LEAF, lab.log(LEAF), env)
    for _attempt in range(600):
        with contextlib.suppress(LabError):
            cable.command(lab.run, {"do": "show"})
            return
        if LEAF not in process.members(lab.directory):
            break
        time.sleep(0.1)
    raise LabError("the leaf process does not start", "see %s" % lab.log(LEAF))


def _monitors(lab: Lab, nodes: list[int]) -> None:
    """Wait until the monitor of each started machine exists, or the machine has ended."""
    for node in nodes:
        for _attempt in range(600):
            if qmp.monitor_socket(lab.run, node).exists() or node_name(node) not in process.members(lab.directory):
                break
            time.sleep(0.1)


def down(name: str) -> bool:
    """End a lab and remove its state. Return False if it did not exist."""
    directory = state.state_directory(name)
    with state.changing(name):
        existed = directory.exists() or bool(process.members(directory))
        _end(directory)
    return existed


def _end(directory: Path) -> None:
    """End all processes of the lab in ``directory``, and remove its state, which may be damaged."""
    alive = process.members(directory)
    if alive:
        say("ending %s" % ", ".join(sorted(alive)))
        process.stop(directory, list(alive.values()))
        left = process.members(directory)
        if left:
            raise LabError(
                "these processes do not end: %s" % ", ".join(str(member.pid) for member in left.values()),
                "end them by hand, then run the command again",
            )
    state.remove(directory)


def reboot(lab: Lab, node: int, hard: bool) -> float:
    """Reboot a node and wait until it accepts logins. Return the seconds. ``hard``: reset the machine."""
    with state.changing(lab.name):
        name = node_name(node)
        if name not in process.members(lab.directory):
            raise LabError("%s's machine is not running" % name, "lab up --name %s" % lab.name)
        before = access.boot_id(lab, node)
        begin = time.monotonic()
        if hard:
            with qmp.Monitor(lab.run, node) as monitor:
                monitor.execute("system_reset")
        elif before is None:
            raise LabError("%s does not answer on SSH" % name, "lab reboot --hard %s" % name)
        else:
            access.run(lab, node, "systemctl reboot", user="root")
        access.wait(lab, [node], {node: before} if before else None)
        return time.monotonic() - begin


def summary(lab: Lab) -> dict[str, object]:
    """Return the current state of the lab, for ``lab status``."""
    alive = process.members(lab.directory)
    running = [node for node in range(1, lab.nodes + 1) if node_name(node) in alive]
    with ThreadPoolExecutor(max_workers=lab.nodes) as pool:
        banner = access.BANNER_SECONDS[lab.accel]
        answer = dict(zip(running, pool.map(lambda node: access.answers(lab.ports[node - 1], banner), running)))
    nodes = []
    for node in range(1, lab.nodes + 1):
        member = alive.get(node_name(node))
        disk = lab.disk(node)
        nodes.append(
            {
                "name": node_name(node),
                "pid": member.pid if member else None,
                "up": answer.get(node, False),
                "ssh_port": lab.ports[node - 1],
                "running_seconds": round(member.age()) if member else None,
                "disk_bytes": disk.stat().st_blocks * 512 if disk.exists() else 0,
            }
        )
    cables = None
    if LEAF in alive:
        with contextlib.suppress(LabError):
            cables = cable.command(lab.run, {"do": "show"})
    return {
        **{key: value for key, value in dataclasses.asdict(lab).items() if key != "nodes"},
        "nodes": nodes,
        "leaf_pid": alive[LEAF].pid if LEAF in alive else None,
        "cables": cables,
        "directory": str(lab.directory),
    }

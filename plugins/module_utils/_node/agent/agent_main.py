# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""``railyard-agent``: the service that attaches pods to rails, and commands for administrators on the node."""

from __future__ import annotations

import argparse
import sys
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._common.version import VERSION
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import rail_health
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_service import run
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_socket import SOCKET, ask
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import (
    DRA,
    AgentSpec,
    Device,
    read_spec,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import Holder, SlotState
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.service_process import Table, columns
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.prepared_claims import Claim, ClaimState
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import cordon_file, health_check
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.pod_resources import allocated_devices

# Timeout of ``explain`` for the running agent, which answers at once.
ANSWER_SECONDS = 2.0


def main(argv: t.Sequence[str] | None = None) -> int:
    """Run a command, and return the exit status.

    0: done. 1: an error, which is on standard error with its remedy, or ``status`` shows a problem. 2: a wrong command.
    ``check`` has exit statuses of its own.
    """
    parser = argparse.ArgumentParser("railyard-agent", description="Attaches pods to the rails of this node.")
    parser.add_argument("--root", default="/", help="prefix all paths with this directory; for tests")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands.add_parser("run", help="run the service")
    commands.add_parser("status", help="show rails, resources and problems of the running service")
    commands.add_parser("slots", help="show each slot of this node and the pod that holds it")
    explain = commands.add_parser("explain", help="show the devices of a pod on this node, and the state of each")
    explain.add_argument("pod", metavar="POD", help="NAME, or NAMESPACE/NAME")
    cordon = commands.add_parser("cordon", help="keep new pods off a rail of this node; running pods stay")
    cordon.add_argument(
        "--reason", default=rail_health.ADMINISTRATOR, metavar="TEXT", help="why, for status and events"
    )
    uncordon = commands.add_parser("uncordon", help="let pods use a cordoned rail again")
    for command in (cordon, uncordon):
        command.add_argument("rail", metavar="RAIL")
    health_check.add_command(commands)
    commands.add_parser("version", help="show the version")
    arguments = parser.parse_args(argv)
    system = System(arguments.root)
    try:
        if arguments.command == "run":
            return run(system)
        if arguments.command == "check":
            return health_check.run(system, arguments)
        if arguments.command == "version":
            sys.stdout.write(VERSION + "\n")
        elif arguments.command == "slots":
            claims = ClaimState(system).by_device()
            sys.stdout.write(slots(read_spec(system), SlotState(system).holders(), claims, time.time()))
        elif arguments.command == "status":
            document = ask({"do": "status"}, system.path(SOCKET))
            sys.stdout.write(status(document))
            return int(bool(document["problems"]) or not all(row["healthy"] for row in document["rails"]))
        elif arguments.command == "cordon":
            rail_health.check_rail(read_spec(system), arguments.rail)
            cordon_file.cordons(system).put(cordon_file.Cordon(arguments.rail, arguments.reason))
            sys.stdout.write("rail %s: cordoned\n" % arguments.rail)
        elif arguments.command == "uncordon":
            cordons = cordon_file.cordons(system)
            # a rail that the plan does not have any more can be uncordoned too
            if arguments.rail not in cordons.all():
                rail_health.check_rail(read_spec(system), arguments.rail)
            cordons.remove(arguments.rail)
            sys.stdout.write("rail %s: not cordoned\n" % arguments.rail)
        elif arguments.command == "explain":
            sys.stdout.write(explain_pod(system, arguments.pod))
    except RailyardError as error:
        sys.stderr.write("railyard-agent: %s\n" % error)
        return 1
    return 0


def status(document: t.Mapping[str, t.Any]) -> str:
    head = "railyard-agent %(version)s, node %(node)s, fabric %(fabric)s, %(attachment)s, RDMA mode %(rdma_mode)s\n"
    rails: Table = [("RAIL", "PORT", "STATE")]
    rails += [(row["rail"], row["port"], _health(row)) for row in document["rails"]]
    resources: Table = [("RESOURCE", "DEVICES", "HELD", "KUBELET")]
    for row in document["resources"]:
        registered = "registered" if row["registered"] else "not registered"
        resources.append((row["resource"], str(row["devices"]), str(row["held"]), registered))
    texts = [head % document, columns(rails), columns(resources)]
    errors = [*document["problems"], *(row["error"] for row in document["attaches"]["errors"])]
    notes = list(map(_unattached, document["claims"], [document["holders"]] * len(document["claims"])))
    lines = [*filter(None, notes), *errors]
    return "\n".join(texts + ["%s\n" % "\n".join(lines)] * bool(lines))


def _health(row: t.Mapping[str, t.Any]) -> str:
    """Return the state of a rail in one cell of ``status``."""
    if not row["healthy"]:
        return str(row["reason"])
    return "degraded: %s" % row["degraded"] if row.get("degraded") else "healthy"


def _unattached(claim: t.Mapping[str, t.Any], holders: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """Return a line about the devices of a prepared claim that its pod does not hold; empty if it holds all."""
    held = {row["device"] for row in holders if row["pod_uid"] in ("", claim["pod_uid"])}
    devices = [row["device"] for row in claim["devices"] if row["device"] not in held]
    names = (claim["namespace"], claim["name"], claim["namespace"], claim["pod_name"], ", ".join(devices))
    return "claim %s/%s of pod %s/%s: prepared, and no container has attached %s" % names if devices else ""


def slots(spec: AgentSpec, holders: t.Mapping[str, Holder], claims: t.Mapping[str, Claim], now: float) -> str:
    """Return the output of ``slots``. ``holders``, ``claims``: by device. ``now``: seconds since 1970."""
    rows: Table = [("DEVICE", "RAIL", "ADDRESS", "MAC", "POD", "CONTAINER", "AGE")]
    for devices in spec.resources().values():
        for device in devices:
            holder, claim = holders.get(device.id), claims.get(device.id)
            user = ("-", "-", "-")
            if holder:
                user = (holder.pod, holder.container, age(now - holder.since))
            elif claim:
                user = (claim.pod, "claim %s, not attached" % claim.name, age(now - claim.since))
            rows += [(device.id, *cells, *user) for cells in addresses(device)]
    return columns(rows)


def addresses(device: Device) -> list[tuple[str, str, str]]:
    return [
        (rail, ",".join(str(each) for each in slot.addresses) or "-", slot.mac or "-")
        for rail, slot in device.slots.items()
    ]


def age(seconds: float) -> str:
    """Return a duration in the format of kubectl: the largest unit that counts at least two, or seconds."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return "%d%s" % (seconds // size, unit)
    return "%ds" % max(0, int(seconds))


def explain_pod(system: System, name: str) -> str:
    """Return the output of ``explain``: the devices that the kubelet allocated to a pod, and the state of each.

    :param name: NAME, or NAMESPACE/NAME.
    :raises RailyardError: if the pod has no device.
    """
    spec = read_spec(system)
    holders = SlotState(system).holders()
    namespace, slash, pod = name.rpartition("/")

    def matches(candidate_namespace: str, candidate: str) -> bool:
        return candidate == pod and (not slash or candidate_namespace == namespace)

    # device -> pod, and its container or claim
    users: dict[str, tuple[str, str]] = {}
    problem = ""
    if spec.kubelet_plugin == DRA:
        for claim in ClaimState(system).claims().values():
            if matches(claim.namespace, claim.pod_name):
                users.update((device, (claim.pod, "claim " + claim.name)) for device in claim.device_names)
    else:
        problem = _add_allocated(system, spec, matches, users)
    for holder in holders.values():
        if matches(holder.pod_namespace, holder.pod_name):
            users.setdefault(holder.device, (holder.pod, "container " + holder.container))
    errors: t.Sequence[t.Mapping[str, str]] = ()
    try:
        document = ask({"do": "status"}, system.path(SOCKET), ANSWER_SECONDS)
        errors = [*document["attaches"]["errors"], *document["conflicts"]]
    except RailyardError as error:
        problem += "%s\n" % error
    if not users:
        raise RailyardError(
            "has no device of %s on node %s" % (spec.resource_prefix, spec.node),
            "pod " + name,
            "run kubectl describe pod, which shows the pod's node and its limits",
        )
    text = problem
    for device, (pod_name, user) in sorted(users.items()):
        text += "%s %s: %s\n" % (pod_name, user, device)
        text += columns([("  RAIL", "ADDRESS", "MAC", "STATE"), *_states(spec, holders, device, pod_name)])
        shown = [row["error"] for row in errors if (row["device"], row["pod"]) == (device, pod_name)]
        text += "".join("  %s\n" % error for error in shown)
    return text


def _add_allocated(
    system: System, spec: AgentSpec, matches: t.Callable[[str, str], bool], users: dict[str, tuple[str, str]]
) -> str:
    """Add the devices that the kubelet allocated to the pod. Return the error as a line; empty if there was none."""
    try:
        for row in allocated_devices(system, spec.resource_prefix):
            if matches(row.namespace, row.pod):
                pod, user = "%s/%s" % (row.namespace, row.pod), "container " + row.container
                users.update((device, (pod, user)) for device in row.devices)
    except RailyardError as error:
        return "%s\n" % error
    return ""


def _states(spec: AgentSpec, holders: t.Mapping[str, Holder], identity: str, pod: str) -> Table:
    device = spec.device(identity)
    if device is None:
        return [("  -", "-", "-", "removed from the node file")]
    holder = holders.get(identity)
    if holder is None:
        state = "not attached: its container has not started yet"
    elif holder.pod != pod:
        state = "held by %s" % holder.pod
    else:
        state = holder.phase
    return [("  " + rail, address, mac, state) for rail, address, mac in addresses(device)]

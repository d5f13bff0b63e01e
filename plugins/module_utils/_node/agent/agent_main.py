# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""``railyard-agent``: the service that gives pods their rails, and commands for people on the node."""

from __future__ import annotations

import argparse
import sys
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_service import VERSION, Service
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_socket import SOCKET, ask
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import (
    DRA,
    AgentSpec,
    Device,
    read_spec,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import Holder, SlotState
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.prepared_claims import ClaimState
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.pod_resources import given

# The agent answers at once, if it runs.
ANSWER_SECONDS = 2.0
Table = t.List[t.Sequence[str]]


def main(argv: t.Sequence[str] | None = None) -> int:
    """Exit status 0: done; 1: an error, which standard error names with its remedy, or ``status`` shows a problem; 2: a
    wrong command.
    """
    parser = argparse.ArgumentParser("railyard-agent", description="Gives pods the rails of this node.")
    parser.add_argument("--root", default="/", help="put this directory before all paths; for tests")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands.add_parser("run", help="run the service")
    commands.add_parser("status", help="show rails, resources and problems of the running service")
    commands.add_parser("slots", help="show each slot of this node and the pod that holds it")
    explain = commands.add_parser("explain", help="show what a pod on this node has, and what it waits for")
    explain.add_argument("pod", metavar="POD", help="NAME, or NAMESPACE/NAME")
    commands.add_parser("version", help="show the version")
    arguments = parser.parse_args(argv)
    system = System(arguments.root)
    try:
        if arguments.command == "run":
            return Service(system).run()
        if arguments.command == "version":
            sys.stdout.write(VERSION + "\n")
        elif arguments.command == "slots":
            sys.stdout.write(slots(read_spec(system), SlotState(system).holders(), time.time()))
        elif arguments.command == "status":
            document = ask({"do": "status"}, system.path(SOCKET))
            sys.stdout.write(status(document))
            return int(bool(document["problems"]) or not all(row["healthy"] for row in document["rails"]))
        elif arguments.command == "explain":
            sys.stdout.write(explained(system, arguments.pod))
    except RailyardError as error:
        sys.stderr.write("railyard-agent: %s\n" % error)
        return 1
    return 0


def columns(rows: Table) -> str:
    """Rows of equal length as lines, each column as wide as its widest value."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() + "\n" for row in rows)


def status(document: t.Mapping[str, t.Any]) -> str:
    head = "railyard-agent %(version)s, node %(node)s, fabric %(fabric)s, %(attachment)s, RDMA mode %(rdma_mode)s\n"
    rails: Table = [("RAIL", "PORT", "STATE")]
    rails += [(row["rail"], row["port"], "healthy" if row["healthy"] else row["reason"]) for row in document["rails"]]
    resources: Table = [("RESOURCE", "DEVICES", "HELD", "KUBELET")]
    for row in document["resources"]:
        registered = "registered" if row["registered"] else "not registered"
        resources.append((row["resource"], str(row["devices"]), str(row["held"]), registered))
    texts = [head % document, columns(rails), columns(resources)]
    errors = [*document["problems"], *document["attaches"]["errors"].values()]
    return "\n".join(texts + ["%s\n" % "\n".join(errors)] * bool(errors))


def slots(spec: AgentSpec, holders: t.Mapping[str, Holder], now: float) -> str:
    rows: Table = [("DEVICE", "RAIL", "ADDRESS", "MAC", "POD", "CONTAINER", "AGE")]
    for devices in spec.resources().values():
        for device in devices:
            holder = holders.get(device.id)
            held = (holder.pod, holder.container, age(now - holder.since)) if holder else ("-", "-", "-")
            rows += [(device.id, *cells, *held) for cells in addresses(device)]
    return columns(rows)


def addresses(device: Device) -> list[tuple[str, str, str]]:
    """Rail, addresses and MAC of each slot."""
    return [
        (rail, ",".join(str(each) for each in slot.addresses) or "-", slot.mac or "-")
        for rail, slot in device.slots.items()
    ]


def age(seconds: float) -> str:
    """As kubectl shows it: the largest unit that counts at least two, or seconds."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return "%d%s" % (seconds // size, unit)
    return "%ds" % max(0, int(seconds))


def explained(system: System, name: str) -> str:
    """What kubelet gave to a pod, and what of it is attached. Raises :class:`RailyardError` if it has nothing."""
    spec = read_spec(system)
    holders = SlotState(system).holders()
    namespace, slash, pod = name.rpartition("/")

    def named(of_namespace: str, of_pod: str) -> bool:
        return of_pod == pod and (not slash or of_namespace == namespace)

    wanted: dict[str, tuple[str, str]] = {}
    problem = ""
    if spec.kubelet_plugin == DRA:
        for claim in ClaimState(system).claims().values():
            if named(claim.namespace, claim.pod_name):
                wanted.update((device, (claim.pod, "claim " + claim.name)) for device in claim.device_names)
    else:
        problem = _given(system, spec, named, wanted)
    for holder in holders.values():
        if named(holder.pod_namespace, holder.pod_name):
            wanted.setdefault(holder.device, (holder.pod, "container " + holder.container))
    errors: t.Mapping[str, str] = {}
    try:
        errors = ask({"do": "status"}, system.path(SOCKET), ANSWER_SECONDS)["attaches"]["errors"]
    except RailyardError as error:
        problem += "%s\n" % error
    if not wanted:
        raise RailyardError(
            "has no device of %s on node %s" % (spec.resource_prefix, spec.node),
            "pod " + name,
            "see with kubectl describe pod on which node it is and which limits it has",
        )
    text = problem
    for device, (pod_name, user) in sorted(wanted.items()):
        text += "%s %s: %s\n" % (pod_name, user, device)
        text += columns([("  RAIL", "ADDRESS", "MAC", "STATE"), *_states(spec, holders, device, pod_name)])
        if device in errors:
            text += "  %s\n" % errors[device]
    return text


def _given(
    system: System, spec: AgentSpec, named: t.Callable[[str, str], bool], wanted: dict[str, tuple[str, str]]
) -> str:
    """Add what kubelet's device manager gave to the pod. What kept it from answering; empty if it did."""
    try:
        for row in given(system, spec.resource_prefix):
            if named(row.namespace, row.pod):
                pod, user = "%s/%s" % (row.namespace, row.pod), "container " + row.container
                wanted.update((device, (pod, user)) for device in row.devices)
    except RailyardError as error:
        return "%s\n" % error
    return ""


def _states(spec: AgentSpec, holders: t.Mapping[str, Holder], identity: str, pod: str) -> Table:
    device = spec.device(identity)
    if device is None:
        return [("  -", "-", "-", "is not in the node file any more")]
    holder = holders.get(identity)
    if holder is None:
        state = "not attached: its container did not start yet"
    elif holder.pod != pod:
        state = "held by %s" % holder.pod
    else:
        state = holder.phase
    return [("  " + rail, address, mac, state) for rail, address, mac in addresses(device)]

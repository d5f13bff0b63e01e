# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's command line."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import subprocess
import sys
from typing import Any, Callable

from lab import __doc__ as ABOUT
from lab import access, cable, guest_system, leaf, lifecycle, snapshot, state
from lab.cluster import commands as cluster_commands
from lab.cluster import kubelets
from lab.cluster import lifecycle as clusters
from lab.errors import LabError
from lab.progress import say
from lab.state import Lab, node_name

Arguments = argparse.Namespace


def _bounded(what: str, low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError("%s is a number from %d to %d, not %r" % (what, low, high, text))
        return int(text)

    return read


def _percent(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 <= float(text) <= 100:
            return float(text)
    raise argparse.ArgumentTypeError("a share of frames is a number from 0 to 100, not %r" % text)


def _up(arguments: Arguments) -> int:
    spec = lifecycle.Spec(
        arguments.name,
        *(arguments.nodes, arguments.rails, arguments.memory, arguments.cpus, arguments.accel),
        cluster=arguments.cluster,
        system=arguments.system,
        network=arguments.network,
        layout=arguments.layout,
    )
    lifecycle.system_of(spec)  # an impossible option is refused before anything is ended
    if arguments.fresh and arguments.cluster:
        clusters.down(arguments.name)
    lab, changed = lifecycle.up(spec, arguments.fresh)
    if lab.cluster:
        cluster, joined = kubelets.up(lab)
        changed = changed or joined
    print(
        "lab '%s' is up: %d nodes with %d rails each; %s"
        % (lab.name, lab.nodes, lab.rails, "started what was missing" if changed else "changed nothing")
    )
    print("log in with: ssh -F %s %s" % (lab.ssh_config, lab.node_names[0]))
    if lab.cluster:
        print("its nodes are ready: export KUBECONFIG=%s" % shlex.quote(str(cluster.kubeconfig)))
    return 0


def _down(arguments: Arguments) -> int:
    for name in state.names() if arguments.all else [arguments.name]:
        cluster = clusters.down(name)
        if lifecycle.down(name) or cluster:
            say("lab '%s' is down" % name)
        else:
            say("lab '%s' does not exist; nothing to do" % name)
    return 0


def _status(arguments: Arguments) -> int:
    lab = state.load(arguments.name)
    if lab is None and not arguments.json:
        print("lab '%s' does not exist; labs: %s" % (arguments.name, ", ".join(state.guest_names()) or "none"))
        return 1
    if lab is None:
        print("null")
        return 1
    summary: dict[str, Any] = lifecycle.summary(lab)
    if arguments.json:
        print(json.dumps(summary, indent=2))
    else:
        _print_status(lab, summary)
    return 0 if all(node["up"] for node in summary["nodes"]) and summary["leaf_pid"] else 1


def _print_status(lab: Lab, summary: dict[str, Any]) -> None:
    accelerator = "KVM" if lab.accel == "kvm" else "emulated"
    print("lab %s: %d nodes, %d rails, %s, %d MiB a node" % (lab.name, lab.nodes, lab.rails, accelerator, lab.memory))
    print("system %s, network managed by %s" % (lab.system, lab.network))
    print("layout %s" % lab.layout)
    print("image %s" % lab.image)
    print("state %s" % lab.directory)
    for node in summary["nodes"]:
        if node["pid"] is None:
            how = "not running"
        else:
            how = "%s, pid %d, running %d s" % (
                "up" if node["up"] else "does not answer SSH: boots or busy",
                node["pid"],
                node["running_seconds"],
            )
        print("%-8s ssh port %d  %s, disk %d MiB" % (node["name"], node["ssh_port"], how, node["disk_bytes"] >> 20))
    if summary["cables"] is None:
        print("leaf     not running")
    else:
        _print_cables(summary["cables"], only_faults=True)
    tags = snapshot.tags(lab)
    if tags:
        print("snapshots: %s" % ", ".join(tags))


def _print_cables(ports: list[dict[str, Any]], only_faults: bool = False) -> None:
    shown = [port for port in ports if not only_faults or cable.faults(port)]
    if only_faults and not shown:
        print("cables   all %d as they should be" % len(ports))
    for port in shown:
        counts = (
            ""
            if only_faults
            else "  in %-9d out %-9d dropped %-6d"
            % (
                port["received"],
                port["sent"],
                port["dropped"],
            )
        )
        print(
            "%-12s leaf-%d Ethernet%d%s  %s"
            % (
                "%s:%d" % (node_name(port["node"]), port["rail"]),
                port["leaf"],
                port["socket"],
                counts,
                "; ".join([*cable.faults(port), *(["in an aggregate"] if port["aggregate"] else [])]) or "whole",
            )
        )


def _ssh(arguments: Arguments) -> int:
    lab = state.require(arguments.name)
    argv = access.argv(lab, lab.node_number(arguments.node), arguments.command)
    os.execv(argv[0], argv)


def _console(arguments: Arguments) -> int:
    lab = state.require(arguments.name)
    log = lab.console(lab.node_number(arguments.node))
    if not log.exists():
        raise LabError("%s is not there" % log, "lab up --name %s" % lab.name)
    argv = ["tail", "-n", str(arguments.lines), *(["-F"] if arguments.follow else []), str(log)]
    try:
        return subprocess.call(argv)
    except KeyboardInterrupt:
        return 0


def _reboot(arguments: Arguments) -> int:
    lab = state.require(arguments.name)
    node = lab.node_number(arguments.node)
    say("rebooting %s" % node_name(node))
    say("%s is back after %.1f s" % (node_name(node), lifecycle.reboot(lab, node, arguments.hard)))
    return 0


def _snapshot(arguments: Arguments) -> int:
    lab = state.require(arguments.name)
    if arguments.action == "list":
        print("\n".join(snapshot.tags(lab)) or "none")
        return 0
    {"save": snapshot.save, "restore": snapshot.restore, "delete": snapshot.delete}[arguments.action](
        lab, arguments.tag
    )
    past = {"save": "saved", "restore": "restored", "delete": "deleted"}[arguments.action]
    say("snapshot '%s' of lab '%s' %s" % (arguments.tag, lab.name, past))
    return 0


def _cable(arguments: Arguments) -> int:
    lab = state.require(arguments.name)
    message: dict[str, Any] = {"do": arguments.action}
    for key in ("port", "other"):
        if getattr(arguments, key, None):
            message[key] = list(lab.rail_port(getattr(arguments, key)))
    for key in ("bytes", "percent", "chassis", "port_name", "id"):
        if getattr(arguments, key, None) is not None:
            message[key] = getattr(arguments, key)
    if hasattr(arguments, "switch"):
        message["on"] = arguments.switch == "on"
    if arguments.action == "layout":
        with state.changing(lab.name):
            lifecycle.set_layout(lab, arguments.layout)
        arguments.action, message = "show", {"do": "show"}
    if arguments.action == "show":
        ports = cable.command(lab.run, message)
    else:
        with state.changing(lab.name):
            ports = cable.change(lab, message)
    if getattr(arguments, "json", False):
        print(json.dumps(ports, indent=2))
    else:
        _print_cables(ports, only_faults=arguments.action != "show")
    return 0


def _inventory(arguments: Arguments) -> int:
    print(json.dumps(access.inventory(state.require(arguments.name)), indent=2))
    return 0


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    named = argparse.ArgumentParser(add_help=False)
    named.add_argument("--name", default="default", help="which lab (default: %(default)s)")
    top = argparse.ArgumentParser(prog="lab", description=ABOUT)
    commands = top.add_subparsers(dest="command_name", metavar="COMMAND", required=True)

    def add(name: str, act: Callable[[Arguments], int], text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, parents=[named], help=text, description=text[0].upper() + text[1:] + ".")
        command.set_defaults(act=act)
        return command

    up = add("up", _up, "bring the lab up; what is up already is left alone")
    up.add_argument("--nodes", type=_bounded("--nodes", 1, state.MAX_NODES), help="how many guests (default: 2)")
    up.add_argument("--rails", type=_bounded("--rails", 1, state.MAX_RAILS), help="how many rails (default: 8)")
    up.add_argument("--memory", type=_bounded("--memory", 384, 1 << 20), metavar="MIB", help="a guest (default: 1024)")
    up.add_argument(
        "--cpus", type=_bounded("--cpus", 1, 64), help="processors of a guest (default: 2 with KVM, 1 emulated)"
    )
    up.add_argument("--accel", choices=["auto", "kvm", "tcg"], help="default: auto, KVM where it is seen to work")
    up.add_argument(
        "--cluster",
        action="store_true",
        help="guests that are Kubernetes nodes, with a control plane on this machine; each has %d MiB by default"
        % lifecycle.CLUSTER_MEMORY,
    )
    up.add_argument(
        "--system",
        metavar="NAME",
        help="release of the guests: %s, or the host's own (default: the host's own, and %s with --cluster)"
        % (", ".join(guest_system.DEBIAN_RELEASES), guest_system.CLUSTER_SYSTEM),
    )
    up.add_argument(
        "--network",
        choices=list(guest_system.NETWORK_PACKAGES),
        help="what manages the network of the guests, management and rails (default: %s)"
        % guest_system.DEFAULT_NETWORK,
    )
    up.add_argument("--layout", choices=leaf.LAYOUTS, help="which leaves act as one switch (default: rails, none)")
    up.add_argument("--fresh", action="store_true", help="end this lab first and start over with new disks")

    down = add("down", _down, "end the lab's processes, guests and cluster, and remove its disks and state")
    down.add_argument("--all", action="store_true", help="every lab of this checkout")

    status = add("status", _status, "show nodes, cables and faults; exit status 1 when something is not up")
    status.add_argument("--json", action="store_true")

    ssh = add("ssh", _ssh, "log into a node as ops, or run a command there and pass on its exit status")
    ssh.add_argument("node", help="node-1, node-2, ...")
    ssh.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")

    console = add("console", _console, "show the end of a node's serial console")
    console.add_argument("node")
    console.add_argument("-f", "--follow", action="store_true", help="and what comes")
    console.add_argument("-n", "--lines", type=_bounded("--lines", 1, 1 << 20), default=40)

    reboot = add("reboot", _reboot, "reboot a node and wait until it is back")
    reboot.add_argument("node")
    reboot.add_argument("--hard", action="store_true", help="as if by its reset button")

    # The same option after the action too; without a default, which would replace the value given before.
    again = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    again.add_argument("--name", help="which lab")
    _add_snapshot(add("snapshot", _snapshot, "keep the running lab as it is, or take it back to where it was"), again)
    _add_cable(add("cable", _cable, "look at the cables between nodes and leaves, and do things to them"), again)
    add("inventory", _inventory, "print how to reach the nodes, and their rail ports, as JSON")
    cluster_commands.add(commands, add)
    return top


def _add_snapshot(command: argparse.ArgumentParser, named: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("list", parents=[named], help="print the snapshots")
    for action, text in (
        ("save", "keep memory, disks and cables of all nodes as they are now"),
        ("restore", "take all nodes back to that moment"),
        ("delete", "forget a snapshot"),
    ):
        actions.add_parser(action, parents=[named], help=text, description=text).add_argument("tag")


def _add_cable(command: argparse.ArgumentParser, named: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)

    def add(action: str, text: str, *ports: str) -> argparse.ArgumentParser:
        one = actions.add_parser(action, parents=[named], help=text, description=text)
        for port in ports:
            one.add_argument(port, metavar="NODE:RAIL", help="such as node-1:3 or node-1:gpu03")
        return one

    add("show", "every cable with its counters").add_argument("--json", action="store_true")
    add("swap", "exchange two cables at the leaves' end", "port", "other")
    add("cut", "cut a cable: no carrier, no frame", "port")
    add("repair", "repair a cable and plug it where it belongs; without a name, all").add_argument(
        "port", metavar="NODE:RAIL", nargs="?"
    )
    add("mtu", "let no larger packet through, silently", "port").add_argument(
        "bytes", type=_bounded("BYTES", 68, 65535), metavar="BYTES"
    )
    add("loss", "lose this share of frames, each way", "port").add_argument("percent", type=_percent, metavar="PERCENT")
    add("vlan", "drop the frames of a VLAN (off), or pass them again (on)", "port").add_argument(
        "id", type=_bounded("ID", 1, 4094), metavar="ID"
    )
    actions.choices["vlan"].add_argument("switch", choices=["on", "off"])
    add("lacp", "answer the LACP of a bond (on, the default), or ignore it (off)", "port").add_argument(
        "switch", choices=["on", "off"]
    )
    add(
        "layout", "connect the leaves: none, each pair, all, or each pair for bonds alone act as one switch"
    ).add_argument("layout", choices=leaf.LAYOUTS)
    lldp = add("lldp", "let the leaf announce its name and port to the node", "port")
    lldp.add_argument("switch", choices=["on", "off"])
    lldp.add_argument("--chassis", help="the leaf's name (default: leaf-N)")
    lldp.add_argument("--port-name", help="the socket's name (default: EthernetN)")


def main(argv: list[str] | None = None) -> int:
    """Run one command; its exit status."""
    arguments = parser().parse_args(argv)
    try:
        status: int = arguments.act(arguments)
        return status
    except LabError as error:
        print("lab: %s" % error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: interrupted; 'lab up' goes on from here", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0
    except OSError as error:
        place = " (%s)" % error.filename if error.filename else ""
        print(
            "lab: %s%s. Remedy: see that this user may do that here, then try again" % (error.strerror, place),
            file=sys.stderr,
        )
        return 1

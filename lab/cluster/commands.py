# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of the lab's Kubernetes: ``lab cluster ...``, ``lab kubectl ...`` and ``lab helm ...``."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from pathlib import Path
from typing import Any, Callable

from lab.cluster import binaries, lifecycle, state, tools
from lab.errors import LabError
from lab.image import cache_directory
from lab.progress import say

Arguments = argparse.Namespace


def _up(arguments: Arguments) -> int:
    crds = arguments.crds and [str(Path(place).expanduser().resolve()) for place in arguments.crds]
    for place in crds or ():
        if not Path(place).is_dir():
            raise LabError("%s is not a directory" % place, "give a folder of CRD files, or --no-crds")
    names = None if arguments.nodes is None else [name for name in arguments.nodes.split(",") if name]
    spec = lifecycle.Spec(arguments.name, [] if arguments.no_crds else crds, names)
    cluster, done = lifecycle.up(spec, arguments.fresh)
    print("cluster '%s' is up: Kubernetes %s at %s; %s" % (cluster.name, cluster.binaries.version, cluster.url, done))
    print("use it with: export KUBECONFIG=%s" % shlex.quote(str(cluster.kubeconfig)))
    return 0


def _down(arguments: Arguments) -> int:
    for name in state.names() if arguments.all else [arguments.name]:
        if lifecycle.down(name):
            say("the cluster of lab '%s' is down" % name)
        else:
            say("lab '%s' has no cluster; nothing to do" % name)
    return 0


def _status(arguments: Arguments) -> int:
    cluster = state.load(arguments.name)
    if cluster is None:
        names = ", ".join(state.names()) or "none"
        print("null" if arguments.json else "lab '%s' has no cluster; labs with one: %s" % (arguments.name, names))
        return 1
    found = lifecycle.summary(cluster)
    if arguments.json:
        print(json.dumps(found, indent=2))
    else:
        _print(found)
    return 0 if all(part["up"] for part in found["parts"]) else 1


def _print(found: dict[str, Any]) -> None:
    print(
        "cluster %s: Kubernetes %s (%s), %s"
        % (found["name"], found["version"], found["binaries"]["origin"], found["url"])
    )
    print("kubeconfig %s" % found["kubeconfig"])
    for part in found["parts"]:
        if part["pid"] is None:
            how = "not running"
        else:
            up = "up" if part["up"] else "does not answer"
            how = "%s, pid %d, running %d s" % (up, part["pid"], part["running_seconds"])
        print("%-24s %s" % (part["name"], how))
    if found["crds"] is not None:
        print("%-24s %d" % ("CRDs", found["crds"]))
    for node in found["nodes"] or ():
        print("%-24s Ready %s: %s" % (node["name"], node["ready"], node["message"]))


def _programs(_arguments: Arguments) -> int:
    found = binaries.ensure(cache_directory())
    print("Kubernetes %s (%s): %s" % (found.version, found.origin, Path(found.api).parent))
    return 0


def _inventory(arguments: Arguments) -> int:
    """Print the inventory for the agent on this cluster. Its path is relative to the repository."""
    cluster = state.require(arguments.name)
    dra = cluster.dra if arguments.dra is None else arguments.dra == "1"
    if dra and not cluster.dra:
        raise LabError(
            "DRA requires Kubernetes %d.%d or later, and the cluster of lab '%s' is %s"
            % (*state.DRA_SINCE, cluster.name, cluster.binaries.version),
            "lab down --name %s, then point %s at newer programs, or use DRA=0" % (cluster.name, binaries.ASSETS),
        )
    print("inventories/lab-agent" + ("-dra" if dra else ""))
    return 0


def _env(arguments: Arguments) -> int:
    cluster = state.require(arguments.name)
    places = dict.fromkeys(str(Path(tools.ensure(tool, cache_directory())).parent) for tool in ("kubectl", "helm"))
    print("export KUBECONFIG=%s" % shlex.quote(str(cluster.kubeconfig)))
    print("export PATH=%s:$PATH" % ":".join(map(shlex.quote, places)))
    return 0


def _tool(arguments: Arguments) -> int:
    """Replace this process with kubectl or helm, with the cluster's kubeconfig."""
    words: list[str] = arguments.words
    name = "default"
    if words and words[0].startswith("--name="):
        name, words = words[0].partition("=")[2], words[1:]
    elif words and words[0] == "--name" and len(words) > 1:
        name, words = words[1], words[2:]
    cluster = state.require(name)
    program = tools.ensure(arguments.tool, cache_directory())
    os.execve(program, [arguments.tool, *words], {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)})


def add(commands: Any, add_command: Callable[[str, Callable[[Arguments], int], str], argparse.ArgumentParser]) -> None:
    """Add these commands to the lab's."""
    cluster = add_command("cluster", _status, "a real Kubernetes API server beside the guests, or without them")
    named = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    named.add_argument("--name", help="which lab")
    actions = cluster.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, act: Callable[[Arguments], int], text: str) -> argparse.ArgumentParser:
        one = actions.add_parser(name, parents=[named], help=text, description=text[0].upper() + text[1:] + ".")
        one.set_defaults(act=act)
        return one

    up = action("up", _up, "start etcd, API server and controller manager; running parts are not changed")
    schemas = up.add_mutually_exclusive_group()
    schemas.add_argument(
        "--crds",
        action="append",
        metavar="DIR",
        help="apply the CRDs in this folder and those in it; may be repeated, the last one wins"
        " (default: those given before, else tests/schemas)",
    )
    schemas.add_argument("--no-crds", action="store_true", help="apply none")
    up.add_argument(
        "--nodes",
        metavar="NAME,...",
        help="create Node objects of these names, marked as nodes without kubelet, and delete other ones of the lab",
    )
    up.add_argument("--fresh", action="store_true", help="end this cluster first and start over with an empty one")
    down = action("down", _down, "end its processes and remove all that it holds")
    down.add_argument("--all", action="store_true", help="the clusters of every lab of this checkout")
    status = action("status", _status, "show its parts and Node objects; exit status 1 when something is not up")
    status.add_argument("--json", action="store_true")
    action(
        "programs", _programs, "download or build the programs of Kubernetes if they are missing; print the directory"
    )
    inventory = action("inventory", _inventory, "print the inventory for the rail agent on this cluster")
    inventory.add_argument(
        "--dra", choices=["0", "1"], default=None, help="as a DRA driver or not (default: by release)"
    )
    action("env", _env, "print shell commands that make kubectl and helm use it")

    for tool in tools.PROBES:
        text = "run %s on the cluster; the words after it are its own (--name NAME before them: which lab)" % tool
        # With a prefix that is never typed every word is left to the tool, also those that begin with a dash.
        one = commands.add_parser(tool, help=text, add_help=False, prefix_chars="\0")
        one.add_argument("words", nargs=argparse.REMAINDER)
        one.set_defaults(act=_tool, tool=tool)

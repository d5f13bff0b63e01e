# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attach a pod to eight rails on this machine's kernel, by the rail agent and by CNI plugins, without guests.

The agent is called by its packed OCI hook, with and without the check whether another host has an address.
The plugins are Debian's macvlan and host-local, and railyard-rail, for one rail after the other as Multus runs them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import typing as t
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import agent_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_socket import AgentSocket
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.pod_attach import PodAttach
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import SlotState
from benchmarks.figures import PAIRS, ratio, say, spread
from tests.functional.node import test_agent_socket, test_cni_rail
from tests.functional.node.agent_pods import Pod
from tests.functional.node.own_namespace import LiveNode, in_own_namespace
from tests.unit.node.agent_files import document, rail, slot

RAILS = range(1, 9)
CNI, ASKED, UNASKED = "cni", "agent", "agent, no question"


def main() -> int:
    if not test_cni_rail.HAVE:
        sys.exit(
            "no CNI plugins here. Remedy: install containernetworking-plugins, or name their directory in"
            " RAILYARD_CNI_PLUGINS"
        )
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "seconds.json"
        # a scenario runs in a child process
        in_own_namespace(lambda node: _measure(node, file))()
        seconds: dict[str, list[float]] = json.loads(file.read_text())
    for what, text in (
        (CNI, "macvlan, host-local and railyard-rail, rail by rail"),
        (ASKED, "the rail agent, by its hook"),
        (UNASKED, "the rail agent, without asking for other hosts"),
    ):
        say("a pod on %d rails: %s" % (len(RAILS), text), spread(seconds[what], "s"))
        if what != CNI:
            say("  / the plugins", ratio(seconds[what], seconds[CNI]))
    return 0


def _measure(node: LiveNode, file: Path) -> None:
    cni = test_cni_rail.runtime(node, len(RAILS))
    attached = [(test_cni_rail.conflist(number), "net%d" % number) for number in RAILS]
    specs = {what: agent_spec.parse_spec(_document(what == ASKED)) for what in (ASKED, UNASKED)}
    pods = PodAttach(node.system, specs[ASKED], SlotState(node.system))
    socket = AgentSocket(pods, dict)
    socket.start()
    hook = test_agent_socket.program()
    seconds: dict[str, list[float]] = {CNI: [], ASKED: [], UNASKED: []}
    for _pair in range(PAIRS):
        cni.make("pod")
        begun = time.monotonic()
        for conf, name in attached:
            cni.add(conf, "pod", name)
        seconds[CNI].append(time.monotonic() - begun)
        cni.down("pod", attached)
        for what, spec in specs.items():
            pods.spec = spec
            seconds[what].append(_by_agent(hook))
            pods.sweep()
    socket.close()
    file.write_text(json.dumps(seconds))


def _by_agent(hook: str) -> float:
    pod = Pod("a")
    state = json.dumps(pod.state())
    begun = time.monotonic()
    done = subprocess.run([hook, "rails-0"], env={}, input=state, capture_output=True, text=True)
    took = time.monotonic() - begun
    made = pod.links()
    pod.end()
    if done.returncode or len(made) != len(RAILS):
        raise RuntimeError("the hook made %s: %s" % (sorted(made), done.stderr))
    return took


def _document(asks: bool) -> dict[str, t.Any]:
    """Return a node file with the same interfaces as the plugins: IPv4, a table and a rule per rail."""
    rails = [
        rail(
            number,
            gateway6=None,
            mtu=4200,
            sysctl={"arp_ignore": "1", "arp_announce": "2", "rp_filter": "2"},
            slots=[slot(number, 0, "rails", address="172.16.%d.101/24" % (10 + number), address6=None)],
        )
        for number in RAILS
    ]
    return document(*rails, conflict_check=asks)

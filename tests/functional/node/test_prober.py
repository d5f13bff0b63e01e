# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Probers of several nodes, each a network namespace with processes of its own, that test their rails in pairs.

The nodes' rails are veth pairs on a bridge per rail. perftest is a program that moves bytes over TCP; all else is real.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import probe_pairs
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import in_namespace
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import (
    probe_channel,
    probe_listener,
    probe_runs,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe.probe_channel import Channel, PartnerLost
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import management_path
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath
from tests.functional.node.own_namespace import LiveNode, in_own_namespace, ip
from tests.playbook import ROOT
from tests.waiting import wait_for

RUN, TOKEN, LISTEN = "anna@bastion (48213)", "0123456789abcdef" * 4, [40100, 40101]
RAILS = ("gpu01", "gpu02")
Row = t.Dict[str, t.Any]
# As a server it waits for its client, and as a client it sends a few bytes and prints perftest's table.
PERFTEST = """#!%s -IS
import os, socket, sys
if "--help" in sys.argv:
    raise SystemExit
port = int(sys.argv[sys.argv.index("-p") + 1])
if sys.argv[-1][0].isdigit() and sys.argv[-1].count(".") == 3:
    with socket.create_connection((sys.argv[-1], port), 30) as sock:
        sock.sendall(b"x" * 65536)
        sock.shutdown(socket.SHUT_WR)
        sock.recv(1)
    print(" 65536 1000 97.10 96.40 1.62 0.18")
else:
    with socket.create_server(("", port)) as server:
        client = server.accept()[0]
    hook = os.environ.get("RAILYARD_TEST_HOOK")
    if hook:
        os.system(hook)
    while client.recv(65536):
        pass
"""
GID = "0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x"
# As Ansible's connection does it: standard input has the options of a module, and standard output its result.
MODULE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import layer
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import probe_unit
options = json.load(sys.stdin)
try:
    print(json.dumps(getattr(probe_unit, options["mode"])(options, System())))
except Exception as error:
    print(json.dumps(layer.failure(error, options)))
"""


class Node:
    """A node with two rails in a network and mount namespace of its own. ``hook``: runs when a client connects."""

    def __init__(self, live: LiveNode, name: str, number: int, hook: str = "") -> None:
        self.name, self.number = name, number
        self._env = {**os.environ, "PATH": "/run/tools:" + os.environ["PATH"], "RAILYARD_TEST_HOOK": hook}
        self._own = subprocess.Popen(["unshare", "--net", "--mount", "sleep", "3600"])
        live._started.append(self._own)
        here = os.readlink("/proc/self/ns/net")
        wait_for(lambda: os.readlink("/proc/%d/ns/net" % self._own.pid) != here, "no namespace")
        lines = ["mount -t tmpfs run /run", "mkdir /run/tools /run/class", "cp /var/perftest /run/tools/ib_write_bw"]
        lines += ["cp /var/perftest /run/tools/ib_write_lat", "mount -t sysfs sys /sys", "mkdir -p /run/class/net"]
        lines += ["mount --bind /sys/class/net /run/class/net", "ip link set lo up"]
        for rail, address in enumerate(self.addresses, 1):
            end = "n%dr%d" % (number, rail)
            ip("link", "add", end, "type", "veth", "peer", "name", "rail%d" % rail, "netns", str(self._own.pid))
            ip("link", "set", end, "up", "master", "leaf%d" % rail)
            port = "/run/class/infiniband/rxe%d/ports/1" % rail
            lines += ["ip link set rail%d up" % rail, "ip address add %s/24 dev rail%d" % (address, rail)]
            lines += ["mkdir -p %s/gids %s/gid_attrs/types" % (port, port), "echo Ethernet > %s/link_layer" % port]
            lines += ["echo %s > %s/gids/1" % (GID % tuple(map(int, address.split("."))), port)]
            lines += ["echo 'RoCE v2' > %s/gid_attrs/types/1" % port]
        self.run("sh", "-ec", "\n".join([*lines, "mount --rbind /run/class /sys/class"]))

    @property
    def addresses(self) -> list[str]:
        return ["172.16.%d.%d" % (10 + rail, self.number) for rail in (1, 2)]

    def run(self, *command: str, given: str = "") -> str:
        inside = ["nsenter", "--net", "--mount", "--target", str(self._own.pid), *command]
        done = subprocess.run(inside, env=self._env, input=given, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def module(self, mode: str, **options: t.Any) -> Row:
        given = json.dumps({"mode": mode, "run": RUN, "name": self.name, "counters": None, **options})
        command = (sys.executable, "-c", MODULE, str(ROOT / "collections"))
        done: Row = json.loads(self.run(*command, given=given).splitlines()[-1])
        return done

    def root(self, path: str) -> Path:
        return Path("/proc/%d/root%s" % (self._own.pid, path))

    def prober(self, run: str = RUN) -> int:
        """The process group of the prober of a run."""
        row: Row = json.loads((self.root(probe_runs.directory(run, self.name)) / "process.json").read_text())
        return int(row["pid"])

    def processes(self) -> list[str]:
        """The commands in this node's network, except of the node itself."""
        own, found = os.readlink("/proc/%d/ns/net" % self._own.pid), []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if int(name) != self._own.pid and os.readlink("/proc/%s/ns/net" % name) == own:
                    found.append(Path("/proc/%s/cmdline" % name).read_text().replace("\0", " "))
        return found

    def files(self) -> list[str]:
        place = self.root(probe_runs.RUNS_DIR)
        return sorted(os.listdir(place)) if place.exists() else []

    def within(self, work: t.Callable[[], t.Any]) -> t.Any:
        """Do something in this thread's place in the node's network."""
        with open("/proc/%d/ns/net" % self._own.pid, "rb") as namespace:
            return in_namespace.in_namespace(namespace.fileno(), work)


class Cluster:
    """Nodes that are to probe each other in rounds."""

    def __init__(self, live: LiveNode, count: int, hooks: t.Mapping[str, str] = {}) -> None:
        for rail in (1, 2):
            ip("link", "add", "leaf%d" % rail, "type", "bridge")
            ip("link", "set", "leaf%d" % rail, "up")
        Path("/var/perftest").write_text(PERFTEST % os.path.realpath(sys.executable))
        Path("/var/perftest").chmod(0o755)
        names = ["ai-%d" % number for number in range(1, count + 1)]
        self.nodes = {name: Node(live, name, place, hooks.get(name, "")) for place, name in enumerate(names, 1)}
        self.rounds = probe_pairs.rounds(names, 8)

    def options(self, name: str, **more: t.Any) -> Row:
        node, turns = self.nodes[name], []
        for number, pairs in enumerate(self.rounds):
            for server, client in pairs:
                if name in (server, client):
                    other = self.nodes[client if name == server else server]
                    turns.append(self.turn(node, other, number, "serve" if name == server else "probe"))
        ports = [
            {"rail": rail, "device": "rxe%d" % place, "address": address, "pci": None, "netdev": None, "gpu": None}
            for place, (rail, address) in enumerate(zip(RAILS, node.addresses), 1)
        ]
        row: Row = {"token": TOKEN, "name": name, "listen": LISTEN, "addresses": node.addresses, "turns": turns}
        row.update(ports=ports, pod=None, tcp_ports=None, count=2, timeout=2.0, size=65536, iterations=10, lifetime=20)
        row.update(latency=False, begin_seconds=0, silence=3.0, patience=60, test_seconds=60, deadline=300)
        row.update(soak_seconds=0, soak_turns=0)
        return {**row, **more}

    @staticmethod
    def turn(node: Node, other: Node, number: int, mode: str) -> Row:
        rows = list(zip(RAILS, node.addresses, other.addresses))
        targets = [
            {
                "rail": rail,
                "netdev": "rail%d" % place,
                "device": "rxe%d" % place,
                "source": own,
                "address": theirs,
                "mtu": 1500,
            }
            for place, (rail, own, theirs) in enumerate(rows, 1)
        ]
        ways = [{"source": own, "address": theirs} for _rail, own, theirs in rows]
        others = [{"rail": rail, "address": theirs} for rail, _own, theirs in rows]
        common = {"turn": number, "mode": mode, "partner": other.name, "ways": ways, "others": others, "listen": LISTEN}
        return {**common, "targets": targets if mode == "probe" else []}

    def start(self, *names: str, **more: t.Any) -> dict[str, Row]:
        chosen = names or tuple(self.nodes)
        with ThreadPoolExecutor(len(chosen)) as pool:
            started = dict(
                zip(
                    chosen,
                    pool.map(lambda name: self.nodes[name].module("start", **self.options(name, **more)), chosen),
                )
            )
        assert all(row["port"] in LISTEN for row in started.values()), started
        return started

    def collect(self, *names: str, **more: t.Any) -> dict[str, Row]:
        chosen = names or tuple(self.nodes)
        with ThreadPoolExecutor(len(chosen)) as pool:
            return dict(zip(chosen, pool.map(lambda name: self.nodes[name].module("collect", **more), chosen)))


def outcome(found: t.Mapping[str, Row]) -> dict[tuple[str, str], list[bool]]:
    """Client and server -> whether each rail was fine."""
    rows: dict[tuple[str, str], list[bool]] = {}
    for name, result in found.items():
        for row in result.get("results") or ():
            rows.setdefault((name, row["peer"]), []).append(row["ok"])
    return rows


def pairs(cluster: Cluster, *without: str) -> dict[tuple[str, str], list[bool]]:
    every = [(client, server) for each in cluster.rounds for server, client in each]
    return {pair: [True, True] for pair in every if not set(pair) & set(without)}


@in_own_namespace
def test_all_rounds_are_proven_and_nothing_is_left(live: LiveNode) -> None:
    cluster = Cluster(live, 4)
    names = list(cluster.nodes)
    # as with fewer forks than nodes
    cluster.start(*names[:2])
    wait_for(lambda: bool(cluster.nodes["ai-1"].processes()), "no prober")
    cluster.start(*names[2:], latency=True)
    found = cluster.collect(counters={"netdevs": ["rail1"], "devices": []})
    assert outcome(found) == pairs(cluster), [row["error"] for each in found.values() for row in each["results"]]
    assert {row["transfer"]["gbits"] for each in found.values() for row in each["results"]} == {96.4}
    assert {row["transfer"]["gid_index"] for each in found.values() for row in each["results"]} == {1}
    for name, node in cluster.nodes.items():
        assert (found[name]["refused"], found[name]["others"], list(found[name]["counters"]["netdevs"])) == (
            "",
            [],
            ["rail1"],
        )
        assert node.processes() == [] and node.files() == []


@in_own_namespace
def test_a_partner_that_hangs_makes_only_its_own_pairs_fail(live: LiveNode) -> None:
    cluster = Cluster(live, 4)
    cluster.start()
    hung = cluster.nodes["ai-3"].prober()
    os.killpg(hung, signal.SIGSTOP)
    try:
        found = cluster.collect("ai-1", "ai-2", "ai-4")
    finally:
        os.killpg(hung, signal.SIGKILL)
    good = {pair: ok for pair, ok in outcome(found).items() if "ai-3" not in pair}
    assert good == pairs(cluster, "ai-3"), found
    bad = [row for each in found.values() for row in each["results"] if row["peer"] == "ai-3"]
    # packets are answered by its kernel
    assert bad and all(not row["ok"] and row["reach"]["received"] == 2 for row in bad)
    assert all("the other side has no server: ai-3 " in row["error"] for row in bad), bad
    # the control node learns that the results of this node are missing
    (lost,) = cluster.collect("ai-3").values()
    assert lost["failed"] and "the prober of %s does not run on this node" % RUN in lost["msg"]


@in_own_namespace
def test_a_partner_that_dies_in_a_test_makes_only_its_own_pairs_fail(live: LiveNode) -> None:
    kill = "kill -9 -$(sed 's/.*\"pid\": \\([0-9]*\\).*/\\1/' /run/railyard/probe/*/process.json); kill -9 $PPID"
    cluster = Cluster(live, 4, {"ai-3": kill})
    cluster.start()
    found = cluster.collect()
    assert found["ai-3"]["failed"], found
    good = {pair: ok for pair, ok in outcome(found).items() if "ai-3" not in pair}
    assert good == pairs(cluster, "ai-3"), found
    bad = [row for each in found.values() for row in each.get("results") or () if row["peer"] == "ai-3"]
    assert {client for client, server in outcome(found) if server == "ai-3"} == {
        client for client, server in pairs(cluster) if server == "ai-3"
    }
    assert any(not row["ok"] for row in bad)
    # its remaining processes end by themselves, and the next run removes its files
    node = cluster.nodes["ai-3"]
    assert len(node.files()) == 1
    cluster.start("ai-3", run="another run")
    assert node.files() == [os.path.basename(probe_runs.directory("another run", "ai-3"))]
    node.module("stop", run="")
    assert node.files() == []


@in_own_namespace
def test_a_partner_that_answers_wrongly_makes_only_its_own_pairs_fail(live: LiveNode) -> None:
    """It has the token, and sends messages that are invalid or not authentic."""
    cluster = Cluster(live, 4)
    names = [name for name in cluster.nodes if name != "ai-3"]
    cluster.start(*names)
    wrong = cluster.nodes["ai-3"]
    answers: list[t.Callable[[Channel], None]] = [
        lambda channel: channel.send({"served": [{"rail": "gpu09", "port": 1}]}),
        lambda channel: channel.send({"served": "; reboot"}),
        lambda channel: channel._sock.sendall(b"f" * 64 + b' {"served": []}\n'),
    ]
    met: list[str] = []
    end = threading.Event()

    def serve() -> None:
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(socket.create_server((each, LISTEN[0]))) for each in wrong.addresses]
            sockets[0].settimeout(0.2)
            while not end.is_set():
                with contextlib.suppress(OSError, PartnerLost):
                    channel = Channel(sockets[0].accept()[0], probe_channel.SERVER, 10)
                    hello = channel.accept(TOKEN, wrong.name)
                    if not hello.watch:
                        channel.send({"ready": True})
                        while "serve" not in channel.receive():
                            pass
                        answers[len(met) % len(answers)](channel)
                        met.append(hello.name)

    with ThreadPoolExecutor(1) as pool:
        served = pool.submit(wrong.within, serve)
        found = cluster.collect(*names)
        good = {pair: ok for pair, ok in outcome(found).items() if "ai-3" not in pair}
        assert good == pairs(cluster, "ai-3"), found
        end.set()
        served.result()
    bad = [row for each in found.values() for row in each["results"] if row["peer"] == "ai-3"]
    assert met and bad and not any(row["ok"] for row in bad)
    texts = ("ai-3 has sent servers that were not asked for", "ai-3 answered with a message that is not authentic")
    assert all(any(text in row["error"] for text in texts) for row in bad), bad


def closes(sock: socket.socket) -> bool:
    sock.settimeout(60)
    with contextlib.suppress(ConnectionError):
        while sock.recv(4096):
            pass
    return True


@in_own_namespace
def test_clients_without_authentication_are_refused_and_do_not_disturb_a_run(live: LiveNode) -> None:
    cluster = Cluster(live, 2)
    ((_server, client),) = cluster.rounds[0]
    server = cluster.nodes[_server]
    cluster.start(_server)
    port = next(each for each in LISTEN if each in server.within(lambda: listening(LISTEN)))

    def unauthenticated() -> None:
        for address in server.addresses:
            many = [socket.create_connection((address, port)) for _ in range(2 * probe_listener.UNKNOWN_MAX)]
            # all but the newest were closed
            assert all(closes(sock) for sock in many[: -probe_listener.UNKNOWN_MAX])
            for sock in many:
                sock.close()
        for text in (
            b"x" * 65536,
            b"[" * 900 + b"\n",
            b'{"hello": 1, "nonce": "\\ud800", "proof": ""}\n',
            b"\n",
            b"\xff\n",
        ):
            with socket.create_connection((server.addresses[0], port)) as sock, contextlib.suppress(ConnectionError):
                sock.sendall(text)
                assert closes(sock)
        for token, name in (("0" * 64, "ai-1"), (TOKEN, "ai-9")):
            channel = Channel(socket.create_connection((server.addresses[0], port)), probe_channel.CLIENT, 10)
            hello = probe_channel.Hello(client, name, 0, False, False)
            with contextlib.suppress(PartnerLost):
                channel.connect(token, hello)
                raise AssertionError("it was accepted")
        # a node that is not in the schedule is not served, although it has the token
        channel = Channel(socket.create_connection((server.addresses[0], port)), probe_channel.CLIENT, 10)
        channel.connect(TOKEN, probe_channel.Hello("ai-9", _server, 0, False, False))
        with contextlib.suppress(PartnerLost):
            channel.receive()
            raise AssertionError("it was served")

    cluster.nodes[client].within(unauthenticated)
    cluster.start(client)
    assert outcome(cluster.collect()) == pairs(cluster)


def listening(ports: t.Sequence[int]) -> list[int]:
    found = []
    for port in ports:
        with socket.socket() as sock:
            try:
                sock.bind(("", port))
            except OSError:
                found.append(port)
    return found


@in_own_namespace
def test_two_runs_share_nodes_and_report_each_other(live: LiveNode) -> None:
    # a transfer takes a while, so that the runs test at the same time
    cluster = Cluster(live, 2, dict.fromkeys(("ai-1", "ai-2"), "sleep 3"))
    other = "job 12 of AWX, by a schedule (10001)"
    cluster.start()
    for node in cluster.nodes.values():
        wait_for((node.root(probe_runs.directory(RUN, node.name)) / probe_runs.TESTS).exists, "no test begins")
    cluster.start(run=other, token="f" * 64)
    found, others = cluster.collect(), cluster.collect(run=other)
    assert outcome(found) == outcome(others) == pairs(cluster), (found, others)
    for result, name in ((found, other), (others, RUN)):
        assert [[each["run"] for each in row["others"]] for row in result.values()] == [[name], [name]]
    assert all(node.files() == [] and node.processes() == [] for node in cluster.nodes.values())


@in_own_namespace
def test_a_new_start_of_a_run_replaces_its_prober_and_no_other(live: LiveNode) -> None:
    cluster = Cluster(live, 2)
    node = cluster.nodes["ai-1"]
    cluster.start("ai-1")
    cluster.start("ai-1", run="another")
    first, another = node.prober(), node.prober("another")
    cluster.start("ai-1")
    assert node.prober() != first
    wait_for(lambda: not Path("/proc/%d" % first).exists(), "the earlier prober runs")
    assert node.prober("another") == another and Path("/proc/%d" % another).exists()
    node.module("stop", run="")
    assert node.processes() == [] and node.files() == []


@in_own_namespace
def test_at_its_deadline_a_prober_ends_with_its_servers_and_files(live: LiveNode) -> None:
    # the client's program hangs, so that the server waits
    cluster = Cluster(live, 2)
    ((_server, client),) = cluster.rounds[0]
    cluster.nodes[client].root("/run/tools/ib_write_bw").write_text("#!/bin/sh\nexec sleep 600\n")
    cluster.start(deadline=4, lifetime=300)
    waits = cluster.nodes[_server]
    wait_for(lambda: any("ib_write_bw" in each for each in waits.processes()), waits.processes)
    for node in cluster.nodes.values():
        wait_for(lambda node=node: node.processes() == [], node.processes)  # type: ignore[misc]
        assert node.files() == []
    assert all(row["failed"] for row in cluster.collect().values())


@in_own_namespace
def test_no_round_begins_after_the_budget(live: LiveNode) -> None:
    cluster = Cluster(live, 2)
    cluster.start(begin_seconds=0.001)
    found = cluster.collect()
    assert outcome(found) == {} and not any(row["refused"] for row in found.values())


@in_own_namespace
def test_a_node_that_was_not_started_is_given_up_when_the_results_are_collected(live: LiveNode) -> None:
    cluster = Cluster(live, 4)
    names = [name for name in cluster.nodes if name != "ai-2"]
    cluster.start(*names)
    found = cluster.collect(*names)
    good = {pair: ok for pair, ok in outcome(found).items() if "ai-2" not in pair}
    assert good == pairs(cluster, "ai-2"), found
    bad = [row for each in found.values() for row in each["results"] if row["peer"] == "ai-2"]
    assert bad and all(re.search("ai-2 could not be met at .*Connection refused", row["error"]) for row in bad), bad


@in_own_namespace
def test_a_node_without_perftest_or_ports_reports_it_once_and_sends_packets(live: LiveNode) -> None:
    cluster = Cluster(live, 2)
    cluster.nodes["ai-1"].root("/run/tools/ib_write_bw").unlink()
    cluster.start()
    found = cluster.collect()
    assert "perftest: ib_write_bw is not installed" in found["ai-1"]["refused"] and found["ai-2"]["refused"] == ""
    rows = [row for each in found.values() for row in each["results"]]
    assert rows and all(row["reach"]["received"] == 2 and not row["ok"] for row in rows)
    # a range of one port has none for a second rail, and the prober does not listen without a free port
    cluster.start(tcp_ports="40200-40200", run="few")
    found = cluster.collect(run="few")
    few = [each["refused"] for each in found.values() if "are needed" in each["refused"]]
    assert few and "tcp_ports: 1 of the TCP ports 40200-40200 are free, and 2 are needed" in few[0], found
    taken = cluster.nodes["ai-2"]

    def start() -> Row:
        with contextlib.ExitStack() as stack:
            for port in LISTEN:
                stack.enter_context(socket.create_server(("", port)))
            return taken.module("start", **cluster.options("ai-2", run="none"))

    assert start_within(taken, start)["port"] is None
    (row,) = cluster.collect("ai-2", run="none").values()
    assert "tcp_ports: no TCP port of 40100, 40101 is free for the prober: Address already in use" in row["refused"]


def start_within(node: Node, work: t.Callable[[], Row]) -> Row:
    found: Row = node.within(work)
    return found


@in_own_namespace
def test_the_management_address_is_that_of_the_default_route(live: LiveNode) -> None:
    assert management_path.addresses(live.system, ManagementPath.observe(live.system)) == []
    ip("address", "add", "192.0.2.7/24", "dev", "mgmt0")
    ip("address", "add", "169.254.1.1/16", "dev", "mgmt0", "scope", "link")
    ip("route", "add", "default", "dev", "mgmt0")
    live.rail(1)
    ip("address", "add", "172.16.11.7/24", "dev", "rail1")
    assert management_path.addresses(live.system, ManagementPath.observe(live.system)) == ["192.0.2.7"]
    os.environ["SSH_CONNECTION"] = "192.0.2.1 50000 172.16.11.7 22"
    found = management_path.addresses(live.system, ManagementPath.observe(live.system))
    assert found == ["172.16.11.7", "192.0.2.7"]
    # an address of a device in front of the node is not the node's
    os.environ["SSH_CONNECTION"] = "192.0.2.1 50000 203.0.113.5 22"
    assert management_path.addresses(live.system, ManagementPath.observe(live.system)) == ["192.0.2.7"]

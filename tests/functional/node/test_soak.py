# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A soak between real probers, each in a network namespace with processes of its own."""

from __future__ import annotations

import os
import signal
import time
import typing as t

from tests.functional.node.own_namespace import LiveNode, in_own_namespace
from tests.functional.node.test_group_turns import WATCHED, Groups
from tests.functional.node.test_prober import Cluster, Node, Row, outcome, pairs
from tests.waiting import wait_for

# Fails once on one rail when the file is there, and then removes it.
BREAKS = """#!/bin/sh
case "$*" in *172.16.11.*) if [ -e /run/break ]; then rm /run/break; echo "a broken device" >&2; exit 1; fi;; esac
exec /run/tools/real "$@"
"""


def soaked(found: t.Mapping[str, Row]) -> dict[tuple[str, str, str], Row]:
    """Client, server and rail -> what happened in the repetitions."""
    return {
        (name, row["peer"], row["rail"]): row
        for name, result in found.items()
        for row in (result.get("soak") or {"pairs": ()})["pairs"]
    }


def breakable(node: Node) -> None:
    """Let a file of the node break its next transfer as a client on the first rail."""
    program = node.root("/run/tools/ib_write_bw")
    os.rename(program, node.root("/run/tools/real"))
    program.write_text(BREAKS)
    program.chmod(0o755)


def long_enough(cluster: Cluster, **options: t.Any) -> float:
    """Return the seconds in which this machine can repeat all turns, from the time of one pass."""
    began = time.monotonic()
    cluster.start(run="one pass", **options)
    assert outcome(cluster.collect(run="one pass")) == pairs(cluster)
    return 10 + 3 * (time.monotonic() - began)


@in_own_namespace
def test_turns_are_repeated_without_the_control_node_and_all_ends_agree_on_the_end(live: LiveNode) -> None:
    cluster = Groups(live, 3)
    turns = len(cluster.rounds) + len(cluster.groups)
    seconds = long_enough(cluster, group_seconds=1)
    # each prober has its own end, as if the nodes had been started one after the other
    for place, name in enumerate(cluster.nodes):
        cluster.start(name, soak_seconds=seconds - 2 * place, soak_turns=turns, group_seconds=1)
    found = cluster.collect()
    assert outcome(found) == pairs(cluster), found
    rows = soaked(found)
    assert all(row["failed"] == 0 and row["error"] == "" for row in rows.values()), rows
    # pairs and groups are repeated, each client with each of its servers
    assert {(client, server) for client, server, _rail in rows} >= set(pairs(cluster))
    assert all(
        row["transfers"] >= 1 and row["least_gbits"] == 96.4
        for key, row in rows.items()
        if key[2] and row["least_gbits"]
    )
    counts = [result["soak"]["repetitions"] for result in found.values()]
    assert min(counts) >= 1 and max(counts) - min(counts) <= 1, counts
    # the results and groups of the first pass are kept
    assert all(len(result["groups"]) == 3 * 2 for result in found.values())
    assert all(result["soak"]["events"] == [] and not result["refused"] for result in found.values())
    assert all(node.processes() == [] and node.files() == [] for node in cluster.nodes.values())


@in_own_namespace
def test_what_happens_once_in_a_soak_is_counted_with_its_time(live: LiveNode) -> None:
    cluster = Cluster(live, 2)
    ((server, client),) = cluster.rounds[0]
    seconds = 2 * long_enough(cluster)
    breakable(cluster.nodes[client])
    cluster.start(soak_seconds=seconds, soak_turns=len(cluster.rounds), watched=WATCHED)
    # the first pass has ended when the second test begins
    listened = cluster.nodes[client].root("/run/passes")
    cluster.nodes[client].root("/run/tools/ib_write_bw").write_text(
        BREAKS.replace("exec", "echo x >>/run/passes; exec")
    )
    wait_for(lambda: listened.exists() and listened.read_text().count("x") >= 4, "no repetition begins")
    cluster.nodes[client].root("/run/break").write_text("")
    cluster.nodes[client].run("ip", "link", "set", "rail2", "down")
    cluster.nodes[client].run("ip", "link", "set", "rail2", "up")
    found = cluster.collect()
    assert outcome(found) == pairs(cluster), found
    row = soaked(found)[client, server, "gpu01"]
    assert (row["failed"], row["error"]) == (1, "ib_write_bw ended with 1: a broken device") and row["transfers"] > 1
    soak = found[client]["soak"]
    events = [(each["rail"], each["peer"]) for each in soak["events"] if each["rail"] == "gpu01"]
    assert events == [("gpu01", server)]
    flaps = {each["rail"]: each["increase"] for each in soak["increases"] if each["name"] == "carrier_changes"}
    assert flaps.keys() == {"gpu02"} and flaps["gpu02"] >= 1, soak


@in_own_namespace
def test_a_partner_that_dies_in_a_soak_is_named_and_the_others_continue(live: LiveNode) -> None:
    cluster = Cluster(live, 3)
    seconds = 2 * long_enough(cluster)
    cluster.start(soak_seconds=seconds, soak_turns=len(cluster.rounds), watched=WATCHED)
    passes = cluster.nodes["ai-1"].root("/run/passes")
    program = cluster.nodes["ai-1"].root("/run/tools/ib_write_bw")
    text = program.read_text()
    program.write_text(text.replace("import os", "open('/run/passes', 'a').write('x')\nimport os", 1))
    wait_for(lambda: passes.exists() and len(passes.read_text()) >= 8, "no repetition begins")
    os.killpg(cluster.nodes["ai-3"].prober(), signal.SIGKILL)
    found = cluster.collect("ai-1", "ai-2")
    assert {pair: ok for pair, ok in outcome(found).items() if "ai-3" not in pair} == pairs(cluster, "ai-3")
    rows = soaked(found)
    assert all(row["failed"] == 0 for (client, server, _rail), row in rows.items() if "ai-3" not in (client, server))
    lost = [row for (_client, server, _rail), row in rows.items() if server == "ai-3"]
    assert lost and all(row["failed"] for row in lost), rows


@in_own_namespace
def test_a_soak_ends_at_its_deadline_without_the_control_node_and_when_it_is_stopped(live: LiveNode) -> None:
    cluster = Cluster(live, 2)
    cluster.start(soak_seconds=600, soak_turns=len(cluster.rounds), deadline=6)
    for node in cluster.nodes.values():
        wait_for(lambda node=node: node.processes() == [], node.processes)  # type: ignore[misc]
        assert node.files() == []
    cluster.start(soak_seconds=600, soak_turns=len(cluster.rounds))
    for node in cluster.nodes.values():
        node.module("stop")
        assert node.processes() == [] and node.files() == []
    # a budget ends it too
    cluster.start(soak_seconds=600, soak_turns=len(cluster.rounds), begin_seconds=5)
    found = cluster.collect()
    assert all(result["soak"]["seconds"] < 600 for result in found.values())

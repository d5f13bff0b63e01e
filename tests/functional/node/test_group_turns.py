# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many-to-one rounds between real probers, each in a network namespace with processes of its own."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import group_rounds
from tests.functional.node.own_namespace import LiveNode, in_own_namespace
from tests.functional.node.test_prober import LISTEN, RAILS, Cluster, Node, Row, outcome, pairs

WATCHED = {rail: {"netdevs": ["rail%d" % place], "devices": ["rxe%d" % place]} for place, rail in enumerate(RAILS, 1)}
# The RDMA device has counters, which a transfer to the node raises.
HOOK = "for each in /run/class/infiniband/rxe*/ports/1/hw_counters/np_cnp_sent; do echo 12 > $each; done"


class Groups(Cluster):
    """A cluster with many-to-one rounds after its pairs."""

    def __init__(self, live: LiveNode, count: int, hooks: t.Mapping[str, str] = {}) -> None:
        super().__init__(live, count, hooks)
        # the rails on which a client writes
        self.rails = dict.fromkeys(self.nodes, RAILS)
        self.groups = group_rounds.rounds(list(self.nodes), 3, 8)
        for node in self.nodes.values():
            for rail in (1, 2):
                place = node.root("/run/class/infiniband/rxe%d/ports/1/hw_counters" % rail)
                place.mkdir()
                (place / "np_cnp_sent").write_text("5\n")
                (place / "rx_write_requests").write_text("5\n")

    def options(self, name: str, **more: t.Any) -> Row:
        row = super().options(name, watched=WATCHED, group_seconds=2)
        node = self.nodes[name]
        for number, of_round in enumerate(self.groups, len(self.rounds)):
            for server, clients in of_round:
                if name == server:
                    rows = [self._client(node, self.nodes[client], number) for client in clients]
                    turn = {"turn": number, "mode": "gather", "partner": "", "clients": rows}
                    row["turns"].append(turn)
                elif name in clients:
                    turn = self.turn(node, self.nodes[server], number, "probe")
                    row["turns"].append({**turn, "mode": "write"})
        return {**row, **more}

    def _client(self, node: Node, client: Node, number: int) -> Row:
        turn = self.turn(node, client, number, "serve")
        return {"partner": client.name, "ways": turn["ways"], "listen": LISTEN, "rails": list(self.rails[client.name])}


def served(found: t.Mapping[str, Row]) -> dict[tuple[str, str], list[str]]:
    """Server and rail -> the clients that have written."""
    rows = [(name, row) for name, result in found.items() for row in result.get("groups") or () if "clients" in row]
    return {(name, row["rail"]): sorted(row["clients"]) for name, row in rows}


@in_own_namespace
def test_each_node_is_written_to_by_the_others_and_both_ends_read_their_counters(live: LiveNode) -> None:
    cluster = Groups(live, 4, {"ai-2": HOOK})
    names = list(cluster.nodes)
    cluster.start()
    found = cluster.collect()
    assert outcome(found) == pairs(cluster)
    others = {(name, rail): [each for each in names if each != name] for name in names for rail in RAILS}
    assert served(found) == others, found
    written = [(name, row) for name, result in found.items() for row in result["groups"] if "peer" in row]
    # each of the three others writes to each server on two rails
    assert len(written) == 4 * 3 * 2 and {row["gbits"] for _name, row in written} == {96.4}
    assert not any(row["error"] for result in found.values() for row in result["groups"])
    rows = {(name, row["rail"]): row for name, result in found.items() for row in result["groups"] if "clients" in row}
    # a counter of congestion that did not increase is known, and traffic is not one
    assert {name: row["counters"] for (name, rail), row in rows.items() if rail == "gpu01"}["ai-1"] == {
        "np_cnp_sent": 0
    }
    assert all(node.processes() == [] and node.files() == [] for node in cluster.nodes.values())


@in_own_namespace
def test_a_client_that_dies_is_named_and_the_others_still_write(live: LiveNode) -> None:
    # the prober of the client ends itself when it writes for many seconds
    cluster = Groups(live, 4)
    client = cluster.nodes["ai-3"]
    program = client.root("/run/tools/ib_write_bw")
    kill = "kill -9 -$(sed 's/.*\"pid\": \\([0-9]*\\).*/\\1/' /run/railyard/probe/*/process.json)"
    wrapped = '#!/bin/sh\ncase "$*" in *\' -D \'*172.16.*) %s;; esac\nexec /run/tools/real "$@"\n' % kill
    os.rename(program, client.root("/run/tools/real"))
    program.write_text(wrapped)
    program.chmod(0o755)
    cluster.start()
    found = cluster.collect("ai-1", "ai-2", "ai-4")
    assert {pair: ok for pair, ok in outcome(found).items() if "ai-3" not in pair} == pairs(cluster, "ai-3")
    clients = served(found)
    # it died on its first rail of the first group, so the others write to each other without it
    assert clients == {
        (name, rail): [each for each in ("ai-1", "ai-2", "ai-4") if each != name]
        for name in ("ai-1", "ai-2", "ai-4")
        for rail in RAILS
    }, found
    lost = [row["lost"]["ai-3"] for result in found.values() for row in result["groups"] if "lost" in row]
    assert len(lost) == 6 and all("ai-3 " in why for why in lost), lost
    # its own turn as a server has no result
    assert [row["rail"] for result in found.values() for row in result["groups"] if row.get("peer") == "ai-3"] == [
        None
    ] * 3


@in_own_namespace
def test_a_group_without_perftest_or_clients_reports_why(live: LiveNode) -> None:
    cluster = Groups(live, 3)
    cluster.nodes["ai-1"].root("/run/tools/ib_write_bw").unlink()
    cluster.rails["ai-1"] = RAILS[:1]
    cluster.start("ai-1", "ai-2")
    found = cluster.collect("ai-1", "ai-2")
    rows = {name: [row for row in found[name]["groups"] if "clients" in row] for name in ("ai-1", "ai-2")}
    # one client has the other rail
    assert [(row["rail"], row["error"]) for row in rows["ai-2"]] == [("gpu01", "1 of 2 clients were met")]
    assert all(row["lost"] == {"ai-3": "ai-3 did not connect"} and row["clients"] == [] for row in rows["ai-2"])
    assert rows["ai-1"] and all(row["error"] for row in rows["ai-1"])

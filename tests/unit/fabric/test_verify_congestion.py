# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many-to-one rounds and latency tails: who writes to whom, and the verdict about it."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import NodeReport
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.layers import tail_layer
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import group_rounds
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict import verify_engine, verify_output
from tests.unit.fabric.verify_nodes import ABOUT, SERVERS, Row, World, plan

NODE, RAIL = "ai-2", "gpu03"
LOSSLESS, LOSSY = ("qos: {profile: roce-%s}\n" % name for name in ("lossless", "lossy"))
# Codes that this file causes.
CONGESTION_CODES = {"RV866", "RV867", "RV820", "RV821", "RV822", "RV823", "RV824"}


# -- who writes to whom ------------------------------------------------------------------------------------------------


@given(st.integers(0, 60), st.integers(2, 16), st.integers(1, 20))
def test_a_node_is_in_one_group_of_a_round_and_once_a_server(count: int, clients: int, most: int) -> None:
    nodes = ["ai-%d" % number for number in range(count)]
    rounds = group_rounds.rounds(nodes, clients, most)
    assert len(rounds) <= most
    for groups in rounds:
        members = [name for server, each in groups for name in (server, *each)]
        assert len(set(members)) == len(members) and set(members) <= set(nodes)
        assert all(2 <= len(each) <= clients for _server, each in groups)
    servers = [server for groups in rounds for server, _clients in groups]
    assert len(set(servers)) == len(servers)
    if count >= 3 and len(rounds) < most:
        assert set(servers) == set(nodes)
    assert bool(rounds) == (count >= 3)


def test_at_4096_nodes_five_rounds_of_four_clients_reach_each_node() -> None:
    nodes = ["ai-%d" % number for number in range(4096)]
    rounds = group_rounds.rounds(nodes, 4, 8)
    assert len(rounds) == 5 and sum(map(len, rounds)) == 4096
    sizes = [len(clients) for groups in rounds for _server, clients in groups]
    assert sizes.count(4) == 4080 and max(sizes) == 4
    # clients come from all over the inventory
    _server, clients = rounds[0][0]
    assert [int(name[3:]) for name in clients] == [820, 1640, 2460, 3280]


@pytest.mark.parametrize("clients", [1, 17, -3])
def test_numbers_of_clients_that_congest_nothing_are_refused(clients: int) -> None:
    with pytest.raises(RailyardError, match="verify_congestion: %d is not a number of clients" % clients):
        group_rounds.check_clients(clients)
    group_rounds.check_clients(0)


def test_the_turns_of_a_group_have_the_rails_and_the_traffic_class_of_the_plan() -> None:
    world = World(plan(3, SERVERS + LOSSLESS))
    nodes = {name: dict(node, meet=None, management=None) for name, node in world.plans.items()}
    world.plans["ai-3"]["ports"].pop()
    own = nodes["ai-2"]
    turn = group_rounds.write_turn(8, own, nodes["ai-1"], [40000], own, world.fabric, "ethernet")
    assert (turn["turn"], turn["mode"], turn["partner"]) == (8, "write", "ai-1")
    assert [target["tclass"] for target in turn["targets"]] == [26 << 2 | 2] * 4
    turn = group_rounds.gather_turn(8, nodes["ai-1"], [(own, [1]), (nodes["ai-3"], [2])], True, "ethernet")
    assert [(row["partner"], row["listen"], len(row["rails"])) for row in turn["clients"]] == [
        ("ai-2", [1], 4),
        ("ai-3", [2], 3),
    ]
    without = World(plan(3)).fabric
    turn = group_rounds.write_turn(8, own, nodes["ai-1"], [], World(plan(3)).plans["ai-2"], without, "ethernet")
    assert "tclass" not in turn["targets"][0]


# -- the verdict on groups ---------------------------------------------------------------------------------------------


class Congested(World):
    """A fabric whose many-to-one rounds are as planned. Counters have the names of mlx5."""

    def __init__(self, qos: str = LOSSLESS, nodes: int = 5) -> None:
        super().__init__(plan(nodes, SERVERS + qos))
        self.rounds = group_rounds.rounds(list(self.plans), 4, 8)
        self.groups: dict[str, list[Row]] = {name: [] for name in self.plans}
        for name in self.states:
            self.states[name].setdefault("qos", {"changes": [], "gathered": {}})
        for number, groups in enumerate(self.rounds):
            for server, clients in groups:
                for port in self.plans[server]["ports"]:
                    rail = port["rail"]
                    marks = {"np_ecn_marked_roce_packets": 441882, "np_cnp_sent": 12884, "rp_cnp_handled": 0}
                    row = {"turn": number, "rail": rail, "clients": list(clients), "lost": {}, "error": ""}
                    self.groups[server].append(dict(row, counters=marks))
                    for client in clients:
                        counters = {"np_ecn_marked_roce_packets": 0, "np_cnp_sent": 0, "rp_cnp_handled": 3221}
                        row = {"turn": number, "rail": rail, "peer": server, "gbits": 96.5, "error": "", "remedy": ""}
                        self.groups[client].append(dict(row, counters=counters))

    def served(self, rail: str = RAIL) -> Row:
        return next(row for row in self.groups[NODE] if row["rail"] == rail and "clients" in row)

    def written(self, rail: str = RAIL) -> dict[str, Row]:
        """Client -> its row of the group of the node."""
        return {
            name: row
            for name, rows in self.groups.items()
            for row in rows
            if row["rail"] == rail and row.get("peer") == NODE
        }

    def reports(self) -> list[NodeReport]:
        return [each._replace(groups=self.groups.get(each.name, ())) for each in super().reports()]

    def document(self, kind: str = "verify", **asked: t.Any) -> Row:
        groups = [group for each in self.rounds for group in each]
        asked_for = verify_engine.Asked(list(self.plans), **asked)
        verdict = verify_engine.judge(
            kind, self.fabric, self.reports(), asked_for, self.pairs, self.cluster, self.pairs, groups
        )
        self.lines = verify_output.lines(verdict, verify_engine.document(verdict, ABOUT), 120)
        return verify_engine.document(verdict, ABOUT)

    def state(self, verdict: Row, rail: str = RAIL) -> tuple[str, str | None]:
        (row,) = [row for row in verdict["congestion"] if (row["server"], row["rail"]) == (NODE, rail)]
        return row["state"], row["why"]


def found(verdict: Row, *codes: str) -> list[tuple[t.Any, ...]]:
    rows = verdict["failures"] + verdict["warnings"]
    return [(row["code"], row["node"], row["rail"], row["found"]) for row in rows if row["code"] in CONGESTION_CODES]


@pytest.mark.parametrize("qos", [LOSSLESS, LOSSY])
def test_congestion_as_planned_passes(qos: str) -> None:
    world = Congested(qos)
    verdict = world.document()
    assert found(verdict) == []
    assert {row["state"] for row in verdict["congestion"]} == {"pass"} and len(verdict["congestion"]) == 20
    row = verdict["congestion"][0]
    assert (row["gbits"], row["expected_gbits"], len(row["clients"])) == (386.0, 400.0, 4)
    assert "many-to-one: 20 pass; least 386.00 Gb/s" in world.lines
    # without many-to-one rounds, the verdict does not have them
    assert "congestion" not in World(plan(5, SERVERS + qos)).document()


HARMS: list[tuple[str, t.Callable[[Congested], t.Any], str, str, str]] = [
    (
        "leaf does not mark",
        lambda w: w.served()["counters"].update(np_ecn_marked_roce_packets=0, np_cnp_sent=0),
        *("RV821", NODE, "none"),
    ),
    (
        "no CNPs",
        lambda w: w.served()["counters"].update(np_cnp_sent=0),
        *("RV821", NODE, "441,882 packets were marked, and no CNP was sent"),
    ),
    (
        "CNPs are not handled",
        lambda w: [row["counters"].update(rp_cnp_handled=0) for row in w.written().values()],
        *("RV821", NODE, "12,884 CNPs were sent, and none was handled"),
    ),
    (
        "no CNPs, and marks are not counted",
        lambda w: w.served().update(counters={"np_cnp_sent": 0}),
        *("RV821", NODE, "no CNP was sent"),
    ),
    (
        "lost packets",
        lambda w: w.written()["ai-4"]["counters"].update(packet_seq_err=44),
        *("RV822", NODE, "packet_seq_err +44 on ai-4"),
    ),
    (
        "slow",
        lambda w: [row.update(gbits=40.0) for row in w.written().values()],
        *("RV824", NODE, "160.0 Gb/s"),
    ),
    ("unfair", lambda w: w.written()["ai-4"].update(gbits=20.0), "RV823", "ai-4", "20.0 Gb/s"),
    (
        "client dies",
        lambda w: (w.served().update(lost={"ai-4": "ai-4 does not answer"}), w.served()["clients"].remove("ai-4")),
        *("RV820", NODE, "1 client without a result (ai-4 does not answer)"),
    ),
    ("no server", lambda w: w.served().update(error="no port"), "RV820", NODE, "no port"),
    ("server dies", lambda w: w.groups[NODE].remove(w.served()), "RV820", NODE, "the server has no result"),
    (
        "no counters of ECN",
        lambda w: [row.update(counters={"rx_pfc_pause": 0}) for row in (w.served(), *w.written().values())],
        *("RV820", NODE, "ECN was not judged at all points: the NIC has no counter like np_ecn_marked_roce_packets"),
    ),
    (
        "no counters",
        lambda w: [row.update(counters={}) for row in (w.served(), *w.written().values())],
        *("RV820", NODE, "no counter of lost packets could be read"),
    ),
    (
        "one client has a result",
        lambda w: [w.written()[name].update(gbits=None, error="exit 1") for name in ("ai-1", "ai-3", "ai-4")],
        *("RV820", NODE, "1 client with a result (exit 1)"),
    ),
    (
        "a client was not timed",
        lambda w: w.written()["ai-4"].update(gbits=None, unmeasured="perftest could not measure the clock"),
        *("RV820", NODE, "perftest could not measure the clock"),
    ),
]


@pytest.mark.parametrize(("harm", "code", "node", "text"), [row[1:] for row in HARMS], ids=[row[0] for row in HARMS])
def test_one_fault_of_congestion_is_one_finding(
    harm: t.Callable[[Congested], t.Any], code: str, node: str, text: str
) -> None:
    world = Congested()
    harm(world)
    verdict = world.document()
    ((own, place, rail, seen),) = found(verdict)
    assert (own, place, rail) == (code, node, RAIL) and text in seen
    failed, unknown = code in ("RV821", "RV822", "RV824"), code == "RV820"
    assert verdict["ok"] != failed
    assert world.state(verdict)[0] == ("fail" if failed else "unknown" if unknown else "pass")
    # the rail carries traffic: its state does not change, and it is not cordoned
    assert {cell for row in verdict["matrix"].values() for cell in row.values()} == {"ok"}
    assert sum(row["state"] == "pass" for row in verdict["congestion"]) == 20 - (failed or unknown)


@pytest.mark.parametrize(
    ("marked", "sent", "handled"),
    [
        ("rx_ecn_marked_pkts", "tx_cnp_pkts", "rx_cnp_pkts"),
        ("rx_rdma_ecn_pkts", "tx_rdma_cnp_pkts", "rx_rdma_cnp_pkts"),
        ("RxECNMrkd", "cnpSent", "cnpHandled"),
    ],
)
def test_counters_of_other_families_are_known(marked: str, sent: str, handled: str) -> None:
    world = Congested()
    for rows in world.groups.values():
        for row in rows:
            values = row["counters"]
            row["counters"] = dict(zip((marked, sent, handled), values.values()))
    assert found(world.document()) == []
    world.served()["counters"][sent] = 0
    assert found(world.document()) == [("RV821", NODE, RAIL, "441,882 packets were marked, and no CNP was sent")]


def test_lost_packets_are_usual_where_the_plan_does_not_pause() -> None:
    world = Congested(LOSSY)
    world.written()["ai-4"]["counters"]["packet_seq_err"] = 44
    device = world.plans["ai-4"]["ports"][2]["rdma"]["name"]
    world.after["ai-4"]["devices"][device]["packet_seq_err"] += 44
    verdict = world.document()
    assert found(verdict) == [] and "RV861" not in {row["code"] for row in verdict["warnings"]}
    # one more was lost in another round
    world.after["ai-4"]["devices"][device]["packet_seq_err"] += 1
    assert "RV861" in {row["code"] for row in world.document()["warnings"]}


def test_what_cannot_be_judged_is_unknown_and_never_a_pass() -> None:
    without_qos = Congested("")
    assert without_qos.state(without_qos.document()) == ("pass", None)  # the bandwidth is judged
    multipath = Congested("qos: {profile: multipath}\n")
    state, why = multipath.state(multipath.document())
    assert state == "unknown" and why and why.startswith("ECN was not judged: congestion control of the profile")
    concurrent = Congested()
    concurrent.others[NODE] = [{"run": "another", "since": "2026-11-22T10:02:05Z"}]
    assert concurrent.state(concurrent.document()) == ("unknown", "another run measured at the same time")
    soft = Congested()
    soft.use_soft_rdma()
    verdict = soft.document(layers=["reach", "rdma"])
    assert {(row["state"], row["why"]) for row in verdict["congestion"]} == {
        ("unknown", "soft RDMA: shown, not judged")
    }
    assert found(verdict) == [] and verdict["congestion"][0]["gbits"] == 386.0
    assert "many-to-one: 20 unknown; least 386.00 Gb/s (soft RDMA: shown, not judged)" in soft.lines
    # two clients with slower ports do not congest the port
    few = Congested(nodes=3)
    for name in ("ai-1", "ai-3"):
        for port in few.plans[name]["ports"]:
            port["expect"]["speed"] = 200
            few.nic(name, port["rail"])["speed"] = 200000
            few.device(name, port["rail"])["rate"] = 200.0
    state, why = few.state(few.document())
    assert (state, why) == ("unknown", "its clients cannot congest the port: they send 400 Gb/s, and it receives 400")


def test_a_rail_that_fewer_than_two_clients_have_has_no_many_to_one_test() -> None:
    world = Congested()
    for name in ("ai-1", "ai-3", "ai-4"):
        world.plans[name]["ports"] = [port for port in world.plans[name]["ports"] if port["rail"] != RAIL]
    world.groups[NODE].remove(world.served())
    verdict = world.document(layers=["rdma"])
    assert RAIL not in {row["rail"] for row in verdict["congestion"]} and found(verdict) == []


def test_a_rail_that_failed_before_is_not_judged_again() -> None:
    world = Congested()
    world.device(NODE, RAIL).update(state="INIT")
    verdict = world.document()
    assert [row["code"] for row in verdict["failures"]] == ["RV407"]
    assert (NODE, RAIL) not in {(row["server"], row["rail"]) for row in verdict["congestion"]}


# -- tails -------------------------------------------------------------------------------------------------------------


def tailed(nodes: int = 8, rounds: int = 8) -> World:
    """A fabric in which 99 % of messages need at most 2.1 us."""
    world = World(plan(nodes), rounds=rounds)
    for place, rows in enumerate(world.probes.values()):
        for row in rows:
            row["transfer"].update(p99_us=2.0 + place % 3 * 0.05, max_us=4.0)
    return world


def slow_down(world: World, node: str, rails: t.Sequence[str], p99: float, peers: t.Collection[str] = ()) -> None:
    for client, rows in world.probes.items():
        for row in rows:
            ends = {client, row["peer"]}
            if row["rail"] in rails and node in ends and (not peers or ends & set(peers)):
                row["transfer"].update(p99_us=p99, max_us=2 * p99)


def test_equal_tails_are_not_reported() -> None:
    verdict = tailed().document()
    assert found(verdict) == [] and len(verdict["tails"]) == 8 * 4
    assert verdict["tails"][0]["partners"] == 7 and not any(row["straggler"] for row in verdict["tails"])


def test_a_node_that_is_slow_with_all_partners_is_a_straggler_and_its_partners_are_not() -> None:
    world = tailed()
    slow_down(world, NODE, [RAIL], 30.0)
    verdict = world.document()
    expected = "30.00 us or more with all 7 partners (ai-1, ai-3, ai-4, ai-5 and 3 more)"
    assert found(verdict) == [("RV867", NODE, RAIL, expected)] and verdict["ok"]
    assert [(row["node"], row["rail"]) for row in verdict["tails"] if row["straggler"]] == [(NODE, RAIL)]


def test_a_path_that_is_slow_between_two_nodes_is_a_tail_of_the_pair() -> None:
    world = tailed()
    slow_down(world, NODE, [RAIL], 30.0, ["ai-5"])
    ((code, _node, rail, seen),) = found(world.document())
    assert (code, rail, seen) == ("RV866", RAIL, "30.00 us, the slowest 60.00 us")


@pytest.mark.parametrize("p99", [3.9, 5.9])
def test_noise_is_not_reported(p99: float) -> None:
    world = tailed()
    slow_down(world, NODE, [RAIL], p99)
    assert found(world.document()) == []


def test_tails_of_few_pairs_of_soft_rdma_and_beside_another_run_are_not_judged() -> None:
    few = tailed(2, rounds=1)
    slow_down(few, NODE, [RAIL], 300.0)
    assert found(few.document()) == []
    soft = tailed()
    soft.use_soft_rdma()
    slow_down(soft, NODE, [RAIL], 300.0)
    assert "tails" not in soft.document(layers=["rdma"])
    assert [row[:3] for row in found(soft.document(layers=["rdma"], soft=True))] == [("RV867", NODE, RAIL)]
    concurrent = tailed()
    slow_down(concurrent, NODE, [RAIL], 300.0)
    concurrent.others[NODE] = [{"run": "another", "since": "2026-11-22T10:02:05Z"}]
    assert found(concurrent.document()) == []


@given(st.lists(st.floats(1.0, 2.0), min_size=8, max_size=40), st.integers(0, 3), st.floats(7.0, 1e6))
def test_a_few_slow_values_do_not_hide_themselves(values: list[float], slow: int, tail: float) -> None:
    limit = tail_layer.limit([*values, *[tail] * slow])
    assert max(values) <= limit and (not slow or tail > limit or tail < 2 * limit)


# -- bandwidth of soft RDMA --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share,slow", [(0.33, True), (0.6, False)])
def test_soft_rdma_far_below_the_median_is_slow_only_with_the_option(share: float, slow: bool) -> None:
    world = tailed()
    world.use_soft_rdma()
    for client, rows in world.probes.items():
        for row in rows:
            row["transfer"]["gbits"] = 0.3 * (share if (client, row["rail"]) == (NODE, RAIL) else 1)
    assert world.document(layers=["rdma"])["failures"] == []
    failures = world.document(layers=["rdma"], soft=True)["failures"]
    assert [(row["code"], row["node"], row["rail"]) for row in failures] == [("RV853", NODE, RAIL)] * slow
    assert not slow or (failures[0]["found"], "0.15 Gb/s or more" in failures[0]["expected"]) == ("0.099 Gb/s", True)

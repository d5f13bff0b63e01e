# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan, live nodes, discovery, and the same plan again; and findings where nodes do not agree."""

from __future__ import annotations

import copy
import random
import re
import typing as t
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover import (
    discover_addresses,
    discover_findings,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_build import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.discover.discover_run import (
    NodeInfo,
    Outcome,
    as_table,
    counts,
    run,
    summary,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.module_options import port_options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_matching import identify
from tests import yaml_text
from tests.unit.fabric import live_nodes

ROOT = Path(__file__).resolve().parents[3]
WORKED = sorted(path.parent.name for path in (ROOT / "inventories").glob("*/fabric.yml"))
MODULES = ("rail_ports", "sriov_vfs", "rdma_link")
Row = t.Dict[str, t.Any]
# Where neither RDMA devices nor netdevs have the rails' names.
# Pods use their storage rails without VFs, which no node shows.
STORAGE_OF_PODS = ("vlan-roce",)
TEMPLATES = {
    **{"infiniband-sriov": "gpu{n:02}", "ipoib": "gpu{n:02}", "ib-compute-roce-storage": "gpu{n:02}"},
    "vera-rubin": "gpu{n:02}",
}


def plan_of(name: str) -> Plan:
    return planned((ROOT / "inventories" / name / "fabric.yml").read_text(encoding="utf-8"))


def planned(text: str) -> Plan:
    outcome = lint(text.encode())
    assert outcome.plan, [finding.text() for finding in outcome.findings]
    return outcome.plan


def options_of(plan: Plan, template: str | None = None) -> Options:
    """What no node can report."""
    fabric = plan.fabric
    return Options(
        name=fabric.mac_seed or fabric.name, attachment=fabric.attachment, provider=fabric.provider, rails=template
    )


def on_hosts(plan: Plan, infos: t.Sequence[NodeInfo]) -> dict[str, Row]:
    """The options of each module on each node, without VF attributes that are not set."""
    found: dict[str, Row] = {}
    live = {each.name: each.result for each in infos}
    for each in plan.nodes:
        node = identify(plan.node_vars(each), live[each.node.name]["nics"])
        found[each.node.name] = {module: port_options(node["ports"], module) for module in MODULES}
        for port, options in zip(node["ports"], found[each.node.name]["rail_ports"]):
            options["pci"] = port["pci"]
        for port in found[each.node.name]["sriov_vfs"]:
            port["attributes"] = [
                {key: value for key, value in vf.items() if key == "index" or value != live_nodes.UNSET[key]}
                for vf in port["attributes"]
            ]
    return found


def codes(outcome: Outcome) -> set[str]:
    return {finding.code for finding in outcome.findings}


def of(outcome: Outcome, code: str) -> list[discover_findings.DiscoverFinding]:
    return [finding for finding in outcome.findings if finding.code == code]


# Nothing on the guests shows that two cards, or the members of a bond, are planes of a rail.
@pytest.mark.parametrize("name", [name for name in WORKED if name != "lab-planes"])
def test_discovery_of_a_worked_inventory_gives_the_same_plan(name: str) -> None:
    plan = plan_of(name)
    infos = live_nodes.nodes_of(plan)
    outcome = run(infos, options_of(plan, TEMPLATES.get(name)))
    again = planned(outcome.text)
    assert on_hosts(again, infos) == on_hosts(plan, infos)
    one, other = plan.document(), again.document()
    for key in ("name", "attachment", "attachments", "provider", "rdma_mode", "link_layer", "routing", "rails"):
        assert one["fabric"][key] == other["fabric"][key] or (key == "attachments" and name in STORAGE_OF_PODS), key
    for left, right in zip(one["nodes"], other["nodes"]):
        assert (left["name"], left["index"]) == (right["name"], right["index"])
        for before, after in zip(left["ports"], right["ports"]):
            for key in ("rail", "number", "base", "plane", "mtu", "table", "rule_priority"):
                assert before[key] == after[key], key
            assert plan.fabric.rails[0].schemes == {} or before["address"] == after["address"]
            if not name.startswith("lab"):
                assert before["gpus"] == after["gpus"]
    addresses = {each.node.name: each.node.address for each in plan.nodes}
    assert {each.node.name: each.node.address for each in again.nodes} == addresses
    # DS310: nodes do not show how large their blocks are
    assert counts(outcome.findings)["error"] == (1 if plan.fabric.provider == "cni" else 0), as_table(outcome.findings)
    assert "DS404" not in codes(outcome)


def test_rails_without_kubernetes_get_no_addresses_for_pods() -> None:
    plan = plan_of("lab-planes")
    text = run(live_nodes.nodes_of(plan), options_of(plan)).text
    assert "pods" not in text and planned(text).fabric.provider == "none"


@pytest.mark.parametrize("name", WORKED)
def test_the_order_of_answers_does_not_matter(name: str) -> None:
    plan = plan_of(name)
    infos = live_nodes.nodes_of(plan)
    options = options_of(plan)
    assert run(list(reversed(infos)), options).text == run(infos, options).text


# -- any fabric --------------------------------------------------------------------------------------------------------

FABRIC = """
plugin: railyard.fabric.rails
fabric: {{name: ai, attachment: {attachment}, provider: {provider}, mtu: {mtu}, routing: {routing}{vfs}}}
addresses: {addresses}
rails: {{count: {rails}, name: "gpu{{n:02}}"}}
profiles: {{box: {{ports: {ports}}}}}
nodes:
{nodes}
"""


@st.composite
def fabrics(draw: st.DrawFn) -> str:
    rails, count = draw(st.integers(1, 8)), draw(st.integers(2, 12))
    mode = draw(st.sampled_from(("subnet", "prefix", "link")))
    first = draw(st.integers(1, 40))
    sriov = mode != "link" and draw(st.booleans())
    addresses: Row = {"mode": mode, "supernet": "10.%d.0.0/16" % draw(st.integers(1, 250)), "rail_prefix": 19}
    routing: Row = {"cross_rail": draw(st.booleans()), "first_table": draw(st.sampled_from((101, 300)))}
    if mode == "subnet":
        addresses.update(rail_prefix=24, hosts=".%d-.250" % draw(st.integers(101, 160)), pods=".1-.100", gateway=".254")
        routing = {"cross_rail": True}
    elif mode == "prefix":
        addresses["node_prefix"] = draw(st.integers(26, 28))
        addresses["gateway"] = draw(st.sampled_from(("first", "last")))
        addresses["host"] = draw(st.sampled_from(("first", "last")))
    else:
        addresses["leaf_end"] = draw(st.sampled_from(("first", "second")))
    if draw(st.booleans()) and mode != "subnet":
        routing = {"mode": "destination"}
    names = [
        "ai-%d" % number
        for number in sorted(draw(st.sets(st.integers(first, first + 40), min_size=count, max_size=count)))
    ]
    ports = {}
    for number in range(1, rails + 1):
        port = {"netdev": "rail%02d", "pci": "0000:%02x:00.0", "rdma": "mlx5_gpu%02d"}
        numbers = {"netdev": number, "pci": 8 * number, "rdma": number}
        ports["gpu%02d" % number] = dict({key: port[key] % numbers[key] for key in port}, gpu=number - 1)
    return FABRIC.format(
        attachment="sriov" if sriov else "host-device" if mode == "link" else "macvlan",
        provider="network-operator",
        mtu=draw(st.sampled_from((4200, 9000))),
        routing=yaml_text.dump(routing, default_flow_style=True).strip(),
        vfs=", vfs: {count: %d, trust: true}" % draw(st.integers(1, 8)) if sriov else "",
        addresses=yaml_text.dump(addresses, default_flow_style=True).strip(),
        rails=rails,
        ports=yaml_text.dump(ports, default_flow_style=True, width=10000).strip(),
        nodes="\n".join("  %s: {profile: box}" % name for name in names),
    )


@given(fabrics())
def test_discovery_of_any_plan_gives_the_same_plan(text: str) -> None:
    raw = lint(text.encode())
    if raw.plan is None:
        # RY815: what nv-ipam cannot give; the address arithmetic is what this is about
        text = text.replace("network-operator", "spiderpool").replace("host-device", "macvlan")
        raw = lint(text.encode())
    assert raw.plan, [finding.text() for finding in raw.findings]
    infos = live_nodes.nodes_of(raw.plan)
    outcome = run(infos, options_of(raw.plan))
    again = lint(outcome.text.encode()).plan
    assert again, outcome.text + "\n".join(finding.text() for finding in outcome.lint)
    assert on_hosts(again, infos) == on_hosts(raw.plan, infos), outcome.text
    assert not of(outcome, "DS302") and not of(outcome, "DS305") and not of(outcome, "DS308")


def test_nv_ipams_pods_begin_with_the_subnet() -> None:
    """Also where more addresses are free behind the hosts."""
    text = FABRIC.format(
        attachment="sriov",
        provider="network-operator",
        mtu=4200,
        routing="{}",
        vfs=", vfs: {count: 1}",
        addresses="{supernet: 10.1.0.0/16, rail_prefix: 24, hosts: .101-.250, pods: .1-.100, gateway: .254}",
        rails=1,
        ports="{gpu01: {netdev: rail01, pci: '0000:08:00.0', rdma: mlx5_gpu01, gpu: 0}}",
        nodes="  ai-1: {profile: box}\n  ai-2: {profile: box}",
    )
    plan = lint(text.encode()).plan
    assert plan
    outcome = run(live_nodes.nodes_of(plan), options_of(plan))
    assert "pods: 10.1.0.1-10.1.0.100" in outcome.text
    assert lint(outcome.text.encode()).plan


@pytest.mark.parametrize("mode", ["prefix", "subnet"])
def test_a_router_known_by_its_link_local_address_is_written_down(mode: str) -> None:
    addresses = {
        "prefix": 'mode: prefix, node_prefix: 27, node_prefix6: 64, gateway6: "fe80::1"',
        "subnet": 'hosts: .0.1-.0.99, gateway: .255.254, hosts6: "::1-::99", gateway6: "fe80::1"',
    }[mode]
    text = FABRIC.format(
        attachment="macvlan",
        provider="cni",
        mtu=4200,
        routing="{}",
        vfs="",
        addresses="{supernet: 10.0.0.0/8, rail_prefix: 16, supernet6: 'fd00::/32', rail_prefix6: 48, %s}" % addresses,
        rails=1,
        ports="{gpu01: {netdev: rail01, pci: '0000:08:00.0', rdma: mlx5_gpu01, gpu: 0}}",
        nodes="  ai-1: {profile: box}\n  ai-2: {profile: box}\n  ai-3: {profile: box}",
    )
    plan = lint(text.encode()).plan
    assert plan, [finding.text() for finding in lint(text.encode()).findings]
    infos = live_nodes.nodes_of(plan)
    outcome = run(infos, options_of(plan))
    assert "fe80::1" in outcome.text
    again = lint(outcome.text.encode()).plan
    assert again, outcome.text + "\n".join(finding.text() for finding in outcome.lint)
    assert on_hosts(again, infos) == on_hosts(plan, infos), outcome.text


NULLABLE = ("netdev", "mtu", "carrier", "link_layer", "speed", "slot", "serial", "management_path", "pcie", "mac")


@pytest.mark.parametrize("name", ["macvlan-roce", "sriov-roce-prefix", "mixed-models", "lab-sriov", "dual-stack"])
@pytest.mark.parametrize("seed", range(12))
def test_incomplete_nodes_give_findings(name: str, seed: int) -> None:
    """Values that kernel or driver do not report, or that need root, give findings and never an exception."""
    draw = random.Random(seed)
    infos = live_nodes.nodes_of(plan_of(name))[:4]
    for each in infos:
        for row in each.result["nics"]:
            row.update(dict.fromkeys(draw.sample(NULLABLE, draw.choice((0, 0, 1, 2)))))
        for row in each.result["vfs"]:
            row["attributes"] = draw.choice((None, row["attributes"]))
        for part in each.result["ip"].values():
            del part[draw.randint(0, 40) :]
        for key in draw.sample(("system", "rdma", "gpus", "vfs", "ip", "nics"), draw.choice((0, 0, 1))):
            del each.result[key]
    outcome = run(infos, Options(name="ai"))
    assert outcome.text == run(infos, Options(name="ai")).text
    if outcome.text:
        read = yaml_text.load(outcome.text)
        assert read["rails"] and read["profiles"] and read["nodes"]
        # Lint can read all of it; only a rail without addresses, which is reported (DS301), misses its subnet.
        assert not {finding.code for finding in outcome.lint if finding.code < "RY2"} - {"RY111"}, outcome.lint
        if not any(finding.severity == "error" for finding in outcome.findings):
            wrong = {finding.code for finding in lint(outcome.text.encode()).errors}
            # A port without a netdev is reported (DS102), and macvlan needs one, the same on all models. Where no node
            # shows VFs, how many there are to be is left to lint.
            assert wrong <= {"RY611", "RY808", "RY809"}, [finding.text() for finding in outcome.lint]


def test_nodes_of_any_index_are_folded_into_ranges() -> None:
    plan = plan_of("routed-31")
    nodes = yaml_text.load(run(live_nodes.nodes_of(plan), options_of(plan)).text)["nodes"]
    assert list(nodes) == ["b300-su%d-[01:32]" % unit for unit in range(1, 5)]
    assert nodes["b300-su2-[01:32]"]["index"] == "[33:64]" and "index" not in nodes["b300-su1-[01:32]"]


def test_names_with_more_digits_are_a_second_range() -> None:
    """node01 to node99, and then node100: no range has both. The address may be a name, too."""
    text = (ROOT / "inventories" / "macvlan-roce" / "fabric.yml").read_text(encoding="utf-8")
    entry = 'ai-10-1-16-[1:2]: {profile: hgx-cx5, address: "10.1.16.[1:2]"}'
    assert entry in text
    text = re.sub(r"pods: .*}", "pods: .121-.253, hosts: .1-.120}", text)
    text = text.replace(
        entry,
        'node[01:99]: {profile: hgx-cx5, address: "bmc[01:99]"}\n  '
        'node[100:120]: {profile: hgx-cx5, address: "bmc[100:120]"}',
    )
    plan = planned(text.replace("reserved: {nodes: 10.1.16.0/24, pods: .121-.253, hosts: .1-.120}", ""))
    outcome = run(live_nodes.nodes_of(plan), options_of(plan))
    nodes = yaml_text.load(outcome.text)["nodes"]
    assert {name: own["address"] for name, own in nodes.items()} == {
        "node[01:99]": "bmc[01:99]",
        "node[100:120]": "bmc[100:120]",
    }
    assert lint(outcome.text.encode()).plan, outcome.lint


# -- what does not agree -----------------------------------------------------------------------------------------------


def text_of_six() -> str:
    text = (ROOT / "inventories" / "macvlan-roce" / "fabric.yml").read_text(encoding="utf-8")
    return text.replace("[1:2]", "[1:6]")


@pytest.fixture
def infos() -> list[NodeInfo]:
    """Six nodes like those of the inventory."""
    return live_nodes.nodes_of(planned(text_of_six()))


def look(infos: t.Sequence[NodeInfo], **more: t.Any) -> Outcome:
    options = {"name": "ai-10-1-16", "attachment": "macvlan", "provider": "spiderpool"}
    return run(infos, Options(**dict(options, **more)))


def address(infos: list[NodeInfo], node: int, netdev: str, text: str) -> None:
    for row in infos[node].result["ip"]["addresses"]:
        if row["netdev"] == netdev:
            row["address"] = text


def nic(infos: list[NodeInfo], node: int, netdev: str) -> Row:
    return next(row for row in infos[node].result["nics"] if row["netdev"] == netdev)


def test_only_values_that_nodes_do_not_show_are_findings(infos: list[NodeInfo]) -> None:
    assert codes(look(infos)) == {"DS306"}
    assert codes(look(infos, given={"pods": ".1-.200"})) == set()
    bare = run(infos, Options())
    assert codes(bare) == {"DS306", "DS501", "DS502", "DS503"} and "name: discovered" in bare.text


def test_an_address_that_is_not_at_its_place(infos: list[NodeInfo]) -> None:
    address(infos, 3, "enp13s0f0np0", "172.16.13.250/24")
    outcome = look(infos)
    (finding,) = of(outcome, "DS302")
    assert (finding.place, finding.nodes) == (("rails", "gpu03"), ("ai-10-1-16-4",))
    assert finding.message == "the node has 172.16.13.250, but the plan has 172.16.13.204"
    assert re.search(
        r"# DECIDE unexpected-address \(DS302\): the node has 172.16.13.250.*\n(  # .*\n)*  gpu03:", outcome.text
    )
    assert lint(outcome.text.encode()).plan


def test_a_stray_address_widens_no_subnet() -> None:
    infos = live_nodes.nodes_of(plan_of("routed-31"))
    address(infos, 5, "r2p2", "10.192.63.10/31")
    outcome = run(infos, Options(name="ai-routed"))
    (finding,) = of(outcome, "DS302")
    assert (finding.place, finding.nodes) == (("rails", "r2p2"), ("b300-su1-06",))
    planes = yaml_text.load(outcome.text)["rails"]["r2"]["planes"]
    assert planes[1]["subnet"] == "10.192.48.0/24"
    assert re.search(
        r"# DECIDE unexpected-address \(DS302\): the node has 10.192.63.10.*\n"
        r"( +# .*\n)* +- {mode: link, subnet: 10.192.48.0/24",
        outcome.text,
    )


def test_rails_of_different_nodes_have_addresses_at_their_places() -> None:
    # only one node has two rails, and its addresses on them disagree with the other nodes
    places = [{"c": 5, "a": 2}, {"d": 1}, {"d": 4, "b": 3}, {"b": 5}]
    tracks = [
        discover_addresses.Track("gpu%02d" % rail, 32, discover_addresses.SUBNET, 1, dict(units), dict(units), {}, {})
        for rail, units in enumerate(places, 1)
    ]
    result = discover_addresses.InferredAddresses()
    discover_addresses._indexes(tracks, dict.fromkeys("abcd"), result, discover_findings.Findings())
    assert all(track.fitting for track in tracks)
    assert sorted(result.indexes) == list("abcd") and min(result.indexes.values()) >= 1


def test_explicit_indexes_if_names_do_not_give_them() -> None:
    # The gateway is where the node with index 1 would be; then names have no numbers.
    infos = live_nodes.nodes_of(planned(text_of_six()))[1:]
    for each in infos:
        number = int(each.name[-1])
        for row in each.result["ip"]["addresses"]:
            row["address"] = re.sub(r"\.\d+/24", ".%d/24" % number, row["address"])
        for row in each.result["ip"]["routes"]:
            row["via"] = row["via"] and re.sub(r"\.254$", ".1", row["via"])
        each.result["ip"]["rules"].clear()
    outcome = look(infos)
    assert yaml_text.load(outcome.text)["nodes"]["ai-10-1-16-[2:6]"]["index"] == "[1:5]"
    assert "hosts: 172.16.11.2-172.16.11.6" in outcome.text and not of(outcome, "DS302") and not outcome.lint
    named = [each._replace(name=name) for each, name in zip(infos, ("mars", "venus", "ceres", "juno", "vesta"))]
    nodes = yaml_text.load(look(named).text)["nodes"]
    assert {name: own["index"] for name, own in nodes.items()} == {
        "mars": 1,
        "venus": 2,
        "ceres": 3,
        "juno": 4,
        "vesta": 5,
    }


def test_a_node_without_addresses_has_room(infos: list[NodeInfo]) -> None:
    infos[5].result["ip"] = {"addresses": [], "routes": [], "rules": []}
    outcome = look(infos)
    assert codes(outcome) == {"DS306", "DS311"} and of(outcome, "DS311")[0].nodes == ("ai-10-1-16-6",)
    again = planned(outcome.text)
    assert again.node_vars(again.nodes[5])["ports"][0]["address"] == "172.16.11.206/24"


def test_an_address_of_another_rail(infos: list[NodeInfo]) -> None:
    address(infos, 1, "enp11s0f0np0", "172.16.12.202/24")
    address(infos, 1, "enp12s0f0np0", "172.16.11.202/24")
    found = [(finding.place, finding.message, finding.nodes) for finding in of(look(infos), "DS302")]
    assert found == [
        (("rails", "gpu01"), "172.16.12.202 is not in 172.16.11.0/24", ("ai-10-1-16-2",)),
        (("rails", "gpu02"), "172.16.11.202 is not in 172.16.12.0/24", ("ai-10-1-16-2",)),
    ]


def test_one_address_twice(infos: list[NodeInfo]) -> None:
    address(infos, 4, "enp14s0f0np0", "172.16.14.201/24")
    (finding,) = of(look(infos), "DS305")
    assert finding.message == "172.16.14.201 is on gpu04 of ai-10-1-16-1 and on gpu04 of ai-10-1-16-5"


def test_another_prefix_length_gateway_mtu_table_and_a_second_address(infos: list[NodeInfo]) -> None:
    address(infos, 2, "enp11s0f0np0", "172.16.11.203/23")
    ip = infos[1].result["ip"]
    next(row for row in ip["routes"] if row["via"] == "172.16.12.254")["via"] = "172.16.12.253"
    ip["addresses"].append({"netdev": "enp13s0f0np0", "address": "192.0.2.1/24", "secondary": False})
    for row in ip["rules"]:
        row["table"] = 250 if row["table"] == 104 else row["table"]
    nic(infos, 5, "enp15s0f0np0")["mtu"] = 1500
    nic(infos, 5, "enp16s0f0np0")["carrier"] = False
    outcome = look(infos)
    assert codes(outcome) >= {"DS304", "DS307", "DS303", "DS308", "DS401", "DS212"}
    assert of(outcome, "DS401")[0].message == "a port has the MTU 1500, but the plan has 4200"
    assert of(outcome, "DS308")[0].nodes == ("ai-10-1-16-2",) and of(outcome, "DS212")[0].nodes == ("ai-10-1-16-6",)
    assert of(outcome, "DS308")[0].message == "the port's routing table is 250, but the plan has 104"
    assert "gateway: 172.16.12.254" in outcome.text


def given(infos: t.Sequence[NodeInfo], address: str, **more: t.Any) -> None:
    """An address for a time on each port, in the order of the kernel, which is arbitrary."""
    for number, each in enumerate(infos, 1):
        for row in each.result["nics"]:
            if row["netdev"]:
                found = {"netdev": row["netdev"], "address": address % number, "secondary": False, "dynamic": True}
                each.result["ip"]["addresses"].insert(0, dict(found, **more))


def test_addresses_from_routers_and_dhcp_are_findings_and_not_used(infos: list[NodeInfo]) -> None:
    before = look(infos)
    # as leaves advertise it, with routes of theirs; the NIC of the management network has a lease, as it should
    given(infos, "2001:db8:77::%d/64")
    for each in infos:
        ways = [{"netdev": row["netdev"], "via": "fe80::1", "table": None} for row in each.result["nics"]]
        each.result["ip"]["routes"] += [dict(way, to="2001:db8::/32", dynamic=True) for way in ways]
    outcome = look(infos)
    found = of(outcome, "DS312")
    assert [finding.place[1] for finding in found] == ["gpu%02d" % rail for rail in range(1, 9)]
    assert {finding.nodes for finding in found} == {tuple(each.name for each in infos)}
    assert {finding.message for finding in found} == {
        "ports have temporary IPv6 addresses, such as 2001:db8:77::1/64, from DHCP or router advertisements"
    }
    assert codes(outcome) - codes(before) == {"DS312"}
    assert yaml_text.load(outcome.text) == yaml_text.load(before.text)


@pytest.mark.parametrize("dynamic", [True, False])
def test_a_default_route_never_belongs_to_a_rail(infos: list[NodeInfo], dynamic: bool) -> None:
    for each in infos:
        more = next(dict(row) for row in each.result["nics"] if row["netdev"] == "enp11s0f0np0")
        more.update(netdev="ens99", pci="0001:99:00.0", serial="other", rdma=["mlx5_99"], speed=200000)
        each.result["nics"].append(more)
        row = {"netdev": "ens99", "to": "0.0.0.0/0", "via": "10.2.0.1", "table": None, "dynamic": dynamic}
        each.result["ip"]["routes"].append(row)
    ports = yaml_text.load(look(infos).text)["profiles"]["server"]["other_ports"]
    assert ports["ens99"]["role"] == "management"


def test_ports_with_leases_alone_have_no_addresses(infos: list[NodeInfo]) -> None:
    for each in infos:
        for row in each.result["ip"]["addresses"]:
            row["dynamic"] = True
        each.result["ip"]["rules"], each.result["ip"]["routes"] = [], []
    outcome = look(infos)
    assert {"DS301", "DS312"} <= codes(outcome) and "DS303" not in codes(outcome)
    assert of(outcome, "DS301")[0].message.startswith("no port of gpu01, gpu02")
    assert "172.16.11.0/24" not in outcome.text


def test_a_node_that_could_not_be_reached_and_one_without_ports(infos: list[NodeInfo]) -> None:
    infos[2] = infos[2]._replace(result={})
    infos[3].result["nics"] = [row for row in infos[3].result["nics"] if row["management_path"]]
    outcome = look(infos)
    assert [finding.nodes for finding in of(outcome, "DS101") + of(outcome, "DS201")] == [
        ("ai-10-1-16-3",),
        ("ai-10-1-16-4",),
    ]
    assert list(yaml_text.load(outcome.text)["nodes"]) == ["ai-10-1-16-[1:2]", "ai-10-1-16-[5:6]"]
    nothing = look([])
    assert nothing.text == "" and summary(nothing) == "0 nodes give 0 rails; to decide: 0, to check: 0"


def test_a_card_in_another_slot_is_a_separate_profile(infos: list[NodeInfo]) -> None:
    moved = yaml_text.load(yaml_text.dump(infos[5].result).replace("0000:12:00.0", "0000:c1:00.0"))
    infos[5] = infos[5]._replace(result=moved)
    outcome = look(infos)
    (finding,) = of(outcome, "DS207")
    assert finding.message == "it differs from server in the NICs at 0000:12:00.0, 0000:c1:00.0"
    again = planned(outcome.text)
    assert again.node_vars(again.nodes[5])["ports"][7]["pci"] == "0000:c1:00.0"
    assert again.node_vars(again.nodes[5])["ports"][7]["address"] == "172.16.18.206/24"


def test_names_that_differ_on_a_node(infos: list[NodeInfo]) -> None:
    text = yaml_text.dump(infos[1].result).replace("enp11s0f0np0", "ens1").replace("mlx5_gpu02", "mlx5_x")
    infos[1] = infos[1]._replace(result=yaml_text.load(text))
    message = [
        "its RDMA device does not have the name mlx5_gpu02",
        "the port of gpu01 is ens1, but enp11s0f0np0 on most nodes",
    ]
    outcome = look(infos)
    assert [finding.message for finding in of(outcome, "DS405")] == message
    # macvlan needs one name on all nodes: hosts.yml renames. Others keep what they have.
    again = planned(outcome.text)
    assert {again.node_vars(each)["ports"][0]["netdev"] for each in again.nodes} == {"enp11s0f0np0"}
    kept = look(infos, attachment="host-device", provider="network-operator")
    again = planned(kept.text)
    names = [again.node_vars(each)["ports"][0]["netdev"] for each in again.nodes[:3]]
    assert names == ["enp11s0f0np0", "ens1", "enp11s0f0np0"]


def kernel_names(infos: t.Sequence[NodeInfo]) -> list[NodeInfo]:
    """The same nodes without names of rails: RDMA devices and netdevs have the kernel's names."""
    return [
        each._replace(result=yaml_text.load(re.sub(r"mlx5_gpu0(\d)", r"mlx5_\1", yaml_text.dump(each.result))))
        for each in infos
    ]


def bare(infos: t.Sequence[NodeInfo]) -> list[NodeInfo]:
    """Without anything that is set on ports."""
    return [
        each._replace(result=dict(each.result, ip={"addresses": [], "routes": [], "rules": []}))
        for each in kernel_names(infos)
    ]


def test_rails_of_bare_nodes_follow_their_gpus(infos: list[NodeInfo]) -> None:
    infos = bare(infos)
    swapped = {"0000:0b:00.0": "0000:12:00.0", "0000:12:00.0": "0000:0b:00.0"}
    for each in infos:
        for gpu in each.result["gpus"]:
            gpu["nics"] = {swapped.get(pci, pci): how for pci, how in gpu["nics"].items()}
    outcome = look(infos)
    ports = yaml_text.load(outcome.text)["profiles"]["server"]["ports"]
    assert list(ports) == ["gpu%02d" % number for number in range(1, 9)]
    assert (ports["gpu01"]["pci"], ports["gpu08"]["pci"]) == ("0000:12:00.0", "0000:0b:00.0")
    assert len(of(outcome, "DS301")) == 1 and outcome.lint
    assert "gpu01, gpu02" in of(outcome, "DS301")[0].message and "gpu08" in of(outcome, "DS301")[0].message
    # Where names are there already, they stay, and a finding reports it.
    for each, own in zip(infos, live_nodes.nodes_of(planned(text_of_six()))):
        each.result.update(nics=own.result["nics"], rdma=own.result["rdma"])
    kept = look(infos)
    assert yaml_text.load(kept.text)["profiles"]["server"]["ports"]["gpu01"]["pci"] == "0000:0b:00.0"
    assert "DS209" in codes(kept)


def test_names_can_be_set(infos: list[NodeInfo]) -> None:
    outcome = look(kernel_names(infos), rails="rail{n}")
    assert list(yaml_text.load(outcome.text)["rails"]) == ["rail%d" % number for number in range(1, 9)]


def test_tables_give_the_order_without_names(infos: list[NodeInfo]) -> None:
    infos = kernel_names(infos)
    for each in infos:
        for row in each.result["ip"]["rules"] + each.result["ip"]["routes"]:
            row["table"] = {101: 102, 102: 101}.get(row["table"], row["table"])
    outcome = look(infos)
    ports = yaml_text.load(outcome.text)["profiles"]["server"]["ports"]
    assert ports["gpu01"]["pci"] == "0000:0c:00.0" and "DS209" in codes(outcome) and "DS308" in codes(outcome)


def heard(infos: t.Sequence[NodeInfo]) -> Row:
    return {
        each.name: {"enp%ds0f0np0" % (10 + rail): {"chassis": "leaf-%d" % rail, "port": "swp1"} for rail in range(1, 9)}
        for each in infos
    }


def test_leaves_that_contradict_rails_are_a_finding(infos: list[NodeInfo]) -> None:
    lldp = heard(infos)
    assert codes(look(infos, lldp=lldp)) == {"DS306"}
    swapped = copy.deepcopy(lldp)
    own = swapped["ai-10-1-16-3"]
    own["enp12s0f0np0"], own["enp15s0f0np0"] = own["enp15s0f0np0"], own["enp12s0f0np0"]
    found = of(look(infos, lldp=swapped), "DS210")
    assert [(finding.place, finding.nodes) for finding in found] == [
        (("rails", "gpu02"), ("ai-10-1-16-3",)),
        (("rails", "gpu05"), ("ai-10-1-16-3",)),
    ]
    assert found[0].message == "LLDP reports the leaf leaf-5, which is on gpu05 on most nodes"
    one = {node: {netdev: {"chassis": "only"} for netdev in own} for node, own in lldp.items()}
    assert [finding.message for finding in of(look(infos, lldp=one), "DS210")] == [
        "LLDP reports the leaf only equally often on %s" % ", ".join("gpu%02d" % number for number in range(1, 9))
    ]


def test_leaves_show_which_port_of_another_model_is_on_which_rail(infos: list[NodeInfo]) -> None:
    infos, other = bare(infos), bare(infos)[5]
    lldp = heard(infos)
    lldp[other.name] = {"enp%ds0f0np0" % (10 + rail): {"chassis": "leaf-%d" % (9 - rail)} for rail in range(1, 9)}
    for row in other.result["nics"]:
        row["device"] = "1017" if row["rdma"] else row["device"]
    infos[5] = other
    outcome = look(infos, lldp=lldp)
    ports = yaml_text.load(outcome.text)["profiles"]["server-2"]["ports"]
    assert (ports["gpu01"]["pci"], ports["gpu08"]["pci"]) == ("0000:12:00.0", "0000:0b:00.0")
    assert not of(outcome, "DS210") and not of(outcome, "DS208")
    # Without leaves only the order shows it; with addresses their networks do.
    assert not of(look(infos), "DS208")
    plain = look(infos, lldp={infos[0].name: lldp[infos[0].name]})
    assert not of(plain, "DS210")


def test_networks_show_which_port_of_another_model_is_on_which_rail(infos: list[NodeInfo]) -> None:
    infos = kernel_names(infos)
    for row in infos[5].result["nics"]:
        row["device"] = "1017" if row["rdma"] else row["device"]
    first, last = "enp11s0f0np0", "enp18s0f0np0"
    swapped = {first: last, last: first}
    for part in ("addresses", "routes"):
        for row in infos[5].result["ip"][part]:
            row["netdev"] = swapped.get(row["netdev"], row["netdev"])
    outcome = look(infos)
    ports = yaml_text.load(outcome.text)["profiles"]["server-2"]["ports"]
    assert (ports["gpu01"]["netdev"], ports["gpu08"]["netdev"]) == (last, first)


def without_card(node: NodeInfo, pci: str, netdev: str) -> NodeInfo:
    """The node after a card has fallen off its bus."""
    result = yaml_text.load(yaml_text.dump(node.result))
    for part in ("nics", "rdma"):
        result[part] = [row for row in result[part] if row["pci"] != pci]
    for part in ("addresses", "routes"):
        result["ip"][part] = [row for row in result["ip"][part] if row["netdev"] != netdev]
    for gpu in result["gpus"]:
        gpu["nics"].pop(pci, None)
    return node._replace(result=result)


def test_a_card_that_half_of_the_nodes_miss_is_still_a_rail(infos: list[NodeInfo]) -> None:
    outcome = look([without_card(infos[0], "0000:0d:00.0", "enp13s0f0np0"), infos[1]])
    names = ["gpu%02d" % number for number in range(1, 9)]
    assert list(yaml_text.load(outcome.text)["rails"]) == names and of(outcome, "DS207")
    again = planned(outcome.text)
    ports = [{port["rail"]: port["address"] for port in again.node_vars(node)["ports"]} for node in again.nodes]
    assert ports[1] == {name: "172.16.%d.202/24" % (10 + at) for at, name in enumerate(names, 1)}
    assert ports[0] == {name: "172.16.%d.201/24" % (10 + at) for at, name in enumerate(names, 1) if name != "gpu03"}


def test_a_rail_of_another_model_gets_an_unused_name(infos: list[NodeInfo]) -> None:
    """Devices have the kernel's names, and by networks two cards are known as none of the first model's."""
    infos = kernel_names(infos)
    first = without_card(without_card(infos[0], "0000:0d:00.0", "enp13s0f0np0"), "0000:0f:00.0", "enp15s0f0np0")
    outcome = look([first, infos[1]], rails="rail{n}")
    names = yaml_text.load(outcome.text)["rails"]
    assert sorted(names) == ["rail%d" % number for number in range(1, 9)]
    again = planned(outcome.text)
    held = {port["address"] for port in again.node_vars(again.nodes[1])["ports"]}
    assert held == {"172.16.%d.202/24" % number for number in range(11, 19)}


def _taken(infos: list[NodeInfo], node: int, netdev: str) -> str:
    """A pod holds the port, its RDMA device with it; the port's PCI address comes back."""
    result, row = infos[node].result, nic(infos, node, netdev)
    result["rdma"] = [each for each in result["rdma"] if each["pci"] != row["pci"]]
    for part, rows in result["ip"].items():
        result["ip"][part] = [each for each in rows if each.get("netdev") != netdev]
    row.update(netdev=None, rdma=[], speed=None, mtu=None, carrier=None, link_layer=None, up=None)
    return str(row["pci"])


def test_ports_held_by_pods_make_no_separate_model() -> None:
    """A cluster at work, another port in a pod on each node, all on one: the file is the same, less that node."""
    plan = plan_of("host-device")
    infos = live_nodes.nodes_of(plan)
    options = options_of(plan)._replace(rails="rail{n:02}")
    whole = run(infos, options)
    held = [(1, "rail02"), (2, "rail05")] + [(3, "rail%02d" % rail) for rail in range(1, 9)]
    addresses = [_taken(infos, node, netdev) for node, netdev in held]
    outcome = run(infos, options)
    kept, shown = yaml_text.load(whole.text), yaml_text.load(outcome.text)
    assert list(kept.pop("nodes")) == ["solo-[01:04]"] and list(shown.pop("nodes")) == ["solo-[01:03]"]
    assert shown == kept
    found = {(node, finding.message) for finding in of(outcome, "DS102") for node in finding.nodes}
    assert found == {(infos[node].name, "%s has no netdev" % pci) for (node, _), pci in zip(held[:2], addresses)}
    (alone,) = of(outcome, "DS201")
    assert alone.nodes == (infos[3].name,) and "pod" in alone.message
    assert {"DS202", "DS203", "DS207", "DS311", "DS402"}.isdisjoint(codes(outcome))


def test_a_port_without_its_rdma_device_stays_on_its_rail(infos: list[NodeInfo]) -> None:
    row = nic(infos, 2, "enp12s0f0np0")
    row["rdma"] = []
    infos[2].result["rdma"] = [each for each in infos[2].result["rdma"] if each["pci"] != row["pci"]]
    outcome = look(infos)
    assert list(yaml_text.load(outcome.text)["profiles"]) == ["server"]
    (finding,) = of(outcome, "DS402")
    assert finding.nodes == (infos[2].name,)


def test_different_slots_are_a_finding(infos: list[NodeInfo]) -> None:
    for at in range(6):
        for number in range(1, 9):
            nic(infos, at, "enp%ds0f0np0" % (10 + number))["slot"] = str(20 + number)
    assert not of(look(infos), "DS211")
    nic(infos, 2, "enp11s0f0np0")["slot"] = "9"
    (finding,) = of(look(infos), "DS211")
    assert (finding.message, finding.nodes) == (
        "0000:0b:00.0 is in the slot 9, but in 21 on most nodes",
        ("ai-10-1-16-3",),
    )
    for at in range(6):
        nic(infos, at, "enp12s0f0np0")["slot"] = "21"
    assert "0000:0b:00.0 and 0000:0c:00.0 are two cards in the same slot 21" in [
        finding.message for finding in of(look(infos), "DS211")
    ]


def test_nics_for_storage_and_management_are_distinguished(infos: list[NodeInfo]) -> None:
    for each in infos:
        extra = [
            dict(live_nodes._bare("0000:a1:00.0", "stor1"), device="101d", speed=200000, rdma=["mlx5_70"]),
            dict(live_nodes._bare("0000:a2:00.0", "eno2"), vendor="8086", device="1521", speed=1000),
        ]
        each.result["nics"] += extra
        for gpu in each.result["gpus"]:
            gpu["nics"].update({"0000:a1:00.0": "NODE", "0000:a2:00.0": "NODE"})
    others = yaml_text.load(look(infos).text)["profiles"]["server"]["other_ports"]
    assert {name: port["role"] for name, port in others.items()} == {
        "stor1": "storage",
        "eno2": "management",
        "eno1": "management",
    }


def test_vfs_of_another_name_or_number() -> None:
    plan = plan_of("sriov-roce")
    infos = live_nodes.nodes_of(plan)
    assert "DS404" in codes(run(infos, options_of(plan)._replace(name="other")))
    gone = infos[1].result["vfs"].pop()
    assert gone["index"] == 7
    found = of(run(infos, options_of(plan)), "DS403")
    assert [(finding.message, finding.nodes) for finding in found] == [("ports have 7 and 8 VFs", ("ai-10-1-16-2",))]
    infos[0].result["vfs"][0]["attributes"]["vlan"] = 7
    assert "VFs have different values of vlan: 0, 7" in [
        finding.message for finding in of(run(infos, options_of(plan)), "DS403")
    ]


def test_the_rdma_mode_is_kept_or_reported(infos: list[NodeInfo]) -> None:
    infos[0].result["system"]["rdma_mode"] = "exclusive"
    (finding,) = of(look(infos), "DS407")
    assert finding.nodes == ("ai-10-1-16-1",)
    plan = plan_of("sriov-roce")
    shared = live_nodes.nodes_of(plan)
    for each in shared:
        each.result["system"]["rdma_mode"] = "shared"
    outcome = run(shared, options_of(plan))
    assert "rdma_mode: shared" in outcome.text and "DS407" in codes(outcome)


def test_soft_devices_with_a_name_of_the_kernel_and_ports_without_any() -> None:
    infos = live_nodes.nodes_of(plan_of("lab"))
    for each in infos:
        each.result["rdma"] = [
            dict(row, device="rxe0") if row["device"] == "rxe_gpu01" else row for row in each.result["rdma"]
        ]
    outcome = run(infos, Options(name="lab", rails="gpu{n:02}"))
    assert {finding.place for finding in of(outcome, "DS406")} == {("profiles", "server", "ports", "gpu01")}
    for each in infos:
        each.result["rdma"] = []
    outcome = run(infos, Options(name="lab", rails="gpu{n:02}"))
    assert len(of(outcome, "DS402")) == 8 and "soft_rdma" not in yaml_text.load(outcome.text)["profiles"]["server"]


def test_every_code_is_used_and_documented() -> None:
    page = (ROOT / "docs" / "discover.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (DS[0-9]{3}) \| (.*) \| (error|warning) \| (.*) \|$", page, re.M)
    assert rows == [(code, *rest) for code, rest in discover_findings.CODES.items()]
    folder = ROOT / "plugins" / "module_utils" / "_fabric" / "discover"
    used = {
        code
        for path in folder.glob("*.py")
        if path.name != "discover_findings.py"
        for code in re.findall(r'"(DS[0-9]{3})"', path.read_text())
    }
    assert used == set(discover_findings.CODES)

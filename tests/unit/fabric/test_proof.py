# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import module_options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import probe_targets


def port(number: int, **other: t.Any) -> dict[str, t.Any]:
    base: dict[str, t.Any] = {
        "rail": "gpu%02d" % number,
        "number": number,
        "pci": "0000:0%d:00.0" % number,
        "netdev": "enp%ds0" % number,
        "rdma": {"name": "rxe%d" % number, "type": "rxe"},
        "gpus": [],
        "mtu": 4200,
        "address": "172.16.%d.201/24" % (10 + number),
        "gateway": None,
        "table": 100 + number,
        "rule_priority": 10000 + number,
        "sysctl": {"arp_ignore": 1},
        "vfs": None,
        "firmware": None,
    }
    return dict(base, **other)


def node(name: str, *ports: dict[str, t.Any], **other: t.Any) -> dict[str, t.Any]:
    return {"name": name, "ports": list(ports), **other}


def test_each_module_gets_its_own_keys_and_no_empty_ones() -> None:
    vfs = {"count": 2, "attributes": [{"index": 0, "mac": "02:00:00:00:00:01", "trust": False, "vlan": None}]}
    stated = [{"index": 0, "mac": "02:00:00:00:00:01", "trust": False}]
    ports = [port(1, vfs=vfs, firmware={"link_type": "eth", "num_of_vfs": 8}), port(2, address=None)]
    assert module_options.port_options(ports, "sriov_vfs") == [
        {"pci": "0000:01:00.0", "netdev": "enp1s0", "count": 2, "attributes": stated}
    ]
    assert module_options.port_options(ports, "mlx_linktype") == [
        {"pci": "0000:01:00.0", "link_type": "eth", "num_of_vfs": 8}
    ]
    assert module_options.port_options(ports, "rail_probe") == [
        {"rail": "gpu01", "device": "rxe1", "address": "172.16.11.201"}
    ]
    assert [sorted(each) for each in module_options.port_options(ports, "rail_ports")] == [
        ["address", "mtu", "netdev", "pci", "rail", "rule_priority", "sysctl", "table"],
        ["mtu", "netdev", "pci", "rail", "rule_priority", "sysctl", "table"],
    ]
    assert len(module_options.port_options(ports, "rdma_link")) == 2
    assert module_options.port_options([port(1, rdma={"name": None, "type": "hardware"})], "rdma_link") == []
    with pytest.raises(ValueError, match="takes no ports"):
        module_options.port_options(ports, "rdma_netns_mode")


def test_targets_are_the_rails_that_both_have() -> None:
    mine = node("b", port(1, address="172.16.11.202/24"), port(2), port(3, mtu=9000))
    theirs = node("a", port(1), port(2, address=None), port(3))
    found = probe_targets.targets(mine, theirs)
    assert [target["rail"] for target in found] == ["gpu01", "gpu03"]
    assert found[0]["source"] == "172.16.11.202"
    assert found[0]["address"] == "172.16.11.201"
    assert found[1]["mtu"] == 4200
    assert "cross" not in found[0]


def test_rails_are_crossed_where_there_is_a_way_and_where_there_must_be_none() -> None:
    one, two = (port(number, gateway="172.16.%d.254" % (10 + number)) for number in (1, 2))
    mine, theirs = node("b", one, two), node("a", one, two)
    assert [target["cross"]["rail"] for target in probe_targets.targets(mine, theirs)] == ["gpu02", "gpu01"]
    bare_node = node("a", port(1), port(2))
    assert [target.get("cross") for target in probe_targets.targets(bare_node, bare_node)] == [None, None]
    closed = probe_targets.targets(bare_node, bare_node, cross_rail=False)
    assert [target["cross"] for target in closed] == [
        {"rail": "gpu02", "address": "172.16.12.201"},
        {"rail": "gpu01", "address": "172.16.11.201"},
    ]


def test_gpu_memory_is_used_where_the_plan_has_a_way_to_it() -> None:
    for gpudirect, wanted in (({"path": "auto"}, "0000:1b:00.0"), ({"path": "none"}, None), (None, None)):
        own = dict(node("a", port(1, gpus=[0, 1])), gpus={"0": None, "1": "0000:1b:00.0"}, gpudirect=gpudirect)
        (target,) = probe_targets.targets(own, node("b", port(1)))
        assert target.get("gpu") == wanted
    ports = [port(1, gpus=[1])]
    known = {"gpus": {"1": "0000:1b:00.0"}, "gpudirect": {"path": "dmabuf"}}
    assert module_options.port_options(ports, "rail_probe", known)[0]["gpu"] == "0000:1b:00.0"
    assert "gpu" not in module_options.port_options(ports, "rail_probe")[0]


def test_ipv6_is_probed_beside_ipv4_where_both_ends_have_it() -> None:
    one, other = (port(1, address6="fd00:11::%d/64" % number) for number in (1, 2))
    (target,) = probe_targets.targets(node("a", one), node("b", other))
    assert (target["source6"], target["address6"]) == ("fd00:11::1", "fd00:11::2")
    (target,) = probe_targets.targets(node("a", one), node("b", port(1)))
    assert "address6" not in target and "source6" not in target


# -- rails without addresses -------------------------------------------------------------------------------------------


def bare_port(number: int, **other: t.Any) -> dict[str, t.Any]:
    return port(number, **dict({"address": None, "rdma": {"name": None, "type": "hardware"}}, **other))


def test_rails_without_addresses_are_probed_over_infiniband_alone() -> None:
    ports = [bare_port(1), bare_port(2, rdma={"name": "rxe2", "type": "rxe"}), port(3)]
    served = module_options.port_options(ports, "rail_probe", None, "infiniband")
    assert served == [
        {"rail": "gpu01", "pci": "0000:01:00.0", "netdev": "enp1s0"},
        {"rail": "gpu03", "device": "rxe3", "address": "172.16.13.201"},
    ]
    assert [each["rail"] for each in module_options.port_options(ports, "rail_probe")] == ["gpu03"]

    given = (node("b", *ports), node("a", *ports))
    assert [each["rail"] for each in probe_targets.targets(*given)] == ["gpu03"]
    first, third = probe_targets.targets(*given, link_layer="infiniband")
    assert {key: first[key] for key in ("rail", "pci", "netdev")} == {
        **{"rail": "gpu01", "pci": "0000:01:00.0", "netdev": "enp1s0"},
    }
    assert not {"source", "address", "cross", "device"} & set(first)
    assert third["rail"] == "gpu03" and third["source"] == "172.16.13.201"


def test_a_device_without_a_planned_name_can_be_found_by_its_port() -> None:
    spec = port(1, rdma={"name": None, "type": "hardware"})
    assert module_options.port_options([spec], "rail_probe", None, "infiniband") == [
        {"rail": "gpu01", "address": "172.16.11.201", "pci": "0000:01:00.0", "netdev": "enp1s0"}
    ]


def test_a_port_that_alone_has_an_address_finds_no_partner() -> None:
    one, other = bare_port(1), bare_port(1, address="172.16.11.1/24")
    assert probe_targets.targets(node("b", one), node("a", other), link_layer="infiniband") == []
    assert module_options.provable(one, "infiniband") and not module_options.provable(one, "ethernet")


def test_a_rail_of_ipv6_alone_is_probed_by_it() -> None:
    one, other = (port(1, address=None, address6="fd00:11::%d/64" % number) for number in (1, 2))
    (target,) = probe_targets.targets(node("a", one), node("b", other))
    assert (target["source"], target["address"]) == ("fd00:11::1", "fd00:11::2")
    assert "source6" not in target and "cross" not in target
    assert module_options.port_options([one], "rail_probe")[0]["address"] == "fd00:11::1"


# -- addresses of probers ----------------------------------------------------------------------------------------------


def test_probers_meet_on_the_rails_that_both_have_from_the_own_address() -> None:
    mine = node("b", port(1, address="172.16.11.202/24"), port(2, address="172.16.12.202/24"))
    theirs = node("a", port(1, address6="fd00:11::1/64"), port(3))
    turn = probe_targets.turn(4, "serve", mine, theirs, [40000], True, "ethernet")
    assert turn["ways"] == [{"address": "172.16.11.201", "source": "172.16.11.202"}]
    assert (turn["turn"], turn["mode"], turn["partner"], turn["listen"]) == (4, "serve", "a", [40000])
    assert turn["targets"] == [] and [each["rail"] for each in turn["others"]] == ["gpu01", "gpu03"]
    assert probe_targets.turn(4, "probe", mine, theirs, [], True, "ethernet")["targets"][0]["rail"] == "gpu01"
    assert probe_targets.listen_addresses(theirs, "ethernet") == ["172.16.11.201", "fd00:11::1", "172.16.13.201"]


def test_probers_without_addresses_meet_at_the_management_address_or_where_the_user_names() -> None:
    ports = [bare_port(1), bare_port(2)]
    whole = dict(node("a", *ports, port(3)), unit=None, gpus={}, gpudirect=None)
    found = probe_targets.probe_node(whole, [], None, None, ["172.16.13.201", "10.2.1.1", "10.2.1.2"])
    # never an address of a rail
    assert found["management"] == "10.2.1.1"
    assert probe_targets.listen_addresses(found, "infiniband") == ["172.16.13.201", "10.2.1.1"]
    assert [each.get("meet") for each in probe_targets.served_ports(found, "infiniband")] == ["10.2.1.1"] * 2 + [None]
    way = {"address": "10.2.1.1", "source": None}
    assert probe_targets.turn(0, "probe", found, found, [], True, "infiniband")["ways"][-1] == way
    # RoCE needs addresses
    assert probe_targets.listen_addresses(probe_targets.probe_node(whole, ["gpu01"], None, None, []), "ethernet") == []
    given = probe_targets.probe_node(whole, [], "10.9.9.9", "18515-18546", [])
    assert probe_targets.listen_addresses(given, "infiniband") == ["10.9.9.9"]
    assert {each["meet"] for each in probe_targets.served_ports(given, "infiniband")} == {"10.9.9.9"}
    assert probe_targets.turn(0, "probe", found, given, [], True, "infiniband")["ways"] == [
        {"address": "10.9.9.9", "source": None}
    ]


def test_a_prober_listens_on_the_ports_that_a_firewall_allows_and_each_run_on_others() -> None:
    one, same, other = (probe_targets.listen_ports(run, "18515-18546") for run in ("a", "a", "b"))
    assert one == same != other and len(set(one)) == 4 and all(18515 <= each <= 18546 for each in one + other)
    assert probe_targets.listen_ports("a", "18515-18516") in ([18515, 18516], [18516, 18515])
    assert all(32768 <= each <= 60999 for each in probe_targets.listen_ports("a", ""))


def test_planes_are_probed_and_served_at_their_own_ports_of_one_device() -> None:
    rdma = [{"name": "mlx5_0", "type": "hardware", "port": number} for number in (1, 3)]
    both = node("a", port(1, rdma=rdma[0]), port(2, rdma=rdma[1]))
    assert [each["rdma_port"] for each in probe_targets.targets(both, both)] == [1, 3]
    assert [each["rdma_port"] for each in probe_targets.served_ports(both, "ethernet")] == [1, 3]
    plain = node("a", port(1))
    assert "rdma_port" not in {**probe_targets.targets(plain, plain)[0], **probe_targets.served_ports(plain, "roce")[0]}


@pytest.mark.parametrize(
    ("addresses", "requested"),
    [
        (("10.0.0.1/16", "10.0.0.2/16"), [True, True]),
        (("10.0.0.1/24", "10.0.1.1/24"), [None, None]),
        (("10.0.0.0/31", "10.0.0.1/31"), [None, None]),
        (("10.0.0.1/16", None), [None]),
    ],
)
def test_ports_on_one_network_request_arp_answers(
    addresses: tuple[str | None, str | None], requested: list[bool | None]
) -> None:
    ports = [port(number, address=address) for number, address in zip((1, 2), addresses)]
    known = probe_targets.probe_node(node("a", *ports), [], None, None, [])
    assert [each.get("ask_arp") for each in probe_targets.targets(known, known)] == requested

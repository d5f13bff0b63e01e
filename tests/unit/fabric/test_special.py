# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses and names that mean the control node or no host at all are refused, however they are written."""

from __future__ import annotations

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings import example_file
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.special_networks import (
    canonical,
    host_problem,
)

_SECOND = "  gpu02: {subnet: 172.16.12.0/24, gateway: .254, pods: .1-.200, hosts: .201-.253}\n"


def codes(piece: str) -> list[tuple[str, str]]:
    found = lint(example_file.whole(piece + "\n").encode()).findings
    assert all(each.remedy for each in found)
    return [(each.code, each.place) for each in found]


def node(words: str, name: str = "ai-1") -> list[tuple[str, str]]:
    return codes("nodes:\n  %s: {profile: hgx, index: 1%s}" % (name, words))


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.0.1",
        "0.0.0.0",
        "0x7f000001",
        "localhost",
        "LocalHost",
        "node.localhost",
        "ip6-localhost",
        "::1",
        "0:0::0:1",
        "::",
        "::ffff:127.0.0.1",
        "::ffff:7f00:1",
        "ff02::1",
        "fe80::1",
        "224.0.0.1",
        "255.255.255.255",
        "250.0.0.1",
        "169.254.7.1",
        "::ffff:169.254.7.1",
    ],
)
def test_a_node_address_is_not_the_control_node_or_unassignable(address: str) -> None:
    assert node(', address: "%s"' % address) == [("RY350", "nodes.ai-1.address")]


@pytest.mark.parametrize(
    "address", ["10.1.16.1", "fd00::1", "2001:db8::1", "fe80::1%eth0", "::ffff:10.1.16.1", "localhost.example.com"]
)
def test_other_addresses_are_accepted(address: str) -> None:
    assert node(', address: "%s"' % address) == []


def test_each_address_of_a_range_is_checked_and_it_is_one_finding() -> None:
    assert codes('nodes:\n  ai-[1:2]: {profile: hgx, address: "127.0.0.[1:2]"}') == [
        ("RY350", "nodes.ai-[1:2].address")
    ]


def test_forwarded_ports_have_a_way() -> None:
    """Nodes behind a tunnel: their addresses are in vars, and the boot id differs from the control node's."""
    assert node(", vars: {ansible_host: 127.0.0.1, ansible_port: 2201}") == []


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "127.1", "node.localhost", "0.0.0.0"])
def test_a_nodes_name_is_not_the_control_nodes(name: str) -> None:
    assert node("", name) == [("RY351", "nodes." + name)]


def test_ansible_contacts_these_names_without_an_address() -> None:
    assert node(", address: 10.1.16.1", "localhost") == [("RY351", "nodes.localhost")]
    assert node(", address: 10.1.16.1", "17") == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("10.1.16.1", "::ffff:10.1.16.1"),
        ("fd00::1", "FD00:0::0001"),
        ("ai-1.example.com", "AI-1.example.com"),
        ("0x0a011001", "10.1.16.1"),
    ],
)
def test_one_address_in_two_spellings_is_one_address(one: str, other: str) -> None:
    text = 'nodes:\n  ai-1: {profile: hgx, address: "%s"}\n  ai-2: {profile: hgx, address: "%s"}' % (one, other)
    assert codes(text) == [("RY316", "nodes.ai-2.address")]


@pytest.mark.parametrize("address", ["172.16.11.1", "::ffff:172.16.11.1", "0:0:0:0:0:ffff:ac10:0b01", "0xac100b01"])
def test_a_node_managed_through_a_rail_is_found_in_every_spelling(address: str) -> None:
    assert node(', address: "%s"' % address) == [("RY317", "nodes.ai-1.address")]


@pytest.mark.parametrize(
    ("subnet", "code"),
    [
        ("127.0.0.0/24", "RY352"),
        ("0.0.0.0/24", "RY352"),
        ("224.1.0.0/16", "RY352"),
        ("239.1.1.0/24", "RY352"),
        ("255.255.255.0/24", "RY352"),
        ("126.0.0.0/7", "RY352"),
        ("169.254.11.0/24", "RY353"),
        ("240.0.1.0/24", "RY353"),
    ],
)
def test_a_rails_network_is_one_that_hosts_can_have(subnet: str, code: str) -> None:
    assert codes("rails:\n  gpu01: {subnet: %s, hosts: .201-.250}\n%s" % (subnet, _SECOND)) == [
        (code, "rails.gpu01.subnet")
    ]


@pytest.mark.parametrize(
    ("subnet", "code"),
    [
        ("::ffff:10.{n}.0.0/112", "RY354"),
        ("::{n}:0/112", "RY352"),
        ("fe80:0:0:{n}::/64", "RY352"),
        ("fec0:0:0:{n}::/64", "RY352"),
        ("ff15:0:0:{n}::/64", "RY352"),
        ("64:ff9b:1:{n}::/64", "RY352"),
    ],
)
def test_so_is_its_ipv6_network(subnet: str, code: str) -> None:
    text = 'rails: {count: 2, name: "gpu{n:02}", subnet6: "%s", hosts6: "::c9-::fd"}' % subnet
    assert codes(text) == [(code, "rails.subnet6")]


def test_networks_that_are_cut_from_a_supernet_are_checked_too() -> None:
    cut = "addresses: {mode: prefix, node_prefix: 27, supernet: 126.0.0.0/7, rail_prefix: 8}\n"
    assert codes(cut + "rails: {gpu01: {}, gpu02: {}}") == [("RY352", "addresses.supernet")]


def test_a_reserved_network_is_compared_with_the_rails_it_means() -> None:
    fabric = "fabric: {name: ai, attachment: macvlan, provider: spiderpool, mtu: 4200, reserved: {x: %s}}"
    assert codes(fabric % '"::ffff:172.16.11.0/120"') == [("RY354", "fabric.reserved.x")]
    assert codes(fabric % "127.0.0.0/8") == []


def test_a_special_purpose_network_can_be_allowed() -> None:
    rails = "rails:\n  gpu01: {subnet: 169.254.11.0/24, hosts: .201-.250}\n" + _SECOND
    lint_words = "lint:\n  - {rule: %s, place: rails.gpu01, reason: two nodes back to back}"
    assert [each.severity for each in lint(example_file.whole(rails + lint_words % "RY353").encode()).findings] == [
        "note"
    ]


def test_names_are_not_addresses() -> None:
    assert canonical("ai-1") is None and host_problem("ai-1") is None
    assert canonical("127.1") == canonical("127.0.0.1") == canonical("::ffff:127.0.0.1")


@pytest.mark.parametrize("netdev", ["lo", "eth%d", "all", "default", "bonding_masters", "p2%d"])
def test_a_netdev_is_not_a_reserved_word_of_the_kernel(netdev: str) -> None:
    ports = 'profiles:\n  hgx:\n    ports:\n      gpu01: {netdev: "%s"}\n      gpu02: {netdev: nic2}' % netdev
    assert codes(ports) == [("RY209", "profiles.hgx.ports.gpu01.netdev")]


@pytest.mark.parametrize("netdev", ["eth0", "eth12", "ib0"])
@pytest.mark.parametrize("known", ['pci: "0000:0b:00.0"', "slot: PCIE_1"])
def test_a_port_is_not_renamed_to_what_the_kernel_assigns(netdev: str, known: str) -> None:
    ports = "profiles:\n  hgx:\n    ports:\n      gpu01: {netdev: %s, %s}\n      gpu02: {netdev: nic2}"
    assert codes(ports % (netdev, known)) == [("RY215", "profiles.hgx.ports.gpu01.netdev")]
    # known by the name alone, it is not renamed; but Ethernet ports do not have the names of IPoIB interfaces
    place = "profiles.hgx.ports.gpu01.netdev"
    assert codes(ports % (netdev, "gpu: 0")) == ([("RY219", place)] if netdev == "ib0" else [])


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (
            "nodes:\n  ai-1: {profile: hgx, ports: {gpu01: null, gpu02: null}}\n  ai-2: {profile: hgx}",
            "nodes.ai-1.ports",
        ),
        (
            "groups: {off: {ports: {gpu01: null, gpu02: null}}}\n"
            "nodes: {ai-1: {profile: hgx, groups: [off]}, ai-2: {profile: hgx}}",
            "groups.off.ports",
        ),
    ],
)
def test_a_node_has_a_port(words: str, place: str) -> None:
    assert codes(words) == [("RY440", place)]


@pytest.mark.parametrize(
    ("prefix", "taken"),
    [
        ("requests.ai.example", False),
        ("requests", True),
        ("kubernetes.io", False),
        ("rdma.kubernetes.io", False),
        ("mykubernetes.io", False),
        ("kubernetes.io.example", True),
        (".".join(["a" * 60] * 4), True),
        (".".join(["a" * 60] * 4) + ".aa", False),
    ],
)
def test_a_resource_prefix_is_one_that_pods_can_ask_for(prefix: str, taken: bool) -> None:
    """``requests.PREFIX/NAME`` is what quotas count, 253 characters before the slash at the most."""
    assert codes("names: {resource_prefix: %s}" % prefix) == ([] if taken else [("RY805", "names.resource_prefix")])


@pytest.mark.parametrize(("long", "taken"), [(63, True), (64, False)])
def test_a_pool_has_the_longest_name_that_a_node_may_have(long: int, taken: bool) -> None:
    """Kubernetes limits a pool's whole name, and a node's label to 63 characters."""
    rails = "addresses: {mode: prefix, node_prefix: 27, supernet: 172.16.0.0/12, rail_prefix: 16}\n"
    name = "a" * (long - 2) + "-1"
    found = codes(rails + "rails: {gpu01: {}, gpu02: {}}\nnodes: {%s: {profile: hgx}}" % name)
    assert [code for code, _place in found] == ([] if taken else ["RY205"])

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Listings of real nftables, and what its kernel did with a packet to UDP port 4791 under each."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.host.firewall import Packet, Rules

RECORDINGS = Path(__file__).resolve().parents[2] / "recordings" / "nft"
#: listing, netdev, family -> whether the packet that was sent arrived
SEEN = {
    ("debian-drop", "rail0", "ipv4"): False,
    ("debian-drop", "rail0", "ipv6"): False,
    ("debian-drop", "eth0", "ipv4"): False,
    ("debian-drop", "eth0", "ipv6"): False,
    ("firewalld", "rail0", "ipv4"): True,
    ("firewalld", "rail0", "ipv6"): True,
    ("firewalld", "eth0", "ipv4"): False,
    ("firewalld", "eth0", "ipv6"): False,
    ("ufw", "rail0", "ipv4"): False,
    ("ufw", "rail0", "ipv6"): True,
    ("ufw", "eth0", "ipv4"): False,
    ("ufw", "eth0", "ipv6"): True,
    ("open", "rail0", "ipv4"): True,
    ("open", "rail0", "ipv6"): True,
    ("open", "eth0", "ipv4"): False,
    ("open", "eth0", "ipv6"): True,
}


def drops(listing: str, netdev: str, family: str = "ipv4") -> list[tuple[str, t.Any, bool]]:
    rules = Rules((RECORDINGS / (listing + ".json")).read_text())
    return [(each["chain"], each["handle"], each["certain"]) for each in rules.drops(Packet(netdev, family))]


@pytest.mark.parametrize("case", list(SEEN), ids=" ".join)
def test_certain_answers_match_the_kernel(case: tuple[str, str, str]) -> None:
    found = drops(*case)
    if SEEN[case]:
        assert not any(certain for _chain, _handle, certain in found)
    else:
        # at least reported as possible
        assert found


def test_the_deciding_rule_is_named() -> None:
    assert drops("firewalld", "eth0") == [("filter_IN_public", 24, True)]
    assert drops("open", "eth0") == [("input", None, True)]
    # depends on the packet's source address, which a rule before the policy asks for; an IPv6 packet has none of IPv4's
    assert drops("debian-drop", "rail0") == [("input", None, False)]
    assert drops("debian-drop", "rail0", "ipv6") == [("input", None, True)]
    # iptables' own matches are opaque in nftables' listing
    assert drops("ufw", "rail0") == [("ufw-before-input", 9, False), ("ufw-not-local", 15, False)]


def listing(*expressions: list[dict[str, t.Any]], policy: str = "accept", **chain: t.Any) -> Rules:
    base = dict(
        {"family": "inet", "table": "x", "name": "in", "type": "filter", "hook": "input"}, policy=policy, **chain
    )
    rules = [
        {"rule": {"family": "inet", "table": "x", "chain": "in", "handle": number, "expr": expr}}
        for number, expr in enumerate(expressions, 1)
    ]
    return Rules(json.dumps({"nftables": [{"chain": base}, *rules]}))


def match(left: dict[str, t.Any], right: t.Any, operator: str = "==") -> dict[str, t.Any]:
    return {"match": {"op": operator, "left": left, "right": right}}


UDP_PORT = {"payload": {"protocol": "udp", "field": "dport"}}
NAME = {"meta": {"key": "iifname"}}
DROP: dict[str, t.Any] = {"drop": None}


@pytest.mark.parametrize(
    ("expression", "certain"),
    [
        (match(UDP_PORT, 4791), True),
        (match(UDP_PORT, 4791, "!="), None),
        (match(UDP_PORT, {"range": [4790, 4800]}), True),
        (match(UDP_PORT, {"set": [53, {"range": [1, 20]}]}), None),
        (match(UDP_PORT, 4000, ">"), True),
        (match(UDP_PORT, 4000, "<"), None),
        (match(UDP_PORT, "@ports"), False),
        (match({"payload": {"protocol": "th", "field": "dport"}}, {"set": [4791]}), True),
        (match({"payload": {"protocol": "udp", "field": "sport"}}, 4791), False),
        (match({"payload": {"protocol": "tcp", "field": "dport"}}, 4791), None),
        (match(NAME, "rail*"), True),
        (match(NAME, {"set": ["eth0", "rail0"]}), True),
        (match(NAME, "eth0"), None),
        (match({"ct": {"key": "state"}}, {"set": ["new", "untracked"]}), True),
        (match({"ct": {"key": "state"}}, "established", "in"), None),
        (match({"ct": {"key": "mark"}}, 7), False),
        (match({"meta": {"key": "l4proto"}}, "udp"), True),
        (match({"payload": {"protocol": "ip", "field": "saddr"}}, "10.0.0.1"), False),
        (match({"payload": {"protocol": "ip6", "field": "saddr"}}, "fd00::1"), None),
        (match({"payload": {"protocol": "ip", "field": "protocol"}}, "udp"), True),
        ({"limit": {"rate": 5, "per": "second"}}, False),
        ({"xt": {"type": "match", "name": "multiport"}}, False),
        ({"counter": {"packets": 0, "bytes": 0}}, True),
    ],
)
def test_a_match_is_true_false_or_unknown(expression: dict[str, t.Any], certain: bool | None) -> None:
    found = listing([expression, DROP]).drops(Packet("rail0", "ipv4"))
    assert [each["certain"] for each in found] == ([] if certain is None else [certain])


def test_a_possible_accept_makes_later_rules_uncertain() -> None:
    maybe = match({"ct": {"key": "mark"}}, 7)
    for verdict in ("accept", "return"):
        (found,) = listing([maybe, {verdict: None}], [DROP]).drops(Packet("rail0", "ipv4"))
        assert (found["handle"], found["certain"]) == (2, False)


def test_a_chain_that_jumps_to_itself_ends() -> None:
    assert listing([{"jump": {"target": "in"}}]).drops(Packet("rail0", "ipv4")) == []


def test_other_devices_hooks_and_kinds_are_ignored() -> None:
    packet = Packet("rail0", "ipv4")
    assert listing([DROP], hook="ingress", dev="eth0").drops(packet) == []
    assert len(listing([DROP], hook="ingress", dev=["eth0", "rail0"]).drops(packet)) == 1
    assert listing([DROP], hook="forward").drops(packet) == []
    assert listing([DROP], type="nat").drops(packet) == []


@pytest.mark.parametrize("text", ["", "{}", "[]", "no JSON"])
def test_output_that_is_not_a_listing_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Rules(text)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fabric files with pools of several ranges, and what they say address by address."""

from __future__ import annotations

import ipaddress
import typing as t
from dataclasses import dataclass

from hypothesis import assume
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import Outcome, lint
from tests import yaml_text

Document = t.Dict[str, t.Any]
SIZE = 64
NODES = 3


@dataclass
class Drawn:
    """A fabric file of one rail, and its meaning address by address (as places in the rail's network)."""

    text: str
    six: bool
    pods: list[list[int]]
    hosts: list[int]
    taken: set[int]
    block: int | None

    @property
    def left(self) -> list[int]:
        return [place for part in self.pods for place in part if place not in self.taken]

    def of_node(self, index: int) -> list[int]:
        """The places that a node's pods have."""
        if self.block is None:
            return sorted(self.left)
        blocks = [
            part[at : at + self.block] for part in self.pods for at in range(0, len(part) - self.block + 1, self.block)
        ]
        return [place for place in blocks[index - 1] if place not in self.taken]

    def address(self, place: int) -> str:
        return str(ipaddress.ip_address("fd00:11::" if self.six else "172.16.11.64") + place)


def spelled(draw: st.DrawFn, place: int, six: bool) -> str:
    """An address in one of its forms."""
    whole = str(ipaddress.ip_address("fd00:11::" if six else "172.16.11.64") + place)
    short = "::%x" % place if six else ".%d" % (64 + place)
    return draw(st.sampled_from((whole, short, "+%d" % place)))


@st.composite
def files(draw: st.DrawFn, provider: str = "spiderpool", mode: str | None = None) -> Drawn:
    """Pools beside each other in a network of 64 addresses, in any order, with exclusions anywhere."""
    six = draw(st.booleans())
    mode = mode or draw(st.sampled_from(("subnet", "block")))
    cuts = draw(st.lists(st.integers(3, SIZE - 3), min_size=5, max_size=11, unique=True).map(sorted))
    pairs = list(zip(cuts[::2], cuts[1::2]))
    if provider == "network-operator":
        # nv-ipam's blocks begin with the subnet.
        pairs = [(1, 8), *(pair for pair in pairs if pair[0] > 9)]
        names = ["pods"] + [draw(st.sampled_from(("pods", "hosts"))) for _pair in pairs[1:]]
        order = list(zip(names, pairs))
    else:
        order = [(draw(st.sampled_from(("pods", "hosts"))), pair) for pair in draw(st.permutations(pairs))]
    pools = {key: [pair for name, pair in order if name == key] for key in ("pods", "hosts")}
    excluded = [
        (low, low + more) for low, more in draw(st.lists(st.tuples(st.integers(3, 50), st.integers(0, 5)), max_size=3))
    ]
    excluded = [
        pair
        for at, pair in enumerate(sorted(excluded))
        if not any(other[1] >= pair[0] for other in sorted(excluded)[:at])
    ]
    block = draw(st.integers(1, 5)) if mode == "block" else None

    def texts(pair: tuple[int, int]) -> str:
        first, last = (spelled(draw, place, six) for place in pair)
        return first if pair[0] == pair[1] and draw(st.booleans()) else "%s-%s" % (first, last)

    def value(pairs: list[tuple[int, int]]) -> t.Any:
        listed = [texts(pair) for pair in pairs]
        return listed[0] if len(listed) == 1 and draw(st.booleans()) else listed

    end = "6" if six else ""
    rail: Document = {"subnet" + end: "fd00:11::/122" if six else "172.16.11.64/26", "mode": mode}
    rail.update((key + end, value(pairs)) for key, pairs in pools.items() if pairs)
    if block:
        rail["block" + end] = block
    gateway = draw(st.sampled_from((None, SIZE - 2)))
    if gateway:
        rail["gateway" + end] = spelled(draw, gateway, six)
    if excluded:
        rail["taken"] = {"some": value(excluded[:2]), **({"more": value(excluded[2:])} if excluded[2:] else {})}
    whole: Document = {
        "plugin": "railyard.fabric.rails",
        "fabric": {"name": "ai", "attachment": "macvlan", "provider": provider, "mtu": 4200},
        "rails": {"gpu01": rail},
        "profiles": {"hgx": {"ports": {"gpu01": {"netdev": "eth1", "rdma": "mlx5_gpu01"}}}},
        "nodes": {"n-[1:%d]" % NODES: {"profile": "hgx"}},
    }
    if provider == "network-operator":
        whole["fabric"]["pods_per_node"] = 1
    elif provider == "agent":
        # a block has at least as many addresses
        whole["fabric"]["slots"] = {"all_rails": 1, "per_rail": draw(st.integers(0, min(2, (block or 3) - 1)))}
    return Drawn(
        yaml_text.dump(whole, sort_keys=False),
        six,
        [list(range(low, high + 1)) for low, high in pools["pods"]],
        [place for low, high in pools["hosts"] for place in range(low, high + 1)],
        {place for low, high in excluded for place in range(low, high + 1)},
        block,
    )


def planned(drawn: Drawn) -> tuple[Outcome, Document]:
    outcome = lint(drawn.text.encode())
    assume(outcome.plan is not None)
    assert outcome.plan is not None
    return outcome, outcome.plan.document()


def listed(ips: str) -> list[str]:
    """The addresses of ``first-last`` or of one address."""
    first, _dash, last = ips.partition("-")
    kind = ipaddress.ip_address
    return [str(kind(first) + at) for at in range(int(kind(last or first)) - int(kind(first)) + 1)]


def fabric(rails: str, addresses_of: str = "", nodes: int = 2, provider: str = "spiderpool", more: str = "") -> str:
    return (
        "plugin: railyard.fabric.rails\n"
        "fabric: {name: ai, attachment: macvlan, provider: %s, mtu: 4200%s}\n"
        "%srails: {%s}\n"
        "profiles: {hgx: {ports: {gpu01: {netdev: eth1, rdma: mlx5_gpu01}, gpu02: {netdev: eth2, rdma: mlx5_gpu02}}}}\n"
        "nodes: {'n-[1:%d]': {profile: hgx}}\n"
    ) % (provider, more, addresses_of and "addresses: {%s}\n" % addresses_of, rails, nodes)

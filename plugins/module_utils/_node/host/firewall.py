# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Evaluate whether nftables drops RoCE packets that a port receives. The rules are not changed.

Rules of current iptables are nftables rules and are evaluated too. A match on a value that is only known for a real
packet (an address, a mark, a rate) is neither true nor false. Source: libnftables-json(5).

RoCE v2 in a NIC's hardware bypasses the kernel and its firewall; the result is for soft RDMA.
"""

from __future__ import annotations

import fnmatch
import json
import typing as t

ROCE_PORT = 4791
# Hooks of packets to this host, in their order.
HOOKS = ("ingress", "prerouting", "input")
FAMILIES = {"ipv4": ("ip", "inet", "netdev"), "ipv6": ("ip6", "inet", "netdev")}
NOT_FOR_UDP = frozenset(("tcp", "icmp", "icmpv6", "sctp", "dccp", "igmp", "ah", "esp", "arp"))
MAX_DEPTH = 16
Row = t.Dict[str, t.Any]


class Unknown:
    """A value that is only known for a real packet. ``NEVER``: a value that no RoCE packet has."""


UNKNOWN, NEVER = Unknown(), Unknown()


class Packet(t.NamedTuple):
    """The first packet of a RoCE flow: the netdev that receives it, and its family (``ipv4``, ``ipv6``)."""

    netdev: str
    family: str


class Rules:
    """The rules in the output of ``nft -j list ruleset``. Raises ValueError if it is invalid."""

    def __init__(self, text: str) -> None:
        try:
            listed = json.loads(text)["nftables"]
        except (KeyError, TypeError) as error:
            raise ValueError("no listing of nftables") from error
        self.bases: list[Row] = []
        self._rules: dict[tuple[str, str, str], list[Row]] = {}
        for each in listed:
            chain, rule = each.get("chain"), each.get("rule")
            if chain and chain.get("hook") in HOOKS and chain.get("type") == "filter":
                self.bases.append(chain)
            if rule:
                self._rules.setdefault((rule["family"], rule["table"], rule["chain"]), []).append(rule)

    def drops(self, packet: Packet) -> list[Row]:
        """Return the rules that drop the packet: ``family``, ``table``, ``chain``, ``handle`` (None: the chain's
        policy), and ``certain`` (False if it depends on the packet).
        """
        found: list[Row] = []
        for base in sorted(self.bases, key=lambda chain: HOOKS.index(chain["hook"])):
            if base["family"] not in FAMILIES[packet.family]:
                continue
            devices = base.get("dev")
            if devices and packet.netdev not in ([devices] if isinstance(devices, str) else devices):
                continue
            walk = _Walk(self, base, packet)
            if not walk.chain(base["name"], True) and base.get("policy") == "drop":
                walk.drop(base["name"], None)
            found += walk.found
        return found

    def of(self, base: Row, chain: str) -> list[Row]:
        return self._rules.get((base["family"], base["table"], chain), [])


class _Walk:
    """Evaluation of one base chain for one packet. ``reached``: whether the packet certainly reaches the rule."""

    def __init__(self, rules: Rules, base: Row, packet: Packet) -> None:
        self._rules = rules
        self._base = base
        self._packet = packet
        self._depth = 0
        self.reached = True
        self.found: list[Row] = []

    def drop(self, chain: str, handle: int | None, reached: bool = True) -> None:
        row = {"family": self._base["family"], "table": self._base["table"], "chain": chain, "handle": handle}
        self.found.append(dict(row, certain=self.reached and reached))

    def chain(self, name: str, reached: bool) -> bool:
        """Evaluate a chain. Return whether the packet certainly does not reach its end."""
        if self._depth >= MAX_DEPTH:
            return False
        self._depth += 1
        try:
            for rule in self._rules.of(self._base, name):
                ends = self._rule(name, rule, reached)
                if ends is not None:
                    return ends
            return False
        finally:
            self._depth -= 1

    def _rule(self, chain: str, rule: Row, reached: bool) -> bool | None:
        """Evaluate a rule. Return None if the packet continues with the next rule, True if evaluation ends, False if it
        leaves the chain.
        """
        matched: bool | None = True
        for part in rule.get("expr", []):
            kind, body = next(iter(part.items()))
            if kind == "match":
                result = self._match(body)
            elif kind in ("limit", "xt", "quota", "connlimit", "ct count"):
                result = None
            elif kind == "vmap":
                return self._map(chain, rule, body, matched)
            elif kind in ("accept", "drop", "reject", "return", "jump", "goto", "queue"):
                return self._verdict(chain, rule, kind, body, matched)
            else:
                continue
            if result is False:
                return None
            if result is None:
                matched = None
        return None

    def _verdict(self, chain: str, rule: Row, kind: str, body: t.Any, matched: bool | None) -> bool | None:
        certain = matched is True
        if kind in ("drop", "reject"):
            self.drop(chain, rule.get("handle"), certain)
            return True if certain else None
        if kind in ("accept", "queue"):
            if not certain:
                self.reached = False
            return True if certain else None
        if kind == "return":
            if not certain:
                self.reached = False
            return False if certain else None
        before = self.reached
        self.reached = before and certain
        ended = self.chain(body["target"], certain)
        if certain:
            # a goto does not return to this chain
            return True if ended else (False if kind == "goto" else None)
        self.reached = False
        return None

    def _map(self, chain: str, rule: Row, body: Row, matched: bool | None) -> bool | None:
        value = self._value(body["key"])
        entries = body.get("data", {}).get("set", []) if isinstance(body.get("data"), dict) else []
        other_header = [entry for entry in entries if entry[0] == "*"]
        if value is NEVER:
            return None
        if not isinstance(value, Unknown):
            chosen = [entry for entry in entries if self._equals(value, entry[0])] or other_header
            for _key, verdict in chosen[:1]:
                kind, target = next(iter(verdict.items()))
                return self._verdict(chain, rule, kind, target, matched)
            self.reached = self.reached and bool(entries)
            return None
        for _key, verdict in entries:
            kind, target = next(iter(verdict.items()))
            self._verdict(chain, rule, kind, target, None)
        self.reached = False
        return None

    # -- matches ------------------------------------------------------------------------------------------------------

    def _match(self, body: Row) -> bool | None:
        value, operator, right = self._value(body["left"]), body["op"], body["right"]
        if value is NEVER:
            return False
        if isinstance(value, Unknown) or (isinstance(right, str) and right.startswith("@")):
            return None
        if operator in ("==", "in"):
            return self._equals(value, right)
        if operator == "!=":
            return not self._equals(value, right)
        if isinstance(value, int) and isinstance(right, int):
            known = {"<": value < right, ">": value > right, "<=": value <= right, ">=": value >= right}
            return known.get(operator)
        return None

    def _value(self, left: t.Any) -> t.Any:
        """Return the packet's value of an expression; :data:`UNKNOWN` or :data:`NEVER` if it has none."""
        if not isinstance(left, dict):
            return UNKNOWN
        kind, body = next(iter(left.items()))
        packet = self._packet
        if kind == "meta":
            known = {
                "iifname": packet.netdev,
                "iif": packet.netdev,
                "l4proto": "udp",
                "nfproto": packet.family,
                "protocol": "ip" if packet.family == "ipv4" else "ip6",
            }
            return known.get(body.get("key"), UNKNOWN)
        if kind == "ct":
            # addresses on a rail are not translated
            return {"state": "new", "status": NEVER}.get(body.get("key"), UNKNOWN)
        if kind == "payload":
            return self._field(body.get("protocol"), body.get("field"))
        return UNKNOWN

    def _field(self, protocol: t.Any, field: t.Any) -> t.Any:
        ip_header, other_header = ("ip", "ip6") if self._packet.family == "ipv4" else ("ip6", "ip")
        if protocol in NOT_FOR_UDP or protocol == other_header:
            return NEVER
        if protocol in ("udp", "th") and field == "dport":
            return ROCE_PORT
        if protocol == ip_header and field in ("protocol", "nexthdr"):
            return "udp"
        return UNKNOWN

    def _equals(self, value: t.Any, right: t.Any) -> bool:
        if isinstance(right, dict):
            if "set" in right:
                members = right["set"] if isinstance(right["set"], list) else [right["set"]]
                return any(self._equals(value, each) for each in members)
            if "range" in right and isinstance(value, int):
                low, high = right["range"]
                return isinstance(low, int) and isinstance(high, int) and low <= value <= high
            if "elem" in right:
                return self._equals(value, right["elem"].get("val"))
            return False
        if isinstance(right, list):
            return any(self._equals(value, each) for each in right)
        if isinstance(value, str) and isinstance(right, str) and right.endswith("*"):
            return fnmatch.fnmatchcase(value, right)
        return bool(value == right)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Errors, RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_spec import RECORD, Record, read_ports

GOOD: dict[str, t.Any] = {
    "rail": "gpu01",
    "pci": "0000:0b:00.0",
    "netdev": "enp11s0f0np0",
    "mtu": 4200,
    "address": "172.16.11.201/24",
    "gateway": "172.16.11.254",
    "address6": "fd00:11::c9/64",
    "gateway6": "fe80::1",
    "table": 101,
    "rule_priority": 10001,
    "routes": [
        {"to": "10.0.0.0/8", "via": "172.16.11.253", "table": 101},
        {"to": "fd00::/32", "via": "fe80::1", "table": None},
    ],
    "sysctl": {"arp_ignore": 1},
}
FOUR = {key: GOOD[key] for key in GOOD if key not in ("address6", "gateway6", "routes")}


def test_a_port_spec_survives_a_round_trip() -> None:
    (port,) = read_ports([GOOD])
    assert port.as_options() == GOOD
    assert [str(side.source) for side in port.sides] == ["172.16.11.201/32", "fd00:11::c9/128"]


@pytest.mark.parametrize(
    ("option", "place", "message"),
    [
        ({"rail": "../gpu"}, "rail", "cannot be part of a file's name"),
        ({"pci": "0b:00"}, "pci", "is not a PCI address"),
        ({"netdev": "enp11s0f0np0.4200"}, "netdev", "is not a valid netdev name"),
        ({"netdev": "a/b"}, "netdev", "is not a valid netdev name"),
        ({"pci": None, "netdev": None}, "", "names neither pci nor netdev"),
        ({"mtu": 67}, "mtu", "less than IP needs"),
        ({"address": "172.16.11.201"}, "address", "has no prefix length"),
        ({"address": "172.16.11.300/24"}, "address", "does not appear to be"),
        ({"address": "172.16.11.0/24"}, "address", "is the subnet itself"),
        ({"address": "172.16.11.255/24"}, "address", "broadcast"),
        ({"address": "224.0.0.5/24"}, "address", "is not the address of a host"),
        ({"gateway": "172.16.12.254"}, "gateway", "is not in 172.16.11.0/24"),
        ({"gateway": "172.16.11.201"}, "gateway", "is the port's own address"),
        ({"gateway": "fd00::1"}, "gateway", "is not in"),
        ({"gateway": "x"}, "gateway", "does not appear to be"),
        ({"address": None}, "gateway", "has no address"),
        ({"table": None, "rule_priority": None}, "gateway", "there is no table"),
        ({"table": 254}, "table", "of the system's own"),
        ({"table": 2**32}, "table", "of the system's own"),
        ({"rule_priority": None}, "rule_priority", "has no rule"),
        ({"rule_priority": 32766}, "rule_priority", "not between 1 and 32765"),
        ({"sysctl": {"../all/x": 1}}, "sysctl.../all/x", "is not a setting"),
        ({"sysctl": {"rp_filter": "loose"}}, "sysctl.rp_filter", "is not a whole number"),
    ],
)
def test_every_error_names_its_place(option: dict[str, t.Any], place: str, message: str) -> None:
    reported(dict(FOUR, **option), place, message)


def reported(option: dict[str, t.Any], place: str, message: str) -> None:
    with pytest.raises(RailyardError) as error:
        read_ports([option])
    assert message in error.value.message
    assert error.value.place == ("ports[0].%s" % place).rstrip(".")
    assert error.value.remedy


@pytest.mark.parametrize(
    ("option", "place", "message"),
    [
        ({"address6": "172.16.11.202/24", "gateway6": None, "routes": []}, "address6", "is an IPv4 address"),
        ({"address6": "fd00:11::/64"}, "address6", "is the subnet itself"),
        ({"gateway6": "fd00:12::1"}, "gateway6", "is not in fd00:11::/64"),
        ({"gateway6": "172.16.11.254"}, "gateway6", "is not in fd00:11::/64"),
        ({"address6": None, "routes": []}, "gateway6", "the port has no address6"),
        ({"mtu": 1279}, "mtu", "less than IPv6 needs"),
        ({"routes": [{"to": "0.0.0.0/0", "via": "172.16.11.254"}]}, "routes[0].to", "never gives the main table"),
        ({"routes": [{"to": "::/0", "via": "fe80::1", "table": 254}]}, "routes[0].to", "never gives the main table"),
        ({"routes": [{"to": "0.0.0.0/0", "table": 101}]}, "routes[0].to", "is the gateway's"),
        ({"routes": [{"to": "10.0.0.1/8"}]}, "routes[0].to", "has host bits set"),
        ({"routes": [{"to": "10.0.0.0/8", "table": 102}]}, "routes[0].table", "102 is not the port's table"),
        ({"routes": [{"to": "172.16.11.0/24"}]}, "routes[0].to", "is the port's own subnet"),
        ({"routes": [{"to": "fe80::/64", "table": 101}]}, "routes[0].to", "is never routed"),
        ({"routes": [{"to": "10.0.0.0/8", "via": "172.16.12.1"}]}, "routes[0].via", "is not in 172.16.11.0/24"),
        (
            {"routes": [{"to": "10.0.0.0/8", "via": "fe80::1"}]},
            "routes[0].via",
            "fe80::1 is not a next hop",
        ),
        ({"routes": [{"to": "10.0.0.0/8", "via": "172.16.11.1/24"}]}, "routes[0].via", "does not appear to be"),
        ({"routes": [{"to": "10.0.0.0/8"}, {"to": "10.0.0.0/8"}]}, "routes[1].to", "in that table already"),
        ({"address6": None, "gateway6": None}, "routes[1].to", "has no IPv6 address"),
        ({"table": None, "rule_priority": None, "gateway": None, "routes": []}, "gateway6", "there is no table"),
    ],
)
def test_errors_of_ipv6_and_routes(option: dict[str, t.Any], place: str, message: str) -> None:
    reported(dict(GOOD, **option), place, message)


@pytest.mark.parametrize("address", ["10.0.0.0/31", "10.0.0.1/31", "10.0.0.1/32", "fd00::/127", "fd00:1::1/64"])
def test_first_and_last_addresses_are_accepted(address: str) -> None:
    (port,) = read_ports([dict(FOUR, address=address, gateway=None)])
    assert str(port.address) == address


def test_two_ports_cannot_share_names_addresses_or_tables() -> None:
    with pytest.raises(Errors) as error:
        read_ports([GOOD, dict(GOOD, address="172.16.11.201/25", gateway=None, routes=GOOD["routes"][1:])])
    shared = ("rail", "pci", "netdev", "address", "address6", "table", "rule_priority", "routes[0].to")
    assert [each.place for each in error.value.errors] == ["ports[1].%s" % key for key in shared]


def test_one_ipv6_address_may_replace_an_ipv4_one() -> None:
    (port,) = read_ports([dict(FOUR, address="fd00:11::c9/64", gateway="fe80::1")])
    assert [(side.key, side.version, str(side.gateway)) for side in port.sides] == [("address", 6, "fe80::1")]
    with pytest.raises(RailyardError, match="and address6 is given too"):
        read_ports([dict(FOUR, address="fd00:11::c9/64", gateway=None, address6="fd00:12::c9/64")])


def test_the_record_is_kept_and_read(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    assert Record.read(system) == Record([], [], True)
    ports = [port._replace(place=RECORD) for port in read_ports([GOOD, dict(rail="gpu02", netdev="eth2")])]
    record = Record(ports, [ports[0]], False)
    system.write_file(RECORD, record.text())
    assert Record.read(system) == record


@pytest.mark.parametrize("text", ["{", "[]", '{"ports": 1}', '{"ports": [{}], "former": [], "done": true}'])
def test_a_broken_record_counts_as_an_interrupted_run(tmp_path: Path, text: str) -> None:
    system = System(str(tmp_path))
    system.write_file(RECORD, text)
    assert Record.read(system) == Record([], [], False)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils.errors import Errors, RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils.node.ports_wish import RECORD, Record, read_ports
from ansible_collections.railyard.fabric.plugins.module_utils.node.system import System

GOOD: dict[str, t.Any] = {
    "rail": "gpu01",
    "pci": "0000:0b:00.0",
    "netdev": "enp11s0f0np0",
    "mtu": 4200,
    "address": "172.16.11.201/24",
    "gateway": "172.16.11.254",
    "table": 101,
    "rule_priority": 10001,
    "sysctl": {"arp_ignore": 1},
}


def test_a_port_comes_back_as_it_was_given() -> None:
    (port,) = read_ports([GOOD])
    assert port.as_options() == GOOD
    assert str(port.source) == "172.16.11.201/32"


@pytest.mark.parametrize(
    ("option", "place", "message"),
    [
        ({"rail": "../gpu"}, "rail", "cannot be part of a file's name"),
        ({"pci": "0b:00.0"}, "pci", "is not a PCI address"),
        ({"netdev": "enp11s0f0np0.4200"}, "netdev", "cannot be an interface's name"),
        ({"netdev": "a/b"}, "netdev", "cannot be an interface's name"),
        ({"pci": None, "netdev": None}, "pci", "neither pci nor netdev"),
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
def test_what_is_wrong_is_named_with_its_place(option: dict[str, t.Any], place: str, message: str) -> None:
    with pytest.raises(RailyardError) as error:
        read_ports([dict(GOOD, **option)])
    assert message in error.value.message
    assert error.value.place == "ports[0].%s" % place
    assert error.value.remedy


@pytest.mark.parametrize("address", ["10.0.0.0/31", "10.0.0.1/31", "10.0.0.1/32", "fd00::/127", "fd00:1::1/64"])
def test_addresses_at_the_edges_are_taken(address: str) -> None:
    (port,) = read_ports([dict(GOOD, address=address, gateway=None)])
    assert str(port.address) == address


def test_ports_do_not_share_what_is_theirs_alone() -> None:
    with pytest.raises(Errors) as error:
        read_ports([GOOD, dict(GOOD, address="172.16.11.201/25", gateway=None)])
    assert [each.place for each in error.value.errors] == [
        "ports[1].%s" % key for key in ("rail", "pci", "netdev", "address", "table", "rule_priority")
    ]


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

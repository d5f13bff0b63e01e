# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which function is which rail port, by slot, serial, MAC and RDMA device."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Errors, RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.port_matching import identify, unidentified

Row = t.Dict[str, t.Any]
FIRST, SECOND, THIRD = "0000:0b:00.0", "0000:0b:00.1", "0000:41:00.0"


def nic(pci: str, netdev: str | None, slot: str | None, serial: str | None, mac: str, rdma: str | None) -> Row:
    row: Row = {"pci": pci, "netdev": netdev, "slot": slot, "serial": serial, "mac": "02:aa:aa:aa:aa:aa"}
    return dict(row, permanent_mac=mac, rdma=[rdma] if rdma else [], altnames=[])


# A card with two ports, one with one, and the management NIC without vital product data.
NICS = [
    nic(FIRST, "ens4f0", "4", "MT2321X0001", "0c:42:a1:00:00:01", "mlx5_0"),
    nic(SECOND, "ens4f1", "4", "MT2321X0001", "0c:42:a1:00:00:02", "mlx5_1"),
    nic(THIRD, "eth2", "7", "MT2321X0002", "0c:42:a1:00:00:03", None),
    nic("0000:01:00.0", "eno1", None, None, "0c:42:a1:00:00:09", None),
]


def port(rail: str, pci: str | None = None, netdev: str | None = None, **match: t.Any) -> Row:
    spec = dict({"slot": None, "serial": None, "mac": None, "rdma": None, "port": None}, **match)
    return {"rail": rail, "pci": pci, "netdev": netdev, "match": spec if match else None}


def node(*ports: Row, **more: t.Any) -> Row:
    return dict({"name": "ai-1", "ports": list(ports), "other_ports": []}, **more)


def found(*ports: Row, nics: list[Row] | None = None, **more: t.Any) -> list[tuple[str | None, str | None]]:
    done = identify(node(*ports, **more), NICS if nics is None else nics)
    return [(each["pci"], each["netdev"]) for each in done["ports"]]


def errors_of(*ports: Row, nics: list[Row] | None = None, **more: t.Any) -> list[tuple[str, str, str]]:
    with pytest.raises(RailyardError) as error:
        found(*ports, nics=nics, **more)
    errors = error.value.errors if isinstance(error.value, Errors) else [error.value]
    assert all(each.remedy for each in errors)
    return [(each.place, each.message, each.remedy) for each in errors]


@pytest.mark.parametrize(
    ("match", "pci"),
    [
        ({"slot": "7"}, THIRD),
        ({"slot": "4", "port": 2}, SECOND),
        ({"serial": "mt2321x0002"}, THIRD),
        ({"serial": "MT2321X0001", "port": 1}, FIRST),
        ({"mac": "0C-42-A1-00-00-02"}, SECOND),
        ({"mac": "0c:42:a1:00:00:03", "slot": "7", "serial": "MT2321X0002", "port": 1}, THIRD),
        ({"rdma": "mlx5_1"}, SECOND),
        # what is the same for a whole card is narrowed by what is a port's
        ({"slot": "4", "mac": "0c:42:a1:00:00:01"}, FIRST),
        ({"slot": "4", "serial": "MT2321X0001", "rdma": "mlx5_1"}, SECOND),
    ],
)
def test_a_port_is_found(match: Row, pci: str) -> None:
    netdev = next(row["netdev"] for row in NICS if row["pci"] == pci)
    assert found(port("gpu01", **match)) == [(pci, netdev)]
    # the plan's netdev is the name that the port gets
    assert found(port("gpu01", None, "gpu01", **match)) == [(pci, "gpu01")]


def test_other_ports_stay_as_they_are() -> None:
    ports = [port("gpu01", FIRST), port("gpu02", None, "ens4f1"), port("gpu03", slot="7")]
    done = identify(node(*ports), NICS)
    assert done["ports"][:2] == ports[:2]
    assert done["name"] == "ai-1"


def test_identification_can_be_repeated_after_cards_moved() -> None:
    once = identify(node(port("gpu01", serial="MT2321X0002"), port("gpu02", None, "gpu02", slot="4", port=1)), NICS)
    assert identify(once, NICS) == once
    moved = [dict(row, pci="0000:51:00.0") if row["pci"] == THIRD else row for row in NICS]
    again = identify(once, [dict(row, netdev="eth5") if row["pci"] == "0000:51:00.0" else row for row in moved])
    assert [(each["pci"], each["netdev"]) for each in again["ports"]] == [("0000:51:00.0", "eth5"), (FIRST, "gpu02")]


def test_an_ambiguous_netdev_is_left_to_the_pci_function() -> None:
    several = [NICS[2], dict(NICS[2], netdev="eth3", permanent_mac="0c:42:a1:00:00:04"), *NICS[:2]]
    assert found(port("gpu01", slot="7"), nics=several) == [(THIRD, None)]
    assert found(port("gpu01", mac="0c:42:a1:00:00:04"), nics=several) == [(THIRD, "eth3")]
    hidden = [dict(NICS[2], netdev=None)]
    assert found(port("gpu01", slot="7"), nics=hidden) == [(THIRD, None)]


def test_every_error_is_reported_at_once() -> None:
    errors = errors_of(
        port("gpu01", slot="9"),
        port("gpu02", slot="4"),
        port("gpu03", slot="4", mac="0c:42:a1:00:00:03"),
        port("gpu04", slot="7", port=2),
        port("gpu05", THIRD, mac="0c:42:a1:00:00:01"),
    )
    assert [each[:2] for each in errors] == [
        ("nodes.ai-1.ports.gpu01.slot", "no NIC has the slot 9"),
        ("nodes.ai-1.ports.gpu02", "several functions match: %s, %s" % (FIRST, SECOND)),
        (
            "nodes.ai-1.ports.gpu03.mac",
            "MAC 0c:42:a1:00:00:03 is %s, but slot 4 is %s or %s" % (THIRD, FIRST, SECOND),
        ),
        ("nodes.ai-1.ports.gpu04.port", "the card has 1 port (%s), but no port 2" % THIRD),
        (
            "nodes.ai-1.ports.gpu05.mac",
            "MAC 0c:42:a1:00:00:01 is %s, but PCI address %s is %s" % (FIRST, THIRD, THIRD),
        ),
    ]
    assert "port: 1 is %s" % FIRST in errors[1][2]


def test_no_function_is_two_ports() -> None:
    errors = errors_of(port("gpu01", slot="7"), port("gpu02", mac="0c:42:a1:00:00:03"), port("gpu03", THIRD))
    assert [each[:2] for each in errors] == [
        ("nodes.ai-1.ports.gpu02", "%s is also the port of gpu01" % THIRD),
        ("nodes.ai-1.ports.gpu03", "%s is also the port of gpu01" % THIRD),
    ]
    assert (
        errors_of(port("gpu01", None, "eth2"), port("gpu02", slot="7"))[0][1] == "%s is also the port of gpu01" % THIRD
    )
    storage = {"name": "stor1", "role": "storage", "netdev": "eth2", "pci": None}
    (only,) = errors_of(port("gpu01", slot="7"), other_ports=[storage])
    assert only[1] == "%s is also the port stor1, which is not on a rail" % THIRD


def test_values_that_no_nic_reports_are_an_error_with_a_remedy() -> None:
    silent = [dict(row, serial=None) for row in NICS]
    (only,) = errors_of(port("gpu01", serial="MT2321X0002"), nics=silent)
    assert "no NIC of the node reports its serial number: use another identity" in only[2]


def test_all_mismatches_are_reported_in_one_error() -> None:
    assert identify(node(port("gpu01", slot="7")), NICS)["ports"][0]["pci"] == THIRD
    with pytest.raises(RailyardError) as error:
        identify(node(port("gpu01", slot="9"), port("gpu02", slot="8")), NICS)
    assert str(error.value).count("Remedy:") == 2


def test_ports_are_identified_again_only_after_a_reboot() -> None:
    planned = node(port("gpu01", slot="7"))
    assert unidentified(planned, again=False)
    found = identify(planned, NICS)
    assert unidentified(found, again=True) and not unidentified(found, again=False)
    assert not unidentified(node(port("gpu01", pci=THIRD)), again=True)

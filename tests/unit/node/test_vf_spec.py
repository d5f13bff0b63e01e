# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common import vf_attributes
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Errors, RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov import vf_spec

PF = "0000:0b:00.0"


def spec(**attributes: t.Any) -> dict[str, t.Any]:
    return {"ports": [{"pci": PF, "count": 2, "attributes": [dict({"index": 0}, **attributes)]}]}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"ports": [{"count": 1}]}, "ports[0]: names neither pci nor netdev"),
        ({"ports": [{"pci": "11:0"}]}, "ports[0].pci: '11:0' is not a PCI address"),
        ({"ports": [{"pci": PF, "count": -1}]}, "ports[0].count: -1 is not a number of VFs"),
        ({"ports": [{"pci": PF}, {"pci": PF}]}, "ports[1].pci: PCI address 0000:0b:00.0 is given already in ports[0]"),
        ({"ports": [{"netdev": "a"}, {"netdev": "a"}]}, "ports[1].netdev: netdev a is given already in ports[0]"),
        (spec(index=2), "ports[0].attributes[0].index: VF 2 does not exist: count is 2"),
        (spec(index=-1), "ports[0].attributes[0].index: VF -1 does not exist: count is 2"),
        (spec(mac="02:52"), "ports[0].attributes[0].mac: '02:52' is not a MAC address"),
        (spec(mac="01:00:5e:00:00:01"), "ports[0].attributes[0].mac: 01:00:5e:00:00:01 is not a unicast address"),
        (spec(mac="00:00:00:00:00:00"), "ports[0].attributes[0].mac: 00:00:00:00:00:00 is not a unicast address"),
        (spec(node_guid="1234"), "ports[0].attributes[0].node_guid: '12:34' is not a GUID"),
        (spec(port_guid="0" * 16), "ports[0].attributes[0].port_guid: a VF with a zero GUID never gets a link"),
        (spec(vlan=4095), "ports[0].attributes[0].vlan: 4095 is not within 0..4094"),
        (spec(vlan=1, qos=8), "ports[0].attributes[0].qos: 8 is not within 0..7"),
        (spec(qos=1), "ports[0].attributes[0].qos: qos 1 is part of a VLAN tag, and vlan is not set"),
        (spec(link_state="up"), "ports[0].attributes[0].link_state: 'up' is not a link state"),
        (spec(min_tx_rate=2, max_tx_rate=1), "ports[0].attributes[0].min_tx_rate: 2 Mb/s is more than max_tx_rate"),
        (spec(max_tx_rate=-1), "ports[0].attributes[0].max_tx_rate: -1 is not within"),
    ],
)
def test_errors_have_a_place_and_a_remedy(options: dict[str, t.Any], text: str) -> None:
    with pytest.raises(RailyardError) as caught:
        vf_spec.ports(options)
    assert not isinstance(caught.value, Errors)
    assert str(caught.value).startswith(text) and caught.value.remedy


def test_the_same_vf_or_mac_twice() -> None:
    with pytest.raises(Errors) as caught:
        vf_spec.ports(
            {
                "ports": [
                    {"pci": PF, "attributes": [{"index": 0, "mac": "02:00:00:00:00:01"}, {"index": 0}]},
                    {"netdev": "b", "attributes": [{"index": 0, "mac": "02-00-00-00-00-01"}]},
                ]
            }
        )
    assert [(error.place, error.message) for error in caught.value.errors] == [
        ("ports[0].attributes[1]", "VF 0 is given already in ports[0].attributes[0]"),
        (
            "ports[1].attributes[0].mac",
            "mac 02:00:00:00:00:01 is given already in ports[0].attributes[0].mac",
        ),
    ]


def test_values_are_normalized_and_null_is_kept() -> None:
    (port,) = vf_spec.ports(
        {
            "ports": [
                {
                    "pci": "0B:00.0",
                    "count": None,
                    "attributes": [{"index": 7, "mac": "02-52-00-0B-00-00", "trust": False, "vlan": None}],
                }
            ]
        }
    )
    assert (port.pci, port.netdev, port.vf_count) == (PF, None, None)
    assert port.vfs[0].number == 7 and port.vfs[0].attributes == {"mac": "02:52:00:0b:00:00", "trust": False}


@pytest.mark.parametrize("text", ["0011:2233:4455:6677", "0x0011223344556677", "00:11:22:33:44:55:66:77"])
def test_guids_are_read_in_every_spelling(text: str) -> None:
    assert vf_attributes.guid(text) == "00:11:22:33:44:55:66:77"

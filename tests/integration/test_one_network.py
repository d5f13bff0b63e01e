# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One network for all eight ports of a node: hosts.yml twice, verify, pods of the rail agent, a reboot, and faults."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import DRIFT
from tests.integration.conftest import Node
from tests.integration.layouts import (
    CARRIERS,
    HEAD,
    NO_CARRIER,
    NODES,
    ONE,
    ONE_NETWORK,
    TWO,
    Fault,
    Layout,
    check_pods,
    prepared,
)

pytestmark = pytest.mark.lab

PROC = "/proc/sys/net/ipv4/conf"
CARRIER = "grep -qx 1 /sys/class/net/%s/carrier"
# Faults at the same time, each on another rail: name -> fault. Verify does not judge the traffic of a node with ARP
# flux, so the last group contains the lost packets.
FAULTS: list[dict[str, Fault]] = [
    {
        "ARP flux": Fault(
            *(("RV506", "RV512"), ONE, "gpu01"),
            harm="echo 0 > %s/enp1s0/arp_ignore; echo 0 > %s/enp1s0/arp_filter" % (PROC, PROC),
            found="arp_",
        ),
        # igb closes and opens a port whose MTU changes
        "MTU": Fault(("RV404",), TWO, "gpu02", "ip link set enp2s0 mtu 1500", "1500", visible=CARRIER % "enp2s0"),
        "address gone": Fault(("RV501",), ONE, "gpu03", "ip addr flush dev enp3s0 scope global"),
        "cable cut": Fault(("RV402",), TWO, "gpu05", [["cut", "node-2:5"]], visible=NO_CARRIER % "enp5s0"),
        "rule gone": Fault(("RV505",), ONE, "gpu06", "ip rule del pref 10006"),
    },
    {
        "packets lost": Fault(("RV801",), ONE, "gpu07", [["loss", "node-1:7", "100"]], either=True),
    },
]


@pytest.fixture(scope="module")
def flat(node: t.Callable[[str], Node], tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Layout]:
    yield from prepared(node, tmp_path_factory.mktemp("flat"), "flat", HEAD + ONE_NETWORK + NODES, CARRIERS % 8)


def test_one_network_of_eight_ports_is_prepared_and_proven(flat: Layout) -> None:
    done = flat.play("hosts.yml", "--skip-tags", "agent")
    assert done.returncode == 0 and "changed=0" in done.one_line, done.stdout[-4000:]
    assert flat.failures() == []
    assert flat.failures(DRIFT) == []


@pytest.mark.long
def test_pods_have_all_rails_in_one_network(flat: Layout) -> None:
    check_pods(flat)


@pytest.mark.long
@pytest.mark.parametrize("faults", FAULTS, ids=[", ".join(each) for each in FAULTS])
def test_faults_of_one_network_are_named(flat: Layout, faults: dict[str, Fault]) -> None:
    flat.name_each(faults)


@pytest.mark.long
def test_a_reboot_restores_one_network(flat: Layout) -> None:
    flat.reboot()
    assert flat.failures(DRIFT) == []
    assert flat.failures() == []

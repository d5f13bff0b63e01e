# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""mlx_linktype on a guest: through the simulated mstconfig, whose cards are rails 1 and 2, and the real tool."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest

from tests.integration.conftest import ROOT, Failed, Node

pytestmark = pytest.mark.lab_node("node-1")

RAIL, OTHER = "0000:01:00.0", "0000:02:00.0"
HOME = "/usr/local/lib/railyard-standin"
TOOL = HOME + "/bin/mstconfig"
CARD: dict[str, t.Any] = {
    "device_type": "ConnectX6",
    "name": "MCX653105A-HDA_Ax",
    "description": "ConnectX-6 VPI adapter card; single-port QSFP56",
    "parameters": {
        "LINK_TYPE_P1": {"names": {"IB": 1, "ETH": 2}, "default": 1, "current": 1, "next": 1},
        "SRIOV_EN": {"bool": True, "default": 0, "current": 0, "next": 0},
        "NUM_OF_VFS": {"max": 127, "default": 0, "current": 0, "next": 0},
    },
}


class Guest:
    """A node with the simulated mstconfig."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def state(self) -> dict[str, t.Any]:
        held: dict[str, t.Any] = self.node.json("cat %s/state.json" % HOME)
        return held

    def write(self, **parts: t.Any) -> None:
        self.node.put(HOME + "/state.json", json.dumps(dict(self.state(), **parts)))

    def run(self, *ports: dict[str, t.Any], check: bool = False, **options: t.Any) -> dict[str, t.Any]:
        return self.node.module("mlx_linktype", check=check, ports=list(ports), tool=TOOL, **options)

    def refused(self, *ports: dict[str, t.Any], **options: t.Any) -> dict[str, t.Any]:
        """The error of a run that must leave the cards as they are."""
        before = self.state()["cards"]
        with pytest.raises(Failed) as caught:
            self.run(*ports, **options)
        assert self.state()["cards"] == before
        assert caught.value.result["changes"] == [] and "Traceback" not in str(caught.value)
        error: dict[str, t.Any] = caught.value.result["errors"][0]
        return error


@pytest.fixture
def guest(node: t.Callable[[str], Node]) -> t.Iterator[Guest]:
    found = node("node-1")
    management = found.run("readlink -f /sys/class/net/enp0s30/device").strip().split("/")
    address = next(part for part in reversed(management) if part.count(":") == 2)
    cards = {pci.rpartition(".")[0]: copy.deepcopy(CARD) for pci in (RAIL, OTHER, address)}
    found.put(HOME + "/mstconfig", (ROOT / "tests/standins/mstconfig").read_text(), "0755")
    found.put(HOME + "/state.json", json.dumps({"release": {}, "cards": cards}))
    found.run(
        "mkdir -p %s/bin /run/railyard; rm -rf /run/railyard/firmware;"
        " for name in mstconfig mstfwreset; do ln -sf ../mstconfig %s/bin/$name; done" % (HOME, HOME)
    )
    yield Guest(found)
    found.run("rm -rf %s /run/railyard/firmware" % HOME)


@pytest.mark.long
def test_staged_predicted_and_nothing_the_second_time(guest: Guest) -> None:
    ports = [{"pci": pci, "link_type": "eth", "sriov_en": True, "num_of_vfs": 7} for pci in (RAIL, OTHER)]
    predicted = guest.run(*ports, check=True)
    assert guest.state()["cards"]["0000:01:00"]["parameters"]["NUM_OF_VFS"]["next"] == 0
    done = guest.run(*ports)
    assert done["changed"] and done["changes"] == predicted["changes"] and len(done["changes"]) == 6
    assert done["reboot_required"] and done["reboot_reasons"] == predicted["reboot_reasons"]
    assert [row["link_type"] for row in done["gathered"]["ports"]] == ["eth", "eth"]
    assert sum("set" in words for words in guest.state()["log"]) == 2
    again = guest.run(*ports)
    assert not again["changed"] and again["changes"] == []
    assert again["reboot_required"] and again["reboot_reasons"] == done["reboot_reasons"]
    # at another boot, what was staged is in force
    guest.write(boot_id="another")
    after = guest.run(*ports)
    assert not after["changed"] and not after["reboot_required"]


@pytest.mark.long
def test_an_older_release(guest: Guest) -> None:
    guest.write(release={"json": False, "verbose": False})
    port = {"pci": RAIL, "link_type": "eth", "num_of_vfs": 7}
    assert [each["after"] for each in guest.run(port)["changes"]] == ["ETH(2)", 7]


@pytest.mark.long
def test_an_interrupted_set_is_completed(guest: Guest) -> None:
    guest.write(failures=[{"command": "set", "out": "-E- Failed to set", "written": 1}])
    port = {"pci": RAIL, "link_type": "eth", "num_of_vfs": 7}
    with pytest.raises(Failed, match="Failed to set"):
        guest.run(port)
    assert [each["attribute"] for each in guest.run(port)["changes"]] == ["NUM_OF_VFS"]


@pytest.mark.long
def test_a_reset_with_consent(guest: Guest) -> None:
    port = {"pci": RAIL, "link_type": "eth", "num_of_vfs": 7}
    done = guest.run(port, reset="allowed")
    assert done["changes"][-1] == {"subject": RAIL, "attribute": "reset", "before": None, "after": "level 3"}
    assert not done["reboot_required"]
    assert done["gathered"]["cards"][RAIL]["parameters"]["LINK_TYPE_P1"]["current"] == "ETH(2)"
    assert not guest.run(port, reset="allowed")["changed"]


def test_the_card_of_the_connection(guest: Guest) -> None:
    (management,) = (slot + ".0" for slot in guest.state()["cards"] if slot not in ("0000:01:00", "0000:02:00"))
    # the rail before it is not set either
    error = guest.refused({"pci": RAIL, "num_of_vfs": 7}, {"pci": management, "num_of_vfs": 7})
    assert "carries this connection" in error["message"] and error["place"] == "ports[1].pci" and error["remedy"]


@pytest.mark.long
def test_no_reset_while_there_are_vfs(guest: Guest) -> None:
    run = guest.node.run
    run("echo 2 > /sys/bus/pci/devices/%s/sriov_numvfs" % RAIL)
    try:
        run("ip netns add ry-linktype")
        guest.node.until("ip link set $(ls /sys/bus/pci/devices/%s/virtfn1/net) netns ry-linktype" % RAIL)
        error = guest.refused({"pci": RAIL, "num_of_vfs": 7}, reset="allowed")
        assert "%s has VFs" % RAIL in error["message"] and "ry-linktype" in error["message"]
    finally:
        run("ip netns del ry-linktype; sleep 0.5; echo 0 > /sys/bus/pci/devices/%s/sriov_numvfs" % RAIL, check=False)


def test_the_real_tool_on_a_card_of_another_maker(guest: Guest) -> None:
    with pytest.raises(Failed) as caught:
        guest.node.module("mlx_linktype", ports=[{"pci": RAIL, "link_type": "eth"}], tool="/usr/bin/mstconfig")
    (error,) = caught.value.result["errors"]
    assert error["message"].startswith("mstconfig query: Failed to ") and "PCI vendor is 8086" in error["message"]
    assert error["place"] == RAIL and "NVIDIA" in error["remedy"]


def test_gathered_has_the_ports_and_cards(guest: Guest) -> None:
    state = guest.node.module("mlx_linktype", state="gathered", ports=[{"pci": RAIL}], tool=TOOL)
    assert state["gathered"]["ports"] == [
        {
            "pci": RAIL,
            "link_type": "ib",
            "link_types": {"1": "ib"},
            "sriov_en": False,
            "num_of_vfs": 0,
            "parameters": {},
        }
    ]

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Firmware parameters, compared with a fake mstconfig and a fake sysfs tree."""

from __future__ import annotations

import copy
import importlib.machinery
import importlib.util
import json
import os
import shutil
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    Errors,
    RailyardError,
    Refused,
    Unsupported,
)
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.nvidia.firmware import FIRMWARE
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.nvidia.firmware_tool import Tool
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.nic_firmware import Firmware, Observers
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath
from tests.unit.node.trees import INFINIBAND, Tree

STANDIN = Path(__file__).parents[2] / "standins" / "mstconfig"
LINK = {"names": {"IB": 1, "ETH": 2}, "default": 1, "current": 1, "next": 1}
CARD: dict[str, t.Any] = {
    "device_type": "ConnectX6",
    "name": "MCX653106A-HDA_Ax",
    "description": "ConnectX-6 VPI adapter card; dual-port QSFP56",
    "parameters": {
        "LINK_TYPE_P1": LINK,
        "LINK_TYPE_P2": LINK,
        "SRIOV_EN": {"bool": True, "default": 0, "current": 0, "next": 0},
        "NUM_OF_VFS": {"max": 127, "default": 0, "current": 0, "next": 0},
        "PCI_WR_ORDERING": {"names": {"per_mkey": 0, "force_relax": 1}, "default": 0, "current": 0, "next": 0},
        "HOST_CHAINING_DESCRIPTORS": {"size": 8, "default": [128] * 8, "current": [128] * 8, "next": [128] * 8},
        "PORT_OWNER": {"bool": True, "read_only": True, "default": 1, "current": 1, "next": 1},
        "COLD_ONE": {"cold": True, "default": 0, "current": 0, "next": 0},
    },
}
FIRST, SECOND, OTHER = "0000:0b:00.0", "0000:0b:00.1", "0000:0c:00.0"
NONE = ManagementPath({}, {})
CALM = {"reboot_required": False, "reboot_reasons": [], "firmware_differs": []}


def load(path: Path) -> t.Any:
    """The fake as a module, so that a test does not start a process for each reply."""
    loader = importlib.machinery.SourceFileLoader("standin", str(path))
    spec = importlib.util.spec_from_loader("standin", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


PROGRAM = load(STANDIN)


def answer(argv: t.Sequence[str], timeout: float) -> CommandResult:
    text, rc = PROGRAM.main(list(argv))
    return CommandResult(rc, text, "")


class Lab:
    """Two cards (two ports, one port) with the fake as their tool."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tree = Tree(tmp_path / "root")
        for number, path in enumerate(("0b:00.0", "0b:00.1")):
            pci = self.tree.function("pci0000:00/0000:00:01.0/0000:" + path, INFINIBAND)
            self.tree.driver(pci, "mlx5_core")
            self.tree.rdma(pci, "mlx5_%d" % number, image="aa")
        self.tree.function("pci0000:00/0000:00:02.0/0000:0c:00.0", INFINIBAND)
        self.tree.driver(OTHER, "mlx5_core")
        programs = tmp_path / "bin"
        programs.mkdir()
        for name in ("mstconfig", "mstfwreset"):
            (programs / name).symlink_to(STANDIN)
        self.tool = str(programs / "mstconfig")
        self.state_file = tmp_path / "state.json"
        monkeypatch.setenv("STANDIN_STATE", str(self.state_file))
        single = copy.deepcopy(CARD)
        del single["parameters"]["LINK_TYPE_P2"]
        self.write({"release": {}, "cards": {"0000:0b:00": copy.deepcopy(CARD), "0000:0c:00": single}})

    def write(self, state: dict[str, t.Any]) -> None:
        self.state_file.write_text(json.dumps(state))

    def state(self) -> dict[str, t.Any]:
        held: dict[str, t.Any] = json.loads(self.state_file.read_text())
        return held

    def change(self, **parts: t.Any) -> None:
        self.write(dict(self.state(), **parts))

    def parameter(self, name: str, card: str = "0000:0b:00") -> dict[str, t.Any]:
        held: dict[str, t.Any] = self.state()["cards"][card]["parameters"][name]
        return held

    def put(self, name: str, card: str = "0000:0b:00", **columns: t.Any) -> None:
        state = self.state()
        state["cards"][card]["parameters"][name].update(columns)
        self.write(state)

    def reboot(self) -> None:
        self.change(boot_id="another")
        assert answer([self.tool, "-d", FIRST, "q", "SRIOV_EN"], 1.0).rc == 0

    def asked(self, command: str) -> list[list[str]]:
        return [words for words in self.state().get("log", []) if command in words]

    def firmware(self, *ports: dict[str, t.Any], management: ManagementPath = NONE, **options: t.Any) -> Firmware:
        observers = Observers(management)._replace(
            **{key: options.pop(key) for key in ("holders", "drivers") if key in options}
        )
        options = dict(options, ports=list(ports), tool=self.tool)
        return Firmware(options, self.tree.system(answer), FIRMWARE, observers)

    def apply(self, *ports: dict[str, t.Any], **options: t.Any) -> tuple[list[Change], dict[str, t.Any]]:
        """One run; its changes and its outcome. They are compared with check mode first."""
        predicted, expected = self.predict(*ports, **options)
        firmware = self.firmware(*ports, **options)
        done: list[Change] = []
        state = firmware.observe()
        state = converge(firmware, state, firmware.changes(state), done)
        assert [change.as_dict() for change in done] == [change.as_dict() for change in predicted]
        outcome = firmware.outcome(state, [])
        if not any(change.attribute == "reset" for change in done):
            assert outcome == expected
        return done, outcome

    def predict(self, *ports: dict[str, t.Any], **options: t.Any) -> tuple[list[Change], dict[str, t.Any]]:
        firmware = self.firmware(*ports, **options)
        before = self.state()["cards"]
        state = firmware.observe()
        changes = firmware.changes(state)
        assert self.state()["cards"] == before
        return changes, firmware.outcome(state, changes)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return Lab(tmp_path, monkeypatch)


RELEASES = [{}, {"json": False}, {"json": False, "verbose": False}, {"current": False}]


@pytest.mark.parametrize("release", RELEASES, ids=["json", "text", "old", "no-current"])
def test_values_are_staged_once(lab: Lab, release: dict[str, bool]) -> None:
    lab.change(release=release)
    port = {"pci": FIRST, "link_type": "eth", "sriov_en": True, "num_of_vfs": 16}
    done, outcome = lab.apply(port)
    assert [(each.attribute, each.before, each.after) for each in done] == [
        ("LINK_TYPE_P1", "IB(1)", "ETH(2)"),
        ("LINK_TYPE_P2", "IB(1)", "ETH(2)"),
        ("SRIOV_EN", False, True),
        ("NUM_OF_VFS", 0, 16),
    ]
    assert {each.subject for each in done} == {FIRST}
    sets = lab.asked("set")
    assert [words[1:] for words in sets] == [
        ["-d", FIRST, "-y", "set", "LINK_TYPE_P1=2", "LINK_TYPE_P2=2", "SRIOV_EN=1", "NUM_OF_VFS=16"]
    ]
    assert outcome["reboot_required"] and len(outcome["reboot_reasons"]) >= 3
    done, outcome = lab.apply(port)
    assert done == []
    assert outcome["reboot_required"]
    assert "%s: LINK_TYPE_P1 is IB(1) now, ETH(2) at the next boot" % FIRST in outcome["reboot_reasons"]
    lab.reboot()
    for number in (0, 1):
        lab.tree.rdma("0000:0b:00.%d" % number, "mlx5_%d" % number, "Ethernet")
    lab.tree.write("/sys/bus/pci/devices/%s/sriov_totalvfs" % FIRST, "16")
    done, outcome = lab.apply(port)
    assert done == [] and outcome == CALM


def test_two_ports_of_one_card_are_one_batch(lab: Lab) -> None:
    done, _outcome = lab.apply(
        {"pci": FIRST, "link_type": "eth", "num_of_vfs": 8}, {"pci": SECOND, "link_type": "eth", "num_of_vfs": 8}
    )
    assert len(done) == 3
    assert len(lab.asked("set")) == 1


def test_two_ports_of_one_card_that_disagree(lab: Lab) -> None:
    with pytest.raises(RailyardError) as caught:
        lab.firmware({"pci": FIRST, "num_of_vfs": 8}, {"pci": SECOND, "num_of_vfs": 4})
    assert caught.value.place == "ports[1].num_of_vfs"
    assert "and 8 in ports[0].num_of_vfs" in caught.value.message


def test_each_port_its_own_type(lab: Lab) -> None:
    done, _outcome = lab.apply({"pci": FIRST, "link_types": {"1": "ib", "2": "eth"}})
    assert [(each.attribute, each.after) for each in done] == [("LINK_TYPE_P2", "ETH(2)")]


def test_a_single_port_wins_over_the_card(lab: Lab) -> None:
    done, _outcome = lab.apply({"pci": FIRST, "link_type": "eth", "link_types": {"2": "ib"}})
    assert [each.attribute for each in done] == ["LINK_TYPE_P1"]


def test_several_cards_one_batch_each(lab: Lab) -> None:
    done, _outcome = lab.apply({"pci": FIRST, "link_type": "eth"}, {"pci": OTHER, "link_type": "eth"})
    assert [(each.subject, each.attribute) for each in done] == [
        (FIRST, "LINK_TYPE_P1"),
        (FIRST, "LINK_TYPE_P2"),
        (OTHER, "LINK_TYPE_P1"),
    ]
    assert len(lab.asked("set")) == 2


def test_a_converged_run_asks_each_card_once(lab: Lab) -> None:
    lab.firmware({"pci": FIRST, "link_type": "ib"}, {"pci": OTHER, "link_type": "ib"}).observe()
    assert len(lab.asked("q")) == 2


@pytest.mark.parametrize("value", ["force_relax", "FORCE_RELAX(1)", 1, "1", True])
def test_other_parameters_in_any_writing(lab: Lab, value: t.Any) -> None:
    done, _outcome = lab.apply({"pci": FIRST, "parameters": {"pci_wr_ordering": value}})
    assert [each.attribute for each in done] == ["PCI_WR_ORDERING"]
    assert lab.parameter("PCI_WR_ORDERING")["next"] == 1
    assert lab.apply({"pci": FIRST, "parameters": {"pci_wr_ordering": value}})[0] == []


def test_elements_of_an_array(lab: Lab) -> None:
    port = {"pci": FIRST, "parameters": {"HOST_CHAINING_DESCRIPTORS[2..3]": 64}}
    done, _outcome = lab.apply(port)
    assert [each.attribute for each in done] == ["HOST_CHAINING_DESCRIPTORS[2]", "HOST_CHAINING_DESCRIPTORS[3]"]
    assert lab.parameter("HOST_CHAINING_DESCRIPTORS")["next"] == [128, 128, 64, 64, 128, 128, 128, 128]
    assert lab.apply(port)[0] == []


CONNECTX3 = "0000:09:00.0"


def connectx3(lab: Lab, *types: str) -> dict[str, t.Any]:
    """The outcome of a ConnectX-3 whose driver has its ports as ``types``; its tool reports no current values."""
    lab.tree.function("pci0000:00/0000:00:03.0/" + CONNECTX3, device="1003")
    lab.tree.driver(CONNECTX3, "mlx4_core")
    for number, text in enumerate(types):
        lab.tree.write("/sys/bus/pci/devices/%s/mlx4_port%d" % (CONNECTX3, number + 1), text)
    message = (STANDIN.parents[1] / "recordings" / "mstconfig" / "connectx3-types.txt").read_text()

    def recorded(argv: t.Sequence[str], timeout: float) -> CommandResult:
        wrong = next((word for word in argv if word in ("-j", "-e")), None)
        return CommandResult(3, "-E- invalid argument: %s\n" % wrong, "") if wrong else CommandResult(0, message, "")

    port = {"pci": CONNECTX3, "link_types": {"1": "ib", "2": "eth"}}
    options = {"ports": [port], "tool": lab.tool}
    firmware = Firmware(options, lab.tree.system(recorded), FIRMWARE, Observers(NONE))
    state = firmware.observe()
    assert firmware.changes(state) == []
    return firmware.outcome(state, [])


def test_the_types_of_a_connectx_3_are_reported_by_its_driver(lab: Lab) -> None:
    # the driver's answer for this card in the recording
    assert connectx3(lab, "ib", "eth") == CALM


@pytest.mark.parametrize(("message", "type_now"), [("eth", "ETH(2)"), ("auto (ib)", "VPI(3)")])
def test_a_connectx_3_that_waits_for_its_reboot(lab: Lab, message: str, type_now: str) -> None:
    expected = "%s: LINK_TYPE_P1 is %s now, IB(1) at the next boot" % (CONNECTX3, type_now)
    assert connectx3(lab, message, "eth")["reboot_reasons"] == [expected]
    # an option of the driver holds after a reboot too
    lab.tree.write("/sys/module/mlx4_core/parameters/port_type_array", "2,2")
    assert connectx3(lab, message, "eth") == CALM


def test_a_card_that_is_not_vpi(lab: Lab) -> None:
    state = lab.state()
    for name in ("LINK_TYPE_P1", "LINK_TYPE_P2"):
        del state["cards"]["0000:0b:00"]["parameters"][name]
    lab.write(state)
    for number in (0, 1):
        lab.tree.rdma("0000:0b:00.%d" % number, "mlx5_%d" % number, "Ethernet")
    assert lab.apply({"pci": FIRST, "link_type": "eth"})[0] == []
    with pytest.raises(Unsupported) as caught:
        lab.predict({"pci": FIRST, "link_type": "ib"})
    assert caught.value.message == (
        "%s does not have the parameter LINK_TYPE_P1: its link type is fixed to eth (not a VPI card)" % FIRST
    )
    assert caught.value.place == "ports[0].link_type"


def test_every_error_is_reported_at_once(lab: Lab) -> None:
    wrong = {"NO_SUCH": 1, "PORT_OWNER": False, "HOST_CHAINING_DESCRIPTORS": 1}
    before = lab.state()["cards"]
    with pytest.raises(Errors) as caught:
        lab.predict(
            {"pci": FIRST, "parameters": wrong, "link_types": {"3": "eth"}}, {"pci": OTHER, "parameters": {"BAD": 0}}
        )
    assert [error.place for error in caught.value.errors] == [
        "ports[0].link_types[3]",
        "ports[0].parameters.NO_SUCH",
        "ports[0].parameters.PORT_OWNER",
        "ports[0].parameters.HOST_CHAINING_DESCRIPTORS",
        "ports[1].parameters.BAD",
    ]
    assert lab.state()["cards"] == before


@pytest.mark.parametrize(
    ("port", "place"),
    [
        ({"pci": "0000:99:00.0"}, "ports[0].pci"),
        ({"pci": FIRST, "num_of_vfs": -1}, "ports[0].num_of_vfs"),
        ({"pci": FIRST, "link_types": {"0": "eth"}}, "ports[0].link_types[0]"),
        ({"pci": FIRST, "link_types": {"1": "fc"}}, "ports[0].link_types[1]"),
        ({"pci": FIRST, "parameters": {"A B": 1}}, "ports[0].parameters.A B"),
    ],
)
def test_invalid_specs_are_refused_with_place_and_remedy(lab: Lab, port: dict[str, t.Any], place: str) -> None:
    with pytest.raises(RailyardError) as caught:
        lab.firmware(port)
    assert caught.value.place == place and caught.value.remedy


def test_a_vf_is_not_a_card(lab: Lab) -> None:
    lab.tree.vf(FIRST, 0, "pci0000:00/0000:00:01.0/0000:0b:00.2")
    with pytest.raises(RailyardError, match="is a VF") as caught:
        lab.firmware({"pci": "0000:0b:00.2", "link_type": "eth"})
    assert caught.value.remedy == "name the PF, %s" % FIRST


def test_a_value_that_the_card_refuses(lab: Lab) -> None:
    firmware = lab.firmware({"pci": FIRST, "num_of_vfs": 500})
    with pytest.raises(RailyardError, match="larger than maximum allowed 127"):
        converge(firmware, {}, firmware.changes(firmware.observe()), [])
    assert lab.parameter("NUM_OF_VFS")["next"] == 0


def test_an_interrupted_set_is_completed_by_the_next_run(lab: Lab) -> None:
    lab.change(failures=[{"command": "set", "out": "-E- Failed to set", "written": 1}])
    port = {"pci": FIRST, "link_type": "eth", "num_of_vfs": 16}
    with pytest.raises(RailyardError, match="Failed to set"):
        lab.apply(port)
    assert (lab.parameter("LINK_TYPE_P1")["next"], lab.parameter("NUM_OF_VFS")["next"]) == (2, 0)
    done, _outcome = lab.apply(port)
    assert [each.attribute for each in done] == ["LINK_TYPE_P2", "NUM_OF_VFS"]


def test_the_card_of_the_connection_is_not_changed(lab: Lab) -> None:
    management = ManagementPath({"eth0": "carries this connection"}, {SECOND: "eth0 carries this connection"})
    # nothing to change: nothing to refuse
    assert lab.apply({"pci": FIRST, "link_type": "ib"}, management=management)[0] == []
    with pytest.raises(Refused, match="eth0 carries this connection"):
        lab.predict({"pci": FIRST, "num_of_vfs": 4}, management=management)
    lab.put("NUM_OF_VFS", next=4)
    with pytest.raises(Refused, match="eth0 carries this connection"):
        lab.predict({"pci": FIRST, "num_of_vfs": 4}, management=management, reset="allowed")


def test_a_card_in_two_slots_is_one_card_for_the_management_path(lab: Lab) -> None:
    lab.tree.function("pci0000:80/0000:80:01.0/0000:81:00.0", INFINIBAND)
    lab.tree.rdma("0000:81:00.0", "mlx5_8", image="aa")
    management = ManagementPath(
        {"eth0": "carries the default route"}, {"0000:81:00.0": "eth0 carries the default route"}
    )
    with pytest.raises(Refused, match="eth0 carries the default route"):
        lab.predict({"pci": FIRST, "num_of_vfs": 4}, management=management)


def test_no_reset_without_consent(lab: Lab) -> None:
    lab.apply({"pci": FIRST, "link_type": "eth"})
    assert lab.asked("reset") == []


def test_a_reset_brings_the_values_into_force(lab: Lab) -> None:
    port = {"pci": FIRST, "link_type": "eth", "num_of_vfs": 16}
    lab.tree.write("/sys/bus/pci/devices/%s/sriov_totalvfs" % FIRST, "16")
    done, outcome = lab.apply(port, reset="allowed")
    assert [each.attribute for each in done] == ["LINK_TYPE_P1", "LINK_TYPE_P2", "NUM_OF_VFS", "reset"]
    assert outcome == CALM
    assert lab.parameter("LINK_TYPE_P1")["current"] == 2
    assert [words[1:] for words in lab.asked("reset")] == [["-d", FIRST, "-l", "3", "-y", "reset"]]
    assert lab.apply(port, reset="allowed")[0] == []


def test_a_staged_value_is_brought_into_force_too(lab: Lab) -> None:
    lab.put("SRIOV_EN", next=1)
    done, outcome = lab.apply({"pci": FIRST, "sriov_en": True}, reset="allowed")
    assert [each.attribute for each in done] == ["reset"]
    assert not outcome["reboot_required"]


def test_a_card_of_a_function_in_never_reset_is_not_reset(lab: Lab) -> None:
    options: dict[str, t.Any] = {"reset": "allowed", "never_reset": [FIRST[:-1] + "1"]}
    done, outcome = lab.apply({"pci": FIRST, "num_of_vfs": 4}, {"pci": OTHER, "num_of_vfs": 4}, **options)
    assert [(each.subject, each.attribute) for each in done if each.attribute == "reset"] == [(OTHER, "reset")]
    assert outcome["reboot_required"]
    assert [words[2] for words in lab.asked("reset")] == [OTHER]


def test_a_value_that_needs_more_than_a_reset_is_reset_for_once(lab: Lab) -> None:
    port = {"pci": FIRST, "parameters": {"COLD_ONE": 1}}
    done, outcome = lab.apply(port, reset="allowed")
    assert [each.attribute for each in done] == ["COLD_ONE", "reset"]
    assert outcome["reboot_reasons"] == [
        "%s: COLD_ONE is 0 now, 1 at the next boot, also after a reset of the card" % FIRST
    ]
    done, again = lab.apply(port, reset="allowed")
    assert done == [] and again == outcome
    # another spec is another reason
    done, _outcome = lab.apply(dict(port, num_of_vfs=4), reset="allowed")
    assert [each.attribute for each in done] == ["NUM_OF_VFS", "reset"]


def test_no_reset_while_the_card_has_vfs(lab: Lab) -> None:
    vf = lab.tree.vf(SECOND, 0, "pci0000:00/0000:00:01.0/0000:0b:00.2")

    def holders(system: t.Any, functions: t.Sequence[str]) -> dict[str, list[str]]:
        return {each: ["a pod has it"] for each in functions}

    before = lab.state()["cards"]
    with pytest.raises(Refused) as caught:
        lab.predict({"pci": FIRST, "link_type": "eth"}, reset="allowed", holders=holders)
    assert caught.value.message == "%s cannot be reset: %s has VFs: %s (a pod has it)" % (FIRST, SECOND, vf)
    assert lab.state()["cards"] == before
    assert len(lab.apply({"pci": FIRST, "link_type": "eth"})[0]) == 2


def test_no_reset_while_a_pod_has_the_port(lab: Lab) -> None:
    """The interface is in another namespace: sysfs keeps an empty directory of it."""
    place = lab.tree.root / ("sys/bus/pci/devices/%s/net" % SECOND)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    with pytest.raises(Refused) as caught:
        lab.predict({"pci": FIRST, "link_type": "eth"}, reset="allowed")
    message = "%s cannot be reset: of %s, its netdev is in another network namespace" % (FIRST, SECOND)
    assert caught.value.message.startswith(message) and "reset: never" in caught.value.remedy
    assert len(lab.apply({"pci": FIRST, "link_type": "eth"})[0]) == 2


@pytest.mark.parametrize("taken", ["moved", "vf"])
def test_no_reset_if_a_pod_gets_the_card_after_the_check(lab: Lab, monkeypatch: pytest.MonkeyPatch, taken: str) -> None:
    """The values are staged in between, which takes seconds for each card."""
    staged = Tool.set

    def take(*arguments: t.Any) -> None:
        staged(*arguments)
        if taken == "vf":
            lab.tree.vf(SECOND, 0, "pci0000:00/0000:00:01.0/0000:0b:00.2")
        else:
            place = lab.tree.root / ("sys/bus/pci/devices/%s/net" % SECOND)
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()

    monkeypatch.setattr(Tool, "set", take)
    with pytest.raises(Refused, match="%s cannot be reset" % FIRST):
        lab.apply({"pci": FIRST, "link_type": "eth"}, reset="allowed")
    assert lab.asked("reset") == []


def test_a_reset_that_the_card_refuses_leaves_the_reboot(lab: Lab) -> None:
    state = lab.state()
    state["cards"]["0000:0b:00"]["resettable"] = False
    lab.write(state)
    firmware = lab.firmware({"pci": FIRST, "sriov_en": True}, reset="allowed")
    done: list[Change] = []
    with pytest.raises(RailyardError, match="Synchronization by driver is not supported"):
        converge(firmware, {}, firmware.changes(firmware.observe()), done)
    assert [each.attribute for each in done] == ["SRIOV_EN"]


def test_a_card_that_does_not_return_after_the_reset_is_an_error(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    firmware = lab.firmware({"pci": FIRST, "sriov_en": True}, reset="allowed", timeout=0.1)
    changes = firmware.changes(firmware.observe())
    reset = firmware._tool.reset

    def lose(device: str) -> None:
        reset(device)
        os.unlink(lab.tree.root / "sys/bus/pci/devices" / SECOND / "driver")

    monkeypatch.setattr(firmware._tool, "reset", lose)
    with pytest.raises(RailyardError, match="did not return"):
        converge(firmware, {}, changes, [])


def test_a_missing_reset_program_leaves_the_reboot(lab: Lab) -> None:
    os.unlink(os.path.join(os.path.dirname(lab.tool), "mstfwreset"))
    firmware = lab.firmware({"pci": FIRST, "sriov_en": True}, reset="allowed")
    firmware._system.which = lambda program: None  # type: ignore[method-assign]
    with pytest.raises(Unsupported, match="mstfwreset is not installed"):
        firmware.changes(firmware.observe())


def test_gathered_is_in_the_shape_of_the_option(lab: Lab) -> None:
    lab.put("LINK_TYPE_P2", next=2)
    firmware = lab.firmware({"pci": FIRST}, {"pci": OTHER})
    state = firmware.observe()
    assert state["ports"] == [
        {
            "pci": FIRST,
            "link_type": None,
            "link_types": {"1": "ib", "2": "eth"},
            "sriov_en": False,
            "num_of_vfs": 0,
            "parameters": {},
        },
        {
            "pci": OTHER,
            "link_type": "ib",
            "link_types": {"1": "ib"},
            "sriov_en": False,
            "num_of_vfs": 0,
            "parameters": {},
        },
    ]
    card = state["cards"][FIRST]
    assert card["device_type"] == "ConnectX6" and card["functions"] == [FIRST, SECOND]
    assert card["parameters"]["LINK_TYPE_P2"] == {
        "default": "IB(1)",
        "current": "IB(1)",
        "next": "ETH(2)",
        "read_only": False,
    }
    assert firmware.outcome(state, [])["reboot_reasons"] == [
        "%s: LINK_TYPE_P2 is IB(1) now, ETH(2) at the next boot" % FIRST
    ]
    # what was gathered asks for nothing
    assert lab.apply(*state["ports"])[0] == []


def test_without_names_all_cards_are_read(lab: Lab) -> None:
    lab.tree.function("pci0000:00/0000:00:03.0/0000:0d:00.0", vendor="8086")
    options = {"ports": None, "tool": lab.tool, "reset": "never", "never_reset": [], "timeout": 1.0}
    state = Firmware.from_options(options, lab.tree.system(answer)).observe()
    assert [row["pci"] for row in state["ports"]] == [FIRST, SECOND, OTHER]


@pytest.mark.parametrize(("vendor", "driver"), [("14e4", "bnxt_en"), ("1dd8", "ionic"), ("8086", "ice")])
def test_a_card_of_another_vendor_is_refused_before_the_tool_runs(lab: Lab, vendor: str, driver: str) -> None:
    pci = lab.tree.function("pci0000:00/0000:00:03.0/0000:0d:00.0", vendor=vendor)
    lab.tree.driver(pci, driver)
    with pytest.raises(RailyardError) as caught:
        lab.firmware({"pci": FIRST}, {"pci": pci, "num_of_vfs": 8})
    assert caught.value.place == "ports[1]"
    assert "%s is a NIC of the PCI vendor %s" % (pci, vendor) in caught.value.message


def test_an_error_of_one_card_does_not_hide_the_others(lab: Lab) -> None:
    lab.change(failures=[{"command": "query", "out": "-E- Failed to open the device", "device": OTHER, "times": 9}])
    with pytest.raises(RailyardError) as caught:
        lab.firmware({"pci": FIRST}, {"pci": OTHER}).observe()
    assert caught.value.place == OTHER


def test_reading_all_cards_omits_a_card_that_does_not_answer(lab: Lab) -> None:
    """As HGX B200's and B300's own NIC, for the NVLink switches, does not answer mstflint and mlxfwmanager."""
    options = {"ports": None, "tool": lab.tool, "reset": "never", "never_reset": [], "timeout": 1.0}
    message = "-E- Failed to query device current configuration"
    lab.change(failures=[{"command": "query", "out": message, "device": OTHER, "times": 9}])
    firmware = Firmware.from_options(options, lab.tree.system(answer))
    state = firmware.observe()
    assert [row["pci"] for row in state["ports"]] == [FIRST, SECOND] and list(state["cards"]) == [FIRST]
    assert firmware.changes(state) == [] and firmware.outcome(state, []) == CALM
    assert len(firmware.warnings) == 1 and firmware.warnings[0].startswith("left out: %s: mstconfig query" % OTHER)
    lab.change(failures=[{"command": "query", "out": message, "times": 99}])
    with pytest.raises(Errors):
        Firmware.from_options(options, lab.tree.system(answer)).observe()


def test_a_count_that_another_parameter_overrides_is_warned_of(lab: Lab) -> None:
    lab.put("NUM_OF_VFS", current=8, next=8)
    lab.put("SRIOV_EN", current=1, next=1)
    lab.tree.write("/sys/bus/pci/devices/%s/sriov_totalvfs" % FIRST, "4")
    firmware = lab.firmware({"pci": FIRST, "num_of_vfs": 8, "sriov_en": True})
    firmware.outcome(firmware.observe(), [])
    assert firmware.warnings and "PF_NUM_OF_VF_VALID" in firmware.warnings[0]


# -- parameters by the names that people give them


def put_in(lab: Lab, card: str = "0000:0b:00", **parameters: dict[str, t.Any]) -> None:
    state = lab.state()
    state["cards"][card]["parameters"].update(parameters)
    lab.write(state)


def number(value: int, **more: t.Any) -> dict[str, t.Any]:
    return dict({"default": value, "current": value, "next": value}, **more)


PRIORITIES = {"ROCE_CC_PRIO_MASK_P%d" % port: number(255, max=255) for port in (1, 2)}
MARKS = {"CNP_DSCP_P%d" % port: number(48, max=63) for port in (1, 2)}


def test_parameters_have_readable_names(lab: Lab) -> None:
    put_in(lab, ATS_ENABLED=number(0, bool=True), **PRIORITIES, **MARKS)
    wanted = {"relaxed_ordering": True, "ats": "yes", "roce_cc_priorities": [3, 5], "cnp_dscp": 46}
    done, _outcome = lab.apply({"pci": FIRST, "parameters": wanted})
    assert [(each.attribute, each.before, each.after) for each in done] == [
        ("PCI_WR_ORDERING", "per_mkey(0)", "force_relax"),
        ("ATS_ENABLED", False, 1),
        ("ROCE_CC_PRIO_MASK_P1", 255, 40),
        ("ROCE_CC_PRIO_MASK_P2", 255, 40),
        ("CNP_DSCP_P1", 48, 46),
        ("CNP_DSCP_P2", 48, 46),
    ]
    assert len(lab.asked("set")) == 1 and lab.parameter("PCI_WR_ORDERING")["next"] == 1
    assert lab.apply({"pci": FIRST, "parameters": wanted})[0] == []


def test_every_port_is_each_that_the_card_has(lab: Lab) -> None:
    # two functions, and a firmware that has one port's: as a card with one port split in two
    put_in(lab, CNP_DSCP_P1=MARKS["CNP_DSCP_P1"])
    done, _outcome = lab.apply({"pci": FIRST, "parameters": {"CNP_DSCP_P*": 40}})
    assert [each.attribute for each in done] == ["CNP_DSCP_P1"]
    with pytest.raises(Unsupported, match="does not have the parameter CNP_802P_PRIO_P1") as caught:
        lab.predict({"pci": FIRST, "parameters": {"CNP_802P_PRIO_P*": 6}})
    assert caught.value.place == "ports[0].parameters.CNP_802P_PRIO_P*"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("cnp_dscp", 64, "a number from 0 to 63"),
        ("cnp_dscp", True, "a number from 0 to 63"),
        ("roce_cc_priorities", [3, 8], "a list of priorities from 0 to 7"),
        ("relaxed_ordering", "maybe", "true or false"),
        ("NUM_PF_MSIX", [1, 2], "a single value"),
        ("NUM_PF_MSIX", "", "a single value"),
    ],
)
def test_values_that_a_parameter_does_not_take(lab: Lab, name: str, value: t.Any, message: str) -> None:
    with pytest.raises(RailyardError) as caught:
        lab.firmware({"pci": FIRST, "parameters": {name: value}})
    assert caught.value.place == "ports[0].parameters." + name and caught.value.remedy == "write " + message


def test_a_parameter_that_another_one_hides_waits_for_it(lab: Lab) -> None:
    guarded = number(0, guard="ADVANCED_PCI_SETTINGS")
    put_in(lab, ADVANCED_PCI_SETTINGS=number(0, bool=True), MAX_ACC_OUT_READ=guarded)
    port = {"pci": FIRST, "parameters": {"advanced_pci_settings": True, "max_acc_out_read": 128}}
    done, outcome = lab.apply(port)
    assert [each.attribute for each in done] == ["ADVANCED_PCI_SETTINGS"]
    assert outcome["reboot_reasons"][-1] == (
        "%s: MAX_ACC_OUT_READ is hidden until ADVANCED_PCI_SETTINGS is in force; the run after the reboot sets it"
        % FIRST
    )
    assert lab.apply(port) == ([], outcome)
    lab.reboot()
    done, outcome = lab.apply(port)
    assert [(each.attribute, each.after) for each in done] == [("MAX_ACC_OUT_READ", 128)] and outcome["reboot_required"]
    lab.reboot()
    assert lab.apply(port) == ([], CALM)


def test_a_reset_shows_a_hidden_parameter_and_the_next_run_sets_it(lab: Lab) -> None:
    guarded = number(0, guard="ADVANCED_PCI_SETTINGS")
    put_in(lab, ADVANCED_PCI_SETTINGS=number(0, bool=True), MAX_ACC_OUT_READ=guarded)
    port = {"pci": FIRST, "parameters": {"advanced_pci_settings": True, "max_acc_out_read": 128}}
    done, outcome = lab.apply(port, reset="allowed")
    assert [each.attribute for each in done] == ["ADVANCED_PCI_SETTINGS", "reset"]
    assert outcome["reboot_reasons"] == [
        "%s: MAX_ACC_OUT_READ is visible now that ADVANCED_PCI_SETTINGS is in force; the next run sets it" % FIRST
    ]
    done, outcome = lab.apply(port, reset="allowed")
    assert [each.attribute for each in done] == ["MAX_ACC_OUT_READ", "reset"] and outcome == CALM
    assert lab.parameter("MAX_ACC_OUT_READ")["current"] == 128


def test_a_hidden_parameter_without_advanced_settings_is_an_error(lab: Lab) -> None:
    put_in(lab, ADVANCED_PCI_SETTINGS=number(0, bool=True))
    with pytest.raises(Unsupported) as caught:
        lab.predict({"pci": FIRST, "parameters": {"MAX_ACC_OUT_READ": 128}})
    assert caught.value.remedy.startswith("set ADVANCED_PCI_SETTINGS: true too")
    # in force, and still not there: the card has none
    lab.put("ADVANCED_PCI_SETTINGS", current=1, next=1)
    with pytest.raises(Unsupported, match="does not have the parameter MAX_ACC_OUT_READ"):
        lab.predict({"pci": FIRST, "parameters": {"max_acc_out_read": 128, "advanced_pci_settings": True}})


# -- the firmware itself


def test_the_version_is_compared_with_the_desired_one(lab: Lab) -> None:
    lab.tree.write("/sys/class/infiniband/mlx5_0/fw_ver", "20.31.1014")
    lab.tree.write("/sys/class/infiniband/mlx5_0/board_id", "MT_0000000223")
    firmware = lab.firmware({"pci": FIRST, "version": "20.43.2566"}, {"pci": OTHER, "version": "20.43.2566"})
    state = firmware.observe()
    assert (state["cards"][FIRST]["version"], state["cards"][FIRST]["psid"]) == ("20.31.1014", "MT_0000000223")
    assert state["cards"][OTHER]["version"] is None
    assert firmware.changes(state) == []
    assert firmware.outcome(state, [])["firmware_differs"] == [
        {"card": FIRST, "wanted": "20.43.2566", "version": "20.31.1014"},
        {"card": OTHER, "wanted": "20.43.2566", "version": None},
    ]
    assert [warning.partition(" 20.43")[0] for warning in firmware.warnings] == [
        "%s: the firmware is 20.31.1014, not" % FIRST,
        "%s: the firmware is not reported by a driver, not" % OTHER,
    ]
    firmware = lab.firmware({"pci": FIRST, "version": "20.31.1014"})
    assert firmware.outcome(firmware.observe(), []) == CALM and not firmware.warnings


def test_the_version_of_a_card_without_an_rdma_device(lab: Lab) -> None:
    lab.tree.netdev(OTHER, "eth7")

    def drivers(netdevs: t.Iterable[str]) -> dict[str, str]:
        return {"eth7": "22.31.1014 (MT_0000000359)"} if "eth7" in netdevs else {}

    card = lab.firmware({"pci": OTHER}, drivers=drivers).observe()["cards"][OTHER]
    assert (card["version"], card["psid"]) == ("22.31.1014", "MT_0000000359")


def test_two_versions_of_one_card(lab: Lab) -> None:
    with pytest.raises(RailyardError) as caught:
        lab.firmware({"pci": FIRST, "version": "1"}, {"pci": SECOND, "version": "2"})
    assert caught.value.place == "ports[1].version" and "and 1 in ports[0].version" in caught.value.message


def test_a_bluefield_reports_its_mode_and_is_not_reset(lab: Lab) -> None:
    lab.tree.write("/sys/bus/pci/devices/%s/device" % FIRST, "0xa2dc")
    put_in(lab, INTERNAL_CPU_OFFLOAD_ENGINE=number(1, names={"ENABLED": 0, "DISABLED": 1}))
    firmware = lab.firmware({"pci": FIRST, "num_of_vfs": 16}, reset="allowed")
    state = firmware.observe()
    assert state["cards"][FIRST]["mode"] == "nic" and state["ports"][0]["parameters"] == {}
    changes = firmware.changes(state)
    assert [each.attribute for each in changes] == ["NUM_OF_VFS"]
    (warning,) = firmware.warnings
    assert "is a BlueField, which is not reset from the host" in warning
    assert firmware.outcome(state, changes)["reboot_required"]
    lab.put("INTERNAL_CPU_OFFLOAD_ENGINE", current=0, next=0)
    firmware = lab.firmware({"pci": FIRST, "num_of_vfs": 16})
    state = firmware.observe()
    assert (
        state["cards"][FIRST]["mode"] == "dpu" and firmware.outcome(state, firmware.changes(state))["reboot_required"]
    )
    assert "a reboot of the host does not restart" in firmware.warnings[0] and "power-cycle" in firmware.warnings[0]

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the firmware tools say, real and recorded, and what is read from it."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Unsupported
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.nvidia import firmware_tool
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.nvidia.firmware_tool import Tool
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol import vendor_firmware
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System

RECORDINGS = Path(__file__).parents[2] / "recordings" / "mstconfig"


def recording(name: str) -> str:
    return (RECORDINGS / (name + ".txt")).read_text()


def values(name: str, parameter: str) -> tuple[t.Any, t.Any, t.Any]:
    held = firmware_tool.parse_text(recording(name)).parameters[parameter]
    return held["default"], held["current"], held["next"]


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("bluefield2-verbose", 13),
        ("bluefield3-dpu-next", 19),
        ("connectx3-query-fails", 0),
        ("connectx3-types", 20),
        ("connectx3pro-types", 10),
        ("connectx4-changed", 4),
        ("bluefield3-supernic-ats", 1),
        ("connectx5-advanced-current", 5),
        ("connectx5-verbose-full-columns", 8),
        ("connectx5-vpi-next", 143),
        ("connectx6lx-verbose", 11),
        ("connectx6lx-verbose-wide", 10),
        ("connectx7-next", 15),
    ],
)
def test_every_row_of_every_recording_is_understood(name: str, rows: int) -> None:
    assert len(firmware_tool.parse_text(recording(name)).parameters) == rows


@pytest.mark.parametrize(
    ("name", "parameter", "expected"),
    [
        ("connectx4-changed", "KEEP_IB_LINK_UP_P2", (False, True, True)),
        ("connectx4-changed", "MEMIC_SIZE_LIMIT", ("_256KB(1)", "_256KB(1)", "DISABLED(0)")),
        ("connectx4-changed", "ESWITCH_HAIRPIN_DESCRIPTORS", ("Array[0..7]",) * 3),
        ("connectx5-verbose-full-columns", "PHY_FEC_OVERRIDE_P1", ("DEVICE_DEFAULT(0)",) * 3),
        ("connectx5-verbose-full-columns", "PF_NUM_PF_MSIX", (63, 63, 63)),
        ("connectx6lx-verbose-wide", "PCI_ATOMIC_MODE", ("PCI_ATOMIC_DISABLED_EXT_ATOMIC_ENABLED(0)",) * 3),
        ("connectx7-next", "LINK_TYPE_P1", (None, None, "IB(1)")),
        ("connectx7-next", "MEMIC_ATOMIC", (None, None, "MEMIC_ATOMIC_ENABLE(2)")),
        ("connectx7-next", "DCR_LIFO_SIZE", (None, None, 16384)),
        ("bluefield2-verbose", "INTERNAL_CPU_MODEL", ("EMBEDDED_CPU(1)",) * 3),
        ("bluefield3-dpu-next", "INTERNAL_CPU_OFFLOAD_ENGINE", (None, None, "ENABLED(0)")),
        ("bluefield3-dpu-next", "MEMIC_ATOMIC", (None, None, "MEMIC_ATOMIC_ENABLE(2)")),
        ("bluefield3-dpu-next", "ADVANCED_PCI_SETTINGS", (None, None, False)),
        ("connectx3pro-types", "LINK_TYPE_P1", (None, None, "IB(1)")),
        ("connectx3pro-types", "LINK_TYPE_P2", (None, None, "ETH(2)")),
        ("connectx3-types", "LINK_TYPE_P1", (None, None, "IB(1)")),
        ("connectx3-types", "LINK_TYPE_P2", (None, None, "ETH(2)")),
        ("connectx5-vpi-next", "LINK_TYPE_P1", (None, None, "IB(1)")),
        ("connectx5-vpi-next", "NUM_OF_VL_P1", (None, None, "_4_VLs(3)")),
        ("connectx5-vpi-next", "EXP_ROM_UEFI_X86_ENABLE", (None, None, True)),
        ("connectx5-vpi-next", "PCI_WR_ORDERING", (None, None, "per_mkey(0)")),
        ("connectx5-advanced-current", "ADVANCED_PCI_SETTINGS", (False, True, True)),
        ("bluefield3-supernic-ats", "ATS_ENABLED", (None, None, False)),
    ],
)
def test_a_range_of_values_is_expanded_to_parameters(name: str, parameter: str, expected: tuple[t.Any, ...]) -> None:
    assert values(name, parameter) == expected


def test_the_card_is_identified() -> None:
    about = firmware_tool.parse_text(recording("connectx6lx-verbose-wide")).about
    assert about["device_type"] == "ConnectX6LX"
    assert about["name"] == "MCX631102AC-ADA_Ax"
    assert about["description"].startswith("ConnectX-6 Lx EN adapter card; 25GbE")


def test_a_card_whose_name_the_tool_does_not_know() -> None:
    assert firmware_tool.parse_text(recording("connectx4lx-without-name")).about == {"device_type": "ConnectX4LX"}
    reply = {"Device #1": {"device_type": "ConnectX4LX", "name": "N/A", "tlv_configuration": {}}}
    assert firmware_tool.parse_json(json.dumps(reply)).about == {"device_type": "ConnectX4LX"}


def test_read_only_marks_and_values_without_a_blank_between() -> None:
    text = (
        "Configurations:                              Default         Current         Next Boot\n"
        " RO      SOME_LIMIT                          16              16              16\n"
        "*RO      OTHER_LIMIT                         False(0)        N/A             True(1)\n"
        "         LONG_ONE                            MEMIC_ATOMIC_ENABLE(2)MEMIC_ATOMIC_ENABLE(2)DISABLED(0)\n"
        "The '*' shows parameters with next value different from default/current value.\n"
        "\nThe 'RO' shows parameters which are for read only and cannot be changed\n"
    )
    held = firmware_tool.parse_text(text).parameters
    assert set(held) == {"SOME_LIMIT", "OTHER_LIMIT", "LONG_ONE"}
    assert held["SOME_LIMIT"] == {"default": 16, "current": 16, "next": 16, "read_only": True}
    assert held["OTHER_LIMIT"] == {"default": False, "current": None, "next": True, "read_only": True}
    assert held["LONG_ONE"]["next"] == "DISABLED(0)"


def test_json_in_any_case_of_keys() -> None:
    row = {"Next_Value": "ETH(2)", "current_value": "IB(1)", "default_value": "IB(1)", "read_only": False}
    text = json.dumps({"Device #1": {"Device_Type": "ConnectX7", "TLV_Configuration": {"link_type_p1": row}}})
    result = firmware_tool.parse_json(text)
    assert result.about == {"device_type": "ConnectX7"}
    assert result.parameters["LINK_TYPE_P1"] == {
        "default": "IB(1)",
        "current": "IB(1)",
        "next": "ETH(2)",
        "read_only": False,
    }


@pytest.mark.parametrize("text", ["[]", '{"Device #1": []}', "", "{}}"])
def test_json_of_another_shape_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        firmware_tool.parse_json(text)


def test_empty_json_of_a_device_that_failed() -> None:
    assert firmware_tool.parse_json("{}").parameters == {}


@pytest.mark.parametrize(
    ("held", "wanted", "expected"),
    [
        ("ETH(2)", "eth", True),
        ("ETH(2)", 2, True),
        ("ETH(2)", "2", True),
        ("ETH(2)", "ETH(2)", True),
        ("ETH(2)", "IB", False),
        (True, "1", True),
        (True, "true", True),
        (True, True, True),
        (False, True, False),
        (16, 16, True),
        (16, "0x10", True),
        (16, "016", True),
        (16, 8, False),
        ("_256KB(1)", "_256kb", True),
        (None, 0, False),
        (None, "N/A", False),
        ("Array[0..7]", 1, False),
    ],
)
def test_values_of_the_same_number_are_equal(held: t.Any, wanted: t.Any, expected: bool) -> None:
    assert vendor_firmware.same(held, wanted) is expected


class Node(System):
    """A node whose tool gives the recorded answers in order."""

    def __init__(self, root: Path, answers: t.Sequence[tuple[int, str, str]]) -> None:
        self.answers = list(answers)
        self.asked: list[list[str]] = []
        super().__init__(str(root), self.answer)

    def answer(self, argv: t.Sequence[str], timeout: float) -> CommandResult:
        self.asked.append(list(argv))
        return CommandResult(*self.answers.pop(0))

    def which(self, program: str) -> str | None:
        return "/usr/bin/" + program if program in ("mstconfig", "mstfwreset") else None


def test_a_release_without_json_is_asked_for_the_table(tmp_path: Path) -> None:
    node = Node(tmp_path, [(3, recording("mstflint-4.21-json"), ""), (0, recording("connectx7-next"), "")])
    held = Tool(node).query("0000:01:00.0", ["LINK_TYPE_P1"])
    assert held.parameters["LINK_TYPE_P1"]["next"] == "IB(1)"
    assert "-j" in node.asked[0] and "-j" not in node.asked[1]
    assert node.asked[1] == ["/usr/bin/mstconfig", "-d", "0000:01:00.0", "-e", "q", "LINK_TYPE_P1"]


def test_a_release_without_verbosity_too(tmp_path: Path) -> None:
    node = Node(
        tmp_path,
        [
            (3, recording("mstflint-4.21-json"), ""),
            (3, "-E- invalid argument: -e\n", ""),
            (0, recording("connectx7-next"), ""),
        ],
    )
    assert Tool(node).query("0000:01:00.0", ["LINK_TYPE_P1"]).parameters["LINK_TYPE_P1"]["current"] is None
    assert node.asked[2] == ["/usr/bin/mstconfig", "-d", "0000:01:00.0", "q", "LINK_TYPE_P1"]


def test_a_parameter_that_the_card_rejects_is_omitted_and_the_query_repeated(tmp_path: Path) -> None:
    node = Node(
        tmp_path,
        [
            (3, recording("mstflint-4.21-json"), ""),
            (3, "\nDevice #1:\n-E- The Device doesn't support LINK_TYPE_P2 parameter\n", ""),
            (0, recording("connectx7-next"), ""),
        ],
    )
    held = Tool(node).query("0000:01:00.0", ["LINK_TYPE_P1", "LINK_TYPE_P2"]).parameters
    assert "LINK_TYPE_P1" in held and "LINK_TYPE_P2" not in held


@pytest.mark.parametrize("name", ["lockdown-4.15", "lockdown-4.33"])
def test_lockdown_is_explained(tmp_path: Path, name: str) -> None:
    (tmp_path / "sys/kernel/security").mkdir(parents=True)
    (tmp_path / "sys/kernel/security/lockdown").write_text("none [integrity] confidentiality\n")
    node = Node(tmp_path, [(3, recording(name), "")])
    with pytest.raises(Unsupported, match=r"kernel lockdown \(integrity, as with Secure Boot\)") as caught:
        Tool(node).query("0000:01:00.0", ["SRIOV_EN"])
    assert "Failed to" in caught.value.message and caught.value.place == "0000:01:00.0"


def test_a_missing_card_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    node = Node(tmp_path, [(3, recording("mstflint-4.21-no-device"), "")])
    with pytest.raises(RailyardError, match="Failed to open the device") as caught:
        Tool(node).query("0000:01:00.0", ["SRIOV_EN"])
    assert "become" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "message", "remedy"),
    [
        (
            "connectx3-query-fails",
            "Failed to query device current configuration",
            "leave the card's firmware parameters out",
        ),
        ("unsupported-device", "Unsupported device", "mstflint 4.25 is the last for a ConnectX-3"),
        ("bluefield2-mode-changed", "check if NV access registers are supported", "power-cycle the server"),
    ],
)
def test_a_query_that_fails_has_a_remedy_that_is_not_another_query(
    tmp_path: Path, name: str, message: str, remedy: str
) -> None:
    node = Node(tmp_path, [(3, recording("mstflint-4.21-json"), ""), (3, recording(name), "")])
    with pytest.raises(RailyardError, match=message) as caught:
        Tool(node).query("0000:01:00.0", ["LINK_TYPE_P1"])
    assert remedy in caught.value.remedy


def test_a_held_semaphore_names_the_command_that_clears_it(tmp_path: Path) -> None:
    node = Node(tmp_path, [(3, "-E- Failed to lock the device semaphore\n", "")])
    with pytest.raises(RailyardError) as caught:
        Tool(node).query("0000:01:00.0", ["SRIOV_EN"])
    assert "/usr/bin/mstconfig -d 0000:01:00.0 clear_semaphore" in caught.value.remedy


def test_a_refused_set_has_the_message_of_the_tool(tmp_path: Path) -> None:
    node = Node(tmp_path, [(3, recording("mstflint-4.21-bad-set"), "")])
    with pytest.raises(RailyardError, match="mstconfig set: Invalid Configuration argument LINK_TYPE_P1"):
        Tool(node).set("0000:01:00.0", {"LINK_TYPE_P1": "2"})


def test_one_set_for_the_whole_batch_and_never_the_reset_flag(tmp_path: Path) -> None:
    node = Node(tmp_path, [(0, recording("connectx5-set"), "")])
    Tool(node).set("0000:02:00.0", {"SRIOV_EN": "1", "NUM_OF_VFS": "8"})
    assert node.asked == [["/usr/bin/mstconfig", "-d", "0000:02:00.0", "-y", "set", "SRIOV_EN=1", "NUM_OF_VFS=8"]]


def test_a_refused_reset_has_the_message_of_the_tool(tmp_path: Path) -> None:
    node = Node(tmp_path, [(1, recording("mstfwreset-4.21-virtual-machine"), "")])
    with pytest.raises(RailyardError, match="mstfwreset: The tool is not supported on virtual machines") as caught:
        Tool(node).reset("0000:01:00.0")
    assert "reboot" in caught.value.remedy
    assert node.asked == [["/usr/bin/mstfwreset", "-d", "0000:01:00.0", "-l", "3", "-y", "reset"]]


def test_a_missing_tool_names_its_package(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    with pytest.raises(Unsupported, match="/nowhere/mlxconfig is not installed") as caught:
        Tool(system, "/nowhere/mlxconfig")
    assert "mstflint" in caught.value.remedy


def test_a_tool_that_does_not_answer(tmp_path: Path) -> None:
    node = Node(tmp_path, [(124, "", "mstconfig: no answer within 120 s")])
    with pytest.raises(RailyardError, match="no answer within 120 s") as caught:
        Tool(node).query("0000:01:00.0", ["SRIOV_EN"])
    assert "dmesg" in caught.value.remedy


@pytest.mark.parametrize("name", ["connectx5-set", "connectx6-types-set", "connectx6dx-set", "connectx7-set"])
def test_the_output_of_a_set_that_worked(tmp_path: Path, name: str) -> None:
    node = Node(tmp_path, [(0, recording(name), "")])
    Tool(node).set("0000:02:00.0", {"X": "1"})


def test_a_reset_that_worked(tmp_path: Path) -> None:
    node = Node(tmp_path, [(0, recording("connectx6dx-fwreset"), "")])
    Tool(node).reset("0000:3d:00.0")


def test_rows_of_roce_parameters() -> None:
    head = "Configurations:                              Next Boot\n"
    held = firmware_tool.parse_text(head + recording("connectx6dx-roce-next")).parameters
    assert {name: row["next"] for name, row in held.items()} == {
        "ROCE_NEXT_PROTOCOL": 254,
        "ROCE_ADAPTIVE_ROUTING_EN": False,
        "ROCE_CC_LEGACY_DCQCN": True,
        "ROCE_CC_PRIO_MASK_P1": 255,
        "ROCE_CC_PRIO_MASK_P2": 255,
        "ROCE_CONTROL": "ROCE_ENABLE(2)",
    }


def test_a_parameter_that_the_card_does_not_have_is_omitted_from_the_query(tmp_path: Path) -> None:
    answers = [
        (3, recording("mstflint-4.21-json"), ""),
        (3, recording("connectx4lx-no-parameter"), ""),
        (0, recording("connectx7-next"), ""),
    ]
    node = Node(tmp_path, answers)
    found = Tool(node).query("0000:01:00.0", ["INTERNAL_CPU_OFFLOAD_ENGINE", "LINK_TYPE_P1"])
    assert "INTERNAL_CPU_OFFLOAD_ENGINE" not in found.parameters and found.parameters["LINK_TYPE_P1"]["next"] == "IB(1)"

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rail ports and GPUs behind a switch, under a host bridge and apart: what is changed, refused and reported."""

from __future__ import annotations

import contextlib
import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Errors, RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.boot import boot_state
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import State, converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult
from ansible_collections.railyard.fabric.plugins.module_utils._node.host.pci_tuning import PciTuning
from ansible_collections.railyard.fabric.plugins.module_utils._node.host.pci_tuning_spec import between
from ansible_collections.railyard.fabric.plugins.module_utils._node.layers import boot_program
from tests.unit.node.nic_kernel import Killed
from tests.unit.node.pci_kernel import PciKernel

# A switch below root port 00:01.0: upstream port 01:00.0, downstream ports 02:00.0 (NIC) and 02:01.0 (GPU)
SWITCH = "pci0000:00/0000:00:01.0/0000:01:00.0"
NIC, GPU = "0000:03:00.0", "0000:04:00.0"
ROOT, UP, DOWN_NIC, DOWN_GPU = "0000:00:01.0", "0000:01:00.0", "0000:02:00.0", "0000:02:01.0"
# Another NIC under a root port of its own, and the management NIC beside them
OTHER, OTHER_ROOT = "0000:05:00.0", "0000:00:02.0"
ALL_SET = ["SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd"]
LEFT = ["TransBlk"]
LINK = {
    "current_link_speed": "32.0 GT/s PCIe",
    "max_link_speed": "32.0 GT/s PCIe",
    "current_link_width": "16",
    "max_link_width": "16",
}


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PciKernel:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    kernel = PciKernel(tmp_path)
    kernel.bridge("pci0000:00/0000:00:01.0")
    kernel.bridge(SWITCH, on=False)
    kernel.bridge(SWITCH + "/0000:02:00.0", **LINK)
    kernel.bridge(SWITCH + "/0000:02:01.0")
    kernel.nic(SWITCH + "/0000:02:00.0/" + NIC, "enp3s0", **LINK)
    kernel.gpu(SWITCH + "/0000:02:01.0/" + GPU)
    kernel.bridge("pci0000:00/0000:00:02.0")
    kernel.nic("pci0000:00/0000:00:02.0/" + OTHER, "enp5s0")
    kernel.bridge("pci0000:00/0000:00:03.0")
    kernel.nic("pci0000:00/0000:00:03.0/0000:06:00.0", "eno1")
    kernel.tree.write(
        "/proc/net/route", "Iface\tDestination\tGateway\neno1\t00000000\t0100000A\t0003\t0\t0\t0\t00000000"
    )
    return kernel


def port(**more: t.Any) -> dict[str, t.Any]:
    return dict({"pci": NIC, "gpus": [0]}, **more)


def options(*ports: dict[str, t.Any], **more: t.Any) -> dict[str, t.Any]:
    given: dict[str, t.Any] = {"ports": list(ports) or [port()], "gpus": {"0": GPU}, "acs": "disabled"}
    return dict(dict(given, max_read_request=4096), **more)


def run(kernel: PciKernel, given: t.Mapping[str, t.Any] | None = None) -> tuple[list[tuple[t.Any, ...]], State]:
    """Predicted, done and read back; that the prediction was the act."""
    it = PciTuning(given or options(), kernel)
    state = it.observe()
    changes = it.changes(state)
    done: list[Change] = []
    state = converge(it, state, changes, done)
    assert done == changes
    return [(each.subject, each.attribute, each.before, each.after) for each in done], state


def refused(kernel: PciKernel, given: t.Mapping[str, t.Any] | None = None) -> list[str]:
    before = list(kernel.operations)
    with pytest.raises(RailyardError) as caught:
        run(kernel, given)
    assert kernel.operations == before
    return [str(each) for each in (caught.value.errors if isinstance(caught.value, Errors) else [caught.value])]


def acs(kernel: PciKernel, bridge: str) -> int:
    return kernel.word(bridge, 0x116)


# -- between --------------------------------------------------------------------------------------------------------


def test_the_bridges_between_gpu_and_nic_are_found() -> None:
    nic = ["pci0000:00", ROOT, UP, DOWN_NIC, NIC]
    gpu = ["pci0000:00", ROOT, UP, DOWN_GPU, GPU]
    assert between(nic, gpu) == [DOWN_NIC, DOWN_GPU]
    assert between(nic, ["pci0000:00", OTHER_ROOT, OTHER]) == [ROOT, UP, DOWN_NIC, OTHER_ROOT]
    # two functions of one slot, and two host bridges
    assert between(nic, [*nic[:-1], "0000:03:00.1"]) == []
    assert between(nic, ["pci0000:80", "0000:80:01.0", "0000:81:00.0"]) == []


def test_the_bridges_of_recorded_trees() -> None:
    """Of an 8-GPU H100 server: the switch's two downstream bridges and nothing above; no bridge of a far pair."""
    data = json.loads((Path(__file__).parents[2] / "recordings/sysfs/h100-switch-a-pair.json").read_text())
    ways = {each["path"].rpartition("/")[2]: each["path"].split("/") for each in data["functions"]}
    assert between(ways["0000:da:00.0"], ways["0000:d9:00.0"]) == ["0000:d8:01.0", "0000:d8:00.0"]
    assert between(ways["0000:49:00.0"], ways["0000:d9:00.0"]) == []


# -- setting --------------------------------------------------------------------------------------------------------


def test_acs_is_cleared_on_the_path_only(kernel: PciKernel) -> None:
    done, state = run(kernel)
    assert done == [
        (NIC, "MaxReadReq", 512, 4096),
        (DOWN_NIC, "ACSCtl", ALL_SET, LEFT),
        (DOWN_GPU, "ACSCtl", ALL_SET, LEFT),
    ]
    assert [acs(kernel, each) for each in (DOWN_NIC, DOWN_GPU)] == [0x02, 0x02]
    assert [acs(kernel, each) for each in (ROOT, OTHER_ROOT, "0000:00:03.0")] == [0x1F] * 3
    assert {pci for pci, _at, _data in kernel.written} == {NIC, DOWN_NIC, DOWN_GPU}
    assert (state["acs"], state["ports"][0]["max_read_request"]) == ("disabled", 4096)
    assert run(kernel)[0] == []


def test_under_one_host_bridge_the_root_ports_are_between(kernel: PciKernel) -> None:
    done, _state = run(kernel, options({"netdev": "enp5s0", "gpus": [0]}, max_read_request=None))
    assert [each[0] for each in done] == [ROOT, OTHER_ROOT, DOWN_GPU]
    assert acs(kernel, DOWN_NIC) == 0x1F


def test_gathered_settings_as_options_change_nothing(kernel: PciKernel) -> None:
    _done, state = run(kernel)
    again = dict(
        options(),
        ports=[{key: row[key] for key in ("pci", "netdev", "gpus", "max_read_request")} for row in state["ports"]],
    )
    assert run(kernel, again)[0] == []


def test_leave_changes_nothing(kernel: PciKernel) -> None:
    assert run(kernel, options(acs="leave", max_read_request=None))[0] == []
    assert kernel.written == []


def test_the_read_request_size_of_a_port_has_priority(kernel: PciKernel) -> None:
    done, _state = run(kernel, options(port(max_read_request=1024), {"netdev": "enp5s0"}, acs="leave"))
    assert [(each[0], each[3]) for each in done] == [(NIC, 1024), (OTHER, 4096)]


def test_gpus_without_addresses_are_numbered_as_by_their_driver(kernel: PciKernel) -> None:
    for gpus in ({}, {"0": None}):
        state = PciTuning(options(gpus=gpus), kernel).observe()
        assert state["ports"][0]["near"] == [{"gpu": 0, "pci": GPU, "distance": "PIX", "bridges": [DOWN_NIC, DOWN_GPU]}]


def test_all_functions_are_read_with_their_nearest_gpus(kernel: PciKernel) -> None:
    state = PciTuning({"ports": [], "state": "gathered"}, kernel).observe()
    assert [(row["pci"], row["gpus"], row["near"][0]["distance"]) for row in state["ports"]] == [
        (NIC, [0], "PIX"),
        (OTHER, [0], "PHB"),
        ("0000:06:00.0", [0], "PHB"),
    ]
    assert state["acs"] is None


def test_a_kill_at_any_point_is_completed_by_the_next_run(kernel: PciKernel) -> None:
    place = 0
    while True:
        for bridge in (DOWN_NIC, DOWN_GPU):
            kernel.poke(bridge, 0x116, 0x1F)
        for name in ("/etc/railyard", "/etc/systemd", "/etc/udev"):
            for path in sorted((Path(kernel.root) / name.lstrip("/")).rglob("*"), reverse=True):
                path.unlink() if not path.is_dir() else path.rmdir()
        kernel.poke(NIC, 0x68, 0x2810)
        kernel.operations.clear()
        kernel.kill_at = place
        with contextlib.suppress(Killed):
            run(kernel, options(persist=True))
            break
        kernel.kill_at = None
        run(kernel, options(persist=True))
        assert [acs(kernel, each) for each in (DOWN_NIC, DOWN_GPU)] == [0x02, 0x02]
        assert run(kernel, options(persist=True))[0] == []
        place += 1
    assert place > 6


def test_a_device_that_ignores_the_write_is_reported(kernel: PciKernel) -> None:
    kernel.stuck.add(DOWN_GPU)
    with pytest.raises(RailyardError, match="was set, but reads back otherwise: ACSCtl") as caught:
        run(kernel)
    assert caught.value.place == DOWN_GPU


# -- refusals -------------------------------------------------------------------------------------------------------


def test_the_management_path_is_never_touched(kernel: PciKernel) -> None:
    (text,) = refused(kernel, options({"netdev": "eno1"}, acs="leave"))
    assert text == (
        "ports[0]: 0000:06:00.0 is not touched: eno1 carries the default route. Remedy: take it out of the ports."
    )
    # nor is a bridge above it: here the management NIC is a function of the switch
    kernel.nic(SWITCH + "/0000:02:00.0/0000:03:00.1", "eno2")
    kernel.tree.write(
        "/proc/net/route", "Iface\tDestination\tGateway\neno2\t00000000\t0100000A\t0003\t0\t0\t0\t00000000"
    )
    (text,) = refused(kernel, options(max_read_request=None))
    assert "the bridge 0000:02:00.0 is not touched: below it, eno2 carries the default route" in text


@pytest.mark.parametrize("function", [GPU, NIC])
def test_functions_of_vfio_keep_their_acs(kernel: PciKernel, function: str) -> None:
    kernel.tree.driver(function, "vfio-pci")
    (text,) = refused(kernel)
    assert "%s below the bridge" % function in text and "handed on by VFIO" in text


def test_a_virtual_machine_on_other_devices_does_not_matter(kernel: PciKernel) -> None:
    kernel.tree.driver(OTHER, "vfio-pci")
    assert len(run(kernel)[0]) == 3


def test_grace_is_never_cleared(kernel: PciKernel) -> None:
    kernel.tree.write(kernel.tree.real(DOWN_GPU) + "/vendor", "0x10de")
    (text,) = refused(kernel)
    assert text.startswith("acs: the bridge 0000:02:01.0 is a Grace or Vera processor's")
    assert "rdma_topo write-grub-acs" in text


def test_dma_direct_is_never_cleared(kernel: PciKernel) -> None:
    kernel.tree.function("pci0000:00/0000:00:02.0/0000:05:00.2", "0x080100", device="2100")
    assert "0000:05:00.2 is a ConnectX's DMA Direct function" in refused(kernel)[0]


@pytest.mark.parametrize(
    ("output", "stops"),
    [
        (CommandResult(0, '[{"nic": {"pfs": ["%s"]}}]' % NIC, ""), True),
        (CommandResult(0, "[]", ""), False),
        (CommandResult(0, '[{"pfs": ["0000:77:00.0"]}]', ""), False),
        (CommandResult(1, "", "not supported"), False),
        (CommandResult(0, "no JSON", ""), False),
    ],
)
def test_rdma_topo_is_used_if_it_is_installed(kernel: PciKernel, output: CommandResult, stops: bool) -> None:
    kernel.programs["rdma_topo"] = output
    if stops:
        assert "rdma_topo knows this machine" in refused(kernel)[0]
    else:
        run(kernel)


def test_rdma_topo_on_an_unknown_machine(kernel: PciKernel) -> None:
    output = Path(__file__).parents[2].joinpath("recordings/pci/rdma_topo-none.txt").read_text()
    kernel.programs["rdma_topo"] = CommandResult(100, output, "")
    assert len(run(kernel)[0]) == 3


def test_lockdown_is_reported_before_anything_is_done(kernel: PciKernel) -> None:
    kernel.tree.write("/sys/kernel/security/lockdown", "none [integrity] confidentiality")
    (text,) = refused(kernel)
    assert "locked down (Secure Boot)" in text and "disable_acs_redir" in text
    kernel.tree.write("/sys/kernel/security/lockdown", "[none] integrity confidentiality")
    assert len(run(kernel)[0]) == 3


def test_every_error_is_reported_at_once(kernel: PciKernel) -> None:
    kernel.tree.vf(NIC, 0, SWITCH + "/0000:02:00.0/0000:03:00.2")
    given = [
        {"pci": "0000:99:00.0"},
        {"netdev": "nothing0"},
        {},
        {"pci": "0000:03:00.2"},
        port(),
        {"netdev": "enp3s0"},
        {"netdev": "enp5s0", "max_read_request": 1000, "expect": {"gpu_distance": "NEAR"}},
    ]
    texts = refused(kernel, options(*given))
    assert [text.partition(":")[0] for text in texts] == [
        "ports[0].pci",
        "ports[1].netdev",
        "ports[2]",
        "ports[3]",
        "ports[5]",
        "ports[6].max_read_request",
        "ports[6].expect",
    ]
    assert all("Remedy: " in text for text in texts)


def test_conventional_pci_has_no_read_request_size(kernel: PciKernel) -> None:
    (kernel.place(NIC) / "config").write_bytes(bytes(256))
    (text,) = refused(kernel, options(acs="leave"))
    assert "is not a PCI Express function" in text


# -- reported -------------------------------------------------------------------------------------------------------


def findings(kernel: PciKernel, **expect: t.Any) -> list[tuple[t.Any, ...]]:
    it = PciTuning(options(port(expect=expect)), kernel)
    state = it.observe()
    assert len(it.warnings) == len(state["findings"])
    return [(each["attribute"], each["expected"], each["found"]) for each in state["findings"]]


def test_links_as_expected_and_not(kernel: PciKernel) -> None:
    assert findings(kernel, pcie_gen=5, pcie_lanes=16, gpu_distance="PIX", speed=400, width=None) == []
    kernel.tree.write(kernel.tree.real(NIC) + "/current_link_width", "8")
    kernel.tree.write(kernel.tree.real(NIC) + "/current_link_speed", "16.0 GT/s PCIe")
    assert findings(kernel, pcie_gen=5, pcie_lanes=16) == [("pcie_gen", 5, 4), ("pcie_lanes", 16, 8)]
    # without an expectation, what both ends can do counts
    assert findings(kernel) == [("pcie_gen", 5, 4), ("pcie_lanes", 16, 8)]
    kernel.tree.write(kernel.tree.real(DOWN_NIC) + "/max_link_width", "8")
    assert findings(kernel, pcie_gen=4) == []


def test_a_gpu_farther_than_expected(kernel: PciKernel) -> None:
    it = PciTuning(options({"netdev": "enp5s0", "gpus": [0], "expect": {"gpu_distance": "PXB"}}), kernel)
    (found,) = it.observe()["findings"]
    assert (found["attribute"], found["expected"], found["found"]) == ("gpu_distance", "PXB", "PHB")
    assert it.warnings[0].startswith("0000:05:00.0: gpu_distance is PHB, not PXB. Remedy: ")


def test_a_failed_gpu_is_reported_and_the_others_are_set(kernel: PciKernel) -> None:
    given = options(port(gpus=[0, 1]), gpus={"0": GPU, "1": "0000:77:00.0"})
    it = PciTuning(given, kernel)
    assert it.observe()["findings"][0]["found"] == "GPU 1, 0000:77:00.0, is not on the PCI bus"
    assert len(run(kernel, given)[0]) == 3


def test_an_iommu_that_translates_is_reported(kernel: PciKernel) -> None:
    kernel.tree.write(kernel.tree.real(NIC) + "/iommu_group/type", "DMA-FQ")
    assert findings(kernel) == [("iommu", "identity", "DMA-FQ")]
    kernel.tree.write(kernel.tree.real(NIC) + "/iommu_group/type", "identity")
    assert findings(kernel) == []


# -- boot -----------------------------------------------------------------------------------------------------------


def test_settings_return_at_boot_and_with_the_device(kernel: PciKernel) -> None:
    run(kernel, options(persist=True))
    assert run(kernel, options(persist=True))[0] == []
    rules = (kernel.read("/etc/udev/rules.d/90-railyard-pci_tuning.rules") or "").splitlines()[1:]
    start = 'RUN+="/usr/bin/systemctl --no-block start railyard-again@15-pci_tuning.service"'
    assert rules == [
        'ACTION=="add|bind", SUBSYSTEM=="pci", KERNEL=="%s", %s' % (each, start)
        for each in (DOWN_NIC, DOWN_GPU, NIC, GPU)
    ]
    assert " --only %i\n" in (kernel.read_file(boot_state.AGAIN) or "")
    # the machine boots: firmware and kernel set what they set
    for bridge in (DOWN_NIC, DOWN_GPU):
        kernel.poke(bridge, 0x116, 0x1F)
    kernel.poke(NIC, 0x68, 0x2810)
    assert boot_program.main(["--only", "10-sriov_vfs"], kernel, patience=0) == 0
    assert acs(kernel, DOWN_NIC) == 0x1F
    assert boot_program.main(["--only", "15-pci_tuning"], kernel, patience=0) == 0
    assert [acs(kernel, each) for each in (DOWN_NIC, DOWN_GPU, ROOT)] == [0x02, 0x02, 0x1F]
    assert run(kernel, options(persist=True))[0] == []


def test_at_boot_a_failed_gpu_does_not_block_the_others(kernel: PciKernel) -> None:
    run(kernel, options(persist=True))
    kernel.poke(NIC, 0x68, 0x2810)
    (kernel.place(GPU)).unlink()
    assert boot_program.main([], kernel, patience=0) == 0
    assert PciTuning(options(), kernel).observe()["ports"][0]["max_read_request"] == 4096


def test_persistent_settings_survive_a_new_default_route(kernel: PciKernel) -> None:
    wanted = options(persist=True, acs="leave")
    run(kernel, wanted)
    netdev = kernel.listdir("/sys/bus/pci/devices/%s/net" % NIC)[0]
    route = "Iface\tDestination\tGateway\n%s\t00000000\t0100000A\t0003\t0\t0\t9000\t00000000" % netdev
    kernel.tree.write("/proc/net/route", route)
    assert run(kernel, wanted)[0] == []


def test_unplanned_persistent_settings_are_removed(kernel: PciKernel) -> None:
    run(kernel, options(persist=True))
    gone, _state = run(kernel, options(acs="leave", max_read_request=None, persist=True))
    assert [(each[0], each[3]) for each in gone[:2]] == [
        ("/etc/udev/rules.d/90-railyard-pci_tuning.rules", None),
        ("/etc/railyard/boot.d/15-pci_tuning.json", None),
    ]
    # and it was the last that was kept
    assert {boot_state.UNIT_WANTED, boot_state.UNIT, boot_state.AGAIN, boot_state.PROGRAM} < {
        each[0] for each in gone[2:]
    }
    assert not kernel.exists("/etc/railyard")
    assert run(kernel, options(acs="leave", max_read_request=None, persist=True))[0] == []


# -- taken back -----------------------------------------------------------------------------------------------------

NOTED = "/run/railyard/until_boot/pci_tuning"
REASONS = [
    "MaxReadReq of %s, %s stays as set until the next boot" % (NIC, OTHER),
    "ACS between %s and their GPUs stays cleared until the next boot" % NIC,
]
ABSENT = {"state": "absent", "persist": True, "ports": [], "gpus": {}, "acs": "leave", "max_read_request": None}


def set_up(kernel: PciKernel) -> None:
    run(kernel, options(port(), {"pci": OTHER}, persist=True))


def take_back(kernel: PciKernel, **more: t.Any) -> tuple[list[str], list[str]]:
    """The planned changes, applied; the second run changes nothing and reports the same."""
    given = dict(ABSENT, **more)
    foreseen = PciTuning(given, kernel)
    expected = foreseen.changes(foreseen.observe())
    done, _state = run(kernel, given)
    assert done == [(each.subject, each.attribute, each.before, each.after) for each in expected]
    again = PciTuning(given, kernel)
    assert again.changes(again.observe()) == [] and again.warnings == []
    reported = foreseen.outcome({}, expected)
    assert again.outcome({}, []) == reported and reported["reboot_required"] == bool(reported["reboot_reasons"])
    return [each[0] for each in done], reported["reboot_reasons"]


def test_absent_removes_persistent_settings_and_writes_no_register(kernel: PciKernel) -> None:
    set_up(kernel)
    done, reasons = take_back(kernel)
    assert done[:3] == [
        NOTED,
        "/etc/udev/rules.d/90-railyard-pci_tuning.rules",
        "/etc/railyard/boot.d/15-pci_tuning.json",
    ]
    assert reasons == REASONS and not kernel.exists("/etc/railyard") and not kernel.exists(boot_state.AGAIN)
    assert PciTuning(options(), kernel).observe()["ports"][0]["max_read_request"] == 4096
    assert take_back(kernel, max_read_request=4096, acs="disabled") == ([], REASONS), "they say nothing here"
    run(kernel, options(persist=True))
    assert not kernel.exists(NOTED)


def test_absent_of_a_missing_card(kernel: PciKernel) -> None:
    set_up(kernel)
    kernel.place(NIC).unlink()
    assert take_back(kernel)[1] == REASONS and not kernel.exists("/etc/railyard")


def test_an_interrupted_absent_is_completed_by_the_next_run(kernel: PciKernel) -> None:
    for number in range(99):
        set_up(kernel)
        it = PciTuning(ABSENT, kernel)
        wanted = it.changes(it.observe())
        for change in wanted[:number]:
            change.act()
        assert take_back(kernel)[1] == REASONS and not kernel.exists("/etc/railyard")
        if number > len(wanted):
            break
    assert number > 9


def test_absent_without_settings_changes_nothing(kernel: PciKernel) -> None:
    assert take_back(kernel) == ([], [])
    set_up(kernel)
    assert take_back(kernel, persist=False) == ([], [])
    assert refused(kernel, dict(ABSENT, ports=[port()]))[0].startswith(
        "ports: pci_tuning reverts the settings of all ports"
    )

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All layers of a node in one process: order, prediction, the first failure, and what other tasks must do."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.layer_table import HOST_LAYERS
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.layers import host_layers, layer_needs

BOOT_ID = "3c5f6f0e-7d7a-4c58-9f0c-5a3e0f1f6d11"
Row = t.Dict[str, t.Any]


@pytest.fixture
def node(tmp_path: Path) -> System:
    system = System(str(tmp_path))
    system.write_file("/proc/sys/kernel/random/boot_id", BOOT_ID + "\n")
    system.write_file("/proc/cmdline", "root=/dev/vda quiet\n")
    system.write_file("/proc/cpuinfo", "vendor_id\t: GenuineIntel\n")
    return system


def nccl(value: str = "=mlx5_gpu01:1", **more: t.Any) -> Row:
    files = [{"path": "/etc/nccl.conf", "settings": {"NCCL_IB_HCA": value}}]
    return {"layer": "nccl", "module": "nccl_files", "options": dict({"files": files}, **more), "skip_missing": False}


def kernel(*arguments: str) -> Row:
    options = {"arguments": list(arguments)}
    return {"layer": "pci", "module": "kernel_arguments", "options": options, "skip_missing": False}


def cni(**more: t.Any) -> Row:
    network = {"name": "gpu01", "cniVersion": "1.0.0", "plugins": [{"type": "macvlan", "master": "nic1"}]}
    return dict({"layer": "cni", "module": "cni_networks", "options": {"networks": [network]}}, **more)


def run(node: System, *modules: Row, check: bool = False, **options: t.Any) -> Row:
    defaults = {"keep_going": False, "states": False, "packages": None, "control_boot_id": None}
    given = dict(defaults, modules=modules, **options)
    return host_layers.run(given, node, check, [])


def test_check_mode_predicts_the_changes_and_a_second_run_has_none(node: System) -> None:
    predicted = run(node, kernel(), nccl(), check=True)
    assert predicted["changed"] and node.read("/etc/nccl.conf") is None
    done = run(node, kernel(), nccl(), states=True)
    assert done["changes"] == predicted["changes"] and done["diff"] == predicted["diff"]
    assert done["modules"]["nccl_files"]["gathered"]["files"][0]["settings"] == {"NCCL_IB_HCA": "=mlx5_gpu01:1"}
    assert not done["modules"]["kernel_arguments"]["changed"] and done["system"] == {"boot_id": BOOT_ID}
    again = run(node, kernel(), nccl())
    assert (again["changed"], again["changes"], again["diff"], again["needs"]) == (False, [], [], {})
    assert not any("gathered" in part for part in again["modules"].values())


def test_rail_host_stops_at_the_first_failed_layer_and_returns_earlier_changes(node: System) -> None:
    result = run(node, nccl(), kernel("two words"), nccl("=other"))
    assert result["failed"] and result["layer"] == "pci" and "'two words' is not one kernel argument" in result["msg"]
    assert [each["subject"] for each in result["changes"]] == ["/etc/nccl.conf"] and result["changed"]
    assert result["errors"][0]["place"] == "arguments[0]"
    assert "=other" not in (node.read("/etc/nccl.conf") or "")


def test_check_mode_runs_all_layers_and_reports_all_errors(node: System) -> None:
    result = run(node, kernel("two words"), cni(skip_missing=False), check=True)
    assert result["failed"] and result["layer"] == "pci"
    assert [error["layer"] for error in result["errors"]] == ["pci", "cni", "cni"]
    assert result["msg"].count("Remedy: ") == 3 and "'two words'" in result["msg"]
    predicted = run(node, kernel("two words"), nccl(), check=True)
    assert predicted["errors"][0]["layer"] == "pci" and predicted["changes"][0]["subject"] == "/etc/nccl.conf"


def test_a_preview_has_the_errors_and_the_changes_and_is_not_failed(node: System) -> None:
    result = run(node, kernel("two words"), nccl(), check=True, preview=True)
    assert "failed" not in result and [error["place"] for error in result["errors"]] == ["arguments[0]"]
    assert result["modules"]["nccl_files"]["changes"] and result["modules"]["kernel_arguments"]["failed"]


MTU = {"subject": "rail1", "attribute": "mtu", "before": 1500, "after": 4200}
SOME: Row = {"changed": True, "changes": [dict(MTU, attribute="pfc")]}
NONE: Row = {"changed": False, "changes": []}
AT_PORT = {"place": "ports[0]", "message": "the netdev rail1 is missing", "remedy": "r", "port": "rail01"}
AT_NODE = {"place": "containerd", "message": "containerd is not installed", "remedy": "install it"}
REFUSED = dict(NONE, failed=True, errors=[AT_NODE], msg="refused")


@pytest.mark.parametrize(
    ("module", "part", "earlier", "judged"),
    [
        # as planned now, but the MTU would be another
        (
            "roce_qos",
            NONE,
            {"rail_ports": dict(NONE, changes=[MTU])},
            dict(NONE, not_judged="needs the MTU of rail_ports"),
        ),
        ("roce_qos", NONE, {"rail_ports": dict(NONE, changes=[dict(MTU, attribute="address")])}, NONE),
        ("roce_qos", SOME, {"rail_ports": dict(NONE, changes=[MTU])}, SOME),
        # what an earlier layer refuses is not there
        ("roce_qos", SOME, {"rail_ports": REFUSED}, dict(NONE, not_judged="needs the MTU of rail_ports")),
        ("nccl_files", SOME, {"rail_ports": REFUSED}, dict(NONE, not_judged="needs the addresses of rail_ports")),
        ("sriov_vfs", SOME, {"nic_driver": REFUSED}, dict(NONE, not_judged="needs the driver of nic_driver")),
        ("rail_limits", SOME, {"nic_driver": REFUSED}, SOME),
        # an error that is only a consequence
        (
            "rdma_link",
            dict(REFUSED, errors=[AT_PORT]),
            {"rail_ports": dict(NONE, changes=[dict(MTU, attribute="name")])},
            dict(NONE, not_judged="needs the interfaces of rail_ports"),
        ),
        # not judged itself
        (
            "rail_agent",
            dict(REFUSED, errors=[AT_PORT, AT_NODE]),
            {"rdma_link": dict(NONE, not_judged="needs the driver of nic_driver")},
            dict(
                REFUSED,
                not_judged="needs the RDMA devices of rdma_link",
                msg="containerd: containerd is not installed. Remedy: install it.",
            ),
        ),
        ("rail_agent", REFUSED, {"rail_ports": dict(NONE, changes=[MTU])}, REFUSED),
    ],
)
def test_what_needs_an_earlier_layer_is_not_judged(module: str, part: Row, earlier: Row, judged: Row) -> None:
    assert layer_needs.judged(module, part, earlier) == judged


def test_needs_are_of_earlier_modules() -> None:
    order = [row.module for row in HOST_LAYERS]
    for module, needs in layer_needs.NEEDS.items():
        assert all(order.index(earlier) < order.index(module) for earlier in needs)


def test_with_keep_going_a_failure_is_in_the_part_of_its_module(node: System) -> None:
    result = run(node, kernel("two words"), nccl(), keep_going=True)
    assert "failed" not in result and result["modules"]["kernel_arguments"]["failed"]
    assert result["modules"]["nccl_files"]["changed"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (dict(kernel(), options={"iommu": "on"}), "iommu must be one of: leave, passthrough"),
        (dict(kernel(), options={"iomu": "leave"}), "iomu"),
        (dict(kernel(), module="nothing"), "is not a module of a layer"),
    ],
)
def test_options_are_checked_before_the_first_layer(node: System, wrong: Row, message: str) -> None:
    result = run(node, nccl(), wrong)
    assert result["failed"] and message in result["msg"] and "Remedy: " in result["msg"]
    assert not result["changed"] and node.read("/etc/nccl.conf") is None


def test_the_control_node_is_not_changed(node: System) -> None:
    result = run(node, nccl(), control_boot_id=BOOT_ID)
    assert result["needs"] == {"control_node": True} and result["modules"] == {}
    assert run(node, nccl(), control_boot_id="another")["changed"]


def test_missing_packages_are_reported_first_and_check_mode_predicts_without_them(node: System) -> None:
    packages = {"no such tool": "perftest"}
    result = run(node, nccl(), packages=packages)
    assert result["needs"] == {"packages": ["perftest"]} and not result["changed"]
    assert run(node, nccl(), packages=packages, check=True)["changed"]


def test_only_modules_that_need_a_package_wait_for_it(node: System) -> None:
    result = run(node, cni(skip_missing=True), nccl())
    assert result["needs"] == {"cni": True} and list(result["modules"]) == ["nccl_files"]
    alone = run(node, cni(skip_missing=False), nccl())
    assert alone["failed"] and alone["layer"] == "cni" and alone["needs"] == {}


def test_every_module_is_known(node: System) -> None:
    for row in HOST_LAYERS:
        assert host_layers._layer(row.module).spec["state"]["default"] == "present"


@pytest.mark.parametrize(
    ("missing", "now", "stops"),
    [
        (["nic1"], "other", False),
        (["nic1", "nic2"], "other", True),
        (["nic1"], "nic1", True),
    ],
)
def test_a_layer_that_does_not_find_a_port_by_its_name_of_the_next_boot_waits_for_the_reboot(
    node: System, monkeypatch: pytest.MonkeyPatch, missing: list[str], now: str, stops: bool
) -> None:
    reason = "gpu01: other becomes nic1 at the next boot"
    errors = [{"place": "ports", "message": "there is no netdev %s" % name, "port": name} for name in missing]
    shared: Row = {"changed": False, "changes": [], "diff": []}
    parts: dict[str, Row] = {
        "rail_ports": dict(
            shared, gathered={"ports": [{"netdev": now}]}, reboot_required=True, reboot_reasons=[reason]
        ),
        "rdma_link": dict(shared, failed=True, msg="there is no netdev", errors=errors),
    }
    monkeypatch.setattr(host_layers.layers, "run", lambda name, *_rest: dict(parts[name]))
    named = {"rail_ports": {"rail": "gpu01"}, "rdma_link": {"name": "rxe_gpu01", "type": "rxe"}}
    rows = [
        dict(kernel(), module=name, layer=name, options={"ports": [dict(each, netdev="nic1")]})
        for name, each in named.items()
    ]
    warnings: list[str] = []
    given = {"keep_going": False, "states": False, "packages": None, "control_boot_id": None, "modules": rows}
    result = host_layers.run(given, node, False, warnings)
    assert bool(result.get("failed")) == stops, result
    assert result["reboot_reasons"] == [reason]
    assert warnings == ([] if stops else ["rdma_link waits for the reboot: there is no netdev"])


@pytest.mark.parametrize(("host", "module"), [(["eno1"], []), ([], ["eno1"]), (["eno1"], ["eno1"])])
def test_named_management_interfaces_are_known_to_each_layer(node: System, host: list[str], module: list[str]) -> None:
    """An interface that does not exist is refused by the search for the management path, so the layer has its name."""
    network = {"name": "gpu01", "cniVersion": "1.0.0", "plugins": [{"type": "macvlan", "master": "nic1"}]}
    options = {"networks": [network], "management_interfaces": module}
    row = {"layer": "cni", "module": "cni_networks", "options": options, "skip_missing": False}
    result = run(node, row, management_interfaces=host)
    assert "there is no interface eno1" in result["msg"]

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodes are given beside their rail ports: where it is set, what roles get, and that the playbook passes it on."""

from __future__ import annotations

import contextlib
import re
import typing as t
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.filter import port_options
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.fabric_writer import write
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.layers import layer_modules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model import host_model
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import layer_table, module_options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan

ROOT = Path(__file__).resolve().parents[3]
HEAD = """\
plugin: railyard.fabric.rails
fabric: {name: ai, provider: spiderpool, attachment: macvlan, mtu: 4200%s}
rails:
  gpu01: {subnet: 172.16.11.0/24, hosts: .201-.253}
"""
TAIL = """\
profiles:
  hgx: {%sports: {gpu01: {netdev: nic1, pci: "0000:0b:00.0", gpu: 0}}}
groups:
  odd: {%s}
nodes:
  ai-1: {profile: hgx}
  ai-2: {profile: hgx, groups: [odd]}
"""


def planned(fabric: str = "", profile: str = "", group: str = "") -> Plan:
    outcome = lint((HEAD % (fabric and ", " + fabric) + TAIL % (profile and profile + ", ", group)).encode("utf-8"))
    assert outcome.plan, [finding.text() for finding in outcome.findings]
    assert not outcome.findings, [finding.text() for finding in outcome.findings]
    return outcome.plan


def given_to(plan: Plan, layer: str) -> list[t.Any]:
    return [plan.node_vars(node).get(layer) for node in plan.nodes]


def test_unnamed_settings_are_not_managed() -> None:
    assert all(given_to(planned(), layer) == [None, None] for layer in host_model.LAYERS)


def test_a_named_layer_keeps_settings_that_it_does_not_state() -> None:
    plan = planned("pci: {}, limits: {}, gpudirect: {}, nccl: {}")
    assert given_to(plan, "pci")[0] == {"acs": "leave", "max_read_request": None, "kernel": None}
    assert given_to(plan, "limits")[0] == {
        "memlock": "leave",
        "hugepages": None,
        "neighbours": {},
        "network_manager": "leave",
        "cloud_init": "leave",
    }
    assert given_to(plan, "gpudirect")[0] == {"path": "auto", "gdrcopy": None, "gpu_driver": "host", "flavour": None}
    assert given_to(plan, "nccl")[0] == {"file": "/etc/nccl.conf", "ucx_file": None}


def test_the_nearest_value_has_priority_key_by_key() -> None:
    plan = planned(
        "pci: {acs: disabled, max_read_request: 512}, limits: {memlock: unlimited, hugepages: {1G: 4, 2M: 64}}",
        "pci: {max_read_request: 4096, iommu: passthrough, kernel_arguments: [pci=realloc]}",
        "pci: {acs: leave, kernel_arguments: []}, limits: {hugepages: {}, neighbours: {gc_thresh3: 8192}}",
    )
    one, other = given_to(plan, "pci")
    kernel = {"iommu": "passthrough", "arguments": ["pci=realloc"]}
    assert one == {"acs": "disabled", "max_read_request": 4096, "kernel": kernel}
    # an empty list is a word too: what an earlier run gave goes again
    assert other == {"acs": "leave", "max_read_request": 4096, "kernel": dict(kernel, arguments=[])}
    one, other = given_to(plan, "limits")
    assert one["hugepages"] == [{"size_kb": 2048, "count": 64}, {"size_kb": 1048576, "count": 4}]
    assert (other["hugepages"], other["memlock"]) == ([], "unlimited")
    assert (one["neighbours"], other["neighbours"]) == ({}, {"gc_thresh3": 8192})


def test_the_document_has_it_for_each_node() -> None:
    plan = planned("gpudirect: {path: dmabuf, gpu_driver: container, flavour: open, gdrcopy: true}")
    document = plan.document()
    wanted = {"path": "dmabuf", "gdrcopy": True, "gpu_driver": "container", "flavour": "open"}
    assert [node["gpudirect"] for node in document["nodes"]] == [wanted, wanted]


def test_nccls_files_are_chosen_one_by_one() -> None:
    plan = planned("nccl: {ucx: true}", "", "nccl: {file: false}")
    assert given_to(plan, "nccl") == [
        {"file": "/etc/nccl.conf", "ucx_file": "/etc/ucx/ucx.conf"},
        {"file": None, "ucx_file": "/etc/ucx/ucx.conf"},
    ]


def _mapping(**values: t.Any) -> st.SearchStrategy[dict[str, t.Any]]:
    return st.fixed_dictionaries({}, optional={key: st.sampled_from(each) for key, each in values.items()})


SECTIONS = st.fixed_dictionaries(
    {},
    optional={
        "pci": _mapping(
            acs=["leave", "disabled"],
            max_read_request=list(host_model.READ_REQUESTS),
            iommu=["leave", "passthrough"],
            kernel_arguments=[[], ["pci=realloc", "quiet"]],
        ),
        "limits": _mapping(
            memlock=["leave", "unlimited"],
            hugepages=[{}, {"2M": 64}, {"64K": 1, "1G": 0, "1536K": 3}],
            neighbours=[{}, {"gc_thresh1": 5, "gc_thresh3": 9}],
            network_manager=["leave", "unmanaged"],
            cloud_init=["disabled"],
        ),
        "gpudirect": _mapping(
            path=["auto", "dmabuf", "peermem", "none"],
            gdrcopy=[True, False],
            gpu_driver=["host", "container"],
            flavour=["open"],
        ),
        "nccl": _mapping(file=[True, False], ucx=[True, False]),
    },
)


@given(SECTIONS, SECTIONS, SECTIONS)
def test_a_file_that_is_written_gives_the_plan_again(fabric: t.Any, profile: t.Any, group: t.Any) -> None:
    def keys(settings: dict[str, t.Any]) -> str:
        return yaml.safe_dump(settings, default_flow_style=True, width=10**6).strip()[1:-1] if settings else ""

    plan = planned(keys(fabric), keys(profile), keys(group))
    again = lint(write(plan.fabric).encode("utf-8")).plan
    assert again and again.document() == plan.document()


@pytest.mark.parametrize(
    ("text", "size"),
    [("2M", 2048), ("1G", 1048576), ("64K", 64), ("2m", None), ("M", None), ("02M", None), ("-1M", None), ("", None)],
)
def test_sizes_are_those_of_the_kernel(text: str, size: int | None) -> None:
    assert host_model.size_kb(text) == size


# -- the playbook

ALL = list(layer_table.LAYERS)


def tasks() -> list[dict[str, t.Any]]:
    return t.cast("list[dict[str, t.Any]]", yaml.safe_load((ROOT / "playbooks/tasks/prepare.yml").read_text()))


def options(role: str) -> dict[str, t.Any]:
    spec = yaml.safe_load((ROOT / "roles" / role / "meta/argument_specs.yml").read_text())
    return t.cast("dict[str, t.Any]", spec["argument_specs"]["main"].get("options", {}))


def test_the_tasks_have_the_tags_of_all_layers() -> None:
    shared = "{{ query('railyard.fabric.layer_tags') }}"
    for task in tasks():
        assert task["tags"] == [shared]
    books = [yaml.safe_load((ROOT / "playbooks" / name).read_text()) for name in ("hosts.yml", "plays/preview.yml")]
    for play in (play for book in books for play in book if "hosts" in play):
        assert play["tags"] == ["hosts"]
        for task in play["tasks"]:
            assert "ansible.builtin.import_tasks" in task or task["tags"] == [shared], task["name"]


@pytest.mark.parametrize("layer", layer_table.LAYERS[1:])
def test_a_role_runs_its_layer_and_has_the_variables_that_set_options(layer: str) -> None:
    text = (ROOT / "roles" / layer / "tasks/main.yml").read_text()
    assert set(re.findall(r"railyard\.fabric\.(\w+):", text)) == {"rail_host"}
    assert set(re.findall(r"layers: (.*)", text)) == {"[%s]" % layer}
    for each in (row for row in layer_table.HOST_LAYERS if row.layer == layer):
        documented = yaml.safe_load(module_documentation(each.module))["options"]
        for variable in each.variables:
            of_module = documented[variable.option].get("default")
            if variable.name:
                about = options(layer)[variable.name]
                default = variable.default if variable.default is not None else of_module
                assert (about.get("default") or None) == (default or None), variable.name


def module_documentation(module: str) -> str:
    return (ROOT / "plugins/modules" / (module + ".py")).read_text().split('DOCUMENTATION = r"""', 1)[1].split('"""')[0]


def test_the_packages_are_those_of_the_role() -> None:
    assert options("preflight")["preflight_packages"]["default"] == layer_modules.PACKAGES


@pytest.mark.parametrize(
    ("run", "skip", "chosen"),
    [
        (["all"], [], ALL),
        (["hosts"], [], ALL),
        (["mine"], ["preflight"], ALL[1:]),
        (["sriov", "qos"], [], ["preflight", "sriov", "qos"]),
        (["sriov"], ["preflight"], ["sriov"]),
        (["sriov"], ["sriov"], ["preflight"]),
        (["kubernetes"], [], []),
        (["all"], ["gpudirect"], [each for each in ALL if each != "gpudirect"]),
    ],
)
def test_tags_choose_layers(run: list[str], skip: list[str], chosen: list[str]) -> None:
    assert layer_modules.chosen_layers(["hosts", "mine", *ALL], run, skip) == chosen


def test_a_layer_without_keys_in_the_plan_is_left_out() -> None:
    bare, full = planned(), planned("pci: {iommu: passthrough}, limits: {}, gpudirect: {}, nccl: {}")
    given = {"pci_boot_loader_allowed": "true", "rdma_links_wait_active": 0, "nccl_settings": {"A": 1}}
    modules = []
    for plan in (bare, full):
        node = plan.node_vars(plan.nodes[0])
        rows = layer_modules.layer_modules(node, plan.fabric_vars(), given, ALL)
        modules.append({row["module"]: row["options"] for row in rows})
    assert list(modules[0]) == ["rdma_netns_mode", "rail_ports", "rdma_link"]
    assert modules[0]["rdma_link"]["wait_active"] == 0 and modules[0]["rdma_link"]["complete"]
    assert set(modules[1]) - set(modules[0]) == {
        "pci_tuning",
        "kernel_arguments",
        "rail_limits",
        "gpudirect",
        "nccl_files",
    }
    assert modules[1]["kernel_arguments"] == {"iommu": "passthrough", "arguments": [], "allow_change": "true"}
    assert modules[1]["nccl_files"]["files"][0]["settings"]["A"] == 1
    assert "max_read_request" not in modules[1]["pci_tuning"]


def test_the_filter_port_options_documents_every_module_with_ports() -> None:
    documented = yaml.safe_load(port_options.DOCUMENTATION)["options"]["module"]["choices"]
    with_ports = [row.module for row in layer_table.HOST_LAYERS if row.ports]
    assert documented == sorted(["rail_probe", *with_ports])


def test_soft_devices_have_no_quality_of_service() -> None:
    port = {"pci": "0000:0b:00.0", "netdev": None, "gpus": [0], "expect": {"pcie_gen": 5}, "rdma": {"type": "hardware"}}
    assert module_options.port_options([port], "roce_qos") == [{"pci": "0000:0b:00.0"}]
    assert module_options.port_options([dict(port, rdma={"type": "rxe"})], "roce_qos") == []
    assert module_options.port_options([port], "rail_limits") == [{"pci": "0000:0b:00.0"}]
    assert module_options.port_options([port], "pci_tuning") == [
        {"pci": "0000:0b:00.0", "gpus": [0], "expect": {"pcie_gen": 5}}
    ]


def test_the_variables_of_roles_have_an_effect() -> None:
    """Tasks of playbooks and roles read the others."""
    others = {"preflight_install", "preflight_control_node_allowed", "cni_package", "agent_package"}
    others |= {layer + "_state" for layer in layer_table.REMOVABLE}
    documented = {name for layer in layer_table.LAYERS for name in options(layer)}
    assert documented | {"kubernetes_options"} == others | set(layer_modules.VARIABLES)


def test_a_variable_that_a_role_has_is_not_refused() -> None:
    """Keys of the fabric file that errors name exist."""
    page = (ROOT / "docs/fabric-file.md").read_text()
    for row in layer_table.HOST_LAYERS:
        assert not {"%s_%s" % (row.layer, suffix) for suffix in row.planned}.intersection(options(row.layer))
        for key in row.planned.values():
            assert re.search(r"`(%s|%s)`|\b%s:" % (key, *2 * [key.rpartition(".")[2]]), page), key


@pytest.mark.parametrize(
    ("name", "value", "layers", "remedy"),
    [
        ("limits_memlock", "leave", ["limits"], "set limits.memlock in the fabric file, or run .*fabric.rail_limits"),
        ("limits_memlock", "leave", ["sriov"], ""),
        ("limits_hugepages", None, ["limits"], ""),
        ("sriov_ports", [], ["sriov"], "remove it and set vfs in the fabric file, or run .*fabric.sriov_vfs"),
        ("pci_kernel_managed", False, ["pci"], "set pci.iommu"),
        ("sriov_state", "absent", ["sriov"], "playbooks/teardown.yml with -e teardown_hosts=true --tags sriov"),
        ("sriov_state", "absent", ["limits"], ""),
        ("sriov_state", "present", ["sriov"], ""),
        ("sriov_state", None, ["sriov"], ""),
    ],
)
def test_a_variable_without_effect_is_refused(name: str, value: t.Any, layers: list[str], remedy: str) -> None:
    expected = pytest.raises(RailyardError, match=remedy) if remedy else contextlib.nullcontext()
    with expected as refused:
        layer_modules.check_variables({name: value}, layers)
    assert not refused or refused.value.place == name

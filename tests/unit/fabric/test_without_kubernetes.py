# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fabrics without Kubernetes: what is planned, what is refused, and what Slurm gets."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import (
    object_components,
    object_files,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import plan_tables, slurm_files
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import LAYERS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.verdict import verify_engine

WORKED = Path(__file__).resolve().parents[3] / "inventories" / "slurm" / "fabric.yml"
File = t.Dict[str, t.Any]


def _file(**changes: t.Any) -> File:
    """The worked inventory, with other values for keys of its sections."""
    found: File = yaml.safe_load(WORKED.read_text())
    for section, values in changes.items():
        found[section] = dict(found.get(section) or {}, **values)
    return found


def _findings(file: File) -> list[str]:
    return [finding.text("fabric.yml") for finding in lint(yaml.safe_dump(file, sort_keys=False).encode()).findings]


def _document(file: File) -> File:
    outcome = lint(yaml.safe_dump(file, sort_keys=False).encode())
    assert outcome.plan is not None, [finding.text("fabric.yml") for finding in outcome.errors]
    document: File = outcome.plan.document()
    return document


@pytest.mark.parametrize(
    "addresses, rails",
    [
        ({"mode": "link"}, {}),
        ({"mode": "prefix", "node_prefix": 29}, {}),
        ({"mode": "subnet", "hosts": "+11-+200", "gateway": "first"}, {}),
    ],
)
def test_ports_are_planned_and_nothing_of_pods(addresses: File, rails: File) -> None:
    document = _document(_file(addresses=addresses, rails=rails))
    fabric = document["fabric"]
    assert (fabric["provider"], fabric["attachment"], fabric["namespace"], fabric["resource_prefix"]) == (
        "none",
        "host",
        None,
        None,
    )
    for rail in document["rails"]:
        assert (rail["networks"], rail["pool"], rail["pool6"]) == ([], None, None)
    for node in document["nodes"]:
        assert node["rdma_mode"] == "shared"
        for port in node["ports"]:
            assert port["address"] and port["pods"] is None
            assert set(port["names"].values()) == {None}
    table = plan_tables.as_table(document, 4)
    assert "without Kubernetes, RDMA mode shared" in table and "pods" not in table


def test_no_object_of_a_cluster_is_rendered() -> None:
    document = _document(_file())
    assert list(object_components.objects(document)) == []
    for empty in ("values", "software", "secrets", "allocatable", "node_labels"):
        assert not getattr(object_components, empty)(document)
    files = object_files.render(document, {}, nodes=True)
    assert {path.split("/")[0] for path in files} == {"nccl", "nodes"}
    assert files["nccl/h200.conf"] == files["nodes/gpu-su1-01/etc/nccl.conf"]
    assert "NCCL_IB_HCA==mlx5_gpu01:1,mlx5_gpu02:1" in files["nccl/h200.conf"]


@pytest.mark.parametrize(
    "changes, code, place",
    [
        ({"fabric": {"pods_per_node": 8}}, "RY830", "fabric.pods_per_node"),
        ({"names": {"network": "{rail}"}}, "RY830", "names.network"),
        (
            {"addresses": {"mode": "subnet", "hosts": "+11-+50", "pods": "+60-+200"}},
            "RY830",
            "addresses.pods",
        ),
        ({"fabric": {"gpudirect": {"gpu_driver": "container"}}}, "RY831", "fabric.gpudirect.gpu_driver"),
        ({"fabric": {"attachment": "macvlan"}}, "RY801", "fabric.attachment"),
        ({"addresses": {"mode": "block", "block": 16, "hosts": "+11-+50", "pods": "+60-+200"}}, "RY802", "addresses"),
        ({"fabric": {"provider": "spiderpool", "attachment": "host"}}, "RY801", "fabric.attachment"),
    ],
)
def test_settings_of_pods_are_refused(changes: File, code: str, place: str) -> None:
    findings = _findings(_file(**changes))
    assert any("(%s) %s" % (code, place) in finding for finding in findings), findings


def test_attachment_is_only_optional_without_kubernetes() -> None:
    assert any("attachment is missing" in finding for finding in _findings(_file(fabric={"provider": "cni"})))
    assert _findings(_file(fabric={"attachment": "host"})) == []


def test_verify_leaves_the_layers_of_a_cluster_out() -> None:
    document = _document(_file())
    verdict = verify_engine.judge("verify", document["fabric"], [], verify_engine.Asked([]))
    assert list(verdict.run.layers) == [name for name in LAYERS if name not in ("kubernetes", "pods")]


# -- Slurm


def test_gres_has_a_line_for_each_gpu_with_its_nearest_port() -> None:
    lines = slurm_files.gres(_document(_file())).splitlines()[1:]
    assert len(lines) == 8
    assert lines[0] == (
        "NodeName=gpu-su1-[01-04],gpu-su2-[01-04] Name=gpu Type=h200 File=/dev/nvidia0 # gpu01 mlx5_gpu01 0000:18:00.0"
    )


def test_slurm_finds_gpus_of_amd_itself() -> None:
    text = (WORKED.parents[1] / "mi355x-pollara/fabric.yml").read_text(encoding="utf-8")
    lines = slurm_files.gres(_document(yaml.safe_load(text))).splitlines()[1:]
    nodes = "mi-su1-[1-4],mi-su2-[1-4]"
    assert lines[:2] == [
        "NodeName=%s AutoDetect=rsmi Name=gpu" % nodes,
        "# %s: GPU 0, gpu01 ionic_gpu01 enp8s0 0000:08:00.0" % nodes,
    ]
    assert len(lines) == 9 and not any("/dev/" in line for line in lines)


def test_gres_distinguishes_nodes_whose_ports_differ() -> None:
    nodes = {
        "a-[1:2]": {"profile": "h200", "unit": "su1", "place": "[1:2]"},
        "b-1": {"profile": "h200", "unit": "su2", "ports": {"gpu01": None}},
    }
    document = _document(dict(_file(), nodes=nodes))
    lines = [line for line in slurm_files.gres(document).splitlines() if "/dev/nvidia0" in line]
    assert lines == [
        "NodeName=a-[1-2] Name=gpu Type=h200 File=/dev/nvidia0 # gpu01 mlx5_gpu01 0000:18:00.0",
        "NodeName=b-1 Name=gpu Type=h200 File=/dev/nvidia0 # no rail port",
    ]


def _switches(file: File) -> list[str]:
    return [line for line in slurm_files.topology(_document(file)).splitlines() if not line.startswith("#")]


def test_topology_has_a_switch_for_each_unit() -> None:
    assert _switches(_file()) == [
        "SwitchName=su1 Nodes=gpu-su1-[01-04]",
        "SwitchName=su2 Nodes=gpu-su2-[01-04]",
        "SwitchName=ai-slurm Switches=su[1-2]",
    ]


def test_topology_has_sites_above_units() -> None:
    units = {"su%d" % unit: {"nodes": 4, "site": site} for unit, site in ((1, "ams1"), (2, "fra1"))}
    assert _switches(dict(_file(), units=units))[2:] == [
        "SwitchName=ams1 Switches=su1",
        "SwitchName=fra1 Switches=su2",
        "SwitchName=ai-slurm Switches=ams1,fra1",
    ]


def test_names_that_slurm_refuses_are_found() -> None:
    """slurmctld 24.11 stops at a switch that is defined twice, and at a name with a blank."""
    for site, code in (("Hall 1", "RY850"), ("su2", "RY851"), ("ai-slurm", "RY851")):
        units = {"su[1:2]": {"nodes": 4, "site": site}}
        assert any("(%s) units.su[1:2].site" % code in each for each in _findings(dict(_file(), units=units))), site


def test_topology_without_units_is_one_switch() -> None:
    file = _file(addresses={"mode": "subnet", "hosts": "+11-+200"})
    del file["units"]
    file["nodes"] = {"n[1:3]": {"profile": "h200"}}
    assert _switches(file) == ["SwitchName=ai-slurm Nodes=n[1-3]"]


def _blocks(*domains: str | None) -> list[str]:
    """Return the blocks. ``domains``: the NVLink domain of each node."""
    document = _document(_file())
    for node, domain in zip(document["nodes"], domains):
        node["nvlink_domain"] = domain
    return slurm_files.blocks(document).splitlines()[1:]


def test_units_are_blocks_without_nvlink_domains() -> None:
    assert _blocks() == [
        "BlockName=su1 Nodes=gpu-su1-[01-04]",
        "BlockName=su2 Nodes=gpu-su2-[01-04]",
        "BlockSizes=4,8",
    ]


def test_nvlink_domains_are_blocks() -> None:
    assert _blocks("r1", "r1", "r1", "r2", "r2", "r3", "r3", "r3") == [
        "# The blocks have 2 to 3 nodes. Slurm plans with the smallest.",
        "BlockName=r1 Nodes=gpu-su1-[01-03]",
        "BlockName=r2 Nodes=gpu-su1-04,gpu-su2-01",
        "BlockName=r3 Nodes=gpu-su2-[02-04]",
        "BlockSizes=2,4",
    ]


def test_nodes_outside_of_nvlink_domains_get_blocks_of_their_units() -> None:
    assert _blocks("su1", "su1") == [
        "# The blocks have 2 to 4 nodes. Slurm plans with the smallest.",
        "BlockName=su1 Nodes=gpu-su1-[01-02]",
        "BlockName=su1-other Nodes=gpu-su1-[03-04]",
        "BlockName=su2 Nodes=gpu-su2-[01-04]",
        "BlockSizes=2,4",
    ]


@pytest.mark.parametrize(
    "domains",
    [
        ("su1", "su2", "su1-other", "su2-other"),
        ("su1", "su1-other"),
        ("su1", "su1-other", "su1-other-other"),
        ("su2", "su2-other", "su1"),
        ("ai-slurm", "su2"),
    ],
)
def test_each_block_has_its_own_name(domains: tuple[str, ...]) -> None:
    """slurmctld stops at a block that is defined twice. NVLink domains keep their names."""
    blocks = [line.split()[0] for line in _blocks(*domains) if line.startswith("BlockName")]
    assert len(set(blocks)) == len(blocks)
    assert set("BlockName=" + domain for domain in domains) <= set(blocks)


@pytest.mark.parametrize(
    "names, wanted",
    [
        (["n1", "n2", "n3", "n5"], "n[1-3,5]"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["n9", "n10"], "n[9-10]"),
        (["n09", "n010"], "n[09,010]"),
        (["login", "n1"], "login,n1"),
    ],
)
def test_hostlist(names: list[str], wanted: str) -> None:
    assert slurm_files.hostlist(names) == wanted

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``playbooks/collectives.yml`` as a person runs it, without launchers: outputs in files, commands, wrong values."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from tests import yaml_text
from tests.playbook import ROOT, Played, play

RECORDED = ROOT / "tests/recordings/collectives/all-reduce-h100-2-nodes.txt"


def run(tmp_path: Path, *words: str, inventory: str = "hgx-b300-planes", **given: t.Any) -> Played:
    given.setdefault("verify_report_dir", str(tmp_path / "reports"))
    env = {"ANSIBLE_STDOUT_CALLBACK": "railyard.fabric.rails"}
    return play("playbooks/collectives.yml", *words, inventory=ROOT / "inventories" / inventory, given=given, env=env)


def document(tmp_path: Path) -> dict[str, t.Any]:
    found: dict[str, t.Any] = json.loads((tmp_path / "reports/collectives.json").read_text())
    return found


def test_an_output_is_judged_by_the_planned_nics(tmp_path: Path) -> None:
    """Eight NICs of two planes of 400 Gb/s carry 800 GB/s."""
    done = run(tmp_path, "--limit", "b300-1,b300-2", collectives_outputs={"all_reduce": str(RECORDED)})
    assert done.returncode == 2, done.text
    found = document(tmp_path)
    assert (found["state"], found["nic"], found["gpus"], found["nodes"]) == ("fail", 800.0, 8, ["b300-1", "b300-2"])
    assert found["tests"][0]["floor"] == pytest.approx(2 * 439.1, abs=0.1)
    assert "(RV873): expected at least 878 GB/s, found 197 GB/s" in done.text
    # all nodes of the plan
    done = run(tmp_path, collectives_outputs={"all_reduce": str(RECORDED)})
    assert done.returncode == 2 and document(tmp_path)["tests"][0]["code"] == "RV875", done.text


def test_storage_rails_do_not_count_and_a_missing_speed_is_unknown(tmp_path: Path) -> None:
    nodes = json.dumps({"collectives_outputs": {"all_reduce": str(RECORDED)}, "collectives_gpus": 8})
    done = run(tmp_path, "-e", nodes, "--limit", "railyard_nodes[0:1]", inventory="ib-compute-roce-storage")
    assert document(tmp_path)["nic"] == 400.0, done.text
    # two ports of 200 Gb/s in slots of PCIe 4.0 x16, which carry more
    run(tmp_path, "-e", nodes, "--limit", "railyard_nodes[0:1]", inventory="four-gpu-two-nic")
    assert document(tmp_path)["nic"] == 50.0
    done = run(tmp_path, "-e", nodes, "--limit", "railyard_nodes[0:1]", inventory="bonded-roce")
    assert done.returncode == 2 and "the plan has no speed of the rails" in done.text
    assert document(tmp_path)["state"] == "unknown"


def test_a_narrow_slot_limits_the_nics(tmp_path: Path) -> None:
    """PCIe 4.0 with 8 lanes carries less than a port of 200 Gb/s."""
    text = (ROOT / "inventories/four-gpu-two-nic/fabric.yml").read_text()
    assert "pcie_lanes: 16" in text
    (tmp_path / "fabric.yml").write_text(text.replace("pcie_lanes: 16", "pcie_lanes: 8"))
    given = {"collectives_outputs": {"all_reduce": str(RECORDED)}, "collectives_gpus": 8}
    done = run(tmp_path, "--limit", "railyard_nodes[0:1]", inventory=str(tmp_path / "fabric.yml"), **given)
    assert 20 < document(tmp_path)["nic"] < 30, done.text


def test_check_mode_shows_the_commands_and_runs_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, "--check", "--limit", "b300-1,b300-2", collectives_launcher="srun")
    assert done.returncode == 0 and not (tmp_path / "reports").exists(), done.text
    assert "srun --job-name=railyard-collectives --nodes=2 --nodelist=b300-1,b300-2" in done.text
    assert "--gpus-per-node=8 --exclusive all_reduce_perf -b 1073741824 -e 8589934592" in done.text
    names = {"collectives_host": "{{ inventory_hostname }}-admin"}
    host = run(tmp_path, "--check", collectives_memory="host", inventory="lab", **names)
    assert (
        "--host node-1-admin:1,node-2-admin:1" in host.text
        and "python3 -c SOURCE alltoall 33554432 268435456 20" in host.text
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"collectives_operations": ["gather"]},
            "collectives_operations: gather is not a collective. Remedy: use all_reduce",
        ),
        ({"collectives_outputs": {"all_reduce": "none.log"}}, "none.log: it cannot be read"),
        ({"collectives_min_bytes": 9 << 30}, "collectives_min_bytes: 9663676416 bytes are more than"),
        ({"collectives_floor": 0}, "collectives_floor: every result reaches 0.0 GB/s, or none"),
        ({"collectives_timeout": 0}, "collectives_timeout: 0 s is not a time limit"),
    ],
)
def test_wrong_values_are_errors_with_remedies(tmp_path: Path, given: dict[str, t.Any], words: str) -> None:
    done = run(tmp_path, **given)
    assert done.returncode == 2 and words in done.one_line, done.text
    assert "Remedy: " in done.one_line and not (tmp_path / "reports").exists()


def test_nodes_without_gpus_need_a_number(tmp_path: Path) -> None:
    done = run(tmp_path, inventory="lab-planes")
    assert done.returncode == 2 and "the plan has no GPUs on the nodes" in done.one_line, done.text


def test_a_launching_node_that_does_not_answer_ends_the_run(tmp_path: Path) -> None:
    options = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_ssh_common_args": "", "ansible_ssh_args": ""}
    done = run(tmp_path, "--limit", "b300-1,b300-2", **options)
    assert done.returncode == 4 and "Connection refused" in done.one_line, done.text
    assert not (tmp_path / "reports").exists()


def test_mpi_jobs_are_written_and_not_run(tmp_path: Path) -> None:
    given = {"collectives_launcher": "mpijob", "collectives_image": "registry.example/nccl-tests:1"}
    options = {"collectives_environment": {"NCCL_DEBUG": "WARN"}, "collectives_timeout": 600}
    done = run(tmp_path, "--limit", "b300-1,b300-2", **given, **options)
    assert done.returncode == 0 and "--timeout=600s job/railyard-all-reduce-launcher -n default" in done.text, done.text
    assert sorted(each.name for each in (tmp_path / "reports").iterdir()) == [
        "collectives-all_reduce.yml",
        "collectives-alltoall.yml",
    ]
    job = yaml_text.load((tmp_path / "reports/collectives-all_reduce.yml").read_text())
    launcher, worker = (job["spec"]["mpiReplicaSpecs"][kind] for kind in ("Launcher", "Worker"))
    (container,) = launcher["template"]["spec"]["containers"]
    assert container["command"][:8] == ["mpirun", "-np", "16", "--map-by", "ppr:8:node", "--bind-to", "none", "-x"]
    assert container["command"][8:10] == ["NCCL_DEBUG", "all_reduce_perf"]
    assert container["env"] == [{"name": "NCCL_DEBUG", "value": "WARN"}]
    (container,) = worker["template"]["spec"]["containers"]
    limits = container["resources"]["limits"]
    assert worker["replicas"] == 2 and limits["nvidia.com/gpu"] == "8" and len(limits) == 9
    assert len(worker["template"]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"].split(",")) == 8
    terms = worker["template"]["spec"]["affinity"]["nodeAffinity"]
    assert "b300-2" in json.dumps(terms) and "b300-3" not in json.dumps(terms)
    assert worker["template"]["metadata"]["labels"] == {"app.kubernetes.io/instance": "railyard-all-reduce"}
    without = run(tmp_path, collectives_launcher="mpijob")
    assert without.returncode == 2 and "an MPIJob needs an image" in without.one_line, without.text
    hosts = run(tmp_path, **given, inventory="slurm")
    assert hosts.returncode == 2 and "provider none attaches no pods to rails" in hosts.one_line, hosts.text

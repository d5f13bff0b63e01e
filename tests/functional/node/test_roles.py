# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role of each layer of a host, in check mode on a node without cards: the module of the layer reads the node."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.layer_table import HOST_LAYERS, LAYERS
from tests.functional.node.own_namespace import LiveNode, in_own_namespace
from tests.playbook import PROGRAMS, environment

FABRIC = """\
plugin: railyard.fabric.rails
fabric: {name: ai, mtu: 1500, attachment: %s}
addresses: {mode: block, block: 32, gateway: .254, pods: .1-.192, hosts: .201-.206}
rails: {gpu01: {subnet: 172.16.11.0/24}}
profiles: {server: {%s, ports: {gpu01: {netdev: rail1, gpu: 0}}}}
nodes: {node-1: {profile: server}}
"""
CARD = FABRIC.replace("netdev: rail1", "netdev: rail1, pci: 0000:ff:1f.0")
# Without pods, in a fabric of InfiniBand.
BARE = CARD.replace("mode: block, block: 32, gateway: .254, pods: .1-.192", "mode: subnet")
SOFT = "soft_rdma: rxe, driver: {kind: inbox}, pci: {acs: disabled, iommu: passthrough}, limits: {memlock: unlimited}"
CNI = (FABRIC % ("macvlan, provider: cni", SOFT + ", nccl: {}, gpudirect: {path: none}, imex: {}")).replace(
    "{profile: server}", "{profile: server, nvlink_domain: r1}"
) + "health: {enabled: true}\n"


class Hosted(t.NamedTuple):
    """A node with a fabric, and the roles that are run on it."""

    fabric: str
    roles: t.Sequence[str]
    given: t.Mapping[str, t.Any] = {}


HOSTS = {
    "soft": Hosted(
        CNI,
        [
            "ofed",
            "rdma_mode",
            "pci",
            "rail_ports",
            "rdma_links",
            "cni",
            "limits",
            "gpudirect",
            "imex",
            "nccl",
            "health",
        ],
    ),
    "card": Hosted(
        CARD % ("sriov, provider: spiderpool", "firmware: {sriov_en: true}, vfs: {count: 2}") + "qos: {}\n",
        ["nic_firmware", "sriov", "qos"],
    ),
    "infiniband": Hosted(
        BARE % ("host, provider: none, link_layer: infiniband, infiniband: {ipoib_mode: datagram}", "firmware: {}"),
        ["infiniband"],
    ),
    "agent": Hosted(
        FABRIC % ("macvlan, provider: agent, slots: {all_rails: 2, per_rail: 2}", "soft_rdma: rxe"), ["agent"]
    ),
    "slot": Hosted(
        FABRIC.replace("netdev: rail1", "netdev: rail1, slot: 7") % ("macvlan, provider: cni", "soft_rdma: rxe"),
        ["preflight"],
        {"preflight_packages": {}},
    ),
    "reverted": Hosted(CNI, ["nccl"], {"nccl_state": "absent"}),
    "control_node": Hosted(CNI, ["nccl"], {"preflight_control_node_allowed": False}),
}
GIVEN = {
    "ansible_connection": "local",
    "ansible_python_interpreter": sys.executable,
    "preflight_control_node_allowed": True,
    "rail_ports_backend": "none",
    "rdma_links_wait_active": 0,
    "agent_install": False,
    "cni_install": False,
}
Results = t.Dict[str, t.Dict[str, t.Any]]


def variables(hosted: Hosted) -> dict[str, t.Any]:
    outcome = lint(hosted.fabric.encode())
    plan = outcome.plan
    assert plan, [finding.text() for finding in outcome.findings]
    planned = {"railyard_fabric": plan.fabric_vars(), "railyard_node": plan.node_vars(plan.nodes[0])}
    return {**GIVEN, **hosted.given, **planned}


def tasks(hosted: Hosted, file: Path) -> t.Iterator[dict[str, t.Any]]:
    """Run the roles, whether one fails or not, and write what they registered."""
    for role in hosted.roles:
        include = {"ansible.builtin.include_role": {"name": "railyard.fabric." + role}}
        yield {"block": [include], "rescue": [{"ansible.builtin.meta": "noop"}]}
    results = "{{ {%s} | to_json }}" % ", ".join("'{0}': {0}_result".format(role) for role in hosted.roles)
    yield {"ansible.builtin.copy": {"content": results, "dest": str(file)}, "check_mode": False}


def run(place: Path) -> dict[str, Results]:
    """Run the roles in check mode; return node -> role -> the result that it registered."""
    files = {name: place / (name + ".json") for name in HOSTS}
    plays = [
        {"hosts": name, "gather_facts": False, "tasks": [*tasks(hosted, files[name])]} for name, hosted in HOSTS.items()
    ]
    (place / "play.yml").write_text(yaml.safe_dump(plays))
    inventory = {"all": {"hosts": {name: variables(hosted) for name, hosted in HOSTS.items()}}}
    (place / "hosts.yml").write_text(yaml.safe_dump(inventory))
    # not tests.playbook.play, whose processes may be outside of this namespace
    words = [PROGRAMS / "ansible-playbook", "-i", place / "hosts.yml", "--check", place / "play.yml"]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0 and "Traceback" not in done.stdout, done.stdout + done.stderr
    return {name: json.loads(file.read_text()) for name, file in files.items()}


@in_own_namespace
def test_every_role_of_a_layer_runs_its_modules(node: LiveNode) -> None:
    node.rail(1)
    with tempfile.TemporaryDirectory() as place:
        found = run(Path(place))
    reverted, refused = found.pop("reverted")["nccl"], found.pop("control_node")["nccl"]
    unidentified = found.pop("slot")["preflight"]
    results = {role: result for each in found.values() for role, result in each.items()}
    assert sorted(results) == sorted(LAYERS[1:])
    for role, result in results.items():
        modules = [row.module for row in HOST_LAYERS if row.layer == role]
        if result["failed"]:
            # this node cannot have the setting, such as without a card
            assert result["layer"] == role and all(error["remedy"] for error in result["errors"]), result
        else:
            assert list(result["modules"]) == modules, result
    assert not any(results[role]["failed"] for role in ("ofed", "rail_ports", "limits", "gpudirect", "imex", "nccl"))
    # the card that the plan has is not in this machine
    for role in ("nic_firmware", "sriov", "qos", "infiniband"):
        assert [error["port"] for error in results[role]["errors"]] in (["rail1"], ["0000:ff:1f.0"]), results[role]
    assert ("address", "172.16.11.201/24") in [
        (change["attribute"], change["after"]) for change in results["rail_ports"]["changes"]
    ]
    assert results["nccl"]["changes"][0]["after"]["NCCL_IB_HCA"] == "=rxe_gpu01:1"
    assert not reverted["failed"] and list(reverted["modules"]) == ["nccl_files"] and not reverted["changes"]
    assert refused["failed"] and "control_node: this is the machine on which Ansible runs" in refused["msg"]
    assert unidentified["failed"] and "nodes.node-1.ports.gpu01.slot: no NIC has the slot 7" in unidentified["msg"], (
        unidentified
    )

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Presets: each contains the facts of its document, and plans as the same profile written out."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.file.fabric_writer import write
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.fabric_plan import Plan
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.catalog import ALL, PRESETS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.presets.preset import Preset
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import preset_tables

DOCUMENTS = yaml.safe_load(
    (Path(__file__).parents[2] / "recordings" / "presets" / "documents.yml").read_text(encoding="utf-8")
)
Facts = t.Dict[str, t.Any]


# -- the facts of the documents ----------------------------------------------------------------------------------------


def _dgx() -> Facts:
    """The tables of the DGX guide: ports with a GPU in the order of GPUs; the others in the order of table 5."""
    gpus = {cage: (gpu, default, rdma) for cage, gpu, default, rdma in DOCUMENTS["dgx_modules"]}
    ports = {}
    others = []
    for cage, pci, default, optional, rdma in DOCUMENTS["dgx_ports"]:
        if cage not in gpus:
            others.append("0000:" + pci)
            continue
        gpu, *names = gpus[cage]
        assert names == [default, rdma]  # table 6 repeats them
        ports[gpu] = ("0000:" + pci, (gpu,), rdma, optional, default, cage)
    return {"ports": [ports[gpu] for gpu in sorted(ports)], "gpus": dict.fromkeys(range(8)), "others": set(others)}


def _hgx_b300() -> Facts:
    ports = [("0000:" + pci, (), None, None, None, None) for pci in DOCUMENTS["hgx_b300"]]
    return {"ports": ports, "gpus": {}, "others": None}


def _launch_kit(name: str) -> Facts:
    """A preset of the launch kit: PFs with a rail in the order of rails."""
    facts = DOCUMENTS["launch_kit"][name]
    rails = sorted((row for row in facts["pfs"] if row[2] is not None), key=lambda row: row[2])
    return {
        "ports": [(pci, (int(gpu[3:]),), rdma, None, None, None) for rdma, pci, _rail, gpu, _near in rails],
        "gpus": {int(row[3][3:]): None for row in rails},
        "others": {row[1] for row in facts["pfs"] if row[2] is None},
        "distance": {row[4] for row in rails},
        "product": facts["machine"],
    }


def _oci(shape: str) -> Facts:
    facts = DOCUMENTS["oci_shapes"][shape]
    gpus = dict(facts["gpus"])
    for _pci, _netdev, _rdma, pci, number in facts["rdma"]:
        assert gpus[number] == pci  # the document numbers the GPUs in one way
    return {
        "ports": [(pci, (gpu,), rdma, netdev, None, None) for pci, netdev, rdma, _gpu_pci, gpu in facts["rdma"]],
        "gpus": gpus,
        "others": set(facts["vcn"]),
        "layer": "ethernet",
    }


def _azure(key: str) -> Facts:
    nics = sorted(pci for kind, pci in DOCUMENTS[key] if kind == "0x020700")
    ports = [(pci, (), None, None, None, None) for pci in nics]
    return {"ports": ports, "gpus": {}, "others": None, "layer": "infiniband"}


def _digitalocean() -> Facts:
    ports = [(pci, (), rdma, None, None, None) for _gpu, pci, rdma in DOCUMENTS["digitalocean"]]
    return {"ports": ports, "gpus": {}, "others": None, "layer": "ethernet"}


FACTS: dict[str, t.Callable[[], Facts]] = {
    "dgx-h100": _dgx,
    "dgx-h200": _dgx,
    "hgx-b300": _hgx_b300,
    **{name: lambda name=name: _launch_kit(name) for name in DOCUMENTS["launch_kit"]},
    **{"oci-" + shape.lower(): lambda shape=shape: _oci(shape) for shape in DOCUMENTS["oci_shapes"]},
    "azure-nd-h100-v5": lambda: _azure("azure_ndv5"),
    "azure-nd-a100-v4": lambda: _azure("azure_ndv4"),
    "digitalocean-h100x8": _digitalocean,
}


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_preset_contains_the_facts_of_its_document(name: str) -> None:
    """A preset without a table of its document fails here."""
    preset, facts = PRESETS[name], FACTS[name]()
    assert [tuple(port) for port in preset.ports] == facts["ports"]
    assert preset.gpus == facts["gpus"]
    assert (None if preset.other_ports is None else {other.pci for other in preset.other_ports}) == facts["others"]
    assert {preset.gpu_distance} == facts.get("distance", {None})
    assert preset.link_layer == facts.get("layer")
    assert preset.product == facts.get("product")


def test_oracle_publishes_the_pairs_of_the_h100_shape_twice() -> None:
    preset = PRESETS["oci-bm.gpu.h100.8"]
    for number, gpu, nic, names in DOCUMENTS["oci_h100_topology"]:
        ports = [port for port in preset.ports if port.gpus == (number,)]
        assert preset.gpus[number] == gpu
        assert {port.pci.partition(".")[0] for port in ports} == {nic.partition(".")[0]}
        assert [port.rdma for port in ports] == names


def test_every_preset_names_its_document() -> None:
    for preset in ALL:
        assert all(preset.document) and re.match("https://", preset.document.address)
        assert re.match(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}\Z", preset.document.read)
        functions = [port.pci for port in (*preset.ports, *(preset.other_ports or ()))]
        assert len(functions) == len(set(functions))
        assert all(re.match(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z", pci) for pci in functions)
        assert {gpu for port in preset.ports for gpu in port.gpus} <= set(preset.gpus)


# -- files with a preset -----------------------------------------------------------------------------------------------

HEAD = """\
plugin: railyard.fabric.rails
fabric: {name: ai, attachment: %s, provider: agent, mtu: %d%s}
rails: {count: %d, name: "gpu{n:02}", subnet: "172.{n+15}.0.0/24", hosts: .201-.253, pods: .1-.200, gateway: .254}
profiles:
"""
NODES = 'nodes:\n  ai-[1:2]: {profile: gpu, address: "10.1.16.[1:2]"}\n'


def fabric_file(preset: Preset, profile: str) -> str:
    layer = preset.link_layer or "ethernet"
    kind = {"ethernet": ("host-device", 4200, ""), "infiniband": ("ib-sriov", 2044, ", vfs: {count: 4}")}[layer]
    return HEAD % (*kind, len(preset.ports)) + profile + NODES


def planned(text: str) -> Plan:
    outcome = lint(text.encode("utf-8"))
    assert outcome.plan, [finding.text() for finding in outcome.findings]
    return outcome.plan


def written_out(preset: Preset) -> str:
    """Return the profile of a preset without ``preset``."""
    profile: dict[str, t.Any] = {"gpus": dict(preset.gpus), "gpu_distance": preset.gpu_distance}
    profile["ports"] = {
        "gpu%02d" % number: {
            "pci": port.pci,
            "netdev": port.netdev(preset.link_layer or "ethernet"),
            "gpu": list(port.gpus),
        }
        for number, port in enumerate(preset.ports, 1)
    }
    profile["other_ports"] = {
        other.name: {"pci": other.pci, "role": "management"} for other in preset.other_ports or ()
    } or None  # fmt: skip
    return "  gpu: %s\n" % json.dumps({key: value for key, value in profile.items() if value})


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_preset_plans_as_the_profile_written_out(name: str) -> None:
    """Byte for byte, except for the name of the preset."""
    preset = PRESETS[name]
    document = planned(fabric_file(preset, "  gpu: {preset: %s}\n" % name)).document()
    assert [node.pop("preset") for node in document["nodes"]] == [name] * 2
    assert json.dumps(document) == json.dumps(planned(fabric_file(preset, written_out(preset))).document())


OVERRIDES = {
    "nothing": "",
    "keys of a port": ', ports: {gpu03: {pci: "0000:4e:00.0", rdma: mlx5_gpu03}, gpu04: {speed: 400}}',
    "a port less": ", ports: {gpu08: null}",
    "a bond": ", attachment: macvlan, slots: {per_rail: 2}, ports: {gpu01: {bond: {name: bond1, mode: active-backup,"
    ' members: [{pci: "0000:18:00.0"}, {pci: "0000:18:00.1"}]}}}',
    "other ports": ", other_ports: {slot1p1: {role: storage}, onboard: null, mgmt: {role: management, netdev: eno9}}",
    "GPUs": ', gpus: {0: "0000:1b:00.0", 1: null, 2: null, 3: null, 4: null, 5: null, 6: null, 7: null}',
    "distance and speed": ", gpu_distance: PXB, speed: 400",
}


@pytest.mark.parametrize("overrides", list(OVERRIDES.values()), ids=list(OVERRIDES))
def test_the_writer_keeps_the_preset(overrides: str) -> None:
    plan = planned(fabric_file(PRESETS["dgx-h100"], "  gpu: {preset: dgx-h100%s}\n" % overrides))
    text = write(plan.fabric)
    assert "preset: dgx-h100" in text
    assert text.count("0000:") <= overrides.count("0000:")  # the ports of the preset are not written
    assert planned(text).document() == plan.document()


def test_the_file_overrides_a_preset_key_by_key() -> None:
    (overrides,) = [OVERRIDES["keys of a port"].replace("}}", "}, gpu08: null}")]
    plan = planned(fabric_file(PRESETS["dgx-h100"], "  gpu: {preset: dgx-h100%s}\n" % overrides))
    ports = {port["rail"]: port for port in plan.document()["nodes"][0]["ports"]}
    assert list(ports) == ["gpu%02d" % number for number in range(1, 8)]
    assert (ports["gpu03"]["pci"], ports["gpu03"]["netdev"]) == ("0000:4e:00.0", "enp79s0np0")
    assert (ports["gpu03"]["rdma"]["name"], ports["gpu03"]["gpus"]) == ("mlx5_gpu03", [2])
    assert (ports["gpu04"]["pci"], ports["gpu04"]["expect"]["speed"]) == ("0000:5e:00.0", 400)


def test_a_nic_with_hardware_planes_gets_the_functions_of_its_planes() -> None:
    """Two functions of each NIC: two planes with their own networks, or one rail port over both."""
    preset = PRESETS["oci-bm.gpu.gb300.4"]
    text = fabric_file(preset, "  gpu: {preset: oci-bm.gpu.gb300.4, ports: {gpu02: {netdev: rail2}}}\n")
    text = text.replace("count: 8,", "count: 4, planes: {count: 2, balancing: hardware},")
    text = text.replace("attachment: host-device", "attachment: macvlan, slots: {all_rails: 2, per_rail: 2}")
    plan = planned(text)
    ports = plan.document()["nodes"][0]["ports"]
    assert [[plane["pci"] for plane in port["planes"]["ports"]] for port in ports] == [
        [port.pci for port in preset.ports[at : at + 2]] for at in range(0, 8, 2)
    ]
    assert [(port["pci"], port["netdev"]) for port in ports[:2]] == [
        ("0000:03:00.0", "rdma0"),
        ("0002:03:00.0", "rail2"),
    ]
    # the function of plane 1 also gets the new name
    assert [plane["netdev"] for plane in ports[1]["planes"]["ports"]] == ["rail2", "rdma3"]
    assert planned(write(plan.fabric)).document() == plan.document()
    apart = text.replace("{count: 2, balancing: hardware}", "2").replace("172.{n+15}.0.0", "172.{n+15}.{p}.0")
    ports = planned(apart.replace("gpu02:", "gpu02p1:")).document()["nodes"][0]["ports"]
    assert [port["pci"] for port in ports] == [port.pci for port in preset.ports]


def test_planes_of_a_nic_that_the_document_does_not_list_are_internal_to_the_device() -> None:
    preset = PRESETS["hgx-b300"]
    text = fabric_file(preset, "  gpu: {preset: hgx-b300}\n")
    text = text.replace("count: 8,", "count: 8, planes: {count: 4, balancing: hardware},")
    for at, port in enumerate(planned(text).document()["nodes"][0]["ports"]):
        assert port["pci"] == preset.ports[at].pci and port["planes"]["count"] == 4
        assert {plane["pci"] for plane in port["planes"]["ports"]} == {None}


def test_groups_and_nodes_override_a_preset() -> None:
    text = fabric_file(PRESETS["dgx-h100"], "  gpu: {preset: dgx-h100}\n")
    text = text.replace("ai-[1:2]: {", 'ai-[1:2]: {ports: {gpu02: {pci: "0000:41:00.0"}}, groups: [odd], ')
    text += "groups:\n  odd: {ports: {gpu01: {netdev: nic1}}}\n"
    first, second = planned(text).document()["nodes"][0]["ports"][:2]
    assert (first["pci"], first["netdev"]) == ("0000:18:00.0", "nic1")
    assert (second["pci"], second["netdev"]) == ("0000:41:00.0", "enp64s0np0")


def test_an_other_port_of_the_preset_on_a_storage_rail_is_not_also_left_alone() -> None:
    text = HEAD % ("host-device", 4200, "", 8)
    text = text.replace(
        text[text.index("rails:") : text.index("profiles:")],
        "rails:\n"
        + "".join(
            "  gpu%02d: {subnet: 172.16.%d.0/24, hosts: .201-.253, pods: .1-.200}\n" % (n, n) for n in range(1, 9)
        )
        + "  stor1: {role: storage, subnet: 172.17.0.0/24, hosts: .201-.253, pods: .1-.200}\n",
    )
    text += '  gpu: {preset: dgx-h100, ports: {stor1: {pci: "0000:29:00.0", netdev: stor1}}}\n' + NODES
    plan = planned(text)
    names = [other["name"] for other in plan.document()["nodes"][0]["other_ports"]]
    assert "slot2p1" not in names and "slot2p2" in names
    assert planned(write(plan.fabric)).document() == plan.document()


def findings(text: str) -> list[tuple[str, str]]:
    return [(finding.code, finding.message) for finding in lint(text.encode("utf-8")).findings]


def test_wrong_presets_are_findings() -> None:
    dgx = PRESETS["dgx-h100"]
    assert findings(fabric_file(dgx, "  gpu: {preset: dgx-h10}\n")) == [
        ("RY114", "dgx-h10 is not one of the %d values of preset (did you mean dgx-h100?)" % len(PRESETS))
    ]
    eight = fabric_file(dgx, "  gpu: {preset: oci-bm.gpu.h100.8}\n")
    ((code, message),) = findings(eight)
    assert code == "RY220" and "has 16 ports, and the fabric has 8 compute rails" in message
    planes = eight.replace("count: 8,", "count: 8, planes: 2,").replace("172.{n+15}.0.0", "172.{n+15}.{p}.0")
    assert findings(planes) == []
    ((code, message),) = findings(fabric_file(dgx, "  gpu: {preset: azure-nd-h100-v5}\n"))
    assert (code, message) == ("RY222", "the ports of azure-nd-h100-v5 are infiniband, and the rails are ethernet")
    twice = fabric_file(dgx, '  gpu: {preset: dgx-h100, ports: {gpu01: {pci: "0000:40:00.0"}}}\n')
    assert findings(twice) == [("RY221", "0000:40:00.0 is the port of gpu02 in the preset dgx-h100")]


def test_places_of_findings_about_a_preset_are_keys_of_the_file() -> None:
    text = fabric_file(PRESETS["dgx-h100"], "  gpu: {preset: dgx-h100, gpus: 7}\n")
    (finding,) = lint(text.encode()).findings
    assert (finding.code, finding.place) == ("RY903", "profiles.gpu.preset")


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if len(preset.ports) > len(preset.gpus) > 0])
def test_two_rails_of_a_gpu_in_the_document_are_not_reported(name: str) -> None:
    preset = PRESETS[name]
    text = fabric_file(preset, "  gpu: {preset: %s}\n" % name)
    assert findings(text) == []
    (gpu,) = preset.ports[2].gpus
    changed = text.replace("preset: %s" % name, "preset: %s, ports: {gpu01: {gpu: %d}}" % (name, gpu))
    ((code, message),) = findings(changed)
    assert (code, message) == ("RY901", "GPU %d is served by several rails: gpu01, gpu03, gpu04" % gpu)


# -- the list of presets -----------------------------------------------------------------------------------------------


def test_the_list_has_all_presets_on_80_columns() -> None:
    listed = preset_tables.text()
    assert set(PRESETS) - set(re.findall(r"[\w.-]+", listed)) == set()
    assert max(map(len, listed.splitlines())) <= 80


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_preset_is_shown_with_all_its_facts(name: str) -> None:
    preset, shown = PRESETS[name], preset_tables.text(name)
    facts = [*(pci for pci in preset.gpus.values() if pci), *(other.pci for other in preset.other_ports or ())]
    for port in preset.ports:
        facts += [port.pci, *filter(None, (port.rdma, port.cage, port.ethernet, port.infiniband))]
    assert [fact for fact in (*facts, *preset.document) if fact not in shown] == []


def test_an_unknown_preset_is_an_error() -> None:
    with pytest.raises(RailyardError, match="the preset dgx-h10 does not exist .did you mean dgx-h100"):
        preset_tables.text("dgx-h10")

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The picture of the topology."""

from __future__ import annotations

import copy
import re
import typing as t
from xml.etree import ElementTree as xml

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report import plan_tables
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.topology_picture import topology
from tests import work

from .plan_documents import SVG, document, svg, words_of


@pytest.mark.parametrize(
    ("nodes", "rails", "units", "planes"),
    [(1, 1, 0, 1), (2, 8, 0, 1), (64, 8, 2, 1), (64, 8, 0, 1), (128, 4, 4, 4), (512, 8, 16, 1), (300, 16, 0, 1)],
)
def test_the_picture_is_whole_and_needs_no_other_file(nodes: int, rails: int, units: int, planes: int) -> None:
    made = document(nodes, rails, units, planes)
    raw = topology(made)
    assert raw == topology(copy.deepcopy(made))
    root = svg(raw)
    bare = raw.replace(b'xmlns="http://www.w3.org/2000/svg"', b"")
    assert not re.search(rb"href|url\(|@import|<image|<script|https?:|@font-face", bare)
    assert b"prefers-color-scheme: dark" in raw
    assert root.get("role") == "img" and root.get("aria-labelledby") == "title text"
    assert root.findtext(SVG + "title") and "%d GPU" % (nodes * rails * planes) in (
        root.findtext(SVG + "desc") or ""
    ).replace(",", "")
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    for box in root.iter(SVG + "rect"):
        left, top = float(box.get("x", "0")), float(box.get("y", "0"))
        assert left >= 0 and left + float(box.get("width", "0")) <= width + 0.1
        assert top >= 0 and top + float(box.get("height", "0")) <= height + 0.1


def test_few_nodes_are_drawn_with_their_ports() -> None:
    words = words_of(svg(topology(document(2, 8))))
    for label in ("ai-001", "ai-002", "enp11s0f0np0", "10.8.0.66/27", "GPU 7", "gpu08"):
        assert label in words


@pytest.mark.parametrize("layout", ["function", "VLAN", "bond"])
def test_the_tip_of_a_port_has_the_leaf_port_of_each_cable(layout: str) -> None:
    made = document(2, 2, units=1)
    port = made["nodes"][0]["ports"][0]
    port["leaf"] = dict(port["leaf"], name="leaf-a", port="swp9")
    below = {"pci": port["pci"], "netdev": "ens1", "match": None}
    ends = ["leaf leaf-a port swp9"]
    if layout == "VLAN":
        port["lower"] = {"vlan": 100, "parent": "ens1", "bond": None, "functions": [below]}
    elif layout == "bond":
        members = [dict(below, leaf={"name": "leaf-%s" % each, "port": "swp7"}) for each in "bc"]
        bond = {"name": "bond0", "mode": "802.3ad"}
        port["lower"] = {"vlan": None, "parent": None, "bond": bond, "functions": members}
        ends = ["leaf leaf-b port swp7", "leaf leaf-c port swp7"]
    tips = [each.text or "" for each in svg(topology(made)).iter(SVG + "title")]
    assert [tip for tip in tips if tip.endswith(", ".join(ends))], tips


def test_sixty_four_nodes_are_drawn_by_name() -> None:
    root = svg(topology(document(64, 8, 2)))
    words = words_of(root)
    for unit in (1, 2):
        for place in range(1, 33):
            assert "ai-su%d-%03d" % (unit, place) in words
    assert words.count("GPU 3") == 64 and "su2-r08" in words
    assert float(root.get("width", "0")) < 2000 and float(root.get("height", "0")) < 1500


def test_a_unit_without_nodes_has_its_leaves() -> None:
    made = document(2, 2, units=1)
    made["units"].append(dict(made["units"][0], name="su2", number=2))
    root = svg(topology(made))
    assert "unit su2" in words_of(root)
    for path in root.iter(SVG + "path"):
        top, bottom = re.findall(r"[\d.]+", path.get("d") or "")[1:3]
        assert float(top) < float(bottom)


def test_many_nodes_are_summed_up() -> None:
    raw = topology(document(512, 8, 16))
    words = words_of(svg(raw))
    assert "unit su16" in words and words.count("32 nodes, 256 GPUs") == 16
    assert "ai-su1-001" not in words


@pytest.mark.scale
@pytest.mark.parametrize(("units", "most"), [(0, 20_000), (128, 600_000), (4096, 1_200_000)])
def test_the_picture_of_4096_nodes_is_bounded(units: int, most: int) -> None:
    made = document(4096, 8, units)
    with work.at_most(5_000_000):
        raw = topology(made)
    assert len(raw) < most
    root = svg(raw)
    assert float(root.get("width", "0")) < 12_000 and float(root.get("height", "0")) < 12_000
    if units > 255:
        assert "3842 more units" in words_of(root)


def test_a_node_without_a_port_on_a_rail_is_marked() -> None:
    made = document(2, 2)
    del made["nodes"][0]["ports"][1]
    assert words_of(svg(topology(made))).count("no port") == 1


def test_odd_names_are_cut_and_kept_in_tips() -> None:
    made = document(2, 2, 1)
    made["nodes"][0]["name"] = "a-very-long-name-" * 3 + "<&>"
    root = svg(topology(made))
    cut = [
        element for element in root.iter(SVG + "text") if element.findtext(SVG + "title") == made["nodes"][0]["name"]
    ]
    assert cut and "…" in "".join(cut[0].itertext())


def test_gpus_of_a_port_in_few_characters() -> None:
    made = document(1, 3)
    for port, gpus in zip(made["nodes"][0]["ports"], ([], [0, 1], [2, 3, 4, 7])):
        port["gpus"] = gpus
    words = words_of(svg(topology(made)))
    for label in ("no GPU", "GPU 0,1", "GPU 2-4,7"):
        assert label in words


# -- lines, blocks and bands


def _lines(root: xml.Element) -> list[tuple[float, float, float]]:
    """Of each line that turns off to a port: where it begins, and where it ends."""
    found = [
        re.fullmatch(r"M([\d.]+) ([\d.]+)V([\d.]+)H[\d.]+", path.get("d") or "") for path in root.iter(SVG + "path")
    ]
    return [(float(line[1]), float(line[2]), float(line[3])) for line in found if line]


def test_each_node_has_its_own_line_from_its_leaf() -> None:
    """No line goes through one node's port to the next."""
    root = svg(topology(document(4, 2, units=1)))
    lines = _lines(root)
    assert len(lines) == 8 and len({left for left, _top, _bottom in lines}) == 8
    assert len({top for _left, top, _bottom in lines}) == 1
    cells = [box for box in root.iter(SVG + "rect") if (box.get("class") or "").startswith("cell")]
    for left, top, bottom in lines:
        for box in cells:
            x, y = float(box.get("x", "0")), float(box.get("y", "0"))
            inside = x < left < x + float(box.get("width", "0"))
            assert not inside or y >= bottom or y + float(box.get("height", "0")) <= top


def test_many_nodes_have_lines_that_branch_from_one() -> None:
    lines = _lines(svg(topology(document(16, 2, units=1))))
    assert len(lines) == 32 and len({left for left, _top, _bottom in lines}) == 2


def _pair() -> dict[str, t.Any]:
    made = document(2, 3)
    for node in made["nodes"]:
        for port in node["ports"]:
            port.update(gateway=None, gateway6=None, leaf=None)
    return made


def test_two_nodes_back_to_back_are_cabled_port_to_port() -> None:
    root = svg(topology(_pair()))
    assert "rails" not in [element.text for element in root.iter(SVG + "text")] and _lines(root) == []
    straight = [path.get("d") or "" for path in root.iter(SVG + "path")]
    assert len(straight) == 3 and all(re.fullmatch(r"M[\d.]+ [\d.]+V[\d.]+", each) for each in straight)


@pytest.mark.parametrize("key", ["gateway", "leaf"])
def test_two_nodes_with_a_router_or_leaf_between_are_not_back_to_back(key: str) -> None:
    made = _pair()
    made["nodes"][0]["ports"][0][key] = "10.8.0.1" if key == "gateway" else {"name": "leaf1", "port": "swp1"}
    assert len(_lines(svg(topology(made)))) == 6


def test_a_part_of_a_unit_counts_its_own_nodes() -> None:
    words = words_of(svg(topology(document(64, 8, 1))))
    assert "(1 of 2) 32 nodes, 256 GPUs" in words and "(2 of 2) 32 nodes, 256 GPUs" in words


def test_a_block_of_many_nodes_names_their_models() -> None:
    made = document(512, 8, 16)
    for node in made["nodes"][:8]:
        node["profile"] = "other"
    model = made["nodes"][-1]["profile"]
    words = words_of(svg(topology(made)))
    assert "24 %s, 8 other" % model in words and words.count("32 %s" % model) == 15


@pytest.mark.parametrize("nodes", [2, 32])
def test_many_rails_are_drawn_in_bands_without_the_same_look_twice(nodes: int) -> None:
    root = svg(topology(document(nodes, 24)))
    words = words_of(root)
    for first, last in ((1, 8), (9, 16), (17, 24)):
        assert "rails gpu%02d to gpu%02d" % (first, last) in words
    looks = {(path.get("class"), path.get("stroke-dasharray")) for path in root.iter(SVG + "path")}
    assert len(looks) == 24 and float(root.get("width", "0")) < 2200


def test_planes_are_counted_apart_from_rails() -> None:
    assert "8 rails x 2 planes" in words_of(svg(topology(document(2, 8, 0, 2))))


@pytest.mark.parametrize("nodes", [2, 64, 1024])
def test_failed_ports_are_marked(nodes: int) -> None:
    made = document(nodes, 8)
    names = [node["name"] for node in made["nodes"]]
    rails = [rail["name"] for rail in made["rails"]]
    health = {name: dict.fromkeys(rails, "ok") for name in names}
    clean = topology(made, health=health).decode()
    assert "\N{MULTIPLICATION X} failed" in clean and 'class="bad"' not in clean
    health[names[0]][rails[2]] = "failed"
    health[names[1]][rails[3]] = "not checked"
    marked = topology(made, health=health).decode()
    assert marked.count('class="bad"') == 1
    assert ("1 port failed" if nodes == 1024 else ", failed") in marked
    assert ("? not checked" in clean) is (", not checked" in marked) is (nodes < 1024)  # the legend has the marks drawn
    # a picture of the plan alone has no states
    assert "\N{MULTIPLICATION X}" not in topology(made).decode()


@pytest.mark.parametrize("nodes", [2, 64])
def test_a_port_for_storage_is_in_the_picture_and_in_the_table(nodes: int) -> None:
    made = document(nodes, 8)
    made["nodes"][0]["other_ports"] = [{"name": "st", "role": "storage", "netdev": "ens6f0", "pci": None}]
    assert "storage ens6f0" in topology(made).decode()
    assert plan_tables.other_ports(made["nodes"][0]) == "storage ens6f0"


def test_a_picture_without_addresses_names_the_file_that_has_them() -> None:
    assert "ports.csv" in topology(document(64, 8)).decode()
    assert "ports.csv" not in topology(document(8, 8)).decode()

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The preview of a run: the sum, what decides first, never more than a screen, and nothing without a count."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.host_preview import NodePreview, Preview

Row = t.Dict[str, t.Any]
RAILS = ["rail01", "rail02"]
PATH = "reports/preview.txt"


def change(rail: str, attribute: str = "mtu", before: t.Any = 1500, after: t.Any = 4200) -> Row:
    return {"subject": rail, "attribute": attribute, "before": before, "after": after, "rail": rail}


def record(before: t.Sequence[str], after: t.Sequence[str]) -> Row:
    values = ([{"rail": rail} for rail in rails] for rails in (before, after))
    row: Row = dict(zip(("before", "after"), values))
    return dict(row, subject="/var/lib/railyard/rail_ports.json", attribute="ports", kind="file")


def node(name: str, *changes: Row, **more: t.Any) -> NodePreview:
    return NodePreview(name, RAILS, {"modules": {"rail_ports": {"changes": list(changes)}}, **more})


def refusal(message: str, layer: str = "sriov") -> Row:
    return {"layer": layer, "place": "vfs", "message": message, "remedy": "drain the node"}


@pytest.mark.parametrize(
    ("nodes", "summary"),
    [
        ([node("a"), node("b")], "2 nodes: 0 changes, 0 reboots, 0 refusals, 2 nodes as planned"),
        ([node("a", record([], RAILS), change("rail01"))], "1 node: 2 ports new, 0 reboots, 0 refusals"),
        ([node("a", change("rail01"))], "1 node: 1 port changed, 0 reboots, 0 refusals"),
        (
            [node("a", record(["old", "rail01"], RAILS), change("rail01"))],
            "1 node: 1 port new, 1 port changed, 1 port removed, 0 reboots, 0 refusals",
        ),
        ([node("a", {**change("x"), "rail": None})], "1 node: 1 change, 0 reboots, 0 refusals"),
        ([node("a", reboot_reasons=["one", "two"])], "1 node: 0 changes, 1 reboot, 0 refusals"),
        ([node("a", needs={"packages": ["perftest"]})], "1 node: 0 changes, 0 reboots, 0 refusals"),
        (
            [NodePreview("a", RAILS, None), node("b")],
            "2 nodes: 0 changes, 2 ports not judged, 0 reboots, 0 refusals, 1 node as planned, "
            "1 node without an answer",
        ),
    ],
)
def test_the_sum(nodes: list[NodePreview], summary: str) -> None:
    assert Preview(nodes).summary == summary


def test_what_decides_comes_first_with_its_remedy() -> None:
    preview = Preview(
        [
            node("a", change("rail01"), errors=[refusal("it has VFs")]),
            node(
                "b",
                change("rail01"),
                reboot_reasons=["RDMA mode"],
                not_judged={"roce_qos": "needs the MTU of rail_ports"},
            ),
            node("c", needs={"packages": ["perftest"], "cni": True}),
        ]
    )
    assert preview.lines(80, PATH) == [
        "3 nodes: 2 ports changed, 1 reboot, 1 refusal",
        "",
        "Refused",
        "  sriov: vfs: it has VFs on 1 node (a)",
        "    Remedy: drain the node",
        "",
        "Reboots",
        "  RDMA mode on 1 node (b)",
        "    Remedy: -e reboot_allowed=true reboots them, one node at a time",
        "",
        "Not judged",
        "  roce_qos needs the MTU of rail_ports on 1 node (b)",
        "",
        "First",
        "  packages to install: perftest on 1 node (c)",
        "  the role cni installs what is missing on 1 node (c)",
        "",
        "rail_ports",
        "  rail01 mtu: 1500 -> 4200 on 2 nodes (a, b)",
        "everything: reports/preview.txt",
    ]
    assert preview.refused == ["a"]
    assert "Remedy: -e reboot" not in "".join(preview.lines(80, PATH, reboots_allowed=True))


def test_a_layer_that_a_node_did_not_judge_is_not_as_planned() -> None:
    def states(**part: t.Any) -> NodePreview:
        modules = {"rail_ports": {"changes": []}, "roce_qos": {"changes": [], **part}}
        return NodePreview(
            "b", RAILS, {"modules": modules, "not_judged": {"roce_qos": "x"} if "not_judged" in part else {}}
        )

    good = states()
    for preview, planned in (
        (Preview([good]), "rail_ports, roce_qos"),
        (Preview([good, states(failed=True)]), "rail_ports"),
        (Preview([good, states(not_judged="x")]), "rail_ports"),
        (Preview([good, node("c")]), "rail_ports"),
    ):
        assert "as planned on all nodes: %s" % planned in preview.lines(80, PATH)


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("kinds", [1, 30, 300])
def test_never_more_than_a_screen_and_the_rest_is_counted(width: int, kinds: int) -> None:
    nodes = [
        node(
            "hgx-%d" % number,
            *(
                change(rail, "key%s" % ("x" * kind), after="%d" % (number % 7 + kind))
                for kind in range(kinds)
                for rail in RAILS
            ),
            errors=[refusal("reason %s" % ("x" * (number % kinds)))],
            reboot_reasons=["reason %s" % ("y" * (number % kinds))],
            not_judged={"layer%s" % ("z" * (number % kinds)): "needs more"},
        )
        for number in range(64)
    ]
    preview = Preview(nodes)
    for most in (40, 38):
        lines = preview.lines(width, PATH, most)
        assert len(lines) <= most, "\n".join(lines)
    assert lines[0].startswith("64 nodes: 128 ports changed, 64 reboots, 64 refusals")
    text = "\n".join(preview.everything(False))
    assert text.count(" -> ") == 64 * kinds * 2 and text.count(": refused: ") == text.count(": reboot: ") == 64
    if kinds == 300:
        assert any(line.startswith("and ") and line.endswith("more changes: see " + PATH) for line in lines)
        assert any(line.endswith("more: see " + PATH) for line in lines)


def test_equal_files_of_several_nodes_have_one_diff() -> None:
    file = {"subject": "/etc/a", "attribute": "content", "before": "x\ny\n", "after": "x\nz\n", "kind": "file"}
    text = list(Preview([node("n1", file), node("n2", file)]).everything(True))
    assert text[1:3] == ["n1: rail_ports: /etc/a changed", "n2: rail_ports: /etc/a changed"]
    assert text[4] == "/etc/a on n[1-2]" and text[-3:] == [" x", "-y", "+z"]

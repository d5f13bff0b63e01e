# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sentences are for people: with every sentence replaced, verify and drift reach the same verdict."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.cluster_ready import (
    Missing,
    grouped,
    reason_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base import verify_codes
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_run import DRIFT, VERIFY
from tests.unit.fabric.test_verify import HARMS, Harm
from tests.unit.fabric.test_verify_pods import HARMS as POD_HARMS
from tests.unit.fabric.verify_nodes import World, plan

NODE = "ai-2"
# Texts that other programs write (perftest, the kernel, Kubernetes, LLDP) are input, not sentences of the project.
_SENTENCES = ("message", "remedy", "msg", "reason", "cause", "error")


@pytest.fixture
def codes_for_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry with the bare code as every text."""
    for code in list(verify_codes.CODES.values()):
        bare = code._replace(title=code.code, cause=code.code, remedy=code.code)
        monkeypatch.setitem(verify_codes.CODES, code.code, bare)


def _without_sentences(value: t.Any) -> t.Any:
    """Rows as they are, with other words in what modules and actions say."""
    if isinstance(value, list):
        return [_without_sentences(each) for each in value]
    if isinstance(value, dict):
        return {
            key: "x" if key in _SENTENCES and isinstance(each, str) and each else _without_sentences(each)
            for key, each in value.items()
        }
    return value


def _codes(world: World, kind: str) -> list[tuple[str, str | None, str | None, str | None]]:
    failures = world.document(kind)["failures"]
    return [(each["code"], each["node"], each["rail"], each["playbook"]) for each in failures]


@pytest.mark.parametrize("kind", [VERIFY, DRIFT])
@pytest.mark.parametrize("harm", [row[1] for row in (*HARMS, *POD_HARMS)], ids=[row[0] for row in (*HARMS, *POD_HARMS)])
def test_no_verdict_depends_on_a_sentence(kind: str, harm: Harm, request: pytest.FixtureRequest) -> None:
    world = World(plan())
    harm(world)
    expected = _codes(world, kind)
    request.getfixturevalue("codes_for_texts")
    world.states = _without_sentences(world.states)
    world.refused = dict.fromkeys(world.refused, "x")
    world.dark = dict.fromkeys(world.dark, "x")
    world.probes = _without_sentences(world.probes)
    if world.cluster:
        for key in ("missing", "withheld"):
            for group in world.cluster.get(key) or ():
                group.update(what="x", reason="x")
        world.cluster["refused"] = _without_sentences(world.cluster.get("refused") or [])
    assert _codes(world, kind) == expected


CHANGES = [
    ("rail_ports", Change("ens3", "x", "a", None, lambda: None, "route"), "RV508", "gpu03"),
    ("rail_ports", Change("ens3", "x", None, "a", lambda: None, "route"), "RV504", "gpu03"),
    ("rail_ports", Change("x", "x", None, "a", lambda: None, "rule", "ens3"), "RV505", "gpu03"),
    ("sriov_vfs", Change("x", "trust", False, True, lambda: None, port="0000:03:00.0"), "RV206", "gpu03"),
    ("sriov_vfs", Change("x", "bound", False, True, lambda: None, port="0000:03:00.0"), "RV205", "gpu03"),
    ("rail_ports", Change("/etc/x", "x", "a", "b", lambda: None), "RV550", None),
    ("rdma_netns_mode", Change("/etc/x", "x", "a", "b", lambda: None), "RV302", None),
    ("rail_agent", Change("/etc/railyard/agent.json", "spec", {}, {"format": 1}, lambda: None), "RV550", None),
    ("cni_networks", Change("/etc/cni/x", "network", None, {}, lambda: None), "RV550", None),
    ("rail_limits", Change("/sys/x", "x", "a", "b", lambda: None), "RV604", None),
]


@pytest.mark.parametrize(("module", "change", "code", "rail"), CHANGES, ids=["%s-%s" % (e[0], e[2]) for e in CHANGES])
def test_a_change_has_its_code_and_rail_from_fields(module: str, change: Change, code: str, rail: str | None) -> None:
    world = World(plan())
    world.states[NODE][module] = {"changes": [change.as_dict()], "gathered": {}}
    failures = [(each["code"], each["rail"]) for each in world.document(DRIFT)["failures"]]
    assert failures == [(code, rail)]


def test_steps_of_other_changes_are_not_drift() -> None:
    world = World(plan())
    step = Change("systemd-networkd", "x", False, True, lambda: None, "step")
    world.states[NODE]["rail_ports"] = {"changes": [step.as_dict()], "gathered": {}}
    assert world.document(DRIFT)["failures"] == []


def test_an_error_names_the_port_of_its_place() -> None:
    ports = [{"pci": "0000:01:00.0"}, {"rail": "gpu02", "pci": "0000:02:00.0"}]
    assert RailyardError("x", "ports[1].mtu (any text)").as_dict(ports)["port"] == "gpu02"
    assert RailyardError("x", "ports[0]").as_dict(ports)["port"] == "0000:01:00.0"
    for place in ("ports[2]", "ens3", "", "routes[0]"):
        assert "port" not in RailyardError("x", place).as_dict(ports)
    assert "port" not in RailyardError("x", "ports[0]").as_dict()


def test_nodes_with_the_same_missing_are_one_group_with_a_command_for_each() -> None:
    (group,) = grouped([Missing(name, "is missing", "x", "", "show ", "gpu01", "p") for name in ("a1", "b2")])
    assert (group.subjects, group.rail, group.playbook) == (["a1", "b2"], "gpu01", "p")
    assert [reason_of(group._asdict(), name) for name in group.subjects] == ["x (show a1)", "x (show b2)"]
    assert len(grouped([Missing("a1", "x", "x", rail=rail) for rail in ("gpu01", "gpu02")])) == 2

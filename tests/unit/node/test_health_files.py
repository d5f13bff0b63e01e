# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The spec and the state of the health service as files, and its codes and thresholds as data."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.base.verify_codes import CODES
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry.nic_families import FAMILIES
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import (
    health_rules,
    health_spec,
    health_state,
)

RAIL = {
    "rail": "gpu01",
    "netdev": "eth_gpu01",
    "pci": "0000:0b:00.0",
    "rdma": "mlx5_gpu01",
    "rdma_type": "hardware",
    "rdma_port": None,
    "link_layer": "ethernet",
    "mtu": 4200,
    "speed": 400,
    "address": "172.16.11.201/24",
    "address6": "fd00::1/64",
    "leaf": {"name": "leaf-1", "port": "swp1"},
    "planes": [],
    "functions": [],
    "vlan": None,
    "family": "mlx5",
    "managed": True,
}
SPEC = {
    "format": 1,
    "fabric": "ai",
    "node": "ai-1",
    "rails": [RAIL],
    "probe": {"rate_bits": 10000, "partners": {"gpu01": [{"node": "ai-2", "address": "172.16.11.202"}]}},
    "metrics": "127.0.0.1:9466",
    "kubernetes": None,
    "thresholds": {"symbol_error": 20, "roce_slow_restart": None},
}


def test_a_spec_is_read_with_defaults(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    system.write_file(health_spec.FILE, json.dumps(SPEC))
    spec = health_spec.read_spec(system)
    rail = spec.rails[0]
    assert (rail.addresses, rail.leaf, rail.soft) == (
        ["172.16.11.201", "fd00::1"],
        health_spec.Leaf("leaf-1", "swp1"),
        False,
    )
    assert (spec.interval, spec.quiet) == (5, 30)
    assert spec.probe and spec.probe.partners["gpu01"] == (health_spec.Partner("ai-2", "172.16.11.202"),)
    assert (spec.rail("gpu01"), spec.rail("gpu02")) == (rail, None)
    rows = {row.name: row.above for row in health_rules.thresholds(spec.thresholds)}
    assert rows["symbol_error"] == 20 and "roce_slow_restart" not in rows and rows["carrier_changes"] == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "format is 2"),
        ({"rails": [dict(RAIL, netdev="../x")]}, "not a name of a device"),
        ({"rails": [RAIL, RAIL]}, "gpu01 occurs several times"),
        ({"rails": [dict(RAIL, netdev=None, pci=None, rdma=None)]}, "neither netdev"),
        ({"interval": 0}, "interval is 0 s"),
        ({"thresholds": {"symbol_error": -1}}, "threshold -1"),
        ({"thresholds": {"symbol_error": float("nan")}}, "threshold nan"),
    ],
)
def test_a_wrong_spec_is_an_error_with_its_remedy(change: dict[str, object], message: str) -> None:
    with pytest.raises(RailyardError, match=message) as error:
        health_spec.parse_spec(dict(SPEC, **change))
    assert "hosts.yml --tags health" in error.value.remedy


def test_a_damaged_or_missing_spec_is_an_error(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    with pytest.raises(RailyardError, match="does not exist"):
        health_spec.read_spec(system)
    system.write_file(health_spec.FILE, "{")
    with pytest.raises(RailyardError, match="is not JSON"):
        health_spec.read_spec(system)


def state() -> health_state.HealthState:
    finding = health_state.Finding(
        *("RV422", "plane-lost", "a plane of the rail has no link", "plane 2", "a link", "no carrier", 5.0, 2, None),
        *("the cable", "check it"),
    )
    planes = (health_state.PlaneState(1, "pass"), health_state.PlaneState(2, "fail"))
    rail = health_state.RailState("gpu01", "pass", True, 4.0, (finding,), planes, {"sent": 3})
    return health_state.HealthState("1.0", "ai", "ai-1", "boot", 1.0, 100.0, True, (rail,), ("a problem",))


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    health_state.write_state(system, state())
    assert health_state.read_state(system) == state()
    assert system.mode(health_state.FILE) == 0o644
    document = json.loads((system.read(health_state.FILE)) or "")
    assert document["format"] == 1 and document["rails"][0]["planes"][1] == {"plane": 2, "state": "fail"}
    assert not state().is_stale(150.0) and state().is_stale(500.0)


def test_only_a_whole_regular_file_of_root_is_a_state(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    path = system.path(health_state.FILE)
    with pytest.raises(RailyardError, match="has not written"):
        health_state.read_state(system)
    os.makedirs(os.path.dirname(path))
    # reading a FIFO must not wait for a writer
    os.mkfifo(path)
    with pytest.raises(RailyardError, match="not a file of root"):
        health_state.read_state(system)
    os.unlink(path)
    (tmp_path / "other").write_text(json.dumps(state().as_dict()))
    os.symlink(tmp_path / "other", path)
    with pytest.raises(RailyardError, match="cannot be read"):
        health_state.read_state(system)
    os.unlink(path)
    for text in ("", "[]", "{}", json.dumps(dict(state().as_dict(), format=2)), "[" * 100000):
        system.write_file(health_state.FILE, text)
        with pytest.raises(RailyardError, match="is damaged"):
            health_state.read_state(system)
    with open(path, "wb") as stream:
        stream.truncate(health_state.SIZE_MAX + 1)
    with pytest.raises(RailyardError, match="is larger"):
        health_state.read_state(system)


def test_codes_of_verify_have_the_same_name_and_title() -> None:
    own = {code: (rule.name, rule.title) for code, rule in health_rules.RULES.items()}
    shared = {code: (CODES[code].name, CODES[code].title) for code in own if code in CODES}
    assert {code: own[code] for code in shared} == shared
    assert sorted(set(own) - set(shared)) == ["RV890", "RV891", "RV892", "RV893", "RV894", "RV895"], (
        "codes of health alone"
    )
    names = [*(code.name for code in CODES.values()), *(own[code][0] for code in own if code not in CODES)]
    assert len(set(names)) == len(names)


def test_each_threshold_has_a_source_and_a_code() -> None:
    for row in health_rules.THRESHOLDS.values():
        assert row.code in health_rules.RULES and row.source and row.counters and row.unit


def test_thresholds_have_the_name_that_each_family_gives_to_a_counter() -> None:
    for family in FAMILIES.values():
        for name, own in family.counters.items():
            if name in health_rules.THRESHOLDS:
                assert own in health_rules.THRESHOLDS[name].counters, (family.name, name)

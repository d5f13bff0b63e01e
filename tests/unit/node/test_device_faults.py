# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the health service found as taints of DRA devices: only with the option, and only from a fresh state."""

from __future__ import annotations

import json
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import parse_spec
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.dra_front import slice_devices
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.resource_slices import (
    DOWN,
    PLANE_FAULT,
    RAIL_FAULT,
    SliceDevice,
    specs,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import (
    device_faults,
    health_check,
    health_spec,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.kubelet_messages import DeviceState
from tests.unit.node import agent_files
from tests.unit.node.health_states import finding, put, rail, state

LOST = [{"plane": 1, "state": "pass"}, {"plane": 2, "state": "fail"}, {"plane": 3, "state": "fail"}]
RAILS = [
    rail(1, "fail", findings=[finding("RV407"), finding(), finding()]),
    rail(2, degraded=True, planes=LOST),
    rail(3, degraded=True),
    rail(4, "unknown"),
]


@pytest.fixture
def system(tmp_path: Path) -> System:
    (tmp_path / "proc").symlink_to("/proc")
    made = System(str(tmp_path))
    option(made, True)
    put(tmp_path, state(*RAILS))
    return made


def option(system: System, device_taints: bool) -> None:
    document = {
        "format": 1,
        "fabric": "ai",
        "node": "hgx-1",
        "rails": [],
        "kubernetes": {"device_taints": device_taints},
    }
    system.write_file(health_spec.FILE, json.dumps(document))


def test_rails_and_planes_with_a_fault(system: System) -> None:
    faults = {"gpu01": (RAIL_FAULT, "RV402.RV407"), "gpu02": (PLANE_FAULT, "2.3")}
    assert device_faults.look(system) == faults
    option(system, False)
    assert device_faults.look(system) == {}
    system.write_file(health_spec.FILE, "{")
    assert device_faults.look(system) == {}
    system.remove_file(health_spec.FILE)
    assert device_faults.look(system) == {}


@pytest.mark.parametrize("age, boot", [(health_check.MAX_AGE + 1, None), (1, "another")])
def test_a_state_that_is_not_fresh_has_no_faults(system: System, age: float, boot: str | None) -> None:
    of_boot = boot or Path(health_check.BOOT_ID).read_text().strip()
    put(Path(system.root), state(*RAILS, updated=time.time() - age, boot_id=of_boot), 0)
    assert device_faults.look(system) == {}


def test_devices_get_the_taints_of_their_rails(system: System) -> None:
    slots = [agent_files.slot(number, 0, "rails") for number in (1, 2)]
    rails = [agent_files.rail(number, slots=[slots[number - 1]]) for number in (1, 2)]
    spec = parse_spec(agent_files.document(*rails))
    put(Path(system.root), state(RAILS[0], dict(RAILS[0], rail="gpu02", findings=[finding("RV201")])))
    (device,) = slice_devices(system, spec, {"rails-0": DeviceState("rails-0", False, ())})
    assert (device.taint, device.faults) == (DOWN, ((RAIL_FAULT, "RV201.RV402.RV407"),))


def test_the_slices_with_faults() -> None:
    fault = (PLANE_FAULT, "2")
    both = SliceDevice("a", "rails", {}, DOWN, (fault,))
    ((spec),) = specs("railyard.fabric", "hgx-1", [both, SliceDevice("b", "rails", {}, "", (fault,))]).values()
    shown = {"key": "railyard.fabric/plane-fault", "value": "2", "effect": "NoSchedule"}
    down = {"key": "railyard.fabric/rail-down", "effect": "NoSchedule"}
    assert [device["taints"] for device in spec["devices"]] == [[down, shown], [shown]]
    # an API server without taints gets the degraded device, and not the one that is down
    ((spec),) = specs("railyard.fabric", "hgx-1", [both, SliceDevice("b", "rails", {}, "", (fault,))], False).values()
    assert spec["devices"] == [{"name": "b", "attributes": {}}]
    failed = SliceDevice("c", "rails", {}, "", ((RAIL_FAULT, "RV402"),))
    assert [each["devices"] for each in specs("railyard.fabric", "hgx-1", [failed], False).values()] == [[]]


def test_long_values_are_shortened() -> None:
    text: t.Any = device_faults.joined("RV%03d" % number for number in range(99))
    assert len(text) <= device_faults.VALUE_MAX and text.startswith("RV000.RV001") and text[-1] != "."

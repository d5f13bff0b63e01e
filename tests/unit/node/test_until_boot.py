# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils.node.system import System
from ansible_collections.railyard.fabric.plugins.module_utils.node.until_boot import UntilBoot

FILE = "/run/railyard/until_boot/roce_qos"
REASON = "QoS of gpu01 stays as set until the next boot"


def test_reasons_are_told_until_they_are_forgotten(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    until = UntilBoot(system, "roce_qos")
    assert until.read() == [] and until.keep([]) == []
    (change,) = until.keep([REASON])
    assert change.as_dict() == {"subject": FILE, "attribute": "reboot_reasons", "before": None, "after": [REASON]}
    assert not system.exists("/run")
    change.act()
    assert json.loads(system.read(FILE) or "") == [REASON]
    # another run, which knows no more than the file
    later = UntilBoot(system, "roce_qos")
    assert later.read() == [REASON] and later.keep([REASON]) == []
    (change,) = later.keep(["another"])
    assert (change.before, change.after) == ([REASON], ["another"])
    (change,) = later.keep([])
    assert (change.before, change.after) == ([REASON], None)
    change.act()
    assert later.read() == [] and later.keep([]) == [] and not system.exists(FILE)


def test_modules_know_nothing_of_each_other(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    for change in UntilBoot(system, "roce_qos").keep([REASON]):
        change.act()
    assert UntilBoot(system, "pci_tuning").read() == []
    assert UntilBoot(system, "pci_tuning").keep([]) == []


@pytest.mark.parametrize("text", ["", "{", "{}", "3", '[1, null, {"a": "b"}]'])
def test_a_damaged_file_holds_no_reason_and_goes(tmp_path: Path, text: str) -> None:
    system = System(str(tmp_path))
    system.write_file(FILE, text)
    until = UntilBoot(system, "roce_qos")
    assert until.read() == []
    (change,) = until.keep([REASON])
    assert change.before is None
    (forget,) = until.keep([])
    forget.act()
    assert not system.exists(FILE) and until.keep([]) == []

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils.node.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils.node.system import System
from ansible_collections.railyard.fabric.plugins.module_utils.node.until_boot import UntilBoot

FILE = "/run/railyard/until_boot/roce_qos"
REASON = "QoS of gpu01 stays as set until the next boot"
GOES = Change("/etc/some.conf", "options", "there", None, lambda: None)


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
    assert [each.after for each in until.around([GOES])] == [None, None]
    (forget,) = until.keep([])
    forget.act()
    assert not system.exists(FILE) and until.keep([]) == []


def test_what_stays_is_noted_first_and_what_has_ended_is_forgotten_last(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    first = UntilBoot(system, "roce_qos")
    note, goes = first.around([GOES], [REASON, "another"])
    assert (note.subject, note.before, note.after, goes) == (FILE, None, [REASON, "another"], GOES)
    assert first.outcome(["more"]) == {"reboot_required": True, "reboot_reasons": ["more", REASON, "another"]}
    note.act()
    # where nothing changes nothing is written, and what has ended is not told all the same
    later = UntilBoot(system, "roce_qos")
    assert later.around([], ["not of these changes"], {"another"}) == [] and later.staying == [REASON]
    goes, forget = later.around([GOES], [REASON], {"another"})
    assert (goes, forget.before, forget.after) == (GOES, [REASON, "another"], [REASON])
    (goes, forget) = later.around([GOES], ended={REASON, "another"})
    assert (forget.before, forget.after) == ([REASON, "another"], None)
    forget.act()
    assert not system.exists(FILE) and later.around([], [REASON]) == []
    assert later.outcome() == {"reboot_required": False, "reboot_reasons": []}

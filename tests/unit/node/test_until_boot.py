# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.staying import (
    TEXTS,
    Staying,
    from_dict,
    without,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.until_boot import UntilBoot

FILE = "/run/railyard/until_boot/roce_qos"
STAYS = Staying("qos", ("gpu01",))
REASON = "QoS of gpu01 stays as set until the next boot"
ANOTHER = Staying("qos", ("gpu02", "gpu03"))
OTHER_REASON = "QoS of gpu02, gpu03 stays as set until the next boot"
GOES = Change("/etc/some.conf", "options", "there", None, lambda: None)


def test_reasons_are_reported_until_they_are_cleared(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    until = UntilBoot(system, "roce_qos")
    assert until.read() == [] and until.keep([]) == []
    (change,) = until.keep([STAYS])
    expected = {"subject": FILE, "attribute": "reboot_reasons", "before": None, "after": [REASON], "kind": "file"}
    assert change.as_dict() == expected
    assert not system.exists("/run")
    change.act()
    assert json.loads(system.read(FILE) or "") == [{"id": "qos", "subjects": ["gpu01"], "detail": ""}]
    # another run, which knows no more than the file
    later = UntilBoot(system, "roce_qos")
    assert later.read() == [STAYS] and later.keep([STAYS]) == []
    (change,) = later.keep([ANOTHER])
    assert (change.before, change.after) == ([REASON], [OTHER_REASON])
    (change,) = later.keep([])
    assert (change.before, change.after) == ([REASON], None)
    change.act()
    assert later.read() == [] and later.keep([]) == [] and not system.exists(FILE)


def test_records_are_separate_per_module(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    for change in UntilBoot(system, "roce_qos").keep([STAYS]):
        change.act()
    assert UntilBoot(system, "pci_tuning").read() == []
    assert UntilBoot(system, "pci_tuning").keep([]) == []


@pytest.mark.parametrize("text", ["", "{", "{}", "3", '["QoS of gpu01", null, {"a": "b"}]'])
def test_a_damaged_file_is_removed(tmp_path: Path, text: str) -> None:
    system = System(str(tmp_path))
    system.write_file(FILE, text)
    until = UntilBoot(system, "roce_qos")
    assert until.read() == []
    (change,) = until.keep([STAYS])
    assert change.before is None
    assert [each.after for each in until.around([GOES])] == [None, None]
    (forget,) = until.keep([])
    forget.act()
    assert not system.exists(FILE) and until.keep([]) == []


def test_records_are_written_first_and_removed_last(tmp_path: Path) -> None:
    system = System(str(tmp_path))
    first = UntilBoot(system, "roce_qos")
    note, goes = first.around([GOES], [STAYS, ANOTHER])
    assert (note.subject, note.before, note.after, goes) == (FILE, None, [REASON, OTHER_REASON], GOES)
    assert first.outcome(["more"]) == {"reboot_required": True, "reboot_reasons": ["more", REASON, OTHER_REASON]}
    note.act()
    # where nothing changes nothing is written, and what has ended is not reported
    later = UntilBoot(system, "roce_qos")
    assert later.around([], [Staying("qos", ("gpu09",))], {ANOTHER}) == [] and later.staying == [STAYS]
    goes, forget = later.around([GOES], [STAYS], {ANOTHER})
    assert (goes, forget.before, forget.after) == (GOES, [REASON, OTHER_REASON], [REASON])
    (goes, forget) = later.around([GOES], ended={STAYS, ANOTHER})
    assert (forget.before, forget.after) == ([REASON, OTHER_REASON], None)
    forget.act()
    assert not system.exists(FILE) and later.around([], [STAYS]) == []
    assert later.outcome() == {"reboot_required": False, "reboot_reasons": []}


@pytest.mark.parametrize("name", sorted(set(TEXTS) - {"rdma-names"}))
def test_an_entry_survives_a_round_trip(name: str) -> None:
    entry = Staying(name, ("one", "two"), "because")
    assert from_dict(json.loads(json.dumps(entry.as_dict()))) == entry and entry.text


@pytest.mark.parametrize(
    "value",
    [None, 3, [], {}, {"id": "no such id", "subjects": []}, {"id": "qos"}, {"id": "hugepages", "subjects": ["1"]}],
)
def test_a_damaged_entry_is_not_an_entry(value: object) -> None:
    assert from_dict(value) is None


def test_subjects_that_are_set_again_leave_their_entry() -> None:
    entries = [Staying("qos", ("gpu01", "gpu02")), Staying("vfs", ("gpu01",), "why"), Staying("neighbour-tables")]
    assert without(entries, "qos", {"gpu01"}) == [Staying("qos", ("gpu02",)), *entries[1:]]
    assert without(entries, "qos", {"gpu01", "gpu02"}) == entries[1:]
    assert without(entries, "vfs", {"gpu01"}) == [entries[0], entries[2]]

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""kernel_arguments on a guest that its own GRUB boots: reported, set, in force after a reboot, and removed again."""

from __future__ import annotations

import re
import time
import typing as t

import pytest

from tests.integration.conftest import Failed, Node
from tests.integration.guests import Grub

pytestmark = pytest.mark.lab

DROP_IN = "/etc/default/grub.d/zz-railyard.cfg"
WANTED = ["railyard.first=1", "railyard.second=a,b"]


@pytest.fixture(scope="module")
def guest(node: t.Callable[[str], Node]) -> t.Iterator[Node]:
    grub = Grub(node("node-1"))
    grub.begin()
    yield grub.node
    grub.node.run("rm -f %s /var/lib/railyard/update-grub" % DROP_IN, check=False)
    grub.end()


def live(guest: Node) -> list[str]:
    return guest.run("cat /proc/cmdline").split()


def configured(guest: Node) -> list[list[str]]:
    """The arguments of each entry that GRUB has."""
    text = guest.run("cat /boot/grub/grub.cfg")
    return [line.split()[2:] for line in re.findall(r"^\s*(linux\s+.*)$", text, re.M)]


def test_before_any_change_the_next_boot_has_the_running_driver(guest: Node) -> None:
    state = guest.module("kernel_arguments", state="gathered")["gathered"]
    assert state["loader"] == "grub" and state["own"] == []
    assert state["live"] == live(guest)
    assert [word for word in state["live"] if not word.startswith("BOOT_IMAGE=")] == configured(guest)[0]
    assert set(state["next_boot"]) == set.intersection(*[set(each) for each in configured(guest)])


def test_without_leave_it_is_reported_and_left(guest: Node) -> None:
    before = guest.run("md5sum /boot/grub/grub.cfg")
    found = guest.module("kernel_arguments", arguments=WANTED)
    assert not found["changed"] and not found["reboot_required"]
    assert (
        "it does not have railyard.first=1, it does not have railyard.second=a,b. Remedy: set allow_change"
        in found["warnings"][0]
    )
    assert guest.run("md5sum /boot/grub/grub.cfg") == before


def test_another_value_of_another_user_is_refused(guest: Node) -> None:
    with pytest.raises(Failed, match="the kernel of the next boot gets panic=10, and panic=5 is desired"):
        guest.module("kernel_arguments", arguments=["panic=5"], allow_change=True)
    assert all("panic=10" in each for each in configured(guest))


def test_given_as_predicted_and_in_force_after_a_reboot(guest: Node) -> None:
    predicted = guest.module("kernel_arguments", check=True, arguments=WANTED, allow_change=True)
    assert not any(word in each for each in configured(guest) for word in WANTED)
    done = guest.module("kernel_arguments", arguments=WANTED, allow_change=True)
    assert done["changes"] == predicted["changes"] and done["changed"]
    assert (
        done["reboot_reasons"]
        == predicted["reboot_reasons"]
        == ["the kernel argument %s is not in force and will be after a reboot" % word for word in WANTED]
    )
    assert all(set(WANTED) <= set(each) for each in configured(guest))
    assert not set(WANTED) & set(live(guest))
    again = guest.module("kernel_arguments", arguments=WANTED, allow_change=True)
    assert not again["changed"] and again["reboot_required"]
    guest.reboot()
    assert set(WANTED) <= set(live(guest))
    after = guest.module("kernel_arguments", arguments=WANTED, allow_change=True)
    assert (after["changed"], after["reboot_required"], after["gathered"]["own"]) == (False, False, WANTED)


@pytest.mark.parametrize("delay", [2.0])
def test_killed_half_way_the_next_run_converges(guest: Node, delay: float) -> None:
    wanted = [*WANTED, "railyard.third=%s" % delay]
    run = guest.module_process("kernel_arguments", {"arguments": wanted, "allow_change": True})
    for _try in range(600):
        if "railyard.third=%s" % delay in guest.run("cat %s 2>/dev/null || true" % DROP_IN):
            break
        time.sleep(0.1)
    time.sleep(delay)
    guest.run("pkill -9 -f '[g]rub-mkconfig'; pkill -9 -x python3; true")
    run.communicate()
    done = guest.module("kernel_arguments", arguments=wanted, allow_change=True)
    assert done["reboot_required"]
    assert all(set(wanted) <= set(each) for each in configured(guest)) and configured(guest)
    assert not guest.module("kernel_arguments", arguments=wanted, allow_change=True)["changed"]


def test_unplanned_fields_are_removed_and_fields_of_others_kept(guest: Node) -> None:
    before = [word for word in configured(guest)[0] if not word.startswith("railyard.")]
    guest.module("kernel_arguments", arguments=[], allow_change=True)
    assert configured(guest)[0] == before
    assert guest.run("ls %s 2>/dev/null || true" % DROP_IN) == ""

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rdma mode: what is changed for the running kernel and for the next boot, and what is refused."""

from __future__ import annotations

import errno
import json
import os
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec, rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma import rdma_mode
from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma.rdma_mode import (
    FILE,
    UNFINISHED,
    RdmaMode,
    RdmaModeBack,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.initramfs import KNOWN
from tests.unit.node.stored_notes import stored

FIRST = "net:[4026531840]"
IMAGE = "/boot/initrd.img-6.1.0-44-amd64"
IN_IMAGE = "usr/lib/modules/6.1.0-44-amd64/kernel/drivers/infiniband/core/ib_core.ko\n"


class Host:
    """A node: a directory tree, a kernel with a mode, and the distribution's initramfs tools."""

    def __init__(self, root: Path, live: str | None = "shared", knows_modes: bool = True) -> None:
        self.root = root
        self.live = live
        self.knows_modes = knows_modes
        self.busy = 0
        self.commands: list[str] = []
        self.listing = "usr/bin/true\n"
        self.put("proc/cmdline", "root=/dev/vda quiet\n")
        self.put("proc/sys/kernel/osrelease", "6.1.0-44-amd64\n")
        for pid in ("1", "self"):
            self.put("proc/%s/comm" % pid, "systemd\n")
            (root / ("proc/%s/ns" % pid)).mkdir()
            (root / ("proc/%s/ns/net" % pid)).symlink_to(FIRST)
        self.system = System(str(root), self.run)
        # programs of this machine must not be taken for the node's
        self.system.which = lambda program: "/sbin/" + program if program in self.tools else None  # type: ignore[method-assign]
        self.tools = {"lsinitramfs", "update-initramfs"}

    def put(self, path: str, text: str) -> Path:
        full = self.root / path.lstrip("/")
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)
        return full

    def read(self, path: str) -> str:
        return (self.root / path.lstrip("/")).read_text()

    def image(self, age: float, listing: str = IN_IMAGE) -> None:
        """An initial RAM filesystem built ``age`` seconds ago."""
        path = self.put(IMAGE, "image")
        (self.root / "lib/modules/6.1.0-44-amd64").mkdir(parents=True, exist_ok=True)
        then = time.time() - age
        os.utime(path, (then, then))
        self.listing = listing

    def namespace(self, name: str = "blue") -> None:
        self.put("proc/1/mountinfo", "80 25 0:4 net:[77] /run/netns/%s rw - nsfs nsfs rw\n" % name)
        (self.root / "proc/1/ns/mnt").symlink_to("mnt:[1]")

    def run(self, argv: t.Sequence[str], timeout: float) -> CommandResult:
        self.commands.append(" ".join(argv))
        if argv[0] in ("/sbin/lsinitramfs", "/sbin/lsinitrd"):
            return CommandResult(0, self.listing, "")
        path = self.root / IMAGE.lstrip("/")
        then = time.time() + 1
        os.utime(path, (then, then))
        return CommandResult(0, "", "")

    # the socket

    def connect(self, system: System) -> t.Any:
        return self if self.live else None

    def close(self) -> None:
        pass

    def request(self, kind: int, payload: bytes = b"") -> list[bytes]:
        if not self.knows_modes:
            raise NetlinkError(errno.EINVAL)
        if kind == rdma_netlink.message_type(rdma_netlink.CMD_SYS_GET):
            return [codec.u8(rdma_netlink.ATTR_SYS_NETNS_MODE, self.live == "shared")]
        assert kind == rdma_netlink.message_type(rdma_netlink.CMD_SYS_SET)
        if self.busy:
            self.busy -= 1
            raise NetlinkError(errno.EBUSY)
        self.live = rdma_netlink.MODES[codec.number(codec.table(payload)[rdma_netlink.ATTR_SYS_NETNS_MODE])]
        return []

    def mode(self, mode: str | None = "exclusive", persist: bool = True, switch: str = "try") -> RdmaMode:
        return RdmaMode(self.system, mode, persist, switch, self.connect)

    def back(self, switch: str = "try") -> RdmaModeBack:
        return RdmaModeBack(self.system, switch, self.connect)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def reported(changes: t.Sequence[Change]) -> list[tuple[t.Any, ...]]:
    return [(change.subject, change.attribute, change.before, change.after) for change in changes]


def act(mode: RdmaMode) -> tuple[list[tuple[t.Any, ...]], dict[str, t.Any]]:
    """Do it; what was predicted, and the outcome. The prediction is the act, and a second run does nothing."""
    state = mode.observe()
    changes = mode.changes(state)
    done: list[Change] = []
    after = converge(mode, state, changes, done)
    assert reported(done) == reported(changes)
    assert mode.changes(mode.observe()) == []
    return reported(changes), dict(after, **mode.outcome(after, []))


def test_live_and_file(host: Host) -> None:
    changes, after = act(host.mode())
    assert changes == [(FILE, "netns_mode", None, "netns_mode=0"), ("rdma", "netns", "shared", "exclusive")]
    assert host.live == "exclusive"
    assert host.read(FILE).splitlines()[-1] == "options ib_core netns_mode=0"
    assert after == {
        "mode": "exclusive",
        "live": "exclusive",
        "next_boot": "exclusive",
        "next_boot_source": FILE,
        "stale_initramfs": [],
        "reboot_required": False,
        "reboot_reasons": [],
    }


def test_switching_back_to_shared_changes_file_and_kernel(host: Host) -> None:
    act(host.mode())
    changes, after = act(host.mode("shared"))
    assert changes == [
        (FILE, "netns_mode", "netns_mode=0", "netns_mode=1"),
        ("rdma", "netns", "exclusive", "shared"),
    ]
    assert after["next_boot"] == "shared"


def test_the_kernels_default_mode_does_not_need_a_file(host: Host) -> None:
    changes, after = act(host.mode("shared"))
    assert changes == []
    assert after["next_boot_source"] == "the kernel's default"


def test_another_file_with_the_same_value_is_enough(host: Host) -> None:
    host.put("etc/modprobe.d/mlnx.conf", "options ib_core netns_mode=N\n")
    changes, after = act(host.mode())
    assert changes == [("rdma", "netns", "shared", "exclusive")]
    assert after["next_boot_source"] == "/etc/modprobe.d/mlnx.conf"


def test_earlier_files_with_another_value_are_kept(host: Host) -> None:
    text = "# ours\noptions ib_core netns_mode=1\n"
    host.put("etc/modprobe.d/mlnx.conf", text)
    host.put("usr/lib/modprobe.d/z.conf", "options ib_core netns_mode=1\n")
    changes, _after = act(host.mode(switch="never"))
    assert changes == [(FILE, "netns_mode", None, "netns_mode=0")]
    assert host.read("etc/modprobe.d/mlnx.conf") == text


def test_the_parameter_is_removed_from_later_files(host: Host) -> None:
    host.put("etc/modprobe.d/zzz.conf", "# keep\noptions ib_core send_queue_size=8 netns_mode=1\n")
    host.put("usr/lib/modprobe.d/zzzz.conf", "options ib_core netns_mode=1\noptions b c=1\n")
    changes, after = act(host.mode(switch="never"))
    assert changes == [
        (FILE, "netns_mode", None, "netns_mode=0"),
        ("/etc/modprobe.d/zzz.conf", "netns_mode", "netns_mode=1", "not set"),
        ("/etc/modprobe.d/zzzz.conf", "netns_mode", "netns_mode=1", "not set"),
    ]
    assert host.read("etc/modprobe.d/zzz.conf") == "# keep\noptions ib_core send_queue_size=8\n"
    assert host.read("usr/lib/modprobe.d/zzzz.conf").startswith("options ib_core netns_mode=1")
    assert host.read("etc/modprobe.d/zzzz.conf") == "# options ib_core netns_mode=1\noptions b c=1\n"
    assert after["next_boot_source"] == FILE


def test_other_encodings_and_permissions_of_a_file_are_kept(host: Host) -> None:
    path = host.put("etc/modprobe.d/zzz.conf", "")
    path.write_bytes(b"# f\xfcr die Karte\noptions ib_core netns_mode=1\n")
    path.chmod(0o600)
    act(host.mode(switch="never"))
    assert path.read_bytes() == b"# f\xfcr die Karte\n# options ib_core netns_mode=1\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_vendors_file_that_is_not_a_utf8_is_hidden_and_shown_again(host: Host) -> None:
    vendors = host.put("usr/lib/modprobe.d/zzz.conf", "")
    vendors.write_bytes(b"# f\xfcr die Karte\noptions ib_core netns_mode=1\n")
    act(host.mode(switch="never"))
    copy = host.root / "etc/modprobe.d/zzz.conf"
    assert copy.read_bytes() == b"# f\xfcr die Karte\n# options ib_core netns_mode=1\n"
    act(host.back("never"))
    assert not copy.exists()


def test_an_image_that_is_only_a_broken_link_does_not_count(host: Host) -> None:
    host.image(age=100)
    (host.root / IMAGE.lstrip("/")).unlink()
    (host.root / IMAGE.lstrip("/")).symlink_to("gone")
    changes, after = act(host.mode(switch="never"))
    assert [change[0] for change in changes] == [FILE] and after["stale_initramfs"] == []
    act(host.back("never"))


def test_an_invalid_value_is_removed_wherever_it_is(host: Host) -> None:
    host.put("etc/modprobe.d/a.conf", "options ib_core netns_mode=exclusive\n")
    assert host.mode().observe()["next_boot"] is None
    changes, after = act(host.mode(switch="never"))
    assert [change[0] for change in changes] == [FILE, "/etc/modprobe.d/a.conf"]
    assert after["next_boot"] == "exclusive"


def test_our_damaged_file_is_written_again(host: Host) -> None:
    act(host.mode(switch="never"))
    host.put(FILE, "options ib_core netns_mode=\n")
    changes, after = act(host.mode(switch="never"))
    assert changes == [(FILE, "netns_mode", "netns_mode=", "netns_mode=0")]


def test_a_command_line_with_the_same_value_is_enough(host: Host) -> None:
    host.put("proc/cmdline", "quiet ib_core.netns_mode=0\n")
    host.put("etc/modprobe.d/zzz.conf", "options ib_core netns_mode=1\n")
    changes, after = act(host.mode())
    assert changes == [("rdma", "netns", "shared", "exclusive")]
    assert after["next_boot_source"] == "/proc/cmdline"


def test_a_command_line_with_another_value_is_an_error(host: Host) -> None:
    host.put("proc/cmdline", "quiet ib_core.netns_mode=1\n")
    mode = host.mode()
    with pytest.raises(RailyardError, match=r"^/proc/cmdline: .*ib_core\.netns_mode=1.*Remedy: take") as caught:
        mode.changes(mode.observe())
    assert "ib_core.netns_mode=0" in str(caught.value)
    changes, _after = act(host.mode(persist=False))
    assert changes == [("rdma", "netns", "shared", "exclusive")]


def test_built_in_needs_the_command_line(host: Host) -> None:
    host.put("lib/modules/6.1.0-44-amd64/modules.builtin", "kernel/drivers/infiniband/core/ib_core.ko\n")
    mode = host.mode()
    with pytest.raises(RailyardError, match="built into the kernel.*add ib_core.netns_mode=0"):
        mode.changes(mode.observe())


def test_without_persist_no_file_is_written(host: Host) -> None:
    changes, after = act(host.mode(persist=False))
    assert changes == [("rdma", "netns", "shared", "exclusive")]
    assert not (host.root / "etc").exists()
    assert after["next_boot"] == "shared"


def test_other_namespaces_hold_the_live_mode(host: Host) -> None:
    host.namespace()
    mode = host.mode()
    changes, after = act(mode)
    assert [change[0] for change in changes] == [FILE]
    assert mode.warnings == [
        "the rdma mode stays shared while other network namespaces exist: blue (no process). "
        "A reboot brings mode exclusive."
    ]
    assert after["reboot_required"] is True
    assert after["reboot_reasons"] == [
        "the rdma mode is shared and will be exclusive after a reboot; "
        "now other network namespaces exist: blue (no process)"
    ]
    assert host.live == "shared"


@pytest.mark.parametrize(("persist", "switch"), [(True, "require"), (False, "require"), (False, "try")])
def test_other_namespaces_are_an_error_if_the_boot_changes_nothing(host: Host, persist: bool, switch: str) -> None:
    host.namespace()
    mode = host.mode(persist=persist, switch=switch)
    with pytest.raises(RailyardError, match=r"other network namespaces exist: blue .*Remedy: end what holds them"):
        mode.changes(mode.observe())


def test_a_busy_mode_without_visible_holder(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rdma_mode, "PATIENCE", 0.0)
    host.busy = 9
    mode = host.mode()
    state = mode.observe()
    done: list[Change] = []
    after = converge(mode, state, mode.changes(state), done)
    assert [change.subject for change in done] == [FILE]
    assert "nothing in /proc shows which" in mode.warnings[0]
    assert mode.outcome(after, [])["reboot_required"] is True


def test_a_namespace_that_is_being_deleted_is_waited_for(host: Host) -> None:
    host.busy = 2
    changes, _after = act(host.mode())
    assert host.live == "exclusive"


def test_prediction_of_the_reboot(host: Host) -> None:
    mode = host.mode()
    state = mode.observe()
    assert mode.outcome(state, mode.changes(state))["reboot_required"] is False
    never = host.mode(switch="never")
    assert never.outcome(state, never.changes(state))["reboot_required"] is True


def test_not_loaded_only_the_next_boot(tmp_path: Path) -> None:
    host = Host(tmp_path, live=None)
    mode = host.mode()
    changes, after = act(mode)
    assert changes == [(FILE, "netns_mode", None, "netns_mode=0")]
    assert (after["live"], after["mode"], after["reboot_required"]) == (None, "exclusive", False)
    reported = (
        "the RDMA subsystem is not loaded, so no mode was switched: %s sets mode exclusive for its next load" % FILE
    )
    assert mode.warnings == [reported]
    again = host.mode()
    assert act(again)[0] == [] and again.warnings == []
    mode = host.mode(switch="require")
    with pytest.raises(RailyardError, match="not loaded.*Remedy: load ib_core"):
        mode.changes(mode.observe())


def test_a_kernel_without_modes(tmp_path: Path) -> None:
    host = Host(tmp_path, knows_modes=False)
    assert act(host.mode("shared"))[0] == []
    mode = host.mode()
    with pytest.raises(RailyardError, match=r"knows no rdma modes.*Linux 5\.2"):
        mode.changes(mode.observe())


def test_the_image_is_rebuilt_where_the_module_is_in_it(host: Host) -> None:
    host.image(age=100)
    changes, after = act(host.mode())
    assert changes[1] == (IMAGE, "modprobe.d", "older", "rebuilt")
    assert host.commands == [
        "/sbin/lsinitramfs " + IMAGE,
        "/sbin/update-initramfs -u -k 6.1.0-44-amd64",
    ]
    assert after["stale_initramfs"] == []


def test_images_of_dracut_are_rebuilt(host: Host) -> None:
    host.tools = {"lsinitrd", "dracut"}
    host.image(age=100)
    act(host.mode())
    assert host.commands[1] == "/sbin/dracut --force %s 6.1.0-44-amd64" % IMAGE


def test_an_image_without_the_module_is_not_rebuilt(host: Host) -> None:
    host.image(age=100, listing="usr/lib/modules/6.1.0-44-amd64/kernel/drivers/net/virtio_net.ko\n")
    changes, _after = act(host.mode())
    assert [change[0] for change in changes] == [KNOWN, FILE, "rdma"]
    assert host.commands == ["/sbin/lsinitramfs " + IMAGE]
    # a later run, with nothing to do, does not list it again
    assert act(host.mode())[0] == []
    assert host.commands == ["/sbin/lsinitramfs " + IMAGE]
    # another image is listed
    host.image(age=50, listing=IN_IMAGE)
    assert [change[0] for change in act(host.mode())[0]] == [IMAGE]


def test_a_run_killed_before_the_rebuild_is_fixed(host: Host) -> None:
    host.image(age=100)
    mode = host.mode()
    mode.changes(mode.observe())[0].act()
    state = host.mode().observe()
    assert (state["next_boot"], state["stale_initramfs"]) == ("exclusive", [IMAGE])
    changes, _after = act(host.mode())
    assert [change[0] for change in changes] == [IMAGE, "rdma"]


def test_images_are_read_only_if_needed(host: Host) -> None:
    host.image(age=100)
    act(host.mode("shared"))
    host.put("proc/cmdline", "ib_core.netns_mode=0\n")
    act(host.mode())
    assert host.commands == []


def test_an_image_that_no_tool_can_read_is_warned_of(host: Host) -> None:
    host.tools = set()
    host.image(age=100)
    mode = host.mode()
    changes, _after = act(mode)
    assert [change[0] for change in changes] == [FILE, "rdma"]
    assert "neither lsinitramfs nor lsinitrd" in mode.warnings[0]


def test_a_rebuild_that_fails_has_the_message_of_the_program(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.image(age=100)
    mode = host.mode()
    changes = mode.changes(mode.observe())
    monkeypatch.setattr(host.system, "_runner", lambda argv, timeout: CommandResult(1, "", "No space left on device"))
    with pytest.raises(RailyardError, match="No space left on device"):
        converge(mode, {}, changes, [])


def test_a_damaged_record_of_images_is_ignored(host: Host) -> None:
    host.put(KNOWN, "[")
    host.image(age=100, listing="")
    act(host.mode())
    assert json.loads(host.read(KNOWN))[IMAGE]["module"] is False


# -- taken back -------------------------------------------------------------------------------------------------------

NOTE = "/run/railyard/until_boot/rdma_netns_mode"
REASON = "the rdma mode is exclusive and will be shared after a reboot"


def below(host: Host) -> dict[str, str]:
    tops = [host.root / top for top in ("etc", "usr", "var", "run")]
    return {str(path): path.read_text() for top in tops for path in top.rglob("*") if path.is_file()}


def test_absent_restores_the_live_and_the_boot_mode(host: Host) -> None:
    host.image(age=100)
    act(host.mode())
    del host.commands[:]
    changes, after = act(host.back())
    assert changes == [
        ("rdma", "netns", "exclusive", "shared"),
        (UNFINISHED, "images", None, [IMAGE]),
        (FILE, "netns_mode", "netns_mode=0", None),
        (IMAGE, "modprobe.d", "older", "rebuilt"),
        (UNFINISHED, "images", "to be built", None),
    ]
    assert (host.live, after["next_boot"], after["reboot_required"]) == ("shared", "shared", False)
    assert below(host) == {} and not (host.root / "var/lib/railyard").exists()
    del host.commands[:]
    assert act(host.back())[0] == [] and host.commands == []


def test_an_image_without_the_module_is_not_built(host: Host) -> None:
    host.image(age=100, listing="")
    act(host.mode())
    assert [change[0] for change in act(host.back())[0]] == ["rdma", FILE, KNOWN]
    assert below(host) == {} and not [each for each in host.commands if "update" in each]


def test_a_mode_set_by_others_is_kept(host: Host) -> None:
    host.live = "exclusive"
    host.image(age=100)
    assert act(host.back())[0] == [] and host.live == "exclusive" and host.commands == []


def test_the_value_of_another_file_counts_again(host: Host) -> None:
    host.put("etc/modprobe.d/mlnx.conf", "options ib_core netns_mode=0\n")
    act(host.mode("shared"))
    assert host.live == "shared"
    changes, after = act(host.back())
    assert changes == [("rdma", "netns", "shared", "exclusive"), (FILE, "netns_mode", "netns_mode=1", None)]
    assert after["next_boot"] == host.live == "exclusive"


def test_a_hidden_vendor_file_is_shown_again(host: Host) -> None:
    vendor = "usr/lib/modprobe.d/zzz-vendor.conf"
    host.put(vendor, "options ib_core netns_mode=1 other=2\n")
    host.put("etc/modprobe.d/zzz-own.conf", "options ib_core other=2\n")
    act(host.mode())
    hiding = "/etc/modprobe.d/zzz-vendor.conf"
    assert host.read(hiding) == "options ib_core other=2\n"
    changes, _after = act(host.back())
    assert (hiding, "hides zzz-vendor.conf", "not set", None) in changes
    assert [name for name in below(host) if "modprobe.d" in name] == [
        str(host.root / "etc/modprobe.d/zzz-own.conf"),
        str(host.root / vendor),
    ]


def test_other_namespaces_hold_the_mode_until_a_boot(host: Host) -> None:
    act(host.mode())
    host.namespace()
    changes, after = act(host.back())
    assert changes == [(NOTE, "reboot_reasons", None, [REASON]), (FILE, "netns_mode", "netns_mode=0", None)]
    reported_then = {
        "reboot_required": True,
        "reboot_reasons": [REASON + "; now other network namespaces exist: blue (no process)"],
    }
    assert {key: after[key] for key in reported_then} == reported_then
    changes, after = act(host.back())
    assert changes == [] and {key: after[key] for key in reported_then} == reported_then
    # they end: the mode is switched without a boot, and there is nothing to report
    (host.root / "proc/1/mountinfo").write_text("")
    changes, after = act(host.back())
    assert changes == [("rdma", "netns", "exclusive", "shared")]
    assert host.live == "shared" and not after["reboot_required"] and below(host) == {}


def test_if_the_switch_is_required_nothing_is_removed_without_it(host: Host) -> None:
    act(host.mode())
    host.namespace()
    before = below(host)
    mode = host.back("require")
    with pytest.raises(RailyardError, match="stays exclusive while other network namespaces exist"):
        mode.changes(mode.observe())
    assert below(host) == before


def test_a_busy_mode_without_visible_holder_is_recorded(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rdma_mode, "PATIENCE", 0.0)
    act(host.mode())
    host.busy = 99
    mode = host.back()
    state = mode.observe()
    done: list[Change] = []
    after = converge(mode, state, mode.changes(state), done)
    assert [change.subject for change in done] == [FILE] and host.live == "exclusive"
    assert mode.outcome(after, [])["reboot_required"] is True and stored(host.read(NOTE)) == [REASON]


def test_an_unswitched_mode_waits_for_the_boot_until_it_is_set_again(host: Host) -> None:
    act(host.mode())
    changes, after = act(host.back("never"))
    assert [change[0] for change in changes] == [NOTE, FILE] and after["reboot_reasons"] == [REASON]
    _changes, after = act(host.mode())
    assert not after["reboot_required"] and not (host.root / NOTE[1:]).exists()


def test_without_persist_no_reboot_is_required(host: Host) -> None:
    act(host.mode())
    act(host.back("never"))
    mode = host.mode("shared", persist=False, switch="never")
    state = mode.observe()
    changes = mode.changes(state)
    assert [change.subject for change in changes] == [NOTE]
    host.put("etc/modprobe.d/other.conf", "options ib_core netns_mode=0\n")
    state = mode.observe()
    predicted = mode.outcome(state, mode.changes(state))
    state = converge(mode, state, mode.changes(state), [])
    assert predicted == mode.outcome(state, []) == {"reboot_required": False, "reboot_reasons": []}


def test_a_removal_killed_at_any_point_is_completed(tmp_path: Path) -> None:
    for place in range(6):
        for again in ("back", "set"):
            host = Host(tmp_path / ("%d-%s" % (place, again)))
            host.image(age=100)
            act(host.mode())
            mode = host.back()
            changes = mode.changes(mode.observe())
            assert len(changes) == 5
            for change in changes[:place]:
                change.act()
            builds = [each for each in host.commands if "update" in each]
            if again == "set":
                # wanted shared after all: only the image still has another value
                _changes, after = act(host.mode("shared"))
            else:
                _changes, after = act(host.back())
            assert (host.live, after["next_boot"], after["reboot_required"]) == ("shared", "shared", False)
            assert not host.system.exists(UNFINISHED)
            if place < 4:
                # built without our file, or with it where it is there to say shared
                assert len([each for each in host.commands if "update" in each]) > len(builds)

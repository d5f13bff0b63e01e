# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel arguments on nodes with each boot loader, whose programs really change the configuration."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Errors, RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.boot import boot_loader
from ansible_collections.railyard.fabric.plugins.module_utils._node.boot.boot_loader import Grub
from ansible_collections.railyard.fabric.plugins.module_utils._node.boot.kernel_arguments import KernelArguments
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from tests.unit.node.nic_kernel import Killed

RECORDINGS = Path(__file__).resolve().parents[2] / "recordings" / "boot"
DEBIAN = (RECORDINGS / "grub-debian-11.cfg").read_text()
RHEL = (RECORDINGS / "grubby-rhel-9.txt").read_text()
OWN = "### BEGIN %s ###\n%s### END %s ###\n"
FOREIGN = """### BEGIN /etc/grub.d/30_os-prober ###
menuentry 'Other' {
\tlinux /boot/vmlinuz-6.1 root=/dev/sdb2
}
### END /etc/grub.d/30_os-prober ###
### BEGIN /etc/grub.d/40_custom ###
menuentry 'Rescue' {
\tlinux /boot/vmlinuz-rescue rescue
}
### END /etc/grub.d/40_custom ###
"""
ENTRY = "title Fedora\nversion 6.8\nlinux /vmlinuz-6.8\ninitrd /initrd-6.8\noptions root=UUID=1 ro quiet\n"


class Node(System):
    """A node whose boot loader's programs keep state, and fail or die on demand."""

    def __init__(self, root: Path, programs: t.Sequence[str] = ()) -> None:
        super().__init__(str(root), self.answer)
        self.programs = set(programs)
        self.commands: list[list[str]] = []
        self.operations = 0
        self.kill_at: int | None = None
        self.fails = ""
        self.extra = ""
        self.put("/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/vda ro quiet")
        self.put("/proc/cpuinfo", "vendor_id\t: GenuineIntel")

    def put(self, path: str, text: str) -> None:
        super().write_file(path, text)

    def which(self, program: str) -> str | None:
        return "/usr/sbin/" + program if program in self.programs else None

    def did(self) -> None:
        if self.kill_at is not None and self.operations >= self.kill_at:
            raise Killed()
        self.operations += 1

    def write_file(self, path: str, data: str | bytes, mode: int = 0o644) -> None:
        self.did()
        super().write_file(path, data, mode)

    def edit_file(self, path: str, text: str, mode: int | None = None) -> None:
        self.did()
        super().edit_file(path, text, mode)

    def remove_file(self, path: str) -> None:
        self.did()
        super().remove_file(path)

    def answer(self, argv: t.Sequence[str], timeout: float) -> CommandResult:
        if argv[-1] == "--info=ALL":
            return CommandResult(0, self.read_file("/grubby") or "", "")
        self.did()
        self.commands.append(list(argv))
        if self.fails:
            return CommandResult(1, "", self.fails)
        (self.update_grub if argv[0].endswith("update-grub") else self.grubby)(argv)
        return CommandResult(0, "", "")

    def update_grub(self, _argv: t.Sequence[str]) -> None:
        """As grub-mkconfig: the shell reads the variable, and its text is put at each entry's end."""
        drop_in = re.search(r'LINUX (.*)"$', self.read_file(Grub.DROP_IN) or "", re.MULTILINE)
        added = (" " + drop_in.group(1).replace('\\"', '"')) if drop_in else ""
        text = re.sub(r"^(\t\tlinux\t.*)$", lambda m: m[1] + self.extra + added, DEBIAN, flags=re.MULTILINE)
        self.put(Grub.CONFIG, OWN % ("/etc/grub.d/10_linux", text, "/etc/grub.d/10_linux") + FOREIGN)

    def grubby(self, argv: t.Sequence[str]) -> None:
        text = self.read_file("/grubby") or ""
        for option in argv[2:]:
            name, _equals, value = option.partition("=")
            for word in value.split():
                if name == "--remove-args":
                    text = re.sub(r" %s(?=[ \"])" % re.escape(word), "", text)
                else:
                    text = re.sub(r'^(args=".*)"$', lambda m, w=word: '%s %s"' % (m[1], w), text, flags=re.MULTILINE)
        self.put("/grubby", text)


def debian(root: Path) -> Node:
    node = Node(root, ["update-grub"])
    node.put("/etc/default/grub", 'GRUB_CMDLINE_LINUX=""\n')
    node.update_grub([])
    return node


def rhel(root: Path) -> Node:
    node = Node(root, ["grubby"])
    node.put("/boot/loader/entries/a.conf", ENTRY)
    node.put("/etc/kernel/cmdline", "root=UUID=1 ro")
    node.put("/grubby", RHEL + RHEL.replace("index=0", "index=1").replace("518", "503") + "index=2\nnon linux entry\n")
    return node


def systemd_boot(root: Path) -> Node:
    node = Node(root)
    node.put("/boot/efi/loader/entries/a.conf", ENTRY)
    node.put("/boot/efi/loader/entries/b.conf", ENTRY.replace("6.8", "6.7").replace(" quiet", " single"))
    node.put("/boot/efi/loader/entries/windows.conf", "title Windows\nefi /EFI/Microsoft/bootmgfw.efi\n")
    node.put("/etc/kernel/cmdline", "root=UUID=1 ro quiet\n")
    return node


NODES = {"grub": debian, "grub with grubby": rhel, "systemd-boot": systemd_boot}
WANTED = ["iommu=pt", "pci=realloc"]


def it(node: Node, *arguments: str, allow: bool = True, **more: t.Any) -> KernelArguments:
    return KernelArguments(dict({"arguments": list(arguments), "allow_change": allow}, **more), node, "x86_64")


def run(node: Node, *arguments: str, **more: t.Any) -> tuple[list[Change], dict[str, t.Any]]:
    subsystem = it(node, *arguments, **more)
    state = subsystem.observe()
    changes = subsystem.changes(state)
    predicted = subsystem.outcome(state, changes)
    done: list[Change] = []
    state = converge(subsystem, state, changes, done)
    assert done == changes
    assert subsystem.outcome(state, []) == predicted
    return done, dict(state, **predicted)


def entries(node: Node) -> list[list[str]]:
    loader = boot_loader.find_loader(node)
    assert loader is not None
    return loader.entries()


@pytest.mark.parametrize("name", list(NODES))
def test_arguments_are_added_and_removed_once(tmp_path: Path, name: str) -> None:
    node = NODES[name](tmp_path)
    before = entries(node)
    assert len(before) == 2
    done, state = run(node, *WANTED)
    assert done and state["loader"] == name
    assert [each[len(was) :] for each, was in zip(entries(node), before)] == [WANTED] * 2
    assert (state["missing_next_boot"], state["missing_live"], state["own"]) == ([], WANTED, WANTED)
    assert state["reboot_reasons"] == [
        "the kernel argument %s is not in force and will be after a reboot" % each for each in WANTED
    ]
    assert run(node, *WANTED)[0] == []
    # the node boots
    node.put("/proc/cmdline", "root=/dev/vda ro quiet " + " ".join(WANTED))
    done, state = run(node, *WANTED)
    assert (done, state["reboot_required"]) == ([], False)
    run(node, WANTED[0])
    assert [each[len(was) :] for each, was in zip(entries(node), before)] == [WANTED[:1]] * 2
    run(node)
    assert entries(node) == before
    assert run(node)[0] == []


@pytest.mark.parametrize("name", list(NODES))
def test_without_permission_the_difference_is_reported_only(tmp_path: Path, name: str) -> None:
    node = NODES[name](tmp_path)
    before = entries(node)
    subsystem = it(node, *WANTED, allow=False)
    state = subsystem.observe()
    assert subsystem.changes(state) == []
    assert (
        "it does not have iommu=pt, it does not have pci=realloc. Remedy: set pci_boot_loader_allowed to true"
        in subsystem.warnings[0]
    )
    assert subsystem.outcome(state, [])["reboot_required"] is False
    assert (entries(node), node.operations) == (before, 0)


@pytest.mark.parametrize("name", list(NODES))
def test_a_kill_at_any_point_is_completed_by_the_next_run(tmp_path: Path, name: str) -> None:
    place = 0
    while True:
        node = NODES[name](tmp_path / str(place))
        before = entries(node)
        node.operations, node.kill_at = 0, place
        try:
            run(node, *WANTED)
            run(node, WANTED[1])
            break
        except Killed:
            pass
        node.kill_at = None
        # also where what was half given is not wanted any more
        run(node, WANTED[1])
        assert [each[len(was) :] for each, was in zip(entries(node), before)] == [WANTED[1:]] * 2
        assert run(node, WANTED[1])[0] == []
        run(node)
        assert entries(node) == before
        place += 1
    assert place > 4


@pytest.mark.parametrize("name", list(NODES))
def test_removal_keeps_arguments_of_others(tmp_path: Path, name: str) -> None:
    node = NODES[name](tmp_path)
    before = entries(node)
    held = "ro"
    assert run(node, held)[0] == []
    run(node, held, "pci=realloc")
    run(node)
    assert entries(node) == before


# -- taken back -------------------------------------------------------------------------------------------------------

MARKER = "/run/railyard/until_boot/kernel_arguments"
REASONS = ["the kernel argument %s is in force until the next boot" % each for each in WANTED]


def files(node: Node) -> dict[str, bytes]:
    """What is below /etc, /boot and /var, directories too, and what grubby keeps."""
    root = Path(node.root)
    found = [path for top in ("etc", "boot", "var") for path in (root / top).rglob("*")] + list(root.glob("grubby"))
    return {str(path.relative_to(root)): path.read_bytes().rstrip() if path.is_file() else b"" for path in found}


def booted(make: t.Callable[[Path], Node], root: Path, *arguments: str) -> tuple[Node, dict[str, bytes]]:
    """A node that runs with arguments of ours, and its files before it was given them."""
    node = make(root)
    for empty in ("etc/default/grub.d", "var/lib"):  # as the distribution has them
        (root / empty).mkdir(parents=True, exist_ok=True)
    before = files(node)
    run(node, *arguments)
    node.put("/proc/cmdline", "root=/dev/vda ro quiet " + " ".join(arguments))
    return node, before


@pytest.mark.parametrize("name", list(NODES))
def test_our_arguments_are_removed(tmp_path: Path, name: str) -> None:
    node, before = booted(NODES[name], tmp_path, *WANTED)
    done, state = run(node, state="absent", iommu="passthrough")
    assert done[0].subject == MARKER and files(node) == before
    assert (state["own"], state["reboot_required"], state["reboot_reasons"]) == ([], True, REASONS)
    node.operations = 0
    done, state = run(node, state="absent")
    assert (done, node.operations, state["reboot_reasons"]) == ([], 0, REASONS)
    # not given again without leave, and so in force until the boot as before
    subsystem = it(node, *WANTED, allow=False)
    assert subsystem.changes(subsystem.observe()) == []
    # given again, before a boot
    assert run(node, *WANTED)[1]["reboot_required"] is False and not node.exists(MARKER)


@pytest.mark.parametrize("name", list(NODES))
def test_without_permission_nothing_is_removed(tmp_path: Path, name: str) -> None:
    node, _before = booted(NODES[name], tmp_path, *WANTED)
    held = files(node)
    subsystem = it(node, allow=False, state="absent")
    state = subsystem.observe()
    assert subsystem.changes(state) == [] and files(node) == held and not node.exists(MARKER)
    assert (
        "it still has iommu=pt, it still has pci=realloc. Remedy: set pci_boot_loader_allowed to true"
        in subsystem.warnings[0]
    )
    assert subsystem.outcome(state, [])["reboot_required"] is False


@pytest.mark.parametrize("name", list(NODES))
def test_removal_without_our_arguments_changes_nothing(tmp_path: Path, name: str) -> None:
    node = NODES[name](tmp_path)
    node.put("/proc/cmdline", "root=/dev/vda ro quiet iommu=pt")
    subsystem = it(node, allow=False, state="absent")
    state = subsystem.observe()
    assert subsystem.changes(state) == subsystem.warnings == subsystem.outcome(state, [])["reboot_reasons"] == []


def test_an_unsupported_loader_does_not_have_our_arguments(tmp_path: Path) -> None:
    assert run(Node(tmp_path), state="absent")[0] == []


@pytest.mark.parametrize("name", list(NODES))
def test_a_removal_killed_at_any_point_is_completed(tmp_path: Path, name: str) -> None:
    place = 0
    while True:
        node, before = booted(NODES[name], tmp_path / str(place), *WANTED)
        node.operations, node.kill_at = 0, place
        try:
            run(node, state="absent")
            break
        except Killed:
            pass
        node.kill_at = None
        assert run(node, state="absent")[1]["reboot_reasons"] == REASONS
        assert files(node) == before
        assert run(node, state="absent")[0] == []
        place += 1
    assert place > 3


def test_other_encodings_and_permissions_of_an_entry_are_kept(tmp_path: Path) -> None:
    node = systemd_boot(tmp_path)
    entry = tmp_path / "boot/efi/loader/entries/a.conf"
    entry.write_bytes(b"# f\xfcr uns\n" + ENTRY.encode())
    entry.chmod(0o600)
    run(node, *WANTED)
    assert entry.read_bytes().startswith(b"# f\xfcr uns\ntitle Fedora\n") and b" iommu=pt" in entry.read_bytes()
    assert entry.stat().st_mode & 0o777 == 0o600


def test_another_value_is_refused(tmp_path: Path) -> None:
    node = debian(tmp_path)
    node.extra = " iommu=off pci=noaer"
    node.update_grub([])
    with pytest.raises(RailyardError) as caught:
        run(node, *WANTED)
    assert str(caught.value) == (
        "/etc/default/grub: the kernel of the next boot gets iommu=off, and iommu=pt is desired. "
        "Remedy: remove iommu=off there, or add it to arguments."
    )
    subsystem = it(node, *WANTED, allow=False)
    assert subsystem.changes(subsystem.observe()) == [] and "iommu=off" in subsystem.warnings[0]


def test_characters_special_to_grubs_script_are_quoted(tmp_path: Path) -> None:
    node = debian(tmp_path)
    word = "pci=disable_acs_redir=0000:02:00.0;0000:02:01.0"
    run(node, word)
    assert '"$GRUB_CMDLINE_LINUX \\"%s\\""' % word in (node.read_file(Grub.DROP_IN) or "")
    assert '"%s"' % word in (node.read_file(Grub.CONFIG) or "")
    assert run(node, word)[0] == []


def test_a_program_that_fails_reports_why_and_is_run_again(tmp_path: Path) -> None:
    node = debian(tmp_path)
    node.fails = "grub-probe: error: cannot find a device"
    with pytest.raises(RailyardError, match="exit status 1: grub-probe: error: cannot find a device"):
        run(node, *WANTED)
    node.fails = ""
    done, _state = run(node, *WANTED)
    assert [each.subject for each in done] == [Grub.CONFIG]


def test_the_loader_that_booted_counts(tmp_path: Path) -> None:
    node = debian(tmp_path)
    node.put("/boot/efi/loader/entries/a.conf", ENTRY)
    assert isinstance(boot_loader.find_loader(node), Grub)
    node.put(boot_loader.LOADER_INFO, "\x06\0systemd-boot 252".encode("utf-16-le").decode("latin-1"))
    found = boot_loader.find_loader(node)
    assert found is not None and found.name == "systemd-boot"


def test_options_kept_in_grubs_environment_need_grubby(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.put("/boot/loader/entries/a.conf", ENTRY.replace("root=UUID=1 ro quiet", "$kernelopts"))
    with pytest.raises(RailyardError, match="install grubby"):
        run(node, *WANTED)


def test_no_loader_and_unified_images(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with pytest.raises(RailyardError, match="the boot loader is not supported"):
        run(node, *WANTED)
    subsystem = it(node, *WANTED, allow=False)
    assert subsystem.changes(subsystem.observe()) == []
    assert subsystem.warnings[0].startswith(
        "Kernel arguments that are not in force: iommu=pt pci=realloc. /boot: the boot loader is not supported"
    )
    node.put("/efi/EFI/Linux/linux-6.8.efi", "")
    with pytest.raises(RailyardError, match="unified kernel images"):
        run(node, *WANTED)
    # in force, however they came there
    node.put("/proc/cmdline", "quiet iommu=pt pci=realloc -- iommu=off")
    assert run(node, *WANTED)[0] == []


@pytest.mark.parametrize(
    ("machine", "cpu", "expected"),
    [
        ("x86_64", "GenuineIntel", ["intel_iommu=on", "iommu=pt"]),
        ("x86_64", "AuthenticAMD", ["iommu=pt"]),
        ("aarch64", "", ["iommu.passthrough=1"]),
    ],
)
def test_passthrough_arguments_depend_on_the_architecture(
    tmp_path: Path, machine: str, cpu: str, expected: list[str]
) -> None:
    node = Node(tmp_path)
    node.put("/proc/cpuinfo", "vendor_id\t: " + cpu)
    state = KernelArguments({"iommu": "passthrough"}, node, machine).observe()
    assert state["missing_live"] == expected


def test_the_iommus_groups_are_counted(tmp_path: Path) -> None:
    node = Node(tmp_path)
    for number, kind in enumerate(["identity", "DMA-FQ", "DMA", "blocked"]):
        node.put("/sys/kernel/iommu_groups/%d/type" % number, kind + "\n")
    assert it(node).observe()["iommu"] == {"groups": 4, "translated": 2}


def test_a_text_that_is_not_one_argument_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Errors) as caught:
        it(Node(tmp_path), "iommu=pt quiet", "ok=1", 'x="y"', "").observe()
    assert [each.place for each in caught.value.errors] == ["arguments[0]", "arguments[2]", "arguments[3]"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [('a b="c d" e', ["a", "b=c d", "e"]), ("", []), ('"x y"=z', ["x y=z"]), ("  a\tb\n", ["a", "b"])],
)
def test_a_command_line_is_split_into_arguments(text: str, expected: list[str]) -> None:
    assert boot_loader.words(text) == expected


def test_this_machines_own_command_line() -> None:
    state = KernelArguments({}, System()).observe()
    assert state["live"] and "--" not in state["live"]

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUDirect RDMA on nodes made of trees: what is seen, loaded, kept for boot, refused and explained."""

from __future__ import annotations

import gzip
import os
import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused, Unsupported
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.gpu import gpu_observed
from ansible_collections.railyard.fabric.plugins.module_utils._node.gpu.gpudirect_modules import (
    DROP_IN,
    LOAD_FILE,
    ORDER_FILE,
    GpuDirect,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import kernel_modules

from .trees import Tree

RECORDINGS = Path(__file__).parents[2] / "recordings/gpudirect"
RELEASE = "6.8.0-90-generic"
MODULES = "/lib/modules/" + RELEASE
PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan 30 00:00:00 UTC 2025"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build"
H100, V100 = "2330", "1db6"
REGISTER = "ib_register_peer_memory_client"


def recording(name: str) -> str:
    return (RECORDINGS / name).read_text()


def log_of(name: str) -> list[str]:
    """A recorded kernel log without its times."""
    return [re.sub(r"^\[[^]]*\] ", "", line) for line in recording(name).splitlines()]


class Host(Tree):
    """A server with GPUs: what depmod wrote, which modules are loaded, and the programs of kmod that act on it."""

    def __init__(self, root: Path, gpu: str | None = H100, flavour: str = "open", stack: str = "inbox") -> None:
        super().__init__(root)
        self.commands: list[list[str]] = []
        self.infos: dict[str, str] = {}
        self.modversions: dict[str, str] = {}
        self.exports: dict[str, str] = {}
        self.refuses: dict[str, tuple[str, list[str]]] = {}
        self.log: list[str] = []
        self.tools = {"modprobe", "modinfo", "dmesg", "systemctl"}
        self.needs: dict[str, list[str]] = {}
        self.symbols: dict[str, str] = {}
        self.places: dict[str, str] = {}
        self.write("/proc/sys/kernel/osrelease", RELEASE)
        self.write("/proc/cmdline", "root=/dev/vda quiet")
        self.write("/proc/uptime", "500.00 900.00")
        (self.root / "proc/1/fd").mkdir(parents=True)
        self.write("/boot/config-" + RELEASE, "CONFIG_PCI=y\nCONFIG_DMA_SHARED_BUFFER=y")
        self.write("/boot/vmlinuz-" + RELEASE, "kernel")
        self.write("/sys/kernel/security/lockdown", "[none] integrity confidentiality")
        if gpu:
            self.function("pci0000:00/0000:00:01.0/0000:1b:00.0", "0x030200", "10de", gpu)
        core = "kernel/drivers/infiniband/core" if stack == "inbox" else "updates/dkms"
        self.module("ib_core", core)
        self.module("ib_uverbs", core, ["ib_core"])
        self.module("mlx5_core", core)
        self.symbols["ib_umem_dmabuf_get"] = "ib_uverbs"
        if stack == "ofed":
            self.module("mlx_compat", core)
            self.symbols[REGISTER] = "ib_uverbs"
        license_ = "Dual MIT/GPL" if flavour == "open" else "NVIDIA"
        self.module("nvidia", "updates/dkms", info="version: 570.86.15\nlicense: %s\n" % license_)
        needs = ["nvidia"] + (["ib_uverbs", "ib_core"] if stack == "ofed" else [])
        info = "version: 570.86.15\nsrcversion: AAAA\nvermagic: %s SMP modversions\n" % RELEASE
        self.module("nvidia-peermem", "updates/dkms", needs, info + "signer: DKMS module signing key\n")
        for name in ("ib_core", "ib_uverbs", "nvidia"):
            self.load(name)
        if stack == "ofed":
            self.load("mlx_compat")
            self.write("/sys/module/mlx5_core/version", "24.10-3.2.5")
        self.write("/sys/module/nvidia/version", "570.86.15")
        self.write("/proc/driver/nvidia/version", OPEN if flavour == "open" else PROPRIETARY)

    # the node as it is

    def module(self, name: str, place: str, needs: t.Sequence[str] = (), info: str = "", suffix: str = ".ko") -> None:
        self.places[name] = "%s/%s%s" % (place, name, suffix)
        self.needs[name] = list(needs)
        self.infos[name] = "filename: %s/%s\n%s" % (MODULES, self.places[name], info)
        self.write("%s/%s" % (MODULES, self.places[name]), "ELF")

    def remove(self, name: str) -> None:
        (self.root / MODULES.lstrip("/") / self.places.pop(name)).unlink()

    def load(self, name: str) -> None:
        self.write("/sys/module/%s/initstate" % name.replace("-", "_"), "live")
        self.write("/sys/module/%s/refcnt" % name.replace("-", "_"), "0")

    def is_loaded(self, name: str) -> bool:
        return (self.root / "sys/module" / name / "initstate").exists()

    def depmod(self) -> None:
        lines = [
            "%s: %s" % (place, " ".join(self.places[need] for need in self.needs[name] if need in self.places))
            for name, place in self.places.items()
        ]
        self.write(MODULES + "/modules.dep", "\n".join(lines))
        self.write(
            MODULES + "/modules.symbols", "\n".join("alias symbol:%s %s" % each for each in self.symbols.items())
        )

    def system(self, runner: t.Any = None) -> System:
        self.depmod()
        system = System(str(self.root), self.run)
        system.which = lambda program: "/sbin/" + program if program in self.tools else None  # type: ignore[method-assign]
        return system

    def read(self, path: str) -> str | None:
        target = self.root / path.lstrip("/")
        return target.read_text() if target.exists() else None

    # its programs

    def run(self, argv: t.Sequence[str], timeout: float) -> CommandResult:
        self.commands.append([os.path.basename(argv[0]), *argv[1:]])
        program, rest = self.commands[-1][0], list(argv[1:])
        if program == "modinfo":
            return CommandResult(0, self.infos[os.path.basename(rest[0]).partition(".")[0]], "")
        if program == "dmesg":
            return CommandResult(
                0, "".join("[%5d.%06d] %s\n" % (at, 0, line) for at, line in enumerate(self.log, 400)), ""
            )
        if program == "systemctl":
            return CommandResult(0, "", "")
        assert program == "modprobe"
        if rest[0] == "--dump-modversions":
            return CommandResult(0, self.modversions.get(os.path.basename(rest[1]).partition(".")[0], ""), "")
        if rest[0] == "--show-exports":
            name = os.path.basename(rest[1]).partition(".")[0]
            return (
                CommandResult(0, self.exports[name], "")
                if name in self.exports
                else CommandResult(1, "", "unknown option")
            )
        if rest[0] == "-r":
            (self.root / "sys/module" / rest[1] / "initstate").unlink()
            return CommandResult(0, "", "")
        if rest[0] in self.refuses:
            message, lines = self.refuses[rest[0]]
            self.log += ["earlier"] * (110 - len(self.log)) + lines
            return CommandResult(1, "", message)
        self.load(rest[0])
        return CommandResult(0, "", "")

    def direct(self, path: str = "auto", **options: t.Any) -> GpuDirect:
        return GpuDirect(dict(options, path=path), self.system(), "x86_64")


@pytest.fixture
def inbox(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def ofed(tmp_path: Path) -> Host:
    return Host(tmp_path, stack="ofed")


@pytest.fixture
def volta(tmp_path: Path) -> Host:
    """GPUs that DMA-BUF is not for, with OFED."""
    return Host(tmp_path, V100, "proprietary", "ofed")


Rows = t.List[t.Tuple[t.Any, ...]]


def rows_of(changes: t.Sequence[Change]) -> Rows:
    return [(change.subject, change.attribute, change.before, change.after) for change in changes]


def act(direct: GpuDirect) -> Rows:
    """Do it; what was predicted. The prediction is the act, and a second run changes nothing."""
    state = direct.observe()
    changes = direct.changes(state)
    done: list[Change] = []
    converge(direct, state, changes, done)
    assert rows_of(done) == rows_of(changes)
    assert direct.changes(direct.observe()) == []
    return rows_of(changes)


def refused(direct: GpuDirect) -> str:
    with pytest.raises(RailyardError) as caught:
        direct.changes(direct.observe())
    return str(caught.value)


# -- what is seen


def test_dmabuf_with_an_inbox_core(inbox: Host) -> None:
    state = inbox.direct().observe()
    assert (state["path"], state["choice"]["path"]) == ("dmabuf", "dmabuf")
    assert state["gpus"] == [{"pci": "0000:1b:00.0", "device": "2330", "generation": "hopper"}]
    assert state["driver"] == {
        "version": "570.86.15",
        "flavour": "open",
        "loaded": True,
        "on_disk": "570.86.15",
        "from": "host",
    }
    assert (state["rdma"]["stack"], state["rdma"]["imports_dmabuf"], state["rdma"]["peer_memory"]) == (
        "inbox",
        True,
        False,
    )
    assert state["peermem"]["module"] == "stub"
    assert state["notices"] == []
    assert act(inbox.direct()) == []


def test_a_node_without_gpus_costs_no_command(tmp_path: Path) -> None:
    host = Host(tmp_path, gpu=None)
    for name in ("nvidia", "nvidia-peermem"):
        host.remove(name)
        host.needs.pop(name)
    (tmp_path / "sys/module/nvidia/initstate").unlink()
    direct = host.direct()
    assert act(direct) == []
    assert (host.commands, direct.warnings) == ([], [])
    assert direct.observe()["choice"]["reason"] == "the node does not have an NVIDIA GPU"


def test_without_a_running_driver_the_driver_on_disk_counts(inbox: Host) -> None:
    (inbox.root / "sys/module/nvidia/initstate").unlink()
    inbox.infos["nvidia"] = recording("modinfo-nvidia-open.txt")
    state = inbox.direct().observe()
    assert state["driver"] == {
        "version": "590.44.01",
        "flavour": "open",
        "loaded": False,
        "on_disk": "590.44.01",
        "from": "host",
    }
    # possible, and not there yet
    assert (state["path"], state["choice"]["path"]) == ("none", "dmabuf")


def test_recorded_outputs_are_read(inbox: Host) -> None:
    inbox.write("/proc/driver/nvidia/version", recording("version-open.txt"))
    inbox.module("gdrdrv", "extra", info=recording("modinfo-gdrdrv-proprietary.txt"), suffix=".ko.xz")
    state = inbox.direct().observe()
    assert state["driver"]["flavour"] == "open"
    assert (state["gdrdrv"]["version"], state["gdrdrv"]["flavour"]) == ("2.5", "proprietary")
    inbox.infos["nvidia-peermem"] = recording("modinfo-nv_peer_mem.txt")
    assert inbox.direct().observe()["peermem"]["signed"] is True


def test_the_kernels_configuration_may_be_packed_or_missing(inbox: Host) -> None:
    (inbox.root / ("boot/config-" + RELEASE)).unlink()
    assert inbox.direct().observe()["kernel"]["dma_shared_buffer"] is None
    (inbox.root / "proc/config.gz").write_bytes(gzip.compress(b"# CONFIG_DMA_SHARED_BUFFER is not set\n"))
    state = inbox.direct().observe()
    assert state["kernel"]["dma_shared_buffer"] is False
    assert "CONFIG_DMA_SHARED_BUFFER" in state["choice"]["reason"]
    (inbox.root / "proc/config.gz").write_bytes(b"\x1f\x8bcut off")
    assert inbox.direct().observe()["kernel"]["dma_shared_buffer"] is None


def test_symbols_of_an_rdma_core_from_a_container_are_read_from_the_kernel(inbox: Host) -> None:
    inbox.load("mlx_compat")
    inbox.write("/proc/kallsyms", "0000000000000000 t ib_register_peer_memory_client\t[ib_uverbs]")
    rdma = inbox.direct().observe()["rdma"]
    assert (rdma["stack"], rdma["from"]) == ("ofed", "container")
    assert (rdma["peer_memory"], rdma["imports_dmabuf"]) == (True, False)


def test_module_files_of_a_real_kernel_are_read(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    release = "6.1.0-56-amd64"
    for name in ("modules.dep", "modules.symbols"):
        tree.write("/lib/modules/%s/%s" % (release, name), recording(name))
    message = {
        ("/sbin/modinfo", "ib_uverbs"): recording("modinfo-ib_uverbs.txt"),
        ("--dump-modversions", "mlx5_ib"): recording("modversions-mlx5_ib.txt"),
        ("--show-exports", "ib_uverbs"): recording("exports-ib_uverbs.txt"),
    }

    def run(argv: t.Sequence[str], timeout: float) -> CommandResult:
        return CommandResult(0, message[argv[-2], os.path.basename(argv[-1]).partition(".")[0]], "")

    system = System(str(tmp_path), run)
    system.which = lambda program: "/sbin/" + program  # type: ignore[method-assign]
    modules = kernel_modules.KernelModules(system, "x86_64", release)
    assert modules.path("ib-uverbs") == "/lib/modules/%s/kernel/drivers/infiniband/core/ib_uverbs.ko" % release
    assert modules.needs("mlx5_ib")[-2:] == ["ib_core", "pci_hyperv_intf"]
    assert modules.needs("ib_core") == []
    assert modules.path("ib") is None and modules.path("core") is None
    assert modules.exporter("ib_umem_dmabuf_get") == "ib_uverbs"
    assert modules.exporter("ib_umem_dmabuf") is None and modules.exporter(REGISTER) is None
    info = modules.info("ib_uverbs")
    assert (info["signer"], info["vermagic"].split()[0]) == ("Build time autogenerated kernel key", release)
    assert modules.disagreement("mlx5_ib", "ib_umem_dmabuf_get") is None
    key = ("--show-exports", "ib_uverbs")
    message[key] = message[key].replace("0xe547d356", "0xe547d357")
    assert modules.disagreement("mlx5_ib", "ib_umem_dmabuf_get") == ("0xe547d356", "0xe547d357")


# -- nvidia-peermem


def test_peermem_is_loaded_and_kept_with_its_order(volta: Host) -> None:
    volta.write("/lib/systemd/system/openibd.service", "[Unit]")
    assert act(volta.direct()) == [
        ("nvidia_peermem", "loaded", False, True),
        (LOAD_FILE, "modules", None, "nvidia-peermem"),
        (ORDER_FILE, "softdep", None, "softdep nvidia_peermem pre: ib_core ib_uverbs nvidia"),
        (DROP_IN, "ExecStartPost", None, "ExecStartPost=-/sbin/modprobe nvidia-peermem"),
    ]
    assert ["systemctl", "daemon-reload"] in volta.commands
    assert volta.direct().observe()["path"] == "peermem"
    assert "[Service]\n" in (volta.read(DROP_IN) or "")
    # another way wanted: the files go, the module stays
    direct = volta.direct("none")
    state = direct.observe()
    changes = direct.changes(state)
    assert [(c.subject, c.after) for c in changes] == [(LOAD_FILE, None), (ORDER_FILE, None), (DROP_IN, None)]
    assert direct.warnings == ["nvidia_peermem stays loaded until the next boot, or set unload: true."]
    assert direct.outcome(state, changes)["reboot_required"] is True
    act(direct)
    assert volta.is_loaded("nvidia_peermem") and volta.read(LOAD_FILE) is None


def test_a_module_that_another_file_loads_is_not_added(volta: Host) -> None:
    volta.write("/etc/modules-load.d/nvidia-peermem.conf", "# at boot\nnvidia-peermem")
    assert [change[0] for change in act(volta.direct())] == ["nvidia_peermem", ORDER_FILE]
    direct = volta.direct("none")
    direct.changes(direct.observe())
    assert any("/etc/modules-load.d/nvidia-peermem.conf loads nvidia-peermem" in warning for warning in direct.warnings)


def test_persist_false_leaves_the_next_boot(volta: Host) -> None:
    assert act(volta.direct(persist=False)) == [("nvidia_peermem", "loaded", False, True)]


def test_a_file_hidden_by_an_empty_one_does_not_count(volta: Host) -> None:
    volta.write("/usr/lib/modules-load.d/gpu.conf", "nvidia-peermem")
    volta.write("/etc/modules-load.d/gpu.conf", "")
    assert volta.direct().observe()["peermem"]["at_boot"] is None


@pytest.mark.parametrize(
    "place, line",
    [
        ("/etc/modprobe.d/blacklist-ofed.conf", "blacklist nvidia-peermem"),
        ("/usr/lib/modprobe.d/x.conf", "install nvidia_peermem /bin/false"),
        ("/proc/cmdline", "modprobe.blacklist=nouveau,nvidia_peermem"),
    ],
)
def test_a_barred_module_is_reported(volta: Host, place: str, line: str) -> None:
    volta.write(place, line)
    assert "is not loaded because of %s: %s. Remedy: remove that line" % (place, line) in refused(volta.direct())
    assert not volta.is_loaded("nvidia_peermem")


def test_a_module_that_fails_to_load_is_not_persistent(volta: Host) -> None:
    volta.refuses["nvidia-peermem"] = (recording("modprobe-stale.txt"), log_of("dmesg-stale.txt"))
    direct = volta.direct()
    state = direct.observe()
    done: list[Change] = []
    with pytest.raises(RailyardError) as caught:
        converge(direct, state, direct.changes(state), done)
    assert "built against another version of what exports ib_register_peer_memory_client" in caught.value.message
    assert "--dump-modversions %s/updates/dkms/nvidia-peermem.ko" % MODULES in caught.value.remedy
    assert done == [] and volta.read(LOAD_FILE) is None
    # repaired
    volta.refuses.clear()
    assert [change[0] for change in act(volta.direct())] == ["nvidia_peermem", LOAD_FILE, ORDER_FILE]


@pytest.mark.parametrize("cut", range(5))
def test_an_interrupted_run_is_completed(volta: Host, cut: int) -> None:
    volta.write("/lib/systemd/system/openibd.service", "[Unit]")
    direct = volta.direct()
    for change in direct.changes(direct.observe())[:cut]:
        change.act()
    assert len(act(volta.direct())) == 4 - cut
    assert volta.is_loaded("nvidia_peermem") and volta.read(DROP_IN)


def test_earlier_kernel_messages_are_not_the_cause(volta: Host) -> None:
    volta.log = log_of("dmesg-stale.txt")
    volta.refuses["nvidia-peermem"] = (recording("modprobe-stale.txt"), [])
    direct = volta.direct()
    state = direct.observe()
    with pytest.raises(RailyardError, match="does nothing but refuse"):
        converge(direct, state, direct.changes(state), [])


@pytest.mark.parametrize("by", ["tool", "symvers"])
def test_a_stale_module_is_known_before_it_is_loaded(volta: Host, by: str) -> None:
    volta.modversions["nvidia-peermem"] = "0x0000beef\t%s\n0x11111111\tmodule_layout\n" % REGISTER
    offered = "0x%s\t%s\tdrivers/infiniband/core/ib_uverbs\tEXPORT_SYMBOL\n"
    if by == "tool":
        volta.exports["ib_uverbs"] = offered % ("0000cafe", REGISTER)
    else:
        volta.write("/usr/src/ofa_kernel/x86_64/%s/Module.symvers" % RELEASE, offered % ("cafe", REGISTER))
    state = volta.direct().observe()
    assert (state["peermem"]["module"], state["peermem"]["symbol_versions"][0]) == ("stale", "0x0000beef")
    assert state["choice"]["path"] == "none"
    assert "built against another RDMA core" in refused(volta.direct("peermem"))
    # the same number, written otherwise, is the same version
    volta.modversions["nvidia-peermem"] = "0x000000000000cafe\t%s\n" % REGISTER
    assert volta.direct().observe()["peermem"]["module"] == "built"


def test_an_impossible_method_is_an_error_with_all_reasons(tmp_path: Path) -> None:
    host = Host(tmp_path, V100, "proprietary")
    text = refused(host.direct("peermem"))
    assert "path: the inbox RDMA core of the kernel %s does not export %s" % (RELEASE, REGISTER) in text
    assert "they need Turing or later, and a GPU here is Volta" in refused(host.direct("dmabuf"))
    direct = host.direct()
    assert direct.changes(direct.observe()) == []
    assert len([warning for warning in direct.warnings if "GPUDirect RDMA is not possible" in warning]) == 1
    assert host.commands and not any(command[0] == "modprobe" for command in host.commands)


def test_lockdown_and_an_unsigned_module(volta: Host) -> None:
    volta.infos["nvidia-peermem"] = volta.infos["nvidia-peermem"].replace("signer: DKMS module signing key\n", "")
    volta.write("/sys/kernel/security/lockdown", "none [integrity] confidentiality")
    assert "the kernel requires signed modules (Secure Boot), and nvidia-peermem is not" in refused(
        volta.direct("peermem")
    )
    volta.write("/sys/kernel/security/lockdown", "[none] integrity confidentiality")
    assert volta.direct().observe()["choice"]["path"] == "peermem"
    volta.write("/sys/module/module/parameters/sig_enforce", "Y")
    assert volta.direct().observe()["choice"]["path"] == "none"


def test_unloading_needs_permission_and_no_user(volta: Host) -> None:
    act(volta.direct())
    volta.write("/proc/4711/comm", "python3")
    (volta.root / "proc/4711/fd").mkdir()
    # of a container, which has another mount namespace
    (volta.root / "proc/4711/fd/7").symlink_to("/infiniband/uverbs0")
    assert "is in use: python3 pid 4711 has /dev/infiniband/uverbs0 open. Remedy: drain the node" in refused(
        volta.direct("none", unload=True)
    )
    (volta.root / "proc/4711/fd/7").unlink()
    volta.write("/sys/module/nvidia_peermem/refcnt", "1")
    assert "is in use: 1 more" in refused(volta.direct("none", unload=True))
    volta.write("/sys/module/nvidia_peermem/refcnt", "0")
    direct = volta.direct("none", unload=True)
    assert act(direct)[0] == ("nvidia_peermem", "loaded", True, False)
    assert not volta.is_loaded("nvidia_peermem")
    assert direct.outcome(direct.observe(), []) == {"reboot_required": False, "reboot_reasons": []}


def test_a_driver_from_a_container_is_the_operators(ofed: Host) -> None:
    for name in ("nvidia", "nvidia-peermem"):
        ofed.remove(name)
        ofed.needs.pop(name)
    ofed.write("/proc/driver/nvidia/version", PROPRIETARY)
    ofed.write("/sys/bus/pci/devices/0000:1b:00.0/device", "0x" + V100)
    assert ofed.direct().observe()["driver"]["from"] == "container"
    assert refused(ofed.direct("peermem")) == (
        "path: the GPU driver comes from a container, and its nvidia-peermem is not loaded. "
        "Remedy: set the GPU Operator's driver.rdma.enabled: true."
    )
    assert "set the GPU Operator's gdrcopy.enabled: true" in refused(ofed.direct(gdrcopy=True))
    ofed.load("nvidia_peermem")
    assert act(ofed.direct("peermem")) == []
    # nor is it taken away from it
    assert act(ofed.direct("none", unload=True)) == []
    assert ofed.is_loaded("nvidia_peermem")


# -- gdrcopy


def test_gdrcopy_is_loaded_or_refused_with_a_reason(inbox: Host) -> None:
    assert "gdrdrv: is missing for the kernel %s" % RELEASE in refused(inbox.direct(gdrcopy=True))
    about = "version: 2.5\ndescription: GDRCopy kernel-mode driver built for %s NVIDIA driver\n"
    inbox.module("gdrdrv", "updates/dkms", ["nvidia"], about % "proprietary")
    assert "is built for proprietary kernel modules of the GPU driver, but they are open" in refused(
        inbox.direct(gdrcopy=True)
    )
    inbox.module("gdrdrv", "updates/dkms", ["nvidia"], about % "open-source")
    direct = inbox.direct(gdrcopy=True)
    assert act(direct) == [("gdrdrv", "loaded", False, True), (LOAD_FILE, "modules", None, "gdrdrv")]
    assert direct.warnings == [
        "gdrdrv is loaded, but /dev/gdrdrv is missing. Remedy: enable gdrcopy.service, which creates it."
    ]
    inbox.write("/dev/gdrdrv", "")
    assert direct.observe()["gdrdrv"]["device"] is True
    # not asked about, it is left alone
    assert act(inbox.direct()) == []
    assert act(inbox.direct(gdrcopy=False, unload=True)) == [
        ("gdrdrv", "loaded", True, False),
        (LOAD_FILE, "modules", "gdrdrv", None),
    ]


def test_both_modules_in_one_file(volta: Host) -> None:
    volta.module("gdrdrv", "updates/dkms", ["nvidia"])
    act(volta.direct(gdrcopy=True))
    assert (volta.read(LOAD_FILE) or "").splitlines()[1:] == ["nvidia-peermem", "gdrdrv"]


# -- taken back

NOTE = "/run/railyard/until_boot/gpudirect"
STAY = ["nvidia_peermem stays loaded until the next boot", "gdrdrv stays loaded until the next boot"]


@pytest.fixture
def both(volta: Host) -> Host:
    volta.write("/lib/systemd/system/openibd.service", "[Unit]")
    volta.module("gdrdrv", "updates/dkms", ["nvidia"])
    act(volta.direct(gdrcopy=True))
    volta.commands.clear()
    return volta


def reasons(direct: GpuDirect) -> list[str]:
    state = direct.observe()
    found: list[str] = direct.outcome(state, direct.changes(state))["reboot_reasons"]
    return found


def test_files_go_and_loaded_modules_stay_until_the_boot(both: Host) -> None:
    assert reasons(both.direct(state="absent")) == STAY and both.read(LOAD_FILE)
    assert [change[0] for change in act(both.direct(state="absent"))] == [NOTE, LOAD_FILE, ORDER_FILE, DROP_IN]
    assert both.is_loaded("nvidia_peermem") and both.is_loaded("gdrdrv")
    assert not (both.root / DROP_IN.lstrip("/")).parent.exists() and ["systemctl", "daemon-reload"] in both.commands
    assert act(both.direct(state="absent")) == [] and reasons(both.direct(state="absent")) == STAY
    # another user unloads one
    (both.root / "sys/module/gdrdrv/initstate").unlink()
    assert act(both.direct(state="absent")) == [] and reasons(both.direct(state="absent")) == STAY[:1]
    # wanted again
    act(both.direct())
    assert not both.read(NOTE) and both.direct().outcome(both.direct().observe(), [])["reboot_required"] is False


def test_permission_unloads_modules_without_users(both: Host) -> None:
    both.write("/sys/module/gdrdrv/refcnt", "1")
    assert refused(both.direct(state="absent", unload=True)).startswith("gdrdrv: is in use: 1 more")
    assert both.read(LOAD_FILE) and both.is_loaded("nvidia_peermem")
    both.write("/sys/module/gdrdrv/refcnt", "0")
    assert act(both.direct(state="absent", unload=True))[:2] == [
        ("nvidia_peermem", "loaded", True, False),
        ("gdrdrv", "loaded", True, False),
    ]
    assert reasons(both.direct(state="absent")) == [] and not both.read(NOTE)


def test_later_permission_counts(both: Host) -> None:
    act(both.direct(state="absent"))
    both.write("/sys/module/gdrdrv/refcnt", "1")
    both.write("/sys/module/nvidia_peermem/refcnt", "1")
    both.write("/dev/gdrdrv", "")
    refusal = refused(both.direct(state="absent", unload=True))
    assert "nvidia_peermem: is in use" in refusal and "gdrdrv: is in use" in refusal
    both.write("/sys/module/gdrdrv/refcnt", "0")
    both.write("/sys/module/nvidia_peermem/refcnt", "0")
    assert reasons(both.direct(state="absent", unload=True)) == [] and both.is_loaded("gdrdrv")
    assert [change[0] for change in act(both.direct(state="absent", unload=True))] == ["nvidia_peermem", "gdrdrv", NOTE]
    # a module that another user loads afterwards is not ours
    both.write("/sys/module/gdrdrv/initstate", "live")
    assert both.is_loaded("gdrdrv") and act(both.direct(state="absent", unload=True)) == []
    assert reasons(both.direct(state="absent")) == []


def test_modules_that_others_loaded_are_kept(volta: Host) -> None:
    volta.write("/etc/modules-load.d/nvidia-peermem.conf", "nvidia-peermem")
    assert act(volta.direct(state="absent")) == []
    act(volta.direct())
    assert [change[0] for change in act(volta.direct(state="absent", unload=True))] == [ORDER_FILE]
    assert volta.is_loaded("nvidia_peermem") and reasons(volta.direct(state="absent")) == []


@pytest.mark.parametrize("cut", range(4))
def test_an_interrupted_removal_is_completed(both: Host, cut: int) -> None:
    direct = both.direct(state="absent")
    for change in direct.changes(direct.observe())[:cut]:
        change.act()
    assert len(act(both.direct(state="absent"))) == 4 - cut
    assert reasons(both.direct(state="absent")) == STAY
    assert not [path for path in (LOAD_FILE, ORDER_FILE, DROP_IN) if both.read(path)]


# -- notices


def test_a_driver_that_was_changed_on_disk(inbox: Host) -> None:
    inbox.write("/sys/module/nvidia/version", "565.57.01")
    direct = inbox.direct()
    act(direct)
    assert "The GPU driver 565.57.01 is running, but 570.86.15 is on disk" in direct.warnings[0]


def test_a_loaded_module_that_differs_from_disk_is_reported(volta: Host) -> None:
    act(volta.direct())
    volta.write("/sys/module/nvidia_peermem/srcversion", "BBBB")
    assert "(srcversion BBBB) differs from the one on disk (AAAA)" in volta.direct().observe()["notices"][0]


def test_modules_that_dkms_did_not_build_are_reported(ofed: Host) -> None:
    newer = "6.8.0-100-generic"
    for release in (RELEASE, newer):
        ofed.write("/boot/vmlinuz-" + release, "kernel")
    ofed.write("/lib/modules/%s/modules.dep" % newer, "kernel/drivers/infiniband/core/ib_core.ko:")
    # left behind by a kernel that is gone
    ofed.write("/lib/modules/6.8.0-10-generic/modules.dep", "")
    for name, version in (("nvidia", "570.86.15"), ("acme", "1")):
        ofed.link("/var/lib/dkms/%s/%s/source" % (name, version), "/usr/src/%s-%s" % (name, version))
    ofed.link("/var/lib/dkms/nvidia/kernel-%s-x86_64" % RELEASE, "/var/lib/dkms/nvidia/570.86.15/x/x86_64")
    assert ofed.direct().observe()["notices"] == [
        "DKMS has not built nvidia for the kernel %s. Remedy: dkms install nvidia/570.86.15 -k %s." % (newer, newer),
        "The kernel %s has the inbox RDMA core, and the running kernel OFED's. Remedy: build OFED for it before"
        " it is booted." % newer,
    ]


def test_a_module_older_than_the_core_where_versions_do_not_show_it(volta: Host) -> None:
    volta.infos["nvidia-peermem"] = volta.infos["nvidia-peermem"].replace(" modversions", "")
    for name, when in (("nvidia-peermem", 1000), ("ib_uverbs", 2000)):
        os.utime(volta.root / MODULES.lstrip("/") / volta.places[name], (when, when))
    assert "nvidia-peermem was built before the installed ib_uverbs" in volta.direct().observe()["notices"][0]


def test_gathering_warns_and_changes_nothing(inbox: Host) -> None:
    inbox.write("/sys/module/nvidia/version", "565.57.01")
    direct = inbox.direct(state="gathered")
    state = direct.observe()
    assert direct.warnings == state["notices"] != []
    assert direct.outcome(state, []) == {"reboot_required": False, "reboot_reasons": []}


@pytest.mark.parametrize(("flavour", "warnings"), [("proprietary", 1), ("open", 0), (None, 0)])
def test_kernel_modules_of_another_flavour_are_reported(inbox: Host, flavour: str | None, warnings: int) -> None:
    direct = inbox.direct(flavour=flavour)
    direct.changes(direct.observe())
    text = "The GPU driver has the open kernel modules, not the proprietary ones"
    assert len([each for each in direct.warnings if each.startswith(text)]) == warnings


# -- why a module would not load


@pytest.mark.parametrize(
    "name, values, log, kind, message, remedy",
    [
        ("nv_peer_mem", "modprobe-stale.txt", "dmesg-stale-gpu-driver.txt", RailyardError,
         "another version of what exports ib_register_peer_memory_client, nvidia_p2p_get_pages, nvidia_p2p_put_pages",
         "rebuild it for the kernel"),
        ("nvidia-peermem", "modprobe-stale.txt", None, RailyardError, "where no peer memory", "rebuild it"),
        ("nv_peer_mem", "modprobe-unknown-symbol.txt", "dmesg-unknown-symbol.txt", RailyardError,
         "nothing in the kernel %s exports ib_register_peer_memory_client, ib_unregister" % RELEASE, "modules.symbols"),
        ("nvidia-fs", "modprobe-unknown-symbol.txt", "dmesg-gpl-only.txt", RailyardError,
         "built for NVIDIA's open kernel modules, and the loaded ones are proprietary", "open kernel modules"),
        ("nvidia", "modprobe-key-rejected.txt", None, Refused, "does not trust the key", "mokutil --import"),
        ("nvhda", "modprobe-key-missing.txt", None, Refused, "does not trust the key", "mokutil --import"),
        ("acpi_ec", "modprobe-lockdown.txt", "dmesg-lockdown.txt", Refused, "Secure Boot locks the", "sign it"),
        ("acpi_ec", "modprobe-lockdown.txt", None, Refused, "may not be loaded", "become"),
        ("nvidia-peermem", "modprobe-not-found.txt", None, Unsupported, "is not there for the kernel", "install it"),
    ],
)  # fmt: skip
def test_recorded_refusals_of_the_kernel_are_explained(
    name: str, values: str, log: str | None, kind: type, message: str, remedy: str
) -> None:
    error = kernel_modules.explain(name, recording(values), log_of(log) if log else [], RELEASE, "/lib/x.ko")
    assert type(error) is kind
    assert message in error.message
    assert remedy in error.remedy
    assert error.place == name


def test_messages_of_the_kernel_are_explained() -> None:
    magic = "gdrdrv: version magic '6.8.0-88-generic SMP' should be '6.8.0-90-generic SMP'"
    error = kernel_modules.explain(
        "gdrdrv", "modprobe: ERROR: could not insert 'gdrdrv': Exec format error", [magic], RELEASE
    )
    assert "version magic '6.8.0-88-generic SMP' should be" in error.message
    error = kernel_modules.explain("gdrdrv", "a\nmodprobe: ERROR: No such device", ["gdrdrv: odd"], RELEASE)
    assert error.message == "would not load: modprobe: ERROR: No such device; gdrdrv: odd"
    assert "no message" in kernel_modules.explain("gdrdrv", "", [], RELEASE).message


def test_without_modprobe_loading_is_an_error(volta: Host) -> None:
    volta.tools.discard("modprobe")
    direct = volta.direct()
    state = direct.observe()
    with pytest.raises(Unsupported, match="there is no modprobe"):
        converge(direct, state, direct.changes(state), [])


def test_reading_this_machine_changes_nothing() -> None:
    state = GpuDirect({}, System()).observe()
    assert state["path"] in ("dmabuf", "peermem", "none")
    assert gpu_observed.look(System()).inputs.kernel == os.uname().release


# -- GPUs of AMD -------------------------------------------------------------------------------------------------------


def amd(host: Host) -> Host:
    """The same server with GPUs of AMD and amdgpu of AMD's packages."""
    for name in ("nvidia", "nvidia-peermem"):
        host.remove(name)
    for name in ("nvidia", "nvidia_peermem"):
        (host.root / "sys/module" / name / "initstate").unlink(missing_ok=True)
    for number in (0, 1):
        host.function("pci0000:00/0000:00:0%d.0/0000:%d5:00.0" % (number + 1, number), "0x120000", "1002", "75a3")
    host.module("amdgpu", "updates/dkms", info="version: 6.16.13\n")
    host.load("amdgpu")
    host.write("/sys/module/amdgpu/version", "6.16.13")
    return host


OFF = "CONFIG_DMA_SHARED_BUFFER=y\n# CONFIG_PCI_P2PDMA is not set\nCONFIG_DMABUF_MOVE_NOTIFY=y"


def test_amdgpu_uses_dmabuf_without_a_module(tmp_path: Path) -> None:
    host = amd(Host(tmp_path, gpu=None))
    state = host.direct("dmabuf").observe()
    assert (state["path"], state["choice"]["path"]) == ("dmabuf", "dmabuf")
    assert "amdgpu 6.16.13 exports DMA-BUF" in state["choice"]["reason"]
    assert [(row["pci"], row["generation"]) for row in state["gpus"]] == [
        ("0000:05:00.0", None),
        ("0000:15:00.0", None),
    ]
    for path in ("auto", "dmabuf"):
        assert act(host.direct(path)) == []
    assert not any(program[0] == "modprobe" for program in host.commands)


def test_a_kernel_without_p2pdma_is_named_and_peer_memory_replaces_it(tmp_path: Path) -> None:
    host = amd(Host(tmp_path, gpu=None, stack="ofed"))
    host.write("/boot/config-" + RELEASE, OFF)
    text = refused(host.direct("dmabuf"))
    assert "is built without CONFIG_PCI_P2PDMA" in text and "nvidia" not in text.lower()
    state = host.direct().observe()
    assert (state["path"], state["choice"]["path"]) == ("none", "none")
    assert "amdkfd has not registered" in state["choice"]["reason"] and "nvidia" not in state["choice"]["reason"]
    host.write("/sys/kernel/memory_peers/amdkfd/version", "1.0")
    state = host.direct().observe()
    assert (state["path"], state["choice"]["path"]) == ("peermem", "peermem")
    # amdkfd registers itself: nothing is loaded now or at boot
    assert act(host.direct()) == [] and act(host.direct("peermem")) == []


def test_an_option_that_the_kernel_does_not_have_is_not_missing(tmp_path: Path) -> None:
    host = amd(Host(tmp_path, gpu=None))
    host.write("/boot/config-" + RELEASE, "CONFIG_DMA_SHARED_BUFFER=y")
    assert host.direct().observe()["choice"]["path"] == "dmabuf"


def test_amd_gpus_without_their_driver(tmp_path: Path) -> None:
    host = amd(Host(tmp_path, gpu=None))
    host.remove("amdgpu")
    (host.root / "sys/module/amdgpu/initstate").unlink()
    assert "amdgpu is missing for the kernel" in refused(host.direct("dmabuf"))


def test_gdrcopy_is_refused_with_gpus_of_amd(tmp_path: Path) -> None:
    host = amd(Host(tmp_path, gpu=None))
    assert "is a module for NVIDIA's GPUs" in refused(host.direct("dmabuf", gdrcopy=True))


def test_a_node_with_gpus_of_both_is_judged_by_nvidia(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.function("pci0000:00/0000:00:02.0/0000:05:00.0", "0x120000", "1002", "75a3")
    state = host.direct().observe()
    assert [row["generation"] for row in state["gpus"]] == ["hopper"] and "open kernel modules" in str(state["choice"])

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which driver goes with which node; and dnf's command lines, with a fake that keeps state."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Unsupported
from ansible_collections.railyard.fabric.plugins.module_utils._common.urls import Login
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.nvidia.driver import OFED
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic import driver_compatibility as match
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic import driver_packages as packages
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic import driver_sources as sources
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.nic_driver import NicDriver
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath
from tests.unit.node.trees import Tree

JAMMY = match.Node("ubuntu22.04", "5.15.0-25-generic", "x86_64")
NOBLE = match.Node("ubuntu24.04", "6.8.0-31-generic", "x86_64")
BOOKWORM = match.Node("debian12.5", "6.1.0-18-amd64", "x86_64")
ROCKY = match.Node("rhel9.4", "5.14.0-427.13.1.el9_4.x86_64", "x86_64")
LATER = "24.04, 24.07, 24.10, 25.01, 25.04, 25.07, 25.10, 26.01, 26.04"
DEB = "/x/doca-host_2.9.3-021000-24.10-debian125_amd64.deb"
MLNX = "/srv/MLNX_OFED_LINUX-24.10-1.1.4.0-%s-x86_64.iso"


# -- the vendor's lists


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (MLNX % "ubuntu22.04", ("24.10-1.1.4.0", "ubuntu22.04", "x86_64")),
        ("MLNX_OFED_LINUX-5.8-1.0.1.1-rhel8.6-aarch64.tgz", ("5.8-1.0.1.1", "rhel8.6", "aarch64")),
        ("/x/doca-host_2.9.1-018000-24.10-ubuntu2204_amd64.deb", ("2.9.1", "ubuntu2204", "x86_64")),
        ("/x/doca-host_2.9.3-021000-24.10-debian125_amd64.deb", ("2.9.3", "debian125", "x86_64")),
        ("/x/doca-host_3.4.1-010000-26.04-ubuntu2404_arm64.deb", ("3.4.1", "ubuntu2404", "aarch64")),
        ("/x/doca-host-2.9.1-018000_24.10_rhel94.x86_64.rpm", ("2.9.1", "rhel94", "x86_64")),
        ("https://mirror.example.com/doca/2.9.1/ubuntu22.04/x86_64/", (None, "ubuntu22.04", "x86_64")),
        ("https://mirror.example.com/doca", (None, None, None)),
    ],
)
def test_the_name_of_a_source_is_parsed(source: str, expected: tuple[str | None, ...]) -> None:
    assert tuple(match.parse_source(source)) == expected


@pytest.mark.parametrize(
    ("kind", "version", "source", "node"),
    [
        ("mlnx", "24.10-1.1.4.0", MLNX % "ubuntu22.04", JAMMY),
        ("mlnx", "24.10-1.1.4.0", MLNX % "rhel9.4", ROCKY),
        ("doca", "2.9.3", DEB, BOOKWORM),
        ("doca", "2.9.3", DEB, BOOKWORM._replace(distribution="debian12.11")),
        ("doca", "3.2.0", "https://mirror.example.com/doca/3.2.0/rhel9/x86_64", ROCKY._replace(distribution="rhel9.6")),
        ("doca", "3.0.0", "https://mirror.example.com/doca", NOBLE),
    ],
)
def test_listed_releases_and_distributions_are_supported(
    kind: str, version: str, source: str, node: match.Node
) -> None:
    assert match.problems(OFED, kind, version, source, node) == []


@pytest.mark.parametrize(
    ("kind", "version", "source", "node", "message"),
    [
        (
            "mlnx",
            "24.10-1.1.4.0",
            MLNX % "ubuntu24.04",
            JAMMY,
            ["it is for ubuntu24.04, but the node runs ubuntu22.04"],
        ),
        ("mlnx", "24.10-1.1.4.0", MLNX % "rhel9.2", ROCKY, ["it is for rhel9.2, but the node runs rhel9.4"]),
        ("doca", "2.9.3", "https://m.example.com/rhel9/x86_64", ROCKY, ["it is for rhel9, but the node runs rhel9.4"]),
        (
            "doca",
            "2.9.3",
            "https://m.example.com/ubuntu22.04/aarch64",
            JAMMY,
            ["it is for aarch64, but the node is x86_64"],
        ),
        (
            "doca",
            "1.5.1",
            "https://m.example.com",
            JAMMY,
            ["doca 1.5.1 is not a known release (as of %s)" % OFED.checked],
        ),
        (
            "mlnx",
            "5.8-1.0.1.1",
            "https://m.example.com",
            NOBLE,
            ["to be listed by its vendor for ubuntu24.04; OFED %s is" % LATER],
        ),
        (
            "doca",
            "2.9.3",
            "https://m.example.com",
            JAMMY._replace(kernel="6.8.0-49-generic"),
            ["drivers for ubuntu22.04 are listed for its kernel 5.15, but 6.8.0-49-generic"],
        ),
        (
            "doca",
            "2.9.3",
            "https://m.example.com",
            match.Node("", "6.1.0", "x86_64"),
            ["not known (as of %s) to be listed by its vendor for an unknown distribution" % OFED.checked],
        ),
    ],
)
def test_unlisted_releases_and_distributions_are_refused(
    kind: str, version: str, source: str, node: match.Node, message: list[str]
) -> None:
    found = match.problems(OFED, kind, version, source, node)
    assert len(found) == len(message), [str(each) for each in found]
    for error, text in zip(found, message):
        assert text in error.message and error.remedy
        # whatever is merely not known has its way out; what is for another machine has none
        assert ("allow_unlisted: true" in error.remedy) == ("architecture" not in error.remedy)


@pytest.mark.parametrize("ofed", OFED.listed())
def test_every_listed_distribution_has_its_kernel(ofed: str) -> None:
    assert OFED.listed()[ofed] <= set(match.KERNELS)
    assert not OFED.published[ofed] & OFED.unconfirmed.get(ofed, frozenset()), "both lists have a distribution"


def running(tree: Tree, pid: int, *words: str) -> None:
    tree.write("/proc/%d/cmdline" % pid, "")
    (tree.root / ("proc/%d/cmdline" % pid)).write_bytes(b"\0".join(word.encode() for word in words) + b"\0")


def test_a_script_that_outlived_its_dpkg_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Tree(tmp_path)
    ran: list[str] = []

    def run(argv: t.Sequence[str], timeout: float) -> CommandResult:
        ran.append(" ".join(argv[-3:]))
        return CommandResult(0, "", "")

    running(tree, 7, "/bin/sh", "-e", "/var/lib/dpkg/info/mlnx-ofed-kernel-dkms.postinst", "configure", "")
    running(tree, 8, "grep", "-r", "x", "/var/lib/dpkg/info/mlnx.list")
    mask = tree.root / (sources.MASKS + "openibd.service").lstrip("/")
    mask.parent.mkdir(parents=True)
    mask.symlink_to("/dev/null")
    system = tree.system(run)
    assert sources.scripts(system) == ["mlnx-ofed-kernel-dkms.postinst (pid 7)"]
    (change,) = sources.leftovers(system, None, "openibd.service")
    clock = [0.0]

    def sleep(seconds: float) -> None:
        assert ran == []
        clock[0] += seconds
        if clock[0] > 60:
            (tree.root / "proc/7/cmdline").unlink(missing_ok=True)

    monkeypatch.setattr(sources.time, "sleep", sleep)
    monkeypatch.setattr(sources.time, "monotonic", lambda: clock[0])
    change.act()
    assert ran == ["unmask --runtime openibd.service"] and clock[0] > 60
    # one that never ends is named, and the unit stays masked
    running(tree, 9, "/bin/sh", "/var/tmp/rpm-tmp.Xy12")
    monkeypatch.setattr(sources.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    with pytest.raises(
        RailyardError, match=r"scripts of packages have run for more than 1200 s: rpm-tmp.Xy12 \(pid 9\)"
    ):
        change.act()
    assert len(ran) == 1


def test_unpublished_versions_are_accepted_with_a_warning() -> None:
    assert match.unconfirmed(OFED, "mlnx", "24.10-1.1.4.0", JAMMY) == []
    bullseye = match.Node("debian10.13", "4.19.0-27-amd64", "x86_64")
    assert match.problems(OFED, "mlnx", "24.10-1.1.4.0", "https://m.example.com", bullseye) == []
    (text,) = match.unconfirmed(OFED, "mlnx", "24.10-1.1.4.0", bullseye)
    assert text.startswith("mlnx 24.10-1.1.4.0 for debian10.13: ") and OFED.checked in text and "Remedy: " in text
    assert match.unconfirmed(OFED, "doca", "1.0", JAMMY) == []


@pytest.mark.parametrize(
    ("installed", "wanted", "expected"),
    [
        ("2.9.3-0.2.2", "2.9.3", True),
        ("2.9.3022-1", "2.9.3", True),
        ("2.9.30-1", "2.9.3", False),
        ("2.9.31-1", "2.9.3", False),
        ("24.10-1.1.4.0", "24.10-1.1.4.0", True),
        ("24.10-1.1.4.0.105", "24.10-1.1.4.0", True),
        ("24.10-0.7.0.0", "24.10-1.1.4.0", False),
        ("", "2.9.3", False),
    ],
)
def test_versions_of_a_release(installed: str, wanted: str, expected: bool) -> None:
    assert match.matches(installed, wanted) is expected


@pytest.mark.parametrize(
    ("text", "debian", "expected"),
    [
        ('ID=ubuntu\nVERSION_ID="24.04"\n', None, "ubuntu24.04"),
        ('ID=debian\nVERSION_ID="12"\n', "12.5", "debian12.5"),
        ('ID="rocky"\nVERSION_ID="9.4"\n', None, "rhel9.4"),
        ('ID="sles"\nVERSION_ID="15.5"\n', None, "sles15.5"),
        ("", None, ""),
    ],
)
def test_the_node_has_the_name_of_the_vendors_repository(
    tmp_path: Path, text: str, debian: str | None, expected: str
) -> None:
    tree = Tree(tmp_path)
    tree.write("/etc/os-release", text)
    if debian:
        tree.write("/etc/debian_version", debian)
    assert match.node(tree.system(), "6.1", "x86_64").distribution == expected


@pytest.mark.parametrize(
    ("name", "version", "vendors"),
    [
        ("rdma-core", "2410mlnx54-1.2410114", True),
        ("rdma-core", "44.0-2", False),
        ("ucx", "1.18.0-1.2410068", True),
        ("ucx", "1.13.1-1", False),
        ("knem", "1.1.4.90mlnx3-OFED.23.10.0.2.1.1", True),
        ("mlnx-tools", "24.10-0.2410068", True),
        ("doca-ofed", "2.9.3-0.2.2", True),
        ("mft", "4.30.1-8", False),
        ("perftest", "24.10.0-0.65.g9093bae.2410068", True),
        ("openmpi-bin", "4.1.4-3+b1", False),
        ("libc6", "2.36-9+deb12u8", False),
    ],
)
def test_a_package_is_attributed_to_its_vendor(name: str, version: str, vendors: bool) -> None:
    assert OFED.is_package(name, version) is vendors


# -- dnf

REPOSITORY = (
    "doca-ofed-2.9.3-1.el9",
    "doca-ofed-2.9.4-1.el9",
    "rdma-core-2410mlnx54-1.2410325",
    "kmod-mlnx-ofa_kernel-24.10-OFED.24.10.3.2.5.1",
)
DISTRIBUTION = ("rdma-core-51.0-1.el9",)


class Rocky:
    """dnf and rpm that keep state; a test's ``fails`` makes a command fail."""

    def __init__(self, root: Path) -> None:
        self.tree = Tree(root)
        self.installed = {"rdma-core": "51.0-1.el9"}
        self.asked: list[list[str]] = []
        self.fails = ""
        self.tree.write("/etc/os-release", 'ID="rocky"\nVERSION_ID="9.4"')
        self.tree.write("/proc/sys/kernel/osrelease", ROCKY.kernel)
        self.tree.write("/proc/mounts", "")
        self.place("kernel/drivers/net/ethernet/mellanox/mlx5/core")

    def place(self, directory: str) -> None:
        self.tree.write("/lib/modules/%s/modules.dep" % ROCKY.kernel, "%s/mlx5_core.ko:" % directory)
        self.tree.write("/boot/vmlinuz-" + ROCKY.kernel, "")

    def known(self) -> list[tuple[str, str]]:
        ours = (self.tree.root / packages.Dnf.repository.lstrip("/")).exists()
        rows = DISTRIBUTION + (REPOSITORY if ours else ())
        return [
            t.cast("tuple[str, str]", tuple(row.rsplit("-", 2)[:1] + ["-".join(row.rsplit("-", 2)[1:])]))
            for row in rows
        ]

    def answer(self, argv: t.Sequence[str], timeout: float) -> CommandResult:
        if argv[0] == "env":
            assert argv[1] == "RUN_FW_UPDATER=no"
            argv = argv[2:]
        words = [word for word in argv[1:] if not word.startswith("-")]
        if argv[0].endswith("rpm"):
            return CommandResult(0, "".join("%s\t%s\n" % each for each in sorted(self.installed.items())), "")
        self.asked.append([word for word in argv if word not in ("dnf", "-y", "-q")])
        if words[0] == self.fails:
            return CommandResult(1, "", "Error: Failed to download metadata for repo 'railyard-nic-driver'")
        if words[0] == "list":
            rows = [(name, version) for name, version in sorted(self.known()) if name == words[1]]
            return CommandResult(0, "Available Packages\n" + "".join("%s.x86_64  %s  x\n" % row for row in rows), "")
        if words[0] in ("install", "downgrade"):
            for name, version in self.known():
                if "%s-%s" % (name, version) in words and (
                    words[0] == "downgrade" or version > self.installed.get(name, "")
                ):
                    self.installed[name] = version
                    if name == "doca-ofed":
                        self.installed["kmod-mlnx-ofa_kernel"] = "24.10-OFED.24.10.3.2.5.1"
                        self.place("extra/mlnx-ofa_kernel/drivers/net")
        if words[0] == "remove":
            for name in words[1:]:
                del self.installed[name]
            if "kmod-mlnx-ofa_kernel" in words:
                self.place("kernel/drivers/net/ethernet/mellanox/mlx5/core")
        return CommandResult(0, "", "")

    def driver(self, monkeypatch: pytest.MonkeyPatch, **options: t.Any) -> NicDriver:
        system = self.tree.system(self.answer)
        monkeypatch.setattr(system, "which", lambda name: name if name in ("dnf", "rpm") else None)
        return NicDriver(options, system, architecture="x86_64", management=ManagementPath({}, {}))

    def apply(self, monkeypatch: pytest.MonkeyPatch, **options: t.Any) -> list[Change]:
        driver = self.driver(monkeypatch, **options)
        done: list[Change] = []
        state = driver.observe()
        converge(driver, state, driver.changes(state), done)
        again = self.driver(monkeypatch, **options)
        assert again.changes(again.observe()) == []
        return done


DOCA: dict[str, t.Any] = {
    "kind": "doca",
    "version": "2.9.3",
    "source": "https://m.example.com/rhel9.4/x86_64",
    "unsigned": True,
}


def test_a_password_for_dnf_is_in_a_file_that_only_root_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rocky = Rocky(tmp_path)
    file = rocky.tree.root / packages.Dnf.repository.lstrip("/")

    def changed(source: str) -> dict[str, t.Any]:
        (change,) = [
            each
            for each in rocky.apply(monkeypatch, **dict(DOCA, source=source))
            if each.subject == packages.Dnf.repository
        ]
        assert "hush" not in repr(change) and "h%2Fush" not in repr(change)
        return change.as_dict()

    after = changed("https://me:h%2Fush@m.example.com/rhel9.4/x86_64")["after"]
    assert "baseurl=https://m.example.com/rhel9.4/x86_64/\n" in after and "username=me\npassword=***\n" in after
    assert "password=h/ush\n" in file.read_text() and file.stat().st_mode & 0o777 == 0o600
    row = changed("https://me:hushhush@m.example.com/rhel9.4/x86_64")
    assert row["before"] == after and row["after"] == after.replace("***", "*** (another)")
    # a token alone is as secret
    row = changed("https://hush@m.example.com/rhel9.4/x86_64")
    assert "username=***\n" in row["after"] and "username=hush\n" in file.read_text()
    changed("https://m.example.com/rhel9.4/x86_64")
    assert "username" not in file.read_text() and file.stat().st_mode & 0o777 == 0o644
    # as an earlier release wrote it
    file.write_text(file.read_text().replace("https://", "https://me:hush@"))
    assert rocky.driver(monkeypatch, **DOCA).observe()["source"] == "https://me:***@m.example.com/rhel9.4/x86_64"
    assert "me:***@m" in changed("https://m.example.com/rhel9.4/x86_64")["before"]


@pytest.mark.parametrize(
    ("url", "machine"),
    [
        ("https://m.example.com:8443/doca", "https://m.example.com:8443/doca/"),
        ("http://[fd00::1]:80/doca/", "http://fd00::1:80/doca/"),
        ("https://m.example.com/do%2Bca/x", "https://m.example.com/do"),
    ],
)
def test_apt_finds_a_password_by_host_and_path(url: str, machine: str) -> None:
    login, repository, _pin = packages.Apt(System(), OFED).files(url, None, "doca-ofed", "2.9.3", Login("me", "hush"))
    assert login.text.splitlines()[1] == "machine %s login me password hush" % machine and login.mode == 0o600
    assert repository.mode == 0o644 and "hush" not in repository.text


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("https://me:hu/sh@m.example.com/x", "percent-encoded.*%2F for a slash"),
        ("https://me:hu%0Ash@m.example.com/x", "user or password contains white space"),
        ("https://me:hu%20sh@m.example.com/x", "user or password contains white space"),
    ],
)
def test_a_password_that_cannot_be_used_is_refused_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str
) -> None:
    driver = Rocky(tmp_path).driver(monkeypatch, **dict(DOCA, source=source))
    with pytest.raises(RailyardError, match=message) as caught:
        driver.changes(driver.observe())
    assert "hu" not in str(caught.value) and caught.value.place == "source"


def test_dnf_installs_one_version_and_downgrades(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rocky = Rocky(tmp_path)
    done = rocky.apply(monkeypatch, **DOCA)
    assert [(each.subject, each.after) for each in done if each.attribute != "content"] == [
        ("doca-ofed", "2.9.3"),
        (ROCKY.kernel, "doca 2.9.3"),
        ("initramfs", "as on disk"),
    ]
    assert rocky.asked[:3] == [
        ["makecache", "--disablerepo=*", "--enablerepo=railyard-nic-driver"],
        ["list", "--showduplicates", "doca-ofed"],
        ["install", "--allowerasing", "doca-ofed-2.9.3-1.el9"],
    ]
    text = (tmp_path / packages.Dnf.repository.lstrip("/")).read_text()
    assert "baseurl=https://m.example.com/rhel9.4/x86_64/\n" in text and "gpgcheck=0\n" in text
    rocky.apply(monkeypatch, **dict(DOCA, version="2.9.4"))
    assert rocky.installed["doca-ofed"] == "2.9.4-1.el9"
    # back to the older one: 'install' leaves a newer version alone
    rocky.apply(monkeypatch, **DOCA)
    assert rocky.installed["doca-ofed"] == "2.9.3-1.el9"
    assert ["downgrade", "--allowerasing", "doca-ofed-2.9.3-1.el9"] in rocky.asked
    rocky.installed["rdma-core"] = "2410mlnx54-1.2410325"
    rocky.apply(monkeypatch, kind="inbox")
    assert rocky.installed == {"rdma-core": "51.0-1.el9"}
    assert ["remove", "doca-ofed", "kmod-mlnx-ofa_kernel"] in rocky.asked
    assert not (tmp_path / packages.Dnf.repository.lstrip("/")).exists()


def test_dnf_checks_signatures_with_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nx\n-----END PGP PUBLIC KEY BLOCK-----"
    rocky = Rocky(tmp_path)
    rocky.apply(monkeypatch, **dict(DOCA, key=key, unsigned=False))
    text = (tmp_path / packages.Dnf.repository.lstrip("/")).read_text()
    assert "gpgcheck=1\n" in text and "gpgkey=file://%s\n" % packages.Dnf.key in text
    assert (tmp_path / packages.Dnf.key.lstrip("/")).read_text() == key + "\n"


def test_a_failure_of_dnf_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rocky = Rocky(tmp_path)
    for command, place in (("makecache", "source"), ("install", "dnf install doca-ofed-2.9.3-1.el9")):
        rocky.fails = command
        driver = rocky.driver(monkeypatch, **DOCA)
        with pytest.raises(RailyardError, match="Failed to download metadata") as caught:
            converge(driver, {}, driver.changes(driver.observe()), [])
        assert caught.value.place == place and caught.value.remedy
    rocky.fails = ""
    rocky.apply(monkeypatch, **DOCA)


def test_a_kernel_that_the_packages_are_not_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rocky = Rocky(tmp_path)
    monkeypatch.setattr(rocky, "place", lambda directory: None)
    driver = rocky.driver(monkeypatch, **DOCA)
    with pytest.raises(RailyardError, match="their modules for this kernel are missing") as caught:
        converge(driver, {}, driver.changes(driver.observe()), [])
    assert caught.value.place == ROCKY.kernel


def test_without_a_package_manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rocky = Rocky(tmp_path)
    driver = rocky.driver(monkeypatch, **DOCA)
    monkeypatch.setattr(driver._system, "which", lambda name: None)
    with pytest.raises(Unsupported, match="neither apt nor dnf is installed"):
        driver.observe()
    # what is to be left as it is needs none
    driver = rocky.driver(monkeypatch, kind="inbox")
    monkeypatch.setattr(driver._system, "which", lambda name: None)
    assert driver.changes(driver.observe()) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("https://mirror.example.com/doca", sources.REPOSITORY),
        ("file:/srv/doca", sources.REPOSITORY),
        ("/srv/x.iso", sources.ISO),
        ("/srv/x.tgz", sources.ARCHIVE),
        ("/srv/x.tar.gz", sources.ARCHIVE),
        ("/srv/doca-host.deb", sources.PACKAGE),
        ("/srv/doca-host.rpm", sources.PACKAGE),
        ("/srv/mlnx", sources.DIRECTORY),
    ],
)
def test_forms_of_sources(source: str, expected: str) -> None:
    assert sources.form(source) == expected

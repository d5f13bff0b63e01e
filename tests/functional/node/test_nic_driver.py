# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NIC driver: installed, upgraded, reverted and repaired on a Debian of the test's own; dnf by a fake."""

from __future__ import annotations

import os
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Errors, RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.nvidia.driver import OFED
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import State, converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic import driver_sources as sources
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.driver_packages import Apt
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.nic_driver import UNFINISHED, NicDriver
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath
from tests.functional.node import debian_root
from tests.functional.node.debian_root import BUILT, DOCA, INBOX, MLNX, OTHER, RUNNING, DebianNode, on_debian, sh

Options = t.Dict[str, t.Any]
UNPROTECTED = ManagementPath({}, {})
MASK = sources.MASKS + "openibd.service"
DRIVER: Options = {"kind": "doca", "version": "2.9.3", "source": "file:" + DOCA, "unsigned": True}


def doca(version: str = "2.9.3", ofed: str = "24.10-3.2.5.0", key: str | None = None) -> None:
    place = Path(DOCA)
    debian_root.driver(place, ofed, {"doca-ofed": version + "-0.2.2", "doca-roce": version + "-0.2.2"})
    debian_root.index(place, key)


def mlnx() -> None:
    debian_root.driver(Path(MLNX, "DEBS"), "24.10-1.1.4.0", {"mlnx-ofed-all": "24.10-1.1.4.0"})
    debian_root.index(Path(MLNX, "DEBS"))


def made(node: DebianNode, options: Options, management: ManagementPath = UNPROTECTED) -> NicDriver:
    return NicDriver(options, node, architecture="x86_64", management=management)


def predicted(
    node: DebianNode, options: Options, management: ManagementPath = UNPROTECTED
) -> tuple[list[Change], State]:
    """What check mode reports; the node is as before."""
    before = (node.dpkg(), sorted(os.listdir("/etc/apt/sources.list.d")), node.modules(RUNNING), node.log())
    driver = made(node, options, management)
    state = driver.observe()
    changes = driver.changes(state)
    assert (node.dpkg(), sorted(os.listdir("/etc/apt/sources.list.d")), node.modules(RUNNING), node.log()) == before
    return changes, driver.outcome(state, changes)


def apply(
    node: DebianNode, options: Options, management: ManagementPath = UNPROTECTED
) -> tuple[list[dict[str, t.Any]], State]:
    """One run, compared with its check mode; and another one, which must do nothing."""
    foreseen, expected = predicted(node, options, management)
    driver = made(node, options, management)
    done: list[Change] = []
    state = driver.observe()
    state = converge(driver, state, driver.changes(state), done)
    assert [each.as_dict() for each in done] == [each.as_dict() for each in foreseen]
    outcome = driver.outcome(state, [])
    assert outcome["reboot_required"] == expected["reboot_required"]
    again = made(node, options, management)
    state = again.observe()
    assert again.changes(state) == []
    return [each.as_dict() for each in done], dict(outcome, gathered=state)


def attributes(done: t.Sequence[t.Mapping[str, t.Any]]) -> list[tuple[str, t.Any]]:
    return [(each["subject"], each["after"]) for each in done if each["attribute"] != "content"]


# -- on a Debian of one's own ------------------------------------------------------------------------------------------


@on_debian
def test_doca_from_a_repository_and_back(node: DebianNode) -> None:
    doca()
    done, outcome = apply(node, DRIVER)
    assert attributes(done) == [
        ("doca-ofed", "2.9.3"),
        (RUNNING, "doca 2.9.3"),
        (OTHER, "doca 2.9.3"),
        ("/boot/initrd.img-" + RUNNING, "rebuilt"),
        ("/boot/initrd.img-" + OTHER, "rebuilt"),
        ("initramfs", "as on disk"),
    ]
    assert node.dpkg() == {
        "doca-ofed": "2.9.3-0.2.2",
        "mlnx-ofed-kernel-dkms": "24.10.OFED.24.10.3.2.5.0.1-1",
        "rdma-core-x": "2410mlnx54-1.2410114",
    }
    assert [node.modules(release) for release in (RUNNING, OTHER)] == [BUILT, BUILT]
    assert Path("/boot/initrd.img-" + OTHER).read_text().strip().endswith(BUILT)
    # the stack was not restarted, though a package's script tried to
    assert "systemctl restart openibd" in node.log() and "RESTARTED" not in node.log()
    assert "BURNT" not in node.log(), "mlnx-fw-updater burns firmware without RUN_FW_UPDATER=no"
    assert not os.path.lexists(MASK)
    assert outcome["reboot_reasons"] == ["the running NIC driver is inbox, and the next boot loads doca 2.9.3"]
    assert (outcome["gathered"]["kind"], outcome["gathered"]["version"]) == ("doca", "2.9.3-0.2.2")
    assert outcome["gathered"]["source"] == "file:" + DOCA and outcome["gathered"]["kernels"] == {
        RUNNING: "ofed",
        OTHER: "ofed",
    }

    done, outcome = apply(node, {"kind": "inbox"})
    assert ("rdma-core-x", "44.0-2") in attributes(done) and (RUNNING, "inbox") in attributes(done)
    assert node.dpkg() == {"rdma-core-x": "44.0-2"}
    assert [node.modules(release) for release in (RUNNING, OTHER)] == [INBOX, INBOX]
    assert Path("/boot/initrd.img-" + RUNNING).read_text().strip().endswith(INBOX)
    assert os.listdir("/etc/apt/sources.list.d") == ["debian.sources"] and not os.path.exists(Apt.pin)
    assert not outcome["reboot_required"], "what runs was never changed"


@on_debian
def test_a_signed_repository_and_the_wrong_key(node: DebianNode) -> None:
    right = debian_root.key("vendor@example.com")
    doca(key="vendor@example.com")
    wrong = debian_root.key("other@example.com")
    options = {key: value for key, value in DRIVER.items() if key != "unsigned"}
    with pytest.raises(RailyardError, match="a repository requires a key"):
        predicted(node, options)
    driver = made(node, dict(options, key=wrong))
    with pytest.raises(RailyardError) as caught:
        converge(driver, {}, driver.changes(driver.observe()), [])
    assert caught.value.place == "source" and "NO_PUBKEY" in caught.value.message, str(caught.value)
    assert node.dpkg() == {"rdma-core-x": "44.0-2"}
    Path("/srv/vendor.asc").write_text(right)
    done, _reported = apply(node, dict(options, key="/srv/vendor.asc"))
    (change,) = [each for each in done if each["subject"] == Apt.key]
    assert change["before"].startswith("key, SHA-256 ") and change["after"] != change["before"]
    assert "signed-by=%s" % Apt.key in Path(Apt.repository).read_text() and node.dpkg()["doca-ofed"]


@on_debian
def test_a_repository_with_a_password(node: DebianNode) -> None:
    doca()
    logins = {"me@site": "h/s%h:"}
    with debian_root.web("/srv", logins) as address:
        place = "%s/%s" % (address, DOCA[len("/srv/") :])
        options = dict(DRIVER, source="http://me%%40site:h%%2Fs%%25h:@%s" % place)
        done, outcome = apply(node, options)
        (change,) = [each for each in done if each["subject"] == Apt.login]
        assert change["after"].splitlines()[1:] == ["machine http://%s/ login me@site password ***" % place]
        assert "h/s%h" not in str([done, outcome]) and "h%2Fs" not in str([done, outcome])
        assert outcome["gathered"]["source"] == "http://" + place and node.dpkg()["doca-ofed"] == "2.9.3-0.2.2"
        # the password is in one file, which is root's alone
        holding = sh("grep", "-rlF", "h/s%h", "/etc/apt", "/var/lib/apt").split()
        assert holding == [Apt.login] and node.mode(Apt.login) == 0o600 and node.mode(Apt.repository) == 0o644
        assert "h%2Fs" not in Path(Apt.repository).read_text()
        os.chmod(Apt.login, 0o644)
        done, _reported = apply(node, options)
        (change,) = done
        assert (change["subject"], change["before"], change["after"]) == (Apt.login, "0644", "0600")

        # a changed password is reported, without either password
        logins["me@site"] = "whisper"
        driver = made(node, dict(options, version="2.9.4", allow_unlisted=True))
        with pytest.raises(RailyardError) as caught:
            converge(driver, {}, driver.changes(driver.observe()), [])
        assert "401" in str(caught.value) and "user and password" in caught.value.remedy, str(caught.value)
        assert "h/s%h" not in str(caught.value) and "h%2Fs" not in str(caught.value)
        apply(node, options)
        done, _reported = apply(node, dict(options, source="http://me%%40site:whisper@%s" % place))
        (change,) = done
        assert change["before"].replace("***", "*** (another)") == change["after"], change
        assert "whisper" not in str(done) and "password whisper\n" in Path(Apt.login).read_text()
        sh("apt-get", "update")

        # to one without a password, and back; what an earlier release wrote is hidden as well
        done, _reported = apply(node, DRIVER)
        assert [each["after"] for each in done if each["subject"] == Apt.login] == [None]
        assert not os.path.exists(Apt.login)
        Path(Apt.repository).write_text("deb [trusted=yes] http://me%%40site:whisper@%s/ ./\n" % place)
        done, _reported = apply(node, dict(options, source="http://me%%40site:whisper@%s" % place))
        assert "me%%40site:***@%s/" % place in str(done) and "whisper" not in str(done)
        assert "whisper" not in Path(Apt.repository).read_text()
        apply(node, {"kind": "inbox"})
        assert sh("find", "/etc/apt", "-name", "railyard*") == ""


@on_debian
def test_mlnx_ofed_from_an_iso_and_then_doca(node: DebianNode) -> None:
    mlnx()
    iso = MLNX + ".iso"
    sh("mkfs.ext4", "-q", "-d", MLNX, iso, "16M")
    if subprocess.run(["mount", "-o", "ro,loop", iso, "/media"], capture_output=True).returncode:
        return  # no loop devices here: the lab's test has them
    sh("umount", "/media")
    options = {"kind": "mlnx", "version": "24.10-1.1.4.0", "source": iso}
    done, outcome = apply(node, options)
    assert attributes(done)[0] == ("mlnx-ofed-all", "24.10-1.1.4.0") and outcome["gathered"]["kind"] == "mlnx"
    assert not sources.mounted(node) and not os.path.exists(sources.MEDIA) and not os.path.exists(Apt.repository)
    assert sh("losetup", "-j", iso) == "", "the loop device is free again"
    sh("apt-get", "update")
    # the other kind's own package goes in the same transaction
    doca()
    done, outcome = apply(node, DRIVER)
    assert ("mlnx-ofed-all", None) in attributes(done) and outcome["gathered"]["packages"] == ["doca-ofed"]
    assert node.dpkg()["mlnx-ofed-kernel-dkms"].endswith("24.10.3.2.5.0.1-1")


@on_debian
def test_an_archive_a_directory_and_a_package_that_brings_its_repository(node: DebianNode) -> None:
    mlnx()
    archive = MLNX + ".tgz"
    sh("tar", "-c", "-z", "-f", archive, "-C", "/srv", os.path.basename(MLNX))
    options = {"kind": "mlnx", "version": "24.10-1.1.4.0", "source": archive}
    apply(node, options)
    assert node.dpkg()["mlnx-ofed-all"] and not os.path.exists(sources.SCRATCH) and not os.path.exists(Apt.repository)
    apply(node, {"kind": "inbox"})
    apply(node, dict(options, source=MLNX))
    apply(node, {"kind": "inbox"})
    doca()
    bringer = "echo 'deb [trusted=yes] file:%s ./' > /etc/apt/sources.list.d/doca.list\n" % DOCA
    debian_root.package(Path("/srv"), "doca-host", "2.9.3-025000-24.10", scripts={"postinst": bringer})
    deb = "/srv/doca-host_2.9.3-025000-24.10-debian125_amd64.deb"
    os.rename("/srv/doca-host_2.9.3-025000-24.10_all.deb", deb)
    apply(node, dict(DRIVER, source=deb))
    assert node.dpkg()["doca-ofed"] == "2.9.3-0.2.2" and node.dpkg()["doca-host"]


@on_debian
def test_an_upgrade_and_a_version_that_is_older(node: DebianNode) -> None:
    doca()
    apply(node, DRIVER)
    doca("2.9.4", "24.10-4.1.4.0")
    done, _reported = apply(node, dict(DRIVER, version="2.9.4"))
    assert ("doca-ofed", "2.9.4") in attributes(done) and node.dpkg()["doca-ofed"] == "2.9.4-0.2.2"
    done, _reported = apply(node, DRIVER)
    assert ("doca-ofed", "2.9.3") in attributes(done) and node.dpkg()["doca-ofed"] == "2.9.3-0.2.2"


@on_debian
def test_a_version_that_the_source_does_not_have_is_an_error(node: DebianNode) -> None:
    doca("2.9.4", "24.10-4.1.4.0")
    driver = made(node, DRIVER)
    with pytest.raises(RailyardError, match="the source has 2.9.4-0.2.2 of doca-ofed, not 2.9.3") as caught:
        converge(driver, {}, driver.changes(driver.observe()), [])
    assert caught.value.place == "version" and node.dpkg() == {"rdma-core-x": "44.0-2"}


@pytest.mark.long
@on_debian
def test_killed_in_the_middle_of_a_package_and_repaired(node: DebianNode) -> None:
    doca()
    Path("/srv/die").write_text("")
    driver = made(node, DRIVER)
    changes = driver.changes(driver.observe())
    # what a SIGKILL leaves: dpkg dead, the unit masked, a half installed package
    with pytest.raises(RailyardError):
        converge(driver, {}, changes, [])
    os.symlink("/dev/null", MASK)
    assert os.path.exists(UNFINISHED) and Apt(node, OFED).interrupted()
    os.unlink("/srv/die")
    done, _reported = apply(node, DRIVER)
    subjects = [each["subject"] for each in done]
    assert subjects[:2] == ["apt", "openibd.service"] and "doca-ofed" in subjects
    assert "systemctl restart openibd" in node.log() and "RESTARTED" not in node.log()
    assert not Apt(node, OFED).interrupted() and node.dpkg()["doca-ofed"] and not os.path.exists(UNFINISHED)
    assert node.modules(RUNNING) == BUILT


@pytest.mark.long
@on_debian
def test_killed_after_the_packages_and_before_the_images(node: DebianNode) -> None:
    doca()
    driver = made(node, DRIVER)
    for change in driver.changes(driver.observe())[:5]:
        change.act()
    assert node.dpkg()["doca-ofed"] and not Path("/boot/initrd.img-" + OTHER).read_text().strip().endswith(BUILT)
    done, _reported = apply(node, DRIVER)
    assert ("/boot/initrd.img-" + OTHER, "rebuilt") in attributes(done) and "doca-ofed" not in dict(attributes(done))
    assert Path("/boot/initrd.img-" + OTHER).read_text().strip().endswith(BUILT)


@pytest.mark.long
@on_debian
def test_killed_with_the_media_mounted(node: DebianNode) -> None:
    mlnx()
    os.makedirs(sources.MEDIA)
    sh("mount", "--bind", MLNX, sources.MEDIA)
    os.makedirs(sources.SCRATCH + "/x")
    Path(Apt.repository).write_text("deb [trusted=yes] file:%s/DEBS/ ./\n" % sources.MEDIA)
    done, _reported = apply(node, {"kind": "inbox"})
    assert [each["subject"] for each in done] == [sources.MEDIA, sources.SCRATCH, Apt.repository]
    assert not sources.mounted(node) and not os.path.exists(sources.SCRATCH) and not os.path.exists(Apt.repository)


@on_debian
def test_a_module_that_cannot_be_built(node: DebianNode) -> None:
    doca()
    Path("/srv/fail-dkms").write_text("")
    driver = made(node, DRIVER)
    with pytest.raises(RailyardError) as caught:
        converge(driver, {}, driver.changes(driver.observe()), [])
    assert "apt-get" in caught.value.place and caught.value.remedy
    os.unlink("/srv/fail-dkms")
    apply(node, DRIVER)
    assert node.modules(OTHER) == BUILT


@on_debian
def test_a_kernel_without_headers(node: DebianNode) -> None:
    doca()
    os.rmdir("/lib/modules/%s/build" % OTHER)
    driver = made(node, DRIVER)
    changes = driver.changes(driver.observe())
    assert OTHER not in [change.subject for change in changes]
    assert [each for each in driver.warnings if OTHER in each and "headers" in each]
    os.rmdir("/lib/modules/%s/build" % RUNNING)
    with pytest.raises(
        RailyardError, match="the headers of the kernel %s, which the driver is built with" % RUNNING
    ) as caught:
        predicted(node, DRIVER)
    assert caught.value.remedy == "install linux-headers-" + RUNNING


@on_debian
def test_secure_boot_without_a_key_to_sign_with(node: DebianNode) -> None:
    doca()
    os.makedirs("/sys/kernel/security")
    Path("/sys/kernel/security/lockdown").write_text("none [integrity] confidentiality\n")
    with pytest.raises(Refused, match="Secure Boot requires signed modules"):
        predicted(node, DRIVER)
    os.makedirs("/var/lib/shim-signed/mok")
    Path("/var/lib/shim-signed/mok/MOK.priv").write_text("")
    assert predicted(node, DRIVER)[0]


@on_debian
def test_the_stack_is_restarted_only_with_consent(node: DebianNode) -> None:
    doca()
    done, outcome = apply(node, dict(DRIVER, restart="allowed"))
    assert attributes(done)[-1] == ("openibd", "restarted") and node.log()[-1] == "RESTARTED"
    assert not outcome["reboot_required"]


@on_debian
def test_modules_for_another_kernel_do_not_restart_the_running_driver(node: DebianNode) -> None:
    """A kernel that came by an upgrade, for which DKMS has not built yet."""
    doca()
    options = dict(DRIVER, restart="allowed")
    apply(node, options)
    shutil.rmtree("/lib/modules/%s/updates" % OTHER)
    sh("depmod", OTHER)
    restarts = node.log().count("RESTARTED")
    foreseen, expected = predicted(node, DRIVER)
    assert [each.subject for each in foreseen] == [OTHER] and not expected["reboot_required"]
    done, outcome = apply(node, options)
    assert attributes(done) == [(OTHER, "doca 2.9.3")] and not outcome["reboot_required"]
    assert node.log().count("RESTARTED") == restarts and node.modules(OTHER) == BUILT


@on_debian
def test_an_omitted_key_keeps_the_repository_signed(node: DebianNode) -> None:
    doca()
    apply(node, DRIVER)
    with pytest.raises(RailyardError, match="a repository requires a key"):
        predicted(node, dict(DRIVER, unsigned=False))


@on_debian
def test_packages_that_are_held_are_installed_ones(node: DebianNode) -> None:
    doca()
    apply(node, DRIVER)
    sh("apt-mark", "hold", "doca-ofed", "mlnx-ofed-kernel-dkms")
    state = made(node, DRIVER).observe()
    assert (state["kind"], state["version"]) == ("doca", "2.9.3-0.2.2")
    apply(node, {"kind": "inbox"})
    assert node.modules(RUNNING) == INBOX and list(node.dpkg()) == ["rdma-core-x"]


@on_debian
def test_the_stack_is_not_restarted_if_a_pod_got_a_port_during_the_installation(node: DebianNode) -> None:
    doca()
    driver = made(node, dict(DRIVER, restart="allowed"))
    changes = driver.changes(driver.observe())
    for change in changes[:-1]:
        change.act()
    os.makedirs("/sys/bus/pci/devices/0000:05:00.0/net")
    for name, value in (("vendor", "0x15b3"), ("class", "0x020000")):
        Path("/sys/bus/pci/devices/0000:05:00.0", name).write_text(value)
    with pytest.raises(Refused, match="0000:05:00.0, its netdev is in another network namespace"):
        changes[-1].act()
    assert "RESTARTED" not in node.log()


@on_debian
def test_the_stack_is_not_restarted_under_the_connection(node: DebianNode) -> None:
    doca()
    card = "0000:05:00.0"
    os.makedirs("/sys/bus/pci/devices/%s" % card)
    os.makedirs("/sys/bus/pci/drivers/mlx5_core")
    os.symlink("/sys/bus/pci/drivers/mlx5_core", "/sys/bus/pci/devices/%s/driver" % card)
    management = ManagementPath({"eth0": "carries this connection"}, {card: "eth0 carries this connection"})
    options = dict(DRIVER, restart="allowed")
    done, outcome = apply(node, options, management)
    assert "openibd" not in dict(attributes(done)) and "RESTARTED" not in node.log() and outcome["reboot_required"]
    driver = made(node, options, management)
    driver.changes(driver.observe())
    assert driver.warnings == [
        "The driver stack is not restarted: 0000:05:00.0 uses this driver, and eth0 carries this connection. The driver"
        " takes effect after a reboot."
    ]
    # another NIC of the node carries it: then others who use the stack are in the way, and VFs
    os.makedirs("/sys/module/ib_core/holders/rdma_rxe")
    driver = made(node, options)
    driver.changes(driver.observe())
    assert "other modules use it: rdma_rxe (uses ib_core)" in driver.warnings[0]
    os.rmdir("/sys/module/ib_core/holders/rdma_rxe")
    for name, text in (("class", "0x020000"), ("vendor", "0x15b3")):
        Path("/sys/bus/pci/devices", card, name).write_text(text)
    os.symlink("/sys/bus/pci/devices/0000:05:00.2", "/sys/bus/pci/devices/%s/virtfn0" % card)
    driver = made(node, options)
    assert "openibd" not in [each.subject for each in driver.changes(driver.observe())]
    assert "0000:05:00.0 has VFs" in driver.warnings[0]


@on_debian
def test_kind_container_restores_the_inbox_driver_and_warns_of_blocking_modules(node: DebianNode) -> None:
    doca()
    apply(node, DRIVER)
    for name in ("rdma_rxe", "nvme_rdma"):
        os.makedirs("/sys/module/ib_core/holders/" + name)
    os.makedirs("/sys/module/mlx5_core/holders/mlx5_ib")
    done, outcome = apply(node, {"kind": "container"})
    assert ("doca-ofed", None) in attributes(done) and node.dpkg() == {"rdma-core-x": "44.0-2"}
    assert outcome["gathered"]["blocking"] == {"nvme_rdma": ["ib_core"], "rdma_rxe": ["ib_core"]}
    driver = made(node, {"kind": "container"})
    assert driver.changes(driver.observe()) == []
    (warning,) = driver.warnings
    assert "nvme_rdma (uses ib_core), rdma_rxe (uses ib_core)" in warning and "UNLOAD_STORAGE_MODULES" in warning


@on_debian
def test_unlisted_versions_are_refused_before_any_change(node: DebianNode) -> None:
    doca()
    with pytest.raises(Errors) as caught:
        predicted(node, dict(DRIVER, version="1.5.3", source="file:/srv/doca/1.5.3/ubuntu22.04/aarch64"))
    assert [error.place for error in caught.value.errors] == ["source", "source", "version"]
    assert all(isinstance(error, Refused) for error in caught.value.errors)
    assert apply(node, dict(DRIVER, source="file:" + DOCA, allow_unlisted=True))[0]


@on_debian
def test_invalid_sources_are_refused(node: DebianNode) -> None:
    for source, message in (
        ("/srv/MLNX_OFED_LINUX-24.10-1.1.4.0-debian12.5-x86_64.iso", "/srv/MLNX.* does not exist"),
        ("srv/x.iso", "is not an absolute path"),
    ):
        with pytest.raises(RailyardError, match=message) as caught:
            predicted(node, {"kind": "mlnx", "version": "24.10-1.1.4.0", "source": source})
        assert caught.value.place == "source" and caught.value.remedy
    empty = MLNX + "-empty"
    os.makedirs(empty)
    driver = made(node, {"kind": "mlnx", "version": "24.10-1.1.4.0", "source": empty})
    with pytest.raises(RailyardError, match="does not contain a repository for apt"):
        converge(driver, {}, driver.changes(driver.observe()), [])
    with pytest.raises(RailyardError, match="is not an armored public key") as caught:
        predicted(node, dict(DRIVER, key="/srv/none.asc"))
    assert caught.value.place == "key"

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""nic_driver on a guest: real kernel modules, depmod, initramfs, systemd and loop devices.

The packages are small, with the vendor's names, versions and layout. Their "driver" is the guest's own ib_core and
mlx5_core, marked as not from the kernel's tree, as the vendor's are not. It is never loaded.
"""

from __future__ import annotations

import base64
import subprocess
import time
import typing as t
from pathlib import Path

import pytest

from tests.functional.node.debian_root import index, package
from tests.integration.conftest import Failed, Node

pytestmark = pytest.mark.lab_node("node-1")

PLACE = "/srv/railyard-driver"
DOCA = PLACE + "/doca"
ISO = PLACE + "/MLNX_OFED_LINUX-24.10-1.1.4.0-debian12-x86_64.iso"
DRIVER: dict[str, t.Any] = {
    "kind": "doca",
    "version": "2.9.3",
    "source": "file:" + DOCA,
    "unsigned": True,
    "allow_unlisted": True,
}
# from the package's script up to the module, which comes over a pipe and has no name: from above, all at once
KILL = r"""
pid=$(pgrep -of 'mlnx-ofed-kernel-dkms.postins[t]'); dead=$(pgrep -P $pid | tr '\n' ' ')
while ! grep -qE '^(sudo|sshd|systemd)$' /proc/$pid/comm; do
    dead="$pid $dead"; pid=$(ps -o ppid= -p $pid | tr -d ' ')
done
kill -9 $dead
"""
# as DKMS lays them down: before the kernel's own
BUILD = r"""
if [ "$1" = configure ]; then
    release=$(uname -r)
    to=/lib/modules/$release/updates/dkms
    mkdir -p $to
    for module in ib_core mlx5_core; do
        from=$(find /lib/modules/$release/kernel -name "$module.ko*" | head -n 1)
        [ -n "$from" ] || continue
        case $from in
        *.xz) xz -dc $from ;;
        *.zst) zstd -dc $from ;;
        *) cat $from ;;
        esac | LC_ALL=C sed 's/intree=Y/intree=N/' > $to/$module.ko
    done
    depmod $release
    printf '[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/usr/bin/touch /run/openibd-ran\n' \
        > /lib/systemd/system/openibd.service
    systemctl daemon-reload
    systemctl restart openibd.service || true
    [ ! -e /srv/railyard-driver/slow ] || sleep 60
fi
"""
CLEAN = r"""
if [ "$1" = remove ]; then
    release=$(uname -r)
    rm -f /lib/modules/$release/updates/dkms/ib_core.ko /lib/modules/$release/updates/dkms/mlx5_core.ko
    depmod $release
    rm -f /lib/systemd/system/openibd.service
    systemctl daemon-reload
fi
"""


def driver(place: Path, ofed: str, metas: t.Mapping[str, str]) -> None:
    place.mkdir(parents=True, exist_ok=True)
    kernel = "%s.OFED.%s.1-1" % (ofed.partition("-")[0], ofed.replace("-", "."))
    package(place, "mlnx-ofed-kernel-dkms", kernel, scripts={"postinst": BUILD, "prerm": CLEAN})
    for name, version in metas.items():
        package(place, name, version, "mlnx-ofed-kernel-dkms (= %s)" % kernel)


class Guest:
    def __init__(self, node: Node) -> None:
        self.node = node

    def module(self, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
        return self.node.module("nic_driver", check=check, **options)

    def packages(self) -> dict[str, str]:
        output = self.node.run(
            "dpkg-query -W -f '${db:Status-Abbrev} ${Package} ${Version}\\n' 'doca*' 'mlnx*'", check=False
        )
        rows = [line.split() for line in output.splitlines()]
        return {row[1]: row[2] for row in rows if row and row[0] == "ii"}

    def apply(self, **options: t.Any) -> dict[str, t.Any]:
        """One run, compared with check mode; and another one, which changes nothing."""
        before = self.packages()
        foreseen = self.module(check=True, **options)
        assert self.packages() == before
        done = self.module(**options)
        assert done["changes"] == foreseen["changes"] and done["reboot_required"] == foreseen["reboot_required"]
        again = self.module(**options)
        assert not again["changed"] and again["changes"] == []
        return done

    def in_force(self, module: str) -> str:
        return self.node.run("modinfo -n %s" % module, check=False).strip()


@pytest.fixture
def guest(node: t.Callable[[str], Node], tmp_path: Path) -> t.Iterator[Guest]:
    found = node("node-1")
    driver(tmp_path / "doca", "24.10-3.2.5.0", {"doca-ofed": "2.9.3-0.2.2"})
    driver(tmp_path / "doca", "24.10-4.1.4.0", {"doca-ofed": "2.9.4-0.1.9"})
    index(tmp_path / "doca")
    driver(tmp_path / "mlnx/DEBS", "24.10-1.1.4.0", {"mlnx-ofed-all": "24.10-1.1.4.0"})
    index(tmp_path / "mlnx/DEBS")
    packed = subprocess.run(
        ["tar", "-c", "-z", "-C", str(tmp_path), "doca", "mlnx"], check=True, capture_output=True
    ).stdout
    found.put(PLACE + "/packed", base64.b64encode(packed).decode())
    found.run("cd %s && base64 -d packed | tar -x -z" % PLACE)
    found.run("mkfs.ext4 -q -d %s/mlnx %s 16M" % (PLACE, ISO))
    # nothing is built against them
    made = found.run("test -e /lib/modules/$(uname -r)/build || { mkdir /lib/modules/$(uname -r)/build; echo made; }")
    found.run("modprobe rdma_rxe; rm -f /run/openibd-ran")
    try:
        yield Guest(found)
    finally:
        found.run(
            "umount -q /run/railyard/nic_driver/media; rm -f %s/slow; dpkg --configure -a;"
            " apt-get -y purge doca-ofed mlnx-ofed-all mlnx-ofed-kernel-dkms;"
            " systemctl unmask --runtime openibd.service;"
            " rm -rf %s /etc/apt/sources.list.d/railyard-nic-driver.list /etc/apt/preferences.d/railyard-nic-driver"
            " /var/lib/railyard/nic_driver.unfinished" % (PLACE, PLACE),
            check=False,
            timeout=600,
        )
        if "made" in made:
            found.run("rmdir /lib/modules/$(uname -r)/build")


def test_install_upgrade_and_back(guest: Guest) -> None:
    run = guest.node.run
    inbox = guest.in_force("ib_core")
    assert "/kernel/drivers/" in inbox
    done = guest.apply(**DRIVER)
    assert guest.packages()["doca-ofed"] == "2.9.3-0.2.2"
    assert guest.in_force("ib_core").endswith("/updates/dkms/ib_core.ko")
    assert run("modinfo -F intree ib_core").strip() == "N"
    # what runs is untouched, and reported
    assert run("cat /sys/module/ib_core/taint").strip() == ""
    assert done["reboot_required"] and "runs is inbox, and the next boot loads doca 2.9.3" in done["reboot_reasons"][0]
    assert done["gathered"]["running"]["differing"] == ["ib_core"]
    assert "ib_core" in done["gathered"]["blocking"]["rdma_rxe"]
    # the package's script asked for a restart, and the unit was masked
    assert run("test -e /run/openibd-ran && echo ran", check=False) == ""
    assert run("systemctl is-enabled openibd.service", check=False).strip() != "masked-runtime"

    asked = guest.module(**dict(DRIVER, restart="allowed"))
    assert not asked["changed"] and asked["reboot_required"]
    assert any("other modules use it: " in each and "rdma_rxe" in each for each in asked["warnings"]), asked["warnings"]

    upgraded = guest.apply(**dict(DRIVER, version="2.9.4"))
    assert {"subject": "doca-ofed", "attribute": "version", "before": "2.9.3-0.2.2", "after": "2.9.4"} in upgraded[
        "changes"
    ]
    assert guest.packages()["mlnx-ofed-kernel-dkms"].startswith("24.10.OFED.24.10.4.1.4.0")

    back = guest.apply(kind="inbox")
    assert guest.packages() == {} and guest.in_force("ib_core") == inbox
    assert not back["reboot_required"], "the inbox driver ran all the time"
    assert run("ls /etc/apt/sources.list.d /etc/apt/preferences.d").count("railyard") == 0


def test_an_iso_is_mounted_and_unmounted(guest: Guest) -> None:
    run = guest.node.run
    options = {"kind": "mlnx", "version": "24.10-1.1.4.0", "source": ISO, "allow_unlisted": True}
    guest.apply(**options)
    assert guest.packages()["mlnx-ofed-all"] == "24.10-1.1.4.0"
    assert "/run/railyard" not in run("cat /proc/mounts") and run("losetup -j %s" % ISO) == ""
    assert run("test -e /etc/apt/sources.list.d/railyard-nic-driver.list && echo there", check=False) == ""
    guest.apply(kind="inbox")


def test_killed_in_the_middle(guest: Guest) -> None:
    run = guest.node.run
    options = {"kind": "mlnx", "version": "24.10-1.1.4.0", "source": ISO, "allow_unlisted": True}
    run("touch %s/slow" % PLACE)
    process = guest.node.module_process("nic_driver", options)
    try:
        deadline = time.monotonic() + 300
        while "mlnx-ofed-kernel-dkms.postinst" not in run("ps -eo args", check=False):
            assert time.monotonic() < deadline and process.poll() is None, "the package's script does not come"
            time.sleep(0.5)
        # the module, its package manager and the script, as by the loss of power
        run(KILL)
    finally:
        process.wait(timeout=120)
    run("rm -f %s/slow" % PLACE)
    assert "/run/railyard/nic_driver/media" in run("cat /proc/mounts")
    assert run("test -e /run/openibd-ran && echo ran", check=False) == ""
    foreseen = guest.module(check=True, **options)
    subjects = [change["subject"] for change in foreseen["changes"]]
    assert subjects[0] == "/run/railyard/nic_driver/media" and "openibd.service" in subjects
    guest.module(**options)
    assert guest.packages()["mlnx-ofed-all"] and "/run/railyard" not in run("cat /proc/mounts")
    assert run("dpkg --audit") == "" and run("test -e /run/openibd-ran && echo ran", check=False) == ""
    assert not guest.module(**options)["changed"]
    guest.apply(kind="inbox")


def test_all_mismatches_of_a_source_are_reported(guest: Guest) -> None:
    wrong = dict(DRIVER, source="file:%s/ubuntu22.04/aarch64" % PLACE, allow_unlisted=False)
    with pytest.raises(Failed) as caught:
        guest.module(**wrong)
    errors = caught.value.result["errors"]
    assert "it is for aarch64" in errors[0]["message"] and "it is for ubuntu22.04" in errors[1]["message"]
    with pytest.raises(Failed) as caught:
        guest.module(**dict(DRIVER, version="2.9.9"))
    (error,) = caught.value.result["errors"]
    assert error["place"] == "version" and "2.9.4-0.1.9" in error["message"]
    assert "Traceback" not in str(caught.value) and guest.packages() == {}

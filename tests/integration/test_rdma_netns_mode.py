# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rdma_netns_mode on a guest: its kernel's RDMA subsystem, kmod and initramfs-tools."""

from __future__ import annotations

import typing as t

import pytest

from tests.integration.conftest import Failed, Node

pytestmark = pytest.mark.lab_node("node-2")

FILE = "/etc/modprobe.d/zz-railyard-rdma.conf"
MODULES = "/etc/initramfs-tools/modules"
NAMESPACE = "ry-mode-test"


@pytest.fixture
def host(node: t.Callable[[str], Node]) -> t.Iterator[Node]:
    """A guest in mode shared, without a file of ours; left so."""
    host = node("node-2")
    clean = "ip netns delete %s 2>/dev/null; rm -f %s" % (NAMESPACE, FILE)
    clean += "; until rdma system set netns shared; do sleep 0.5; done"
    host.run("modprobe ib_core; %s" % clean)
    yield host
    host.run(clean)


def live(host: Node) -> str:
    """The mode in the kernel's parameter: Y is shared."""
    return {"Y": "shared", "N": "exclusive"}[host.run("cat /sys/module/ib_core/parameters/netns_mode").strip()]


def kmod_reports(host: Node) -> list[str]:
    """Return the options of the mode that modprobe would set for ib_core, in order."""
    return [word for word in given_options(host).split() if word.startswith("netns")]


def given_options(host: Node) -> str:
    """Return modprobe's last step for ib_core: the module's path and its options."""
    return host.run("modprobe --show-depends ib_core").splitlines()[-1]


def test_switching_the_mode_changes_the_running_kernel_and_the_next_boot(host: Node) -> None:
    predicted = host.module("rdma_netns_mode", check=True, mode="exclusive", switch="require")
    assert live(host) == "shared"
    assert not kmod_reports(host)
    done = host.module("rdma_netns_mode", mode="exclusive", switch="require")
    assert done["changes"] == predicted["changes"]
    assert ("rdma", "exclusive") in [(change["subject"], change["after"]) for change in done["changes"]]
    assert live(host) == "exclusive"
    assert kmod_reports(host)[-1] == "netns_mode=0"
    assert done["gathered"]["next_boot_source"] == FILE
    assert not done["reboot_required"]
    again = host.module("rdma_netns_mode", mode="exclusive", switch="require")
    assert not again["changed"]
    host.module("rdma_netns_mode", mode="shared")
    assert live(host) == "shared"
    assert kmod_reports(host)[-1] == "netns_mode=1"
    assert host.module("rdma_netns_mode", state="gathered")["gathered"]["next_boot"] == "shared"


def test_other_namespaces_are_named(host: Node) -> None:
    host.run("ip netns add %s" % NAMESPACE)
    pid = host.hold(NAMESPACE)
    try:
        with pytest.raises(Failed, match="other network namespaces exist: .*%s .sleep pid %s" % (NAMESPACE, pid)):
            host.module("rdma_netns_mode", mode="exclusive", switch="require")
        assert not kmod_reports(host)
        predicted = host.module("rdma_netns_mode", check=True, mode="exclusive")
        done = host.module("rdma_netns_mode", mode="exclusive")
        assert done["changes"] == predicted["changes"]
        assert [change["subject"] for change in done["changes"]][-1] == FILE
        assert "%s (sleep pid %s" % (NAMESPACE, pid) in done["reboot_reasons"][0]
        assert done["reboot_reasons"] == predicted["reboot_reasons"]
        assert done["reboot_required"] and predicted["reboot_required"]
        assert live(host) == "shared"
    finally:
        host.run("kill %s; ip netns delete %s" % (pid, NAMESPACE))
    # at once: the kernel takes the namespace down in the background meanwhile
    done = host.module("rdma_netns_mode", mode="exclusive")
    assert [change["subject"] for change in done["changes"]] == ["rdma"]
    assert live(host) == "exclusive"


def test_however_the_files_were_written_before(host: Node) -> None:
    paths = ["/etc/modprobe.d/zzz-test.conf", "/usr/lib/modprobe.d/zzz-vendor.conf", "/etc/modprobe.d/zzz-vendor.conf"]
    try:
        host.put("/etc/modprobe.d/a-test.conf", "# netns_mode=0 was tried\noptions ib-core netns_mode=Y\n")
        host.put(paths[0], "options ib_core \\\n  netns_mode=1 recv_queue_size=512\n")
        host.put(paths[1], "options ib_core netns_mode=1\n")
        host.module("rdma_netns_mode", mode="exclusive", switch="never")
        assert kmod_reports(host)[-1] == "netns_mode=0"
        assert "recv_queue_size=512" in given_options(host)
        assert "netns_mode=1" in host.run("cat " + paths[1])
        assert not host.module("rdma_netns_mode", mode="exclusive", switch="never")["changed"]
    finally:
        host.run("rm -f /etc/modprobe.d/a-test.conf %s" % " ".join(paths))


@pytest.mark.long
def test_an_initramfs_that_holds_the_module_is_rebuilt(host: Node) -> None:
    image = host.run("ls /boot/initrd.img-$(uname -r)").strip()
    host.run("cp -a {0} {0}.kept; cp -a {1} {1}.kept; echo ib_core >> {1}".format(image, MODULES))
    try:
        host.run("update-initramfs -u -k $(uname -r)", timeout=600)
        # a run killed after it wrote the file and before it rebuilt the image
        host.put(FILE, "options ib_core netns_mode=0\n")
        assert host.module("rdma_netns_mode", state="gathered")["gathered"]["stale_initramfs"] == [image]
        done = host.module("rdma_netns_mode", mode="exclusive", switch="never")
        assert [change["subject"] for change in done["changes"]] == [image]
        assert FILE[1:] in host.run("lsinitramfs %s" % image)
        assert not host.module("rdma_netns_mode", mode="exclusive", switch="never")["changed"]
    finally:
        host.run("mv {0}.kept {0}; mv {1}.kept {1}".format(image, MODULES))

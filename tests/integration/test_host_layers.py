# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The PCI bus, limits and warnings, on node-1: real registers, services, pages and rules, read with other tools.

Rails 7 and 8 serve as a rail port and as what a GPU would be: both are behind root ports that have ACS.
"""

from __future__ import annotations

import time
import typing as t

import pytest

from tests.integration.conftest import Failed, Node

pytestmark = pytest.mark.lab_node("node-1")

PORT, BESIDE, NETDEV = "0000:07:00.0", "0000:08:00.0", "enp7s0"
ROOT_PORTS, ELSEWHERE = ("0000:00:07.0", "0000:00:08.0"), "0000:00:06.0"
EVERY = (*ROOT_PORTS, ELSEWHERE)
IN_THE_WAY = ("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd")
BOOT_FILE = "/etc/railyard/boot.d/15-pci_tuning.json"
ACS: dict[str, t.Any] = {"ports": [{"pci": PORT, "gpus": [0]}], "gpus": {"0": BESIDE}, "acs": "disabled"}
PAGES = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
CHILD = "/run/railyard-child"
UNIT = """\
[Unit]
Description=Represents a container runtime
[Service]
LimitMEMLOCK=8388608
WorkingDirectory=/run
ExecStart=/bin/sh -c 'trap "cat /proc/self/limits >new; mv new railyard-child" CONT; sleep 9d & while :; do wait; done'
[Install]
WantedBy=multi-user.target
"""
LIMITS: dict[str, t.Any] = {
    "ports": [{"pci": PORT, "netdev": NETDEV}],
    "memlock": "unlimited",
    "hugepages": [{"size_kb": 2048, "count": 6}],
    "neighbours": {"gc_thresh1": 2048, "gc_thresh2": 4096, "gc_thresh3": 8192},
}
LAID_DOWN = (
    "/etc/systemd/system/containerd.service.d/90-railyard-memlock.conf",
    "/etc/tmpfiles.d/railyard-hugepages.conf",
    "/etc/sysctl.d/91-railyard-neighbours.conf",
)


@pytest.fixture(scope="module")
def guest(node: t.Callable[[str], Node]) -> t.Iterator[Node]:
    guest = node("node-1")
    thresholds = guest.run("sysctl -n %s" % " ".join(sysctls())).split()
    guest.put("/etc/systemd/system/containerd.service", UNIT)
    guest.run("systemctl daemon-reload; systemctl enable -q --now containerd")
    yield guest
    for command in (
        "systemctl disable -q --now containerd; rm -rf /etc/systemd/system/containerd.service* " + " ".join(LAID_DOWN),
        "systemctl daemon-reload; echo 0 > " + PAGES,
        "rm -f /etc/udev/rules.d/90-railyard-pci_tuning.rules " + BOOT_FILE,
        "sysctl -q -w net.ipv4.conf.all.rp_filter=0 " + " ".join("%s=%s" % each for each in zip(sysctls(), thresholds)),
    ):
        guest.run(command, check=False)


def sysctls() -> list[str]:
    return ["net.%s.neigh.default.gc_thresh%d" % (family, n) for family in ("ipv4", "ipv6") for n in (1, 2, 3)]


# -- the PCI bus ------------------------------------------------------------------------------------------------------


def acs(guest: Node) -> dict[str, dict[str, bool]]:
    """The ACS control bits of each root port, as lspci reads them."""
    listed = guest.run("for each in %s; do lspci -vvv -s $each | grep ACSCtl; done" % " ".join(EVERY))
    rows = [line.partition(":")[2].split() for line in listed.splitlines()]
    assert len(rows) == len(EVERY), listed
    return {bridge: {word[:-1]: word[-1] == "+" for word in words} for bridge, words in zip(EVERY, rows)}


def set_acs(guest: Node) -> dict[str, dict[str, bool]]:
    """As an IOMMU or a firmware would have it."""
    guest.run("; ".join("setpci -s %s ECAP_ACS+6.w=005d" % bridge for bridge in EVERY))
    found = acs(guest)
    assert all(found[bridge][name] for bridge in EVERY for name in IN_THE_WAY)
    return found


def is_open(guest: Node) -> bool:
    found = acs(guest)
    return not any(found[bridge][name] for bridge in ROOT_PORTS for name in IN_THE_WAY)


def test_acs_is_cleared_between_a_port_and_its_gpu_and_nowhere_else(guest: Node) -> None:
    before = set_acs(guest)
    predicted = guest.module("pci_tuning", check=True, **ACS)
    assert acs(guest) == before
    done = guest.module("pci_tuning", **ACS)
    assert done["changes"] == predicted["changes"]
    assert [each["subject"] for each in done["changes"] if each["attribute"] == "ACSCtl"] == list(ROOT_PORTS)
    after = acs(guest)
    for bridge in ROOT_PORTS:
        # those of translated requests stay
        assert after[bridge] == {name: was and name not in IN_THE_WAY for name, was in before[bridge].items()}
    assert after[ELSEWHERE] == before[ELSEWHERE]
    again = guest.module("pci_tuning", **ACS)
    assert (again["changed"], again["gathered"]["acs"]) == (False, "disabled")


@pytest.mark.long
def test_settings_return_at_boot_and_with_the_device(guest: Node) -> None:
    guest.module("pci_tuning", **ACS)
    set_acs(guest)
    guest.run("systemctl restart railyard-boot.service")
    assert is_open(guest)
    set_acs(guest)
    guest.run("echo 1 > /sys/bus/pci/devices/%s/remove; sleep 1; echo 1 > /sys/bus/pci/rescan" % BESIDE)
    deadline = time.monotonic() + 180
    while not is_open(guest):
        assert time.monotonic() < deadline, guest.run("journalctl -u 'railyard-again@*' --no-pager | tail -20")
        time.sleep(2)
    guest.run("udevadm settle")


def test_a_read_request_size_that_the_device_does_not_take_is_an_error(guest: Node) -> None:
    held = guest.module("pci_tuning", state="gathered", ports=[{"pci": PORT}])["gathered"]["ports"][0]
    assert "MaxReadReq %d bytes" % held["max_read_request"] in guest.run("lspci -vvv -s %s" % PORT)
    size = held["max_read_request"]
    assert not guest.module("pci_tuning", ports=[{"pci": PORT}], max_read_request=size, persist=False)["changed"]
    # QEMU's igb has the register for reading: what was written must not be taken for set
    before = guest.run("lspci -xxx -s %s" % PORT)
    with pytest.raises(Failed, match="MaxReadReq"):
        guest.module("pci_tuning", ports=[{"pci": PORT}], max_read_request=4096 if size != 4096 else 512, persist=False)
    assert guest.run("lspci -xxx -s %s" % PORT) == before


def test_devices_of_the_connection_are_refused(guest: Node) -> None:
    management = guest.run("basename $(readlink -f /sys/class/net/enp0s30/device/..)").strip()
    with pytest.raises(Failed) as caught:
        guest.module("pci_tuning", ports=[{"pci": management}], max_read_request=4096)
    assert management in str(caught.value) and "Remedy: " in str(caught.value)
    assert caught.value.result["changes"] == []


def test_acs_with_the_value_leave_is_not_persistent(guest: Node) -> None:
    guest.module("pci_tuning", **ACS)
    assert guest.run("ls %s" % BOOT_FILE)
    done = guest.module("pci_tuning", **dict(ACS, acs="leave"))
    assert done["changed"] and guest.run("ls %s 2>/dev/null || true" % BOOT_FILE) == ""


# -- limits -----------------------------------------------------------------------------------------------------------


def locked(guest: Node) -> tuple[str, str]:
    """What the runtime may lock, and what one may that it started just now."""
    pattern = "sed -n 's/^Max locked memory *\\([^ ]*\\).*/\\1/p' "
    command = (
        "pid=$(systemctl show --value -p MainPID containerd); rm -f {0}; "
        "until [ -e {0} ]; do kill -CONT $pid; sleep 0.2; done; {1} {0}; {1} /proc/$pid/limits"
    )
    child, own = guest.run(command.format(CHILD, pattern)).split()
    return own, child


def as_wanted(guest: Node) -> None:
    assert locked(guest) == ("unlimited", "unlimited")
    assert guest.run("systemctl show --value -p LimitMEMLOCK containerd").strip() == "infinity"
    assert "HugePages_Total:       6" in guest.run("cat /proc/meminfo")
    assert guest.run("sysctl -n %s" % " ".join(sysctls())).split() == ["2048", "4096", "8192"] * 2


def pristine(guest: Node) -> None:
    guest.run(
        "rm -rf %s; systemctl daemon-reload; systemctl restart containerd; echo 0 > %s; sysctl -q -w %s"
        % (
            " ".join(LAID_DOWN),
            PAGES,
            " ".join("%s=%d" % each for each in zip(sysctls(), (128, 512, 1024) * 2)),
        )
    )
    assert locked(guest) == ("8388608", "8388608")


def test_limits_are_set_as_predicted_without_a_restart(guest: Node) -> None:
    pristine(guest)
    pid = guest.run("systemctl show --value -p MainPID containerd")
    predicted = guest.module("rail_limits", check=True, **LIMITS)
    assert locked(guest) == ("8388608", "8388608") and guest.run("cat %s" % PAGES).strip() == "0"
    done = guest.module("rail_limits", **LIMITS)
    assert done["changes"] == predicted["changes"] and not done["reboot_required"]
    as_wanted(guest)
    assert guest.run("systemctl show --value -p MainPID containerd") == pid
    again = guest.module("rail_limits", **LIMITS)
    assert (again["changed"], again["changes"]) == (False, [])
    guest.run("systemctl restart containerd")
    as_wanted(guest)


@pytest.mark.parametrize("delay", [0.5])
@pytest.mark.long
def test_killed_half_way_the_next_run_converges(guest: Node, delay: float) -> None:
    pristine(guest)
    run = guest.module_process("rail_limits", LIMITS)
    for _try in range(300):
        if guest.run("ls %s 2>/dev/null || true" % LAID_DOWN[0]):
            break
        time.sleep(0.05)
    time.sleep(delay)
    guest.run("pkill -9 -x python3; true")
    run.communicate()
    guest.module("rail_limits", **LIMITS)
    as_wanted(guest)
    assert not guest.module("rail_limits", **LIMITS)["changed"]


def test_hugepages_that_would_keep_the_guest_from_booting_are_refused(guest: Node) -> None:
    before = guest.run("cat %s" % PAGES)
    with pytest.raises(Failed, match="8000 MiB of hugepages would leave too little of the node's"):
        guest.module("rail_limits", hugepages=[{"size_kb": 2048, "count": 4000}])
    assert guest.run("cat %s" % PAGES) == before


@pytest.mark.long
def test_a_strict_reverse_path_filter_is_reported(guest: Node) -> None:
    guest.run("sysctl -q -w net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.%s.rp_filter=0" % NETDEV)
    found = guest.module("rail_limits", ports=LIMITS["ports"], state="gathered")
    assert found["gathered"]["rp_filter"] == {NETDEV: 1}
    assert any("rp_filter is 1 (strict) in effect" in w for w in found["warnings"])
    guest.run("sysctl -q -w net.ipv4.conf.all.rp_filter=0")


@pytest.mark.long
def test_all_of_it_is_there_after_a_reboot(guest: Node) -> None:
    guest.module("rail_limits", **LIMITS)
    guest.module("pci_tuning", **ACS)
    guest.reboot()
    as_wanted(guest)
    assert guest.run("systemctl is-active railyard-boot.service").strip() == "active"
    assert not guest.module("rail_limits", **LIMITS)["changed"]
    assert not guest.module("pci_tuning", **ACS)["changed"]


# -- what this machine cannot have ------------------------------------------------------------------------------------


def test_quality_of_service_is_refused_where_the_driver_has_none(guest: Node) -> None:
    """igb in its QEMU form has no Data Center Bridging: nothing is done by halves."""
    guest.run("ip link set %s up" % NETDEV)
    with pytest.raises(Failed) as caught:
        guest.module(
            "roce_qos",
            ports=[{"pci": PORT}],
            qos={"priority": 3, "dscp": 26, "trust": "dscp", "dscp2prio": [[26, 3]], "pfc": [0, 0, 0, 1, 0, 0, 0, 0]},
        )
    assert NETDEV in str(caught.value) and caught.value.result["changes"] == []
    assert guest.run("ls /etc/railyard/boot.d/40-roce_qos.json 2>/dev/null || true") == ""


def test_gpudirect_without_gpus(guest: Node) -> None:
    found = guest.module("gpudirect", path="auto")
    assert not found["changed"] and found["gathered"]["choice"]["path"] == "none"
    with pytest.raises(Failed, match="the node does not have an NVIDIA GPU"):
        guest.module("gpudirect", path="dmabuf")


def test_kernel_arguments_without_a_boot_loader(guest: Node) -> None:
    """The lab gives its guests their kernel directly."""
    state = guest.module("kernel_arguments", state="gathered")["gathered"]
    assert state["loader"] is None and state["live"] == guest.run("cat /proc/cmdline").split()
    result = guest.module("kernel_arguments", arguments=["railyard.none=1"])
    assert not result["changed"] and "Kernel arguments that are not in force: railyard.none=1" in result["warnings"][0]
    with pytest.raises(Failed, match="the boot loader is not supported"):
        guest.module("kernel_arguments", arguments=["railyard.none=1"], allow_change=True)


def test_rail_info_has_a_line_for_each(guest: Node) -> None:
    parts = ["pci", "kernel", "limits", "gpudirect", "qos"]
    found = guest.module("rail_info", subset=parts, netdevs=[NETDEV])
    assert set(parts) <= set(found) and not found["changed"]
    assert [row["pci"] for row in found["pci"]["ports"]] == [PORT]
    assert set(found["limits"]["rp_filter"]) == {NETDEV}
    assert [row["netdev"] for row in found["qos"]["ports"]] == [NETDEV]
    assert found["kernel"]["live"] and found["gpudirect"]["path"] == "none"


# -- a whole device that a pod has ------------------------------------------------------------------------------------

HELD = "railyard-held"
RAIL: dict[str, t.Any] = {
    "rail": "gpu07",
    "pci": PORT,
    "netdev": NETDEV,
    "mtu": 4200,
    "address": "172.16.17.201/24",
    "gateway": "172.16.17.254",
    "table": 107,
    "rule_priority": 10007,
    "sysctl": {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2},
}


@pytest.fixture
def held(guest: Node) -> t.Iterator[str]:
    """Rail 7's port set up, and then in another namespace with a process, as the plugin host-device leaves it."""
    guest.module("rail_ports", ports=[RAIL])
    guest.run("ip netns add %s; ip link set %s alias %s" % (HELD, NETDEV, NETDEV))
    guest.run("ip link set %s netns %s name net1" % (NETDEV, HELD))
    pid = guest.hold(HELD)
    yield pid
    guest.run("kill %s" % pid, check=False)
    back_home(guest)
    guest.module("rail_ports", ports=[RAIL], state="absent")


def back_home(guest: Node) -> None:
    guest.run("ip -n %s link set net1 netns 1 name %s" % (HELD, NETDEV), check=False)
    guest.run("ip netns delete %s" % HELD, check=False)


def kept(guest: Node) -> str:
    places = "/etc/systemd/network /etc/netplan /etc/sysctl.d /etc/railyard /var/lib/railyard"
    return guest.run("find %s -type f -exec sha256sum {} + 2>/dev/null | sort" % places, check=False)


@pytest.mark.long
def test_a_port_that_a_pod_has_is_reported_as_held_and_not_changed(guest: Node, held: str) -> None:
    before, rules = kept(guest), guest.run("ip rule")
    why = "its netdev net1 is in network namespace %s (sleep pid %s)" % (HELD, held)
    for check in (True, False, False):
        result = guest.module("rail_ports", ports=[RAIL], check=check)
        assert not result["changed"] and result["held"] == [{"rail": "gpu07", "pci": PORT, "by": why}]
        assert ["is not changed" in each for each in result["warnings"]] == [True]
    (row,) = [each for each in guest.module("rail_info", subset=["nics"])["nics"] if each["pci"] == PORT]
    assert row["netdev"] is None and row["holders"] == [why] and row["driver"] == "igb"
    links = [{"name": "rxe_gpu07", "type": "rxe", "netdev": NETDEV, "pci": PORT}]
    assert not guest.module("rdma_link", ports=links, persist=False)["changed"]
    guest.module("rail_limits", ports=[{"pci": PORT, "netdev": NETDEV}], state="gathered")
    assert (kept(guest), guest.run("ip rule")) == (before, rules)
    back_home(guest)
    guest.module("rail_ports", ports=[RAIL])
    again = guest.module("rail_ports", ports=[RAIL])
    assert not again["changed"] and again["held"] == []
    assert "172.16.17.201/24" in guest.run("ip -4 addr show dev %s" % NETDEV)
    assert "default via 172.16.17.254" in guest.run("ip route show table 107")

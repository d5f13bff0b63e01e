# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""sriov_vfs on the lab's own igb PFs: rails 5 and 6 of node-1."""

from __future__ import annotations

import json
import typing as t

import pytest

from tests.integration.conftest import Failed

pytestmark = pytest.mark.lab_node("node-1")

ONE, TWO = "0000:05:00.0", "0000:06:00.0"
NETDEVS = {ONE: "enp5s0", TWO: "enp6s0"}
NAMESPACE = "railyard-sriov"
BOOT = "python3 /usr/local/lib/railyard/boot.pyz"
KEPT = "/etc/railyard/boot.d/10-sriov_vfs.json"
MARK = "/run/railyard/sriov_drivers_autoprobe-%s" % ONE
FIRST = {"index": 0, "mac": "02:52:00:05:00:00", "vlan": 100, "qos": 3, "trust": True, "spoofchk": False}
SECOND = {"index": 1, "mac": "02:52:00:05:00:01", "max_tx_rate": 200, "link_state": "auto"}
PORTS: list[dict[str, t.Any]] = [
    {"pci": ONE, "count": 2, "attributes": [FIRST, SECOND]},
    {"netdev": NETDEVS[TWO], "count": 1},
]


@pytest.fixture(scope="module")
def guest(node: t.Any) -> t.Iterator[t.Any]:
    guest = node("node-1")
    kept = guest.run("cat %s 2>/dev/null || true" % KEPT)
    clean(guest)
    yield guest
    clean(guest)
    for netdev in NETDEVS.values():
        guest.run("ip link set %s down" % netdev)
    if kept:
        guest.put(KEPT, kept)


def clean(guest: t.Any) -> None:
    guest.run("ip netns del %s 2>/dev/null; rm -f %s" % (NAMESPACE, KEPT), check=False)
    for pci in NETDEVS:
        guest.run(
            "cd /sys/bus/pci/devices/%s; [ $(cat sriov_numvfs) = 0 ] || echo 0 > sriov_numvfs; "
            "echo 1 > sriov_drivers_autoprobe; rm -f /run/railyard/sriov_drivers_autoprobe-%s" % (pci, pci)
        )


def vfs(guest: t.Any, pci: str) -> list[dict[str, t.Any]]:
    (link,) = guest.json("ip -j link show %s" % NETDEVS[pci])
    return list(link.get("vfinfo_list", []))


def indices(guest: t.Any) -> list[int]:
    """The interface index of each VF of the first PF: another one is another netdev."""
    text = guest.run("for n in 0 1; do cat /sys/bus/pci/devices/%s/virtfn$n/net/*/ifindex; done" % ONE)
    return [int(line) for line in text.split()]


def assert_as_wanted(guest: t.Any) -> None:
    first, second = vfs(guest, ONE)
    assert first["address"] == FIRST["mac"]
    assert (first["trust"], first["spoofchk"]) == (True, False)
    assert [(vlan["vlan"], vlan["qos"]) for vlan in first["vlan_list"]] == [(100, 3)]
    assert second["address"] == SECOND["mac"]
    assert second["rate"] == {"max_tx": 200, "min_tx": 0}
    assert len(vfs(guest, TWO)) == 1
    state = guest.run(
        "cd /sys/bus/pci/devices/%s; cat sriov_drivers_autoprobe virtfn0/net/*/address virtfn1/net/*/address;"
        "readlink virtfn0/driver virtfn1/driver; ls %s 2>&1 || true" % (ONE, MARK)
    ).split("\n")
    assert state[:3] == ["1", FIRST["mac"], SECOND["mac"]]
    assert state[3].endswith("/igbvf") and state[4].endswith("/igbvf")
    assert "No such file" in state[5]


def run(guest: t.Any, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
    """Run the module; its result, which is one of success."""
    result = outcome(guest, check, **options)
    assert "errors" not in result, result["msg"]
    return result


def outcome(guest: t.Any, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
    """Run the module; its result, be it what it may. Only a failure has ``errors``."""
    try:
        return t.cast("dict[str, t.Any]", guest.module("sriov_vfs", check=check, **options))
    except Failed as failed:
        return failed.result


def refusal(guest: t.Any, **options: t.Any) -> str:
    """The refusal of the module; it is a failure without one, or if the module has changed something."""
    look = "cat /sys/bus/pci/devices/0000:0[56]*/sriov_numvfs; ip -j link show %s" % NETDEVS[ONE]
    before = guest.run(look)
    result = outcome(guest, **options)
    assert "errors" in result, result["changes"]
    assert not result["changed"] and result["changes"] == [] and "exception" not in result
    assert guest.run(look) == before
    return str(result["msg"])


def test_limits_of_the_driver_are_reported_before_any_change(guest: t.Any) -> None:
    attributes = [dict(FIRST, link_state="disable"), {"index": 1, "link_state": "enable"}]
    text = refusal(
        guest, ports=[PORTS[1], {"pci": ONE, "count": 2, "attributes": attributes}, {"pci": "0000:07:00.0", "count": 8}]
    )
    assert text.split("\n") == [
        "ports[1].attributes[0].link_state: the driver igb cannot set link_state: VF 0 of 0000:05:00.0 (enp5s0). "
        "Remedy: leave it out for this PF.",
        "ports[2].count: 8 VFs are more than the 7 that 0000:07:00.0 (enp7s0) has. "
        "Remedy: request fewer, or raise the firmware's limit with the vendor's tool and reboot.",
    ]


def test_made_as_predicted_and_read_back(guest: t.Any) -> None:
    predicted = run(guest, check=True, ports=PORTS)
    assert vfs(guest, ONE) == []
    done = run(guest, ports=PORTS)
    assert done["changes"] == predicted["changes"]
    assert {"subject": ONE, "attribute": "sriov_numvfs", "before": 0, "after": 2} in done["changes"]
    assert_as_wanted(guest)
    ports = done["gathered"]["ports"]
    assert [port["count"] for port in ports] == [2, 1]
    assert FIRST.items() <= ports[0]["attributes"][0].items()
    again = run(guest, ports=PORTS)
    assert (again["changed"], again["changes"]) == (False, [])
    assert again["gathered"] == run(guest, ports=PORTS, state="gathered")["gathered"]
    # what was read can be given back
    assert not run(guest, ports=ports, persist=False)["changed"]


def test_another_number_only_with_leave(guest: t.Any) -> None:
    text = refusal(guest, ports=[{"pci": ONE, "count": 3}])
    assert "ports[0].count: 0000:05:00.0 (enp5s0) has 2 VFs, which are all removed to have 3" in text
    assert "sriov_allow_recreate to true" in text


def test_a_vf_in_another_namespace_is_never_taken(guest: t.Any) -> None:
    guest.run("ip netns add %s; ip link set enp5s0v1 netns %s" % (NAMESPACE, NAMESPACE))
    pid = guest.hold(NAMESPACE)
    try:
        wanted = (
            "0000:05:00.0 vf 1: VF 0000:05:10.2 is held: its netdev enp5s0v1 is in network namespace %s" % NAMESPACE
        )
        text = refusal(guest, ports=[{"pci": ONE, "count": 3}], allow_recreate=True)
        assert "%s (sleep pid %s)" % (wanted, pid) in text
        moved = [dict(SECOND, mac="02:52:00:05:00:ff")]
        assert wanted in refusal(guest, ports=[{"pci": ONE, "attributes": moved}])
        # what needs no new driver is not refused
        done = run(guest, ports=[{"pci": ONE, "attributes": [{"index": 1, "vlan": 7}]}], persist=False)
        assert [change["attribute"] for change in done["changes"]] == ["vlan"]
        run(guest, ports=[{"pci": ONE, "attributes": [{"index": 1, "vlan": 0}]}], persist=False)
        guest.run("kill %s" % pid)
        assert "%s (no process)" % wanted in refusal(guest, ports=[{"pci": ONE, "count": 0}], allow_recreate=True)
    finally:
        guest.run(
            "kill %s 2>/dev/null; ip netns exec %s ip link set enp5s0v1 netns 1; ip netns del %s"
            % (pid, NAMESPACE, NAMESPACE),
            check=False,
        )


def test_an_interface_on_a_vf_holds_it(guest: t.Any) -> None:
    guest.run(
        "ip netns add {0}; ip link add link enp5s0v0 pod0 type macvlan; ip link set pod0 netns {0};"
        "ip link add link enp5s0v1 name up1 type macvlan; ip addr add 192.0.2.9/32 dev enp6s0v0".format(NAMESPACE)
    )
    try:
        ports = [{"pci": ONE, "count": 1}, {"pci": TWO, "count": 0}]
        text = refusal(guest, ports=ports, allow_recreate=True)
        assert "macvlan pod0 in network namespace %s (no process) uses its netdev enp5s0v0" % NAMESPACE in text
        assert "up1 uses its netdev enp5s0v1" in text
        assert "its netdev enp6s0v0 has the address 192.0.2.9/32" in text
    finally:
        guest.run("ip netns del %s; ip link del up1; ip addr flush dev enp6s0v0" % NAMESPACE, check=False)


def test_another_mac_rebinds_that_vf_alone(guest: t.Any) -> None:
    before = indices(guest)
    ports = [{"pci": ONE, "attributes": [FIRST, dict(SECOND, mac="02:52:00:05:00:77")]}]
    done = run(guest, ports=ports, persist=False)
    assert done["changes"] == [
        {
            "subject": ONE + " vf 1",
            "attribute": "mac",
            "before": SECOND["mac"],
            "after": "02:52:00:05:00:77",
            "port": ONE,
        }
    ]
    after = indices(guest)
    assert after[0] == before[0] and after[1] != before[1]
    assert guest.run("cat /sys/bus/pci/devices/%s/virtfn1/net/*/address" % ONE).strip() == "02:52:00:05:00:77"
    run(guest, ports=PORTS, persist=False)
    assert_as_wanted(guest)


def test_the_management_path_is_never_touched(guest: t.Any) -> None:
    guest.run("ip route add default dev %s metric 9999" % NETDEVS[TWO])
    try:
        text = refusal(guest, ports=[{"pci": TWO, "count": 0}], allow_recreate=True)
        assert "0000:06:00.0 (enp6s0) is not touched: enp6s0 carries the default route" in text
    finally:
        guest.run("ip route del default dev %s metric 9999" % NETDEVS[TWO])


@pytest.mark.long
def test_through_zero_with_leave(guest: t.Any) -> None:
    ports = [dict(PORTS[0], count=3), PORTS[1]]
    predicted = run(guest, check=True, ports=ports, allow_recreate=True, persist=False)
    done = run(guest, ports=ports, allow_recreate=True, persist=False)
    assert done["changes"] == predicted["changes"]
    assert len(vfs(guest, ONE)) == 3
    run(guest, ports=PORTS, allow_recreate=True, persist=False)
    assert_as_wanted(guest)


def test_boot_restores_all(guest: t.Any) -> None:
    run(guest, ports=PORTS)
    kept = json.loads(guest.run("cat " + KEPT))
    assert kept["module"] == "sriov_vfs" and "allow_recreate" not in kept["options"]
    for pci in NETDEVS:
        guest.run("echo 0 > /sys/bus/pci/devices/%s/sriov_numvfs" % pci)
    message = guest.run(BOOT)
    assert "0000:05:00.0 sriov_numvfs: 0 -> 2" in message
    assert_as_wanted(guest)
    assert "sriov" not in guest.run(BOOT)


# What a run that is killed just then leaves behind.
MOMENTS = {
    "hushed": "[ -e %s ]" % MARK,
    "made": "[ -e /sys/bus/pci/devices/%s/virtfn1 ]" % ONE,
    "one bound": "[ -e /sys/bus/pci/devices/%s/virtfn0/driver ]" % ONE,
}


@pytest.mark.parametrize("moment", [*MOMENTS, 2.5])
@pytest.mark.long
def test_a_kill_at_any_point_is_fixed_by_the_next_run(guest: t.Any, moment: str | float) -> None:
    for pci in NETDEVS:
        guest.run("echo 0 > /sys/bus/pci/devices/%s/sriov_numvfs" % pci)
    until = MOMENTS[moment] if isinstance(moment, str) else "sleep %s" % moment
    guest.run(
        "%s >/dev/null 2>&1 & p=$!; until %s; do [ -d /proc/$p ] || break; done; kill -9 $p; wait $p" % (BOOT, until),
        check=False,
    )
    run(guest, ports=PORTS)
    assert_as_wanted(guest)
    assert not run(guest, ports=PORTS)["changed"]


@pytest.mark.long
def test_killed_between_unbind_and_bind(guest: t.Any) -> None:
    guest.run("cd /sys/bus/pci/devices/%s/virtfn1; echo 0000:05:10.2 > driver/unbind" % ONE)
    done = run(guest, ports=PORTS, persist=False)
    bound = {"subject": ONE + " vf 1", "attribute": "bound", "before": False, "after": True, "port": ONE}
    assert done["changes"] == [bound]
    assert_as_wanted(guest)


def test_a_count_of_zero_removes_vfs_and_persistent_options(guest: t.Any) -> None:
    done = run(guest, ports=[{"pci": pci, "count": 0} for pci in NETDEVS], allow_recreate=True)
    assert vfs(guest, ONE) == [] and vfs(guest, TWO) == []
    assert (KEPT, "options") in [(each["subject"], each["attribute"]) for each in done["changes"]]
    assert guest.run("ls %s 2>/dev/null || true" % KEPT) == ""

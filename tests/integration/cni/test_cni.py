# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain CNI on both guests: the files that the module writes, and the pods that Debian's plugins attach with them."""

from __future__ import annotations

import ipaddress
import json

import pytest

from tests.cni_runtime import together
from tests.integration.cni.cni_guest import BIN, MTU, NETS, SETUP, Guest, address, at_once
from tests.integration.conftest import Failed

pytestmark = pytest.mark.lab
# of the pods; those of test_verify_pods.py have all eight
RAILS = range(1, 3)


def test_the_networks_are_laid_as_predicted_and_once(guests: list[Guest]) -> None:
    guest = guests[0]
    guest.node.run("install -D /dev/null %s/50-other.conf" % NETS)
    predicted = guest.lay(check=True)
    assert guest.node.run("ls %s; ls %s 2>/dev/null || true" % (NETS, BIN)).split() == ["50-other.conf"]
    done = guest.lay()
    assert done["changed"] and done["changes"] == predicted["changes"]
    assert [each["name"] for each in done["gathered"]["networks"]] == [each["name"] for each in guest.networks]
    assert guest.node.run("stat -c %%a:%%U %s/macvlan %s/railyard-gpu01-macvlan.conflist" % (BIN, NETS)).split() == [
        "755:root",
        "644:root",
    ]
    again = guest.lay()
    assert (again["changed"], again["changes"]) == (False, [])
    fewer = guest.lay(networks=guest.networks[:7])
    assert [(each["subject"], each["after"]) for each in fewer["changes"]] == [
        ("%s/railyard-gpu08-macvlan.conflist" % NETS, None)
    ]
    guest.lay()
    assert guest.node.run("ls %s | wc -l" % NETS).strip() == "9"
    guest.node.run("rm %s/50-other.conf" % NETS)


def test_a_plugin_that_debian_does_not_have_is_refused_by_name(guests: list[Guest]) -> None:
    conf = {"cniVersion": "1.0.0", "name": "gpu01-sriov", "plugins": [{"type": "sriov"}, {"type": "rdma"}]}
    with pytest.raises(Failed) as caught:
        guests[0].lay(networks=[conf])
    places = [each["place"] for each in caught.value.result["errors"]]
    assert places == ["plugin rdma", "plugin sriov"]
    assert [each["remedy"].split(",")[0] for each in caught.value.result["errors"]] == [
        "install rdma-cni",
        "install sriov-cni",
    ]


def test_pods_on_two_rails(ready: list[Guest]) -> None:
    before = [each.left() for each in ready]
    attached = {guest: guest.attached[: 1 + len(RAILS)] for guest in ready}
    gids = "cat /sys/class/infiniband/cni1/ports/1/gids/? 2>/dev/null || true"
    ups = [lambda each=each: each.well(("up", "pod", attached[each])) for each in ready]
    assert together(ups) == []
    for guest in ready:
        _interfaces_tables_and_rules(guest)
    # shared mode: the pod's address is in the table of the node's own device
    for guest in ready:
        own = ipaddress.IPv4Address(address(1, 1, guest.number))
        assert "ffff:%02x%02x:%02x%02x" % tuple(own.packed) in guest.node.run(gids)
    # each rail carries packets of the planned size between nodes
    first, second = ready
    for here, there in ((first, second), (second, first)):
        pings = "; ".join(
            "ping -q -M do -s %d -c 1 -w 15 -I %s %s >/dev/null || echo %d"
            % (MTU - 28, address(1, rail, here.number), address(1, rail, there.number), rail)
            for rail in RAILS
        )
        assert here.inside("pod", pings).split() == []
    # one byte more is one too many
    assert "too long" in first.inside("pod", "ping -M do -s %d -c 1 -w 5 %s 2>&1" % (MTU - 27, address(1, 1, 2)), False)
    # from rail 1 to rail 2 by the leaves, both ways by the rail that the address is on
    path = "ping -q -c 2 -w 15 -I %s %s >/dev/null && ip route get %s from %s"
    crossing = (address(1, 1, 1), address(1, 2, 2))
    assert "via 172.16.11.254 dev net1 table 101" in first.inside("pod", path % (*crossing, crossing[1], crossing[0]))
    seen = second.inside("leaf", "cat /proc/net/dev")
    assert all(_packets(seen, "leaf%d" % rail) > 0 for rail in (1, 2))
    # what is on no rail goes by eth0
    assert "dev eth0" in first.inside("pod", "ip route get 192.0.2.1")
    first.well(*[("check", conf, "pod", name) for conf, name in first.attached[1:3]])
    downs = [lambda each=each: each.well(("down", "pod", attached[each])) for each in ready]
    assert together(downs) == []
    for guest, held in zip(ready, before):
        left = guest.left()
        assert int(left.pop("tracked")) <= int(held.pop("tracked")) + 5 and left == held
        own = ipaddress.IPv4Address(address(1, 1, guest.number))
        assert "ffff:%02x%02x:%02x%02x" % tuple(own.packed) not in guest.node.run(gids)


def _interfaces_tables_and_rules(guest: Guest) -> None:
    script = "ip -j addr; ip -j rule; " + "; ".join(
        '(ip -j route show table %d || echo []) | tr -d "\\n"; echo' % (100 + rail) for rail in RAILS
    )
    values = [json.loads(line) for line in guest.inside("pod", script).splitlines() if line]
    links = {each["ifname"]: each for each in values[0]}
    assert set(links) == {"lo", "eth0", *("net%d" % rail for rail in RAILS)}
    for rail in RAILS:
        link = links["net%d" % rail]
        assert link["mtu"] == MTU
        (held,) = [each for each in link["addr_info"] if each["family"] == "inet"]
        assert (held["local"], held["prefixlen"]) == (address(1, rail, guest.number), 24)
        routes = {(each["dst"], each.get("gateway")) for each in values[1 + rail]}
        assert routes == {
            ("172.16.%d.0/24" % (10 + rail), None),
            ("default", "172.16.%d.254" % (10 + rail)),
        }
    rules = {(each["priority"], each["src"], each["table"]) for each in values[1] if 0 < each["priority"] < 32766}
    assert rules == {(10000 + rail, address(1, rail, guest.number), str(100 + rail)) for rail in RAILS}


def _packets(text: str, name: str) -> int:
    (line,) = [line for line in text.splitlines() if line.strip().startswith(name + ":")]
    return int(line.split(":")[1].split()[1])


@pytest.mark.long
def test_pods_that_are_started_and_killed_at_once_leave_no_slot_held(ready: list[Guest]) -> None:
    guest = ready[0]
    before = guest.left()
    one = [(guest.networks[0], "net1")]
    pods = ["pod%d" % number for number in range(6)]
    guest.well(at_once(*[("up", name, one) for name in pods]))
    given = guest.node.run("ls /run/railyard/cni/%s | grep ^172" % guest.networks[0]["name"]).split()
    assert len(given) == 6 and all(int(each.rpartition(".")[2]) in range(1, 33) for each in given)
    guest.well(at_once(*[("down", name, one) for name in pods]))
    # the runtime is killed in the midst of an add, wherever it is, and deletes when it is back
    for seconds in (0.5, 1.2, 2.0, 2.8):
        guest.well(("make", "cut"), ("killed", guest.networks[0], "cut", "net1", seconds))
        guest.well(("down", "cut", one))
    left = guest.left()
    left.pop("tracked"), before.pop("tracked")
    assert left == before


def test_ipvlan_pods_of_two_nodes(ready: list[Guest]) -> None:
    # a port carries macvlans or ipvlans, and the leaf of this rail is a macvlan
    ready[1].node.run("ip -n leaf link del leaf6")
    made = []
    for guest in ready:
        conf = json.loads(json.dumps(guest.networks[5]))
        conf["plugins"][0].update(type="ipvlan", mode="l2")
        made.append([(conf, "net6")])
    ups = [lambda each=each, nets=nets: each.well(("up", "ipv", nets)) for each, nets in zip(ready, made)]
    assert together(ups) == []
    first, second = (
        json.loads(guest.inside("ipv", "ip -j -4 addr show net6"))[0]["addr_info"][0]["local"] for guest in ready
    )
    ready[0].inside("ipv", "ping -q -M do -s %d -c 2 -w 15 -I %s %s" % (MTU - 28, first, second))
    for guest, nets in zip(ready, made):
        guest.well(("down", "ipv", nets))


def test_a_vf_moves_into_a_pod_and_returns(ready: list[Guest]) -> None:
    """host-device with the VF that a device plugin chose, as Multus passes it."""
    guest, peer = ready
    node = guest.node
    node.run("echo 1 > /sys/bus/pci/devices/0000:05:00.0/sriov_numvfs; udevadm settle")
    vf = node.run("basename $(readlink /sys/bus/pci/devices/0000:05:00.0/virtfn0)").strip()
    name = node.run("ls /sys/bus/pci/devices/%s/net" % vf).strip()
    conf = json.loads(json.dumps(guest.networks[4]))
    plugin = conf["plugins"][0]
    conf["plugins"][0] = {"type": "host-device", "pciBusID": "0000:05:00.0", "ipam": plugin["ipam"]}
    # the VF does not follow its port
    conf["plugins"][1]["mtu"] = MTU
    guest.lay(networks=[*guest.networks[:4], conf, *guest.networks[5:]])
    guest.do(("make", "vfpod"))
    guest.well(("add", conf, "vfpod", "net5", vf), ("check", conf, "vfpod", "net5", vf))
    assert node.run("ls /sys/bus/pci/devices/%s/net 2>/dev/null || true" % vf).strip() == ""
    link = json.loads(guest.inside("vfpod", "ip -j addr show net5"))[0]
    assert link["mtu"] == MTU and "UP" in link["flags"]
    peer.well(("up", "peer", [(peer.networks[4], "net5")]))
    theirs = json.loads(peer.inside("peer", "ip -j -4 addr show net5"))[0]["addr_info"][0]["local"]
    guest.inside("vfpod", "ping -q -M do -s %d -c 2 -w 120 -I net5 %s" % (MTU - 28, theirs))
    peer.well(("down", "peer", [(peer.networks[4], "net5")]))
    guest.well(("delete", conf, "vfpod", "net5", vf))
    assert node.run("ls /sys/bus/pci/devices/%s/net" % vf).strip() == name
    # the pod is gone before it is deleted: the kernel gives the function back to the node
    guest.well(("add", conf, "vfpod", "net5", vf))
    guest.do(("unmake", "vfpod"))
    node.until("ls /sys/bus/pci/devices/%s/net | grep ." % vf)
    node.run("echo 0 > /sys/bus/pci/devices/0000:05:00.0/sriov_numvfs")
    guest.lay()


@pytest.mark.long
def test_after_a_reboot_no_address_is_taken(ready: list[Guest]) -> None:
    guest = ready[0]
    two = guest.attached[1:3]
    guest.well(("up", "pod", two))
    assert guest.left()["leases"]
    guest.node.run("sync")
    guest.node.reboot()
    # what the runtime knew of, it deletes: the namespaces are gone
    guest.well(*[("delete", conf, "pod", name) for conf, name in two])
    again = guest.lay(check=True, networks=[])
    assert len(again["changes"]) == 8, "the networks are still there"
    guest.node.run(SETUP)
    assert guest.lay()["changed"] is False
    results = guest.well(("up", "pod", two))[0]
    assert [each["ips"][0]["address"] for each in results] == ["%s/24" % address(1, rail, 1) for rail in (1, 2)]
    guest.well(("down", "pod", two))
    assert guest.left()["leases"] == ""

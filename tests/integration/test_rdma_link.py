# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rdma_link on a guest: soft links of its kernel on rails 5 to 8."""

from __future__ import annotations

import json
import random
import typing as t

import pytest

from tests.integration.conftest import Failed, Node
from tests.waiting import wait_for

pytestmark = pytest.mark.lab_node("node-2")

RAILS = (5, 6, 7, 8)
PROGRAM = "/usr/local/lib/railyard/boot.pyz"
BOOT_FILE = "/etc/railyard/boot.d/20-rdma_link.json"
NODE_CODE = "ansible_collections.railyard.fabric.plugins.module_utils._node"
PERFTEST_PORT = 19555


def ports(*rails: int, prefix: str = "rxe_gpu", **more: t.Any) -> list[dict[str, t.Any]]:
    return [dict({"name": "%s%02d" % (prefix, n), "type": "rxe", "netdev": "enp%ds0" % n}, **more) for n in rails]


def names(host: Node) -> dict[str, str]:
    """Our rails' netdevs and the names of their links, as sysfs has them."""
    out = host.run("cd /sys/class/infiniband 2>/dev/null && for d in *; do echo $d $(cat $d/parent); done", check=False)
    found = {line.split()[1]: line.split()[0] for line in out.splitlines() if len(line.split()) == 2}
    return {netdev: name for netdev, name in found.items() if netdev in ["enp%ds0" % n for n in RAILS]}


@pytest.fixture
def host(node: t.Callable[[str], Node]) -> t.Iterator[Node]:
    """A guest whose rails 5 to 8 are up and have no links; left as it was."""
    host = node("node-2")

    def clean(state: str) -> None:
        host.run(
            "for n in 5 6 7 8; do ip link set enp${n}s0 %s; for d in /sys/class/infiniband/*; do "
            '[ "$(cat $d/parent 2>/dev/null)" = enp${n}s0 ] && rdma link delete ${d##*/}; done; done; '
            "mv %s /tmp/kept-boot-file 2>/dev/null; true" % (state, BOOT_FILE)
        )

    clean("up")
    yield host
    clean("down")


def test_soft_links_are_made_renamed_exchanged_and_removed(host: Node) -> None:
    wanted = ports(*RAILS)
    predicted = host.module("rdma_link", check=True, ports=wanted, wait_active=120)
    assert names(host) == {}
    done = host.module("rdma_link", ports=wanted, wait_active=120)
    assert done["changes"] == predicted["changes"]
    assert names(host) == {port["netdev"]: port["name"] for port in wanted}
    ours = [link for link in done["gathered"]["links"] if link["device"].startswith("rxe_gpu")]
    assert [(link["device"], link["state"]) for link in ours] == [(port["name"], "ACTIVE") for port in wanted]
    assert not host.module("rdma_link", ports=wanted, wait_active=120)["changed"]
    # the program that runs at boot makes the same of nothing
    host.run("for n in 5 6 7 8; do rdma link delete rxe_gpu0$n; done; python3 %s" % PROGRAM)
    assert names(host) == {port["netdev"]: port["name"] for port in wanted}
    swapped = ports(*RAILS)
    swapped[0]["name"], swapped[1]["name"] = swapped[1]["name"], swapped[0]["name"]
    predicted = host.module("rdma_link", check=True, ports=swapped)
    done = host.module("rdma_link", ports=swapped)
    assert done["changes"] == predicted["changes"]
    assert names(host) == {port["netdev"]: port["name"] for port in swapped}
    host.module("rdma_link", ports=[dict(port, state="absent") for port in swapped])
    assert names(host) == {}
    assert host.run("test -e %s || echo gone" % BOOT_FILE).strip() == "gone"


@pytest.mark.long
def test_in_use_is_refused(host: Node) -> None:
    host.module("rdma_link", ports=ports(5), wait_active=120, persist=False)
    pid = host.run(
        "setsid ib_write_bw -d rxe_gpu05 -p %d >/run/ry-perftest.log 2>&1 </dev/null & p=$!; "
        "for s in $(seq 200); do ls -l /proc/$p/fd | grep -q uverbs && break; sleep 1; done; echo $p" % PERFTEST_PORT
    ).strip()
    assert "uverbs" in host.run("ls -l /proc/%s/fd" % pid), host.run("cat /run/ry-perftest.log")
    absent = ports(5, state="absent")
    try:
        with pytest.raises(Failed, match=r"rxe_gpu05 is in use by ib_write_bw \(pid %s" % pid):
            host.module("rdma_link", ports=absent, persist=False)
        assert names(host) == {"enp5s0": "rxe_gpu05"}
        # forced: the kernel waits until the device is closed, the run does not
        with pytest.raises(Failed, match=r"waits until it is closed by ib_write_bw \(pid %s" % pid):
            host.module("rdma_link", ports=absent, persist=False, force=True)
    finally:
        host.run("kill %s" % pid)
    wait_for(lambda: names(host) == {})
    assert not host.module("rdma_link", ports=absent, persist=False)["changed"]


def test_queue_pairs_hold_the_name(host: Node) -> None:
    host.module("rdma_link", ports=ports(5), wait_active=120, persist=False)
    # it makes its queue pair before it waits for a partner
    pid = host.run(
        "setsid ibv_rc_pingpong -d rxe_gpu05 -g 0 -p %d >/run/ry-pingpong.log 2>&1 </dev/null & p=$!; "
        "for s in $(seq 200); do rdma resource show qp pid $p | grep -q . && break; sleep 1; done; echo $p"
        % PERFTEST_PORT
    ).strip()
    try:
        with pytest.raises(
            Failed, match=r"in use by ibv_rc_pingpong \(pid %s, 1 queue pairs\) and is not renamed" % pid
        ):
            host.module("rdma_link", ports=ports(5, prefix="other"), persist=False)
        assert names(host) == {"enp5s0": "rxe_gpu05"}
        done = host.module("rdma_link", ports=ports(5, prefix="other"), persist=False, force=True)
        assert [change["after"] for change in done["changes"]] == ["other05"]
    finally:
        host.run("kill %s; cat /run/ry-pingpong.log" % pid)


def test_a_refused_call_changes_nothing(host: Node) -> None:
    management = host.run("ip -o route show default").split(" dev ")[1].split()[0]
    wrong = [
        *ports(5),
        {"name": "rxe_mgmt", "type": "rxe", "netdev": management},
        {"name": "rxe_none", "type": "rxe", "netdev": "enp99s0"},
        {"name": "mlx5_gpu06", "pci": "0000:06:00.0"},
        {"name": "siw_gpu07", "type": "siw", "netdev": "enp7s0"},
    ]
    with pytest.raises(Failed) as caught:
        host.module("rdma_link", ports=wrong)
    errors = {error["place"]: error["message"] for error in caught.value.result["errors"]}
    assert sorted(errors) == ["ports[1]", "ports[2].netdev", "ports[3]", "ports[4].type"]
    assert management in errors["ports[1]"]
    assert "its driver igb gives none" in errors["ports[3]"]
    assert "has no module siw" in errors["ports[4].type"]
    assert names(host) == {}
    assert host.run("test -e %s || echo gone" % BOOT_FILE).strip() == "gone"


def test_why_a_link_is_not_active(host: Node) -> None:
    host.run("ip link set enp5s0 down")
    with pytest.raises(Failed, match="is DOWN .* after 1 s: enp5s0 is administratively down.*ip link set enp5s0 up"):
        host.module("rdma_link", ports=ports(5), wait_active=1, persist=False)


@pytest.mark.long
def test_killed_in_the_middle(host: Node) -> None:
    """The node's own program, which runs the module's code: killed at random moments, it then finishes the work."""
    one, other = ports(*RAILS), ports(*RAILS)
    for port, name in zip(other, ("rxe_gpu06", "rxe_gpu07", "rxe_gpu08", "rxe_gpu05")):
        port["name"] = name
    host.module("rdma_link", ports=one)
    # this file alone, of those that may lie there
    apply = "from {0}.layers.boot_program import apply; from {0}.core.system import System; "
    apply += "print(*apply({1!r}, System(), %s))"
    apply = 'PYTHONPATH=%s python3 -c "%s"' % (PROGRAM, apply.format(NODE_CODE, BOOT_FILE))
    for wanted in (other, one, other, ports(5, 6, prefix="rail") + ports(7, 8)):
        host.put(BOOT_FILE, json.dumps({"module": "rdma_link", "options": {"ports": wanted}}))
        seconds = random.uniform(0.5, 4)
        host.run("%s >/dev/null 2>&1 & p=$!; sleep %.2f; kill -9 $p; true" % (apply % False, seconds))
        host.run(apply % False)
        assert names(host) == {port["netdev"]: port["name"] for port in wanted}
        assert host.run(apply % True).strip() == ""

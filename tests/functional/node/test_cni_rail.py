# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""railyard-rail as it is packed, in namespaces of the kernel; and whole chains, where the CNI plugins are at hand."""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import subprocess
import sys
import typing as t
import zipfile
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import plain_cni
from ansible_collections.railyard.fabric.plugins.module_utils._node.cni import cni_plugins, rail_plugin
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock, packed_program
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from tests.cni_runtime import PluginError, Runtime, together
from tests.functional.node.own_namespace import LiveNode, has_kind, in_own_namespace, ip, shown
from tests.unit.node.packed import contents, reached

UNPACKED = str(Path(__file__).resolve().parents[3] / ".cache/cni/usr/lib/cni")  # by tools/cni_plugins
PLACES = [os.environ.get("RAILYARD_CNI_PLUGINS", ""), "/usr/lib/cni", "/opt/cni/bin", UNPACKED]
HAVE = next((place for place in PLACES if os.path.exists(os.path.join(place, "macvlan"))), None)
needs_plugins = pytest.mark.skipif(
    not HAVE, reason="no CNI plugins here: name a directory with macvlan in RAILYARD_CNI_PLUGINS"
)
BIN = "/run/cni-bin"
RAIL = {
    "type": "railyard-rail",
    "sysctl": {"arp_ignore": 1, "rp_filter": 2},
    "table": 101,
    "priority": 10001,
    "routes": [{"dst": "0.0.0.0/0", "gw": "172.16.11.254"}, {"dst": "::/0", "gw": "fd00:11::fe"}],
}
RESULT = {
    "cniVersion": "1.0.0",
    "interfaces": [{"name": "net1", "mac": "02:00:00:00:00:01", "sandbox": "/run/netns/pod"}],
    "ips": [{"interface": 0, "address": "172.16.11.5/24", "gateway": "172.16.11.254"}],
    "dns": {},
}


def test_the_program_contains_exactly_the_modules_it_imports() -> None:
    assert sorted(contents(built())) == sorted(reached("_node.cni.rail_plugin"))


def test_the_plan_names_the_plugin_as_it_is_installed() -> None:
    assert plain_cni.RAIL == rail_plugin.NAME


def built() -> bytes:
    return cni_plugins.Plugins(System(), "/nowhere", [], None).program()


def parts(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(head: bytes, members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return head + stream.getvalue()


def test_bytecode_is_for_one_python_and_no_reason_to_write_again(tmp_path: Path) -> None:
    wanted = built()
    head, members = wanted.partition(b"\n")[0] + b"\n", parts(wanted)
    sources = {name: data for name, data in members.items() if name.endswith(".py")}
    codes = {name: data for name, data in members.items() if name.endswith(".pyc")}
    assert {name + "c" for name in sources} == set(codes)

    def reports(members: dict[str, bytes]) -> str:
        path = tmp_path / "plugin"
        path.write_bytes(zipped(head, members))
        path.chmod(0o755)
        environ = {"PATH": os.environ["PATH"], "CNI_COMMAND": "VERSION"}
        done = subprocess.run([str(path)], env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return done.stdout + done.stderr

    # either part runs alone, and bytecode of another Python is passed by
    assert (
        reports(codes)
        == reports(sources)
        == reports({**members, **{name: b"abcd" + data[4:] for name, data in codes.items()}})
    )
    assert "supportedVersions" in reports(codes)
    other_bytes = {name: data + b"another's" for name, data in codes.items()}
    assert packed_program.same(zipped(head, {**sources, **other_bytes}), wanted)
    assert packed_program.same(wanted, zipped(head, sources))
    for held in (
        zipped(head, sources),
        zipped(b"#!/opt/python -IS\n", members),
        zipped(head, {**members, "__main__.py": b"pass"}),
        zipped(head, {**members, "__main__.pyc": b"old!"}),
        wanted[:-100],
        b"",
    ):
        assert not packed_program.same(held, wanted)


def installed() -> str:
    """The plugin as a program."""
    os.makedirs(BIN, exist_ok=True)
    path = Path(BIN, "railyard-rail")
    path.write_bytes(built())
    path.chmod(0o755)
    return str(path)


def call(command: str, conf: t.Any, **env: str) -> tuple[int, t.Any]:
    """Run the plugin as a runtime does: exit status and answer. It must say nothing else."""
    environ = dict({"PATH": os.environ["PATH"], "CNI_COMMAND": command}, **env)
    text = conf if isinstance(conf, str) else json.dumps(conf)
    done = subprocess.run([installed()], input=text, env=environ, capture_output=True, text=True)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout) if done.stdout else None


def on_pod(command: str, result: t.Any = RESULT, name: str = "net1", **conf: t.Any) -> tuple[int, t.Any]:
    whole = dict({"cniVersion": "1.0.0", "name": "gpu01-macvlan"}, **dict(RAIL, **conf))
    if result:
        whole["prevResult"] = result
    return call(command, whole, CNI_NETNS="/run/netns/pod", CNI_IFNAME=name, CNI_CONTAINERID="c")


def in_pod(*words: str) -> list[dict[str, t.Any]]:
    return shown("-n", "pod", *words)


def rules(version: str = "-4") -> list[tuple[int, str, str]]:
    found = in_pod(version, "rule")
    return [(each["priority"], each["src"], each["table"]) for each in found if 0 < each["priority"] < 32766]


def sysctl(key: str) -> str:
    return ip("netns", "exec", "pod", "sysctl", "-n", "net.ipv4.conf.net1.%s" % key).strip()


def pod(*addresses: str, name: str = "net1") -> None:
    """A pod's namespace with an interface; both stay until the test's own namespace goes."""
    if not os.path.exists("/run/netns/pod"):
        ip("netns", "add", "pod")
    ip("-n", "pod", "link", "add", name, "type", "veth", "peer", "name", "far-%s" % name)
    ip("-n", "pod", "link", "set", "far-%s" % name, "up")
    ip("-n", "pod", "link", "set", name, "up")
    for address in addresses:
        ip("-n", "pod", "addr", "add", address, "dev", name, *(["nodad"] if ":" in address else []))


@in_own_namespace
def test_the_plugin_waits_for_a_run_that_changes_devices(node: LiveNode) -> None:
    """The run may remove the device that the plugin before has moved to the pod."""
    pod("172.16.11.5/24")
    conf = json.dumps(dict(RAIL, cniVersion="1.0.0", name="gpu01-sriov", prevResult=RESULT))
    env = {"PATH": os.environ["PATH"], "CNI_COMMAND": "ADD", "CNI_NETNS": "/run/netns/pod", "CNI_IFNAME": "net1"}
    with boot_lock.turn(System(), "the module sriov_vfs", 0, boot_lock.DEVICES):
        plugin = subprocess.Popen([installed()], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with pytest.raises(subprocess.TimeoutExpired):
            plugin.communicate(conf, timeout=1)
        ip("-n", "pod", "link", "del", "net1")
    out, _err = plugin.communicate()
    assert plugin.returncode == 1 and "the interface net1 does not exist in the pod" in json.loads(out)["msg"]


def test_answer_to_version() -> None:
    assert call("VERSION", {"cniVersion": "0.4.0"}) == (
        0,
        {"cniVersion": "0.4.0", "supportedVersions": ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]},
    )
    assert call("STATUS", {"cniVersion": "1.1.0"}) == (0, None)
    assert call("GC", {"cniVersion": "1.1.0"}) == (0, None)


@pytest.mark.parametrize(
    ("command", "conf", "code", "message"),
    [
        ("ADD", "{", 6, "is not a JSON object"),
        ("ADD", "[]", 6, "is not a JSON object"),
        ("ADD", {"table": "x", "priority": 1}, 7, "table, priority or routes"),
        ("ADD", {"sysctl": {"../../ip_forward": 1}}, 7, "sysctl"),
        ("ADD", {"mtu": "wide"}, 7, "mtu"),
        ("ADD", {"table": 1}, 7, "priority"),
        ("ADD", {"table": 1, "priority": 1, "routes": [{"dst": "10.0.0.1/8", "gw": "10.0.0.1"}]}, 7, "host bits"),
        ("ADD", {"table": 1, "priority": 1}, 4, "CNI_NETNS"),
        ("FLY", {}, 4, "'FLY'"),
        ("", {}, 4, "a CNI runtime starts this program"),
        ("DEL", {"table": 1, "priority": 1, "prevResult": {"ips": [{"address": "x"}]}}, 6, "prevResult"),
    ],
)
def test_wrong_input_is_one_answer_in_the_specifications_words(
    command: str, conf: t.Any, code: int, message: str
) -> None:
    status, answer = call(command, conf)
    assert status == 1 and answer["code"] == code and message in answer["msg"] and "\n" not in answer["msg"]


@in_own_namespace
def test_an_address_gets_the_rails_table(node: LiveNode) -> None:
    pod("172.16.11.5/24")
    assert on_pod("ADD") == (0, RESULT)
    assert rules() == [(10001, "172.16.11.5", "101")]
    routes = {(each["dst"], each.get("gateway"), each["dev"]) for each in in_pod("route", "show", "table", "101")}
    assert routes == {("172.16.11.0/24", None, "net1"), ("default", "172.16.11.254", "net1")}
    # what asks for no source still finds the rail's network
    assert [each["dst"] for each in in_pod("route")] == ["172.16.11.0/24"]
    away = in_pod("route", "get", "10.9.9.9", "from", "172.16.11.5")[0]
    assert (away["gateway"], away["table"]) == ("172.16.11.254", "101")
    assert on_pod("CHECK") == (0, None)
    assert sysctl("arp_ignore") == "1" and sysctl("rp_filter") == "2"
    ip("netns", "exec", "pod", "sysctl", "-qw", "net.ipv4.conf.net1.arp_ignore=0")
    status, answer = on_pod("CHECK")
    assert (status, answer["code"]) == (1, 100) and "arp_ignore of net1 is 0, not 1" in answer["msg"]
    # twice is nothing
    assert on_pod("ADD") == (0, RESULT)
    assert len(rules()) == 1
    ip("-n", "pod", "route", "del", "default", "table", "101")
    status, answer = on_pod("CHECK")
    assert (status, answer["code"]) == (1, 100) and "0.0.0.0/0 via 172.16.11.254 is missing in table 101" in answer[
        "msg"
    ]
    ip("-n", "pod", "rule", "del", "priority", "10001")
    status, answer = on_pod("CHECK")
    assert status == 1 and "from 172.16.11.5 lookup 101 is missing" in answer["msg"]
    assert on_pod("ADD")[0] == 0 and on_pod("CHECK")[0] == 0
    assert on_pod("DEL") == (0, None)
    assert rules() == []
    assert on_pod("DEL") == (0, None)


@in_own_namespace
def test_both_families_have_one_table_and_a_family_without_address_has_none(node: LiveNode) -> None:
    pod("172.16.11.5/24", "fd00:11::5/64")
    ips = [*RESULT["ips"], {"interface": 0, "address": "fd00:11::5/64"}]
    assert on_pod("ADD", dict(RESULT, ips=ips))[0] == 0
    assert rules() == [(10001, "172.16.11.5", "101")] and rules("-6") == [(10001, "fd00:11::5", "101")]
    routes = {(each["dst"], each.get("gateway")) for each in in_pod("-6", "route", "show", "table", "101")}
    assert routes == {("fd00:11::/64", None), ("default", "fd00:11::fe")}
    assert on_pod("CHECK", dict(RESULT, ips=ips))[0] == 0
    assert on_pod("DEL", dict(RESULT, ips=ips))[0] == 0
    assert rules() == rules("-6") == []


@in_own_namespace
def test_a_rail_that_is_attached_twice_has_a_table_for_each(node: LiveNode) -> None:
    pod("172.16.11.5/24")
    pod("172.16.11.6/24", name="net9")
    second = dict(RESULT, interfaces=[{"name": "net9"}], ips=[{"interface": 0, "address": "172.16.11.6/24"}])
    assert on_pod("ADD")[0] == 0 and on_pod("ADD", second, "net9")[0] == 0
    assert sorted(rules()) == [(10001, "172.16.11.5", "101"), (10001, "172.16.11.6", "1101")]
    assert in_pod("route", "get", "10.9.9.9", "from", "172.16.11.6")[0]["dev"] == "net9"
    assert on_pod("CHECK")[0] == 0 and on_pod("CHECK", second, "net9")[0] == 0
    assert on_pod("DEL")[0] == 0
    assert rules() == [(10001, "172.16.11.6", "1101")]
    assert on_pod("CHECK", second, "net9")[0] == 0 and on_pod("DEL", second, "net9")[0] == 0
    assert rules() == []


@in_own_namespace
def test_an_interrupted_attach_is_removed_completely(node: LiveNode) -> None:
    pod("172.16.11.5/24")
    assert on_pod("ADD")[0] == 0
    # the runtime was killed before it kept the result: it has none to give
    assert on_pod("DEL", None) == (0, None)
    assert rules() == []
    # a rule of another program stays, though it has the priority
    ip("-n", "pod", "rule", "add", "from", "10.1.1.1", "lookup", "77", "priority", "10001")
    assert on_pod("DEL") == (0, None)
    assert rules() == [(10001, "10.1.1.1", "77")]
    # the pod is gone, or its interface
    ip("-n", "pod", "link", "del", "net1")
    assert on_pod("DEL") == (0, None)
    ip("netns", "del", "pod")
    assert on_pod("DEL") == (0, None)
    status, answer = on_pod("ADD")
    assert (status, answer["code"]) == (1, 100) and "/run/netns/pod" in answer["msg"]


@in_own_namespace
def test_a_chain_without_address_or_interface_is_refused(node: LiveNode) -> None:
    pod()
    status, answer = on_pod("ADD", None)
    assert (status, answer["code"]) == (1, 6) and answer["details"].startswith("Remedy: ")
    status, answer = on_pod("ADD", dict(RESULT, ips=[]))
    assert (status, answer["code"]) == (1, 6)
    other = dict(RESULT, interfaces=[{"name": "net2"}], ips=[{"interface": 0, "address": "172.16.11.5/24"}])
    assert on_pod("ADD", other)[0] == 1
    status, answer = on_pod("ADD", dict(RESULT, interfaces=[{"name": "net2"}], ips=other["ips"]), "net2")
    assert status == 1 and "the interface net2 does not exist" in answer["msg"]
    # a gateway that is on no network of the pod
    status, answer = on_pod("ADD", routes=[{"dst": "0.0.0.0/0", "gw": "192.0.2.1"}])
    assert status == 1 and "ENETUNREACH" in answer["msg"]


@in_own_namespace
def test_without_a_table_only_the_interface_is_set(node: LiveNode) -> None:
    pod()
    whole = {
        "cniVersion": "1.0.0",
        "name": "gpu01",
        "type": "railyard-rail",
        "mtu": 4200,
        "sysctl": {"arp_announce": 2},
    }
    env = {"CNI_NETNS": "/run/netns/pod", "CNI_IFNAME": "net1"}
    assert call("ADD", dict(whole, prevResult=dict(RESULT, ips=[])), **env) == (0, dict(RESULT, ips=[]))
    assert sysctl("arp_announce") == "2" and in_pod("link", "show", "net1")[0]["mtu"] == 4200
    assert rules() == [] and call("CHECK", whole, **env) == (0, None)
    ip("-n", "pod", "link", "set", "net1", "mtu", "1400")
    assert call("CHECK", whole, **env)[1]["msg"].endswith("the MTU of net1 is 1400, not 4200")
    assert call("DEL", whole, **env) == (0, None)
    status, answer = call("ADD", dict(whole, sysctl={"no_such_key": 1}), **env)
    assert status == 1 and "no_such_key" in answer["msg"]


# -- whole chains ------------------------------------------------------------------------------------------------------


def conflist(number: int, first: str = "macvlan") -> dict[str, t.Any]:
    net = 10 + number
    plugin: dict[str, t.Any] = {"type": first, "master": "rail%d" % number}
    plugin.update({"mode": "bridge" if first == "macvlan" else "l2", "mtu": 4200})
    plugin["ipam"] = {
        "type": "host-local",
        "dataDir": "/run/railyard/cni",
        "ranges": [
            [
                {
                    "subnet": "172.16.%d.0/24" % net,
                    "rangeStart": "172.16.%d.1" % net,
                    "rangeEnd": "172.16.%d.32" % net,
                    "gateway": "172.16.%d.254" % net,
                }
            ]
        ],
    }
    rail: dict[str, t.Any] = {"type": "railyard-rail", "sysctl": {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2}}
    rail.update({"table": 100 + number, "priority": 10000 + number})
    rail["routes"] = [{"dst": "0.0.0.0/0", "gw": "172.16.%d.254" % net}]
    return {"cniVersion": "1.0.0", "name": "gpu%02d" % number, "plugins": [plugin, rail]}


def runtime(node: LiveNode, rails: int) -> Runtime:
    """Rails 1 to ``rails`` at MTU 4200, and the plugins all in one place."""
    for number in range(1, rails + 1):
        ip("link", "set", node.rail(number), "mtu", "4200", "up")
        node.leaf("ip", "link", "set", "leaf%d" % number, "mtu", "4200")
        node.leaf("ip", "addr", "add", "172.16.%d.254/24" % (10 + number), "dev", "leaf%d" % number)
    installed()
    for name in os.listdir(str(HAVE)):
        if not os.path.exists(os.path.join(BIN, name)):
            os.symlink(os.path.join(str(HAVE), name), os.path.join(BIN, name))
    return Runtime(BIN)


def leases() -> list[str]:
    found = []
    for place, _directories, files in os.walk("/run/railyard/cni"):
        found += [os.path.join(place, name) for name in files if name[0].isdigit()]
    return found


def everything() -> dict[str, t.Any]:
    """All that attachments could leave behind on the node."""
    return {
        "links": sorted(each["ifname"] for each in shown("link")),
        "netns": sorted(each["name"] for each in shown("netns")),
        "rules": len(shown("rule")) + len(shown("-6", "rule")),
        "routes": len(shown("-4", "route", "show", "table", "all")),
        "leases": sorted(leases()),
        "kept": sorted(os.listdir("/run/cni-runtime")),
    }


@needs_plugins
@pytest.mark.parametrize("first", ["macvlan", "ipvlan"])
def test_a_pod_on_eight_rails(first: str) -> None:
    if first == "ipvlan" and not has_kind("ipvlan"):
        pytest.skip("this kernel has no ipvlan")

    def scenario(node: LiveNode) -> None:
        cni = runtime(node, 8)
        before = everything()
        attached = [(conflist(number, first), "net%d" % number) for number in range(1, 9)]
        results = cni.up("pod", attached)
        assert [each["ips"][0]["address"] for each in results] == ["172.16.%d.1/24" % (10 + n) for n in range(1, 9)]
        links = {each["ifname"]: each for each in in_pod("link")}
        assert set(links) == {"lo", *("net%d" % n for n in range(1, 9))}
        assert all(links["net%d" % n]["mtu"] == 4200 for n in range(1, 9))
        assert sorted(rules()) == [(10000 + n, "172.16.%d.1" % (10 + n), str(100 + n)) for n in range(1, 9)]
        for number in range(1, 9):
            assert {each["dst"] for each in in_pod("route", "show", "table", str(100 + number))} == {
                "default",
                "172.16.%d.0/24" % (10 + number),
            }
        for conf, name in attached:
            cni.check(conf, "pod", name)
        cni.down("pod", attached)
        assert everything() == before

    in_own_namespace(scenario)()


@needs_plugins
@pytest.mark.parametrize("gateway", ["fd00:11::fe", "fe80::1"])
def test_a_pod_of_both_families(gateway: str) -> None:
    in_own_namespace(lambda node: _both_families(node, gateway))()


def _both_families(node: LiveNode, gateway: str) -> None:
    cni = runtime(node, 1)
    before = everything()
    conf = conflist(1)
    six = {"subnet": "fd00:11::/64", "rangeStart": "fd00:11::10", "rangeEnd": "fd00:11::2f", "gateway": gateway}
    conf["plugins"][0]["ipam"]["ranges"].append([six])
    # the rail's other networks, as the plugin of the interface adds them to the main table
    conf["plugins"][0]["ipam"]["routes"] = [{"dst": "fd00::/32", "gw": gateway}]
    conf["plugins"][1]["routes"].append({"dst": "::/0", "gw": gateway})
    result = cni.up("pod", [(conf, "net1")])[0]
    assert [each["address"] for each in result["ips"]] == ["172.16.11.1/24", "fd00:11::10/64"]
    cni.check(conf, "pod", "net1")
    assert rules() == [(10001, "172.16.11.1", "101")] and rules("-6") == [(10001, "fd00:11::10", "101")]
    away = in_pod("route", "get", "2001:db8::1", "from", "fd00:11::10")[0]
    assert (away["gateway"], away["table"], away["dev"]) == (gateway, "101", "net1")
    (other,) = in_pod("-6", "route", "show", "fd00::/32")
    assert (other["gateway"], other["dev"]) == (gateway, "net1")
    cni.down("pod", [(conf, "net1")])
    assert everything() == before


ECHO = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.bind(("172.16.12.254", 7))
    while True:
        sock.sendto(*sock.recvfrom(9000))
"""
ASK = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER: never in parts
    sock.bind(("172.16.11.1", 0))
    sock.settimeout(1)
    for _try in range(120):
        try:
            sock.sendto(bytes(4200 - 28), ("172.16.12.254", 7))
            print(len(sock.recv(9000)))
            break
        except OSError:
            pass  # the server does not listen yet
    try:
        sock.sendto(bytes(4200 - 27), ("172.16.12.254", 7))
    except OSError as error:
        print(error.errno)
"""


@needs_plugins
@in_own_namespace
def test_packets_of_a_rail_address_leave_by_the_rail_unfragmented(node: LiveNode) -> None:
    cni = runtime(node, 2)
    cni.up("pod", [(conflist(1), "net1"), (conflist(2), "net2")])
    server = subprocess.Popen(["nsenter", "--net=/proc/%d/ns/net" % node._leaf.pid, sys.executable, "-c", ECHO])
    try:
        before = _received(node, "leaf1", "leaf2")
        message = ip("netns", "exec", "pod", sys.executable, "-c", ASK).split()
        after = _received(node, "leaf1", "leaf2")
    finally:
        server.kill()
        server.wait()
    assert message == [str(4200 - 28), str(errno.EMSGSIZE)]
    # the address that is asked is on the other rail; by destination alone the packet would have gone there
    assert after[0] - before[0] > 4000 and after[1] - before[1] < 1000


def _received(node: LiveNode, *names: str) -> list[int]:
    lines = [line.replace(":", " ").split() for line in node.leaf("cat", "/proc/self/net/dev").splitlines()]
    return [int(line[1]) for name in names for line in lines if line and line[0] == name]


@needs_plugins
@in_own_namespace
def test_after_a_reboot_all_addresses_are_free(node: LiveNode) -> None:
    cni = runtime(node, 1)
    attached = [(conflist(1), "net1")]
    assert cni.up("pod", attached)[0]["ips"][0]["address"] == "172.16.11.1/24"
    assert leases()
    # what a node forgets: namespaces, and all that is in memory
    cni.unmake("pod")
    shutil.rmtree("/run/railyard")
    # the runtime's own knowledge is on disk: it deletes what is gone
    cni.delete(*attached[0][:1], "pod", "net1")
    assert cni.up("pod", attached)[0]["ips"][0]["address"] == "172.16.11.1/24"
    cni.down("pod", attached)
    assert leases() == []


@needs_plugins
@in_own_namespace
def test_a_device_with_two_addresses_moves_and_returns(node: LiveNode) -> None:
    cni = runtime(node, 1)
    before = everything()
    ipam = {"type": "static", "addresses": [{"address": "10.2.0.0/31", "gateway": "10.2.0.1"}]}
    conf = conflist(1)
    conf["plugins"][0] = {"type": "host-device", "device": "rail1", "ipam": ipam}
    conf["plugins"][1].update(mtu=4200, routes=[{"dst": "0.0.0.0/0", "gw": "10.2.0.1"}])
    node.leaf("ip", "addr", "add", "10.2.0.1/31", "dev", "leaf1")
    cni.up("pod", [(conf, "net1")])
    assert "rail1" not in everything()["links"] and rules() == [(10001, "10.2.0.0", "101")]
    assert {(each["dst"], each.get("gateway")) for each in in_pod("route", "show", "table", "101")} == {
        ("10.2.0.0/31", None),
        ("default", "10.2.0.1"),
    }
    cni.check(conf, "pod", "net1")
    cni.down("pod", [(conf, "net1")])
    assert everything() == before


@pytest.mark.long
@needs_plugins
@in_own_namespace
def test_adds_and_deletes_leave_nothing(node: LiveNode) -> None:
    cni = runtime(node, 1)
    attached = [(conflist(1), "net1")]
    before = everything()
    seen = set()
    # more rounds than there are addresses: each comes again
    for _round in range(int(os.environ.get("RAILYARD_CNI_ROUNDS", "36"))):
        seen.add(cni.up("pod", attached)[0]["ips"][0]["address"])
        cni.down("pod", attached)
    assert everything() == before
    assert len(seen) == 32


@pytest.mark.long
@needs_plugins
@in_own_namespace
def test_pods_at_the_same_time_and_a_block_that_is_used_up(node: LiveNode) -> None:
    cni = runtime(node, 1)
    before = everything()
    attached = [(conflist(1), "net1")]
    names = ["pod%02d" % number for number in range(32)]
    jobs = [lambda name=name: cni.up(name, attached) for name in names]
    assert together(jobs[:16]) == [] and together(jobs[16:]) == []
    given = {shown("-n", name, "-4", "addr", "show", "net1")[0]["addr_info"][0]["local"] for name in names}
    assert given == {"172.16.11.%d" % number for number in range(1, 33)}
    with pytest.raises(PluginError, match="no IP addresses available"):
        cni.up("onemore", attached)
    cni.down("onemore", attached)
    cni.down("pod07", attached)
    assert cni.up("another", attached)[0]["ips"][0]["address"].startswith("172.16.11.")
    down = [lambda name=name: cni.down(name, attached) for name in [*names[:7], *names[8:], "another"]]
    assert together(down) == []
    assert everything() == before


@needs_plugins
@in_own_namespace
def test_an_add_that_is_interrupted_at_any_point_is_undone(node: LiveNode) -> None:
    cni = runtime(node, 1)
    before = everything()
    conf = conflist(1)
    for upto in range(3):
        cni.make("pod")
        cni.add(conf, "pod", "net1", upto=upto)
        cni.down("pod", [(conf, "net1")])
        assert everything() == before, upto
    # the pod's namespace goes first, with all that is in it
    cni.up("pod", [(conf, "net1")])
    cni.unmake("pod")
    cni.delete(conf, "pod", "net1")
    assert everything() == before

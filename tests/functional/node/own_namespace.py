# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel itself in network namespaces of a test's own: a node with rail ports, and the leaf at their other ends.

The ports are veth pairs. Each test runs in a child process, and the namespaces go with it.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import pwd
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from tests.functional.node.child_process import in_child
from tests.waiting import wait_for

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_RDONLY, MS_REC, MS_PRIVATE = 0x1, 0x4000, 0x40000
# Where a node keeps what a run may write: empty here, and gone afterwards.
KEPT = ("/etc", "/run", "/var")
# What programs want of it nevertheless.
WANTED = ("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/ld.so.cache")
DBUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path=/run/dbus/system_bus_socket</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_type="method_call"/>
<allow send_destination="*"/><allow receive_sender="*"/></policy></busconfig>
"""
MANAGER = """[main]
plugins=keyfile
dns=none
no-auto-default=*
[device]
match-device=*
managed=1
"""
NETWORKD = "/lib/systemd/systemd-networkd"
Scenario = t.Callable[["LiveNode"], None]


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


def shown(*words: str) -> list[dict[str, t.Any]]:
    """The output of ``ip -j``; empty if there is no such table."""
    done = subprocess.run(["ip", "-j", *words], capture_output=True, text=True)
    found: list[dict[str, t.Any]] = json.loads(done.stdout or "[]") if not done.returncode else []
    return [each for each in found if each]


class LiveNode:
    """This process's namespace: ``rail1``... with the leaf's ``leaf1``... in a namespace of its own.

    ``system`` has the kernel's sysfs and procfs of this namespace; all that a run may write is in memory.
    """

    def __init__(self) -> None:
        self.system = System()
        self._leaf = subprocess.Popen(["unshare", "--net", "sleep", "3600"])
        here = os.readlink("/proc/self/ns/net")
        theirs = "/proc/%d/ns/net" % self._leaf.pid
        wait_for(lambda: os.readlink(theirs) != here, "the leaf's namespace does not come")
        self._started = [self._leaf]
        self._ends: list[t.Callable[[], object]] = []
        ip("link", "set", "lo", "up")
        self.management()

    def management(self) -> None:
        """An interface of the management network, ``mgmt0``, with the node's default route in the table ``default``.

        The main table stays empty, so that tests can compare it.
        """
        ip("link", "add", "mgmt0", "type", "veth", "peer", "name", "mgmt1")
        ip("link", "set", "mgmt1", "netns", str(self._leaf.pid))
        ip("link", "set", "mgmt0", "up")
        ip("route", "add", "default", "dev", "mgmt0", "table", "default")

    def at_end(self, act: t.Callable[[], object]) -> None:
        """Call a function at the end of the test."""
        self._ends.append(act)

    def close(self) -> None:
        for act in self._ends:
            act()
        for process in reversed(self._started):
            process.kill()
            process.wait()

    def start(self, *command: str) -> None:
        """Start a program that runs until the end of the test."""
        quiet = subprocess.DEVNULL
        self._started.append(subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet))

    def bus(self) -> None:
        """Start a system bus."""
        os.makedirs("/run/dbus")
        Path("/run/dbus/system.conf").write_text(DBUS)
        Path("/etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
        os.symlink("/run", "/var/run")
        self.start("dbus-daemon", "--config-file=/run/dbus/system.conf", "--nofork", "--nopidfile")
        wait_for(lambda: os.path.exists("/run/dbus/system_bus_socket"), "the bus does not come")

    def running(self, unit: str) -> None:
        """Let a service that a test has started be seen as one that systemd has."""
        os.makedirs("/run/systemd/units", exist_ok=True)
        os.symlink("0", "/run/systemd/units/invocation:%s.service" % unit)

    def networkd(self) -> None:
        """Start systemd-networkd. With a read-only sysfs it takes all links for ready, as there is no udev."""
        for name in ("links", "leases", "lldp"):
            os.makedirs("/run/systemd/netif/" + name)
        user = pwd.getpwnam("systemd-network")
        for place, _directories, _files in os.walk("/run/systemd/netif"):
            os.chown(place, user.pw_uid, user.pw_gid)
        self.start(NETWORKD)

    def network_manager(self) -> None:
        """Start NetworkManager, and the bus that it needs."""
        self.bus()
        for place in ("/run/NetworkManager", "/var/lib/NetworkManager", "/etc/NetworkManager/system-connections"):
            os.makedirs(place, exist_ok=True)
        Path("/etc/NetworkManager/NetworkManager.conf").write_text(MANAGER)
        self.start("NetworkManager", "--no-daemon")

    def reboot(self, *numbers: int) -> None:
        """Let the rails be as at boot: new links, no rules, and of what is kept the sysctls in force."""
        for version in ("-4", "-6"):
            for rule in shown(version, "rule"):
                if 0 < rule["priority"] < 32766:
                    ip(version, "rule", "del", "priority", str(rule["priority"]))
        for number in numbers:
            ip("link", "del", "rail%d" % number)
            self.rail(number)
        for line in Path("/etc/sysctl.d/90-railyard.conf").read_text().splitlines():
            key, equals, value = line.partition(" = ")
            if equals:
                Path("/proc/sys", key.replace(".", "/")).write_text(value)

    def rail(self, number: int) -> str:
        """A rail port ``railN``, down, and the leaf's end of it, up. Its name."""
        name, end = "rail%d" % number, "leaf%d" % number
        ip("link", "add", name, "type", "veth", "peer", "name", end)
        ip("link", "set", end, "netns", str(self._leaf.pid))
        self.leaf("ip", "link", "set", end, "up")
        return name

    def leaf(self, *command: str) -> str:
        """Run a command in the leaf's namespace."""
        inside = ["nsenter", "--net=/proc/%d/ns/net" % self._leaf.pid, *command]
        return subprocess.run(inside, check=True, capture_output=True, text=True).stdout

    def advertise(self, number: int, valid: int = 3600) -> None:
        """Let the leaf say on a rail that it is a router, with a prefix to take an address from (RFC 4861).

        :param valid: seconds for which the address may be used.
        """
        self.leaf(sys.executable, "-c", ADVERTISER, "leaf%d" % number, str(valid))


# A router advertisement: hop limit 64, lifetime 1800 s; prefix 2001:db8:77::/64, on link and for addresses
ADVERTISER = """
import socket, struct, sys, time
sock = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
index, valid = socket.if_nametoindex(sys.argv[1]), int(sys.argv[2])
sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
body = struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0)
prefix = socket.inet_pton(socket.AF_INET6, "2001:db8:77::")
body += struct.pack("!BBBBIII16s", 3, 4, 64, 0xC0, valid, min(valid, 1800), 0, prefix)
for _try in range(1200):
    try:
        sock.sendto(body, ("ff02::1", 0, 0, index))
        break
    except OSError:
        time.sleep(0.1)  # its link-local address is not ready yet
else:
    sys.exit("the leaf has no link-local address")
"""


@functools.lru_cache(None)
def why_not() -> str:
    """Why there can be no namespaces here; empty where there can."""
    command = "ip link add a0 type veth peer name a1 && mount -t sysfs sysfs /sys"
    try:
        done = subprocess.run(["unshare", "--net", "--mount", "sh", "-c", command], capture_output=True, text=True)
    except OSError as error:
        return str(error)
    return done.stderr.strip() if done.returncode else ""


def has_kind(kind: str) -> bool:
    """Whether the kernel has interfaces of a kind on top of others."""
    command = "ip link add a type veth peer name b && ip link add c link a type %s" % kind
    return not subprocess.run(["unshare", "--net", "sh", "-c", command], capture_output=True).returncode


def in_own_namespace(scenario: Scenario) -> t.Callable[[], None]:
    """A test that runs the scenario on a live node of its own."""

    @functools.wraps(scenario)
    def test() -> None:
        if why_not():
            pytest.skip("no namespaces here: %s" % why_not())
        in_child(lambda: _run(scenario))

    # pytest must see the test's own arguments, and not the scenario's
    del test.__wrapped__
    return test


def _run(scenario: Scenario) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    os.environ.pop("SSH_CONNECTION", None)

    def call(name: str, *arguments: t.Any) -> None:
        if getattr(libc, name)(*arguments):
            raise OSError(ctypes.get_errno(), "%s: %s" % (name, os.strerror(ctypes.get_errno())))

    call("unshare", CLONE_NEWNET | CLONE_NEWNS)
    call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    call("mount", b"sysfs", b"/sys", b"sysfs", MS_RDONLY, None)
    wanted = {path: Path(path).read_bytes() for path in WANTED if os.path.exists(path)}
    for place in KEPT:
        call("mount", b"tmpfs", place.encode(), b"tmpfs", 0, None)
    for path, data in wanted.items():
        Path(path).write_bytes(data)
    node = LiveNode()
    try:
        scenario(node)
    finally:
        node.close()

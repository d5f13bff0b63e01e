# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""What is in the node's other network namespaces: seen by going there, in a child process that never comes back.

Sysfs hides what is in another namespace, and a link there shows only numbers of what it uses, so each namespace
is read from inside: setns(2), rtnetlink, ethtool's ETHTOOL_GDRVINFO (kernels before 5.14 do not report a link's parent
over rtnetlink) and, in exclusive rdma mode, NETLINK_RDMA.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import json
import os
import socket
import struct
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec, rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Row, hardware_address
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.network_namespaces import Namespace

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_RDONLY, MS_REC, MS_PRIVATE = 0x1, 0x4000, 0x40000
SIOCETHTOOL = 0x8946
ETHTOOL_GDRVINFO = 3
# struct ethtool_drvinfo: the command, driver, version, firmware version, bus_info of 32 bytes each, and the rest
DRVINFO_SIZE = 196
BUS_INFO = slice(4 + 3 * 32, 4 + 4 * 32)


class Elsewhere(t.NamedTuple):
    """What one other namespace holds.

    ``netdevs``: rows of ``name``, ``alias``, ``mac``, ``kind``, ``pci`` (of the device behind it; None for virtual
    ones) and ``below`` (index of the link *here* that it uses; None for none). ``uverbs``: names of the RDMA
    devices' verbs files.
    """

    netdevs: list[Row]
    uverbs: list[str]


def look(system: System, namespaces: t.Sequence[Namespace]) -> dict[str, Elsewhere]:
    """What each namespace holds, by its identity; one that vanished, or cannot be entered, is left out."""
    found = visit(system, namespaces, lambda home: (_netdevs(home), _uverbs(system)))
    return {identity: Elsewhere(*each) for identity, each in found.items()}


def visit(
    system: System, namespaces: t.Sequence[Namespace], ask: t.Callable[[int], t.Any], sysfs: bool = False
) -> dict[str, t.Any]:
    """What ``ask`` finds in each namespace, by its identity; one that vanished, or cannot be entered, is left out.

    All of it is done by a child process that never comes back, so what is found must be such as JSON can carry.

    :param ask: called in each, with a file descriptor of the namespace that we come from.
    :param sysfs: whether ``/sys`` must be the namespace's own there, and not the one that we come from.
    """
    if not namespaces:
        return {}
    come, go = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(come)
            with os.fdopen(go, "w") as stream:
                json.dump(_visit_all(system, namespaces, ask, sysfs), stream)
            status = 0
        finally:
            os._exit(status)
    os.close(go)
    with os.fdopen(come) as stream:
        text = stream.read()
    os.waitpid(child, 0)
    try:
        found: dict[str, t.Any] = json.loads(text)
    except ValueError:
        return {}
    return found


def _visit_all(
    system: System, namespaces: t.Sequence[Namespace], ask: t.Callable[[int], t.Any], sysfs: bool
) -> dict[str, t.Any]:
    home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    found = {}
    if sysfs:
        _own_mounts()
    for namespace in namespaces:
        fd = enter(system, namespace)
        if fd is None:
            continue
        try:
            with contextlib.suppress(RailyardError, OSError):
                _call("setns", fd, CLONE_NEWNET)
                if sysfs:
                    _mount_sysfs()
                found[namespace.identity] = ask(home)
        finally:
            os.close(fd)
    return found


def move(system: System, namespace: Namespace) -> None:
    """Take this process into the namespace for good, with a ``/sys`` that shows what is there.

    :raises RailyardError: where there is no way in.
    """
    fd = enter(system, namespace)
    if fd is None:
        raise RailyardError("there is no way into it any more", namespace.identity, "run again")
    try:
        _own_mounts()
        _call("setns", fd, CLONE_NEWNET)
        _mount_sysfs()
    except OSError as error:
        raise RailyardError("cannot be entered: %s" % error, namespace.identity, "run the task with become") from None
    finally:
        os.close(fd)


def _own_mounts() -> None:
    """Make later mounts invisible to other processes."""
    _call("unshare", CLONE_NEWNS)
    _call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)


def _mount_sysfs() -> None:
    # sysfs shows devices of the namespace in which it was mounted
    _call("mount", b"sysfs", b"/sys", b"sysfs", MS_RDONLY, None)


def _call(name: str, *arguments: t.Any) -> None:
    """A system call that Python has no function for in all of its releases."""
    import ctypes

    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (name, os.strerror(number)))


def enter(system: System, namespace: Namespace) -> int | None:
    """An open file descriptor of the namespace; None where there is no way in, or not any more."""
    number = int(namespace.identity[len("net:[") : -1])
    for path in _ways_in(system, namespace):
        try:
            fd = os.open(system.path(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            continue
        # a process may have ended, and its number, or a mount point, be another's now
        if os.fstat(fd).st_ino == number:
            return fd
        os.close(fd)
    return None


def _ways_in(system: System, namespace: Namespace) -> t.Iterator[str]:
    yield from namespace.mounts
    for pid in namespace.processes:
        yield "/proc/%d/ns/net" % pid
        for thread in system.listdir("/proc/%d/task" % pid):
            yield "/proc/%d/task/%s/ns/net" % (pid, thread)
    for pid in namespace.openers:
        for descriptor in system.listdir("/proc/%d/fd" % pid):
            path = "/proc/%d/fd/%s" % (pid, descriptor)
            if system.link_name(path) == namespace.identity:
                yield path


def _netdevs(home: int) -> list[Row]:
    with Rtnetlink() as table:
        links = table.links()
    here = _nsid(home)
    return [
        {
            "name": link.name,
            "alias": link.alias,
            "mac": hardware_address(link.permanent or link.address) or None,
            "kind": link.kind,
            "pci": link.parent or (None if link.kind else bus_info(link.name)),
            "below": link.below if here is not None and link.below_namespace == here else None,
        }
        for link in links
    ]


def _nsid(fd: int) -> int | None:
    """The number by which this namespace knows the one of the file descriptor; None where it does not."""
    try:
        with Rtnetlink() as table:
            return table.namespace_number(fd)
    except NetlinkError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOENT):
            raise
    return None


def bus_info(netdev: str) -> str | None:
    """The PCI address that a netdev's driver reports for its device; None if it reports none."""
    data = array.array("B", struct.pack("=I", ETHTOOL_GDRVINFO).ljust(DRVINFO_SIZE, b"\0"))
    request = struct.pack("16sP16x", netdev.encode()[:15], data.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            fcntl.ioctl(sock.fileno(), SIOCETHTOOL, request)
        except OSError:
            return None
    return codec.text(data.tobytes()[BUS_INFO]) or None


def _uverbs(system: System) -> list[str]:
    names = []
    with contextlib.suppress(RailyardError):
        sock = rdma_netlink.connect(system)
        if sock:
            for device in rdma_netlink.devices(sock):
                character = rdma_netlink.chardev(sock, device["index"])
                if character:
                    names.append(str(character["name"]))
            sock.close()
    return names

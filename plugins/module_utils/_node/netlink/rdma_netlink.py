# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The RDMA subsystem over NETLINK_RDMA: RDMA mode, devices, links and their users; create, rename and remove links.

Source: the kernel's ``include/uapi/rdma/rdma_netlink.h`` (``rdma_nldev_command``, ``rdma_nldev_attr``) and
``ib_user_ioctl_verbs.h`` (``rdma_driver_id``). Names of values are those of ``rdma`` of iproute2.
"""

from __future__ import annotations

import errno
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError, NetlinkSocket
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import network_namespaces

NETLINK_RDMA = 20
RDMA_NL_NLDEV = 5

CMD_GET = 1
CMD_SET = 2
CMD_NEWLINK = 3
CMD_DELLINK = 4
CMD_PORT_GET = 5
CMD_SYS_GET = 6
CMD_SYS_SET = 7
CMD_RES_QP_GET = 10
CMD_RES_CM_ID_GET = 11
CMD_GET_CHARDEV = 15
CMD_STAT_GET = 17

ATTR_DEV_INDEX = 1
ATTR_DEV_NAME = 2
ATTR_PORT_INDEX = 3
ATTR_FW_VERSION = 5
ATTR_NODE_GUID = 6
ATTR_SYS_IMAGE_GUID = 7
ATTR_SUBNET_PREFIX = 8
ATTR_LID = 9
ATTR_SM_LID = 10
ATTR_LMC = 11
ATTR_PORT_STATE = 12
ATTR_PORT_PHYS_STATE = 13
ATTR_DEV_NODE_TYPE = 14
ATTR_RES_QP = 19
ATTR_RES_TYPE = 26
ATTR_RES_PID = 28
ATTR_RES_KERN_NAME = 29
ATTR_RES_CM_ID = 30
ATTR_NDEV_INDEX = 50
ATTR_NDEV_NAME = 51
ATTR_LINK_TYPE = 65
ATTR_SYS_NETNS_MODE = 66
ATTR_DEV_PROTOCOL = 67
ATTR_NET_NS_FD = 68
ATTR_CHARDEV_TYPE = 69
ATTR_CHARDEV_NAME = 70
ATTR_UVERBS_DRIVER_ID = 73
ATTR_STAT_HWCOUNTERS = 80
ATTR_STAT_HWCOUNTER_ENTRY_NAME = 82
ATTR_STAT_HWCOUNTER_ENTRY_VALUE = 83
ATTR_PARENT_NAME = 100

STATES = ("NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER")
PHYSICAL_STATES = (
    "NOP",
    "SLEEP",
    "POLLING",
    "DISABLED",
    "PORT_CONFIGURATION_TRAINING",
    "LINK_UP",
    "LINK_ERROR_RECOVER",
    "PHY_TEST",
)
NODE_TYPES = ("unknown", "ca", "switch", "router", "rnic", "usnic", "usnic_udp", "unspecified")
MODES = {0: "exclusive", 1: "shared"}
SOFT_DRIVERS = {14: "rxe", 18: "siw"}
QP_TYPES_CONNECTED = (2, 3)  # RC, UC
OPEN = "device open"

Row = t.Dict[str, t.Any]


class Holder(t.NamedTuple):
    """A user of a device: a process (``pid``), or a part of the kernel (``pid`` None). ``what``: its resources."""

    pid: int | None
    command: str
    what: str

    def __str__(self) -> str:
        return "%s (%s%s)" % (self.command, "" if self.pid is None else "pid %d, " % self.pid, self.what)


def connect(system: System) -> NetlinkSocket | None:
    """Return a socket to the RDMA subsystem; None if ib_core is not loaded. Does not load it."""
    if not system.exists("/sys/module/ib_core"):
        return None
    return NetlinkSocket(NETLINK_RDMA, "RDMA subsystem")


def message_type(command: int) -> int:
    return (RDMA_NL_NLDEV << 10) + command


def netns_mode(sock: NetlinkSocket) -> str | None:
    """Return ``shared`` or ``exclusive``; None if the kernel (before 5.2) has no modes, which behaves as shared."""
    try:
        answers = sock.request(message_type(CMD_SYS_GET))
    except NetlinkError as error:
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
            return None
        raise
    for answer in answers:
        value = codec.table(answer).get(ATTR_SYS_NETNS_MODE)
        if value is not None:
            return MODES.get(codec.number(value))
    return None


def set_netns_mode(sock: NetlinkSocket, mode: str) -> None:
    """Switch the mode. Raises :class:`NetlinkError`: EBUSY while other network namespaces exist."""
    value = next(number for number, name in MODES.items() if name == mode)
    sock.request(message_type(CMD_SYS_SET), codec.u8(ATTR_SYS_NETNS_MODE, value))


def devices(sock: NetlinkSocket, most: int | None = None) -> list[Row]:
    """Return the RDMA devices that are visible in this network namespace, sorted by name. ``most``: see
    :meth:`.NetlinkSocket.dump`.

    Each: ``index``, ``name``, ``ports`` (count), ``node_type``, ``fw_version``, ``node_guid``, ``sys_image_guid``
    (in the format of sysfs), ``protocol`` (``roce``, ``ib``, ``iw``, ``opa``, ``usnic``; None before Linux 5.2),
    ``parent`` (of a sub-device, such as one of type SMI, whose ports are the planes of its parent; None for others).
    """
    found = []
    for answer in sock.dump(message_type(CMD_GET), most=most):
        table = codec.table(answer)
        found.append(
            {
                "index": _number(table, ATTR_DEV_INDEX),
                "name": _text(table, ATTR_DEV_NAME),
                "ports": _number(table, ATTR_PORT_INDEX),
                "node_type": _name(NODE_TYPES, _number(table, ATTR_DEV_NODE_TYPE)),
                "fw_version": _text(table, ATTR_FW_VERSION) or None,
                "node_guid": _guid(table, ATTR_NODE_GUID),
                "sys_image_guid": _guid(table, ATTR_SYS_IMAGE_GUID),
                "protocol": _text(table, ATTR_DEV_PROTOCOL) or None,
                "parent": _text(table, ATTR_PARENT_NAME) or None,
            }
        )
    return sorted(found, key=lambda row: str(row["name"]))


def links(sock: NetlinkSocket, of: t.Iterable[Row] | None = None) -> list[Row]:
    """Return the ports of devices (rows of :func:`devices`; by default all).

    Each: ``device_index``, ``device``, ``port`` (from 1), ``state``, ``physical_state``, ``netdev``, ``netdev_index``
    (None if it is not in this network namespace), ``lid``, ``sm_lid``, ``lmc``, ``subnet_prefix`` (None except on
    InfiniBand and OPA).
    """
    found: list[Row] = []
    for device in devices(sock) if of is None else of:
        try:
            answers = sock.dump(message_type(CMD_PORT_GET), codec.u32(ATTR_DEV_INDEX, device["index"]))
        except NetlinkError as error:
            # the device was removed after the list was read
            if error.errno in (errno.ENODEV, errno.EINVAL):
                continue
            raise
        for answer in answers:
            table = codec.table(answer)
            found.append(
                {
                    "device_index": device["index"],
                    "device": device["name"],
                    "port": _number(table, ATTR_PORT_INDEX),
                    "state": _name(STATES, _number(table, ATTR_PORT_STATE)),
                    "physical_state": _name(PHYSICAL_STATES, _number(table, ATTR_PORT_PHYS_STATE)),
                    "netdev": _text(table, ATTR_NDEV_NAME) or None,
                    "netdev_index": _number(table, ATTR_NDEV_INDEX),
                    "lid": _number(table, ATTR_LID),
                    "sm_lid": _number(table, ATTR_SM_LID),
                    "lmc": _number(table, ATTR_LMC),
                    "subnet_prefix": _guid(table, ATTR_SUBNET_PREFIX),
                }
            )
    return found


def chardev(sock: NetlinkSocket, index: int) -> Row | None:
    """Return the device's uverbs character device: ``name`` (``uverbs0``) and ``driver`` (``rdma_driver_id``).

    None if it has none (ib_uverbs is not loaded) or the kernel (before 5.3) does not report it.
    """
    payload = codec.u32(ATTR_DEV_INDEX, index) + codec.string(ATTR_CHARDEV_TYPE, "uverbs")
    try:
        answers = sock.request(message_type(CMD_GET_CHARDEV), payload)
    except NetlinkError as error:
        if error.errno in (errno.ENODEV, errno.ENOENT, errno.EINVAL, errno.EOPNOTSUPP):
            return None
        raise
    for answer in answers:
        table = codec.table(answer)
        return {"name": _text(table, ATTR_CHARDEV_NAME), "driver": _number(table, ATTR_UVERBS_DRIVER_ID)}
    return None


def hardware_counters(sock: NetlinkSocket, index: int, port: int) -> dict[str, int]:
    """Return the counters of a device's port by the driver's names, as ``rdma statistic`` shows them.

    Empty if the driver has none, if the device was removed, or before Linux 5.3.
    """
    payload = codec.u32(ATTR_DEV_INDEX, index) + codec.u32(ATTR_PORT_INDEX, port)
    try:
        answers = sock.request(message_type(CMD_STAT_GET), payload)
    except NetlinkError as error:
        if error.errno in (errno.ENODEV, errno.EINVAL, errno.EOPNOTSUPP):
            return {}
        raise
    found = {}
    for answer in answers:
        for _entry, entry in codec.attributes(codec.table(answer).get(ATTR_STAT_HWCOUNTERS, b"")):
            table = codec.table(entry)
            value = _number(table, ATTR_STAT_HWCOUNTER_ENTRY_VALUE)
            if value is not None:
                found[_text(table, ATTR_STAT_HWCOUNTER_ENTRY_NAME)] = value
    return found


def link_type(sock: NetlinkSocket, system: System, device: Row) -> str:
    """Return the type of a device: ``rxe``, ``siw`` or ``hardware``."""
    character = chardev(sock, device["index"])
    if character and character["driver"] is not None:
        return SOFT_DRIVERS.get(character["driver"], "hardware")
    directory = "/sys/class/infiniband/%s" % device["name"]
    if system.exists(directory + "/parent"):
        return "rxe"
    if device["protocol"] == "iw" and not system.exists(directory + "/device"):
        return "siw"
    return "hardware"


def new_link(sock: NetlinkSocket, name: str, kind: str, netdev: str) -> None:
    """Create a soft link of ``kind`` on a netdev. The kernel loads the module; EINVAL if it has none."""
    sock.request(
        message_type(CMD_NEWLINK),
        codec.string(ATTR_DEV_NAME, name) + codec.string(ATTR_LINK_TYPE, kind) + codec.string(ATTR_NDEV_NAME, netdev),
    )


def delete_link(sock: NetlinkSocket, index: int) -> None:
    """Remove a soft link; EINVAL for hardware. The kernel may wait until no process has the device open."""
    sock.request(message_type(CMD_DELLINK), codec.u32(ATTR_DEV_INDEX, index))


def rename(sock: NetlinkSocket, index: int, name: str) -> None:
    """Rename a device; EEXIST if another device has the name."""
    sock.request(message_type(CMD_SET), codec.u32(ATTR_DEV_INDEX, index) + codec.string(ATTR_DEV_NAME, name))


def move(sock: NetlinkSocket, index: int, namespace: int) -> None:
    """Move a device to the network namespace of a file descriptor; EINVAL in rdma mode ``shared``."""
    sock.request(message_type(CMD_SET), codec.u32(ATTR_DEV_INDEX, index) + codec.u32(ATTR_NET_NS_FD, namespace))


def holders(sock: NetlinkSocket, system: System, index: int, contexts: bool) -> list[Holder]:
    """Return the users of a device: processes with queue pairs or connection ids, and connected queue pairs of the
    kernel.

    :param contexts: also return processes that only have the device open. They block its removal, not its renaming.
    """
    uses: dict[tuple[int | None, str], dict[str, int]] = {}

    def add(pid: int | None, command: str, what: str) -> None:
        counts = uses.setdefault((pid, command), {})
        counts[what] = counts.get(what, 0) + 1

    for command, kind, what in (
        (CMD_RES_QP_GET, ATTR_RES_QP, "queue pairs"),
        (CMD_RES_CM_ID_GET, ATTR_RES_CM_ID, "connection ids"),
    ):
        for entry in _resources(sock, index, command, kind):
            pid = _number(entry, ATTR_RES_PID)
            kernel = _text(entry, ATTR_RES_KERN_NAME)
            if pid is not None:
                add(pid, network_namespaces.command(system, pid), what)
            elif not kernel:
                # a process that is ending, or that is in a PID namespace that is not visible here
                add(None, "a process out of sight", what)
            elif _number(entry, ATTR_RES_TYPE) in QP_TYPES_CONNECTED and kind == ATTR_RES_QP:
                add(None, "the kernel's %s" % kernel, what)
    if contexts:
        known_pids = {pid for pid, _command in uses}
        for pid in processes_with_device(system, chardev(sock, index)):
            if pid not in known_pids:
                add(pid, network_namespaces.command(system, pid), OPEN)
    return [
        Holder(pid, command, ", ".join(what if what == OPEN else "%d %s" % (n, what) for what, n in use.items()))
        for (pid, command), use in uses.items()
    ]


def _resources(sock: NetlinkSocket, index: int, command: int, kind: int) -> list[dict[int, bytes]]:
    try:
        answers = sock.dump(message_type(command), codec.u32(ATTR_DEV_INDEX, index))
    except NetlinkError as error:
        # the device was removed, or the kernel does not report such resources
        if error.errno in (errno.ENODEV, errno.EINVAL, errno.EOPNOTSUPP):
            return []
        raise
    found: list[dict[int, bytes]] = []
    for answer in answers:
        for outer, entries in codec.attributes(answer):
            if outer == kind:
                found.extend(codec.table(value) for _entry, value in codec.attributes(entries))
    return found


def processes_with_device(system: System, character: Row | None) -> list[int]:
    """Return the pids of processes in any namespace that have a character device (of :func:`chardev`) open."""
    if character is None:
        return []
    path = "/dev/infiniband/%s" % character["name"]
    found = network_namespaces.users_of_files(system, [path].__contains__, network_namespaces.sees_all())
    return found.get(path, [])


def _number(table: t.Mapping[int, bytes], kind: int) -> int | None:
    value = table.get(kind)
    return None if value is None else codec.number(value)


def _text(table: t.Mapping[int, bytes], kind: int) -> str:
    return codec.text(table.get(kind, b""))


def _guid(table: t.Mapping[int, bytes], kind: int) -> str | None:
    value = _number(table, kind)
    if value is None:
        return None
    digits = "%016x" % value
    return ":".join(digits[start : start + 4] for start in range(0, 16, 4))


def _name(names: t.Sequence[str], value: int | None) -> str | None:
    if value is None:
        return None
    return names[value] if value < len(names) else str(value)

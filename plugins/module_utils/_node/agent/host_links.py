# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The node's side of a slot: the port, VF or RDMA device of its interface, and their return from the pod.

A pod with CAP_NET_ADMIN can write names, aliases and most settings of its interfaces, and make others like them. So
what moves between a pod and the node is identified only by what the kernel alone writes
(:func:`.link_messages.identity`), and what returns is set back and read back.
"""

from __future__ import annotations

import contextlib
import errno
import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent import pod_desired, stacked_ports
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import (
    AgentSpec,
    RailSpec,
    SlotSpec,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.attach_request import AttachError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.pod_desired import place
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import Holder, Row
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError, NetlinkSocket
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.in_namespace import in_namespace
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import (
    Link,
    hardware_address,
    has_identity,
    identity,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import network_namespaces

PCI = "/sys/bus/pci/devices/%s"
# Prefix of the name of a port that is on its way back.
TEMPORARY = "ry-"
# The first word of aliases of the agent.
ALIAS = "railyard"
# How many interfaces of a namespace are read at most.
MOST = 4096


class NodeSide(t.NamedTuple):
    """The node's network namespace. ``fd``: its file descriptor. ``kernel``, ``rdma``: sockets in it; ``rdma`` is None
    if the kernel does not have RDMA, or if it is not needed.
    """

    system: System
    kernel: Rtnetlink
    fd: int
    rdma: NetlinkSocket | None = None


class Source(t.NamedTuple):
    """The origin of a slot's interface. ``port``: its name in errors. ``ifindex``: of the interface on the node; None
    while it is in the pod. ``host``: state on the node of an interface that is moved, see :func:`_state`, with its
    ``alias``, ``pci``, ``ifindex`` and ``identity``; None if one is made on a port.
    """

    port: str
    ifindex: int | None
    rdma: str | None
    host: Row | None


def source(system: System, kernel: Rtnetlink, rail: RailSpec, slot: SlotSpec, before: Row | None) -> Source:
    """Return the origin of a slot's interface, read from the node.

    :param before: the slot's row in the record of the same sandbox, from an earlier attach.
    :raises AttachError: reason ``port`` or ``rdma``, if the node does not have it; reason ``stack``, if the port is not
        the planned bond or VLAN.
    """
    pci = _pci(system, rail, slot) if rail.has_vfs else rail.pci
    port = rail.netdev if not rail.has_vfs else "VF %s of %s" % (slot.vf, rail.netdev)
    name: str | None = port_name(system, rail)
    if pci and rail.moved:
        # the port of another rail may have its name
        names = system.listdir(PCI % pci + "/net")
        name = name if name in names else next(iter(names), None)
    link = kernel.link(name) if name else None
    host = (before or {}).get("host")
    if link is None and not (rail.moved and host):
        raise AttachError("port", place(rail, slot), port=port)
    different = link and stacked_ports.difference(system, kernel.link, rail, link)
    if different:
        raise AttachError("stack", place(rail, slot), detail=different)
    if link is not None and rail.moved and host is None:
        if not (pci or link.parent or link.permanent or link.below):
            raise AttachError("identity", place(rail, slot), port=port)
        alias = "" if _is_own(link) else link.alias or ""
        host = {**_state(link), "alias": alias, "pci": pci, "ifindex": link.ifindex, "identity": identity(link)}
    rdma = rail.rdma
    if rail.rdma is not None and rail.has_vfs and not rail.soft:
        # the VF's device may have any name; the VF's directory shows it even while it is in a pod
        rdma = next(iter(system.listdir(PCI % pci + "/infiniband")), (before or {}).get("rdma"))
        if rdma is None:
            raise AttachError("rdma", place(rail, slot), rdma="of " + port)
    return Source(port, None if link is None else link.ifindex, rdma, host)


def port_name(system: System, rail: RailSpec) -> str:
    if rail.netdev != rail.pci:
        return rail.netdev
    return next(iter(system.listdir(PCI % rail.pci + "/net")), rail.netdev)


def vf_pci(system: System, rail: RailSpec, slot: SlotSpec) -> str | None:
    """Return the PCI address of a slot's VF; None if the port does not have this VF."""
    port = PCI % rail.pci if rail.pci else "/sys/class/net/%s/device" % rail.netdev
    return system.link_name("%s/virtfn%s" % (port, slot.vf))


def _pci(system: System, rail: RailSpec, slot: SlotSpec) -> str:
    pci = vf_pci(system, rail, slot)
    if pci is None:
        raise AttachError("port", place(rail, slot), port="VF %s of %s" % (slot.vf, rail.netdev))
    return pci


def temporary() -> str:
    """Return a name of an interface that a pod cannot predict: at most 15 characters."""
    return TEMPORARY + os.urandom(6).hex()


def _is_own(link: Link) -> bool:
    """Return whether an interface has an alias of :meth:`.slot_state.Holder.alias`, which a pod may have written."""
    words = (link.alias or "").split(" ")
    return len(words) == 4 and words[0] == ALIAS


def _state(link: Link) -> Row:
    """Return what a pod can set on an interface and the interface keeps when it returns to the node."""
    return {
        "name": link.name,
        "altnames": sorted(link.altnames),
        "mtu": link.mtu,
        "mac": hardware_address(link.address),
        "flags": link.flags,
        "settings": dict(link.settings),
        "xdp": link.xdp,
        "up": link.up,
    }


def _different(link: Link, host: Row) -> list[str]:
    """Return the keys of a recorded state that differ. Rows of an earlier release do not have all keys."""
    return [key for key, value in _state(link).items() if key in host and host[key] != value]


def restore(system: System, kernel: Rtnetlink, holder: Holder, lives: bool = False) -> bool:
    """Set back the interfaces that returned from a holder's namespace, and read them back.

    :param lives: whether the namespace exists, so that an interface that is not on the node may be in it.
    :return: whether all of them have returned. After the end of the namespace, an interface without a device or driver
        does not count.
    :raises RailyardError: if one differs from its recorded state, which keeps the slot. A name that another interface
        has keeps it only if the port is not found by its PCI address. Otherwise the alias stays, which
        :func:`without_holder` reports.
    """
    return _Return(system, kernel, holder, lives).run()


class _Return:
    """The return of a holder's interfaces. See :func:`restore`."""

    def __init__(self, system: System, kernel: Rtnetlink, holder: Holder, lives: bool) -> None:
        self._system = system
        self._kernel = kernel
        self._holder = holder
        self._lives = lives
        # indexes of interfaces that got a temporary name, because another one has their name
        self._renamed: set[int] = set()

    def run(self) -> bool:
        waiting = [row for row in self._holder.interfaces if row.get("host")]
        errors: list[RailyardError] = []
        # in the second pass, a name that another port of the pod had is free
        for last in (False, True):
            rows, waiting, errors = waiting, [], []
            for row in rows:
                try:
                    if not self._restore(row, last):
                        waiting.append(row)
                except RailyardError as error:
                    waiting.append(row)
                    errors.append(error)
        if errors:
            raise errors[0]
        return not waiting

    def _restore(self, row: Row, last: bool) -> bool:
        """Set back one interface. Return whether it is as recorded, or is not waited for. ``last``: the last pass."""
        host, alias = row["host"], self._holder.alias(row["rail"])
        link = _returned(self._system, self._kernel, alias, host)
        if link is None:
            return not (self._lives or (host["pci"] and self._system.exists(PCI % host["pci"] + "/driver")))
        if "identity" not in host and link.name == host["name"] and link.alias != alias:
            # a row of an earlier release may be of another boot; then the interface never moved
            return True
        place = "device %s: %s" % (self._holder.device, host["name"])
        try:
            different = set(_different(link, host))
            taken = "name" in different and _name_taken(self._kernel, link, host["name"])
            if taken:
                if not self._may_keep_name(link, last):
                    return False
                if not host["pci"]:
                    remedy = "rename the other interface %s" % host["name"]
                    raise RailyardError("another interface has the name of the returned port", place, remedy)
                different.remove("name")
            if different:
                _set_back(self._kernel, link, host, different)
                link = self._kernel.link(link.ifindex) or link
                remaining = [key for key in _different(link, host) if not (taken and key == "name")]
                if remaining:
                    remedy = "set it by ip link; the slot is free then"
                    observed = ", ".join(
                        "%s %s instead of %s" % (key, _state(link)[key], host[key]) for key in remaining
                    )
                    message = "the port returned from pod %s with %s" % (self._holder.pod, observed)
                    raise RailyardError(message, place, remedy)
            # last: an alias of the agent marks an interface that is not restored yet
            kept = alias if taken else host.get("alias", "")
            if (link.alias or "") != kept:
                self._kernel.set_link(link.ifindex, alias=kept)
        except NetlinkError as error:
            remedy = "run ip -d link show %s, and journalctl -k" % link.name
            raise RailyardError("the kernel does not set back the port: %s" % error.message, place, remedy) from None
        return True

    def _may_keep_name(self, link: Link, last: bool) -> bool:
        """Return whether an interface stays without its name, because another interface has it.

        The first pass gives it a temporary name: the other interface may be a returned port that waits for its name.
        """
        if not link.name.startswith(TEMPORARY):
            self._kernel.set_link(link.ifindex, up=False)
            self._kernel.set_link(link.ifindex, name=temporary())
            self._renamed.add(link.ifindex)
        return last and link.ifindex not in self._renamed


def _set_back(kernel: Rtnetlink, link: Link, host: Row, different: t.Collection[str]) -> None:
    index = link.ifindex
    if "name" in different or "mac" in different:
        kernel.set_link(index, up=False)
    if "xdp" in different and link.xdp:
        kernel.detach_xdp(index, link.xdp)
    if "altnames" in different:
        for name in set(link.altnames) - set(host["altnames"]):
            kernel.delete_altname(index, name)
        for name in set(host["altnames"]) - set(link.altnames):
            kernel.add_altname(index, name)
    values = {key: host[key] for key in ("name", "mtu", "flags", "settings") if key in different}
    if "mac" in different:
        values["address"] = bytes.fromhex(host["mac"].replace(":", ""))
    kernel.set_link(index, **values)
    # last, and also after it was set down here
    kernel.set_link(index, up=host["up"])


def _name_taken(kernel: Rtnetlink, link: Link, name: str) -> bool:
    other = kernel.link(name)
    return other is not None and other.ifindex != link.ifindex


def _returned(system: System, kernel: Rtnetlink, alias: str, host: Row) -> Link | None:
    """Return the interface on the node that a recorded one is; None if it has not returned.

    ``/sys`` shows the interfaces of a PCI function in the node's namespace, which a pod cannot write.
    """
    if host["pci"]:
        candidates = [kernel.link(name) for name in system.listdir(PCI % host["pci"] + "/net")]
        links = [link for link in candidates if link is not None]
        # some cards have two ports in one function
        matching = (
            links if len(links) == 1 else [link for link in links if has_identity(link, host.get("identity", {}))]
        )
    elif "identity" in host:
        matching = [link for link in kernel.links() if has_identity(link, host["identity"])]
    else:
        # the row of an earlier release
        matching = [link for link in kernel.links() if link.alias == alias]
    return matching[0] if len(matching) == 1 else None


def interface_in_pod(kernel: Rtnetlink, holder: Holder, row: Row) -> Link | None:
    """Return the interface of a row in the holder's namespace; None if it is not there under its recorded index.

    It is asked for from the node's namespace, by its index, so that the size of the pod's namespace does not matter.
    """
    which = row.get("ifindex") or row["interface"]
    try:
        link = kernel.link(which, namespace=holder.nsid)
    except NetlinkError as error:
        # the namespace has ended
        if error.errno == errno.EINVAL:
            return None
        raise
    if link is None:
        return None
    if "identity" in row:
        return link if has_identity(link, row["identity"]) else None
    # the row of an earlier release
    pci = (row.get("host") or {}).get("pci")
    return link if link.alias == holder.alias(row["rail"]) or (pci and link.parent == pci) else None


def without_holder(kernel: Rtnetlink, holders: t.Iterable[Holder]) -> dict[str, str]:
    """Return a message per interface on the node that has a name or alias of the agent, and that no holder has."""
    recorded = [
        row["host"]["identity"]
        for each in holders
        for row in each.interfaces
        if (row.get("host") or {}).get("identity")
    ]
    found = {}
    for link in kernel.links():
        ours = link.name.startswith(TEMPORARY) or _is_own(link)
        if ours and not any(has_identity(link, each) for each in recorded):
            found["interface %s" % link.name] = (
                "interface %s: it has a name or alias of the rail agent (%s), and no pod holds it. Remedy: give it the"
                ' name of its port, and run ip link set %s alias "".' % (link.name, link.alias or "no alias", link.name)
            )
    return found


def unrecorded(system: System, holders: t.Iterable[Holder]) -> list[str]:
    """Return a message per interface of the agent in a pod that is not recorded, as after the record was deleted."""
    known = {alias for holder in holders for alias in holder.aliases}

    def links() -> list[Link]:
        with Rtnetlink() as kernel:
            return kernel.links(most=MOST)

    messages = []
    for namespace in network_namespaces.others(system):
        # namespaces and processes may end during the loop
        with contextlib.suppress(OSError, RailyardError):
            with open("/proc/%d/ns/net" % min(namespace.processes, default=0), "rb") as stream:
                inside = in_namespace(stream.fileno(), links)
            for link in inside:
                if _is_own(link) and link.alias not in known:
                    words = str(link.alias).split(" ")
                    messages.append(
                        "device %s: its interface %s is in a pod that is not in the record of slots. Remedy: restart"
                        " the pod that crictl inspectp %s shows." % (words[1], link.name, words[2])
                    )
    return sorted(messages)


def remove(pod: Rtnetlink, node: NodeSide, spec: AgentSpec, holder: Holder) -> None:
    """Remove a holder's interfaces and rules from the pod's namespace, in which the caller runs.

    Interfaces and RDMA devices of the node are moved back. :func:`.restore` sets them back. Only what the
    kernel identifies as taken from the node is moved.

    :param spec: the node file with the part with which the pod was attached.
    """
    own = {(row["rail"], row["slot"]) for row in holder.interfaces}
    for rail in spec.rails:
        for slot in rail.slots:
            for rule in pod_desired.rules(rail, slot) if (rail.rail, slot.number) in own else ():
                pod.delete_rule(rule)
    moved = [row for row in holder.interfaces if row.get("rdma_index") is not None]
    indexes = {int(row["rdma_index"]): str(row["rdma"]) for row in moved}
    _return_rdma(node, indexes)
    for row in holder.interfaces:
        link = interface_in_pod(node.kernel, holder, row)
        if link is not None and row.get("host"):
            _return_port(pod, node, link.ifindex, row["host"])
        elif link is not None:
            pod.delete_link(link.ifindex)


def _return_port(pod: Rtnetlink, node: NodeSide, index: int, recorded: Row) -> None:
    """Move a port back to the node. The kernel moves and renames it in one step, which the pod cannot interrupt.

    :raises RailyardError: if the pod has put another interface in its place just before. It is removed.
    """
    name = temporary()
    pod.set_link(index, up=False)
    try:
        pod.set_link(index, namespace=node.fd, name=name, new_index=recorded.get("ifindex"))
    except NetlinkError as error:
        if error.errno != errno.EBUSY:
            raise
        # another interface of the node has its index now
        pod.set_link(index, namespace=node.fd, name=name)
    link = node.kernel.link(name)
    if link is not None and not has_identity(link, recorded.get("identity", {"parent": recorded["pci"]})):
        node.kernel.delete_link(link.ifindex)
        raise RailyardError("the pod replaced the port", recorded["name"], "delete the pod")


def _return_rdma(node: NodeSide, devices: dict[int, str]) -> None:
    """Move RDMA devices back to the node, and give them their names. ``devices``: index -> name on the node.

    Nothing in RDMA mode shared, in which they were not moved. The kernel does not give an index to another device.
    """
    inside = rdma_netlink.connect(node.system) if devices else None
    if inside is None:
        return
    try:
        if rdma_netlink.netns_mode(inside) == "exclusive":
            for name, index in rdma_indexes(inside).items():
                if index in devices:
                    if name != devices[index]:
                        rdma_netlink.rename(inside, index, devices[index])
                    rdma_netlink.move(inside, index, node.fd)
    finally:
        inside.close()


def rdma_indexes(sock: NetlinkSocket) -> dict[str, int]:
    """Return the RDMA devices of a socket's namespace: name -> index."""
    return {row["name"]: row["index"] for row in rdma_netlink.devices(sock, MOST)}

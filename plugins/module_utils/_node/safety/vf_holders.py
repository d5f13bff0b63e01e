# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the holders of VFs, because removing a VF or its driver would disconnect a pod, a virtual machine or a process;
and find ports in another network namespace, which cannot be changed from here.

A VF is held if

- its netdev or RDMA device is in another network namespace (sysfs keeps an empty ``net`` or ``infiniband``);
- a process has its VFIO, UIO or verbs file open, or Xen assigned it to a guest;
- an interface (bond, bridge, VLAN, macvlan, also one in another namespace) or a soft RDMA link is built on its
  netdev, or its netdev has an address of global scope.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import (
    NARROW_SCOPES,
    Address,
    Link,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import network_namespaces
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.network_namespaces import Namespace
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.pci_functions import DEVICES
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import namespace_holders
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.namespace_holders import Elsewhere

SHOWN_MAX = 3

Look = t.Callable[[System, t.Sequence[Namespace]], t.Dict[str, Elsewhere]]


class Moved(t.NamedTuple):
    """The place of a function's device, as a sentence (``why``). ``netdev``: the name that it had here, ``mac``: its
    hardware address; None if unknown.
    """

    why: str
    netdev: str | None = None
    mac: str | None = None


class LinkTable(t.Protocol):
    """The methods of :class:`.rtnetlink.Rtnetlink` that are needed."""

    def links(self, vfs: bool = False) -> list[Link]: ...

    def addresses(self) -> list[Address]: ...


Holders = t.Callable[[System, t.Sequence[str], t.Any], t.Dict[str, t.List[str]]]


def of(
    system: System, functions: t.Sequence[str], table: LinkTable, look: Look = namespace_holders.look
) -> dict[str, list[str]]:
    """Return the holders of each VF by PCI address, as sentences without a full stop.

    :raises RailyardError: if it cannot be determined, such as if root cannot read a process.
    """
    held: dict[str, list[str]] = {pci: [] for pci in functions}
    _holders_of_files(system, held)
    netdevs: dict[str, str] = {}
    hidden: dict[str, list[str]] = {}
    for pci in functions:
        driver = system.link_name("%s/%s/driver" % (DEVICES, pci))
        if driver in ("pciback", "xen-pciback"):
            held[pci].append("Xen holds it for a guest (driver %s)" % driver)
        for name in system.listdir("%s/%s/net" % (DEVICES, pci)):
            netdevs[name] = pci
            held[pci].extend(_interfaces_above(system, name))
        hidden[pci] = [what for what in ("net", "infiniband") if is_hidden(system, pci, what)]
    indices: dict[int, str] = {}
    if netdevs:
        indices = {link.ifindex: link.name for link in table.links() if link.name in netdevs}
        for address in table.addresses():
            if address.ifindex in indices and address.scope not in NARROW_SCOPES:
                name = indices[address.ifindex]
                held[netdevs[name]].append("its netdev %s has the address %s" % (name, address.interface))
    if netdevs or any(hidden.values()):
        local_links = {index: (name, netdevs[name]) for index, name in indices.items()}
        _holders_elsewhere(system, held, hidden, local_links, look, network_namespaces.sees_all())
    return held


def is_hidden(system: System, pci: str, what: str) -> bool:
    """Return whether a function's netdev (``net``) or RDMA device (``infiniband``) is in another network namespace."""
    path = "%s/%s/%s" % (DEVICES, pci, what)
    return system.exists(path) and not system.listdir(path)


def moved(
    system: System, functions: t.Iterable[str | None], what: str = "net", look: Look = namespace_holders.look
) -> dict[str, Moved]:
    """Return the PCI functions whose netdev (``net``) or RDMA device (``infiniband``) is in another network namespace,
    such as that of a pod. Does not read other namespaces if there are none.
    """
    hidden = {pci: [what] for pci in functions if pci and is_hidden(system, pci, what)}
    if not hidden:
        return {}
    held: dict[str, list[str]] = {pci: [] for pci in hidden}
    rows: dict[str, t.Mapping[str, t.Any]] = {}

    def looked(system: System, namespaces: t.Sequence[Namespace]) -> dict[str, Elsewhere]:
        seen = look(system, namespaces)
        for each in seen.values():
            rows.update({row["pci"]: row for row in each.netdevs if row["pci"] in hidden})
        return seen

    # a device that is not in this namespace is held, also if other namespaces cannot be read
    _holders_elsewhere(system, held, hidden, {}, looked, False)
    return {
        pci: Moved("; ".join(why), rows[pci].get("alias") or rows[pci]["name"], rows[pci].get("mac"))
        if pci in rows
        else Moved("; ".join(why))
        for pci, why in held.items()
    }


def interfaces_on(
    system: System, links: t.Mapping[int, str], look: Look = namespace_holders.look
) -> dict[str, list[str]]:
    """Return what is built on interfaces in other network namespaces, such as those of pods, by their names.

    :param links: index of an interface -> its name.
    """
    held: dict[str, list[str]] = {name: [] for name in links.values()}
    local_links = {index: (name, name) for index, name in links.items()}
    _holders_elsewhere(system, held, {}, local_links, look, network_namespaces.sees_all())
    return held


def rdma_holders(system: System, pci: str) -> list[str]:
    """Return the holder of a function's RDMA device in another network namespace, as a sentence; empty without one."""
    if not is_hidden(system, pci, "infiniband"):
        return []
    return [each.why for each in moved(system, [pci], "infiniband").values()]


def not_changed(port: str, pci: str, why: str) -> str:
    """Return the message about a port in another network namespace, which is not changed."""
    return "%s (%s) is not changed: %s. Remedy: to change it, run again after it is back" % (port, pci, why)


def _interfaces_above(system: System, netdev: str) -> list[str]:
    place = "/sys/class/net/" + netdev
    entries = system.listdir(place)
    found = ["%s uses its netdev %s" % (entry[len("upper_") :], netdev) for entry in entries if entry[:6] == "upper_"]
    for device in system.listdir("/sys/class/infiniband"):
        if system.read("/sys/class/infiniband/%s/parent" % device) == netdev:
            found.append("the RDMA link %s uses its netdev %s" % (device, netdev))
    return found


def _holders_of_files(system: System, held: dict[str, list[str]]) -> None:
    owners: dict[str, str] = {}
    for pci in held:
        for path in device_files(system, pci):
            owners[path] = pci
    if not owners:
        return
    found = network_namespaces.users_of_files(system, owners.__contains__, network_namespaces.sees_all())
    for path, pids in sorted(found.items()):
        who = ["%s pid %d" % (network_namespaces.command(system, pid), pid) for pid in pids[:SHOWN_MAX]]
        who += ["%d more" % (len(pids) - SHOWN_MAX)] if len(pids) > SHOWN_MAX else []
        held[owners[path]].append("%s is open in %s" % (path, ", ".join(who)))


def device_files(system: System, pci: str) -> list[str]:
    """Return the files under ``/dev`` through which a process uses the function."""
    place = "%s/%s/" % (DEVICES, pci)
    found = ["/dev/infiniband/" + name for name in system.listdir(place + "infiniband_verbs")]
    found += ["/dev/" + name for name in system.listdir(place + "uio")]
    found += ["/dev/vfio/devices/" + name for name in system.listdir(place + "vfio-dev")]
    group = system.link_name(place + "iommu_group")
    if group and "vfio" in (system.link_name(place + "driver") or ""):
        found += ["/dev/vfio/" + group, "/dev/vfio/noiommu-" + group]
    return found


def _holders_elsewhere(
    system: System,
    held: dict[str, list[str]],
    hidden: dict[str, list[str]],
    local_links: dict[int, tuple[str, str]],
    look: Look,
    complete: bool,
) -> None:
    namespaces = network_namespaces.others(system, complete)
    seen = look(system, namespaces)
    located: set[tuple[str, str]] = set()
    unread = [namespace for namespace in namespaces if namespace.identity not in seen] if local_links else []
    # a namespace that has ended uses nothing
    present = {each.identity for each in network_namespaces.others(system, complete)} if unread else set()
    for namespace in unread:
        if namespace.identity in present:
            for name, pci in local_links.values():
                held[pci].append("network namespace %s cannot be read, and may use its netdev %s" % (namespace, name))
    for namespace in namespaces:
        elsewhere = seen.get(namespace.identity)
        if not elsewhere:
            continue
        for netdev in elsewhere.netdevs:
            if netdev["pci"] in held:
                located.add((netdev["pci"], "net"))
                held[netdev["pci"]].append("its netdev %s is in network namespace %s" % (netdev["name"], namespace))
            if netdev["below"] in local_links:
                name, pci = local_links[netdev["below"]]
                held[pci].append(
                    "%s %s in network namespace %s uses its netdev %s"
                    % (netdev["kind"] or "netdev", netdev["name"], namespace, name)
                )
        for pci, what in hidden.items():
            verbs = system.listdir("%s/%s/infiniband_verbs" % (DEVICES, pci))
            if "infiniband" in what and set(verbs).intersection(elsewhere.uverbs):
                located.add((pci, "infiniband"))
                held[pci].append("its RDMA device is in network namespace %s" % namespace)
    for pci, what in hidden.items():
        for each in what:
            if (pci, each) not in located:
                thing = "netdev" if each == "net" else "RDMA device"
                held[pci].append("its %s is in another network namespace, which cannot be entered" % thing)

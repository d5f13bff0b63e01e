# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RDMA links of a node's ports: create and remove soft links, give hardware stable names, and wait for all of them.

A port is identified by its netdev or its PCI function, not by the present name of its device, so the run after an
interrupted one finds each device.
"""

from __future__ import annotations

import contextlib
import errno
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._node.boot.persistent import PersistentSubsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.staying import Staying, without
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import MANAGEMENT, Layer, State
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError, NetlinkSocket
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.in_child import apart
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rename_order import renames
from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma.rdma_link_changes import (
    HARDWARE,
    LinkPlan,
    Port,
    in_use,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import netdev_pci

RANK = 20
MODULE = "rdma_link"
IFF_UP = 0x1
POLL = 0.2
DELETE_TIMEOUT = 20.0
REMEDIES = {
    errno.EEXIST: "another device has the name, or the netdev has such a link that is not visible here",
    errno.EINVAL: "see the kernel's messages (dmesg); the netdev may be of a kind that cannot carry such a link",
    errno.ENODEV: "run the task again: the netdev or the device went away meanwhile",
    errno.EPERM: "run the task with become",
}

Options = t.Mapping[str, t.Any]
Row = t.Dict[str, t.Any]
Connect = t.Callable[[System], t.Optional[NetlinkSocket]]

PORT_SPEC: dict[str, t.Any] = {
    "name": {"type": "str", "required": True},
    "type": {"type": "str", "choices": ["hardware", "rxe", "siw"], "default": "hardware"},
    "netdev": {"type": "str"},
    "pci": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
}

SPEC: dict[str, t.Any] = {
    **MANAGEMENT,
    "ports": {"type": "list", "elements": "dict", "options": PORT_SPEC},
    "wait_active": {"type": "float", "default": 0},
    "force": {"type": "bool", "default": False},
    "persist": {"type": "bool", "default": True},
    "complete": {"type": "bool", "default": False},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}


class RdmaLink(PersistentSubsystem):
    """The RDMA links of the given ports. See the module's documentation for the options.

    Without ports, ``state: absent`` removes the settings of all persistent ports.

    :param connect, run_apart: the interfaces to the kernel, for tests.
    """

    changes_devices = True

    def __init__(
        self,
        options: Options,
        system: System,
        connect: Connect = rdma_netlink.connect,
        run_apart: t.Callable[[t.Callable[[], None], float], bool] = apart,
    ) -> None:
        state, persist = options.get("state"), bool(options.get("persist", False))
        super().__init__(system, RANK, MODULE, state == "absent", persist)
        ports: t.Sequence[Options] = () if state == "gathered" else options.get("ports") or ()
        self._ports = [Port("ports[%d]" % number, each) for number, each in enumerate(ports)]
        self._wait_active: float = options.get("wait_active") or 0
        self._force = bool(options.get("force", False))
        self._connect = connect
        self._run_apart = run_apart
        self._complete = persist and bool(options.get("complete"))
        # the ports to remove, read once, because removal deletes the persistent options
        self._to_remove: list[Port] | None = None

    def observe(self) -> State:
        """Return ``ports``: the visible RDMA devices in the shape of the options; ``links``: states of their ports."""
        sock = self._connect(self._system)
        if sock is None:
            return {"ports": [], "links": []}
        with contextlib.closing(sock):
            devices = rdma_netlink.devices(sock)
            links = rdma_netlink.links(sock, devices)
            netdevs = {link["device_index"]: link["netdev"] for link in reversed(links)}
            ports = []
            for device in devices:
                kind = rdma_netlink.link_type(sock, self._system, device)
                netdev = netdevs.get(device["index"])
                pci = pci_functions.of_rdma_device(self._system, device["name"]) if kind == HARDWARE else None
                if kind != HARDWARE and netdev:
                    pci = netdev_pci(self._system, netdev)
                ports.append({"name": device["name"], "type": kind, "netdev": netdev, "pci": pci, "state": "present"})
            return {
                "ports": ports,
                "links": [
                    {key: link[key] for key in ("device", "port", "state", "physical_state", "netdev")}
                    for link in links
                ],
            }

    def changes(self, state: State) -> list[Change]:
        del self.warnings[:]
        plan = LinkPlan(self._system, state["ports"])
        if self._absent:
            return self._taken_back(plan)
        plan.resolve(self._ports)
        staying = self._remove_other_ports(plan) if self._complete else []
        self._raise_refusals(plan)
        self.warnings.extend(plan.ignored)
        changes = [self._delete(row) for row in plan.deletes]
        locations = {row["name"]: row["pci"] or row["netdev"] for row in state["ports"]}
        for before, after in renames((row["name"] for row in plan.kept_devices()), plan.names):
            locations[after] = locations[before]
            changes.append(self._rename(locations[before], before, after))
        changes += [self._load(kind) for kind in plan.modules]
        changes += [self._create(port, netdev) for port, netdev in plan.creates]
        if self._persist:
            changes += self._boot_changes(staying)
        return changes

    def _remove_other_ports(self, plan: LinkPlan) -> list[Staying]:
        """Plan the removal of persistent ports that are not in the options. Return what stays until the next boot."""
        boot = self._boot()
        removed = [Port(boot.file, each) for each in _named(boot.ports()) if not self._is_in_options(each)]
        # a device of one of the ports belongs to that port, whatever its present name is
        return plan.plan_removal([port for port in removed if port.name not in plan.names], named=False)

    def _is_in_options(self, kept: Row) -> bool:
        return any(port.same_device(kept) for port in self._ports)

    def _raise_refusals(self, plan: LinkPlan) -> None:
        if plan.touched and not self._force:
            with contextlib.closing(self._socket()) as sock:
                plan.refuse_in_use(sock)
        raise_all(plan.errors)

    def outcome(self, state: State, pending: t.Sequence[Change]) -> dict[str, t.Any]:
        """Wait for the links, unless they are only predicted or removed."""
        if not pending and self._wait_active and not self._absent:
            state["links"] = self._wait()
        return super().outcome(state, pending)

    def _taken_back(self, plan: LinkPlan) -> list[Change]:
        boot = self._boot()
        kept = _named(boot.ports())
        if self._to_remove is None:
            self._to_remove = self._ports_to_remove(kept, boot.file)
        staying = plan.plan_removal(self._to_remove, named=bool(self._ports))
        self._raise_refusals(plan)
        # a later run may be able to remove links that an earlier one could not
        self._staying = without(boot.staying(staying), "rdma-link", {row["name"] for row in plan.deletes})
        changes = [self._delete(row) for row in plan.deletes]
        if not self._persist:
            return changes
        remaining = [each for each in kept if not any(port.same_device(each) for port in self._to_remove)]
        return changes + boot.changes({"ports": remaining} if remaining else None, staying=self._staying)

    def _ports_to_remove(self, kept: t.Sequence[Row], place: str) -> list[Port]:
        """Return the ports to remove: persistent ones, and soft links of the options that are not persistent."""
        if not self._ports:
            return [Port(place, each) for each in kept]
        found = []
        for port in self._ports:
            ours = [each for each in kept if port.same_device(each)]
            if ours:
                found += [Port(port.place, each) for each in ours]
            elif port.type != HARDWARE:
                found.append(port)
        return found

    def _boot_changes(self, staying: t.Sequence[Staying]) -> list[Change]:
        boot = self._boot()
        # the options may name only some of a node's ports: the others stay persistent
        kept = [] if self._complete else [port for port in _named(boot.ports()) if not self._is_in_options(port)]
        kept += [port.as_options() for port in self._ports if port.present]
        kept.sort(key=lambda port: str(port["name"]))
        desired_names = {port.name for port in self._ports if port.present}
        known = [each for each in boot.staying(staying) if each.id in ("rdma-link", "rdma-name")]
        left = without(without(known, "rdma-name", desired_names), "rdma-link", desired_names)
        return boot.changes({"ports": kept} if kept else None, left=left, new=staying)

    def _socket(self) -> NetlinkSocket:
        sock = self._connect(self._system)
        if sock is None:
            raise RailyardError("the RDMA subsystem is not loaded", "ib_core", "load it: modprobe ib_core")
        return sock

    def _call_kernel(self, place: str, act: t.Callable[[NetlinkSocket], None]) -> None:
        with contextlib.closing(self._socket()) as sock:
            try:
                act(sock)
            except NetlinkError as error:
                error.place = place
                error.remedy = error.remedy or REMEDIES.get(error.errno, "see the kernel's messages (dmesg)")
                raise

    def _index(self, sock: NetlinkSocket, name: str) -> int:
        for device in rdma_netlink.devices(sock):
            if device["name"] == name:
                return int(device["index"])
        raise RailyardError("there is no such RDMA device any more", name, "run the task again")

    def _delete(self, row: Row) -> Change:
        name = row["name"]
        return Change(
            name,
            "link",
            "%s on %s" % (row["type"], row["netdev"]),
            None,
            lambda: self._call_kernel(name, lambda sock: self._delete_now(sock, name)),
        )

    def _delete_now(self, sock: NetlinkSocket, name: str) -> None:
        index = self._index(sock, name)
        users = self._refuse_new_users(sock, index, name, "taken away")
        # the kernel waits, uninterruptibly, until no process has the device open
        if not self._run_apart(lambda: rdma_netlink.delete_link(sock, index), DELETE_TIMEOUT):
            raise RailyardError(
                "the kernel is taking it away, and waits until it is closed by %s"
                % (", ".join(str(user) for user in users) or "the program that has it open"),
                name,
                "end the users; the removal then ends by itself, and the task can be run again",
            )

    def _refuse_new_users(self, sock: NetlinkSocket, index: int, name: str, what: str) -> list[rdma_netlink.Holder]:
        """Refuse to change a device that has users now, unless the change is forced. Return the users."""
        users = rdma_netlink.holders(sock, self._system, index, contexts=what != "renamed")
        if users and not self._force:
            raise in_use(name, what, users, name)
        return users

    def _rename(self, location: str, before: str, after: str) -> Change:
        def rename(sock: NetlinkSocket) -> None:
            index = self._index(sock, before)
            self._refuse_new_users(sock, index, before, "renamed")
            rdma_netlink.rename(sock, index, after)

        return Change(location, "name", before, after, lambda: self._call_kernel(before, rename))

    def _create(self, port: Port, netdev: str) -> Change:
        def act() -> None:
            self._call_kernel(port.place, lambda sock: rdma_netlink.new_link(sock, port.name, port.type, netdev))

        return Change(port.name, "link", None, "%s on %s" % (port.type, netdev), act)

    def _load(self, module: str) -> Change:
        argv = [self._system.which("modprobe") or "modprobe", module]
        return Change(module, "module", None, "loaded", lambda: self._modprobe(argv))

    def _modprobe(self, argv: t.Sequence[str]) -> None:
        self._system.check(argv, "see the kernel's messages (dmesg)")

    # waiting

    def _wait(self) -> list[Row]:
        deadline = time.monotonic() + self._wait_active
        wanted = {port.name: port for port in self._ports if port.present}
        while True:
            links = self.observe()["links"]
            not_active = [link for link in links if link["device"] in wanted and link["state"] != "ACTIVE"]
            if not not_active:
                return t.cast("list[Row]", links)
            if time.monotonic() >= deadline:
                order = list(wanted)
                not_active.sort(key=lambda link: order.index(link["device"]))
                raise_all([self._why_not_active(link, wanted[link["device"]]) for link in not_active])
            time.sleep(POLL)

    def _why_not_active(self, link: Row, port: Port) -> RailyardError:
        state = "%s port %s is %s (%s) after %g s" % (
            link["device"],
            link["port"],
            link["state"],
            link["physical_state"],
            self._wait_active,
        )
        netdev = link["netdev"] or port.netdev
        if netdev and self._system.exists("/sys/class/net/%s" % netdev):
            flags = self._system.read_int("/sys/class/net/%s/flags" % netdev) or 0
            if not flags & IFF_UP:
                return RailyardError(
                    "%s: %s is administratively down" % (state, netdev),
                    port.place,
                    "set it up: ip link set %s up" % netdev,
                )
            if self._system.read("/sys/class/net/%s/carrier" % netdev) != "1":
                return RailyardError(
                    "%s: %s has no carrier" % (state, netdev), port.place, "look at the cable and at the switch's port"
                )
        if link["state"] in ("INIT", "ARMED"):
            return RailyardError(
                "%s: no subnet manager has brought it up" % state, port.place, "start one on the fabric (opensm)"
            )
        return RailyardError(state, port.place, "look at the cable and at the switch's port; see dmesg")


def _named(ports: t.Iterable[Row]) -> list[Row]:
    """Return the persistent ports that have names, which are those of this module."""
    return [each for each in ports if each.get("name")]


LAYER = Layer(SPEC, RdmaLink, required_if=[("state", "present", ["ports"])])

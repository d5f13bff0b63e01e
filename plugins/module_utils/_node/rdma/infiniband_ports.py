# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""InfiniBand rail ports: IPoIB mode, child interfaces for partitions, and the state of the subnet manager.

Sources: the kernel's ``Documentation/infiniband/ipoib.rst`` and ``drivers/infiniband/ulp/ipoib``, and
``Documentation/ABI/stable/sysfs-class-infiniband``. Without a subnet manager a port stays in state INIT and has no LID.
If the subnet manager does not support virtualization, the port is ACTIVE but its VFs are not.
"""

from __future__ import annotations

import errno
import re
import typing as t
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    RailyardError,
    Refused,
    Unsupported,
    collected,
    raise_all,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.boot.persistent import PersistentSubsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.staying import Staying, without
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import MANAGEMENT, Layer, State
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import ARPHRD_INFINIBAND
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions as pci
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import port_reference, vf_holders
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import (
    ManagementPath,
    netdev_pci,
)

MODULE = "ib_ports"
RANK = 15
NET = "/sys/class/net"
RDMA = "/sys/class/infiniband"
ACTIVE = "ACTIVE"
FULL, DEFAULT = 0x8000, 0x7FFF
NAME_MAX = 15
ASK_SECONDS = 10.0
#: the program that queries the subnet manager, from the package infiniband-diags
ASK = "sminfo"
NO_GUIDS = "0000:0000:0000:0000"

PORT_SPEC: dict[str, t.Any] = {
    "pci": {"type": "str"},
    "netdev": {"type": "str"},
    "mode": {"type": "str", "choices": ["datagram", "connected"]},
    # numbers of partitions, not secrets
    "pkeys": {"type": "list", "elements": "str", "default": [], "no_log": False},
}

SPEC: dict[str, t.Any] = {
    **MANAGEMENT,
    "ports": {"type": "list", "elements": "dict", "options": PORT_SPEC},
    "subnet_manager": {"type": "str", "choices": ["reported", "required", "ignored"], "default": "reported"},
    "persist": {"type": "bool", "default": True},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}


class Port(t.NamedTuple):
    """One desired port. ``place``: the place of its options; ``mode`` None: not changed."""

    place: str
    pci: str | None
    netdev: str | None
    mode: str | None
    pkeys: tuple[int, ...]


class Seen(t.NamedTuple):
    """One observed port. ``children``: partition key -> interface. ``known``: keys that the subnet manager assigned."""

    netdev: str
    device: str | None
    number: int
    mode: str | None
    children: dict[int, str]
    known: tuple[int, ...]
    manager: dict[str, t.Any]


class IbPorts(PersistentSubsystem):
    """See the module's documentation for the options.

    :param management, bring_up: the management path, and a function that sets an interface up, for tests.
    """

    changes_devices = True

    def __init__(
        self,
        options: t.Mapping[str, t.Any],
        system: System,
        management: ManagementPath | None = None,
        bring_up: t.Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(system, RANK, MODULE, options.get("state") == "absent", bool(options.get("persist", True)))
        self._refuse_ports(options)
        self._management = management
        self._bring_up = bring_up or _bring_up
        self._manager = options.get("subnet_manager") or "reported"
        self._gather = options.get("state") == "gathered"
        port_options = options.get("ports")
        if port_options is None:
            port_options = [{"netdev": name} for name in self._every_port()] if self._gather else []
        self._options = [dict(each, pci=_address(each.get("pci"))) for each in port_options]
        self._ports = self._read(port_options)
        self._local_ports = self._ports
        self._ignored: list[str] = []
        # the ports to remove, read once, because removal deletes the persistent options
        self._going: list[dict[str, t.Any]] | None = None

    # -- desired state ------------------------------------------------------------------------------------------------

    def _read(self, port_options: t.Sequence[t.Mapping[str, t.Any]]) -> list[Port]:
        errors: list[RailyardError] = []
        ports = []
        for number, each in enumerate(port_options):
            place = "ports[%d]" % number
            port = port_reference.read(each, place, errors)
            keys = []
            for index, text in enumerate(each.get("pkeys") or []):
                key = _pkey(text)
                if key is None:
                    message = "%r is not a partition key" % (text,)
                    remedy = "write it from 0x0001 to 0x7ffe, with or without the bit 0x8000 of full members"
                    errors.append(RailyardError(message, "%s.pkeys[%d]" % (place, index), remedy))
                elif key not in keys:
                    keys.append(key)
            ports.append(Port(place, port.pci, port.netdev, each.get("mode"), tuple(keys)))
        port_reference.refuse_duplicate_ports(ports, errors)
        raise_all(errors)
        return ports

    def _every_port(self) -> list[str]:
        return [
            name
            for name in self._system.listdir(NET)
            if self._system.read_int("%s/%s/type" % (NET, name)) == ARPHRD_INFINIBAND and not self._parent(name)
        ]

    # -- observed state -----------------------------------------------------------------------------------------------

    def observe(self) -> State:
        errors: list[RailyardError] = []
        rows: list[State] = []
        seen: list[Seen] = []
        held = vf_holders.moved(self._system, [port.pci for port in self._ports])
        self._local_ports = [port for port in self._ports if port.pci not in held]
        self._ignored = [
            vf_holders.not_changed(each.place, each.pci, held[each.pci].why) for each in self._ports if each.pci in held
        ]
        for port in self._local_ports:
            with collected(errors):
                observed_port = self._observe_port(port)
                seen.append(observed_port)
                rows.append(
                    {
                        "pci": port.pci or netdev_pci(self._system, observed_port.netdev),
                        "netdev": observed_port.netdev,
                        "mode": observed_port.mode,
                        "mtu": self._system.read_int("%s/%s/mtu" % (NET, observed_port.netdev)),
                        "pkeys": ["0x%04x" % key for key in observed_port.children],
                        "children": list(observed_port.children.values()),
                        "known_pkeys": ["0x%04x" % key for key in observed_port.known],
                        "subnet_manager": observed_port.manager,
                    }
                )
        raise_all(errors)
        state = _State(ports=rows)
        state.seen = seen
        return state

    def _observe_port(self, port: Port) -> Seen:
        netdev = self._netdev(port)
        function = port.pci or netdev_pci(self._system, netdev)
        devices = pci.rdma_devices(self._system, function) if function else []
        device = devices[0] if devices else None
        number = (self._system.read_int("%s/%s/dev_port" % (NET, netdev)) or 0) + 1
        place = "%s/%s/ports/%d" % (RDMA, device, number)
        held = [
            self._system.read_int("%s/pkeys/%s" % (place, index)) for index in self._system.listdir(place + "/pkeys")
        ]
        known = tuple(sorted({key for key in held if key}))
        manager = self._subnet_manager(device, number, function) if device else _no_manager()
        mode = self._system.read("%s/%s/mode" % (NET, netdev))
        return Seen(netdev, device, number, mode, self._children(netdev), known, manager)

    def _children(self, netdev: str) -> dict[int, str]:
        """Return the child interfaces of a port: partition key -> name."""
        children = {}
        for name in self._system.listdir(NET):
            key = self._system.read_int("%s/%s/pkey" % (NET, name)) if self._parent(name) == netdev else None
            if key is not None:
                children[key] = name
        return dict(sorted(children.items()))

    def _netdev(self, port: Port) -> str:
        netdev = port_reference.netdev_of(self._system, port)
        if self._system.read_int("%s/%s/type" % (NET, netdev)) != ARPHRD_INFINIBAND:
            message = "%s is not an IPoIB interface" % netdev
            remedy = "set the card's link type to ib (mlx_linktype), or leave the port out"
            raise RailyardError(message, port.place + (".pci" if port.pci else ".netdev"), remedy)
        return netdev

    def _parent(self, netdev: str) -> str | None:
        """Return the parent of a child interface; None for a port."""
        return self._system.read("%s/%s/parent" % (NET, netdev)) or None

    def _subnet_manager(self, device: str, number: int, function: str | None) -> dict[str, t.Any]:
        place = "%s/%s/ports/%d" % (RDMA, device, number)
        state = (self._system.read(place + "/state") or "").partition(":")[2].strip()
        lid, manager = (self._system.read_int("%s/%s" % (place, name)) or 0 for name in ("lid", "sm_lid"))
        found = _no_manager()
        found.update(
            state=state or None,
            physical_state=(self._system.read(place + "/phys_state") or "").partition(":")[2].strip() or None,
            rate=self._system.read(place + "/rate"),
            lid=lid,
            sm_lid=manager,
            reachable=state == ACTIVE and bool(lid) and bool(manager),
        )
        if found["reachable"] and self._manager != "ignored":
            found.update(self._query_manager(device, number))
        if function:
            found["virtualization"] = self._virtualization(function, found["reachable"])
        return found

    def _query_manager(self, device: str, number: int) -> dict[str, t.Any]:
        """Query the subnet manager, because a port may have the LID of a stopped one. Empty without the program."""
        program = self._system.which(ASK)
        if not program:
            return {}
        result = self._system.run([program, "-C", device, "-P", str(number)], ASK_SECONDS)
        match = re.search(r"sm lid (\d+) sm guid (0x[0-9a-f]+).*?priority (\d+) state \d+ (\w+)", result.out)
        if result.rc or not match:
            return {"reachable": False}
        return {"guid": match.group(2), "priority": int(match.group(3)), "role": match.group(4)}

    def _virtualization(self, function: str, reachable: bool) -> bool | None:
        """Return whether the subnet manager supports VFs, by the state of those with GUIDs; None if unknown."""
        shown: list[bool] = []
        for vf in pci.virtual_functions(self._system, function):
            for device in pci.rdma_devices(self._system, vf):
                guid = self._system.read("%s/%s/node_guid" % (RDMA, device)) or NO_GUIDS
                state = self._system.read("%s/%s/ports/1/state" % (RDMA, device)) or ""
                if guid != NO_GUIDS and state:
                    shown.append(state.endswith(ACTIVE))
        return any(shown) if shown and reachable else None

    # -- changes ------------------------------------------------------------------------------------------------------

    def changes(self, state: State) -> list[Change]:
        self.warnings = list(self._ignored)
        management = self._management = self._management or ManagementPath.observe(self._system)
        if self._absent:
            return self._taken_back(management)
        errors: list[RailyardError] = []
        changes: list[Change] = []
        kept = self._boot().ports() if self._persist else []
        former = {self._key(each.get("pci"), each.get("netdev")): each for each in kept}
        for port, seen in zip(self._local_ports, t.cast(_State, state).seen):
            port_changes = self._port_changes(port, seen, former.get(self._key(port.pci, port.netdev)) or {})
            why = management.why_netdev(seen.netdev)
            if port_changes and why:
                remedy = "leave it out of the ports"
                errors.append(Refused("%s is not changed: %s" % (seen.netdev, why), port.place, remedy))
            for each in port_changes:
                why = management.why_netdev(each.subject) if each.subject != seen.netdev else None
                if why:
                    remedy = "keep its partition in pkeys, or connect and route over another interface"
                    errors.append(Refused("%s is not changed: %s" % (each.subject, why), port.place + ".pkeys", remedy))
            changes += port_changes
            errors += self._name_errors(port, seen) + self._manager_errors(port, seen)
        named = {self._key(port.pci, port.netdev) for port in self._ports}
        removals, modes, staying = self._without(
            [each for which, each in former.items() if which not in named], management
        )
        self.warnings += [each.text for each in staying]
        raise_all(errors)
        changes += removals
        if not self._persist:
            return changes
        return changes + self._boot_changes(modes + staying)

    def _key(self, function: t.Any, netdev: t.Any) -> str:
        """Return the key of a port: its PCI address, else its netdev."""
        return _address(function) or netdev_pci(self._system, str(netdev)) or str(netdev)

    def _name_errors(self, port: Port, seen: Seen) -> list[RailyardError]:
        names = ["%s.%04x" % (seen.netdev, key) for key in port.pkeys if key not in seen.children]
        return [
            RailyardError(
                "%s is longer than an interface's name may be" % name,
                port.place + ".pkeys",
                "give the port a shorter name",
            )
            for name in names
            if len(name) > NAME_MAX
        ]

    def _taken_back(self, management: ManagementPath) -> list[Change]:
        """Return the changes that remove the children of earlier runs. The former value of a mode is unknown."""
        if self._going is None:
            self._going = self._boot().ports()
        changes, modes, staying = self._without(self._going, management)
        return changes + self._revert_all(modes + staying)

    def _without(
        self, former: t.Sequence[t.Mapping[str, t.Any]], management: ManagementPath
    ) -> tuple[list[Change], list[Staying], list[Staying]]:
        """Return the changes that remove the children of former ports, and the modes and children that stay."""
        moved = vf_holders.moved(self._system, [_address(each.get("pci")) for each in former])
        changes: list[Change] = []
        modes: list[str] = []
        staying: list[Staying] = []
        for option in former:
            port = Port("", _address(option.get("pci")), option.get("netdev"), None, ())
            netdev = None
            why = moved[port.pci].why if port.pci in moved else None
            if not why:
                try:
                    netdev = self._netdev(port)
                except RailyardError:
                    continue  # the port does not exist, so its children do not either
            if option.get("mode"):
                modes.append(netdev or port.netdev or str(port.pci))
            # the children of a port in a pod refer to the name that it had here
            children = self._children(netdev or port.netdev or "")
            seen = Seen(netdev or "", None, 1, None, children, (), _no_manager())
            for each in self._port_changes(port, seen, option):
                left = why or management.why_netdev(each.subject) or management.why_netdev(seen.netdev)
                if left:
                    staying.append(Staying("ipoib-child", (each.subject,), left))
                else:
                    changes.append(each)
        return changes, [Staying("ipoib-mode", tuple(modes))] if modes else [], staying

    def _port_changes(self, port: Port, seen: Seen, former: t.Mapping[str, t.Any]) -> list[Change]:
        changes = []
        if port.mode and port.mode != seen.mode:
            changes.append(Change(seen.netdev, "mode", seen.mode, port.mode, lambda: self._set_mode(port, seen)))
        for key in port.pkeys:
            name = seen.children.get(key)
            if name is None:
                name = "%s.%04x" % (seen.netdev, key)
                create = partial(self._create_child, seen, key, name)
                changes.append(Change(name, "pkey", None, "0x%04x" % key, create, port=seen.netdev))
            elif not (self._system.read_int("%s/%s/flags" % (NET, name)) or 0) & 1:
                changes.append(Change(name, "up", False, True, partial(self._bring_up, name), port=seen.netdev))
        ours = {_pkey(each) for each in former.get("pkeys") or []}
        for key, name in seen.children.items():
            if key in ours and key not in port.pkeys:
                remove = partial(self._write_key, seen, "delete_child", key, errno.ENODEV)
                changes.append(Change(name, "pkey", "0x%04x" % key, None, remove, port=seen.netdev))
        return changes

    def _set_mode(self, port: Port, seen: Seen) -> None:
        path = "%s/%s/mode" % (NET, seen.netdev)
        try:
            # the kernel requires the newline
            self._system.write_attribute(path, "%s\n" % port.mode)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EPERM, errno.EOPNOTSUPP, errno.ENOENT):
                raise RailyardError(str(error.strerror), path, "run the task with become, and again") from None
            raise Unsupported(
                "%s does not take the mode %s: the accelerated IPoIB of this card has none but datagram"
                % (seen.netdev, port.mode),
                port.place + ".mode",
                "write datagram, or load the driver without the acceleration (options ib_ipoib ipoib_enhanced=0)",
            ) from None

    def _create_child(self, seen: Seen, key: int, name: str) -> None:
        self._write_key(seen, "create_child", key, errno.ENOTUNIQ)
        self._bring_up(name)

    def _write_key(self, seen: Seen, attribute: str, key: int, done_errno: int) -> None:
        path = "%s/%s/%s" % (NET, seen.netdev, attribute)
        try:
            self._system.write_attribute(path, "0x%04x\n" % key)
        except OSError as error:
            if error.errno != done_errno:
                raise RailyardError(str(error.strerror), path, "see the kernel's messages (dmesg)") from None

    def _manager_errors(self, port: Port, seen: Seen) -> list[RailyardError]:
        """Return errors about a missing or incomplete subnet manager if it is required; else add warnings."""
        findings = []
        manager = seen.manager
        if not manager["reachable"]:
            reason = "the port is %s (%s)" % (
                manager["state"] or "without a state",
                manager["physical_state"] or "unknown",
            )
            if manager["state"] == ACTIVE:
                reason = "the subnet manager with the LID %d does not answer" % manager["sm_lid"]
            remedy = "start a subnet manager on this subnet, or see the cable and the switch's port"
            findings.append(RailyardError("%s has no subnet manager: %s" % (seen.netdev, reason), port.place, remedy))
        elif manager["virtualization"] is False:
            message = "%s is ACTIVE, and none of its VFs that have GUIDs is" % seen.netdev
            remedy = "turn virtualization on in the subnet manager (virt_enabled 2 in NVIDIA's opensm.conf, or UFM)"
            findings.append(RailyardError(message, port.place, remedy))
        if manager["reachable"]:
            for key in port.pkeys:
                if not {key, key & DEFAULT}.intersection(seen.known):
                    message = "the subnet manager has not put %s into the partition 0x%04x" % (seen.netdev, key)
                    remedy = "add the port's GUID to it (partitions.conf of the plan's report has the VFs')"
                    findings.append(RailyardError(message, port.place + ".pkeys", remedy))
        if self._manager == "required":
            return findings
        if self._manager == "reported":
            self.warnings += [str(each) for each in findings]
        return []

    # -- boot ---------------------------------------------------------------------------------------------------------

    def _boot_changes(self, staying: t.Sequence[Staying]) -> list[Change]:
        """Return the changes of the persistent options. ``staying``: settings of other ports that stay."""
        ports = [
            {key: value for key, value in each.items() if value}
            for each in self._options
            if each.get("mode") or each.get("pkeys")
        ]
        # at boot the subnet manager may start after the port, so it is ignored
        kept = {"ports": ports, "subnet_manager": "ignored", "persist": False} if ports else None
        again = [
            'ACTION=="add|bind", SUBSYSTEM=="pci", KERNEL=="%s"' % each["pci"] for each in ports if each.get("pci")
        ]
        left = self._still_staying(self._boot().staying(staying))
        return self._boot().changes(kept, again, left=left, new=staying)

    def _still_staying(self, entries: t.Sequence[Staying]) -> list[Staying]:
        """Return the settings that stay until the boot, without those that are desired again."""
        modes: set[str | None] = set()
        children: set[str] = set()
        for port in self._ports:
            names = {port.netdev, port.pci, *(self._system.listdir("%s/%s/net" % (pci.DEVICES, port.pci)))}
            modes |= names if port.mode else set()
            children |= {"%s.%04x" % (name, key) for name in names for key in port.pkeys}
        known = [each for each in entries if each.id in ("ipoib-mode", "ipoib-child")]
        return without(without(known, "ipoib-mode", modes), "ipoib-child", children)


class _State(t.Dict[str, t.Any]):
    """The observed state in the shape of the options, and the observed ports."""

    seen: list[Seen]


def _address(text: t.Any) -> str | None:
    """Return a PCI address in the form of sysfs; None without a text."""
    return pci.full_address(str(text)) if text else None


def _no_manager() -> dict[str, t.Any]:
    keys = ("state", "physical_state", "rate", "lid", "sm_lid", "guid", "priority", "role", "virtualization")
    return dict(dict.fromkeys(keys), reachable=False)


def _pkey(text: t.Any) -> int | None:
    """Parse a partition key, and set the bit of full membership. None if it is not valid."""
    try:
        number = text if isinstance(text, int) else int(str(text), 0)
    except ValueError:
        return None
    return number | FULL if 0 < number & DEFAULT < DEFAULT and 0 < number < 2 * FULL else None


def _bring_up(netdev: str) -> None:
    # imported only for a child that is created or down
    from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink

    with Rtnetlink() as table:
        link = table.link(netdev)
        if link is None:
            message = "the kernel has not made it"
            raise RailyardError(message, netdev, "see the kernel's messages (dmesg)")
        table.set_link(link.ifindex, up=True)


LAYER = Layer(SPEC, IbPorts, required_if=[("state", "present", ["ports"])])

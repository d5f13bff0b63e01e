# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""A node's rail ports as IP sees them: names, MTU, addresses, tables, rules and sysctls, live and at boot.

The order of the changes is chosen so that a run may be killed anywhere: first the record of what is now ours, then the
live state (what goes before what comes), then the files, then the back-end that reads them, then the record's end mark.
"""

from __future__ import annotations

import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import STEP, Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.staying import Staying
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.until_boot import UntilBoot
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import (
    IP,
    PROTOCOL_KERNEL,
    SCOPE_UNIVERSE,
    TABLE_MAIN,
    Interface,
    Rtnetlink,
    Rule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports import network_files, port_observed
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_changes import Plan
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_observed import Seen, Target
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_spec import (
    NAME,
    RECORD,
    Port,
    Record,
    Via,
    read_ports,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions, sysctl
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import vf_holders
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import (
    ManagementPath,
    netdev_pci,
)

ARPHRD_INFINIBAND = 32
# What is gathered where a port does not say which settings it is about.
USUAL_SYSCTLS = ("arp_announce", "arp_ignore", "rp_filter")
NAMELESS = (
    "%s (%s) has no interface here: no file for the next boot is changed, its neighbours' neither. "
    "Remedy: run again once it has one"
)
UNREADABLE = "%s could not be read: addresses, routes and rules that it recorded stay until the next boot"


class RailPorts(Subsystem):
    """The subsystem of the module ``rail_ports``.

    :param ports: what is wanted; with ``state`` ``absent`` what must go, all that is ours where it is empty.
    :param timeout: seconds to wait for carriers, and for the back-end.
    :param rtnl: the kernel's tables, for tests.
    """

    def __init__(
        self,
        system: System,
        ports: t.Sequence[Port],
        state: str = "present",
        backend: str = "auto",
        persist: bool = True,
        timeout: float = 30.0,
        rtnl: Rtnetlink | None = None,
    ) -> None:
        super().__init__()
        self._system = system
        self._ports = list(ports)
        self._state = state
        self._backend = backend
        self._persist = persist
        self._timeout = timeout
        self._rtnl = rtnl or Rtnetlink()
        self._until_boot = UntilBoot(system, "rail_ports")
        # what has been done: links that may restart, IPv6 addresses that another host may have
        self._disturbed: set[int] = set()
        self._tried: set[tuple[int, Interface]] = set()
        self._results: dict[str, t.Any] = {}

    @classmethod
    def from_options(cls, options: t.Mapping[str, t.Any], system: System) -> RailPorts:
        """From the module's options. Raises all that is wrong with them at once."""
        ports = read_ports(options.get("ports") or [])
        if options["state"] == "present" and not ports:
            raise RailyardError("no rail port is given", "ports", "to take all away again, set state to absent")
        return cls(system, ports, options["state"], options["backend"], options["persist"], float(options["timeout"]))

    # -- observing ---------------------------------------------------------------------------------------------------

    def observe(self) -> Seen:
        self._settle()
        seen = Seen()
        seen.record = Record.read(self._system)
        staying = seen.record.ports if self._state == "absent" else self._ports
        seen.held = vf_holders.moved(self._system, [port.pci for port in staying])
        self._look_at_links(seen)
        known = self._ports + seen.record.ports + seen.record.former
        versions = sorted({side.version for port in known for side in port.sides}) or [4]
        seen.routes = [route for version in versions for route in self._rtnl.routes(version)]
        seen.rules = [rule for version in versions for rule in self._rtnl.rules(version)]
        seen["ports"] = [self._gather(port, seen) for port in self._ports or seen.record.ports]
        return seen

    def outcome(self, state: State, pending: t.Sequence[Change]) -> dict[str, t.Any]:
        ports = [port for port in state["ports"] if port["netdev"]]
        effective = {
            port["netdev"]: {key: sysctl.effective(self._system, port["netdev"], key) for key in sorted(port["sysctl"])}
            for port in ports
        }
        return dict(self._results, effective_sysctl=effective)

    def _gather(self, port: Port, seen: Seen) -> dict[str, t.Any]:
        """The port as it is, in the shape of the option; what is not there is None."""
        link = port_observed.find(self._system, port, seen)[0]
        if link is None:
            bare = Port(port.place, port.rail, port.pci, None, None, None, None, None, None, {})
            return bare.as_options()
        address, address6 = (_address_of(version, port, link, seen) for version in (4, 6))
        rules = [_rule_of(each, port, seen) for each in (address, address6) if each]
        rule = next((rule for rule in rules if rule), None)
        table = rule.table if rule else None
        if address is None and port.address6 is None and port.address and port.address.version == 6:
            # asked for as the one address
            address, address6 = address6, None
        read = {key: sysctl.read(self._system, link.name, key) for key in sorted(port.sysctl) or USUAL_SYSCTLS}
        live = port._replace(
            pci=port.pci or netdev_pci(self._system, link.name),
            netdev=link.name,
            mtu=link.mtu,
            address=address,
            gateway=_gateway(address, table, link, seen),
            address6=address6,
            gateway6=_gateway(address6, table, link, seen),
            table=table,
            priority=rule.priority if rule else None,
            routes=(),
            sysctl={key: value for key, value in read.items() if value is not None},
        )
        return live._replace(routes=_planned_like(port, _routes_beside(live, link, seen))).as_options()

    def _settle(self) -> None:
        """Wait until links that were disturbed (some drivers restart them for a new MTU) have their carrier again."""
        deadline = time.monotonic() + self._timeout
        while self._disturbed and time.monotonic() < deadline:
            names = [link.name for link in self._rtnl.links() if link.ifindex in self._disturbed]
            if all(self._system.read("/sys/class/net/%s/carrier" % name) == "1" for name in names):
                break
            time.sleep(0.2)
        self._disturbed.clear()

    def _look_at_links(self, seen: Seen) -> None:
        """Links and addresses, once the kernel has found out which of ours another host on the rail has."""
        wanted = {side.address for port in self._ports for side in port.sides} if self._state == "present" else set()
        deadline = time.monotonic() + self._timeout
        while True:
            seen.links = {link.ifindex: link for link in self._rtnl.links()}
            seen.addresses = self._rtnl.addresses()
            tentative = [each for each in seen.addresses if each.interface in wanted and seen.is_unsettled(each)]
            if not tentative or time.monotonic() >= deadline:
                return
            time.sleep(0.1)

    # -- deciding ----------------------------------------------------------------------------------------------------

    def changes(self, state: State) -> list[Change]:
        seen = t.cast(Seen, state)
        record = seen.record
        plan = Plan(self._system, self._rtnl, seen, self._disturbed, self._tried)
        absent = self._state == "absent"
        wanted, former = self._ports, record.ports + record.former
        if absent:
            rails = {port.rail for port in self._ports or former}
            wanted = [port for port in record.ports if port.rail not in rails]
            former = [port for port in former if port.rail in rails] + self._ports
        held = {port.rail: seen.held[port.pci] for port in wanted if port.pci in seen.held}
        # what a pod has is neither missing nor to be cleared away: its routes went with it, and come back by its files
        former = [port for port in former if port.rail not in held]
        here = [port for port in wanted if port.rail not in held]
        targets = plan.staying(wanted) if absent else plan.targets(here)
        plan.guard(ManagementPath.observe(self._system), [] if absent else targets, former)
        if not absent:
            plan.check(targets, former)
        if absent and not (record.ports or record.former):
            self._check_recordless(record, plan)
        raise_all(plan.errors)
        backend = self._choose_backend(wanted)
        self._decide(plan, targets, former)
        gone = [port for port in wanted if port.rail in held]
        alone = [vf_holders.left_alone(port.rail, str(port.pci), held[port.rail].why) for port in gone]
        kept = self._kept(wanted, targets, held)
        # by the name that a file is for; without it those that are there stay
        nameless = [port for port in wanted if port.rail not in [each.port.rail for each in kept]]
        alone += [NAMELESS % (port.rail, port.pci) for port in nameless if port.rail not in held]
        self._warn(plan.warnings + backend.warnings() + alone)
        staying = self._staying(record, wanted)
        reasons = plan.reboot_reasons + [each.text for each in staying if absent]
        self._results = {
            "backend": backend.name,
            "reboot_required": bool(reasons),
            "reboot_reasons": reasons,
            "held": [{"rail": port.rail, "pci": port.pci, "by": held[port.rail].why} for port in gone],
        }
        files = self._file_changes(backend, kept) if (self._persist or absent) and not nameless else []

        def load() -> None:
            # a back-end would only say that it is not done
            self._check_duplicates(targets)
            backend.load(kept, [change.subject for change in files], self._timeout)
            self._await_back(targets, former)

        loaded = [Change(backend.name, "loaded", False, True, load, STEP)] if backend.is_running() else []
        # what was set on a held port before is cleared away once it is back
        before = {port.rail: port for port in record.ports if port.rail in held}
        kept_ports = [before.get(port.rail, port) for port in wanted if port.rail not in held or port.rail in before]
        # noted first: whose they were is known from the record
        return self._until_boot.keep(staying) + self._in_record(record, kept_ports, plan.changes, files, loaded)

    def _staying(self, record: Record, wanted: t.Sequence[Port]) -> list[Staying]:
        """The rails whose ports are, or were, taken back: the former values of what stays live are unknown."""
        rails = {rail for each in self._until_boot.read() for rail in each.subjects if NAME.match(rail)}
        if self._state == "absent":
            rails.update(port.rail for port in record.ports + record.former)
        left = sorted(rails - {port.rail for port in wanted})
        return [Staying("rail-port", tuple(left))] if left else []

    def _check_recordless(self, record: Record, plan: Plan) -> None:
        """Without a record of the ports that were set up, the files of ports that were not named are not removed."""
        if self._ports and self._our_files():
            message = "does not show which rail ports are set up, and there are files: all would be removed"
            remedy = "run with state present and the ports that stay, or without ports to take all away"
            plan.errors.append(Refused(message, RECORD, remedy))
        elif not record.done:
            plan.warnings.append(UNREADABLE % RECORD)

    def _decide(self, plan: Plan, targets: t.Sequence[Target], former: t.Sequence[Port]) -> None:
        """The live changes; ``targets``: the desired ports, or with state absent those that stay."""
        if self._state != "absent":
            plan.link_changes(targets)
        plan.remove(former, targets)
        if self._state != "absent":
            plan.add(targets)

    def _await_back(self, targets: t.Sequence[Target], former: t.Sequence[Port]) -> None:
        """Wait until all is live again, or until the timeout: reading back then shows what is missing.

        systemd-networkd takes away, for a moment, rules of ports whose new files it has not come to.
        """
        deadline = time.monotonic() + self._timeout
        while time.monotonic() < deadline:
            plan = Plan(self._system, self._rtnl, self.observe(), set(), set())
            self._decide(plan, plan.targets([each.port for each in targets]), former)
            if not plan.changes:
                return
            time.sleep(0.2)

    def _check_duplicates(self, targets: t.Sequence[Target]) -> None:
        if self._tried:
            seen = Seen()
            self._look_at_links(seen)
            raise_all(
                [
                    error
                    for each in targets
                    for error in port_observed.duplicates(each.port, each.link, seen, self._tried)
                ]
            )

    def _warn(self, warnings: t.Sequence[str]) -> None:
        # a run decides twice: before, and when it reads back
        self.warnings.extend(text for text in warnings if text not in self.warnings)

    def _choose_backend(self, wanted: t.Sequence[Port]) -> network_files.Backend:
        if wanted and self._persist:
            return network_files.choose(self._system, self._backend)
        if self._state == "absent":
            for each in network_files.BACKENDS.values():
                if each(self._system).ours():
                    return each(self._system)
        return network_files.Backend(self._system)

    def _kept(
        self, wanted: t.Sequence[Port], targets: t.Sequence[Target], held: t.Mapping[str, vf_holders.Moved]
    ) -> list[network_files.Kept]:
        by_rail = {target.port.rail: target for target in targets}
        kept: list[network_files.Kept] = []
        for port in wanted:
            target = by_rail.get(port.rail)
            moved = held.get(port.rail)
            netdev = port.netdev or (target.link.name if target else moved.netdev if moved else None)
            if not netdev:
                continue
            kind = self._system.read_int("/sys/class/net/%s/type" % target.link.name) if target else None
            infiniband = (
                pci_functions.is_infiniband(self._system, port.pci) if kind is None else kind == ARPHRD_INFINIBAND
            )
            ifindex = target.link.ifindex if target and target.name == netdev else None
            kept.append(network_files.Kept(port, netdev, ifindex, infiniband))
        return kept

    def _file_changes(self, backend: network_files.Backend, kept: t.Sequence[network_files.Kept]) -> list[Change]:
        system = self._system
        files = dict(network_files.common_files(kept), **backend.files(kept))
        changes: list[Change] = []
        for path, file in sorted(files.items()):
            text, mode = system.read_file(path), system.mode(path)
            act = _writer(system, backend, path, file)
            if text != file.text:
                changes.append(Change(path, "content", text, file.text, act))
            elif mode != file.mode:
                changes.append(Change(path, "mode", "%04o" % (mode or 0), "%04o" % file.mode, act))
        for path in self._our_files():
            if path not in files:
                changes.append(Change(path, "content", system.read_file(path), None, _remover(system, path)))
        return changes

    def _our_files(self) -> list[str]:
        found = network_files.our_common_files(self._system)
        return found + [path for each in network_files.BACKENDS.values() for path in each(self._system).ours()]

    def _in_record(
        self,
        record: Record,
        wanted: t.Sequence[Port],
        live: t.Sequence[Change],
        files: t.Sequence[Change],
        loaded: t.Sequence[Change],
    ) -> list[Change]:
        """All changes in order, with the record opened before and closed after those that a later run must know of.

        :param loaded: what makes the back-end read the files, needed where they change or an earlier run was cut off.
        """
        system = self._system
        here = [port.as_options() for port in record.ports]
        then = [port.as_options() for port in wanted]
        open_already = not record.done
        if here == then and not files and not open_already:
            return list(live)
        former = [port for port in record.ports + record.former if port.as_options() not in then]
        opened, closed = Record(list(wanted), former, False), Record(list(wanted), [], True)
        before: list[Change] = []
        if here != then:
            before.append(Change(RECORD, "ports", here, then, lambda: system.write_file(RECORD, opened.text())))
        elif not open_already:
            before.append(Change(RECORD, "done", True, False, lambda: system.write_file(RECORD, opened.text()), STEP))
        after = list(loaded) if files or open_already else []

        def close() -> None:
            if wanted:
                system.write_file(RECORD, closed.text())
            else:
                system.forget_file(RECORD)

        after.append(Change(RECORD, "done", False, True, close, STEP))
        return before + list(live) + list(files) + after


def _rule_of(address: Interface, port: Port, seen: Seen) -> Rule | None:
    """The rule that leads what comes from an address to a table; the planned one where there are several."""
    rules = [
        rule
        for rule in seen.rules
        if rule.plain and not rule.oif and rule.source and rule.source.network_address == address.ip
    ]
    return next((rule for rule in rules if rule.priority == port.priority), rules[0] if rules else None)


def _address_of(version: int, port: Port, link: Link, seen: Seen) -> Interface | None:
    """The interface's address of an IP version; the planned one where it has several."""
    own = [each.interface for each in seen.of(link) if each.scope == SCOPE_UNIVERSE]
    own = [each for each in own if each.version == version]
    side = port.side(version)
    return side.address if side and side.address in own else next(iter(own), None)


def _gateway(address: Interface | None, table: int | None, link: Link, seen: Seen) -> IP | None:
    """The next hop of the default route of a table."""
    for route in seen.routes if address else []:
        at = (route.table, route.oif, route.destination.version, route.destination.prefixlen)
        if address and at == (table, link.ifindex, address.version, 0):
            return route.gateway
    return None


def _routes_beside(live: Port, link: Link, seen: Seen) -> list[Via]:
    """The interface's routes in the main table and its own, except those that come with address and gateway."""
    by_themselves = port_observed.port_routes(live, link.ifindex)
    found: list[Via] = []
    for route in seen.routes:
        if route.oif != link.ifindex or route.table not in (TABLE_MAIN, live.table):
            continue
        if route.protocol == PROTOCOL_KERNEL or not route.destination.prefixlen or route.destination.is_link_local:
            continue
        if not any(port_observed.is_same_route(route, each) for each in by_themselves):
            found.append(Via(route.destination, route.gateway, None if route.table == TABLE_MAIN else route.table))
    return found


def _planned_like(port: Port, found: t.Sequence[Via]) -> tuple[Via, ...]:
    """In the order of the plan; others after them."""
    order = {route: number for number, route in enumerate(port.routes)}
    return tuple(sorted(found, key=lambda route: (order.get(route, len(order)), str(route.to))))


def _writer(
    system: System, backend: network_files.Backend, path: str, file: network_files.File
) -> t.Callable[[], None]:
    def act() -> None:
        backend.check(path, file.text)
        system.write_file(path, file.text, file.mode)

    return act


def _remover(system: System, path: str) -> t.Callable[[], None]:
    return lambda: system.remove_file(path)

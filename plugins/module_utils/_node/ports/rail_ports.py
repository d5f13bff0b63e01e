# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node's rail ports: names, MTU, addresses, tables, rules and sysctls, live and at boot.

The order of the changes allows a run to be killed at any point: the record of the ports, the live state (removals
before additions), the files, the reload of the back-end, and the mark that the record is complete.
"""

from __future__ import annotations

import time
import typing as t
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import STEP, Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.staying import Staying
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Layer, State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.until_boot import UntilBoot
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import ARPHRD_INFINIBAND, Link
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rail_routes import RouteSpec
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.route_lookup import RouteLookup
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import (
    IP,
    PROTOCOL_KERNEL,
    SCOPE_UNIVERSE,
    TABLE_MAIN,
    Interface,
    Rule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports import (
    foreign_files,
    foreign_netdevs,
    lower_parts,
    netplan_output,
    network_files,
    port_guard,
    port_observed,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.foreign_files import Facts
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.lower_changes import LowerLinks
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.lower_observed import observed_lower
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.persistent_port import File, Kept
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_changes import Plan
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_observed import Seen, Target
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_spec import (
    NAME,
    RECORD,
    SPEC,
    Port,
    Record,
    read_ports,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions, sysctl
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import vf_holders
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import netdev_pci

# The sysctls that are gathered for a port whose spec has none.
USUAL_SYSCTLS = ("arp_announce", "arp_filter", "arp_ignore", "rp_filter")
NAMELESS = (
    "%s (%s) has no interface here: no file for the next boot is changed, its neighbours' neither. "
    "Remedy: run again once it has one"
)
UNREADABLE = "%s could not be read: addresses, routes and rules that it recorded stay until the next boot"


class RailPorts(Subsystem):
    """The subsystem of the module ``rail_ports``.

    :param ports: the desired ports; with ``state`` ``absent`` those to remove, or all recorded ports if it is empty.
    :param timeout: seconds to wait for carriers, and for the back-end.
    :param rtnl: another source of the kernel's tables, for tests.
    """

    changes_devices = True

    def __init__(
        self,
        system: System,
        ports: t.Sequence[Port],
        state: str = "present",
        backend: str = "auto",
        persist: bool = True,
        timeout: float = 30.0,
        rtnl: RouteLookup | None = None,
    ) -> None:
        super().__init__()
        self._system = system
        self._ports = list(ports)
        self._state = state
        self._backend = backend
        self._persist = persist
        self._timeout = timeout
        self._rtnl = rtnl or RouteLookup()
        self._until_boot = UntilBoot(system, "rail_ports")
        # of the changes done: links that may restart, and IPv6 addresses that another host may have
        self._disturbed: set[int] = set()
        self._tried: set[tuple[int, Interface]] = set()
        self._results: dict[str, t.Any] = {}

    @classmethod
    def from_options(cls, options: t.Mapping[str, t.Any], system: System) -> RailPorts:
        """Return the subsystem for the module's options. Raises all errors together."""
        ports = read_ports(options.get("ports") or [])
        lower_parts.check(ports)
        if options["state"] == "present" and not ports:
            raise RailyardError("no rail port is given", "ports", "to take all away again, set state to absent")
        return cls(system, ports, options["state"], options["backend"], options["persist"], float(options["timeout"]))

    # -- observing ---------------------------------------------------------------------------------------------------

    def observe(self) -> Seen:
        self._await_carriers()
        observed = Seen()
        observed.record = Record.read(self._system)
        staying = observed.record.ports if self._state == "absent" else self._ports
        observed.held = vf_holders.moved(self._system, [port.pci for port in staying])
        self._read_links(observed)
        known = self._ports + observed.record.ports + observed.record.former
        versions = sorted({side.version for port in known for side in port.sides}) or [4]
        observed.routes = [route for version in versions for route in self._rtnl.routes(version)]
        observed.rules = [rule for version in (4, 6) for rule in self._rtnl.rules(version)]
        observed.interface_routes = [route for version in (4, 6) for route in self._rtnl.interface_routes(version)]
        observed["ports"] = [self._gather(port, observed) for port in self._ports or observed.record.ports]
        return observed

    def outcome(self, state: State, pending: t.Sequence[Change]) -> dict[str, t.Any]:
        ports = [port for port in state["ports"] if port["netdev"]]
        effective = {
            port["netdev"]: {key: sysctl.effective(self._system, port["netdev"], key) for key in sorted(port["sysctl"])}
            for port in ports
        }
        return dict(self._results, effective_sysctl=effective)

    def _gather(self, port: Port, observed: Seen) -> dict[str, t.Any]:
        """Return the observed port in the shape of the option; missing values are None."""
        link = port_observed.find(self._system, port, observed)[0]
        if link is None:
            bare = Port(port.place, port.rail, port.pci, None, None, None, None, None, None, {})
            return bare.as_options()
        address, address6 = (_address_of(version, port, link, observed) for version in (4, 6))
        rules = [_rule_of(each, port, observed) for each in (address, address6) if each]
        rule = next((rule for rule in rules if rule), None)
        table = rule.table if rule else None
        if address is None and port.address6 is None and port.address and port.address.version == 6:
            # the spec has the IPv6 address in 'address'
            address, address6 = address6, None
        read = {key: sysctl.read(self._system, link.name, key) for key in sorted(port.sysctl) or USUAL_SYSCTLS}
        live = port._replace(
            pci=port.pci or netdev_pci(self._system, link.name),
            netdev=link.name,
            mtu=link.mtu,
            address=address,
            gateway=_gateway(address, table, link, observed),
            address6=address6,
            gateway6=_gateway(address6, table, link, observed),
            table=table,
            priority=rule.priority if rule else None,
            routes=(),
            sysctl={key: value for key, value in read.items() if value is not None},
            lower=observed_lower(self._system, port.lower, link, observed) if port.lower else None,
        )
        return live._replace(routes=_in_planned_order(port, _additional_routes(live, link, observed))).as_options()

    def _await_carriers(self) -> None:
        """Wait until disturbed links have their carrier again: some drivers restart a link for a new MTU."""
        deadline = time.monotonic() + self._timeout
        while self._disturbed and time.monotonic() < deadline:
            names = [link.name for link in self._rtnl.links() if link.ifindex in self._disturbed]
            if all(self._system.read("/sys/class/net/%s/carrier" % name) == "1" for name in names):
                break
            time.sleep(0.2)
        self._disturbed.clear()

    def _read_links(self, observed: Seen) -> None:
        """Read links and addresses, after duplicate address detection of the planned addresses has ended."""
        wanted = {side.address for port in self._ports for side in port.sides} if self._state == "present" else set()
        deadline = time.monotonic() + self._timeout
        while True:
            observed.links = {link.ifindex: link for link in self._rtnl.links()}
            observed.addresses = self._rtnl.addresses()
            tentative = [
                each for each in observed.addresses if each.interface in wanted and observed.is_unsettled(each)
            ]
            if not tentative or time.monotonic() >= deadline:
                return
            time.sleep(0.1)

    # -- planning changes --------------------------------------------------------------------------------------------

    def changes(self, state: State) -> list[Change]:
        observed = t.cast(Seen, state)
        record = observed.record
        absent = self._state == "absent"
        wanted, former = self._ports, record.ports + record.former
        if absent:
            rails = {port.rail for port in self._ports or former}
            wanted = [port for port in record.ports if port.rail not in rails]
            former = [port for port in former if port.rail in rails] + self._ports
        rail_ports = list(wanted)
        held = {port.rail: observed.held[port.pci] for port in wanted if port.pci in observed.held}
        # a port in a pod is neither missing nor removed: its routes were moved with it, and its files restore them
        former = [port for port in former if port.rail not in held]
        recorded = [port for port in wanted if port.rail not in held]
        wanted, former, recorded = (
            lower_parts.of_node(self._system, ports, observed) for ports in (wanted, former, recorded)
        )
        plan = Plan(self._system, self._rtnl, observed, self._disturbed, self._tried, wanted, former)
        targets = plan.staying(wanted) if absent else plan.targets(recorded)
        for target in targets if absent else ():
            plan.lower.add(target)
        plan.lower.plan_removals(targets)
        plan.errors += port_guard.refusals(self._system, observed, [] if absent else targets, former)
        if not absent:
            plan.check(targets)
        if absent and not (record.ports or record.former):
            self._check_recordless(record, plan)
        raise_all(plan.errors + plan.lower.errors)
        backend = self._choose_backend(wanted)
        held_ports = [port for port in wanted if port.rail in held]
        ignored_warnings = [
            vf_holders.not_changed(port.rail, str(port.pci), held[port.rail].why) for port in held_ports
        ]
        kept = self._kept(backend, wanted, targets, held, plan.lower)
        self._plan_live(plan, targets)
        # a file needs the netdev name; without it the existing files stay
        nameless = [port for port in wanted if port.rail not in [each.port.rail for each in kept]]
        ignored_warnings += [NAMELESS % (port.rail, port.pci) for port in nameless if port.rail not in held]
        replaced = [text for each in kept for text in foreign_files.warnings(each)]
        self._warn(plan.warnings + backend.warnings() + ignored_warnings + replaced)
        staying = self._staying(record, rail_ports)
        reasons = plan.reboot_reasons + [each.text for each in staying if absent]
        self._results = {
            "backend": backend.name,
            "reboot_required": bool(reasons),
            "reboot_reasons": reasons,
            "held": [{"rail": port.rail, "pci": port.pci, "by": held[port.rail].why} for port in held_ports],
        }
        texts = dict(network_files.common_files(kept), **backend.files(kept))
        files = self._file_changes(backend, texts) if (self._persist or absent) and not nameless else []
        created = [each for each in kept if each.netdev in plan.lower.created(targets)] if files else []

        def load() -> None:
            # reports duplicates first, because the back-end would only report that the link is not configured
            self._check_duplicates(targets)
            present = [each._replace(ifindex=plan.lower.index(each.ifindex or 0) or None) for each in kept]
            backend.load(present, [change.subject for change in files], record.made, self._timeout)
            self._await_live([each.port for each in targets], former)

        loaded = [Change(backend.name, "loaded", False, True, load, STEP)] if backend.is_running() else []
        first = {backend.netdev_file(each.netdev) for each in created}
        live = [change for change in files if change.subject in first]
        if created and loaded:
            act = partial(backend.load_netdevs, created, texts)
            live.append(Change(backend.name, "netdevs loaded", False, True, act, STEP))
        files = [change for change in files if change.subject not in first]
        # settings of a held port are removed when it is back
        before = {port.rail: port for port in record.ports if port.rail in held}
        kept_ports = [
            before.get(port.rail, port) for port in rail_ports if port.rail not in held or port.rail in before
        ]
        # recorded first, because it is derived from the record
        closed = Record(kept_ports, [], True, plan.lower.made(targets))
        return self._until_boot.keep(staying) + self._with_record(record, closed, live + plan.changes, files, loaded)

    def _staying(self, record: Record, wanted: t.Sequence[Port]) -> list[Staying]:
        """Return the rails whose ports were removed. Settings without a known former value stay live until the boot."""
        rails = {rail for each in self._until_boot.read() for rail in each.subjects if NAME.match(rail)}
        if self._state == "absent":
            rails.update(port.rail for port in record.ports + record.former)
        left = sorted(rails - {port.rail for port in wanted})
        return [Staying("rail-port", tuple(left))] if left else []

    def _check_recordless(self, record: Record, plan: Plan) -> None:
        """Refuse to remove single ports if there are files but no record, because all files would be removed."""
        if self._ports and self._our_files():
            message = "does not show which rail ports are set up, and there are files: all would be removed"
            remedy = "run with state present and the ports that stay, or without ports to take all away"
            plan.errors.append(Refused(message, RECORD, remedy))
        elif not record.done:
            plan.warnings.append(UNREADABLE % RECORD)

    def _plan_live(self, plan: Plan, targets: t.Sequence[Target]) -> None:
        """Plan the live changes. ``targets``: the desired ports, or with state absent those that stay."""
        plan.remove_links(targets)
        if self._state != "absent":
            plan.link_changes(targets)
        plan.remove(targets)
        if self._state != "absent":
            plan.add(targets)
        plan.restore()

    def _await_live(self, wanted: t.Sequence[Port], former: t.Sequence[Port]) -> None:
        """Wait until the live state is as planned, or until the timeout.

        systemd-networkd temporarily removes rules of ports whose new files it has not processed yet.
        """
        deadline = time.monotonic() + self._timeout
        while time.monotonic() < deadline:
            plan = Plan(self._system, self._rtnl, self.observe(), set(), set(), wanted, former)
            targets = plan.targets(wanted)
            plan.lower.plan_removals(targets)
            self._plan_live(plan, targets)
            if not plan.changes:
                return
            time.sleep(0.2)

    def _check_duplicates(self, targets: t.Sequence[Target]) -> None:
        if self._tried:
            observed = Seen()
            self._read_links(observed)
            raise_all(
                [
                    error
                    for each in targets
                    for error in port_observed.duplicates(
                        each.port, observed.named(each.name) or each.link, observed, self._tried
                    )
                ]
            )

    def _warn(self, warnings: t.Sequence[str]) -> None:
        # changes are planned twice: before the run, and when its result is read back
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
        self,
        backend: network_files.Backend,
        wanted: t.Sequence[Port],
        targets: t.Sequence[Target],
        held: t.Mapping[str, vf_holders.Moved],
        lower: LowerLinks,
    ) -> list[Kept]:
        """Return the persistent ports with the settings of other programs' files that Railyard's replace.

        :raises RailyardError: with all refusals to replace such a file.
        """
        by_rail = {target.port.rail: target for target in targets}
        kept: list[Kept] = []
        errors: list[RailyardError] = []
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
            mac = lower.mac(target) if target else None
            if port.part and port.part.bond and not mac:
                # its functions are not there
                continue
            each = Kept(port, netdev, ifindex, infiniband, mac=mac)
            if self._persist or self._state == "absent":
                facts = Facts.of(self._system, each, target.link if target else None, moved)
                try:
                    foreign_netdevs.check_ifupdown(self._system, each, facts)
                    link = foreign_files.link_lines(self._system, each, facts) if port.pci and port.netdev else []
                    each = each._replace(sections=tuple(backend.replaced(each, facts)), link=tuple(link))
                except RailyardError as error:
                    errors.append(error)
            kept.append(each)
        raise_all(errors)
        return kept

    def _file_changes(self, backend: network_files.Backend, files: t.Mapping[str, File]) -> list[Change]:
        system = self._system
        changes: list[Change] = []
        for path, file in sorted(files.items()):
            text, mode = system.read_file(path), system.mode(path)
            act = partial(system.write_file, path, file.text, file.mode)
            if text != file.text:
                # before the first change, because the node would have no network with a file that cannot be read
                backend.check(path, file.text)
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

    def _with_record(
        self,
        record: Record,
        closed: Record,
        live: t.Sequence[Change],
        files: t.Sequence[Change],
        loaded: t.Sequence[Change],
    ) -> list[Change]:
        """Return all changes in order. The record is opened before them and closed after them if a later run needs it.

        :param closed: the record after them.
        :param loaded: the reload of the back-end, needed if files change or an earlier run was interrupted.
        """
        system = self._system
        recorded = [port.as_options() for port in record.ports]
        wanted_options = [port.as_options() for port in closed.ports]
        open_already = not record.done
        if recorded == wanted_options and record.made == closed.made and not files and not open_already:
            return list(live)
        former = [port for port in record.ports + record.former if port.as_options() not in wanted_options]
        opened = Record(closed.ports, former, False, tuple(sorted({*record.made, *closed.made})))
        before: list[Change] = []
        if recorded != wanted_options:
            before.append(
                Change(RECORD, "ports", recorded, wanted_options, lambda: system.write_file(RECORD, opened.text()))
            )
        elif not open_already or record.made != opened.made:
            before.append(Change(RECORD, "done", True, False, lambda: system.write_file(RECORD, opened.text()), STEP))
        after = list(loaded) if files or open_already else []

        def close() -> None:
            if closed.ports:
                system.write_file(RECORD, closed.text())
            else:
                system.forget_file(RECORD)

        after.append(Change(RECORD, "done", False, True, close, STEP))
        return before + list(live) + list(files) + after


def _rule_of(address: Interface, port: Port, observed: Seen) -> Rule | None:
    """Return the rule by a source address; the planned one if there are several, None if no rule matches."""
    rules = [
        rule
        for rule in observed.rules
        if rule.plain and not rule.oif and rule.source and rule.source.network_address == address.ip
    ]
    return next((rule for rule in rules if rule.priority == port.priority), rules[0] if rules else None)


def _address_of(version: int, port: Port, link: Link, observed: Seen) -> Interface | None:
    """Return the interface's address of an IP version; the planned one if it has several, None if it has none."""
    interfaces = [each.interface for each in observed.of(link) if each.scope == SCOPE_UNIVERSE]
    interfaces = [each for each in interfaces if each.version == version]
    side = port.side(version)
    return side.address if side and side.address in interfaces else next(iter(interfaces), None)


def _gateway(address: Interface | None, table: int | None, link: Link, observed: Seen) -> IP | None:
    """Return the next hop of the default route of a table."""
    for route in observed.routes if address else []:
        route_key = (route.table, route.oif, route.destination.version, route.destination.prefixlen)
        if address and route_key == (table, link.ifindex, address.version, 0):
            return route.gateway
    return None


def _additional_routes(live: Port, link: Link, observed: Seen) -> list[RouteSpec]:
    """Return the interface's routes in the main table and its own, except those of its address and gateway."""
    own_routes = port_observed.port_routes(live, link.ifindex)
    found: list[RouteSpec] = []
    for route in observed.routes:
        if route.oif != link.ifindex or route.table not in (TABLE_MAIN, live.table):
            continue
        if route.protocol == PROTOCOL_KERNEL or not route.destination.prefixlen or route.destination.is_link_local:
            continue
        if not any(port_observed.is_same_route(route, each) for each in own_routes):
            found.append(
                RouteSpec(route.destination, route.gateway, None if route.table == TABLE_MAIN else route.table)
            )
    return found


def _in_planned_order(port: Port, found: t.Sequence[RouteSpec]) -> tuple[RouteSpec, ...]:
    """Return the routes in the order of the plan, followed by others."""
    order = {route: number for number, route in enumerate(port.routes)}
    return tuple(sorted(found, key=lambda route: (order.get(route, len(order)), str(route.to))))


def _remover(system: System, path: str) -> t.Callable[[], None]:
    return lambda: system.forget_file(path) if netplan_output.is_drop_in(path) else system.remove_file(path)


LAYER = Layer(SPEC, RailPorts.from_options)

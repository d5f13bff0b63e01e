# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The live changes from observed interfaces to the desired rail ports."""

from __future__ import annotations

import typing as t
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import ROUTE, RULE, Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Unsupported
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rail_routes import (
    RouteSpec,
    has_subnet,
    make_route,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.route_lookup import RouteLookup
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import (
    IFA_F_DADFAILED,
    IFA_F_NOPREFIXROUTE,
    IFA_F_SECONDARY,
    PROTOCOL_KERNEL,
    TABLE_MAIN,
    Address,
    Interface,
    Link,
    Route,
    Rule,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.foreign_settings import Foreign
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.lower_changes import LowerLinks
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_observed import (
    KERNEL_METRIC,
    SYSCTL_6,
    RuleKey,
    Seen,
    Target,
    add_route,
    addresses_of,
    at,
    duplicates,
    find,
    is_same_route,
    port_routes,
    route_key,
    route_name,
    rule_key,
    rule_keys,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_spec import MTU_LEAST_6, Port, Side
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import sysctl


class Plan:
    """The live changes, with errors and warnings.

    ``disturbed`` receives the indices of links whose carrier a change may interrupt; ``tried`` receives the IPv6
    addresses that were added, with their links' indices.

    :param wanted, former: the desired ports, and the ports of earlier runs, whose settings are removed.
    """

    def __init__(
        self,
        system: System,
        rtnl: RouteLookup,
        observed: Seen,
        disturbed: set[int],
        tried: set[tuple[int, Interface]],
        wanted: t.Sequence[Port],
        former: t.Sequence[Port],
    ) -> None:
        self._system = system
        self._rtnl = rtnl
        self._state = observed
        self._disturbed = disturbed
        self._tried = tried
        # links that are set down for renaming or for changes of a bond, which removes their routes
        self._downed: set[int] = set()
        # links whose last IPv4 address is removed, and with it their IPv4 routes
        self._emptied: set[int] = set()
        self._lost: list[Address] = []
        self._former = former
        self._old = self.staying(former)
        self._foreign = Foreign(system, rtnl, observed, self.staying(wanted), self._old)
        self.lower = LowerLinks(system, rtnl, observed, self._foreign, self._change)
        self.changes: list[Change] = []
        self.errors: list[RailyardError] = []
        self.warnings: list[str] = []
        self.reboot_reasons: list[str] = []

    # -- finding ports, and refusing ---------------------------------------------------------------------------------

    def targets(self, ports: t.Sequence[Port]) -> list[Target]:
        """Return the interface of each port. A port that cannot be found or named becomes an error."""
        found: dict[int, tuple[Port, Link]] = {}
        for port in ports:
            if port.part and port.part.kind:
                link, problem = self.lower.find(port, port.part), None
            else:
                link, problem = find(self._system, port, self._state)
            if link:
                self.lower.add(Target(port, link, link.name))
            if problem:
                self.errors.append(problem)
            elif link and found.setdefault(link.ifindex, (port, link))[0] is not port:
                other = found[link.ifindex][0]
                key = "pci" if port.pci else "netdev"
                message = "%s is also the interface of %s (%s)" % (link.name, other.place, other.label)
                self.errors.append(RailyardError(message, at(port, key), "give each rail port its own"))
        renamed = self._links_to_rename(found)
        self._rename({index: found[index] for index in renamed})
        return [
            Target(port, link, str(port.netdev) if index in renamed else link.name)
            for index, (port, link) in found.items()
        ]

    def _links_to_rename(self, found: t.Mapping[int, tuple[Port, Link]]) -> set[int]:
        """Return the indices of links that are renamed now. Others become errors, or are renamed at the next boot."""
        names = {
            index: str(port.netdev) for index, (port, link) in found.items() if port.netdev not in (None, link.name)
        }
        for index, name in sorted(names.items()):
            holder = self._holder(name, index)
            if holder and (holder.ifindex not in names or holder.name != name):
                port, link = found[index]
                message = "%s is %s, and another interface (%s) has the name %s"
                self.errors.append(
                    RailyardError(
                        message % (port.pci, link.name, holder.name, name),
                        at(port, "netdev"),
                        "correct the profile: its pci or its netdev belongs to another interface",
                    )
                )
        waiting = {index: self._foreign.why_not_down(found[index][1], found[index][0].pci) for index in names}
        waiting = {index: why for index, why in waiting.items() if why}
        renamed = set(names) - set(waiting)
        while True:
            # a name that changes at the next boot blocks the ports that get it
            held = {found[index][1].name for index in waiting}
            blocked = [index for index in renamed if names[index] in held]
            if not blocked:
                break
            waiting.update((index, "the name is not free before") for index in blocked)
            renamed -= set(blocked)
        for index, why in sorted(waiting.items()):
            port, link = found[index]
            text = "%s: %s becomes %s at the next boot, not now: %s"
            self.reboot_reasons.append(text % (port.label, link.name, port.netdev, why))
        return renamed

    def _holder(self, name: str, except_index: int) -> Link | None:
        for link in self._state.links.values():
            if link.ifindex != except_index and name in (link.name,) + link.altnames:
                return link
        return None

    def _rename(self, renamed: t.Mapping[int, tuple[Port, Link]]) -> None:
        names = {index: link.name for index, (_port, link) in sorted(renamed.items())}
        while names:
            for index in names:
                desired = str(renamed[index][0].netdev)
                if desired not in [name for other, name in names.items() if other != index]:
                    self._rename_one(renamed[index][1], names.pop(index), desired)
                    break
            else:
                # a cycle of names: one gets a temporary name
                index = min(names)
                temporary = "railyard%d" % index
                self._rename_one(renamed[index][1], names[index], temporary)
                names[index] = temporary

    def _rename_one(self, link: Link, before: str, after: str) -> None:
        def act() -> None:
            # kernels before 6.2 cannot rename a link that is up
            self._rtnl.set_link(link.ifindex, up=False)
            if after in link.altnames:
                self._rtnl.delete_altname(link.ifindex, after)
            self._rtnl.set_link(link.ifindex, name=after)

        self._downed.add(link.ifindex)
        self._change(before, "name", before, after, act)

    def check(self, targets: t.Sequence[Target]) -> None:
        """Find settings that the kernel or the driver would refuse, and settings of other programs."""
        leaving = self._leaving(targets)
        self.lower.check(targets)
        for target in targets:
            port, link, _name = target
            self.warnings += self._foreign.warnings(target)
            if port.mtu is not None and (port.mtu < link.min_mtu or (link.max_mtu and port.mtu > link.max_mtu)):
                message = "%s takes an MTU from %d to %d, not %d" % (link.name, link.min_mtu, link.max_mtu, port.mtu)
                self.errors.append(Unsupported(message, at(port, "mtu"), "plan an MTU that the NIC supports"))
            for key, value in port.sysctl.items():
                self._check_sysctl(port, link, key, value)
            for side in port.sides:
                self._check_side(port, link, side, leaving)
            self._check_main_routes(port, link)

    def _check_side(self, port: Port, link: Link, side: Side, leaving: t.Container[tuple[int, Interface]]) -> None:
        if side.version == 6 and sysctl.read(self._system, _conf(link), "disable_ipv6", "ipv6") != "0":
            message = "IPv6 is switched off for %s" % link.name
            remedy = "switch it on (ipv6.disable on the kernel command line, disable_ipv6)"
            self.errors.append(Unsupported(message, at(port, side.key), remedy))
        if side.version == 6 and port.mtu is None and 0 < link.mtu < MTU_LEAST_6:
            message = "the MTU of %s is %d, and IPv6 needs %d" % (link.name, link.mtu, MTU_LEAST_6)
            self.errors.append(Unsupported(message, at(port, side.key), "plan an MTU"))
        for other in self._state.addresses:
            if other.interface.ip != side.address.ip or other.ifindex == link.ifindex:
                continue
            if (other.ifindex, other.interface) not in leaving:
                holder = self._name_of(other.ifindex)
                message = "%s is already the address of %s" % (side.address.ip, holder)
                self.errors.append(RailyardError(message, at(port, side.key), "remove it there first"))
        self.errors += duplicates(port, link, self._state, self._tried) if side.version == 6 else []

    def _check_main_routes(self, port: Port, link: Link) -> None:
        """Check for routes of other programs in the main table, which are not replaced."""
        ours = self._former_routes()
        for number, planned in enumerate(port.routes):
            for live in self._state.routes if planned.table is None else []:
                if (live.table, live.destination) != (TABLE_MAIN, planned.to) or live.oif == link.ifindex:
                    continue
                if not any(is_same_route(live, route) for route in ours):
                    holder = self._name_of(live.oif) if live.oif else "several next hops"
                    message = "the main table already has a route to %s by %s" % (planned.to, holder)
                    remedy = "remove it, or plan the rail's route in the rail's own table"
                    self.errors.append(RailyardError(message, at(port, "routes[%d].to" % number), remedy))

    def _check_sysctl(self, port: Port, link: Link, key: str, value: str) -> None:
        if sysctl.read(self._system, _conf(link), key) is None:
            message = "the kernel has no net.ipv4.conf.%s.%s" % (link.name, key)
            self.errors.append(Unsupported(message, at(port, "sysctl"), "leave it out of the plan"))
            return
        effective = sysctl.effective(self._system, _conf(link), key, value)
        if str(effective) == value:
            return
        message = "net.ipv4.conf.all.%s is %s, and the kernel takes the larger: %s planned would have no effect"
        message = message % (key, effective, value)
        if key == "rp_filter" and effective == 1:
            # strict filtering drops packets whose reply would leave by another rail
            remedy = "plan rp_filter 2, or set net.ipv4.conf.all.rp_filter to 0"
            self.errors.append(Unsupported(message, at(port, "sysctl"), remedy))
        else:
            self.warnings.append("%s: %s" % (at(port, "sysctl"), message))

    # -- planning changes --------------------------------------------------------------------------------------------

    def remove_links(self, targets: t.Sequence[Target]) -> None:
        """Plan the removal of bonds, VLANs and members that are not planned."""
        self.lower.remove()
        self.lower.plan_members(targets)
        self._downed |= self.lower.set_down(targets)

    def link_changes(self, targets: t.Sequence[Target]) -> None:
        """Plan bonds, VLANs, MTU, link state and sysctls, which must be set before addresses are added."""
        # a VLAN has at most the MTU of its parent, and the members of a bond have the MTU of the bond
        lowered = [target for target in reversed(targets) if self.lower.shrinks(target)]
        for port, link, name in lowered:
            self._change(name, "mtu", link.mtu, port.mtu, self._disturbing_change(link, mtu=port.mtu))
        for target in targets:
            port, link, name = target
            self.lower.create(target, self._note_disturbed)
            added = self.lower.is_added(target)
            mtu = None if link.ifindex in self.lower.released else link.mtu
            by_kernel = added or link.ifindex < 0 or self.lower.follows_bond(target, targets)
            if port.mtu is not None and port.mtu != mtu and not by_kernel and target not in lowered:
                self._change(name, "mtu", mtu, port.mtu, self._disturbing_change(link, mtu=port.mtu))
            if added:
                pass  # the kernel sets it up
            elif not link.up or link.ifindex in self._downed:
                self._change(name, "state", "down", "up", self._disturbing_change(link, up=True))
            elif self._system.read("/sys/class/net/%s/carrier" % link.name) != "1":
                text = "%s (%s) has no carrier: see its cable and the switch port"
                self.warnings.append(text % (link.name, port.label))
            wanted = [("ipv4", key, value) for key, value in sorted(port.sysctl.items())]
            for key, value in sorted(SYSCTL_6.items()):
                if sysctl.read(self._system, _conf(link), key, "ipv6") is not None:
                    wanted.append(("ipv6", key, value))
            for family, key, value in wanted:
                before = sysctl.read(self._system, _conf(link), key, family)
                if before != value:
                    act = partial(sysctl.write, self._system, name, key, value, family)
                    self._change(name, "%s.%s" % (family, key), before, value, act)

    def _disturbing_change(self, link: Link, mtu: int | None = None, up: bool | None = None) -> t.Callable[[], None]:
        def act() -> None:
            self._rtnl.set_link(self.lower.index(link.ifindex), mtu=mtu, up=up)
            self._note_disturbed(link)

        return act

    def _note_disturbed(self, link: Link) -> None:
        self._disturbed.add(self.lower.index(link.ifindex))

    def staying(self, ports: t.Sequence[Port]) -> list[Target]:
        """Return the targets of ports that are not renamed, without ports that have no interface."""
        found = [(port, find(self._system, port, self._state)[0]) for port in ports]
        return [Target(port, link, link.name) for port, link in found if link]

    def _leaving(self, targets: t.Sequence[Target]) -> set[tuple[int, Interface]]:
        """Return the former addresses that :meth:`remove` removes, with the indices of their links."""
        return addresses_of(self._old) - addresses_of(targets)

    def _former_routes(self) -> list[Route]:
        return [route for each in self._old for route in port_routes(each.port, each.link.ifindex)]

    def remove(self, targets: t.Sequence[Target]) -> None:
        """Remove former settings that are not desired, and settings that conflict with ``targets``.

        The order is rules, routes, addresses.
        """
        self._remove_rules(targets)
        self._remove_routes(targets)
        self._remove_addresses(targets)

    def _remove_rules(self, targets: t.Sequence[Target]) -> None:
        wanted = {key for target in targets for key in rule_keys(target.port, target.name)}
        priorities = {key[:2] for key in wanted}
        # the former interface may have been removed or renamed
        former_keys = {key for port in self._former for key in rule_keys(port, str(port.netdev))}
        former_keys |= {key for each in self._old for key in rule_keys(each.port, each.name)}
        found_keys: set[RuleKey | None] = set()
        for rule in self._state.rules:
            key = rule_key(rule)
            surplus = key in found_keys
            found_keys.add(key)
            if (key in wanted and surplus) or (
                key not in wanted and (key in former_keys or (rule.version, rule.priority) in priorities)
            ):
                port = next((each.name for each in targets if each.port.priority == rule.priority), None)
                act = partial(self._rtnl.delete_rule, rule)
                self._change("rule %d" % rule.priority, rule.selector, rule.action, None, act, RULE, port)

    def _remove_routes(self, targets: t.Sequence[Target]) -> None:
        wanted = [route for target in targets for route in port_routes(target.port, target.link.ifindex)]
        # in the main table, only routes of the rail ports themselves conflict
        wanted_keys = {route_key(route) for route in wanted}
        former_routes = self._former_routes()
        for route in self._routes():
            if any(is_same_route(route, each) for each in wanted):
                continue
            if route_key(route) in wanted_keys or any(is_same_route(route, each) for each in former_routes):
                netdev = self._name_of(route.oif)
                act = partial(self._rtnl.delete_route, route)
                self._change(netdev, route_name(route), str(route), None, act, ROUTE)

    def _remove_addresses(self, targets: t.Sequence[Target]) -> None:
        leaving = self._leaving(targets)
        wanted = {target.link.ifindex: target for target in targets if target.port.sides}
        removed: list[Address] = []
        for address in self._state.addresses:
            target = wanted.get(address.ifindex)
            planned = [side.address for side in target.port.sides] if target else []
            if address.interface in planned or address.ifindex in self.lower.removed:
                continue
            wrong_prefix = any(each.ip == address.interface.ip for each in planned)
            if wrong_prefix or (address.ifindex, address.interface) in leaving:
                removed.append(address)
                netdev = target.name if target else self._name_of(address.ifindex)
                act = partial(self._rtnl.delete_address, address.ifindex, address.interface)
                self._change(netdev, "address", str(address.interface), None, act)
        self._lost = [address for address in self._state.addresses if self._is_removed_with(address, removed)]
        going = [each for each in removed + self._lost if each.interface.version == 4]
        staying = {each.ifindex for each in self._state.addresses if each.interface.version == 4 and each not in going}
        self._emptied = {each.ifindex for each in going} - staying

    def _is_removed_with(self, address: Address, removed: t.Sequence[Address]) -> bool:
        """Return whether the kernel removes a secondary address together with the primary one of its subnet."""
        if not address.flags & IFA_F_SECONDARY or address.interface.version != 4:
            return False
        name = self._name_of(address.ifindex)
        if any(self._system.read(sysctl.path(each, "promote_secondaries")) == "1" for each in (name, "all")):
            return False
        return any(
            first.ifindex == address.ifindex
            and not first.flags & IFA_F_SECONDARY
            and first.interface.network == address.interface.network
            for first in removed
        )

    def add(self, targets: t.Sequence[Target]) -> None:
        """Add missing addresses, routes and rules."""
        for target in targets:
            for side in target.port.sides:
                self._add_address(target, side)
        for target in targets:
            for route in port_routes(target.port, target.link.ifindex):
                if not any(is_same_route(live, route) for live in self._routes()):
                    self._add_route(target, route)
        live_rules = {rule_key(rule) for rule in self._state.rules}
        for target in targets:
            for version, priority, source, oif, table in rule_keys(target.port, target.name):
                if (version, priority, source, oif, table) not in live_rules:
                    rule = Rule(version, priority, source, oif, table, True)
                    subject = "rule %d" % priority
                    act = partial(self._rtnl.add_rule, rule)
                    self._change(subject, rule.selector, None, rule.action, act, RULE, target.name)

    def restore(self) -> None:
        """Set addresses and routes of other programs again that the kernel removes together with ours."""
        for address in self._lost:
            link = self._state.links[address.ifindex]
            if address in self._foreign.addresses(link):
                act = partial(self._rtnl.add_address, link.ifindex, address.interface)
                self._change(link.name, "address", None, str(address.interface), act)
        for index in sorted(self._emptied):
            link = self._state.links[index]
            for route in self._foreign.routes(link):
                if route.destination.version == 4:
                    act = partial(self._rtnl.restore_route, route)
                    self._change(link.name, str(route), None, "restored", act, ROUTE)

    def _add_address(self, target: Target, side: Side) -> None:
        address, link = side.address, target.link
        down = not link.up or link.ifindex in self._downed
        live = next((each for each in self._state.of(link) if each.interface == address), None)
        if live and live.flags & IFA_F_DADFAILED:
            # the other host may have removed it; the kernel checks again only when the address is added
            before = "%s, which another host has" % address
            self._change(target.name, "address", before, str(address), self._adding_change(link, address, True))
            return
        if live is None or live in self._lost or (down and side.version == 6):
            self._change(target.name, "address", None, str(address), self._adding_change(link, address))
            return
        # when the link comes up, the kernel restores the route of the address, unless it has noprefixroute
        by_kernel = down and not live.flags & IFA_F_NOPREFIXROUTE
        if has_subnet(address) and not by_kernel:
            route = make_route(RouteSpec(address.network, None, None), link.ifindex, address)
            route = route._replace(metric=KERNEL_METRIC[side.version], protocol=PROTOCOL_KERNEL)
            if not any(is_same_route(each, route) for each in self._routes()):
                self._add_route(target, route)

    def _adding_change(self, link: Link, address: Interface, readd: bool = False) -> t.Callable[[], None]:
        def act() -> None:
            ifindex = self.lower.index(link.ifindex)
            if readd:
                self._rtnl.delete_address(ifindex, address)
            self._rtnl.add_address(ifindex, address)
            if address.version == 6:
                self._tried.add((ifindex, address))

        return act

    def _add_route(self, target: Target, route: Route) -> None:
        def act() -> None:
            ifindex = self.lower.index(target.link.ifindex)
            made = target._replace(link=target.link._replace(ifindex=ifindex))
            add_route(self._rtnl, made, route._replace(oif=ifindex))

        self._change(target.name, route_name(route), None, str(route), act, ROUTE)

    def _routes(self) -> list[Route]:
        """Return the routes that remain after the link changes and removals."""
        return [
            route
            for route in self._state.routes
            if route.oif not in self._downed and not (route.oif in self._emptied and route.destination.version == 4)
        ]

    def _name_of(self, ifindex: int) -> str:
        link = self._state.links.get(ifindex)
        return link.name if link else str(ifindex)

    def _change(
        self,
        subject: str,
        attribute: str,
        before: t.Any,
        after: t.Any,
        act: t.Callable[[], None],
        kind: str = "",
        port: str | None = None,
    ) -> None:
        def checked() -> None:
            try:
                act()
            except NetlinkError as error:
                setting = "%s %r" % (attribute, before if after is None else after)
                verb = "removed" if after is None else "set"
                raise RailyardError(
                    "%s could not be %s: %s" % (setting, verb, error.message),
                    subject,
                    "see the kernel's messages (dmesg), and what else manages this interface",
                ) from None

        self.changes.append(Change(subject, attribute, before, after, checked, kind, port))


def _conf(link: Link) -> str:
    """Return the name of an interface's sysctls; ``default``, their first values, for one that does not exist yet."""
    return link.name if link.ifindex > 0 else "default"

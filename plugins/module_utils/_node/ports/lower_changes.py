# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The live changes of bonds, their members and VLANs: part of the changes of :mod:`.port_changes`.

A bond or VLAN that Railyard did not make is adopted if it matches the plan, and refused otherwise. Railyard changes its
own bonds and VLANs, and removes each that the plan does not contain, unless another interface or program uses it.

Sources: the kernel's ``Documentation/networking/bonding.rst``, ``drivers/net/bonding`` and ``net/8021q``.
"""

from __future__ import annotations

import errno
import typing as t
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    RailyardError,
    Refused,
    Unsupported,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_kinds import (
    BOND,
    VLAN,
    BondOptions,
    decode_bond,
    decode_vlan,
    encode_bond,
    encode_vlan,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import (
    ARPHRD_INFINIBAND,
    hardware_address,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.route_lookup import RouteLookup
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Link
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.foreign_settings import Foreign
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.lower_spec import LOWER_PREFIX, MIIMON, Part
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_observed import Seen, Target, at
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_spec import Port
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import vf_holders
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import netdev_pci

# Options of a bond that the plan may have, in the order of changes. The first two need a bond that is down, the first
# also one without members.
OPTIONS = ("mode", "lacp_rate", "hash_policy", "min_links", "miimon")

Change = t.Callable[..., None]
Difference = t.Tuple[str, t.Any, t.Any]


class LowerLinks:
    """The bonds and VLANs of a plan.

    :param change: adds a change, as :meth:`.port_changes.Plan.change`.
    """

    def __init__(self, system: System, rtnl: RouteLookup, observed: Seen, foreign: Foreign, change: Change) -> None:
        self._system = system
        self._rtnl = rtnl
        self._state = observed
        self._foreign = foreign
        self._change = change
        self._made = set(observed.record.made)
        # planned name -> interface of functions and bonds
        self._links: dict[str, Link] = {}
        # negative number of a link that the run creates -> the kernel's index, when it exists
        self._created: dict[int, int] = {}
        # name of a member -> planned bond, if it is added to it in this run
        self._added: dict[str, str] = {}
        # links of earlier runs that are removed, and members that leave their bond, which the kernel sets down
        self._leaving: list[Link] = []
        self.released: dict[int, Link] = {}
        self.removed: set[int] = set()
        self.errors: list[RailyardError] = []

    def index(self, ifindex: int) -> int:
        """Return the kernel's index of a link, also of one that the run has created."""
        return self._created.get(ifindex, ifindex)

    def made(self, targets: t.Sequence[Target]) -> tuple[str, ...]:
        """Return the names of bonds and VLANs that are Railyard's after the run."""
        names = [(target.name, target.link) for target in targets if target.port.part and target.port.part.kind]
        return tuple(sorted(name for name, link in names if link.ifindex < 0 or name in self._made))

    def created(self, targets: t.Sequence[Target]) -> list[str]:
        """Return the names of the bonds and VLANs that the run creates."""
        return [target.name for target in targets if target.link.ifindex < 0]

    # -- finding the interfaces --------------------------------------------------------------------------------------

    def find(self, port: Port, part: Part) -> Link | None:
        """Return the bond or VLAN of a port: the present one, or one with a negative index that the run creates.

        Functions and bonds below it must have been passed to :meth:`add`. Problems become errors.
        """
        name = str(port.netdev)
        live = self._state.named(name)
        other = next((link for link in self._state.links.values() if name in link.altnames), None)
        if live is None and other:
            message = "%s is another name of %s" % (name, other.name)
            self.errors.append(RailyardError(message, at(port, "netdev"), "plan another name for the %s" % part.kind))
            return None
        if live is None:
            return self._planned(port, part)
        ours = name in self._made
        if live.kind != part.kind or (part.kind == VLAN and self._vlan_differences(live, part)):
            if ours and live.kind in (BOND, VLAN):
                self._leaving.append(live)
                return self._planned(port, part)
            found = self._vlan_differences(live, part) if live.kind == part.kind else []
            found = found or [("kind", live.kind or "a device", part.kind)]
            self._refuse(port, found)
            return None
        differences = self._bond_differences(live, part) if part.kind == BOND else []
        if differences and not ours:
            self._refuse(port, differences)
        return live

    def add(self, target: Target) -> None:
        """Add an interface that others are built on."""
        if target.port.part and target.port.part.depth < 2:
            self._links[str(target.port.netdev or target.name)] = target.link

    def _planned(self, port: Port, part: Part) -> Link:
        address = self._address(part) if part.kind == BOND else b""
        number = -1 - len(self._created)
        self._created[number] = number
        return Link(number, str(port.netdev), False, port.mtu or 0, 0, 0, address, (), kind=part.kind)

    def _refuse(self, port: Port, differences: t.Sequence[Difference]) -> None:
        kind = port.part.kind if port.part else None
        texts = ["%s is %s, planned %s" % each for each in differences]
        self.errors.append(
            Refused(
                "%s was not made by Railyard and differs: %s" % (port.netdev, "; ".join(texts)),
                at(port, "netdev"),
                "plan it as it is, set managed: false for the port, or remove it with the file that makes it"
                " (ip link delete %s), and run again" % port.netdev
                if kind
                else "plan another name",
            )
        )

    def _vlan_differences(self, link: Link, part: Part) -> list[Difference]:
        parent = self._links.get(str(part.parent))
        below = self._state.links.get(link.below or 0)
        found: list[Difference] = []
        if decode_vlan(link.data) != part.vlan:
            found.append(("VLAN id", decode_vlan(link.data), part.vlan))
        if parent is None or link.below != parent.ifindex or link.below_namespace is not None:
            found.append(("parent", below.name if below else None, part.parent))
        return found

    def _bond_differences(self, link: Link, part: Part) -> list[Difference]:
        """Return the differences of options and members. ``miimon`` only of a bond that Railyard made."""
        if part.bond is None:
            return []
        live = decode_bond(link.data)
        planned = part.bond._asdict()
        planned["miimon"] = MIIMON if link.name in self._made else None
        found: list[Difference] = [
            (key, getattr(live, key), planned[key])
            for key in OPTIONS
            if planned[key] is not None and getattr(live, key) != planned[key]
        ]
        live_names = sorted(each.name for each in self._members(link))
        links = [self._links.get(name) for name in part.members]
        planned_names = sorted(each.name for each in links if each)
        if live_names != planned_names:
            found.append(("members", ", ".join(live_names) or "none", ", ".join(planned_names)))
        primary = self._state.links.get(live.primary or 0)
        planned_primary = self._links.get(part.primary or "")
        if planned_primary and primary != planned_primary:
            found.append(("primary", primary.name if primary else None, planned_primary.name))
        return found

    def _members(self, bond: Link) -> list[Link]:
        return [link for link in self._state.links.values() if link.master == bond.ifindex]

    def _address(self, part: Part) -> bytes:
        """Return the hardware address that a bond gets: the permanent one of its first function."""
        first = self._links.get(part.members[0]) if part.members else None
        return (first.permanent or first.address) if first else b""

    # -- refusing ----------------------------------------------------------------------------------------------------

    def plan_removals(self, targets: t.Sequence[Target]) -> None:
        """Find the bonds and VLANs of earlier runs, and members of bonds, that are not planned now."""
        planned = {target.link.ifindex for target in targets}
        names = {target.name for target in targets if target.port.part and target.port.part.kind}
        for name in sorted(self._made - names):
            link = self._state.named(name)
            if link and link.kind in (BOND, VLAN) and link.ifindex not in planned:
                self._leaving.append(link)
        # VLANs before their parents
        self._leaving.sort(key=lambda link: link.kind != VLAN)
        self.removed = {link.ifindex for link in self._leaving}
        for link in self._leaving:
            why = self._why_in_use(link, self._names(self.removed))
            if why:
                message = "the plan does not contain %s in this form, and it cannot be removed: %s" % (link.name, why)
                self.errors.append(Refused(message, link.name, "end what uses it, and run again"))
            if link.kind == BOND:
                self.released.update((each.ifindex, each) for each in self._members(link))
        for target in targets:
            part = target.port.part
            if part and part.kind == BOND and target.link.ifindex > 0:
                wanted = {each.ifindex for each in self._planned_members(part)}
                self.released.update(
                    (each.ifindex, each) for each in self._members(target.link) if each.ifindex not in wanted
                )

    def check(self, targets: t.Sequence[Target]) -> None:
        """Find masters that are not planned, and bonds and VLANs that cannot be made or changed."""
        for target in targets:
            part = target.port.part
            self._check_master(target, part)
            if part and part.kind == VLAN:
                self._check_vlan(target, part)
            elif part and part.kind == BOND:
                self._check_members(target, part)
                self._check_mode(target, part, targets)

    def _check_master(self, target: Target, part: Part | None) -> None:
        port, link, _name = target
        master = self._state.links.get(link.master or 0)
        if not link.master or link.ifindex in self.released or (master and part and master.name == part.master):
            return
        name = master.name if master else "interface %d" % link.master
        kind = (master.kind if master else None) or "master"
        message = "%s is a member of %s (%s)" % (link.name, name, kind)
        remedy = (
            "take it out there (ip link set %s nomaster) with the file that makes it one, and run again" % link.name
        )
        if part and part.master:
            message += " instead of the planned %s" % part.master
        else:
            message += ", and a port that has a master gets no address"
            if kind == BOND:
                remedy = "plan the port with bond: {name: %s, members: [...]}, or set managed: false for it" % name
        self.errors.append(Refused(message, at(port, "pci" if port.pci else "netdev"), remedy))

    def _check_vlan(self, target: Target, part: Part) -> None:
        parent = self._links.get(str(part.parent))
        for link in self._state.links.values():
            same = link.kind == VLAN and parent and link.below == parent.ifindex and decode_vlan(link.data) == part.vlan
            if same and link.ifindex != target.link.ifindex and link.ifindex not in self.removed:
                message = "VLAN %d of %s exists as %s" % (part.vlan or 0, part.parent, link.name)
                remedy = "plan that name (vlan: {id: %d, name: %s}), or remove it and run again"
                remedy %= (part.vlan or 0, link.name)
                self.errors.append(Refused(message, at(target.port, "netdev"), remedy))

    def _check_members(self, target: Target, part: Part) -> None:
        # the bond itself: another program may add a member while the run observes the node
        ours = {target.name, *self._names(self.removed)}
        for member in self._planned_members(part):
            if member.type == ARPHRD_INFINIBAND:
                message = "%s is InfiniBand, and RoCE needs Ethernet below a bond" % member.name
                self.errors.append(Unsupported(message, _place(target.port), "plan a rail for each InfiniBand port"))
            if member.master == target.link.ifindex:
                continue
            masters = self._names({member.master} if member.ifindex in self.released and member.master else set())
            why = self._foreign.why_not_down(member, netdev_pci(self._system, member.name), {*ours, *masters})
            if why:
                message = "%s must go down to become a member of %s, and cannot: %s" % (member.name, target.name, why)
                self.errors.append(Refused(message, _place(target.port), "end what uses it, and run again"))

    def _check_mode(self, target: Target, part: Part, targets: t.Sequence[Target]) -> None:
        """A bond must go down for another mode or LACP rate, and with it the VLANs on it."""
        if target.link.ifindex < 0 or not self._needs_down(target.link, part):
            return
        vlans = [each.link for each in targets if each.name in part.vlans and each.link.ifindex > 0]
        planned = {*part.vlans, *self._names(self.removed)}
        reasons = [self._why_in_use(link, planned) for link in [target.link, *vlans]]
        if any(reasons):
            message = "%s must go down for another mode or LACP rate, and cannot: %s"
            message %= (target.name, "; ".join(filter(None, reasons)))
            self.errors.append(Refused(message, _place(target.port), "drain the node, and run again"))

    def _why_in_use(self, link: Link, ours: t.Collection[str]) -> str | None:
        # one of the functions has the RDMA device of the bond
        below = [netdev_pci(self._system, each.name) for each in self._members(link)]
        reasons = [self._foreign.why_in_use(link, [pci for pci in below if pci], ours)]
        reasons += vf_holders.interfaces_on(self._system, {link.ifindex: link.name})[link.name]
        return "; ".join(filter(None, reasons)) or None

    def _names(self, indices: t.Iterable[int]) -> set[str]:
        return {self._state.links[index].name for index in indices if index in self._state.links}

    def _planned_members(self, part: Part) -> list[Link]:
        return [self._links[name] for name in part.members if name in self._links]

    def _needs_down(self, link: Link, part: Part) -> bool:
        return any(key in ("mode", "lacp_rate") for key, _before, _after in self._bond_differences(link, part))

    # -- planning changes --------------------------------------------------------------------------------------------

    def remove(self) -> None:
        """Plan the removal of links and members that :meth:`plan_removals` found."""
        for link in self._leaving:
            self._change(link.name, "interface", _described(link), None, partial(self._rtnl.delete_link, link.ifindex))
        for link in self.released.values():
            master = self._state.links[link.master or 0]
            if master.ifindex not in self.removed:
                act = partial(self._rtnl.set_link, link.ifindex, master=0)
                self._change(link.name, "master", master.name, None, act)

    def set_down(self, targets: t.Sequence[Target]) -> set[int]:
        """Return the indices of present links that the changes set down, with their routes and IPv6 addresses."""
        found = {*self.removed, *self.released, *(self._links[name].ifindex for name in self._added)}
        for target in targets:
            part = target.port.part
            if not part or part.kind != BOND or target.link.ifindex < 0:
                continue
            if self._needs_down(target.link, part):
                found.add(target.link.ifindex)
                found |= {each.link.ifindex for each in targets if each.name in part.vlans}
        return found

    def plan_members(self, targets: t.Sequence[Target]) -> None:
        """Find the functions that become members of a bond in this run."""
        for target in targets:
            part = target.port.part
            for name in part.members if part else ():
                member = self._links.get(name)
                if member and (member.master != target.link.ifindex or member.ifindex in self.released):
                    self._added[name] = target.name

    def is_added(self, target: Target) -> bool:
        """Return whether a function becomes a member now. The kernel then sets its MTU and state as the bond's."""
        return (target.port.netdev or target.name) in self._added

    def shrinks(self, target: Target) -> bool:
        """Return whether the MTU of a present interface becomes smaller, which a bond does for its members."""
        port, link, _name = target
        if not port.part or port.part.master or link.ifindex < 0 or link.ifindex in self.released:
            return False
        return port.mtu is not None and port.mtu < link.mtu

    def follows_bond(self, target: Target, targets: t.Sequence[Target]) -> bool:
        """Return whether a function gets its MTU by a change of the bond that it is a member of."""
        master = target.port.part.master if target.port.part else None
        bond = next((each for each in targets if each.name == master), None)
        return bond is not None and bond.port.mtu is not None and bond.port.mtu != bond.link.mtu

    def mac(self, target: Target) -> str | None:
        """Return the hardware address that a bond keeps over boots: its own, if a function has it too."""
        part = target.port.part
        if not part or part.kind != BOND:
            return None
        addresses = [each.permanent or each.address for each in self._planned_members(part)]
        own = target.link.address if target.link.address in addresses else self._address(part)
        return hardware_address(own) or None

    def create(self, target: Target, link_up: t.Callable[[Link], None]) -> None:
        """Plan the bond or VLAN of a target, and its members.

        :param link_up: called with each link that is restarted.
        """
        part = target.port.part
        if not part or not part.kind:
            return
        link = target.link
        if link.ifindex < 0:
            text = "bond, %s" % part.bond.mode if part.bond else "VLAN %s on %s" % (part.vlan, part.parent)
            self._change(target.name, "interface", None, text, partial(self._create, target, part))
        elif part.kind == BOND:
            self._change_bond(target, part)
        if part.kind == BOND:
            for name in part.members:
                if self._added.get(name) == target.name and name in self._links:
                    self._enslave(target, self._links[name], name, link_up)
            self._set_primary(target, part)

    def _create(self, target: Target, part: Part) -> None:
        name, mtu = target.name, target.port.mtu
        if part.kind == VLAN:
            parent = self.index(self._links[str(part.parent)].ifindex)
            self._rtnl.new_link(encode_vlan(part.vlan or 0), name, parent, None, mtu, None)
        else:
            options = encode_bond(_options(part))
            try:
                self._rtnl.new_link(options, name, None, None, mtu, target.link.address or None)
            except NetlinkError as error:
                # when the module bonding is loaded, it may make a bond0 of its own (max_bonds)
                automatic = self._rtnl.link(name) if error.errno == errno.EEXIST else None
                links = self._rtnl.links() if automatic else []
                if not automatic or automatic.kind != BOND or automatic.ifindex in [each.master for each in links]:
                    raise
                self._rtnl.set_link(automatic.ifindex, up=False)
                self._rtnl.set_link(automatic.ifindex, mtu=mtu, address=target.link.address or None, kind=options)
        made = self._rtnl.link(name)
        if made:
            self._created[target.link.ifindex] = made.ifindex

    def _change_bond(self, target: Target, part: Part) -> None:
        link = target.link
        differences = [each for each in self._bond_differences(link, part) if each[0] in OPTIONS]
        for key, before, after in differences:
            options = BondOptions(**{key: after})
            if key == "mode":
                # without it, the kernel restores the members' state of before they were added
                members = [each for each in self._members(link) if each.ifindex not in self.released]
                act: t.Callable[[], None] = partial(self._change_mode, link, members, _options(part))
            elif key == "lacp_rate":
                act = partial(self._set_down_and_change, link, options)
            else:
                act = partial(self._rtnl.set_link, link.ifindex, kind=encode_bond(options))
            if key == "mode" or "mode" not in [each[0] for each in differences]:
                self._change(target.name, "bond.%s" % key, before, after, act)
        before, after = hardware_address(link.address), self.mac(target)
        if after and before != after:
            act = partial(self._rtnl.set_link, link.ifindex, address=self._address(part))
            self._change(target.name, "mac", before, after, act)

    def _change_mode(self, bond: Link, members: t.Sequence[Link], options: BondOptions) -> None:
        """Set the mode, and the other options, which a new mode resets. The kernel requires a bond without members."""
        self._rtnl.set_link(bond.ifindex, up=False)
        for member in members:
            self._rtnl.set_link(member.ifindex, master=0)
        self._rtnl.set_link(bond.ifindex, kind=encode_bond(options))
        for member in members:
            self._rtnl.set_link(member.ifindex, up=False)
            self._rtnl.set_link(member.ifindex, master=bond.ifindex)

    def _set_down_and_change(self, bond: Link, options: BondOptions) -> None:
        self._rtnl.set_link(bond.ifindex, up=False)
        self._rtnl.set_link(bond.ifindex, kind=encode_bond(options))

    def _enslave(self, target: Target, member: Link, name: str, link_up: t.Callable[[Link], None]) -> None:
        def act() -> None:
            # the kernel adds only members that are down, and sets them up
            self._rtnl.set_link(member.ifindex, up=False)
            self._rtnl.set_link(member.ifindex, master=self.index(target.link.ifindex))
            link_up(member)

        former = self._state.links.get(member.master or 0)
        before = former.name if former and member.ifindex not in self.released else None
        self._change(name, "master", before, target.name, act)

    def _set_primary(self, target: Target, part: Part) -> None:
        planned = self._links.get(part.primary or "")
        if not planned:
            return
        live = decode_bond(target.link.data).primary
        if live != planned.ifindex or part.primary in self._added:
            before = self._state.links.get(live or 0)

            def act() -> None:
                options = encode_bond(BondOptions(primary=planned.ifindex))
                self._rtnl.set_link(self.index(target.link.ifindex), kind=options)

            self._change(target.name, "bond.primary", before.name if before else None, part.primary, act)


def _place(port: Port) -> str:
    """Return the place of the options of a bond, for errors."""
    return "%s (%s)" % (port.place if port.rail.startswith(LOWER_PREFIX) else port.place + ".lower.bond", port.label)


def _options(part: Part) -> BondOptions:
    bond = part.bond
    if bond is None:
        return BondOptions()
    return BondOptions(bond.mode, bond.hash_policy, bond.lacp_rate, bond.min_links, MIIMON)


def _described(link: Link) -> str:
    if link.kind == BOND:
        return "bond, %s" % decode_bond(link.data).mode
    return "VLAN %s" % decode_vlan(link.data)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The interfaces below a rail port: a bond, the parent of a VLAN, and PCI functions (option ``lower``)."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_kinds import HASH_POLICIES, LACP_RATES
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import port_reference

# Modes of bonds that RoCE LAG supports (mlx5_core).
MODES = ("802.3ad", "active-backup", "balance-xor")
# Modes in which the hash of a packet selects the member.
HASHING = ("802.3ad", "balance-xor")
VLANS = range(1, 4095)
# Milliseconds; the kernel's own value for 802.3ad. With 0, a bond does not notice that a member has no carrier.
MIIMON = 100
# The rail of the ports that parts() derives begins with this, as do their files.
LOWER_PREFIX = "lower-"

FUNCTION_SPEC = {"pci": {"type": "str"}, "netdev": {"type": "str"}}
BOND_SPEC = {
    "name": {"type": "str", "required": True},
    "mode": {"type": "str", "choices": list(MODES), "default": "802.3ad"},
    # without choices, because the plan gives null for the kernel's default
    "hash_policy": {"type": "str"},
    "lacp_rate": {"type": "str"},
    "primary": {"type": "str"},
    "min_links": {"type": "int"},
}
LOWER_SPEC: dict[str, t.Any] = {
    "vlan": {"type": "int"},
    "parent": {"type": "str"},
    "bond": {"type": "dict", "options": BOND_SPEC},
    "functions": {"type": "list", "elements": "dict", "options": FUNCTION_SPEC, "required": True},
}

Wrong = t.Callable[[str, str, str], None]


class Function(t.NamedTuple):
    """A PCI function. ``netdev``: with ``pci`` the name that it gets."""

    pci: str | None
    netdev: str | None

    @property
    def key(self) -> str:
        return str(self.pci or self.netdev)


class Bond(t.NamedTuple):
    """A bond. Options that its mode does not have are None. ``primary``: the netdev or PCI address of a member."""

    name: str
    mode: str
    hash_policy: str | None = None
    lacp_rate: str | None = None
    primary: str | None = None
    min_links: int | None = None

    def lines(self, **formats: str) -> list[str]:
        """Return a line of a file for each option that the plan sets: option -> the format of its line."""
        return [text % getattr(self, key) for key, text in formats.items() if getattr(self, key) is not None]


class Lower(t.NamedTuple):
    """``vlan``: the id, if the interface is a VLAN on ``parent`` (the bond, or the only function)."""

    vlan: int | None
    parent: str | None
    bond: Bond | None
    functions: tuple[Function, ...]

    def as_options(self) -> dict[str, t.Any]:
        """Return it in the shape of the option."""
        return {
            "vlan": self.vlan,
            "parent": self.parent,
            "bond": self.bond._asdict() if self.bond else None,
            "functions": [each._asdict() for each in self.functions],
        }


class Part(t.NamedTuple):
    """The place of an interface among those that are built on each other.

    ``depth``: 0 of a function, 1 of a bond, 2 of a VLAN. ``bond``, ``members``: of a bond. ``vlan``, ``parent``: of a
    VLAN. ``master``: the bond that a function is a member of; ``is_primary``: as its primary. ``vlans``: names of the
    VLANs on it. ``rail``: for an interface that only serves rail ports, the first of their rails.
    """

    depth: int
    bond: Bond | None = None
    members: tuple[str, ...] = ()
    vlan: int | None = None
    parent: str | None = None
    master: str | None = None
    vlans: tuple[str, ...] = ()
    is_primary: bool = False
    rail: str = ""

    @property
    def kind(self) -> str | None:
        """The kind of the interface in the kernel; None of a function."""
        return (None, "bond", "vlan")[self.depth]

    @property
    def primary(self) -> str | None:
        return self.bond.primary if self.bond else None


def read(option: t.Mapping[str, t.Any], place: str, netdev: str | None, errors: list[RailyardError]) -> Lower | None:
    """Read the option ``lower`` of a port with interface ``netdev``. Add errors and return None if it is invalid."""
    before = len(errors)

    def wrong(key: str, message: str, remedy: str) -> None:
        errors.append(RailyardError(message, "%s.%s" % (place, key), remedy))

    functions = []
    for number, each in enumerate(option.get("functions") or []):
        _place, pci, name = port_reference.read(each, "%s.functions[%d]" % (place, number), errors)
        functions.append(Function(pci, name))
    bond = _bond(option.get("bond"), functions, wrong)
    vlan, parent = option.get("vlan"), option.get("parent") or None
    if not functions:
        wrong("functions", "no function is given", "give the functions below the interface")
    elif not bond and len(functions) > 1:
        wrong("functions", "%d functions are given, but no bond" % len(functions), "give the bond, or one function")
    if vlan is None and not bond:
        wrong("vlan", "neither vlan nor bond is given", "give one of them, or leave lower out")
    if vlan is None:
        if bond and netdev != bond.name:
            wrong("bond.name", "the bond is %s, but the interface %s" % (bond.name, netdev), "give both one name")
    elif vlan not in VLANS:
        wrong("vlan", "%d is not between 1 and 4094" % vlan, "plan a VLAN id in that range")
    else:
        below = bond.name if bond else functions[0].netdev if functions else None
        if not netdev:
            wrong("vlan", "the VLAN has no name", "give it as netdev")
        if below and (parent or below) != below:
            wrong("parent", "the parent is %s, but the interface below the VLAN %s" % (parent, below), "give one name")
        parent = parent or below
        if netdev and netdev in [parent, below, *(each.netdev for each in functions)]:
            message = "the VLAN and an interface below it have the same name %s" % netdev
            wrong("parent", message, "give the VLAN another name")
    if len(errors) > before:
        return None
    return Lower(vlan, parent if vlan is not None else None, bond, tuple(functions))


def _bond(option: t.Mapping[str, t.Any] | None, functions: t.Sequence[Function], wrong: Wrong) -> Bond | None:
    if not option:
        return None
    name, mode = str(option["name"]), option.get("mode") or MODES[0]
    if not port_reference.NETDEV.match(name):
        wrong("bond.name", "%r is not a valid netdev name" % name, "use at most 15 letters, digits, '-', '_' and '.'")
    if name in [each.netdev for each in functions]:
        wrong("bond.name", "the bond and a member have the same name %s" % name, "give the bond another name")
    for key, values in (("hash_policy", HASH_POLICIES), ("lacp_rate", LACP_RATES)):
        if option.get(key) not in (None, *values):
            wrong("bond.%s" % key, "%s is not one of %s" % (option[key], ", ".join(values)), "give one of them")
    primary, min_links = option.get("primary") or None, option.get("min_links")
    if primary and primary not in [value for each in functions for value in each if value]:
        wrong("bond.primary", "%s is not a member of %s" % (primary, name), "give the netdev or pci of a member")
    if min_links is not None and not 0 <= min_links <= len(functions):
        wrong(
            "bond.min_links",
            "min_links is %d, and the bond has %d members" % (min_links, len(functions)),
            "plan at most the number of members",
        )
    return Bond(
        name,
        mode,
        option.get("hash_policy") if mode in HASHING else None,
        option.get("lacp_rate") if mode == "802.3ad" else None,
        primary if mode == "active-backup" else None,
        min_links,
    )

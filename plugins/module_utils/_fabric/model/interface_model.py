# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an interface of a rail port consists of: a bond, a VLAN, and the functions below.

Values that the file does not set are None here; the plan adds the defaults.
"""

from __future__ import annotations

import typing as t

LACP, ACTIVE_BACKUP, BALANCE_XOR = "802.3ad", "active-backup", "balance-xor"
# Modes of bonds that RoCE LAG supports, the default first (mlx5_handle_changeupper_event() in
# drivers/net/ethernet/mellanox/mlx5/core/lag/lag.c: the bond is active-backup, or distributes packets by a hash).
BOND_MODES = (LACP, ACTIVE_BACKUP, BALANCE_XOR)
HASH_POLICIES = ("layer3+4", "layer2+3", "layer2", "encap2+3", "encap3+4", "vlan+srcmac")
LACP_RATES = ("fast", "slow")
# Setting of a bond -> the modes in which it has an effect (bond_options.c of the kernel refuses or ignores it in
# others).
SETTING_MODES = {
    "hash_policy": (LACP, BALANCE_XOR),
    "lacp_rate": (LACP,),
    "primary": (ACTIVE_BACKUP,),
    "min_links": (LACP,),
}
# Keys that identify a function. ``port`` is the number of a function on the card with this slot or serial number.
FUNCTION_KEYS = ("netdev", "pci", "slot", "serial", "mac", "port")
# Keys that identify a function whatever its name, so that ``netdev`` beside them is a new name.
_LASTING = ("pci", "slot", "serial", "mac")


class Member(t.NamedTuple):
    """A function below a bond, with the same values as a port."""

    netdev: str | None = None
    pci: str | None = None
    slot: str | None = None
    serial: str | None = None
    mac: str | None = None
    port: int | None = None

    @property
    def renamed(self) -> bool:
        """Whether ``netdev`` is a new name, because another key identifies the function."""
        return is_renamed(self)


def is_renamed(function: t.Any) -> bool:
    """Return whether a key other than the netdev identifies a function, a port or a :class:`Member`."""
    return any(getattr(function, key) is not None for key in _LASTING)


class Bond(t.NamedTuple):
    """A bond. ``members``: its functions, in the order of the file. ``min_links``: links that it needs to be up."""

    name: str | None = None
    mode: str | None = None
    hash_policy: str | None = None
    lacp_rate: str | None = None
    primary: str | None = None
    min_links: int | None = None
    members: tuple[Member, ...] = ()

    def over(self, base: Bond) -> Bond:
        """Return the bond with the settings of ``base`` that it does not have. Members replace all of ``base``.

        Settings of ``base`` without effect in another mode of this bond do not apply.
        """
        useless = [key for key, modes in SETTING_MODES.items() if self.mode and self.mode not in modes]
        return Bond._make(
            of_base if own in (None, ()) and key not in useless else own
            for key, own, of_base in zip(self._fields, self, base)
        )

    def host_variable(self, managed: bool) -> dict[str, t.Any]:
        """Return the settings with their defaults. Settings of a bond of others, if not in the file, stay None."""
        mode = self.mode or LACP
        defaults = {"hash_policy": HASH_POLICIES[0], "lacp_rate": LACP_RATES[0]} if managed else {}
        settings = {
            key: getattr(self, key) or (defaults.get(key) if mode in modes else None)
            for key, modes in SETTING_MODES.items()
        }
        return {"name": self.name, "mode": mode, **settings}


class Plane(t.NamedTuple):
    """A plane over which a NIC distributes the packets of its interface.

    It is a port of the RDMA device (``rdma_port``: its number), a function of the NIC, or both.
    """

    rdma_port: int | None = None
    function: Member | None = None

    def renamed(self, port: t.Any, netdev: str | None) -> Plane:
        """Return the plane with another name of its function, if this is the function of ``port``."""
        own = self.function
        if own is None or (own.pci, own.netdev) != (port.pci, port.netdev):
            return self
        return self._replace(function=own._replace(netdev=netdev))


class Vlan(t.NamedTuple):
    """A VLAN. ``id``: 1 to 4094. ``name``: the name of its interface; None: the default."""

    id: int | None = None
    name: str | None = None

    def over(self, base: Vlan) -> Vlan:
        """Return the VLAN with the values of ``base`` that it does not have."""
        return Vlan(self.id or base.id, self.name or base.name)

    def interface(self, parent: str | None) -> str | None:
        """Return the name of the interface of the VLAN on ``parent``; None if it is unknown."""
        if self.name or not parent or self.id is None:
            return self.name
        return "%s.%d" % (parent, self.id)

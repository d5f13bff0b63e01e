# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A rail port as the files of all back-ends describe it."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.lower_spec import LOWER_PREFIX, Part
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_spec import Port, Side

HEAD = "# Written by railyard.fabric.rail_ports, which replaces it at its next run: change the fabric file instead."

# Sorts before files of netplan (10-) and of images (20-, 70-...): systemd uses the first file that matches.
SYSTEMD_PREFIX = "05-railyard-"
NM_PREFIX = "railyard-"
# The name of a section and its lines; a file may have several of one name.
Section = t.Tuple[str, t.List[str]]


class File(t.NamedTuple):
    """A desired file. ``mode``: the permission bits."""

    text: str
    mode: int


class Kept(t.NamedTuple):
    """A persistent rail port, with its netdev name at the next boot. ``ifindex``: None until it has that name.

    ``sections``, ``link``: sections of a ``.network`` file and lines of a ``.link`` file of other programs, which
    Railyard's files replace and therefore repeat. ``mac``: the hardware address of a bond.
    """

    port: Port
    netdev: str
    ifindex: int | None
    infiniband: bool
    sections: tuple[Section, ...] = ()
    link: tuple[str, ...] = ()
    mac: str | None = None

    @property
    def part(self) -> Part:
        """The place of the interface among those that are built on each other; of others, that of a function."""
        return self.port.part or Part(0)

    @property
    def description(self) -> str:
        if not self.port.rail.startswith(LOWER_PREFIX):
            return "Rail %s" % self.port.rail
        return "Member of %s" % self.part.master if self.part.master else "Below rail ports"

    @property
    def has_no_address(self) -> bool:
        """Whether it only serves rail ports, so that it gets no address, not even a link-local one."""
        return self.port.rail.startswith(LOWER_PREFIX)

    @property
    def sides_with_rules(self) -> list[Side]:
        """The sides of the port that have rules to its table."""
        return self.port.sides if self.port.table is not None and self.port.priority is not None else []


def ini(sections: t.Sequence[tuple[str, t.Sequence[str]]]) -> str:
    """Return the text of a file of sections, with the note that Railyard writes it."""
    return HEAD + "\n" + "\n".join("[%s]\n%s\n" % (name, "\n".join(lines)) for name, lines in sections)

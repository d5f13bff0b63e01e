# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Health and cordons of rails. The kubelet does not allocate devices of a rail that is down or cordoned."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import AgentSpec, RailSpec
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.host_links import port_name
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import Holder
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.record_file import RecordFile
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink

# In the directory of the node file, whose changes the agent notices at once.
CORDONS = "/etc/railyard/cordons.json"
ADMINISTRATOR = "by an administrator"
UNREAD = "its link was not read yet"


class Cordon(t.NamedTuple):
    """A rail that gets no new pods. ``by``: the module that may remove the cordon; empty for an administrator's."""

    rail: str
    reason: str
    by: str = ""


def cordons(system: System) -> RecordFile[Cordon]:
    """Return the cordons by rail. They stay across reboots. Raises :class:`.RailyardError` if the file is damaged."""
    return RecordFile(
        system,
        CORDONS,
        "cordons",
        lambda row: Cordon(**row),
        lambda cordon: dict(cordon._asdict()),
        lambda cordon: cordon.rail,
        ("the cordoned rails are unknown", "remove the file, and cordon the rails again"),
    )


def observed_cordons(system: System) -> dict[str, dict[str, str]]:
    """Return rail -> its ``reason`` and ``by``. Raises :class:`.RailyardError` if the file is damaged."""
    return {rail: {"reason": row.reason, "by": row.by} for rail, row in cordons(system).all().items()}


def check_rail(spec: AgentSpec, rail: str) -> None:
    """Raise :class:`.RailyardError` if the node does not have this rail."""
    rails = [each.rail for each in spec.rails]
    if rail not in rails:
        message = "unknown rail; node %s has %s" % (spec.node, ", ".join(rails))
        raise RailyardError(message, "rail %s" % rail, "use the name of one of these rails")


class Health(t.NamedTuple):
    """Why a rail cannot serve new pods. ``down``: the state of its port. ``cordon``: the reason of its cordon. Both are
    empty if the rail is healthy.
    """

    down: str = ""
    cordon: str = ""

    @property
    def healthy(self) -> bool:
        return not (self.down or self.cordon)

    @property
    def reason(self) -> str:
        return "; ".join(filter(None, [self.down, self.cordon and "cordoned: " + self.cordon]))


def look(
    spec: AgentSpec, holders: t.Iterable[Holder], cordoned: t.Mapping[str, Cordon], system: System | None = None
) -> dict[str, Health]:
    """Return rail -> health. ``cordoned``: by rail. Raises :class:`.codec.NetlinkError`."""
    system = system or System()
    with Rtnetlink() as kernel:
        links = {link.name: link for link in kernel.links()}
    # a port that is in a pod is healthy until it returns
    away = {row["rail"] for holder in holders for row in holder.interfaces if row.get("host")}
    ports_away = away if spec.attachment == "host-device" else set()
    return {
        rail.rail: Health(
            down(rail, links.get(port_name(system, rail)), rail.rail in ports_away),
            (cordoned[rail.rail].reason or ADMINISTRATOR) if rail.rail in cordoned else "",
        )
        for rail in spec.rails
    }


def down(rail: RailSpec, link: Link | None, away: bool) -> str:
    """Return why a rail's port cannot serve pods; empty if it can.

    :param link: the port; None if the node does not have it.
    :param away: whether it is in a pod.
    """
    if link is None:
        return "" if away else "%s is not on the node" % rail.netdev
    if not link.up:
        return "%s is set down" % rail.netdev
    return "" if link.carrier else "%s has no carrier" % rail.netdev

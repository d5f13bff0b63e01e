# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Health of rail ports. The kubelet does not allocate devices of an unhealthy rail."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.agent_spec import AgentSpec, RailSpec
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.host_links import port_name
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent.slot_state import Holder
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import Rtnetlink


class Health(t.NamedTuple):
    """Whether a rail can serve pods. ``reason``: why it cannot; empty if it can."""

    healthy: bool
    reason: str = ""


def look(spec: AgentSpec, holders: t.Iterable[Holder], system: System | None = None) -> dict[str, Health]:
    """Return rail -> health. Raises :class:`.codec.NetlinkError`."""
    system = system or System()
    with Rtnetlink() as kernel:
        links = {link.name: link for link in kernel.links()}
    # a port that is in a pod is healthy until it returns
    away = {row["rail"] for holder in holders for row in holder.interfaces if row.get("host")}
    ports_away = away if spec.attachment == "host-device" else set()
    return {rail.rail: health(rail, links.get(port_name(system, rail)), rail.rail in ports_away) for rail in spec.rails}


def health(rail: RailSpec, link: Link | None, away: bool) -> Health:
    """Return the health of a rail. ``link``: its port; None if the node does not have it. ``away``: it is in a pod."""
    if link is None:
        return Health(True) if away else Health(False, "%s is not on the node" % rail.netdev)
    if not link.up:
        return Health(False, "%s is set down" % rail.netdev)
    if not link.carrier:
        return Health(False, "%s has no carrier" % rail.netdev)
    return Health(True)

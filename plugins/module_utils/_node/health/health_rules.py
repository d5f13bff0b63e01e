# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the health service reports: codes with cause and remedy.

A code that verify has too has the same name and title there (``_fabric.verify.base``).
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.health_thresholds import THRESHOLDS, Threshold


class Rule(t.NamedTuple):
    """One kind of finding.

    :param code: permanent; its meaning never changes. :param name: unique, for people.
    :param cause: the likely cause. :param remedy: what a user can do.
    :param degraded: whether the rail still carries traffic, with less than planned. Otherwise it fails.
    :param unknown: whether the state of the rail is unknown because of it.
    :param confirm: observations in a row that must show the difference before it is a finding.
    """

    code: str
    name: str
    title: str
    cause: str
    remedy: str
    degraded: bool = False
    confirm: int = 1
    unknown: bool = False


class Fact(t.NamedTuple):
    """A difference that one observation shows.

    :param code: a key of :data:`RULES`. :param what: the thing that was looked at. :param expected, found: as text.
    :param plane: the number of the plane. :param peer: the other node, if a probe found it.
    :param cause, remedy: empty: those of the code. :param quiet: seconds until it ends; None: those of the spec.
    """

    code: str
    what: str
    expected: str
    found: str
    plane: int | None = None
    peer: str | None = None
    cause: str = ""
    remedy: str = ""
    quiet: float | None = None

    @property
    def degrades(self) -> bool:
        """Whether the rail still carries traffic. What happens with one other node is not a failure of the rail."""
        return RULES[self.code].degraded or self.peer is not None

    @property
    def key(self) -> tuple[str, str, int | None, str | None]:
        """What is the same in each observation of the same difference."""
        return self.code, self.what, self.plane, self.peer


_HAND = "it was changed by hand or by another network service"
_CABLE = "the cable is unplugged or broken, or the port of the leaf is down"
_HOSTS = "run hosts.yml --tags %s"

RULES: dict[str, Rule] = {
    rule.code: rule
    for rule in (
        Rule(
            *("RV201", "nic-missing", "the NIC was not found"),
            "the card is no longer on the PCI bus, is in another slot, or is broken",
            "run 'lspci -D' and 'dmesg' on the node",
        ),
        Rule(
            *("RV203", "netdev-missing", "the NIC has no network interface on the host"),
            "it was moved into another network namespace, or the driver created none",
            "delete the pod or network namespace that holds it, or run 'dmesg' on the node",
        ),
        Rule(
            *("RV204", "netdev-name-mismatch", "the network interface has another name than planned"),
            "a driver, a rule of udev or another program named it",
            _HOSTS % "rail_ports",
        ),
        Rule(
            *("RV401", "link-disabled", "the link is administratively down"),
            "it was set down by hand (ip link set ... down)",
            _HOSTS % "rail_ports",
        ),
        Rule(
            *("RV402", "rail-link-down", "the link has no carrier"),
            _CABLE,
            "check the cable, the transceivers and the port of the leaf",
        ),
        Rule(
            *("RV403", "link-speed-too-low", "the link is slower than planned"),
            "a transceiver or cable of another type, bad lanes, or a speed that is fixed at the leaf",
            "run 'ethtool' for the interface, and check the port of the leaf",
            confirm=2,
        ),
        Rule(*("RV404", "mtu-mismatch", "the MTU is not as planned"), _HAND, _HOSTS % "rail_ports", confirm=2),
        Rule(
            *("RV405", "rdma-device-missing", "the RDMA device was not found"),
            "the RDMA module of the driver is not loaded, or the soft RDMA link was deleted",
            _HOSTS % "rdma_links",
        ),
        Rule(
            *("RV406", "rdma-device-name-mismatch", "the RDMA device has another name than planned"),
            "udev or the kernel named it after the last boot or driver reload",
            _HOSTS % "rdma_links",
        ),
        Rule(
            *("RV407", "rdma-device-inactive", "the RDMA device is not ACTIVE"),
            "the link came up only recently, or no subnet manager has configured the port",
            "run 'rdma link' on the node; on InfiniBand check the subnet manager",
        ),
        Rule(
            *("RV410", "interface-kind-mismatch", "the interface has another kind than planned"),
            "another program created an interface with this name",
            "remove it with 'ip link delete', and run hosts.yml --tags rail_ports",
        ),
        Rule(
            *("RV411", "interface-missing", "the bond or VLAN of the port does not exist"),
            "it was removed by hand, or was not created at boot",
            _HOSTS % "rail_ports",
        ),
        Rule(
            *("RV413", "bond-member-missing", "a NIC is missing in the bond"),
            "it was removed from the bond by hand, or its card is missing",
            _HOSTS % "rail_ports",
            degraded=True,
        ),
        Rule(
            *("RV414", "bond-member-down", "a member of the bond carries no traffic"),
            "its cable is unplugged or broken, or the port of the leaf is down",
            "check the cable, the transceivers and the port of the leaf",
            degraded=True,
        ),
        Rule(
            *("RV417", "lacp-partner-missing", "no switch answers LACP on the members of the bond"),
            "no LACP group contains the leaf ports, or LACP is disabled there",
            "configure LACP for the leaf ports of the bond",
            confirm=2,
        ),
        Rule(
            *("RV415", "bond-mode-mismatch", "the mode of the bond is not as planned"),
            _HAND,
            _HOSTS % "rail_ports",
        ),
        Rule(
            *("RV419", "vlan-mismatch", "the VLAN ID or the parent of the interface is not as planned"),
            "it was created by hand or by another network service",
            _HOSTS % "rail_ports",
        ),
        Rule(
            *("RV422", "plane-lost", "a plane of the rail has no link"),
            "its cable is unplugged or broken, or the port of the leaf is down",
            "check the cable, the transceivers and the port of the leaf of this plane",
            degraded=True,
        ),
        Rule(
            *("RV423", "plane-missing", "the node does not have a planned plane"),
            "the firmware of the NIC has another number of planes or functions, or another program has the function",
            "compare 'planes' of the profile with the results 'nics' and 'rdma' of railyard.fabric.rail_info",
            degraded=True,
        ),
        Rule(
            *("RV424", "plane-slow", "a plane is slower than planned"),
            "a transceiver or cable of another type, bad lanes, or a speed that is fixed at the leaf",
            "run 'ethtool' for the netdev of the plane, and check the port of the leaf",
            degraded=True,
            confirm=2,
        ),
        Rule(
            *("RV427", "plane-on-other-leaf", "a plane is connected to another leaf"),
            "its cable is plugged into another leaf than planned",
            "plug it into the planned leaf, or correct the plan",
            degraded=True,
        ),
        Rule(
            *("RV501", "address-missing", "the address is missing"),
            "it was removed by hand or by another network service",
            _HOSTS % "rail_ports",
            confirm=2,
        ),
        Rule(
            *("RV511", "gid-missing", "the address has no GID"),
            "the RDMA device was created before the link came up, or its GID table is stale",
            "set the link down and up, or reload the driver",
            confirm=3,
        ),
        Rule(
            *("RV701", "wrong-leaf", "the port is connected to another leaf than planned"),
            "its cable is plugged into another leaf",
            "plug it into the planned leaf, or correct the plan",
        ),
        Rule(
            *("RV704", "wrong-leaf-port", "the port is connected to another port of its leaf than planned"),
            "its cable is plugged into the wrong port of the right leaf",
            "plug it as planned, or correct the plan",
        ),
        Rule(
            *("RV801", "no-reply", "no reply to echo requests"),
            "the two ports are not in the same network: VLAN, leaf port, or a cable in another leaf",
            "check to which leaf ports the two are connected, and their VLANs",
        ),
        Rule(
            *("RV802", "path-mtu-too-small", "packets of the planned MTU do not pass"),
            "a leaf port on the path has a smaller MTU",
            "raise the MTU of the leaf's ports",
        ),
        Rule(
            *("RV803", "packet-loss", "packets are lost"),
            "a bad cable or transceiver",
            "check the error counters of both ports and of the leaf",
        ),
        Rule(
            *("RV854", "latency-outlier", "the latency is far above that of other pairs"),
            "a longer path through the network, congestion, or a link that sends packets again",
            "check the counters of the port and of the leaf, and run verify.yml for the rail",
            degraded=True,
        ),
        Rule(
            *("RV890", "rail-unread", "the state of the rail is unknown"),
            "a file of the driver or the kernel could not be read",
            "run 'journalctl -u railyard-health' and 'dmesg' on the node",
        ),
        Rule(
            *("RV891", "link-flapping", "the link goes down and up repeatedly"),
            "a bad cable or transceiver, or the port of the leaf",
            "clean or replace the cable and the transceivers, and check the log of the leaf",
        ),
        Rule(
            *("RV892", "error-counters-fatal", "a counter of fatal link errors increased"),
            "a bad cable or transceiver, or a link that was retrained",
            "check the counters of the port and of the leaf, and replace the cable",
        ),
        Rule(
            *("RV893", "error-rate-high", "error counters increase faster than their threshold"),
            "a bad cable or transceiver, or a queue that overflows",
            "check the counters of the port and of the leaf",
            degraded=True,
        ),
        Rule(
            *("RV894", "no-partner-replies", "no partner replies on any rail"),
            "this node, or the whole network, has no path to other nodes, or they are down or ignore echo requests",
            "check the links of this node, and whether its partners run",
            unknown=True,
        ),
        Rule(
            *("RV895", "congestion-marks", "the network marks packets of one rail as congested"),
            "a port of the leaf is overloaded, or its ECN thresholds are lower than those of other leaves",
            "compare load and ECN thresholds of the leaf's ports with those of other rails",
            degraded=True,
        ),
    )
}


def thresholds(others: t.Mapping[str, float | None]) -> list[Threshold]:
    """Return the thresholds that apply. ``others``: name -> another value, or None: it is not judged."""
    values = [(row, others.get(row.name, row.above)) for row in THRESHOLDS.values()]
    return [row._replace(above=value) for row, value in values if value is not None]

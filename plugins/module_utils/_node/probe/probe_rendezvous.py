# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Where the two ends of a transfer exchange what RDMA needs to begin, if the rail has no IP address.

perftest's ends exchange LID, queue pair, key and memory address over TCP, on whatever network the client's last
argument is of; the data then goes by the device that ``-d`` names. Sources: perftest's ``src/perftest_communication.c``
(``ethernet_server_connect``, ``ethernet_client_connect``) and ``src/perftest_parameters.c``: ``--bind_source_ip`` since
23.07, ``--ipv6-addr`` since 23.10.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import management_path

_NOT_MET = "could not be met at"
# The messages of perftest if the other end refuses the connection. Without any answer it prints nothing until its
# timeout; a transfer that has begun ends by itself in seconds, well or not.
_SIGNS = ("Couldn't connect to", "Problem in resolving basic address")
_NO_TIME = 124


def management_address(
    system: System, netdevs: t.AbstractSet[str] = frozenset(), addresses: t.AbstractSet[str] = frozenset()
) -> str | None:
    """The address that this connection came in on, else one of the interface with the default route; None without.

    :param netdevs, addresses: the rails' own, which are never it.
    """
    own = management_path.connection_address(system)
    netdev = management_path.connection_netdev(system)
    # an address that no interface here has is that of something before the node
    if own and netdev and netdev not in netdevs and own not in addresses and not own.startswith("fe80"):
        return own
    ways = [name for name in management_path.default_route_netdevs(system) if name not in netdevs]
    held = _held(ways) if ways else []
    return next((address for address in held if address not in addresses), None)


def _held(netdevs: t.Sequence[str]) -> list[str]:
    """Addresses of these interfaces that reach further than their link, IPv4 first."""
    from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import ip_state, rtnetlink

    with rtnetlink.Rtnetlink() as table:
        names = {link.ifindex: link.name for link in table.links() if link.name in netdevs}
        rows = ip_state.look(table, names)["addresses"]
    rows.sort(key=lambda row: (":" in row["address"], row["secondary"], netdevs.index(row["netdev"])))
    return [str(row["address"]).partition("/")[0] for row in rows]


def nowhere(rail: str) -> RailyardError:
    """The error of a node that has no rendezvous address."""
    return RailyardError(
        "the port has no IP address, and the node no other than its rails' at which its partner could meet it",
        rail,
        "name one of the node's addresses with proof_meet",
    )


def arguments(system: System, program: str, address: str, serving: bool = False) -> list[str]:
    """perftest's arguments for a meeting at an IP address; a server listens there alone where it knows how to.

    :raises RailyardError: where the program meets over IPv4 alone, and the address is another.
    """
    six = ":" in address
    if not six and not serving:
        return []
    known = system.run([program, "--help"]).out
    if six and "--ipv6-addr" not in known:
        raise RailyardError(
            "the ends of ib_write_bw meet over IPv4 alone, and %s is not an IPv4 address" % address,
            "perftest",
            "install perftest 23.10 or newer, or name an IPv4 address of the nodes with proof_meet",
        )
    bound = ["--bind_source_ip", address] if serving and "--bind_source_ip" in known else []
    return [*(["--ipv6-addr"] if six else []), *bound]


def failed(done: CommandResult) -> bool:
    """Whether the two ends never met, so that the result shows nothing about the rail."""
    return done.rc == _NO_TIME or any(sign in done.err + done.out for sign in _SIGNS)


def not_met(peer: str, address: str, port: int, done: CommandResult) -> dict[str, str]:
    """``error`` and ``remedy`` of a transfer that never began."""
    silent = " (%s)" % done.err if done.rc == _NO_TIME else ""
    return {
        "error": "%s %s %s, TCP port %d%s: nothing is known of the rail" % (peer, _NOT_MET, address, port, silent),
        "remedy": "let the nodes' TCP connections to each other through the firewalls of both (docs/security.md), or "
        "name other addresses of theirs with proof_meet",
    }


def is_not_met(result: t.Mapping[str, t.Any]) -> bool:
    """Whether a transfer's result is that of :func:`not_met`."""
    return " %s " % _NOT_MET in str(result["error"])

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The address at which the two ends of an RDMA transfer meet, if the rail does not have IP addresses.

The ends of perftest exchange LID, queue pair, key and memory address over TCP, in the network of the client's last
argument. The data then goes through the device that ``-d`` names. Sources: perftest's
``src/perftest_communication.c`` (``ethernet_server_connect``, ``ethernet_client_connect``) and
``src/perftest_parameters.c``: ``--bind_source_ip`` since 23.07, ``--ipv6-addr`` since 23.10.
"""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import CommandResult, System

_NOT_MET = "could not be met at"
# Messages of perftest if the other end refuses the connection. Without an answer it prints nothing until the timeout.
# A transfer that has started ends within seconds.
_REFUSED = ("Couldn't connect to", "Problem in resolving basic address")
_TIMED_OUT = 124


def no_address_error(rail: str) -> RailyardError:
    """Return the error of a port without IP address on a node without an address outside the rails."""
    return RailyardError(
        "the port does not have an IP address, and the node does not have one outside its rails at which its partner"
        " can meet it",
        rail,
        "set proof_meet to an address of the node",
    )


@functools.lru_cache(maxsize=None)
def help_text(system: System, program: str) -> str:
    """Return the help of a program of perftest, which names its options. The program runs once for all rails."""
    return system.run([program, "--help"]).out


def arguments(system: System, program: str, address: str, serving: bool = False) -> list[str]:
    """Return the arguments of perftest for a meeting at an IP address.

    :param serving: of the server, which listens only at this address if the program has the option.
    :raises RailyardError: if the address is IPv6, and the program supports only IPv4.
    """
    ipv6 = ":" in address
    if not ipv6 and not serving:
        return []
    known = help_text(system, program)
    if ipv6 and "--ipv6-addr" not in known:
        raise RailyardError(
            "the installed ib_write_bw supports only IPv4, and %s is an IPv6 address" % address,
            "perftest",
            "install perftest 23.10 or newer, or set proof_meet to an IPv4 address of the nodes",
        )
    bind = ["--bind_source_ip", address] if serving and "--bind_source_ip" in known else []
    return [*(["--ipv6-addr"] if ipv6 else []), *bind]


def failed(done: CommandResult) -> bool:
    """Return whether the two ends never met, so that the result does not show anything about the rail."""
    return done.rc == _TIMED_OUT or any(sign in done.err + done.out for sign in _REFUSED)


def not_met(peer: str, address: str, port: int, done: CommandResult) -> dict[str, str]:
    """Return ``error`` and ``remedy`` of a transfer that did not start."""
    timeout = " (%s)" % done.err if done.rc == _TIMED_OUT else ""
    return {
        "error": "%s %s %s, TCP port %d%s: the rail was not tested" % (peer, _NOT_MET, address, port, timeout),
        "remedy": "allow TCP connections between the nodes in the firewalls of both (docs/security.md), or set"
        " proof_meet to other addresses of the nodes",
    }


def is_not_met(result: t.Mapping[str, t.Any]) -> bool:
    """Return whether a transfer's result is from :func:`not_met`."""
    return " %s " % _NOT_MET in str(result["error"])

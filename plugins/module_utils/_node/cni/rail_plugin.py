# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The CNI plugin ``railyard-rail``: gives a pod's interface on a rail the settings of the rail's port on the node.

It is the last plugin of a chain, and a separate program on the node, which :mod:`cni_plugins` packs. Released plugins
cannot be used: ``sbr`` up to 1.5 does not have an option for the table and takes the first free one, and from 1.6 on it
adds rules to a table that stays empty; ``tuning`` up to 1.2 fails each CHECK of an interface's sysctls.

Keys of its configuration: ``sysctl`` of the interface in ``net.ipv4.conf``; ``mtu``; ``table``, the routing table of
the pod's addresses; ``priority`` of its rules; and ``routes``, ``[{dst, gw}]``, of the table, in addition to the route
to the address's network. Settings without a key are not changed. Source: the CNI specification 1.1.0,
https://www.cni.dev/docs/spec/.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import json
import os
import sys
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.in_namespace import enter
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rail_routes import (
    RouteSpec,
    rail_routes,
    source_rules,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import (
    Interface,
    Route,
    Rtnetlink,
    Rule,
)

NAME = "railyard-rail"
SYSCTL = "/proc/sys/net/ipv4/conf/%s/%s"
# The lock of runs that change devices of the node, boot_lock.DEVICES.
DEVICES = "/run/railyard/devices"
# Seconds to wait for such a run.
PATIENCE = 20.0
VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
# Step between the tables of a pod that is attached to a rail several times: each attachment needs a table.
NEXT_TABLE = 1000
# Error codes of the specification; those from 100 on are the plugin's.
BAD_ENVIRONMENT, BAD_INPUT, BAD_CONFIGURATION, FAILED = 4, 6, 7, 100
Document = t.Dict[str, t.Any]


class Failure(Exception):
    """An error for the runtime. ``code``: see above. ``text``: one line for users."""

    def __init__(self, code: int, text: str, remedy: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.remedy = remedy


class RailSpec:
    """The configuration. ``table``: None if the rail does not have a routing table in the pod."""

    def __init__(self, conf: Document) -> None:
        try:
            self.sysctl = {str(key): str(value) for key, value in (conf.get("sysctl") or {}).items()}
            self.mtu = None if conf.get("mtu") is None else int(conf["mtu"])
            self.table = None if conf.get("table") is None else int(conf["table"])
            self.priority = 0 if self.table is None else int(conf["priority"])
            self.routes = [
                (ipaddress.ip_network(route["dst"]), ipaddress.ip_address(route["gw"]))
                for route in conf.get("routes") or []
            ]
            if any("/" in key for key in self.sysctl):
                raise ValueError("sysctl")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Failure(
                BAD_CONFIGURATION,
                "%s: sysctl, mtu, table, priority or routes are wrong: %r" % (NAME, error),
                "run the playbook again, which rewrites the file",
            ) from None

    def table_routes(self, addresses: t.Sequence[Interface], table: int, index: int) -> list[Route]:
        """Return the routes of the table. ``index``: of the interface."""
        return rail_routes(index, addresses, table, planned=[RouteSpec(to, via, table) for to, via in self.routes])


def add(spec: RailSpec, name: str, addresses: t.Sequence[Interface]) -> None:
    """Configure the interface, the table and the rules of the addresses, in the current namespace."""
    with Rtnetlink() as kernel:
        link = _link(kernel, name)
        for key, value in spec.sysctl.items():
            with open(SYSCTL % (name, key), "w") as stream:
                stream.write(value)
        if spec.mtu is not None and link.mtu != spec.mtu:
            kernel.set_link(link.ifindex, mtu=spec.mtu)
        if spec.table is None:
            return
        table = _table(kernel, spec, spec.table, addresses)
        for route in spec.table_routes(addresses, table, link.ifindex):
            kernel.add_route(route)
        # last, so that addresses use the table only when it is complete
        for rule in source_rules(addresses, table, spec.priority):
            if not _present(kernel, rule):
                kernel.add_rule(rule)


def check(spec: RailSpec, name: str, addresses: t.Sequence[Interface]) -> None:
    """Compare the interface with its configuration. Raises :class:`Failure` for the first difference."""
    with Rtnetlink() as kernel:
        link = _link(kernel, name)
        for key, value in spec.sysctl.items():
            with open(SYSCTL % (name, key)) as stream:
                observed = stream.read().strip()
            if observed != value:
                raise Failure(FAILED, "%s: %s of %s is %s, not %s" % (NAME, key, name, observed, value))
        if spec.mtu is not None and link.mtu != spec.mtu:
            raise Failure(FAILED, "%s: the MTU of %s is %s, not %d" % (NAME, name, link.mtu, spec.mtu))
        if spec.table is not None:
            _check_table(kernel, spec, spec.table, link.ifindex, addresses)


def _check_table(kernel: Rtnetlink, spec: RailSpec, planned: int, index: int, addresses: t.Sequence[Interface]) -> None:
    table = _table(kernel, spec, planned, addresses)
    for rule in source_rules(addresses, table, spec.priority):
        if not _present(kernel, rule):
            raise Failure(FAILED, "%s: the rule %s %s is missing" % (NAME, rule.selector, rule.action))
    observed = {
        (route.destination, route.gateway)
        for version in {each.version for each in addresses}
        for route in kernel.routes(version)
        if (route.table, route.oif) == (table, index)
    }
    for route in spec.table_routes(addresses, table, index):
        if (route.destination, route.gateway) not in observed:
            raise Failure(FAILED, "%s: route %s %s is missing in table %d" % (NAME, route.destination, route, table))


def delete(spec: RailSpec, name: str, addresses: t.Sequence[Interface]) -> None:
    """Remove the rules of the addresses; the kernel removes the routes with the interface.

    Only rules with the configured priority are removed.
    """
    if spec.table is None:
        return
    with Rtnetlink() as kernel:
        link = kernel.link(name)
        sources = {address.ip for address in addresses}
        if link is not None:
            sources.update(address.interface.ip for address in kernel.addresses() if address.ifindex == link.ifindex)
        for version in {source.version for source in sources}:
            for rule in kernel.rules(version):
                source = rule.source
                if rule.priority == spec.priority and source is not None and source.network_address in sources:
                    kernel.delete_rule(rule)


def _link(kernel: Rtnetlink, name: str) -> Link:
    link = kernel.link(name)
    if link is None:
        raise Failure(FAILED, "%s: the interface %s does not exist in the pod" % (NAME, name))
    return link


def _table(kernel: Rtnetlink, spec: RailSpec, planned: int, addresses: t.Sequence[Interface]) -> int:
    """Return the table that the addresses use already; otherwise the planned table, or the next that is not used."""
    own = {address.ip for address in addresses}
    others = set()
    for version in (4, 6):
        for rule in kernel.rules(version):
            if rule.source is None:
                continue
            if rule.source.network_address not in own:
                others.add(rule.table)
            elif rule.priority == spec.priority and (rule.table - planned) % NEXT_TABLE == 0:
                return rule.table
    table = planned
    while table in others:
        table += NEXT_TABLE
    return table


def _present(kernel: Rtnetlink, desired: Rule) -> bool:
    return any(
        (rule.priority, rule.source, rule.table) == (desired.priority, desired.source, desired.table) and rule.plain
        for rule in kernel.rules(desired.version)
    )


# -- the specification's protocol --------------------------------------------------------------------------------------


def addresses_of(result: Document | None, name: str) -> list[Interface]:
    """Return the addresses of an interface in a previous result, including those without an interface index."""
    addresses = []
    interfaces = (result or {}).get("interfaces") or []
    for row in (result or {}).get("ips") or []:
        number = row.get("interface")
        if number is not None and 0 <= number < len(interfaces) and interfaces[number].get("name") != name:
            continue
        addresses.append(ipaddress.ip_interface(row["address"]))
    return addresses


@contextlib.contextmanager
def within(path: str) -> t.Iterator[None]:
    """Enter a network namespace, under a lock that only one process of this plugin has at a time.

    :raises FileNotFoundError: if the namespace does not exist any more.
    """
    with open(path, "rb") as stream, open("/proc/self/ns/net", "rb") as home:
        fcntl.flock(stream, fcntl.LOCK_EX)
        enter(stream.fileno())
        try:
            yield
        finally:
            enter(home.fileno())


def _wait_for_changes() -> None:
    """Wait for a run that changes devices of the node: it may remove the device that the preceding plugin moved to
    the pod. A run that begins later finds the device in the pod.

    :raises RailyardError: if it does not end within :data:`PATIENCE`.
    """
    if os.path.exists(DEVICES):
        # imported only here, because they take longer than an ADD
        from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock
        from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

        boot_lock.wait(System(), PATIENCE, DEVICES)


def act(command: str, environ: t.Mapping[str, str], conf: Document) -> Document | None:
    """Execute a command of the runtime, and return its result; None for commands without one.

    :raises Failure: if the command fails.
    """
    if command in ("GC", "STATUS"):
        # all state is in the pod's namespace, and only the kernel is required
        return None
    spec = RailSpec(conf)
    path, name = environ.get("CNI_NETNS", ""), environ.get("CNI_IFNAME", "")
    result: Document | None = conf.get("prevResult")
    try:
        addresses = addresses_of(result, name)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Failure(BAD_INPUT, "%s: prevResult is wrong: %r" % (NAME, error)) from None
    if command == "DEL":
        if path and name:
            with contextlib.suppress(FileNotFoundError), within(path):
                delete(spec, name, addresses)
        return None
    if not path or not name:
        raise Failure(BAD_ENVIRONMENT, "%s: CNI_NETNS and CNI_IFNAME must be given" % NAME)
    if not addresses and spec.table is not None:
        raise Failure(
            BAD_INPUT,
            "%s: the preceding plugins did not give %s an address" % (NAME, name),
            "place it after the plugin that creates the interface",
        )
    if command == "ADD":
        _wait_for_changes()
    with within(path):
        (add if command == "ADD" else check)(spec, name, addresses)
    return (result or {"cniVersion": conf.get("cniVersion", VERSIONS[-1])}) if command == "ADD" else None


def answer(environ: t.Mapping[str, str], text: str) -> tuple[int, Document | None]:
    """Execute the command of the environment. Return the exit status and the document for standard output.

    :param text: the configuration from standard input.
    """
    version = VERSIONS[-1]
    try:
        command = environ.get("CNI_COMMAND", "")
        try:
            conf = json.loads(text or "{}")
            version = str(conf.get("cniVersion") or version)
        except (ValueError, AttributeError):
            raise Failure(BAD_INPUT, "%s: standard input is not a JSON object" % NAME) from None
        if command == "VERSION":
            return 0, {"cniVersion": version, "supportedVersions": list(VERSIONS)}
        if command not in ("ADD", "CHECK", "DEL", "GC", "STATUS"):
            raise Failure(BAD_ENVIRONMENT, "%s: CNI_COMMAND is %r; a CNI runtime starts this program" % (NAME, command))
        return 0, act(command, environ, conf)
    except Failure as error:
        return 1, _error(version, error.code, error.text, error.remedy)
    except RailyardError as error:
        return 1, _error(version, FAILED, "%s: %s: %s" % (NAME, error.place, error.message), error.remedy)
    except OSError as error:
        return 1, _error(version, FAILED, "%s: %s" % (NAME, error))


def _error(version: str, code: int, text: str, remedy: str = "") -> Document:
    document = {"cniVersion": version, "code": code, "msg": text}
    return dict(document, details="Remedy: %s." % remedy) if remedy else document


def main() -> int:
    status, document = answer(os.environ, "" if sys.stdin.isatty() else sys.stdin.read())
    if document is not None:
        sys.stdout.write(json.dumps(document) + "\n")
    return status

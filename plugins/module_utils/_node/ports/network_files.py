# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Persistent rail ports, in the files that the distribution reads at boot.

Every back-end needs systemd ``.link`` files, which assign the netdev name of a PCI address, and one sysctl.d file.
Addresses, routes and rules are written for the back-end that manages the node's network: systemd-networkd, netplan or
NetworkManager. Railyard's files are identified by their names, so files of former rails are removed.

Sources: systemd.link(5), systemd.network(5), netplan(5), nm-settings-keyfile(5), sysctl.d(5).
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Unsupported
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import SCOPE_LINK, Route
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports import (
    foreign_files,
    foreign_netdevs,
    keyfile,
    netplan_output,
    netplan_text,
    networkd_reload,
    port_observed,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.foreign_files import Facts
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.lower_spec import LOWER_PREFIX, MIIMON
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.persistent_port import (
    HEAD,
    NM_PREFIX,
    SYSTEMD_PREFIX,
    File,
    Kept,
    Section,
    ini,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_spec import Side
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import sysctl

SYSTEMD_DIR = "/etc/systemd/network"
SYSCTL_FILE = "/etc/sysctl.d/90-railyard.conf"
NETPLAN_DIRS = ("/lib/netplan", "/etc/netplan", "/run/netplan")
NETPLAN_FILE = "/etc/netplan/60-railyard.yaml"
NM_DIR = "/etc/NetworkManager/system-connections"
NM_ENDING = ".nmconnection"
NETWORKD = networkd_reload.UNIT
NETWORK_MANAGER = "NetworkManager.service"


def running(system: System, unit: str) -> bool:
    """Return whether a systemd unit is active: systemd keeps one link per active unit in this directory."""
    return system.exists("/run/systemd/units/invocation:%s" % unit)


# -- files of every back-end -----------------------------------------------------------------------------------------


def common_files(kept: t.Sequence[Kept]) -> dict[str, File]:
    """Return the desired ``.link`` files and the sysctl.d file, by path."""
    files: dict[str, File] = {}
    lines: list[str] = []
    for each in kept:
        if each.port.pci and each.port.netdev:
            files["%s/%s%s.link" % (SYSTEMD_DIR, SYSTEMD_PREFIX, each.port.rail)] = File(_link_text(each), 0o644)
        lines += [sysctl.line(each.netdev, key, value) for key, value in sorted(each.port.sysctl.items())]
        lines += [sysctl.line(each.netdev, key, value, "ipv6") for key, value in sorted(port_observed.SYSCTL_6.items())]
    if lines:
        files[SYSCTL_FILE] = File(sysctl.text(HEAD, lines), 0o644)
    return files


def our_common_files(system: System) -> list[str]:
    """Return the paths of Railyard's ``.link`` and sysctl.d files on the node."""
    return _named(system, SYSTEMD_DIR, SYSTEMD_PREFIX, ".link") + _present(system, SYSCTL_FILE)


def _link_text(each: Kept) -> str:
    # if the host bridge is not a PCI device (most ARM servers), its path precedes the PCI part
    match = "Path=pci-{0} *-pci-{0}".format(each.port.pci)
    link = ["Description=%s" % each.description, "Name=%s" % each.netdev]
    # only the first matching file is used, so it must repeat the default's alternative names
    link.append("AlternativeNamesPolicy=database onboard slot path")
    link += ["MTUBytes=%d" % each.port.mtu] if each.port.mtu else []
    link += each.link
    return ini([("Match", [match]), ("Link", link)])


def _named(system: System, directory: str, prefix: str, suffix: str) -> list[str]:
    names = [name for name in system.listdir(directory) if name.startswith(prefix) and name.endswith(suffix)]
    return ["%s/%s" % (directory, name) for name in names]


def _present(system: System, path: str) -> list[str]:
    return [path] if system.exists(path) else []


# -- back-ends -------------------------------------------------------------------------------------------------------


class Backend:
    """Makes addresses, routes and rules persistent. This base class does nothing."""

    name = "none"

    def __init__(self, system: System) -> None:
        self._system = system

    def files(self, kept: t.Sequence[Kept]) -> dict[str, File]:
        """The desired files, by path."""
        return {}

    def ours(self) -> list[str]:
        """The paths of Railyard's files on the node."""
        return []

    def is_running(self) -> bool:
        """Return whether it can load files now, not only at the next boot."""
        return False

    def check(self, path: str, text: str) -> None:
        """Validate a file with the back-end's parser before anything is changed. Raises :class:`RailyardError`."""

    def netdev_file(self, netdev: str) -> str | None:
        """Return the path of the file by which it makes a bond or VLAN, if it must read this file before the interface
        exists.
        """
        return None

    def load_netdevs(self, created: t.Sequence[Kept], files: t.Mapping[str, File]) -> None:
        """Read the files of bonds and VLANs that do not exist yet. ``files``: all desired files."""

    def load(self, kept: t.Sequence[Kept], changed: t.Collection[str], made: t.Collection[str], timeout: float) -> None:
        """Reload the files and wait up to ``timeout`` seconds.

        :param changed: the paths that it has not read yet.
        :param made: the bonds and VLANs that Railyard made, also those that it has removed.
        """

    def warnings(self) -> list[str]:
        return []

    def replaced(self, each: Kept, facts: Facts) -> list[Section]:
        """Return the sections of another program's file that Railyard's file for this port must repeat, because it is
        used instead. Raises :class:`Refused` if the port would lose settings."""
        return []


class Networkd(Backend):
    """systemd-networkd: one ``.network`` file per rail and per interface below rails, and ``.netdev`` files."""

    name = "networkd"

    def files(self, kept: t.Sequence[Kept]) -> dict[str, File]:
        files = {self._path(each): File(_network_text(each), 0o644) for each in kept}
        for each in kept:
            if each.part.kind:
                files[self.netdev_file(each.netdev)] = File(_netdev_text(each), 0o644)
        return files

    def netdev_file(self, netdev: str) -> str:
        return "%s/%s%s%s.netdev" % (SYSTEMD_DIR, SYSTEMD_PREFIX, LOWER_PREFIX, netdev)

    def load_netdevs(self, created: t.Sequence[Kept], files: t.Mapping[str, File]) -> None:
        networkd_reload.load_netdevs(self._system, created)

    def ours(self) -> list[str]:
        found = _named(self._system, SYSTEMD_DIR, SYSTEMD_PREFIX, ".network")
        return found + _named(self._system, SYSTEMD_DIR, SYSTEMD_PREFIX, ".netdev")

    def is_running(self) -> bool:
        return running(self._system, NETWORKD)

    def load(self, kept: t.Sequence[Kept], changed: t.Collection[str], made: t.Collection[str], timeout: float) -> None:
        files = [(each.netdev, self.netdev_file(each.netdev)) for each in kept if each.part.kind]
        networkd_reload.announce(self._system, [each for each in files if each[1] in changed])
        networkd_reload.reload(self._system, [(each, self._path(each)) for each in kept], changed, timeout)

    def warnings(self) -> list[str]:
        if not running(self._system, NETWORK_MANAGER):
            return []
        return [
            "NetworkManager runs beside systemd-networkd: list the rail ports' netdevs under 'unmanaged-devices' in "
            "its configuration, or choose backend networkmanager"
        ]

    def replaced(self, each: Kept, facts: Facts) -> list[Section]:
        foreign_netdevs.check_netdev_files(self._system, each)
        return foreign_files.networkd(self._system, each, facts, self._path(each))

    def _path(self, each: Kept) -> str:
        return "%s/%s%s.network" % (SYSTEMD_DIR, SYSTEMD_PREFIX, each.port.rail)


def _network_text(each: Kept) -> str:
    port = each.port
    # a rail never delays the boot
    link = (["MTUBytes=%d" % port.mtu] if port.mtu else []) + ["RequiredForOnline=no"]
    network = ["Description=%s" % each.description, "DHCP=no", "IPv6AcceptRA=no"]
    network += ["LinkLocalAddressing=no"] if each.has_no_address else []
    network += _network_lines()
    network += ["Bond=%s" % each.part.master] if each.part.master else []
    network += ["PrimarySlave=yes"] if each.part.is_primary else []
    network += ["VLAN=%s" % name for name in each.part.vlans]
    network += ["Address=%s" % side.address for side in port.sides]
    sections = [("Match", ["Name=%s" % each.netdev]), ("Link", link), ("Network", network)]
    sections += [("Route", _route_lines(route)) for route in port_observed.port_routes(port, 0)]
    for side in each.sides_with_rules:
        sections += _rule_sections(each, side, ("From=%s" % side.address.ip, "OutgoingInterface=%s" % each.netdev))
    return ini([*sections, *each.sections])


def _netdev_text(each: Kept) -> str:
    part = each.part
    device = ["Description=%s" % each.description, "Name=%s" % each.netdev, "Kind=%s" % part.kind]
    if not part.bond:
        return ini([("NetDev", device), ("VLAN", ["Id=%s" % part.vlan])])
    device += ["MACAddress=%s" % each.mac] if each.mac else []
    lines = ["Mode=%s" % part.bond.mode, "MIIMonitorSec=%dms" % MIIMON]
    lines += part.bond.lines(
        hash_policy="TransmitHashPolicy=%s", lacp_rate="LACPTransmitRate=%s", min_links="MinLinks=%d"
    )
    return ini([("NetDev", device), ("Bond", lines)])


def _route_lines(route: Route) -> list[str]:
    lines = ["Destination=%s" % route.destination]
    lines += ["Scope=link"] if route.scope == SCOPE_LINK else []
    lines += ["PreferredSource=%s" % route.source] if route.source else []
    lines += ["Gateway=%s" % route.gateway] if route.gateway else []
    return lines + ["Table=%d" % route.table]


def _network_lines() -> list[str]:
    # a link flap must not remove the address, and with it the GIDs that running transfers use
    return ["ConfigureWithoutCarrier=yes", "KeepConfiguration=static"]


def _rule_sections(each: Kept, side: Side, selectors: t.Sequence[str]) -> list[tuple[str, list[str]]]:
    common = ["Table=%s" % each.port.table, "Priority=%s" % each.port.priority, "Family=ipv%d" % side.version]
    return [("RoutingPolicyRule", [selector] + common) for selector in selectors]


class Netplan(Backend):
    """netplan over systemd-networkd: one YAML file, and one drop-in per rail for settings missing in netplan."""

    name = "netplan"
    # bonds and VLANs of the desired files
    _stacked: t.Sequence[Kept] = ()

    def files(self, kept: t.Sequence[Kept]) -> dict[str, File]:
        if not kept:
            return {}
        self._stacked = [each for each in kept if each.part.kind]
        files = {NETPLAN_FILE: File(netplan_text.text(kept), 0o600)}
        for each in kept:
            files[netplan_output.drop_in_path(each.netdev)] = File(_drop_in_text(each), 0o644)
        return files

    def ours(self) -> list[str]:
        return _present(self._system, NETPLAN_FILE) + netplan_output.drop_ins(self._system)

    def is_running(self) -> bool:
        return running(self._system, NETWORKD)

    def replaced(self, each: Kept, facts: Facts) -> list[Section]:
        return foreign_files.networkd(self._system, each, facts, netplan_output.generated_path(each.netdev))

    def check(self, path: str, text: str) -> None:
        if path != NETPLAN_FILE:
            return
        self._generated(text, ())
        # netplan merges what several files describe
        paths = {netplan_output.generated_path(each.netdev, ".netdev"): each for each in self._stacked}
        for generated in self._generated(None, paths) if paths else ():
            raise foreign_netdevs.refusal(paths[generated], os.path.dirname(NETPLAN_FILE))

    def _generated(self, text: str | None, paths: t.Iterable[str]) -> dict[str, str]:
        """Return the texts of files that netplan generates with this text of Railyard's file, or without the file."""
        system = self._system
        root = tempfile.mkdtemp(prefix="railyard-")
        try:
            scratch = System(root)
            for directory in NETPLAN_DIRS:
                for other in _named(system, directory, "", ".yaml"):
                    if other != NETPLAN_FILE:
                        scratch.write_file(other, system.read_bytes(other) or b"", 0o600)
            if text is not None:
                scratch.write_file(NETPLAN_FILE, text, 0o600)
            system.check(
                ["netplan", "generate", "--root-dir", root],
                "correct the file that netplan names, or the fabric file; nothing was changed",
            )
            texts = {path: scratch.read_file(path) for path in paths}
        finally:
            shutil.rmtree(root, ignore_errors=True)
        return {path: text for path, text in texts.items() if text is not None}

    def load_netdevs(self, created: t.Sequence[Kept], files: t.Mapping[str, File]) -> None:
        paths = [netplan_output.generated_path(each.netdev, ".netdev") for each in created]
        for path, text in self._generated(files[NETPLAN_FILE].text, paths).items():
            self._system.write_file(path, text, 0o644)
        networkd_reload.load_netdevs(self._system, created)

    def load(self, kept: t.Sequence[Kept], changed: t.Collection[str], made: t.Collection[str], timeout: float) -> None:
        # not 'netplan apply', which would reconfigure the management path too
        unread = {*netplan_output.generate(self._system), *changed}
        netdevs = [
            (each.netdev, netplan_output.generated_path(each.netdev, ".netdev")) for each in kept if each.part.kind
        ]
        networkd_reload.announce(self._system, [each for each in netdevs if each[1] in unread])
        generated = [(each, netplan_output.generated_path(each.netdev)) for each in kept]
        to_configure = [
            path for each, path in generated if not unread.isdisjoint((path, netplan_output.drop_in_path(each.netdev)))
        ]
        networkd_reload.reload(self._system, generated, to_configure, timeout)


def _drop_in_text(each: Kept) -> str:
    sections = [("Link", ["RequiredForOnline=no"]), ("Network", _network_lines())]
    for side in each.sides_with_rules:
        sections += _rule_sections(each, side, ("OutgoingInterface=%s" % each.netdev,))
    return ini([*sections, *each.sections])


class NetworkManager(Backend):
    """NetworkManager: one keyfile per rail."""

    name = "networkmanager"

    def files(self, kept: t.Sequence[Kept]) -> dict[str, File]:
        # NetworkManager ignores keyfiles that other users can read
        return {self._path(each): File(keyfile.text(each), 0o600) for each in kept}

    def ours(self) -> list[str]:
        return _named(self._system, NM_DIR, NM_PREFIX, NM_ENDING)

    def is_running(self) -> bool:
        return running(self._system, NETWORK_MANAGER)

    def load(self, kept: t.Sequence[Kept], changed: t.Collection[str], made: t.Collection[str], timeout: float) -> None:
        system = self._system
        remedy = "see 'journalctl -u NetworkManager' for the reason"
        # With its profile, NetworkManager would remove the members from a bond of another program.
        left = self._of_others(changed, made)
        for netdev in left:
            system.check(["nmcli", "device", "set", netdev, "managed", "no"], remedy)
        system.check(["nmcli", "connection", "reload"], remedy)
        for netdev in left:
            system.check(["nmcli", "device", "set", netdev, "managed", "yes"], remedy)
        again: set[str] = set()
        # a bond before its members, and both before VLANs
        for each in sorted(kept, key=lambda each: (1, 0, 2)[each.part.depth]):
            if each.ifindex is None:
                continue
            name = NM_PREFIX + each.port.rail
            current = system.run(["nmcli", "-g", "GENERAL.CONNECTION", "device", "show", each.netdev]).out.strip()
            activated = current == name and each.part.master not in again
            if activated and each.port.part and self._path(each) not in changed:
                continue
            command = ["nmcli", "--wait", "%d" % max(1, round(timeout))]
            up, reapply = command + ["connection", "up", "id", name], command + ["device", "reapply", each.netdev]
            if activated and not each.part.kind:
                system.check(reapply, remedy, timeout + 10)
            elif not activated or system.run(reapply, timeout + 10).rc:
                # some options of bonds cannot be applied to an active profile; its members are released
                system.check(up, remedy, timeout + 10)
                again.add(each.netdev)

    def _of_others(self, changed: t.Collection[str], made: t.Collection[str]) -> list[str]:
        """Return the bonds and VLANs of others, and their members, whose profile Railyard removed.

        NetworkManager may have created a removed VLAN of Railyard again, because it had not read yet that its profile
        was removed.
        """
        removed = {os.path.basename(path)[: -len(NM_ENDING)] for path in changed if not self._system.exists(path)}
        if not removed:
            return []
        found = []
        for line in self._system.run(["nmcli", "-g", "NAME,DEVICE", "connection", "show", "--active"]).out.splitlines():
            profile, _colon, netdev = line.partition(":")
            place = "/sys/class/net/%s/" % netdev
            kind = re.search(r"^DEVTYPE=(bond|vlan)$", self._system.read(place + "uevent") or "", re.M)
            master = self._system.link_name(place + "master")
            if profile in removed and netdev not in made and (kind or (master and master not in made)):
                found.append(netdev)
        return found

    def replaced(self, each: Kept, facts: Facts) -> list[Section]:
        foreign_netdevs.check_profiles(self._system, each)
        foreign_files.network_manager(self._system, each, facts)
        return []

    def _path(self, each: Kept) -> str:
        return "%s/%s%s%s" % (NM_DIR, NM_PREFIX, each.port.rail, NM_ENDING)


BACKENDS: dict[str, type[Backend]] = {each.name: each for each in (Backend, Networkd, Netplan, NetworkManager)}


def choose(system: System, name: str) -> Backend:
    """Return the back-end of this name; with ``auto`` the detected one. Raises :class:`Unsupported`."""
    if name == "auto":
        name = detect(system)
    if name == "netplan" and not system.which("netplan"):
        raise Unsupported("netplan is not installed", "backend", "choose another back-end, or auto")
    return BACKENDS[name](system)


def detect(system: System) -> str:
    """Return the name of the back-end that manages the node's network. Raises :class:`Unsupported` if none does."""
    netplan_files = [path for directory in NETPLAN_DIRS for path in _named(system, directory, "", ".yaml")]
    netplan_files = [path for path in netplan_files if path != NETPLAN_FILE or len(netplan_files) > 1]
    if netplan_files and system.which("netplan"):
        # netplan then only generates files for NetworkManager
        if any("NetworkManager" in (system.read(path) or "") for path in netplan_files):
            return "networkmanager"
        return "netplan"
    if running(system, NETWORK_MANAGER):
        return "networkmanager"
    if running(system, NETWORKD):
        return "networkd"
    raise Unsupported(
        "neither netplan nor NetworkManager nor systemd-networkd manages this node's network",
        "backend",
        "enable systemd-networkd (it ignores interfaces without a file), or set persist to false",
    )

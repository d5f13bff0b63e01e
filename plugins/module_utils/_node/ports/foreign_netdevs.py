# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of other programs that make a planned bond or VLAN, or that make a rail port a member.

Two programs can make one interface in any order at boot. So these files are refused, also if they describe the
interface as the plan does.

Sources: systemd.netdev(5), nm-settings-keyfile(5), interfaces(5), and the packages ifenslave and vlan of Debian.
"""

from __future__ import annotations

import fnmatch
import os
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Refused
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.foreign_files import (
    DIRECTORIES,
    PROFILES,
    Facts,
    effective_files,
    is_generated,
    parse,
    section_values,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.persistent_port import (
    NM_PREFIX,
    SYSTEMD_PREFIX,
    Kept,
)

INTERFACES = "/etc/network/interfaces"
PROGRAMS = ("/sbin/ifup", "/usr/sbin/ifup")
# Names of VLANs from which the id follows: vlan5, vlan0005, eth0.5.
_VLAN_NAME = re.compile(r"(?:vlan|.*\.)0*([0-9]+)\Z")
_MEMBERS = ("bond-slaves", "bond-ports", "bridge-ports")
_NEW_STANZA = ("auto", "iface", "mapping", "source", "source-directory", "no-auto-down", "no-scripts", "template")


class Stanza(t.NamedTuple):
    """The configuration of an interface for ifupdown. Names of options have dashes."""

    path: str
    name: str
    options: dict[str, str]


def refusal(each: Kept, path: str) -> Refused:
    """Return the refusal of a file that makes a planned bond or VLAN."""
    return Refused(
        "makes %s (%s), which Railyard makes too" % (each.netdev, each.part.kind),
        path,
        "remove it from that file, or set managed: false for the port, and run again",
    )


def check_netdev_files(system: System, each: Kept) -> None:
    """Check that no other ``.netdev`` file makes a planned bond or VLAN. Raises :class:`Refused`."""
    for name, path in effective_files(system, DIRECTORIES, ".netdev").items() if each.part.kind else ():
        names = section_values(parse(system.read(path) or ""), "NetDev", "Name")
        if not name.startswith(SYSTEMD_PREFIX) and names[-1:] == [each.netdev]:
            raise refusal(each, path)


def check_profiles(system: System, each: Kept) -> None:
    """Check that no other profile of NetworkManager makes a planned bond or VLAN. Raises :class:`Refused`."""
    part = each.part
    for name, path in effective_files(system, PROFILES, ".nmconnection").items() if part.kind else ():
        sections = parse(system.read(path) or "")
        if name.startswith(NM_PREFIX) or section_values(sections, "connection", "type")[-1:] != [part.kind]:
            continue
        if is_generated(sections):
            continue
        same = section_values(sections, "connection", "interface-name")[-1:] == [each.netdev]
        if part.vlan is not None:
            vlan = [section_values(sections, "vlan", key)[-1:] for key in ("id", "parent")]
            same = same or vlan == [[str(part.vlan)], [part.parent]]
        if same:
            raise refusal(each, path)


def check_ifupdown(system: System, each: Kept, facts: Facts) -> None:
    """Check that ifupdown does not make a planned bond or VLAN, or the port a member. Raises :class:`Refused`."""
    if not any(system.exists(path) for path in PROGRAMS):
        return
    part = each.part
    for stanza in _stanzas(system, INTERFACES, []):
        if part.kind and stanza.name == each.netdev:
            raise refusal(each, stanza.path)
        if part.vlan is not None and stanza.options.get("vlan-raw-device") == part.parent:
            match = _VLAN_NAME.match(stanza.name)
            if str(part.vlan) == (stanza.options.get("vlan-id") or (match.group(1) if match else "")):
                raise refusal(each, stanza.path)
        members = " ".join(stanza.options.get(key, "") for key in _MEMBERS).split()
        master = stanza.options.get("bond-master") if stanza.name in facts.names else None
        master = stanza.name if set(members).intersection(facts.names) else master
        if master and master != part.master:
            message = "makes %s (%s) a member of %s, and a port that has a master gets no address"
            raise Refused(
                message % (each.netdev, each.port.label, master),
                stanza.path,
                "plan the port with this bond, or remove the member from that file, and run again",
            )


def _stanzas(system: System, path: str, seen: list[str]) -> list[Stanza]:
    """Return the stanzas of a file of ifupdown and of the files that it includes."""
    if path in seen:
        return []
    seen.append(path)
    found: list[Stanza] = []
    current: dict[str, str] | None = None
    for line in (system.read(path) or "").replace("\\\n", " ").splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] in _NEW_STANZA or words[0].startswith("allow-"):
            current = None
            if words[0] == "iface" and len(words) > 1:
                current = {}
                found.append(Stanza(path, words[1], current))
            for included in words[1:] if words[0].startswith("source") else ():
                for each in _included(system, included, words[0] == "source-directory"):
                    found += _stanzas(system, each, seen)
        elif current is not None:
            current[words[0].replace("_", "-")] = " ".join(words[1:])
    return found


def _included(system: System, pattern: str, directory: bool) -> list[str]:
    """Return the paths of a line ``source`` or ``source-directory``; relative ones start at ``/etc/network``."""
    path = os.path.join(os.path.dirname(INTERFACES), pattern)
    place, names = (path, "*") if directory else os.path.split(path)
    return ["%s/%s" % (place, name) for name in system.listdir(place) if fnmatch.fnmatchcase(name, names)]

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Files of other programs that configure a rail port, and that Railyard's file replaces at the next boot.

systemd-networkd uses one ``.network`` file for an interface, the first that matches, and udev one ``.link`` file;
NetworkManager activates one profile. Addresses and routes of a replaced ``.network`` file are repeated in Railyard's
file. What cannot be repeated is refused. Files that give a port only DHCP are replaced.

Sources: systemd.network(5), systemd.link(5), nm-settings-keyfile(5).
"""

from __future__ import annotations

import fnmatch
import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Refused
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import (
    Link,
    hardware_address,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import TABLE_MAIN
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.persistent_port import Kept, Section
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_observed import port_routes
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.vf_holders import Moved

# In the order of precedence: of two files with the same name, the first is used.
DIRECTORIES = tuple(place + "/systemd/network" for place in ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"))
OURS = "05-railyard-"
PROFILES = tuple(place + "/NetworkManager/system-connections" for place in ("/etc", "/run", "/usr/lib"))
IFCFG = "/etc/sysconfig/network-scripts"
NETWORK_STATE = "/run/systemd/netif/links/%d"
UDEV_STATE = "/run/udev/data/n%d"
ACTIVE = "/run/NetworkManager/devices/%d"
# Sections, and keys of the section Network, that are repeated.
_REPEATED = ("Address", "Route", "RoutingPolicyRule", "Neighbor", "NextHop")
_REPEATED_KEYS = ("Address", "VLAN", "MACVLAN", "MACVTAP", "IPVLAN", "IPVTAP", "VXLAN", "Tunnel", "Xfrm", "MACsec")
# With these, the port has another purpose than a rail.
_REFUSED_KEYS = ("Gateway", "Bridge", "Bond", "VRF", "BatmanAdvanced")
# Keys of .link files that Railyard's file has itself, or that only choose names.
_LINK_KEYS = frozenset(
    ("Description", "Name", "NamePolicy", "AlternativeName", "AlternativeNamesPolicy", "MACAddressPolicy")
)
_ANYWHERE = ("0.0.0.0/0", "::/0", "default", "")
REMEDY = "plan these settings in the fabric file, or remove them from that file, and run again"


class Facts(t.NamedTuple):
    """What files match a port by. ``names``: the names that it gets and has; hardware addresses in small letters."""

    names: tuple[str, ...]
    mac: str
    permanent: str
    pci: str
    driver: str
    kind: str
    type: str
    ifindex: int

    @classmethod
    def of(cls, system: System, each: Kept, link: Link | None, moved: Moved | None) -> Facts:
        """Return the facts of a port.

        :param link: its interface; None if this network namespace does not have it.
        :param moved: where the interface is, if it is in another network namespace.
        """
        pci = each.port.pci or (link.parent if link else None) or ""
        device = pci_functions.attribute(pci, "driver") if pci else "/sys/class/net/%s/device/driver" % each.netdev
        kind = (link.kind if link else None) or ""
        mac = hardware_address(link.address) if link else (moved.mac if moved else None) or ""
        present = (link.name, *link.altnames) if link else (moved.netdev,) if moved and moved.netdev else ()
        return cls(
            tuple(dict.fromkeys([each.netdev, *present])),
            mac,
            hardware_address(link.permanent) if link and link.permanent else mac,
            pci,
            # the drivers of virtual interfaces have the names of their kinds
            system.link_name(device) or kind,
            kind,
            "infiniband" if each.infiniband else "ether",
            link.ifindex if link else 0,
        )


# -- files of sections -------------------------------------------------------------------------------------------------


def parse(text: str) -> list[Section]:
    """Return the sections of a file in the format of systemd or of a keyfile, without comments."""
    found: list[Section] = []
    for line in text.replace("\\\n", " ").splitlines():
        line = line.strip()
        if line.startswith("[") and line.endswith("]"):
            found.append((line[1:-1], []))
        elif line and line[0] not in "#;" and "=" in line and found:
            key, _equals, value = line.partition("=")
            found[-1][1].append("%s=%s" % (key.strip(), value.strip()))
    return found


def _values(sections: t.Iterable[Section], section: str, key: str) -> list[str]:
    """Return the values of a key in all sections of a name; an empty value removes those before it."""
    found: list[str] = []
    for name, lines in sections:
        for line in lines if name == section else ():
            if line.partition("=")[0] == key:
                value = line.partition("=")[2]
                found = [*found, value] if value else []
    return found


def _effective(system: System, directories: t.Sequence[str], suffix: str) -> dict[str, str]:
    """Return the paths of the files in force by their names, in the order in which they are used."""
    found: dict[str, str] = {}
    for directory in directories:
        for name in system.listdir(directory):
            if name.endswith(suffix):
                found.setdefault(name, "%s/%s" % (directory, name))
    return dict(sorted(found.items()))


def _sections(system: System, path: str) -> list[Section]:
    """Return the sections of a file of systemd and of its drop-ins; a masked file has none."""
    found = parse(system.read(path) or "")
    if found:
        places = ["%s/%s.d" % (directory, os.path.basename(path)) for directory in DIRECTORIES]
        for drop_in in _effective(system, places, ".conf").values():
            found += parse(system.read(drop_in) or "")
    return found


def _matches(sections: t.Sequence[Section], facts: Facts, path: str, used: str) -> bool | None:
    """Return whether a file of systemd matches a port; None if it also matches by what is not known here.

    :param used: the path of the file that systemd uses for the port now; empty if unknown.
    """
    lines = [line for name, lines in sections if name == "Match" for line in lines]
    keys = dict.fromkeys(line.partition("=")[0] for line in lines)
    known: dict[str, tuple[str, ...]] = {
        "Name": facts.names,
        "OriginalName": facts.names,
        "MACAddress": (_digits(facts.mac),),
        "PermanentMACAddress": (_digits(facts.permanent),),
        # the path of most ARM servers begins with that of the host bridge
        "Path": ("pci-" + facts.pci, "platform-x-pci-" + facts.pci) if facts.pci else ("",),
        "Driver": (facts.driver,),
        "Kind": (facts.kind,),
        "Type": (facts.type,),
    }
    for key, values in known.items():
        patterns = " ".join(_values(sections, "Match", key)).split()
        inverted = bool(patterns) and patterns[0].startswith("!")
        texts = [pattern.lstrip("!") for pattern in patterns]
        texts = [_digits(text) for text in texts] if "MAC" in key else texts
        hit = any(fnmatch.fnmatchcase(value, text) for value in values for text in texts)
        if patterns and hit == inverted:
            return False
    if not keys:
        return False
    if all(key in known for key in keys):
        return True
    # systemd itself has decided about the other conditions
    return None if not used or os.path.basename(used).startswith(OURS) else path == used


def _digits(address: str) -> str:
    """Return the digits of a hardware address, which systemd accepts with several separators."""
    return "".join(each for each in address.lower() if each in "0123456789abcdef")


# -- systemd -----------------------------------------------------------------------------------------------------------


def networkd(system: System, each: Kept, facts: Facts, own: str) -> list[Section]:
    """Return the sections of the ``.network`` files that Railyard's file replaces, and must repeat.

    :param own: the path of Railyard's file.
    :raises Refused: if another file is used instead of ours, or if its settings cannot be repeated.
    """
    used = _used(system, NETWORK_STATE % facts.ifindex, "NETWORK_FILE=")
    found: list[Section] = []
    # the port may get another name at the next boot
    for names in dict.fromkeys((facts.names[:1], facts.names)):
        for path, sections, certain in _matching(system, ".network", facts._replace(names=names), own, used):
            repeated = _repeated(path, sections, each)
            if repeated and not certain:
                raise _not_known(path, each)
            if names == facts.names[:1] and certain and os.path.basename(path) < os.path.basename(own):
                raise Refused(
                    "systemd-networkd uses this file for %s (%s), not Railyard's" % (each.netdev, each.port.rail),
                    path,
                    "rename it, so that it sorts after %s, or make it match fewer interfaces" % os.path.basename(own),
                )
            found += [section for section in repeated if section not in found]
    return found


def _used(system: System, path: str, key: str) -> str:
    """Return the file that systemd uses for a port, from a file of its state; empty if unknown."""
    lines = (system.read(path) or "").splitlines()
    return next((line[len(key) :] for line in lines if line.startswith(key)), "")


def _matching(
    system: System, suffix: str, facts: Facts, own: str, used: str
) -> t.Iterator[tuple[str, list[Section], bool]]:
    """Yield path and sections of files of other programs: those that may match, and the first that certainly does.

    The last value is whether it certainly matches.
    """
    for name, path in _effective(system, DIRECTORIES, suffix).items():
        if name.startswith(OURS) or path == own:
            continue
        sections = _sections(system, path)
        matched = _matches(sections, facts, path, used)
        if matched is not False:
            yield path, sections, bool(matched)
        if matched:
            return


def _not_known(path: str, each: Kept) -> Refused:
    return Refused(
        "whether this file is for %s (%s) is not known: it matches by more than names, addresses and drivers"
        % (each.netdev, each.port.rail),
        path,
        "make it match by Name=, or remove its settings, and run again",
    )


def _repeated(path: str, sections: t.Sequence[Section], each: Kept) -> list[Section]:
    """Return the sections that Railyard's file must repeat. Raises :class:`Refused`."""
    port = each.port
    addresses = {str(side.address) for side in port.sides}
    routes = {(str(route.destination), route.table) for route in port_routes(port, 0)}
    refused: list[str] = []
    found: list[Section] = []
    network = [line for name, lines in sections if name == "Network" for line in lines]
    refused += [line for line in network if line.partition("=")[0] in _REFUSED_KEYS and not line.endswith("=")]
    kept = [key + "=" + value for key in _REPEATED_KEYS for value in _values(sections, "Network", key)]
    kept = [line for line in kept if line.partition("=")[2] not in addresses or not line.startswith("Address=")]
    found += [("Network", kept)] if kept else []
    for name, lines in sections:
        if name not in _REPEATED or not lines:
            continue
        values = dict(t.cast("tuple[str, str]", tuple(line.split("=", 1))) for line in lines)
        if name == "Route":
            to = values.get("Destination", "")
            table = values.get("Table", "main")
            number = int(table) if table.isdigit() else TABLE_MAIN
            if values.get("Gateway", "").startswith("_") or (to, number) in routes:
                continue  # by DHCP or an advertisement, or planned
            if to in _ANYWHERE and number == TABLE_MAIN:
                refused.append("a default route (%s)" % ", ".join(lines))
        planned_rule = name == "RoutingPolicyRule" and values.get("Priority") == str(port.priority)
        if not planned_rule and not (name == "Address" and values.get("Address") in addresses):
            found.append((name, list(lines)))
    if refused:
        message = (
            "gives %s (%s) %s, which a rail port never has, and which Railyard's file would remove at the next boot"
        )
        raise Refused(message % (each.netdev, port.rail, "; ".join(refused)), path, REMEDY)
    return found


def link_lines(system: System, each: Kept, facts: Facts) -> list[str]:
    """Return the lines of the ``.link`` file that Railyard's file replaces, and must repeat. Raises
    :class:`Refused`."""
    used = _used(system, UDEV_STATE % facts.ifindex, "E:ID_NET_LINK_FILE=")
    planned = _LINK_KEYS | ({"MTUBytes"} if each.port.mtu else set())
    found: list[str] = []
    for path, sections, certain in _matching(system, ".link", facts, "", used):
        lines = [line for name, lines in sections if name == "Link" for line in lines]
        lines = [line for line in lines if line.partition("=")[0] not in planned and not line.endswith("=")]
        if lines and not certain:
            raise _not_known(path, each)
        found += lines
    return found


def network_lines(sections: t.Sequence[Section]) -> list[str]:
    """Return the repeated lines of the section Network."""
    return [line for name, lines in sections if name == "Network" for line in lines]


def other_sections(sections: t.Sequence[Section]) -> list[Section]:
    """Return the other repeated sections."""
    return [section for section in sections if section[0] != "Network"]


def warning(each: Kept) -> str | None:
    """Return the warning about repeated settings; None without such settings."""
    texts = network_lines(each.sections) + [
        "%s (%s)" % (name, ", ".join(lines)) for name, lines in other_sections(each.sections)
    ]
    texts += each.link
    if not texts:
        return None
    return (
        "%s (%s) has settings of another program's file, which Railyard's file replaces and repeats: %s. Remedy: plan"
        " them in the fabric file, or remove them from that file" % (each.netdev, each.port.rail, "; ".join(texts))
    )


# -- NetworkManager ----------------------------------------------------------------------------------------------------


def network_manager(system: System, each: Kept, facts: Facts) -> None:
    """Check that no profile of another program has addresses or routes for the port. Railyard's has priority over it.

    :raises Refused: with the profile and what it gives to the port.
    """
    active = (system.read(ACTIVE % facts.ifindex) or "") if facts.ifindex else ""
    for path in _effective(system, PROFILES, ".nmconnection").values():
        sections = parse(system.read(path) or "")
        if os.path.basename(path).startswith("railyard-") or not _is_profile_of(sections, facts, active):
            continue
        _refuse_profile(path, _settings(sections, each), each)
    for name in system.listdir(IFCFG):
        path = "%s/%s" % (IFCFG, name)
        values = dict(line.split("=", 1) for line in (system.read(path) or "").splitlines() if "=" in line)
        values = {key: value.strip("'\"") for key, value in values.items()}
        mine = values.get("DEVICE") in facts.names or values.get("HWADDR", "").lower() == (facts.permanent or "none")
        if name.startswith("ifcfg-") and mine:
            keys = ("IPADDR", "IPV6ADDR", "GATEWAY", "IPV6_DEFAULTGW", "MASTER", "BRIDGE")
            found = ["%s=%s" % (key, value) for key, value in values.items() if key.startswith(keys)]
            planned = {str(side.address.ip) for side in each.port.sides}
            found = [line for line in found if line.partition("=")[2].partition("/")[0] not in planned]
            found += [text for text in ("route-" + name[6:], "route6-" + name[6:]) if system.exists(IFCFG + "/" + text)]
            _refuse_profile(path, found, each)


def _is_profile_of(sections: t.Sequence[Section], facts: Facts, active: str) -> bool:
    def values(section: str, key: str) -> list[str]:
        return [each for value in _values(sections, section, key) for each in value.split(";") if each]

    if values("connection", "type") not in (["ethernet"], ["802-3-ethernet"], ["infiniband"]):
        return False
    names = values("connection", "interface-name")
    macs = values("ethernet", "mac-address") + values("802-3-ethernet", "mac-address")
    macs += values("infiniband", "mac-address")
    patterns = values("match", "interface-name")
    if names and not any(name in facts.names for name in names):
        return False
    if macs and facts.permanent not in [mac.lower() for mac in macs]:
        return False
    if patterns and not any(fnmatch.fnmatchcase(name, each) for name in facts.names for each in patterns):
        return False
    if names or macs or patterns:
        return True
    # a profile of any interface is the port's if NetworkManager uses it there
    uuids = values("connection", "uuid")
    return bool(uuids) and uuids[0] in active


def _settings(sections: t.Sequence[Section], each: Kept) -> list[str]:
    """Return the lines of a profile with addresses, routes and rules that are not planned."""
    planned = {str(side.address) for side in each.port.sides}
    planned |= {str(route.destination) for route in port_routes(each.port, 0)}
    prefixes = ("address", "route", "routing-rule", "gateway")
    lines = [line for name, lines in sections if name in ("ipv4", "ipv6") for line in lines]
    lines += [line for name, lines in sections if name == "connection" for line in lines if line.startswith("master=")]
    found = []
    for line in lines:
        key, _equals, value = line.partition("=")
        if key.startswith("master") or (
            key.startswith(prefixes)
            and not key.endswith("_options")
            and key not in ("route-metric", "route-table")
            and value
            and value.partition(",")[0].strip(";") not in planned
        ):
            found.append(line)
    return found


def _refuse_profile(path: str, found: t.Sequence[str], each: Kept) -> None:
    if found:
        message = "gives %s (%s) %s, and Railyard's profile would be used instead of it"
        raise Refused(message % (each.netdev, each.port.rail, "; ".join(found)), path, REMEDY)

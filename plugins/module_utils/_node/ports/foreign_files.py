# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of other programs that configure a rail port, and that Railyard's file replaces at the next boot.

systemd-networkd uses one ``.network`` file for an interface, the first that matches, and udev one ``.link`` file;
NetworkManager activates one profile. Railyard's file repeats the addresses and routes of the ``.network`` file that it
replaces. A file with settings that a rail port never has is refused, as is a profile with addresses. A file with only
DHCP is replaced.

Sources: systemd.network(5), systemd.link(5), nm-settings-keyfile(5).
"""

from __future__ import annotations

import fnmatch
import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Refused
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link, hardware_address
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import TABLE_MAIN
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.persistent_port import (
    NM_PREFIX,
    SYSTEMD_PREFIX,
    Kept,
    Section,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.port_observed import port_routes
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.vf_holders import Moved

# In the order of precedence: of two files with the same name, the first is used.
DIRECTORIES = tuple(place + "/systemd/network" for place in ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"))
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
_NAMES = ("Name", "OriginalName")
_ANYWHERE = ("0.0.0.0/0", "::/0", "default", "")
# Keys of profiles that have these prefixes and configure no address, route or rule.
_OTHER_KEYS = ("route-metric", "route-table")
_IFCFG_KEYS = ("IPADDR", "IPV6ADDR", "GATEWAY", "IPV6_DEFAULTGW", "MASTER", "TEAM_MASTER", "BRIDGE")
_PROFILE_TYPES = ("ethernet", "802-3-ethernet", "infiniband")
REMEDY = "plan these settings in the fabric file, or remove them from that file, and run again"


class Facts(t.NamedTuple):
    """The values by which files select a port. ``boot_names``: its names after the next boot.

    ``names``: these and its present name.
    ``permanent``: the permanent hardware address in small letters. ``values``: other key of ``[Match]`` -> the forms
    of its value.
    """

    boot_names: tuple[str, ...]
    names: tuple[str, ...]
    permanent: str
    ifindex: int
    values: t.Mapping[str, t.Sequence[str]]

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
        permanent = hardware_address(link.permanent) if link and link.permanent else mac
        boot_names = dict.fromkeys([each.netdev, *(link.altnames if link else ())])
        present = link.name if link else moved.netdev if moved else None
        values = {
            "MACAddress": (_digits(mac),),
            "PermanentMACAddress": (_digits(permanent),),
            # the path of most ARM servers begins with that of the host bridge
            "Path": ("pci-" + pci, "platform-x-pci-" + pci) if pci else (),
            # the drivers of virtual interfaces have the names of their kinds
            "Driver": (system.link_name(device) or kind,),
            "Kind": (kind,),
            "Type": ("infiniband" if each.infiniband else "ether",),
        }
        return cls(
            tuple(boot_names),
            tuple(dict.fromkeys([*boot_names, present or each.netdev])),
            permanent,
            link.ifindex if link else 0,
            values,
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


def variables(system: System, path: str) -> dict[str, str]:
    """Return the values of a file of ``KEY=value`` lines; empty if it does not exist."""
    lines = (line.partition("=") for line in (system.read(path) or "").splitlines())
    return {key: value for key, equals, value in lines if equals}


def _lines(sections: t.Iterable[Section], *names: str) -> list[str]:
    return [line for name, lines in sections if name in names for line in lines]


def section_values(sections: t.Iterable[Section], section: str, key: str) -> list[str]:
    """Return the values of a key in all sections of a name; an empty value removes the earlier ones."""
    values = [line[len(key) + 1 :] for line in _lines(sections, section) if line.startswith(key + "=")]
    return values[max((number for number, value in enumerate(values, 1) if not value), default=0) :]


def effective_files(system: System, directories: t.Sequence[str], suffix: str) -> dict[str, str]:
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
        for drop_in in effective_files(system, places, ".conf").values():
            found += parse(system.read(drop_in) or "")
    return found


def _matches(sections: t.Sequence[Section], facts: Facts, path: str, used: str) -> bool | None:
    """Return whether a file of systemd matches a port; None if it also matches by what is not known here.

    :param used: the path of the file that systemd uses for the port now; empty if unknown.
    """
    keys = {line.partition("=")[0] for line in _lines(sections, "Match")}
    conditions = {key: section_values(sections, "Match", key) for key in keys}
    # without a condition, systemd ignores the file
    keys = {key for key in keys if conditions[key]}
    known = {*_NAMES, *facts.values}
    for key in keys & known:
        # one of the names is enough
        alternatives = [(name,) for name in facts.names] if key in _NAMES else [facts.values[key]]
        patterns = conditions[key]
        if "MAC" in key:
            patterns = [" ".join(map(_digits, each.split())) for each in patterns]
        if not any(_fits(patterns, forms) for forms in alternatives):
            return False
    if keys.issubset(known):
        return bool(keys)
    # systemd itself has decided about the other conditions
    return None if not used or os.path.basename(used).startswith(SYSTEMD_PREFIX) else path == used


def _fits(patterns: t.Iterable[str], values: t.Sequence[str]) -> bool:
    """Return whether a value matches lists of patterns. The patterns of a list with the prefix ``!`` exclude values.

    Without other patterns, all values that are not excluded match. No pattern matches an empty value.
    """
    selected: list[bool] = []
    for each in patterns:
        excludes = each.startswith("!")
        words = each[excludes:].split()
        hit = any(fnmatch.fnmatchcase(value, word) for value in values if value for word in words)
        if excludes and hit:
            return False
        selected += [] if excludes else [hit]
    return not selected or any(selected)


def _digits(address: str) -> str:
    """Return the digits of a hardware address, which systemd accepts with several separators."""
    return "".join(each for each in address.lower() if each in "0123456789abcdef")


# -- systemd -----------------------------------------------------------------------------------------------------------


def networkd(system: System, each: Kept, facts: Facts, own: str) -> list[Section]:
    """Return the sections of the ``.network`` files that Railyard's file replaces, and must repeat.

    :param own: the path of Railyard's file.
    :raises Refused: if another file is used instead of Railyard's, or if its settings cannot be repeated.
    """
    used = variables(system, NETWORK_STATE % facts.ifindex).get("NETWORK_FILE", "")
    found: list[Section] = []
    # the file in force at the next boot, and the one in force now
    for names in dict.fromkeys((facts.boot_names, facts.names)):
        for path, sections, certain in _matching(system, ".network", facts._replace(names=names), own, used):
            repeated = _repeated(path, sections, each)
            if repeated and not certain:
                raise _not_known(path, each)
            if names == facts.boot_names and certain and os.path.basename(path) < os.path.basename(own):
                raise Refused(
                    "systemd-networkd uses this file for %s (%s), not Railyard's" % (each.netdev, each.port.label),
                    path,
                    "rename it, so that it sorts after %s, or make it match fewer interfaces" % os.path.basename(own),
                )
            found += [section for section in repeated if section not in found]
    return found


def _matching(
    system: System, suffix: str, facts: Facts, own: str, used: str
) -> t.Iterator[tuple[str, list[Section], bool]]:
    """Yield path and sections of files of other programs: those that may match, and the first that certainly does.

    The last value is whether it certainly matches.
    """
    for name, path in effective_files(system, DIRECTORIES, suffix).items():
        if name.startswith(SYSTEMD_PREFIX) or path == own:
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
        % (each.netdev, each.port.label),
        path,
        "make it match by Name=, or remove its settings, and run again",
    )


def _repeated(path: str, sections: t.Sequence[Section], each: Kept) -> list[Section]:
    """Return the sections that Railyard's file must repeat. Raises :class:`Refused`."""
    port = each.port
    addresses = {str(side.address) for side in port.sides}
    routes = {(str(route.destination), route.table) for route in port_routes(port, 0)}
    network = _lines(sections, "Network")
    refused = [line for line in network if line.partition("=")[0] in _REFUSED_KEYS and not line.endswith("=")]
    refused = [line for line in refused if not each.part.master or line != "Bond=" + each.part.master]
    kept = [
        key + "=" + value
        for key in _REPEATED_KEYS
        for value in section_values(sections, "Network", key)
        if value not in addresses and not (key == "VLAN" and value in each.part.vlans)
    ]
    found: list[Section] = [("Network", kept)] if kept else []
    for name, lines in sections:
        values = {key: value for key, _equals, value in (line.partition("=") for line in lines)}
        planned = (name == "Address" and values.get("Address") in addresses) or (
            name == "RoutingPolicyRule" and values.get("Priority") == str(port.priority)
        )
        if name == "Route" and lines:
            to, table = values.get("Destination", ""), values.get("Table", "main")
            number = int(table) if table.isdigit() else TABLE_MAIN
            # by DHCP or an advertisement, or planned
            planned = values.get("Gateway", "").startswith("_") or (to, number) in routes
            if to in _ANYWHERE and number == TABLE_MAIN and not planned:
                refused.append("a default route (%s)" % ", ".join(lines))
        if name in _REPEATED and lines and not planned:
            found.append((name, list(lines)))
    if refused:
        message = (
            "gives %s (%s) %s, which a rail port never has, and which Railyard's file would remove at the next boot"
        )
        raise Refused(message % (each.netdev, port.label, "; ".join(refused)), path, REMEDY)
    return found


def link_lines(system: System, each: Kept, facts: Facts) -> list[str]:
    """Return the lines of the ``.link`` file that Railyard's file replaces, and must repeat. Raises
    :class:`Refused`."""
    used = variables(system, UDEV_STATE % facts.ifindex).get("E:ID_NET_LINK_FILE", "")
    planned = _LINK_KEYS | ({"MTUBytes"} if each.port.mtu else set())
    found: list[str] = []
    for path, sections, certain in _matching(system, ".link", facts, "", used):
        lines = [line for line in _lines(sections, "Link") if line.partition("=")[0] not in planned]
        # netplan 0.106 writes the second one for each interface with an MTU
        generated = os.path.basename(path).startswith("10-netplan-")
        lines = [line for line in lines if not line.endswith("=") and not (generated and line == "WakeOnLan=off")]
        if lines and not certain:
            raise _not_known(path, each)
        found += lines
    return found


def warnings(each: Kept) -> list[str]:
    """Return the warning about repeated settings; empty without such settings."""
    sections = ["%s (%s)" % (name, ", ".join(lines)) for name, lines in each.sections if name != "Network"]
    texts = [*_lines(each.sections, "Network"), *sections, *each.link]
    message = (
        "%s (%s) has settings of another program's file, which Railyard's file replaces and repeats: %s. Remedy: plan"
        " them in the fabric file, or remove them from that file"
    )
    return [message % (each.netdev, each.port.label, "; ".join(texts))] if texts else []


# -- NetworkManager ----------------------------------------------------------------------------------------------------


def network_manager(system: System, each: Kept, facts: Facts) -> None:
    """Check that no profile of another program has addresses or routes for the port. Railyard's has priority over it.

    :raises Refused: with the profile and what it gives to the port.
    """
    for path, found in [*_keyfiles(system, each, facts), *_ifcfg_files(system, each, facts)]:
        if found:
            message = "gives %s (%s) %s, and Railyard's profile would be used instead of it"
            raise Refused(message % (each.netdev, each.port.label, "; ".join(found)), path, REMEDY)


def _keyfiles(system: System, each: Kept, facts: Facts) -> t.Iterator[tuple[str, list[str]]]:
    """Yield the keyfiles of the port, and their lines with addresses, routes and rules that are not planned."""
    active = system.read(ACTIVE % facts.ifindex) or ""
    planned = {str(side.address) for side in each.port.sides}
    planned |= {str(route.destination) for route in port_routes(each.port, 0)}
    for name, path in effective_files(system, PROFILES, ".nmconnection").items():
        sections = parse(system.read(path) or "")
        if name.startswith(NM_PREFIX) or not _is_profile_of(sections, facts, active):
            continue
        found = []
        for line in _lines(sections, "ipv4", "ipv6"):
            key, _equals, value = line.partition("=")
            configures = key.startswith(("address", "route", "routing-rule", "gateway")) and key not in _OTHER_KEYS
            if configures and not key.endswith("_options") and value:
                found += [] if value.partition(",")[0].strip(";") in planned else [line]
        # since NetworkManager 1.46, the key of a bond or bridge is 'controller'
        members = ("master=", "controller=")
        masters = [line for line in _lines(sections, "connection") if line.startswith(members)]
        masters = [] if is_generated(sections) else masters
        yield path, found + [line for line in masters if line.partition("=")[2] != each.part.master]


def is_generated(sections: t.Sequence[Section]) -> bool:
    """Return whether NetworkManager made a profile from what it found in the kernel. The next boot removes it."""
    return "nm-generated=true" in _lines(sections, ".nmmeta")


def _is_profile_of(sections: t.Sequence[Section], facts: Facts, active: str) -> bool:
    """Return whether NetworkManager can use a profile for the port.

    :param active: NetworkManager's state of the interface, with the UUID of its profile.
    """

    def values(key: str, *names: str) -> list[str]:
        found = [value for name in names for value in section_values(sections, name, key)]
        return [each for value in found for each in value.split(";") if each]

    if "".join(values("type", "connection")) not in _PROFILE_TYPES:
        return False
    names, patterns = values("interface-name", "connection"), values("interface-name", "match")
    macs = values("mac-address", *_PROFILE_TYPES)
    if not (names or macs or patterns):
        # a profile for any interface counts only where NetworkManager uses it
        return any(uuid in active for uuid in values("uuid", "connection"))
    patterns = [pattern.lstrip("|&") for pattern in patterns]
    return (
        (not names or any(name in facts.names for name in names))
        and (not macs or facts.permanent in [mac.lower() for mac in macs])
        and any(_fits(patterns, (name,)) for name in facts.names)
    )


def _ifcfg_files(system: System, each: Kept, facts: Facts) -> t.Iterator[tuple[str, list[str]]]:
    """Yield the ``ifcfg`` files of the port, and their addresses and routes that are not planned."""
    planned = {str(side.address.ip) for side in each.port.sides}
    for name in system.listdir(IFCFG):
        path = "%s/%s" % (IFCFG, name)
        values = {key: value.strip("'\"") for key, value in variables(system, path).items()}
        mine = values.get("DEVICE") in facts.names or values.get("HWADDR", "").lower() == (facts.permanent or "none")
        if name.startswith("ifcfg-") and mine:
            found = [
                "%s=%s" % (key, value)
                for key, value in values.items()
                if key.startswith(_IFCFG_KEYS) and value.partition("/")[0] not in planned
                if key != "MASTER" or value != each.part.master
            ]
            if each.part.kind:
                # it makes the interface
                found += ["DEVICE=%s" % each.netdev]
            routes = [text for text in ("route-" + name[6:], "route6-" + name[6:]) if system.exists(IFCFG + "/" + text)]
            yield path, found + routes

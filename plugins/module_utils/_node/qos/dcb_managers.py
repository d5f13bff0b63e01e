# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Other programs that configure DCB: they overwrite its settings at the next link change or LLDP packet."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

# The kernel truncates process names to 15 characters.
PROGRAMS = {
    "lldpad": (
        "lldpad sets PFC, ETS and application priorities that the switch announces by DCBX",
        "disable it: systemctl disable --now lldpad.service lldpad.socket",
    ),
    "nic-configurati": (
        "the nic-configuration-daemon of the NIC Configuration Operator sets trust and PFC",
        "remove qos from its NicConfigurationTemplate, or from the fabric file",
    ),
}
UNITS = {"lldpad": ("lldpad.service", "lldpad.socket")}
SYSTEMD = "/etc/systemd/system"
CONNECTIONS = ("/etc/NetworkManager/system-connections", "/run/NetworkManager/system-connections")


class Manager(t.NamedTuple):
    """Another program: what it does, and how to stop it. ``netdev``: its only netdev; None: all netdevs."""

    message: str
    remedy: str
    netdev: str | None = None


def others(system: System) -> list[Manager]:
    """All that run, or will run after the next boot."""
    names = {system.read("/proc/%s/comm" % pid) for pid in system.listdir("/proc") if pid.isdigit()}
    found = []
    for program, (message, remedy) in PROGRAMS.items():
        if program in names:
            found.append(Manager("%s, and is running" % message, remedy))
        elif any(_enabled(system, unit) for unit in UNITS.get(program, ())):
            found.append(Manager("%s, and will start at the next boot" % message, remedy))
    return found + _connections(system)


def _enabled(system: System, unit: str) -> bool:
    return any(
        unit in system.listdir("%s/%s" % (SYSTEMD, place))
        for place in system.listdir(SYSTEMD)
        if place.endswith((".wants", ".requires"))
    )


def _connections(system: System) -> list[Manager]:
    """NetworkManager's profiles with DCB settings, which it passes to lldpad."""
    found = []
    for place in CONNECTIONS:
        for name in system.listdir(place):
            path = "%s/%s" % (place, name)
            text = system.read(path) or ""
            keys: dict[str, dict[str, str]] = {}
            section = ""
            for line in text.splitlines():
                line = line.strip()
                if line.startswith("["):
                    section = line.strip("[]")
                    keys.setdefault(section, {})
                elif "=" in line and not line.startswith("#"):
                    key, _equals, value = line.partition("=")
                    keys.setdefault(section, {})[key.strip()] = value.strip()
            if keys.get("dcb"):
                message = "NetworkManager's profile %s has DCB settings (%s)" % (path, ", ".join(keys["dcb"]))
                netdev = keys.get("connection", {}).get("interface-name")
                found.append(Manager(message, "remove its section [dcb] and run: nmcli connection reload", netdev))
    return found

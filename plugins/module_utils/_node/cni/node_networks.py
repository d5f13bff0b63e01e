# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""A node's CNI networks: the files that Multus reads, and the plugins that they name.

``railyard-*.conflist`` in Multus's ``confDir`` are ours, and all else there is not. Of plugins, ours are
``railyard-rail`` and those that we put there because they were missing; ``/var/lib/railyard/cni.json`` knows them.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._node.cni import rail_plugin
from ansible_collections.railyard.fabric.plugins.module_utils._node.cni.cni_plugins import Plugins
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import Branch

CONF_DIR = "/etc/cni/multus/net.d"
PLUGIN_DIR = "/opt/cni/bin"
PREFIX, SUFFIX = "railyard-", ".conflist"
# Where runtimes are told of networks; Multus's own file there names its directories where they are not the usual.
RUNTIME_DIRS = ("/etc/cni/net.d", "/var/lib/rancher/k3s/agent/etc/cni/net.d")
MULTUS = ("00-multus.conf", "00-multus.conflist")
# K3s has its own place for plugins, since the releases of October 2024 and before; RKE2 has the usual one.
K3S_PLUGIN_DIRS = ("/var/lib/rancher/k3s/data/cni", "/var/lib/rancher/k3s/data/current/bin")
READ_BY_MULTUS = (".conf", ".json", ".conflist")
Document = t.Dict[str, t.Any]


class CniNetworks(Subsystem):
    """See the module's documentation for the options."""

    def __init__(self, options: t.Mapping[str, t.Any], system: System) -> None:
        super().__init__()
        self._system = system
        self._absent = options.get("state") == "absent"
        self._networks: list[Document] = [] if self._absent else list(options.get("networks") or [])
        multus = {} if options.get("directory") and options.get("plugin_directory") else self._multus()
        self.directory = str(options.get("directory") or multus.get("confDir") or CONF_DIR).rstrip("/")
        place = str(options.get("plugin_directory") or self._k3s() or multus.get("binDir") or PLUGIN_DIR).rstrip("/")
        self._plugins = Plugins(system, place, options.get("source") or [], options.get("checksum"))

    @classmethod
    def from_options(cls, options: t.Mapping[str, t.Any], system: System) -> CniNetworks:
        return cls(options, system)

    def _multus(self) -> Document:
        """What Multus's own file says of its directories; nothing where it says nothing, or is not there yet."""
        for directory in RUNTIME_DIRS:
            for name in MULTUS:
                conf = self._read("%s/%s" % (directory, name))
                for each in [conf, *(conf.get("plugins") or [])]:
                    if isinstance(each, dict) and ("confDir" in each or "binDir" in each):
                        return each
        return {}

    def _k3s(self) -> str | None:
        return next((place for place in K3S_PLUGIN_DIRS if self._system.exists(place)), None)

    def _read(self, path: str) -> Document:
        try:
            held = json.loads(self._system.read(path) or "{}")
        except ValueError:
            return {}
        return held if isinstance(held, dict) else {}

    # -- observing ----------------------------------------------------------------------------------------------------

    def observe(self) -> State:
        return {
            "directory": self.directory,
            "plugin_directory": self._plugins.directory,
            "networks": [self._read("%s/%s" % (self.directory, name)) for name in self._own_files()],
            "plugins": self._plugins.observe(needed(self._networks)),
        }

    def _own_files(self) -> list[str]:
        names = self._system.listdir(self.directory)
        return [name for name in names if name.startswith(PREFIX) and name.endswith(SUFFIX)]

    # -- changing -----------------------------------------------------------------------------------------------------

    def changes(self, state: State) -> list[Change]:
        self._check()
        wanted = needed(self._networks)
        changes = self._plugins.changes(wanted)
        files = {file_name(each): each for each in self._networks}
        for name, conf in files.items():
            # after the plugins: a pod that comes meanwhile finds what its network names
            path, text = "%s/%s" % (self.directory, name), json.dumps(conf, indent=2) + "\n"
            if self._system.read_file(path) != text:
                before = self._read(path) or None
                changes.append(Change(path, "network", before, conf, self._writer(path, text)))
        for name in self._own_files():
            if name not in files:
                path = "%s/%s" % (self.directory, name)
                changes.append(Change(path, "network", self._read(path), None, self._remover(path)))
        return changes + self._plugins.leftovers(wanted, self._absent)

    def _writer(self, path: str, text: str) -> t.Callable[[], None]:
        return lambda: self._system.write_file(path, text, 0o644)

    def _remover(self, path: str) -> t.Callable[[], None]:
        return lambda: self._system.remove_file(path)

    # -- refusing -----------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        errors: list[RailyardError] = []
        others = self._others()
        branch = Branch.observe(self._system)
        seen: dict[str, int] = {}
        for number, conf in enumerate(self._networks):
            place = "networks[%d]" % number
            name, chain = conf.get("name"), conf.get("plugins")
            if not name or not isinstance(chain, list) or not all(isinstance(x, dict) and x.get("type") for x in chain):
                text = "is no CNI configuration: it needs a name, and plugins with a type each"
                errors.append(RailyardError(text, place, "give what the plan's hand-over gives"))
                continue
            if name in seen:
                text = "has the name of networks[%d], %s" % (seen[name], name)
                errors.append(RailyardError(text, place, "give each network a name of its own"))
            seen[name] = number
            if name in others:
                text = "network %s is in %s too, and Multus takes the first that it finds" % (name, others[name])
                errors.append(RailyardError(text, place, "remove that file, or name the plan's networks otherwise"))
            errors += self._check_first(chain[0], place, branch)
        errors += self._plugins.errors(needed(self._networks), {str(x.get("cniVersion")) for x in self._networks})
        raise_all(errors)

    def _check_first(self, plugin: Document, place: str, branch: Branch) -> t.Iterator[RailyardError]:
        """Whether the node has what the chain's first plugin makes the pod's interface of."""
        master, function = plugin.get("master"), plugin.get("pciBusID")
        if master:
            mtu = self._system.read_int("/sys/class/net/%s/mtu" % master)
            if mtu is None:
                yield RailyardError("there is no netdev %s" % master, place, "see 'ip link', and run rail_ports first")
            elif plugin.get("mtu") and int(plugin["mtu"]) > mtu:
                yield RailyardError(
                    "its MTU %d is more than that of %s, %d" % (plugin["mtu"], master, mtu),
                    place,
                    "run rail_ports first, which gives the port the plan's MTU",
                )
        elif function and not self._system.exists("/sys/bus/pci/devices/" + function):
            yield RailyardError("there is no PCI function %s" % function, place, "see 'lspci -D'")
        device = plugin.get("device")
        why = branch.why_netdev(device) if device else branch.why_function(function) if function else None
        if why and not master:
            yield Refused(
                "%s would go into a pod, and %s" % (device or function, why),
                place,
                "take another port for the rail",
            )

    def _others(self) -> dict[str, str]:
        """Network -> the file that has it, of files that are not ours."""
        found: dict[str, str] = {}
        own = self._own_files()
        for name in self._system.listdir(self.directory):
            if name not in own and name.endswith(READ_BY_MULTUS):
                path = "%s/%s" % (self.directory, name)
                network = self._read(path).get("name")
                if network:
                    found.setdefault(str(network), path)
        return found


def file_name(conf: t.Mapping[str, t.Any]) -> str:
    """The name of a network's file."""
    return "%s%s%s" % (PREFIX, conf["name"], SUFFIX)


def needed(networks: t.Iterable[t.Mapping[str, t.Any]]) -> list[str]:
    """The plugins that networks name, address managers among them, each once."""
    found: dict[str, None] = {}
    for conf in networks:
        for plugin in conf.get("plugins") or []:
            for each in (plugin, plugin.get("ipam") or {}) if isinstance(plugin, dict) else ():
                if each.get("type"):
                    found[str(each["type"])] = None
    return sorted(found, key=lambda name: (name == rail_plugin.NAME, name))

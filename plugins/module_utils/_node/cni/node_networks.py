# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The subsystem of module cni_networks: the files that Multus reads, and the plugins that they name.

It owns the plugin ``railyard-rail``, and the files and plugins that ``/var/lib/railyard/cni.json`` records.
"""

from __future__ import annotations

import json
import typing as t
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import STEP, Change
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._node.cni import rail_plugin
from ansible_collections.railyard.fabric.plugins.module_utils._node.cni.cni_plugins import PROJECTS, Plugins
from ansible_collections.railyard.fabric.plugins.module_utils._node.cni.cni_record import RECORD
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import (
    MANAGEMENT,
    Layer,
    State,
    Subsystem,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import port_reference
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath

CONF_DIR = "/etc/cni/multus/net.d"
PLUGIN_DIR = "/opt/cni/bin"
PREFIX, SUFFIX = "railyard-", ".conflist"
# Configuration directories of runtimes. Multus's file in them names Multus's directories, unless they are the defaults.
RUNTIME_DIRS = ("/etc/cni/net.d", "/var/lib/rancher/k3s/agent/etc/cni/net.d")
MULTUS = ("00-multus.conf", "00-multus.conflist")
# Directories of plugins of K3s (since October 2024, and before). RKE2 uses the default.
K3S_PLUGIN_DIRS = ("/var/lib/rancher/k3s/data/cni", "/var/lib/rancher/k3s/data/current/bin")
# Where the role cni copies an archive of plugins to.
ARCHIVES = "/var/cache/railyard"
READ_BY_MULTUS = (".conf", ".json", ".conflist")
Document = t.Dict[str, t.Any]

SPEC: dict[str, t.Any] = {
    **MANAGEMENT,
    "networks": {"type": "list", "elements": "dict", "default": []},
    "directory": {"type": "path"},
    "plugin_directory": {"type": "path"},
    "source": {"type": "list", "elements": "path", "default": []},
    "checksum": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}


class CniNetworks(Subsystem):
    """The CNI networks of a node. The options are those of module cni_networks."""

    def __init__(self, options: t.Mapping[str, t.Any], system: System) -> None:
        super().__init__()
        self._system = system
        self._absent = options.get("state") == "absent"
        self._networks: list[Document] = [] if self._absent else list(options.get("networks") or [])
        multus = {} if options.get("directory") and options.get("plugin_directory") else self._multus()
        # without symbolic links, so that each recorded file has one path
        self.directory = system.real_path(str(options.get("directory") or multus.get("confDir") or CONF_DIR))
        place = str(options.get("plugin_directory") or self._k3s() or multus.get("binDir") or PLUGIN_DIR).rstrip("/")
        self._plugins = Plugins(system, place, options.get("source") or [], options.get("checksum"))
        self._record = self._plugins.record

    def _multus(self) -> Document:
        """Return the part of Multus's file that names its directories; empty if it does not, or without the file."""
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
        return _parsed(self._system.read(path))

    # -- observed state -----------------------------------------------------------------------------------------------

    def observe(self) -> State:
        return {
            "directory": self.directory,
            "plugin_directory": self._plugins.directory,
            "networks": [_parsed(self._text(path)) for path in sorted(self._own()) if self._system.exists(path)],
            "plugins": self._plugins.observe(required_plugins(self._networks)),
        }

    def outcome(self, state: State, pending: t.Sequence[Change]) -> dict[str, t.Any]:
        # packages of distributions do not contain the plugins of other projects
        others = {*PROJECTS, rail_plugin.NAME}
        rows = [row for row in state["plugins"] if not row["path"] and not row["source"]]
        return {"missing": [row["name"] for row in rows if row["name"] not in others]}

    # -- own files ----------------------------------------------------------------------------------------------------

    def _planned(self) -> dict[str, Document]:
        """Return path -> network of the files to write."""
        return {"%s/%s" % (self.directory, file_name(conf)): conf for conf in self._networks if conf.get("name")}

    def _own(self) -> set[str]:
        """Return the files that this module wrote, and those whose content is as planned."""
        return self._record.networks() | {
            path for path, conf in self._planned().items() if self._text(path) == _text_of(conf)
        }

    def _text(self, path: str) -> str | None:
        """Return a file's text; None if it does not exist, or is a symbolic link, which this module never writes."""
        return None if self._system.link_target(path) is not None else self._system.read_file(path)

    def _write(self, path: str, text: str) -> None:
        # recorded before it is written, so that the file of an interrupted run is recognized
        recorded = self._record.networks()
        if path not in recorded:
            self._record.write_networks(recorded | {path})
        self._system.write_file(path, text, 0o644)

    def _remove(self, path: str) -> None:
        self._system.remove_file(path)
        self._record.write_networks(self._record.networks() - {path})

    # -- changes ------------------------------------------------------------------------------------------------------

    def changes(self, state: State) -> list[Change]:
        own, planned = self._own(), self._planned()
        self._check(own)
        plugins = required_plugins(self._networks)
        changes = self._record_changes({path for path in own if path in planned or self._system.exists(path)})
        changes += self._plugins.changes(plugins)
        for path, conf in planned.items():
            # after the plugins, so that a pod that starts now finds the plugins of its network
            text, found = _text_of(conf), self._text(path)
            if found != text:
                changes.append(Change(path, "network", _parsed(found) or None, conf, partial(self._write, path, text)))
        for path in sorted(own - set(planned)):
            if self._system.exists(path):
                before = _parsed(self._text(path))
                changes.append(Change(path, "network", before, None, partial(self._remove, path)))
        for name in self._system.listdir(ARCHIVES) if self._absent else ():
            path = "%s/%s" % (ARCHIVES, name)
            changes.append(Change(path, "archive", "present", None, partial(self._system.forget_file, path)))
        return changes + self._plugins.removals(plugins, self._absent)

    def _record_changes(self, own: set[str]) -> list[Change]:
        """Return the change that records adopted files, and forgets files that no longer exist."""
        recorded = self._record.networks()
        if own == recorded:
            return []
        act = partial(self._record.write_networks, own)
        return [Change(RECORD, "networks", sorted(recorded), sorted(own), act, STEP)]

    # -- refusals -----------------------------------------------------------------------------------------------------

    def _check(self, own: set[str]) -> None:
        errors: list[RailyardError] = []
        others = self._others(own)
        management = ManagementPath.observe(self._system)
        numbers: dict[str, int] = {}
        for number, conf in enumerate(self._networks):
            place = "networks[%d]" % number
            name, chain = conf.get("name"), conf.get("plugins")
            if not name or not isinstance(chain, list) or not all(isinstance(x, dict) and x.get("type") for x in chain):
                text = "is not a CNI configuration: it requires name, and plugins with a type each"
                errors.append(RailyardError(text, place, "use the networks of the plan"))
                continue
            if name in numbers:
                text = "has the name of networks[%d], %s" % (numbers[name], name)
                errors.append(RailyardError(text, place, "give each network another name"))
            numbers[name] = number
            if name in others:
                text = "network %s is in %s too, and Multus uses the first that it finds" % (name, others[name])
                errors.append(RailyardError(text, place, "remove that file, or rename the plan's networks"))
            errors += self._check_first(chain[0], place, management)
        for path in self._planned():
            if path not in own and self._system.exists(path):
                text = "exists, and %s does not record that Railyard wrote it" % RECORD
                errors.append(Refused(text, path, "remove or rename that file, and run again"))
        errors += self._plugins.errors(
            required_plugins(self._networks), {str(x.get("cniVersion")) for x in self._networks}
        )
        raise_all(errors)

    def _check_first(self, plugin: Document, place: str, management: ManagementPath) -> t.Iterator[RailyardError]:
        """Yield the errors of the netdev or PCI function from which the chain's first plugin makes an interface."""
        master, function = plugin.get("master"), plugin.get("pciBusID")
        if master:
            mtu = self._system.read_int("/sys/class/net/%s/mtu" % master)
            if mtu is None:
                yield RailyardError("there is no netdev %s" % master, place, "run 'ip link', and rail_ports first")
            elif plugin.get("mtu") and int(plugin["mtu"]) > mtu:
                yield RailyardError(
                    "its MTU %d is larger than that of %s, %d" % (plugin["mtu"], master, mtu),
                    place,
                    "run rail_ports first, which sets the plan's MTU on the port",
                )
        elif function and not self._system.exists("/sys/bus/pci/devices/" + function):
            yield port_reference.missing_function(function, place)
        device = plugin.get("device")
        why = management.why_netdev(device) if device else management.why_function(function) if function else None
        if why and not master:
            yield Refused(
                "%s would be moved into a pod, but %s" % (device or function, why),
                place,
                "use another port for the rail",
            )

    def _others(self, own: set[str]) -> dict[str, str]:
        """Return network -> file of files that this module neither owns nor would write."""
        files: dict[str, str] = {}
        excluded = own | set(self._planned())
        for name in self._system.listdir(self.directory):
            path = "%s/%s" % (self.directory, name)
            if path not in excluded and name.endswith(READ_BY_MULTUS):
                network = self._read(path).get("name")
                if network:
                    files.setdefault(str(network), path)
        return files


def file_name(conf: t.Mapping[str, t.Any]) -> str:
    return "%s%s%s" % (PREFIX, conf["name"], SUFFIX)


def _text_of(conf: t.Mapping[str, t.Any]) -> str:
    return json.dumps(conf, indent=2) + "\n"


def _parsed(text: str | None) -> Document:
    try:
        document = json.loads(text or "{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def required_plugins(networks: t.Iterable[t.Mapping[str, t.Any]]) -> list[str]:
    """Return the names of the networks' plugins and IPAM plugins, sorted; ``railyard-rail`` is last."""
    names: set[str] = set()
    for conf in networks:
        for plugin in conf.get("plugins") or []:
            for part in (plugin, plugin.get("ipam") or {}) if isinstance(plugin, dict) else ():
                if part.get("type"):
                    names.add(str(part["type"]))
    return sorted(names, key=lambda name: (name == rail_plugin.NAME, name))


LAYER = Layer(SPEC, CniNetworks)

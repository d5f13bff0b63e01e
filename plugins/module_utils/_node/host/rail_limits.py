# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of a node that rails need: locked memory, hugepages, neighbour tables, and which programs leave the rail
ports alone.

They are persistent by files of the distribution (systemd drop-ins, tmpfiles.d, sysctl.d, NetworkManager, cloud-init).
Reverse path filter, clock and processor governors are only reported.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change, NotTaken
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    RailyardError,
    Refused,
    collected,
    raise_all,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.staying import Staying
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import (
    MANAGEMENT,
    Layer,
    State,
    Subsystem,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.until_boot import UntilBoot
from ansible_collections.railyard.fabric.plugins.module_utils._node.host import memlock
from ansible_collections.railyard.fabric.plugins.module_utils._node.host.memlock import Memlock
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import sysctl
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import port_reference, vf_holders
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath

HUGEPAGES = "/sys/kernel/mm/hugepages"
HUGEPAGES_FILE = "/etc/tmpfiles.d/railyard-hugepages.conf"
NEIGHBOURS_FILE = "/etc/sysctl.d/91-railyard-neighbours.conf"
NETWORK_MANAGER_FILE = "/etc/NetworkManager/conf.d/90-railyard-rails.conf"
UNREAD = "# NetworkManager has yet to read this.\n"
# The directory of rail_ports' files if NetworkManager is the node's back-end.
OWN_CONNECTIONS = "/etc/NetworkManager/system-connections"
CLOUD_INIT = "/etc/cloud/cloud.cfg.d"
CLOUD_INIT_FILE = CLOUD_INIT + "/99-railyard-network.cfg"
CLOUD_INIT_TEXT = (
    "# Written by railyard.fabric.rail_limits: what is on disk is the node's network.\nnetwork: {config: disabled}\n"
)
HEAD = "# Written by railyard.fabric.rail_limits.\n"
THRESHOLDS = ("gc_thresh1", "gc_thresh2", "gc_thresh3")
# Directories of sysctl.d. The last file by name that has a setting takes effect.
SYSCTL_DIRECTORIES = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d")
MEMORY = re.compile(r"^MemTotal:\s+([0-9]+) kB$", re.MULTILINE)
# The least memory without hugepages: in kB, and as a fraction (1/16) of all memory.
LEFT_KB, LEFT_PART = 512 << 10, 16
UNMANAGED, DISABLED = "unmanaged", "disabled"
SHORT = "memory is too scattered, or pages are in use; a reboot brings the wanted number. It is now"
STRICT = 1
Row = t.Dict[str, t.Any]

PORT_SPEC = {"pci": {"type": "str"}, "netdev": {"type": "str"}}
PAGES_SPEC = {"size_kb": {"type": "int", "required": True}, "count": {"type": "int", "required": True}}

SPEC: dict[str, t.Any] = {
    **MANAGEMENT,
    "ports": {"type": "list", "elements": "dict", "default": [], "options": PORT_SPEC},
    "memlock": {"type": "str", "choices": ["leave", "unlimited"], "default": "leave"},
    "services": {"type": "list", "elements": "str"},
    "hugepages": {"type": "list", "elements": "dict", "options": PAGES_SPEC},
    "neighbours": {"type": "dict", "options": {key: {"type": "int"} for key in THRESHOLDS}},
    "network_manager": {"type": "str", "choices": ["leave", "unmanaged"], "default": "leave"},
    "cloud_init": {"type": "str", "choices": ["leave", "disabled"], "default": "leave"},
    "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
}


class Port(t.NamedTuple):
    """A rail port. ``netdev``: its present or planned name. ``now``: its present name, None without a netdev here."""

    netdev: str | None
    now: str | None


class RailLimits(Subsystem):
    """See the module's documentation for the options. ``give``: see :class:`.Memlock`."""

    def __init__(
        self, options: t.Mapping[str, t.Any], system: System, give: t.Callable[[int], None] = memlock.raise_limit
    ) -> None:
        super().__init__()
        self._system = system
        self._options = options
        services = options.get("services")
        self._memlock = Memlock(system, memlock.SERVICES if services is None else services, give)
        self._ports: list[Port] = []
        self._netdevs: list[str] = []
        self._short: dict[str, int] = {}
        self._absent = options.get("state") == "absent"
        self._until_boot = UntilBoot(system, "rail_limits")
        if self._absent:
            # services of earlier runs: with a drop-in, or recorded until the boot
            recorded = [each.subjects[0] for each in self._until_boot.read() if each.id == "memlock"]
            self._memlock.know([*self._memlock.kept(), *recorded])

    # -- observing ----------------------------------------------------------------------------------------------------

    def observe(self) -> State:
        system = self._system
        self._check()
        state = {
            "memlock": self._memlock.observe(),
            "hugepages": self._pages(),
            "neighbours": {key: self._threshold(key) for key in THRESHOLDS},
            "network_manager": UNMANAGED if system.exists(NETWORK_MANAGER_FILE) else None,
            "cloud_init": self._cloud_init(),
            "rp_filter": {each: sysctl.effective(system, each, "rp_filter") for each in self._netdevs},
            "clock_synchronized": self._clock(),
            "governors": self._governors(),
        }
        self.warnings = [] if self._absent else self._findings(state)
        return state

    def _check(self) -> None:
        if self._absent:
            return  # removal does not depend on the options
        errors: list[RailyardError] = []
        self._ports = []
        for number, each in enumerate(self._options.get("ports") or []):
            with collected(errors):
                self._ports.append(self._port(each, "ports[%d]" % number))
        self._netdevs = [port.now for port in self._ports if port.now]
        sizes = [int(page["size_kb"]) for page in self._pages()]
        for number, page in enumerate(self._options.get("hugepages") or []):
            place = "hugepages[%d]" % number
            if page["size_kb"] not in sizes:
                known = ", ".join(str(each) for each in sizes) or "none"
                text = "the kernel has no hugepages of %d kB" % page["size_kb"]
                errors.append(RailyardError(text, place + ".size_kb", "give one of those that it has: " + known))
            if page["count"] < 0:
                errors.append(RailyardError("%d is not a number of pages" % page["count"], place, "give 0 or more"))
        errors += self._too_many()
        wanted = self._thresholds()
        given = [wanted[key] for key in THRESHOLDS if key in wanted]
        if given != sorted(given):
            errors.append(RailyardError("%s do not rise" % given, "neighbours", "give gc_thresh1 <= 2 <= 3"))
        raise_all(errors)

    def _port(self, options: t.Mapping[str, t.Any], place: str) -> Port:
        errors: list[RailyardError] = []
        port = port_reference.read(options, place, errors)
        raise_all(errors)
        now = port_reference.find_netdev(self._system, port)
        netdev = port.netdev or now
        if not netdev and port.pci:
            moved = vf_holders.moved(self._system, [port.pci]).get(port.pci)
            netdev = moved.netdev if moved else None
        return Port(netdev, now)

    def _pages(self) -> list[Row]:
        found = []
        for name in self._system.listdir(HUGEPAGES):
            size = name[len("hugepages-") : -len("kB")]
            count = self._system.read_int("%s/%s/nr_hugepages" % (HUGEPAGES, name))
            free = self._system.read_int("%s/%s/free_hugepages" % (HUGEPAGES, name))
            if size.isdigit() and count is not None:
                found.append({"size_kb": int(size), "count": count, "free": free})
        return sorted(found, key=lambda page: int(page["size_kb"]))

    def _too_many(self) -> list[RailyardError]:
        """Return an error if the hugepages leave too little memory, with which the node would not boot."""
        found = MEMORY.search(self._system.read("/proc/meminfo") or "")
        wanted = sum(int(page["size_kb"]) * int(page["count"]) for page in self._options.get("hugepages") or [])
        total = int(found.group(1)) if found else 0
        max_kb = total - max(total // LEFT_PART, LEFT_KB)
        if not found or wanted <= max(max_kb, 0):
            return []
        text = "%d MiB of hugepages would leave too little of the node's %d MiB of memory" % (wanted >> 10, total >> 10)
        return [RailyardError(text, "hugepages", "ask for %d MiB at most" % (max(max_kb, 0) >> 10))]

    def _threshold(self, key: str) -> int | None:
        """Return the smaller one of the IPv4 and the IPv6 threshold; None if unknown."""
        numbers = [self._system.read_int(path) for path in self._threshold_paths(key)]
        return min((each for each in numbers if each is not None), default=None)

    @staticmethod
    def _threshold_paths(key: str) -> list[str]:
        return ["/proc/sys/net/%s/neigh/default/%s" % (family, key) for family in ("ipv4", "ipv6")]

    def _thresholds(self) -> dict[str, int]:
        return {key: value for key, value in (self._options.get("neighbours") or {}).items() if value is not None}

    def _cloud_init(self) -> str | None:
        """Return whether cloud-init's network configuration is ``disabled`` or ``enabled``; None without cloud-init."""
        if not self._system.exists(CLOUD_INIT):
            return None
        for name in self._system.listdir(CLOUD_INIT):
            compact = "".join((self._system.read("%s/%s" % (CLOUD_INIT, name)) or "").split())
            if name.endswith(".cfg") and (
                "network:{config:disabled}" in compact or "network:config:disabled" in compact
            ):
                return DISABLED
        return "enabled"

    def _clock(self) -> bool | None:
        if not self._system.which("timedatectl"):
            return None
        done = self._system.run(["timedatectl", "show", "--property=NTPSynchronized", "--value"], 30)
        return {"yes": True, "no": False}.get(done.out.strip()) if done.rc == 0 else None

    def _governors(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for name in self._system.listdir("/sys/devices/system/cpu"):
            if name.startswith("cpu") and name[3:].isdigit():
                kind = self._system.read("/sys/devices/system/cpu/%s/cpufreq/scaling_governor" % name)
                if kind:
                    found[kind] = found.get(kind, 0) + 1
        return found

    def _findings(self, state: State) -> list[str]:
        found = []
        strict = [netdev for netdev, value in state["rp_filter"].items() if value == STRICT]
        if strict:
            found.append(
                "%s: rp_filter is 1 (strict) in effect, which drops what comes in on one rail and would go out on "
                "another. Remedy: set the port's own to 2, or both its own and that of 'all' to 0." % ", ".join(strict)
            )
        if state["clock_synchronized"] is False:
            found.append("The clock is not synchronized. Remedy: see chronyc tracking or timedatectl timesync-status.")
        return found

    # -- comparing ----------------------------------------------------------------------------------------------------

    def changes(self, state: State) -> list[Change]:
        if self._absent:
            return self._taken_back(state)
        errors: list[RailyardError] = []
        changes: list[Change] = []
        for part in (self._memlock_changes, self._page_changes, self._neighbour_changes, self._other_program_changes):
            with collected(errors):
                changes += part(state)
        raise_all(errors)
        return changes + self._until_boot.keep([])

    # -- removal

    def _taken_back(self, state: State) -> list[Change]:
        """Return the changes that remove all persistent settings. Live settings that stay are recorded first."""
        changes = self._memlock.taken_back(state["memlock"])
        changes += self._network_manager_change(None)
        for path, attribute in (
            (HUGEPAGES_FILE, "hugepages"),
            (NEIGHBOURS_FILE, "sysctl"),
            (CLOUD_INIT_FILE, "network"),
        ):
            changes += self._text_change(path, attribute, None)
        ended = {self._locks(row) for row in state["memlock"] if row["live"] != memlock.UNLIMITED}
        return self._until_boot.around(changes, self._stays(state), ended)

    @staticmethod
    def _locks(row: t.Mapping[str, t.Any]) -> Staying:
        return Staying("memlock", (str(row["service"]),))

    def _stays(self, state: State) -> list[Staying]:
        """Return the live settings of the files to remove, which stay until the boot."""
        system = self._system
        kept = self._memlock.kept()
        found = [
            self._locks(row) for row in state["memlock"] if row["service"] in kept and row["live"] == memlock.UNLIMITED
        ]
        pages = system.read_file(HUGEPAGES_FILE) or ""
        for page in state["hugepages"]:
            if "/hugepages-%dkB/" % page["size_kb"] in pages and page["count"]:
                found.append(Staying("hugepages", (str(page["count"]), str(page["size_kb"]))))
        return found + ([Staying("neighbour-tables")] if system.exists(NEIGHBOURS_FILE) else [])

    # -- desired settings

    def _memlock_changes(self, state: State) -> list[Change]:
        return self._memlock.changes(state["memlock"]) if self._options.get("memlock") == memlock.UNLIMITED else []

    def _text_change(self, path: str, attribute: str, text: str | None) -> list[Change]:
        """Return the change that writes ``text`` to a file, or removes the file if ``text`` is None."""
        present = self._system.read_file(path)
        if present == text:
            return []
        if text is None:
            return [Change(path, attribute, present, None, lambda: self._system.remove_file(path))]
        return [Change(path, attribute, present, text, lambda: self._system.write_file(path, text))]

    def _page_changes(self, state: State) -> list[Change]:
        wanted = self._options.get("hugepages")
        if wanted is None:
            return []
        now = {page["size_kb"]: page["count"] for page in state["hugepages"]}
        lines = []
        changes = []
        for page in wanted:
            path = "%s/hugepages-%dkB/nr_hugepages" % (HUGEPAGES, page["size_kb"])
            lines.append("w %s - - - - %d\n" % (path, page["count"]))
            if now[page["size_kb"]] != page["count"] and path not in self._short:
                changes.append(self._page_change(path, now[page["size_kb"]], page["count"]))
        for path, count in self._short.items():
            self.warnings.append("%s: %s %d" % (path, SHORT, count))
        return self._text_change(HUGEPAGES_FILE, "hugepages", HEAD + "".join(lines) if lines else None) + changes

    def _page_change(self, path: str, before: int, after: int) -> Change:
        def act() -> None:
            try:
                self._system.write_attribute(path, str(after))
            except OSError as error:
                raise RailyardError(
                    "the kernel does not take %d: %s" % (after, error.strerror), path, "give fewer"
                ) from None
            actual_count = self._system.read_int(path)
            if actual_count is not None and actual_count != after:
                self._short[path] = actual_count
                raise NotTaken()

        return Change(path, "nr_hugepages", before, after, act)

    def _neighbour_changes(self, state: State) -> list[Change]:
        wanted = self._thresholds()
        if not wanted:
            return []
        lines = []
        changes: list[Change] = []
        # the largest first, so that the thresholds are in ascending order at any time
        for key in reversed([key for key in THRESHOLDS if key in wanted]):
            for path in self._threshold_paths(key):
                present = self._system.read_int(path)
                if present is None:
                    continue
                lines.append("%s = %d\n" % (path[len("/proc/sys/") :].replace("/", "."), wanted[key]))
                if present < wanted[key]:
                    changes.append(self._sysctl_change(path, present, wanted[key]))
        self._warn_of_later_files(lines)
        return self._text_change(NEIGHBOURS_FILE, "sysctl", HEAD + "".join(lines)) + changes

    def _sysctl_change(self, path: str, before: int, after: int) -> Change:
        def act() -> None:
            try:
                self._system.write_attribute(path, str(after))
            except OSError as error:
                raise RailyardError(
                    "the kernel does not take %d: %s" % (after, error.strerror), path, "run the task with become"
                ) from None

        return Change(path, path.rpartition("/")[2], before, after, act)

    def _warn_of_later_files(self, lines: t.Sequence[str]) -> None:
        """Warn about files that override these settings at boot."""
        ours = NEIGHBOURS_FILE.rpartition("/")[2]
        keys = {line.partition(" ")[0] for line in lines}
        for directory in SYSCTL_DIRECTORIES:
            for name in self._system.listdir(directory):
                if not name.endswith(".conf") or name <= ours:
                    continue
                text = self._system.read("%s/%s" % (directory, name)) or ""
                found = {line.partition("=")[0].strip().replace("/", ".") for line in text.splitlines()} & keys
                if found:
                    self.warnings.append(
                        "%s/%s sets %s after %s at boot. Remedy: take it out there."
                        % (directory, name, ", ".join(sorted(found)), NEIGHBOURS_FILE)
                    )

    def _other_program_changes(self, state: State) -> list[Change]:
        changes: list[Change] = []
        system = self._system
        if self._options.get("network_manager") == UNMANAGED and system.exists("/etc/NetworkManager"):
            own_connections = [name for name in system.listdir(OWN_CONNECTIONS) if name.startswith("railyard-")]
            if own_connections:
                raise RailyardError(
                    "NetworkManager sets the rail ports itself here, by %s" % own_connections[0],
                    "network_manager",
                    "set network_manager: leave, or change the back-end of rail_ports",
                )
            wanted = [port.netdev for port in self._ports if port.netdev]
            if not wanted:
                raise RailyardError("no rail ports are given", "ports", "give the rail ports")
            management = ManagementPath.observe(system)
            why = [management.why_netdev(each) for each in self._netdevs if management.why_netdev(each)]
            if why:
                raise Refused("one of the ports %s" % why[0], "ports", "take it out of the ports")
            names = ",".join("interface-name:%s" % each for each in wanted)
            changes += self._network_manager_change(HEAD + "[device-railyard]\nmatch-device=%s\nmanaged=0\n" % names)
        if self._options.get("cloud_init") == DISABLED and state["cloud_init"] == "enabled":
            changes += self._text_change(CLOUD_INIT_FILE, "network", CLOUD_INIT_TEXT)
        return changes

    def _network_manager_change(self, text: str | None) -> list[Change]:
        """Return the changes that write NetworkManager's file (``text`` None: remove it) and reload it. Before the
        reload, the file has a line that marks it as unread, by which the next run detects an interrupted run.
        """
        system, path = self._system, NETWORK_MANAGER_FILE
        present, draft = system.read_file(path), (text or HEAD) + UNREAD
        if present == text or not system.which("nmcli"):
            return self._text_change(path, "unmanaged", text)

        def act() -> None:
            # the result is ignored: if NetworkManager is not running, it reads the file at its start
            system.run(["nmcli", "general", "reload", "conf"], 60)
            for change in self._text_change(path, "unmanaged", text):
                change.act()

        changes = (
            []
            if present == draft
            else [Change(path, "unmanaged", present, text, lambda: system.write_file(path, draft))]
        )
        return [*changes, Change("NetworkManager", "conf", "older", "reloaded", act)]

    def outcome(self, state: State, pending: t.Sequence[Change]) -> dict[str, t.Any]:
        reasons = ["%s is %d and will be as wanted after a reboot" % each for each in self._short.items()]
        return self._until_boot.outcome(reasons)


LAYER = Layer(SPEC, RailLimits)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Let systemd-networkd read the files of rail ports, and wait until it has configured them.

Sources: networkctl(1), and seen with systemd 252 and 257.
"""

from __future__ import annotations

import contextlib
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports import foreign_files
from ansible_collections.railyard.fabric.plugins.module_utils._node.ports.persistent_port import Kept

UNIT = "systemd-networkd.service"
# systemd-networkd's final states of a link
CONFIGURED = "configured"
GAVE_UP = "failed"
SETTLED = (CONFIGURED, GAVE_UP)
# seconds that a link's second attempt gets at least
RETRY = 10.0
# seconds within which systemd-networkd starts to configure a link after a reload
BEGUN = 5.0
# CLOCK_REALTIME_COARSE, the clock of file timestamps (clock_gettime(2)); not named in Python
CLOCK_OF_FILES = 5


def load_netdevs(system: System, created: t.Sequence[Kept]) -> None:
    """Reload, and wait until systemd-networkd has made the bonds.

    systemd-networkd (seen with 257) fails for interfaces that exist when it first reads their file, because it does not
    look up their index. It makes bonds at once, and VLANs with the configuration of their parent.
    """
    system.check(["networkctl", "reload"], "see 'journalctl -u systemd-networkd' for what is wrong with the files")
    deadline = time.monotonic() + BEGUN
    for each in created:
        while each.part.bond and not system.exists("/sys/class/net/%s" % each.netdev) and time.monotonic() < deadline:
            time.sleep(0.05)


def announce(system: System, netdevs: t.Sequence[tuple[str, str]]) -> None:
    """Let systemd-networkd read changed files of bonds and VLANs that exist, and see these interfaces.

    It fails for the same reason as in :func:`load_netdevs`, until the kernel reports a change of the interface and the
    file is read again. Any alias, also the present one, is a change.

    :param netdevs: (interface, path of its file).
    """
    if not netdevs:
        return
    system.check(["networkctl", "reload"], "see 'journalctl -u systemd-networkd' for what is wrong with the files")
    for netdev, path in netdevs:
        alias = "/sys/class/net/%s/ifalias" % netdev
        with contextlib.suppress(OSError):
            system.write_attribute(alias, (system.read(alias) or "") + "\n")
        system.write_file(path, system.read_file(path) or "", 0o644)


def reload(system: System, wanted: t.Sequence[tuple[Kept, str]], changed: t.Collection[str], timeout: float) -> None:
    """Reload, and wait until systemd-networkd has configured each link from its file. A failed link is retried once.

    :param wanted: (rail port, path of its file).
    :raises RailyardError: if it uses another file for a link, or does not configure it.
    """
    reload_time = time.clock_gettime_ns(CLOCK_OF_FILES)
    # 'reload' reconfigures only the links whose files changed: the management path is not among them
    system.check(["networkctl", "reload"], "see 'journalctl -u systemd-networkd' for what is wrong with the files")
    start = time.monotonic()
    deadline = start + timeout
    for each, path in wanted:
        if each.ifindex is None:
            continue
        # 'reload' returns before networkd configures the links: an older state belongs to the former file
        start_deadline = start + BEGUN if path in changed else start
        while system.modified(_state_file(each)) < reload_time and time.monotonic() < start_deadline:
            time.sleep(0.05)
        used, link_state = _settled(system, each, path, deadline, SETTLED)
        if used == path and link_state == GAVE_UP:
            # the reason is often temporary, such as a kernel that is busy with the card's virtual functions
            system.run(["networkctl", "reconfigure", each.netdev])
            used, link_state = _settled(system, each, path, max(deadline, time.monotonic() + RETRY), (CONFIGURED,))
        if used != path:
            raise RailyardError(
                "systemd-networkd uses %s for %s" % (used or "no file", each.netdev),
                path,
                "remove that file or make it match fewer interfaces"
                if used
                else "see 'networkctl status %s'" % each.netdev,
            )
        if link_state != CONFIGURED and not _waits_for_carrier(system, each, link_state):
            raise RailyardError(
                "systemd-networkd reports %s as %r%s" % (each.netdev, link_state, _last_error(system, each.netdev)),
                path,
                "see 'journalctl -u systemd-networkd' for the reason",
            )


def _settled(system: System, each: Kept, path: str, deadline: float, settled: t.Sequence[str]) -> tuple[str, str]:
    """Wait for one of the states ``settled``. Return the file that systemd-networkd uses for a link, and the state."""
    while True:
        state = foreign_files.variables(system, _state_file(each))
        used, link_state = state.get("NETWORK_FILE", ""), state.get("ADMIN_STATE", "")
        settled_now = used == path and (link_state in settled or _waits_for_carrier(system, each, link_state))
        if settled_now or time.monotonic() >= deadline:
            return used, link_state
        time.sleep(0.1)


def _last_error(system: System, netdev: str) -> str:
    """Return systemd-networkd's last error about a link in parentheses, to append to a message; empty if unknown."""
    lines = system.run(["journalctl", "-b", "-u", UNIT, "-n", "200", "-o", "cat", "--no-pager"]).out.splitlines()
    messages = [line.partition(": ")[2] for line in lines if line.startswith(netdev + ": ")]
    error_texts = [text for text in messages if text.startswith(("Could not", "Failed"))]
    return " (%s)" % error_texts[-1] if error_texts else ""


def _waits_for_carrier(system: System, each: Kept, link_state: str) -> bool:
    """Return whether a link waits for its carrier, without which duplicate IPv6 addresses cannot be detected."""
    carrier = system.read("/sys/class/net/%s/carrier" % each.netdev)
    return link_state == "configuring" and each.port.side(6) is not None and carrier == "0"


def _state_file(each: Kept) -> str:
    """Return the path of systemd-networkd's state file of a link, which it replaces when the state changes."""
    return foreign_files.NETWORK_STATE % (each.ifindex or 0)

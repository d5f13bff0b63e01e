# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What netplan generates for systemd-networkd, and Railyard's drop-ins beside it.

Sources: netplan-generate(8), systemd-networkd(8).
"""

from __future__ import annotations

import filecmp
import os
import stat
import tempfile

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

GENERATED = "/run/systemd/network"
DROP_INS = "/etc/systemd/network"
DROP_IN_DIRECTORY = "10-netplan-%s.network.d"
DROP_IN = "railyard.conf"


def generated_path(netdev: str, suffix: str = ".network") -> str:
    """Return the path of the ``.network`` or ``.netdev`` file that netplan generates for a netdev."""
    return "%s/10-netplan-%s%s" % (GENERATED, netdev, suffix)


def drop_in_path(netdev: str) -> str:
    """Return the path of Railyard's drop-in for that file."""
    return "%s/%s/%s" % (DROP_INS, DROP_IN_DIRECTORY % netdev, DROP_IN)


def drop_ins(system: System) -> list[str]:
    """Return the paths of Railyard's drop-ins on the node."""
    begin, end = DROP_IN_DIRECTORY.split("%s")
    names = [name for name in system.listdir(DROP_INS) if name.startswith(begin) and name.endswith(end)]
    paths = ["%s/%s/%s" % (DROP_INS, name, DROP_IN) for name in names]
    return [path for path in paths if system.exists(path)]


def is_drop_in(path: str) -> bool:
    """Return whether a path is that of such a drop-in, whose directory exists only for it."""
    return path.startswith(DROP_INS + "/10-netplan-") and os.path.basename(path) == DROP_IN


def generate(system: System) -> list[str]:
    """Run ``netplan generate``. Return the paths of the generated files that it changed, added or removed.

    netplan replaces all files. systemd-networkd reconfigures each link whose file is another one than before, even with
    the same content, and the management path then loses its DHCP lease. So unchanged files are put back.

    :raises RailyardError: if netplan fails, or the files cannot be put back.
    """
    directory = system.path(GENERATED)
    try:
        os.makedirs(directory, mode=0o755, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="railyard-", dir=system.path("/run")) as former:
            names = system.listdir(GENERATED)
            for name in names:
                os.link(os.path.join(directory, name), os.path.join(former, name), follow_symlinks=False)
            system.check(["netplan", "generate"], "correct the file in /etc/netplan that netplan names")
            changed = []
            for name in sorted({*names, *system.listdir(GENERATED)}):
                old, new = os.path.join(former, name), os.path.join(directory, name)
                if _equal(old, new):
                    os.replace(old, new)
                else:
                    changed.append("%s/%s" % (GENERATED, name))
    except OSError as error:
        raise RailyardError(
            "files cannot be replaced: %s" % error.strerror, GENERATED, "make the place writable for root"
        ) from None
    return changed


def _equal(old: str, new: str) -> bool:
    """Return whether two regular files have the same content, owner and permissions. False if one does not exist."""
    try:
        before, after = os.lstat(old), os.lstat(new)
    except FileNotFoundError:
        return False
    owners = [(each.st_mode, each.st_uid, each.st_gid) for each in (before, after)]
    return owners[0] == owners[1] and stat.S_ISREG(before.st_mode) and filecmp.cmp(old, new, shallow=False)

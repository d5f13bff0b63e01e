# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program that runs at boot: applies the persistent options of each module with the module's code.

Administrators can run ``python3 /usr/local/lib/railyard/boot.pyz --check``, which reports what it would change.
"""

from __future__ import annotations

import json
import sys
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.boot_paths import BOOT_DIR
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Layer, converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

# Seconds to wait for devices: a NIC's driver may be ready long after udev has settled.
PATIENCE = 120.0
# The same while udev still handles devices, as on a machine that is overloaded at its boot.
SLOW_PATIENCE = 300.0
UDEV_QUEUE = "/run/udev/queue"
# Seconds between two attempts. Each costs processor time, so the pause grows, in proportion to the time waited.
PAUSE, PAUSE_MAX, PAUSE_GROWTH = 1.0, 5.0, 1.25


def layer(module: str) -> Layer:
    """Return the layer of a module. Only its code is imported, because imports take most of a short program's time.

    The modules themselves call this too, so that Ansible sends the code of the whole program to the node.

    :raises RailyardError: if the module cannot be applied at boot.
    """
    if module == "ib_ports":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma.infiniband_ports import LAYER
    elif module == "pci_tuning":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.host.pci_tuning import LAYER
    elif module == "rdma_link":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma.rdma_links import LAYER
    elif module == "roce_qos":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.qos.roce_qos import LAYER
    elif module == "sriov_vfs":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov.virtual_functions import LAYER
    else:
        raise RailyardError(
            "is not a module that can be applied at boot", module, "run the playbook again to replace the file"
        )
    return LAYER


def read(path: str, system: System) -> tuple[str, dict[str, t.Any]]:
    """Return the module and its options in a file of boot options. Raises :class:`RailyardError` if it is damaged."""
    try:
        document = json.loads(system.read(path) or "")
        return str(document["module"]), dict(document["options"])
    except (ValueError, KeyError, TypeError):
        raise RailyardError("is not a file of boot options", path, "run the playbook again to replace it") from None


def apply(path: str, system: System, check: bool, until: float = 0) -> list[str]:
    """Apply one file of options. Return a line per change. Raises :class:`RailyardError`.

    :param check: only return the changes.
    :param until: time of the monotonic clock until which it waits for the lock; 0: do not wait.
    """
    return _apply(*read(path, system), system=system, check=check, until=until)


def _apply(module: str, options: t.Mapping[str, t.Any], system: System, check: bool, until: float) -> list[str]:
    subsystem = layer(module).build(options, system)
    who = "the program for boot, with %s," % module
    locks = [] if check else subsystem.locks
    with boot_lock.changing(system, locks, who, until - time.monotonic()):
        state = subsystem.observe()
        changes = subsystem.changes(state)
        if not check:
            converge(subsystem, state, changes, [])
    return ["%s %s: %r -> %r\n" % (change.subject, change.attribute, change.before, change.after) for change in changes]


def apply_ports(path: str, system: System, check: bool, until: float) -> list[tuple[str, Exception]]:
    """Apply the ports of a file separately, so that a failed card does not affect the others.

    :return: name and error of each failed port; empty if the file has fewer than two ports.
    """
    failed: list[tuple[str, Exception]] = []
    try:
        module, options = read(path, system)
    except RailyardError:
        return failed
    ports = options.get("ports")
    for port in ports if isinstance(ports, list) and len(ports) > 1 else []:
        try:
            sys.stdout.writelines(_apply(module, dict(options, ports=[port]), system, check, until))
        except Exception as error:
            row = port if isinstance(port, dict) else {}
            failed.append((str(row.get("pci") or row.get("netdev") or row.get("name")), error))
    return failed


def main(argv: t.Sequence[str] | None = None, system: System | None = None, patience: float = PATIENCE) -> int:
    """Apply all files in order. A file that fails is tried again for ``patience`` seconds, or
    :data:`SLOW_PATIENCE` while udev handles devices, and then port by port.

    ``--check`` only reports what would change. ``--only 10-sriov_vfs`` applies only that file.

    :return: exit status: 0 if all options are applied, 1 if not; standard error has the errors.
    """
    system = system or System()
    system.management_interfaces = None
    arguments = list(sys.argv[1:] if argv is None else argv)
    check = "--check" in arguments
    only = arguments[arguments.index("--only") + 1 :][:1] if "--only" in arguments else []
    began = time.monotonic()

    def may_wait() -> bool:
        slow = system.exists(UDEV_QUEUE)
        return not check and time.monotonic() < began + (max(patience, SLOW_PATIENCE) if slow else patience)

    # for all files together: the unit's timeout is twice as long
    until = time.monotonic() + boot_lock.SECONDS
    status = 0
    for name in system.listdir(BOOT_DIR):
        if not name.endswith(".json") or (only and name != only[0] + ".json"):
            continue
        path = "%s/%s" % (BOOT_DIR, name)
        pause = PAUSE
        while True:
            try:
                sys.stdout.writelines(apply(path, system, check, until))
                break
            # any error of a file must not prevent the next files
            except Exception as error:
                if may_wait():
                    time.sleep(pause)
                    pause = min(pause * PAUSE_GROWTH, PAUSE_MAX)
                    continue
                status = 1
                # if the lock is not free, the ports would only wait again
                failed = [] if isinstance(error, boot_lock.Busy) else apply_ports(path, system, check, until)
                failures = [("%s, %s" % (path, port), failure) for port, failure in failed]
                for place, failure in failures or [(path, error)]:
                    prefix = "" if isinstance(failure, RailyardError) else type(failure).__name__ + ": "
                    sys.stderr.write("%s: %s%s\n" % (place, prefix, failure))
                break
    return status

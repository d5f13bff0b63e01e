# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The program that runs at boot: every kept set of options, through the code of its module.

Also of use by hand: ``python3 /usr/local/lib/railyard/boot.pyz --check`` reports what it would change.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.boot_paths import BOOT_DIR
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Subsystem, converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System

# A NIC's driver may come up well after udev has settled.
PATIENCE = 120.0


def build(module: str, options: t.Mapping[str, t.Any], system: System) -> Subsystem:
    """The subsystem of a module. Imports only what is asked for: an import is most of a short program's time."""
    if module == "rdma_link":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma.rdma_links import RdmaLink

        return RdmaLink.from_options(options, system)
    if module == "sriov_vfs":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov.virtual_functions import SriovVfs

        return SriovVfs.from_options(options, system)
    if module == "ib_ports":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.rdma.infiniband_ports import IbPorts

        return IbPorts.from_options(options, system)
    if module == "pci_tuning":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.host.pci_tuning import PciTuning

        return PciTuning.from_options(options, system)
    if module == "roce_qos":
        from ansible_collections.railyard.fabric.plugins.module_utils._node.qos.roce_qos import RoceQos

        return RoceQos.from_options(options, system)
    raise RailyardError(
        "is not a module that can be applied at boot", module, "run the playbook again to replace the file"
    )


def builder(module: str) -> t.Callable[[t.Mapping[str, t.Any], System], Subsystem]:
    """The subsystem of a module, for the module itself: what it sends to a node has all that the boot program needs."""
    return lambda options, system: build(module, options, system)


def read(path: str, system: System) -> tuple[str, dict[str, t.Any]]:
    """The module and its options. Raises :class:`RailyardError`."""
    try:
        held = json.loads(system.read(path) or "")
        return str(held["module"]), dict(held["options"])
    except (ValueError, KeyError, TypeError):
        raise RailyardError("is not a file of boot options", path, "run the playbook again to replace it") from None


def apply(path: str, system: System, check: bool, until: float = 0) -> list[str]:
    """Apply one file of options. Returns a line for each change. Raises :class:`RailyardError`.

    :param until: when to wait no more for another one who is at work, on the monotonic clock; 0 waits for no one.
    """
    return _apply(*read(path, system), system=system, check=check, until=until)


def _apply(module: str, options: t.Mapping[str, t.Any], system: System, check: bool, until: float) -> list[str]:
    subsystem = build(module, options, system)
    who = "the program for boot, with %s," % module
    with contextlib.nullcontext() if check else boot_lock.turn(system, who, until - time.monotonic()):
        state = subsystem.observe()
        changes = subsystem.changes(state)
        if not check:
            converge(subsystem, state, changes, [])
    return ["%s %s: %r -> %r\n" % (c.subject, c.attribute, c.before, c.after) for c in changes]


def one_by_one(path: str, system: System, check: bool, until: float) -> list[tuple[str, Exception]]:
    """Apply each port of a file alone: a card that has gone must not take the others along.

    :return: which port could not be, and why; empty where there are no ports to part.
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
            named = port if isinstance(port, dict) else {}
            failed.append((str(named.get("pci") or named.get("netdev") or named.get("name")), error))
    return failed


def main(argv: t.Sequence[str] | None = None, system: System | None = None, patience: float = PATIENCE) -> int:
    """Apply all files in order; those that fail are tried again until ``patience`` seconds have passed, and then port
    by port.

    ``--check`` only reports what would change; ``--only 10-sriov_vfs`` applies that file alone.

    :return: exit status: 0 all is as kept, 1 something is not, which standard error reports.
    """
    system = system or System()
    given = list(sys.argv[1:] if argv is None else argv)
    check = "--check" in given
    only = given[given.index("--only") + 1 :][:1] if "--only" in given else []
    deadline = time.monotonic() + (0 if check else patience)
    # for all files together: systemd waits no longer than twice as long
    until = time.monotonic() + boot_lock.SECONDS
    status = 0
    for name in system.listdir(BOOT_DIR):
        if not name.endswith(".json") or (only and name != only[0] + ".json"):
            continue
        path = "%s/%s" % (BOOT_DIR, name)
        while True:
            try:
                sys.stdout.writelines(apply(path, system, check, until))
                break
            # whatever one file runs into, those after it are laid down
            except Exception as error:
                if time.monotonic() < deadline:
                    time.sleep(1)
                    continue
                status = 1
                # who waits for another one in vain does so once, and not for each port
                alone = [] if isinstance(error, boot_lock.Busy) else one_by_one(path, system, check, until)
                failed = [("%s, %s" % (path, port), why) for port, why in alone]
                for place, why in failed or [(path, error)]:
                    unforeseen = "" if isinstance(why, RailyardError) else type(why).__name__ + ": "
                    sys.stderr.write("%s: %s%s\n" % (place, unforeseen, why))
                break
    return status

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The udev rules by which NetworkManager does not manage the VFs of rail ports.

NetworkManager sets every NIC up that it manages, also without a profile. A VF that is up on the node answers ARP for
the address of its port: by default, the kernel answers on each interface for all addresses of the node.

A rule matches the VFs of one PF by the PF's PCI address, so it applies to any number of VFs. The file exists before
VFs are created, at boot too. udev runs all rules at each event of a device, so the rules match every event.

Sources: udev(7), udevadm(8), nmcli(1), NetworkManager(8) for ``NM_UNMANAGED``.
"""

from __future__ import annotations

import typing as t
from functools import partial

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import STEP, Change
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link, Row
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import NARROW_SCOPES, Rtnetlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions
from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov.pf_actions import Pf

FILE = "/etc/udev/rules.d/84-railyard-vfs.rules"
HEAD = "# Written by railyard.fabric.sriov_vfs. NetworkManager does not manage the VFs of these PFs.\n"
# physfn exists only for VFs. The line of the PF's uevent ends after the function number, so no other address matches.
RULE = (
    'SUBSYSTEM=="net", ACTION!="remove", TEST=="device/physfn", '
    'ATTR{device/physfn/uevent}=="*PCI_SLOT_NAME=%s*", ENV{NM_UNMANAGED}="1"\n'
)
UNREAD = "# udev has yet to read this.\n"
INSTALLED = "/etc/NetworkManager"
RUNNING = "/run/systemd/units/invocation:NetworkManager.service"
TIMEOUT = 60.0
Holders = t.Callable[[System, t.Sequence[str], Rtnetlink], t.Dict[str, t.List[str]]]


class UnmanagedVfs:
    """The file of udev rules on a node. ``warnings``: set by :meth:`changes`."""

    def __init__(self, system: System, table: Rtnetlink, holders_of: Holders) -> None:
        self._system = system
        self._table = table
        self._holders_of = holders_of
        self._present = system.read_file(FILE)
        self.warnings: list[str] = []

    def changes(self, pfs: t.Sequence[Pf], replaced: t.Container[str] = ()) -> list[Change]:
        """Return the changes so that NetworkManager does not manage the VFs of exactly these PFs.

        Do them before VFs are created. VFs that NetworkManager has set up are set down together with the first rule for
        their PF, not in later runs. Until udev has read the file, a line marks it as unread, by which the next run
        detects an interrupted run.

        :param replaced: PCI addresses of VFs that other changes remove or rebind. They return down.
        """
        pfs = self._without_used_vfs(pfs) if self._system.exists(INSTALLED) else []
        if not pfs:
            return self._file_changes(None)
        text = HEAD + "".join(sorted(RULE % pf.pci for pf in pfs))
        if self._present == text:
            return []
        draft = self._present is not None and self._present.endswith(UNREAD)
        new = [pf for pf in pfs if draft or not self._has_rule(pf)]
        up = [(pf, vf) for pf in new for vf in self._up(pf, replaced)]

        def act() -> None:
            self._apply(pfs)
            for _pf, vf in up:
                self._set_down(vf)
            self._system.write_file(FILE, text)

        changes = [] if self._present == text + UNREAD else self._file_changes(text)
        changes.append(Change("udev", "rules", "older", "reloaded", act, STEP))
        # the change above also sets the VFs down, because the file is marked as read only after that
        return changes + [Change(vf["netdev"], "state", "up", "down", lambda: None, port=pf.pci) for pf, vf in up]

    def removal(self, functions: t.Collection[str] | None) -> list[Change]:
        """Return the changes that remove the rules of these PFs; None: of all PFs. udev notices this by itself."""
        lines = (self._present or "").splitlines(True) if functions is not None else []
        left = [line for line in lines if not any(RULE % pci == line for pci in functions or ())]
        text = "".join(left) if any(not line.startswith("#") for line in left) else None
        if text == self._present:
            return []
        if text is None:
            return self._file_changes(None)
        return [Change(FILE, "rules", self._present, text, partial(self._system.write_file, FILE, text))]

    def _file_changes(self, text: str | None) -> list[Change]:
        system = self._system
        if text is not None:
            draft = text + UNREAD
            return [Change(FILE, "rules", self._present, text, lambda: system.write_file(FILE, draft))]
        if self._present is None:
            return []
        return [Change(FILE, "rules", self._present, None, lambda: system.remove_file(FILE))]

    def _has_rule(self, pf: Pf) -> bool:
        return RULE % pf.pci in (self._present or "")

    def _without_used_vfs(self, pfs: t.Sequence[Pf]) -> list[Pf]:
        """Return the PFs, without new ones whose VFs NetworkManager may have configured: it would revert that."""
        if not self._system.exists(RUNNING):
            return list(pfs)
        found = []
        for pf in pfs:
            netdevs = [] if self._has_rule(pf) else self._used(pf)
            if netdevs:
                self.warnings.append(
                    "%s: NetworkManager still manages its VFs, because %s has an address or is part of another "
                    "interface. Remedy: remove that from %s, and run again." % (pf.name, netdevs[0], netdevs[0])
                )
            else:
                found.append(pf)
        return found

    def _used(self, pf: Pf) -> list[str]:
        """Return the netdevs of VFs that have an address, or that a bond, bridge or other interface uses."""
        links = [link for link in (self._link(vf) for vf in pf.vfs) if link]
        if not links:
            return []
        indices = {address.ifindex for address in self._table.addresses() if address.scope not in NARROW_SCOPES}
        return [link.name for link in links if link.ifindex in indices or self._has_upper(link.name)]

    def _has_upper(self, netdev: str) -> bool:
        entries = self._system.listdir("/sys/class/net/" + netdev)
        return any(entry == "master" or entry.startswith("upper_") for entry in entries)

    def _link(self, vf: Row) -> Link | None:
        return self._table.link(vf["netdev"]) if vf["netdev"] else None

    def _up(self, pf: Pf, replaced: t.Container[str]) -> list[Row]:
        """Return the VFs of a PF that NetworkManager may have set up and that are not in use."""
        if not self._system.exists(RUNNING):
            return []
        rows = [vf for vf in pf.vfs if vf["pci"] not in replaced]
        links = [self._link(vf) for vf in rows]
        rows = [vf for vf, link in zip(rows, links) if link and link.up]
        held = self._held([vf["pci"] for vf in rows])
        return [vf for vf in rows if not held.get(vf["pci"])]

    def _held(self, functions: t.Sequence[str]) -> dict[str, list[str]]:
        return self._holders_of(self._system, functions, self._table) if functions else {}

    def _apply(self, pfs: t.Sequence[Pf]) -> None:
        """Make udev read the file, and apply it to VFs that exist. Errors are ignored: if udev is not running, it reads
        the file at its start.
        """
        system = self._system
        system.run(["udevadm", "control", "--reload"], TIMEOUT)
        functions = [vf for pf in pfs for vf in pci_functions.virtual_functions(system, pf.pci)]
        netdevs = [name for vf in functions for name in system.listdir(pci_functions.attribute(vf, "net"))]
        if netdevs:
            paths = ["/sys/class/net/" + name for name in netdevs]
            system.run(["udevadm", "trigger", "--action=change", "--settle", *paths], TIMEOUT)

    def _set_down(self, vf: Row) -> None:
        # also if NetworkManager does not read the property of a device that it manages already
        self._system.run(["nmcli", "device", "set", vf["netdev"], "managed", "no"], TIMEOUT)
        link = self._link(vf)
        # checked again, because a pod may have started since
        if link and link.up and not self._held([vf["pci"]]).get(vf["pci"]):
            self._table.set_link(link.ifindex, up=False)

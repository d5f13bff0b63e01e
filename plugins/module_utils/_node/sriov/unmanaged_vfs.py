# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The udev rules by which NetworkManager does not manage the VFs of rail ports.

NetworkManager sets every NIC up that it manages, also without a profile. A VF that is up on the node answers ARP for
the address of its port: by default, the kernel answers on each interface for all addresses of the node.

A rule matches the VFs of one PF by the PF's PCI address, so it applies to any number of VFs. The file exists before
VFs are created, at boot too. udev runs all rules at each event of a device, so the rules match every event.

Sources: udev(7), udevadm(8), nmcli(1), NetworkManager(8) for ``NM_UNMANAGED``.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import STEP, Change
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.link_messages import Link, Row
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.rtnetlink import NARROW_SCOPES, Rtnetlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import vf_holders
from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov.pf_actions import Pf
from ansible_collections.railyard.fabric.plugins.module_utils._node.sriov.pf_state import is_part_of_interface

FILE = "/etc/udev/rules.d/84-railyard-vfs.rules"
# With persist=false. A boot empties /run. The name differs because udev reads only one file of each name.
LIVE_FILE = "/run/udev/rules.d/84-railyard-vfs-live.rules"
HEAD = "# Written by railyard.fabric.sriov_vfs. NetworkManager does not manage the VFs of these PFs.\n"
# physfn exists only for VFs. The line of the PF's uevent ends after the function number, so no other address matches.
RULE = (
    'SUBSYSTEM=="net", ACTION!="remove", TEST=="device/physfn", '
    'ATTR{device/physfn/uevent}=="*PCI_SLOT_NAME=%s*", ENV{NM_UNMANAGED}="1"\n'
)
# Added to the rule for one VF only. The kernel creates the link before a driver binds.
OF_VF = 'TEST=="device/physfn/virtfn%d/net/$kernel", '
UNREAD = "# udev has yet to read this.\n"
INSTALLED = "/etc/NetworkManager"
RUNNING = "/run/systemd/units/invocation:NetworkManager.service"
TIMEOUT = 60.0


def _lines(pf: Pf) -> str:
    """Return the rule for all VFs of a PF, or one for each VF if some of them have another owner."""
    return "".join([RULE % pf.pci] if pf.ours is None else [OF_VF % number + RULE % pf.pci for number in pf.ours])


def _own_vfs(pf: Pf) -> list[Row]:
    return [vf for vf in pf.vfs if pf.ours is None or vf["index"] in pf.ours]


class UnmanagedVfs:
    """The udev rules on a node. ``warnings``: set by :meth:`changes`.

    :param persist: whether the rules exist after a boot. If not, rules that exist after a boot are not changed.
    """

    def __init__(self, system: System, table: Rtnetlink, holders_of: vf_holders.Holders, persist: bool) -> None:
        self._system = system
        self._table = table
        self._holders_of = holders_of
        self._persist = persist
        self._file = FILE if persist else LIVE_FILE
        self._texts = {path: system.read_file(path) for path in (FILE, LIVE_FILE)}
        # the rules that an interrupted run has written apply only after the next run
        self._applied = {path: text for path, text in self._texts.items() if text and not text.endswith(UNREAD)}
        self.warnings: list[str] = []

    def changes(self, pfs: t.Sequence[Pf], replaced: t.Container[str] = ()) -> list[Change]:
        """Return the changes so that NetworkManager does not manage the VFs of exactly these PFs.

        Do them before VFs are created. VFs that NetworkManager has set up are set down together with the first rule for
        their PF, not in later runs. Until udev has read the file, a line marks it as unread, by which the next run
        detects an interrupted run.

        :param replaced: PCI addresses of VFs that other changes remove or rebind. They return down.
        """
        pfs = self._without_used_vfs(pfs) if self._system.exists(INSTALLED) else []
        if not self._persist:
            pfs = [pf for pf in pfs if _lines(pf) not in self._applied.get(FILE, "")]
        changes = self._rule_changes(pfs, replaced) if pfs else self._file_changes(self._file, None)
        return changes + (self._file_changes(LIVE_FILE, None) if self._persist else [])

    def removal(self, functions: t.Collection[str] | None) -> list[Change]:
        """Return the changes that remove the rules of these PFs; None: of all PFs. udev notices this by itself."""
        removed = tuple("PCI_SLOT_NAME=%s*" % pci for pci in functions or ())
        changes = []
        for path in (FILE, LIVE_FILE) if self._persist else (LIVE_FILE,):
            lines = (self._texts[path] or "").splitlines(True) if functions is not None else []
            left = [line for line in lines if not any(mark in line for mark in removed)]
            has_rule = any(not line.startswith("#") for line in left)
            changes += self._file_changes(path, "".join(left) if has_rule else None)
        return changes

    def _rule_changes(self, pfs: t.Sequence[Pf], replaced: t.Container[str]) -> list[Change]:
        path, present = self._file, self._texts[self._file]
        text = HEAD + "".join(sorted(map(_lines, pfs)))
        if present == text:
            return []
        new = [pf for pf in pfs if not self._has_rule(pf)]
        up = [(pf, vf) for pf in new for vf in self._free(vf for vf in _own_vfs(pf) if vf["pci"] not in replaced)]

        def act() -> None:
            self._apply(pfs)
            for _pf, vf in up:
                self._set_down(vf)
            self._system.write_file(path, text)

        changes = [] if present == text + UNREAD else self._file_changes(path, text, UNREAD)
        changes.append(Change("udev", "rules", "older", "reloaded", act, STEP))
        # the change above also sets the VFs down, because the file is marked as read only after that
        return changes + [Change(vf["netdev"], "state", "up", "down", lambda: None, port=pf.pci) for pf, vf in up]

    def _file_changes(self, path: str, text: str | None, mark: str = "") -> list[Change]:
        system, present = self._system, self._texts[path]
        if present == text:
            return []
        if text is None:
            return [Change(path, "rules", present, None, lambda: system.remove_file(path))]
        content = text + mark
        return [Change(path, "rules", present, text, lambda: system.write_file(path, content))]

    def _has_rule(self, pf: Pf) -> bool:
        return any(_lines(pf) in text for text in self._applied.values())

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
        links = [link for link in (self._link(vf) for vf in _own_vfs(pf)) if link]
        if not links:
            return []
        indices = {address.ifindex for address in self._table.addresses() if address.scope not in NARROW_SCOPES}
        return [link.name for link in links if link.ifindex in indices or is_part_of_interface(self._system, link.name)]

    def _link(self, vf: Row) -> Link | None:
        return self._table.link(vf["netdev"]) if vf["netdev"] else None

    def _free(self, vfs: t.Iterable[Row]) -> list[Row]:
        """Return the VFs that NetworkManager may have set up and that are not in use."""
        if not self._system.exists(RUNNING):
            return []
        links = [(vf, self._link(vf)) for vf in vfs]
        up = [vf for vf, link in links if link and link.up]
        held = self._holders_of(self._system, [vf["pci"] for vf in up], self._table) if up else {}
        return [vf for vf in up if not held.get(vf["pci"])]

    def _apply(self, pfs: t.Sequence[Pf]) -> None:
        """Make udev read the file, and apply it to VFs that exist. Errors are ignored: if udev is not running, it reads
        the file at its start.
        """
        system = self._system
        system.run(["udevadm", "control", "--reload"], TIMEOUT)
        numbered = [(pf, *each) for pf in pfs for each in enumerate(pci_functions.virtual_functions(system, pf.pci))]
        functions = [vf for pf, number, vf in numbered if pf.ours is None or number in pf.ours]
        netdevs = [name for vf in functions for name in system.listdir(pci_functions.attribute(vf, "net"))]
        if netdevs:
            paths = ["/sys/class/net/" + name for name in netdevs]
            system.run(["udevadm", "trigger", "--action=change", "--settle", *paths], TIMEOUT)

    def _set_down(self, vf: Row) -> None:
        # also if NetworkManager does not read the property of a device that it manages already
        self._system.run(["nmcli", "device", "set", vf["netdev"], "managed", "no"], TIMEOUT)
        link = self._link(vf)
        # checked again, because a pod may have started since
        if link and self._free([vf]):
            self._table.set_link(link.ifindex, up=False)

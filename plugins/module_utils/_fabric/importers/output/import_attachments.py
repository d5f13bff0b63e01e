# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The attachment and the link layer of each rail: those of its networks, compared with the link types of its ports."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import shown
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import import_rules, layout_rules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Facts
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found, Place
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer import host_addresses
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.port_drafts import Draft
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.output.import_profiles import Sections
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import NETDEV_OF_IPOIB

_ON_INFINIBAND = ("ib-sriov", "ipoib")


class Attachments:
    """``fabric``: the attachment of most rails. ``rails``: the attachment of each rail, in the order of the drafts.

    ``infiniband``: whether each rail is InfiniBand.
    """

    def __init__(self, facts: Facts, drafts: t.Sequence[Draft], out: Sections, found: Found) -> None:
        self._facts = facts
        self._drafts = drafts
        self._out = out
        self._found = found
        self._links = [self._links_of(draft) for draft in drafts]
        stated = [draft.networks[0].attachment if draft.networks else None for draft in drafts]
        known = [each for each in stated if each]
        most = max(dict.fromkeys(known), key=known.count) if known else self._guess()
        own = [each or most for each in stated]
        self._report_moved_vfs(own)
        self.rails = [self._allowed(draft, each, links) for draft, each, links in zip(drafts, own, self._links)]
        self.fabric = max(dict.fromkeys(self.rails), key=self.rails.count)
        self.infiniband = [
            each in _ON_INFINIBAND or "ib" in self._known(links) for each, links in zip(self.rails, self._links)
        ]
        self._report_differences()

    @property
    def fabric_infiniband(self) -> bool:
        """Return whether the rails with the attachment of the fabric are InfiniBand."""
        return any(own for own, each in zip(self.infiniband, self.rails) if each == self.fabric)

    def _links_of(self, draft: Draft) -> dict[str, Place]:
        """Return the link types of a rail's resources and interfaces, each with its first place."""
        found: dict[str, Place] = {}
        stated = [(each.link, each.place) for each in draft.devices]
        stated += [(each.link, each.place) for each in host_addresses.interfaces_of(draft, self._facts)]
        for link, place in stated:
            if link:
                found.setdefault(link, place)
        return found

    def _known(self, links: t.Mapping[str, Place]) -> t.Collection[str]:
        # ports without a link type of their own get the link type of all NICs
        return links or (self._facts.links if len(self._facts.links) == 1 else ())

    def _guess(self) -> str:
        shared = any(device.shared for draft in self._drafts for device in draft.devices)
        infiniband = any("ib" in self._known(links) for links in self._links)
        guess = "macvlan" if shared else "ib-sriov" if infiniband else "sriov"
        message = "no manifest shows how pods are attached to the rails"
        remedy = "correct fabric.attachment if it is not %s" % guess
        self._found.add(import_rules.ATTACHMENT, self._drafts[0].place, message, remedy, "attachment: %s" % guess)
        self._out.say(("fabric",), "CHECK: attachment is a guess; manifests of networks are missing")
        return guess

    def _report_differences(self) -> None:
        for draft, attachment in zip(self._drafts, self.rails):
            if attachment != self.fabric:
                message = "%s is %s, and most rails are %s" % (shown(draft.label), attachment, self.fabric)
                remedy = "check that one node needs both: another server model gets a profile with its own attachment"
                self._found.add(import_rules.ATTACHMENTS, draft.place, message, remedy, "attachment of this rail")

    def _report_moved_vfs(self, attachments: t.Sequence[str]) -> None:
        """Report networks that move VFs into pods: the attachment moves the whole port."""
        for draft, attachment in zip(self._drafts, attachments):
            for device in draft.devices if attachment == "host-device" else ():
                if not device.shared and (device.vf_range or device.vfs):
                    message = "%s are VFs of %s, and with host-device a pod gets the port itself" % (
                        shown(device.resource),
                        shown(draft.netdev or draft.label),
                    )
                    remedy = "write sriov, or ib-sriov on InfiniBand, for pods that get a VF"
                    self._found.add(layout_rules.OWNER, device.place, message, remedy, "attachment: host-device")

    def _allowed(self, draft: Draft, attachment: str, links: t.Mapping[str, Place]) -> str:
        """Return the attachment that the link type of a rail's ports allows, and report another one."""
        known = self._known(links)
        named = not known and NETDEV_OF_IPOIB.match(draft.netdev or "") is not None
        if "eth" in known and attachment in _ON_INFINIBAND:
            message = "the ports of %s are Ethernet, but its network has the type %s" % (
                shown(draft.label),
                attachment,
            )
            remedy = "write linkType: ib, or the type %s" % ("sriov" if attachment == "ib-sriov" else "macvlan")
            place = links.get("eth", draft.place)
            self._found.add(import_rules.LINK, place, message, remedy, "attachment: %s" % attachment)
            return attachment
        if attachment not in ("macvlan", "ipvlan", "sriov") or not ("ib" in known or named):
            return attachment
        if attachment == "sriov":
            fitting, remedy = "ib-sriov", "write ib-sriov, or correct the link type"
            message = "the ports of %s are InfiniBand, but its network has the type sriov, which needs Ethernet"
        else:
            fitting, remedy = "ipoib", "write ipoib, or ib-sriov with VFs, or correct the link type"
            message = "the ports of %%s are InfiniBand, and an IPoIB interface does not support %s" % attachment
            comment = "DECIDE: ipoib, or ib-sriov with VFs: InfiniBand does not support %s" % attachment
            if comment not in self._out.comments.get(("fabric", "attachment"), []):
                self._out.say(("fabric", "attachment"), comment)
        if named:
            message = "the port of %%s has the name %s, which only InfiniBand ports get: %s needs Ethernet" % (
                shown(draft.netdev or ""),
                attachment,
            )
        place = links.get("ib", draft.place)
        self._found.add(import_rules.LINK, place, message % shown(draft.label), remedy, "attachment: %s" % fitting)
        return fitting

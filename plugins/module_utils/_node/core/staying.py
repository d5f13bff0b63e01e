# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings that stay live until the next boot although their module no longer sets them: an id and its subjects.

Messages are formatted here, and are not parsed.
"""

from __future__ import annotations

import typing as t

# id -> message: {0} and {1} are single subjects, {all} is all subjects, {detail} is the reason
TEXTS = {
    "acs": "ACS between {all} and their GPUs stays cleared until the next boot",
    "autoprobe": "{0}: sriov_drivers_autoprobe stays 0 until the next boot",
    "gpu-module": "{0} stays loaded until the next boot",
    "hugepages": "{0} hugepages of {1} kB stay until the next boot",
    "ipoib-child": "{0} stays until the next boot: {detail}",
    "ipoib-mode": "IPoIB mode of {all} stays as set until the next boot",
    "kernel-argument": "the kernel argument {0} is in force until the next boot",
    "memlock": "{0} may lock unlimited memory until it is restarted",
    "neighbour-tables": "the neighbour tables stay as large as they are until the next boot",
    "options": "{0} could not be read, and what was set by it stays until the next boot",
    "qos": "QoS of {all} stays as set until the next boot",
    "rail-port": "name, MTU and sysctls of {all} stay as they are until the next boot",
    "rdma-link": "{0} stays until the next boot: {detail}",
    "rdma-mode": "the rdma mode is {0} and will be {1} after a reboot",
    "rdma-name": "the RDMA device {0} keeps its name until the next boot",
    "rdma-names": "the RDMA devices {all} keep their names until the next boot",
    "read-request": "MaxReadReq of {all} stays as set until the next boot",
    "vf-attributes": "{0}: the attributes of its VFs stay as set until the next boot",
    "vfs": "{0}: its VFs stay until the next boot: {detail}",
}


class Staying(t.NamedTuple):
    """One setting that stays. ``subjects``: such as netdevs or PCI addresses. ``detail``: the reason."""

    id: str
    subjects: tuple[str, ...] = ()
    detail: str = ""

    @property
    def text(self) -> str:
        """The message for users."""
        name = "rdma-names" if self.id == "rdma-name" and len(self.subjects) > 1 else self.id
        return TEXTS[name].format(*self.subjects, all=", ".join(self.subjects), detail=self.detail)

    def as_dict(self) -> dict[str, t.Any]:
        return {"id": self.id, "subjects": list(self.subjects), "detail": self.detail}


def from_dict(value: t.Any) -> Staying | None:
    """Return the entry of a dict from :meth:`Staying.as_dict`; None if it is something else or has too few subjects."""
    if not isinstance(value, dict) or value.get("id") not in TEXTS or not isinstance(value.get("subjects"), list):
        return None
    found = Staying(value["id"], tuple(str(each) for each in value["subjects"]), str(value.get("detail") or ""))
    try:
        found.text  # noqa: B018
    except IndexError:
        return None
    return found


def without(entries: t.Iterable[Staying], name: str, subjects: t.Collection[str | None]) -> list[Staying]:
    """Return the entries; from those of id ``name`` the subjects are removed, and entries without subjects dropped."""
    left = []
    for each in entries:
        if each.id == name:
            each = each._replace(subjects=tuple(one for one in each.subjects if one not in subjects))
        if each.subjects or each.id != name:
            left.append(each)
    return left

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The VFs of a port in host variables: their number, and a row of attributes for each."""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import vf_attributes
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.fabric_model import VfSettings
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.plan_memory import SharedKeys

_VFS, _PARTS, _ATTRIBUTES = (SharedKeys() for _kind in range(3))


class VfRange(t.NamedTuple):
    """A port of which other programs own some VFs. ``total``: all VFs. ``text``: the planned ones, such as ``5-9``."""

    total: int
    text: str


def row(settings: VfSettings) -> dict[str, t.Any]:
    """Return a row of ``vfs.attributes`` without index and identities. Null: the driver's value stays."""
    names = [each.name for each in vf_attributes.SETTINGS]
    found = {name: settings[name].value if name in settings else None for name in names}
    return dict(found, **dict.fromkeys(("index", *(each.name for each in vf_attributes.IDENTITIES))))


def vfs(
    of_each: dict[str, t.Any], identities: t.Sequence[str], identity_keys: t.Sequence[str], part: VfRange | None
) -> dict[str, t.Any]:
    """Return ``railyard_node.ports[].vfs``.

    :param of_each: the result of :func:`row`.
    :param identities: a MAC address or GUID for each planned VF.
    :param identity_keys: attributes that have the identity as value.
    :param part: set if only a part of the port's VFs is planned.
    """
    numbers = vf_attributes.numbers(part.text, part.total) if part else None
    attributes = []
    for index, value in enumerate(identities, numbers[0] if numbers else 0):
        vf = _ATTRIBUTES.copy(of_each)
        vf["index"] = index
        for key in identity_keys:
            vf[key] = value
        attributes.append(vf)
    if part:
        return _PARTS.copy({"count": part.total, "range": part.text, "attributes": attributes})
    return _VFS.copy({"count": len(attributes), "attributes": attributes})

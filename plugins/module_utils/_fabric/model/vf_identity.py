# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""MAC addresses and GUIDs of VFs.

They are a hash of the fabric's seed, the names of node and rail, and the index of the VF, so they do not change when
nodes are added, removed or moved. ``docs/fabric-file.md`` describes the scheme.
"""

from __future__ import annotations

import hashlib
import typing as t


def mac(seed: str, node: str, rail: str, vf: int) -> str:
    """Return a unicast MAC address with 44 bits of hash, in the administratively assigned quadrant of IEEE 802c."""
    return _text(_digest("mac", seed, node, rail, vf)[:6])


def guid(seed: str, node: str, rail: str, vf: int) -> str:
    """Return a locally administered EUI-64 for use as node GUID and as port GUID: 60 bits of hash."""
    return _text(_digest("guid", seed, node, rail, vf)[:8])


def _digest(kind: str, seed: str, node: str, rail: str, vf: int) -> bytes:
    # Names do not contain line feeds, so different values have different texts.
    return hashlib.sha256("\n".join((kind, seed, node, rail, str(vf))).encode("utf-8")).digest()


def _text(raw: bytes) -> str:
    return (bytes((raw[0] & 0xF0 | 0x02,)) + raw[1:]).hex(":")


Owner = t.TypeVar("Owner")


def collisions(identities: t.Iterable[tuple[str, Owner]]) -> t.Iterator[tuple[str, Owner, Owner]]:
    """Yield each repeated identity with its first owner and the other owner."""
    owners: dict[str, Owner] = {}
    for identity, owner in identities:
        first = owners.setdefault(identity, owner)
        if first is not owner:
            yield identity, first, owner

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""MAC addresses and GUIDs of VFs.

They are a hash of the fabric's seed, the node's name, the rail's name and the VF's index, so they stay the same
when nodes join, leave or change place. ``docs/fabric-file.md`` describes the scheme.
"""

from __future__ import annotations

import hashlib
import typing as t


def mac(seed: str, node: str, rail: str, vf: int) -> str:
    """A unicast MAC address of IEEE 802c's administratively assigned quadrant (second digit 2): 44 bits of hash."""
    return _form(_digest("mac", seed, node, rail, vf)[:6])


def guid(seed: str, node: str, rail: str, vf: int) -> str:
    """A locally administered EUI-64, serving as node GUID and port GUID alike: 60 bits of hash."""
    return _form(_digest("guid", seed, node, rail, vf)[:8])


def _digest(kind: str, seed: str, node: str, rail: str, vf: int) -> bytes:
    # No name holds a line feed, so two different lists never make one text.
    return hashlib.sha256("\n".join((kind, seed, node, rail, str(vf))).encode("utf-8")).digest()


def _form(raw: bytes) -> str:
    return ":".join("%02x" % byte for byte in bytes((raw[0] & 0xF0 | 0x02,)) + raw[1:])


Owner = t.TypeVar("Owner")


def collisions(identities: t.Iterable[tuple[str, Owner]]) -> t.Iterator[tuple[str, Owner, Owner]]:
    """Each identity that was there before, with its first and its second owner."""
    owners: dict[str, Owner] = {}
    for identity, owner in identities:
        first = owners.setdefault(identity, owner)
        if first is not owner:
            yield identity, first, owner

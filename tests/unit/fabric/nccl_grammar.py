# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of NCCL's variables, read by the grammar of its documentation.

Source: NCCL 2.30.7, docs/userguide/source/env.rst, and for older versions ``parseStringList`` of src/misc/utils.cc at
the tags v2.12.10-1, v2.19.3-1, v2.21.5-1, v2.28.3-1 and v2.30.4-1, all the same. Read on 2026-11-29.
"""

from __future__ import annotations

import re
import typing as t

# An entry: the device, and after it the port, the rail and the plane, each of which can be empty.
_ENTRY = re.compile(r"(?P<hca>[^:,^=\s]+)(:(?P<port>\d*)(:(?P<rail>\d*)(:(?P<plane>\d+))?)?)?\Z")
MAX_DEVICES = 32
# Limits of int16_t, and of different planes (NCCL_IB_PLANE_MAX_INDEX in src/transport/net_ib/init.cc)
MAX_RAIL, MAX_PLANES = 32767, 13


class Entry(t.NamedTuple):
    """Numbers are None if the entry does not have them."""

    hca: str
    port: int | None
    rail: int | None
    plane: int | None


def entries(value: str) -> list[Entry]:
    """Return the entries of a value that selects exact names; ValueError if the grammar does not have it."""
    if not value.startswith("="):
        raise ValueError("%r selects prefixes of names" % value)
    found = []
    for text in value[1:].split(","):
        match = _ENTRY.match(text)
        if match is None or text.endswith(":"):
            raise ValueError("%r is not HCA[:PORT[:RAIL[:PLANE]]]" % text)
        numbers = [int(match[key]) if match[key] else None for key in ("port", "rail", "plane")]
        found.append(Entry(match["hca"], *numbers))
    if len(set(found)) != len(found) or len({each[:2] for each in found}) != len(found):
        raise ValueError("a port occurs several times in %r" % value)
    if len(found) > MAX_DEVICES:
        raise ValueError("%d entries, and NCCL reads %d" % (len(found), MAX_DEVICES))
    rails, planes = {each.rail for each in found} - {None}, {each.plane for each in found} - {None}
    if any(t.cast(int, rail) > MAX_RAIL for rail in rails) or len(planes) > MAX_PLANES:
        raise ValueError("a rail or too many planes for NCCL in %r" % value)
    return found


def old_entries(value: str) -> list[tuple[str, int]]:
    """Return device and port of each entry as NCCL before 2.30.5 reads them; port -1: every port of the device.

    It reads a number after the first ":", of which an empty field is 0, and ignores the rest of the entry.
    """
    found = []
    for text in value.lstrip("=").split(","):
        hca, colon, rest = text.partition(":")
        number = re.match(r"\d*", rest)
        found.append((hca, int(number[0] or 0) if number and colon else -1))
    return found


# Variable -> the values that the documentation has. TC and SL: a byte, and the 4 bits of a service level.
VALUES: dict[str, t.Callable[[str], t.Any]] = {
    "NCCL_IB_HCA": entries,
    "NCCL_IB_MERGE_NICS": ("0", "1").index,
    "NCCL_NET_MERGE_POLICY": ("ALL", "RAIL").index,
    "NCCL_IB_ROCE_VERSION_NUM": ("1", "2").index,
    "NCCL_IB_ADDR_FAMILY": ("AF_INET", "AF_INET6").index,
    "NCCL_IB_GID_INDEX": lambda text: range(256).index(int(text)),
    "NCCL_IB_TC": lambda text: range(256).index(int(text)),
    "NCCL_IB_SL": lambda text: range(16).index(int(text)),
    "NCCL_CROSS_NIC": ("0", "1", "2").index,
    "NCCL_PXN_DISABLE": ("0", "1").index,
    "NCCL_SOCKET_IFNAME": lambda text: re.fullmatch(r"=[^\s:,^=]+", text) or {}[text],
}


def check(settings: t.Mapping[str, str]) -> list[Entry]:
    """Check NCCL's variables in settings, and return the entries of NCCL_IB_HCA; ValueError names what is wrong."""
    for name, value in settings.items():
        if not name.startswith("NCCL_"):
            continue
        try:
            VALUES[name](value)
        except (KeyError, ValueError) as error:
            raise ValueError("%s=%s: %r" % (name, value, error)) from error
    return entries(settings["NCCL_IB_HCA"]) if "NCCL_IB_HCA" in settings else []


def file_settings(text: str) -> dict[str, str]:
    """Return the settings of /etc/nccl.conf as NCCL reads it: the first value of a name, 1023 bytes of it at most."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equal, value = line.partition("=")
        if equal and not line.startswith("#"):
            found.setdefault(name, value[:1023])
    return found

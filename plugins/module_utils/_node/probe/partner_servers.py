# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The servers of perftest that a partner reports, with only valid values."""

from __future__ import annotations

import contextlib
import socket
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.probe.probe_channel import PartnerLost

# Characters of a partner's text.
TEXT_MAX = 500
Row = t.Dict[str, t.Any]


def checked(rows: t.Any, rails: t.Sequence[str]) -> list[Row]:
    """Return the servers of a partner, in which invalid values are None.

    :raises PartnerLost: if they are not servers of these rails.
    """
    found = []
    for row in rows if isinstance(rows, list) else [None]:
        if not isinstance(row, dict) or row.get("rail") not in rails:
            raise PartnerLost("has sent servers that were not asked for")
        server: Row = {"rail": row["rail"], "gpu": row.get("gpu") is True}
        for key in ("port", "latency_port"):
            port = row.get(key)
            server[key] = port if isinstance(port, int) and port is not True and 0 < port < 65536 else None
        # it becomes an argument of perftest
        server["meet"] = _address(row.get("meet"))
        server.update({key: _text(row.get(key)) for key in ("error", "remedy")})
        found.append(server)
    return found


def _address(value: t.Any) -> str | None:
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError, ValueError, TypeError):
            socket.inet_pton(family, value)
            return str(value)
    return None


def _text(value: t.Any) -> str:
    """Return a partner's text without control characters."""
    return "".join(each for each in str(value or "")[:TEXT_MAX] if each.isprintable())

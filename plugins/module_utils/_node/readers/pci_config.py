# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""PCI configuration space through sysfs: capabilities are found by their lists, and single fields set by masked writes.

Sources: the PCI Express Base Specification 5.0, sections 7.5.1 (header), 7.5.3.4 (Device Control), 7.6.1 and 7.7.8
(extended capabilities, Access Control Services), and the kernel's ``Documentation/ABI/testing/sysfs-bus-pci``.
"""

from __future__ import annotations

import errno
import struct
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions

STATUS, STATUS_CAPABILITIES = 0x06, 0x10
FIRST_CAPABILITY = 0x34
HEADER, SPACE, EXTENDED_SPACE = 0x40, 0x100, 0x1000
EXPRESS, ACCESS_CONTROL = 0x10, 0x0D

DEVICE_CONTROL = 0x08
PAYLOAD_MASK, PAYLOAD_SHIFT = 0x00E0, 5
# Bits 14:12. Bit 15 above them starts a function level reset, reads as 0 and must be written so.
READ_REQUEST_MASK, READ_REQUEST_SHIFT, RESET_BIT = 0x7000, 12, 0x8000
SIZES = (128, 256, 512, 1024, 2048, 4096)

ACS_CAPABILITY, ACS_CONTROL = 0x04, 0x06
# In the order of their bits, as lspci spells them.
ACS_BITS = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")
# Those that send what goes from one device to another below a switch up to the root complex, or have it refused there.
# TransBlk and DirectTrans are of translated requests (ATS) alone.
ACS_IN_THE_WAY = ("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl")


class Config:
    """One function's configuration space as it was when it was read. Raises :class:`RailyardError`."""

    def __init__(self, system: System, function: str) -> None:
        self._system = system
        self.function = function
        self.path = pci_functions.attribute(function, "config")
        self.data = system.read_bytes(self.path) or b""
        if len(self.data) < HEADER:
            raise RailyardError("its configuration space cannot be read", function, "see the kernel's messages (dmesg)")
        if self.data[:4] == b"\xff\xff\xff\xff":
            raise RailyardError(
                "it does not answer: its configuration space reads as all ones",
                function,
                "it fell off the bus or sleeps without power: see the kernel's messages (dmesg)",
            )
        if len(self.data) == HEADER and self._word(STATUS) & STATUS_CAPABILITIES:
            raise RailyardError(
                "the kernel shows no more than the header of its configuration space",
                function,
                "run the task with become",
            )

    def _word(self, place: int) -> int:
        return int(struct.unpack_from("<H", self.data, place)[0]) if place + 2 <= len(self.data) else 0

    def capability(self, wanted: int) -> int | None:
        """Where a capability is; None where the function has none."""
        if not self._word(STATUS) & STATUS_CAPABILITIES:
            return None
        place, seen = self.data[FIRST_CAPABILITY] & ~3, set()
        # a list that bites its own tail is a broken device's
        while HEADER <= place < min(SPACE, len(self.data) - 1) and place not in seen:
            seen.add(place)
            if self.data[place] == wanted:
                return place
            place = self.data[place + 1] & ~3
        return None

    def extended(self, wanted: int) -> int | None:
        """Where an extended capability is; None where there is none, or the kernel reaches no extended space."""
        place, seen = SPACE, set()
        while SPACE <= place <= len(self.data) - 4 and place not in seen:
            seen.add(place)
            (head,) = struct.unpack_from("<I", self.data, place)
            if head in (0, 0xFFFFFFFF):
                return None
            if head & 0xFFFF == wanted:
                return place
            place = head >> 20 & ~3
        return None

    # -- contents -----------------------------------------------------------------------------------------------------

    @property
    def max_payload(self) -> int | None:
        """Bytes; None for a function without PCI Express."""
        return self._size(PAYLOAD_MASK, PAYLOAD_SHIFT)

    @property
    def max_read_request(self) -> int | None:
        """Bytes; None for a function without PCI Express."""
        return self._size(READ_REQUEST_MASK, READ_REQUEST_SHIFT)

    def _size(self, mask: int, shift: int) -> int | None:
        express = self.capability(EXPRESS)
        if express is None:
            return None
        code = (self._word(express + DEVICE_CONTROL) & mask) >> shift
        return SIZES[code] if code < len(SIZES) else None

    @property
    def acs(self) -> tuple[list[str], list[str]] | None:
        """The ACS bits that the function has, and those that are set; None without the capability."""
        place = self.extended(ACCESS_CONTROL)
        if place is None:
            return None
        has, are = self._word(place + ACS_CAPABILITY), self._word(place + ACS_CONTROL)
        return [name for name in ACS_BITS if has & acs_bit(name)], [name for name in ACS_BITS if are & acs_bit(name)]

    # -- setting ------------------------------------------------------------------------------------------------------

    def set_max_read_request(self, size: int) -> None:
        """Set the field, and nothing else. Raises :class:`RailyardError`."""
        express = self.capability(EXPRESS)
        if express is None:
            raise RailyardError("is not a PCI Express function", self.function, "name the port's own function")
        code = SIZES.index(size)
        self._set(express + DEVICE_CONTROL, READ_REQUEST_MASK | RESET_BIT, code << READ_REQUEST_SHIFT)

    def clear_acs(self, names: t.Iterable[str]) -> None:
        """Clear these bits, and no others. Raises :class:`RailyardError`."""
        place = self.extended(ACCESS_CONTROL)
        if place is None:
            raise RailyardError("has no Access Control Services", self.function, "run the task again")
        self._set(place + ACS_CONTROL, sum(acs_bit(name) for name in names), 0)

    def _set(self, place: int, mask: int, value: int) -> None:
        # what else is in the word is taken from the device at this moment, not from when the changes were found
        fresh = Config(self._system, self.function)
        word = struct.pack("<H", fresh._word(place) & ~mask & 0xFFFF | value)
        try:
            self._system.write_at(self.path, place, word)
        except OSError as error:
            if error.errno == errno.EPERM:
                raise Refused(
                    "the kernel is locked down and does not let configuration space be written",
                    self.function,
                    "use the kernel argument pci=disable_acs_redir= for ACS, or switch Secure Boot off",
                ) from None
            raise RailyardError(
                "its configuration space cannot be written: %s" % error.strerror,
                self.function,
                "see the kernel's messages (dmesg)",
            ) from None


def acs_bit(name: str) -> int:
    return 1 << ACS_BITS.index(name)

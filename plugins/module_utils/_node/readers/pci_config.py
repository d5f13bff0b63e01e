# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""PCI configuration space through sysfs: read capabilities, and set single fields by masked writes.

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
HEADER, SPACE = 0x40, 0x100
EXPRESS, ACCESS_CONTROL = 0x10, 0x0D

DEVICE_CONTROL = 0x08
PAYLOAD_MASK, PAYLOAD_SHIFT = 0x00E0, 5
# Bits 14:12. Bit 15 starts a function level reset; it reads as 0 and must be written as 0.
READ_REQUEST_MASK, READ_REQUEST_SHIFT, RESET_BIT = 0x7000, 12, 0x8000
SIZES = (128, 256, 512, 1024, 2048, 4096)

ACS_CAPABILITY, ACS_CONTROL = 0x04, 0x06
# In the order of their bits, as lspci spells them.
ACS_BITS = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")
# Bits that redirect traffic between devices below a switch to the root complex, or block it. TransBlk and DirectTrans
# are only for translated requests (ATS).
ACS_IN_THE_WAY = ("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl")


class Config:
    """A function's configuration space, read by the constructor. Raises :class:`RailyardError`."""

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

    def _word(self, offset: int) -> int:
        return int(struct.unpack_from("<H", self.data, offset)[0]) if offset + 2 <= len(self.data) else 0

    def capability(self, wanted: int) -> int | None:
        """Return the offset of a capability; None if the function does not have it."""
        if not self._word(STATUS) & STATUS_CAPABILITIES:
            return None
        offset, visited = self.data[FIRST_CAPABILITY] & ~3, set()
        # the list of a faulty device may have a loop
        while HEADER <= offset < min(SPACE, len(self.data) - 1) and offset not in visited:
            visited.add(offset)
            if self.data[offset] == wanted:
                return offset
            offset = self.data[offset + 1] & ~3
        return None

    def extended(self, wanted: int) -> int | None:
        """Return the offset of an extended capability; None if it is missing or the extended space is not readable."""
        offset, visited = SPACE, set()
        while SPACE <= offset <= len(self.data) - 4 and offset not in visited:
            visited.add(offset)
            (header,) = struct.unpack_from("<I", self.data, offset)
            if header in (0, 0xFFFFFFFF):
                return None
            if header & 0xFFFF == wanted:
                return offset
            offset = header >> 20 & ~3
        return None

    # -- contents -----------------------------------------------------------------------------------------------------

    @property
    def max_payload(self) -> int | None:
        """The maximum payload size in bytes; None for a function without PCI Express."""
        return self._size(PAYLOAD_MASK, PAYLOAD_SHIFT)

    @property
    def max_read_request(self) -> int | None:
        """The maximum read request size in bytes; None for a function without PCI Express."""
        return self._size(READ_REQUEST_MASK, READ_REQUEST_SHIFT)

    def _size(self, mask: int, shift: int) -> int | None:
        express = self.capability(EXPRESS)
        if express is None:
            return None
        code = (self._word(express + DEVICE_CONTROL) & mask) >> shift
        return SIZES[code] if code < len(SIZES) else None

    @property
    def acs(self) -> tuple[list[str], list[str]] | None:
        """(supported ACS bits, enabled ACS bits); None without the capability."""
        offset = self.extended(ACCESS_CONTROL)
        if offset is None:
            return None
        supported, enabled = self._word(offset + ACS_CAPABILITY), self._word(offset + ACS_CONTROL)
        return [name for name in ACS_BITS if supported & acs_bit(name)], [
            name for name in ACS_BITS if enabled & acs_bit(name)
        ]

    # -- setting ------------------------------------------------------------------------------------------------------

    def set_max_read_request(self, size: int) -> None:
        """Set the maximum read request size in bytes. Raises :class:`RailyardError`."""
        express = self.capability(EXPRESS)
        if express is None:
            raise RailyardError("is not a PCI Express function", self.function, "name the port's own function")
        code = SIZES.index(size)
        self._set(express + DEVICE_CONTROL, READ_REQUEST_MASK | RESET_BIT, code << READ_REQUEST_SHIFT)

    def clear_acs(self, names: t.Iterable[str]) -> None:
        """Clear ACS bits. Raises :class:`RailyardError`."""
        offset = self.extended(ACCESS_CONTROL)
        if offset is None:
            raise RailyardError("has no Access Control Services", self.function, "run the task again")
        self._set(offset + ACS_CONTROL, sum(acs_bit(name) for name in names), 0)

    def _set(self, offset: int, mask: int, value: int) -> None:
        # read the other bits of the word again, because they may have changed since
        fresh = Config(self._system, self.function)
        word = struct.pack("<H", fresh._word(offset) & ~mask & 0xFFFF | value)
        try:
            self._system.write_at(self.path, offset, word)
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

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration spaces of real functions: what we read in them is what lspci printed beside them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers.pci_config import EXPRESS, Config
from tests.unit.node.pci_kernel import RECORDINGS, PciKernel, recorded

NAMES = sorted(path.stem for path in RECORDINGS.glob("*.txt"))
PLACE = "pci0000:00/0000:00:02.0"


@pytest.fixture
def kernel(tmp_path: Path) -> PciKernel:
    return PciKernel(tmp_path)


def config(kernel: PciKernel, name: str) -> Config:
    return Config(kernel, kernel.function(PLACE, name, "0x020000"))


@pytest.mark.parametrize("name", NAMES)
def test_registers_match_the_output_of_lspci(kernel: PciKernel, name: str) -> None:
    lspci = (RECORDINGS / (name + ".txt")).read_text()
    read = config(kernel, name)
    payload, request = re.findall(r"MaxPayload (\d+) bytes, MaxReadReq (\d+) bytes", lspci)[0]
    assert (read.max_payload, read.max_read_request) == (int(payload), int(request))
    assert "[%02x] Express" % (read.capability(EXPRESS) or 0) in re.sub(r" v\d\]", "]", lspci)
    lines = [re.findall(r"(\w+)\+", line) for line in re.findall(r"ACS(?:Cap|Ctl):(.*)", lspci)]
    assert (list(read.acs) if read.acs else []) == lines


def test_recordings_have_acs_on_off_and_absent(kernel: PciKernel) -> None:
    assert NAMES == ["connectx3-pro", "igb", "root-port-acs-off", "root-port-acs-on"]


@pytest.mark.parametrize("name", ["connectx3-pro", "igb"])
@pytest.mark.parametrize("size", [128, 256, 512, 1024, 2048, 4096])
def test_the_read_request_size_and_no_other_bit(kernel: PciKernel, name: str, size: int) -> None:
    read = config(kernel, name)
    before = recorded(name)
    read.set_max_read_request(size)
    after = bytearray((kernel.place("0000:00:02.0") / "config").read_bytes())
    place = (read.capability(EXPRESS) or 0) + 9
    assert Config(kernel, "0000:00:02.0").max_read_request == size
    # only bits 14:12 of Device Control differ; the bit that resets the function is never written
    after[place] = after[place] & 0x0F | before[place] & 0xF0
    assert after == before
    assert not [data for _pci, _at, data in kernel.written if data[1] & 0x80]


def test_concurrent_changes_of_other_bits_are_kept(kernel: PciKernel) -> None:
    read = config(kernel, "igb")
    kernel.poke("0000:00:02.0", 0xA8, 0x2819 | 0x0007)
    read.set_max_read_request(4096)
    assert kernel.word("0000:00:02.0", 0xA8) == 0x581F


def test_only_the_named_acs_bits_are_cleared(kernel: PciKernel) -> None:
    read = config(kernel, "root-port-acs-on")
    kernel.poke("0000:00:02.0", 0x116, 0x001F | 0x0780)  # enhanced bits that others set
    read.clear_acs(["SrcValid", "ReqRedir"])
    assert kernel.word("0000:00:02.0", 0x116) == 0x001F & ~0x5 | 0x0780


def shortened(kernel: PciKernel, size: int) -> None:
    path = kernel.place("0000:00:02.0") / "config"
    path.write_bytes(path.read_bytes()[:size])


def test_without_extended_configuration_space_acs_is_absent(kernel: PciKernel) -> None:
    config(kernel, "root-port-acs-on")
    shortened(kernel, 256)
    read = Config(kernel, "0000:00:02.0")
    assert read.acs is None and read.max_read_request == 128


def test_an_unprivileged_read_is_an_error(kernel: PciKernel) -> None:
    config(kernel, "igb")
    shortened(kernel, 64)
    with pytest.raises(RailyardError, match="no more than the header") as caught:
        Config(kernel, "0000:00:02.0")
    assert "become" in caught.value.remedy


@pytest.mark.parametrize(("data", "lspci"), [(b"\xff" * 4096, "all ones"), (b"", "cannot be read")])
def test_an_unreadable_configuration_space_is_an_error(kernel: PciKernel, data: bytes, lspci: str) -> None:
    config(kernel, "igb")
    (kernel.place("0000:00:02.0") / "config").write_bytes(data)
    with pytest.raises(RailyardError, match=lspci):
        Config(kernel, "0000:00:02.0")


def test_circular_capability_lists_end(kernel: PciKernel) -> None:
    config(kernel, "igb")
    data = recorded("igb")
    data[0x71] = 0x40  # MSI-X points back to power management
    data[0x152:0x154] = b"\x01\x10"  # ARI points back to the first
    (kernel.place("0000:00:02.0") / "config").write_bytes(data)
    read = Config(kernel, "0000:00:02.0")
    assert read.capability(EXPRESS) is None and read.acs is None


def test_a_locked_kernel_is_reported(kernel: PciKernel) -> None:
    read = config(kernel, "igb")
    kernel.locked = True
    with pytest.raises(RailyardError, match="locked down"):
        read.set_max_read_request(4096)


@pytest.mark.skipif(os.geteuid() != 0 or not os.listdir(pci_functions.DEVICES), reason="needs root and a PCI bus")
def test_this_machines_own_functions_can_be_read() -> None:
    system = System()
    for function in system.listdir(pci_functions.DEVICES):
        read = Config(system, function)
        assert read.max_read_request in (None, 128, 256, 512, 1024, 2048, 4096)
        assert len(read.data) in (256, 4096)

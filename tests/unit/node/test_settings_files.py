# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The block of settings in NCCL's and UCX's files, beside what others write there."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import converge
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.host.settings_files import SettingsFiles

FILE = "/etc/nccl.conf"
BLOCK = "# BEGIN railyard.fabric\nNCCL_IB_HCA==mlx5_gpu01:1\n# END railyard.fabric\n"
OTHERS = b"NCCL_DEBUG=INFO\n# caf\xe9\n"


@pytest.fixture
def node(tmp_path: Path) -> System:
    return System(str(tmp_path))


def run(node: System, state: str = "present") -> int:
    """How many changes it makes."""
    one = SettingsFiles({"files": [{"path": FILE, "settings": {"NCCL_IB_HCA": "=mlx5_gpu01:1"}}], "state": state}, node)
    seen = one.observe()
    changes = one.changes(seen)
    converge(one, seen, changes, [])
    return len(changes)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, BLOCK.encode()),
        (OTHERS, BLOCK.encode() + OTHERS),
        (OTHERS + BLOCK.replace("gpu01", "gpu09").encode() + OTHERS, OTHERS + BLOCK.encode() + OTHERS),
    ],
)
def test_the_block_is_first_or_where_it_was(node: System, before: bytes | None, after: bytes) -> None:
    if before is not None:
        node.write_file(FILE, before)
    assert run(node) == 1 and node.read_bytes(FILE) == after
    assert run(node) == 0


def test_lines_of_others_stay_when_the_block_is_removed(node: System) -> None:
    node.write_file(FILE, OTHERS, 0o600)
    assert run(node, "absent") == 0
    run(node)
    assert node.mode(FILE) == 0o644
    assert run(node, "absent") == 1 and node.read_bytes(FILE) == OTHERS
    node.write_file(FILE, BLOCK)
    assert run(node, "absent") == 1 and not node.exists(FILE)
    assert run(node, "absent") == 0


def test_all_users_can_read_it(node: System) -> None:
    node.write_file(FILE, BLOCK, 0o600)
    assert run(node) == 1 and node.mode(FILE) == 0o644


def test_a_link_to_the_file_stays(node: System, tmp_path: Path) -> None:
    kept = tmp_path / "repository.conf"
    kept.write_bytes(OTHERS)
    link = tmp_path / FILE.lstrip("/")
    link.parent.mkdir(parents=True)
    link.symlink_to(kept)
    assert run(node) == 1 and kept.read_bytes() == BLOCK.encode() + OTHERS
    assert run(node, "absent") == 1 and kept.read_bytes() == OTHERS
    kept.write_bytes(b"")
    assert run(node) == 1 and run(node) == 0
    assert run(node, "absent") == 1 and run(node, "absent") == 0
    assert link.is_symlink() and kept.read_bytes() == b""


def test_a_link_to_nothing_is_refused_in_check_mode_too(node: System, tmp_path: Path) -> None:
    link = tmp_path / FILE.lstrip("/")
    link.parent.mkdir(parents=True)
    link.symlink_to("nowhere")
    with pytest.raises(RailyardError, match="is a symbolic link to nowhere, which does not exist") as error:
        run(node)
    assert error.value.place == FILE and error.value.remedy


# -- the GID index for older versions of NCCL

ADDRESSES = ["172.16.11.201", "172.16.12.201"]


def with_gids(node: System, *rows: tuple[str, int, str, str]) -> System:
    """``rows``: device, index, type and address of each GID. Index 0 of a device is the link-local one of RoCE v1."""
    for device in {row[0] for row in rows}:
        rows += ((device, 0, "IB/RoCE v1", "fe80::1"),)
    for device, index, kind, address in rows:
        port = "/sys/class/infiniband/%s/ports/1" % device
        gid = ipaddress.ip_address(address if ":" in address else "::ffff:" + address).packed.hex(":", 2)
        node.write_file(port + "/link_layer", "Ethernet\n")
        node.write_file("%s/gids/%d" % (port, index), gid + "\n")
        node.write_file("%s/gid_attrs/types/%d" % (port, index), kind + "\n")
    return node


def indexed(node: System) -> SettingsFiles:
    index = {"setting": "NCCL_IB_GID_INDEX", "addresses": ADDRESSES}
    settings = {"NCCL_IB_HCA": "=mlx5_gpu01:1"}
    return SettingsFiles(
        {"files": [{"path": FILE, "settings": settings, "gid_index": index}], "state": "present"}, node
    )


def written(one: SettingsFiles) -> object:
    seen = one.observe()
    after = converge(one, seen, one.changes(seen), [])
    return after["files"][0]["settings"].get("NCCL_IB_GID_INDEX")


def test_the_gid_of_the_right_type_gives_the_index(node: System) -> None:
    rows = [(device, 2, "IB/RoCE v1", address) for device, address in zip(("mlx5_0", "mlx5_1"), ADDRESSES)]
    rows += [(device, 3, "RoCE v2", address) for device, _index, _kind, address in rows]
    # another device has other addresses
    one = indexed(with_gids(node, *rows, ("mlx5_2", 5, "RoCE v2", "10.1.16.1")))
    assert written(one) == "3" and not one.warnings
    assert not one.changes(one.observe())


def test_different_indexes_of_one_setting_are_refused(node: System) -> None:
    one = indexed(with_gids(node, ("mlx5_0", 3, "RoCE v2", ADDRESSES[0]), ("mlx5_1", 5, "RoCE v2", ADDRESSES[1])))
    text = r"172.16.11.201 at 3, 172.16.12.201 at 5. Remedy: use NCCL 2.21 or later"
    with pytest.raises(RailyardError, match="NCCL_IB_GID_INDEX has one value.*" + text) as error:
        one.changes(one.observe())
    assert error.value.place == FILE
    assert node.read_file(FILE) is None


@pytest.mark.parametrize(("rows", "index"), [(0, None), (1, "3")])
def test_an_address_without_a_gid_is_a_warning(node: System, rows: int, index: str | None) -> None:
    """In check mode of a new node, ports have no addresses yet."""
    one = indexed(with_gids(node, *[("mlx5_0", 3, "RoCE v2", address) for address in ADDRESSES[:rows]]))
    assert written(one) == index
    assert ADDRESSES[1] in one.warnings[0] and "Remedy: run the playbook again" in one.warnings[0]


def test_no_gid_is_read_without_the_option_or_to_remove_the_block(node: System) -> None:
    run(with_gids(node, ("mlx5_0", 3, "RoCE v2", ADDRESSES[0]), ("mlx5_1", 5, "RoCE v2", ADDRESSES[1])))
    absent = {"files": [{"path": FILE, "gid_index": {"setting": "A", "addresses": ADDRESSES}, "settings": None}]}
    one = SettingsFiles(dict(absent, state="absent"), node)
    converge(one, one.observe(), one.changes(one.observe()), [])
    assert not node.exists(FILE)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the RDMA subsystem is asked and how its answers are understood; a fake kernel answers in real messages."""

from __future__ import annotations

import errno
import struct
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec, rdma_netlink
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError


class Kernel:
    """Fake socket: command -> answers, or the error number."""

    def __init__(self, **answers: t.Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, dict[int, bytes]]] = []

    def _answer(self, kind: int, payload: bytes) -> t.Any:
        assert kind >> 10 == rdma_netlink.RDMA_NL_NLDEV
        names = {v: k[4:].lower() for k, v in vars(rdma_netlink).items() if k.startswith("CMD_")}
        command = names[kind & 0x3FF]
        self.asked.append((command, codec.table(payload)))
        answer = self.answers.get(command, errno.EINVAL)
        if callable(answer):
            answer = answer(codec.table(payload))
        if isinstance(answer, int) and answer:
            raise NetlinkError(answer, "", "RDMA subsystem")
        return answer or []

    def request(self, kind: int, payload: bytes = b"", flags: int = 0) -> t.Any:
        return self._answer(kind, payload)

    def dump(self, kind: int, payload: bytes = b"", most: int | None = None) -> t.Any:
        return self._answer(kind, payload)


def u64(kind: int, value: int) -> bytes:
    return codec.attribute(kind, struct.pack("=Q", value))


def device(index: int, name: str) -> bytes:
    return (
        codec.u32(rdma_netlink.ATTR_DEV_INDEX, index)
        + codec.string(rdma_netlink.ATTR_DEV_NAME, name)
        + codec.u32(rdma_netlink.ATTR_PORT_INDEX, 1)
        + u64(rdma_netlink.ATTR_NODE_GUID, 0x505400FFFE010100)
        + u64(rdma_netlink.ATTR_SYS_IMAGE_GUID, 0x505400FFFE010100)
        + codec.u8(rdma_netlink.ATTR_DEV_NODE_TYPE, 1)
        + codec.string(rdma_netlink.ATTR_DEV_PROTOCOL, "roce")
    )


def port(netdev: str | None = "enp5s0") -> bytes:
    data = (
        codec.u32(rdma_netlink.ATTR_PORT_INDEX, 1)
        + codec.u8(rdma_netlink.ATTR_PORT_STATE, 4)
        + codec.u8(rdma_netlink.ATTR_PORT_PHYS_STATE, 5)
    )
    if netdev:
        data += codec.u32(rdma_netlink.ATTR_NDEV_INDEX, 7) + codec.string(rdma_netlink.ATTR_NDEV_NAME, netdev)
    return data


def resources(kind: int, *entries: bytes) -> list[bytes]:
    inner = b"".join(codec.attribute(kind + 1, entry) for entry in entries)
    return [codec.u32(rdma_netlink.ATTR_DEV_INDEX, 3) + codec.attribute(kind, inner)]


@pytest.mark.parametrize(("value", "mode"), [(0, "exclusive"), (1, "shared")])
def test_the_mode_is_decoded(value: int, mode: str) -> None:
    assert rdma_netlink.netns_mode(Kernel(sys_get=[codec.u8(rdma_netlink.ATTR_SYS_NETNS_MODE, value)])) == mode


def test_a_kernel_without_modes_has_none() -> None:
    assert rdma_netlink.netns_mode(Kernel(sys_get=errno.EINVAL)) is None


def test_another_error_of_the_mode_is_raised() -> None:
    with pytest.raises(NetlinkError, match="EPERM"):
        rdma_netlink.netns_mode(Kernel(sys_get=errno.EPERM))


@pytest.mark.parametrize(("mode", "value"), [("exclusive", b"\0"), ("shared", b"\1")])
def test_the_mode_is_encoded(mode: str, value: bytes) -> None:
    kernel = Kernel(sys_set=0)
    rdma_netlink.set_netns_mode(kernel, mode)
    assert kernel.asked == [("sys_set", {rdma_netlink.ATTR_SYS_NETNS_MODE: value})]


def test_devices_are_decoded_and_sorted_by_index() -> None:
    found = rdma_netlink.devices(Kernel(get=[device(3, "rxe_b"), device(2, "rxe_a")]))
    assert [row["name"] for row in found] == ["rxe_a", "rxe_b"]
    assert found[0] == {
        "index": 2,
        "name": "rxe_a",
        "ports": 1,
        "node_type": "ca",
        "fw_version": None,
        "node_guid": "5054:00ff:fe01:0100",
        "sys_image_guid": "5054:00ff:fe01:0100",
        "protocol": "roce",
        "parent": None,
    }


def test_links_are_decoded_per_port() -> None:
    kernel = Kernel(get=[device(3, "rxe_a")], port_get=[port()])
    (found,) = rdma_netlink.links(kernel)
    assert kernel.asked[1] == ("port_get", {rdma_netlink.ATTR_DEV_INDEX: struct.pack("=I", 3)})
    assert (found["device"], found["port"], found["state"], found["physical_state"]) == (
        "rxe_a",
        1,
        "ACTIVE",
        "LINK_UP",
    )
    assert (found["netdev"], found["netdev_index"], found["lid"]) == ("enp5s0", 7, None)


def test_a_device_that_disappears_while_links_are_read_is_omitted() -> None:
    answers = {3: errno.ENODEV, 4: [port(None)]}
    kernel = Kernel(
        get=[device(3, "rxe_a"), device(4, "rxe_b")],
        port_get=lambda table: answers[codec.number(table[rdma_netlink.ATTR_DEV_INDEX])],
    )
    (found,) = rdma_netlink.links(kernel)
    assert (found["device"], found["netdev"]) == ("rxe_b", None)


def test_a_state_without_a_name_is_reported_as_its_number() -> None:
    kernel = Kernel(get=[device(3, "a")], port_get=[codec.u8(rdma_netlink.ATTR_PORT_STATE, 9)])
    assert rdma_netlink.links(kernel)[0]["state"] == "9"


@pytest.mark.parametrize(("driver", "kind"), [(14, "rxe"), (18, "siw"), (1, "hardware")])
def test_link_type_by_driver(driver: int, kind: str, tmp_path: Path) -> None:
    answer = codec.string(rdma_netlink.ATTR_CHARDEV_NAME, "uverbs0") + codec.u32(
        rdma_netlink.ATTR_UVERBS_DRIVER_ID, driver
    )
    row = rdma_netlink.devices(Kernel(get=[device(3, "a")]))[0]
    assert rdma_netlink.link_type(Kernel(get_chardev=[answer]), System(str(tmp_path)), row) == kind


@pytest.mark.parametrize(
    ("entry", "protocol", "kind"), [("parent", "roce", "rxe"), ("other", "iw", "siw"), ("device", "iw", "hardware")]
)
def test_link_type_without_uverbs(entry: str, protocol: str, kind: str, tmp_path: Path) -> None:
    place = tmp_path / "sys/class/infiniband/a"
    place.mkdir(parents=True)
    (place / entry).write_text("")
    row = {"index": 3, "name": "a", "protocol": protocol}
    assert rdma_netlink.link_type(Kernel(get_chardev=errno.ENODEV), System(str(tmp_path)), row) == kind


def test_new_link_rename_delete() -> None:
    kernel = Kernel(newlink=0, set=0, dellink=0)
    rdma_netlink.new_link(kernel, "rxe_gpu05", "rxe", "enp5s0")
    rdma_netlink.rename(kernel, 3, "mlx5_gpu05")
    rdma_netlink.delete_link(kernel, 3)
    assert kernel.asked == [
        ("newlink", {2: b"rxe_gpu05\0", 65: b"rxe\0", 51: b"enp5s0\0"}),
        ("set", {1: struct.pack("=I", 3), 2: b"mlx5_gpu05\0"}),
        ("dellink", {1: struct.pack("=I", 3)}),
    ]


def test_processes_with_an_open_verbs_file_are_holders(tmp_path: Path) -> None:
    for pid, command, files in (
        (1, "systemd", []),
        (70, "ib_write_bw", ["/dev/infiniband/uverbs0"]),
        (71, "trainer", []),
        (72, "sh", []),
    ):
        place = tmp_path / "proc" / str(pid)
        (place / "fd").mkdir(parents=True)
        (place / "comm").write_text(command + "\n")
        for number, target in enumerate(["/dev/null", *files]):
            (place / "fd" / str(number)).symlink_to(target)
    (tmp_path / "proc/72/fd/9").symlink_to("/dev/infiniband/uverbs0")
    pid = rdma_netlink.ATTR_RES_PID
    kernel = Kernel(
        res_qp_get=resources(
            rdma_netlink.ATTR_RES_QP,
            codec.u8(rdma_netlink.ATTR_RES_TYPE, 1) + codec.string(rdma_netlink.ATTR_RES_KERN_NAME, "ib_core"),
            codec.u8(rdma_netlink.ATTR_RES_TYPE, 2) + codec.string(rdma_netlink.ATTR_RES_KERN_NAME, "nvme_rdma"),
            codec.u8(rdma_netlink.ATTR_RES_TYPE, 2) + codec.u32(pid, 70),
            codec.u8(rdma_netlink.ATTR_RES_TYPE, 2) + codec.u32(pid, 70),
            codec.u8(rdma_netlink.ATTR_RES_TYPE, 2),
        ),
        res_cm_id_get=resources(rdma_netlink.ATTR_RES_CM_ID, codec.u32(pid, 71)),
        get_chardev=[codec.string(rdma_netlink.ATTR_CHARDEV_NAME, "uverbs0")],
    )
    system = System(str(tmp_path))
    named = [str(each) for each in rdma_netlink.holders(kernel, system, 3, contexts=False)]
    assert named == [
        "the kernel's nvme_rdma (1 queue pairs)",
        "ib_write_bw (pid 70, 2 queue pairs)",
        "a process out of sight (1 queue pairs)",
        "trainer (pid 71, 1 connection ids)",
    ]
    assert [str(each) for each in rdma_netlink.holders(kernel, system, 3, contexts=True)] == [
        *named,
        "sh (pid 72, device open)",
    ]


def test_a_kernel_that_tracks_no_resources_has_no_holders(tmp_path: Path) -> None:
    assert rdma_netlink.holders(Kernel(), System(str(tmp_path)), 3, contexts=False) == []


def test_no_socket_where_the_subsystem_is_not_loaded(tmp_path: Path) -> None:
    assert rdma_netlink.connect(System(str(tmp_path))) is None

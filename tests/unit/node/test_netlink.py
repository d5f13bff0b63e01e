# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The netlink codec and socket, against a real datagram socket whose other end plays the kernel."""

from __future__ import annotations

import errno
import socket
import struct
import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink import codec
from ansible_collections.railyard.fabric.plugins.module_utils._node.netlink.codec import NetlinkError, NetlinkSocket
from tests.unit.node.trees import no_file_left

KIND = 0x1401


@pytest.fixture
def ends() -> t.Iterator[tuple[NetlinkSocket, socket.socket]]:
    ours, kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, kernel:
        yield NetlinkSocket(20, "RDMA subsystem", ours, timeout=0.2), kernel


def error(code: int, sequence: int, message: str = "", capped: bool = True, request: bytes = b"") -> bytes:
    flags = (codec.NLM_F_CAPPED if capped else 0) | (codec.NLM_F_ACK_TLVS if message else 0)
    body = struct.pack("=i", -code) + (request or codec.encode(KIND, 5, sequence, b""))
    if message:
        body += codec.string(codec.NLMSGERR_ATTR_MSG, message)
    return codec.encode(codec.NLMSG_ERROR, flags, sequence, body)


def part(sequence: int, payload: bytes, flags: int = codec.NLM_F_MULTI) -> bytes:
    return codec.encode(KIND, flags, sequence, payload)


def done(sequence: int, code: int = 0, flags: int = codec.NLM_F_MULTI, rest: bytes = b"") -> bytes:
    return codec.encode(codec.NLMSG_DONE, flags, sequence, struct.pack("=i", -code) + rest)


def test_padded_attributes_are_read_back() -> None:
    data = codec.string(2, "mlx5_0") + codec.u8(66, 1) + codec.u32(1, 70000)
    assert len(data) % 4 == 0
    assert data[:4] == struct.pack("=HH", 11, 2)
    table = codec.table(data)
    assert codec.text(table[2]) == "mlx5_0"
    assert codec.number(table[66]) == 1
    assert codec.number(table[1]) == 70000


def test_flag_bits_of_an_attribute_type_are_dropped() -> None:
    assert codec.attributes(struct.pack("=HHI", 8, 0x8013, 7)) == [(0x13, struct.pack("=I", 7))]


@pytest.mark.parametrize("data", [struct.pack("=HH", 3, 1), struct.pack("=HH", 12, 1), b"\x08\x00\x01\x00\x00"])
def test_an_attribute_cut_short_is_an_error(data: bytes) -> None:
    with pytest.raises(RailyardError, match="makes no sense"):
        codec.attributes(data)


def test_a_message_cut_short_is_an_error() -> None:
    with pytest.raises(RailyardError, match="makes no sense"):
        codec.decode(codec.encode(KIND, 0, 1, b"12345678")[:-4])


def test_a_number_of_odd_length_is_an_error() -> None:
    with pytest.raises(RailyardError, match="number of 3 bytes"):
        codec.number(b"123")


def test_a_request_is_acknowledged(ends: tuple[NetlinkSocket, socket.socket]) -> None:
    sock, kernel = ends
    kernel.send(error(0, 1))
    assert sock.request(KIND, codec.u8(66, 0)) == []
    (asked,) = codec.decode(kernel.recv(4096))
    assert asked == (KIND, codec.NLM_F_REQUEST | codec.NLM_F_ACK, 1, codec.u8(66, 0))


def test_a_request_returns_its_answer_before_the_acknowledgement(ends: tuple[NetlinkSocket, socket.socket]) -> None:
    sock, kernel = ends
    kernel.send(part(1, codec.u8(66, 1), 0))
    kernel.send(error(0, 1))
    assert sock.request(KIND) == [codec.u8(66, 1)]


@pytest.mark.parametrize("capped", [True, False])
def test_an_error_has_the_message_of_the_kernel(ends: tuple[NetlinkSocket, socket.socket], capped: bool) -> None:
    sock, kernel = ends
    request = b"" if capped else codec.encode(KIND, 5, 1, codec.string(2, "rxe_gpu01"))
    kernel.send(error(errno.EBUSY, 1, "other namespaces exist", capped, request))
    with pytest.raises(NetlinkError, match=r"Device or resource busy \(EBUSY\): other namespaces exist") as caught:
        sock.request(KIND)
    assert caught.value.errno == errno.EBUSY
    assert caught.value.place == "RDMA subsystem"


def test_a_dump_is_put_together_from_its_parts(ends: tuple[NetlinkSocket, socket.socket]) -> None:
    sock, kernel = ends
    kernel.send(part(1, b"aaaa") + part(1, b"bbbb"))
    kernel.send(part(1, b"cccc"))
    kernel.send(done(1))
    assert sock.dump(KIND) == [b"aaaa", b"bbbb", b"cccc"]
    (asked,) = codec.decode(kernel.recv(4096))
    assert asked.flags == codec.NLM_F_REQUEST | codec.NLM_F_DUMP


def test_a_long_datagram_is_read_whole(ends: tuple[NetlinkSocket, socket.socket]) -> None:
    sock, kernel = ends
    parts = [bytes([number]) * 256 for number in range(100)]
    kernel.send(b"".join(part(1, each) for each in parts))
    kernel.send(done(1))
    assert sock.dump(KIND) == parts


def test_a_dump_that_changed_during_the_read_is_read_again(ends: tuple[NetlinkSocket, socket.socket]) -> None:
    sock, kernel = ends
    kernel.send(part(1, b"aaaa") + part(1, b"bbbb", codec.NLM_F_MULTI | codec.NLM_F_DUMP_INTR) + done(1))
    kernel.send(part(2, b"cccc") + done(2, flags=codec.NLM_F_MULTI | codec.NLM_F_DUMP_INTR))
    kernel.send(part(3, b"dddd") + done(3))
    assert sock.dump(KIND) == [b"dddd"]


def test_a_dump_that_always_changes_is_an_error(ends: tuple[NetlinkSocket, socket.socket]) -> None:
    sock, _kernel = ends
    answer = b"".join(
        done(each, flags=codec.NLM_F_MULTI | codec.NLM_F_DUMP_INTR) for each in range(1, codec.DUMP_TRIES + 1)
    )
    # the same datagram holds the answers to all tries; each try takes its own
    sock._receive = lambda: answer  # type: ignore[method-assign]
    with pytest.raises(RailyardError, match="changed each of the 20 times"):
        sock.dump(KIND)
    # another program may change a table all the time on purpose
    sock._sequence = 0
    with pytest.raises(RailyardError, match="changed each of the 3 times"):
        sock.dump(KIND, most=100)


def test_a_table_is_read_up_to_a_bound(ends: tuple[NetlinkSocket, socket.socket]) -> None:
    sock, kernel = ends
    kernel.send(part(1, b"aaaa") + part(1, b"bbbb") + done(1))
    assert sock.dump(KIND, most=2) == [b"aaaa", b"bbbb"]
    # the end of the table does not come: it is not waited for
    kernel.send(part(2, b"aaaa") + part(2, b"bbbb") + part(2, b"cccc"))
    with pytest.raises(NetlinkError, match="the table has more than 2 entries") as caught:
        sock.dump(KIND, most=2)
    assert caught.value.errno == errno.E2BIG


def test_a_dump_that_fails_at_its_end_is_an_error(ends: tuple[NetlinkSocket, socket.socket]) -> None:
    sock, kernel = ends
    rest = codec.string(codec.NLMSGERR_ATTR_MSG, "no such device")
    kernel.send(part(1, b"aaaa") + done(1, errno.ENODEV, codec.NLM_F_MULTI | codec.NLM_F_ACK_TLVS, rest))
    with pytest.raises(NetlinkError, match=r"\(ENODEV\): no such device"):
        sock.dump(KIND)


def test_answers_to_a_request_given_up_are_skipped(ends: tuple[NetlinkSocket, socket.socket]) -> None:
    sock, kernel = ends
    with pytest.raises(NetlinkError, match="no answer"):
        sock.request(KIND)
    kernel.send(error(errno.EINVAL, 1))
    kernel.send(error(0, 2))
    assert sock.request(KIND) == []


def test_an_overrun_is_an_error(ends: tuple[NetlinkSocket, socket.socket]) -> None:
    sock, kernel = ends
    kernel.send(codec.encode(codec.NLMSG_OVERRUN, 0, 1, b""))
    with pytest.raises(NetlinkError, match="ENOBUFS"):
        sock.dump(KIND)


def test_a_family_that_the_kernel_does_not_have_is_an_error() -> None:
    with pytest.raises(NetlinkError, match="no such netlink family"):
        NetlinkSocket(31, "RDMA subsystem")


def test_too_many_open_files_are_not_a_missing_family() -> None:
    with no_file_left(), pytest.raises(NetlinkError) as caught:
        NetlinkSocket(0, "rtnetlink")
    assert str(caught.value).startswith(
        "rtnetlink: Too many open files (EMFILE). Remedy: raise the limit of open files"
    )

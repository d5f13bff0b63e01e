# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages of kubelet in the protobuf encoding.

The bytes were written down by hand from the field numbers of ``api.proto`` in
``kubernetes/staging/src/k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1`` and ``.../podresources/v1`` and the rules of
https://protobuf.dev/programming-guides/encoding/: a tag is ``number << 3 | wire type``, with wire type 0 for numbers
and 2 for strings and messages, which follow their length.
"""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet import kubelet_messages as messages


def test_a_register_request_is_encoded() -> None:
    assert messages.register_request("railyard-gpu01.sock", "railyard.fabric/gpu01") == (
        b"\x0a\x07v1beta1"  # version = 1
        b"\x12\x13railyard-gpu01.sock"  # endpoint = 2
        b"\x1a\x15railyard.fabric/gpu01"  # resource_name = 3
        b"\x22\x02\x10\x01"  # options = 4: get_preferred_allocation_available = 2
    )


def test_a_device_list_is_encoded() -> None:
    devices = [messages.DeviceState("gpu01-4", True, (0, 1)), messages.DeviceState("gpu01-5", False, ())]
    assert messages.device_list(devices) == (
        b"\x0a\x1a"  # devices = 1
        b"\x0a\x07gpu01-4\x12\x07Healthy"  # ID = 1, health = 2
        b"\x1a\x06\x0a\x00\x0a\x02\x08\x01"  # topology = 3: nodes = 1, of which the first has the default ID 0
        b"\x0a\x14"
        b"\x0a\x07gpu01-5\x12\x09Unhealthy"
    )


def test_messages_of_allocate_are_decoded_and_encoded() -> None:
    request = (
        b"\x0a\x09\x0a\x07gpu01-4\x0a\x12\x0a\x07rails-0\x0a\x07rails-1"  # container_requests = 1: devices_ids = 1
    )
    assert messages.allocate_request(request) == [["gpu01-4"], ["rails-0", "rails-1"]]
    assert messages.allocate_response([({"k": "v"}, ["a/b=c"]), ({}, [])]) == (
        b"\x0a\x11"  # container_responses = 1
        b"\x22\x06\x0a\x01k\x12\x01v"  # annotations = 4: a map is messages of key = 1, value = 2
        b"\x2a\x07\x0a\x05a/b=c"  # cdi_devices = 5: name = 1
        b"\x0a\x00"  # a container without devices has an answer too
    )


def test_messages_of_preferred_allocation_are_decoded_and_encoded() -> None:
    # container_requests = 1: available_deviceIDs = 1, must_include_deviceIDs = 2, allocation_size = 3
    request = b"\x0a\x0b\x0a\x01a\x0a\x01b\x12\x01b\x18\x02\x0a\x03\x0a\x01c"
    assert messages.preferred_request(request) == [
        messages.Preference(["a", "b"], ["b"], 2),
        messages.Preference(["c"], [], 0),
    ]
    assert messages.preferred_response([["b", "a"], []]) == b"\x0a\x06\x0a\x01b\x0a\x01a\x0a\x00"


def test_pod_resources_are_decoded() -> None:
    answer = (
        b"\x0a\x30"  # pod_resources = 1
        b"\x0a\x04pod1\x12\x02ns"  # name = 1, namespace = 2
        b"\x1a\x24"  # containers = 3
        b"\x0a\x01c"  # name = 1
        b"\x12\x1b\x0a\x0frailyard.fab/r1\x12\x02d0"  # devices = 2: resource_name = 1, device_ids = 2
        b"\x1a\x04\x0a\x02\x08\x01"  # topology = 3
        b"\x1a\x02\x00\x01"  # cpu_ids = 3, which is not ours
    )
    assert messages.pod_resources(answer) == [messages.PodDevices("pod1", "ns", "c", "railyard.fab/r1", ["d0"])]


def test_numbers_of_several_bytes() -> None:
    assert messages.varint(300) == b"\xac\x02"  # the example of the encoding's documentation
    long = "x" * 300
    assert messages.fields(b"\x0a\xac\x02" + long.encode()) == [(1, long.encode())]
    assert messages.fields(b"\x09\1\2\3\4\5\6\7\x08\x15\1\2\3\4") == [(1, b"\1\2\3\4\5\6\7\x08"), (2, b"\1\2\3\4")]


@pytest.mark.parametrize(
    "data",
    [b"\x0a", b"\x0a\x05abc", b"\x08\x80", b"\x08" + b"\xff" * 11, b"\x0b\x0c", b"\x0d\x01", b"\x0a\x03\x0a\x01\xff"],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(messages.WrongMessage):
        messages.allocate_request(data)


@given(st.binary(max_size=60))
def test_bytes_are_a_message_or_refused(data: bytes) -> None:
    for read in (messages.allocate_request, messages.preferred_request, messages.pod_resources):
        with contextlib.suppress(messages.WrongMessage):
            read(data)  # type: ignore[operator]


@given(st.lists(st.tuples(st.integers(1, 1 << 20), st.one_of(st.integers(0, (1 << 64) - 1), st.binary(max_size=200)))))
def test_written_messages_are_read_back(values: list[tuple[int, int | bytes]]) -> None:
    assert messages.fields(b"".join(messages.field(number, value) for number, value in values)) == values

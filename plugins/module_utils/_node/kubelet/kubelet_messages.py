# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Messages between kubelet and a device plugin, and kubelet's list of pod resources, in the protobuf encoding.

Sources: ``api.proto`` of ``k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1`` and of
``k8s.io/kubelet/pkg/apis/podresources/v1``; https://protobuf.dev/programming-guides/encoding/. The messages need two
wire types, varint and length-delimited. Unknown fields are skipped, as the encoding requires.
"""

from __future__ import annotations

import typing as t

VERSION = "v1beta1"
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"
VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
VARINT_BYTES_MAX = 10
Value = t.Union[int, bytes]


class WrongMessage(ValueError):
    """Bytes that are not a message of this kind."""


class DeviceState(t.NamedTuple):
    """A device as kubelet is to know it. ``numa``: the NUMA nodes that are near; empty: no preference. ``reason``:
    why it is not healthy; for DRA.
    """

    id: str
    healthy: bool
    numa: tuple[int, ...]
    reason: str = ""


class Preference(t.NamedTuple):
    """One container's request of GetPreferredAllocation."""

    available: list[str]
    must_include: list[str]
    size: int


class PodDevices(t.NamedTuple):
    """Devices of one resource that kubelet gave to a container."""

    pod: str
    namespace: str
    container: str
    resource: str
    devices: list[str]


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, value: int | str | bytes) -> bytes:
    """A field with its tag. A number must not be negative."""
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | DELIMITED) + varint(len(data)) + data


def fields(data: bytes) -> list[tuple[int, Value]]:
    """The fields of a message in their order: number, value. Raises :class:`WrongMessage`."""
    found: list[tuple[int, Value]] = []
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, at = _varint(data, at)
            found.append((number, value))
            continue
        if wire == DELIMITED:
            size, at = _varint(data, at)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise WrongMessage("wire type %d" % wire)
        if at + size > len(data):
            raise WrongMessage("a field of %d bytes, and %d are left" % (size, len(data) - at))
        found.append((number, data[at : at + size]))
        at += size
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(VARINT_BYTES_MAX):
        if at + place >= len(data):
            raise WrongMessage("the message ends in a number")
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise WrongMessage("a number of more than %d bytes" % VARINT_BYTES_MAX)


def parts(data: bytes, number: int) -> list[bytes]:
    """The values of a repeated field of messages or strings."""
    return [value for key, value in fields(data) if key == number and isinstance(value, bytes)]


def texts(data: bytes, number: int) -> list[str]:
    """The values of a repeated field of strings. Raises :class:`WrongMessage`."""
    try:
        return [value.decode() for value in parts(data, number)]
    except UnicodeDecodeError as error:
        raise WrongMessage("a string is not UTF-8: %s" % error) from None


def text(data: bytes, number: int) -> str:
    """A string; empty if the message does not have it. Raises :class:`WrongMessage`."""
    return "".join(texts(data, number)[-1:])


def register_request(endpoint: str, resource: str) -> bytes:
    """RegisterRequest. ``endpoint``: the name of the plugin's socket in kubelet's directory."""
    return field(1, VERSION) + field(2, endpoint) + field(3, resource) + field(4, plugin_options())


def plugin_options() -> bytes:
    """DevicePluginOptions: no call before a container starts; GetPreferredAllocation is there."""
    return field(2, 1)


def device_list(devices: t.Iterable[DeviceState]) -> bytes:
    """ListAndWatchResponse."""
    return b"".join(field(1, _device(each)) for each in devices)


def _device(device: DeviceState) -> bytes:
    message = field(1, device.id) + field(2, HEALTHY if device.healthy else UNHEALTHY)
    # a NUMANode of 0 is an empty message: proto3 leaves default values out
    nodes = b"".join(field(1, field(1, node) if node else b"") for node in device.numa)
    return message + field(3, nodes) if nodes else message


def allocate_request(data: bytes) -> list[list[str]]:
    """AllocateRequest: the ids of the devices of each container. Raises :class:`WrongMessage`."""
    return [texts(container, 1) for container in parts(data, 1)]


def allocate_response(containers: t.Iterable[tuple[dict[str, str], list[str]]]) -> bytes:
    """AllocateResponse: annotations and qualified CDI names of each container."""
    return b"".join(
        field(
            1,
            b"".join(field(4, field(1, key) + field(2, value)) for key, value in annotations.items())
            + b"".join(field(5, field(1, name)) for name in names),
        )
        for annotations, names in containers
    )


def preferred_request(data: bytes) -> list[Preference]:
    """PreferredAllocationRequest. Raises :class:`WrongMessage`."""
    found = []
    for container in parts(data, 1):
        sizes = [value for key, value in fields(container) if key == 3 and isinstance(value, int)]
        found.append(Preference(texts(container, 1), texts(container, 2), sizes[-1] if sizes else 0))
    return found


def preferred_response(containers: t.Iterable[t.Sequence[str]]) -> bytes:
    """PreferredAllocationResponse: the ids for each container."""
    return b"".join(field(1, b"".join(field(1, each) for each in devices)) for devices in containers)


def pod_resources(data: bytes) -> list[PodDevices]:
    """ListPodResourcesResponse of podresources v1: devices of containers. Raises :class:`WrongMessage`."""
    return [
        PodDevices(text(pod, 1), text(pod, 2), text(container, 1), text(devices, 1), texts(devices, 2))
        for pod in parts(data, 1)
        for container in parts(pod, 3)
        for devices in parts(container, 2)
    ]

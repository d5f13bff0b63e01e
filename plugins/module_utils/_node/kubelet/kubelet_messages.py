# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages between the kubelet and a device plugin, and the kubelet's list of pod resources, in the protobuf encoding.

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
    """Raised for bytes that are not a message of the expected type."""


class DeviceState(t.NamedTuple):
    """A device as the kubelet sees it. ``numa``: its NUMA nodes; empty: no preference. For DRA: ``reason``: why it is
    not healthy; ``cordoned``: whether cordons are the only reason. ``held``: whether a pod has the device through the
    other protocol (device plugin or DRA).
    """

    id: str
    healthy: bool
    numa: tuple[int, ...]
    reason: str = ""
    cordoned: bool = False
    held: bool = False


class Preference(t.NamedTuple):
    """One container's request of GetPreferredAllocation."""

    available: list[str]
    must_include: list[str]
    size: int


class PodDevices(t.NamedTuple):
    """The devices of one resource that the kubelet allocated to a container."""

    pod: str
    namespace: str
    container: str
    resource: str
    devices: list[str]


def varint(number: int) -> bytes:
    """Encode a number that is not negative."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, value: int | str | bytes) -> bytes:
    """Encode a field with its tag. A number must not be negative."""
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | DELIMITED) + varint(len(data)) + data


def fields(data: bytes) -> list[tuple[int, Value]]:
    """Decode the fields of a message, in their order, to (number, value). Raises :class:`WrongMessage`."""
    decoded: list[tuple[int, Value]] = []
    offset = 0
    while offset < len(data):
        tag, offset = _varint(data, offset)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, offset = _varint(data, offset)
            decoded.append((number, value))
            continue
        if wire == DELIMITED:
            size, offset = _varint(data, offset)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise WrongMessage("wire type %d" % wire)
        if offset + size > len(data):
            raise WrongMessage("a field of %d bytes, and %d are left" % (size, len(data) - offset))
        decoded.append((number, data[offset : offset + size]))
        offset += size
    return decoded


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    """Return the number at an offset, and the offset after it."""
    value = 0
    for place in range(VARINT_BYTES_MAX):
        if offset + place >= len(data):
            raise WrongMessage("the message ends in a number")
        byte = data[offset + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, offset + place + 1
    raise WrongMessage("a number of more than %d bytes" % VARINT_BYTES_MAX)


def parts(data: bytes, number: int) -> list[bytes]:
    """Return the values of a repeated field of messages or strings. Raises :class:`WrongMessage`."""
    return [value for key, value in fields(data) if key == number and isinstance(value, bytes)]


def texts(data: bytes, number: int) -> list[str]:
    """Return the values of a repeated field of strings. Raises :class:`WrongMessage`."""
    try:
        return [value.decode() for value in parts(data, number)]
    except UnicodeDecodeError as error:
        raise WrongMessage("a string is not UTF-8: %s" % error) from None


def text(data: bytes, number: int) -> str:
    """Return a string; empty if the message does not have it. Raises :class:`WrongMessage`."""
    return "".join(texts(data, number)[-1:])


def register_request(endpoint: str, resource: str) -> bytes:
    """Encode RegisterRequest. ``endpoint``: the name of the plugin's socket in the kubelet's directory."""
    return field(1, VERSION) + field(2, endpoint) + field(3, resource) + field(4, plugin_options())


def plugin_options() -> bytes:
    """Encode DevicePluginOptions: the plugin has GetPreferredAllocation, and does not need PreStartContainer."""
    return field(2, 1)


def device_list(devices: t.Iterable[DeviceState]) -> bytes:
    """Encode ListAndWatchResponse."""
    return b"".join(field(1, _device(each)) for each in devices)


def _device(device: DeviceState) -> bytes:
    message = field(1, device.id) + field(2, HEALTHY if device.healthy and not device.held else UNHEALTHY)
    # a NUMANode of 0 is an empty message: proto3 omits default values
    nodes = b"".join(field(1, field(1, node) if node else b"") for node in device.numa)
    return message + field(3, nodes) if nodes else message


def allocate_request(data: bytes) -> list[list[str]]:
    """Decode AllocateRequest: the ids of the devices per container. Raises :class:`WrongMessage`."""
    return [texts(container, 1) for container in parts(data, 1)]


def allocate_response(containers: t.Iterable[tuple[dict[str, str], list[str]]]) -> bytes:
    """Encode AllocateResponse from annotations and qualified CDI names per container."""
    return b"".join(
        field(
            1,
            b"".join(field(4, field(1, key) + field(2, value)) for key, value in annotations.items())
            + b"".join(field(5, field(1, name)) for name in names),
        )
        for annotations, names in containers
    )


def preferred_request(data: bytes) -> list[Preference]:
    """Decode PreferredAllocationRequest: a request per container. Raises :class:`WrongMessage`."""
    requests = []
    for container in parts(data, 1):
        sizes = [value for key, value in fields(container) if key == 3 and isinstance(value, int)]
        requests.append(Preference(texts(container, 1), texts(container, 2), sizes[-1] if sizes else 0))
    return requests


def preferred_response(containers: t.Iterable[t.Sequence[str]]) -> bytes:
    """Encode PreferredAllocationResponse from the ids of devices per container."""
    return b"".join(field(1, b"".join(field(1, device) for device in devices)) for devices in containers)


def pod_resources(data: bytes) -> list[PodDevices]:
    """Decode the devices in ListPodResourcesResponse of podresources v1, of device plugins and of DRA drivers.

    The resource of a DRA device is the kind of its CDI device. Raises :class:`WrongMessage`.
    """
    found = []
    for pod in parts(data, 1):
        for container in parts(pod, 3):
            names = text(pod, 1), text(pod, 2), text(container, 1)
            found += [PodDevices(*names, text(devices, 1), texts(devices, 2)) for devices in parts(container, 2)]
            for claim in parts(container, 5):
                cdi = [text(device, 1).partition("=") for each in parts(claim, 4) for device in parts(each, 1)]
                found += [PodDevices(*names, kind, [device]) for kind, _equals, device in cdi]
    return found

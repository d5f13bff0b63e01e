# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Messages between kubelet and a DRA driver, in the protobuf encoding.

Sources: ``api.proto`` of ``k8s.io/kubelet/pkg/apis/pluginregistration/v1`` and of ``k8s.io/kubelet/pkg/apis/dra/v1``;
``dra/v1beta1`` has the same fields. Health: ``api.proto`` of ``k8s.io/kubelet/pkg/apis/dra-health/v1alpha1``, whose
package is ``v1alpha1`` alone, and of ``v1``, which has the field ``message`` too.
"""

from __future__ import annotations

import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.kubelet_messages import (
    DeviceState,
    WrongMessage,
    field,
    fields,
    parts,
    text,
)

PLUGIN_TYPE = "DRAPlugin"
REGISTRATION = "pluginregistration.Registration"
# Version as a driver lists it for kubelet -> gRPC service.
SERVICES = {
    "v1.DRAPlugin": "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin",
    "v1beta1.DRAPlugin": "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin",
}

# As a driver lists them for kubelet, and as gRPC services.
HEALTH_SERVICES = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
HEALTHY, UNHEALTHY = 1, 2
# Seconds after which kubelet takes the health of a device that is not sent again for unknown.
HEALTH_SECONDS = 120
MESSAGE_MAX = 1024


class ClaimReference(t.NamedTuple):
    """A ResourceClaim as kubelet names it."""

    namespace: str
    uid: str
    name: str

    def __str__(self) -> str:
        return "%s/%s" % (self.namespace, self.name)


class PreparedDevice(t.NamedTuple):
    """A device of a prepared claim. ``requests``: of the claim, without the names of subrequests."""

    requests: tuple[str, ...]
    pool: str
    device: str
    cdi_devices: tuple[str, ...]


def plugin_info(driver: str, endpoint: str) -> bytes:
    """PluginInfo, the answer to GetInfo. ``endpoint``: the absolute path of the driver's socket."""
    versions = b"".join(field(4, version) for version in (*SERVICES, *HEALTH_SERVICES))
    return field(1, PLUGIN_TYPE) + field(2, driver) + field(3, endpoint) + versions


def registration_status(data: bytes) -> tuple[bool, str]:
    """RegistrationStatus: whether kubelet has the driver now, or its error. Raises :class:`WrongMessage`."""
    registered = any(key == 1 and value == 1 for key, value in fields(data))
    return registered, text(data, 2)


def claims(data: bytes) -> list[ClaimReference]:
    """NodePrepareResourcesRequest and NodeUnprepareResourcesRequest. Raises :class:`WrongMessage`."""
    found = [ClaimReference(text(claim, 1), text(claim, 2), text(claim, 3)) for claim in parts(data, 1)]
    for claim in found:
        if not all(claim):
            raise WrongMessage("a claim without namespace, uid or name")
    return found


def prepare_response(answers: t.Mapping[str, str | t.Sequence[PreparedDevice]]) -> bytes:
    """NodePrepareResourcesResponse. ``answers``: uid of a claim -> its devices, or the error."""
    return _by_uid(
        (uid, field(2, answer) if isinstance(answer, str) else b"".join(field(1, _device(each)) for each in answer))
        for uid, answer in answers.items()
    )


def unprepare_response(answers: t.Mapping[str, str]) -> bytes:
    """NodeUnprepareResourcesResponse. ``answers``: uid of a claim -> the error, empty for none."""
    return _by_uid((uid, field(1, error) if error else b"") for uid, error in answers.items())


def _by_uid(answers: t.Iterable[tuple[str, bytes]]) -> bytes:
    return b"".join(field(1, field(1, uid) + field(2, answer)) for uid, answer in answers)


def _device(device: PreparedDevice) -> bytes:
    named = b"".join(field(1, request) for request in device.requests)
    cdi = b"".join(field(4, each) for each in device.cdi_devices)
    return named + field(2, device.pool) + field(3, device.device) + cdi


def health_response(pool: str, devices: t.Iterable[DeviceState], now: int) -> bytes:
    """NodeWatchResourcesResponse: all devices of a pool. ``now``: seconds since 1970."""
    return b"".join(field(1, _health(pool, each, now)) for each in devices)


def _health(pool: str, device: DeviceState, now: int) -> bytes:
    identity = field(1, field(1, pool) + field(2, device.id))
    state = field(2, HEALTHY if device.healthy else UNHEALTHY) + field(3, now) + field(4, HEALTH_SECONDS)
    return identity + state + (field(5, device.reason[:MESSAGE_MAX]) if device.reason else b"")

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages between the kubelet and a DRA driver, in the protobuf encoding.

Sources: ``api.proto`` of ``k8s.io/kubelet/pkg/apis/pluginregistration/v1`` and of ``k8s.io/kubelet/pkg/apis/dra/v1``;
``dra/v1beta1`` has the same fields. Health: ``api.proto`` of ``k8s.io/kubelet/pkg/apis/dra-health/v1alpha1``, whose
package is named ``v1alpha1``, and of ``v1``, which adds the field ``message``.
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
# Version in the driver's PluginInfo -> gRPC service.
SERVICES = {
    "v1.DRAPlugin": "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin",
    "v1beta1.DRAPlugin": "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin",
}

# Names both in PluginInfo and of the gRPC services.
HEALTH_SERVICES = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
HEALTHY, UNHEALTHY = 1, 2
# Seconds after which the kubelet considers the health of a device unknown, unless it is sent again.
HEALTH_SECONDS = 120
MESSAGE_MAX = 1024
# Claims of one call, which are those of one pod, and characters of their names and uids.
CLAIMS_MAX, NAME_MAX = 256, 253


class ClaimReference(t.NamedTuple):
    """The kubelet's reference to a ResourceClaim."""

    namespace: str
    uid: str
    name: str

    def __str__(self) -> str:
        return "%s/%s" % (self.namespace, self.name)


class PreparedDevice(t.NamedTuple):
    """A device of a prepared claim. ``requests``: names of the claim's requests, without those of subrequests."""

    requests: tuple[str, ...]
    pool: str
    device: str
    cdi_devices: tuple[str, ...]


def plugin_info(driver: str, endpoint: str) -> bytes:
    """Encode PluginInfo, the answer to GetInfo. ``endpoint``: the absolute path of the driver's socket."""
    versions = b"".join(field(4, version) for version in (*SERVICES, *HEALTH_SERVICES))
    return field(1, PLUGIN_TYPE) + field(2, driver) + field(3, endpoint) + versions


def registration_status(data: bytes) -> tuple[bool, str]:
    """Decode RegistrationStatus: whether the kubelet has registered the driver, and its error.

    :raises WrongMessage: if it is not such a message.
    """
    registered = any(key == 1 and value == 1 for key, value in fields(data))
    return registered, text(data, 2)


def claims(data: bytes) -> list[ClaimReference]:
    """Decode the claims of NodePrepareResourcesRequest or NodeUnprepareResourcesRequest.

    :raises WrongMessage: if it is not such a message.
    """
    references = [ClaimReference(text(claim, 1), text(claim, 2), text(claim, 3)) for claim in parts(data, 1)]
    if len(references) > CLAIMS_MAX:
        raise WrongMessage("%d claims, and the limit is %d" % (len(references), CLAIMS_MAX))
    for reference in references:
        if not all(reference):
            raise WrongMessage("a claim without namespace, uid or name")
        if max(len(value) for value in reference) > NAME_MAX:
            raise WrongMessage("a claim whose name has more than %d characters" % NAME_MAX)
    return references


def prepare_response(answers: t.Mapping[str, str | t.Sequence[PreparedDevice]]) -> bytes:
    """Encode NodePrepareResourcesResponse. ``answers``: uid of a claim -> its devices, or the error."""
    return _by_uid(
        (uid, field(2, answer) if isinstance(answer, str) else b"".join(field(1, _device(each)) for each in answer))
        for uid, answer in answers.items()
    )


def unprepare_response(answers: t.Mapping[str, str]) -> bytes:
    """Encode NodeUnprepareResourcesResponse. ``answers``: uid of a claim -> the error; empty if it is released."""
    return _by_uid((uid, field(1, error) if error else b"") for uid, error in answers.items())


def _by_uid(answers: t.Iterable[tuple[str, bytes]]) -> bytes:
    return b"".join(field(1, field(1, uid) + field(2, answer)) for uid, answer in answers)


def _device(device: PreparedDevice) -> bytes:
    requests = b"".join(field(1, request) for request in device.requests)
    cdi_devices = b"".join(field(4, name) for name in device.cdi_devices)
    return requests + field(2, device.pool) + field(3, device.device) + cdi_devices


def health_response(pool: str, devices: t.Iterable[DeviceState], now: int) -> bytes:
    """Encode NodeWatchResourcesResponse for all devices of a pool. ``now``: seconds since 1970."""
    return b"".join(field(1, _health(pool, each, now)) for each in devices)


def _health(pool: str, device: DeviceState, now: int) -> bytes:
    identity = field(1, field(1, pool) + field(2, device.id))
    state = field(2, HEALTHY if device.healthy else UNHEALTHY) + field(3, now) + field(4, HEALTH_SECONDS)
    return identity + state + (field(5, device.reason[:MESSAGE_MAX]) if device.reason else b"")

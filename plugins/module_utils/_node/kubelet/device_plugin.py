# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Device plugins of the kubelet: a socket per resource."""

from __future__ import annotations

import contextlib
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet import kubelet_messages as messages
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.unix_sockets import (
    SECONDS,
    Identity,
    Log,
    Stream,
    UnixServer,
    answered,
    channel,
    import_grpc,
    reason,
    socket_identity,
)

DIRECTORY = "/var/lib/kubelet/device-plugins"
KUBELET_SOCKET = DIRECTORY + "/kubelet.sock"
# Seconds without a call of ListAndWatch after which a registered plugin registers again.
UNWATCHED_SECONDS = 10.0


def kubelet_identity(system: System) -> Identity:
    """Return the identity of the running kubelet. Raises :class:`RailyardError` if none runs."""
    identity = socket_identity(system, KUBELET_SOCKET)
    if identity is None:
        raise RailyardError("kubelet does not serve device plugins", KUBELET_SOCKET, "start kubelet on this node")
    return identity


def slot_number(device: str) -> int:
    """Return the slot's number in a device's id, such as 4 for ``gpu01-4``."""
    return int(device.rpartition("-")[2])


class Resource:
    """The devices of one resource, and the answers to the kubelet's calls about them.

    :param held: returns the ids of the devices that pods hold, of all resources.
    """

    def __init__(self, prefix: str, name: str, held: t.Callable[[], t.Iterable[str]]) -> None:
        self.prefix = prefix
        self.name = name
        self._held = held
        self.devices: tuple[messages.DeviceState, ...] = ()
        # since the last call of take_allocated()
        self._given: set[str] = set()
        # of ListAndWatch: all devices, and all again after a change
        self.stream = Stream()

    @property
    def full_name(self) -> str:
        """The name in pods' limits, which is also the kind of the CDI devices."""
        return "%s/%s" % (self.prefix, self.name)

    def update(self, devices: t.Iterable[messages.DeviceState]) -> None:
        """Replace the devices. The kubelet gets the new list if it differs."""
        self.devices = tuple(devices)
        self.stream.publish(messages.device_list(self.devices))

    def allocate(self, request: bytes) -> bytes:
        """Answer Allocate with the CDI name of each container's device.

        The name is in an annotation and in a field. Runtimes read one of them, and ignore a repeated device.
        """
        return messages.allocate_response([self._allocated(devices) for devices in messages.allocate_request(request)])

    def _allocated(self, devices: list[str]) -> tuple[dict[str, str], list[str]]:
        unknown = sorted(set(devices) - {device.id for device in self.devices})
        if unknown:
            raise RailyardError(
                "kubelet asked for %s, which this node does not have" % ", ".join(unknown),
                self.full_name,
                "restart kubelet, which then reads the devices again",
            )
        if len(devices) > 1:
            raise RailyardError(
                "a container asks for %d, and a pod has one interface per rail" % len(devices),
                self.full_name,
                "write '%s: 1' in the container's limits" % self.full_name,
            )
        self._given.update(devices)
        names = ["%s=%s" % (self.full_name, device) for device in devices]
        key = "cdi.k8s.io/%s_%s" % (self.prefix, self.name)
        return ({key: ",".join(names)} if names else {}), names

    def take_allocated(self) -> set[str]:
        """Return the devices that the kubelet allocated since the last call."""
        taken = set()
        # one by one, because another thread may add some
        while self._given:
            taken.add(self._given.pop())
        return taken

    def prefer(self, request: bytes) -> bytes:
        """Answer GetPreferredAllocation.

        Preferred are slots whose number is free on the other rails too, then low numbers. The kubelet asks for each
        rail of a pod separately, so the pod gets the same slot number on all its rails if possible. Last are slots
        whose pod has ended for the kubelet but still has its interfaces, because a process keeps its network namespace.
        """
        uses_on_other_rails: dict[int, int] = {}
        held = set(self._held())
        for device in held:
            if device.rpartition("-")[0] != self.name:
                number = slot_number(device)
                uses_on_other_rails[number] = uses_on_other_rails.get(number, 0) + 1

        def rank(device: str) -> tuple[bool, int, int]:
            number = slot_number(device)
            return device in held, uses_on_other_rails.get(number, 0), number

        existing = {device.id for device in self.devices}
        answers = []
        for container in messages.preferred_request(request):
            chosen = [device for device in container.must_include if device in existing]
            candidates = sorted(existing.intersection(container.available).difference(chosen), key=rank)
            answers.append((chosen + candidates)[: max(container.size, len(chosen))])
        return messages.preferred_response(answers)


class PluginServer:
    """Serves one resource to the kubelet. ``registered``: the kubelet that has the resource; None before that."""

    def __init__(self, system: System, resource: Resource, log: Log) -> None:
        self._system = system
        self.resource = resource
        self._log = log
        self.endpoint = "railyard-%s.sock" % resource.name
        self._server: UnixServer | None = None
        self.registered: Identity | None = None
        self._watched = 0.0

    def keep(self, kubelet: Identity) -> None:
        """Start or continue to serve, and register with this kubelet. A starting kubelet removes all sockets.

        :raises RailyardError: if it fails and must be tried again.
        """
        if self._server is None or not self._server.serving:
            self.stop()
            self._start()
        now = time.monotonic()
        if self.resource.stream.watched:
            self._watched = now
        elif self.registered and now - self._watched > UNWATCHED_SECONDS:
            # without the call, the kubelet considers the devices unhealthy until the plugin registers again
            self._log("%s: kubelet does not listen any more" % self.resource.full_name)
            self.registered = None
        if self.registered != kubelet:
            self._register()
            self.registered = kubelet
            self._watched = now
            self._log("%s is registered with kubelet" % self.resource.full_name)

    def stop(self) -> None:
        """Stop serving, and remove the socket."""
        self.registered = None
        if self._server is not None:
            self._server.stop()
            self._server = None

    def _start(self) -> None:
        services = {"v1beta1.DevicePlugin": self._handlers()}
        server = UnixServer(self._system, "%s/%s" % (DIRECTORY, self.endpoint), services)
        server.start()
        self._server = server

    def _register(self) -> None:
        grpc = import_grpc()
        with contextlib.closing(channel(self._system, KUBELET_SOCKET)) as kubelet:
            call = kubelet.unary_unary("/v1beta1.Registration/Register")
            try:
                call(messages.register_request(self.endpoint, self.resource.full_name), timeout=SECONDS)
            except grpc.RpcError as error:
                raise RailyardError(
                    "kubelet did not register %s: %s" % (self.resource.full_name, reason(error)),
                    KUBELET_SOCKET,
                    "read the log of kubelet: journalctl -u kubelet",
                ) from None

    def _handlers(self) -> dict[str, t.Any]:
        answers: dict[str, t.Callable[[bytes], bytes]] = {
            "GetDevicePluginOptions": lambda _request: messages.plugin_options(),
            "Allocate": self.resource.allocate,
            "GetPreferredAllocation": self.resource.prefer,
        }
        handlers = {name: answered(act, self.endpoint, self._log) for name, act in answers.items()}
        return dict(handlers, ListAndWatch=self.resource.stream.handler())

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Device plugins for kubelet: one resource each, on a socket of its own.

gRPC comes from the distribution (python3-grpcio, 1.30 or later) and is imported when the first server starts. Handlers
are generic, so there is no generated code and no need of a protobuf library.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import typing as t
from concurrent import futures

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet import kubelet_messages as messages

DIRECTORY = "/var/lib/kubelet/device-plugins"
KUBELET_SOCKET = DIRECTORY + "/kubelet.sock"
# Threads of a server: one for each ListAndWatch, of which a kubelet that restarts may have two; the others for calls.
THREADS_MAX = 4
SECONDS = 5.0
# How long a registered plugin is without a ListAndWatch before it registers again.
UNWATCHED_SECONDS = 10.0
# Bytes. gRPC's own limit of 4 MiB is not enough for the list of pod resources of a large node.
MESSAGE_MAX = 16 << 20
Identity = t.Tuple[int, int]


def import_grpc() -> t.Any:
    """The module ``grpc``. Raises :class:`RailyardError` if it is not installed."""
    # the agent forks for work in namespaces, and these children do not use gRPC
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    try:
        import grpc
    except ImportError as error:
        remedy = "install the package python3-grpcio, or grpcio for %s" % sys.executable
        raise RailyardError("the Python library grpc cannot be imported: %s" % error, "device plugin", remedy) from None
    return grpc


def channel(system: System, path: str) -> t.Any:
    """A gRPC channel to a unix socket of kubelet, which refuses an authority that is a path."""
    options = [("grpc.default_authority", "localhost"), ("grpc.max_receive_message_length", MESSAGE_MAX)]
    return import_grpc().insecure_channel("unix:" + system.path(path), options=options)


def reason(error: t.Any) -> str:
    """What a call that failed reports: its status code and details."""
    return "%s: %s" % (error.code().name, error.details())


def socket_identity(system: System, path: str) -> Identity | None:
    """Which socket a path is; None where there is none. An inode number alone may be used again."""
    try:
        found = os.stat(system.path(path))
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def kubelet_identity(system: System) -> Identity:
    """The kubelet that runs. Raises :class:`RailyardError` where there is none."""
    found = socket_identity(system, KUBELET_SOCKET)
    if found is None:
        raise RailyardError("kubelet does not serve device plugins", KUBELET_SOCKET, "start kubelet on this node")
    return found


def slot_number(device: str) -> int:
    return int(device.rpartition("-")[2])


class Resource:
    """The devices of one resource, and the answers about them.

    :param held: the ids of the devices that pods hold, of all resources.
    """

    def __init__(self, prefix: str, name: str, held: t.Callable[[], t.Iterable[str]]) -> None:
        self.prefix = prefix
        self.name = name
        self._held = held
        self._changed = threading.Condition()
        self._devices: tuple[messages.DeviceState, ...] = ()
        self._watchers = 0

    @property
    def full_name(self) -> str:
        """As pods write it, and as the kind of its CDI devices."""
        return "%s/%s" % (self.prefix, self.name)

    @property
    def devices(self) -> tuple[messages.DeviceState, ...]:
        return self._devices

    @property
    def watched(self) -> bool:
        """Whether kubelet listens."""
        return self._watchers > 0

    def update(self, devices: t.Iterable[messages.DeviceState]) -> None:
        """Replace the devices; kubelet gets the new list if it differs."""
        with self._changed:
            self._devices = tuple(devices)
            self._changed.notify_all()

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def watch(self, active: t.Callable[[], bool]) -> t.Iterator[bytes]:
        """ListAndWatch: all devices, and all again when one of them changes."""
        sent: tuple[messages.DeviceState, ...] | None = None
        with self._changed:
            self._watchers += 1
        try:
            while True:
                with self._changed:
                    while active() and self._devices == sent:
                        self._changed.wait()
                    sent = self._devices
                if not active():
                    return
                yield messages.device_list(sent)
        finally:
            with self._changed:
                self._watchers -= 1

    def allocate(self, request: bytes) -> bytes:
        """Allocate: each container gets its device by CDI, as an annotation and as a field: runtimes read one of both,
        and ignore a device that is named twice.
        """
        return messages.allocate_response([self._allocated(devices) for devices in messages.allocate_request(request)])

    def _allocated(self, devices: list[str]) -> tuple[dict[str, str], list[str]]:
        known = {each.id for each in self._devices}
        unknown = sorted(set(devices) - known)
        if unknown:
            raise RailyardError(
                "kubelet asked for %s, which this node does not have" % ", ".join(unknown),
                self.full_name,
                "restart kubelet, which then reads the devices again",
            )
        if len(devices) > 1:
            raise RailyardError(
                "a container asks for %d, and a pod has one interface on a rail" % len(devices),
                self.full_name,
                "write '%s: 1' in the container's limits" % self.full_name,
            )
        names = ["%s=%s" % (self.full_name, each) for each in devices]
        key = "cdi.k8s.io/%s_%s" % (self.prefix, self.name)
        return ({key: ",".join(names)} if names else {}), names

    def prefer(self, request: bytes) -> bytes:
        """GetPreferredAllocation: slots whose number is free on the other rails too, then the lowest.

        Kubelet asks for each rail of a pod alone, so the pod gets one slot number on all its rails where there is one.
        """
        elsewhere: dict[int, int] = {}
        for device in self._held():
            if device.rpartition("-")[0] != self.name:
                elsewhere[slot_number(device)] = elsewhere.get(slot_number(device), 0) + 1

        def rank(device: str) -> tuple[int, int]:
            return elsewhere.get(slot_number(device), 0), slot_number(device)

        known = {each.id for each in self._devices}
        answers = []
        for wanted in messages.preferred_request(request):
            chosen = [each for each in wanted.must_include if each in known]
            free = sorted(known.intersection(wanted.available).difference(chosen), key=rank)
            answers.append((chosen + free)[: max(wanted.size, len(chosen))])
        return messages.preferred_response(answers)


class PluginServer:
    """One resource on its socket, as kubelet finds it there."""

    def __init__(self, system: System, resource: Resource, log: t.Callable[[str], None]) -> None:
        self._system = system
        self.resource = resource
        self._log = log
        self.endpoint = "railyard-%s.sock" % resource.name
        self._path = "%s/%s" % (DIRECTORY, self.endpoint)
        self._server: t.Any = None
        self._bound: Identity | None = None
        self.registered: Identity | None = None
        self._watched = 0.0

    def keep(self, kubelet: Identity) -> None:
        """Serve, and be registered with this kubelet. A kubelet that starts removes all sockets.

        :raises RailyardError: if this must be tried again.
        """
        if self._server is None or socket_identity(self._system, self._path) != self._bound:
            self.registered = None
            self.stop()
            self._start()
        now = time.monotonic()
        if self.resource.watched:
            self._watched = now
        elif self.registered and now - self._watched > UNWATCHED_SECONDS:
            # kubelet takes devices for unhealthy then, until the plugin registers again
            self._log("%s: kubelet does not listen any more" % self.resource.full_name)
            self.registered = None
        if self.registered != kubelet:
            self._register()
            self.registered = kubelet
            self._watched = now
            self._log("%s is registered with kubelet" % self.resource.full_name)

    def stop(self) -> None:
        if self._server is None:
            return
        self._server.stop(0).wait(SECONDS)
        self._server = None
        self.registered = None
        if socket_identity(self._system, self._path) == self._bound:
            self._system.remove_file(self._path)

    def _start(self) -> None:
        grpc = import_grpc()
        server = grpc.server(
            futures.ThreadPoolExecutor(THREADS_MAX, "plugin-" + self.resource.name),
            handlers=[grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", self._handlers(grpc))],
        )
        # A server removes the path that it bound when it is gone, which may be after the next server bound it: so it
        # binds another name.
        temporary = "%s/.%s" % (DIRECTORY, self.endpoint)
        try:
            self._system.remove_file(temporary)
            if not server.add_insecure_port("unix:" + self._system.path(temporary)):
                raise OSError("gRPC cannot bind it")
            server.start()
            os.chmod(self._system.path(temporary), 0o600)
            os.rename(self._system.path(temporary), self._system.path(self._path))
        except (OSError, RuntimeError) as error:
            server.stop(0)
            raise RailyardError(
                "cannot be served: %s" % error, self._path, "see why with ls -ld %s" % DIRECTORY
            ) from None
        self._server = server
        self._bound = socket_identity(self._system, self._path)

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
                    "see the log of kubelet: journalctl -u kubelet",
                ) from None

    def _handlers(self, grpc: t.Any) -> dict[str, t.Any]:
        def answered(act: t.Callable[[bytes], bytes]) -> t.Any:
            def handle(request: bytes, context: t.Any) -> bytes:
                try:
                    return act(request)
                except (RailyardError, messages.WrongMessage) as error:
                    self._log("kubelet's call for %s is refused: %s" % (self.endpoint, error))
                    context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
                    raise

            return grpc.unary_unary_rpc_method_handler(handle)

        def watch(_request: bytes, context: t.Any) -> t.Iterator[bytes]:
            # False: the call is over already
            context.add_callback(self.resource.wake)
            return self.resource.watch(context.is_active)

        return {
            "GetDevicePluginOptions": answered(lambda _request: messages.plugin_options()),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(watch),
            "Allocate": answered(self.resource.allocate),
            "GetPreferredAllocation": answered(self.resource.prefer),
        }

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""gRPC over unix sockets, as kubelet and its plugins use it.

gRPC comes from the distribution (python3-grpcio, 1.30 or later) and is imported when the first server starts. Handlers
are generic, so there is no generated code and no need of a protobuf library.
"""

from __future__ import annotations

import os
import sys
import typing as t
from concurrent import futures

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.kubelet_messages import WrongMessage

# Seconds for a call, and for the end of a server's last calls.
SECONDS = 5.0
# Bytes. gRPC's own limit of 4 MiB is not enough for the list of pod resources of a large node.
MESSAGE_MAX = 16 << 20
Identity = t.Tuple[int, int]
Log = t.Callable[[str], None]


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


def answered(act: t.Callable[[bytes], bytes], endpoint: str, log: Log) -> t.Any:
    """A handler of calls with one request and one answer. What ``act`` refuses is logged, and an error of the call."""
    grpc = import_grpc()

    def handle(request: bytes, context: t.Any) -> bytes:
        try:
            return act(request)
        except (RailyardError, WrongMessage) as error:
            log("kubelet's call for %s is refused: %s" % (endpoint, error))
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise

    return grpc.unary_unary_rpc_method_handler(handle)


class UnixServer:
    """A gRPC server on a unix socket that root alone may use.

    :param services: service -> method -> handler. :param threads: how many calls it serves at a time.
    """

    def __init__(
        self, system: System, path: str, services: t.Mapping[str, t.Mapping[str, t.Any]], threads: int
    ) -> None:
        self._system = system
        self._path = path
        self._services = services
        self._threads = threads
        self._server: t.Any = None
        self._bound: Identity | None = None

    @property
    def serving(self) -> bool:
        """Whether it serves, and its path is still its own socket."""
        return self._server is not None and socket_identity(self._system, self._path) == self._bound

    def start(self) -> None:
        """Raises :class:`RailyardError` if the socket cannot be made. A socket that is there is replaced."""
        grpc = import_grpc()
        server = grpc.server(
            futures.ThreadPoolExecutor(self._threads, os.path.basename(self._path)),
            handlers=[
                grpc.method_handlers_generic_handler(name, dict(handlers)) for name, handlers in self._services.items()
            ],
        )
        directory, name = os.path.split(self._path)
        # A server removes the path that it bound when it is gone, which may be after the next server bound it: so it
        # binds another name. Kubelet ignores names that begin with a dot.
        temporary = "%s/.%s" % (directory, name)
        try:
            self._system.remove_file(temporary)
            if not server.add_insecure_port("unix:" + self._system.path(temporary)):
                raise OSError("gRPC cannot bind it")
            server.start()
            os.chmod(self._system.path(temporary), 0o600)
            os.rename(self._system.path(temporary), self._system.path(self._path))
        except (OSError, RuntimeError) as error:
            server.stop(0)
            remedy = "see why with ls -ld %s" % directory
            raise RailyardError("cannot be served: %s" % error, self._path, remedy) from None
        self._server = server
        self._bound = socket_identity(self._system, self._path)

    def stop(self) -> None:
        if self._server is None:
            return
        self._server.stop(0).wait(SECONDS)
        self._server = None
        if socket_identity(self._system, self._path) == self._bound:
            self._system.remove_file(self._path)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""gRPC over unix sockets, for the kubelet and its plugins.

gRPC comes from the distribution (python3-grpcio, 1.30 or later) and is imported when the first server starts. Handlers
are generic, so that generated code and a protobuf library are not required.

All servers share one asyncio loop in one thread, which waits for events. Servers of gRPC's threaded interface have a
thread each, which wakes up five times a second.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import socket
import stat
import sys
import threading
import typing as t
from concurrent import futures

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.kubelet_messages import WrongMessage

# Seconds for a call to the kubelet.
SECONDS = 5.0
# Bytes. gRPC's own limit of 4 MiB is not enough for the list of pod resources of a large node.
MESSAGE_MAX = 16 << 20
# Calls that all servers serve at the same time, without streams.
CALLS_MAX = 32
# Inode number and change time of a socket.
Identity = t.Tuple[int, int]
Log = t.Callable[[str], None]
Result = t.TypeVar("Result")


def import_grpc() -> t.Any:
    """Return the module ``grpc``. Raises :class:`RailyardError` if it is not installed."""
    # the agent forks for work in namespaces; its child processes do not use gRPC
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    try:
        import grpc
    except ImportError as error:
        remedy = "install the package python3-grpcio, or grpcio for %s" % sys.executable
        raise RailyardError("the Python library grpc cannot be imported: %s" % error, "device plugin", remedy) from None
    return grpc


def channel(system: System, path: str) -> t.Any:
    """Return a gRPC channel to a unix socket of the kubelet, which refuses an authority that is a path."""
    options = [("grpc.default_authority", "localhost"), ("grpc.max_receive_message_length", MESSAGE_MAX)]
    return import_grpc().insecure_channel("unix:" + system.path(path), options=options)


def reason(error: t.Any) -> str:
    """Return status code and details of a failed call."""
    return "%s: %s" % (error.code().name, error.details())


def socket_identity(system: System, path: str) -> Identity | None:
    """Return the identity of the socket at a path; None if it does not exist.

    It has the change time, because inode numbers are used again.
    """
    try:
        status = os.stat(system.path(path))
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns


@functools.lru_cache(maxsize=None)
def _loop() -> asyncio.AbstractEventLoop:
    """Return the loop of all servers, which runs in its own thread."""
    loop = asyncio.new_event_loop()
    loop.set_default_executor(futures.ThreadPoolExecutor(CALLS_MAX, "kubelet"))
    threading.Thread(target=loop.run_forever, name="grpc", daemon=True).start()
    return loop


def _in_loop(work: t.Coroutine[t.Any, t.Any, Result]) -> Result:
    return asyncio.run_coroutine_threadsafe(work, _loop()).result()


def answered(act: t.Callable[[bytes], bytes], endpoint: str, log: Log) -> t.Any:
    """Return a handler of calls with one request and one answer.

    :param act: returns the answer to a request. Its errors are logged, and become errors of the call.
    """
    grpc = import_grpc()

    async def handle(request: bytes, context: t.Any) -> bytes:
        try:
            return await asyncio.get_running_loop().run_in_executor(None, act, request)
        except (RailyardError, WrongMessage) as error:
            log("kubelet's call for %s is refused: %s" % (endpoint, error))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise

    return grpc.unary_unary_rpc_method_handler(handle)


class Stream:
    """A message that the kubelet follows. Each call gets the current message at once, and then each different one."""

    def __init__(self) -> None:
        self._message: bytes | None = None
        self._calls: set[asyncio.Event] = set()

    @property
    def watched(self) -> bool:
        """Whether the kubelet follows the stream."""
        return bool(self._calls)

    def publish(self, message: bytes) -> None:
        """Set the message, which may be empty. Safe for several threads."""
        if message != self._message:
            self._message = message
            _loop().call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for changed in self._calls:
            changed.set()

    def handler(self) -> t.Any:
        """Return a handler of calls with one request and a stream of answers."""
        return import_grpc().unary_stream_rpc_method_handler(self._follow)

    async def _follow(self, _request: bytes, _context: t.Any) -> t.AsyncIterator[bytes]:
        changed, sent = asyncio.Event(), None
        self._calls.add(changed)
        try:
            while True:
                changed.clear()
                if self._message != sent:
                    sent = self._message
                    yield sent or b""
                await changed.wait()
        finally:
            # reached also when the kubelet ends the call, or the server stops
            self._calls.discard(changed)


class UnixServer:
    """A gRPC server on a unix socket that only root may use.

    :param services: service -> method -> handler.
    """

    def __init__(self, system: System, path: str, services: t.Mapping[str, t.Mapping[str, t.Any]]) -> None:
        self._system = system
        self._path = path
        self._services = services
        self._server: t.Any = None
        self._bound: Identity | None = None

    @property
    def serving(self) -> bool:
        """Whether the server runs, and its path is still its socket."""
        return self._server is not None and socket_identity(self._system, self._path) == self._bound

    def start(self) -> None:
        """Create the socket, or replace one that no program serves any more, and serve it.

        :raises RailyardError: if it cannot be created, or if its path is a file or socket of another program.
        """
        used_by = self._used_by()
        if used_by:
            remedy = "stop that program, or set another slots.resource_prefix in the fabric file"
            raise RailyardError("the path is used: %s" % used_by, self._path, remedy)
        directory, name = os.path.split(self._path)
        # gRPC removes the bound path some time after a server stopped, which may be after the next server bound it. So
        # the server binds another name and renames it. The kubelet ignores names that begin with a dot.
        temporary = "%s/.%s" % (directory, name)
        server = None
        try:
            self._system.remove_file(temporary)
            server = _in_loop(self._serve("unix:" + self._system.path(temporary)))
            os.chmod(self._system.path(temporary), 0o600)
            os.rename(self._system.path(temporary), self._system.path(self._path))
        except (OSError, RuntimeError) as error:
            if server is not None:
                _in_loop(server.stop(0))
            remedy = "check the directory with ls -ld %s" % directory
            raise RailyardError("cannot be served: %s" % error, self._path, remedy) from None
        self._server = server
        self._bound = socket_identity(self._system, self._path)

    def _used_by(self) -> str:
        """Return what another program has at the path; empty if there is nothing, or the socket of an ended program."""
        path = self._system.path(self._path)
        try:
            is_socket = stat.S_ISSOCK(os.lstat(path).st_mode)
        except OSError:
            return ""
        if not is_socket:
            return "it is not a socket"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            try:
                probe.connect(path)
            except (ConnectionRefusedError, FileNotFoundError):
                return ""
            except OSError as error:
                return "it does not answer: %s" % error
        return "another program serves it"

    async def _serve(self, address: str) -> t.Any:
        grpc = import_grpc()
        # gRPC before 1.32 has it in another module
        aio = grpc.aio if hasattr(grpc, "aio") else importlib.import_module("grpc.experimental.aio")
        server = aio.server(
            handlers=[
                grpc.method_handlers_generic_handler(name, dict(handlers)) for name, handlers in self._services.items()
            ]
        )
        if not server.add_insecure_port(address):
            raise OSError("gRPC cannot bind it")
        await server.start()
        return server

    def stop(self) -> None:
        """Stop serving, and remove the socket if it is the server's."""
        if self._server is None:
            return
        _in_loop(self._server.stop(0))
        self._server = None
        if socket_identity(self._system, self._path) == self._bound:
            self._system.remove_file(self._path)

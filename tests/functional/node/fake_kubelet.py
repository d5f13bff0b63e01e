# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubelet's side of device plugins and of pod resources, on the unix sockets of a directory of the test's own.

Written from the protocol: service Registration of v1beta1, a client of each registered plugin, and service
PodResourcesLister of v1. As kubelet does, it removes all sockets in its directory when it starts. Messages are trees of
(field number, value); field numbers are beside each use.
"""

from __future__ import annotations

import typing as t
from concurrent import futures
from pathlib import Path

import grpc

from tests.waiting import SECONDS, wait_for

PLUGINS = "var/lib/kubelet/device-plugins"
RESOURCES = "var/lib/kubelet/pod-resources"
Tree = t.Sequence[t.Tuple[int, t.Any]]


def encode(tree: Tree) -> bytes:
    """A message: numbers below 128, texts and messages of less than 128 bytes after their tag."""
    out = b""
    for number, value in tree:
        if isinstance(value, int):
            out += bytes([number << 3, value])
        else:
            data = value.encode() if isinstance(value, str) else encode(value)
            out += bytes([number << 3 | 2]) + (
                bytes([len(data)]) if len(data) < 128 else bytes([len(data) % 128 | 128, len(data) // 128])
            )
            out += data
    return out


def decode(data: bytes) -> list[tuple[int, t.Any]]:
    found: list[tuple[int, t.Any]] = []
    left = list(reversed(data))

    def varint() -> int:
        byte = left.pop()
        return byte if byte < 128 else byte - 128 + 128 * varint()

    while left:
        tag = varint()
        number, wire, value = tag >> 3, tag & 7, varint()
        if wire == 0:
            found.append((number, value))
        else:
            assert wire == 2, data
            found.append((number, bytes(left.pop() for _byte in range(value))))
    return found


def texts(data: bytes, number: int) -> list[str]:
    return [value.decode() for key, value in decode(data) if key == number]


class Device(t.NamedTuple):
    health: str
    numa: list[int]


class Plugin:
    """A registered plugin, as kubelet uses it: its list of devices is watched from the start."""

    def __init__(self, directory: Path, endpoint: str, options: bytes) -> None:
        self.endpoint = endpoint
        self.options = decode(options)
        self.lists: list[dict[str, Device]] = []
        self.ended = False
        self._channel = grpc.insecure_channel("unix:%s/%s" % (directory, endpoint))
        self._watch = self._channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch")(b"")
        self._reader = futures.ThreadPoolExecutor(1)
        self._reader.submit(self._read)

    def _read(self) -> None:
        try:
            for answer in self._watch:
                self.lists.append(dict(_device(value) for _one, value in decode(answer)))
        except grpc.RpcError:
            pass
        self.ended = True

    def call(self, method: str, request: bytes = b"") -> bytes:
        answer: bytes = self._channel.unary_unary("/v1beta1.DevicePlugin/" + method)(request, timeout=SECONDS)
        return answer

    def allocate(self, *containers: t.Sequence[str]) -> list[tuple[dict[str, str], list[str]]]:
        """Annotations (4: key 1, value 2) and CDI devices (5: name 1) of each container."""
        answer = self.call("Allocate", encode([(1, [(1, each) for each in ids]) for ids in containers]))
        found = []
        for _one, container in decode(answer):
            pairs = [decode(value) for number, value in decode(container) if number == 4]
            annotations = {dict(pair)[1].decode(): dict(pair)[2].decode() for pair in pairs}
            found.append((annotations, [texts(each, 1)[0] for number, each in decode(container) if number == 5]))
        return found

    def prefer(self, available: t.Sequence[str], must: t.Sequence[str], size: int) -> list[str]:
        request = [*((1, each) for each in available), *((2, each) for each in must), (3, size)]
        ((_one, container),) = decode(self.call("GetPreferredAllocation", encode([(1, request)])))
        return texts(container, 1)

    def close(self) -> None:
        self._watch.cancel()
        self._channel.close()
        self._reader.shutdown()


def _device(data: bytes) -> tuple[str, Device]:
    parts = dict(decode(data))  # ID 1, health 2, topology 3: nodes 1: ID 1, which is left out for 0
    nodes = [dict(decode(node)).get(1, 0) for _one, node in decode(parts.get(3, b""))]
    return parts[1].decode(), Device(parts[2].decode(), nodes)


class Kubelet:
    """A kubelet on ``root``; ``pods``: what its list of pod resources answers, until it is replaced."""

    def __init__(self, root: Path, pods: Tree = ()) -> None:
        self.directory = root / PLUGINS
        self.directory.mkdir(parents=True, exist_ok=True)
        (root / RESOURCES).mkdir(parents=True, exist_ok=True)
        for path in self.directory.iterdir():
            path.unlink()
        self.plugins: dict[str, Plugin] = {}
        self.refused = ""
        self.pause: t.Callable[[], t.Any] = lambda: None
        self.pods = pods
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        self.listed = 0

        def listed(_request: bytes, _context: t.Any) -> bytes:
            self.listed += 1
            return encode(self.pods)

        services = {
            "v1beta1.Registration": {"Register": grpc.unary_unary_rpc_method_handler(self._register)},
            "v1.PodResourcesLister": {"List": grpc.unary_unary_rpc_method_handler(listed)},
        }
        for name, handlers in services.items():
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
        for path in (self.directory / "kubelet.sock", root / RESOURCES / "kubelet.sock"):
            self._server.add_insecure_port("unix:%s" % path)
        self._server.start()

    def _register(self, request: bytes, context: t.Any) -> bytes:
        fields = dict(decode(request))  # version 1, endpoint 2, resource_name 3, options 4
        self.pause()
        if self.refused:
            context.abort(grpc.StatusCode.INTERNAL, self.refused)
        assert fields[1] == b"v1beta1"
        resource = fields[3].decode()
        old = self.plugins.pop(resource, None)
        self.plugins[resource] = Plugin(self.directory, fields[2].decode(), fields[4])
        if old:
            old.close()
        return b""

    def wait(self, what: t.Callable[[], t.Any]) -> t.Any:
        """What ``what`` gives, as soon as it is true."""
        return wait_for(what, lambda: self.plugins)

    def devices(self, resource: str) -> dict[str, Device]:
        """The newest list of a resource's devices; waits for the first, also of a plugin that registers again."""

        def lists() -> list[dict[str, Device]]:
            plugin = self.plugins.get(resource)
            return plugin.lists if plugin else []

        newest: dict[str, Device] = self.wait(lists)[-1]
        return newest

    def stop(self) -> None:
        """As a kubelet that ends: its sockets are gone, its calls end."""
        self._server.stop(0).wait()
        for plugin in list(self.plugins.values()):
            plugin.close()


def runtime(root: Path, containers: t.Sequence[tuple[str, str, str]]) -> t.Any:
    """A server of CRI on containerd's socket, with these running containers: namespace, pod and container of each."""
    keys = ("io.kubernetes.pod.namespace", "io.kubernetes.pod.name", "io.kubernetes.container.name")

    def answer(request: bytes, context: t.Any) -> bytes:
        # filter 1: state 2: state 1: CONTAINER_RUNNING 1
        assert decode(decode(decode(request)[0][1])[0][1]) == [(1, 1)]
        # containers 1: id 1, labels 8: key 1, value 2
        rows = [(1, [(1, "c"), *((8, [(1, key), (2, value)]) for key, value in zip(keys, row))]) for row in containers]
        return encode(rows)

    handlers = {"ListContainers": grpc.unary_unary_rpc_method_handler(answer)}
    server = grpc.server(futures.ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("runtime.v1.RuntimeService", handlers),))
    (root / "run/containerd").mkdir(parents=True)
    server.add_insecure_port("unix:%s/run/containerd/containerd.sock" % root)
    server.start()
    return server

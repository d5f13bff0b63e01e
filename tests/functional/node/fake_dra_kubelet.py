# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubelet's side of DRA drivers, on the unix sockets of a directory of the test's own.

Written from the protocol: a client of each registration socket (service pluginregistration.Registration), and of the
driver that it names. Field numbers are beside each use.

:meth:`DraKubelet.sync` and :meth:`DraKubelet.end` are passes of a pod's worker, as in Kubernetes 1.36: a pod whose
claims were refused is tried again only by the resync, a claim in the kubelet's record is not prepared twice, and a pod
does not end while the driver of its claims is not registered.
"""

from __future__ import annotations

import contextlib
import socket
import time
import typing as t
from pathlib import Path

import grpc

from tests.functional.node.fake_kubelet import decode, encode, texts
from tests.waiting import SECONDS, wait_for

SERVICE = "k8s.io.kubelet.pkg.apis.dra.%s.DRAPlugin"
Claim = t.Tuple[str, str, str]  # namespace, uid, name


def serves(path: Path) -> bool:
    """Whether a program serves a unix socket; a killed agent leaves its sockets."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(str(path)) == 0


class Prepared(t.NamedTuple):
    requests: list[str]
    pool: str
    device: str
    cdi: list[str]


class Health(t.NamedTuple):
    pool: str
    health: int
    updated: int
    limit: int
    message: str


class DraKubelet:
    """A kubelet that found the driver ``name`` in its directory, and registered it.

    ``record``: uid -> the prepared claim, as in the file ``dra_manager_state``, which survives reboots.

    :param resync: seconds until a pod whose claims were refused is tried again; the real kubelet's are 60 to 90.
    """

    def __init__(
        self, root: Path, name: str = "railyard.fabric", version: str = "v1", error: str = "", resync: float = 60
    ) -> None:
        self._root = root
        self.record: dict[str, Claim] = {}
        self._resync = resync
        self._refused: dict[str, float] = {}
        registry = root / "var/lib/kubelet/plugins_registry"
        self._registration = registry / (name + "-reg.sock")
        wait_for(lambda: serves(self._registration), "no registration socket")
        with contextlib.closing(self._channel("%s/%s-reg.sock" % (registry, name))) as registrar:
            service = "/pluginregistration.Registration/"
            info = registrar.unary_unary(service + "GetInfo")(b"", timeout=SECONDS)
            fields = dict(decode(info))  # type 1, name 2, endpoint 3, supported_versions 4
            self.type, self.name = fields[1].decode(), fields[2].decode()
            self.versions = texts(info, 4)
            self.endpoint = fields[3].decode()
            # the driver answers before kubelet knows of it
            self._driver = self._channel(str(root) + self.endpoint)
            self._service = SERVICE % version
            assert self.prepare() == {}
            # plugin_registered 1, error 2
            status = encode([(2, error)] if error else [(1, 1)])
            registrar.unary_unary(service + "NotifyRegistrationStatus")(status, timeout=SECONDS)

    @staticmethod
    def _channel(path: str) -> t.Any:
        return grpc.insecure_channel("unix:" + path, options=[("grpc.default_authority", "localhost")])

    def call(self, method: str, request: bytes) -> bytes:
        answer: bytes = self._driver.unary_unary("/%s/%s" % (self._service, method))(request, timeout=SECONDS)
        return answer

    def _claims(self, method: str, claims: t.Sequence[Claim]) -> dict[str, bytes]:
        request = encode([(1, [(1, namespace), (2, uid), (3, name)]) for namespace, uid, name in claims])
        entries = [dict(decode(entry)) for _one, entry in decode(self.call(method, request))]
        return {entry[1].decode(): entry.get(2, b"") for entry in entries}  # a map: key 1, value 2

    def prepare(self, *claims: Claim) -> dict[str, str | list[Prepared]]:
        """uid -> devices 1 (request_names 1, pool_name 2, device_name 3, cdi_device_ids 4), or error 2."""
        found: dict[str, str | list[Prepared]] = {}
        for uid, answer in self._claims("NodePrepareResources", claims).items():
            devices = [value for key, value in decode(answer) if key == 1]
            found[uid] = "".join(texts(answer, 2)) or [
                Prepared(texts(each, 1), texts(each, 2)[0], texts(each, 3)[0], texts(each, 4)) for each in devices
            ]
        return found

    def unprepare(self, *claims: Claim) -> dict[str, str]:
        """uid -> error 1, empty for none."""
        answers = self._claims("NodeUnprepareResources", claims)
        return {uid: "".join(texts(answer, 1)) for uid, answer in answers.items()}

    @property
    def registered(self) -> bool:
        """Whether the driver's registration socket is there. When it goes, the kubelet forgets the driver."""
        return self._registration.is_socket()

    def sync(self, pod: str, *claims: Claim) -> str:
        """Prepare a pod's claims. Return the reason why the pod does not start; empty if it starts."""
        if time.monotonic() < self._refused.get(pod, 0):
            return "the pod waits for the resync"
        if not self.registered:
            return "DRA driver is not registered"
        answers = self.prepare(*(claim for claim in claims if claim[1] not in self.record))
        refused = [answer for answer in answers.values() if isinstance(answer, str)]
        self.record.update((claim[1], claim) for claim in claims if not isinstance(answers.get(claim[1]), str))
        if refused:
            self._refused[pod] = time.monotonic() + self._resync
        return "; ".join(refused)

    def end(self, *claims: Claim) -> str:
        """Unprepare the claims of a pod whose containers have ended. Return why the pod stays; empty if it ends."""
        known = [claim for claim in claims if claim[1] in self.record]
        if known and not self.registered:
            return "unprepare dynamic resources: DRA driver is not registered"
        failed = {uid: error for uid, error in self.unprepare(*known).items() if error}
        for claim in known:
            if claim[1] not in failed:
                del self.record[claim[1]]
        return "; ".join(failed.values())

    def health(self, version: str) -> t.Iterator[dict[str, Health]]:
        """Each NodeWatchResourcesResponse, by device: devices 1 (device 1 (pool_name 1, device_name 2), health 2,
        last_updated_time 3, health_check_timeout_seconds 4, message 5).
        """
        call = self._driver.unary_stream("/%s.DRAResourceHealth/NodeWatchResources" % version)
        for answer in call(b"", timeout=120):
            found = {}
            for _one, device in decode(answer):
                held = dict(decode(device))
                identity = held[1]
                message = held.get(5, b"").decode()
                found[texts(identity, 2)[0]] = Health(texts(identity, 1)[0], held[2], held[3], held[4], message)
            yield found

    def close(self) -> None:
        self._driver.close()

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sockets of a DRA driver: the driver's, and the registration socket by which the kubelet finds it.

The kubelet watches the directory of registration sockets. It calls each socket when it appears, and when the kubelet
restarts.
"""

from __future__ import annotations

import os
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet import dra_messages as messages
from ansible_collections.railyard.fabric.plugins.module_utils._node.kubelet.unix_sockets import (
    Log,
    Stream,
    UnixServer,
    answered,
)

REGISTRY = "/var/lib/kubelet/plugins_registry"
PLUGINS = "/var/lib/kubelet/plugins"
Claims = t.Sequence[messages.ClaimReference]
Prepare = t.Callable[[Claims], t.Mapping[str, t.Union[str, t.Sequence[messages.PreparedDevice]]]]
Unprepare = t.Callable[[Claims], t.Mapping[str, str]]


class DraServer:
    """Serves a driver to the kubelet.

    ``registrations``: how many times the kubelet has registered it. ``refusal``: the kubelet's last error. ``health``:
    the stream of NodeWatchResourcesResponse.

    :param registered: called after each registration.
    """

    def __init__(
        self,
        system: System,
        driver: str,
        prepare: Prepare,
        unprepare: Unprepare,
        registered: t.Callable[[], None],
        log: Log,
    ) -> None:
        self._system = system
        self._driver = driver
        self._registered = registered
        self._log = log
        self.registrations = 0
        self.refusal = ""
        self._endpoint = "%s/%s/dra.sock" % (PLUGINS, driver)

        def methods(service: dict[str, t.Callable[[bytes], bytes]]) -> dict[str, t.Any]:
            return {name: answered(act, driver, log) for name, act in service.items()}

        driver_methods = methods(
            {
                "NodePrepareResources": lambda data: messages.prepare_response(prepare(messages.claims(data))),
                "NodeUnprepareResources": lambda data: messages.unprepare_response(unprepare(messages.claims(data))),
            }
        )
        registration = methods(
            {
                "GetInfo": lambda _request: messages.plugin_info(driver, self._endpoint),
                "NotifyRegistrationStatus": self._notified,
            }
        )
        self.health = Stream()
        health_methods = {"NodeWatchResources": self.health.handler()}
        services = {name: driver_methods for name in messages.SERVICES.values()}
        services.update((name, health_methods) for name in messages.HEALTH_SERVICES)
        self._server = UnixServer(system, self._endpoint, services)
        path = "%s/%s-reg.sock" % (REGISTRY, driver)
        self._registrar = UnixServer(system, path, {messages.REGISTRATION: registration})

    def keep(self) -> None:
        """Start or continue to serve on both sockets, first on the driver's.

        :raises RailyardError: if it fails and must be tried again.
        """
        if not self._server.serving:
            self.stop()
            try:
                for directory in (os.path.dirname(self._endpoint), REGISTRY):
                    os.makedirs(self._system.path(directory), mode=0o750, exist_ok=True)
            except OSError as error:
                remedy = "make its directory writable for root"
                raise RailyardError("cannot be created: %s" % error.strerror, directory, remedy) from None
            self._server.start()
        if not self._registrar.serving:
            self._registrar.stop()
            self.registrations = 0
            self._registrar.start()
        if self.refusal:
            remedy = "read the log of kubelet: journalctl -u kubelet"
            raise RailyardError("kubelet did not register it: %s" % self.refusal, "driver " + self._driver, remedy)

    def stop(self) -> None:
        """Stop serving, and remove both sockets."""
        self.registrations = 0
        self._registrar.stop()
        self._server.stop()

    def _notified(self, request: bytes) -> bytes:
        registered, self.refusal = messages.registration_status(request)
        if registered:
            self.refusal = ""
            self.registrations += 1
            self._log("driver %s is registered with kubelet" % self._driver)
            self._registered()
        else:
            self.refusal = self.refusal or "no reason given"
        return b""

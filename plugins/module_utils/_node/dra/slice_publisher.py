# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Publishes the node's ResourceSlices in a separate thread, so that an unreachable API server does not block the agent.

The kubelet deletes a node's slices when it starts, and the slices of a driver 30 seconds after its connection is lost.
"""

from __future__ import annotations

import threading
import time
import typing as t
import urllib.parse

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.node_api import (
    WRONG_SERVER,
    ApiError,
    ApiServer,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.resource_slices import (
    Row,
    SliceDevice,
    lost_taints,
    specs,
    writes,
)

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
# Seconds between comparisons: while the kubelet may still delete slices; after a failure; otherwise.
SOON, RETRY, LATER = 10.0, 5.0, 300.0
# Seconds after a registration or a failure during which SOON applies: a kubelet that has started deletes slices when
# the API server answers it, and repeats this after at most five minutes.
UNSTABLE_SECONDS = 360.0


class SlicePublisher:
    """Writes the slices of one driver on one node, if they differ from the desired ones."""

    def __init__(self, api: t.Callable[[], ApiServer], driver: str, node: str) -> None:
        self._api = api
        self._driver = driver
        self._node = node
        self._tainted = True
        self._owner: Row | None = None

    def publish(self, devices: t.Sequence[SliceDevice]) -> int:
        """Write the slices of the devices. Return the number of writes. Raises :class:`RailyardError`."""
        api = self._api()
        selector = urllib.parse.quote("spec.nodeName=%s,spec.driver=%s" % (self._node, self._driver), safe="")
        observed = api.request("GET", "%s?fieldSelector=%s" % (SLICES, selector)).get("items") or []
        desired = specs(self._driver, self._node, devices, self._tainted)
        needed = writes(desired, observed, None)
        if not needed.total:
            return 0
        needed = writes(desired, observed, self._node_reference(api))
        lost = False
        for document in needed.created:
            lost |= lost_taints(document, api.request("POST", SLICES, document))
        for document in needed.updated:
            path = "%s/%s" % (SLICES, document["metadata"]["name"])
            lost |= lost_taints(document, api.request("PUT", path, document))
        for name in needed.deleted:
            try:
                api.request("DELETE", "%s/%s" % (SLICES, name))
            except ApiError as error:
                if error.status != 404:
                    raise
        count = needed.total
        if lost and self._tainted:
            self._tainted = False
            count += self.publish(devices)
        return count

    def _node_reference(self, api: ApiServer) -> Row:
        """Return the owner reference to the Node, with which the slices are deleted."""
        if self._owner is None:
            node = api.request("GET", "/api/v1/nodes/%s" % urllib.parse.quote(self._node, safe=""))
            uid = node["metadata"]["uid"]
            self._owner = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": uid}
        return self._owner


class PublishThread:
    """Publishes when the devices change, when the kubelet registers the driver, and periodically. Starts at once.

    ``error``: why the slices are not as desired; None if they are, or before the kubelet registered the driver.
    ``publisher`` may be replaced.
    """

    def __init__(self, publisher: SlicePublisher, log: t.Callable[[str], None]) -> None:
        self.publisher = publisher
        self._log = log
        self._changed = threading.Condition()
        self._devices: tuple[SliceDevice, ...] | None = None
        self._due = False
        self._ending = False
        self._registered = False
        self._unstable_until = 0.0
        self.error: RailyardError | None = None
        self._thread = threading.Thread(target=self._run, name="slices", daemon=True)
        self._thread.start()

    def update(self, devices: t.Iterable[SliceDevice]) -> None:
        """Set the devices to publish."""
        with self._changed:
            new = tuple(devices)
            self._due |= new != self._devices
            self._devices = new
            self._changed.notify()

    def registered(self) -> None:
        """Report that the kubelet has registered the driver."""
        with self._changed:
            self._registered = True
            self._unstable_until = time.monotonic() + UNSTABLE_SECONDS
            self._due = True
            self._changed.notify()

    def close(self) -> None:
        """End the thread. The slices stay: the kubelet deletes them if the driver does not return."""
        with self._changed:
            self._ending = True
            self._changed.notify()

    def _run(self) -> None:
        pause = LATER
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ending or self._due, pause)
                if self._ending:
                    return
                if not self._registered or self._devices is None:
                    # a driver that is not registered cannot serve the devices
                    self._due = False
                    continue
                devices, self._due = self._devices, False
            try:
                written = self.publisher.publish(devices)
                if self.error:
                    self.error = None
                    self._unstable_until = time.monotonic() + UNSTABLE_SECONDS
                pause = SOON if time.monotonic() < self._unstable_until else LATER
                if written:
                    self._log("%d ResourceSlices were written" % written)
            except RailyardError as error:
                self.error, pause = error, RETRY
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                message = "the API server's answer is wrong: %r" % error
                self.error, pause = RailyardError(message, SLICES, WRONG_SERVER), RETRY

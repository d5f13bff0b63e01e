# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Publishes the node's ResourceSlices in a thread of its own, so that an API server that is away holds nothing up.

Kubelet deletes a node's slices when it starts, and those of a driver half a minute after its connection is lost.
"""

from __future__ import annotations

import threading
import time
import typing as t
import urllib.parse

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.node_api import ApiError, ApiServer
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.resource_slices import (
    Row,
    SliceDevice,
    lost_taints,
    specs,
    writes,
)

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
# Seconds between comparisons: soon after kubelet registered the driver, as it may still delete slices, after a failure,
# and otherwise.
SOON, RETRY, LATER = 10.0, 5.0, 300.0
# Seconds after a registration during which slices are compared often.
AFTER_REGISTRATION = 120.0


class SlicePublisher:
    """The slices of one driver on one node. Nothing is written if they are as desired."""

    def __init__(self, api: t.Callable[[], ApiServer], driver: str, node: str) -> None:
        self._api = api
        self._driver = driver
        self._node = node
        self._tainted = True
        self._owner: Row | None = None

    def publish(self, devices: t.Sequence[SliceDevice]) -> int:
        """How many slices were written or deleted. Raises :class:`RailyardError`."""
        api = self._api()
        selector = urllib.parse.quote("spec.nodeName=%s,spec.driver=%s" % (self._node, self._driver), safe="")
        observed = api.request("GET", "%s?fieldSelector=%s" % (SLICES, selector)).get("items") or []
        desired = specs(self._driver, self._node, devices, self._tainted)
        needed = writes(desired, observed, None)
        if not needed.total:
            return 0
        needed = writes(desired, observed, self._node_reference(api))
        lost = False
        for method, whole in [("POST", each) for each in needed.created] + [("PUT", each) for each in needed.updated]:
            path = SLICES if method == "POST" else "%s/%s" % (SLICES, whole["metadata"]["name"])
            lost |= lost_taints(whole, api.request(method, path, whole))
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
        """The owner of the slices, with which they are deleted."""
        if self._owner is None:
            node = api.request("GET", "/api/v1/nodes/%s" % urllib.parse.quote(self._node, safe=""))
            uid = node["metadata"]["uid"]
            self._owner = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": uid}
        return self._owner


class PublishThread:
    """Publishes when the devices change, when kubelet registers the driver, and now and then; starts at once.

    ``error``: why the slices are not as desired; None if they are, or before kubelet registered the driver.
    """

    def __init__(self, publisher: SlicePublisher, log: t.Callable[[str], None]) -> None:
        self._publisher = publisher
        self._log = log
        self._changed = threading.Condition()
        self._devices: tuple[SliceDevice, ...] | None = None
        self._due = False
        self._ending = False
        self._registered: float | None = None
        self.error: RailyardError | None = None
        self._thread = threading.Thread(target=self._run, name="slices", daemon=True)
        self._thread.start()

    def update(self, devices: t.Iterable[SliceDevice]) -> None:
        """What is to be published from now on."""
        with self._changed:
            new = tuple(devices)
            self._due |= new != self._devices
            self._devices = new
            self._changed.notify()

    def registered(self) -> None:
        """Kubelet has registered the driver."""
        with self._changed:
            self._registered = time.monotonic()
            self._due = True
            self._changed.notify()

    def close(self) -> None:
        """The slices stay: kubelet deletes them if the driver does not return."""
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
                if self._registered is None or self._devices is None:
                    # a driver that kubelet does not have cannot serve the devices
                    self._due = False
                    continue
                devices, since, self._due = self._devices, time.monotonic() - self._registered, False
            try:
                written = self._publisher.publish(devices)
                self.error = None
                pause = SOON if since < AFTER_REGISTRATION else LATER
                if written:
                    self._log("%d ResourceSlices were written" % written)
            except RailyardError as error:
                self.error, pause = error, RETRY
            except (KeyError, TypeError, ValueError) as error:
                remedy = "see that kubelet's kubeconfig names the cluster's API server"
                self.error, pause = RailyardError("the API server's answer is wrong: %r" % error, SLICES, remedy), RETRY

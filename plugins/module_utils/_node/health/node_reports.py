# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reports the health of the rails to Kubernetes: a condition and a taint of the Node, and cordons of rails.

A separate thread sends them, so that an API server that does not answer does not stop the observation of the rails.
"""

from __future__ import annotations

import json
import threading
import time
import typing as t
import urllib.parse

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.node_api import (
    WRONG_SERVER,
    ApiError,
    ApiServer,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import cordon_file, fault_holds
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.fault_holds import REPORTED
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_spec import HealthSpec, Kubernetes
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_state import (
    FAIL,
    PASS,
    UNKNOWN,
    HealthState,
    RailState,
)

CONDITION, TAINT = "RailsHealthy", "health.railyard.fabric/rail-fault"
# The writer of cordons in cordons.json.
BY = "railyard-health"
# The node file of the agent, without which cordons have no effect.
AGENT = "/etc/railyard/agent.json"
# Seconds between two reports of an unchanged state, after a failed one, and at most between two looks at the cordons.
HEARTBEAT, RETRY, PAUSE = 300.0, 10.0, 5.0
# Seconds for the last request of a service that ends.
END_SECONDS = 3.0
# Longest message of a condition, in characters.
MESSAGE_MAX = 1000
STRATEGIC, MERGE = "application/strategic-merge-patch+json", "application/merge-patch+json"
# Condition of all rails -> status and reason of the condition.
_STATUS = {PASS: ("True", "RailsPass"), FAIL: ("False", "RailsFail"), UNKNOWN: ("Unknown", "RailsUnknown")}
Row = t.Dict[str, t.Any]
Api = t.Callable[[System, t.Optional[str]], ApiServer]


def api_server(system: System, kubeconfig: str | None) -> ApiServer:
    return ApiServer(system, kubeconfig, "health.kubernetes.kubeconfig", BY)


class Reported(t.NamedTuple):
    """What the service may have written, on which Node and with which kubeconfig. The kinds are options of the spec."""

    node: str
    kubeconfig: str | None
    condition: bool = False
    taints: bool = False
    cordon: bool = False


def reported(system: System) -> Reported | None:
    """Return the record; None if nothing was written. Raises :class:`.RailyardError` if it is damaged."""
    text = system.read_file(REPORTED)
    if text is None:
        return None
    try:
        return Reported(**json.loads(text))
    except (RecursionError, TypeError, ValueError) as error:
        remedy = "remove the file, and the condition, the taint and the cordons of the service by hand"
        raise RailyardError("is damaged (%r)" % error, REPORTED, remedy) from None


def _wanted(spec: HealthSpec) -> Reported | None:
    """Return what the service may write by a spec; None if nothing."""
    options = spec.kubernetes
    if options is None or not (options.condition or options.taints or options.cordon):
        return None
    return Reported(spec.node, options.kubeconfig, options.condition, options.taints, options.cordon)


class Report(t.NamedTuple):
    """What the Node must have. ``condition``: status, reason and message; None: no condition. ``taint``: whether it has
    the taint; None: the taint is not changed.
    """

    condition: tuple[str, str, str] | None
    taint: bool | None


def report(state: HealthState, held: t.Collection[str], options: Kubernetes) -> Report:
    """Return the report of a state. ``held``: rails that fail, or whose hold time is not over."""
    condition = None
    if options.condition:
        states = {rail.state for rail in state.rails}
        result = FAIL if FAIL in states else PASS if states == {PASS} and state.ready else UNKNOWN
        condition = (*_STATUS[result], _message(state))
    return Report(condition, bool(held) if options.taints else None)


def _message(state: HealthState) -> str:
    """Return the rails that do not pass with their codes. Values that change often are omitted: each change is sent."""
    bad = [rail for rail in state.rails if rail.state != PASS or rail.degraded]
    if not bad:
        return "%d rails pass" % len(state.rails) if state.ready else "not all rails are read yet"
    parts = ["%s: %s" % (rail.rail, " ".join([_word(rail), *_codes(rail)])) for rail in bad]
    text = "; ".join(parts)
    return text if len(text) <= MESSAGE_MAX else text[: MESSAGE_MAX - 3] + "..."


def _word(rail: RailState) -> str:
    return "degraded" if rail.state == PASS else rail.state


def _codes(rail: RailState) -> list[str]:
    return sorted({"%s %s" % (finding.code, finding.name) for finding in rail.findings})


class NodeObject:
    """The Node of this node on the API server."""

    def __init__(self, api: ApiServer, node: str) -> None:
        self._api = api
        self._path = "/api/v1/nodes/%s" % urllib.parse.quote(node, safe="")

    def apply(self, wanted: Report, now: float, seconds: float = 10.0) -> int:
        """Write what differs, and the time of the report. Return the number of writes.

        :param now: seconds since 1970.
        :raises RailyardError: if the API server does not answer, or refuses the write.
        """
        node = self._api.request("GET", self._path, seconds=seconds)
        writes = 0
        if wanted.condition:
            row = condition(wanted.condition, node["status"].get("conditions") or [], now)
            # with the resourceVersion that the taint needs
            node = self._patch_status(row, seconds)
            writes += 1
        return writes + (self._taint(node, wanted.taint, seconds) if wanted.taint is not None else 0)

    def withdraw(self, has_condition: bool, has_taint: bool) -> None:
        """Remove the condition and the taint, if the Node has them. Raises :class:`RailyardError`."""
        try:
            node = self._api.request("GET", self._path)
        except ApiError as error:
            if error.absent:
                return
            raise
        present = {row["type"] for row in node["status"].get("conditions") or []}
        if has_condition and CONDITION in present:
            node = self._patch_status({"$patch": "delete", "type": CONDITION}, 10.0)
        if has_taint:
            self._taint(node, False, 10.0)

    def _patch_status(self, row: Row, seconds: float) -> Row:
        document = {"status": {"conditions": [row]}}
        return self._api.request("PATCH", self._path + "/status", document, STRATEGIC, seconds)

    def _taint(self, node: Row, tainted: bool, seconds: float) -> int:
        """Add or remove the taint, and keep all others. The list is replaced only if no program changed it."""
        before = node["spec"].get("taints") or []
        others = [taint for taint in before if taint["key"] != TAINT]
        if tainted == (len(others) < len(before)):
            return 0
        taints = [*others, {"key": TAINT, "effect": "NoSchedule"}] if tainted else others
        version = node["metadata"]["resourceVersion"]
        document = {"metadata": {"resourceVersion": version}, "spec": {"taints": taints or None}}
        self._api.request("PATCH", self._path, document, MERGE, seconds)
        return 1


def condition(wanted: tuple[str, str, str], observed: t.Sequence[Row], now: float) -> Row:
    """Return the condition of the Node. Its time of transition stays while the status does.

    :param observed: the conditions of the Node. :param now: seconds since 1970.
    """
    status, reason, message = wanted
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    before = next((row for row in observed if row["type"] == CONDITION), {})
    changed = before.get("lastTransitionTime") if before.get("status") == status else None
    row = {"type": CONDITION, "status": status, "reason": reason, "message": message}
    return dict(row, lastHeartbeatTime=moment, lastTransitionTime=changed or moment)


class RailCordons:
    """Cordons the rails that fail, until their hold time is over."""

    def __init__(self, system: System, log: t.Callable[[str], None]) -> None:
        self._system = system
        self._log = log

    def held(self, state: HealthState, now: float) -> dict[str, RailState]:
        """Follow the rails, and return those that fail or whose hold time is not over.

        :param now: seconds of the monotonic clock.
        :raises RailyardError: if the record of failures is damaged or cannot be written.
        """
        record = fault_holds.holds(self._system)
        before = record.all()
        found = {}
        for rail in state.rails:
            hold = fault_holds.follow(before.get(rail.rail), rail.rail, rail.state, now)
            if hold != before.get(rail.rail):
                record.update(rail.rail, lambda _observed, hold=hold: hold)  # type: ignore[misc]
            if hold and hold.active(now):
                found[rail.rail] = rail
        return found

    def apply(self, held: t.Mapping[str, RailState]) -> None:
        """Cordon these rails, and remove the service's cordons of others. Raises :class:`RailyardError`."""
        file = cordon_file.cordons(self._system)
        observed = file.all()
        if self._system.exists(AGENT):
            for name, rail in held.items():
                if name not in observed:
                    reason = "; ".join(_codes(rail)) or "it has failed, and must pass for longer"
                    cordon_file.put_own(file, cordon_file.Cordon(name, "railyard-health: " + reason, BY))
                    self._log("rail %s: cordoned: %s" % (name, reason))
        for name, row in observed.items():
            if row.by == BY and name not in held:
                cordon_file.remove_own(file, name, BY)
                self._log("rail %s: not cordoned" % name)


class NodeReports:
    """Reports each state of the service in its own thread, which starts at once.

    ``error``: why the last report failed; None if it did not. :meth:`update` does not wait.

    :param api: returns the API server of a kubeconfig; replaced in tests.
    """

    def __init__(
        self,
        system: System,
        log: t.Callable[[str], None],
        api: Api = api_server,
    ) -> None:
        self._system = system
        self._log = log
        self._api = api
        self._cordons = RailCordons(system, log)
        self._changed = threading.Condition()
        self._latest: tuple[HealthSpec, HealthState] | None = None
        self._ending = False
        self._sent: Report | None = None
        self._sent_at = float("-inf")
        self.error: RailyardError | None = None
        self._thread = threading.Thread(target=self._run, name="reports", daemon=True)
        self._thread.start()

    def update(self, spec: HealthSpec, state: HealthState) -> None:
        """Report a state. What an option that ended has written is removed."""
        with self._changed:
            self._latest = spec, state
            self._changed.notify()

    def close(self) -> None:
        """End the thread. The condition becomes ``Unknown``. The taint and the cordons stay."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join(END_SECONDS)

    def _run(self) -> None:
        last: HealthSpec | None = None
        kept: Reported | None = None
        wait = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ending, wait)
                self._changed.wait_for(lambda: self._ending or self._latest is not None)
                if self._ending or self._latest is None:
                    break
                latest = self._latest
            wait = PAUSE
            try:
                if last is None or kept != _wanted(latest[0]):
                    withdraw(self._system, _wanted(latest[0]), self._api)
                    kept, self._sent = _wanted(latest[0]), None
                last = latest[0]
                self._report(*latest)
                self.error = None
            except RailyardError as error:
                wait = RETRY
                if str(error) != str(self.error):
                    self._log(str(error))
                self.error = error
        if last and last.kubernetes and last.kubernetes.condition:
            self._say_unknown(last, last.kubernetes)

    def _report(self, spec: HealthSpec, state: HealthState) -> None:
        """Write cordons, and the Node if its report has changed or is old. Raises :class:`RailyardError`."""
        options = spec.kubernetes
        if options is None:
            return
        held = self._cordons.held(state, time.monotonic()) if options.taints or options.cordon else {}
        if options.cordon:
            self._cordons.apply(held)
        wanted = report(state, held, options)
        now = time.monotonic()
        if wanted == Report(None, None) or (wanted == self._sent and now - self._sent_at < HEARTBEAT):
            return
        self._apply(spec, options, wanted)
        self._sent, self._sent_at = wanted, now

    def _apply(self, spec: HealthSpec, options: Kubernetes, wanted: Report, seconds: float = 10.0) -> None:
        try:
            NodeObject(self._api(self._system, options.kubeconfig), spec.node).apply(wanted, time.time(), seconds)
        except (AttributeError, KeyError, TypeError) as error:
            raise RailyardError("the API server's answer is wrong: %r" % error, spec.node, WRONG_SERVER) from None

    def _say_unknown(self, spec: HealthSpec, options: Kubernetes) -> None:
        stopped = Report(("Unknown", "HealthServiceStopped", "railyard-health does not run"), None)
        try:
            self._apply(spec, options, stopped, END_SECONDS / 2)
        except RailyardError as error:
            self._log(str(error))


def withdraw(system: System, kept: Reported | None = None, api: Api = api_server) -> None:
    """Remove what the service has written and must not write any more: condition, taint and cordons.

    :param kept: what the service writes from now on, which is recorded; None: nothing.
    :raises RailyardError: if the API server does not answer, or a file cannot be written. The record then stays.
    """
    before = reported(system)
    if before and before != kept:
        same = kept if kept and kept.node == before.node else None
        kubeconfig = before.kubeconfig
        if kept and kubeconfig and not system.exists(kubeconfig):
            kubeconfig = kept.kubeconfig
        if before.cordon and not (kept and kept.cordon):
            file = cordon_file.cordons(system)
            for name, row in file.all().items():
                if row.by == BY:
                    cordon_file.remove_own(file, name, BY)
        ends = [before.condition and not (same and same.condition), before.taints and not (same and same.taints)]
        if any(ends):
            NodeObject(api(system, kubeconfig), before.node).withdraw(*ends)
    if kept is None:
        system.forget_file(REPORTED)
    elif before != kept:
        system.write_file(REPORTED, json.dumps(kept._asdict()) + "\n", 0o600)

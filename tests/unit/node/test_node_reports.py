# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the health service reports to Kubernetes: condition, taint and cordons, and that it removes them again."""

from __future__ import annotations

import copy
import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.dra.node_api import ApiError, ApiServer
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import (
    cordon_file,
    fault_holds,
    health_spec,
    health_state,
    node_reports,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.cordon_file import Cordon
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.fault_holds import FIRST, FORGOTTEN, follow
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.health_spec import Kubernetes
from ansible_collections.railyard.fabric.plugins.module_utils._node.health.node_reports import (
    BY,
    CONDITION,
    TAINT,
    NodeObject,
    NodeReports,
    RailCordons,
    Report,
    Reported,
    condition,
    report,
    reported,
    withdraw,
)
from tests.unit.node.health_states import NOW, Row, finding, put, rail, state
from tests.waiting import wait_for

ALL = Kubernetes(None, True, True, True, True)
NOTHING = Kubernetes(None, False, False, False, False)
BAD = rail(2, "fail", findings=[finding(name="rail-link-down")])
LESS = rail(3, degraded=True, findings=[finding("RV422", name="plane-lost", plane=2)])
OTHER = {"key": "example.com/other", "value": "x", "effect": "NoExecute"}


class Api(ApiServer):
    """The Node of an API server: merges conditions by type, and replaces taints with the newest resourceVersion."""

    def __init__(self) -> None:
        self.node: Row = {
            "metadata": {"resourceVersion": "1"},
            "spec": {},
            "status": {"conditions": [{"type": "Ready"}]},
        }
        self.requests: list[tuple[str, str]] = []
        self.error: RailyardError | None = None

    def request(self, method: str, path: str, body: Row | None = None, kind: str = "", seconds: float = 0) -> Row:
        self.requests.append((method, path))
        if self.error:
            raise self.error
        if method == "PATCH" and path.endswith("/status"):
            assert kind == node_reports.STRATEGIC and body
            (row,) = body["status"]["conditions"]
            others = [each for each in self.node["status"]["conditions"] if each["type"] != row["type"]]
            self.node["status"]["conditions"] = others + ([] if row.get("$patch") == "delete" else [row])
        elif method == "PATCH":
            assert kind == node_reports.MERGE and body
            if body["metadata"]["resourceVersion"] != self.node["metadata"]["resourceVersion"]:
                raise ApiError("the object has been modified", path, "", 409)
            self.node["spec"]["taints"] = body["spec"]["taints"]
        if method == "PATCH":
            self.node["metadata"]["resourceVersion"] += "1"
        return copy.deepcopy(self.node)

    @property
    def conditions(self) -> dict[str, str]:
        return {row["type"]: row.get("status", "") for row in self.node["status"]["conditions"]}

    @property
    def taints(self) -> list[str]:
        return [row["key"] for row in self.node["spec"].get("taints") or []]


@pytest.fixture
def system(tmp_path: Path) -> System:
    made = System(str(tmp_path))
    made.write_file(node_reports.AGENT, "{}")
    return made


def read(system: System, *rails: Row, **changed: t.Any) -> health_state.HealthState:
    put(Path(system.root), state(*rails, **changed), NOW)
    return health_state.read_state(system)


def spec(kubernetes: Kubernetes | None = ALL) -> health_spec.HealthSpec:
    document = {"format": 1, "fabric": "ai", "node": "hgx-1", "rails": []}
    return health_spec.parse_spec(document)._replace(kubernetes=kubernetes)


@pytest.mark.parametrize(
    "rails, ready, held, wanted",
    [
        ([rail()], True, [], Report(("True", "RailsPass", "1 rails pass"), False)),
        ([rail(), BAD], True, ["gpu02"], Report(("False", "RailsFail", "gpu02: fail RV402 rail-link-down"), True)),
        ([LESS], True, [], Report(("True", "RailsPass", "gpu03: degraded RV422 plane-lost"), False)),
        ([rail()], True, ["gpu01"], Report(("True", "RailsPass", "1 rails pass"), True)),
        ([rail(1, "unknown")], True, [], Report(("Unknown", "RailsUnknown", "gpu01: unknown"), False)),
        ([rail()], False, [], Report(("Unknown", "RailsUnknown", "not all rails are read yet"), False)),
        ([BAD], False, ["gpu02"], Report(("False", "RailsFail", "gpu02: fail RV402 rail-link-down"), True)),
    ],
)
def test_the_report_of_a_state(system: System, rails: list[Row], ready: bool, held: list[str], wanted: Report) -> None:
    found = read(system, *rails, ready=ready)
    assert report(found, held, ALL) == wanted
    assert report(found, held, NOTHING) == Report(None, None)


def test_the_node_gets_the_report_and_keeps_all_else() -> None:
    api = Api()
    node = NodeObject(api, "hgx-1")
    api.node["spec"]["taints"] = [OTHER]
    bad = Report(("False", "RailsFail", "gpu02"), True)
    assert node.apply(bad, NOW) == 2 and node.apply(bad, NOW + 60) == 1
    assert api.conditions == {"Ready": "", CONDITION: "False"} and api.taints == [OTHER["key"], TAINT]
    row = api.node["status"]["conditions"][-1]
    assert row["lastTransitionTime"] == "2026-11-18T11:06:40Z" and row["lastHeartbeatTime"] == "2026-11-18T11:07:40Z"
    node.apply(Report(("True", "RailsPass", ""), False), NOW + 120)
    assert api.node["spec"]["taints"] == [OTHER] and api.conditions[CONDITION] == "True"
    assert api.node["status"]["conditions"][-1]["lastTransitionTime"] == "2026-11-18T11:08:40Z"
    node.apply(bad, NOW)
    node.withdraw(True, True)
    assert api.node["spec"]["taints"] == [OTHER] and api.conditions == {"Ready": ""}
    writes = len(api.requests)
    node.withdraw(True, True)
    assert len(api.requests) == writes + 1


def test_taints_of_other_programs_are_not_overwritten() -> None:
    api = Api()
    stale = copy.deepcopy(api.node)
    api.node["spec"]["taints"] = [OTHER]
    api.node["metadata"]["resourceVersion"] = "2"
    real = api.request
    api.request = lambda method, *rest, **more: stale if method == "GET" else real(method, *rest, **more)  # type: ignore
    with pytest.raises(ApiError) as caught:
        NodeObject(api, "hgx-1").apply(Report(None, True), NOW)
    assert caught.value.status == 409 and api.node["spec"]["taints"] == [OTHER]


def test_an_absent_node_needs_no_removal() -> None:
    api = Api()
    api.error = ApiError("nodes not found", "", "", 404)
    NodeObject(api, "hgx-1").withdraw(True, True)
    api.error = ApiError("no answer", "", "")
    with pytest.raises(ApiError):
        NodeObject(api, "hgx-1").withdraw(True, True)


def test_the_hold_time_doubles_with_each_failure() -> None:
    hold = None
    now = 1000.0
    for failures in range(1, 12):
        hold = follow(hold, "gpu01", "fail", now)
        assert hold and hold.failures == failures and hold.active(now + 1e9)
        assert follow(hold, "gpu01", "unknown", now + 60) == hold == follow(hold, "gpu01", "fail", now + 60)
        hold = follow(hold, "gpu01", "pass", now)
        seconds = min(FIRST * 2 ** (failures - 1), fault_holds.MAXIMUM)
        assert hold and hold.active(now + seconds - 1) and not hold.active(now + seconds)
        # unknown does not count as another failure
        assert follow(hold, "gpu01", "unknown", now + 1) == hold
        now += seconds
    assert follow(hold, "gpu01", "pass", now + FORGOTTEN - 1) == hold
    assert follow(hold, "gpu01", "pass", now + FORGOTTEN) is None
    assert follow(None, "gpu01", "pass", now) is None and follow(None, "gpu01", "unknown", now) is None


def test_cordons_follow_the_rails_and_stay_over_a_restart(system: System) -> None:
    logged: list[str] = []

    def look(now: float, *rails: Row) -> dict[str, str]:
        # a new object each time, as after a restart of the service
        cordons = RailCordons(system, logged.append)
        cordons.apply(cordons.held(read(system, *rails), now))
        return {rail: row["by"] for rail, row in cordon_file.observed_cordons(system).items()}

    cordon_file.cordons(system).put(Cordon("gpu01", "a new cable"))
    assert look(0, rail(1, "fail"), BAD, rail(3)) == {"gpu01": "", "gpu02": BY}
    assert cordon_file.cordons(system).all()["gpu02"].reason == "railyard-health: RV402 rail-link-down"
    assert look(10, rail(1), rail(2)) == {"gpu01": "", "gpu02": BY}
    assert look(10 + FIRST, rail(1), rail(2)) == {"gpu01": ""}
    assert look(50, rail(1), BAD) == {"gpu01": "", "gpu02": BY}
    assert look(60, rail(1), rail(2)) == {"gpu01": "", "gpu02": BY}
    assert look(60 + FIRST, rail(1), rail(2)) == {"gpu01": "", "gpu02": BY}
    assert look(60 + 2 * FIRST, rail(1), rail(2)) == {"gpu01": ""}
    assert logged == ["rail gpu02: cordoned: RV402 rail-link-down", "rail gpu02: not cordoned"] * 2
    # a rail that the plan no longer has
    assert look(200, BAD) == {"gpu01": "", "gpu02": BY} and look(201) == {"gpu01": ""}


def test_an_administrator_takes_a_cordon_over(system: System) -> None:
    cordons = RailCordons(system, lambda _text: None)
    cordons.apply(cordons.held(read(system, BAD), 0))
    cordon_file.cordons(system).put(Cordon("gpu02", "mine"))
    cordons.apply({})
    assert cordon_file.cordons(system).all() == {"gpu02": Cordon("gpu02", "mine")}


def test_without_the_agent_nothing_is_cordoned(system: System) -> None:
    system.remove_file(node_reports.AGENT)
    cordons = RailCordons(system, lambda _text: None)
    cordons.apply(cordons.held(read(system, BAD), 0))
    assert cordon_file.observed_cordons(system) == {}


EVERYTHING = Reported("hgx-1", None, True, True, True)


def test_options_that_end_are_withdrawn(system: System) -> None:
    api = Api()

    def again() -> None:
        NodeObject(api, "hgx-1").apply(Report(("False", "RailsFail", ""), True), NOW)
        cordon_file.cordons(system).put(Cordon("gpu02", "x", BY))
        withdraw(system, EVERYTHING, lambda _system, _file: api)
        assert reported(system) == EVERYTHING

    def present() -> tuple[bool, bool, bool]:
        return CONDITION in api.conditions, TAINT in api.taints, bool(cordon_file.observed_cordons(system))

    again()
    assert present() == (True, True, True)
    withdraw(system, EVERYTHING._replace(taints=False), lambda _system, _file: api)
    assert present() == (True, False, True)
    withdraw(system, EVERYTHING._replace(taints=False, cordon=False), lambda _system, _file: api)
    assert present() == (True, False, False)
    again()
    # another Node: the old one is left as it was
    withdraw(system, EVERYTHING._replace(node="hgx-2"), lambda _system, _file: api)
    assert present() == (False, False, True)
    again()
    withdraw(system, None, lambda _system, _file: api)
    assert present() == (False, False, False) and not system.exists(fault_holds.REPORTED)
    before = len(api.requests)
    withdraw(system, None, lambda _system, _file: api)
    assert len(api.requests) == before


def test_what_cannot_be_withdrawn_is_not_forgotten(system: System) -> None:
    api = Api()
    NodeObject(api, "hgx-1").apply(Report(("False", "RailsFail", ""), True), NOW)
    withdraw(system, EVERYTHING, lambda _system, _file: api)
    api.error = ApiError("no answer", "", "")
    with pytest.raises(ApiError):
        withdraw(system, None, lambda _system, _file: api)
    assert reported(system) == EVERYTHING
    api.error = None
    withdraw(system, None, lambda _system, _file: api)
    assert reported(system) is None and api.taints == [] and api.conditions == {"Ready": ""}
    system.write_file(fault_holds.REPORTED, "{")
    with pytest.raises(RailyardError, match="damaged"):
        withdraw(system, None, lambda _system, _file: api)


def test_a_service_that_starts_without_an_option_withdraws_it(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a change while the node was down."""
    api = Api()
    NodeObject(api, "hgx-1").apply(Report(("False", "RailsFail", ""), True), NOW)
    withdraw(system, EVERYTHING, lambda _system, _file: api)
    monkeypatch.setattr(node_reports, "PAUSE", 0.01)
    reports = NodeReports(system, lambda _text: None, lambda _system, _file: api)
    reports.update(spec(NOTHING), read(system, BAD))
    wait_for(lambda: api.taints == [] and CONDITION not in api.conditions and not system.exists(fault_holds.REPORTED))
    reports.close()
    assert CONDITION not in api.conditions


def test_the_thread_reports_changes_retries_and_ends(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_reports, "PAUSE", 0.01)
    monkeypatch.setattr(node_reports, "RETRY", 0.01)
    api = Api()
    api.error = ApiError("no answer", "https://127.0.0.1", "start it")
    logged: list[str] = []
    reports = NodeReports(system, logged.append, lambda _system, _file: api)
    reports.update(spec(), read(system, rail(), BAD))
    wait_for(lambda: reports.error and len(api.requests) > 2)
    # cordons need no API server, and an error that stays is logged once
    assert "gpu02" in cordon_file.observed_cordons(system)
    assert logged == ["rail gpu02: cordoned: RV402 rail-link-down", str(api.error)]
    api.error = None
    wait_for(lambda: api.conditions.get(CONDITION) == "False" and api.taints == [TAINT] and not reports.error)
    sent = len(api.requests)
    reports.update(spec(), read(system, rail(), BAD, updated=NOW))
    reports.update(spec(ALL._replace(taints=False)), read(system, rail()))
    wait_for(lambda: api.conditions[CONDITION] == "True" and api.taints == [])
    # an unchanged state was not sent again
    assert [method for method, _path in api.requests[sent:]] == ["GET", "PATCH", "GET", "PATCH"]
    reports.close()
    assert api.conditions[CONDITION] == "Unknown"
    assert json.dumps(api.node).count("HealthServiceStopped") == 1


def test_a_wrong_answer_is_an_error(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_reports, "RETRY", 0.01)
    api = Api()
    api.node = {"kind": "Node"}
    reports = NodeReports(system, lambda _text: None, lambda _system, _file: api)
    reports.update(spec(), read(system, rail()))
    wait_for(lambda: "answer is wrong" in str(reports.error))
    reports.close()


def test_the_time_of_transition_stays_with_the_status() -> None:
    before = [{"type": CONDITION, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    assert condition(("True", "", ""), before, NOW)["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert condition(("False", "", ""), before, NOW)["lastTransitionTime"] == "2026-11-18T11:06:40Z"

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the packed health service gives to others: the check, metrics, and its reports to an API server over HTTPS."""

from __future__ import annotations

import json
import os
import signal
import typing as t
import urllib.error
import urllib.request
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.health import (
    cordon_file,
    fault_holds,
    health_metrics,
    health_state,
    node_reports,
)
from tests.functional.node.own_namespace import LiveNode, in_own_namespace, ip
from tests.functional.node.test_health_service import Health, rail, rails
from tests.standins.dra_api import BY_CERTIFICATE, BY_TOKEN, HEALTH_RIGHTS, NODE, DraApi
from tests.waiting import wait_for

OPTIONS = {"condition": True, "taints": True, "cordon": True}


def scrape(port: int = 9466) -> str:
    try:
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port, timeout=10) as answer:
            text: str = answer.read().decode()
            return text
    except urllib.error.URLError:
        return ""


@in_own_namespace
def test_metrics_are_served_or_written_for_node_exporter(live: LiveNode) -> None:
    rails(live, 1)
    ip("link", "set", "lo", "up")
    health = Health(live, rail(1))
    health.start()
    file = Path(health_metrics.TEXTFILE)
    assert 'railyard_health_rail_state{fabric="ai",node="n1",rail="gpu01"} 0' in wait_for(file.read_text)
    assert file.stat().st_mode & 0o777 == 0o644
    live.leaf("ip", "link", "set", "leaf1", "down")
    health.until_codes("RV402")
    wait_for(lambda: 'code="RV402"' in file.read_text())
    # the same over HTTP, without the file, which would be stale
    health.write(rail(1), metrics="127.0.0.1:9466")
    assert 'rail_state{fabric="ai",node="n1",rail="gpu01"} 2' in wait_for(scrape)
    assert not file.exists()
    # an address that cannot be used is a problem, and the rails are observed all the same
    health.write(rail(1), metrics="192.0.2.1:9466")
    state = health.until(lambda state: bool(state.problems))
    assert "metrics cannot be served on 192.0.2.1:9466" in state.problems[0]
    live.leaf("ip", "link", "set", "leaf1", "up")
    health.until_codes()
    health.write(rail(1), metrics="127.0.0.1:9467")
    assert wait_for(lambda: scrape(9467)) and not scrape(9466)
    health.until(lambda state: not state.problems)


@in_own_namespace
def test_the_check_follows_the_service(live: LiveNode) -> None:
    rails(live, 1, 2)
    # as on a node, and not as the directory of this test
    Path("/run").chmod(0o755)
    health = Health(live, rail(1), rail(2))
    unknown = health.command("check")
    assert unknown.returncode == 2 and "Remedy: run systemctl" in unknown.stdout
    health.start()
    health.until_codes()
    assert health.command("check", "--wait", "20").returncode == 0
    live.leaf("ip", "link", "set", "leaf2", "down")
    health.until_codes("RV402", rail=1)
    failed = health.command("check")
    assert failed.returncode == 1 and "gpu02: fail" in failed.stdout and "RV402" in failed.stdout
    assert health.command("check", "--rails", "gpu01").returncode == 0
    health.stop(signal.SIGKILL)
    document = json.loads(Path(health_state.FILE).read_text())
    System().write_file(health_state.FILE, json.dumps(dict(document, updated=document["updated"] - 31)))
    stale = health.command("check", "--json")
    assert stale.returncode == 2 and "s old" in json.loads(stale.stdout)["error"]["message"]


def conditions(api: DraApi) -> dict[str, str]:
    with api.lock:
        return {row["type"]: row["status"] for row in api.node["status"]["conditions"]}


def taints(api: DraApi) -> list[str]:
    with api.lock:
        return [row["key"] for row in api.node["spec"].get("taints") or []]


def test_the_node_gets_condition_taint_and_cordon_and_loses_them(tmp_path: Path) -> None:
    # its keys need the configuration of OpenSSL, which the namespace does not have
    api = DraApi(tmp_path, rights=HEALTH_RIGHTS)
    in_own_namespace(lambda live: reports(live, api, tmp_path / "health.conf"))()


def reports(live: LiveNode, api: DraApi, config: Path) -> None:
    rails(live, 1, 2)
    ip("link", "set", "lo", "up")
    System().write_file(node_reports.AGENT, "{}")
    api.serve()
    live.at_end(api.close)
    config.write_text(api.kubeconfig(BY_TOKEN))
    health = Health(live)
    plan = [rail(1), rail(2)]

    def write(**changes: t.Any) -> None:
        options = dict(OPTIONS, kubeconfig=str(config), **changes)
        health.write(*plan, node=NODE, kubernetes=options)

    def cordoned() -> dict[str, dict[str, str]]:
        return cordon_file.observed_cordons(System())

    write()
    health.start()
    wait_for(lambda: conditions(api).get(node_reports.CONDITION) == "True")
    assert taints(api) == [] and cordoned() == {}
    live.leaf("ip", "link", "set", "leaf2", "down")
    wait_for(lambda: conditions(api)[node_reports.CONDITION] == "False" and taints(api) == [node_reports.TAINT])
    assert cordoned()["gpu02"]["by"] == node_reports.BY and "RV402" in cordoned()["gpu02"]["reason"]
    # a killed service goes on; a server that does not answer is a problem of the state
    health.stop(signal.SIGKILL)
    api.close()
    health.start()
    state = health.until(lambda state: bool(state.problems))
    assert "does not answer" in state.problems[0] and state.rails[1].state == "fail"
    api.serve()
    health.until(lambda state: not state.problems)
    # the credentials of the kubelet are enough for the condition alone
    config.write_text(api.kubeconfig(BY_CERTIFICATE))
    live.leaf("ip", "link", "set", "leaf2", "up")
    wait_for(lambda: conditions(api)[node_reports.CONDITION] == "True")
    (hold,) = fault_holds.holds(System()).all().values()
    assert hold.failures == 1 and cordoned()
    # options that end
    write(condition=False, taints=False)
    state = health.until(lambda state: bool(state.problems))
    assert "not allowed to modify taints" in state.problems[0]
    config.write_text(api.kubeconfig(BY_TOKEN))
    wait_for(lambda: taints(api) == [] and node_reports.CONDITION not in conditions(api))
    assert cordoned()
    write(cordon=False, condition=True, taints=False)
    wait_for(lambda: cordoned() == {} and conditions(api).get(node_reports.CONDITION) == "True")
    health.stop()
    assert conditions(api)[node_reports.CONDITION] == "Unknown"
    # removed with the service, from its record
    node_reports.withdraw(System())
    assert node_reports.CONDITION not in conditions(api) and not os.path.exists(fault_holds.REPORTED)

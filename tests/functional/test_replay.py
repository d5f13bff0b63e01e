# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks against replayed nodes: what they cost the control node, and nodes that are lost on the way."""

from __future__ import annotations

import json
import shutil
import time
import typing as t
from pathlib import Path

import pytest

from benchmarks import recordings, replay, replay_pods
from benchmarks.figures import ROOT
from tests import playbook

# At least twice the rounds, so that neighbours and distant nodes are paired.
NODES = 16


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    replay.prepare(tmp_path, NODES)
    return tmp_path


def play(directory: Path, book: str, *words: str) -> replay.Replayed:
    """Run a playbook with the checkout's callback, without a measurement."""

    def run(command: list[str], env: t.Mapping[str, str]) -> replay.Ended:
        shown = {"ANSIBLE_STDOUT_CALLBACK": "railyard.fabric.rails"}
        done = playbook.run("ansible-playbook", *command[1:], env={**env, **shown})
        return replay.Ended(done.returncode, done.text)

    return replay.play(directory, book, *words, run=run)


def verdict(directory: Path) -> dict[str, t.Any]:
    found: dict[str, t.Any] = json.loads((directory / "reports" / "verify.json").read_text())
    return found


@pytest.mark.parametrize(
    ("book", "most", "most_results"),
    [("hosts", {"rail_host": 1}, 1), ("drift", {"rail_host": 1, "rail_info": 1}, 2)],
)
def test_a_node_as_planned_has_few_results_and_executions(
    directory: Path, book: str, most: dict[str, int], most_results: int
) -> None:
    done = play(directory, book)
    assert done.status == 0, done.output
    assert done.executions == {module: count * NODES for module, count in most.items()}
    per_node = [task for task in done.tasks if task["results"] >= NODES]
    assert len(per_node) <= most_results, [task["task"] for task in per_node]


def edited_rows(directory: Path, agent: dict[str, t.Any]) -> None:
    """Give all nodes an agent, and one of each eight ports no carrier."""
    path = directory / "recordings" / "rail_info.json"
    info = json.loads(path.read_text())
    info["nics"][2].update(carrier=False, operstate="down")
    path.write_text(json.dumps(dict(info, agent=agent)))


def test_status_is_one_screen_with_one_result_per_node(tmp_path: Path) -> None:
    replay.prepare(tmp_path, NODES)
    rails = [
        {"rail": "gpu%02d" % n, "healthy": n != 5, "cordoned": n == 5, "reason": "", "degraded": ""}
        for n in range(1, 9)
    ]
    rails[4]["reason"] = "cordoned: new cable"
    agent = {"error": None, "version": "0.1.0", "rails": rails, "problems": []}
    edited_rows(tmp_path, dict(agent, resources=[{"resource": "railyard.io/rails", "devices": 8, "held": 3}]))
    plain = json.loads((tmp_path / "plain.json").read_text())["all"]["hosts"]
    lost = list(plain)[4]
    (tmp_path / "dark").mkdir()
    (tmp_path / "dark" / plain[lost]["ansible_host"]).write_text("rail_info")
    done = play(tmp_path, "status")
    shown = " ".join(done.output.split())
    assert done.status == 0 and done.executions == {"rail_info": NODES - 1}, done.output
    read = NODES - 1
    assert "%d nodes: %d answer, %s does not; %d of %d ports up; %d of %d slots held; agents: 0.1.0 on %d nodes" % (
        *(NODES, read, lost, 7 * read, 8 * NODES, 3 * read, 8 * read, read),
    ) in shown  # fmt: skip
    assert "cordoned: %d rails; no verdict of verify in " % read in shown
    assert "gpu03 on %d nodes (" % read in shown and "no carrier" in shown and "cordoned: new cable" in shown
    assert "changed=0" in shown and "would change" not in shown
    assert len(done.output.splitlines()) <= 40
    document = json.loads((tmp_path / "reports" / "status.json").read_text())
    assert document["nodes"][lost]["answers"] is False and document["counts"]["ports_up"] == 7 * read
    assert document["nodes"][next(iter(plain))]["ports"]["gpu03"] == "no carrier"
    per_node = [task for task in done.tasks if task["results"] >= NODES]
    assert len(per_node) == 1


def test_status_of_one_node_has_the_last_verdict_and_its_age(directory: Path) -> None:
    """A limit excludes localhost; the callback is Ansible's own."""
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3 * 3600))
    verdict = {"format": 1, "kind": "verify", "fabric": "ai-east", "nodes": [], "rails": [], "began": began, "ok": True}
    verdict.update(seconds=10.0, headline="512 of 512 ports proven")
    (directory / "reports").mkdir(exist_ok=True)
    (directory / "reports" / "verify.json").write_text(json.dumps(verdict))
    node = next(iter(json.loads((directory / "plain.json").read_text())["all"]["hosts"]))

    def run(command: list[str], env: t.Mapping[str, str]) -> replay.Ended:
        done = playbook.run("ansible-playbook", *command[1:], env=env)
        return replay.Ended(done.returncode, done.text)

    done = replay.play(directory, "status", "--limit", node, run=run)
    shown = " ".join(done.output.split())
    assert done.status == 0 and done.executions == {"rail_info": 1}, done.output
    assert "1 node: it answers; 8 of 8 ports up; last verify 2 h ago: 512 of 512 ports proven" in shown
    assert "next:" not in shown and "changed=0" in shown


def test_all_rounds_of_verify_are_proven_with_three_results_per_node(directory: Path) -> None:
    done = play(directory, "verify")
    assert done.status == 0, done.output
    assert "%d of %d ports proven" % (8 * NODES, 8 * NODES) in done.output
    # the node is read, its prober is started, and its results are collected, whatever the number of rounds
    assert done.executions == {"rail_info": NODES, "rail_host": NODES, "rail_probe": 2 * NODES}
    per_node = [task["task"] for task in done.tasks if task["results"] >= NODES]
    assert len(per_node) == 3, per_node
    pairs = {(row["from"], row["to"]) for row in verdict(directory)["measures"]}
    assert len(pairs) == 8 * NODES // 2


def test_a_second_run_compares_with_the_baselines_of_the_first(directory: Path) -> None:
    file = directory / "reports" / "baselines.json"
    done = play(directory, "verify", "-e", "verify_baselines=off")
    assert done.status == 0 and not file.exists(), done.output
    done = play(directory, "verify")
    assert done.status == 0, done.output
    assert len(json.loads(file.read_text())["rows"]) == 8 * NODES
    assert file.stat().st_mode & 0o777 == (directory / "reports" / "verify.json").stat().st_mode & 0o777
    first = file.read_bytes()
    path = directory / "recordings/rail_probe.collect.json"
    recorded = json.loads(path.read_text())
    for row in recorded["results"]:
        row["transfer"]["latency_us"] = 9.0
    path.write_text(json.dumps(recorded))
    done = play(directory, "verify")
    assert done.status == 0, done.output
    late = [each for each in verdict(directory)["warnings"] if each["code"] == "RV842"]
    assert len(late) == 8 * NODES and file.read_bytes() == first
    limit = ",".join(sorted({row["node"] for row in json.loads(first)["rows"]})[:2])
    done = play(directory, "verify", "--limit", limit)
    assert done.status == 0 and file.read_bytes() == first, done.output
    done = play(directory, "verify", "-e", "verify_baselines=renew")
    assert done.status == 0, done.output
    assert {row["latency_us"] for row in json.loads(file.read_text())["rows"]} == {9.0}
    assert verdict(directory)["warnings"] == []


def test_many_to_one_rounds_need_no_further_result_per_node_and_without_results_they_are_unknown(
    directory: Path,
) -> None:
    """The replayed probers do not know these rounds and no soak: they return the results of one pass of pairs."""
    done = play(directory, "verify", "-e", "verify_congestion=4", "-e", "verify_soak=1m")
    assert done.status == 0, done.output
    assert done.executions == {"rail_info": NODES, "rail_host": NODES, "rail_probe": 2 * NODES}
    rows = verdict(directory)["congestion"]
    assert {(row["state"], row["why"]) for row in rows} == {("unknown", "the server has no result")}
    assert len({(row["server"], row["rail"]) for row in rows}) == len(rows) == 8 * NODES
    assert "many-to-one: %d unknown (the server has no result)" % (8 * NODES) in done.output
    assert "RV820" in done.output
    shown = verdict(directory)["soak"]
    assert (shown["seconds"], shown["nodes"], shown["transfers"]) == (60, 0, 0)
    unknown = {row["node"] for row in verdict(directory)["warnings"] if row["code"] == "RV828"}
    assert len(unknown) == NODES


def test_failures_without_a_single_cause_are_narrowed_on_few_nodes(directory: Path) -> None:
    """One node gets no replies to its own packets on one rail, and answers those of its partners."""
    path = directory / "recordings/rail_probe.collect.json"
    recorded = json.loads(path.read_text())
    recorded["results"][2]["reach"]["received"] = "RECEIVED"
    path.write_text(json.dumps(recorded).replace('"RECEIVED"', "{{received}}"))
    values = sorted(path for path in (directory / "values").iterdir() if path.suffix != ".peers")
    plain = json.loads((directory / "plain.json").read_text())["all"]["hosts"]
    (suspect,) = (name for name, each in plain.items() if each["ansible_host"] == values[3].name)
    for path in values:
        received = 0 if path == values[3] else 3
        path.write_text(json.dumps(dict(json.loads(path.read_text()), received=received)))
    done = play(directory, "verify", "-e", "verify_narrow=false")
    assert done.status == 2 and done.executions["rail_probe"] == 2 * NODES, done.output
    few = verdict(directory)
    done = play(directory, "verify")
    assert done.status == 2, done.output
    # only the suspect and three further partners are started again, in at most two batches
    assert 2 * NODES < done.executions["rail_probe"] <= 2 * NODES + 2 * 2 * 4
    assert (done.executions["rail_info"], done.executions["rail_host"]) == (NODES, NODES)
    more = verdict(directory)
    own = {(row["from"], row["to"]) for row in few["measures"]}
    further = [row for row in more["measures"] if (row["from"], row["to"]) not in own]
    assert {row["rail"] for row in further} == {"gpu03"}
    assert any(suspect in (row["from"], row["to"]) for row in further)
    failures = {(each["code"], each["rail"]) for each in more["failures"]}
    assert failures == {("RV801", "gpu03")} and suspect in {each["node"] for each in more["failures"]}


def test_pods_are_proven_with_no_further_result_per_node(directory: Path) -> None:
    with replay_pods.cluster(directory, 4) as words:
        done = play(directory, "verify", *words)
    assert done.status == 2, done.output
    # the other nodes have no test pod
    assert {each["code"] for each in verdict(directory)["failures"]} == {"RV911"}
    assert done.executions == {"rail_info": NODES, "rail_host": NODES, "rail_pods": NODES // 4, "rail_probe": 2 * NODES}
    assert len([task for task in done.tasks if task["results"] >= NODES]) == 3
    (pods,) = (layer for layer in verdict(directory)["layers"] if layer["name"] == "pods")
    assert (pods["checked"], pods["failed"]) == (8 * NODES // 4, NODES - NODES // 4)


def test_a_node_that_cannot_be_completed_does_not_end_the_run_of_the_others(directory: Path) -> None:
    values = sorted((directory / "values").iterdir())
    recording = directory / "recordings/rail_host.json"
    text = recording.read_text()
    assert '"needs": {}' in text
    recording.write_text(text.replace('"needs": {}', '"needs": {{{missing}}}'))
    for path in values:
        missing = '"packages": ["perftest"]' if path == values[3] else ""
        path.write_text(json.dumps(dict(json.loads(path.read_text()), missing=missing)))
    plain = json.loads((directory / "plain.json").read_text())["all"]["hosts"]
    (incomplete,) = (name for name, each in plain.items() if each["ansible_host"] == values[3].name)
    done = play(directory, "hosts", "-e", "preflight_install=false")
    assert done.status == 2 and "%s does not have perftest" % incomplete in done.output, done.output
    assert "Show the nodes that need a reboot" in [task["task"].rpartition(" : ")[2] for task in done.tasks]
    assert "failed=1 (1 node)" in done.output and "failed=0 (%d nodes)" % (NODES - 1) in done.output


def test_nodes_that_are_lost_are_reported_and_stop_no_other(directory: Path) -> None:
    plain = json.loads((directory / "plain.json").read_text())["all"]["hosts"]
    lost, late, full = list(plain)[4:7]
    for name, cause, recording in (
        (lost, "dark", "rail_info"),
        (late, "dark", "rail_probe.collect"),
        (full, "full", "rail_probe.collect"),
    ):
        (directory / cause).mkdir(exist_ok=True)
        (directory / cause / plain[name]["ansible_host"]).write_text(recording)
    done = play(directory, "verify")
    assert done.status == 4, done.output
    failures = verdict(directory)["failures"]
    assert {each["node"]: each["code"] for each in failures} == {lost: "RV001", late: "RV001", full: "RV002"}, failures
    for name in (late, full):
        (found,) = (each["found"] for each in failures if each["node"] == name)
        assert found.startswith("its results were not collected: ")
        # partners have reached the node, but its own results are missing
        assert set(verdict(directory)["matrix"][name].values()) == {"not checked"}
    rows = verdict(directory)["measures"]
    assert {name for row in rows for name in (row["from"], row["to"])} >= set(plain) - {lost, late, full}


def test_a_recording_of_replayed_nodes_is_the_recording(directory: Path, tmp_path: Path) -> None:
    planned, replayed = tmp_path / "planned", tmp_path / "replayed"
    planned.mkdir()
    replayed.mkdir()
    recordings.of_plan(planned)
    env = {"ANSIBLE_CONNECTION_PLUGINS": str(ROOT / "benchmarks/connection"), "RAILYARD_REPLAY": str(directory)}
    recordings.of_nodes(str(directory / "fabric.yml"), replayed, ("-e", "ansible_connection=replay"), **env)
    for path in recordings.DIRECTORY.glob("*.json"):
        recorded = json.loads(path.read_text())
        assert json.loads((planned / path.name).read_text()) == recorded, "run python -m benchmarks record"
    names = sorted(path.name for path in replayed.iterdir())
    assert names == ["rail_host.json", "rail_info.json"]
    for name in names:
        assert json.loads((replayed / name).read_text()) == json.loads((recordings.DIRECTORY / name).read_text()), name


def test_a_part_of_hosts_names_the_nodes_that_need_a_reboot_and_reboots_none(tmp_path: Path) -> None:
    replay.prepare(tmp_path, 4)
    plain = list(json.loads((tmp_path / "plain.json").read_text())["all"]["hosts"])
    recording = tmp_path / "recordings" / "rail_host.json"
    result = json.loads(recording.read_text())
    recording.write_text(json.dumps({**result, "reboot_required": True, "reboot_reasons": ["VFs of the firmware"]}))
    done = play(tmp_path, "hosts", "-e", "railyard_part=2/2")
    assert done.status == 2 and done.executions == {"rail_host": 2}, done.output
    for name in plain[2:]:
        assert "%s needs a reboot: VFs of the firmware" % name in done.output
    assert plain[0] not in done.output
    assert "Part 2/2 reboots no node, and 2 of its nodes need a reboot." in done.output
    assert "run hosts.yml with -e reboot_allowed=true and without railyard_part" in done.output


def edited(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.long
def test_four_parts_have_the_verdict_of_one_run(tmp_path: Path) -> None:
    replay.prepare(tmp_path, 8)
    plain = json.loads((tmp_path / "plain.json").read_text())["all"]["hosts"]
    lost = list(plain)[5]
    (tmp_path / "dark").mkdir()
    (tmp_path / "dark" / plain[lost]["ansible_host"]).write_text("rail_info")
    assert play(tmp_path, "verify").status == 4  # a node is unreachable
    whole = verdict(tmp_path)
    (tmp_path / "reports" / "verify.json").unlink()

    for number in range(1, 5):
        done = play(tmp_path, "verify", "-e", "railyard_part=%d/4" % number)
        assert done.status == 0, done.output
        assert "part %d/4: %d of 2 nodes were read" % (number, 1 if number == 3 else 2) in done.output
        assert not (tmp_path / "reports" / "verify.json").exists()
    parts = tmp_path / "reports" / "parts"
    third, kept = parts / "verify-3-of-4.jsonl", tmp_path / "kept.jsonl"
    judge = ("verify", "-e", "railyard_part=judge")

    third.rename(kept)
    done = play(tmp_path, *judge)
    assert done.status == 1 and not done.executions, done.output
    assert "part 3/4 is missing. Remedy: run verify.yml -e railyard_part=3/4 first." in done.output
    shutil.copy(kept, third)
    edited(third, '"plan": "', '"plan": "0')
    done = play(tmp_path, *judge)
    assert done.status == 2 and "part 3/4 is of another run: plan is 0" in done.output, done.output
    shutil.copy(kept, third)

    done = play(tmp_path, *judge)
    assert done.status == 4, done.output
    # the nodes were read by their parts, and the lost node is in no pair
    assert set(done.executions) == {"rail_probe"}
    found = verdict(tmp_path)
    # the partner of a node in its part is lost, so its counters were read only before its traffic
    alone = list(plain)[4]
    whole["matrix"][alone] = dict.fromkeys(whole["matrix"][alone], "unknown")
    assert [(each["node"], each["what"]) for each in found["unknown"]] == [(alone, "error counters")]
    for key in ("ok", "plan", "nodes", "rails", "matrix", "proof", "failures", "warnings", "boots", "counters"):
        assert found[key] == whole[key], key
    assert [each["code"] for each in found["failures"]] == ["RV001"] and found["failures"][0]["node"] == lost
    of = {name: number // 2 for number, name in enumerate(plain)}
    linked = {frozenset((of[row["from"]], of[row["to"]])) for row in found["measures"]}
    assert linked >= {frozenset((one, two)) for one in range(4) for two in range(one)}
    assert {each["name"]: each["checked"] for each in found["layers"] if each["name"] not in ("reach", "rdma")} == {
        each["name"]: each["checked"] for each in whole["layers"] if each["name"] not in ("reach", "rdma")
    }
    assert not list(parts.iterdir())

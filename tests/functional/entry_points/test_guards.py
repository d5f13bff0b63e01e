# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of a run hold whatever its limit and tags are, in every playbook, and a run that would do nothing fails."""

from __future__ import annotations

import os
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.plugin_utils._run_guard import SKIPPED, TAGS
from tests import playbook
from tests.functional.docs_commands import takes
from tests.playbook import ROOT, Played

INVENTORY = ROOT / "inventories/macvlan-roce"
NODE = "ai-10-1-16-1"
PLAYBOOKS = sorted(path.stem for path in (ROOT / "playbooks").glob("*.yml"))
# These contact nodes. All others run on the control node.
ON_NODES = ("collectives", "discover", "drift", "hosts", "site", "status", "teardown", "verify")
# No machine has this address: a run that is allowed ends there.
NOWHERE = {"ansible_host": "192.0.2.1", "ansible_ssh_common_args": "-o ConnectTimeout=1"}


def play(book: str, *words: str, inventory: str | Path = INVENTORY, **given: t.Any) -> Played:
    return playbook.play("playbooks/%s.yml" % book, *words, inventory=inventory, given={**NOWHERE, **given})


def refused(done: Played, *parts: str) -> None:
    """It ended before a node was contacted, with one error that has these parts and a remedy."""
    assert done.returncode == 1 and "UNREACHABLE" not in done.stdout, done.text
    assert "TASK [" not in done.stdout or "TASK [Check that the cluster can take" in done.stdout, done.text
    assert "Remedy: " in done.one_line and all(part in done.one_line for part in parts), done.text
    assert done.stderr.count("[ERROR]") == 1, done.text


@pytest.mark.parametrize("book", PLAYBOOKS)
def test_an_unknown_tag_is_an_error(book: str) -> None:
    known = "use one of " if book in TAGS else "run it without --tags"
    refused(play(book, "--tags", "hosts,vfs" if book in TAGS else "vfs"), "%s.yml has no tag vfs" % book, known)


@pytest.mark.parametrize("book", ["hosts", "teardown", "verify", "plan"])
def test_an_unknown_tag_to_skip_is_an_error(book: str) -> None:
    hint = " (did you mean sriov?)" if book in TAGS or book in SKIPPED else ""
    refused(play(book, "--skip-tags", "sriovs"), "--skip-tags: %s.yml has no tag sriovs%s" % (book, hint))


@pytest.mark.parametrize("book", PLAYBOOKS)
def test_an_unknown_extra_variable_is_an_error(book: str) -> None:
    given = {"reprot_dir": "plans"} if book == "plan" else {"railyard_prt": "1/2"}
    meant = "report_dir" if book == "plan" else "railyard_part"
    refused(play(book, **given), "railyard.fabric has no variable %s (did you mean %s?)" % (*given, meant))


@pytest.mark.parametrize("way", ["key=value", "file", "JSON", "own playbook"])
def test_extra_variables_are_checked_however_they_are_given(way: str, tmp_path: Path) -> None:
    file = tmp_path / "given.yml"
    file.write_text("strct: true\nmy_own: 1\nkubernetes_enabled: ture\nawx_job_id: 7\ntower_job_id: 7\n")
    pairs = "strct=true my_own=1 kubernetes_enabled=ture awx_job_id=7"
    words = {"key=value": pairs, "JSON": '{"strct": true, "my_own": 1, "kubernetes_enabled": "ture"}'}
    book = ROOT / "playbooks/validate.yml"
    if way == "own playbook":
        book = tmp_path / "mine.yml"
        book.write_text("- import_playbook: railyard.fabric.validate\n")
    done = playbook.play(book, "-e", words.get(way, "@%s" % file), inventory=INVENTORY)
    assert done.returncode == 1 and "TASK [" not in done.stdout, done.text
    assert "-e strct: railyard.fabric has no variable strct (did you mean strict?). Remedy: " in done.one_line
    assert "-e kubernetes_enabled: ture is not a boolean (did you mean true?)" in done.one_line
    assert "my_own" not in done.text and "job_id" not in done.text


def test_extra_variables_of_users_pass(tmp_path: Path) -> None:
    words = ("-e", "report_email=a@b.c my_var=1", "-e", "railyard_unchecked_variables=report_email,import_id")
    done = playbook.play("playbooks/validate.yml", *words, "-e", "import_id=7", inventory=INVENTORY)
    assert done.returncode == 0, done.text
    listed = playbook.play("playbooks/plan.yml", "--list-hosts", "-e", "reprot_dir=x", inventory=INVENTORY)
    assert listed.returncode == 0, listed.text


@pytest.mark.parametrize("book", PLAYBOOKS)
def test_a_limit_that_leaves_nothing_to_do_is_an_error(book: str, tmp_path: Path) -> None:
    """Ansible skips such a play and ends well."""
    (tmp_path / "others.yml").write_text(yaml.safe_dump({"all": {"hosts": {"other": None}}}))
    limit = "localhost,other" if book in ON_NODES and book not in ("teardown", "discover") else "other"
    words = ["-i", str(tmp_path / "others.yml"), "--limit", limit]
    if book == "discover":
        words += ["-e", "discover_hosts=railyard_nodes"]
    message = "matches no rail node" if "localhost" in limit or book == "discover" else "leaves out localhost"
    refused(play(book, *words), "the limit %s %s" % (limit, message))


def test_teardown_of_hosts_needs_nodes(tmp_path: Path) -> None:
    (tmp_path / "others.yml").write_text(yaml.safe_dump({"all": {"hosts": {"other": None}}}))
    words = ("-i", str(tmp_path / "others.yml"), "--limit", "other")
    done = play("teardown", *words, teardown_hosts=True)
    refused(done, "the limit other matches no rail node", NODE)


@pytest.mark.parametrize("book", [book for book in ON_NODES if book != "teardown"])
def test_an_inventory_without_nodes_is_an_error(book: str) -> None:
    done = play(book, inventory="localhost,")
    refused(done, "no host of the inventory matches" if book == "discover" else "the inventory has no rail nodes")


WRONG_BATCHES = ["0", "-1", "0%", "101%", "two", "", "[1, 0]"]


@pytest.mark.parametrize(
    ("book", "batch"), [*(("hosts", batch) for batch in WRONG_BATCHES), ("site", "0"), ("teardown", "0%")]
)
def test_all_nodes_at_once_never_reboot_for_a_batch_that_is_wrong(book: str, batch: str) -> None:
    words = ("--limit", NODE, "--tags", "sriov") if batch == "0" else ()
    given = {"teardown_hosts": True, "kubernetes_enabled": False, "railyard_reboot_batch": batch}
    done = play(book, *words, **given)
    assert done.returncode == 1 and "railyard_reboot_batch: %s is not" % (batch or "an empty text") in done.one_line
    assert "UNREACHABLE" not in done.stdout


def test_a_run_that_prepares_hosts_reverts_no_layer() -> None:
    done = play("hosts", "--limit", NODE, "--tags", "limits,sriov", sriov_state="absent")
    assert done.returncode == 2 and "UNREACHABLE" not in done.stdout, done.text
    assert "sriov_state: this run prepares the layer" in done.one_line and "teardown.yml" in done.one_line


@pytest.mark.parametrize("book", ["hosts", "plan"])
def test_extra_variables_set_no_value_of_the_plan(book: str) -> None:
    done = play(book, limits_memlock="leave", sriov_ports=[])
    refused(done, "limits_memlock: the plan sets the value", "set limits.memlock in")
    assert "sriov_ports: the plan sets the value" in done.one_line and "set vfs in" in done.one_line


@pytest.mark.parametrize("words", [(), ("-e", "railyard_reboot_batch=4"), ("-e", "railyard_reboot_batch=10%")])
def test_a_valid_batch_continues_to_the_hosts(words: tuple[str, ...]) -> None:
    done = play("hosts", "--check", "--limit", NODE + ",other", *words)
    assert "UNREACHABLE" in done.stdout and "reboot_batch:" not in done.one_line, done.text


@pytest.mark.parametrize(
    ("book", "part", "message"),
    [
        ("hosts", "0/8", "railyard_part: 0/8 is not a part of the nodes. Remedy: write K/N"),
        ("hosts", "judge", "railyard_part: judge is not a part of the nodes. Remedy: write K/N"),
        ("verify", "9/8", "such as 2/8, or judge for the verdict on all parts"),
        ("verify", "x", "railyard_part: x is not a part of the nodes"),
        ("verify", "judge", "there are no parts of verify here. Remedy: run verify.yml -e railyard_part=1/N"),
        ("drift", "judge", "there are no parts of drift here"),
        (
            "site",
            "1/2",
            "railyard_part: site.yml does not run on parts. Remedy: run hosts.yml and verify.yml and drift.yml",
        ),
        ("teardown", "1/2", "railyard_part: teardown.yml does not run on parts"),
    ],
)
def test_a_part_that_does_not_exist_is_an_error(book: str, part: str, message: str, tmp_path: Path) -> None:
    given = {"railyard_part": part, "verify_report_dir": str(tmp_path), "teardown_hosts": True}
    refused(play(book, **given), message)


def test_a_part_reboots_no_node() -> None:
    message = "reboot_allowed: part 1/2 reboots no node, because only one run of all nodes stops at the first node"
    refused(play("hosts", railyard_part="1/2", reboot_allowed=True), message)


def test_a_part_is_a_block_of_the_nodes_that_the_limit_leaves() -> None:
    def nodes(part: str, limit: str) -> set[str]:
        done = play("hosts", "--check", "--limit", limit, railyard_part=part)
        assert "railyard_part:" not in done.one_line, done.text
        return {word for word in done.stdout.split() if word.startswith(NODE[:-1])}

    second = NODE[:-1] + "2"
    assert nodes("2/3", "all") == {second}
    assert nodes("1/2", "%s,other" % second) == {second}
    assert nodes("3/3", "all") == set()


@pytest.mark.parametrize("book", ["hosts", "teardown", "kubernetes"])
def test_a_run_begins_at_its_first_task(book: str) -> None:
    done = play(book, "--start-at-task", "Revert", teardown_hosts=True)
    refused(done, "--start-at-task: a run cannot start at the task Revert")


def test_a_playbook_of_ones_own_has_its_own_tags_tasks_and_limits(tmp_path: Path) -> None:
    """What is imported there is checked for its nodes and its batch alone."""
    local: dict[str, t.Any] = {"hosts": "other", "gather_facts": False, "connection": "local", "tags": ["mine"]}
    local["vars"] = {"ansible_python_interpreter": sys.executable}  # --start-at-task gathers facts all the same
    task = {"name": "Mine", "ansible.builtin.debug": {"msg": "done by {{ inventory_hostname }}"}}
    book = [{"ansible.builtin.import_playbook": "railyard.fabric.plan"}, {**local, "tasks": [task]}]
    (tmp_path / "mine.yml").write_text(yaml.safe_dump(book))
    words = ("-i", "other,", "--limit", "other", "--tags", "mine", "--start-at-task", "Mine")
    done = playbook.play(tmp_path / "mine.yml", *words, inventory=INVENTORY)
    assert done.returncode == 0 and "done by other" in done.one_line, done.text
    book[0] = {"ansible.builtin.import_playbook": "railyard.fabric.hosts"}
    (tmp_path / "mine.yml").write_text(yaml.safe_dump(book))
    done = playbook.play(tmp_path / "mine.yml", "-i", "other,", "--limit", "other", inventory=INVENTORY)
    refused(done, "the limit other matches no rail node")


@pytest.mark.skipif(os.geteuid() != 0, reason="reads what is root's")
@pytest.mark.parametrize(
    "words",
    [
        ("--tags", "sriov"),
        ("--check",),
        ("--skip-tags", "preflight,qos", "--check"),
        ("--skip-tags", "molecule-notest,notest", "--check"),
    ],
)
def test_the_control_node_is_not_prepared_by_mistake(words: tuple[str, ...]) -> None:
    """Whatever its address is. This machine is only looked at."""
    here = {"ansible_become": False, "ansible_python_interpreter": sys.executable}
    done = play("hosts", *words, "--limit", NODE, "--connection=local", **here)
    output = "%s (192.0.2.1) is the machine on which Ansible runs. Remedy: correct its address" % NODE
    assert done.returncode == 2 and output in done.one_line and "changed=0" in done.one_line, done.text
    assert "Install missing packages" not in done.one_line
    if words == ("--check",):
        done = play("hosts", *words, "--connection=local", preflight_control_node_allowed=True, **here)
        assert "(192.0.2.1) is the machine" not in done.one_line and "Prepare the node" in done.one_line, done.text


@pytest.mark.parametrize("book", PLAYBOOKS)
def test_the_tags_are_those_of_the_playbooks(book: str) -> None:
    there = {tag for tag in takes(ROOT / "playbooks" / (book + ".yml")).tags}
    there -= {"all", "always", "never", "tagged", "untagged"}
    assert there == set(TAGS.get(book, ())) | set(SKIPPED.get(book, ()))


def test_every_play_is_checked() -> None:
    """Except one that runs on hosts that an earlier play of the same playbook selected, and one that imports."""
    books = ROOT / "playbooks"
    for path in [*books.glob("*.yml"), *books.glob("plays/*.yml"), ROOT / "site.yml"]:
        for each in yaml.safe_load(path.read_text()):
            hosts = each.get("hosts", "play_hosts")
            groups = ("railyard_reboot_required", "railyard_incomplete", "railyard_refused")
            singled_out = any(group in hosts for group in groups)
            assert "play_hosts" in hosts or singled_out, (path.name, each["name"])

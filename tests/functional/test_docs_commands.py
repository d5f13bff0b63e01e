# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every command that the documentation prints is run here, or a row names the test that runs it, or why none can.

A command in a console block, or in a block of commands without a language, asks neither node nor cluster and is run
as it is printed, with its exit status and the lines that the page prints behind it; or a row of ``ELSEWHERE`` has what
covers it. The arguments of ansible-playbook are always compared with the playbook.
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.plugin_utils._extra_variables import UNCHECKED, known
from lab.cli import parser
from tests.functional.docs_commands import PAGES, ROOT, Command, Desk, Play, commands, takes

# Run as printed: they need only this machine
_RUN = re.compile(
    r"ansible-playbook (.* )?(playbooks/(validate|plan|render|import|report)\.yml|railyard\.fabric\.validate)( |$)"
    r"|ansible-playbook -i fabric\.yml railyard\.fabric\.plan$"
    r"|ansible-inventory |ansible-doc |printf |(cp|head|sed) "
)
# Their result hangs on the command alone, so equal ones are run once
_PURE = re.compile(r"ansible-playbook .*playbooks/(validate|plan)\.yml|ansible-inventory |ansible-doc |printf ")
_WRITES = re.compile(r"_(dir|file|diff)=")


class Row(t.NamedTuple):
    """Commands that are not run here: which, and what covers them, or why nothing does."""

    pattern: str
    covered: str = ""  # FILE or FILE::NAME of a test, or Makefile::TARGET
    why: str = ""


ELSEWHERE = [
    Row(
        r"ansible-playbook .*(playbooks/hosts\.yml|site\.yml|railyard\.fabric\.site)\b.*",
        "tests/integration/test_site.py",
    ),
    Row(r"ansible-playbook .*playbooks/verify\.yml\b.*", "tests/integration/test_faults.py"),
    Row(r"ansible-playbook .*playbooks/status\.yml", "tests/functional/test_replay.py"),
    Row(r"ansible-playbook .*playbooks/drift\.yml\b.*", "tests/integration/test_faults.py"),
    Row(r"ansible-playbook .*playbooks/discover\.yml\b.*", "tests/functional/entry_points/test_discover.py"),
    Row(
        r"ansible-playbook .*playbooks/teardown\.yml\b.* -e teardown_hosts=true\b.*",
        "tests/integration/test_take_back.py",
    ),
    Row(r"ansible-playbook .*playbooks/(kubernetes|teardown)\.yml\b.*", "tests/integration/test_kube_objects.py"),
    Row(r"ansible-playbook .*playbooks/cluster\.yml\b.*", "tests/integration/test_kube_software.py"),
    Row(r"ansible-playbook .*playbooks/awx\.yml\b.*", "tests/functional/awx/test_awx.py"),
    Row(r"ansible-playbook .*playbooks/collectives\.yml\b.*", "tests/functional/entry_points/test_collectives.py"),
    Row(r"ansible \S+ .*-m railyard\.fabric\.rail_info\b.*", "tests/integration/test_rail_info.py"),
    Row(r"railyard-health status", "tests/functional/node/test_health_service.py"),
    Row(r"railyard-agent (un)?cordon \S+.*", "tests/functional/node/test_rail_agent.py"),
    Row(r"ansible \S+ .*-m ansible\.builtin\.ping", why="asks the reader's own nodes for nothing"),
    Row(r"kubectl apply -k rendered/\S+/workload", why="starts pods, and no kubelet runs in the tests"),
    Row(r"kubectl (get node|describe pod) .*", "tests/integration/test_agent_pods.py"),
    Row(r"kubectl get (spiderippools|macvlannetworks),.*", why="reads the reader's own cluster"),
    Row(r"kubectl get deviceclasses,resourceslices", "tests/functional/node/test_dra_driver.py"),
    Row(r"lab/lab (kubectl|helm|cluster)\b.*", "tests/integration/test_cluster.py"),
    Row(r"lab/lab .*", "tests/integration/test_lab.py"),
    Row(r"make lab\b.*", "tests/integration/test_site.py"),
    Row(r"make (test|compat|bench)\b", why="hours: they are what a maintainer runs before a release"),
    Row(r"make release\b", "tests/functional/test_release.py"),
    Row(r"python -m benchmarks .*", why="measures for minutes, and asserts nothing"),
    Row(r"ansible-galaxy collection install railyard.*", "tests/functional/test_release.py"),
    Row(r"ansible-galaxy collection install --force .*", "tests/functional/test_installed.py"),
    Row(r"sha256sum --check .*", "tests/functional/test_release.py"),
    Row(r"ansible-galaxy collection install ansible\.posix", why="fetches another project's collection"),
    Row(r"ansible-builder build .*", "tests/functional/awx/test_environment.py"),
    Row(r"export (CONTROLLER|ANSIBLE)_.*", why="sets the reader's own shell"),
]


@pytest.fixture(scope="module")
def desks(tmp_path_factory: pytest.TempPathFactory) -> t.Callable[[str], Desk]:
    """A desk a page, so that what one page has its reader write is not there for the next."""
    home = tmp_path_factory.mktemp("desks")

    @functools.lru_cache(maxsize=None)
    def first() -> Desk:
        (home / "first").mkdir()
        return Desk.made(home / "first")

    @functools.lru_cache(maxsize=None)
    def desk(page: str) -> Desk:
        return first().copy(home / re.sub(r"\W", "-", page))

    return desk


@functools.lru_cache(maxsize=None)
def _done(desk: Desk, text: str, _state: str = "") -> subprocess.CompletedProcess[str]:
    """Run it, once for the same command at a desk in the same state."""
    return desk.run(text)


def _edited(page: str) -> set[str]:
    """The inventories that a page has its reader make or change."""
    reported = [one.words for one in commands() if one.page == page and re.match(r"(cp|sed) ", one.bare)]
    return {words[-1].replace("/fabric.yml", "") for words in reported}


RUN = [one for one in commands() if _RUN.match(one.bare)]
NOT_RUN = [one for one in commands() if not _RUN.match(one.bare)]
PLAYS = [one for one in commands() if one.bare.startswith("ansible-playbook ")]


def _listed(one: Command) -> str:
    """The same call for Ansible to read and to do nothing, without what does not change the list of tasks.

    Without --limit it is the same list with every inventory that is there, and so it is read once with one of them.
    """
    reported = re.sub(r" (--check|--diff|--ask-vault-pass|-e (\w+=\S+|'[^']*'|@\S+))(?= |$)", "", one.bare)
    if " --limit " not in reported:
        reported = re.sub(r" -i inventories/\S+", " -i inventories/mine", reported)
    return reported + " --list-tasks"


def _result(one: Command, desk: t.Callable[[str], Desk]) -> subprocess.CompletedProcess[str]:
    """Run it, or have Ansible read it; once for all where nothing but the command decides the result."""
    made = re.search(r"playbooks/import\.yml.* -e fabric_file=(\S+)", one.bare)
    if made:
        desk(one.page).forget(made[1])
    here = desk(one.page if _edited(one.page) else "equal")
    if one not in RUN:
        files = (here.home / "inventories").glob("*/fabric.yml")
        return _done(here, _listed(one), " ".join(map(str, sorted(map(Path.read_text, files)))))
    if _PURE.match(one.bare) and not _WRITES.search(one.bare) and not _edited(one.page):
        return _done(here, one.text)
    return desk(one.page).run(one.text)


def _wrong(one: Command, done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode:
        return "exit status %d\n%s%s" % (done.returncode, done.stdout, done.stderr)
    if one not in RUN:
        listed = re.search(r"TAGS: \[", done.stdout.partition("tasks:")[2])
        return "" if listed and "Could not match" not in done.stderr else "no node or no task is left: " + done.stderr
    lines = iter([" ".join(line.split()) for line in done.stdout.splitlines()])
    missing = [line for line in one.output if not any(" ".join(line.split()) in message for message in lines)]
    return "prints no such line (in this order): %s" % missing if missing else ""


@pytest.mark.parametrize("page", sorted({one.page for one in [*RUN, *PLAYS]}))
def test_commands_print_the_output_of_the_page(page: str, desks: t.Callable[[str], Desk]) -> None:
    """In the order of the page, at one desk: exit status 0 and the lines that are printed behind them.

    Calls of playbooks that ask nodes or clusters are read by Ansible, to the list of their tasks: inventory, playbook,
    roles and --limit.
    """
    wrong = []
    for one in commands():
        if one.page == page and (one in RUN or one in PLAYS):
            message = _wrong(one, _result(one, desks))
            wrong += ["%s\n%s" % (one.place, message)] if message else []
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("one", NOT_RUN, ids=[one.place for one in NOT_RUN])
def test_a_command_that_is_not_run_here_has_a_row(one: Command) -> None:
    assert any(re.fullmatch(row.pattern, one.bare) for row in ELSEWHERE), "%s: no row of ELSEWHERE" % one.place


@pytest.mark.parametrize("row", ELSEWHERE, ids=[row.pattern for row in ELSEWHERE])
def test_each_row_names_a_command_and_a_test_that_exist(row: Row) -> None:
    assert bool(row.covered) != bool(row.why)
    assert any(re.fullmatch(row.pattern, one.bare) for one in NOT_RUN), "no page prints such a command"
    if row.covered:
        assert re.search(r"^def test_", (ROOT / row.covered).read_text(), re.MULTILINE)


@pytest.mark.parametrize("one", PLAYS, ids=[one.place for one in PLAYS])
def test_a_playbook_accepts_the_variables_and_tags(one: Command, desks: t.Callable[[str], Desk]) -> None:
    play = Play.read(one.words[1:])
    assert play.path.is_file(), "no playbook %s" % play.playbook
    known = takes(play.path)
    assert set(play.variables) <= known.variables, sorted(set(play.variables) - known.variables)
    assert set(play.tags) <= known.tags, sorted(set(play.tags) - known.tags)
    home = desks("equal").home
    assert [file for file in play.files if not (home / file).is_file()] == []
    there = [each for each in play.inventories if "," in each or (home / each).exists() or each in _edited(one.page)]
    assert there == play.inventories


@pytest.mark.parametrize("one", [one for one in NOT_RUN if one.bare.startswith("lab/lab ")], ids=lambda one: one.place)
def test_the_lab_accepts_the_arguments(one: Command) -> None:
    parser().parse_args(one.words[1:])


@pytest.mark.parametrize("one", [one for one in NOT_RUN if one.bare.startswith("make ")], ids=lambda one: one.place)
def test_make_has_the_target(one: Command) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    variables = re.findall(r"\$\((?:filter [01],|if \$\()?\$?\(?([A-Z]+)\)", (ROOT / "Makefile").read_text())
    for word in one.words[1:]:
        name, equals, _value = word.partition("=")
        assert name in (variables if equals else targets), word


OWN_MODULE = re.compile(r"ansible .* -m railyard\.fabric\.(\w+)")


@pytest.mark.parametrize("one", [one for one in NOT_RUN if OWN_MODULE.match(one.bare)], ids=lambda one: one.place)
def test_a_module_accepts_the_options(one: Command) -> None:
    module = OWN_MODULE.match(one.bare)
    assert module
    text = (ROOT / "plugins" / "modules" / (module[1] + ".py")).read_text()
    reported = re.findall(r'^DOCUMENTATION = r"""\n(.*?)^"""', text, re.MULTILINE | re.DOTALL)[0]
    given = json.loads(one.words[one.words.index("-a") + 1]) if "-a" in one.words else {}
    assert set(given) <= set(yaml.safe_load(reported)["options"])


# -- options and commands within sentences


@functools.lru_cache(maxsize=None)
def _everything() -> tuple[frozenset[str], frozenset[str]]:
    every = [takes(path) for path in sorted((ROOT / "playbooks").glob("*.yml"))]
    return frozenset([*known(ROOT).specs, UNCHECKED]), frozenset().union(*(one.tags for one in every))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_within_sentences_are_known(page: Path) -> None:
    variables, tags = _everything()
    text = page.read_text()
    message = set(re.findall(r"-e '?(\w+)=", text))
    assert message <= variables, sorted(message - variables)
    asked = {tag for tags_ in re.findall(r"--(?:skip-)?tags[ =]([\w,]+)", text) for tag in tags_.split(",")}
    assert asked <= tags, sorted(asked - tags)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_playbooks_within_sentences_are_there(page: Path) -> None:
    named = set(re.findall(r"`(?:ansible-playbook )?((?:playbooks/)?[\w-]+\.yml)`", page.read_text()))
    named = {name for name in named if name.startswith("playbooks/")}
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_other_commands_within_sentences_are_known(page: Path) -> None:
    """Of ansible-doc the plugin or role, of make the target, and all words for the lab."""
    text = page.read_text()
    there = {path.stem for path in ROOT.glob("plugins/*/*.py")} | {path.name for path in ROOT.glob("roles/*")}
    named = set(re.findall(r"`ansible-doc (?:-t \w+ )?railyard\.fabric\.([a-z]\w+)`", text))
    assert named <= there, sorted(named - there)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    made = set(re.findall(r"`make ([a-z-]+)", text))
    assert made <= targets, sorted(made - targets)
    for words in re.findall(r"`lab/lab\s([^`|]+)`", text):
        parser().parse_args(words.replace("NAME", "name").split())

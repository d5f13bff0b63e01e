# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands that the documentation prints: where each is, what a playbook accepts, and a place to run them in."""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

import jinja2

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.layers import layer_modules
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import layer_table
from tests import playbook, yaml_text
from tests.browser.samples import Sample

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
# What begins a command in a block without a language; there no prompt separates commands from output
_PROGRAM = re.compile(r"(make|lab/lab|ansible(-[a-z]+)?|python3? -m|pip) ")
_ELISION = re.compile(r"^(…|\.\.\.)|(…|\.\.\.)$")


@dataclass(frozen=True)
class Command:
    """One command of a page, continuation lines joined, and the output that the page prints behind it."""

    page: str
    line: int
    text: str
    output: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        return "%s:%d: %s" % (self.page, self.line, self.text)

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text, comments=True)

    @property
    def bare(self) -> str:
        """Without the comment and without doubled spaces, as the table of patterns has it."""
        return re.sub(r"\s+", " ", re.sub(r"\s{2,}#.*|\s# .*", "", self.text)).strip()


@functools.lru_cache(maxsize=None)
def commands() -> tuple[Command, ...]:
    """The commands of all pages, in the order and form of the pages."""
    return tuple(one for page in PAGES for one in _of_page(str(page.relative_to(ROOT)), page.read_text()))


def _of_page(page: str, text: str) -> t.Iterator[Command]:
    for block in _BLOCK.finditer(text):
        if block[2] not in ("", "console"):
            continue
        first = text.count("\n", 0, block.start()) + 2
        lines = [line[len(block[1]) :] for line in block[3].splitlines()]
        prompt = "$ " if block[2] else ""
        at = 0
        while at < len(lines):
            line, start = lines[at], at
            at += 1
            if not (line.startswith(prompt) if prompt else _PROGRAM.match(line)):
                continue
            message = line[len(prompt) :]
            while message.endswith("\\") and at < len(lines):
                message = message[:-1].rstrip() + " " + lines[at].strip()
                at += 1
            end = at
            while prompt and end < len(lines) and not lines[end].startswith(prompt):
                end += 1
            printed = [one.strip() for one in lines[at:end]]
            yield Command(
                page, first + start, message, tuple(one for one in printed if one and not _ELISION.search(one))
            )
            at = end


# -- the arguments of ansible-playbook


@dataclass
class Play:
    """The words of one call of ansible-playbook. Raises AssertionError for a word that it does not know."""

    playbook: str
    inventories: list[str] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, words: t.Sequence[str]) -> Play:
        found, rest = cls(""), list(words)
        while rest:
            word = rest.pop(0)
            if word in ("-i", "-e", "--tags", "--skip-tags", "--limit"):
                found._option(word, rest.pop(0))
            elif word in ("--check", "--diff", "--ask-vault-pass", "--list-hosts", "--list-tags", "--list-tasks"):
                continue
            else:
                assert not word.startswith("-"), "the documentation does not use the option %s" % word
                assert not found.playbook, "two playbooks"
                found.playbook = word
        assert found.playbook, "no playbook"
        return found

    def _option(self, word: str, value: str) -> None:
        if word == "-i":
            self.inventories.append(value)
        elif word.endswith("tags"):
            self.tags += value.split(",")
        elif word == "-e" and value.startswith("@"):
            self.files.append(value[1:])
        elif word == "-e" and value.startswith("{"):
            self.variables += yaml_text.load(value)
        elif word == "-e":
            self.variables += re.findall(r"(?:^|\s)(\w+)=", value)

    @property
    def path(self) -> Path:
        """The playbook's file in the checkout, also for a full name of the collection."""
        if self.playbook.startswith("railyard.fabric."):
            return ROOT / "playbooks" / (self.playbook.rpartition(".")[2] + ".yml")
        return ROOT / self.playbook


@dataclass(frozen=True)
class Takes:
    """What a playbook with all that it imports takes: variables that -e may say, and tags."""

    variables: frozenset[str]
    tags: frozenset[str]


@functools.lru_cache(maxsize=None)
def takes(playbook: Path) -> Takes:
    variables: set[str] = set()
    tags: set[str] = {"all", "always", "never", "tagged", "untagged"}
    seen: set[Path] = set()

    def file(path: Path) -> None:
        if path not in seen:
            seen.add(path)
            walk(yaml_text.load(path.read_text()), path)

    def role(name: str) -> None:
        home = ROOT / "roles" / name.rpartition(".")[2]
        specs = yaml_text.load((home / "meta" / "argument_specs.yml").read_text())["argument_specs"]
        variables.update(specs["main"].get("options") or {})
        for tasks in sorted((home / "tasks").glob("*.yml")):
            file(tasks)

    def walk(value: t.Any, path: Path) -> None:
        if isinstance(value, list):
            for each in value:
                walk(each, path)
        elif isinstance(value, dict):
            for key, each in value.items():
                _entry(str(key).rpartition(".")[2], each, path)
        elif isinstance(value, str):
            variables.update(_names(value))

    def _entry(key: str, value: t.Any, path: Path) -> None:
        if key in ("import_playbook", "import_tasks", "include_tasks"):
            named = value["file"] if isinstance(value, dict) else value
            if "{{" not in named:
                file(path.parent / named)
        elif key in ("import_role", "include_role"):
            for name in _software_roles() if "{{" in value["name"] else [value["name"]]:
                role(name)
        elif key == "roles":
            for each in value:
                role(each["role"] if isinstance(each, dict) else each)
        elif key == "tags":
            for each in [value] if isinstance(value, str) else value:
                layers = layer_table.REMOVABLE if "state='absent'" in each else layer_table.LAYERS
                tags.update(layers if "railyard.fabric.layer_tags" in each else [each])
            return
        elif key in ("rail_host", "rail_verify"):
            variables.update(layer_modules.VARIABLES, ["preflight_control_node_allowed"])
            if not value.get("layers"):
                tags.update(layer_table.REMOVABLE if value.get("state") == "absent" else layer_table.LAYERS)
        elif key in ("when", "that", "changed_when", "failed_when", "until"):
            for each in value if isinstance(value, list) else [value]:
                variables.update(_names("{{ %s }}" % each))
        walk(value, path)

    file(playbook)
    return Takes(frozenset(variables), frozenset(tags))


def _software_roles() -> list[str]:
    """The roles that a loop over the cluster's software includes."""
    mains = sorted((ROOT / "roles").glob("*/tasks/main.yml"))
    return [path.parent.parent.name for path in mains if "railyard.fabric.cluster_software" in path.read_text()]


def _names(text: str) -> set[str]:
    """The variables that a template reads."""
    if "{{" not in text and "{%" not in text:
        return set()
    return {name.name for name in jinja2.Environment().parse(text).find_all(jinja2.nodes.Name)}


# -- a place like a reader's


class Desk:
    """A checkout beside which a reader has what the pages take for granted, and may write what they like."""

    OWN = ("prod", "mine")  # what the pages call the reader's inventory

    def __init__(self, home: Path) -> None:
        self.home = home

    @classmethod
    def made(cls, home: Path) -> Desk:
        """A desk from nothing, in a directory that is there and empty."""
        for name in ("ansible.cfg", "site.yml", "playbooks", "roles", "plugins", "collections", "galaxy.yml", "tests"):
            (home / name).symlink_to(ROOT / name)
        shutil.copytree(ROOT / "inventories", home / "inventories")
        worked = ROOT / "inventories" / "macvlan-roce" / "fabric.yml"
        for name in cls.OWN:
            (home / "inventories" / name).mkdir()
            shutil.copy(worked, home / "inventories" / name)
        shutil.copy(worked, home)
        (home / "manifests").mkdir()
        shutil.copy(ROOT / "tests" / "recordings" / "manifests" / "sriov-roce.md", home / "manifests")
        shutil.copy(ROOT / "tests" / "unit" / "awx" / "sample.yml", home / "awx.yml")
        (home / "secrets.yml").write_text("awx_secrets: {}\n")
        Sample(2).write(home / "reports", history=3)
        desk = cls(home)
        planned = desk.run("ansible-playbook -i inventories/prod playbooks/plan.yml -e report_dir=plans/prod")
        assert planned.returncode == 0, planned.stdout + planned.stderr
        return desk

    def copy(self, home: Path) -> Desk:
        """Another like it, in a directory that is not there yet."""
        shutil.copytree(self.home, home, symlinks=True)
        return Desk(home)

    def run(self, text: str) -> subprocess.CompletedProcess[str]:
        """As a reader types it, without this environment's variables of clusters and collections."""
        words = shlex.split(text, comments=True)
        alone = not {"&&", "||", "|", ";", ">", "<"}.intersection(words)
        if alone and words[0] in ("ansible-playbook", "ansible-inventory"):
            env = {"ANSIBLE_STDOUT_CALLBACK": "railyard.fabric.rails"}
            return playbook.run(*words, env=env, cwd=self.home)
        if words[:2] == ["cp", "-r"]:  # a reader has no such directory yet
            shutil.rmtree(self.home / words[-1], ignore_errors=True)
        argv = ["bash", "-o", "pipefail", "-c", text]
        return subprocess.run(
            argv, cwd=self.home, env=self._environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )

    @functools.cached_property
    def _environment(self) -> dict[str, str]:
        known = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "K8S_", "KUBE"))}
        path = "%s:%s" % (Path(sys.executable).parent, known.get("PATH", ""))
        return dict(known, ANSIBLE_FORCE_COLOR="0", PATH=path)

    def forget(self, file: str) -> None:
        """Take away a file of the desk's own, for a command that makes it."""
        (self.home / file).unlink(missing_ok=True)

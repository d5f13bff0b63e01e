# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The installed archive as its user sees it: outside a checkout, without any ``ansible.cfg``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import playbook
from tests.playbook import ROOT, Played
from tools import release

JSON_CALLBACK = """
from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "one_json"

    def v2_runner_on_ok(self, result):
        if result._task.action == "railyard.fabric.show":
            self._display.display(self._dump_results(result._result))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a fabric file, an empty configuration, and the collection as it is installed."""
    top = tmp_path_factory.mktemp("installed")
    archive = release.build(tmp_path_factory.mktemp("build"))
    (top / "none.cfg").write_text("")
    install = ("collection", "install", str(archive), "-p", str(top / "collections"), "--offline", "--no-deps")
    env = {"ANSIBLE_CONFIG": str(top / "none.cfg"), "ANSIBLE_COLLECTIONS_PATH": str(top / "collections")}
    assert playbook.run("ansible-galaxy", *install, env=env, cwd=top).returncode == 0
    (top / "east").mkdir()
    shutil.copy(ROOT / "inventories/macvlan-roce/fabric.yml", top / "east/fabric.yml")
    return top


def play(place: Path, name: str, *words: str, inventory: str = "east", **more: str) -> Played:
    env = {"ANSIBLE_CONFIG": str(place / "none.cfg"), "ANSIBLE_COLLECTIONS_PATH": str(place / "collections"), **more}
    argv = ("-i", inventory, "railyard.fabric." + name, *words)
    return playbook.run("ansible-playbook", *argv, env=env, cwd=place)


def test_tables_are_printed_line_by_line(place: Path) -> None:
    done = play(place, "validate")
    assert done.returncode == 0 and "east/fabric.yml: no findings" in done.stdout.splitlines(), done.text
    done = play(place, "plan", "-e", "report_dir=out")
    assert done.returncode == 0 and "RAILS" in done.stdout.splitlines(), done.text
    assert "\\n" not in done.stdout and '"msg"' not in done.stdout
    assert re.search(r"^  \.\.\. and 8 more ports: see out/ports.csv", done.stdout, re.MULTILINE)
    assert (place / "out/ports.csv").exists()


def test_extra_variables_are_checked(place: Path) -> None:
    done = play(place, "plan", "-e", "reprot_dir=out")
    assert done.returncode == 1 and "TASK [" not in done.stdout, done.text
    assert "railyard.fabric has no variable reprot_dir (did you mean report_dir?). Remedy: " in done.one_line


def test_a_verdict_is_printed_line_by_line_with_commands(place: Path) -> None:
    """Of nodes that cannot be reached."""
    text = (place / "east/fabric.yml").read_text()
    dead = re.sub(r"address: [^}]*", "vars: {ansible_host: 127.77.0.1}", text, count=1)
    (place / "dead").mkdir()
    (place / "dead/fabric.yml").write_text(dead)
    words = ("-e", "ansible_port=1", "-T", "2", "-e", "report_dir=seen", "-e", "verify_report_dir=seen")
    done = play(place, "verify", *words, inventory="dead")
    lines = done.stdout.splitlines()
    assert done.returncode == 4, done.text  # Ansible's status of unreachable hosts
    first = "1. ai-10-1-16-[1-2]: the node does not answer (RV001)"
    assert sum(line.startswith(first) for line in lines) == 1, done.text
    assert any(re.match(r"Nodes answer +2 nodes +2 +0", line) for line in lines), done.text
    assert "add -e kubernetes_kubeconfig" in done.one_line and "-i dead railyard.fabric.report" in done.text
    assert "playbooks/" not in re.sub(r"\S*/collections/\S*", "", done.text)
    done = play(place, "report", "-e", "report_dir=seen", inventory="dead")
    assert done.returncode == 0 and "the report: seen/report.html" in done.stdout.splitlines(), done.text
    assert "playbooks/" not in (place / "seen/report.html").read_text()


def test_one_json_document_stays_one(place: Path) -> None:
    (place / "callbacks").mkdir()
    (place / "callbacks/one_json.py").write_text(JSON_CALLBACK)
    more = {"ANSIBLE_STDOUT_CALLBACK": "one_json", "ANSIBLE_CALLBACK_PLUGINS": str(place / "callbacks")}
    done = play(place, "validate", **more)
    assert done.returncode == 0 and "east/fabric.yml: no findings" not in done.stdout.splitlines(), done.text
    assert '"east/fabric.yml: no findings"' in done.stdout


# -- the commands of README


def _blocks(language: str) -> list[str]:
    text = (ROOT / "README.md").read_text()
    found = re.findall(r"^( *)```(\w*)\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL)
    return [re.sub("^" + indent, "", body, flags=re.MULTILINE) for indent, kind, body in found if kind == language]


def _commands(pattern: str) -> list[str]:
    lines = [line[2:] for block in _blocks("console") for line in block.splitlines() if line.startswith("$ ")]
    return [line for line in lines if re.match(pattern, line)]


def _typed(text: str, cwd: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Run what README prints in a shell of a user who has no settings of Ansible."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "K8S_", "KUBE"))}
    env.update(HOME=str(home), ANSIBLE_FORCE_COLOR="0", ANSIBLE_NOCOLOR="1")
    return subprocess.run(
        ["bash", "-c", text], cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user who typed README's command in a new clone, and wrote the two files of README."""
    home = tmp_path_factory.mktemp("user")
    clone = home / "railyard"
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", "file://%s" % ROOT, clone], check=True)
    (install,) = _commands("ansible-galaxy ")
    done = _typed(install, clone, home)
    assert done.returncode == 0, done.stdout + done.stderr
    (home / "east").mkdir()
    (config,), (fabric,) = _blocks("ini"), _blocks("yaml")
    (home / "east/ansible.cfg").write_text(config)
    (home / "east/fabric.yml").write_text(fabric)
    return home


def test_the_commands_of_readme_install_it_for_every_directory(user: Path) -> None:
    installed = user / ".ansible/collections/ansible_collections/railyard/fabric"
    assert (installed / "MANIFEST.json").exists() and not installed.is_symlink()
    shutil.rmtree(user / "railyard")  # nothing of the checkout is used
    plays = _commands("ansible-playbook ")
    assert [re.search(r"railyard\.fabric\.(\w+)", one)[1] for one in plays if "site" not in one] == ["validate", "plan"]  # type: ignore[index]
    for text in plays:
        done = _typed(text + (" --list-tasks" if "site" in text else ""), user / "east", user)
        assert done.returncode == 0, done.stdout + done.stderr
    bare = _typed("ansible-playbook -i east/fabric.yml railyard.fabric.validate", user, user)
    assert bare.returncode == 0 and "east/fabric.yml: no findings" in bare.stdout.splitlines(), bare.stdout


BROKEN = {
    "bracket": "plugin: railyard.fabric.rails\nfabric: {name: a\nrails: [\n",
    "tab": "plugin: railyard.fabric.rails\nfabric:\n\tname: a\n",
    "quote": "plugin: railyard.fabric.rails\nfabric: {name: 'a}\n",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=list(BROKEN))
def test_the_settings_of_readme_make_an_error_of_yaml_one_line(user: Path, text: str) -> None:
    (user / "east/broken.yml").write_text(text)
    done = _typed("ansible-playbook -i broken.yml railyard.fabric.plan", user / "east", user)
    lines = (done.stdout + done.stderr).strip().splitlines()
    assert done.returncode == 1 and len(lines) == 1 and "invalid-yaml (RY101)" in lines[0], lines


@pytest.mark.parametrize("text", BROKEN.values(), ids=list(BROKEN))
def test_without_settings_an_error_of_yaml_is_the_last_line(place: Path, text: str) -> None:
    """Ansible's plugins `auto`, `yaml` and `ini` print their errors first."""
    (place / "broken").mkdir(exist_ok=True)
    (place / "broken/fabric.yml").write_text(text)
    done = play(place, "hosts", inventory="broken/fabric.yml")
    assert done.returncode == 1 and "TASK [" not in done.stdout, done.text
    assert re.match(r"\[ERROR\]: broken/fabric\.yml:\d+: invalid-yaml \(RY101\) ", done.stderr.strip().splitlines()[-1])


def test_the_terminal_in_readme_is_what_verify_prints() -> None:
    """Lines of the recorded output of 120 columns, in its order."""
    printed = iter((ROOT / "tests/recordings/terminal/broken-32-120.txt").read_text().splitlines())
    shown = [line for block in _blocks("") for line in block.splitlines() if line != "…"]
    assert len(shown) == 10 and [line for line in shown if line not in printed] == []

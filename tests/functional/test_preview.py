# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What check mode of hosts.yml and site.yml shows for nodes that were never prepared, on one screen of 80 columns.

The nodes are replayed. ``PYTHONPATH=collections python -m tests.functional.test_preview`` writes the files again.
"""

from __future__ import annotations

import sys
import tempfile
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.report.host_preview import (
    SCREEN,
    NodePreview,
    Preview,
)
from tests import playbook
from tests.functional import preview_nodes
from tests.functional.preview_nodes import DIRECTORY, Row

CALLBACK = "railyard.fabric.rails"
REASON = "RDMA mode: live shared, next boot exclusive"


def needs_reboot(result: Row) -> None:
    result.update(reboot_required=True, reboot_reasons=[REASON])


def with_old_mtu(result: Row) -> None:
    for change in result["modules"]["rail_ports"]["changes"]:
        if change["attribute"] == "mtu":
            change["before"] = 9000


def without_backend(result: Row) -> None:
    error = {"layer": "rail_ports", "place": "backend", "message": "no back-end", "remedy": "enable systemd-networkd"}
    result["modules"]["rail_ports"] = {"failed": True, "changed": False, "changes": [], "errors": [error], "msg": ""}
    result["modules"]["nccl_files"] = {
        "changed": False,
        "changes": [],
        "not_judged": "needs the addresses of rail_ports",
    }
    result.update(errors=[error], not_judged={"nccl_files": "needs the addresses of rail_ports"})


REFUSING = dict.fromkeys(["hgx-3", "hgx-7", "hgx-9"], preview_nodes.without_containerd)
OF_NODE: t.Mapping[str, t.Mapping[str, t.Callable[[Row], object]]] = {
    "2 nodes": {},
    "32 nodes": {**REFUSING, "hgx-11": needs_reboot, "hgx-20": with_old_mtu, "hgx-21": without_backend},
}


def run(directory: Path, book: str, *words: str, callback: str = CALLBACK, **env: str) -> playbook.Played:
    """Run a playbook in check mode against the nodes of a directory, from this directory."""
    env.update(
        ANSIBLE_STDOUT_CALLBACK=callback,
        ANSIBLE_CONNECTION_PLUGINS=str(playbook.ROOT / "benchmarks/connection"),
        RAILYARD_REPLAY=str(directory),
        COLUMNS="80",
    )
    variables = directory / "group_vars"
    variables.mkdir(exist_ok=True)
    (variables / "all.yml").write_text("ansible_connection: replay\n")
    book = str(playbook.ROOT / book)
    return playbook.run("ansible-playbook", "-i", "fabric.yml", book, *words, env=env, cwd=directory)


def shown(name: str, book: str) -> str:
    """Return the preview that a run prints."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        preview_nodes.prepare(directory, int(name.split()[0]), OF_NODE[name])
        done = run(directory, book, "--check", "--diff")
        assert done.returncode == (2 if OF_NODE[name] else 0), done.text
        text = done.stdout.partition("Show what would change (check mode)\n")[2]
        text = text.replace("%s/" % playbook.ROOT, "")
        return text.partition("\n\nFail on")[0].partition("\n\nPLAY RECAP")[0] + "\n"


def of_512_nodes() -> str:
    """Return the preview of 512 nodes, of which some refuse and one does not answer, without a run of a playbook."""
    nodes = []
    for name, _address, result in preview_nodes.results(512):
        if name in REFUSING:
            preview_nodes.without_containerd(result)
        for change in result["modules"]["rail_ports"]["changes"]:
            subject = change.get("port") or change["subject"]
            if subject.startswith("rail"):
                change["rail"] = "rail0" + subject[-1]
        rails = ["rail%02d" % number for number in range(1, 9)]
        nodes.append(NodePreview(name, rails, None if name == "hgx-500" else result))
    preview = Preview(nodes)
    assert preview.counts["ports_new"] == 8 * 511
    return "\n".join(preview.lines(80, "reports/preview.txt")) + "\n"


GOLDEN: t.Mapping[str, t.Callable[[], str]] = {
    "2-nodes-hosts": lambda: shown("2 nodes", "playbooks/hosts.yml"),
    "32-nodes-site": lambda: shown("32 nodes", "site.yml"),
    "512-nodes": of_512_nodes,
}


@pytest.mark.parametrize("name", GOLDEN)
def test_previews_are_those_of_the_files(name: str) -> None:
    assert GOLDEN[name]() == (DIRECTORY / (name + ".txt")).read_text()


@pytest.mark.parametrize("name", GOLDEN)
def test_previews_fit_a_screen(name: str) -> None:
    lines = (DIRECTORY / (name + ".txt")).read_text().splitlines()
    assert len(lines) <= SCREEN
    assert all(len(line) <= 80 for line in lines if not line.startswith("next: "))


def test_everything_is_in_the_file_and_nothing_is_printed_twice(tmp_path: Path) -> None:
    preview_nodes.prepare(tmp_path, 2, {"hgx-2": preview_nodes.without_containerd})
    for callback in (CALLBACK, "ansible.builtin.default"):
        done = run(tmp_path, "playbooks/hosts.yml", "--check", "--diff", callback=callback)
        assert done.returncode == 2 and done.stdout.count("mtu: 1500 -> 4200") == 1, done.text
        assert (
            done.stdout.count("containerd is not installed") == 1 and "everything: reports/preview.txt" in done.stdout
        )
        assert "2 nodes: 16 ports new, 0 reboots, 1 refusal\n" in done.stdout and "+++" not in done.stdout
        text = (tmp_path / "reports/preview.txt").read_text()
        for node in ("hgx-1", "hgx-2"):
            assert text.count("%s: rail_ports: " % node) == 108
        assert "hgx-1: rail_ports: rail03 rail3 mtu: 1500 -> 4200\n" in text
        assert "hgx-2: refused: agent: containerd: containerd is not installed. Remedy: install" in text
        assert "\n+++ after\n" in text and "\n+Family=ipv4\n" in text
        (tmp_path / "reports/preview.txt").unlink()
    # a run of the default callback has the red line at the node that refuses
    assert "hgx-2 " in done.stdout and "failed=1" in done.stdout.split("PLAY RECAP")[1].split("hgx-2")[1]


def test_all_nodes_that_refuse_are_shown_and_the_next_command_checks_again(tmp_path: Path) -> None:
    names = ["hgx-1", "hgx-2"]
    (tmp_path / "vault").write_text("x\n")
    words = ["-e", "a_secret_token=x", "--limit", "hgx-1,hgx-2", "-f", "3", "-u", "admin", "--vault-id", "v@vault"]
    preview_nodes.prepare(tmp_path, 2, dict.fromkeys(names, preview_nodes.without_containerd))
    done = run(tmp_path, "playbooks/hosts.yml", "--check", *words)
    assert done.returncode == 2 and "0 reboots, 2 refusals" in done.stdout
    line = next(line for line in done.stdout.splitlines() if line.startswith("next: "))
    assert line.startswith("next: apply the remedies, then check again: ansible-playbook -i fabric.yml ")
    options = "--limit hgx-1,hgx-2 --user admin --forks 3 --vault-id v@vault -e ... --check"
    assert line.endswith("playbooks/hosts.yml " + options)


def test_a_run_that_changes_nodes_has_no_preview_and_groups_their_changes(tmp_path: Path) -> None:
    preview_nodes.prepare(tmp_path, 2)
    done = run(tmp_path, "playbooks/hosts.yml")
    assert done.returncode == 0 and "would" not in done.stdout and not (tmp_path / "reports").exists(), done.text
    assert "    rail0[1-8] mtu: 1500 -> 4200 on 2 nodes (hgx-[1-2])\n" in done.stdout


def test_an_unreachable_node_is_counted(tmp_path: Path) -> None:
    preview_nodes.prepare(tmp_path, 3)
    (tmp_path / "dark").mkdir()
    (tmp_path / "dark/172.30.0.2").write_text("rail_host")
    done = run(tmp_path, "playbooks/hosts.yml", "--check")
    assert done.returncode == 4 and "3 nodes: 16 ports new, 8 ports not judged, 0 reboots, 0 refusals" in done.one_line
    assert "1 node without an answer" in done.one_line and "Without an answer\n  hgx-2\n" in done.stdout


if __name__ == "__main__":
    for each in sys.argv[1:] or GOLDEN:
        (DIRECTORY / (each + ".txt")).write_text(GOLDEN[each]())

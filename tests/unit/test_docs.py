# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the documentation prints can be used unchanged."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import expanded
from ansible_collections.railyard.fabric.plugins.module_utils._node.agent_service import installed_agent
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import installed_service
from ansible_collections.railyard.fabric.plugins.module_utils._node.health_service import installed_health

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)")
ANCHOR = re.compile(r"\]\(([^)#:\s]*)#([^)\s]+)\)")
INDEX = ROOT / "docs" / "README.md"


def blocks(language: str) -> list[tuple[str, str]]:
    """The fenced blocks of a language: where each is, and its text."""
    found = []
    for page in PAGES:
        text = page.read_text()
        for block in BLOCK.finditer(text):
            if block[2] == language:
                body = re.sub("^" + block[1], "", block[3], flags=re.MULTILINE)
                found.append(("%s:%d" % (page.relative_to(ROOT), text.count("\n", 0, block.start()) + 1), body))
    return found


FILES = [block for block in blocks("yaml") if block[1].startswith("plugin: railyard.fabric.rails\n")]


@pytest.mark.parametrize("text", [text for _place, text in FILES], ids=[place for place, _text in FILES])
def test_a_whole_fabric_file_is_clean(text: str) -> None:
    assert lint(text.encode()).findings == []


def test_there_are_whole_files_in_the_pages() -> None:
    assert {place.partition(":")[0] for place, _text in FILES} >= {"README.md", "docs/fabric-file.md"}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def anchors(page: Path) -> set[str]:
    """Explicit anchors, and those that code hosts derive from the text of headings."""
    found: dict[str, int] = {}
    text = BLOCK.sub("", page.read_text())
    names = set(re.findall(r'^<a id="([^"]+)"></a>$', text, re.MULTILINE))
    for heading in re.findall(r"^#+ +(.*?) *$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = found.get(name, 0)
        found[name] = number + 1
        names.add("%s-%d" % (name, number) if number else name)
    return names


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_to_headings_that_are_there(page: Path) -> None:
    targets = [(page.parent / name if name else page, anchor) for name, anchor in ANCHOR.findall(page.read_text())]
    assert [(name, anchor) for name, anchor in targets if name.suffix == ".md" and anchor not in anchors(name)] == []


def test_limits_name_nodes_that_the_page_describes() -> None:
    """A page that imports or discovers nodes names no other nodes in its later commands."""
    seen = {}
    for page in PAGES:
        text = page.read_text()
        ranges = re.findall(r"import_nodes=(\S+?)'?[ \n]", text)
        ranges += ",".join(re.findall(r"playbook -i ([\w,-]+), playbooks/discover", text)).split(",")
        limits = set(",".join(re.findall(r"--limit ([\w,.-]+)", text)).split(",")) - {"localhost", ""}
        if any(ranges) and limits:
            nodes = {name for each in filter(None, ranges) for name in expanded(each)}
            seen[page.name] = sorted(limits - nodes)
    assert "coming-from.md" in seen and not any(seen.values()), seen


def test_the_index_has_every_page_once() -> None:
    linked = [(INDEX.parent / target).resolve() for target in LINK.findall(INDEX.read_text())]
    pages = [target for target in linked if target.suffix == ".md" and ROOT / "docs" in target.parents]
    assert sorted(pages) == sorted(page for page in PAGES if page not in (INDEX, ROOT / "README.md"))


# -- what is written on nodes


def _own_paths() -> set[str]:
    """The files of our own that code on nodes names; %s is a part that differs."""
    services = (installed_agent.SERVICE, installed_health.SERVICE)
    found = {path for each in services for path in (each.program, each.command, each.unit, each.unit_wanted)}
    sources = set((ROOT / "plugins" / "module_utils" / "_node").rglob("*.py"))
    # it has only parts of the paths above
    for source in sources - {Path(installed_service.__file__).resolve()}:
        texts = (each.value for each in ast.walk(ast.parse(source.read_text())) if isinstance(each, ast.Constant))
        found |= {
            text for text in texts if isinstance(text, str) and re.fullmatch(r"/[\w/.@%-]*railyard[\w/.@%-]*", text)
        }
    return found


def test_the_tests_that_the_page_on_security_names_exist() -> None:
    named = re.findall(r"`((?:unit|functional)/\S+\.py)::(\w+)`", (ROOT / "docs" / "security.md").read_text())
    assert len(named) > 40
    assert [(file, name) for file, name in named if "def %s(" % name not in (ROOT / "tests" / file).read_text()] == []


def test_the_page_on_security_has_every_file_of_our_own_on_nodes() -> None:
    paths = _own_paths()
    assert len(paths) > 25 and "/etc/railyard/boot.d" in paths
    page = (ROOT / "docs" / "security.md").read_text()
    missing = [path for path in paths if not re.search(re.escape(path).replace("%s", r"[A-Z]+"), page)]
    assert sorted(missing) == []
    # and no file that is no longer written
    parts = [re.escape(path).replace("%s", r"[A-Z]+") for path in paths]
    named = set(re.findall(r"`(/(?:etc|var/lib|usr/local|run)/[\w/.@-]*railyard[\w/.@-]*)`", page))
    prefixes = (
        "05-railyard-RAIL",
        "railyard-RAIL",
        "10-netplan-NETDEV",
        "boot.d/NN-MODULE",
        "/run/railyard/cni",
        "99-railyard",
    )
    known = [
        path for path in named if any(re.search(part, path) for part in parts) or any(one in path for one in prefixes)
    ]
    assert sorted(named - set(known)) == []


def test_the_group_of_modules_has_all_that_run_on_nodes() -> None:
    """``module_defaults`` with ``group/railyard.fabric.rails`` would miss one that is not in it."""
    groups = yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["action_groups"]
    there, on_control_node = (
        {path.stem for path in ROOT.glob("plugins/%s/*.py" % kind)} for kind in ("modules", "action")
    )
    # the actions of these only run modules of nodes
    assert groups["rails"] == sorted((there - on_control_node) | {"rail_host", "rail_verify"})
    assert groups["kubernetes"] == sorted(each for each in there if each.startswith("kube_"))
    page = (ROOT / "docs/hosts.md").read_text() + (ROOT / "docs/kubernetes.md").read_text()
    assert all("group/railyard.fabric.%s" % name in page for name in groups)


def test_files_of_five_lines_have_no_findings() -> None:
    page = (ROOT / "docs/guides/start.md").read_text(encoding="utf-8")
    files = re.findall(r"```yaml\n(plugin: .*?)```", page, re.S)
    outcomes = [lint(text.encode()) for text in files]
    assert len(files) == 3 and all(each.plan and each.findings == [] for each in outcomes)
    assert {len(text.splitlines()) for text in files} == {5}


@pytest.mark.parametrize("page", ["guides/agent.md", "guides/slurm.md", "guides/infiniband-sriov.md", "discover.md"])
def test_at_most_five_commands_lead_to_the_preview_of_the_hosts(page: str) -> None:
    commands = re.findall(r"^\$ (.+)", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.M)
    preview = next(at for at, command in enumerate(commands) if "hosts.yml --check" in command)
    assert preview + 1 <= 5, commands[: preview + 1]
    assert any("validate.yml" in command for command in commands[:preview])

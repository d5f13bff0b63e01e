#!/usr/bin/env python3
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/import_rules.py [--write]: check which package of the collection imports which.

``FOLDERS`` defines which folders of ``plugins`` may import which others. ``RANKS`` orders the packages of a folder.
The check reads the syntax trees of all files below ``plugins``, imports inside functions included, and reports

- an import of another folder that ``FOLDERS`` does not name;
- an import of a package of a higher rank, or of another area of the same rank;
- a cycle of modules;
- a package without a rank or without a docstring, and a rank without its package;
- a package of more than 24 modules, and a module of more than 500 lines;
- a table in docs/architecture.md that differs from the ranks and the docstrings of the packages.

``--write`` brings the table up to date.
"""

from __future__ import annotations

import ast
import re
import sys
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PREFIX = "ansible_collections.railyard.fabric.plugins."
PRIVATE = "module_utils."
MODULES_MAX = 24
LINES_MAX = 500
BEGIN, END = "<!-- packages: written by tools/import_rules.py -->\n", "<!-- /packages -->\n"
FIX = "Remedy: tools/import_rules.py --write"
# Folder -> the folders that it may import. Folders of plugins, and those of module_utils (with underscore).
FOLDERS: dict[str, str] = {
    "_common": "",
    "_nic_vendors": "_common",
    "_node": "_common _nic_vendors",
    "_fabric": "_common _nic_vendors",
    "_kube": "_common",
    "_awx": "_common _fabric",
    "modules": "_common _node",
    "doc_fragments": "",
    "filter": "_common _fabric",
    "plugin_utils": "_common _fabric _kube _awx",
    "lookup": "_common _fabric plugin_utils",
    "inventory": "_common _fabric plugin_utils",
    "callback": "_fabric plugin_utils",
    "action": "_common _fabric _kube _awx plugin_utils",
}
# Folder -> its ranks, lowest first. A package may import lower ranks. Packages of one rank do not import
# each other. An exception is an area, such as kubernetes: its packages may import those before them in the line.
RANKS: dict[str, str] = {
    "_nic_vendors": """
        protocol
        nvidia broadcom amd intel
        registry
    """,
    "_node": """
        core
        readers
        netlink boot kubelet
        safety
        ports sriov rdma qos host gpu nic cni metrics dra health_probes
        health
        agent info
        agent_service health_service probe
        layers
    """,
    "_fabric": """
        findings
        text presets
        allocate
        model
        file plan
        kubernetes.view kubernetes.gpu kubernetes.providers kubernetes.objects kubernetes.software report
        layers lint.hosts lint.kubernetes lint verify.base verify.probing verify.floors verify.narrowing \
        verify.layers verify.verdict verify.collectives
        discover html importers.base importers.infer importers.kinds importers.output
    """,
    "_kube": """
        api
        apply
        pods
    """,
}
Edge = tuple[str, str, int]


def packages() -> dict[str, tuple[int, int]]:
    """Return package -> its rank and its position in the rank. A folder without ranks is one package of rank 0."""
    found = {}
    for folder in [each for each in FOLDERS if each.startswith("_")]:
        if folder not in RANKS:
            found[folder] = (0, 0)
        for rank, line in enumerate(RANKS.get(folder, "").strip().splitlines(), 1):
            found.update({"%s.%s" % (folder, name): (rank, place) for place, name in enumerate(line.split())})
    return found


def modules(root: Path) -> dict[str, Path]:
    """Return module -> file. A module is a dotted path below ``plugins``, without ``module_utils.``."""
    files = sorted((root / "plugins").rglob("*.py"))
    return {_short(".".join(path.relative_to(root / "plugins").with_suffix("").parts)): path for path in files}


def edges(known: t.Mapping[str, Path]) -> t.Iterator[Edge]:
    """Yield importing module, imported module and line of all imports, also in functions and under TYPE_CHECKING."""
    for name, path in known.items():
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.level:
                yield name, "." * node.level + (node.module or ""), node.lineno
            elif isinstance(node, ast.ImportFrom) and ((node.module or "") + ".").startswith(PREFIX):
                base = _short((node.module or "")[len(PREFIX) :])
                for alias in node.names:
                    full = "%s.%s" % (base, alias.name)
                    yield name, full if full in known else base, node.lineno
            elif isinstance(node, ast.Import):
                yield from ((name, alias.name, node.lineno) for alias in node.names if alias.name.startswith(PREFIX))


def package(module: str) -> str:
    """Return the package of a module."""
    return module.rpartition(".")[0]


def _short(name: str) -> str:
    return name[len(PRIVATE) :] if name.startswith(PRIVATE) else name


def _may_import(above: str, below: str, placed: t.Mapping[str, tuple[int, int]]) -> bool:
    """Return whether a package may import another one."""
    folders = [name.partition(".")[0] for name in (above, below)]
    if folders[0] != folders[1]:
        return folders[1] in FOLDERS.get(folders[0], "").split()
    if above not in placed or below not in placed:
        return True
    areas = [name.split(".")[1] for name in (above, below)]
    return placed[below] < placed[above] and (placed[below][0] < placed[above][0] or areas[0] == areas[1])


def _forbidden(known: t.Mapping[str, Path], found: t.Sequence[Edge], root: Path) -> t.Iterator[str]:
    placed = packages()
    for importer, imported, line in found:
        place = "%s:%d" % (known[importer].relative_to(root), line)
        if imported not in known:
            yield "%s: %s is not imported as 'from %s... import name'" % (place, imported, PREFIX)
            continue
        above, below = package(importer), package(imported)
        if above != below and not _may_import(above, below, placed):
            yield "%s: %s must not import %s" % (place, above, below)


def _cycles(known: t.Mapping[str, Path], found: t.Sequence[Edge]) -> t.Iterator[str]:
    """Yield the modules of cycles: modules that import none of the rest are removed until only cycles remain."""
    below: dict[str, set[str]] = {name: set() for name in known}
    for importer, imported, _line in found:
        if imported in known and imported != importer:
            below[importer].add(imported)
    while True:
        free = {name for name, others in below.items() if not others}
        if not free:
            break
        below = {name: others - free for name, others in below.items() if name not in free}
    if below:
        start = min(below)
        way = [start]
        while way[-1] not in way[:-1]:
            way.append(min(below[way[-1]]))
        yield "import cycle: " + " -> ".join(way[way.index(way[-1]) :])


def _shape(known: t.Mapping[str, Path], root: Path) -> t.Iterator[str]:
    placed = packages()
    sizes: dict[str, int] = {}
    for module, path in known.items():
        own, _dot, name = module.rpartition(".")
        if name == "__init__":
            continue
        place = path.relative_to(root)
        if own.partition(".")[0] not in FOLDERS or (own.startswith("_") and own not in placed):
            yield "%s: its package has no rank in tools/import_rules.py" % place
        sizes[own] = sizes.get(own, 0) + 1
        lines = path.read_bytes().count(b"\n")
        if own.startswith(("_", "plugin_utils")) and lines > LINES_MAX:
            yield "%s: has %d lines, more than %d" % (place, lines, LINES_MAX)
    for own in placed:
        if own not in sizes:
            yield "tools/import_rules.py: %s has no modules" % own
        elif sizes[own] > MODULES_MAX:
            yield "%s: has %d modules, more than %d" % (own, sizes[own], MODULES_MAX)


def table(root: Path) -> str:
    """Return the table of docs/architecture.md: the packages by folder and rank, with their docstrings."""
    rows = ["| package | rank | holds |", "|---|---|---|"]
    for name, (rank, _place) in packages().items():
        rows.append("| `%s` | %s | %s |" % (name, rank or "", _holds(root, name)))
    return "\n".join(rows) + "\n"


def _holds(root: Path, name: str) -> str:
    path = root / "plugins" / "module_utils" / name.replace(".", "/") / "__init__.py"
    return (ast.get_docstring(ast.parse(path.read_bytes())) or "") if path.exists() else ""


def _page(root: Path) -> tuple[Path, str, str]:
    """Return docs/architecture.md, its text, and the text with the table as it must be."""
    page = root / "docs" / "architecture.md"
    text = page.read_text(encoding="utf-8")
    pattern = re.compile("(%s).*?(%s)" % (re.escape(BEGIN), re.escape(END)), re.DOTALL)
    return page, text, pattern.sub(lambda match: match.group(1) + "\n" + table(root) + "\n" + match.group(2), text)


def _texts(root: Path) -> t.Iterator[str]:
    for name in packages():
        if not re.fullmatch(r"[A-Z][^|\n]*\.", _holds(root, name)):
            yield "%s: its __init__.py needs a docstring of one line: what the package holds" % name
    page, text, wanted = _page(root)
    if BEGIN not in text or text != wanted:
        yield "%s: its table of packages differs. %s" % (page.relative_to(root), FIX)


def check(root: Path) -> list[str]:
    """Return all violations in a checkout, one line each."""
    known = modules(root)
    found = list(edges(known))
    return [*_forbidden(known, found, root), *_cycles(known, found), *_shape(known, root), *_texts(root)]


def main(arguments: t.Sequence[str]) -> int:
    """Run the tool, and return its exit status."""
    if arguments == ["--write"]:
        page, _text, wanted = _page(ROOT)
        page.write_text(wanted, encoding="utf-8")
    elif arguments:
        print(__doc__, file=sys.stderr)
        return 2
    problems = check(ROOT)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

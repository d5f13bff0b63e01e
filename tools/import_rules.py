#!/usr/bin/env python3
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/import_rules.py [--write]: check which package of the collection imports which.

``PACKAGES`` is the one table of layers: what a package holds and which packages it may import. The check reads the
syntax trees of all files below ``plugins``, imports inside functions included, and reports

- an import that the table does not allow, and an entry of the table that nothing uses;
- a cycle of modules;
- a package without an entry, with more than 16 modules, or whose ``__init__.py`` differs from the table;
- two modules of one name, and a module of more than 500 lines;
- a table in docs/architecture.md that differs from this one.

``--write`` brings the ``__init__.py`` files and the page up to date.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PREFIX = "ansible_collections.railyard.fabric.plugins."
MODULES_MAX = 16
LINES_MAX = 500
BEGIN, END = "<!-- packages: written by tools/import_rules.py -->\n", "<!-- /packages -->\n"
HEADER = """\
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""
# Modules that are longer than LINES_MAX today. The list only gets shorter: a module that fits must leave it.
LONGER: frozenset[str] = frozenset()


class Package(t.NamedTuple):
    """``holds``: a sentence for the documentation. ``imports``: packages that it may import, below ``plugins``."""

    holds: str
    imports: str = ""

    @property
    def allowed(self) -> set[str]:
        return set(self.imports.split())


PACKAGES: dict[str, Package] = {
    "_common": Package(
        "What all packages share: errors, changes, URLs without passwords, firmware parameters, attributes of VFs."
    ),
    "_node.core": Package(
        "The node as one object (files and commands), subsystems, the run of a module, the lock, packed programs.",
        "_common",
    ),
    "_node.readers": Package(
        "Read-only views of sysfs, procfs and configuration files, and events of links, devices and directories.",
        "_common _node.core",
    ),
    "_node.netlink": Package(
        "Netlink codecs and sockets: rtnetlink, RDMA netlink, DCB, ethtool, ARP.", "_common _node.core _node.readers"
    ),
    "_node.safety": Package(
        "What must not be touched: the management path, and VFs that a pod, VM or process holds.",
        "_common _node.core _node.netlink _node.readers",
    ),
    "_node.boot": Package(
        "State that is kept for the next boot: options of modules, kernel arguments, boot loaders.",
        "_common _node.core",
    ),
    "_node.ports": Package(
        "Names, MTU, addresses, tables, rules and sysctls of rail ports.",
        "_common _node.core _node.netlink _node.readers _node.safety",
    ),
    "_node.sriov": Package(
        "SR-IOV virtual functions and their attributes.",
        "_common _node.boot _node.core _node.netlink _node.readers _node.safety",
    ),
    "_node.rdma": Package(
        "RDMA netns mode, RDMA links and InfiniBand ports.",
        "_common _node.boot _node.core _node.netlink _node.readers _node.safety",
    ),
    "_node.qos": Package(
        "QoS of RoCE: PFC, ETS, congestion control, traffic classes.",
        "_common _node.boot _node.core _node.netlink _node.readers _node.safety",
    ),
    "_node.host": Package(
        "Host settings beside the ports: PCI tuning, memlock, hugepages, neighbour tables.",
        "_common _node.boot _node.core _node.readers _node.safety",
    ),
    "_node.gpu": Package("GPUDirect: the path from GPU memory to the NIC.", "_common _node.core _node.readers"),
    "_node.nic": Package(
        "NIC drivers and NIC firmware.", "_common _node.core _node.netlink _node.readers _node.safety"
    ),
    "_node.cni": Package(
        "CNI networks and plugins of a node, and the plugin railyard-rail.",
        "_common _node.core _node.netlink _node.safety",
    ),
    "_node.kubelet": Package(
        "Kubelet's protocols on a node, over gRPC: device plugins, DRA drivers, and the list of pod resources.",
        "_common _node.core",
    ),
    "_node.metrics": Package(
        "Metrics in the Prometheus format, and the counters of RDMA devices.",
        "_common _node.core _node.netlink",
    ),
    "_node.dra": Package(
        "The DRA driver of the rail agent: client of the API server, prepared ResourceClaims, ResourceSlices.",
        "_common _node.core _node.kubelet",
    ),
    "_node.agent": Package(
        "The rail agent: slots, attaching pods to rails, its service, socket and OCI hook, servers for the kubelet.",
        "_common _node.core _node.dra _node.kubelet _node.metrics _node.netlink _node.readers",
    ),
    "_node.agent_service": Package(
        "The rail agent as a service: programs, unit, spec, and what the container runtime must support.",
        "_common _node.agent _node.core _node.dra",
    ),
    "_node.info": Package(
        "The state of a node as rail_info reports it.",
        "_node.boot _node.core _node.gpu _node.host _node.netlink _node.nic _node.qos _node.rdma "
        "_node.readers "
        "_node.safety",
    ),
    "_node.probe": Package(
        "Tests of traffic between two nodes, and the pods of a node.",
        "_common _node.agent _node.core _node.dra _node.info _node.netlink _node.readers _node.safety",
    ),
    "_node.layers": Package(
        "The layers of a node: the run of all of them in one process, and of those with persistent options at boot.",
        "_common _node.agent_service _node.boot _node.cni _node.core _node.gpu _node.host _node.nic _node.ports "
        "_node.qos _node.rdma _node.readers _node.sriov",
    ),
    "_fabric.findings": Package("Findings, and the registry of lint rules."),
    "_fabric.catalog": Package(
        "Lint rules of the file's structure, names and addresses: code, title, severity, examples.", "_fabric.findings"
    ),
    "_fabric.settings_catalog": Package(
        "Lint rules of host settings, SR-IOV, QoS, GPUs and Kubernetes: code, title, severity, examples.",
        "_fabric.findings",
    ),
    "_fabric.text": Package(
        "YAML with positions, names, IP integers and text tables.", "_fabric.catalog _fabric.findings"
    ),
    "_fabric.allocate": Package("Addresses by arithmetic: one module per address mode.", "_fabric.text"),
    "_fabric.model": Package(
        "The fabric as its file describes it, and what goes with what.",
        "_fabric.allocate _fabric.catalog _fabric.findings _fabric.text",
    ),
    "_fabric.file": Package(
        "Reader and writer of the fabric file, one module per section.",
        "_common _fabric.allocate _fabric.catalog _fabric.findings _fabric.model _fabric.settings_catalog _fabric.text",
    ),
    "_fabric.plan": Package(
        "The plan: host variables, the plan document, the table of host layers, matching of ports, memory of the plan.",
        "_common _fabric.allocate _fabric.model _fabric.text",
    ),
    "_fabric.lint.settings_checks": Package(
        "The checks of the rules in `settings_catalog`, one module per family.",
        "_common _fabric.allocate _fabric.catalog _fabric.findings _fabric.kubernetes.objects "
        "_fabric.kubernetes.view _fabric.model _fabric.plan _fabric.settings_catalog _fabric.text",
    ),
    "_fabric.lint.checks": Package(
        "The checks of the rules in `catalog`, one module per family.",
        "_fabric.allocate _fabric.catalog _fabric.findings _fabric.model _fabric.plan _fabric.text",
    ),
    "_fabric.lint": Package(
        "From the bytes of a fabric file to the plan and all findings.",
        "_fabric.file _fabric.findings _fabric.lint.checks _fabric.lint.settings_checks _fabric.model "
        "_fabric.plan _fabric.text",
    ),
    "_fabric.report": Package(
        "Plans and findings as tables, files and pictures.", "_common _fabric.findings _fabric.model _fabric.text"
    ),
    "_fabric.importers.base": Package(
        "Facts and findings of an import.",
        "_fabric.findings _fabric.text",
    ),
    "_fabric.importers.sources": Package(
        "Manifests in files, pages and scripts.", "_fabric.findings _fabric.importers.base _fabric.text"
    ),
    "_fabric.importers.infer": Package(
        "Which network, pool and port belong together, and which address scheme they have.",
        "_fabric.findings _fabric.importers.base _fabric.text",
    ),
    "_fabric.importers.kinds": Package(
        "Readers of upstream's kinds, one module per family.",
        "_common _fabric.findings _fabric.importers.base _fabric.importers.infer _fabric.importers.sources "
        "_fabric.text",
    ),
    "_fabric.importers.output": Package(
        "The import as a whole: a fabric file and findings.",
        "_fabric.file _fabric.findings _fabric.importers.base _fabric.importers.infer "
        "_fabric.importers.kinds _fabric.importers.sources _fabric.lint _fabric.model _fabric.text",
    ),
    "_fabric.discover": Package(
        "From observed nodes to a fabric file with open questions.",
        "_common _fabric.allocate _fabric.file _fabric.findings _fabric.lint _fabric.model _fabric.text",
    ),
    "_fabric.kubernetes.view": Package(
        "The plan as providers see it: networks, options, labels, kinds, versions of software.",
        "_common _fabric.model _fabric.text",
    ),
    "_fabric.kubernetes.gpu": Package(
        "What the GPU Operator must be set to.", "_common _fabric.kubernetes.view _fabric.model"
    ),
    "_fabric.kubernetes.providers": Package(
        "Objects of each provider.",
        "_common _fabric.kubernetes.gpu _fabric.kubernetes.view _fabric.model _fabric.plan _fabric.text",
    ),
    "_fabric.kubernetes.software": Package(
        "Values and manifests of the software that a cluster needs first.",
        "_common _fabric.kubernetes.gpu _fabric.kubernetes.providers _fabric.kubernetes.view _fabric.model"
        " _fabric.text",
    ),
    "_fabric.kubernetes.objects": Package(
        "All objects of a plan, as documents and as files, and whether a cluster has them.",
        "_common _fabric.kubernetes.gpu _fabric.kubernetes.providers _fabric.kubernetes.view _fabric.model "
        "_fabric.text",
    ),
    "_fabric.layers": Package(
        "The modules of the chosen layers of a node, each with its options.",
        "_common _fabric.kubernetes.objects _fabric.kubernetes.providers _fabric.plan _fabric.text",
    ),
    "_fabric.verify.base": Package(
        "Codes of verify and drift, failures, the live node.",
        "_fabric.text",
    ),
    "_fabric.verify.probing": Package("Who probes whom, and what.", "_fabric.plan"),
    "_fabric.verify.layers": Package(
        "The layers of verify and drift, one module each.",
        "_common _fabric.kubernetes.objects _fabric.kubernetes.providers _fabric.kubernetes.view _fabric.model "
        "_fabric.plan _fabric.text _fabric.verify.base _fabric.verify.probing",
    ),
    "_fabric.verify.verdict": Package(
        "One verdict from all layers, and its output.",
        "_fabric.model _fabric.plan _fabric.text _fabric.verify.base _fabric.verify.layers _fabric.verify.probing",
    ),
    "_fabric.html": Package(
        "The report as one HTML page.", "_common _fabric.findings _fabric.report _fabric.text _fabric.verify.base"
    ),
    "_awx": Package(
        "The data file for AWX, and the objects that follow from it.",
        "_common _fabric.catalog _fabric.findings _fabric.text",
    ),
    "_kube.api": Package("One API server: requests, errors, concurrency.", "_common"),
    "_kube.apply": Package("Server-side apply: comparison, writes, CRDs, labels, preflight.", "_common _kube.api"),
    "_kube.pods": Package("Pods: what runs where, draining and cordoning.", "_common _kube.api _kube.apply"),
}
# The packages above module_utils, and the packages of module_utils that each may import.
PLUGINS: dict[str, tuple[str, ...]] = {
    "modules": ("_common", "_node"),
    "filter": ("_common", "_fabric"),
    "lookup": ("_common", "_fabric", "plugin_utils"),
    "inventory": ("_common", "_fabric", "plugin_utils"),
    "callback": ("_fabric", "plugin_utils"),
    "action": ("_common", "_fabric", "_kube", "_awx", "plugin_utils"),
    "plugin_utils": ("_common", "_fabric", "_kube", "_awx", "inventory", "plugin_utils"),
    "doc_fragments": (),
}
FIX = "Remedy: tools/import_rules.py --write"
Edge = tuple[str, str, int]


def modules(root: Path) -> dict[str, Path]:
    """Return module -> file. A module is a dotted path below ``plugins``, without ``module_utils.``."""
    found = {}
    for path in sorted((root / "plugins").rglob("*.py")):
        name = ".".join(path.relative_to(root / "plugins").with_suffix("").parts)
        found[name[len("module_utils.") :] if name.startswith("module_utils.") else name] = path
    return found


def edges(known: t.Mapping[str, Path]) -> t.Iterator[Edge]:
    """Yield importing module, imported module and line of all imports, also in functions and under TYPE_CHECKING."""
    for name, path in known.items():
        for base, imported, line in _imports(path.read_text(encoding="utf-8")):
            full = "%s.%s" % (base, imported)
            yield name, full if full in known else base, line


@functools.lru_cache(maxsize=None)
def _imports(text: str) -> list[tuple[str, str, int]]:
    """Return module, imported name and line. Other forms than ``from PREFIX... import name`` are returned unchanged."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level:
            found.append(("." * node.level + (node.module or ""), "", node.lineno))
        elif isinstance(node, ast.ImportFrom) and ((node.module or "") + ".").startswith(PREFIX):
            base = (node.module or "")[len(PREFIX) :]
            base = base[len("module_utils.") :] if base.startswith("module_utils.") else base
            found += [(base, alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "", node.lineno) for alias in node.names if alias.name.startswith(PREFIX)]
    return found


def package(module: str) -> str:
    return module.rpartition(".")[0]


def _forbidden(known: t.Mapping[str, Path], found: t.Sequence[Edge], root: Path) -> t.Iterator[str]:
    used: dict[str, set[str]] = {}
    for importer, imported, line in found:
        place = "%s:%d" % (known[importer].relative_to(root), line)
        if imported not in known:
            yield "%s: %s is not imported as 'from %s... import name'" % (place, imported, PREFIX)
            continue
        above, below = package(importer), package(imported)
        if above == below:
            continue
        if above in PACKAGES:
            used.setdefault(above, set()).add(below)
            if below not in PACKAGES[above].allowed:
                yield "%s: %s must not import %s" % (place, above, below)
        elif not any((below + ".").startswith(room + ".") for room in PLUGINS.get(above.partition(".")[0], ())):
            yield "%s: plugins/%s must not import %s" % (place, above, below)
    for name, entry in PACKAGES.items():
        for idle in sorted(entry.allowed - used.get(name, set())):
            yield "tools/import_rules.py: %s may import %s, and does not. Remedy: remove it there" % (name, idle)


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
    names: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for module, path in known.items():
        own = package(module)
        if own not in PACKAGES and not own.startswith("plugin_utils"):
            if own in ("", "_fabric", "_node", "_kube") and not module.endswith("__init__"):
                yield "%s: belongs in a package" % path.relative_to(root)
            elif own.partition(".")[0] not in PLUGINS and not module.endswith("__init__"):
                yield "%s: its package is not in tools/import_rules.py" % path.relative_to(root)
            continue
        if module.endswith("__init__"):
            continue
        sizes[own] = sizes.get(own, 0) + 1
        names.setdefault(module.rpartition(".")[2], []).append(module)
        lines = path.read_text(encoding="utf-8").count("\n")
        if (lines > LINES_MAX) != (module in LONGER):
            what = "has %d lines, more than %d" if lines > LINES_MAX else "has %d lines: remove it from LONGER, max %d"
            yield "%s: %s" % (path.relative_to(root), what % (lines, LINES_MAX))
    for own, size in sizes.items():
        if size > MODULES_MAX:
            yield "%s: has %d modules, more than %d" % (own, size, MODULES_MAX)
    for name, places in names.items():
        if len(places) > 1:
            yield "%s: is the name of %s" % (name, " and ".join(places))
    for gone in sorted(LONGER - set(known)):
        yield "tools/import_rules.py: LONGER has %s, which does not exist" % gone


def init_text(name: str) -> str:
    entry = PACKAGES[name]
    imports = "May import: %s." % ", ".join(sorted(entry.allowed)) if entry.imports else "Imports no other package."
    lines, line = [], ""
    for word in imports.split(" "):
        if len(line) + len(word) + 1 > 118:
            lines.append(line)
            line = ""
        line += (" " if line else "") + word
    return HEADER + '"""%s\n\n%s\n"""\n' % (entry.holds, "\n".join([*lines, line]))


def table() -> str:
    rows = ["| package | holds | may import |", "|---|---|---|"]
    for name, entry in PACKAGES.items():
        rows.append("| `%s` | %s | %s |" % (name, entry.holds, ", ".join("`%s`" % x for x in sorted(entry.allowed))))
    return "\n".join(rows) + "\n"


def _texts(root: Path, write: bool) -> t.Iterator[str]:
    wanted = {
        root / "plugins/module_utils" / name.replace(".", "/") / "__init__.py": init_text(name) for name in PACKAGES
    }
    page = root / "docs/architecture.md"
    text = page.read_text(encoding="utf-8")
    pattern = re.compile("(%s).*?(%s)" % (re.escape(BEGIN), re.escape(END)), re.DOTALL)
    wanted[page] = pattern.sub(lambda match: match.group(1) + "\n" + table() + "\n" + match.group(2), text)
    if BEGIN not in text:
        yield "docs/architecture.md: has no table of packages"
    for path, content in wanted.items():
        if write:
            path.write_text(content, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != content:
            yield "%s: differs from tools/import_rules.py. %s" % (path.relative_to(root), FIX)


def check(root: Path) -> list[str]:
    """Return all violations in a checkout, one line each."""
    known = modules(root)
    found = list(edges(known))
    return [
        *_forbidden(known, found, root),
        *_cycles(known, found),
        *_shape(known, root),
        *_texts(root, write=False),
    ]


def main(arguments: t.Sequence[str]) -> int:
    if arguments == ["--write"]:
        problems = list(_texts(ROOT, write=True))
    elif arguments:
        print(__doc__, file=sys.stderr)
        return 2
    else:
        problems = check(ROOT)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

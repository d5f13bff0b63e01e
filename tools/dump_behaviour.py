#!/usr/bin/env python3
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/dump_behaviour.py DIRECTORY: write what users of the collection can observe to files, one per subject.

For refactoring: dump before and after a change, then run ``diff -r`` on the two directories. The files are

- ``doc/KIND.json``: options and documentation of all modules, plugins and roles, as ``ansible-doc --json`` shows them;
- ``inventory/NAME.json``: the host variables of each worked example;
- ``plan/NAME/``: the files of ``playbooks/plan.yml``, the plan document among them;
- ``objects/NAME/``: the Kubernetes objects of ``playbooks/render.yml``;
- ``modules/NAME.json``: the layers of each node with the module options that ``rail_host`` gets, in their order;
- ``files/NAME/NODE/``: the agent's spec as it is written on the node;
- ``verdict/NAME.json``: the verdict of each fault of tests/unit/fabric/test_verify.py and test_verify_pods.py;
- ``pages/``: the generated pages and the JSON Schema of the fabric file.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted(path.parent.name for path in (ROOT / "inventories").glob("*/fabric.yml"))
KINDS = ("module", "role", "inventory", "filter", "lookup", "callback")
PAGES = ("findings.md", "import.md", "variables.md", "fabric.schema.json")
sys.path[:0] = [str(ROOT), str(ROOT / "collections")]


def write(path: Path, value: t.Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, sort_keys=True, default=str) + "\n", encoding="utf-8")


def run(*argv: t.Any) -> str:
    """Return what a program of the virtual environment prints."""
    path = "%s:%s" % (ROOT / ".venv/bin", os.environ["PATH"])
    environment = dict(os.environ, PATH=path, ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"), ANSIBLE_NOCOLOR="1")
    done = subprocess.run([str(each) for each in argv], cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True)
    return done.stdout.decode("utf-8").replace(str(ROOT), "")


def documentation(directory: Path) -> None:
    for kind in KINDS:
        folder = ROOT / {"role": "roles", "module": "plugins/modules"}.get(kind, "plugins/" + kind)
        files = folder.iterdir() if kind == "role" else folder.glob("*.py")
        names = sorted("railyard.fabric." + file.stem for file in files)
        write(directory / "doc" / (kind + ".json"), json.loads(run("ansible-doc", "--json", "-t", kind, *names)))


def examples(directory: Path) -> None:
    for name in EXAMPLES:
        inventory = ROOT / "inventories" / name
        listed = run("ansible-inventory", "-i", inventory / "fabric.yml", "--list")
        write(directory / "inventory" / (name + ".json"), json.loads(listed))
        for job, option, kept in (("plan", "report_dir", "plan"), ("render", "render_dir", "objects")):
            value = "%s=%s" % (option, directory / kept / name)
            run("ansible-playbook", "-i", inventory, "playbooks/%s.yml" % job, "-e", value)


def layers(directory: Path) -> None:
    """Imports inside: these modules may move."""
    from ansible_collections.railyard.fabric.plugins.module_utils._fabric.layers import layer_modules
    from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
    from ansible_collections.railyard.fabric.plugins.module_utils._node.core.installed_service import spec_text

    for name in EXAMPLES:
        plan = lint((ROOT / "inventories" / name / "fabric.yml").read_bytes()).plan
        assert plan, name
        fabric, rows = plan.fabric_vars(), {}
        for planned in plan.nodes:
            node = plan.node_vars(planned)
            rows[node["name"]] = {
                state: layer_modules.layer_modules(node, fabric, {}, layer_modules.LAYERS, state)
                for state in (layer_modules.PRESENT, layer_modules.ABSENT)
            }
            if node["agent"]:
                root = directory / "files" / name / node["name"]
                shutil.rmtree(root, ignore_errors=True)
                root.mkdir(parents=True)
                (root / "agent.json").write_text(spec_text(node["agent"]))
        write(directory / "modules" / (name + ".json"), rows)


def verdicts(directory: Path) -> None:
    test_verify, test_verify_pods, verify_nodes = (
        importlib.import_module("tests.unit.fabric." + name)
        for name in ("test_verify", "test_verify_pods", "verify_nodes")
    )
    made = verify_nodes.plan()
    for number, (name, harm, *_expected) in enumerate((*test_verify.HARMS, *test_verify_pods.HARMS)):
        world = verify_nodes.World(made)
        harm(world)
        write(directory / "verdict" / ("%03d %s.json" % (number, name.replace("/", "-"))), world.document())


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    directory = Path(sys.argv[1]).resolve()
    documentation(directory)
    examples(directory)
    layers(directory)
    verdicts(directory)
    for page in PAGES:
        if (ROOT / "docs" / page).exists():
            (directory / "pages").mkdir(exist_ok=True)
            shutil.copy(ROOT / "docs" / page, directory / "pages" / page)
    return 0


if __name__ == "__main__":
    sys.exit(main())

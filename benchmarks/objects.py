# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes objects at scale: 4,096 nodes of 8 rails with a pool each, as files of `playbooks/render.yml`.

Each run is a separate process. The seconds are processor time; reading, linting and planning the file are not in
them. Against it: PyYAML's C writer with the same objects, which alone is slower.
"""

from __future__ import annotations

import sys
import tempfile
import time
import typing as t
from pathlib import Path

from benchmarks.figures import PAIRS, ratio, say, spread
from benchmarks.planner import NODES, RAILS, Run, fabric, measured


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "fabric.yml"
        path.write_text(fabric(NODES, "sriov", ports=False).replace("network-operator", "spiderpool"))
        runs: dict[str, list[Run]] = {}
        for _pair in range(PAIRS):
            for what in WORK:
                runs.setdefault(what, []).append(_child(what, path))

    def seconds(text: str, what: str) -> None:
        say(text, spread([run.seconds for run in runs[what]], "s"))

    seconds("%d pools and all else, from the plan to YAML (goal: at most 10 s)" % (NODES * RAILS), "render")
    say("  memory at the most, with the plan", spread([run.megabytes for run in runs["render"]], "MB"))
    seconds("  the objects alone", "objects")
    seconds("  PyYAML's C writer alone, with the same objects", "pyyaml")
    say("  / that", ratio([run.seconds for run in runs["render"]], [run.seconds for run in runs["pyyaml"]]))
    return 0


def _child(what: str, path: Path) -> Run:
    return measured([sys.executable, "-m", "benchmarks.objects", what, str(path)])


def _document(path: Path) -> dict[str, t.Any]:
    from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint

    outcome = lint(path.read_bytes())
    if outcome.plan is None:
        sys.exit("\n".join(finding.text(str(path)) for finding in outcome.findings[:5]))
    made: dict[str, t.Any] = outcome.plan.document()
    return made


def _render(document: dict[str, t.Any]) -> t.Callable[[], t.Any]:
    from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects.object_files import render

    return lambda: render(document)


def _objects(document: dict[str, t.Any]) -> t.Callable[[], t.Any]:
    from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import object_components

    # Objects are not kept, so the memory is that of one object.
    return lambda: sum(1 for _each in object_components.objects(document))


def _pyyaml(document: dict[str, t.Any]) -> t.Callable[[], t.Any]:
    import yaml

    things = list(_all(document))

    class Dumper(yaml.CSafeDumper):
        def ignore_aliases(self, data: t.Any) -> bool:
            return True

    return lambda: [yaml.dump(each, Dumper=Dumper, sort_keys=False) for each in things]


def _all(document: dict[str, t.Any]) -> t.Iterator[dict[str, t.Any]]:
    from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import object_components

    return object_components.objects(document)


WORK = {"render": _render, "objects": _objects, "pyyaml": _pyyaml}


def child(what: str, path: Path) -> int:
    work = WORK[what](_document(path))
    start = time.process_time()
    work()
    print("seconds=%f" % (time.process_time() - start))
    return 0


if __name__ == "__main__":
    sys.exit(child(sys.argv[1], Path(sys.argv[2])))

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One measured step in a separate process: ``python -m benchmarks.planner_child WHAT FILE``."""

from __future__ import annotations

import json
import sys
import time
import typing as t
from pathlib import Path

from benchmarks.figures import ROOT

sys.path.insert(0, str(ROOT / "collections"))


def main(what: str, path: Path) -> int:
    work = WORK[what]()
    start = time.process_time()
    work(path)
    print("seconds=%f" % (time.process_time() - start))
    return 0


def _plan() -> t.Callable[[Path], t.Any]:
    from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint

    def work(path: Path) -> t.Any:
        outcome = lint(path.read_bytes())
        if outcome.plan is None or outcome.findings:
            sys.exit("\n".join(finding.text(str(path)) for finding in outcome.findings[:5]))
        return outcome.plan

    return work


def _document() -> t.Callable[[Path], t.Any]:
    plan = _plan()

    def work(path: Path) -> None:
        made = plan(path)
        json.dumps([made.fabric_vars()] + [made.node_vars(node) for node in made.nodes])

    return work


def _records() -> t.Callable[[Path], t.Any]:
    import yaml

    def work(path: Path) -> None:
        json.dumps(yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader))

    return work


# Step -> function that imports everything and returns the measured function.
WORK = {"plan": _plan, "document": _document, "records": _records}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))

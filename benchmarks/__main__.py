# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m benchmarks [PART]``; without a part, all.

Parts: planner, objects, slices, attach, agent-idle, health, kubernetes, webhooks, replay, narrowing, hosts.

Only the part of the hosts needs guests. ``record [--lab NAME]`` writes the recordings of the part ``replay``.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks import (
    agent_idle,
    attach,
    health,
    hosts,
    kubernetes,
    narrowing,
    objects,
    planner,
    recordings,
    replay,
    slices,
    webhooks,
)

PARTS = {
    "planner": planner.main,
    "objects": objects.main,
    "slices": slices.main,
    "attach": attach.main,
    "agent-idle": agent_idle.main,
    "health": health.main,
    "kubernetes": kubernetes.main,
    "webhooks": webhooks.main,
    "replay": replay.main,
    "narrowing": narrowing.main,
    "hosts": hosts.main,
}


def main() -> int:
    with_options = {"replay": replay.main, "narrowing": narrowing.main}
    if sys.argv[1:2] and sys.argv[1] in with_options:
        return with_options[sys.argv[1]](sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("part", nargs="?", choices=[*PARTS, "record"], help="which of them; without it, all")
    parser.add_argument("--lab", help="with record, the lab whose nodes are recorded; without it, nodes as planned")
    options = parser.parse_args()
    if options.part == "record":
        return recordings.main(options.lab)
    return max([run() for name, run in PARTS.items() if options.part in (None, name)])


if __name__ == "__main__":
    sys.exit(main())

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m benchmarks [planner|objects|attach|kubernetes|webhooks|hosts]``; without a word all.

Only the part of the hosts needs guests.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks import attach, hosts, kubernetes, objects, planner, webhooks

PARTS = {
    "planner": planner.main,
    "objects": objects.main,
    "attach": attach.main,
    "kubernetes": kubernetes.main,
    "webhooks": webhooks.main,
    "hosts": hosts.main,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("part", nargs="?", choices=list(PARTS), help="which of them; without it, all")
    chosen = parser.parse_args().part
    return max([run() for name, run in PARTS.items() if chosen in (None, name)])


if __name__ == "__main__":
    sys.exit(main())

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make bench` measures: the planner on this machine, the host phase on the lab. It prints; it never judges."""

import sys
from pathlib import Path

# The benchmarks run the checkout's own collection.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "collections"))

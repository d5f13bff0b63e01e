# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Benchmarks of `make bench`: the planner on this machine, and the host phase on the lab. They only print figures."""

import sys
from pathlib import Path

# The benchmarks run the collection of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "collections"))

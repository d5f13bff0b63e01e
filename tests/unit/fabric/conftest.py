# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hypothesis keeps what it keeps in the checkout's cache, and no example fails for the time it took.

The same examples each time, so that a change is judged by what it changes; ``make soak`` draws others, and more.
"""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import configuration, settings

configuration.set_hypothesis_home_dir(Path(__file__).resolve().parents[3] / ".cache" / "hypothesis")
settings.register_profile("railyard", deadline=None, derandomize=True)
settings.register_profile("soak", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "railyard"))

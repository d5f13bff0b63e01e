# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hypothesis keeps what it keeps in the checkout's cache, and no example fails for the time it took."""

from __future__ import annotations

from pathlib import Path

from hypothesis import configuration, settings

configuration.set_hypothesis_home_dir(Path(__file__).resolve().parents[3] / ".cache" / "hypothesis")
settings.register_profile("railyard", deadline=None)
settings.load_profile("railyard")

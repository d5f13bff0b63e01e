# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The version of the collection, for programs on nodes and for reports. A test compares it with ``galaxy.yml``."""

from __future__ import annotations

VERSION = "0.2.0"

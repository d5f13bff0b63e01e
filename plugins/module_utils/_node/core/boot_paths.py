# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The directory of the options that are applied at boot."""

from __future__ import annotations

BOOT_DIR = "/etc/railyard/boot.d"

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lint rules about ports, NICs, GPUs and settings of nodes."""

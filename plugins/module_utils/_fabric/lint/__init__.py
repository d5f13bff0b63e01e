# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lint rules with their checks, one module per family, and the run from the bytes of a file to plan and findings."""

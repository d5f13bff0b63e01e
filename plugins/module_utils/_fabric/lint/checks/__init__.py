# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The checks of the rules in `catalog`, one module per family.

May import: _fabric.allocate, _fabric.catalog, _fabric.findings, _fabric.model, _fabric.plan, _fabric.text.
"""

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""From observed nodes to a fabric file with open questions.

May import: _common, _fabric.allocate, _fabric.file, _fabric.findings, _fabric.lint, _fabric.model, _fabric.text.
"""

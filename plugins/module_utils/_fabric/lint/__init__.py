# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""From the bytes of a fabric file to the plan and all findings.

May import: _fabric.file, _fabric.findings, _fabric.lint.checks, _fabric.lint.settings_checks, _fabric.model,
_fabric.plan, _fabric.text.
"""

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Shared by all packages: errors, changes, URLs without passwords, names of firmware parameters.

Imports no other package.
"""

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Networks and free ranges that follow from known addresses, for import and discovery.

May import: _fabric.allocate, _fabric.text.
"""

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Reader and writer of the fabric file, one module per section.

May import: _common, _fabric.allocate, _fabric.catalog, _fabric.findings, _fabric.model, _fabric.settings_catalog,
_fabric.text, _nic_vendors.registry.
"""

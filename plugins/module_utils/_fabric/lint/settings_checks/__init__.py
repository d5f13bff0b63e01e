# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The checks of the rules in `settings_catalog`, one module per family.

May import: _common, _fabric.allocate, _fabric.catalog, _fabric.findings, _fabric.kubernetes.objects,
_fabric.kubernetes.view, _fabric.model, _fabric.plan, _fabric.settings_catalog, _fabric.text, _nic_vendors.protocol,
_nic_vendors.registry.
"""

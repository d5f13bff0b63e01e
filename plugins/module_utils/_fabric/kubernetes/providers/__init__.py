# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Objects of each provider.

May import: _common, _fabric.kubernetes.gpu, _fabric.kubernetes.view, _fabric.model, _fabric.plan, _fabric.text.
"""

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Manifests in files, pages and scripts, and the facts and findings of an import."""

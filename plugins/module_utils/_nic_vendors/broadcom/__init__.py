# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Broadcom: NetXtreme-E (Thor and Thor 2)."""

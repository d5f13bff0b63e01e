# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""YAML with positions and the rules about it, names, IP integers and text tables."""

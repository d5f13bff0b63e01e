# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""CNI networks and plugins of a node, and the plugin railyard-rail."""

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan: host variables, the plan document, the table of host layers, matching of ports, memory of the plan."""

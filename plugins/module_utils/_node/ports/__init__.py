# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names, MTU, addresses, tables, rules and sysctls of rail ports, and their bonds and VLANs."""

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Intel: Ethernet 800 series, and the NICs of Gaudi."""

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What differs between NIC vendors: classes that a vendor overrides."""

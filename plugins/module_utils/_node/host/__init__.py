# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Host settings beside the ports: PCI tuning, memlock, hugepages, neighbour tables."""

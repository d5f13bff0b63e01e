# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Host settings beside the ports: PCI tuning, memlock, hugepages, neighbour tables."""

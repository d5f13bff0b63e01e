# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which port, leaf, path between leaves or whole rail explains failed probes, and which further probes decide it."""

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What must not be touched: the management path, and VFs that a pod, VM or process holds."""

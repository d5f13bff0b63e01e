# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""QoS of RoCE: PFC, ETS, congestion control, traffic classes."""

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Metrics in the Prometheus format, and the counters of RDMA devices."""

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's Kubernetes: a real API server with etcd and a controller manager, on this machine's loopback."""

from __future__ import annotations

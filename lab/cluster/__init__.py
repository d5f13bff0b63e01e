# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's Kubernetes: a real API server with etcd and a controller manager, on the loopback of this machine."""

from __future__ import annotations

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab: real Linux guests on this machine whose NICs, SR-IOV and RDMA stack are the kernel's own."""

from __future__ import annotations

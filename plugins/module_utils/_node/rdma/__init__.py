# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""RDMA netns mode, RDMA links and InfiniBand ports."""

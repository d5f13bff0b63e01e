# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kubelet's protocols on a node, over gRPC: device plugins, DRA drivers, and the list of pod resources."""

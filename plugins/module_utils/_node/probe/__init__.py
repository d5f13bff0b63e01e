# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of traffic between two nodes, and the pods of a node."""

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Probes between nodes for the health service: sockets, pace, evidence and judgement."""

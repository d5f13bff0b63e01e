# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make bench` measures on the lab. It prints; it never judges."""

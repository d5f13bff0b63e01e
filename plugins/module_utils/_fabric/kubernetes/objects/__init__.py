# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""All objects of a plan, as documents and as files, and whether a cluster has them."""

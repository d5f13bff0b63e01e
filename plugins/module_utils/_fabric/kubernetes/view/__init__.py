# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan as providers see it: networks, options, labels, kinds, versions of software."""

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The node as one object (files and commands), subsystems, the run of a module, the lock, packed programs, services."""

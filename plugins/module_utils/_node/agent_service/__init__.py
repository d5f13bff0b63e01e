# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rail agent as a service: programs, unit, spec, and what the container runtime must support."""

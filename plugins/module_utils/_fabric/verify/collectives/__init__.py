# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Collective tests: commands of launchers, output of nccl-tests and rccl-tests, verdict."""

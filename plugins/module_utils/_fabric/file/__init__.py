# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reader and writer of the fabric file, one module per section, with the rules that the readers report."""

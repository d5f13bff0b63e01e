# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUDirect: the path from GPU memory to the NIC."""

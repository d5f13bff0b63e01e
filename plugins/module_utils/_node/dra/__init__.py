# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The DRA driver of the rail agent: client of the API server, prepared ResourceClaims, ResourceSlices."""

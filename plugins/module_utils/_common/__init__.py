# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What all packages share: errors, changes, URLs without passwords, attributes of VFs."""

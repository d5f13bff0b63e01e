# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""State that is kept for the next boot: options of modules, kernel arguments, boot loaders."""

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read-only views of sysfs, procfs and configuration files, and events of links, devices and directories."""

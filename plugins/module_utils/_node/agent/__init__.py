# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rail agent: slots, attaching pods to rails, its service, socket and OCI hook, servers for the kubelet."""

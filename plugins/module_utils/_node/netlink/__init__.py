# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Netlink codecs and sockets: rtnetlink, RDMA netlink, DCB, ethtool, ARP, ICMP."""

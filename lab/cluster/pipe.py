# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One connection from a guest to the API server: QEMU starts this with the guest's end as standard input and output.

The server's port is read at each connection, so that guests keep running when the cluster gets another one.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys


def copy(near: tuple[int, int], far: socket.socket) -> None:
    """Copy bytes in both directions between descriptors, until the far end closes."""
    inward, outward = near
    poll = select.poll()
    poll.register(inward, select.POLLIN)
    poll.register(far, select.POLLIN)
    while True:
        for descriptor, _event in poll.poll():
            data = os.read(descriptor, 65536)
            if descriptor == inward and data:
                far.sendall(data)
            elif descriptor == inward:
                poll.unregister(inward)
                far.shutdown(socket.SHUT_WR)
            elif not data:
                return
            while descriptor != inward and data:
                data = data[os.write(outward, data) :]


def main() -> None:
    try:
        with open(sys.argv[1], encoding="utf-8") as text:
            port = json.load(text)["ports"]["api"]
        far = socket.create_connection(("127.0.0.1", port))
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        copy((0, 1), far)
    except (OSError, ValueError, KeyError):
        sys.exit(1)  # the guest sees a closed connection, as without a server


if __name__ == "__main__":
    main()

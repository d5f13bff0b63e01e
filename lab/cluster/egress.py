# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API server's proxy to the kubelets: HTTP CONNECT on a unix socket, from a node's address to a loopback port."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from pathlib import Path

Targets = dict[str, int]


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


async def serve(near: tuple[asyncio.StreamReader, asyncio.StreamWriter], targets: Targets) -> None:
    """Serve one connection. ``targets``: address and port of a kubelet -> loopback port."""
    reader, writer = near
    with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
        head = (await reader.readuntil(b"\r\n\r\n")).split()
        port = targets.get(head[1].decode("ascii", "replace")) if head[0] == b"CONNECT" else None
        try:
            if port is None:
                raise ConnectionRefusedError("no kubelet has this address")
            far = await asyncio.open_connection("127.0.0.1", port)
        except OSError as error:
            print("%s: %s" % (head[1].decode("ascii", "replace"), error), flush=True)
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            await writer.drain()
            return
        with contextlib.closing(far[1]):
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await asyncio.gather(_pump(reader, far[1]), _pump(far[0], writer))


async def listen(place: Path, targets: Targets) -> None:
    """Serve connections until the process ends."""
    place.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(lambda *near: serve(near, targets), place)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(listen(Path(sys.argv[1]), json.loads(sys.argv[2])))

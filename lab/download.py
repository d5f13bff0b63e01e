# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Download a large file over HTTP: resumed after an interruption, and kept only if its SHA-512 is the expected one."""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import queue
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from lab.progress import say

# From the request to the header of the answer, with the lookup of the name and redirects.
ANSWER_SECONDS = 5.0
# Between two parts of the content.
STALL_SECONDS = 30.0
PROGRESS_SECONDS = 10.0
# Without this limit, an endless answer would fill the disk before its checksum can be compared.
MAX_BYTES = 2 << 30
CHUNK = 1 << 20
MEGABYTE = 1000 * 1000


class DownloadError(Exception):
    """A file cannot be downloaded. The text is the reason."""


def download(url: str, place: Path, sha512: str) -> None:
    """Download ``url`` to ``place``, unless the file there has the checksum ``sha512`` (hexadecimal).

    An incomplete download stays as ``place`` with the suffix ``.part``, and the next call resumes it. A file with
    another checksum is deleted. The caller holds a lock, because two downloads would write the same file. The variables
    ``http_proxy``, ``https_proxy`` and ``no_proxy`` apply.

    :raises DownloadError: if the server does not send the file, or sends another one.
    """
    if place.is_file():
        if _sha512(place) == sha512:
            return
        place.unlink()
    part = place.with_name(place.name + ".part")
    resumed = _size(part) > 0
    while True:
        before = _size(part)
        try:
            _append(url, part)
        except DownloadError:
            part.unlink(missing_ok=True)
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:  # the last: a URL that cannot be parsed
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                part.unlink(missing_ok=True)
                raise DownloadError("%s: %s" % (part.parent, error.strerror)) from None
            # A server that sends something may only have been interrupted.
            if _size(part) <= before:
                raise DownloadError(_reason(url, error)) from None
            say("  interrupted: %s" % _text(error))
            resumed = True
            continue
        found = _sha512(part)
        if found == sha512:
            os.replace(part, place)
            return
        part.unlink()
        if not resumed:
            text = "%s has the SHA-512 %s... and not %s...: it was deleted"
            raise DownloadError(text % (url, found[:16], sha512[:16]))
        say("  the resumed file has a wrong checksum; downloading all of it")
        resumed = False


def _append(url: str, part: Path) -> None:
    """Download the rest of a file. A server without ranges sends all of it, which replaces the part."""
    start = _size(part)
    headers = {"User-Agent": "railyard-lab", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = "bytes=%d-" % start
    try:
        answer = _open(urllib.request.Request(url, headers=headers))
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            return  # the part is complete, or of another file: its checksum shows it
        raise
    with answer:
        if answer.status == http.HTTPStatus.PARTIAL_CONTENT:
            sent = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
            if sent is None or int(sent.group(1)) != start:
                raise DownloadError("%s: the server sends another range than the requested one" % url)
        else:
            start = 0
        total = start + answer.length if answer.length is not None else None
        if (total or 0) > MAX_BYTES:
            raise DownloadError("%s has %d MB, more than %d" % (url, (total or 0) // MEGABYTE, MAX_BYTES // MEGABYTE))
        size = "" if total is None else ", %d MB" % (total // MEGABYTE)
        say("downloading %s%s%s" % (url, size, ", from %d MB on" % (start // MEGABYTE) if start else ""))
        with open(part, "ab" if start else "wb") as out:
            _copy(answer, out, start, total)


def _copy(answer: http.client.HTTPResponse, out: Any, start: int, total: int | None) -> None:
    """Write the content of an answer to a file. ``start``: bytes before it; ``total``: expected bytes of the file."""
    size, spoken = start, time.monotonic()
    while chunk := answer.read1(CHUNK):
        out.write(chunk)
        size += len(chunk)
        if size > MAX_BYTES:
            raise DownloadError("the server sends more than %d MB" % (MAX_BYTES // MEGABYTE))
        if time.monotonic() - spoken > PROGRESS_SECONDS:
            spoken = time.monotonic()
            say("  %d%s MB" % (size // MEGABYTE, "" if total is None else " of %d" % (total // MEGABYTE)))
    if total is not None and size < total:
        raise OSError("the connection ended after %d of %d bytes" % (size, total))


def _open(request: urllib.request.Request) -> http.client.HTTPResponse:
    """Send a request. Raises TimeoutError without an answer in :data:`ANSWER_SECONDS`.

    A timeout of a socket applies neither to the lookup of a name nor to all addresses and redirects together. Therefore
    a thread waits for the answer. It does not keep the program running.
    """
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(urllib.request.build_opener().open(request, timeout=STALL_SECONDS))
        except Exception as error:
            answers.put(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=ANSWER_SECONDS)
    except queue.Empty:
        raise TimeoutError("no answer in %g s" % ANSWER_SECONDS) from None
    if isinstance(answer, Exception):
        raise answer
    found: http.client.HTTPResponse = answer
    return found


def _reason(url: str, error: Exception) -> str:
    """Return the reason of a failed request, with the proxy if there is one, but without its password."""
    parts = urllib.parse.urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    by = ""
    if proxy and not urllib.request.proxy_bypass(parts.hostname or ""):
        by = " by the proxy %s" % proxy.rpartition("@")[2].rpartition("://")[2].rstrip("/")
    return "%s%s: %s" % (url, by, _text(error))


def _text(error: Exception) -> str:
    """Return the text of an error of urllib, which contains the errors of sockets, in one line."""
    if isinstance(error, urllib.error.HTTPError):
        return "%d %s" % (error.code, " ".join(str(error.reason).split()))
    inner = getattr(error, "reason", None) or error
    if isinstance(inner, TimeoutError) and str(inner) == "timed out":
        return "no data in %g s" % STALL_SECONDS
    return getattr(inner, "strerror", None) or str(inner) or type(inner).__name__


def _size(place: Path) -> int:
    return place.stat().st_size if place.is_file() else 0


def _sha512(place: Path) -> str:
    digest = hashlib.sha512()
    with open(place, "rb") as content:
        while chunk := content.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()

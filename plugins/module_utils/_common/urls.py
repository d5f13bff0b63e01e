# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Users and passwords in URLs: separated for programs, and masked in all output."""

from __future__ import annotations

import re
import typing as t

HIDDEN = "***"
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:/+)(\S*@\S*)")


class Login(t.NamedTuple):
    """User and password of a request. Each may be empty."""

    user: str
    password: str


def masked(text: str) -> str:
    """Return the text with ``***`` for passwords in its URLs, and for users without password, which may be tokens.

    If the end of a password is ambiguous, as in a password with a slash, more text is masked.
    """
    return _URL.sub(_masked, text) if "@" in text else text


def _masked(match: t.Match[str]) -> str:
    scheme, rest = match.group(1), match.group(2)
    head, _at, tail = rest.rpartition("@")
    user, colon, _password = head.partition(":")
    if colon and "/" not in user:
        return "%s%s:%s@%s" % (scheme, user, HIDDEN, tail)
    authority, slash, path = rest.partition("/")
    if "@" not in authority:
        return match.group(0)
    return "%s%s@%s%s%s" % (scheme, HIDDEN, authority.rpartition("@")[2], slash, path)


def all_masked(value: t.Any) -> t.Any:
    """Return a value with :func:`masked` applied to all its texts, at any depth."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {all_masked(key): all_masked(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [all_masked(item) for item in value]
    return value


def parted(url: str) -> tuple[str, Login | None]:
    """Return the URL without user and password, and the decoded user and password; None if it has none.

    :raises ValueError: if they contain a character that must be percent-encoded. The text does not contain them.
    """
    # imported here because all errors import this module, and short programs must start fast
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    try:
        parts.port  # noqa: B018 - read for its error, whose own message would contain the password
    except ValueError:
        raise ValueError(
            "the port is not a number, or user or password contain a character that is not percent-encoded"
        ) from None
    if not at:
        return url, None
    user, _colon, password = userinfo.partition(":")
    return url.replace(parts.netloc, host, 1), Login(unquote(user), unquote(password))

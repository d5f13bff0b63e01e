# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Users and passwords in URLs: taken out of what programs are given, and hidden in all that anybody is told."""

from __future__ import annotations

import re
import typing as t

HIDDEN = "***"
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:/+)(\S*@\S*)")


class Login(t.NamedTuple):
    """Who asks; ``password`` or ``user`` may be empty."""

    user: str
    password: str


def masked(text: str) -> str:
    """The text with ``***`` for each password in its URLs, and for a user without one, which may be a token.

    Where it cannot be told how far a password reaches, as in one that has a slash, too much is hidden.
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
    """A value with all texts in it, however deep, as :func:`masked` has them."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {all_masked(key): all_masked(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [all_masked(each) for each in value]
    return value


def parted(url: str) -> tuple[str, Login | None]:
    """The URL without user and password, and these as they are, no longer in per cent.

    :raises ValueError: where they hold what ends them in a URL; without telling it.
    """
    # here, because errors import this file, and an import is most of a short program's time
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    try:
        parts.port  # noqa: B018 - it is read for its error, which tells what should not be told
    except ValueError:
        raise ValueError("what follows the host is no port, or a sign in user or password ends them") from None
    if not at:
        return url, None
    user, _colon, password = userinfo.partition(":")
    return url.replace(parts.netloc, host, 1), Login(unquote(user), unquote(password))

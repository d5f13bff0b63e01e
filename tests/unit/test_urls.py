# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Passwords in URLs: what is shown of them, and what programs get."""

from __future__ import annotations

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import Errors, RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._common.urls import Login, all_masked, masked, parted


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("https://user:hush@mirror.example/doca", "https://user:***@mirror.example/doca"),
        ("https://user:h%40sh@mirror.example:8443/doca", "https://user:***@mirror.example:8443/doca"),
        ("oci://user:hush@mirror.example/doca", "oci://user:***@mirror.example/doca"),
        ("http:/user:hush@mirror.example", "http:/user:***@mirror.example"),
        # a token alone is a secret too
        ("https://hush@mirror.example/doca", "https://***@mirror.example/doca"),
        ("https://:hush@mirror.example/doca", "https://:***@mirror.example/doca"),
        # signs that should be written in per cent
        ("https://user:h@sh@mirror.example/doca", "https://user:***@mirror.example/doca"),
        ("https://user:hu/sh@mirror.example/doca", "https://user:***@mirror.example/doca"),
        ("https://user:hu:sh@mirror.example/doca", "https://user:***@mirror.example/doca"),
        # within a program's output, more than once
        (
            "E: 'http://a:hush@one.example/x' and http://b:hush@two.example/y failed",
            "E: 'http://a:***@one.example/x' and http://b:***@two.example/y failed",
        ),
        # nothing to hide
        ("https://mirror.example:8443/doca", "https://mirror.example:8443/doca"),
        ("https://mirror.example/@scope/doca", "https://mirror.example/@scope/doca"),
        ("see https://mirror.example, or write to root@mirror.example", None),
        ("file:/srv/doca", "file:/srv/doca"),
        ("user:hush@mirror.example:/srv", "user:hush@mirror.example:/srv"),
    ],
)
def test_the_reported_form_of_a_url(text: str, reported: str | None) -> None:
    assert masked(text) == (text if reported is None else reported)


def test_all_texts_of_a_value_are_masked() -> None:
    url = "https://user:hush@mirror.example"
    reported = all_masked({"a": [url, {"b": url, url: 1}], "c": (url,), "d": None, "e": 1, "f": True})
    assert "hush" not in str(reported) and str(reported).count("user:***@") == 4
    assert (reported["d"], reported["e"], reported["f"]) == (None, 1, True)


@pytest.mark.parametrize(
    ("url", "plain", "login"),
    [
        ("https://mirror.example/doca", "https://mirror.example/doca", None),
        ("file:/srv/doca@2", "file:/srv/doca@2", None),
        ("https://mirror.example:8443/@scope", "https://mirror.example:8443/@scope", None),
        ("https://user:hush@mirror.example:8443/d", "https://mirror.example:8443/d", Login("user", "hush")),
        ("https://us%40er:h%2Fs%25h@mirror.example", "https://mirror.example", Login("us@er", "h/s%h")),
        ("https://user:h@sh:x@mirror.example/", "https://mirror.example/", Login("user", "h@sh:x")),
        ("https://hush@mirror.example/", "https://mirror.example/", Login("hush", "")),
        ("https://:hush@mirror.example/", "https://mirror.example/", Login("", "hush")),
    ],
)
def test_secrets_are_hidden_from_programs(url: str, plain: str, login: Login | None) -> None:
    assert parted(url) == (plain, login)


@pytest.mark.parametrize("url", ["https://user:hu/sh@mirror.example/", "https://user:hu#sh@mirror.example/"])
def test_a_password_that_ends_too_early_is_refused_and_not_reported(url: str) -> None:
    with pytest.raises(ValueError, match="percent-encoded") as caught:
        parted(url)
    assert "hu" not in str(caught.value)


def test_no_error_reports_a_password() -> None:
    url = "https://user:hush@mirror.example/doca"
    error = RailyardError("%s cannot be fetched" % url, "source: " + url, "see %s" % url)
    for reported in (str(error), str(error.as_dict()), str(Errors([error, error])), repr(error)):
        assert "hush" not in reported and "user:***@mirror.example" in reported

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Requests to AWX's API: how it is reached, what is tried again, and one clear error for each way to fail."""

from __future__ import annotations

import http.client
import json
import os
import time
import typing as t
import urllib.error
from urllib.parse import urlencode, urlsplit

from ansible.module_utils.urls import ConnectionError as UrlsConnectionError
from ansible.module_utils.urls import NoSSLError, Request, SSLValidationError

from ansible_collections.railyard.fabric.plugins.module_utils.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils.urls import masked

Data = t.Dict[str, t.Any]

_TRIES = 5
# A proxy in front of AWX answers these while AWX restarts.
_TRANSIENT = (502, 503, 504)
_DROPPED = (http.client.HTTPException, ConnectionResetError, BrokenPipeError, TimeoutError)
_PREFIX = "CONTROLLER_OPTIONAL_API_URLPATTERN_PREFIX"
_RIGHTS: t.Mapping[str, str] = {
    "organizations": "let a system administrator of AWX create it once",
    "credential_types": "let a system administrator of AWX run this once: credential types are AWX-wide",
    "execution_environments": "use a token of an administrator of the organization, or existing: NAME",
}
_OWN = "use a token of an administrator of the organization (docs/awx.md, Rights)"


class ApiError(RailyardError):
    """AWX refused a request. ``status``: its HTTP status; 0: there was no answer."""

    def __init__(self, message: str, place: str, remedy: str, status: int = 0) -> None:
        super().__init__(message, place, remedy)
        self.status = status


class Server:
    """One AWX, as the environment names it (``CONTROLLER_HOST`` and so on; ``TOWER_`` in place of ``CONTROLLER_``)."""

    def __init__(self, environment: t.Mapping[str, str] | None = None, pause: float = 0.5) -> None:
        self._environment = os.environ if environment is None else environment
        host = self._variable("HOST")
        if not host:
            remedy = "set CONTROLLER_HOST and CONTROLLER_OAUTH_TOKEN in the environment"
            remedy += "; in AWX, add a credential of type Red Hat Ansible Automation Platform to the job template"
            raise RailyardError("no AWX is named", "CONTROLLER_HOST", remedy)
        self.url = (host if "://" in host else "https://%s" % host).rstrip("/")
        try:
            named = urlsplit(self.url).hostname
        except ValueError:
            named = None
        if not named:
            raise RailyardError("%s is not a URL" % host, "CONTROLLER_HOST", "write https://HOST")
        self._api = "/%s/v2/" % (self._environment.get(_PREFIX) or "/api/").strip("/")
        self._pause = pause
        # Whether the last request was sent more than once: an object may then be there by its first try.
        self.repeated = False
        self._request = Request(
            headers={"Accept": "application/json", "Content-Type": "application/json", **self._authorization()},
            use_netrc=False,
            timeout=self._timeout(),
            validate_certs=self._variable("VERIFY_SSL").lower() not in ("0", "false", "no", "off", "f", "n"),
        )

    def _variable(self, name: str) -> str:
        return self._environment.get("CONTROLLER_" + name) or self._environment.get("TOWER_" + name) or ""

    def _timeout(self) -> float:
        given = self._variable("REQUEST_TIMEOUT")
        try:
            return float(given or 30)
        except ValueError:
            message = "%s is not a number of seconds" % given
            raise RailyardError(message, "CONTROLLER_REQUEST_TIMEOUT", "write 30") from None

    def _authorization(self) -> dict[str, str]:
        token = self._variable("OAUTH_TOKEN")
        if token:
            return {"Authorization": "Bearer %s" % token}
        user, password = self._variable("USERNAME"), self._variable("PASSWORD")
        if not user:
            remedy = "set CONTROLLER_OAUTH_TOKEN, or CONTROLLER_USERNAME and CONTROLLER_PASSWORD"
            raise RailyardError("there is no token for %s" % masked(self.url), "CONTROLLER_OAUTH_TOKEN", remedy)
        import base64

        pair = base64.b64encode(("%s:%s" % (user, password)).encode()).decode()
        return {"Authorization": "Basic %s" % pair}

    # -- requests

    def get(self, path: str, **query: t.Any) -> Data:
        return self._ask("GET", path, None, query)

    def all(self, path: str, **query: t.Any) -> list[Data]:
        """All items of a list, whatever its pages."""
        found: list[Data] = []
        page = 1
        while True:
            answer = self.get(path, page_size=200, page=page, **query)
            found.extend(answer.get("results", []))
            if not answer.get("next"):
                return found
            page += 1

    def post(self, path: str, data: Data) -> Data:
        return self._ask("POST", path, data)

    def patch(self, path: str, data: Data) -> Data:
        return self._ask("PATCH", path, data)

    def delete(self, path: str) -> None:
        try:
            self._ask("DELETE", path, None)
        except ApiError as error:
            if error.status != 404:  # by its first try
                raise

    def _ask(self, method: str, path: str, data: Data | None, query: t.Mapping[str, t.Any] | None = None) -> Data:
        url = "%s%s%s/" % (self.url, self._api, path)
        if query:
            url += "?" + urlencode(query)
        body = None if data is None else json.dumps(data).encode()
        for turn in range(_TRIES):
            self.repeated = turn > 0
            last = turn == _TRIES - 1
            try:
                with self._request.open(method, url, data=body) as answer:
                    return self._parsed(answer.read(), url)
            except urllib.error.HTTPError as error:
                if error.code not in _TRANSIENT or last:
                    raise self._refused(method, path, error) from None
            except (*_DROPPED, urllib.error.URLError) as error:
                reason = getattr(error, "reason", error)
                if last or not isinstance(reason, _DROPPED):
                    raise self._unreachable(reason) from None
            except (UrlsConnectionError, SSLValidationError, NoSSLError, OSError, ValueError) as error:
                raise self._unreachable(error) from None
            time.sleep(self._pause * 2**turn)
        raise AssertionError("the last try returns or raises")

    def _parsed(self, raw: bytes, url: str) -> Data:
        if not raw:
            return {}
        try:
            found = json.loads(raw)
        except ValueError:
            raise self._no_api(url, "the answer is not JSON") from None
        return found if isinstance(found, dict) else {"results": found}

    def _no_api(self, url: str, why: str, status: int = 0) -> ApiError:
        remedy = (
            "see that CONTROLLER_HOST is AWX; if its API is not below /api/, set %s, such as /api/controller/" % _PREFIX
        )
        return ApiError(
            "there is no API of AWX at %s: %s" % (url.partition("?")[0], why), "CONTROLLER_HOST", remedy, status
        )

    def _unreachable(self, reason: t.Any) -> ApiError:
        text = " ".join(str(reason).split())
        remedy = "see that CONTROLLER_HOST is right and AWX runs"
        if "certificate" in text.lower():
            remedy = "install AWX's certificate authority here, or set CONTROLLER_VERIFY_SSL=false"
        return ApiError("%s cannot be reached: %s" % (self.url, text), "CONTROLLER_HOST", remedy)

    def _refused(self, method: str, path: str, error: urllib.error.HTTPError) -> ApiError:
        raw = error.read()
        try:
            said = flat(json.loads(raw))
        except ValueError:
            said = "" if error.code in (401, 403) else str(error.reason)
        kind = path.split("/")[0]
        doing = "%s %s" % (method, path)
        if error.code == 401:
            remedy = "set CONTROLLER_OAUTH_TOKEN to a valid token, or CONTROLLER_USERNAME and CONTROLLER_PASSWORD"
            return ApiError(
                "%s does not accept the token or password (HTTP 401): %s" % (self.url, said), "AWX", remedy, 401
            )
        if error.code == 403:
            remedy = _OWN if method == "GET" else _RIGHTS.get(kind, _OWN)
            return ApiError("no permission for %s (HTTP 403): %s" % (doing, said), "AWX", remedy, 403)
        if error.code == 404 and "/" not in path:
            return self._no_api("%s%s%s/" % (self.url, self._api, path), "HTTP 404", 404)
        remedies = {
            409: "wait until its running job ends, or cancel it, and run this again",
            400: "change what it names",
        }
        for code in _TRANSIENT:
            remedies[code] = "see that AWX runs, and run this again: it goes on where it stopped"
        remedy = remedies.get(error.code, "see the log of AWX's web service, and run this again")
        return ApiError("%s is refused (HTTP %d): %s" % (doing, error.code, said), "AWX", remedy, error.code)


def flat(said: t.Any) -> str:
    """What AWX answers to a refused request, on one line: ``field: message; field: message``."""
    if isinstance(said, dict):
        hidden = ("__all__", "detail", "non_field_errors", "error", "Error", "msg")
        return "; ".join(flat(each) if key in hidden else "%s: %s" % (key, flat(each)) for key, each in said.items())
    if isinstance(said, list):
        return ", ".join(map(flat, said))
    return " ".join(str(said).split()).rstrip(".")

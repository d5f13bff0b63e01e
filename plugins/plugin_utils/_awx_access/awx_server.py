# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to the API of AWX: connection, retries, and an error with a remedy for each kind of failure."""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import time
import typing as t
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._common.urls import masked

Data = t.Dict[str, t.Any]

_TRIES = 5
# Statuses of a proxy while AWX restarts.
_TRANSIENT = (502, 503, 504)
_DROPPED = (http.client.HTTPException, ConnectionResetError, BrokenPipeError, TimeoutError)
_FALSE = ("0", "false", "no", "off", "f", "n")
_PREFIX = "CONTROLLER_OPTIONAL_API_URLPATTERN_PREFIX"
_RIGHTS: t.Mapping[str, str] = {
    "organizations": "let a system administrator of AWX create it once",
    "credential_types": "let a system administrator of AWX run this once: credential types are AWX-wide",
    "execution_environments": "use a token of an administrator of the organization, or existing: NAME",
}
_OWN = "use a token of an administrator of the organization (docs/awx.md, Rights)"


class ApiError(RailyardError):
    """AWX refused a request. ``status``: the HTTP status; 0: no answer."""

    def __init__(self, message: str, place: str, remedy: str, status: int = 0) -> None:
        super().__init__(message, place, remedy)
        self.status = status


class Server:
    """The AWX that environment variables select: ``CONTROLLER_HOST`` and others, or ``TOWER_HOST`` and so on."""

    def __init__(self, environment: t.Mapping[str, str] | None = None, pause: float = 0.5) -> None:
        self._environment = os.environ if environment is None else environment
        host = self._variable("HOST")
        if not host:
            remedy = "set CONTROLLER_HOST and CONTROLLER_OAUTH_TOKEN in the environment"
            remedy += "; in AWX, add a credential of type Red Hat Ansible Automation Platform to the job template"
            raise RailyardError("no AWX is named", "CONTROLLER_HOST", remedy)
        self.url = (host if "://" in host else "https://%s" % host).rstrip("/")
        self._address = _address(self.url)
        self._api = "/%s/v2/" % (self._environment.get(_PREFIX) or "/api/").strip("/")
        self._pause = pause
        # Whether the last request was sent more than once: the first try may have created the object.
        self.repeated = False
        self._headers = {"Accept": "application/json", "Content-Type": "application/json", **self._authorization()}
        self._wait = self._timeout()
        self._connection: http.client.HTTPConnection | None = None
        self._base = ""

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
        return {"Authorization": _basic("%s:%s" % (user, password))}

    # -- requests

    def get(self, path: str, **query: t.Any) -> Data:
        """Return the object or page at a path."""
        return self._ask("GET", path, None, query)

    def all(self, path: str, **query: t.Any) -> list[Data]:
        """Return all items of a list, from all its pages."""
        found: list[Data] = []
        page = 1
        while True:
            answer = self.get(path, page_size=200, page=page, **query)
            found.extend(answer.get("results", []))
            if not answer.get("next"):
                return found
            page += 1

    def post(self, path: str, data: Data) -> Data:
        """Create an object, or run an action. Return the answer."""
        return self._ask("POST", path, data)

    def patch(self, path: str, data: Data) -> Data:
        """Change fields of an object. Return the answer."""
        return self._ask("PATCH", path, data)

    def delete(self, path: str) -> None:
        """Delete an object. It is not an error if it does not exist any more."""
        try:
            self._ask("DELETE", path, None)
        except ApiError as error:
            if error.status != 404:  # the first try has deleted it
                raise

    def _ask(self, method: str, path: str, data: Data | None, query: t.Mapping[str, t.Any] | None = None) -> Data:
        place = "%s%s%s/" % (quote(self._address.path), self._api, path)
        target = "%s?%s" % (place, urlencode(query)) if query else place
        body = None if data is None else json.dumps(data).encode()
        for turn in range(_TRIES):
            self.repeated = turn > 0
            last = turn == _TRIES - 1
            try:
                status, reason, raw = self._send(method, target, body)
            except (OSError, http.client.HTTPException) as error:
                self._close()
                if last or not isinstance(error, _DROPPED):
                    raise self._unreachable(error) from None
            else:
                if status not in _TRANSIENT or last:
                    return self._answered(method, path, status, reason, raw)
            time.sleep(self._pause * 2**turn)
        raise AssertionError("the last try returns or raises")

    def _send(self, method: str, target: str, body: bytes | None) -> tuple[int, str, bytes]:
        """Send one request. The connection of the previous one is used again if it is open."""
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request(method, self._base + target, body, self._headers)
        answer = self._connection.getresponse()
        raw = answer.read()
        if answer.will_close:
            self._close()
        return answer.status, answer.reason, raw

    def _connect(self) -> http.client.HTTPConnection:
        at, secure = self._address, self._address.scheme == "https"
        host, port = at.hostname or "", at.port or (443 if secure else 80)
        proxy = getproxies().get(at.scheme, "") if not proxy_bypass(host) else ""
        via = (
            _address(proxy if "://" in proxy else "http://" + proxy, "%s_PROXY" % at.scheme.upper()) if proxy else None
        )
        where = (via.hostname or "", via.port or 3128) if via else (host, port)
        if secure:
            context = ssl.create_default_context()
            if self._variable("VERIFY_SSL").lower() in _FALSE:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                *where, timeout=self._wait, context=context
            )
        else:
            connection = http.client.HTTPConnection(*where, timeout=self._wait)
        if via:
            login = "%s:%s" % (unquote(via.username), unquote(via.password or "")) if via.username else ""
            known = {"Proxy-Authorization": _basic(login)} if login else {}
            if secure:
                connection.set_tunnel(host, port, known)
            else:  # a proxy needs the whole URL
                self._base = "http://%s" % at.netloc.rpartition("@")[2]
                self._headers.update(known)
        return connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _answered(self, method: str, path: str, status: int, reason: str, raw: bytes) -> Data:
        if 300 <= status < 400:
            raise self._no_api(path, "it redirects to another address (HTTP %d)" % status, status)
        if status >= 400:
            raise self._refused(method, path, status, reason, raw)
        return self._parsed(raw, path)

    def _parsed(self, raw: bytes, path: str) -> Data:
        if not raw:
            return {}
        try:
            found = json.loads(raw)
        except ValueError:
            raise self._no_api(path, "the answer is not JSON") from None
        return found if isinstance(found, dict) else {"results": found}

    def _no_api(self, path: str, why: str, status: int = 0) -> ApiError:
        remedy = (
            "check that CONTROLLER_HOST is AWX; if its API is not below /api/, set %s, such as /api/controller/"
            % _PREFIX
        )
        return ApiError(
            "there is no API of AWX at %s%s%s/: %s" % (self.url, self._api, path, why),
            "CONTROLLER_HOST",
            remedy,
            status,
        )

    def _unreachable(self, reason: t.Any) -> ApiError:
        text = " ".join(str(reason).split())
        remedy = "check CONTROLLER_HOST, and that AWX runs"
        if "certificate" in text.lower():
            remedy = "install AWX's certificate authority here, or set CONTROLLER_VERIFY_SSL=false"
        return ApiError("%s cannot be reached: %s" % (self.url, text), "CONTROLLER_HOST", remedy)

    def _refused(self, method: str, path: str, status: int, reason: str, raw: bytes) -> ApiError:
        try:
            message = flat(json.loads(raw))
        except ValueError:
            message = reason
        kind = path.split("/")[0]
        doing = "%s %s" % (method, path)
        if status == 401:
            remedy = "set CONTROLLER_OAUTH_TOKEN to a valid token, or CONTROLLER_USERNAME and CONTROLLER_PASSWORD"
            return ApiError(
                "%s does not accept the token or password (HTTP 401): %s" % (self.url, message), "AWX", remedy, 401
            )
        if status == 403:
            remedy = _OWN if method == "GET" else _RIGHTS.get(kind, _OWN)
            return ApiError("no permission for %s (HTTP 403): %s" % (doing, message), "AWX", remedy, 403)
        if status == 404 and "/" not in path:
            return self._no_api(path, "HTTP 404", 404)
        remedies = {
            409: "wait until its running job ends, or cancel it, and run this again",
            400: "change what it names",
        }
        for code in _TRANSIENT:
            remedies[code] = "check that AWX runs, and run this again: it continues where it stopped"
        remedy = remedies.get(status, "see the log of AWX's web service, and run this again")
        return ApiError("%s is refused (HTTP %d): %s" % (doing, status, message), "AWX", remedy, status)


def _address(url: str, place: str = "CONTROLLER_HOST") -> SplitResult:
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts
    except ValueError:
        pass
    raise RailyardError("%s is not a URL" % masked(url), place, "write https://HOST")


def _basic(login: str) -> str:
    return "Basic %s" % base64.b64encode(login.encode()).decode()


def flat(answer: t.Any) -> str:
    """Return the answer to a refused request as one line: ``field: message; field: message``."""
    if isinstance(answer, dict):
        hidden = ("__all__", "detail", "non_field_errors", "error", "Error", "msg")
        return "; ".join(flat(each) if key in hidden else "%s: %s" % (key, flat(each)) for key, each in answer.items())
    if isinstance(answer, list):
        return ", ".join(map(flat, answer))
    return " ".join(str(answer).split()).rstrip(".")

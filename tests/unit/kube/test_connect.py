# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which cluster is reached and as whom, against a real HTTP server that reports the requests."""

from __future__ import annotations

import json
import os
import ssl
import tempfile
import threading
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.connect import connect, for_helm
from lab.cluster import pki

TOKEN = "very-secret-token"


class Echo:
    """Answers with what it was asked; as a proxy too, with the URL that it was asked for."""

    def __init__(self) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                text = json.dumps({"asked": self.path, "who": self.headers.get("authorization")}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_words: t.Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.url = "http://127.0.0.1:%d" % self.http.server_address[1]


@pytest.fixture
def echo() -> t.Iterator[Echo]:
    made = Echo()
    yield made
    made.http.shutdown()
    made.http.server_close()


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing on this machine names a cluster."""
    for key in list(os.environ):
        if key.startswith("K8S_AUTH_") or key in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST") or "proxy" in key.lower():
            monkeypatch.delenv(key)
    monkeypatch.setenv("HOME", str(tmp_path))


def config(path: Path, url: str, **cluster: str) -> str:
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": {"server": url, **cluster}}],
        "users": [{"name": "who", "user": {"token": "of-the-file"}}, {"name": "other", "user": {"token": "of-other"}}],
        "contexts": [
            {"name": "it", "context": {"cluster": "it", "user": "who"}},
            {"name": "other", "context": {"cluster": "it", "user": "other"}},
        ],
        "current-context": "it",
    }
    path.write_text(yaml.safe_dump(whole))
    return str(path)


def who(kubeconfig: str | None = None, context: str | None = None) -> t.Any:
    return connect(kubeconfig, context, 2).get("/version")["who"]


def test_a_kubeconfig_and_its_contexts(echo: Echo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = config(tmp_path / "one", echo.url)
    assert who(file) == "Bearer of-the-file"
    assert who(file, "other") == "Bearer of-other"
    monkeypatch.setenv("K8S_AUTH_CONTEXT", "other")
    assert who(file) == "Bearer of-other"
    monkeypatch.delenv("K8S_AUTH_CONTEXT")
    monkeypatch.setenv("KUBECONFIG", file)
    assert who() == "Bearer of-the-file"


def test_the_environment_of_awx_counts_before_a_kubeconfig_that_is_not_named(
    echo: Echo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = config(tmp_path / "one", echo.url)
    monkeypatch.setenv("KUBECONFIG", file)
    monkeypatch.setenv("K8S_AUTH_HOST", echo.url + "/")
    monkeypatch.setenv("K8S_AUTH_API_KEY", TOKEN)
    monkeypatch.setenv("K8S_AUTH_VERIFY_SSL", "True")
    assert who() == "Bearer " + TOKEN
    assert connect(None, None, 2).url == echo.url
    assert who(file) == "Bearer of-the-file"
    assert who(None, "other") == "Bearer of-other"


def test_helm_uses_the_same_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    assert for_helm(None, None) == {} and for_helm("/file", "it") == {"HELM_KUBECONTEXT": "it"}
    monkeypatch.setenv("K8S_AUTH_HOST", "https://other.example:6443")
    monkeypatch.setenv("K8S_AUTH_VERIFY_SSL", "false")
    monkeypatch.setenv("HELM_KUBECONTEXT", "elsewhere")
    assert for_helm(None, None) == {"HELM_KUBECONTEXT": ""}
    named = {"K8S_AUTH_HOST": "", "K8S_AUTH_VERIFY_SSL": "true", "HELM_KUBECONTEXT": ""}
    assert for_helm("/file", None) == named
    assert for_helm(None, "it") == {**named, "HELM_KUBECONTEXT": "it"}


def test_a_named_context_counts_before_the_environments_for_helm_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Helm's module hands the one of its own variable on, over that of Helm's."""
    monkeypatch.setenv("K8S_AUTH_CONTEXT", "elsewhere")
    assert for_helm(None, "it") == {"K8S_AUTH_CONTEXT": "it", "HELM_KUBECONTEXT": "it"}
    assert for_helm(None, None)["HELM_KUBECONTEXT"] == "elsewhere"
    monkeypatch.setenv("K8S_AUTH_SSL_CA_CERT", "/ca.crt")
    with pytest.raises(RailyardError, match="K8S_AUTH_CONTEXT: .* together with K8S_AUTH_SSL_CA_CERT.*unset one"):
        for_helm(None, "it")


@pytest.fixture
def certified(echo: Echo, tmp_path: Path) -> Path:
    """The kubeconfig of a server that requires a client certificate."""
    keys = tmp_path / "pki"
    pki.ensure(keys, tmp_path / "log")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(keys / "ca.crt"))
    context.load_cert_chain(keys / "server.crt", keys / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    echo.http.socket = context.wrap_socket(echo.http.socket, server_side=True)
    pki.write_kubeconfig(tmp_path / "admin", keys, "admin", echo.url.replace("http:", "https:"), "it")
    return tmp_path / "admin"


def test_keys_of_a_kubeconfig_are_in_no_other_file(
    certified: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker of Ansible ends without the cleanup of the client."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    for _call in range(2):
        server = connect(str(certified), None, 2)
        assert list(temporary.iterdir()) == []
        assert server.get("/version")["asked"] == "/version"
    certified.write_text(certified.read_text().replace("client-key-data: ", "client-key-data: QUJD"))
    with pytest.raises(RailyardError, match="admin: the certificates or the key cannot be used: .* Remedy: check"):
        connect(str(certified), None, 2)
    assert list(temporary.iterdir()) == []


def test_a_proxy_is_asked(echo: Echo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server's name resolves nowhere here, so an answer can only come by the proxy."""
    file = config(tmp_path / "one", "http://api.example:6443", **{"proxy-url": echo.url})
    assert connect(file, None, 2).get("/version")["asked"] == "http://api.example:6443/version"
    monkeypatch.setenv("K8S_AUTH_HOST", "http://api.example:6443")
    monkeypatch.setenv("K8S_AUTH_API_KEY", TOKEN)
    monkeypatch.setenv("K8S_AUTH_PROXY", echo.url)
    assert connect(None, None, 2).get("/version") == {
        "asked": "http://api.example:6443/version",
        "who": "Bearer " + TOKEN,
    }
    monkeypatch.setenv("K8S_AUTH_HOST", echo.url)
    monkeypatch.setenv("K8S_AUTH_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("K8S_AUTH_NO_PROXY", "127.0.0.1")
    assert connect(None, None, 2).get("/version")["asked"] == "/version"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"HOST": "10.1.16.10:6443", "API_KEY": TOKEN},
            "K8S_AUTH_HOST: 10.1.16.10:6443 is not a URL. Remedy: write https",
        ),
        ({"HOST": "https://a:1"}, "K8S_AUTH_HOST: it is set without credentials. Remedy: set K8S_AUTH_API_KEY"),
        ({"HOST": "https://a:1", "CERT_FILE": "/none"}, "K8S_AUTH_CERT_FILE: /none cannot be read. Remedy: "),
        ({"HOST": "https://a:1", "API_KEY": TOKEN, "VERIFY_SSL": "maybe"}, "K8S_AUTH_VERIFY_SSL: maybe is not a"),
        ({"HOST": "https://a:1", "API_KEY": TOKEN, "SSL_CA_CERT": "/none"}, "K8S_AUTH_SSL_CA_CERT: /none cannot be"),
    ],
)
def test_an_environment_that_cannot_be_is_one_line_without_a_secret(
    given: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in given.items():
        monkeypatch.setenv("K8S_AUTH_" + key, value)
    with pytest.raises(RailyardError) as error:
        connect(None, None, 2)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)
    assert TOKEN not in str(error.value)


def test_a_token_is_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K8S_AUTH_HOST", "https://127.0.0.1:1")
    monkeypatch.setenv("K8S_AUTH_API_KEY", TOKEN)
    with pytest.raises(RailyardError) as error:
        connect(None, None, 2).get("/version")
    assert TOKEN not in repr(error.value) + str(error.value) + repr(error.value.__dict__)


def test_the_account_of_a_pod_is_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    with pytest.raises(RailyardError, match="it cannot be used: Service (host/port|token file)"):
        connect(None, None, 2)
    with pytest.raises(RailyardError, match="missing: it cannot be used"):
        connect(str(tmp_path / "missing"), None, 2)


def with_plugin(path: Path, command: str, **more: t.Any) -> str:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": command, "args": [], **more}
    whole = yaml.safe_load(Path(config(path, "https://127.0.0.1:1")).read_text())
    whole["users"] = [{"name": whole["contexts"][0]["context"]["user"], "user": {"exec": plugin}}]
    path.write_text(yaml.safe_dump(whole))
    return str(path)


def test_an_exec_plugin_that_is_missing_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = with_plugin(tmp_path / "config", "no-such-authenticator")
    with pytest.raises(RailyardError) as error:
        connect(path, None, 1)
    assert str(error.value).startswith("%s: its exec plugin no-such-authenticator is not installed" % path)
    assert "install no-such-authenticator where Ansible runs" in error.value.remedy
    hint = with_plugin(tmp_path / "config", "no-such-authenticator", installHint="Get it from the portal.")
    with pytest.raises(RailyardError) as error:
        connect(hint, None, 1)
    assert error.value.remedy == "Get it from the portal"
    # the client's own log would appear among Ansible's lines
    assert capfd.readouterr() == ("", "")


def test_an_exec_plugin_that_fails_is_named_without_what_it_wrote(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "authenticator"
    program.write_text("#!/bin/sh\necho %s >&2\nexit 3\n" % TOKEN)
    program.chmod(0o755)
    with pytest.raises(RailyardError) as error:
        connect(with_plugin(tmp_path / "config", str(program)), None, 1)
    assert "its exec plugin %s gave no credentials (exit status 3)" % program in str(error.value)
    assert TOKEN not in str(error.value) and TOKEN not in "".join(capfd.readouterr())


def test_an_exec_plugin_that_works_gives_its_token(tmp_path: Path, echo: Echo) -> None:
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": TOKEN}}
    program = tmp_path / "authenticator"
    program.write_text("#!/bin/sh\ncat <<'END'\n%s\nEND\n" % json.dumps(answer))
    program.chmod(0o755)
    path = Path(with_plugin(tmp_path / "config", str(program)))
    path.write_text(path.read_text().replace("https://127.0.0.1:1", echo.url))
    assert connect(str(path), None, 1).get("/x")["who"] == "Bearer " + TOKEN

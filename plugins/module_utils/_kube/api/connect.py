# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""How a cluster is reached: what a kubeconfig says, what AWX and the modules of ``kubernetes.core`` have in the
environment, or the account of the pod in which this runs.

Of the ``kubernetes`` Python client only the reading of kubeconfigs (certificates, tokens, programs that give tokens,
proxies) and its connections are used. Secrets stay in the client: nothing here puts one into a message.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import re
import shutil
import threading
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Unsupported
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_server import Server
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.concurrency import Say

# Seconds: until somebody takes the call, so that a firewall that swallows it is told soon; and for the answer.
_CONNECT = 10.0
_ANSWER = 120.0
# The environment's words are those of kubernetes.core's modules, which AWX's credential for Kubernetes sets too.
_HOST = "K8S_AUTH_HOST"
_CONTEXT = "K8S_AUTH_CONTEXT"
# ... and what makes each of those that come with the host say nothing.
_BESIDE_A_FILE = {_HOST: "", "K8S_AUTH_API_KEY": "", "K8S_AUTH_SSL_CA_CERT": "", "K8S_AUTH_VERIFY_SSL": "true"}
_NOT_BESIDE_A_CONTEXT = ("K8S_AUTH_SSL_CA_CERT", "K8S_AUTH_VERIFY_SSL")
_DEFAULT = "~/.kube/config"
_TRUE, _FALSE = ("true", "yes", "y", "on", "1", "t"), ("false", "no", "n", "off", "0", "f")
_NAME_ONE = (
    "name a kubeconfig with -e kubernetes_kubeconfig=PATH, and its context with -e kubernetes_context=NAME;"
    " in AWX, give the job template a credential for the cluster"
)


def connect(kubeconfig: str | None, context: str | None, connections: int, say: Say = lambda _text: None) -> Server:
    """The server of a context.

    :param kubeconfig: a file; else what ``K8S_AUTH_HOST`` and those beside it say (not where a context is named), else
        the file of ``K8S_AUTH_KUBECONFIG``, ``KUBECONFIG`` or ``~/.kube/config``, else the account of the pod.
    :raises RailyardError: where there is no client, no file or no such context, or the environment is not complete.
    """
    try:
        client = importlib.import_module("kubernetes.client")
        config = importlib.import_module("kubernetes.config")
        urllib3 = importlib.import_module("urllib3")
    except ImportError as error:
        raise Unsupported(
            "the Python package kubernetes is not there",
            "control node",
            "install it where Ansible runs: pip install kubernetes, or the distribution's python3-kubernetes",
        ) from error
    configuration = client.Configuration()
    configuration.connection_pool_maxsize = connections
    context = context or os.environ.get(_CONTEXT)
    if os.environ.get(_HOST) and not (kubeconfig or context):
        _from_environment(configuration)
    else:
        _from_file(config, configuration, kubeconfig, context)
    http = client.ApiClient(configuration).rest_client.pool_manager
    timeout = urllib3.Timeout(connect=_CONNECT, read=_ANSWER)

    def send(method: str, url: str, headers: dict[str, str], body: bytes | None) -> tuple[int, bytes]:
        answer = http.request(method, url, body=body, headers=headers, timeout=timeout, retries=False, redirect=False)
        return int(answer.status), answer.data

    return Server(configuration.host.rstrip("/"), send, _Who(configuration), connections, say)


def for_helm(kubeconfig: str | None, context: str | None) -> dict[str, str]:
    """What the environment of Helm's module must have, so that it goes to the same server as :func:`connect`.

    It takes what ``K8S_AUTH_HOST`` and those beside it say also where a cluster is named, and Helm its own variables.
    :raises RailyardError: for an environment that the module refuses, whatever it is told.
    """
    for key in _NOT_BESIDE_A_CONTEXT:
        if _CONTEXT in os.environ and key in os.environ:
            raise RailyardError(
                "Helm's module takes none beside %s" % key,
                _CONTEXT,
                "unset one of the two, and name the context with -e kubernetes_context=NAME",
            )
    context = context or os.environ.get(_CONTEXT)
    aside = {key: "" for key in os.environ if key.startswith("HELM_KUBE")}
    if kubeconfig or context:
        aside.update((key, value) for key, value in _BESIDE_A_FILE.items() if key in os.environ)
    if context and _CONTEXT in os.environ:
        # the module takes it before Helm's own variable
        aside[_CONTEXT] = context
    return dict(aside, **({"HELM_KUBECONTEXT": context} if context else {}))


class _Who:
    """The headers that say who asks. A program that gives tokens runs once when a token ends, not once a thread."""

    def __init__(self, configuration: t.Any) -> None:
        self._configuration = configuration
        self._lock = threading.Lock()

    def __call__(self) -> dict[str, str]:
        with self._lock, _heard():
            settings = self._configuration.auth_settings().values()
        return {each["key"]: each["value"] for each in settings if each.get("value")}


def _from_file(config: t.Any, configuration: t.Any, kubeconfig: str | None, context: str | None) -> None:
    path = kubeconfig or os.environ.get("K8S_AUTH_KUBECONFIG") or os.environ.get("KUBECONFIG") or ""
    default = os.path.exists(os.path.expanduser(_DEFAULT))
    try:
        if path or context or default or "KUBERNETES_SERVICE_HOST" not in os.environ:
            with _heard() as said:
                config.load_kube_config(
                    os.path.expanduser(path) or None, context, client_configuration=configuration, persist_config=False
                )
            cluster, user = _named(path or _DEFAULT, context)
            # most releases of the client pass over it
            configuration.proxy = cluster.get("proxy-url") or getattr(configuration, "proxy", None)
            if not (configuration.api_key or configuration.cert_file or configuration.username):
                _see_plugin(user.get("exec"), path or _DEFAULT, said)
        else:
            config.load_incluster_config(client_configuration=configuration)
    except RailyardError:
        raise
    except Exception as error:  # the client's, of its YAML reader, and of what it runs to get a token
        raise RailyardError(
            "it cannot be used: %s" % " ".join(str(error).split()).rstrip("."), path or _DEFAULT, _NAME_ONE
        ) from error


def _named(path: str, context: str | None) -> tuple[dict[str, t.Any], dict[str, t.Any]]:
    """The cluster and the user of a context."""
    yaml = importlib.import_module("yaml")
    named: dict[str, dict[str, t.Any]] = {"contexts": {}, "clusters": {}, "users": {}}
    for file in path.split(os.pathsep):
        if not os.path.exists(os.path.expanduser(file)):
            continue
        with open(os.path.expanduser(file), encoding="utf-8") as text:
            whole = yaml.safe_load(text) or {}
        context = context or whole.get("current-context")
        for kind, found in named.items():
            for each in whole.get(kind) or ():
                # of several files the first that names a thing counts
                found.setdefault(each["name"], each[kind[:-1]])
    meant = named["contexts"].get(context or "") or {}
    return named["clusters"].get(meant.get("cluster") or "") or {}, named["users"].get(meant.get("user") or "") or {}


def _see_plugin(plugin: t.Mapping[str, t.Any] | None, place: str, said: t.Sequence[str]) -> None:
    """:raises RailyardError: where a program is to give credentials and gave none; the client goes on without them."""
    if not plugin:
        return
    command = str(plugin.get("command"))
    hint = " ".join(str(plugin.get("installHint") or "").split()).rstrip(".")
    if shutil.which(command) is None:
        raise RailyardError(
            "its exec plugin %s is not installed on the control node" % command,
            place,
            hint or "install %s where Ansible runs, or name another context with -e kubernetes_context=NAME" % command,
        )
    # the program's own output stays out: it may hold a token
    ended = re.search(r"process returned (-?\d+)", " ".join(said))
    why = " (exit status %s)" % ended.group(1) if ended else ""
    raise RailyardError(
        "its exec plugin %s gave no credentials%s" % (command, why),
        place,
        "run it by hand as the user of Ansible (kubectl get nodes does), and log in where it asks for that",
    )


@contextlib.contextmanager
def _heard() -> t.Iterator[list[str]]:
    """What the client logs, which would otherwise go to the terminal in the midst of Ansible's own lines."""
    said: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    root, handler = logging.getLogger(), Handler()
    root.addHandler(handler)
    try:
        yield said
    finally:
        root.removeHandler(handler)


def _from_environment(configuration: t.Any) -> None:
    """A URL and a token or a certificate, which no file holds."""
    said = {key[9:]: value for key, value in os.environ.items() if key.startswith("K8S_AUTH_") and value}
    host, token = said["HOST"], said.get("API_KEY")
    if not host.startswith(("https://", "http://")):
        raise RailyardError("%s is no URL" % host, _HOST, "write https:// and the port, as in https://10.1.16.10:6443")
    configuration.host = host
    configuration.verify_ssl = _yes("K8S_AUTH_VERIFY_SSL", said.get("VERIFY_SSL", "true"))
    for key, name in (("SSL_CA_CERT", "ssl_ca_cert"), ("CERT_FILE", "cert_file"), ("KEY_FILE", "key_file")):
        path = os.path.expanduser(said.get(key, ""))
        if path and not os.access(path, os.R_OK):
            raise RailyardError("%s cannot be read" % path, "K8S_AUTH_" + key, "name a file that you may read")
        setattr(configuration, name, path or None)
    if token:
        # with its word in front, because not every release of the client puts the prefix before it
        configuration.api_key = {"authorization": "Bearer " + token}
    elif not (configuration.cert_file and configuration.key_file):
        raise RailyardError(
            "it is set, and nothing says who asks",
            _HOST,
            "set K8S_AUTH_API_KEY, or K8S_AUTH_CERT_FILE and K8S_AUTH_KEY_FILE; or unset it to take a kubeconfig",
        )
    if said.get("PROXY"):
        configuration.proxy = said["PROXY"]
    if said.get("NO_PROXY"):
        configuration.no_proxy = said["NO_PROXY"]


def _yes(place: str, text: str) -> bool:
    if text.lower() not in _TRUE + _FALSE:
        raise RailyardError("%s is neither yes nor no" % text, place, "write true or false")
    return text.lower() in _TRUE

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Connect to a cluster: with a kubeconfig, with the environment variables of AWX and ``kubernetes.core``, or with the
service account of the pod in which this runs.

Of the ``kubernetes`` Python client, only its connections and its reader of kubeconfigs (certificates, tokens, exec
plugins, proxies) are used. Secrets stay in the client: no message contains one, and no file after :func:`connect`.
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

# Timeout in seconds of the connection, short so that a firewall that drops packets is reported soon; and of the answer.
_CONNECT = 10.0
_ANSWER = 120.0
# The environment variables of kubernetes.core's modules; AWX's credential for Kubernetes sets them too.
_HOST = "K8S_AUTH_HOST"
_CONTEXT = "K8S_AUTH_CONTEXT"
# ... and the values that disable each of them.
_BESIDE_A_FILE = {_HOST: "", "K8S_AUTH_API_KEY": "", "K8S_AUTH_SSL_CA_CERT": "", "K8S_AUTH_VERIFY_SSL": "true"}
_NOT_BESIDE_A_CONTEXT = ("K8S_AUTH_SSL_CA_CERT", "K8S_AUTH_VERIFY_SSL")
_DEFAULT = "~/.kube/config"
_TRUE, _FALSE = ("true", "yes", "y", "on", "1", "t"), ("false", "no", "n", "off", "0", "f")
_NAME_ONE = (
    "name a kubeconfig with -e kubernetes_kubeconfig=PATH, and its context with -e kubernetes_context=NAME;"
    " in AWX, give the job template a credential for the cluster"
)


def connect(kubeconfig: str | None, context: str | None, connections: int, say: Say = lambda _text: None) -> Server:
    """Return the server of a context.

    Without ``kubeconfig``, the sources are, in this order: ``K8S_AUTH_HOST`` and related variables (unless a context is
    named), the file of ``K8S_AUTH_KUBECONFIG``, ``KUBECONFIG`` or ``~/.kube/config``, the pod's service account.

    :raises RailyardError: if the client, the file or the context is missing, or the environment is not complete.
    """
    try:
        client = importlib.import_module("kubernetes.client")
        config = importlib.import_module("kubernetes.config")
        urllib3 = importlib.import_module("urllib3")
    except ImportError as error:
        raise Unsupported(
            "the Python package kubernetes is not installed",
            "control node",
            "install it where Ansible runs: pip install kubernetes, or the distribution's python3-kubernetes",
        ) from error
    configuration = client.Configuration()
    configuration.connection_pool_maxsize = connections
    context = context or os.environ.get(_CONTEXT)
    with _files_of_client(config.kube_config):
        if os.environ.get(_HOST) and not (kubeconfig or context):
            _from_environment(configuration)
        else:
            _from_file(config, configuration, kubeconfig, context)
        http = client.ApiClient(configuration).rest_client.pool_manager
        _read_certificates(http.connection_pool_kw, urllib3, kubeconfig or "the cluster's credentials")
    timeout = urllib3.Timeout(connect=_CONNECT, read=_ANSWER)

    def send(method: str, url: str, headers: dict[str, str], body: bytes | None) -> tuple[int, bytes]:
        answer = http.request(method, url, body=body, headers=headers, timeout=timeout, retries=False, redirect=False)
        return int(answer.status), answer.data

    return Server(configuration.host.rstrip("/"), send, _Credentials(configuration), connections, say)


def for_helm(kubeconfig: str | None, context: str | None) -> dict[str, str]:
    """Return the environment with which Helm's module connects to the same server as :func:`connect`.

    The module reads ``K8S_AUTH_HOST`` and related variables even if a cluster is named, and Helm reads its own.

    :raises RailyardError: for an environment that the module refuses with any options.
    """
    for key in _NOT_BESIDE_A_CONTEXT:
        if _CONTEXT in os.environ and key in os.environ:
            raise RailyardError(
                "Helm's module refuses it together with %s" % key,
                _CONTEXT,
                "unset one of the two, and name the context with -e kubernetes_context=NAME",
            )
    context = context or os.environ.get(_CONTEXT)
    aside = {key: "" for key in os.environ if key.startswith("HELM_KUBE")}
    if kubeconfig or context:
        aside.update((key, value) for key, value in _BESIDE_A_FILE.items() if key in os.environ)
    if context and _CONTEXT in os.environ:
        # the module gives it priority over Helm's variable
        aside[_CONTEXT] = context
    return dict(aside, **({"HELM_KUBECONTEXT": context} if context else {}))


@contextlib.contextmanager
def _files_of_client(kube_config: t.Any) -> t.Iterator[None]:
    """Remove the files that the client makes of certificates and keys in a kubeconfig.

    The client removes them when the interpreter exits, but a worker of Ansible ends without that. The client's cache
    of such files is empty meanwhile, so files of other users of the client in this process stay.
    """
    others = kube_config._temp_files
    created: dict[str, str] = {}
    kube_config._temp_files = created
    try:
        yield
    finally:
        kube_config._temp_files = others
        for path in created.values():
            with contextlib.suppress(OSError):
                os.remove(path)


def _read_certificates(options: dict[str, t.Any], urllib3: t.Any, place: str) -> None:
    """Read the files of certificates and keys into one context for all connections.

    :param options: of urllib3's connections. The context replaces the names of files.
    :param place: where the certificates are from, for the error.
    :raises RailyardError: if a file has no certificate or key.
    """
    files = {key: options.pop(key, None) for key in ("ca_certs", "cert_file", "key_file")}
    context = urllib3.util.ssl_.create_urllib3_context(cert_reqs=options.get("cert_reqs"))
    try:
        if files["ca_certs"]:
            context.load_verify_locations(files["ca_certs"])
        elif not options.get("ca_cert_data"):
            context.load_default_certs()
        if files["cert_file"]:
            context.load_cert_chain(files["cert_file"], files["key_file"])
    except (OSError, ValueError) as error:
        raise RailyardError(
            "the certificates or the key cannot be used: %s" % error,
            place,
            "check them with 'kubectl get nodes', and replace those that kubectl refuses too",
        ) from error
    options["ssl_context"] = context


class _Credentials:
    """The headers with the credentials. An exec plugin runs once when a token expires, not once per thread."""

    def __init__(self, configuration: t.Any) -> None:
        self._configuration = configuration
        self._lock = threading.Lock()

    def __call__(self) -> dict[str, str]:
        with self._lock, _captured_log():
            settings = self._configuration.auth_settings().values()
        return {each["key"]: each["value"] for each in settings if each.get("value")}


def _from_file(config: t.Any, configuration: t.Any, kubeconfig: str | None, context: str | None) -> None:
    path = kubeconfig or os.environ.get("K8S_AUTH_KUBECONFIG") or os.environ.get("KUBECONFIG") or ""
    default = os.path.exists(os.path.expanduser(_DEFAULT))
    try:
        if path or context or default or "KUBERNETES_SERVICE_HOST" not in os.environ:
            with _captured_log() as logged:
                config.load_kube_config(
                    os.path.expanduser(path) or None, context, client_configuration=configuration, persist_config=False
                )
            cluster, user = _named(path or _DEFAULT, context)
            # most releases of the client ignore it
            configuration.proxy = cluster.get("proxy-url") or getattr(configuration, "proxy", None)
            if not (configuration.api_key or configuration.cert_file or configuration.username):
                _check_plugin(user.get("exec"), path or _DEFAULT, logged)
        else:
            config.load_incluster_config(client_configuration=configuration)
    except RailyardError:
        raise
    except Exception as error:  # errors of the client, its YAML reader and its exec plugins
        raise RailyardError(
            "it cannot be used: %s" % " ".join(str(error).split()).rstrip("."), path or _DEFAULT, _NAME_ONE
        ) from error


def _named(path: str, context: str | None) -> tuple[dict[str, t.Any], dict[str, t.Any]]:
    """Return the cluster and the user of a context."""
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
                # the first file that defines a name wins
                found.setdefault(each["name"], each[kind[:-1]])
    meant = named["contexts"].get(context or "") or {}
    return named["clusters"].get(meant.get("cluster") or "") or {}, named["users"].get(meant.get("user") or "") or {}


def _check_plugin(plugin: t.Mapping[str, t.Any] | None, place: str, logged: t.Sequence[str]) -> None:
    """Check that an exec plugin returned credentials; without them, the client itself would continue.

    :raises RailyardError: if it did not.
    """
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
    # the plugin's output is left out: it may contain a token
    ended = re.search(r"process returned (-?\d+)", " ".join(logged))
    why = " (exit status %s)" % ended.group(1) if ended else ""
    raise RailyardError(
        "its exec plugin %s gave no credentials%s" % (command, why),
        place,
        "run it by hand as the user of Ansible (kubectl get nodes does), and log in if it asks for that",
    )


@contextlib.contextmanager
def _captured_log() -> t.Iterator[list[str]]:
    """Collect the log of the client, which would otherwise appear in Ansible's output."""
    logged: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logged.append(record.getMessage())

    root, handler = logging.getLogger(), Handler()
    root.addHandler(handler)
    try:
        yield logged
    finally:
        root.removeHandler(handler)


def _from_environment(configuration: t.Any) -> None:
    """Configure a URL and a token or certificate from the environment."""
    given = {key[9:]: value for key, value in os.environ.items() if key.startswith("K8S_AUTH_") and value}
    host, token = given["HOST"], given.get("API_KEY")
    if not host.startswith(("https://", "http://")):
        raise RailyardError(
            "%s is not a URL" % host, _HOST, "write https:// and the port, as in https://10.1.16.10:6443"
        )
    configuration.host = host
    configuration.verify_ssl = _yes("K8S_AUTH_VERIFY_SSL", given.get("VERIFY_SSL", "true"))
    for key, name in (("SSL_CA_CERT", "ssl_ca_cert"), ("CERT_FILE", "cert_file"), ("KEY_FILE", "key_file")):
        path = os.path.expanduser(given.get(key, ""))
        if path and not os.access(path, os.R_OK):
            raise RailyardError("%s cannot be read" % path, "K8S_AUTH_" + key, "name a file that you may read")
        setattr(configuration, name, path or None)
    if token:
        # with the prefix, because not every release of the client adds it
        configuration.api_key = {"authorization": "Bearer " + token}
    elif not (configuration.cert_file and configuration.key_file):
        raise RailyardError(
            "it is set without credentials",
            _HOST,
            "set K8S_AUTH_API_KEY, or K8S_AUTH_CERT_FILE and K8S_AUTH_KEY_FILE; or unset it to use a kubeconfig",
        )
    if given.get("PROXY"):
        configuration.proxy = given["PROXY"]
    if given.get("NO_PROXY"):
        configuration.no_proxy = given["NO_PROXY"]


def _yes(place: str, text: str) -> bool:
    if text.lower() not in _TRUE + _FALSE:
        raise RailyardError("%s is not a boolean" % text, place, "write true or false")
    return text.lower() in _TRUE

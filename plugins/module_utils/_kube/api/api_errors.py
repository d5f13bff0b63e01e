# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors of an API server, each as one line with a remedy."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import first_of

# Statuses for which the request is sent again later: too many requests, and a proxy without a server.
PASSING = (429, 502, 503, 504)
_DENIED = re.compile(r'admission webhook "([^"]+)" denied the request(?: without explanation)?:?\s*(.*)', re.DOTALL)
_DOWN = re.compile(r'failed calling webhook "([^"]+)":\s*(.*)', re.DOTALL)
_FORBIDDEN = re.compile(r'(?:User )?"([^"]*)" cannot (\S+) resource "([^"]+)" in API group "([^"]*)"')
_UNDECLARED = re.compile(r"([\w.\[\]\"=:/{}-]+): field not declared in schema")
_STRICT = re.compile(r'unknown field "([^"]+)"')
_OWNER = re.compile(r'conflict with "([^"]+)"')
_IMMUTABLE = re.compile(r"immutable|(?:is|are) not changeable|may not be changed|cannot be changed")
_ANONYMOUS = '"system:anonymous"'
_SHOWN = 6


class Refusal(RailyardError):
    """The server refused a request. ``general``: it would refuse every other object for the same reason, so nothing
    more is sent."""

    general = False


class Gone(Refusal):
    """The requested object does not exist."""


class General(Refusal):
    """A refusal that applies to every request."""

    general = True


class Unreachable(General):
    """The server does not answer."""


class Denied(Refusal):
    """A webhook denied the request."""


class Immutable(Refusal):
    """An update of an immutable field."""


class Exists(Refusal):
    """An object was created or changed while it was sent."""


class Conflict(Refusal):
    """Other managers own fields. ``owners`` are (manager, field); ``force_variable`` allows a run to take them over."""

    def __init__(
        self, place: str, owners: t.Sequence[tuple[str, str]], force_variable: str = "kubernetes_force"
    ) -> None:
        managers = " and ".join(sorted({manager for manager, _field in owners}))
        fields = [field for _manager, field in owners]
        subject = "%s is" % fields[0] if len(fields) == 1 else _several(fields, " are")
        super().__init__(
            "%s owned by %s" % (subject, managers),
            place,
            "remove these fields from what %s applies, or take them over with -e %s=true" % (managers, force_variable),
        )
        self.owners = list(owners)


def refusal(status: int, answer: t.Mapping[str, t.Any], verb: str, resource: str, place: str) -> Refusal:
    """Return the error for an answer with a status of 400 or above.

    :param answer: the server's Status object.
    :param verb: the RBAC verb of the request.
    :param resource: the plural with its group.
    :param place: the object, or the server.
    """
    message = " ".join(str(answer.get("message") or "HTTP status %d" % status).split())
    if status == 401:
        return General(
            "the server does not accept these credentials (401)",
            place,
            "renew the token or the certificate in the kubeconfig, or name another with -e kubernetes_context=NAME",
        )
    down = _DOWN.search(message)
    if down:
        return General(
            "%s cannot be checked, because the webhook %s does not answer: %s" % (resource, down[1], down[2]),
            place,
            "check that its pods run (kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"
            " names its service), then run again",
        )
    denied = _DENIED.search(message)
    if denied:
        return _denied(denied[1], denied[2].rstrip("."), place, resource)
    if status == 403:
        return _forbidden(message, verb, resource, place)
    if status == 404:
        return _missing(answer, message, resource, place)
    if status == 409 and _owners(answer):
        return Conflict(place, _owners(answer))
    if status == 409 and verb == "patch":
        return Exists("it was created or changed meanwhile: %s" % message.rstrip("."), place, "run again")
    if _IMMUTABLE.search(message):
        return Immutable(
            "the server refuses to %s it (%d): %s" % (verb, status, message.rstrip(".")),
            place,
            _deleted_first(place, resource),
        )
    unknown = _UNDECLARED.findall(message) or (_STRICT.findall(message) if status in (400, 422) else [])
    if unknown:
        return Refusal(
            "the server does not know %s" % _several([field.lstrip(".") for field in unknown], ""),
            place,
            "install the CustomResourceDefinition of %s of the release that this collection is made for" % resource
            if "." in resource
            else "report it as a bug: no release of Kubernetes has this field",
        )
    if status in PASSING:
        return General("the server is overloaded or not ready (%d): %s" % (status, message), place, "run again later")
    return Refusal(
        "the server refuses to %s it (%d): %s" % (verb, status, message.rstrip(".")),
        place,
        "correct what the message names, then run again",
    )


def _denied(webhook: str, why: str, place: str, resource: str) -> Refusal:
    text = "the webhook %s denies it: %s" % (webhook, why or "it gives no reason")
    if "already exists" in why:
        return Exists(text, place, "run again: the object exists now, and is updated")
    if _IMMUTABLE.search(why):
        return Denied(text, place, _deleted_first(place, resource))
    if not why:
        return Denied(
            text, place, "see the log of the webhook's service (kubectl get validatingwebhookconfigurations names it)"
        )
    return Denied(
        text,
        place,
        "if it names another object, change or delete that one; if it names a value, change the fabric file",
    )


def _deleted_first(place: str, resource: str) -> str:
    """Return the remedy for an immutable field. ``place``: ``KIND [NAMESPACE/]NAME``."""
    space, _slash, name = place.partition(" ")[2].rpartition("/")
    command = "kubectl delete %s %s%s" % (resource, "-n %s " % space if space else "", name)
    return "delete it when nothing uses it any more (%s), then run again, which creates it" % command


def untrusted(reason: str, url: str) -> Unreachable:
    """Return the error for a server certificate that is not trusted. ``reason``: the message of the TLS library."""
    text = reason.lower()
    if "expired" in text or "not yet valid" in text:
        remedy = "renew the server's certificate, or set the clocks of both right"
    elif "hostname" in text or "doesn't match" in text or "ip address mismatch" in text:
        remedy = (
            "name the server in the kubeconfig as its certificate does, or set tls-server-name of the cluster there to"
            " a name that the certificate has"
        )
    else:
        remedy = (
            "set certificate-authority (or certificate-authority-data) of the cluster in the kubeconfig, or"
            " K8S_AUTH_SSL_CA_CERT, to the authority that signed the server's certificate"
        )
    return Unreachable("the server's certificate is not accepted: %s" % reason.rstrip("."), url, remedy)


def _forbidden(message: str, verb: str, resource: str, place: str) -> Refusal:
    found = _FORBIDDEN.search(message)
    if _ANONYMOUS in message:
        return General(
            "the request has no credentials, so that the server sees system:anonymous: %s" % message.rstrip("."),
            place,
            "give the user of the kubeconfig's context a token, a certificate or an exec plugin that works",
        )
    if not found:
        return Refusal(
            "the server forbids it: %s" % message.rstrip("."),
            place,
            "have a cluster administrator change what it names (a policy, a quota, a namespace), then run again",
        )
    user, verb, plural, group = found.groups()
    full = "%s.%s" % (plural, group) if group else plural
    return General(
        "%s may not %s %s" % (user, verb, full),
        place,
        "have a cluster administrator grant %s on %s, or name another context with -e kubernetes_context=NAME"
        % (verb, full),
    )


def _missing(answer: t.Mapping[str, t.Any], message: str, resource: str, place: str) -> Refusal:
    details = answer.get("details") or {}
    if details.get("kind") == "namespaces":
        return Refusal(
            "its namespace %s does not exist" % details.get("name"),
            place,
            "install the operator that runs in it, or create it: kubectl create namespace %s" % details.get("name"),
        )
    return Gone("does not exist: %s" % message.rstrip("."), place, "run again")


def _owners(answer: t.Mapping[str, t.Any]) -> list[tuple[str, str]]:
    causes = (answer.get("details") or {}).get("causes") or ()
    found = []
    for cause in causes:
        owner = _OWNER.search(str(cause.get("message")))
        if cause.get("reason") == "FieldManagerConflict" and owner:
            found.append((owner[1], str(cause.get("field")).lstrip(".")))
    return found


def _several(names: t.Sequence[str], verb: str) -> str:
    return names[0] if len(names) == 1 else first_of(names, _SHOWN) + verb

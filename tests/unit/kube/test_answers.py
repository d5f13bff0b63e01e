# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each refusal is one line with its place and a remedy. The messages are those of kube-apiserver 1.20 and 1.36."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.api_errors import (
    Conflict,
    Gone,
    refusal,
    untrusted,
)

PLACE = "SpiderIPPool ai-gpu01"
RESOURCE = "spiderippools.spiderpool.spidernet.io"


def answer(status: int, message: str, **more: t.Any) -> t.Any:
    return refusal(status, dict(more, message=message), "patch", RESOURCE, PLACE)


CASES = [
    (401, "Unauthorized", True, "does not accept these credentials", "kubernetes_context"),
    (
        403,
        'spiderippools.spiderpool.spidernet.io "ai-gpu01" is forbidden: User "jane" cannot patch resource '
        '"spiderippools" in API group "spiderpool.spidernet.io" at the cluster scope',
        True,
        "jane may not patch spiderippools.spiderpool.spidernet.io",
        "grant patch on spiderippools.spiderpool.spidernet.io",
    ),
    (
        403,
        'configmaps is forbidden: User "jane" cannot list resource "configmaps" in API group "" at the cluster scope',
        True,
        "jane may not list configmaps",
        "grant list on configmaps",
    ),
    (
        403,
        'configmaps "x" is forbidden: unable to create new content in namespace rails because it is being terminated',
        False,
        "is being terminated",
        "have a cluster administrator",
    ),
    (
        500,
        "failed to create typed patch object: .spec.a: field not declared in schema",
        False,
        "does not know spec.a.",
        "release",
    ),
    (
        500,
        "failed to create typed patch object: errors:\n  .spec.macvlan.bogus: field not declared in schema\n"
        "  .spec.c: field not declared in schema",
        False,
        "does not know spec.macvlan.bogus, spec.c",
        "CustomResourceDefinition of " + RESOURCE,
    ),
    (400, 'PATCH strict decoding error: unknown field "spec.bogus"', False, "does not know spec.bogus.", "release"),
    (
        500,
        'Internal error occurred: failed calling webhook "pool.spiderpool.io": Post "https://x": connection refused',
        True,
        "the webhook pool.spiderpool.io does not answer",
        "check that its pods run",
    ),
    (
        400,
        'admission webhook "pool.spiderpool.io" denied the request: spec.ips: overlaps',
        False,
        "the webhook pool.spiderpool.io denies it: spec.ips: overlaps.",
        "change the fabric file",
    ),
    (
        403,
        'admission webhook "policy.example" denied the request without explanation',
        False,
        "denies it: it gives no reason",
        "see the log of the webhook's service",
    ),
    (
        422,
        'DaemonSet.apps "x" is invalid: spec.selector: field is immutable',
        False,
        "refuses to patch it (422)",
        "kubectl delete spiderippools.spiderpool.spidernet.io ai-gpu01",
    ),
    (
        403,
        'admission webhook "pool.spiderpool.io" denied the request: spec.subnet: Forbidden: is not changeable',
        False,
        "denies it: spec.subnet: Forbidden: is not changeable.",
        "kubectl delete spiderippools.spiderpool.spidernet.io ai-gpu01",
    ),
    (
        403,
        'admission webhook "pool.spiderpool.io" denied the request: spec.subnet: IPPool ai-gpu01 already exists',
        False,
        "already exists.",
        "run again",
    ),
    (409, 'spiderippools "ai-gpu01" already exists', False, "created or changed meanwhile", "run again"),
    (
        403,
        'forbidden: User "system:anonymous" cannot get path "/apis/nfd.k8s-sigs.io/v1alpha1"',
        True,
        "the request has no credentials",
        "exec plugin",
    ),
    (503, "the server is currently unable to handle the request", True, "not ready (503)", "run again"),
]


@pytest.mark.parametrize(("status", "message", "general", "what", "remedy"), CASES)
def test_it_is_one_line(status: int, message: str, general: bool, what: str, remedy: str) -> None:
    error = answer(status, message)
    text = str(error)
    assert text.startswith(PLACE + ": ") and "\n" not in text and text.endswith(".") and ".." not in text
    assert what in text and remedy in error.remedy
    assert "report" not in error.remedy
    # whether the next object would be refused likewise
    assert error.general is general


def test_a_conflict_names_fields_and_managers() -> None:
    def cause(manager: str, field: str) -> dict[str, str]:
        message = 'conflict with "%s" with subresource "status" using v1' % manager
        return {"reason": "FieldManagerConflict", "message": message, "field": field}

    one = answer(409, "Apply failed", details={"causes": [cause("argocd", ".spec.mtu")]})
    assert isinstance(one, Conflict) and one.owners == [("argocd", "spec.mtu")]
    assert str(one).startswith(
        PLACE + ": spec.mtu is owned by argocd. Remedy: remove these fields from what argocd applies, or"
    )
    causes = [cause("argocd" if number % 2 else "flux", ".spec.f%d" % number) for number in range(8)]
    many = str(answer(409, "Apply failed", details={"causes": causes}))
    assert "spec.f5 and 2 more are owned by argocd and flux" in many
    assert not isinstance(answer(409, "the object has been modified"), Conflict)


def test_the_missing_namespace_or_object_is_named() -> None:
    missing = answer(404, 'namespaces "rails" not found', details={"kind": "namespaces", "name": "rails"})
    assert "its namespace rails does not exist" in str(missing) and "kubectl create namespace rails" in missing.remedy
    assert isinstance(answer(404, "not found"), Gone)


def test_a_proxys_answer_without_a_status_is_reported_by_its_number() -> None:
    assert "HTTP status 418" in str(answer(418, ""))


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("certificate verify failed: unable to get local issuer certificate", "certificate-authority"),
        ("certificate verify failed: self-signed certificate in certificate chain", "certificate-authority"),
        ("certificate verify failed: Hostname mismatch, certificate is not valid for 'a'", "tls-server-name"),
        ("certificate verify failed: certificate has expired", "renew"),
    ],
)
def test_an_error_about_a_certificate_names_what_to_set(words: str, remedy: str) -> None:
    error = untrusted("[SSL: CERTIFICATE_VERIFY_FAILED] %s (_ssl.c:1006)" % words, "https://k8s.example:6443")
    assert words in str(error) and remedy in error.remedy and error.general


def test_the_command_of_a_remedy_names_the_namespace() -> None:
    error = refusal(422, {"message": "spec.selector: field is immutable"}, "patch", "daemonsets.apps", "DaemonSet a/b")
    assert "kubectl delete daemonsets.apps -n a b" in error.remedy

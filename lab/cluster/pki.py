# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys and certificates of a cluster, created with openssl, and the kubeconfig files that contain them."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Sequence

from lab import host as hosts
from lab.errors import LabError
from lab.guest import API_ADDRESS
from lab.state import write_file

DAYS = "3650"
SERVER_NAMES = (
    "IP:127.0.0.1",
    "IP:10.96.0.1",
    # the address for guests that are nodes
    "IP:" + API_ADDRESS,
    "DNS:localhost",
    "DNS:kubernetes",
    "DNS:kubernetes.default",
    "DNS:kubernetes.default.svc",
)
# etcd has a separate authority, so that clients of the API server cannot write to etcd.
AUTHORITIES = ("ca", "etcd-ca")
CLIENT = ("extendedKeyUsage=clientAuth",)
# Name, authority, subject, extensions.
CERTIFICATES = (
    ("server", "ca", "/CN=kube-apiserver", ("subjectAltName=" + ",".join(SERVER_NAMES), "extendedKeyUsage=serverAuth")),
    ("admin", "ca", "/O=system:masters/CN=railyard-lab-admin", CLIENT),
    ("manager", "ca", "/CN=system:kube-controller-manager", CLIENT),
    ("scheduler", "ca", "/CN=system:kube-scheduler", CLIENT),
    ("kubelet-client", "ca", "/O=system:masters/CN=kube-apiserver-kubelet-client", CLIENT),
    ("etcd", "etcd-ca", "/CN=etcd", ("subjectAltName=IP:127.0.0.1", "extendedKeyUsage=serverAuth,clientAuth")),
    ("etcd-client", "etcd-ca", "/CN=kube-apiserver", CLIENT),
)


def _openssl(work: Path, *arguments: str) -> None:
    done = subprocess.run(
        [hosts.tool("openssl"), *arguments], cwd=work, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise LabError(
            "openssl cannot make the cluster's keys: %s" % last, "check that 'openssl version' reports 3.0 or later"
        )


def ensure(place: Path, log: Path, nodes: Sequence[str] = ()) -> None:
    """Create all keys and certificates in ``place``, with one per node's kubelet, unless they exist.

    They are made aside and renamed into place, so they are there whole or not at all. The authorities' own keys are
    not kept, so no further certificate can be signed.
    """
    if place.exists():
        return
    if hosts.find("openssl") is None:
        hosts.install(["openssl"], log)
    work = Path(tempfile.mkdtemp(prefix="pki.", suffix=".new", dir=place.parent))
    try:
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", DAYS)
        for name in AUTHORITIES:
            _openssl(
                work,
                *("req", "-x509", *key, "-keyout", name + ".key", "-out", name + ".crt"),
                *("-subj", "/CN=railyard lab " + name, "-addext", "keyUsage=critical,keyCertSign,cRLSign"),
            )
        kubelets = ((name, "ca", "/O=system:nodes/CN=system:node:" + name, CLIENT) for name in nodes)
        for name, authority, subject, extensions in (*CERTIFICATES, *kubelets):
            _openssl(
                work,
                *("req", "-x509", *key, "-keyout", name + ".key", "-out", name + ".crt", "-subj", subject),
                *("-CA", authority + ".crt", "-CAkey", authority + ".key"),
                *(part for text in ("basicConstraints=critical,CA:FALSE", *extensions) for part in ("-addext", text)),
            )
        _openssl(work, "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "accounts.key")
        _openssl(work, "pkey", "-in", "accounts.key", "-pubout", "-out", "accounts.pub")
        for name in AUTHORITIES:
            (work / (name + ".key")).unlink()
        for made in work.iterdir():
            made.chmod(0o600)
        os.rename(work, place)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def write_kubeconfig(target: Path, pki: Path, who: str, url: str, name: str) -> None:
    """Write a kubeconfig (0600) that contains the keys of ``who``, so that copies of it work too."""

    def data(file: str) -> str:
        return base64.b64encode((pki / file).read_bytes()).decode("ascii")

    text = """apiVersion: v1
kind: Config
clusters:
  - name: {name}
    cluster:
      server: {url}
      certificate-authority-data: {ca}
users:
  - name: {name}-{who}
    user:
      client-certificate-data: {certificate}
      client-key-data: {key}
contexts:
  - name: {name}
    context:
      cluster: {name}
      user: {name}-{who}
current-context: {name}
""".format(name=name, who=who, url=url, ca=data("ca.crt"), certificate=data(who + ".crt"), key=data(who + ".key"))
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        write_file(target, text)

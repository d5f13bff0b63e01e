# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fixtures ``proxy`` and ``bench`` of tests that apply plans to the real API server."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from lab.cluster.proxy import Proxy
from tests.integration.cluster import Cluster

if t.TYPE_CHECKING:
    from tests.integration import kube_bench


@pytest.fixture
def proxy(cluster: Cluster) -> t.Iterator[Proxy]:
    """Passes requests to the cluster and keeps what it passed."""
    made = Proxy(cluster.running)
    yield made
    made.close()


@pytest.fixture
def bench(
    cluster: Cluster, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> t.Iterator[kube_bench.Bench]:
    """A fabric file on the cluster; what it applied is gone afterwards."""
    # not before the tests are collected: until then the collection is not loaded as Ansible loads it
    from tests.integration import kube_bench

    yield from kube_bench.made(cluster, proxy, tmp_path, monkeypatch)

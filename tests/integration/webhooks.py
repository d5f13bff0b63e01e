# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fixture ``spiderpool_controller``: Spiderpool's webhooks on the test's API server.

Everything of Spiderpool's that a test has applied is gone before the webhooks are, which put finalizers on pools.
"""

from __future__ import annotations

import typing as t

import pytest

from tests.integration.cluster import Cluster
from tests.standins.admission import Controller, Latency
from tests.standins.spiderpool import Settings

StartController = t.Callable[..., Controller]


@pytest.fixture
def start_spiderpool(cluster: Cluster) -> t.Iterator[StartController]:
    """Start a controller, registered and answering: ``start_spiderpool(settings=…, latency=…)``."""
    started: list[Controller] = []

    def start(settings: Settings | None = None, latency: Latency | None = None) -> Controller:
        controller = Controller(cluster.running, settings or Settings(), latency)
        started.append(controller)
        controller.register()
        return controller

    yield start
    for controller in started:
        controller.unregister()
        controller.stop()
    cluster.clean()


@pytest.fixture
def spiderpool_controller(start_spiderpool: StartController) -> Controller:
    """A controller with the chart's own settings, and without latency."""
    return start_spiderpool()

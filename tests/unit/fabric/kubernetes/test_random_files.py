# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random fabric files: what lint takes is rendered, and taken by upstream's schemas and webhooks as it is.

``RAILYARD_RANDOM_FILES`` of them (40) from the number ``RAILYARD_RANDOM_FIRST`` on (0); ``make soak`` takes 2,000. A
failure names the file's number: ``RAILYARD_RANDOM_FIRST=NUMBER RAILYARD_RANDOM_FILES=1`` runs that one alone.
"""

from __future__ import annotations

import os

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.objects import (
    object_components,
    object_files,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.lint.lint_run import lint
from tests.random_fabric import FabricFile
from tests.standins.spiderpool import Object, Settings

from . import schema, webhooks

FIRST = int(os.environ.get("RAILYARD_RANDOM_FIRST", "0"))
FILES = int(os.environ.get("RAILYARD_RANDOM_FILES", "40"))
BATCH = 100


def problems(file: FabricFile) -> list[str]:
    """What upstream would say of the objects of a file that lint takes; nothing for a file that it refuses."""
    outcome = lint(file.text.encode("utf-8"))
    if outcome.plan is None:
        assert outcome.errors, "a file without a plan and without an error"
        return []
    document = outcome.plan.document()
    try:
        things: list[Object] = list(object_components.objects(document, file.options))
        values = object_components.values(document, file.options)
        object_components.allocatable(document, file.options)
        object_files.render(document, file.options, nodes=True)
    except RailyardError as error:
        # what only an option decides is the option's, and lint does not know it
        return [] if error.place.startswith("kubernetes.") else ["refused: %s" % error]
    settings = Settings.of(values["spiderpool"]) if "spiderpool" in values else Settings()
    found = webhooks.problems(things, settings)
    flavour = "bundled" if file.provider == "spiderpool" else "upstream"
    known = [thing for thing in things if schema.known(thing)]
    return found + [each for thing in known for each in schema.problems(thing, flavour)]


@pytest.mark.parametrize("first", range(FIRST, FIRST + FILES, BATCH))
def test_objects_of_valid_files_are_valid_by_the_upstream_schemas(first: int) -> None:
    found = {}
    for number in range(first, min(first + BATCH, FIRST + FILES)):
        file = FabricFile(number)
        wrong = problems(file)
        if wrong:
            found[number] = (wrong[:5], file.options, file.text)
    assert not found, "\n".join("%d: %s\n%s\n%s" % (number, *each) for number, each in found.items())


def test_most_random_files_are_valid() -> None:
    """Files that lint refuses prove nothing: half of them or more have objects."""
    taken = [lint(FabricFile(number).text.encode("utf-8")).plan is not None for number in range(40)]
    assert sum(taken) >= 20

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The NIC driver of a server model, and where it comes from."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.findings.finding import Path

REMOTE = ("http://", "https://")


@dataclass(frozen=True)
class Driver:
    """The driver of the fabric file. A key that is not set or could not be read is None."""

    path: Path
    kind: str | None = None
    version: str | None = None
    source: str | None = None
    key: str | None = None
    unsigned: bool | None = None
    packages: tuple[str, ...] = ()
    allow_unlisted: bool | None = None


def host_variable(driver: Driver | None) -> dict[str, t.Any] | None:
    if driver is None:
        return None
    return {
        "kind": driver.kind,
        "version": driver.version,
        "source": driver.source,
        "key": driver.key,
        "unsigned": bool(driver.unsigned),
        "packages": list(driver.packages),
        "allow_unlisted": bool(driver.allow_unlisted),
    }


def file_value(driver: Driver | None) -> dict[str, t.Any] | None:
    if driver is None:
        return None
    keys = ("kind", "version", "source", "key", "unsigned", "allow_unlisted")
    values = {key: getattr(driver, key) for key in keys if getattr(driver, key) is not None}
    return dict(values, packages=list(driver.packages)) if driver.packages else values

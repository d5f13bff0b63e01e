# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one error that the lab raises for a person."""

from __future__ import annotations


class LabError(Exception):
    """An error with a remedy. The command line prints both on one line."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return "%s. Remedy: %s" % (self.message.rstrip("."), self.remedy)

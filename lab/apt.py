# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""apt aside: package lists, downloads and sources in a directory of their own, with the host's settings and keys.

The host's package sources, lists and installed packages stay as they are, and nothing here needs root.
"""

from __future__ import annotations

from pathlib import Path


def aside(work: Path, sources: str) -> list[str]:
    """Prepare the directory ``work`` for package sources (deb822). Return the apt-get command line that uses them."""
    # apt downloads as another user, which must be able to enter the directory.
    work.chmod(0o755)
    for part in ("lists/partial", "archives/partial"):
        (work / part).mkdir(parents=True)
    (work / "aside.sources").write_text(sources, encoding="utf-8")
    settings = {
        "Dir::Etc::sourcelist": work / "aside.sources",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::State::lists": work / "lists",
        "Dir::Cache": work,
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "true",
    }
    lines = ['%s "%s";' % item for item in settings.items()]
    # Hooks of the host for its own package lists must not run for these.
    lines += ["#clear APT::Update::Post-Invoke;", "#clear APT::Update::Post-Invoke-Success;"]
    (work / "apt.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ["apt-get", "-q", "-c", str(work / "apt.conf")]

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""How messages name a playbook: by what the reader can type where this collection runs.

A checkout has ``playbooks/hosts.yml``; an installed collection has ``railyard.fabric.hosts``.
"""

from __future__ import annotations

import os
import re

_INSTALLED = os.path.join("ansible_collections", "railyard", "fabric", "")
_NAMES = (
    *("cluster", "discover", "drift", "hosts", "import", "kubernetes", "plan", "render", "report", "site", "teardown"),
    *("validate", "verify"),
)
_PATH = re.compile(r"(?<![\w/.-])(?:playbooks/)?(%s)\.yml(?!\w)" % "|".join(_NAMES))


def installed(file: str = __file__) -> bool:
    """Whether the collection is in a directory of collections, and not a checkout that a link there leads to."""
    return _INSTALLED in os.path.realpath(file)


def playbook(name: str) -> str:
    """The playbook as ``ansible-playbook`` takes it."""
    return "railyard.fabric.%s" % name if installed() else "playbooks/%s.yml" % name


def named(text: str) -> str:
    """The text with every playbook in it (``playbooks/hosts.yml``, ``hosts.yml``) as ``ansible-playbook`` takes it."""
    return _PATH.sub(lambda found: playbook(found[1]), text)


def command(play: str, inventory: str = "") -> str:
    """The command that runs a playbook, which may have further words. ``inventory``: its path, where it is known."""
    return "ansible-playbook -i %s %s" % (inventory or "INVENTORY", play)

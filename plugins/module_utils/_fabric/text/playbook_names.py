# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of playbooks in messages, in the form that ``ansible-playbook`` accepts in this installation.

That is ``playbooks/hosts.yml`` in a checkout, and ``railyard.fabric.hosts`` in an installed collection.
"""

from __future__ import annotations

import os
import re

_INSTALLED = os.path.join("ansible_collections", "railyard", "fabric", "")
_NAMES = (
    *(
        "cluster",
        "collectives",
        "discover",
        "drift",
        "hosts",
        "import",
        "kubernetes",
        "plan",
        "render",
        "report",
        "site",
        "status",
    ),
    *("teardown", "validate", "verify"),
)
_PATH = re.compile(r"(?<![\w/.-])(?:playbooks/)?(%s)\.yml(?!\w)" % "|".join(_NAMES))


def installed(file: str = __file__) -> bool:
    """Return whether the collection is installed in a directory of collections. A link there to a checkout is not."""
    return _INSTALLED in os.path.realpath(file)


def playbook(name: str) -> str:
    """Return the argument of ``ansible-playbook`` for a playbook, such as ``hosts``."""
    return "railyard.fabric.%s" % name if installed() else "playbooks/%s.yml" % name


def named(text: str) -> str:
    """Return the text with its playbooks (``playbooks/hosts.yml``, ``hosts.yml``) as :func:`playbook` names them."""
    return _PATH.sub(lambda match: playbook(match[1]), text)


def command(play: str, inventory: str = "") -> str:
    """Return the command that runs a playbook.

    :param play: the playbook as :func:`playbook` names it; options may follow.
    :param inventory: the path of the inventory; empty if it is unknown.
    """
    return "ansible-playbook -i %s %s" % (inventory or "INVENTORY", play)

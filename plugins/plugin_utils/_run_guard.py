# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of a run before its first task: whether its tags exist, and whether its limit matches hosts.

Ansible skips tasks by tags, by ``--start-at-task``, and with all of its play by ``--limit``. It evaluates ``hosts`` of
each play in every run, so checks that must always hold are made there (lookup ``play_hosts``).
"""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

from ansible.module_utils.parsing.convert_bool import boolean

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.layer_table import LAYERS, REMOVABLE
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import did_you_mean, nearest
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.verify.probing import node_parts

COLLECTION = "railyard.fabric."
NODES = "railyard_nodes"
LOCAL = "localhost"
# Playbook -> the tags that select tasks. Other playbooks have no tags.
TAGS: dict[str, tuple[str, ...]] = {
    "hosts": ("hosts", *LAYERS),
    "site": ("hosts", "kubernetes", "verify", *LAYERS),
    "teardown": ("hosts", "kubernetes", *REMOVABLE),
}
# Playbook -> the tags that --skip-tags accepts, where they differ: these playbooks compare each layer separately.
SKIPPED: dict[str, tuple[str, ...]] = {"drift": LAYERS, "verify": LAYERS}
# Playbooks that can run on a part of the nodes.
PARTS = ("hosts", "verify", "drift")
# Playbooks that contact nodes. A limit may exclude their tasks on the control node.
_CONTACT_NODES = {"collectives", "discover", "drift", "hosts", "site", "status", "teardown", "verify"}
# Tags with a meaning in Ansible, and those that molecule always skips.
_SPECIAL = ("all", "always", "never", "tagged", "untagged", "molecule-notest", "notest")
# Tags of plays that contact no node.
_CLUSTER = {"kubernetes"}
_PART = "railyard_part"
_BATCH = re.compile(r"([1-9][0-9]{0,6})(%?)\Z")


class Run(t.NamedTuple):
    """The arguments of ansible-playbook."""

    playbooks: t.Sequence[str]
    tags: t.Sequence[str]
    skip_tags: t.Sequence[str]
    limit: str | None
    start_at: str | None

    def own(self, root: Path) -> list[str]:
        """Return the names of the playbooks if all are of this collection; else an empty list."""
        names = [_own(each, root) for each in self.playbooks]
        return [name for name in names if name] if all(names) else []

    def others(self, root: Path) -> list[str]:
        """Return the playbooks outside of this collection."""
        return [each for each in self.playbooks if not _own(each, root)]

    @property
    def cluster_alone(self) -> bool:
        """Whether the tags select no play that contacts nodes."""
        asked = set(self.tags) - {"always", "tagged"}
        return bool(asked) and asked <= _CLUSTER or {"hosts", "verify"} <= set(self.skip_tags)

    def needs(self, pattern: str, own: t.Sequence[str]) -> bool:
        """Return whether a play with this pattern must have hosts, because the run would do nothing without them."""
        if pattern == LOCAL:
            return bool(own) and (self.cluster_alone or not _CONTACT_NODES & set(own))
        return not self.cluster_alone


def _own(playbook: str, root: Path) -> str | None:
    if playbook.startswith(COLLECTION):
        return playbook[len(COLLECTION) :].partition(".")[0]
    path = Path(playbook).resolve()
    ours = path.parent == root / "playbooks" or path == root / "site.yml"
    return path.stem if ours else None


def check_run(run: Run, own: t.Sequence[str]) -> None:
    """Check that the tags of a run exist, and that it begins at its first task. ``own``: see :meth:`Run.own`.

    :raises RailyardError: if not.
    """
    if not own:
        return
    for option, given, table in (("--tags", run.tags, TAGS), ("--skip-tags", run.skip_tags, {**TAGS, **SKIPPED})):
        known = sorted({tag for name in own for tag in table.get(name, ())})
        for tag in given:
            if tag not in known and tag not in _SPECIAL:
                raise _unknown(option, tag, own, known)
    if run.start_at:
        raise RailyardError(
            "a run cannot start at the task %s, because the checks before it would be skipped" % run.start_at,
            "--start-at-task",
            "run the whole playbook; a run changes only differences"
            + (", and --tags LAYER runs one layer" if any(name in TAGS for name in own) else ""),
        )


def _unknown(option: str, tag: str, own: t.Sequence[str], known: t.Sequence[str]) -> RailyardError:
    what = " and ".join("%s.yml" % name for name in own)
    if not known:
        return RailyardError("%s has no tag %s, and no other tags" % (what, tag), option, "run it without %s" % option)
    hint = did_you_mean(nearest(tag, known))
    return RailyardError("%s has no tag %s%s" % (what, tag, hint), option, "use one of %s" % ", ".join(known))


def check_batch(batch: t.Any) -> None:
    """Check that ``railyard_reboot_batch`` is a number of nodes from 1, or a percentage. To Ansible, 0 means all nodes.

    :raises RailyardError: if it is not.
    """
    found = _BATCH.match(str(batch))
    if not found or found.group(2) and int(found.group(1)) > 100:
        raise RailyardError(
            "%s is not a number of nodes that reboot at once" % (str(batch) or "an empty text"),
            "railyard_reboot_batch",
            "use 1 or more, or a share of the nodes such as 10%",
        )


def part_of(
    given: t.Any, own: t.Sequence[str], judges: bool, reboot_allowed: t.Any = None
) -> node_parts.Part | str | None:
    """Return the part that ``railyard_part`` names, ``JUDGE`` for the verdict on all parts, or None for all nodes.

    :param own: the playbooks of the run, see :meth:`Run.own`.
    :param judges: whether the playbook gives a verdict on parts.
    :raises RailyardError: for other values, for playbooks without parts, and for a part with consent to reboots.
    """
    text = str(given or "").strip()
    if not text:
        return None
    without = [name for name in own if name not in PARTS]
    if without:
        known = " and ".join("%s.yml" % name for name in PARTS)
        raise RailyardError("%s.yml does not run on parts" % without[0], _PART, "run %s with it" % known)
    if text == node_parts.JUDGE and judges:
        return node_parts.JUDGE
    try:
        part = node_parts.parse(text)
    except ValueError as error:
        remedy = "write K/N for the K-th of N parts, such as 2/8"
        verdict = ", or %s for the verdict on all parts" % node_parts.JUDGE
        raise RailyardError(str(error), _PART, remedy + verdict * judges) from error
    if boolean(reboot_allowed or False, strict=False):
        raise RailyardError(
            "part %s reboots no node, because only one run of all nodes stops at the first node that fails" % part,
            "reboot_allowed",
            "run all parts without it, and then hosts.yml with it and without %s" % _PART,
        )
    return part


def check_matched(pattern: str, matched: t.Collection[str], nodes: t.Collection[str], limit: str | None) -> None:
    """Check that a play has hosts.

    :param nodes: the rail nodes of the whole inventory.
    :raises RailyardError: if it has none.
    """
    if matched:
        return
    if pattern == LOCAL:
        raise RailyardError(
            "the limit %s leaves out localhost, where this playbook runs, so nothing would be done" % limit,
            "--limit",
            "run it without --limit, or add localhost to the limit: --limit %s,localhost" % limit,
        )
    if pattern == NODES and not nodes:
        raise RailyardError(
            "the inventory has no rail nodes",
            NODES,
            "name a fabric file with -i, such as -i inventories/lab, and see the messages above about it",
        )
    if limit:
        what = "rail node" if pattern == NODES else "host of %s" % pattern
        some = sorted(nodes)[:3]
        raise RailyardError(
            "the limit %s matches no %s, so nothing would be done" % (limit, what),
            "--limit",
            "name nodes of the inventory%s" % (", such as %s" % ", ".join(some) if some else ""),
        )
    raise RailyardError(
        "no host of the inventory matches %s" % pattern, "hosts", "name an inventory with nodes, with -i"
    )

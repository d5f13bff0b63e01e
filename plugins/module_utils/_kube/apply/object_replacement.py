# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Determine the order in which changed objects of a kind are written, if rules of the kind do not allow every order.

An object is deleted and created again if an immutable field changes. An object that left the plan is deleted before
another object takes what it claims. An object that gives up claims is changed before the one that takes them; if two
exchange claims, one is deleted first. Objects in use are never deleted.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, Refused
from ansible_collections.railyard.fabric.plugins.module_utils._common.replacement_rules import (
    Claim,
    Rule,
    Use,
    outside,
    overlapping,
    value_at,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.api.object_reference import (
    Key,
    Kind,
    first_of,
    selected,
)
from ansible_collections.railyard.fabric.plugins.module_utils._kube.apply.object_writes import (
    DesiredObjects,
    Live,
    Settled,
    Write,
    applied,
    ends,
)

# Maximum number of objects, and of users of one object, named in a line.
_SHOWN = 4


class Reason(t.NamedTuple):
    """Why an object is replaced. ``why`` is the same text for all objects with the same cause."""

    key: Key
    detail: str
    why: str


@dataclass
class Arranged:
    """``reasons`` need consent; ``early``: deletions before the writes of their kind. ``warnings`` name objects that
    left the plan and are deleted although they are in use."""

    early: list[Write] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)
    errors: list[RailyardError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return a line for each reason, with its first objects."""
        found: dict[tuple[str, str], list[Reason]] = {}
        for reason in self.reasons:
            found.setdefault((reason.key.kind, reason.why), []).append(reason)
        return [
            "%s %s: %s" % (kind, _some(["%s (%s)" % (each.key.name, each.detail) for each in group]), why)
            for (kind, why), group in found.items()
        ]


def arranged(desired: DesiredObjects, writes: t.Sequence[Write], live: Live, prune: bool) -> Arranged:
    """Set ``replaces`` and ``step`` of writes that need them. Return early deletions, reasons, errors and warnings."""
    found = Arranged()
    for kind, rule in desired.rules.items():
        mine = [write for write in writes if write.key.type == kind]
        if mine:
            _Kind(kind, rule, desired, mine, live, prune, found).arrange()
    return found


class _Kind:
    """The writes of one kind, and all observed objects of it."""

    def __init__(
        self,
        kind: Kind,
        rule: Rule,
        desired: DesiredObjects,
        writes: list[Write],
        live: Live,
        prune: bool,
        found: Arranged,
    ) -> None:
        self.rule, self.desired, self.prune, self.found = rule, desired, prune, found
        self.puts = {write.key: write for write in writes if write.wanted is not None}
        self.goes = {write.key: write for write in writes if write.wanted is None}
        self.live = {key: each for key, each in live.items() if key.type == kind and not isinstance(each, Settled)}

    def arrange(self) -> None:
        for write in self.puts.values():
            self._immutable(write)
            self._reset(write)
        moves = self._conflicts() if self.puts else {}
        self._order(moves)
        for write in self.puts.values():
            self._in_use(write)
        for write in self.goes.values():
            self._warn_if_used(write)

    # -- changes that an update cannot make

    def _immutable(self, write: Write) -> None:
        """Mark a write that changes an immutable field as a replacement, or add an error for objects of others."""
        if write.live is None or write.wanted is None:
            return
        differ = [
            (path, value_at(write.live, path), value_at(write.wanted, path))
            for path in self.rule.immutable
            if value_at(write.live, path) != value_at(write.wanted, path)
        ]
        if not differ:
            return
        path, before, after = differ[0]
        detail = "%s to %s" % (_short(before), _short(after))
        if ends(write.live):
            write.replaces = True
        elif write.ours:
            self._replace(write, detail, "%s cannot be changed" % path)
        else:
            self.found.errors.append(
                Refused(
                    "it exists already with another %s (%s), which cannot be changed, and does not belong to Railyard"
                    % (path, detail),
                    str(write.key),
                    "choose another name in the fabric file (names), or have its owner delete it",
                )
            )

    def _reset(self, write: Write) -> None:
        """Add a reason if the controller reassigns addresses after the change."""
        if write.live is None or write.wanted is None or write.replaces:
            return
        for path in self.rule.resets:
            before, after = value_at(write.live, path), value_at(write.wanted, path)
            assigned = self.rule.assigned(write.live)
            if before != after and assigned:
                detail = "%s to %s, assigned to %s" % (_short(before), _short(after), _some(assigned))
                why = "%s changes, and its controller assigns the addresses of every node again" % path
                self.found.reasons.append(Reason(write.key, detail, why))
                return

    # -- conflicts between objects

    def _conflicts(self) -> dict[Key, set[Key]]:
        """Return object -> objects that must change first, because it takes what they give up."""
        wanted = [(key, claim) for key, write in self.puts.items() for claim in self.rule.claims(write.wanted or {})]
        held = [
            (key, claim)
            for key, found in self.live.items()
            if not (key in self.puts and self.puts[key].replaces)
            for claim in self.rule.claims(found)
        ]
        moves: dict[Key, set[Key]] = {}
        done: set[Key] = set()
        for claim, takers, other, holders in overlapping(wanted, held):
            for holder in holders:
                if holder in self.puts:
                    for taker in takers:
                        if taker != holder:
                            moves.setdefault(taker, set()).add(holder)
                elif holder not in done:
                    done.add(holder)
                    self._blocked_by(holder, other, takers[0], claim)
        return moves

    def _blocked_by(self, holder: Key, held: Claim, taker: Key, claim: Claim) -> None:
        """Handle an object that no write changes and that has what a desired object needs."""
        found = self.live[holder]
        adopted = holder in self.goes and self.goes[holder].releases
        if adopted or not selected(found, self.desired.labels) or not applied(found, self.desired):
            self.found.errors.append(_foreign(holder, found, held, taker, claim, self.desired))
        elif holder in self.goes:
            write = self.goes[holder]
            self.found.early.append(write)
            self.found.reasons.append(
                Reason(holder, held.text, "it left the plan, and a planned object takes its addresses")
            )
            self._refuse_in_use(write, self.rule.uses(found))
        elif not ends(found) and not self.prune:
            self.found.errors.append(
                Refused(
                    "it left the plan and still has %s, which %s needs" % (held.text, taker),
                    str(holder),
                    "run with -e kubernetes_prune=true, which deletes what left the plan",
                )
            )
        elif ends(found):
            # it is under deletion, which the run waits for
            self.found.early.append(Write(holder, next(iter(self.puts.values())).resource, None, found))

    def _order(self, moves: dict[Key, set[Key]]) -> None:
        """Set the step of each write. Of writes that wait for each other, one object is deleted first."""
        predecessors = {key: set(before) for key, before in moves.items()}
        step = 0
        waiting = set(predecessors)
        while waiting:
            step += 1
            ready = {key for key in waiting if not predecessors[key] & waiting}
            if not ready:
                key = self._to_delete(waiting, predecessors)
                self._replace(
                    self.puts[key], "", "two objects exchange addresses, and one of them must be deleted first"
                )
                for before in predecessors.values():
                    before.discard(key)
                continue
            for key in ready:
                self.puts[key].step = step
            waiting -= ready

    def _to_delete(self, waiting: set[Key], left: t.Mapping[Key, set[Key]]) -> Key:
        """Return the object of a cycle with the fewest addresses in use."""
        key = min(waiting)
        path: list[Key] = []
        while key not in path:
            path.append(key)
            key = min(left[key] & waiting)
        cycle = path[path.index(key) :]
        return min(cycle, key=lambda each: (len(self.rule.uses(self.live[each])), each))

    # -- objects in use

    def _replace(self, write: Write, detail: str, why: str) -> None:
        write.replaces = True
        if not detail:
            before = [claim.text for claim in self.rule.claims(write.live or {}) if not claim.shared]
            after = [claim.text for claim in self.rule.claims(write.wanted or {}) if not claim.shared]
            detail = "%s to %s" % (_some(before), _some(after))
        self.found.reasons.append(Reason(write.key, detail, why))

    def _in_use(self, write: Write) -> None:
        """Add an error if pods use addresses that the write removes."""
        if write.live is None or write.wanted is None:
            return
        uses = self.rule.uses(write.live)
        if not write.replaces:
            claims = self.rule.claims(write.wanted)
            uses = [use for use in uses if outside(use, claims)]
        if uses and write.ours and not ends(write.live):
            self._refuse_in_use(write, uses)

    def _refuse_in_use(self, write: Write, uses: t.Sequence[Use]) -> None:
        if not uses:
            return
        users = _some(["%s (%s)" % (each.user, each.text) for each in uses])
        effect = "must be deleted first" if write.replaces or write.wanted is None else "loses addresses"
        self.found.errors.append(
            Refused(
                "it %s, and %d of its addresses %s in use by %s"
                % (effect, len(uses), "is" if len(uses) == 1 else "are", users),
                str(write.key),
                "end these pods (kubectl delete pod, or scale their workload down) and run again; the objects on the"
                " cluster stay as they are until then",
            )
        )

    def _warn_if_used(self, write: Write) -> None:
        """Add a warning if pods use addresses of a deleted object."""
        uses = self.rule.uses(write.live or {})
        if uses and write not in self.found.early and not write.releases:
            self.found.warnings.append(
                "%s left the plan and is deleted, while %d of its addresses are in use by %s: these pods keep them, and"
                " it disappears when they end" % (write.key, len(uses), _some([each.user for each in uses]))
            )


def _foreign(
    holder: Key, found: t.Mapping[str, t.Any], held: Claim, taker: Key, claim: Claim, desired: DesiredObjects
) -> RailyardError:
    """Return the error for an object of another owner that has what a desired object needs."""
    labels = found["metadata"].get("labels") or {}
    ours = selected(found, desired.family)
    others = [
        "%s=%s" % (name, labels[name])
        for name, value in desired.labels.items()
        if ours and labels.get(name) not in (None, value)
    ]
    owner = "which belongs to another owner: %s" % ", ".join(others[-1:]) if others else "which Railyard did not create"
    return Refused(
        "%s overlaps with %s of %s, %s" % (claim.text, held.text, holder, owner),
        str(taker),
        "change or delete %s (kubectl get %s %s -o yaml), or choose other addresses in the fabric file"
        % (holder, holder.kind.lower(), holder.name),
    )


def _short(value: t.Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _some(names: t.Sequence[str]) -> str:
    return first_of(list(dict.fromkeys(names)), _SHOWN)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""The order in which changed objects of a kind are written, if its rules do not allow every order.

An object whose immutable field changes is deleted and created again. An object that left the plan, and whose claims
another one takes, is deleted before that one is written. An object that gives claims up is changed before the one that
takes them; if two exchange claims, one of them is deleted first. Objects in use are never deleted.
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
    ends,
)

# Objects, and users of one, that a line names.
_SHOWN = 4


class Reason(t.NamedTuple):
    """Why an object is replaced; ``why`` is the same text for all objects with the same cause."""

    key: Key
    detail: str
    why: str


@dataclass
class Arranged:
    """``reasons`` need consent; ``early`` are deletions that are sent before the writes of their kind.

    ``warnings`` name objects in use that are deleted because they left the plan.
    """

    early: list[Write] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)
    errors: list[RailyardError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """A line for each reason, with its first objects."""
        found: dict[tuple[str, str], list[Reason]] = {}
        for reason in self.reasons:
            found.setdefault((reason.key.kind, reason.why), []).append(reason)
        return [
            "%s %s: %s" % (kind, _some(["%s (%s)" % (each.key.name, each.detail) for each in group]), why)
            for (kind, why), group in found.items()
        ]


def arranged(desired: DesiredObjects, writes: t.Sequence[Write], live: Live, prune: bool) -> Arranged:
    """Set ``replaces`` and ``step`` of the writes that need it, and return the rest."""
    found = Arranged()
    for kind, rule in desired.rules.items():
        mine = [write for write in writes if write.key.type == kind]
        if mine:
            _Kind(kind, rule, desired, mine, live, prune, found).arrange()
    return found


class _Kind:
    """The writes of one kind and all observed objects of it."""

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
            self._leaves(write)

    # -- what an update cannot do

    def _immutable(self, write: Write) -> None:
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

    # -- what two objects cannot have both

    def _conflicts(self) -> dict[Key, set[Key]]:
        """Object -> the objects that must change before it, because it takes what they give up."""
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
                    self._holds(holder, other, takers[0], claim)
        return moves

    def _holds(self, holder: Key, held: Claim, taker: Key, claim: Claim) -> None:
        """An object that no write changes has what another one needs."""
        found = self.live[holder]
        adopted = holder in self.goes and self.goes[holder].releases
        if adopted or not selected(found, self.desired.labels):
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
            # it is under deletion, and is waited for
            self.found.early.append(Write(holder, next(iter(self.puts.values())).resource, None, found))

    def _order(self, moves: dict[Key, set[Key]]) -> None:
        """Set the step in which each write is sent; of writes that wait for each other, one is deleted first."""
        left = {key: set(before) for key, before in moves.items()}
        step = 0
        waiting = set(left)
        while waiting:
            step += 1
            ready = {key for key in waiting if not left[key] & waiting}
            if not ready:
                key = self._gives_way(waiting, left)
                self._replace(
                    self.puts[key], "", "two objects exchange addresses, and one of them must be deleted first"
                )
                for before in left.values():
                    before.discard(key)
                continue
            for key in ready:
                self.puts[key].step = step
            waiting -= ready

    def _gives_way(self, waiting: set[Key], left: t.Mapping[Key, set[Key]]) -> Key:
        """The object of a cycle with the fewest addresses in use."""
        key = min(waiting)
        seen: list[Key] = []
        while key not in seen:
            seen.append(key)
            key = min(left[key] & waiting)
        cycle = seen[seen.index(key) :]
        return min(cycle, key=lambda each: (len(self.rule.uses(self.live[each])), each))

    # -- what is in use

    def _replace(self, write: Write, detail: str, why: str) -> None:
        write.replaces = True
        if not detail:
            before = [claim.text for claim in self.rule.claims(write.live or {}) if not claim.shared]
            after = [claim.text for claim in self.rule.claims(write.wanted or {}) if not claim.shared]
            detail = "%s to %s" % (_some(before), _some(after))
        self.found.reasons.append(Reason(write.key, detail, why))

    def _in_use(self, write: Write) -> None:
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
        what = "must be deleted first" if write.replaces or write.wanted is None else "loses addresses"
        self.found.errors.append(
            Refused(
                "it %s, and %d of its addresses %s in use by %s"
                % (what, len(uses), "is" if len(uses) == 1 else "are", users),
                str(write.key),
                "end these pods (kubectl delete pod, or scale their workload down) and run again; the objects on the"
                " cluster stay as they are until then",
            )
        )

    def _leaves(self, write: Write) -> None:
        uses = self.rule.uses(write.live or {})
        if uses and write not in self.found.early and not write.releases:
            self.found.warnings.append(
                "%s left the plan and is deleted, while %d of its addresses are in use by %s: these pods keep them, and"
                " it disappears when they end" % (write.key, len(uses), _some([each.user for each in uses]))
            )


def _foreign(
    holder: Key, found: t.Mapping[str, t.Any], held: Claim, taker: Key, claim: Claim, desired: DesiredObjects
) -> RailyardError:
    labels = found["metadata"].get("labels") or {}
    ours = selected(found, desired.family)
    others = ["%s=%s" % (name, labels[name]) for name in desired.labels if ours and labels.get(name)]
    whose = "which belongs to another owner: %s" % ", ".join(others[-1:]) if others else "which Railyard did not create"
    return Refused(
        "%s overlaps with %s of %s, %s" % (claim.text, held.text, holder, whose),
        str(taker),
        "change or delete %s (kubectl get %s %s -o yaml), or choose other addresses in the fabric file"
        % (holder, holder.kind.lower(), holder.name),
    )


def _short(value: t.Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _some(names: t.Sequence[str]) -> str:
    return first_of(list(dict.fromkeys(names)), _SHOWN)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of Kubernetes objects: names in manifests are kept, as templates or per rail."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base import (
    import_rules,
    name_counting,
    node_selectors,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_facts import Facts
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.base.import_findings import Found
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.port_drafts import Draft, bare
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.importers.infer.rail_addressing import (
    NONE,
    SUBNET,
    Addressing,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.object_names import SHAPES
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.ip_integers import IPV4, SUFFIX
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import label


class Names:
    """Derives the section ``names``.

    :param rails: names of the rails, in their order.
    :param profiles: names of the profiles, in the order of ``facts.models``.
    """

    def __init__(
        self,
        facts: Facts,
        drafts: t.Sequence[Draft],
        rails: t.Sequence[str],
        provider: str,
        attachment: str,
        profiles: t.Sequence[str],
        found: Found,
    ) -> None:
        self._facts = facts
        self._drafts = drafts
        self._rails = rails
        self._defaults = facts_of(provider)
        self._attachment = attachment
        self._profiles = profiles
        self._found = found
        self._place = drafts[0].place

    def section(self, addressing: Addressing) -> dict[str, t.Any]:
        """Return the section ``names``; empty if all names are the defaults."""
        section: dict[str, t.Any] = {}
        prefixes = {self._prefix(draft) for draft in self._drafts} - {""}
        if len(prefixes) == 1:
            prefix = prefixes.pop()
            if prefix != self._defaults.resource_prefix:
                section["resource_prefix"] = prefix
        elif prefixes:
            message = "the resources have several prefixes: %s" % ", ".join(sorted(prefixes))
            self._found.add(import_rules.NAMES, self._place, message, "use one prefix", self._defaults.resource_prefix)
        if not prefixes and self._facts.resource_prefix not in ("", self._defaults.resource_prefix):
            section["resource_prefix"] = self._facts.resource_prefix
        resources = self._resources()
        defaults = ["%s_%s" % (name.replace("-", "_"), self._attachment.replace("-", "_")) for name in self._rails]
        self._template(section, "resource", resources, defaults, SHAPES["resource"][0].match)
        networks = [draft.network or "" for draft in self._drafts]
        defaults = ["%s-%s" % (name, self._attachment) for name in self._rails]
        self._template(section, "network", networks, defaults, _short_label)
        namespaces = {draft.namespace for draft in self._drafts} - {""}
        if len(namespaces) == 1 and namespaces != {self._defaults.namespace}:
            section["namespace"] = namespaces.pop()
        if len(self._profiles) == 1:
            # a policy for the ports of several rails has the name of none of them
            policies = [[device.policy for device in draft.devices if device.policy] for draft in self._drafts]
            listed = [own[0] if len(own) == 1 else "" for own in policies]
            if all(listed.count(each) == 1 for each in listed):
                default = "{fabric}-{rail}-{profile}"
                self._template(section, "policy", listed, [default] * len(listed), SHAPES["policy"][0].match)
        if addressing.mode != NONE and self._defaults.pools:
            each_node = addressing.mode != SUBNET and self._defaults.pool_per_node
            for bits, suffix in SUFFIX.items():
                names = self._node_pools(bits) if each_node else self._pool_names(addressing, bits)
                defaults = ["{fabric}-{rail}" + "-{node}" * each_node] * len(names)
                divided = [rail for rail in addressing.rails[bits].values() if rail.numbering]
                if self._defaults.cuts_blocks and len(divided) == len(names) > 1 and len(set(names)) == 1 and names[0]:
                    section["pool" + suffix] = names[0]
                    continue
                self._template(section, "pool" + suffix, names, defaults, SHAPES["pool"][0].match)
        return section

    def _resources(self) -> list[str]:
        """Return the resource of each rail, with ``{profile}`` for the name of the profile in it."""
        resources = [bare(draft.resource or "") for draft in self._drafts]
        if len(self._profiles) < 2:
            return resources
        by_profile: list[list[str]] = []
        for profile, model in zip(self._profiles, self._facts.models):
            own = [
                [bare(each.resource) for each in draft.devices if node_selectors.overlap(each.nodes, model)]
                for draft in self._drafts
            ]
            by_profile.append([names[0] if names else "" for names in own])
            by_profile[-1] = [name.replace(profile.replace("-", "_"), "{profile}") for name in by_profile[-1]]
        if all(own == by_profile[0] for own in by_profile):
            return by_profile[0]
        if any({name for name in names if name} - {resources[at]} for at, names in enumerate(zip(*by_profile))):
            message = "the resources of rails differ between the profiles %s" % " and ".join(self._profiles)
            remedy = "use one name, or names with the name of the profile in them, and write names.resource"
            self._found.add(import_rules.NAMES, self._place, message, remedy, "the names of the first profile")
        return resources

    def _node_pools(self, bits: int) -> list[str]:
        """Return per rail the name of its pools, with ``{node}`` for the node; empty without a common form."""
        names = []
        for draft in self._drafts:
            pools = [pool for pool in draft.pools if pool.net and pool.net.bits == bits and pool.nodes]
            common = {pool.name.replace(pool.nodes[0], "{node}") for pool in pools}
            if len(common) != 1 or "{node}" not in next(iter(common)):
                self._report_renamed_pools(bits)
                return []
            names.append(common.pop())
        return names

    def _report_renamed_pools(self, bits: int) -> None:
        names = [
            pool.name
            for draft in self._drafts
            for pool in draft.pools
            if pool.net and pool.net.bits == bits and not pool.inline
        ]
        if names:
            message = "the pools %s get other names" % name_counting.compact(list(dict.fromkeys(names)))
            remedy = "use the new names in pods, or set names.pool"
            self._found.add(import_rules.NAMES, self._place, message, remedy, "the fabric file's own names")

    def _pool_names(self, addressing: Addressing, bits: int) -> list[str]:
        """Return the pool's name per rail; empty if a rail has several pools, because the plan creates one."""
        names_of_rails = [
            [each.name for each in draft.pools if each.net and each.net.bits == bits and not each.inline]
            for draft in self._drafts
        ]
        if any(len(names) > 1 for names in names_of_rails):
            self._report_renamed_pools(bits)
            return []
        known = {at: names[0] for at, names in enumerate(names_of_rails, 1) if names}
        if len(known) == 1 and len(names_of_rails) > 1 and bits == IPV4:
            return self._counted_pools(addressing, *known.popitem())
        series = name_counting.series(known)
        if series is None or not series.counts:
            return [known.get(at, "") for at in range(1, len(names_of_rails) + 1)]
        return [series.at(at) or "" for at in range(1, len(names_of_rails) + 1)]

    def _counted_pools(self, addressing: Addressing, place: int, name: str) -> list[str]:
        """Return all pool names from one such as ``gpu1-net11``, whose numerals are those of rail and subnet."""
        third_octets = {at: rail.net.first >> 8 & 255 for at, rail in addressing.rails[IPV4].items()}
        counted = len(third_octets) == len(self._drafts) and all(
            octet == third_octets[place] + at - place for at, octet in third_octets.items()
        )

        def name_of(at: int) -> str:
            def numeral_of(numeral: t.Match[str]) -> str:
                value = int(numeral.group())
                grows = value == place or (counted and value == third_octets[place])
                return "%0*d" % (len(numeral.group()), value + at - place) if grows else numeral.group()

            return re.sub("[0-9]{1,9}", numeral_of, name)

        return [name_of(at) for at in range(1, len(self._drafts) + 1)]

    def _prefix(self, draft: Draft) -> str:
        resources = [network.resource or "" for network in draft.networks] + [draft.resource or ""]
        return next((resource.rpartition("/")[0] for resource in resources if "/" in resource), "")

    def _template(
        self,
        section: dict[str, t.Any],
        key: str,
        names: t.Sequence[str],
        defaults: t.Sequence[str],
        is_valid: t.Callable[[str], t.Any],
    ) -> None:
        """Set a template that gives these names, or a name per rail, unless they are the defaults."""
        if not any(names) or list(names) == list(defaults):
            return
        known = {at: name for at, name in enumerate(names, 1) if name}
        invalid = [
            name for name in known.values() if not is_valid(name.replace("{node}", "n").replace("{profile}", "p"))
        ]
        if invalid or len(set(known.values())) < len(known):
            message = "a fabric file cannot have the %s names %s" % (
                key,
                name_counting.compact(list(dict.fromkeys(names))),
            )
            remedy = "use the new names in pods, or set names.%s" % key
            self._found.add(import_rules.NAMES, self._place, message, remedy, "the fabric file's own names")
            return
        series = name_counting.series(known)
        complete = len(known) == len(names)
        if series and complete and series.by_one and (series.counts or len(names) == 1):
            section[key] = series.template()
        else:
            section[key] = {rail: names[at] or defaults[at] for at, rail in enumerate(self._rails)}


def _short_label(text: str) -> bool:
    return label(text, 63)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fabric files and options at random, each from a number: what users could write, and mostly lint takes it.

Each section is one method that fills its part of the file. The same number gives the same file.
"""

from __future__ import annotations

import random
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.attachment_table import (
    ATTACHMENTS,
    link_layer_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import PROVIDERS
from tests import yaml_text

Section = t.Dict[str, t.Any]
MODES = ("subnet", "block", "prefix", "link", "none")
WORDS = ("ai", "gpu", "train", "east", "h200", "cx7", "rail", "su1", "b", "x9")
# Kind -> templates that users write, from short to as long as they may be.
TEMPLATES: dict[str, tuple[str, ...]] = {
    "network": (
        "{attachment}-{rail}-of-{fabric}",
        "{rail}-{attachment}",
        "{rail}",
        "{fabric}-{rail}-{attachment}",
        "{rail}-{profile}",
        "net-{k}-{attachment}",
    ),
    "resource": (
        "{rail}_{attachment}",
        "{fabric}_{rail}_{attachment}",
        "{rail}_{profile}",
        "r{k}_{attachment}_{fabric}",
    ),
    "pool": ("{fabric}-{rail}", "{fabric}-{rail}-{node}", "{rail}-{i}", "{rail}.{node}", "{node}-{rail}", "p{k}-{i}"),
    "pool6": ("six-{fabric}-{rail}", "{rail}-{node}-6", "six-{rail}-{i}"),
    "policy": ("{fabric}-{rail}-{profile}", "{rail}-{profile}-vfs", "{profile}.{rail}"),
    "interface": ("net{k}", "rdma{n}p{p}", "{n}"),
    "namespace": ("kube-system", "default", "{fabric}-net"),
    "resource_prefix": ("spidernet.io", "nvidia.com", "rdma", "fabric.customer-with-a-long-name.example.com"),
}


class FabricFile:
    """One file, as ``text``, and ``options`` for its objects."""

    def __init__(self, number: int) -> None:
        self._random = random.Random(number)
        choose = self._random.choice
        self.provider = choose([name for name, facts in PROVIDERS.items() if facts.kubernetes])
        self.attachment = choose(PROVIDERS[self.provider].served)
        modes = [mode for mode in MODES if not PROVIDERS[self.provider].mode_refused(mode)]
        self.mode = choose([mode for mode in modes if mode != "link" or self.attachment == "host-device"])
        self.families = () if self.mode == "none" else choose([(4,), (4,), (6,), (4, 6)])
        self.vfs = choose((1, 2, 4, 8, 16, 64, 127))
        self.pods = choose((1, 2, 4)) if self.provider == "network-operator" or self._chance(0.3) else None
        if self.mode == "link" or self.attachment == "host-device":
            self.pods = 1 if self.pods else None
        elif self.pods:
            self.pods = min(self.pods, self.vfs)
        self.planes = choose((1, 1, 1, 2))
        self.count = self._random.randint(1, 8 // self.planes)
        self.nodes = self._random.randint(1, 6)
        self.data: Section = {"plugin": "railyard.fabric.rails"}
        self.data["fabric"] = self._fabric()
        self.rails = self._rails()
        self.data["profiles"] = self._profiles()
        self.data["groups"] = self._groups()
        self.data["nodes"] = self._nodes()
        self.data["names"] = self._names()
        self.options = self._options()

    @property
    def text(self) -> str:
        return yaml_text.dump({key: value for key, value in self.data.items() if value}, sort_keys=False)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _word(self, longest: int) -> str:
        """A name of lower-case letters, digits and hyphens, now and then as long as it may be."""
        words = self._random.choices(WORDS, k=self._random.randint(1, 3))
        text = "-".join(words)
        if self._chance(0.15):
            text = (text + "-" + "long" * longest)[:longest]
        return text[:longest].strip("-")

    def _fabric(self) -> Section:
        fabric: Section = {"name": self._word(40), "attachment": self.attachment, "provider": self.provider}
        fabric["mtu"] = (
            4092 if link_layer_of(self.attachment) == "infiniband" else self._random.choice((1500, 4200, 9000))
        )
        if self.attachment == "ipoib":
            fabric["mtu"] = 2044
        if ATTACHMENTS[self.attachment].vfs:
            fabric["vfs"] = {"count": self.vfs}
        if self.pods:
            fabric["pods_per_node"] = self.pods
        if self._chance(0.4):
            mode, across = self._random.choice(("source", "destination")), self._chance(0.7)
            fabric["routing"] = {"mode": mode, "cross_rail": across}
        if link_layer_of(self.attachment) == "infiniband" and self._chance(0.4):
            keys = self._random.sample(("0x8001", "0x8002", "0x8003"), self._random.randint(1, 2))
            fabric["infiniband"] = {"pkeys": sorted(keys)}
        return fabric

    # -- addresses

    def _rails(self) -> list[str]:
        """The rails and the addresses; the names of the rails, planes counted."""
        stem = self._random.choice(
            ("gpu{n:02}", "r{n}", "rail-{n:02}", "nic{n:02}-train-fabric-with-a-long-name", "r{n}-1x1", "{n}-all")
        )
        own = {"addresses": {}, "rails": {"count": self.count, "name": stem}}
        if self.planes > 1:
            own["rails"]["planes"] = self.planes
        wide = self._random.choice((16, 24))
        for family in self.families:
            own["addresses"].update(self._family(family, wide))
        if self.mode != "subnet" or self._chance(0.5):
            own["addresses"]["mode"] = self.mode
        if self.families and self.mode in ("subnet", "prefix") and self._chance(0.5):
            taken = dict(each for family in self.families for each in self._taken(family, wide))
            if taken:
                own["addresses"]["taken"] = taken
        if self.mode == "prefix" and self._chance(0.5):
            own["addresses"]["host"] = self._random.choice(("first", "last", "none"))
        if self.mode == "link":
            own["addresses"]["leaf_end"] = self._random.choice(("first", "second"))
        if self.mode in ("prefix", "link") and self._chance(0.3):
            self.data["units"] = {"su[1:2]": {"nodes": 6}}
        self.data.update(own)
        names = [stem.replace("{n:02}", "%02d" % n).replace("{n}", str(n)) for n in range(1, self.count + 1)]
        if self.planes == 1:
            if self._chance(0.3):
                self.data["rails"] = {name: self._rail(n) for n, name in enumerate(names, 1)}
            return names
        return ["%sp%d" % (name, plane) for name in names for plane in range(1, self.planes + 1)]

    def _rail(self, number: int) -> Section:
        """A rail that is written out: as the others, or with words of its own."""
        rail: Section = {}
        if self._chance(0.2):
            rail["mtu"] = self._random.choice((1500, 2044, 4200))
        if ATTACHMENTS[self.attachment].vfs and self._chance(0.2):
            rail["vfs"] = {"count": self._random.choice((self.vfs, 2 * self.vfs))}
        if self.families == (4,) and self.mode == "subnet" and self._chance(0.3):
            rail["subnet"] = "192.168.%d.0/24" % number
            rail.update(gateway=".254", pods=".1-.%d" % self._random.randint(100, 180), hosts=".190-.240")
        return rail

    def _family(self, family: int, wide: int) -> Section:
        six = "6" if family == 6 else ""
        found: Section = {"supernet" + six: "fd00:%x::/32" % self._random.randint(1, 255) if six else "10.0.0.0/8"}
        found["rail_prefix" + six] = 64 if six else wide
        if self.mode in ("subnet", "block"):
            pods, hosts, gateway = self._shares(family, wide)
            found.update({"hosts" + six: hosts})
            if self._chance(0.9) or self.mode == "block":
                found["pods" + six] = pods
            if self._chance(0.8):
                found["gateway" + six] = gateway
            if self.mode == "block":
                found["block" + six] = self._random.choice((4, 8, 16))
        elif self.mode == "prefix":
            length = self._random.choice((80, 96, 112, 120) if six else (26, 27, 28))
            found["node_prefix" + six] = max(length, found["rail_prefix" + six] + 4)
            found["gateway" + six] = self._random.choice(("first", "last"))
        return found

    def _shares(self, family: int, wide: int) -> tuple[str, str, str]:
        """Pods, hosts and the gateway of a subnet: in that order, or hosts first."""
        if family == 6:
            last = self._random.choice((0xFF, 0xFFF, 0xFFFF))
            return "::1-::%x" % last, "::1:0-::1:ff", "::2:1"
        if wide == 16:
            return ".0.1-.%d.255" % self._random.choice((3, 15, 63)), ".128.0-.129.255", ".255.254"
        if self.provider != "network-operator" and self._chance(0.5):
            return ".60-.190", ".10-.40", ".254"
        return ".1-.%d" % self._random.choice((100, 150, 199)), ".200-.240", ".254"

    def _taken(self, family: int, wide: int) -> t.Iterator[tuple[str, str]]:
        """Ranges that touch, are apart, have no order, and now and then are large."""
        if self.mode == "prefix":
            # at the end of a rail's network, where no node is
            text = (
                "::ffff:0:0:0-::ffff:0:0:%x" % self._random.choice((1, 0xFFFF)) if family == 6 else ".255.240-.255.250"
            )
            if family == 6 or wide == 16:
                yield "loops%d" % family, text
            return
        if family == 6:
            spans = [(0x30000 + 16 * at, 0x30000 + 16 * at + self._random.randint(0, 15)) for at in range(4)]
            texts = ["::%x:%x-::%x:%x" % (one >> 16, one & 0xFFFF, two >> 16, two & 0xFFFF) for one, two in spans]
            if self._chance(0.05):
                texts.append("::4:0:0-::4:ffff:ffff")
        else:
            head = ".200" if wide == 16 else ""
            spans = [(241 + 3 * at, 241 + 3 * at + self._random.randint(0, 2)) for at in range(4)]
            texts = [
                "%s.%d-%s.%d" % (head, one, head, two) if one < two else "%s.%d" % (head, one) for one, two in spans
            ]
        for at, text in enumerate(self._random.sample(texts, self._random.randint(1, len(texts)))):
            yield "t%d-%d" % (family, at), text

    # -- nodes

    def _profiles(self) -> Section:
        found: Section = {}
        for at in range(self._random.choice((1, 1, 2, 3))):
            name = "%s%d" % (self._word(self._random.choice((30, 39))), at)
            found[name] = {"ports": self._ports(at)}
            if at and self._chance(0.3):
                found[name]["attachment"] = self._other()
                if ATTACHMENTS[found[name]["attachment"]].vfs:
                    found[name]["vfs"] = {"count": self.vfs}
        return found

    def _other(self) -> str:
        """An attachment that some nodes have: of the fabric's link layer, with few exceptions."""
        served = PROVIDERS[self.provider].served
        alike = [each for each in served if link_layer_of(each) == link_layer_of(self.attachment)]
        return str(self._random.choice(served if self._chance(0.1) else alike))

    def _ports(self, profile: int) -> Section:
        stem = "eth" if self._chance(0.5) else "p%dn" % profile
        rails = self.rails if self._chance(0.8) else self.rails[: self._random.randint(1, len(self.rails))]
        ports: Section = {}
        for at, rail in enumerate(rails, 1):
            ports[rail] = {"netdev": "%s%02d" % (stem, at), "pci": "0000:%02x:00.0" % (16 * profile + at)}
            if not ATTACHMENTS[self.attachment].master and self._chance(0.1):
                del ports[rail]["netdev"]
            if self._chance(0.5):
                ports[rail]["gpu"] = at - 1
        return ports

    def _groups(self) -> Section:
        if not self._chance(0.3):
            return {}
        settings: Section = {}
        if self._chance(0.5):
            settings["attachment"] = self._other()
        if ATTACHMENTS[settings.get("attachment", self.attachment)].vfs:
            settings["vfs"] = {"count": self._random.choice((2, 8, 32))}
        return {"special": settings} if settings else {}

    def _nodes(self) -> Section:
        found: Section = {}
        stem, profiles = self._word(self._random.choice((20, 55))), list(self.data["profiles"])
        for index in range(1, self.nodes + 1):
            node: Section = {"profile": profiles[index % len(profiles)]}
            if self.data["groups"] and self._chance(0.5):
                node["groups"] = ["special"]
            if "units" in self.data:
                node["unit"] = "su%d" % (1 + index % 2)
            if self._chance(0.3):
                node["rack"] = "Row %s / %d" % (self._random.choice("ABä"), index)
            ports = self.data["profiles"][node["profile"]]["ports"]
            rail = self._random.choice(list(ports))
            if self._chance(0.1) and len(ports) > 1:
                node["ports"] = {rail: None}
            elif self._chance(0.1):
                node["ports"] = {rail: {"pci": "0000:f0:00.0"}}
            found["%s-%d%s" % (stem, index, ".dc1.example.com" if self._chance(0.1) else "")] = node
        return found

    # -- names and options

    def _names(self) -> Section:
        kinds = [kind for kind in TEMPLATES if self._chance(0.2)]
        own = self.mode not in ("subnet", "none") and self.provider != "network-operator"
        found = {}
        for kind in kinds:
            fits = list(TEMPLATES[kind])
            if kind.startswith("pool"):
                fits = [each for each in fits if own == ("{node}" in each or "{i}" in each)]
            found[kind] = self._random.choice(fits)
        return found

    def _options(self) -> Section:
        options: Section = {
            "registry": "registry.example:5000/mirror",
            "images": {"test": "registry.example/tools/rdma:1.2"},
            "injection": self._chance(0.8),
            "injection_groups": sorted(self._random.sample((1, 2, 3, 4, 8), self._random.randint(0, 4))),
            "metrics": self._chance(0.7),
            "node_feature_rule": self._chance(0.3),
            "rdma_hca_max": self._random.choice((1, 100, 1000)),
        }
        if self._chance(0.2):
            options["dpdk"] = {"rails": self._random.sample(self.rails, 1), "vfs": 1}
        if self._chance(0.2):
            options["sriov_operator"] = self._random.choice(("bundled", "upstream"))
        if self._chance(0.2):
            options["driver"] = self._random.choice(("host", "container"))
        if self._chance(0.3):
            options["schedulers"] = self._random.sample(("kueue", "volcano"), self._random.randint(1, 2))
        return options

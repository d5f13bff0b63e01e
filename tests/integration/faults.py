# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab's guests as verify reads them, quickly: one process a node runs all its modules, as Ansible would each.

Under emulation a process of Ansible for each module and fault would take an hour. The modules are the collection's own
files, with their own argument specs, in check mode or not; only the way to the node is another.
"""

from __future__ import annotations

import base64
import io
import json
import select
import tarfile
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ansible

from ansible_collections.railyard.fabric.plugins.module_utils.fabric import pairing, proof
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.handover import port_options
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.lint import lint
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.verify.engine import Asked, Verdict, judge
from ansible_collections.railyard.fabric.plugins.module_utils.fabric.verify.run import VERIFY, Told
from lab import cli
from tests.integration.conftest import LAB, ROOT, Node

PLACE = "/run/railyard-faults"
SUBSET = ["system", "nics", "rdma", "gids", "gpus", "vfs", "ip", "sysctls", "duplicates", "counters", "lldp"]
STATES = ("rdma_netns_mode", "sriov_vfs", "rail_ports", "rdma_link")
T = t.TypeVar("T")
Row = t.Dict[str, t.Any]
Call = t.Tuple[str, Row, bool]
# A node's name -> what rail_info says, and what modules in check mode would change.
Looked = t.Dict[str, t.Tuple[Row, t.Dict[str, Row]]]

# Answers a line of calls with a line of results. Each module runs in a child of its own, as it ends its process; all
# that modules import is read by then.
RUNNER = """
import importlib, json, os, sys
sys.path.insert(0, sys.argv[1])
from ansible.module_utils import basic
modules = {
    name: importlib.import_module("ansible_collections.railyard.fabric.plugins.modules." + name)
    for name in sys.argv[2:]
}

def call(name, options, check):
    come, go = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(come)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(go, 1)
            arguments = dict(options, _ansible_check_mode=check, _ansible_remote_tmp="/tmp")
            basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode()
            basic._ANSIBLE_PROFILE = "legacy"
            modules[name].main()
        except SystemExit:
            pass
        finally:
            sys.stdout.flush()
            os._exit(0)
    os.close(go)
    with os.fdopen(come) as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return json.loads(said[said.index("{"):])

print("ready", flush=True)
for line in sys.stdin:
    print(json.dumps([call(*each) for each in json.loads(line)]), flush=True)
"""
MODULES = ("rail_info", "rail_probe", *STATES)


class Runner:
    """The modules of one guest, at hand."""

    def __init__(self, node: Node) -> None:
        self._node = node
        node.put(PLACE + "/run.py", RUNNER)
        self._process = node.process("python3 %s/run.py %s %s" % (PLACE, PLACE, " ".join(MODULES)))
        self._answer(120)

    def call(self, calls: t.Sequence[Call], seconds: float) -> list[Row]:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(calls).encode() + b"\n")
        self._process.stdin.flush()
        found: list[Row] = json.loads(self._answer(seconds))
        return found

    def _answer(self, seconds: float) -> bytes:
        stream = self._process.stdout
        assert stream
        ready, _write, _except = select.select([stream], [], [], seconds)
        line = stream.readline() if ready else b""
        assert line, "%s does not answer: %s" % (self._node.name, "it ended" if ready else "%g s are over" % seconds)
        return line

    def close(self) -> None:
        self._process.communicate(timeout=60)


class Faults:
    """Two nodes of a lab, a fabric file, and what verify says of them."""

    def __init__(self, node: t.Callable[[str], Node], fabric: str) -> None:
        outcome = lint(fabric.encode())
        assert outcome.plan, [finding.text() for finding in outcome.findings]
        document = outcome.plan.document()
        self.fabric: Row = document["fabric"]
        self.plans: dict[str, Row] = {each["name"]: each for each in document["nodes"]}
        self.nodes = {name: node(name) for name in self.plans}
        self.pairs = [pair for each in pairing.rounds(list(self.plans), 8) for pair in each]
        # seconds to listen for LLDP: it is not spoken but where a fault is heard by it
        self.listen = 0.0
        self.count = 3
        packed = base64.b64encode(_packed()).decode()
        self.each(lambda name: self.nodes[name].put(PLACE + ".b64", packed))
        line = "rm -rf {0}; mkdir {0}; base64 -d {0}.b64 | tar -xz -C {0}; rm {0}.b64".format(PLACE)
        self.each(lambda name: self.nodes[name].run(line))
        self._runners = self.each(lambda name: Runner(self.nodes[name]))

    def each(self, act: t.Callable[[str], T]) -> dict[str, T]:
        """Do something for all nodes side by side."""
        with ThreadPoolExecutor(len(self.plans)) as pool:
            return dict(zip(self.plans, pool.map(act, self.plans)))

    def call(self, name: str, *calls: Call) -> list[Row]:
        """Run modules on a node: their results."""
        return self._runners[name].call(calls, 300)

    def wishes(self, name: str, check: bool) -> list[Call]:
        """The modules of ``hosts.yml``, with its options."""
        plan = self.plans[name]
        options: dict[str, Row] = {
            "rdma_netns_mode": {"mode": plan["rdma_mode"]},
            "sriov_vfs": {"ports": port_options(plan["ports"], "sriov_vfs"), "allow_recreate": not check},
            "rail_ports": {"ports": port_options(plan["ports"], "rail_ports")},
            "rdma_link": {"ports": port_options(plan["ports"], "rdma_link"), "wait_active": 0 if check else 60},
        }
        return [(module, options[module], check) for module in STATES]

    def converge(self, *names: str) -> list[Row]:
        """What ``hosts.yml`` does, for nodes on which something is to be mended; all changes."""
        done = []
        for name in names or self.plans:
            for result in self.call(name, *self.wishes(name, check=False)):
                assert not result.get("failed"), result
                done += result["changes"]
        return done

    def read(self, name: str) -> tuple[Row, dict[str, Row]]:
        first: Call = ("rail_info", {"subset": SUBSET, "listen": self.listen}, False)
        info, *states = self.call(name, first, *self.wishes(name, check=True))
        return info, dict(zip(STATES, states))

    def look(self) -> Looked:
        """What all nodes have, as ``verify.yml`` and ``drift.yml`` read it."""
        return self.each(self.read)

    def judge(self, kind: str = VERIFY, looked: Looked | None = None) -> Verdict:
        """Judge what was read, or is read now; for verify let the pairs probe each other before."""
        read = looked or self.look()
        pairs = self.pairs if kind == VERIFY else []
        probed: dict[str, list[Row]] = {name: [] for name in self.plans}
        refused: dict[str, str] = {}
        for server, client in pairs:
            ports = port_options(self.plans[server]["ports"], "rail_probe")
            options: Row = {"iterations": 20, "lifetime": 60}
            (served,) = self.call(server, ("rail_probe", dict(options, mode="serve", ports=ports), False))
            given = (self.plans[client], self.plans[server], served.get("results") or ())
            targets = proof.targets(*given, self.fabric["routing"]["cross_rail"])
            options.update(targets=targets, count=self.count, timeout=1)
            (result,) = self.call(client, ("rail_probe", options, False))
            probed[client] += result.get("results") or []
            for name, each in ((server, served), (client, result)):
                if each.get("failed"):
                    refused[name] = str(each["msg"])
            self.call(server, ("rail_probe", {"mode": "stop"}, False))
        told = [
            Told(name, plan, *read[name], probed[name], refused=refused.get(name, ""))
            for name, plan in self.plans.items()
        ]
        return judge(kind, self.fabric, told, Asked(list(self.plans)), pairs)

    def close(self) -> None:
        self.each(lambda name: self._runners[name].close())
        self.each(lambda name: self.nodes[name].run("rm -rf %s" % PLACE))


def _packed() -> bytes:
    """The collection's modules with what they share, and Ansible's own half of modules."""
    base = Path(ansible.__file__).parent
    plugins = ROOT / "plugins"
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for top, target in (
            (plugins / "modules", "ansible_collections/railyard/fabric/plugins/modules"),
            (plugins / "module_utils", "ansible_collections/railyard/fabric/plugins/module_utils"),
            (base / "module_utils", "ansible/module_utils"),
        ):
            for path in sorted(top.rglob("*.py")) if top.exists() else ():
                archive.add(path, "%s/%s" % (target, path.relative_to(top)))
        archive.addfile(tarfile.TarInfo("ansible/__init__.py"))
    return stream.getvalue()


def cable(*words: str) -> None:
    """Do something to a cable of the lab."""
    assert cli.main(["cable", *words, "--name", LAB]) == 0, words

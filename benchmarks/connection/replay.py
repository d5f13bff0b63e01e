# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answer module executions from recordings, without a node; see `replay.py`."""

from __future__ import annotations

DOCUMENTATION = r"""
name: replay
short_description: Answer module executions from recordings
description:
  - Finds the module and its options in the program that Ansible sends, and returns the recorded result of the module,
    with the names and addresses of the node.
  - Adds a line to C(executions) for each module execution.
options:
  directory:
    description: The directory with C(recordings), and C(values) of each node.
    type: path
    required: true
    env: [{name: RAILYARD_REPLAY}]
  module_seconds:
    description: Seconds that a module execution takes.
    type: float
    default: 0
    env: [{name: RAILYARD_REPLAY_DELAY}]
"""

import ast
import json
import re
import time
import typing as t
from pathlib import Path

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.connection import ConnectionBase

# Parts of rail_info that are in its result only if they are requested.
PARTS = ("system", "nics", "rdma", "gids", "gpus", "vfs", "ip", "sysctls", "counters", "lldp", "duplicates", "agent")
PEER = "peer"
# In the program that Ansible sends, both precede the packed module.
_MODULE = re.compile(rb"^module_fqn='[\w.]*\.(\w+)',$", re.MULTILINE)
_OPTIONS = re.compile(rb"^params=('.*'|\".*\"),$", re.MULTILINE)
_PLACE = re.compile(r"\{\{([^{}]+)\}\}")


class Connection(ConnectionBase):
    """A node, made from its file of values and the recordings of all nodes."""

    transport = "replay"
    has_pipelining = True

    def _connect(self) -> Connection:
        self._connected = True
        return self

    def exec_command(self, cmd: str, in_data: t.Any = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        if not in_data:
            # the only other command with pipelining, which finds the Python
            return 0, b"FOUND\n/usr/bin/python3\nENDFOUND\n", b""
        module, options = _asked(bytes(in_data))
        directory = Path(self.get_option("directory"))
        result = answer(directory, str(self._play_context.remote_addr), module, options)
        with open(directory / "executions", "a") as file:
            file.write("%s %s\n" % (module, self._play_context.remote_addr))
        time.sleep(self.get_option("module_seconds"))
        return 0, json.dumps(result).encode(), b""

    def put_file(self, in_path: str, out_path: str) -> None:
        raise AnsibleError("the replay has no files: %s would be copied. Use pipelining." % in_path)

    def fetch_file(self, in_path: str, out_path: str) -> None:
        raise AnsibleError("the replay has no files: %s cannot be read" % in_path)

    def close(self) -> None:
        self._connected = False


def _asked(program: bytes) -> tuple[str, dict[str, t.Any]]:
    """The module and the options of the program that Ansible sends (ansible-core 2.19)."""
    module, options = _MODULE.search(program), _OPTIONS.search(program)
    if not module or not options:
        raise AnsibleError(
            "the replay knows the programs of ansible-core 2.19, and this is not one: %r" % program[-200:]
        )
    given = json.loads(ast.literal_eval(options.group(1).decode()))["ANSIBLE_MODULE_ARGS"]
    return module.group(1).decode(), {key: value for key, value in given.items() if not key.startswith("_ansible_")}


def answer(directory: Path, address: str, module: str, options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The recorded result with the values of the node that has this address.

    A node with a file in ``dark`` or ``full`` cannot be reached for the recording that is named there, or its disk is
    full.
    """
    name = recording_name(module, options)
    for cause, error in (
        ("dark", AnsibleConnectionFailure("the node does not answer")),
        ("full", AnsibleError("failed to transfer file: no space left on device")),
    ):
        file = directory / cause / address
        if file.exists() and file.read_text() == name:
            raise error
    values = json.loads((directory / "values" / address).read_text())
    values[PEER] = ""
    result = _recorded(directory, name, values)
    if name == "rail_probe.start":
        # the results of a prober depend on its partners
        given = {"results": options, "pod_results": options.get("pod") or {}}
        peers = {
            key: [turn["partner"] for turn in part.get("turns") or () if turn["mode"] == "probe"]
            for key, part in given.items()
        }
        (directory / "values" / (address + ".peers")).write_text(json.dumps(peers))
    if name == "rail_probe.collect":
        for key, peers in json.loads((directory / "values" / (address + ".peers")).read_text()).items():
            rows = (_recorded(directory, name, {**values, PEER: peer})[key] for peer in peers)
            result[key] = [row for each in rows for row in each]
        if options.get("counters"):
            result["counters"] = _recorded(directory, "rail_info", values)["counters"]
    if module == "rail_pods":
        for pod in result["pods"]:
            pod["uid"] = options["pods"][0]
        result["pods"] = result["pods"] if options.get("pods") else []
    if module == "rail_host" and not options.get("states"):
        for part in result["modules"].values():
            part.pop("gathered", None)
    asked = options.get("subset")
    if asked:
        result = {key: value for key, value in result.items() if key not in PARTS or key in asked}
    # modules of all layers report their options only by their state
    result["invocation"] = {"module_args": {} if module == "rail_host" else options}
    return result


def _recorded(directory: Path, name: str, values: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """A recording with the values of a node."""
    path = directory / "recordings" / (name + ".json")
    if not path.exists():
        raise AnsibleError("%s is not recorded. Remedy: run python -m benchmarks record." % path.name)
    # names and addresses are plain text in JSON
    text = _PLACE.sub(lambda found: str(values[found.group(1)]), path.read_text())
    result: dict[str, t.Any] = json.loads(text)
    return result


def recording_name(module: str, options: t.Mapping[str, t.Any]) -> str:
    """The recording of a module execution: the name of the module, with its mode if it has several."""
    return "%s.%s" % (module, options.get("mode") or "start") if module == "rail_probe" else module

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Output of verify.yml for nodes in several states: ``python -m tests.terminal_states [STATE-NODES ...]``.

The nodes are replayed, the playbook and the callback are real. The command writes the output to
`tests/recordings/terminal`, where people review it, and ``test_terminal_states.py`` compares it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import typing as t
from pathlib import Path

from benchmarks import replay
from tests import playbook

DIRECTORY = Path(__file__).parent / "recordings" / "terminal"
STATES = ("healthy", "broken", "half-dead", "first-run")
SIZES, WIDTHS = (2, 32, 512), (80, 120, 200)
LINES_MAX = 60
_MTU, _CARRIER = 2, 6  # the rails of a broken node


def prepare(directory: Path, state: str, nodes: int) -> None:
    """Write the files of replayed nodes in one of :data:`STATES`."""
    replay.prepare(directory, nodes)
    hosts = [
        each["ansible_host"] for each in json.loads((directory / "plain.json").read_text())["all"]["hosts"].values()
    ]
    path = directory / "recordings" / "rail_info.json"
    info = json.loads(path.read_text())
    broken: t.Sequence[str] = ()
    if state == "first-run":
        for nic in info["nics"]:
            nic.update(mtu=1500, vfs=0 if nic["vfs"] else nic["vfs"])
        info.update(vfs=[], gids=[], ip=dict(info["ip"], addresses=[], rules=[]))
    elif state == "broken":
        info["nics"][_MTU]["mtu"], info["nics"][_CARRIER]["carrier"] = "{{mtu}}", "{{carrier}}"
        broken = hosts[1::11]
    path.write_text(json.dumps(info).replace('"{{mtu}}"', "{{mtu}}").replace('"{{carrier}}"', "{{carrier}}"))
    for host in hosts if state == "broken" else ():
        values = json.loads((directory / "values" / host).read_text())
        values.update(mtu="1500" if host in broken else "4200", carrier="false" if host in broken[:4] else "true")
        (directory / "values" / host).write_text(json.dumps(values))
    (directory / "dark").mkdir()
    for host in hosts[1::2] if state == "half-dead" else hosts[5:6] if state == "broken" else ():
        (directory / "dark" / host).write_text("rail_info")


def output(directory: Path, width: int, forks: int = 1) -> str:
    """Run verify.yml, and return what it prints on a terminal of this width, with the directory as ``DIR``.

    :param forks: with 1, the order of the nodes' results is always the same.
    """

    def run(command: list[str], env: t.Mapping[str, str]) -> replay.Ended:
        shown = {
            "ANSIBLE_STDOUT_CALLBACK": "railyard.fabric.rails",
            "RAILYARD_PROGRESS_SECONDS": "0",  # depends on the machine
            "COLUMNS": str(width),
        }
        done = playbook.run("ansible-playbook", *command[1:], env={**env, **shown})
        return replay.Ended(done.returncode, done.text)

    return replay.play(directory, "verify", "--forks", str(forks), run=run).output.replace(str(directory), "DIR")


def forks(state: str, nodes: int) -> int:
    """Return how many nodes work at once: one if several fail, whose first one is printed."""
    return 50 if nodes > 32 and state != "half-dead" else 1


def main(chosen: t.Sequence[str]) -> None:
    for state in STATES:
        for nodes in SIZES:
            if chosen and "%s-%d" % (state, nodes) not in chosen:
                continue
            with tempfile.TemporaryDirectory() as scratch:
                prepare(Path(scratch), state, nodes)
                for width in WIDTHS:
                    path = DIRECTORY / ("%s-%d-%d.txt" % (state, nodes, width))
                    path.write_text(output(Path(scratch), width, forks(state, nodes)))
                    print(path)


if __name__ == "__main__":
    main(sys.argv[1:])

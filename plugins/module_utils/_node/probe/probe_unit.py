# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Start a prober on this node, collect what it has found, and end it.

It runs in a transient unit of systemd with a deadline (``RuntimeMaxSec``), so that no process of it outlives the unit.
On nodes without systemd, it runs in a session of its own under ``timeout``. Its program is the code of this module, as
Ansible has sent it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.probe import probe_runs, prober
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import counters

UNIT = "railyard-probe-%s"
_PROGRAM = "program.zip"
_CODE = "import sys; sys.path.insert(0, sys.argv[1]); from %s import main; main(sys.argv[2])"
# Seconds after its own deadline in which a prober is ended from outside, and in which a new one must listen.
_SLACK, _START_SECONDS = 30, 60.0
_LOOK_SECONDS = 0.1

Options = t.Mapping[str, t.Any]
Row = t.Dict[str, t.Any]


def start(options: Options, system: System) -> Row:
    """Start the prober of a run, instead of an earlier one of the same run. Return the TCP port at which it listens.

    :param options: of the module rail_probe.
    :raises RailyardError: if it does not start.
    """
    run = str(options["run"])
    place = probe_runs.directory(run, str(options["name"]))
    remedy = "see 'journalctl -u %s' on the node" % (UNIT % os.path.basename(place))
    try:
        with probe_runs.in_turn(system, run):
            _remove_ended(system, place)
            os.makedirs(system.path(place), mode=0o700)
            system.write_file("%s/%s" % (place, probe_runs.SPEC), json.dumps(dict(options)), 0o600)
            _launch(system, place, run, float(options["deadline"]))
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            listens = probe_runs.read(system, "%s/%s" % (place, probe_runs.LISTENS))
            if listens:
                return listens
            time.sleep(_LOOK_SECONDS)
        raise RailyardError("it did not start within %.0f s" % _START_SECONDS, "prober", remedy)
    except RailyardError:
        stop_one(system, place)
        raise


def _remove_ended(system: System, own: str) -> None:
    """End the earlier prober of the run, and remove what killed probers of other runs have left."""
    for place in probe_runs.places(system):
        earlier = probe_runs.prober(system, place)
        if place == own:
            stop_one(system, place)
        elif earlier and not earlier.is_running(system):
            probe_runs.remove(system, place)


def _launch(system: System, place: str, run: str, deadline: float) -> None:
    """Start the program of the prober. ``deadline``: seconds after which it must have ended."""
    seconds = "%d" % (deadline + _SLACK)
    argv = [sys.executable, "-IS", "-c", _CODE % prober.__name__, _source(system, place), system.path(place)]
    if system.exists("/run/systemd/system") and system.which("systemd-run"):
        unit = ["systemd-run", "--quiet", "--collect", "--unit=" + UNIT % os.path.basename(place)]
        unit += ["--description=Proof of rails, by %s" % run, "-p", "RuntimeMaxSec=" + seconds]
        # the program has removed it, unless it was killed
        unit += ["-p", "ExecStopPost=/bin/rm -rf %s" % place]
        system.check([*unit, "--", *argv], "run systemd-run on the node by hand", 60)
        return
    quiet = subprocess.DEVNULL
    argv = ["timeout", "--kill-after=%d" % _SLACK, seconds, *argv]
    subprocess.Popen(argv, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)


def _source(system: System, place: str) -> str:
    """Return the path from which the prober's code is imported. Ansible removes its archive when a module ends."""
    archive = getattr(prober.__loader__, "archive", None)
    if archive is None:
        # the package of collections is in the directory above it
        depth = prober.__name__.count(".") + 1
        return os.path.abspath(os.path.join(prober.__file__, *[os.pardir] * depth))
    path = "%s/%s" % (place, _PROGRAM)
    system.write_file(path, system.read_bytes(archive) or b"", 0o600)
    return system.path(path)


def collect(options: Options, system: System) -> Row:
    """Wait until the prober of a run has ended its schedule. Return its results, and remove them from the node.

    All nodes of the run were started before. So probers give up partners that they do not reach now.

    :raises RailyardError: if the prober does not run any more.
    """
    run = str(options["run"])
    place = probe_runs.directory(run, str(options["name"]))
    own = probe_runs.prober(system, place)
    if own and own.is_running(system):
        system.write_file("%s/%s" % (place, probe_runs.ALL_STARTED), "", 0o600)
    while own:
        result = probe_runs.read(system, "%s/%s" % (place, probe_runs.RESULT))
        if result:
            own.end(system)
            names = options["counters"]
            found = {"counters": counters.look(system, names["netdevs"], names["devices"])} if names else {}
            return {**result, **found}
        if not own.is_running(system):
            break
        time.sleep(_LOOK_SECONDS)
    remedy = "see 'journalctl -u %s' on the node, and run again" % (UNIT % os.path.basename(place))
    raise RailyardError("the prober of %s does not run on this node" % run, "prober", remedy)


def stop(options: Options, system: System) -> Row:
    """End the prober of a run, or of all runs without a name."""
    run = str(options["run"] or "")
    for place in probe_runs.places(system):
        own = probe_runs.prober(system, place)
        if not run or (own and own.run == run):
            stop_one(system, place)
    return {}


def stop_one(system: System, place: str) -> None:
    """End the prober of a directory, and remove it."""
    own = probe_runs.prober(system, place)
    if own:
        own.end(system)
    probe_runs.remove(system, place)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packed check as an init container runs it: another user, with the program and the state mounted read-only."""

from __future__ import annotations

import json
import subprocess
import typing as t
from pathlib import Path

import pytest

from tests.functional.node.own_namespace import why_not
from tests.unit.node.health_states import finding, rail, state

# $1: the program, $2: the state. Arguments of the check follow. The last line is its exit status.
_CONTAINER = r"""
set -eu
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/railyard/health /run/program
cp "$1" /run/program/health.pyz
boot=$(cat /proc/sys/kernel/random/boot_id)
sed "s/\"BOOT\"/\"$boot\"/; s/\"NOW\"/$(date +%s)/" "$2" >/run/railyard/health/state.json
chmod 755 /run/program
chmod 644 /run/program/health.pyz /run/railyard/health/state.json
for place in /run/program /run/railyard/health; do
  mount --bind "$place" "$place"
  mount -o remount,bind,ro "$place"
done
shift 2
user="setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs --bounding-set=-all"
for place in /run/program /run/railyard/health /run/railyard; do
  if $user touch "$place/faked" 2>/dev/null; then echo "$place can be written"; exit 9; fi
done
status=0
$user /usr/bin/python3 -I /run/program/health.pyz check "$@" || status=$?
echo "status $status"
"""
Row = t.Dict[str, t.Any]


def check(tmp_path: Path, program: Path, *words: str, **changed: t.Any) -> tuple[str, int]:
    """Run the check on a state. Return what it prints, and its exit status."""
    if why_not():
        pytest.skip("no namespaces here: %s" % why_not())
    rails = changed.pop("rails")
    (tmp_path / "state").write_text(json.dumps(state(*rails, **{"boot_id": "BOOT", "updated": "NOW", **changed})))
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", _CONTAINER, "container", str(program), str(tmp_path / "state"), *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    text, _line, status = done.stdout.rstrip("\n").rpartition("status ")
    return text, int(status)


def test_a_container_reads_the_state_and_cannot_write_it(tmp_path: Path, program: Path) -> None:
    bad = rail(2, "fail", findings=[finding()])
    assert check(tmp_path, program, rails=[rail()])[1] == 0
    text, status = check(tmp_path, program, rails=[rail(), bad])
    assert status == 1 and "gpu02: fail" in text and "Remedy: look at leaf1." in text
    assert check(tmp_path, program, "--rails", "gpu01", rails=[rail(), bad])[1] == 0
    assert check(tmp_path, program, rails=[rail(1, "unknown")])[1] == 2
    text, status = check(tmp_path, program, "--json", rails=[rail()], boot_id="another")
    assert status == 2 and json.loads(text)["error"]["message"] == "was written before the last boot"
    assert check(tmp_path, program, "--rails", "gpu07", rails=[rail()])[1] == 2

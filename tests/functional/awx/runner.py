# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A playbook run as AWX runs it: by ansible-runner, in a private data directory laid out as AWX lays it out.

From ``awx/main/tasks/jobs.py`` of AWX 24.6.1: the project is a copy of what git tracks; the inventory is a script that
prints JSON, so a play never sees the file that it comes from; extra variables are a file of unsafe values, for which no
template is worked out; collection paths come by the environment, those of the project's ansible.cfg after AWX's own;
check mode, limit and diff are arguments. Nothing is asked, for there is no terminal.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import ansible_runner
import yaml

ROOT = Path(__file__).resolve().parents[3]


class Unsafe(str):
    """A value that Ansible takes as it is."""


yaml.SafeDumper.add_representer(Unsafe, lambda dumper, value: dumper.represent_scalar("!unsafe", str(value), style="'"))


def project(into: Path) -> Path:
    """What a checkout of this repository holds, and no more."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        source, copy = ROOT / name, into / name
        if source.exists() or source.is_symlink():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)
    return into


def inventory(source: str, cwd: Path) -> dict[str, t.Any]:
    """What an update of an inventory source keeps of a fabric file: what ``ansible-inventory`` exports."""
    command = [str(Path(sys.executable).with_name("ansible-inventory")), "-i", source, "--list", "--export"]
    done = subprocess.run(
        command, cwd=cwd, env=dict(os.environ, ANSIBLE_CONFIG="ansible.cfg"), check=True, capture_output=True, text=True
    )
    found: dict[str, t.Any] = json.loads(done.stdout)
    return found


class Job(t.NamedTuple):
    status: str
    one_line: str
    artifacts: dict[str, t.Any]
    # by task name, for tasks that failed: what Ansible keeps of it
    failed: dict[str, dict[str, t.Any]]
    changed: int


def run(
    place: Path,
    project_dir: Path,
    playbook: str,
    hosts: t.Mapping[str, t.Any],
    extra_vars: t.Mapping[str, t.Any],
    arguments: str = "",
    environment: t.Mapping[str, str] | None = None,
) -> Job:
    """Run one job in the private data directory ``place``."""
    for name in ("inventory", "env", "artifacts"):
        (place / name).mkdir(parents=True, exist_ok=True)
    script = place / "inventory" / "hosts"
    script.write_text("#!%s\nprint(%r)\n" % (sys.executable, json.dumps(hosts)))
    script.chmod(0o700)
    given = {**extra_vars, "awx_job_id": 7, "awx_user_name": "operator"}
    (place / "env" / "extravars").write_text(yaml.safe_dump(_unsafe(given)))
    (place / "env" / "settings").write_text(json.dumps({"idle_timeout": 0, "job_timeout": 900, "pexpect_timeout": 5}))
    (place / "env" / "cmdline").write_text(arguments)
    paths = "%s:%s/collections:~/.ansible/collections" % (place / "requirements_collections", project_dir)
    result = ansible_runner.run(
        private_data_dir=str(place),
        project_dir=str(project_dir),
        playbook=playbook,
        inventory=str(script),
        ident="7",
        quiet=True,
        envvars={
            "ANSIBLE_COLLECTIONS_PATH": paths,
            "ANSIBLE_RETRY_FILES_ENABLED": "False",
            "ANSIBLE_HOST_KEY_CHECKING": "False",
            "ANSIBLE_INVENTORY_UNPARSED_FAILED": "True",
            "ANSIBLE_PARAMIKO_RECORD_HOST_KEYS": "False",
            "HOME": str(place),
            "JOB_ID": "7",
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            **(environment or {}),
        },
    )
    artifacts: dict[str, t.Any] = {}
    failed = {}
    changed = 0
    for event in result.events:
        data = event.get("event_data", {})
        if event["event"] == "playbook_on_stats":
            artifacts = data.get("artifact_data", {})
            changed = sum(data.get("changed", {}).values())
        elif event["event"] == "runner_on_failed" and not data.get("ignore_errors"):
            failed[data["task"]] = data["res"]
    return Job(result.status, Path(result.stdout.name).read_text(), artifacts, failed, changed)


def _unsafe(value: t.Any) -> t.Any:
    if isinstance(value, dict):
        return {key: _unsafe(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_unsafe(each) for each in value]
    return Unsafe(value) if isinstance(value, str) else value

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated AWX, and what is run against it: the playbook, or the part of it that talks to AWX."""

from __future__ import annotations

import contextlib
import functools
import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._awx.awx_objects import objects
from ansible_collections.railyard.fabric.plugins.module_utils._awx.awx_reader import read
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.plugin_utils import _extra_variables
from ansible_collections.railyard.fabric.plugins.plugin_utils._awx_access.awx_compare import Secrets
from ansible_collections.railyard.fabric.plugins.plugin_utils._awx_access.awx_server import Server
from ansible_collections.railyard.fabric.plugins.plugin_utils._awx_access.awx_sync import Sync
from tests.playbook import ROOT, Played, play
from tests.standins.awx import Awx, serve

SAMPLE = ROOT / "tests/unit/awx/sample.yml"
TEXT = SAMPLE.read_text()
SECRETS: dict[str, dict[str, str]] = {
    "git": {"ssh_key_data": "-----BEGIN KEY-----\nKEY-of-git\n-----END KEY-----\n"},
    "registry": {"password": "PASSWORD-of-registry"},
    "nodes": {"ssh_key_data": "KEY-of-nodes"},
    "cluster": {"kubeconfig": "KUBECONFIG-of-cluster"},
    "ops": {"token": "TOKEN-of-ops"},
}
PLAYBOOKS = {"playbooks/%s" % path.name for path in (ROOT / "playbooks").glob("*.yml")}
Writes = t.List[t.Tuple[str, str, t.Dict[str, t.Any]]]


class Site:
    """A simulated AWX with the organization Platform, as an administrator has made it."""

    def __init__(self, place: Path, organization: str = "Platform") -> None:
        self.awx = Awx(PLAYBOOKS)
        self.server = serve(self.awx)
        self.place = place
        if organization:
            self.awx.add("organizations", name=organization)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def environment(self, **more: str) -> dict[str, str]:
        host = "http://127.0.0.1:%d" % self.server.server_port
        return {"CONTROLLER_HOST": host, "CONTROLLER_OAUTH_TOKEN": self.awx.token, **more}

    def sync(
        self,
        text: str = TEXT,
        check: bool = False,
        update: bool = False,
        secrets: t.Mapping[str, t.Mapping[str, str]] = SECRETS,
        **environment: str,
    ) -> Sync:
        """Compare and write, as the action does; gives what was, or would be, written."""
        fields = {name: list(each) for name, each in secrets.items()}
        wanted = objects(read(text.encode(), "awx.yml", fields, functools.partial(_extra_variables.errors, root=ROOT)))
        server = Server(self.environment(**environment), pause=0)
        sync = Sync(server, wanted, Secrets(secrets, update), check, pause=0)
        sync.run()
        return sync

    @contextlib.contextmanager
    def wrote(self) -> t.Iterator[Writes]:
        """The requests within it that write."""
        found: Writes = []
        before = len(self.awx.writes())
        yield found
        found.extend(self.awx.writes()[before:])

    def play(
        self, *arguments: str, file: Path = SAMPLE, secrets: t.Any = SECRETS, **environment: str
    ) -> tuple[Played, Writes]:
        """Run the playbook; gives what it printed, and what it wrote."""
        vault = self.place / "secrets.json"
        vault.write_text(json.dumps({"awx_secrets": secrets}))
        env = {"CONTROLLER_REQUEST_TIMEOUT": "120", **self.environment(**environment)}
        words, given = ("-e", "@%s" % vault, *arguments), {"awx_file": str(file)}
        with self.wrote() as wrote:
            done = play("playbooks/awx.yml", *words, inventory="localhost,", given=given, env=env)
        return done, wrote


def refused(site: Site, text: str = TEXT, **more: t.Any) -> str:
    """The error of a run that writes nothing."""
    with site.wrote() as wrote, pytest.raises(RailyardError) as caught:
        site.sync(text, **more)
    assert wrote == [], wrote
    assert all(" Remedy: " in line for line in str(caught.value).splitlines())
    return str(caught.value)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/vendor.py fetches what is pinned, and nothing else gets its name."""

from __future__ import annotations

import functools
import http.server
import re
import subprocess
import sys
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.software_versions import PINS
from tests import upstream
from tools import vendor

PROGRAM = """
import hashlib, pathlib, sys
from tools import vendor
vendor.HOST, vendor.PLACE = sys.argv[1], pathlib.Path(sys.argv[2])
wanted = {name: (url, hashlib.sha256(b"right").hexdigest()) for name, (url, _) in vendor.wanted().items()}
vendor.wanted = lambda: {name: wanted[name] for name in sys.argv[3:]}
sys.exit(vendor.main())
"""
CHART = "charts/kube-flannel.yml"
SCHEMA = "schemas/nv-ipam/nv-ipam.nvidia.com_ippools.yaml"


class Server(t.NamedTuple):
    address: str
    folder: Path
    asked: list[str]


@pytest.fixture
def server(tmp_path: Path) -> t.Iterator[Server]:
    """A web server of the files of a folder, with the paths that were asked for."""
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_request(self, code: t.Any = "-", size: t.Any = "-") -> None:
            asked.append(self.path)

    folder = tmp_path / "host"
    folder.mkdir()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder)) as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield Server("http://127.0.0.1:%d" % found.server_port, folder, asked)
        found.shutdown()
        thread.join()


def run(server: Server, place: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", PROGRAM, server.address, str(place), CHART, SCHEMA]
    return subprocess.run(argv, capture_output=True, text=True, cwd=vendor.ROOT, check=False)


def publish(server: Server, name: str, content: bytes) -> None:
    url, _sha256 = vendor.wanted()[name]
    path = server.folder / url[len(vendor.HOST) + 1 :]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def test_files_are_fetched_once_and_what_is_not_the_pinned_file_is_not_kept(server: Server, tmp_path: Path) -> None:
    place = tmp_path / "vendor"
    publish(server, CHART, b"wrong")
    done = run(server, place)
    assert done.returncode == 1 and not list(place.rglob("*.*"))
    wrong, missing = done.stderr.splitlines()
    assert re.search(r"/kube-flannel.yml has the SHA-256 \w{64} and must have \w{64}\. Remedy: ", wrong)
    assert re.search(r"/nv-ipam.nvidia.com_ippools.yaml cannot be fetched: .*404.*\. Remedy: ", missing)
    for name in (CHART, SCHEMA):
        publish(server, name, b"right")
    done = run(server, place)
    assert (done.returncode, done.stdout) == (0, "%s: fetched\n%s: fetched\n" % (CHART, SCHEMA))
    assert [(place / name).read_bytes() for name in (CHART, SCHEMA)] == [b"right", b"right"]
    (place / SCHEMA).write_bytes(b"changed")
    server.asked.clear()
    done = run(server, place)
    assert (done.returncode, done.stdout) == (0, "%s: is there\n%s: fetched\n" % (CHART, SCHEMA))
    assert len(server.asked) == 1 and (place / SCHEMA).read_bytes() == b"right"


def test_every_reduced_schema_and_every_file_with_a_checksum_has_an_address() -> None:
    wanted = vendor.wanted()
    schemas = {"schemas/%s/%s" % (file.parent.name, file.name) for file in upstream.SCHEMAS.glob("*/*.yaml")}
    charts = {
        "charts/" + file.name for pin in PINS.values() for files in pin.files.values() for file in files if file.sha256
    }
    assert len(schemas) > 30 and set(wanted) == schemas | charts
    for name, (url, sha256) in wanted.items():
        assert re.fullmatch(r"https://[\w./-]+/%s" % re.escape(name.rpartition("/")[2]), url)
        assert re.fullmatch("[0-9a-f]{64}", sha256)

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster's state, ports, keys, schemas and command line, with real files, sockets, keys and processes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab import cli, lifecycle, process
from lab import state as labs
from lab.cluster import lifecycle as clusters
from lab.cluster import nodes, parts, pki, schemas, state, tools
from lab.cluster.binaries import Binaries
from lab.cluster.state import Cluster
from lab.errors import LabError
from lab.state import REPOSITORY

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
PROGRAMS = Binaries("/bin/etcd", "/bin/kube-apiserver", "/bin/kube-controller-manager", "1.20.2", "built")


def make(name: str = "one", programs: Binaries = PROGRAMS) -> Cluster:
    with state.choosing_ports():
        ports = dict(zip(state.PORTS, labs.free_ports(len(state.PORTS), state.promised_ports(but=name))))
        cluster = Cluster(name, ports, programs)
        cluster.save()
    return cluster


def run_part(cluster: Cluster, part: str) -> process.Member:
    return process.spawn(SLEEP, cluster.directory, part, cluster.log(part), dict(os.environ))


def test_cluster_is_read_back_as_it_was_saved(labs: Path) -> None:
    assert state.load("one") is None
    cluster = make()
    assert state.load("one") == cluster
    assert state.names() == ["one"]
    assert (cluster.directory / "cluster.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 0}', '{"format": 1}', '{"format": 1, "ports": {}}'])
def test_damaged_state_is_shown_with_its_remedy_and_can_be_taken_down(
    labs: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = make()
    (cluster.directory / "cluster.json").write_text(text)
    assert cli.main(["cluster", "status", "--name", "one"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "lab cluster up --fresh --name one" in error
    assert cli.main(["cluster", "down", "--name", "one"]) == 0
    assert not cluster.directory.parent.exists()


def test_clusters_that_choose_at_once_get_ports_of_their_own(labs: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(make, ["a", "b", "c", "d"]))
    ports = [port for cluster in made for port in cluster.ports.values()]
    assert len(set(ports)) == len(ports) == 16


def test_ports_promised_to_guests_are_not_taken(labs: Path) -> None:
    guests = lifecycle.Lab("one", 1, 8, 1024, "tcg", 1, "/nowhere", "1", [22001])
    guests.save()
    assert state.promised_ports(but="one") == {22001}
    assert 22001 not in make("one").ports.values()


def test_port_that_a_stranger_took_is_noticed_and_one_of_its_own_is_not(labs: Path) -> None:
    cluster = make()
    assert not clusters._lost_a_port(cluster)
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", cluster.ports["peer"]))
        stranger.listen()
        assert clusters._lost_a_port(cluster)
        member = run_part(cluster, "etcd")
        try:
            assert not clusters._lost_a_port(cluster)
        finally:
            clusters.down("one")
            os.waitpid(member.pid, 0)


def test_guests_and_cluster_of_a_lab_are_independent(labs: Path) -> None:
    cluster = make()
    guests = lifecycle.Lab("one", 1, 8, 1024, "tcg", 1, "/nowhere", "1", [22001])
    guests.save()
    leaf = process.spawn(SLEEP, guests.directory, "leaf", guests.log("leaf"), dict(os.environ))
    etcd = run_part(cluster, "etcd")
    lifecycle._end(guests.directory)
    os.waitpid(leaf.pid, 0)
    assert process.members(cluster.directory) == {"etcd": etcd}
    assert state.load("one") == cluster
    guests.save()
    leaf = process.spawn(SLEEP, guests.directory, "leaf", guests.log("leaf"), dict(os.environ))
    assert clusters.down("one") is True
    os.waitpid(etcd.pid, 0)
    assert process.members(guests.directory) == {"leaf": leaf}
    assert clusters.down("one") is False
    assert lifecycle.down("one") is True
    os.waitpid(leaf.pid, 0)
    assert not guests.directory.exists()


@pytest.mark.parametrize("words", [["down", "--all"], ["down", "--name", "one"], ["cluster", "down", "--all"]])
def test_every_down_ends_the_cluster(labs: Path, words: list[str]) -> None:
    cluster = make()
    members = [run_part(cluster, part) for part in cluster.parts]
    assert cli.main(words) == 0
    assert process.members(cluster.directory) == {}
    assert not cluster.directory.parent.exists()
    for member in members:
        os.waitpid(member.pid, 0)


def test_status_without_processes_reports_it(labs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cluster", "status"]) == 1
    assert "lab 'default' has no cluster; labs with one: none" in capsys.readouterr().out
    assert cli.main(["cluster", "status", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) is None
    cluster = make("default")
    assert cli.main(["cluster", "status"]) == 1
    assert capsys.readouterr().out.count("not running") == 3
    assert cli.main(["cluster", "status", "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown["url"] == "https://127.0.0.1:%d" % cluster.ports["api"]
    assert [part["up"] for part in shown["parts"]] == [False, False, False]
    assert shown["crds"] is None


def test_part_that_ends_at_once_is_shown_with_its_last_words(labs: Path) -> None:
    cluster = make(programs=Binaries("/bin/false", "/bin/false", None, "1.20.2", "built"))
    pki.ensure(cluster.pki, cluster.directory / "host.log")
    (cluster.directory / "etcd.log").write_text("starting\npanic: no room\n")
    parts.start(cluster, "etcd")
    with pytest.raises(LabError, match=r"etcd ended while it was starting: starting \| panic: no room .*--fresh"):
        parts.wait(cluster, "etcd")


def test_insecure_port_is_closed_where_there_is_one(labs: Path) -> None:
    cluster = make()
    assert "--port=0" in parts.ARGUMENTS["kube-controller-manager"](cluster)
    newer = Cluster("one", cluster.ports, Binaries("e", "a", "m", "1.36.2", "PATH"))
    assert "--port=0" not in parts.ARGUMENTS["kube-controller-manager"](newer)
    assert not any("ServiceAccount" in word for word in parts.ARGUMENTS["kube-apiserver"](newer))
    alone = Cluster("one", cluster.ports, Binaries("e", "a", None, "1.36.2", "PATH"))
    assert alone.parts == ["etcd", "kube-apiserver"]
    assert "--disable-admission-plugins=ServiceAccount" in parts.ARGUMENTS["kube-apiserver"](alone)


@pytest.mark.parametrize(
    ("version", "options", "inventory"),
    [
        ("1.20.2", [], "inventories/lab-agent"),
        ("1.35.4", [], "inventories/lab-agent"),
        ("1.36.0", [], "inventories/lab-agent-dra"),
        ("2.0.0", [], "inventories/lab-agent-dra"),
        ("1.36.1", ["--dra", "0"], "inventories/lab-agent"),
        ("1.36.1", ["--dra", "1"], "inventories/lab-agent-dra"),
        ("1.20.2", ["--dra", "0"], "inventories/lab-agent"),
    ],
)
def test_agent_is_a_dra_driver_where_the_release_has_it(
    labs: Path, capsys: pytest.CaptureFixture[str], version: str, options: list[str], inventory: str
) -> None:
    make(programs=Binaries("e", "a", "m", version, "PATH"))
    assert cli.main(["cluster", "inventory", "--name", "one", *options]) == 0
    assert capsys.readouterr().out == inventory + "\n"
    assert (REPOSITORY / inventory / "fabric.yml").is_file()


def test_dra_on_an_older_release_is_refused(labs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make()
    assert cli.main(["cluster", "inventory", "--name", "one", "--dra", "1"]) == 1
    error = capsys.readouterr().err
    assert "DRA requires Kubernetes 1.36 or later, and the cluster of lab 'one' is 1.20.2" in error
    assert "Remedy: lab down --name one, then point KUBEBUILDER_ASSETS at newer programs" in error


def test_keys_are_made_once_whole_and_for_us_alone(tmp_path: Path) -> None:
    place = tmp_path / "pki"
    pki.ensure(place, tmp_path / "log")
    made = {file.name: file.read_bytes() for file in place.iterdir()}
    assert {file.stat().st_mode & 0o777 for file in place.iterdir()} == {0o600}
    assert place.stat().st_mode & 0o777 == 0o700
    assert not [name for name in made if name in ("ca.key", "etcd-ca.key")]
    for name, authority, _subject, _extensions in pki.CERTIFICATES:
        for other in pki.AUTHORITIES:
            verify = ["openssl", "verify", "-CAfile", str(place / (other + ".crt")), str(place / (name + ".crt"))]
            trusted = subprocess.run(verify, capture_output=True).returncode == 0
            assert trusted == (authority == other)
    pki.ensure(place, tmp_path / "log")
    assert {file.name: file.read_bytes() for file in place.iterdir()} == made
    assert [file.name for file in tmp_path.iterdir()] == ["pki"]


def test_kubeconfig_is_written_only_when_it_changes_and_for_us_alone(tmp_path: Path) -> None:
    pki.ensure(tmp_path / "pki", tmp_path / "log")
    target = tmp_path / "kubeconfig"
    pki.write_kubeconfig(target, tmp_path / "pki", "admin", "https://127.0.0.1:1", "one")
    first = target.stat()
    assert first.st_mode & 0o777 == 0o600
    pki.write_kubeconfig(target, tmp_path / "pki", "admin", "https://127.0.0.1:1", "one")
    assert target.stat().st_ino == first.st_ino
    pki.write_kubeconfig(target, tmp_path / "pki", "admin", "https://127.0.0.1:2", "one")
    assert "https://127.0.0.1:2" in target.read_text()


CRD = """---
# a licence
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  annotations:
    tool: 1
  name: rails.example.org
spec:
  names:
    kind: Rail
  group: %s
"""


def test_schemas_are_found_in_folders_and_later_ones_win(tmp_path: Path) -> None:
    for folder, group in (("a", "one"), ("b", "two"), ("c", "two")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rails.yaml").write_text(CRD % group)
    (tmp_path / "a/README.md").write_text("kind: Nothing")
    found, overridden = schemas.read([tmp_path])
    assert set(found) == {"rails.example.org"}
    assert found["rails.example.org"].file == tmp_path / "c/rails.yaml"
    assert overridden == ["1 CRDs: the version in %s replaces the version in %s" % (tmp_path / "b", tmp_path / "a")]
    found, overridden = schemas.read([tmp_path, tmp_path / "a"])
    assert found["rails.example.org"].text == (CRD % "one").encode()


def test_licence_and_blank_lines_make_no_other_schema(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(CRD % "one")
    (tmp_path / "b.yaml").write_text("\n" + (CRD % "one").replace("# a licence", "# another\n---"))
    assert schemas.read([tmp_path])[1] == []


@pytest.mark.parametrize("text", ["", "kind: ConfigMap\nmetadata:\n  name: a\n", CRD % "a" + CRD % "b", "kind: ["])
def test_file_without_a_single_crd_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.yaml").write_text(text)
    with pytest.raises(LabError, match=r"odd.yaml does not contain exactly one CRD\. Remedy"):
        schemas.read([tmp_path])


def test_folder_without_crds_is_named(labs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LabError, match="no CRDs in"):
        schemas.read([tmp_path])
    assert cli.main(["cluster", "up", "--crds", str(tmp_path / "nowhere")]) == 1
    assert "is not a directory" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["Node-1", "-a", "a_b", "a..b", "x" * 254, "a,b"])
def test_node_name_that_kubernetes_would_refuse_is_refused_before_anything_is_started(labs: Path, name: str) -> None:
    with pytest.raises(LabError, match="is not a valid name of a node"):
        nodes.check(["node-1", name])
    assert cli.main(["cluster", "up", "--nodes=%s" % name.replace(",", "_,")]) == 1
    assert not labs.exists()


def test_tool_gets_all_its_words_and_the_cluster(
    labs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster = make("two")
    script = tmp_path / "bin/kubectl"
    script.parent.mkdir()
    script.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = version ]; then echo \'{"clientVersion": {"major": "1"}}\'; exit; fi\n'
        'printf "%s|" "$KUBECONFIG" "$@"\nexit 7\n'
    )
    script.chmod(0o755)
    env = {**os.environ, "PATH": "%s:%s" % (script.parent, os.environ["PATH"]), "RAILYARD_LAB_DIR": str(labs)}
    lab = str(Path(cli.__file__).parent / "lab")
    for named in (["--name", "two"], ["--name=two"]):
        words = ["-n", "a", "--help", "get", "--", "x y"]
        done = subprocess.run([sys.executable, lab, "kubectl", *named, *words], env=env, capture_output=True, text=True)
        assert done.stdout.split("|")[:-1] == [str(cluster.kubeconfig), *words]
        assert done.returncode == 7
    done = subprocess.run([sys.executable, lab, "kubectl", "get"], env=env, capture_output=True, text=True)
    assert "lab 'default' has no cluster. Remedy: lab cluster up --name default" in done.stderr


@pytest.mark.parametrize(
    ("version", "usable"),
    [("v3.17.2+gcc0bbbd", True), ("v4.1.4+g05fa379", False), ("", False), ("version: v3.1", False)],
)
def test_only_helm_of_version_3_is_taken(tmp_path: Path, version: str, usable: bool) -> None:
    helm = tmp_path / "helm"
    helm.write_text("#!/bin/sh\necho '%s'\n" % version)
    helm.chmod(0o755)
    assert tools.PROBES["helm"](str(helm)) is usable

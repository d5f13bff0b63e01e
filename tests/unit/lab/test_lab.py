# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab's state, its command line and its repair of what was left behind, with real processes and files."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab import access, cli, lifecycle, process, state
from lab.errors import LabError
from lab.image import Image
from lab.state import REPOSITORY, Lab
from tests.waiting import wait_for

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def make(name: str = "one", nodes: int = 2, rails: int = 8) -> Lab:
    ports = state.free_ports(nodes, set())
    lab = Lab(name, nodes, rails, 1024, "tcg", 1, "/nowhere", "1", ports)
    lab.save()
    return lab


def test_lab_is_read_back_as_it_was_saved(labs: Path) -> None:
    assert state.load("one") is None
    lab = make()
    assert state.load("one") == lab
    assert state.names() == ["one"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 0}', '{"format": 1}', '{"format": 1, "what": 2}'])
def test_damaged_state_is_shown_with_its_remedy_and_can_be_taken_down(
    labs: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = make()
    (lab.directory / "lab.json").write_text(text)
    assert cli.main(["status", "--name", "one"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "lab up --fresh --name one" in error
    assert cli.main(["down", "--name", "one"]) == 0
    assert not lab.directory.exists()


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "-x", "x" * 33])
def test_name_that_is_not_a_file_name_is_refused(labs: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["down", "--name=%s" % name]) == 1
    assert "is not a valid name of a lab" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "port"),
    [("node-1:3", (1, 3)), ("2:8", (2, 8)), ("node-2:gpu01", (2, 1)), ("1:rail08", (1, 8)), ("1:gpu-2", (1, 2))],
)
def test_rail_port_by_number_or_name(labs: Path, text: str, port: tuple[int, int]) -> None:
    assert make().rail_port(text) == port


@pytest.mark.parametrize(
    "text", ["node-1", "node-3:1", "node-1:9", "node-1:0", "node-1:gpu", "x:1", "node-1:", ":1", "0:1"]
)
def test_rail_port_that_is_not_there_is_refused_with_a_remedy(labs: Path, text: str) -> None:
    with pytest.raises(LabError, match="Remedy: "):
        make().rail_port(text)


def test_sockets_fit_however_deep_the_checkout_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILYARD_LAB_DIR", str(tmp_path / ("deep/" * 60)))
    lab = Lab("x" * 32, 64, 24, 1024, "tcg", 1, "", "", [])
    assert len(str(lab.run / "n64r24.leaf")) < 108


def test_two_labs_do_not_share_sockets(labs: Path) -> None:
    assert make("one").run != make("two").run


def test_socket_directory_is_ours_alone(labs: Path) -> None:
    lab = make()
    run = state.make_run_directory(lab.directory)
    try:
        assert run.stat().st_mode & 0o777 == 0o700
        assert state.make_run_directory(lab.directory) == run
        run.chmod(0o755)
        with pytest.raises(LabError, match="not a directory that only this user can access"):
            state.make_run_directory(lab.directory)
    finally:
        run.rmdir()


def test_ports_in_use_or_promised_are_not_given_out(labs: Path) -> None:
    first = state.free_ports(1, set())[0]
    assert first not in state.free_ports(3, {first})
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", first))
        busy.listen()
        assert first not in state.free_ports(3, set())


def test_up_with_another_size_is_refused_and_changes_nothing(labs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab = make()
    for option, value in (
        ("--nodes", "3"),
        ("--rails", "4"),
        ("--memory", "2048"),
        ("--accel", "kvm"),
        ("--cpus", "2"),
    ):
        assert cli.main(["up", "--name", "one", option, value]) == 1
        error = capsys.readouterr().err
        assert "exists with %s" % option in error
        assert "--fresh" in error
    assert state.load("one") == lab


def test_lab_without_its_image_reports_how_to_start_over(labs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab = make()
    with pytest.raises(LabError, match="lab up --fresh --name one"):
        lifecycle._image_of(lab)


def test_down_ends_every_process_even_when_the_state_is_gone(labs: Path) -> None:
    lab = make()
    members = [
        process.spawn(SLEEP, lab.directory, part, lab.log(part), dict(os.environ))
        for part in ("leaf", "node-1", "node-7")
    ]
    other = make("two")
    bystander = process.spawn(SLEEP, other.directory, "node-1", other.log("node-1"), dict(os.environ))
    try:
        (lab.directory / "lab.json").unlink()
        assert lifecycle.down("one") is True
        assert process.members(lab.directory) == {}
        assert process.members(other.directory) == {"node-1": bystander}
        assert lifecycle.down("one") is False
    finally:
        lifecycle.down("two")
    for member in [*members, bystander]:
        os.waitpid(member.pid, 0)
    assert state.names() == []


def test_down_keeps_the_consoles_of_the_last_guests(labs: Path) -> None:
    for text in ("first", "second"):
        lab = make()
        lab.console(1).write_text(text)
        assert cli.main(["down", "--name", "one"]) == 0
        assert (lab.directory.parent / ".one.node-1.console.log").read_text() == text
        assert not lab.directory.exists() and state.names() == []


def test_status_shows_what_is_not_running(labs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(nodes=1, rails=2)
    assert cli.main(["status", "--name", "one"]) == 1
    out = capsys.readouterr().out
    assert "not running" in out
    assert cli.main(["status", "--name", "one", "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown["nodes"][0]["pid"] is None
    assert shown["cables"] is None


def test_status_of_no_lab(labs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status"]) == 1
    assert "labs: none" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["ssh node-1", "console node-1", "reboot node-1", "cable show", "inventory"])
def test_command_on_no_lab_names_the_remedy(labs: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(command.split()) == 1
    assert capsys.readouterr().err == "lab: lab 'default' does not exist (labs: none). Remedy: lab up --name default\n"


def test_a_child_without_a_parent_is_not_taken_for_its_guest(labs: Path) -> None:
    """QEMU starts a program per connection, which has the guest's mark until it is loaded."""
    lab = make()
    orphan = "sleep 0.1; (sleep 60 &); : > started; exec sleep 60"
    argv = ["sh", "-c", "cd %s; %s" % (lab.directory, orphan)]
    guest = process.spawn(argv, lab.directory, "node-1", lab.log("node-1"), dict(os.environ))
    wait_for((lab.directory / "started").exists)
    assert process.members(lab.directory) == {"node-1": guest}
    process.stop(lab.directory, [guest])
    os.waitpid(guest.pid, 0)
    child = process.members(lab.directory)["node-1"]
    assert child != guest
    process.stop(lab.directory, [child])
    assert lifecycle.down("one") is True


def test_cable_without_its_leaf_process_names_the_remedy(labs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make()
    assert cli.main(["cable", "--name", "one", "cut", "node-1:2"]) == 1
    assert "does not answer" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["cable --name x show", "cable show --name x", "snapshot list --name x"])
def test_lab_is_named_before_or_after_the_action(labs: Path, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(line.split()) == 1
    assert "lab 'x' does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        "up --nodes 0", "up --rails 25", "up --accel xen", "cable cut", "cable mtu 1:1 x", "cable loss 1:1 101",
        "cable lldp 1:1 maybe", "snapshot save", "fly", "",
    ],
)  # fmt: skip
def test_wrong_usage_is_shown(labs: Path, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(line.split())
    assert ended.value.code == 2
    assert "usage: lab" in capsys.readouterr().err


def test_ssh_configuration_is_what_ssh_reads(labs: Path, tmp_path: Path) -> None:
    lab = make("spaced")
    image = Image(tmp_path / "image", "1")
    image.directory.mkdir()
    (image.directory / "id_ed25519").write_text("key\n")
    (image.directory / "host_key.pub").write_text("ssh-ed25519 AAAA root@x\n")
    access.write_config(lab, image)
    done = subprocess.run(
        ["ssh", "-G", "-F", str(lab.ssh_config), "node-2"], capture_output=True, text=True, check=True
    )
    shown = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert shown["hostname"] == "127.0.0.1"
    assert shown["port"] == str(lab.ports[1])
    assert shown["user"] == "ops"
    assert shown["stricthostkeychecking"] in ("true", "yes")
    assert shown["userknownhostsfile"] == str(lab.directory / "known_hosts")
    assert (lab.directory / "known_hosts").read_text().splitlines()[1] == "[127.0.0.1]:%d ssh-ed25519 AAAA" % lab.ports[
        1
    ]
    assert (lab.directory / "id_ed25519").stat().st_mode & 0o777 == 0o600


def test_only_a_server_with_a_banner_answers(labs: Path) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        port = mute.getsockname()[1]
        assert access.answers(port, 0.2) is False
    assert access.answers(port, 0.2) is False
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(access.answers, server.getsockname()[1], 120.0)
            server.accept()[0].sendall(b"SSH-2.0-test\r\n")
            assert asked.result() is True


def test_machine_that_ended_is_reported_with_its_last_words(labs: Path) -> None:
    lab = make(nodes=1)
    lab.log("node-1").write_text("qemu: no space left\n")
    with pytest.raises(LabError, match="node-1's machine ended: qemu: no space left"):
        access.wait(lab, [1])


def test_second_command_waits_for_the_first(labs: Path) -> None:
    code = """
import sys
from lab import state
with state.changing("one"):
    print("held", flush=True)
    sys.stdin.read()
"""
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", code], env=env, stdin=pipe, stdout=pipe, text=True
    ) as first, ThreadPoolExecutor() as aside:
        assert first.stdin is not None and first.stdout is not None
        assert first.stdout.readline() == "held\n"
        second = aside.submit(lifecycle.down, "one")
        try:
            with pytest.raises(futures.TimeoutError):
                second.result(timeout=0.5)
        finally:
            first.stdin.close()
        assert second.result() is False


def test_script_runs_from_anywhere(labs: Path, tmp_path: Path) -> None:
    for argv in ([str(REPOSITORY / "lab/lab")], [sys.executable, "-m", "lab"]):
        env = {**os.environ, "PYTHONPATH": str(REPOSITORY)} if "-m" in argv else dict(os.environ)
        done = subprocess.run([*argv, "--help"], cwd=tmp_path, capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        assert "cable" in done.stdout

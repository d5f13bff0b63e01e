# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The download of Kubernetes' official programs from a server on loopback: right, wrong and broken archives."""

from __future__ import annotations

import hashlib
import io
import random
import re
import tarfile
import threading
import typing as t
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from lab import download as downloads
from lab.cluster import binaries, build, official, tools
from lab.download import DownloadError, download
from lab.errors import LabError
from tests.unit.lab.test_cluster_build import fill

CONTENT = random.Random(36).randbytes(200_000)
# What a server does with a request in place of sending what is asked for.
Fault = t.Callable[["Handler", bytes], None]


class Handler(BaseHTTPRequestHandler):
    """Serves files by path, with ranges; the first requests get ``faults``."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.server.requests.append((self.path, self.headers.get("Range")))
        if self.server.faults:
            self.server.faults.pop(0)(self, self.server.files.get(self.path, b""))
            self.close_connection = True
            return
        if self.path not in self.server.files:
            self.send_error(404)
            return
        self.answer(self.server.files[self.path])

    def answer(self, content: bytes, ranges: bool = True, until: int | None = None, length: bool = True) -> None:
        """Send a file; with ``until``, only its beginning up to this offset, under the length of the whole file."""
        wanted = re.match(r"bytes=(\d+)-", self.headers.get("Range") or "")
        start = int(wanted.group(1)) if wanted and ranges else 0
        if wanted and ranges and start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", "bytes %d-%d/%d" % (start, len(content) - 1, len(content)))
        if length:
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start:until])

    def log_message(self, *args: object) -> None:
        """Keep the output of the test free of requests."""


class Server(ThreadingHTTPServer):
    """A file server on loopback. ``requests``: path and range of each request so far."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {"/file": CONTENT}
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, str | None]] = []
        self.url = "http://127.0.0.1:%d" % self.server_address[1]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Server]:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Server() as one:
        threading.Thread(target=one.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield one
        one.shutdown()


def sha512(content: bytes) -> str:
    return hashlib.sha512(content).hexdigest()


def cut(offset: int, **options: t.Any) -> Fault:
    """The connection ends at this offset of the file."""
    return lambda handler, content: handler.answer(content, until=offset, **options)


def get(server: Server, place: Path, content: bytes = CONTENT) -> None:
    download(server.url + "/file", place, sha512(content))


def test_right_file_is_kept_and_not_requested_again(server: Server, tmp_path: Path) -> None:
    get(server, tmp_path / "file")
    get(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.requests == [("/file", None)]
    assert [place.name for place in tmp_path.iterdir()] == ["file"]


def test_damaged_file_is_downloaded_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT[:-1] + b"x")
    get(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_wrong_checksum_is_refused_and_the_file_deleted(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"/file has the SHA-512 %s\.\.\. and not" % sha512(CONTENT)[:16]):
        get(server, tmp_path / "file", b"another file")
    assert list(tmp_path.iterdir()) == []
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("faults", "ranges"),
    [
        ([cut(70_000)], [None, "bytes=70000-"]),
        ([cut(70_000), cut(71_000), cut(199_999)], [None, "bytes=70000-", "bytes=71000-", "bytes=199999-"]),
        # without ranges, the server sends the whole file again
        ([cut(70_000), lambda handler, content: handler.answer(content, ranges=False)], [None, "bytes=70000-"]),
        # without a length, the end of the connection looks like the end of the file
        ([cut(70_000, length=False)], None),
    ],
    ids=["once", "three times", "no ranges", "no length"],
)
def test_interrupted_transfer_is_resumed(
    server: Server, tmp_path: Path, faults: list[Fault], ranges: list[str | None] | None
) -> None:
    server.faults += faults
    if ranges is None:
        with pytest.raises(DownloadError, match="has the SHA-512"):
            get(server, tmp_path / "file")
        return
    get(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert [wanted for _path, wanted in server.requests] == ranges


def test_transfer_that_stays_broken_ends_and_the_next_call_resumes_it(server: Server, tmp_path: Path) -> None:
    server.faults += [cut(70_000), cut(70_000)]
    with pytest.raises(DownloadError, match="the connection ended after 70000 of 200000 bytes"):
        get(server, tmp_path / "file")
    assert (tmp_path / "file.part").stat().st_size == 70_000
    get(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.requests[-1] == ("/file", "bytes=70000-")


@pytest.mark.parametrize(
    "part",
    [CONTENT[:1000][::-1], CONTENT + b"more", CONTENT[::-1]],
    ids=["another file", "longer", "as long"],
)
def test_part_of_another_file_is_replaced(server: Server, tmp_path: Path, part: bytes) -> None:
    (tmp_path / "file.part").write_bytes(part)
    get(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert len(server.requests) == 2


def test_part_that_is_complete_is_kept(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT)
    get(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_other_range_than_the_requested_one_is_refused(server: Server, tmp_path: Path) -> None:
    def other(handler: Handler, content: bytes) -> None:
        handler.send_response(206)
        handler.send_header("Content-Range", "bytes 0-%d/%d" % (len(content) - 1, len(content)))
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    (tmp_path / "file.part").write_bytes(CONTENT[:1000])
    server.faults.append(other)
    with pytest.raises(DownloadError, match="another range"):
        get(server, tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_redirect_is_followed_with_the_range(server: Server, tmp_path: Path) -> None:
    def elsewhere(handler: Handler, content: bytes) -> None:
        handler.send_response(302)
        handler.send_header("Location", "/mirror/file")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    server.files["/mirror/file"] = CONTENT
    (tmp_path / "file.part").write_bytes(CONTENT[:1000])
    server.faults.append(elsewhere)
    get(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.requests == [("/file", "bytes=1000-"), ("/mirror/file", "bytes=1000-")]


@pytest.mark.parametrize("target", ["/file", "file:///etc/passwd", "http://[::1", "http://a..b/file"])
def test_redirect_that_leads_nowhere_is_refused_in_one_line(server: Server, tmp_path: Path, target: str) -> None:
    def again(handler: Handler, content: bytes) -> None:
        handler.send_response(302)
        handler.send_header("Location", target)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    server.faults += [again] * 20
    with pytest.raises(DownloadError, match="/file: (302 |Invalid IPv6 URL|.*label empty)") as refused:
        get(server, tmp_path / "file")
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("status", [403, 404, 503])
def test_refusal_of_the_server_is_the_reason(server: Server, tmp_path: Path, status: int) -> None:
    server.faults.append(lambda handler, content: handler.send_error(status))
    with pytest.raises(DownloadError, match="%s/file: %d " % (server.url, status)):
        get(server, tmp_path / "file")


def test_server_that_does_not_answer_is_given_up(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    monkeypatch.setattr(downloads, "ANSWER_SECONDS", 0.2)
    server.faults.append(lambda handler, content: over.wait(60) and None)
    with pytest.raises(DownloadError, match=r"/file: no answer in 0\.2 s"):
        get(server, tmp_path / "file")
    over.set()


def test_connection_that_hangs_is_resumed(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(downloads, "STALL_SECONDS", 0.3)

    def hang(handler: Handler, content: bytes) -> None:
        handler.answer(content, until=5000)
        handler.wfile.flush()
        over.wait(60)

    server.faults.append(hang)
    get(server, tmp_path / "file")
    over.set()
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.requests[1] == ("/file", "bytes=5000-")


def test_endless_file_is_refused(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "MAX_BYTES", 100_000)
    with pytest.raises(DownloadError, match="MB"):
        get(server, tmp_path / "file")
    server.faults.append(lambda handler, content: handler.answer(content, length=False))
    with pytest.raises(DownloadError, match="sends more than"):
        get(server, tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_full_disk_is_the_reason_and_leaves_no_part(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").symlink_to("/dev/full")  # fails every write as a full disk does
    with pytest.raises(DownloadError, match="No space left on device"):
        get(server, tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_proxy_of_the_environment_is_used_and_named_without_its_password(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "http://releases.example/file"
    server.files[url] = CONTENT
    monkeypatch.setenv("http_proxy", server.url.replace("//", "//user:secret@"))
    download(url, tmp_path / "file", sha512(CONTENT))
    assert (tmp_path / "file").read_bytes() == CONTENT
    server.faults.append(lambda handler, content: handler.send_error(407))
    with pytest.raises(DownloadError) as refused:
        download(url, tmp_path / "other", sha512(CONTENT))
    assert "releases.example/file by the proxy 127.0.0.1:%d: 407" % server.server_address[1] in str(refused.value)
    assert "secret" not in str(refused.value)


def test_unknown_name_is_the_reason(tmp_path: Path, server: Server) -> None:
    with pytest.raises(DownloadError, match="http://releases.invalid/file: "):
        download("http://releases.invalid/file", tmp_path / "file", sha512(CONTENT))


PRINTS = {"etcd": "etcd Version: 3.5.16", "kubectl": '{"clientVersion": {"major": "1"}}'}


def archive(leave_out: str = "", prefix: str = official.INSIDE) -> bytes:
    """An archive with programs that print the version, and with other files as upstream's has."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name in (*official.PROGRAMS, "kube-apiserver.tar", "kubeadm"):
            text = "#!/bin/sh\necho '%s'\n" % PRINTS.get(name, "Kubernetes v" + official.VERSION)
            member = tarfile.TarInfo("%s/%s" % (prefix, name))
            member.size, member.mode = len(text), 0o755
            if name != leave_out:
                tar.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


@pytest.fixture
def etcds(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The directories for which etcd's package was unpacked; the package sources are not asked here."""
    done: list[Path] = []

    def unpack(work: Path, log: Path) -> Path:
        place = work / "etcd"
        place.write_text("#!/bin/sh\necho '%s'\n" % PRINTS["etcd"])
        done.append(work)
        return place

    monkeypatch.setattr(official, "_etcd", unpack)
    return done


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The programs of a build, which takes no time here."""
    place = fill(tmp_path / "built", files=(*build.FILES, *build.NODE_FILES))
    monkeypatch.setattr(build, "ensure", lambda cache, nodes=False: [place])
    return place


@pytest.fixture
def publish(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> t.Callable[[bytes, str], None]:
    """Serve an archive as that of a version, which is pinned."""
    monkeypatch.delenv(binaries.ASSETS, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(official.VARIABLE, server.url + "/")
    (tmp_path / "cache").mkdir()

    def run(content: bytes, version: str = official.VERSION) -> None:
        server.files["/v%s/%s" % (version, official.ARCHIVE)] = content
        monkeypatch.setattr(official, "VERSION", version)
        monkeypatch.setattr(official, "SHA512", sha512(content))

    return run


Publish = t.Callable[..., None]


def test_programs_of_the_release_are_used_and_then_taken_from_the_cache(
    publish: Publish, etcds: list[Path], built: Path, server: Server, tmp_path: Path
) -> None:
    publish(archive())
    found = binaries.ensure(tmp_path / "cache", nodes=True)
    place = official.directory(tmp_path / "cache")
    assert (found.version, found.origin) == (official.VERSION, "downloaded")
    assert {
        Path(str(each)).parent for each in (found.api, found.etcd, found.manager, found.scheduler, found.kubelet)
    } == {place}
    assert tools.ensure("kubectl", tmp_path / "cache") == str(place / "kubectl")
    assert sorted(path.name for path in place.iterdir()) == sorted([*official.FILES, "manifest.json"])
    # the archive is removed, and the next command needs no server
    assert not list((tmp_path / "cache").glob("*.tar.gz*"))
    server.files.clear()
    assert binaries.ensure(tmp_path / "cache", nodes=True) == found
    assert len(server.requests) == 1 and len(etcds) == 1


def test_newer_pin_is_downloaded_beside_the_cached_release(
    publish: Publish, etcds: list[Path], built: Path, server: Server, tmp_path: Path
) -> None:
    publish(archive())
    old = binaries.ensure(tmp_path / "cache")
    (tmp_path / "cache" / ("kubernetes-%s-%s.part" % (official.VERSION, official.ARCHIVE))).write_bytes(b"rest")
    publish(archive(), "1.36.99")
    new = binaries.ensure(tmp_path / "cache")
    assert Path(new.api).parent != Path(old.api).parent
    assert Path(old.api).exists()  # a running cluster may use it
    assert not list((tmp_path / "cache").glob("*.part"))
    # without the server, the cached release is not a replacement for the pinned one
    publish(archive(), "1.37.0")
    server.files.clear()
    assert binaries.ensure(tmp_path / "cache").origin == "built"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"not an archive", "cannot be unpacked"),
        (archive()[:-200], "cannot be unpacked"),
        (archive(leave_out="kubelet"), "has no kubelet"),
        (archive(prefix="../kubernetes/server/bin"), "has no kube-apiserver"),
    ],
    ids=["no archive", "truncated", "without kubelet", "other paths"],
)
def test_archive_that_cannot_be_used_makes_the_lab_build(
    publish: Publish,
    etcds: list[Path],
    built: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: bytes,
    why: str,
) -> None:
    publish(content)
    assert binaries.ensure(tmp_path / "cache").origin == "built"
    error = capsys.readouterr().err
    assert "built from Debian's source, and not the official %s: " % official.VERSION in error
    assert why in error
    assert not list((tmp_path / "cache").rglob("kube*/*"))


def test_reason_of_a_failed_download_is_one_line(
    publish: Publish, built: Path, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(archive())
    server.files.clear()
    assert binaries.ensure(tmp_path / "cache").origin == "built"
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("%s/v%s/%s: 404 Not Found" % (server.url, official.VERSION, official.ARCHIVE))


def test_wrong_checksum_makes_the_lab_build(
    publish: Publish, built: Path, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(archive())
    server.files = dict.fromkeys(server.files, archive(leave_out="kubeadm"))
    assert binaries.ensure(tmp_path / "cache").origin == "built"
    assert "it was deleted" in capsys.readouterr().err
    assert not list((tmp_path / "cache").glob("*.tar.gz*"))


def test_damaged_cache_is_downloaded_again(
    publish: Publish, etcds: list[Path], built: Path, server: Server, tmp_path: Path
) -> None:
    publish(archive())
    found = binaries.ensure(tmp_path / "cache", nodes=True)
    Path(str(found.kubelet)).unlink()
    assert binaries.ensure(tmp_path / "cache", nodes=True) == found
    assert len(server.requests) == 2


def test_program_that_does_not_run_here_makes_the_lab_build(
    publish: Publish, etcds: list[Path], built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(archive())
    found = binaries.ensure(tmp_path / "cache")
    text = Path(found.api).read_text()
    Path(found.api).write_text(text.replace("echo", "fail"))
    assert binaries.ensure(tmp_path / "cache").origin == "built"
    assert "kube-apiserver does not run (remove %s to download it again)" % Path(found.api).parent in (
        capsys.readouterr().err
    )


def test_failure_of_etcds_package_keeps_the_archive_for_the_next_command(
    publish: Publish, built: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(work: Path, log: Path) -> Path:
        raise LabError("fetching etcd failed", "try again")

    publish(archive())
    with monkeypatch.context() as patch:
        patch.setattr(official, "_etcd", fail)
        assert binaries.ensure(tmp_path / "cache").origin == "built"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(official, "_etcd", lambda work, log: fill(work / "etcd") / "etcd")
        assert binaries.ensure(tmp_path / "cache").origin == "downloaded"
    assert len(server.requests) == 1


def test_too_little_space_makes_the_lab_build_before_anything_is_requested(
    publish: Publish, built: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(archive())
    monkeypatch.setattr(official, "FREE_GIB", 1 << 30)
    assert binaries.ensure(tmp_path / "cache").origin == "built"
    assert server.requests == []


def test_build_can_be_chosen_and_another_value_is_an_error(
    publish: Publish, built: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(archive())
    monkeypatch.setenv(official.VARIABLE, "build")
    assert binaries.ensure(tmp_path / "cache").origin == "built"
    assert server.requests == []
    for value in (
        "no",
        "file:///tmp",
        "mirror.example/kubernetes",
        "http://",
        "http://[::1",
        "https://me:secret@mirror.example",
    ):
        monkeypatch.setenv(official.VARIABLE, value)
        with pytest.raises(LabError, match="is not an HTTP URL.*Remedy: .*'build'") as refused:
            binaries.ensure(tmp_path / "cache")
        assert "secret" not in str(refused.value)
    monkeypatch.setenv(official.VARIABLE, "")
    assert official.server() == official.SERVER


def test_cluster_gets_the_release_of_its_guests_also_if_the_server_answers_only_later(
    publish: Publish, etcds: list[Path], built: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(archive())
    assert binaries.ensure(tmp_path / "cache", nodes=True, version="1.20.2").origin == "built"
    assert server.requests == []
    assert binaries.ensure(tmp_path / "cache", nodes=True, version="1.36.0").origin == "downloaded"
    monkeypatch.setenv(binaries.ASSETS, str(built))
    with pytest.raises(LabError, match=r"kubelet of Kubernetes 1\.36\.1, and the other programs are 1\.20\.2"):
        binaries.ensure(tmp_path / "cache", nodes=True, version="1.36.1")


def test_many_commands_at_once_download_once(
    publish: Publish, etcds: list[Path], built: Path, server: Server, tmp_path: Path
) -> None:
    publish(archive())
    with ThreadPoolExecutor(4) as pool:
        places = set(pool.map(lambda _number: official.ensure(tmp_path / "cache"), range(4)))
    assert places == {official.directory(tmp_path / "cache")}
    assert len(server.requests) == 1


def test_pin_is_a_release_and_a_whole_checksum() -> None:
    assert re.fullmatch(r"1\.\d+\.\d+", official.VERSION)
    assert re.fullmatch(r"[0-9a-f]{128}", official.SHA512)
    assert urlsplit(official.SERVER).scheme == "https"

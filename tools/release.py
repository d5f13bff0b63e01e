#!/usr/bin/env python3
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the collection's archive from the committed files, check its content and playbooks, and print its checksums.

``tools/release.py DIR [--final]`` writes the archive, its SBOM (CycloneDX) and SHA256SUMS to DIR. ``--final`` also
checks that the changelog and the tags match the version.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import typing as t
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
# The top level of the archive. Other committed files are for developers of the collection.
BELONGS = {"docs", "inventories", "meta", "playbooks", "plugins", "roles"}
FILES = {
    "CHANGELOG.md",
    "CHANGELOG.rst",
    "CONTRIBUTING.md",
    "COPYING",
    "README.md",
    "SECURITY.md",
    "changelogs/changelog.yaml",
}
FILES |= {"FILES.json", "MANIFEST.json"}
NOT = re.compile(r"inventories/lab")
# Galaxy accepts 20 MB; this archive has less than one.
MOST = 3 * 1024 * 1024
# Patterns of secrets.
SECRET = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\n[A-Za-z0-9+/]{30}")
CHECKERS = ROOT / ".cache" / "release"
PACKAGES = ("galaxy-importer~=0.4.44", "cyclonedx-python-lib[json-validation]~=11.0")
PLAYS = ("validate", "plan")
_ANSIBLE = str(Path(sys.executable).with_name("ansible"))


class Wrong(Exception):
    pass


def run(*command: str, cwd: Path = ROOT, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise Wrong("%s failed:\n%s%s" % (" ".join(command[:4]), done.stdout[-6000:], done.stderr[-3000:]))
    return done.stdout + done.stderr


def build(scratch: Path) -> Path:
    """Build the archive from a copy of the committed files, and return its path."""
    copy = scratch / "copy"
    copy.mkdir()
    run("git", "archive", "--output", str(scratch / "head.tar"), "HEAD")
    run("tar", "--extract", "--file", str(scratch / "head.tar"), "--directory", str(copy))
    run(_ANSIBLE + "-galaxy", "collection", "build", "--output-path", str(scratch), cwd=copy)
    (built,) = scratch.glob("*.tar.gz")
    return built


def check_content(archive: Path) -> str:
    """Check that the archive has all required files and no others. Return a summary."""
    committed = run("git", "ls-tree", "-r", "--name-only", "-z", "HEAD").split("\0")
    wanted = {name for name in committed if name.split("/")[0] in BELONGS and not NOT.match(name)} | FILES
    with tarfile.open(archive) as tar:
        members = [member for member in tar if not member.isdir()]
        there = {member.name for member in members}
        links = [member.name for member in members if not member.isfile()]
        secrets = [each.name for each in members if each.isfile() and SECRET.search(read(tar, each))]
    problems = []
    for what, names in (
        ("is not in it", wanted - there),
        ("does not belong in it", there - wanted),
        ("is a link", set(links)),
        ("seems to hold a private key", set(secrets)),
    ):
        problems += ["%s %s" % (name, what) for name in sorted(names)]
    size = archive.stat().st_size
    if size > MOST:
        problems.append("it has %d KiB, and %d are the most" % (size // 1024, MOST // 1024))
    if problems:
        raise Wrong("the archive: %s. Remedy: see build_ignore in galaxy.yml." % "; ".join(problems[:20]))
    return "%d files, %d KiB" % (len(there), size // 1024)


def read(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    return file.read() if file else b""


def check_playbooks(archive: Path, scratch: Path) -> str:
    """Check that the playbooks of the installed archive run by name with only a fabric file. Return a summary."""
    place, empty = scratch / "collections", scratch / "empty"
    empty.mkdir()
    (empty / "none.cfg").write_text("")
    environment = {"ANSIBLE_COLLECTIONS_PATH": str(place), "HOME": str(empty)}
    environment["ANSIBLE_CONFIG"] = str(empty / "none.cfg")
    run(
        *(_ANSIBLE + "-galaxy", "collection", "install", str(archive), "-p", str(place), "--offline", "--no-deps"),
        cwd=empty,
        **environment,
    )
    example = place / "ansible_collections/railyard/fabric/inventories/macvlan-roce/fabric.yml"
    (empty / "fabric.yml").write_text(example.read_text())
    play = (_ANSIBLE + "-playbook", "-i", "fabric.yml")
    run(*play, *("railyard.fabric.%s" % name for name in PLAYS), cwd=empty, **environment)
    names = sorted(path.stem for path in (place / "ansible_collections/railyard/fabric/playbooks").glob("*.yml"))
    run(*play, "--syntax-check", *("railyard.fabric.%s" % name for name in names), cwd=empty, **environment)
    return "%s run, %d playbooks found by name" % (" and ".join(PLAYS), len(names))


def checkers() -> Path:
    """Return the directory of the programs that check archives, in an environment with their requirements."""
    ready = CHECKERS / "ready"
    if not ready.exists() or ready.read_text() != "\n".join(PACKAGES):
        run(sys.executable, "-m", "venv", "--clear", str(CHECKERS))
        run(str(CHECKERS / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", *PACKAGES)
        ready.write_text("\n".join(PACKAGES))
    return CHECKERS / "bin"


def check_with_galaxy(archive: Path, scratch: Path) -> str:
    config = scratch / "importer.cfg"
    # without ansible-lint, which make lint runs: here it would be limited to three minutes
    checks = {"CHECK_REQUIRED_TAGS": True, "RUN_ANSIBLE_DOC": True, "RUN_ANSIBLE_LINT": False}
    config.write_text("[galaxy-importer]\n%s" % "".join("%s = %s\n" % check for check in checks.items()))
    output = run(
        *(str(checkers() / "python"), "-m", "galaxy_importer.main", str(archive)),
        cwd=scratch,
        GALAXY_IMPORTER_CONFIG=str(config),
        PATH=os.pathsep.join([str(checkers()), os.environ["PATH"]]),
        HOME=str(scratch),
        ANSIBLE_CONFIG=str(scratch / "empty" / "none.cfg"),
    )
    wrong = [line for line in output.splitlines() if re.search(r"\b(ERROR|WARNING)\b", line)]
    if wrong:
        raise Wrong("galaxy-importer:\n%s" % "\n".join(wrong))
    if "Importer processing completed successfully" not in output:
        raise Wrong("galaxy-importer did not come to its end:\n%s" % output[-3000:])
    return "clean"


def missing_in_changelog(version: str) -> list[str]:
    """Return messages about missing parts of the changelog for this version."""
    releases = yaml.safe_load((ROOT / "changelogs/changelog.yaml").read_text())["releases"]
    missing = [] if version in releases else ["the changelog has no release %s" % version]
    fragments = len(list((ROOT / "changelogs/fragments").glob("*.yml")))
    if fragments:
        missing.append("%d fragments are not in the changelog yet (antsibull-changelog release)" % fragments)
    if run("git", "status", "--porcelain").strip():
        missing.append("there is what is not committed")
    if (
        "v%s" % version in run("git", "tag", "--list").split()
        and "v%s" % version not in run("git", "tag", "--points-at", "HEAD").split()
    ):
        missing.append("the tag v%s is another commit's" % version)
    return missing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("into", type=Path)
    parser.add_argument("--final", action="store_true", help="a missing entry of the changelog is an error")
    options = parser.parse_args()
    os.environ.pop("ANSIBLE_CONFIG", None)
    try:
        release(options.into.resolve(), options.final)
    except Wrong as error:
        print("release: %s" % error, file=sys.stderr)
        return 1
    return 0


def release(into: Path, final: bool) -> None:
    missing = missing_in_changelog(str(yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"]))
    if final and missing:
        raise Wrong("%s. Remedy: see docs/release.md." % "; ".join(missing))
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="railyard-release-") as name:
        scratch = Path(name)
        archive = build(scratch)
        say("archive", check_content(archive))
        say("installed", check_playbooks(archive, scratch))
        say("galaxy-importer", check_with_galaxy(archive, scratch))
        sbom = archive.with_name(archive.name.replace(".tar.gz", ".cdx.json"))
        say("sbom", run(str(checkers() / "python"), str(ROOT / "tools/sbom.py"), str(archive), str(sbom)).strip())
        sums = ""
        for path in (archive, sbom):
            target = into / path.name
            target.write_bytes(path.read_bytes())
            sums += "%s  %s\n" % (hashlib.sha256(target.read_bytes()).hexdigest(), target.name)
    (into / "SHA256SUMS").write_text(sums)
    print(sums, end="")
    for each in missing:
        say("not final", each)


def say(what: str, *how: t.Any) -> None:
    print("%s: %s" % (what, " ".join(map(str, how))), flush=True)


if __name__ == "__main__":
    sys.exit(main())

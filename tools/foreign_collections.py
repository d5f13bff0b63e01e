#!/usr/bin/env python3
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/foreign_collections.py PYTHON NAME...: install collections into a virtual environment, without Galaxy.

The collections are extracted from the package ``ansible`` of the release that matches the environment's ansible-core.
The package is fifteen times as large as the collections. They are installed where Ansible finds them by default.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# Release of ansible-core -> release of the package.
RELEASES = {"2.17": "10.7.0", "2.18": "11.13.0", "2.19": "12.3.0", "2.20": "13.8.0", "2.21": "13.8.0"}

_ASK = "import ansible.release, sysconfig; print(ansible.release.__version__, sysconfig.get_path('purelib'))"


def failed(why: str) -> int:
    print("tools/foreign_collections.py: %s" % why, file=sys.stderr)
    return 1


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    python, names = sys.argv[1], sys.argv[2:]
    version, packages = subprocess.run([python, "-c", _ASK], check=True, capture_output=True, text=True).stdout.split()
    into = Path(packages) / "ansible_collections"
    missing = [name for name in names if not (into / name.replace(".", "/") / "MANIFEST.json").exists()]
    if not missing:
        return 0
    release = RELEASES.get(".".join(version.split(".")[:2]))
    if release is None:
        known = "which release of the package ansible goes with ansible-core %s is not known" % version
        return failed("%s. Remedy: add it to RELEASES." % known)
    print("Taking %s out of the package ansible %s" % (", ".join(missing), release))
    with tempfile.TemporaryDirectory() as scratch:
        pip = [python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        # independently of the Python that it requires, because its code runs only in tasks
        pip += ["--only-binary=:all:", "--python-version=3.13", "-d", scratch]
        subprocess.run([*pip, "ansible==%s" % release], check=True)
        (wheel,) = Path(scratch).glob("ansible-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for name in missing:
                begin = "ansible_collections/%s/" % name.replace(".", "/")
                members = [each for each in archive.namelist() if each.startswith(begin) and "/tests/" not in each]
                if not members:
                    return failed("%s is not in the package ansible %s" % (name, release))
                archive.extractall(into.parent, members)
    return 0


if __name__ == "__main__":
    sys.exit(main())

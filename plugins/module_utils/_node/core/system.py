# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The node's filesystem and commands behind one object, which tests replace.

All paths are absolute paths of the node (``/sys/class/net``); ``root`` is prepended.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import subprocess
import tempfile
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError

ABSENT = frozenset(
    (errno.ENOENT, errno.ENOTDIR, errno.EINVAL, errno.ENODEV, errno.EOPNOTSUPP, errno.ENXIO, errno.EIO, errno.ESRCH)
)

_DENIED = frozenset((errno.EACCES, errno.EPERM))
_REMEDIES = {
    errno.ELOOP: "remove the symbolic link",
    errno.EISDIR: "move the directory away",
    errno.EMFILE: "end the program that has many files open, or increase its limit of open files (ulimit -n)",
    errno.ENFILE: "end the program that has many files open, or increase fs.file-max",
    errno.ENOSPC: "free space on the filesystem",
    errno.EDQUOT: "free space on the filesystem",
}
# Extended attributes of the contents, which change with them.
_OF_CONTENTS = ("security.ima", "security.evm")
# The prefix of files that are not yet complete.
TEMPORARY = ".railyard-"


class CommandResult(t.NamedTuple):
    """Result of a command: exit status, standard output and standard error as text."""

    rc: int
    out: str
    err: str


def run_command(argv: t.Sequence[str], timeout: float) -> CommandResult:
    """Run a program without a shell, in the C locale; ``timeout`` in seconds.

    The exit status is 127 if the program is missing and 124 after the timeout, as in a shell and ``timeout``.
    """
    env = dict(os.environ, LC_ALL="C", LANG="C")
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(list(argv), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=env)
    except FileNotFoundError:
        return CommandResult(127, "", "%s: not found" % argv[0])
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        # not subprocess.run(), which waits without limit for a killed program; one in a driver that hangs never ends
        return CommandResult(124, "", "%s: no answer within %g s" % (argv[0], timeout))
    finally:
        _end(process)
    return CommandResult(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a program that runs, and wait a second at most for its end."""
    if process.poll() is None:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()


def as_int(text: str | None) -> int | None:
    """Return the integer in the text of an attribute, or None if there is no integer."""
    try:
        return int(text or "", 0)
    except ValueError:
        return None


class System:
    """One node. Only tests set ``root`` and ``runner``.

    ``management_interfaces``: the interfaces that the user names as part of the management path. None at boot, when
    the kernel cannot yet say which they are, and what is applied was checked when it was saved.
    """

    management_interfaces: t.Sequence[str] | None = ()

    def __init__(
        self, root: str = "/", runner: t.Callable[[t.Sequence[str], float], CommandResult] = run_command
    ) -> None:
        self.root = root
        self._runner = runner

    def path(self, path: str) -> str:
        return path if self.root == "/" else os.path.join(self.root, path.lstrip("/"))

    def read(self, path: str) -> str | None:
        """Return the file's text without surrounding white space; None if it does not exist or has no value (sysfs)."""
        text = self.read_file(path)
        return None if text is None else text.strip()

    def read_file(self, path: str) -> str | None:
        """Return the file's text unchanged; None if it does not exist or has no value (sysfs)."""
        data = self.read_bytes(path)
        return None if data is None else data.decode("utf-8", "replace")

    def read_exact(self, path: str) -> str | None:
        """As :meth:`read_file`, for :meth:`edit_file`: bytes that are not UTF-8 are preserved.

        :raises RailyardError: if the file cannot be read, or is a symbolic link without a target.
        """
        self._edited(path)
        data = self.read_bytes(path)
        return None if data is None else data.decode("utf-8", "surrogateescape")

    def read_bytes(self, path: str) -> bytes | None:
        try:
            with open(self.path(path), "rb") as stream:
                return stream.read()
        except OSError as error:
            # sysfs returns EINVAL, ENODEV or EOPNOTSUPP for an attribute without a value
            if error.errno in ABSENT:
                return None
            raise _error("read", error, path, "run the task with become") from None

    def read_int(self, path: str) -> int | None:
        return as_int(self.read(path))

    def exists(self, path: str) -> bool:
        return os.path.lexists(self.path(path))

    def modified(self, path: str) -> int:
        """Return a file's modification time in nanoseconds since 1970; 0 if it does not exist."""
        found = self._stat(path)
        return found.st_mtime_ns if found else 0

    def mode(self, path: str) -> int | None:
        """Return a file's permissions, such as 0o644; None if it does not exist."""
        found = self._stat(path)
        return stat.S_IMODE(found.st_mode) if found else None

    def _stat(self, path: str) -> os.stat_result | None:
        try:
            return os.stat(self.path(path))
        except OSError as error:
            self._refuse_unknown(error, path, False)
        return None

    def _refuse_unknown(self, error: OSError, path: str, complete: bool) -> None:
        """Raise the error unless it means that the file is absent, so that no holder of a device is overlooked.

        :param complete: whether it is also raised if the file may not be read.
        """
        if error.errno in ABSENT or (error.errno in _DENIED and not complete):
            return
        # the kernel may report the end of a process as EACCES
        if os.path.lexists(self.path(path)):
            raise _error("read", error, path, "run the task with become, outside any container") from None

    def listdir(self, path: str, complete: bool = False) -> list[str]:
        """Return the sorted names in a directory; empty if it does not exist.

        :param complete: whether a directory that may not be read is an error; otherwise it is empty.
        :raises RailyardError: if it cannot be read for another reason, such as too many open files.
        """
        try:
            return sorted(os.listdir(self.path(path)))
        except OSError as error:
            self._refuse_unknown(error, path, complete)
        return []

    def link_target(self, path: str, complete: bool = False) -> str | None:
        """Return a symbolic link's target, unresolved; None if it is not a link. Otherwise as :meth:`listdir`."""
        try:
            return os.readlink(self.path(path))
        except OSError as error:
            self._refuse_unknown(error, path, complete)
        return None

    def link_name(self, path: str, complete: bool = False) -> str | None:
        """Return the last part of a symbolic link's target (``driver`` -> ``mlx5_core``); None if it is not a link."""
        target = self.link_target(path, complete)
        return None if target is None else os.path.basename(target)

    def real_path(self, path: str) -> str:
        """Return the path on the node with all symbolic links resolved."""
        real = os.path.realpath(self.path(path))
        root = os.path.realpath(self.root)
        return real if root == "/" else "/" + os.path.relpath(real, root)

    def write_attribute(self, path: str, text: str) -> None:
        """Write a sysfs or procfs attribute. Raises the kernel's OSError, which callers handle by its number."""
        fd = os.open(self.path(path), os.O_WRONLY)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)

    def write_at(self, path: str, offset: int, data: bytes) -> None:
        """Write bytes at an offset, such as into a PCI function's ``config``. Raises the kernel's OSError."""
        fd = os.open(self.path(path), os.O_WRONLY)
        try:
            os.pwrite(fd, data, offset)
        finally:
            os.close(fd)

    def write_file(self, path: str, data: str | bytes, mode: int = 0o644) -> None:
        """Replace a file of this project atomically. A symbolic link in its place is replaced, not followed.

        :raises RailyardError: if it cannot be written.
        """
        try:
            _replace(self.path(path), data, mode)
        except OSError as error:
            raise _error("written", error, path, "make the place writable for root") from None

    def edit_file(self, path: str, text: str, mode: int | None = None) -> None:
        """Replace the contents of a file of others. Its owner, group, permissions, extended attributes (such as the
        SELinux label), and the symbolic links to it are kept. See :meth:`read_exact`.

        :param mode: the permissions if they are not kept, or if the file does not exist (otherwise 0o644).
        :raises RailyardError: if it cannot be written, or is a symbolic link without a target.
        """
        target = self._edited(path)
        try:
            _replace(target, text, mode, os.stat(target) if os.path.exists(target) else None)
        except OSError as error:
            raise _error("written", error, path, "make the place writable for root") from None

    def _edited(self, path: str) -> str:
        """Return the place of a file of others in this filesystem, without symbolic links."""
        place = self.path(path)
        target = os.path.realpath(place)
        if os.path.lexists(place) and not os.path.exists(place):
            message = "is a symbolic link to %s, which does not exist" % os.readlink(place)
            raise RailyardError(message, path, "create that file, or remove the link")
        if os.path.exists(target) and not os.path.isfile(target):
            raise RailyardError("is not a regular file", path, "remove it, or write the settings by hand")
        return target

    def remove_file(self, path: str) -> None:
        """Remove a file if it exists. Raises :class:`RailyardError`."""
        try:
            os.unlink(self.path(path))
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            raise _error("removed", error, path, "make the place writable for root") from None

    def remove_incomplete_files(self, directory: str) -> None:
        """Remove files of a directory that a killed program did not complete. No other program may write there now.

        :raises RailyardError: if a file cannot be removed.
        """
        for name in self.listdir(directory):
            if name.startswith(TEMPORARY):
                self.remove_file("%s/%s" % (directory, name))

    def forget_file(self, path: str) -> None:
        """Remove a file, and its directory if that is empty then."""
        self.remove_file(path)
        with contextlib.suppress(OSError):
            os.rmdir(self.path(os.path.dirname(path)))

    def symlink(self, target: str, path: str) -> None:
        """Create the symbolic link ``path`` to ``target``, or replace another link. Raises :class:`RailyardError`."""
        full = self.path(path)
        try:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            if os.path.islink(full):
                os.unlink(full)
            os.symlink(target, full)
        except OSError as error:
            remedy = "make the place writable for root, and free for a link"
            raise RailyardError("cannot be made a link: %s" % error.strerror, path, remedy) from None

    def which(self, program: str) -> str | None:
        """Return the program's path, or None. Searches the sbin directories also if PATH does not have them."""
        places = [os.environ.get("PATH", ""), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
        return shutil.which(program, path=":".join(places))

    def run(self, argv: t.Sequence[str], timeout: float = 300.0) -> CommandResult:
        """Run a program; see :func:`run_command`."""
        return self._runner(argv, timeout)

    def check(self, argv: t.Sequence[str], remedy: str, timeout: float = 300.0) -> str:
        """Run a program and return its standard output.

        :raises RailyardError: if it fails, with the first lines of its standard error.
        """
        result = self.run(argv, timeout)
        if result.rc:
            message = " / ".join((result.err or result.out).split("\n")[:3]).strip(" /")
            raise RailyardError("exit status %d: %s" % (result.rc, message or "no message"), " ".join(argv), remedy)
        return result.out


def _error(what: str, error: OSError, path: str, remedy: str) -> RailyardError:
    message = "cannot be %s: %s" % (what, error.strerror)
    return RailyardError(message, path, _REMEDIES.get(error.errno or 0, remedy))


def _replace(target: str, data: str | bytes, mode: int | None, kept: os.stat_result | None = None) -> None:
    """Replace a file atomically, with the permissions ``mode`` (None: 0o644, or those of ``kept``). Raises OSError.

    :param kept: the status of the file, whose owner, group and extended attributes are kept; None: they are not.
    """
    directory = os.path.dirname(target)
    os.makedirs(directory, mode=0o755, exist_ok=True)
    fd, name = tempfile.mkstemp(prefix=TEMPORARY, dir=directory)
    try:
        with os.fdopen(fd, "wb") as stream:
            stream.write(data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data)
            stream.flush()
            if kept:
                own = os.fstat(stream.fileno())
                if (own.st_uid, own.st_gid) != (kept.st_uid, kept.st_gid):
                    os.fchown(stream.fileno(), kept.st_uid, kept.st_gid)
                _copy_attributes(target, stream.fileno())
            if mode is None:
                mode = stat.S_IMODE(kept.st_mode) if kept else 0o644
            # last, because a change of the owner removes bits, and an ACL changes those of the group
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def _copy_attributes(target: str, fd: int) -> None:
    try:
        names = os.listxattr(target)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        return
    for name in set(names).difference(_OF_CONTENTS):
        value = os.getxattr(target, name)
        # the new file may have it already, such as the label that SELinux does not let this process set
        try:
            present = os.getxattr(fd, name) == value
        except OSError:
            present = False
        if not present:
            os.setxattr(fd, name, value)

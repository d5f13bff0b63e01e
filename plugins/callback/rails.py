# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: rails
type: stdout
short_description: Print one line per layer for all nodes
version_added: 0.2.0
author:
  - Railyard contributors (@railyard)
description:
  - Prints one line per layer or task for all nodes together. Prints nothing for skipped tasks, and nothing for tasks
    that only read, unless they run longer than O(progress_seconds).
  - Lists the changes of the modules of this collection by port and attribute. Equal changes and equal errors of
    several nodes are printed once, with the names of the nodes.
  - Prints the progress of tasks that take long, with the nodes that have not answered yet.
  - Prints the heading of a play with its first line.
  - Ends with the headline of M(railyard.fabric.fabric_verify), if the run has a verdict.
  - A run whose output is closed, such as by C(head) at the end of a pipe, is completed without output.
  - With C(-v) the output is that of the P(ansible.builtin.default#callback) callback.
extends_documentation_fragment:
  - ansible.builtin.default_callback
  - ansible.builtin.result_format_callback
options:
  progress_seconds:
    description:
      - How many seconds a task runs before its progress is printed. It is printed again after twice that time, four
        times, and so on.
      - V(0) does not print progress.
    type: int
    default: 5
    env:
      - name: RAILYARD_PROGRESS_SECONDS
    ini:
      - section: callback_rails
        key: progress_seconds
requirements:
  - Set C(stdout_callback = railyard.fabric.rails) in the section C(defaults) of the Ansible configuration.
"""

import os
import select
import sys
import threading
import time
import typing as t

from ansible import constants
from ansible.plugins.callback.default import CallbackModule as Default
from ansible.utils.color import stringc

from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_ranges import fold_names
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.text_table import count, wrapped
from ansible_collections.railyard.fabric.plugins.plugin_utils import _output, _terminal

C: t.Any = constants  # made from the configuration, without declarations
# Actions whose result has lines for people, and those that need no line unless they fail.
TEXTS = ("show", "fabric_verify", "fabric_preview", "fabric_status", "fabric_collectives")
SILENT = (*TEXTS, "rail_verify", "set_fact", "set_stats", "group_by", "add_host", "assert", "meta", "include_tasks",
          "include_role", "include_vars", "validate_argument_spec")  # fmt: skip


def descriptor_of(stream: t.Any) -> int | None:
    """Return the file descriptor of an output; None if it is not a file."""
    try:
        number: int = stream.fileno()
    except (AttributeError, OSError, ValueError):
        return None
    return number


def discard(stream: t.Any) -> None:
    """Send an output to ``/dev/null``, because the next write of Ansible to a closed output would end the run."""
    number = descriptor_of(stream)
    if number is not None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, number)
        os.close(null)


def flush(stream: t.Any) -> None:
    """Write what is buffered, or discard it if the output is closed, because Python would otherwise exit with 120."""
    try:
        stream.flush()
    except (AttributeError, OSError, ValueError):
        discard(stream)


def discard_closed() -> None:
    """Send standard output and standard error to ``/dev/null`` if they are closed."""
    for stream in (sys.stdout, sys.stderr):
        number = descriptor_of(stream)
        if number is not None:
            poll = select.poll()
            poll.register(number, 0)  # only errors: a pipe without a reader, a lost terminal
            if poll.poll(0):
                discard(stream)


class Running:
    """A running task: the nodes that work on it, and their results."""

    def __init__(self, name: str, action: str, check: bool) -> None:
        self.name = name
        self.action = action
        self.check = check
        self.began = time.monotonic()
        self.waiting: dict[str, None] = {}
        # Node -> layer -> the part of its result that is printed.
        self.done: dict[str, dict[str, _terminal.Result]] = {}
        self.ended = 0
        # Error -> the nodes that failed with it, and how many of them were printed.
        self.failures: dict[str, list[str]] = {}
        self.diff_shown = False
        self.next_progress = 0.0


class CallbackModule(Default):
    """Prints one line per layer for all nodes; see DOCUMENTATION."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "railyard.fabric.rails"

    def __init__(self) -> None:
        super().__init__()
        self._running: dict[str, Running] = {}
        self._verdict: tuple[str, bool] | None = None
        self._heading = ""
        self._seconds = 0
        self._follower: threading.Thread | None = None

    def set_options(self, task_keys: t.Any = None, var_options: t.Any = None, direct: t.Any = None) -> None:
        super().set_options(task_keys=task_keys, var_options=var_options, direct=direct)
        self._seconds = self.get_option("progress_seconds")

    @property
    def _verbose(self) -> bool:
        return bool(self._display.verbosity)

    # plays and tasks

    def v2_playbook_on_start(self, playbook: t.Any) -> None:
        if self._verbose:
            super().v2_playbook_on_start(playbook)
        # A daemon thread ends with the process, even if the playbook does not reach its end. Workers are forks of this
        # process, so the thread takes no lock, and writes with write(2).
        self._follower = threading.Thread(target=self._follow, name="progress", daemon=True)
        self._follower.start()

    def v2_playbook_on_play_start(self, play: t.Any) -> None:
        if self._verbose:
            super().v2_playbook_on_play_start(play)
            return
        self._finish()
        self._play = play
        # printed with the first line: many plays have none
        name = play.get_name().strip()
        self._heading = name + (" (check mode)" if name and play.check_mode else "")

    def v2_playbook_on_no_hosts_matched(self) -> None:
        if self._verbose:
            super().v2_playbook_on_no_hosts_matched()

    def _task_start(self, task: t.Any, prefix: str | None = None) -> None:
        if self._verbose:
            super()._task_start(task, prefix)
            return
        self._finish()
        self._known(task)

    def _known(self, task: t.Any) -> Running:
        known = self._running.get(task._uuid)
        if known is None:
            action = task.action.rpartition(".")[2]
            # "railyard.fabric.sriov : Create ..." -> "sriov: Create ..."
            role, colon, name = task.get_name().strip().rpartition(" : ")
            shown = "%s: %s" % (role.rpartition(".")[2], name) if colon else name
            known = self._running[task._uuid] = Running(shown, action, bool(task.check_mode))
            known.next_progress = self._seconds
        return known

    def v2_runner_on_start(self, host: t.Any, task: t.Any) -> None:
        if self._verbose:
            super().v2_runner_on_start(host, task)
        else:
            self._known(task).waiting[host.get_name()] = None

    def v2_playbook_on_include(self, included_file: t.Any) -> None:
        if self._verbose:
            super().v2_playbook_on_include(included_file)

    # results

    @staticmethod
    def _unpacked(result: t.Any) -> tuple[t.Any, str, dict[str, t.Any]]:
        """Return task, node and result. ansible-core before 2.19 has only the underscored names."""
        task = getattr(result, "task", None) or result._task
        host = (getattr(result, "host", None) or result._host).get_name()
        return task, host, getattr(result, "result", None) or result._result

    def _ended(self, result: t.Any) -> tuple[Running, str, dict[str, t.Any]]:
        task, host, data = self._unpacked(result)
        known = self._known(task)
        known.waiting.pop(host, None)
        known.ended += 1
        discard_closed()
        self._handle_warnings(data)
        return known, host, data

    def v2_runner_on_ok(self, result: t.Any) -> None:
        self._texts(result)
        if self._verbose:
            super().v2_runner_on_ok(result)
            return
        known, host, data = self._ended(result)
        if known.action == "debug":
            self._line("%s: %s" % (host, data.get("msg", self._dump_results(data))), C.COLOR_DEBUG)
        elif known.action not in SILENT and not data.get("preview"):  # a later task shows it with all other nodes
            known.done[host] = _terminal.kept(known.name, data)

    def _texts(self, result: t.Any) -> None:
        """Print the lines of modules whose result is text for people."""
        task, _host, data = self._unpacked(result)
        if task.action.rpartition(".")[2] not in TEXTS or not data.get("lines"):
            return
        ok = bool(data["ok"]) if "headline" in data else None
        if ok is not None:
            self._verdict = (str(data["headline"]), ok)
        self._print(_output.painted(list(map(str, data["lines"])), ok))

    def v2_runner_on_skipped(self, result: t.Any) -> None:
        if self._verbose:
            super().v2_runner_on_skipped(result)
        else:
            self._ended(result)

    def v2_runner_on_failed(self, result: t.Any, ignore_errors: bool = False) -> None:
        if self._verbose:
            super().v2_runner_on_failed(result, ignore_errors)
        else:
            self._failed(result, "ignored: " if ignore_errors else "FAILED: ")

    def v2_runner_on_unreachable(self, result: t.Any) -> None:
        if self._verbose:
            super().v2_runner_on_unreachable(result)
        else:
            self._failed(result, "UNREACHABLE: ")

    def _failed(self, result: t.Any, kind: str) -> None:
        known, host, data = self._ended(result)
        if data.get("judged"):
            return  # the verdict has named it
        text = kind + _terminal.failure_text(data)
        known.failures.setdefault(text, []).append(host)
        if len(known.failures[text]) == 1:
            first, *rest = text[len(kind) :].splitlines()
            color = C.COLOR_SKIP if kind == "ignored: " else C.COLOR_ERROR
            lines = ["  %s%s: %s" % (kind, host, known.name), "    " + first, *("    " + line for line in rest)]
            to_stderr = kind != "ignored: " and self.get_option("display_failed_stderr")
            self._print("\n".join(lines), color, bool(to_stderr))

    def v2_on_file_diff(self, result: t.Any) -> None:
        if self._verbose:
            super().v2_on_file_diff(result)
            return
        task, host, data = self._unpacked(result)
        parts = data.get("results") or [data] if task.loop else [data]
        for part in parts:
            text = self._get_diff(part["diff"]) if part.get("diff") and part.get("changed") else ""
            if text:
                known = self._known(task)
                known.diff_shown = True
                self._print("  %s: %s\n%s" % (host, known.name, text))

    def v2_runner_item_on_ok(self, result: t.Any) -> None:
        if self._verbose:
            super().v2_runner_item_on_ok(result)

    def v2_runner_item_on_failed(self, result: t.Any) -> None:
        if self._verbose:
            super().v2_runner_item_on_failed(result)

    def v2_runner_item_on_skipped(self, result: t.Any) -> None:
        if self._verbose:
            super().v2_runner_item_on_skipped(result)

    def v2_runner_retry(self, result: t.Any) -> None:
        if self._verbose:
            super().v2_runner_retry(result)

    # output

    def _print(self, text: str, color: str | None = None, stderr: bool = False) -> None:
        """Print without a buffer, so that lines of progress come after it. A closed output is discarded."""
        discard_closed()
        stream = sys.stderr if stderr else sys.stdout
        try:
            if self._heading:
                heading, self._heading = self._heading, ""
                self._display.display("\n" + heading, color=C.COLOR_HIGHLIGHT)
                flush(sys.stdout)
            self._display.display(text, color=color, stderr=stderr)
        except OSError:
            discard(stream)
        flush(stream)

    def _line(self, text: str, color: str | None = None) -> None:
        self._print("  " + text, color)

    def _finish(self) -> None:
        """Print the results of the tasks before this one."""
        for known in self._running.values():
            took = time.monotonic() - known.began
            for hosts in known.failures.values():
                if len(hosts) > 1:
                    where = wrapped("the same on %s" % fold_names(hosts[1:], 4), _output.width() - 4, "  ")
                    self._line("  " + "\n    ".join(where), C.COLOR_ERROR)
            layers: dict[str, dict[str, _terminal.Result]] = {}
            for host, parts in known.done.items():
                for name, part in parts.items():
                    layers.setdefault(name, {})[host] = part
            printed = False
            for name, results in layers.items():
                changed = any(each.get("changed") for each in results.values())
                for line in _terminal.summary(name, results, known.check, not known.diff_shown):
                    self._line(line, C.COLOR_CHANGED if changed else C.COLOR_OK)
                    printed = True
            if known.done and not printed and 0 < self._seconds <= took:
                nodes = count(len(known.done), "node")
                self._line("%s: %s, %s" % (known.name, nodes, _terminal.duration(took)), C.COLOR_OK)
        self._running.clear()

    def _follow(self) -> None:
        """Print progress and watch the outputs until the playbook has ended. Runs in a thread."""
        while self._follower is threading.current_thread():
            discard_closed()
            text, output = self._progress(), descriptor_of(sys.stdout)
            if text and output is not None:
                if self._heading:
                    heading, self._heading = self._heading, ""
                    text = "\n%s\n%s" % (stringc(heading, C.COLOR_HIGHLIGHT), text)
                try:
                    os.write(output, text.encode(errors="replace"))
                except OSError:
                    discard(sys.stdout)
            time.sleep(1)

    def _progress(self) -> str:
        """Return lines about the tasks whose progress is due, at growing intervals."""
        now, lines = time.monotonic(), ""
        for known in list(self._running.values()) if self._seconds > 0 else ():
            seconds = now - known.began
            waiting, ended = list(known.waiting), known.ended
            if not waiting or seconds < known.next_progress:
                continue
            known.next_progress = max(2 * known.next_progress, seconds)
            text = "%s: %s" % (known.name, _terminal.duration(seconds))
            if ended or waiting != ["localhost"]:
                nodes = count(ended + len(waiting), "node")
                text += ", {:,} of {}; waiting for {}".format(ended, nodes, fold_names(waiting, 4))
            lines += stringc("  " + text, C.COLOR_DEBUG) + "\n"
        return lines

    def v2_playbook_on_stats(self, stats: t.Any) -> None:
        self._follower = None
        self._finish()
        self._heading = ""  # of a last play without hosts
        custom = stats.custom and self.get_option("show_custom_stats")
        if self._verbose or custom or len(stats.processed) <= _terminal.MOST_ROWS:
            super().v2_playbook_on_stats(stats)
        else:
            self._display.banner("PLAY RECAP")
            for line, color in self._recap(stats):
                self._print(line, color)
        if self._verdict:
            headline, ok = self._verdict
            lines = wrapped(headline, _output.width())
            self._print("\n".join(lines), C.COLOR_OK if ok else C.COLOR_ERROR)
        flush(sys.stdout)

    def _recap(self, stats: t.Any) -> t.Iterator[tuple[str, str]]:
        """Yield a line and its color for all nodes with the same result. Successful tasks are not counted."""
        ends: dict[tuple[bool, int, int, int], list[str]] = {}
        for host in sorted(stats.processed):
            found = stats.summarize(host)
            key = (host == "localhost", found["failures"], found["unreachable"], found["changed"])
            ends.setdefault(key, []).append(host)
        for (local, failed, unreachable, changed), hosts in sorted(ends.items()):
            color = C.COLOR_ERROR if failed or unreachable else C.COLOR_CHANGED if changed else C.COLOR_OK
            text = "%s : changed=%d unreachable=%d failed=%d" % (
                fold_names(hosts), changed, unreachable, failed
            )  # fmt: skip
            yield text if local else "%s (%s)" % (text, count(len(hosts), "node")), color

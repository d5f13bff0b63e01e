# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A container runtime's part of CNI, for tests: a program that runs chains of plugins as libcni does.

It leans on no library but Python's own, so that it can be put on a node as it is: ``python3 cni_runtime.py PLUGINS``
takes commands as JSON lines on standard input, and answers a JSON line each. A pod is a named network namespace.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import typing as t

Document = t.Dict[str, t.Any]


class PluginError(Exception):
    """A plugin of the chain failed; ``answer`` is its answer."""

    def __init__(self, plugin: str, answer: str) -> None:
        super().__init__("%s: %s" % (plugin, answer))
        self.plugin = plugin


class Runtime:
    """``path``: where plugins are looked for, with colons between.

    Results are kept as libcni does, so that CHECK and DEL are given them.
    """

    def __init__(self, path: str, cache: str = "/run/cni-runtime") -> None:
        self.path = path
        self._cache = cache
        os.makedirs(cache, exist_ok=True)

    def _kept(self, conf: Document, pod: str, name: str) -> str:
        return os.path.join(self._cache, "%s-%s-%s" % (conf["name"], pod, name))

    def run(
        self, command: str, plugin: Document, conf: Document, pod: str, name: str, more: Document
    ) -> Document | None:
        text = dict({"cniVersion": conf["cniVersion"], "name": conf["name"]}, **plugin)
        text.update(more)
        env = dict(
            os.environ,
            CNI_COMMAND=command,
            CNI_CONTAINERID=pod,
            CNI_NETNS="/run/netns/%s" % pod,
            CNI_IFNAME=name,
            CNI_PATH=self.path,
        )
        places = [os.path.join(place, plugin["type"]) for place in self.path.split(":")]
        program = next((each for each in places if os.path.exists(each)), places[0])
        done = subprocess.run([program], input=json.dumps(text), env=env, capture_output=True, text=True)
        if done.returncode:
            raise PluginError(plugin["type"], (done.stdout + done.stderr).strip())
        return json.loads(done.stdout) if done.stdout.strip() else None

    def add(self, conf: Document, pod: str, name: str, device: str | None = None, upto: int | None = None) -> Document:
        """:param device: what Multus would pass of a device plugin's choice. :param upto: stop behind so many plugins,
        as a runtime that is killed does.
        """
        result: Document | None = None
        for number, plugin in enumerate(conf["plugins"]):
            if number == upto:
                return result or {}
            more: Document = {"prevResult": result} if result else {}
            if device:
                more.update(chosen(device))
            result = self.run("ADD", plugin, conf, pod, name, more) or result
        with open(self._kept(conf, pod, name), "w") as stream:
            json.dump(result, stream)
        return result or {}

    def killed(self, conf: Document, pod: str, name: str, seconds: float) -> None:
        """An add that is killed after so long, with the plugin that runs then; nothing of it is kept."""
        child = os.fork()
        if not child:
            os.setsid()
            with contextlib.suppress(BaseException):
                self.add(conf, pod, name)
            os._exit(0)
        time.sleep(seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._kept(conf, pod, name))

    def check(self, conf: Document, pod: str, name: str, device: str | None = None) -> None:
        with open(self._kept(conf, pod, name)) as stream:
            more: Document = {"prevResult": json.load(stream)}
        if device:
            more.update(chosen(device))
        for plugin in conf["plugins"]:
            self.run("CHECK", plugin, conf, pod, name, more)

    def delete(self, conf: Document, pod: str, name: str, device: str | None = None) -> None:
        more: Document = {}
        kept = self._kept(conf, pod, name)
        if os.path.exists(kept):
            with open(kept) as stream:
                more["prevResult"] = json.load(stream)
        if device:
            more.update(chosen(device))
        for plugin in reversed(conf["plugins"]):
            self.run("DEL", plugin, conf, pod, name, more)
        if os.path.exists(kept):
            os.unlink(kept)

    # -- pods ---------------------------------------------------------------------------------------------------------

    @staticmethod
    def make(pod: str) -> None:
        subprocess.run(["ip", "netns", "add", pod], check=True, capture_output=True)
        subprocess.run(["ip", "-n", pod, "link", "set", "lo", "up"], check=True, capture_output=True)

    @staticmethod
    def unmake(pod: str) -> None:
        subprocess.run(["ip", "netns", "del", pod], check=True, capture_output=True)

    def up(self, pod: str, attachments: t.Sequence[tuple[Document, str]]) -> list[Document]:
        """A pod with its networks, one after the other as Multus does."""
        self.make(pod)
        return [self.add(conf, pod, name) for conf, name in attachments]

    def down(self, pod: str, attachments: t.Sequence[tuple[Document, str]]) -> None:
        for conf, name in reversed(attachments):
            self.delete(conf, pod, name)
        self.unmake(pod)


def chosen(device: str) -> Document:
    """What Multus adds to each plugin of a chain for the function that a device plugin has chosen."""
    return {"deviceID": device, "pciBusID": device}


def together(jobs: t.Sequence[t.Callable[[], t.Any]]) -> list[str]:
    """Do all at the same time; what went wrong."""
    wrong: list[str] = []

    def one(job: t.Callable[[], t.Any]) -> None:
        try:
            job()
        except Exception as error:
            wrong.append(str(error))

    threads = [threading.Thread(target=one, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def networks(directory: str) -> dict[str, Document]:
    """The configurations in a directory, as Multus finds them: by their ``name``."""
    found = {}
    for name in sorted(os.listdir(directory)):
        with open(os.path.join(directory, name)) as stream:
            conf = json.load(stream)
        found[conf["name"]] = conf
    return found


def serve(path: str) -> None:
    """Answer commands: ``{"do": METHOD, "with": [ARGUMENTS]}``, or ``{"together": [COMMANDS]}``."""
    runtime = Runtime(path)
    for line in sys.stdin:
        asked = json.loads(line)
        answer: Document
        try:
            if "together" in asked:
                jobs = [_job(runtime, each) for each in asked["together"]]
                answer = {"wrong": together(jobs)}
            else:
                answer = {"result": _job(runtime, asked)()}
        except Exception as error:
            answer = {"error": "%s: %s" % (type(error).__name__, error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _job(runtime: Runtime, asked: Document) -> t.Callable[[], t.Any]:
    return lambda: getattr(runtime, asked["do"])(*asked["with"])


if __name__ == "__main__":
    serve(sys.argv[1])

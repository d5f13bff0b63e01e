# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Updates of projects and inventories in AWX: start them, wait for them, and report why they failed."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.plugin_utils._awx_access.awx_server import ApiError, Data, Server

_BUSY = ("new", "pending", "waiting", "running")
# Kind of object -> the endpoint of its update jobs.
_ENDPOINTS = {"project": "project_updates", "inventory": "inventory_updates"}
_MAX_REASON = 600
# How often a failed job is read again until AWX has saved its events. That takes about a second.
_SAVED = 30
# The same for releases whose jobs do not have the field event_processing_finished.
_SAVED_BEFORE = 3


def status_of(item: Data) -> str:
    """Return the status of the last update of an object: ``successful``, ``running`` or ``failed``."""
    status = item.get("status", "successful")
    return "running" if status in _BUSY else "successful" if status == "successful" else "failed"


class Jobs:
    """Runs and watches update jobs. ``pause``: waits for a number of seconds."""

    def __init__(self, server: Server, pause: float) -> None:
        self._server = server
        self._pause = pause

    def settle(self, endpoint: str, item: Data, what: str, started: bool, timeout: int) -> bool:
        """Wait for the update of a project or inventory source. If the last one failed, start another. Return whether
        one has ended now.

        :param item: the object as AWX returned it.
        :param started: AWX has started an update, because the object is new or changed.
        """
        if status_of(item) == "successful" and not started:
            return False
        summary = item.get("summary_fields", {})
        job = next((summary[key]["id"] for key in ("current_update", "current_job") if summary.get(key)), None)
        if job is None and started:
            job = next((summary[key]["id"] for key in ("last_update", "last_job") if summary.get(key)), None)
        if job is None:
            self.update(endpoint, item["id"], what, timeout)
        else:
            self._wait(int(job), what, timeout)
        return True

    def missing(self, project: int, playbooks: t.Collection[str]) -> set[str]:
        """Return the playbooks that AWX did not find in the repository."""
        return set(playbooks) - set(self._server.get("projects/%d/playbooks" % project)["results"])

    def update(self, endpoint: str, number: int, what: str, timeout: int) -> None:
        """Start an update and wait for it at most ``timeout`` seconds."""
        answer = self._server.post("%s/%d/update" % (endpoint, number), {})
        job = answer.get("%s_update" % what) or answer.get("id")
        if job is None:
            raise RailyardError("AWX started no update", what, "check that the %s is not disabled in AWX" % what)
        self._wait(int(job), what, timeout)

    def _wait(self, job: int, what: str, timeout: int) -> None:
        path = "%s/%d" % (_ENDPOINTS[what], job)
        where = "%s/#/jobs/%s/%d" % (self._server.url, what, job)
        end = time.monotonic() + timeout
        while True:
            item = self._server.get(path)
            if item["status"] == "successful":
                return
            if item["status"] not in _BUSY:
                break
            if time.monotonic() >= end:
                message = "its update, job %d, is still %s after %d seconds" % (job, item["status"], timeout)
                remedy = "see %s and whether AWX's instances have capacity, or raise project.sync_timeout" % where
                raise RailyardError(message, what, remedy)
            time.sleep(self._pause)
        for turn in range(_SAVED):
            if item.get("event_processing_finished", turn >= _SAVED_BEFORE):
                break
            time.sleep(self._pause)
            item = self._server.get(path)
        message = "its update, job %d, is %s: %s" % (job, item["status"], self._reason(path, item))
        raise RailyardError(message, what, "correct project.url, project.branch or project.credential; see %s" % where)

    def _reason(self, path: str, item: Data) -> str:
        """Return why a job failed: the message of git or of the inventory plugin, else the explanation of AWX."""
        reasons = [str(item.get("job_explanation") or "")]
        try:
            for event in self._server.all(path + "/events", event="runner_on_failed"):
                result = event.get("event_data", {}).get("res", {})
                reasons.append(str(result.get("stderr") or result.get("msg") or ""))
            if not any(reasons):
                lines = str(self._server.get(path + "/stdout", format="json").get("content", "")).strip().splitlines()
                reasons += [line for line in lines if "ERROR" in line or "fatal" in line][-3:] or lines[-1:]
        except ApiError:  # the status of the job is more useful than the error of reading its log
            pass
        text = " ".join(" ".join(filter(None, reasons)).split())
        return text[:_MAX_REASON].rstrip(".") or "AWX gives no reason"

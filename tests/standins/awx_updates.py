# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Updates of projects and inventory sources, as AWX 24.6.1 has them (``awx/main/models/projects.py``).

A project is updated when it is created and when one of ``FIELDS_TRIGGER_UPDATE`` changes; its status is that of its
current or last job, and it knows the playbooks that its last successful update found.
"""

from __future__ import annotations

import typing as t

from tests.standins.awx_kinds import Data

UPDATES = ("project_updates", "inventory_updates")
TRIGGERS = ("scm_url", "scm_branch", "scm_type", "scm_refspec")


class Updates:
    playbook_files: dict[int, set[str]]

    def begin(self, playbooks: t.Collection[str]) -> None:
        self.playbooks = set(playbooks)
        # branch -> its playbooks, where they differ
        self.branches: dict[str, set[str]] = {}
        # URL -> what git answers
        self.broken: dict[str, str] = {}
        # the fabric files that the repository has; None: all
        self.files: set[str] | None = None
        self.capacity = True
        # how often a job that has ended is read before its events are saved, as AWX saves them about a second later
        self.unsaved = 2
        self.playbook_files = {}
        self._jobs: dict[int, Data] = {}

    def start(self, what: str, item: Data) -> Data:
        """Start an update, which ends when its status is asked for the second time."""
        number = 9000 + len(self._jobs)
        self._jobs[number] = {"id": number, "what": what, "item": item, "status": "pending", "asked": 0, "reason": ""}
        item["_job"] = number
        return {"id": number, "%s_update" % what: number}

    def update_of(self, number: int, below: list[str]) -> Data:
        job = self._jobs[number]
        saved = job.get("unsaved") == 0
        if below == ["events"]:
            events = [{"event_data": {"res": {"msg": job["reason"]}}}] if job["reason"] and saved else []
            return {"count": len(events), "next": None, "results": events}
        if below == ["stdout"]:
            return {"content": job["reason"] if saved else ""}
        job["asked"] += 1
        if self.capacity and job["asked"] > 1 and job["status"] == "pending":
            self._end(job)
            job["unsaved"] = self.unsaved
        elif job.get("unsaved"):
            job["unsaved"] -= 1
        finished = job.get("unsaved") == 0
        shown = {"id": number, "status": job["status"], "job_explanation": ""}
        return {**shown, "event_processing_finished": finished}

    def _end(self, job: Data) -> None:
        item = job["item"]
        if job["what"] == "project":
            job["reason"] = self.broken.get(item["scm_url"], "")
            if not job["reason"]:
                self.playbook_files[item["id"]] = set(self.branches.get(item["scm_branch"], self.playbooks))
        elif self.files is not None and item["source_path"] not in self.files:
            job["reason"] = "Unable to find the source path %s" % item["source_path"]
        job["status"] = "failed" if job["reason"] else "successful"

    def state_of(self, item: Data) -> tuple[str, Data]:
        """The status of a project or inventory source, and which job of it is current or last."""
        if "_job" not in item:
            return "never updated", {}
        job = self._jobs[item["_job"]]
        which = "current" if job["status"] == "pending" else "last"
        return job["status"], {which + "_update": {"id": job["id"]}, which + "_job": {"id": job["id"]}}

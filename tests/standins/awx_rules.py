# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What AWX 24.6.1 refuses beyond wrong fields (``serializers.py`` and ``views`` of ``awx/api``)."""

from __future__ import annotations

import re
import typing as t

from tests.standins.awx_kinds import ENCRYPTED, NOTIFICATIONS, Data

ZONES = ("UTC", "Europe/Amsterdam", "Europe/Berlin", "America/New_York", "Asia/Tokyo")
ZONE_LINKS = {"US/Eastern": "America/New_York"}


class Refused(Exception):
    def __init__(self, status: int, body: t.Any) -> None:
        super().__init__(body)
        self.status = status
        self.body = body


def wrong(field: str, message: str) -> Refused:
    return Refused(400, {field: [message]})


class Rules:
    """What AWX checks beyond fields."""

    tables: dict[str, dict[int, Data]]
    surveys: dict[tuple[str, int], Data]
    links: dict[tuple[str, int, str], list[int]]
    playbook_files: dict[int, set[str]]

    def _rules(self, endpoint: str, whole: Data, given: Data, item: Data | None) -> None:
        check = getattr(self, "_%s_rules" % endpoint, None)
        if check:
            check(whole, given, item)

    def _credential_types_rules(self, whole: Data, given: Data, item: Data | None) -> None:
        inputs, injectors = whole["inputs"], whole["injectors"]
        if not set(inputs) <= {"fields", "required"} or not set(injectors) <= {"file", "env", "extra_vars"}:
            raise wrong("inputs", "Additional properties are not allowed")
        for field in inputs.get("fields", []):
            if (
                not {"id", "label"}
                <= set(field)
                <= {"id", "label", "type", "secret", "multiline", "help_text", "format"}
            ):
                raise wrong("inputs", "wrong properties of the field %s" % field)
            field.setdefault("type", "string")
        known = {field["id"] for field in inputs.get("fields", [])}
        for kind, entries in injectors.items():
            for key, template in entries.items():
                if kind == "env" and key.startswith("ANSIBLE_"):
                    raise wrong("injectors", "Environment variable %s is not allowed" % key)
                for name in re.findall(r"\{\{\s*([\w.]+)\s*\}\}", template) or [template]:
                    if name not in known and not (name == "tower.filename" and "template" in injectors.get("file", {})):
                        raise wrong("injectors", "%s uses an undefined field (%s)" % (key, name))

    def _credentials_rules(self, whole: Data, given: Data, item: Data | None) -> None:
        owners = [key for key in ("organization", "user", "team") if whole.get(key)]
        if len(owners) != 1:
            raise Refused(400, {"detail": "Missing 'user', 'team', or 'organization'."})
        if item and whole["credential_type"] != item["credential_type"]:
            used = any(item["id"] in ids for (_kind, _number, what), ids in self.links.items() if what == "credentials")
            if used or any(each["credential"] == item["id"] for each in self.tables["projects"].values()):
                output = "You cannot change the credential type of the credential, as it may break the functionality"
                raise wrong("credential_type", output + " of the resources using it.")
        if item and item["inputs"].get("vault_id", "") != whole["inputs"].get("vault_id", ""):
            raise wrong("inputs", "Vault IDs cannot be changed once they have been created.")
        kind = self.tables["credential_types"][whole["credential_type"]]["inputs"]
        known = {field["id"]: field for field in kind["fields"]}
        for key, value in whole["inputs"].items():
            if key not in known:
                raise Refused(400, {"inputs": {key: ["Additional properties are not allowed."]}})
            if type(value) is not (bool if known[key]["type"] == "boolean" else str):
                raise Refused(400, {"inputs": {key: ["wrong type"]}})
            if value == ENCRYPTED:
                if not item:
                    raise Refused(400, {"inputs": {key: ["$encrypted$ is a reserved keyword"]}})
                whole["inputs"][key] = item["inputs"][key]
        for key in kind.get("required", []):
            if not whole["inputs"].get(key):
                raise Refused(400, {"inputs": {key: ["required for the credential type"]}})

    def _execution_environments_rules(self, whole: Data, given: Data, item: Data | None) -> None:
        if given.get("credential"):
            credential = self.tables["credentials"][given["credential"]]
            if self.tables["credential_types"][credential["credential_type"]]["name"] != "Container Registry":
                raise wrong("credential", "Only Container Registry credentials can be associated")

    def _inventory_sources_rules(self, whole: Data, given: Data, item: Data | None) -> None:
        if whole["source"] == "scm" and not whole["source_project"]:
            raise wrong("source_project", "Project required for scm type sources.")
        if whole["source_project"] and not self.tables["projects"][whole["source_project"]]["scm_type"]:
            raise wrong("source_project", "Cannot use manual project for SCM-based inventory.")

    def _notification_templates_rules(self, whole: Data, given: Data, item: Data | None) -> None:
        known = NOTIFICATIONS[whole["notification_type"]]
        settings = whole["notification_configuration"]
        if set(settings) != set(known):
            raise Refused(400, {"__all__": ["fields of %s: %s" % (whole["notification_type"], ", ".join(known))]})
        for key, value in settings.items():
            if type(value) is not known[key] or (known[key] is list and not value):
                raise Refused(400, {"__all__": ["Configuration field '%s' incorrect type" % key]})
            if value == ENCRYPTED and item:
                settings[key] = item["notification_configuration"][key]

    def _inventories_rules(self, whole: Data, given: Data, item: Data | None) -> None:
        if (
            "kind" in given and given["kind"] is None
        ):  # a CharField that is not null keeps '' (awx/main/models/inventory.py)
            given["kind"] = whole["kind"] = ""

    def _job_templates_rules(self, whole: Data, given: Data, item: Data | None) -> None:
        if whole["playbook"] not in self.playbook_files.get(whole["project"], ()):
            raise wrong("playbook", "Playbook not found for project.")
        if given.get("scm_branch") or given.get("ask_scm_branch_on_launch"):
            raise wrong("scm_branch", "Project does not allow overriding branch.")
        if not whole["inventory"] and not whole["ask_inventory_on_launch"]:
            raise wrong("inventory", "You must either set a default value or ask to prompt on launch.")

    def _workflow_job_template_nodes_rules(self, whole: Data, given: Data, item: Data | None) -> None:
        self._answers_rules(whole)

    def _answers_rules(self, whole: Data) -> None:
        template = whole["unified_job_template"]
        if not whole["extra_data"]:
            return
        surveys = [self.surveys.get((kind, template), {}) for kind in ("job_templates", "workflow_job_templates")]
        questions = {each["variable"]: each for survey in surveys for each in survey.get("spec", [])}
        for key, value in whole["extra_data"].items():
            if key not in questions:
                raise wrong("extra_data", "Variables %s are not allowed on launch." % key)
            if questions[key]["choices"] and value not in questions[key]["choices"]:
                raise wrong("extra_data", "Value %s for '%s' expected to be one of the choices." % (value, key))

    def _schedules_rules(self, whole: Data, given: Data, item: Data | None) -> None:
        rule = whole["rrule"]
        if not re.match(r"DTSTART(;TZID=[\w/+-]+:\d{8}T\d{6}|:\d{8}T\d{6}Z) RRULE:[A-Z=;,0-9]+\Z", rule):
            raise wrong("rrule", "Valid DTSTART required in rrule.")
        if "INTERVAL=" not in rule:
            raise wrong("rrule", "INTERVAL required in rrule")
        zone = re.search(r"TZID=([^:]+):", rule)
        if zone and zone.group(1) not in (*ZONES, *ZONE_LINKS):
            raise wrong(
                "rrule", "rrule parsing failed validation: A valid TZID must be provided (e.g., America/New_York)"
            )
        self._answers_rules(whole)

    def _survey(self, method: str, place: tuple[str, int], data: Data) -> tuple[int, t.Any]:
        if method == "GET":
            return 200, self.surveys.get(place, {})
        if method == "DELETE":
            self.surveys.pop(place, None)
            return 200, {}
        for key, kind in (("name", str), ("description", str), ("spec", list)):
            if not isinstance(data.get(key), kind):
                raise Refused(400, {"error": "Field '%s' is missing from survey spec." % key})
        if set(data) != {"name", "description", "spec"} or not data["spec"]:
            raise Refused(400, {"error": "'spec' doesn't contain any items."})
        seen = set()
        for index, question in enumerate(data["spec"]):
            problem = self._question(question)
            if question.get("variable") in seen:
                problem = "duplicated variable"
            if problem:
                raise Refused(400, {"error": "survey question %d: %s" % (index, problem)})
            seen.add(question["variable"])
        self.surveys[place] = data
        return 200, {}

    @staticmethod
    def _question(question: Data) -> str:
        kinds = {"text": str, "textarea": str, "integer": int, "float": float, "multiplechoice": str}
        kinds.update(multiselect=(str, list), password=str)  # type: ignore[arg-type]
        allowed = {"question_name", "question_description", "variable", "type", "required", "choices", "min", "max"}
        if not {"type", "question_name", "variable", "required"} <= set(question) <= allowed | {"default"}:
            return "wrong keys"
        if question["type"] not in kinds or type(question["required"]) is not bool:
            return "wrong type"
        for key in ("min", "max"):
            if question.get(key) is not None and type(question[key]) is not int:
                return "the limit %s is not an integer" % key
        default = question.get("default", "")
        if default != "" and not isinstance(default, kinds[question["type"]]):
            return "wrong default"
        if question["type"].startswith("multi"):
            given = default.splitlines() if isinstance(default, str) else default
            if not question.get("choices") or any(each not in question["choices"] for each in given):
                return "Default choice must be answered from the choices listed."
        return ""

    # -- associations

    def _relation(self, endpoint: str, item: Data, what: str, other: Data) -> None:
        """``is_valid_relation`` of the views in ``awx/api/views/__init__.py``."""
        if what == "credentials":
            self._one_of_a_type(endpoint, item, other)
        if endpoint == "workflow_job_template_nodes":
            if other["workflow_job_template"] != item["workflow_job_template"] or self._reaches(
                other["id"], item["id"]
            ):
                raise Refused(400, {"Error": "Cycle detected."})
            for each in ("success_nodes", "failure_nodes", "always_nodes"):
                if each != what and other["id"] in self.links.get((endpoint, item["id"], each), []):
                    raise Refused(400, {"Error": "Relationship not allowed."})

    def _one_of_a_type(self, endpoint: str, item: Data, other: Data) -> None:
        def hashed(each: Data) -> tuple[t.Any, ...]:
            kind = self.tables["credential_types"][each["credential_type"]]
            return kind["id"], each["inputs"].get("vault_id", "") if kind["name"] == "Vault" else ""

        linked = self.links.get((endpoint, item["id"], "credentials"), [])
        if hashed(other) in [hashed(self.tables["credentials"][each]) for each in linked]:
            name = self.tables["credential_types"][other["credential_type"]]["name"]
            raise Refused(400, {"error": "Cannot assign multiple %s credentials." % name})
        if self.tables["credential_types"][other["credential_type"]]["name"] in (
            "Source Control",
            "Container Registry",
        ):
            raise Refused(400, {"error": "Cannot assign a Credential of kind `scm`."})

    def _reaches(self, start: int, end: int) -> bool:
        if start == end:
            return True
        followers = [
            each
            for (endpoint, number, what), ids in self.links.items()
            for each in ids
            if endpoint == "workflow_job_template_nodes" and number == start and what.endswith("_nodes")
        ]
        return any(self._reaches(each, end) for each in followers)

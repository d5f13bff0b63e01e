# Copyright (c) 2026, Railyard contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.layers import layer_modules as layers
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan import port_matching, port_view
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.layer_table import PREFLIGHT
from ansible_collections.railyard.fabric.plugins.plugin_utils import _planned
from ansible_collections.railyard.fabric.plugins.plugin_utils._verify_spool import PREVIEW, of_check_mode

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
Row = t.Dict[str, t.Any]


class ActionModule(ActionBase):
    """Runs all layers of a node in one module execution; documented in ``plugins/modules/rail_host.py``."""

    TRANSFERS_FILES = False

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> Row:
        result: Row = super().run(tmp, task_vars)
        self._vars: t.Mapping[str, t.Any] = task_vars or {}
        options: Row = dict(self._task.args)
        preview = boolean(options.pop("preview", False)) and bool(self._task.check_mode)
        try:
            self._run(options, preview, result)
        except RailyardError as error:
            result.update(error.as_result())
        self._add_rails(result)
        return self._previewed(result) if preview else result

    def _run(self, options: Row, preview: bool, result: Row) -> None:
        """Run the module, and add its result. Raises :class:`RailyardError`."""
        needs: Row = {}
        if "modules" not in options:
            problem = self._derive(options, needs)
            if problem:
                result.update(problem)
                return
        if preview:
            options["preview"] = True
        result.update(self._execute_module("railyard.fabric.rail_host", module_args=options, task_vars=self._vars))
        if "needs" in result:
            result["needs"].update(needs)
            if options.get("layers") and "control_node" in result["needs"]:
                raise self._control_node()

    def _add_rails(self, result: Row) -> None:
        """Add to each change and error of a rail port the rail of the port."""
        parts = [result, *(result.get("modules") or {}).values()]
        rows = [row for part in parts for key in ("changes", "errors") for row in part.get(key) or ()]
        if rows:
            node = (result.get("needs") or {}).get("node") or self._vars.get("railyard_node") or {}
            rails = port_view.rails_by_name(node.get("ports") or ())
            for row in rows:
                rail = rails.get(str(row.get("port") or row.get("subject")))
                if rail:
                    row["rail"] = rail

    def _previewed(self, result: Row) -> Row:
        """Keep what the node would change for ``fabric_preview``. Return a result that is not failed."""
        if result.pop("failed", False) and not result.get("errors"):
            text = str(result.get("msg") or result.get("module_stderr") or "no message").strip()
            result["errors"] = [{"place": "", "message": text, "remedy": "run again with -vvv"}]
        result.pop("msg", None)
        for key, value in (("changed", False), ("needs", {}), ("reboot_required", False), ("reboot_reasons", [])):
            result.setdefault(key, value)
        result["preview"] = True
        keys = ("modules", "errors", "not_judged", "needs", "reboot_reasons")
        of_check_mode().note(self._host(), PREVIEW, {key: result[key] for key in keys if key in result})
        if not Display().verbosity:
            for key in ("changes", "modules", "diff"):
                result.pop(key, None)
        return result

    def _derive(self, options: Row, needs: Row) -> Row | None:
        """Set the options of the module, and the work for other tasks. Return the result of a module that failed."""
        missing = [name for name in reversed(_planned.VARIABLES) if name not in self._vars]
        if missing:
            remedy = "run on the nodes of a fabric file (-i), or use the modules of the layers with options of your own"
            raise RailyardError("the plan is not defined: no variable %s" % " and ".join(missing), self._host(), remedy)
        named = options.get("layers")
        if named:
            chosen = layers.named_layers(named)
        else:
            tags = (self._vars.get(name) or () for name in ("ansible_run_tags", "ansible_skip_tags"))
            chosen = layers.chosen_layers([tag for tag in self._task.tags if isinstance(tag, str)], *tags)
        node = self._value("railyard_node")
        state = options.get("state") or layers.PRESENT
        if state == layers.PRESENT:
            layers.check_variables(self._vars, chosen)
        preflight = PREFLIGHT in chosen and state == layers.PRESENT
        if (preflight or (named and state == layers.PRESENT)) and port_matching.unidentified(node, again=preflight):
            seen = self._execute_module("railyard.fabric.rail_info", {"subset": ["nics"]}, task_vars=self._vars)
            if "nics" not in seen:
                return t.cast("Row", seen)
            node = needs["node"] = port_matching.identify(node, seen["nics"])
        given = {name: self._value(name) for name in layers.VARIABLES if name in self._vars}
        if preflight:
            options.setdefault("packages", given.get("preflight_packages", layers.PACKAGES))
        options.setdefault("management_interfaces", given.get("preflight_management_interfaces") or [])
        rows = layers.layer_modules(node, self._value("railyard_fabric"), given, chosen, state)
        if state == layers.PRESENT:
            rows = [row for row in rows if not self._is_left(row, given, needs, bool(named))]
        allowed = self._value("preflight_control_node_allowed")
        if not boolean(allowed or False):
            options["control_boot_id"] = _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else None
        options["modules"] = rows
        return None

    def _is_left(self, row: Row, given: Row, needs: Row, named: bool) -> bool:
        """Return whether the role of a layer must run, because it copies files to the node or installs packages.

        :param named: whether the role runs this task, with its layer named.
        """
        if row["layer"] not in ("cni", "agent"):
            return False
        archive = row["layer"] == "cni" and given.get("cni_archive")
        if archive and not named:
            needs["cni"] = True
            return True
        install = given.get(row["layer"] + "_install")
        row["skip_missing"] = not archive and boolean(True if install is None else install)
        return False

    def _control_node(self) -> RailyardError:
        name = self._host()
        return RailyardError(
            "this is the machine on which Ansible runs",
            name,
            "correct the address of %s in the inventory. If the control node is meant to be a rail node, add -e "
            "preflight_control_node_allowed=true" % name,
        )

    def _host(self) -> str:
        return str(self._vars["inventory_hostname"])

    def _value(self, name: str) -> t.Any:
        return _planned.variable(name, self._vars, self._templar)

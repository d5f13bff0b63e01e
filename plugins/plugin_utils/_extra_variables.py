# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of extra variables (``-e``): whether the collection has them, and whether their values have the right type.

Ansible accepts any name, so a misspelt variable of this collection would have no effect and no message.
"""

from __future__ import annotations

import difflib
import functools
import math
import re
import typing as t
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load
from ansible.module_utils.parsing.convert_bool import boolean

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError, raise_all
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.plan.layer_table import HOST_LAYERS
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import did_you_mean, nearest

# The variable that lists names that are not checked.
UNCHECKED = "railyard_unchecked_variables"
# What playbooks set with set_stats: AWX passes it to the next jobs of a workflow as extra variables.
ARTIFACTS = (
    "railyard_discover",
    "railyard_findings",
    "railyard_import",
    "railyard_plan",
    "railyard_plan_diff",
    "railyard_reboots",
    "railyard_render",
    "railyard_report",
    "railyard_verdict",
)
# Names of a role or of playbooks whose prefix others use too: AWX sets awx_job_id and the like.
_GENERAL = ("awx", "hosts", "site")


def _integer(value: t.Any) -> None:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError
    int(value)


def _number(value: t.Any) -> None:
    if isinstance(value, bool) or not math.isfinite(float(value)):
        raise ValueError  # a limit that is not a number would never be exceeded


_TYPES: dict[str, tuple[str, t.Callable[[t.Any], t.Any]]] = {
    "bool": ("a boolean", functools.partial(boolean, strict=True)),
    "int": ("an integer", _integer),
    "float": ("a number", _number),
}
# The maximum number of variables that an error lists.
_LISTED = 8
Specs = t.Mapping[str, t.Mapping[str, t.Any]]


class Known(t.NamedTuple):
    """The variables of the collection.

    :param specs: name -> its argument spec.
    :param prefixes: what the names of no other variables should begin with.
    """

    specs: Specs
    prefixes: tuple[str, ...]


@functools.lru_cache(maxsize=None)
def known(root: Path) -> Known:
    """Return the variables of all roles and playbooks of the collection in a directory."""
    specs: dict[str, t.Mapping[str, t.Any]] = {}
    names: set[str] = set()
    for path in (*root.glob("roles/*/meta/argument_specs.yml"), root / "playbooks/meta/argument_specs.yml"):
        entries = yaml_load(path.read_text(encoding="utf-8"))["argument_specs"]
        of_playbooks = path.parents[1].name == "playbooks"
        names.update(entries if of_playbooks else [path.parents[1].name])
        for entry in entries.values():
            options = entry.get("options") or {}
            specs.update(options)
            names.update(name.partition("_")[0] for name in options if of_playbooks and "_" in name)
    prefixes = tuple(name + "_" for name in sorted(names.difference(_GENERAL)))
    return Known(specs, prefixes)


def check(given: t.Mapping[str, t.Any], root: Path, unchecked: t.Any = None, others: t.Sequence[str] = ()) -> None:
    """Check the names and values of extra variables. Parameters: as for :func:`errors`.

    :raises RailyardError: for all misspelt, unknown and invalid ones.
    """
    raise_all(list(errors(given, root, unchecked, others).values()))


def errors(
    given: t.Mapping[str, t.Any], root: Path, unchecked: t.Any = None, others: t.Sequence[str] = ()
) -> dict[str, RailyardError]:
    """Return the errors of extra variables by name.

    :param root: the directory of the collection.
    :param unchecked: the value of :data:`UNCHECKED`, if it is not one of ``given``: a list of names, or names
        separated by commas.
    :param others: the paths of playbooks of the run outside of this collection. Names in their texts belong to them.
    """
    names = [str(name) for name in given if not str(name).startswith("ansible_")]
    if not names:
        return {}
    ours = known(root)
    removed = {variable: error for row in HOST_LAYERS for variable, error in row.removed().items()}
    listed = given.get(UNCHECKED) if unchecked is None else unchecked
    skipped = set(map(str, listed) if isinstance(listed, list) else re.split(r"[\s,]+", str(listed)))
    found = {}
    for name in names:
        error = None
        if name in ours.specs:
            error = _wrong_value(name, given[name], ours.specs[name])
        elif name in removed:
            error = removed[name]
        elif name not in (UNCHECKED, *ARTIFACTS, *skipped):
            near = _meant(name, root)
            if (near or _plain(name).startswith(ours.prefixes)) and not _mentioned(name, others):
                error = _unknown(name, near, ours)
        if error:
            found[name] = error
    return found


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


@functools.lru_cache(maxsize=None)
def _meant(name: str, root: Path) -> str | None:
    """Return the variable of which a name is a misspelling, whatever it begins with; None if it is another word.

    Variables of users, such as ``repo_dir`` beside ``report_dir``, are other words: they differ in length or in the
    first letter.
    """
    plain, specs = _plain(name), known(root).specs
    begun = max((each for each in specs if "_" in each and plain.startswith(each)), key=len, default=None)
    if begun:  # report_directory
        return begun
    for near in difflib.get_close_matches(plain, specs, n=3, cutoff=0.8):
        ratio = difflib.SequenceMatcher(None, plain, near).ratio()
        if abs(len(near) - len(plain)) <= max(1, len(plain) // 8) and (near[0] == plain[0] or ratio > 0.9):
            return near
    return None


def _mentioned(name: str, playbooks: t.Sequence[str]) -> bool:
    """Return whether a playbook contains a name as a word."""
    word = re.compile(r"\b%s\b" % re.escape(name))
    paths = [Path(each) for each in playbooks]
    return any(word.search(path.read_text(encoding="utf-8", errors="replace")) for path in paths if path.is_file())


def _unknown(name: str, near: str | None, ours: Known) -> RailyardError:
    prefix = max((each for each in ours.prefixes if _plain(name).startswith(each)), key=len, default="")
    similar = sorted(each for each in ours.specs if prefix and each.startswith(prefix))
    if not near:  # what follows the prefix, because all names with a long prefix are similar
        rest = nearest(_plain(name)[len(prefix) :], [each[len(prefix) :] for each in similar])
        near = prefix + rest if rest else None
    use = "correct the name" if near or not 0 < len(similar) <= _LISTED else "use %s" % " or ".join(similar)
    return RailyardError(
        "railyard.fabric has no variable %s%s" % (name, did_you_mean(near)),
        "-e %s" % name,
        "%s (docs/variables.md has all names), or add -e %s=%s if the variable is your own" % (use, UNCHECKED, name),
    )


def _wrong_value(name: str, value: t.Any, spec: t.Mapping[str, t.Any]) -> RailyardError | None:
    """Return the error of a value that has another type or is missing in the choices; None for a valid value.

    Templates and empty values are valid.
    """
    text = str(value)
    # values that are encrypted have another type
    if not isinstance(value, (str, int, float, list, dict)) or not text or "{{" in text or "{%" in text:
        return None
    what, convert = _TYPES.get(spec.get("type", ""), ("", None))
    try:
        if convert:
            convert(value)
    except (TypeError, ValueError):
        boolean_asked = spec["type"] == "bool"
        near = nearest(text, ("true", "false", "yes", "no")) if boolean_asked else None
        remedy = "use true or false" if boolean_asked else "use %s" % what
        return RailyardError("%s is not %s%s" % (text, what, did_you_mean(near)), "-e %s" % name, remedy)
    choices = [str(choice) for choice in spec.get("choices") or ()]
    if choices and spec["type"] == "str" and text not in choices:
        message = "%s is not a valid value%s" % (text, did_you_mean(nearest(text, choices)))
        return RailyardError(message, "-e %s" % name, "use one of %s" % ", ".join(choices))
    return None

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Comparison of values with their chart. Helm takes any key, and does not report keys that no template reads.

A key is known where the chart's ``values.yaml`` has it, or where its templates read it; below a mapping that a template
takes as a whole (labels, node selectors, resources) every key is.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import RailyardError
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.gpu import gpu_settings, gpu_spec
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.providers import device_plugins
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.object_options import Options
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.kubernetes.view.plan_view import (
    LABEL,
    Object,
    View,
)
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.model.provider_facts import facts_of
from ansible_collections.railyard.fabric.plugins.module_utils._fabric.text.name_syntax import did_you_mean, nearest

Values = t.Mapping[str, t.Any]

# chart -> key -> why it does nothing, and what does: keys that the chart or its documentation still has.
DEAD: dict[str, dict[str, tuple[str, str]]] = {
    "spiderpool": {
        "coordinator.detectGateway": (
            "SpiderCoordinator has no such field since Spiderpool 1.0",
            "set ipam.enableGatewayDetection",
        ),
        "coordinator.detectIPConflict": (
            "SpiderCoordinator has no such field since Spiderpool 1.0",
            "set ipam.enableIPConflictDetection",
        ),
        "global.tuneSysctlConfig": ("the chart reads it elsewhere", "set spiderpoolAgent.tuneSysctlConfig"),
        "ipam.spidersubnet": ("the chart reads it under another name since 0.9.5", "set ipam.spiderSubnet"),
    },
    "gpu-operator": {
        "driver.useOpenKernelModules": ("the chart has no such key since 25.3", "set driver.kernelModuleType: open"),
    },
}
# The annotation of pods that read what Helm makes again with each release.
RELEASE = LABEL + "release"
# What device plugins take as lists: a text in its place ends the plugin.
_SELECTORS = ("vendors", "deviceIDs", "drivers", "ifNames", "linkTypes")
_HOST = re.compile(r"(?:localhost|[\w-]+(?:\.[\w-]+)+|[\w.-]+:\d+)(?:/|\Z)")
_VERSION = re.compile(r"\A\s*>=\s*v?(\d+)\.(\d+)")


@dataclass(frozen=True)
class Chart:
    """A chart as its archive has it. ``parts`` are the charts in it, by the name under which they get their values;
    ``conditions`` say for some of them by which value they are left out.
    """

    name: str
    version: str
    kube: str = ""
    values: Values = field(default_factory=dict)
    templates: str = ""
    parts: t.Mapping[str, Chart] = field(default_factory=dict)
    conditions: t.Mapping[str, str] = field(default_factory=dict)
    definitions: t.Sequence[Object] = ()

    def too_old(self, server: tuple[int, int]) -> str:
        """What the chart asks of the server, where that is older; else nothing. Other terms are Helm's to read."""
        wants = _VERSION.match(self.kube)
        return "%s.%s" % wants.groups() if wants and server < (int(wants.group(1)), int(wants.group(2))) else ""


def merged(values: Values, over: Values) -> Object:
    """``values`` with those of ``over`` in their place, as Helm merges: mappings key by key, all else whole."""
    made = dict(values)
    for key, value in over.items():
        known = made.get(key)
        made[key] = merged(known, value) if isinstance(known, t.Mapping) and isinstance(value, t.Mapping) else value
    return made


def definitions(chart: Chart, values: Values) -> list[Object]:
    """The CustomResourceDefinitions of the chart and of those of its parts that these values do not leave out."""
    whole = merged(chart.values, values)
    found = list(chart.definitions)
    for name, part in chart.parts.items():
        condition = chart.conditions.get(name, "")
        if not condition or any(at(whole, each.strip()) for each in condition.split(",")):
            own = whole.get(name)
            found.extend(definitions(part, own if isinstance(own, t.Mapping) else {}))
    seen: dict[str, Object] = {}
    for each in found:
        seen.setdefault(each["metadata"]["name"], each)
    return list(seen.values())


def at(values: t.Any, path: str) -> t.Any:
    """The value at a path with dots, None without one."""
    for part in path.split("."):
        values = values.get(part) if isinstance(values, t.Mapping) else None
    return values


def mirrored(chart: Chart, registry: str) -> Object:
    """Values by which all of a chart's images come from ``registry``, under the paths that they have upstream."""
    made = _mirrored(chart.values, registry.rstrip("/"), False)
    for name, part in chart.parts.items():
        below = merged(mirrored(part, registry), made.get(name) or {})
        if below:
            made[name] = below
    return made


def _mirrored(values: Values, registry: str, images: bool) -> Object:
    made: Object = {}
    for key, value in values.items():
        if isinstance(value, t.Mapping):
            below = _mirrored(value, registry, images or key == "images")
            if below:
                made[key] = below
        elif isinstance(value, str) and value and _HOST.match(value):
            if key == "registry":
                made[key] = registry
            elif "/" in value and (images or key in ("repository", "image")):
                made[key] = relocated(value, registry)
    return made


def relocated(image: str, registry: str) -> str:
    """An image, or the path of one, in another registry. One that names no registry has only its path."""
    first, _slash, rest = image.partition("/")
    return "%s/%s" % (registry.rstrip("/"), rest if rest and _HOST.match(first) else image)


# -- what is wrong with values


class Mismatch(t.NamedTuple):
    """``fatal`` where the release would not be what was asked for."""

    key: str
    message: str
    remedy: str
    fatal: bool = True

    def error(self, chart: str) -> RailyardError:
        return RailyardError(self.message, "%s: values.%s" % (chart, self.key), self.remedy)


def mismatches(
    chart: Chart, values: Values, view: View | None = None, options: Options | None = None
) -> list[Mismatch]:
    """All that is wrong with values for this chart, and where they contradict the plan."""
    dead = DEAD.get(chart.name, {})
    found = [
        Mismatch(key, "does nothing: " + dead[key][0], dead[key][1]) for key in dead if at(values, key) is not None
    ]
    known_keys = {each.key for each in found}
    found += [each for each in _unknown(chart, chart, values, (), chart.values) if each.key not in known_keys]
    rules = _RULES.get(chart.name)
    if rules:
        found += rules(merged(chart.values, values), view, options)
    return found


def _unknown(top: Chart, chart: Chart, given: Values, path: tuple[str, ...], known: t.Any) -> t.Iterator[Mismatch]:
    for key, value in given.items():
        place = (*path, str(key))
        if not path and key in chart.parts:
            part = chart.parts[key]
            below = known.get(key) if isinstance(known, t.Mapping) else None
            if isinstance(value, t.Mapping):
                for each in _unknown(top, part, value, (), merged(part.values, below or {})):
                    yield each._replace(key="%s.%s" % (key, each.key))
            continue
        there = known.get(key) if isinstance(known, t.Mapping) else None
        if isinstance(known, t.Mapping) and key in known:
            inner = _mapping(there)
            if inner and not isinstance(value, t.Mapping) and value is not None:
                yield Mismatch(".".join(place), "is %s, and the chart has a mapping there" % _word(value), _keys(inner))
            elif isinstance(there, list) and not isinstance(value, (list, type(None))):
                yield Mismatch(".".join(place), "is %s, and the chart has a list there" % _word(value), "write a list")
            elif inner and isinstance(value, t.Mapping) and not _free(chart, place, inner):
                yield from _unknown(top, chart, value, place, inner)
        elif not _read(chart, place):
            near = nearest(str(key), [str(each) for each in known or ()])
            yield Mismatch(
                ".".join(place),
                "the chart %s %s has no such key%s" % (chart.name, chart.version, did_you_mean(near)),
                "leave it out, or write the key that the chart's values.yaml has",
            )


def _mapping(value: t.Any) -> t.Mapping[str, t.Any] | None:
    """The value, where it is a mapping with something in it."""
    return value if isinstance(value, t.Mapping) and value else None


def _word(value: t.Any) -> str:
    return "a mapping" if isinstance(value, t.Mapping) else "a list" if isinstance(value, list) else repr(value)


def _keys(known: Values) -> str:
    return "write a mapping with keys such as %s" % ", ".join(str(key) for key in list(known)[:3])


def _free(chart: Chart, path: tuple[str, ...], known: Values) -> bool:
    """Whether the keys of a mapping are the user's: a template writes it out as a whole, or they look like labels."""
    if any("/" in str(key) for key in known):
        return True
    whole = r"(?:toYaml|toJson|toPrettyJson|range\b[^}]*?|\"value\")\s*\(?\s*\$?\.Values\.%s(?![\w.-])"
    within = r"with\s+\$?\.Values\.%s\s*-?}}(?:(?!{{-?\s*end\b)[\s\S]){0,400}?(?:toYaml|range)[^}]*\s\."
    dotted = re.escape(".".join(path))
    return bool(re.search(whole % dotted, chart.templates) or re.search(within % dotted + r"(?!\w)", chart.templates))


def _read(chart: Chart, path: tuple[str, ...]) -> bool:
    """Whether a template reads the key, or takes something above it as a whole."""
    dotted = re.escape(".".join(path))
    if re.search(r"\.Values\.%s(?![\w-])" % dotted, chart.templates):
        return True
    known: t.Any = chart.values
    for depth in range(1, len(path)):
        known = known.get(path[depth - 1]) if isinstance(known, t.Mapping) else None
        if not _mapping(known) and _read(chart, path[:depth]):
            return True
    return False


def _spiderpool(values: Values, _view: View | None, _options: Options | None) -> list[Mismatch]:
    found = []
    plugin = "rdma.rdmaSharedDevicePlugin"
    entries = at(values, plugin + ".deviceConfig.configList")
    if at(values, plugin + ".install"):
        key = plugin + ".deviceConfig.configList"
        if not entries:
            found.append(
                Mismatch(key, "is empty, with which the plugin ends", "list a resource, or set install: false")
            )
        for number, entry in enumerate(entries if isinstance(entries, list) else ()):
            selectors = entry.get("selectors") if isinstance(entry, t.Mapping) else None
            place = "%s[%d].selectors" % (key, number)
            if not isinstance(selectors, t.Mapping) or not selectors:
                found.append(Mismatch(place, "selects no device, with which the plugin ends", "name ifNames"))
                continue
            for name, value in selectors.items():
                if name not in _SELECTORS:
                    near = did_you_mean(nearest(str(name), _SELECTORS))
                    message = "the plugin knows no selector %s%s" % (name, near)
                    found.append(Mismatch("%s.%s" % (place, name), message, "take one of %s" % ", ".join(_SELECTORS)))
                elif not isinstance(value, list):
                    message = "is %s, with which the plugin ends" % _word(value)
                    found.append(Mismatch("%s.%s" % (place, name), message, "write a list"))
    if at(values, "sriov.install") and at(values, "sriov.operatorConfig.disableDrain"):
        message = "nodes are changed, and rebooted, with their pods on them"
        remedy = "set it to false where there is more than one node"
        found.append(Mismatch("sriov.operatorConfig.disableDrain", message, remedy, False))
    replicas = at(values, "spiderpoolController.replicas")
    if at(values, "spiderpoolController.podResourceInject.enabled") and replicas == 1:
        message = "the injecting webhook fails closed: while its one pod restarts, no pod can be made"
        found.append(Mismatch("spiderpoolController.replicas", message, "set it to 2 or more", False))
    return found


def _gpu_operator(values: Values, view: View | None, options: Options | None) -> list[Mismatch]:
    if options is None:
        return []
    containers = bool(at(values, "driver.enabled"))
    wanted = gpu_spec.wanted(view, options)
    if not wanted.gpu_driver:
        driver = gpu_settings.CONTAINER if containers else gpu_settings.HOST
        wanted = wanted._replace(gpu_driver=driver, gdrcopy=wanted.gdrcopy and containers)
    found = [Mismatch(*each) for each in gpu_settings.disagreements(values, wanted)]
    if view is not None and facts_of(view.provider).node_features and at(values, "nfd.enabled"):
        message = "NVIDIA's network operator brings Node Feature Discovery too, and two of them fight over labels"
        found.append(Mismatch("nfd.enabled", message, "set it to false", False))
    return found


_RULES: dict[str, t.Callable[[Values, View | None, Options | None], list[Mismatch]]] = {
    "spiderpool": _spiderpool,
    "gpu-operator": _gpu_operator,
}


def restarting(chart: Chart, values: Values) -> Object:
    """The values with what restarts pods that read a file only once: the digest of the device plugin's list in these
    values, and for the controller that of the whole release where the chart makes its
    certificate, which it makes again each time that it is rendered.
    """
    if chart.name != "spiderpool":
        return dict(values)
    made, whole = dict(values), merged(chart.values, values)
    plugin = at(whole, "rdma.rdmaSharedDevicePlugin")
    if isinstance(plugin, t.Mapping) and plugin.get("install"):
        digest = device_plugins.digest(plugin.get("deviceConfig"))
        made = merged(made, {"rdma": {"rdmaSharedDevicePlugin": {"podAnnotations": {device_plugins.CONFIG: digest}}}})
    if at(whole, "spiderpoolController.tls.method") == "auto":
        # Helm renders for another release or other values alone: then the certificate is another one too. Pods that go
        # on would serve the old one until the kubelet brings them the new, and their webhooks fail closed meanwhile.
        plain = merged(made, {"spiderpoolController": {"podAnnotations": {RELEASE: ""}}})
        digest = device_plugins.digest([chart.version, plain])
        made = merged(made, {"spiderpoolController": {"podAnnotations": {RELEASE: digest}}})
    return made

# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values of Helm charts: defaults, images of another registry, and values that contradict the chart or the plan."""

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

# Chart -> key without effect, which the chart or its documentation still has -> reason, remedy.
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
        "driver.useOpenKernelModules": ("the chart has no such key since 25.3", "set driver.kernelModuleType: open")
    },
}
# Annotation of pods that read a file which Helm creates again with each release.
RELEASE = LABEL + "release"
# Keys of device plugins that must be lists: with a string, the plugin exits.
_SELECTORS = ("vendors", "deviceIDs", "drivers", "ifNames", "linkTypes")
_HOST = re.compile(r"(?:localhost|[\w-]+(?:\.[\w-]+)+|[\w.-]+:\d+)(?:/|\Z)")
_VERSION = re.compile(r"\A\s*>=\s*v?(\d+)\.(\d+)")


@dataclass(frozen=True)
class Chart:
    """A Helm chart. ``parts``: name of a subchart's values -> the subchart; ``conditions``: name -> value that enables
    it."""

    name: str
    version: str
    kube: str = ""
    values: Values = field(default_factory=dict)
    parts: t.Mapping[str, Chart] = field(default_factory=dict)
    conditions: t.Mapping[str, str] = field(default_factory=dict)
    definitions: t.Sequence[Object] = ()

    def too_old(self, server: tuple[int, int]) -> str:
        """Return the server version that the chart requires if ``server`` is older, else an empty string.

        Other constraints are checked by Helm.
        """
        required = _VERSION.match(self.kube)
        return (
            "%s.%s" % required.groups()
            if required and server < (int(required.group(1)), int(required.group(2)))
            else ""
        )


def merged(values: Values, over: Values) -> Object:
    """Return ``values`` overridden by ``over``, as Helm does: mappings are merged key by key, other values are
    replaced."""
    result = dict(values)
    for key, value in over.items():
        current = result.get(key)
        result[key] = (
            merged(current, value) if isinstance(current, t.Mapping) and isinstance(value, t.Mapping) else value
        )
    return result


def definitions(chart: Chart, values: Values) -> list[Object]:
    """Return the CustomResourceDefinitions of the chart and of the subcharts that these values enable."""
    effective = merged(chart.values, values)
    found = list(chart.definitions)
    for name, part in chart.parts.items():
        condition = chart.conditions.get(name, "")
        if not condition or any(at(effective, each.strip()) for each in condition.split(",")):
            part_values = effective.get(name)
            found.extend(definitions(part, part_values if isinstance(part_values, t.Mapping) else {}))
    by_name: dict[str, Object] = {}
    for each in found:
        by_name.setdefault(each["metadata"]["name"], each)
    return list(by_name.values())


def at(values: t.Any, path: str) -> t.Any:
    """Return the value at a path with dots; None without one."""
    for part in path.split("."):
        values = values.get(part) if isinstance(values, t.Mapping) else None
    return values


def mirrored(chart: Chart, registry: str) -> Object:
    """Return values by which all images of a chart come from ``registry``, under their upstream paths."""
    result = _mirrored(chart.values, registry.rstrip("/"), False)
    for name, part in chart.parts.items():
        part_values = merged(mirrored(part, registry), result.get(name) or {})
        if part_values:
            result[name] = part_values
    return result


def _mirrored(values: Values, registry: str, images: bool) -> Object:
    result: Object = {}
    for key, value in values.items():
        if isinstance(value, t.Mapping):
            inner = _mirrored(value, registry, images or key == "images")
            if inner:
                result[key] = inner
        elif isinstance(value, str) and value and _HOST.match(value):
            if key == "registry":
                result[key] = registry
            elif "/" in value and (images or key in ("repository", "image")):
                result[key] = relocated(value, registry)
    return result


def relocated(image: str, registry: str) -> str:
    """Return an image, or the path of one, in another registry. An image without a registry is only a path."""
    first, _slash, rest = image.partition("/")
    return "%s/%s" % (registry.rstrip("/"), rest if rest and _HOST.match(first) else image)


# -- problems of values


class Mismatch(t.NamedTuple):
    """A problem of a value. ``fatal``: the release would not be as requested."""

    key: str
    message: str
    remedy: str
    fatal: bool = True

    def error(self, chart: str) -> RailyardError:
        """Return the problem as an error about a value of the chart."""
        return RailyardError(self.message, "%s: values.%s" % (chart, self.key), self.remedy)


def mismatches(
    chart: Chart, values: Values, view: View | None = None, options: Options | None = None
) -> list[Mismatch]:
    """Return all problems of values with this chart, and contradictions to the plan."""
    dead = DEAD.get(chart.name, {})
    found = [
        Mismatch(key, "does nothing: " + dead[key][0], dead[key][1]) for key in dead if at(values, key) is not None
    ]
    found += _wrong_types(values, _values_of(chart))
    rules = _RULES.get(chart.name)
    if rules:
        found += rules(merged(chart.values, values), view, options)
    return found


def _wrong_types(given: Values, known: Values, path: tuple[str, ...] = ()) -> t.Iterator[Mismatch]:
    """Yield the values that are not mappings or lists where the chart has one. ``known``: its values at ``path``."""
    for key, value in given.items():
        place, default = (*path, str(key)), known.get(key)
        if isinstance(default, t.Mapping) and default:
            if isinstance(value, t.Mapping):
                yield from _wrong_types(value, default, place)
            elif value is not None:
                message = "is %s, and the chart has a mapping there" % _type_name(value)
                remedy = "write a mapping with keys such as %s" % ", ".join(str(each) for each in list(default)[:3])
                yield Mismatch(".".join(place), message, remedy)
        elif isinstance(default, list) and not isinstance(value, (list, type(None))):
            message = "is %s, and the chart has a list there" % _type_name(value)
            yield Mismatch(".".join(place), message, "write a list")


def _values_of(chart: Chart) -> Object:
    """Return the values of the chart with those of its subcharts."""
    return merged({name: _values_of(part) for name, part in chart.parts.items()}, chart.values)


def _type_name(value: t.Any) -> str:
    return "a mapping" if isinstance(value, t.Mapping) else "a list" if isinstance(value, list) else repr(value)


def _spiderpool(values: Values, _view: View | None, _options: Options | None) -> list[Mismatch]:
    found = []
    plugin = "rdma.rdmaSharedDevicePlugin"
    entries = at(values, plugin + ".deviceConfig.configList")
    if at(values, plugin + ".install"):
        key = plugin + ".deviceConfig.configList"
        if not entries:
            found.append(Mismatch(key, "is empty, so the plugin exits", "list a resource, or set install: false"))
        for number, entry in enumerate(entries if isinstance(entries, list) else ()):
            selectors = entry.get("selectors") if isinstance(entry, t.Mapping) else None
            place = "%s[%d].selectors" % (key, number)
            if not isinstance(selectors, t.Mapping) or not selectors:
                found.append(Mismatch(place, "selects no device, so the plugin exits", "name ifNames"))
                continue
            for name, value in selectors.items():
                if name not in _SELECTORS:
                    near = did_you_mean(nearest(str(name), _SELECTORS))
                    message = "the plugin has no selector %s%s" % (name, near)
                    found.append(Mismatch("%s.%s" % (place, name), message, "use one of %s" % ", ".join(_SELECTORS)))
                elif not isinstance(value, list):
                    message = "is %s, so the plugin exits" % _type_name(value)
                    found.append(Mismatch("%s.%s" % (place, name), message, "write a list"))
    if at(values, "sriov.install") and at(values, "sriov.operatorConfig.disableDrain"):
        message = "nodes are changed and rebooted without draining them"
        remedy = "set it to false if the cluster has more than one node"
        found.append(Mismatch("sriov.operatorConfig.disableDrain", message, remedy, False))
    replicas = at(values, "spiderpoolController.replicas")
    if at(values, "spiderpoolController.podResourceInject.enabled") and replicas == 1:
        message = "the injecting webhook fails closed: while its only pod restarts, no pod can be created"
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
        message = "NVIDIA's network operator also installs Node Feature Discovery, and both would write the same labels"
        found.append(Mismatch("nfd.enabled", message, "set it to false", False))
    return found


_RULES: dict[str, t.Callable[[Values, View | None, Options | None], list[Mismatch]]] = {
    "spiderpool": _spiderpool,
    "gpu-operator": _gpu_operator,
}


def restarting(chart: Chart, values: Values) -> Object:
    """Return the values with annotations that restart pods which read a file only once.

    The annotation is the digest of the device plugin's list in these values. For the controller it is the digest of the
    whole release if the chart creates its certificate, which changes with each rendering.
    """
    if chart.name != "spiderpool":
        return dict(values)
    result, effective = dict(values), merged(chart.values, values)
    plugin = at(effective, "rdma.rdmaSharedDevicePlugin")
    if isinstance(plugin, t.Mapping) and plugin.get("install"):
        digest = device_plugins.digest(plugin.get("deviceConfig"))
        result = merged(
            result, {"rdma": {"rdmaSharedDevicePlugin": {"podAnnotations": {device_plugins.CONFIG: digest}}}}
        )
    if at(effective, "spiderpoolController.tls.method") == "auto":
        # Helm renders only for another release or other values, and then the certificate changes too. Running pods
        # would serve the old one until the kubelet updates the file, and their webhooks fail closed until then.
        without_digest = merged(result, {"spiderpoolController": {"podAnnotations": {RELEASE: ""}}})
        digest = device_plugins.digest([chart.version, without_digest])
        result = merged(result, {"spiderpoolController": {"podAnnotations": {RELEASE: digest}}})
    return result

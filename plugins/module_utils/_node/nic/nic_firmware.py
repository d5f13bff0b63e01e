# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Private to the railyard.fabric collection: it may change without notice.

"""Firmware parameters of NVIDIA NICs: link type, SR-IOV, VF count and any other by name.

A card has three values of each: the factory default, the current one, and that of the next boot. A desired value that
differs from that of the next boot is set; one that differs from the current one needs a reboot or a reset.
"""

from __future__ import annotations

import functools
import json
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common import firmware_parameters
from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change, batch
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    RailyardError,
    Refused,
    Unsupported,
    raise_all,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Layer, State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic import firmware_tool
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.firmware_card import (
    BLUEFIELD,
    TWO_PORTS_A_FUNCTION,
    Card,
    functions_elsewhere,
    is_staged,
    vf_holders_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.firmware_observed import (
    MODES,
    CardReader,
    Drivers,
    firmware_of_netdevs,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.firmware_spec import (
    LINK_TYPE,
    LINK_TYPES,
    SPEC,
    ParameterSpec,
    is_value,
    parameter_specs,
    port_elements,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.firmware_tool import Parameter, Tool
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import port_reference
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath

# Removed by a boot, which makes a reset unnecessary.
RESET_DIR = "/run/railyard/firmware"


Specs = t.Mapping[str, ParameterSpec]
# How many VFs are named in a refusal.
NAMED = 8


class Firmware(Subsystem):
    """The firmware of a node's NICs.

    :param ports: each with ``pci`` and a spec: ``link_type``, ``link_types``, ``sriov_en``, ``num_of_vfs``,
        ``parameters``, ``version``. None: all cards; a card that does not answer is left out with a warning.
    :param tool: see :class:`.firmware_tool.Tool`.
    :param reset: ``never`` or ``allowed``.
    :param timeout: seconds that a card may take to return after a reset.
    :param never_reset: PCI addresses whose cards are never reset.
    :param management, holders, drivers: for tests; by default observed.
    """

    def __init__(
        self,
        system: System,
        ports: t.Sequence[t.Mapping[str, t.Any]] | None,
        tool: str = "auto",
        reset: str = "never",
        timeout: float = 120.0,
        management: ManagementPath | None = None,
        holders: t.Callable[[System, t.Sequence[str]], dict[str, list[str]]] = vf_holders_of,
        never_reset: t.Sequence[str] = (),
        drivers: Drivers = firmware_of_netdevs,
    ) -> None:
        super().__init__()
        self._system = system
        self._reset = reset == "allowed"
        self._never_reset = frozenset(each.lower() for each in never_reset)
        self._timeout = timeout
        self._management = management
        self._holders = holders
        self._every = ports is None
        self._staged: set[tuple[str, str]] = set()
        self._restarted: set[str] = set()
        # parameters that the card hides: the next run sets them if a reset makes them visible
        self._unseen: set[tuple[str, str]] = set()
        self._by_port: list[tuple[str, Card]] = []
        self._cards: dict[str, Card] = {}
        if ports is None:
            ports = [{"pci": each} for each in pci_functions.network_functions(system, pci_functions.NVIDIA_NETWORKING)]
        self._add_ports(ports)
        self._tool = Tool(system, tool)
        self._reader = CardReader(system, self._tool, drivers)

    @classmethod
    def from_options(cls, options: t.Mapping[str, t.Any], system: System) -> Firmware:
        return cls(
            system,
            options["ports"],
            options["tool"],
            options["reset"],
            options["timeout"],
            never_reset=options["never_reset"],
        )

    # -- desired state ------------------------------------------------------------------------------------------------

    def _add_ports(self, ports: t.Sequence[t.Mapping[str, t.Any]]) -> None:
        errors: list[RailyardError] = []
        for number, port in enumerate(ports):
            place = "ports[%d]" % number
            reference = port_reference.read(port, place, errors)
            if reference.pci is None:
                continue
            try:
                function = port_reference.physical_function_of(self._system, reference)
            except RailyardError as error:
                errors.append(error)
                continue
            card = self._card(function)
            self._by_port.append((function, card))
            try:
                specs = list(parameter_specs(port, place, card.ports))
            except RailyardError as error:
                errors += error.errors
                continue
            if port.get("version") is not None:
                version = (str(port["version"]), place + ".version")
                card.version = card.version or version
                if card.version[0] != version[0]:
                    errors.append(card.conflict("the firmware", *version, *card.version))
            for name, spec in specs:
                other = card.specs.setdefault(name, spec)
                if other is not spec and not firmware_tool.same(firmware_tool.plain(other.shown), spec.shown):
                    errors.append(card.conflict(name, spec.shown, spec.place, other.shown, other.place))
        raise_all(errors)

    def _card(self, function: str) -> Card:
        functions = pci_functions.slot_functions(self._system, function) or [function]
        device = functions[0]
        if device not in self._cards:
            model = pci_functions.hexadecimal(self._system, device, "device")
            ports = 2 if model in TWO_PORTS_A_FUNCTION else len(functions)
            self._cards[device] = Card(device, functions, ports, model in BLUEFIELD)
        return self._cards[device]

    # -- observed state -----------------------------------------------------------------------------------------------

    def observe(self) -> State:
        results, failed = self._reader.query(list(self._cards.values()))
        if not self._every or not results:
            raise_all(failed)
        self.warnings += ["left out: %s" % error for error in failed]
        rows = [
            self._reader.port(function, card, results[card.device].parameters)
            for function, card in self._by_port
            if card.device in results
        ]
        cards = {device: self._reader.card(self._cards[device], result) for device, result in results.items()}
        return {"ports": rows, "cards": cards}

    # -- changes ------------------------------------------------------------------------------------------------------

    def changes(self, state: State) -> list[Change]:
        errors: list[RailyardError] = []
        changes: list[Change] = []
        for card, parameters in self._with_parameters(state):
            staged: dict[str, ParameterSpec] = {}
            for name, spec in card.specs.items():
                if name not in parameters:
                    error = self._missing_parameter(card, name, spec, parameters)
                    errors += [error] if error else []
                elif str(parameters[name]["next"]).startswith("Array["):
                    elements = str(parameters[name]["next"]).replace("Array", name)
                    remedy = "name its elements, as in %s[0] or %s" % (name, elements)
                    errors.append(RailyardError("%s is an array on %s" % (name, card.device), spec.place, remedy))
                elif not is_value(parameters[name]["next"], spec) and (card.device, name) not in self._unseen:
                    if parameters[name]["read_only"]:
                        message = "%s is read-only on %s: %s" % (name, card.device, parameters[name]["next"])
                        remedy = "leave it out, or ask the card's vendor for firmware that allows it"
                        errors.append(Unsupported(message, spec.place, remedy))
                    staged[name] = spec
            resets = self._must_reset(card, parameters, staged)
            if staged or resets:
                errors += self._refusals(card, resets)
            changes += self._staging(card, parameters, staged)
            if resets:
                level = "level %s" % firmware_tool.RESET_LEVEL
                changes.append(Change(card.device, "reset", None, level, functools.partial(self._do_reset, card)))
        raise_all(errors)
        return changes

    def _with_parameters(self, state: State) -> list[tuple[Card, dict[str, Parameter]]]:
        """Return each card with its observed parameters."""
        observed_cards = state["cards"]
        return [
            (card, observed_cards[device]["parameters"])
            for device, card in self._cards.items()
            if device in observed_cards
        ]

    def _missing_parameter(
        self, card: Card, name: str, spec: ParameterSpec, parameters: t.Mapping[str, Parameter]
    ) -> RailyardError | None:
        port = LINK_TYPE.match(name)
        if not port:
            others = port_elements(name, card.ports)
            if spec.every_port and (name != others[0] or any(other in parameters for other in others)):
                return None  # covers the existing ports; one error is enough
            if self._hidden(card, name, parameters):
                self._unseen.add((card.device, name))
                return None
            guard = parameters.get(firmware_parameters.ADVANCED)
            remedy = "run '%s -d %s -e q' to list the parameters" % (self._tool.path, card.device)
            if name in firmware_parameters.GUARDED and guard and not firmware_tool.same(guard["current"], 1):
                remedy = "set %s: true too, without which the card hides it" % firmware_parameters.ADVANCED
            return Unsupported("%s does not have the parameter %s" % (card.device, name), spec.place, remedy)
        if spec.every_port and any(LINK_TYPE.match(other) for other in parameters):
            return None  # 'link_type' covers the existing ports
        port_index = int(port.group(1)) - 1
        layer = self._reader.link_layer(card.functions[port_index]) if port_index < len(card.functions) else None
        if spec.every_port and port_index > 0:
            return None  # one error is enough
        if layer and LINK_TYPES[layer] == spec.shown:
            return None  # fixed to the desired type
        reason = "its link type is fixed%s (not a VPI card)" % (" to %s" % layer if layer else "")
        if any(LINK_TYPE.match(other) for other in parameters):
            reason = "the card does not have port %s" % port.group(1)
        return Unsupported(
            "%s does not have the parameter %s: %s" % (card.device, name, reason),
            spec.place,
            "leave the link type out, or use a card that supports both types",
        )

    @staticmethod
    def _hidden(card: Card, name: str, parameters: t.Mapping[str, Parameter]) -> bool:
        """Return whether the card may hide a parameter until the advanced settings are in force."""
        spec, guard = card.specs.get(firmware_parameters.ADVANCED), parameters.get(firmware_parameters.ADVANCED)
        if name in parameters or spec is None or guard is None or spec.argument() != "1":
            return False
        return LINK_TYPE.match(name) is None and not firmware_tool.same(guard["current"], 1)

    def _must_reset(self, card: Card, parameters: t.Mapping[str, Parameter], staged: Specs) -> bool:
        if not self._reset or card.device in self._restarted:
            return False
        if not self._never_reset.isdisjoint(pci_functions.card_functions(self._system, card.device)):
            return False
        waiting = self._waiting(card, parameters, staged)
        if waiting and card.bluefield:
            warning = (
                "%s is a BlueField, which is not reset from the host: a reset restarts its Arm cores and may change its"
                " mode. Its values take effect after a reboot." % card.device
            )
            self.warnings += [] if warning in self.warnings else [warning]
            return False
        return bool(waiting) and waiting != self._tried(card)

    def _waiting(self, card: Card, parameters: t.Mapping[str, Parameter], staged: t.Iterable[str]) -> dict[str, str]:
        """Return the desired values that are staged, or are about to be, and not in force: name -> value."""
        found = {}
        for name, spec in card.specs.items():
            if name not in parameters or (card.device, name) in self._unseen:
                continue
            current = parameters[name]["current"]
            unknown = current is None and (name in staged or (card.device, name) in self._staged)
            if unknown or (current is not None and not is_value(current, spec)):
                found[name] = spec.argument()
        return found

    def _tried(self, card: Card) -> dict[str, str] | None:
        """Return the values that a reset since boot did not activate, so another reset is useless; None if none."""
        try:
            return t.cast("dict[str, str]", json.loads(self._system.read(self._record(card)) or "null"))
        except ValueError:
            return None

    def _record(self, card: Card) -> str:
        return "%s/%s.json" % (RESET_DIR, card.device)

    def _refusals(self, card: Card, resets: bool) -> list[RailyardError]:
        management = self._management = self._management or ManagementPath.observe(self._system)
        functions = pci_functions.card_functions(self._system, card.device)
        place = self._place(card)
        for function in functions:
            why = management.why_card(function)
            if why:
                message = "the card %s is not changed: %s" % (card.device, why)
                return [Refused(message, place, "set this card by hand, or connect and route over another card")]
        if not resets:
            return []
        errors: list[RailyardError] = []
        if self._tool.reset_program() is None:
            errors.append(self._tool.no_reset_program())
        for function in functions:
            vfs = pci_functions.virtual_functions(self._system, function)
            if vfs:
                holders = self._holders(self._system, vfs)
                named = ["%s (%s)" % (vf, "; ".join(holders[vf])) if holders[vf] else vf for vf in vfs[:NAMED]]
                named += ["%d more" % (len(vfs) - NAMED)] if len(vfs) > NAMED else []
                message = "%s cannot be reset: %s has VFs: %s" % (card.device, function, ", ".join(named))
                remedy = "remove the VFs first (sriov_vfs with count: 0), or use reset: never and reboot"
                errors.append(Refused(message, place, remedy))
        for function, why in functions_elsewhere(self._system, functions).items():
            message = "%s cannot be reset: of %s, %s" % (card.device, function, why)
            errors.append(Refused(message, place, "stop the holder, or use reset: never and reboot"))
        return errors

    def _place(self, card: Card) -> str:
        port_index = next(number for number, (_function, each) in enumerate(self._by_port) if each is card)
        return "ports[%d].pci" % port_index

    def _staging(self, card: Card, parameters: t.Mapping[str, Parameter], staged: Specs) -> list[Change]:
        """Return one change per parameter; all are set in one call, because the tool checks its rules against all."""

        def act() -> None:
            self._tool.set(card.device, {name: spec.argument() for name, spec in staged.items()})
            self._staged.update((card.device, name) for name in staged)

        rows = [(card.device, name, parameters.get(name, {}).get("next"), spec.shown) for name, spec in staged.items()]
        return batch(rows, act)

    def _do_reset(self, card: Card) -> None:
        who = "the reset of the card %s" % card.device
        with boot_lock.turn(self._system, who, boot_lock.SECONDS, boot_lock.DEVICES):
            # checked again, because a pod may have started since
            raise_all(self._refusals(card, True))
            self._reset_and_wait(card)
        after = self._tool.query(card.device, card.names()).parameters
        remaining = self._waiting(card, after, ())
        if remaining:
            text = json.dumps(remaining, sort_keys=True) + "\n"
            self._system.write_file(self._record(card), text)
        elif self._system.exists(self._record(card)):
            self._system.remove_file(self._record(card))

    def _reset_and_wait(self, card: Card) -> None:
        functions = pci_functions.card_functions(self._system, card.device)
        drivers = {each: self._system.link_name(pci_functions.attribute(each, "driver")) for each in functions}
        self._tool.reset(card.device)
        self._restarted.add(card.device)
        deadline = time.monotonic() + self._timeout
        while any(
            self._system.link_name(pci_functions.attribute(each, "driver")) != drivers[each] for each in functions
        ):
            if time.monotonic() > deadline:
                raise RailyardError(
                    "did not return with its driver within %g s after the reset" % self._timeout,
                    card.device,
                    "see the kernel's messages (dmesg), and reboot the node",
                )
            time.sleep(0.2)

    # -- reboots ------------------------------------------------------------------------------------------------------

    def outcome(self, state: State, pending: t.Sequence[Change]) -> dict[str, t.Any]:
        """Return ``reboot_required`` and ``reboot_reasons`` (each parameter whose desired value is not in force), and
        ``firmware_differs``.
        """
        expected = {(change.subject, change.attribute) for change in pending}
        reasons: list[str] = []
        for card, parameters in self._with_parameters(state):
            if (card.device, "reset") in expected:
                continue
            staged = [name for subject, name in expected if subject == card.device]
            wanted = dict.fromkeys(self._waiting(card, parameters, staged))
            if not card.specs:
                wanted = {name: None for name, row in parameters.items() if is_staged(row)}
            for name in wanted:
                row = parameters[name]
                later = card.specs[name].shown if name in card.specs else row["next"]
                now = "unknown" if row["current"] is None else row["current"]
                tried = (
                    ", also after a reset of the card" if card.device in self._restarted or self._tried(card) else ""
                )
                reasons.append("%s: %s is %s now, %s at the next boot%s" % (card.device, name, now, later, tried))
            reasons += [
                "%s: %s is hidden until %s is in force; the run after the reboot sets it"
                % (card.device, name, firmware_parameters.ADVANCED)
                for name in card.specs
                if self._hidden(card, name, parameters)
            ]
            reasons += [
                "%s: %s is visible now that %s is in force; the next run sets it"
                % (device, name, firmware_parameters.ADVANCED)
                for device, name in sorted(self._unseen)
                if device == card.device and name in parameters
            ]
            if wanted and state["cards"][card.device]["mode"] == MODES[0]:
                self.warnings.append(
                    "%s is a BlueField in DPU mode: a reboot of the host does not restart its firmware. Remedy:"
                    " power-cycle the server." % card.device
                )
            self._check_total(card, parameters)
        return {
            "reboot_required": bool(reasons),
            "reboot_reasons": reasons,
            "firmware_differs": self._other_versions(state),
        }

    def _other_versions(self, state: State) -> list[dict[str, t.Any]]:
        """Return the cards whose firmware is not the desired one, and warn. This module does not burn firmware."""
        found = []
        for card in self._cards.values():
            version = state["cards"][card.device]["version"] if card.version else None
            if card.version and version != card.version[0]:
                found.append({"card": card.device, "wanted": card.version[0], "version": version})
                self.warnings.append(
                    "%s: the firmware is %s, not %s (%s). Remedy: burn it with the vendor's tool (mstflint or"
                    " mlxfwmanager), or plan the other version."
                    % (card.device, version or "not reported by a driver", *card.version)
                )
        return found

    def _check_total(self, card: Card, parameters: t.Mapping[str, Parameter]) -> None:
        """Warn if NUM_OF_VFS differs from the kernel's count: it is not used while PF_NUM_OF_VF_VALID is set."""
        count, enabled = (parameters.get(name, {}).get("current") for name in ("NUM_OF_VFS", "SRIOV_EN"))
        total = pci_functions.number(self._system, card.functions[0], "sriov_totalvfs")
        if enabled and isinstance(count, int) and total not in (None, count):
            self.warnings.append(
                "%s: NUM_OF_VFS is %d, but the kernel allows %s VFs; check the parameters PF_NUM_OF_VF_VALID and "
                "PF_NUM_OF_VF" % (card.device, count, total)
            )


LAYER = Layer(SPEC, Firmware.from_options, required_if=[("state", "present", ["ports"])])

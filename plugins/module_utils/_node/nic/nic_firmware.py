# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Firmware parameters of NVIDIA NICs: link type, SR-IOV, VF count and any other by name.

A card has three values of each: the factory default, the current one, and that of the next boot. A desired value that
differs from that of the next boot is set; one that differs from the current one needs a reboot or a reset.
"""

from __future__ import annotations

import functools
import json
import time
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils._common.changes import Change, batch
from ansible_collections.railyard.fabric.plugins.module_utils._common.errors import (
    RailyardError,
    Refused,
    Unsupported,
    collected,
    raise_all,
)
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.nvidia.firmware import FIRMWARE
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol import vendor_firmware
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.protocol.vendor_firmware import (
    Parameter,
    VendorFirmware,
)
from ansible_collections.railyard.fabric.plugins.module_utils._nic_vendors.registry import nic_vendors
from ansible_collections.railyard.fabric.plugins.module_utils._node.core import boot_lock
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.subsystem import Layer, State, Subsystem
from ansible_collections.railyard.fabric.plugins.module_utils._node.core.system import System
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.firmware_card import (
    Card,
    functions_elsewhere,
    is_staged,
    vf_holders_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.firmware_observed import (
    CardReader,
    Drivers,
    firmware_of_netdevs,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.nic.firmware_spec import (
    SPEC,
    ParameterSpec,
    is_value,
    parameter_specs,
    port_elements,
)
from ansible_collections.railyard.fabric.plugins.module_utils._node.readers import pci_functions
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety import port_reference
from ansible_collections.railyard.fabric.plugins.module_utils._node.safety.management_path import ManagementPath

# Removed by a boot, which makes a reset unnecessary.
RESET_DIR = "/run/railyard/firmware"
Specs = t.Mapping[str, ParameterSpec]
# VFs -> the holders of each
Holders = t.Callable[[System, t.Sequence[str]], t.Dict[str, t.List[str]]]
# How many VFs are named in a refusal.
NAMED = 8


class Observers(t.NamedTuple):
    """What is observed beside the cards, replaced in tests. ``management``: None: observed when it is needed."""

    management: ManagementPath | None = None
    holders: Holders = vf_holders_of
    drivers: Drivers = firmware_of_netdevs


class Firmware(Subsystem):
    """The firmware of a node's NICs of one vendor. See the documentation of the module mlx_linktype for the options.

    Without ``ports``, it observes all cards; a card that does not answer is left out with a warning.
    """

    def __init__(
        self,
        options: t.Mapping[str, t.Any],
        system: System,
        vendor: VendorFirmware,
        observers: Observers | None = None,
    ) -> None:
        super().__init__()
        self._system = system
        self._vendor = vendor
        self._reset = options.get("reset") == "allowed"
        self._never_reset = frozenset(each.lower() for each in options.get("never_reset", ()))
        self._timeout: float = options.get("timeout", 120.0)
        self._management, self._holders, drivers = observers or Observers()
        ports: t.Sequence[t.Mapping[str, t.Any]] | None = options["ports"]
        self._every = ports is None
        self._staged: set[tuple[str, str]] = set()
        self._restarted: set[str] = set()
        # parameters that the card hides: the next run sets them if a reset makes them visible
        self._unseen: set[tuple[str, str]] = set()
        self._by_port: list[tuple[str, Card]] = []
        self._cards: dict[str, Card] = {}
        if ports is None:
            ports = [{"pci": each} for each in pci_functions.network_functions(system, vendor.pci_vendor)]
        self._add_ports(ports)
        self._tool = vendor.tool(system, options.get("tool", "auto"))
        self._reader = CardReader(system, self._tool, drivers)

    @classmethod
    def from_options(cls, options: t.Mapping[str, t.Any], system: System) -> Firmware:
        """Return the firmware of NVIDIA's cards, for the module mlx_linktype."""
        return cls(options, system, FIRMWARE)

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
            pci_vendor = pci_functions.hexadecimal(self._system, function, "vendor")
            # For NICs without a vendor in _nic_vendors, the tool reports the error.
            has_vendor = nic_vendors.of_function(self._system, function).rdma_module
            if has_vendor and pci_vendor != self._vendor.pci_vendor:
                message = "%s is a NIC of the PCI vendor %s, whose parameters %s does not set" % (
                    function,
                    pci_vendor,
                    self._vendor.parameters.program,
                )
                errors.append(RailyardError(message, place, "remove firmware, and use the tool of the NIC's vendor"))
                continue
            card = self._card(function)
            self._by_port.append((function, card))
            try:
                specs = list(parameter_specs(port, place, card.ports, self._vendor.parameters))
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
                if other is not spec and not vendor_firmware.same(vendor_firmware.plain(other.shown), spec.shown):
                    errors.append(card.conflict(name, spec.shown, spec.place, other.shown, other.place))
        raise_all(errors)

    def _card(self, function: str) -> Card:
        functions = pci_functions.slot_functions(self._system, function) or [function]
        device = functions[0]
        if device not in self._cards:
            model = pci_functions.hexadecimal(self._system, device, "device")
            self._cards[device] = Card(device, functions, model, self._vendor)
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
                level = "level %s" % self._tool.reset_level
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
        known = card.vendor.parameters
        port = known.port_of(name)
        if port is None:
            others = port_elements(name, card.ports)
            if spec.every_port and (name != others[0] or any(other in parameters for other in others)):
                return None  # covers the existing ports; one error is enough
            if self._hidden(card, name, parameters):
                self._unseen.add((card.device, name))
                return None
            guard = parameters.get(known.guard)
            remedy = "run '%s -d %s -e q' to list the parameters" % (self._tool.path, card.device)
            if name in known.guarded and guard and not vendor_firmware.same(guard["current"], 1):
                remedy = "set %s: true too, without which the card hides it" % known.guard
            return Unsupported("%s does not have the parameter %s" % (card.device, name), spec.place, remedy)
        if spec.every_port and any(known.port_of(other) for other in parameters):
            return None  # 'link_type' covers the existing ports
        port_index = port - 1
        layer = self._reader.link_layer(card.functions[port_index]) if port_index < len(card.functions) else None
        if spec.every_port and port_index > 0:
            return None  # one error is enough
        if layer and known.link_types[layer] == spec.shown:
            return None  # fixed to the desired type
        reason = "its link type is fixed%s (not a VPI card)" % (" to %s" % layer if layer else "")
        if any(known.port_of(other) for other in parameters):
            reason = "the card does not have port %d" % port
        return Unsupported(
            "%s does not have the parameter %s: %s" % (card.device, name, reason),
            spec.place,
            "leave the link type out, or use a card that supports both types",
        )

    @staticmethod
    def _hidden(card: Card, name: str, parameters: t.Mapping[str, Parameter]) -> bool:
        """Return whether the card may hide a parameter until the advanced settings are in force."""
        guard_name = card.vendor.parameters.guard
        spec, guard = card.specs.get(guard_name), parameters.get(guard_name)
        if name in parameters or spec is None or guard is None or spec.argument() != "1":
            return False
        return card.vendor.parameters.port_of(name) is None and not vendor_firmware.same(guard["current"], 1)

    def _must_reset(self, card: Card, parameters: t.Mapping[str, Parameter], staged: Specs) -> bool:
        if not self._reset or card.device in self._restarted:
            return False
        if not self._never_reset.isdisjoint(pci_functions.card_functions(self._system, card.device)):
            return False
        waiting = self._waiting(card, parameters, staged)
        if waiting and card.has_processors:
            warning = (
                "%s is a %s, which is not reset from the host: a reset restarts its Arm cores and may change its"
                " mode. Its values take effect after a reboot." % (card.device, card.vendor.processor_name)
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
        with collected(errors):
            self._tool.check_reset()
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
                % (card.device, name, self._vendor.parameters.guard)
                for name in card.specs
                if self._hidden(card, name, parameters)
            ]
            reasons += [
                "%s: %s is visible now that %s is in force; the next run sets it"
                % (device, name, self._vendor.parameters.guard)
                for device, name in sorted(self._unseen)
                if device == card.device and name in parameters
            ]
            mode = state["cards"][card.device]["mode"]
            if wanted and mode and mode == card.vendor.independent_mode:
                self.warnings.append(
                    "%s is a %s in %s mode: a reboot of the host does not restart its firmware. Remedy:"
                    " power-cycle the server." % (card.device, card.vendor.processor_name, str(mode).upper())
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
                    "%s: the firmware is %s, not %s (%s). Remedy: burn it with the vendor's tool (%s), or"
                    " plan the other version."
                    % (card.device, version or "not reported by a driver", *card.version, card.vendor.burner)
                )
        return found

    def _check_total(self, card: Card, parameters: t.Mapping[str, Parameter]) -> None:
        """Warn if the number of VFs differs from the kernel's count: other parameters may replace it."""
        known = card.vendor.parameters
        values = {option: (name, parameters.get(name, {}).get("current")) for name, option in known.options.items()}
        (name, count), (_name, enabled) = values["num_of_vfs"], values["sriov_en"]
        total = pci_functions.number(self._system, card.functions[0], "sriov_totalvfs")
        if enabled and isinstance(count, int) and total not in (None, count):
            self.warnings.append(
                "%s: %s is %d, but the kernel allows %s VFs; check the parameters %s"
                % (card.device, name, count, total, known.vf_override)
            )


LAYER = Layer(SPEC, Firmware.from_options, required_if=[("state", "present", ["ports"])])

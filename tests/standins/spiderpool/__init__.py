# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model of Spiderpool's admission webhooks: what they change in an object, and what they deny. Pure functions.

Read from github.com/spidernet-io/spiderpool, v1.2.2, below ``pkg/``; nothing of it is copied.

| here                   | upstream                                   | what it does                                 |
|------------------------|--------------------------------------------|----------------------------------------------|
| ``_pool``              | ippoolmanager/ippool_mutate.go             | finalizer, ipVersion, label of the subnet,   |
|                        |                                            | two or more ips or excludeIPs are merged     |
| ``_reserved``          | reservedipmanager/reservedip_mutate.go     | ipVersion, two or more ips are merged        |
| ``_network``           | multuscniconfig/multusconfig_mutate.go     | defaults of the CNI's section and coordinator, |
|                        |                                            | injection annotations are copied into labels |
| ``merged``             | ip/iprange.go MergeIPRanges                | sorted, joined, one address without a hyphen |
| ``listed``             | ip/iprange.go ParseIPRange                 | each address of a range is allocated         |
| ``_subnet``            | ippoolmanager/ippool_validate.go, ip/cidr.go | family, spelling, overlap with other subnets |
| ``_addresses``         | ippool_validate.go, ip/subnet.go           | inside the subnet, no range over another, no |
|                        |                                            | address of another pool of the subnet        |
| ``_gateway``           | ippool_validate.go validateIPPoolGateway   | inside the subnet, not one of its addresses  |
| ``_routes``            | ippool_validate.go validateIPPoolRoutes    | no default route, no destination twice,      |
|                        |                                            | next hop inside the subnet                   |
| ``_pod_affinity``      | ippool_validate.go validateIPPoolPodAffinity | not empty                                    |
| ``_in_use``            | ippool_validate.go validateIPPoolIPInUse   | no address of a pod leaves the pool; every   |
|                        |                                            | update lists all of its addresses            |
| ``_unchanged``         | ippool_validate.go, reservedip_validate.go | subnet and ipVersion cannot change           |
| ``_version``           | ippool_validate.go, reservedip_validate.go | 4 or 6, and enabled in the chart's values    |
| ``_ranges``            | reservedip_validate.go validateReservedIPs | each is a range of the family                |
| ``_config``            | multuscniconfig/multusconfig_validate.go   | one section, and what that must have         |
| ``_injected``          | multuscniconfig/utils.go                   | resource and pools where a group injects it  |
| ``_attachment``,       | multusconfig_validate.go                   | name, owner and CNI version of the           |
| ``_same_attachment``   |                                            | NetworkAttachmentDefinition                  |
| ``_coordinator``       | coordinatormanager/coordinator_validate.go |                                              |
| ``update``, terminating | ippool_webhook.go, reservedip_webhook.go   | nothing but the finalizer's removal          |
| ``delete``             | ippool_webhook.go ValidateDelete           | no pool with addresses in use; off by default |
| ``ends``               | ippoolmanager/ippool_informer.go syncHandler | the finalizer goes with the last address     |
| ``labels_refused``     | Kubernetes itself, after mutating webhooks | a label of more than 63 characters           |
"""

from __future__ import annotations

from tests.standins.spiderpool.changes import merged, mutate
from tests.standins.spiderpool.model import (
    CIDR_LABEL,
    GROUP,
    KINDS,
    VERSION,
    Denied,
    Exhausted,
    Known,
    Object,
    Settings,
    webhook,
)
from tests.standins.spiderpool.rules import create, delete, ends, labels_refused, update

__all__ = [
    "CIDR_LABEL",
    "GROUP",
    "KINDS",
    "VERSION",
    "Denied",
    "Exhausted",
    "Known",
    "Object",
    "Settings",
    "create",
    "delete",
    "ends",
    "labels_refused",
    "merged",
    "mutate",
    "update",
    "webhook",
]

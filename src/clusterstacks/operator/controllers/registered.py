"""Lists the controllers of the operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusterstacks.operator.controllers.clusteraddon import registration as clusteraddon
from clusterstacks.operator.controllers.clusterresourcesync import registration as clusterresourcesync
from clusterstacks.operator.controllers.clusterstack import registration as clusterstack
from clusterstacks.operator.controllers.clusterstackrelease import registration as clusterstackrelease
from clusterstacks.operator.controllers.clusterupgrade import registration as clusterupgrade
from clusterstacks.operator.controllers.openstack import registration as openstack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.operator.controllers.registration import Registration

REGISTRATIONS: Final[tuple[Registration, ...]] = (
    clusterstack.REGISTRATION,
    clusterstackrelease.REGISTRATION,
    clusteraddon.REGISTRATION,
    clusteraddon.SWEEP_REGISTRATION,
    clusteraddon.CREATOR_REGISTRATION,
    clusterresourcesync.REGISTRATION,
    clusterresourcesync.SET_REGISTRATION,
    clusterresourcesync.BINDING_REGISTRATION,
    clusterresourcesync.SWEEP_REGISTRATION,
    clusterupgrade.REGISTRATION,
)

PROVIDERS: Final[Mapping[str, tuple[Registration, ...]]] = {
    "openstack": (openstack.RELEASE_REGISTRATION, openstack.NODE_IMAGE_REGISTRATION)
}
"""Controllers of the provider kinds that ``--providers`` names."""

"""Values of one cluster's own: the topology variable ``addonValues`` (INCUMBENT D79)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.api import yaml
from clusterstacks.api.clusterapi import topology_variables
from clusterstacks.domain.documents import shown
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.merging import merge_values

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest

VARIABLE = "addonValues"
"""A class that allows such values defines this variable, an object by addon; Cluster API refuses it elsewhere."""


def overlaid(values: str, addon: str, cluster: Manifest) -> str:
    """Lay the values a Cluster has for an addon over those its release makes.

    Args:
        values: YAML, empty for none.
        addon: Its name.
        cluster: The Cluster.

    Raises:
        SpecError: The variable does not hold mappings.
    """
    by_addon = topology_variables(cluster).get(VARIABLE)
    if by_addon is None:
        return values
    own = by_addon.get(addon) if isinstance(by_addon, dict) else by_addon
    if own is None:
        return values
    if not isinstance(own, dict):
        where = f"{VARIABLE}.{addon}" if isinstance(by_addon, dict) else VARIABLE
        raise SpecError(
            "AddonValuesInvalid",
            f"variable {where} of Cluster {cluster['metadata']['namespace']}/{cluster['metadata']['name']} is "
            f"{shown(own)}: write the values of the addon's chart as a mapping",
        )
    return yaml.dump(merge_values(yaml.load(values, name=f"values of {addon}") or {}, own))

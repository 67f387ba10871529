"""Inputs of the addons of one cluster: releases, values and their digests, and the rendering from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from clusterstacks.deliver.apply.policy import with_health_rules
from clusterstacks.deliver.render.renderer import addon_request, addon_values
from clusterstacks.model.digests import sha256_digest
from clusterstacks.model.documents import and_more, shown
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.addon_annotations import AddonReleaseRefused, combined_config, without_effect
from clusterstacks.model.kinds.clusterapi import template_data, topology_variables
from clusterstacks.model.kinds.clusterstack import DeletionPolicy
from clusterstacks.model.kinds.names import (
    DELETION_POLICY_ANNOTATION,
    PENDING_HOOKS_ANNOTATION,
    UPGRADE_HOLD_ANNOTATION,
)
from clusterstacks.model.yaml import MAX_DEPTH
from clusterstacks.runtime.cache import key_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.files.addon_config import AddonConfig, HealthRule
    from clusterstacks.model.kinds.addon_annotations import RequestedReleases
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.operator.controllers.clusteraddon.snapshot import ClusterSnapshot
    from clusterstacks.release.charts.chart import AddonChart
    from clusterstacks.release.release import Release

RENDERING = "1"
"""Version of the rendering. A new number delivers every addon again: raise it only when the output must change. An
upgrade of the operator alone must not write to any workload cluster."""

MAX_LEVELS = 200
"""Levels of nesting of an object. orjson writes 254, and the object is some levels deep in what is written; Cluster
API's own objects have some 20."""

_ORJSON_LEVELS = 254
_METADATA = ("name", "namespace", "labels")
_NOISY_STATUS = {"conditions", "deprecated", "v1beta2", "observedGeneration"}
_NOISY_ANNOTATIONS = {
    PENDING_HOOKS_ANNOTATION,
    UPGRADE_HOLD_ANNOTATION,
    "topology.internal.cluster.x-k8s.io/upgrade-step",
    "cluster.x-k8s.io/cloned-from-name",
    "cluster.x-k8s.io/cloned-from-groupkind",
}
"""The hold of upgrades, and notes of Cluster API for itself, which it writes during each installation and upgrade.
Source: https://cluster-api.sigs.k8s.io/reference/api/labels-and-annotations"""


def snapshot_digest(kubernetes_minor: str, class_digest: str, objects: Manifest) -> str:
    """Return the digest of everything that the addons depend on, without rendering.

    ``objects`` are the root objects of the templates: Cluster, control plane and infrastructure object. A changed
    digest means that values *may* differ: the rendered values decide. Raises SpecError for an object of too many
    levels.
    """
    for manifest in objects.values():
        _check_levels(manifest)
    return _digest_json(
        [RENDERING, kubernetes_minor, class_digest, {key: stable(value) for key, value in objects.items()}]
    )


def input_digest(kubernetes_minor: str, chart_digest: str, values: str, rules: Sequence[HealthRule] = ()) -> str:
    """Return the digest of the inputs of one addon; it does not contain the Kubernetes patch release."""
    health = [[*rule.group_kind, rule.current, rule.failed] for rule in rules]
    return _digest_json([RENDERING, kubernetes_minor, chart_digest, values, *([health] if health else [])])


def stable(manifest: Manifest) -> Manifest:
    """Return the parts of an object that may decide values: no conditions, server's metadata, notes of Cluster API."""
    if not manifest:
        return {}
    metadata = manifest.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    status = manifest.get("status") or {}
    return {
        "metadata": {
            **{key: metadata.get(key) for key in _METADATA},
            "annotations": {key: value for key, value in annotations.items() if key not in _NOISY_ANNOTATIONS} or None,
        },
        "spec": manifest.get("spec"),
        "status": {key: value for key, value in status.items() if key not in _NOISY_STATUS},
    }


def _check_levels(manifest: Manifest) -> None:
    """Reject an object that is nested too deep before recursive code uses it; orjson checks this fast."""
    wrapped: object = manifest
    for _ in range(_ORJSON_LEVELS - MAX_LEVELS):
        wrapped = [wrapped]
    try:
        orjson.dumps(wrapped)
    except orjson.JSONEncodeError:
        raise SpecError(
            "NestedTooDeep",
            f"{manifest.get('kind')} {key_of(manifest)} is nested deeper than {MAX_LEVELS} levels, so no addon can "
            "be rendered from it: flatten the values of its variables",
        ) from None


def _digest_json(value: list[object]) -> str:
    return sha256_digest(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


VARIABLE = "addonValues"
"""Topology variable with values by addon. Classes that allow it define it; Cluster API rejects it elsewhere."""

MAX_BYTES = 1024 * 1024
"""Size of the values of one addon as JSON (arbitrary: a Kubernetes object has at most 1.5 MiB)."""

MAX_VALUES = 20_000
"""Scalars, lists and mappings of one addon (arbitrary: the values of the largest charts known have 3,000; laying so
many over others takes half a second of a render worker)."""


SHOWN_NAMES = 10
"""Names that a message lists (arbitrary: most releases have fewer addons)."""


def unknown_settings(cluster: Manifest, addons: Collection[str]) -> str:
    """Describe the values and annotations of a Cluster that have no effect; empty for none.

    ``addons`` are all addons of its releases, even those that it excludes.
    """
    by_addon = topology_variables(cluster).get(VARIABLE)
    unknown = sorted(key for key in by_addon if key not in addons) if isinstance(by_addon, dict) else []
    problems = []
    if unknown:
        there = _named(sorted(addons)) or "none"
        problems.append(
            f"variable {VARIABLE} has values for {_named(unknown)}, but the addons are {there}: rename the key"
        )
    annotations = cluster["metadata"].get("annotations") or {}
    policy = annotations.get(DELETION_POLICY_ANNOTATION)
    if policy is not None and policy not in tuple(DeletionPolicy):
        problems.append(f"annotation {DELETION_POLICY_ANNOTATION} is {shown(policy)}: write Orphan or Delete")
    problems += without_effect(annotations, addons)
    return "; ".join(problems)


def _named(names: list[str]) -> str:
    return and_more([shown(name) for name in names], SHOWN_NAMES)


def cluster_values(addon: str, cluster: Manifest) -> Manifest | None:
    """Return the Cluster's own values for an addon, which are merged over those of its release; None for none.

    Raises SpecError if the variable does not contain mappings, or too many or too deep values.
    """
    by_addon = topology_variables(cluster).get(VARIABLE)
    if by_addon is None:
        return None
    own = by_addon.get(addon) if isinstance(by_addon, dict) else by_addon
    if own is None:
        return None
    where = f"{VARIABLE}.{addon}" if isinstance(by_addon, dict) else VARIABLE
    title = f"variable {where} of Cluster {cluster['metadata']['namespace']}/{cluster['metadata']['name']}"
    if not isinstance(own, dict):
        raise SpecError(
            "AddonValuesInvalid", f"{title} is {shown(own)}: write the values of the addon's chart as a mapping"
        )
    if excess := _excess(own):
        raise SpecError("AddonValuesInvalid", f"{title} {excess}: write fewer values, or put them into the release")
    return own


def _excess(values: Manifest) -> str:
    """Return the bound that values exceed; empty for none. The bounds keep this below some milliseconds."""
    too_deep = f"nests deeper than {MAX_DEPTH} levels"
    try:
        text = orjson.dumps(values)
    except TypeError:
        return too_deep  # orjson writes 254 levels
    if len(text) > MAX_BYTES:
        return f"has more than {MAX_BYTES} bytes"
    level: list[object] = [values]
    count = depth = 0
    while level:
        count += len(level)
        if count > MAX_VALUES:
            return f"has more than {MAX_VALUES} values"
        if depth > MAX_DEPTH:
            return too_deep
        depth += 1
        level = [child for value in level for child in _children(value)]
    return ""


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


@dataclass(frozen=True, slots=True)
class AddonReleases:
    """The releases that the addons of one cluster come from."""

    class_release: Release
    releases: Mapping[str, Release]
    """By addon; an addon that is missing here comes from the class's release."""
    config: AddonConfig | None
    """The stages; None for a release without them."""

    def release_of(self, addon: str) -> Release:
        """Return the release that an addon comes from."""
        return self.releases.get(addon, self.class_release)

    def addons(self) -> list[str]:
        """Return the addons that are delivered, in their order; without those that stages only delete."""
        staged = self.config.addons() if self.config is not None else self.class_release.addons()
        return [addon for addon in staged if addon in self.release_of(addon).addons()]


def combine_releases(
    class_release: Release, other_releases: Mapping[ReleaseName, Release], requested: RequestedReleases
) -> AddonReleases:
    """Combine the release of the class with those that the Cluster's annotations name.

    Raises AddonReleaseRefused if the class is a bundle's, or a release does not have an addon that it is named for.
    """
    if not other_releases and not requested.addons:
        return AddonReleases(class_release, {}, class_release.config)
    if class_release.compatibility is None:
        problem = f"release {class_release.name} is a bundle, whose addons belong to its class"
        raise AddonReleaseRefused(f"{problem}: remove the annotations of the Cluster that take addons from elsewhere")
    releases = {class_release.name: class_release, **other_releases}
    sources = requested.sources({name: release.addons() for name, release in releases.items()})
    config = class_release.config or releases[requested.release].config
    if config is not None:
        configs = {name: release.config for name, release in releases.items() if release.config is not None}
        config = combined_config(config, sources, configs, class_release.name)
    return AddonReleases(class_release, {addon: releases[name] for addon, name in sources.items()}, config)


@dataclass(frozen=True, slots=True)
class AddonInputs:
    """Renders the addons of one cluster from their releases and from what was read of the cluster."""

    snapshot: ClusterSnapshot
    releases: AddonReleases
    renderer: Renderer

    def label(self, addon: str) -> str:
        """Return the name of an addon for messages."""
        return f"addon {addon} of {self.release_name(addon)}"

    def release_name(self, addon: str) -> ReleaseName:
        """Return the name of the release that an addon comes from."""
        return self.releases.release_of(addon).name

    def addons_beside(self, addon: str) -> Collection[str]:
        """Return all addons that are delivered together with this one, including it."""
        config = self.releases.config
        return {addon} if config is None else config.addons()

    def chart(self, addon: str) -> AddonChart:
        """Return the chart of an addon; a SpecError if the release does not have it."""
        return self.releases.release_of(addon).addon(addon)

    async def values(self, chart: AddonChart) -> str:
        """Render the values of an addon, with the Cluster's own values on top; a SpecError if either is not valid."""
        own = cluster_values(chart.name, self.snapshot.cluster.raw)
        values = await self.release_values(chart)
        if own is None:
            return values
        return await self.renderer.overlay(values, own, label=f"{self.label(chart.name)}: {VARIABLE}")

    async def release_values(self, chart: AddonChart) -> str:
        """Render the values of an addon from the template of its release; a SpecError if it is not valid."""
        label, data = self.label(chart.name), template_data(self.snapshot.data)
        return await addon_values(self.renderer, chart.values_template, data, label=label, file=chart.values_name)

    def digest(self, chart: AddonChart, values: str) -> str:
        """Return the digest of all inputs of the addon's manifests."""
        return input_digest(str(self.snapshot.minor), chart.digest, values, self._health_rules(chart.name))

    def basis(self, addon: str) -> str:
        """Return the digest of an addon's chart and the Kubernetes minor; empty if the release has no such addon."""
        facts = self.releases.release_of(addon).facts.get(addon)
        return "" if facts is None else _digest_json([str(self.snapshot.minor), facts.digest])

    async def render(self, chart: AddonChart, values: str) -> list[Manifest]:
        """Render the manifests of an addon; a SpecError if the chart cannot be rendered."""
        label = self.label(chart.name)
        request = addon_request(chart.chart, label=label, values=values, kubernetes=self.snapshot.running)
        return with_health_rules(await self.renderer.chart(request), self._health_rules(chart.name))

    def _health_rules(self, addon: str) -> Sequence[HealthRule]:
        config = self.releases.release_of(addon).config
        return () if config is None else config.health

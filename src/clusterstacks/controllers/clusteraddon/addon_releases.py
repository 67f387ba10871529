"""Which release each addon of a cluster comes from, and the stages that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.api.addon_annotations import AddonReleaseRefused, combined_config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.api.addon_annotations import AddonWishes
    from clusterstacks.domain.addon_config import AddonConfig
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.releases.release import Release


@dataclass(frozen=True, slots=True)
class Sourcing:
    """The releases of one cluster.

    Args:
        home: The release of its class.
        releases: By addon, the release it comes from; the class's for what is not named.
        config: The stages; None for a release without them.
    """

    home: Release
    releases: Mapping[str, Release]
    config: AddonConfig | None

    def release_of(self, addon: str) -> Release:
        """Return the release an addon comes from."""
        return self.releases.get(addon, self.home)


def sourcing(home: Release, lenders: Mapping[ReleaseName, Release], wishes: AddonWishes) -> Sourcing:
    """Combine the class's release with those that the Cluster's annotations name.

    Raises:
        AddonReleaseRefused: The class is a bundle's, or a release does not have the addon it is to give.
    """
    if not lenders and not wishes.addons:
        return Sourcing(home, {}, home.config)
    if home.compatibility is None:
        problem = f"release {home.name} is a bundle, whose addons belong to its class"
        raise AddonReleaseRefused(f"{problem}: remove the annotations of the Cluster that take addons from elsewhere")
    releases = {home.name: home, **lenders}
    sources = wishes.sources({name: release.addons() for name, release in releases.items()})
    config = home.config or releases[wishes.release].config
    if config is not None:
        configs = {name: release.config for name, release in releases.items() if release.config is not None}
        config = combined_config(config, sources, configs, home.name)
    return Sourcing(home, {addon: releases[name] for addon, name in sources.items()}, config)

"""Reads the provider's CompatibilityRules: from an informer for webhooks and live check, by a request for csctl."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from clusterstacks.model.documents import text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.compatibilityrule import CompatibilityRule
from clusterstacks.model.kinds.names import GROUP, Kind
from clusterstacks.plan.clusters.permissions import listed, or_else

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from clusterstacks.model.files.compatibility import Rule
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.net.kube.client import Client
    from clusterstacks.runtime.cache import CacheChange
    from clusterstacks.runtime.clock import Clock

log = logging.getLogger(__name__)


class ProviderRules:
    """All CompatibilityRules, each parsed once; subscribe ``changed`` to their informer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._read: dict[str, tuple[CompatibilityRule, Rule]] = {}

    def changed(self, change: CacheChange) -> None:
        """Parse a rule that was created or changed; one that cannot be read no longer counts, and is logged."""
        self._read.pop(change.key.name, None)
        if change.new is None:
            return
        try:
            rule = CompatibilityRule.parse(change.new)
            rule.check()
            self._read[change.key.name] = (rule, rule.rule())
        except SpecError as error:
            log.warning("A rule does not count: %s", error)

    def counting(self, release: ReleaseName, labels: Mapping[str, str]) -> tuple[Rule, ...]:
        """Return the rules that count now for a Cluster with a class of this release and these labels, by name."""
        now = self._clock.now()
        return tuple(rule for _, (read, rule) in sorted(self._read.items()) if read.concerns(release, labels, now))


async def read_rules(
    client: Client, release: ReleaseName, labels: Mapping[str, str], now: datetime, notices: list[str]
) -> tuple[Rule, ...]:
    """Return the rules that count at a time for a Cluster with a class of this release and these labels.

    ``notices`` gets a line for each rule that could not be read.
    """
    manifests = await or_else(
        listed(client, GROUP, Kind.COMPATIBILITY_RULE), [], "the rules of the provider are not checked", notices
    )
    rules = []
    for manifest in sorted(manifests, key=lambda rule: text(rule, "metadata", "name")):
        try:
            rule = CompatibilityRule.parse(manifest)
            rule.check()
            if rule.concerns(release, labels, now):
                rules.append(rule.rule())
        except SpecError as error:
            notices.append(f"a rule does not count: {error.message}")
    return tuple(rules)

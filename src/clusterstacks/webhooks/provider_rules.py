"""The provider's rules as they stand now, ready for decisions."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from clusterstacks.api.compatibilityrule import CompatibilityRule
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.domain.compatibility import Rule
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.runtime.cache import CacheChange
    from clusterstacks.runtime.clock import Clock

log = logging.getLogger(__name__)


class ProviderRules:
    """Every CompatibilityRule, read once; subscribe ``changed`` to their informer.

    Args:
        clock: Time, by which rules expire.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._read: dict[str, tuple[CompatibilityRule, Rule]] = {}

    def changed(self, change: CacheChange) -> None:
        """Take note of a rule; one that cannot be read counts no more and is told in the log."""
        self._read.pop(change.key.name, None)
        if change.new is None:
            return
        try:
            found = CompatibilityRule.parse(change.new)
            found.check()
            self._read[change.key.name] = (found, found.rule())
        except SpecError as error:
            log.warning("A rule does not count: %s", error)

    def counting(self, release: ReleaseName, labels: Mapping[str, str]) -> tuple[Rule, ...]:
        """Return the rules for a Cluster that count now, by name.

        Args:
            release: Of the Cluster's class.
            labels: Of the Cluster.
        """
        now = self._clock.now()
        return tuple(rule for _, (one, rule) in sorted(self._read.items()) if one.concerns(release, labels, now))

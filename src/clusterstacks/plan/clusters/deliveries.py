"""Describes deliveries of ``ClusterAddon.status.history``, for csctl history, csctl status and csctl ui."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import at, mappings, text
from clusterstacks.model.names import release_named
from clusterstacks.model.objects import age
from clusterstacks.plan.clusters.cluster_summary import version_change

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.model.objects import Manifest

CHANGES: Final = (("created", "+"), ("changed", "~"), ("removed", "-"))
"""Kinds of changes, and their marks."""

RESULTS: Final = {"RolledBack": "rolled back"}
"""Words for results that are not one word."""


@dataclass(frozen=True, slots=True)
class PastDelivery:
    """An entry of the history; fields that another version of the operator wrote in another form are left out."""

    entry: Manifest

    @property
    def result(self) -> str:
        """The result, as the operator writes it: ``RolledBack``."""
        return text(self.entry, "result")

    @property
    def began(self) -> str:
        """Time at which it began (RFC 3339)."""
        return text(self.entry, "began")

    @property
    def title(self) -> str:
        """The occasion, the release and the Kubernetes version: ``upgrade v1 → v2, Kubernetes v1.35.4``."""
        entry = self.entry
        before, after = text(entry, "fromRelease"), text(entry, "release")
        change = version_change(release_named(before), release_named(after), before, after).removeprefix("→ ")
        kubernetes = _changed(text(entry, "fromKubernetesVersion"), text(entry, "kubernetesVersion"))
        title = f"{text(entry, 'occasion').lower()} {change}"
        return f"{title}, Kubernetes {kubernetes}" if kubernetes else title

    @property
    def numbers(self) -> str:
        """The numbers of objects: ``2 created, 1 changed, 0 removed, 14 unchanged``."""
        kinds = [*(kind for kind, _ in CHANGES), "unchanged"]
        return ", ".join(f"{_number(self.entry, kind)} {kind}" for kind in kinds)

    @property
    def outcome(self) -> str:
        """The result with its time and the stages: ``delivered within 12s, 3/3 stages``."""
        entry, result = self.entry, RESULTS.get(self.result, self.result.lower())
        ended = text(entry, "ended")
        took = age(self.began, datetime.fromisoformat(ended)) if _is_time(ended) else ""
        hooks = at(entry, "hooks")
        named = f" ({', '.join(map(str, hooks))})" if isinstance(hooks, list) and hooks else ""
        stages = f"{text(entry, 'stages')} stages{named}" if text(entry, "stages") else ""
        return ", ".join(filter(None, (f"{result} after {took}" if took else result, stages)))

    @property
    def failure(self) -> str:
        """Reason and message of a failure or a rollback; empty without one."""
        return ": ".join(filter(None, (text(self.entry, "reason"), text(self.entry, "message"))))

    def changes(self) -> Iterator[tuple[str, str, str]]:
        """Yield for each addon its name with empty texts, then mark and object of each change."""
        for addon in mappings(self.entry, "addons"):
            yield text(addon, "name"), "", ""
            for kind, mark in CHANGES:
                names = at(addon, f"{kind}Objects")
                listed = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
                for name in listed:
                    yield "", mark, name
                if (unlisted := _number(addon, kind) - len(listed)) > 0:
                    yield "", mark, f"{unlisted} more, not listed"
        if unlisted := _number(self.entry, "addonsNotListed"):
            yield f"{unlisted} more addons, not listed", "", ""


def past_deliveries(addon: Manifest | None) -> list[PastDelivery]:
    """Return the history of a ClusterAddon, newest first."""
    return [PastDelivery(entry) for entry in mappings(addon or {}, "status", "history")]


def _changed(before: str, after: str) -> str:
    return f"{before} → {after}" if before and before != after else after


def _number(document: Manifest, key: str) -> int:
    value = at(document, key)
    return value if isinstance(value, int) else 0


def _is_time(value: str) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False

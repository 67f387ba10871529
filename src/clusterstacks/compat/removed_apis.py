"""Kubernetes API versions that end: which minor release serves a kind no longer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from clusterstacks.api import yaml
from clusterstacks.compat.verdicts import Judgement, Verdict
from clusterstacks.domain.versions import KubernetesMinor

if TYPE_CHECKING:
    from collections.abc import Mapping

_FACTS = "facts/api-removals.yaml"


@dataclass(frozen=True, slots=True)
class RemovedApi:
    """An API version of a kind that ends.

    Args:
        removed_in: The first Kubernetes minor release that does not serve it.
        replacement: The group and version to use instead, e.g. ``apps/v1``; empty when there is none.
        scheduled: Whether that release is still to come, so that the date may change.
        source: Where the fact is from.
    """

    removed_in: KubernetesMinor
    replacement: str
    scheduled: bool
    source: str


@cache
def removed_apis() -> Mapping[tuple[str, str], RemovedApi]:
    """Return every API version that ended or is going to, by apiVersion (``policy/v1beta1``) and kind."""
    text = resources.files(__package__).joinpath(_FACTS).read_bytes()
    document = yaml.load(text, name=_FACTS)
    sources = {source["id"]: source["url"] for source in document["sources"]}
    return {
        (f"{entry['group']}/{entry['version']}".lstrip("/"), entry["kind"]): RemovedApi(
            removed_in=KubernetesMinor.parse(entry["removedIn"]),
            replacement=entry.get("replacement") or "",
            scheduled=entry["status"] == "scheduled",
            source=sources[entry["sources"][0]],
        )
        for entry in document["removals"]
    }


def judge_api(api_version: str, kind: str, kubernetes: KubernetesMinor) -> Judgement:
    """Judge the use of an API version of a kind with a Kubernetes minor.

    Incompatible from the minor that does not serve it any more; where that is only planned, the text says so. A kind
    that nothing is said about is served.
    """
    removed = removed_apis().get((api_version, kind))
    if removed is None:
        return Judgement(Verdict.OK, f"no end of {kind} of {api_version} is known")
    verb = "is planned to stop serving" if removed.scheduled else "does not serve"
    text = f"Kubernetes {removed.removed_in} {verb} {kind} of {api_version}"
    way_out = f"; write it as {removed.replacement}" if removed.replacement else ""
    gone = kubernetes >= removed.removed_in
    return Judgement(Verdict.INCOMPATIBLE if gone else Verdict.OK, f"{text}{way_out}", removed.source)

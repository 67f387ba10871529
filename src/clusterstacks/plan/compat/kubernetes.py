"""Facts about Kubernetes itself: its minors and their end of life, version skew, and removed APIs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from clusterstacks.model import yaml
from clusterstacks.model.ranges import Range
from clusterstacks.model.versions import KubernetesMinor
from clusterstacks.plan.compat.rules.skew import SkewException, SkewRule
from clusterstacks.plan.compat.support_facts import kubernetes_facts
from clusterstacks.plan.compat.verdicts import Judgement, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.model.objects import Manifest


@cache
def known_minors() -> tuple[KubernetesMinor, ...]:
    """Return the released minors, oldest first."""
    return tuple(sorted(KubernetesMinor.parse(release["version"]) for release in kubernetes_facts()["releases"]))


@cache
def supported_minors() -> Range:
    """Return the range of the minors that were not past their end of life on the day of the facts."""
    document = kubernetes_facts()
    day = max(source["retrieved"] for source in document["sources"])
    alive = [
        KubernetesMinor.parse(release["version"])
        for release in document["releases"]
        if date.fromisoformat(release["eol"]) >= date.fromisoformat(day)
    ]
    first, last = min(alive), max(alive)
    return Range.parse(f">={first} <{last.major}.{last.minor + 1}")


@cache
def skew_rules() -> tuple[SkewRule, ...]:
    """Return the rules of the version skew policy, for :func:`clusterstacks.plan.compat.rules.skew.judge_skew`."""
    document = kubernetes_facts()
    urls = {source["id"]: source["url"] for source in document["sources"]}
    return tuple(
        SkewRule(
            program=rule["component"],
            relative_to=rule["relativeTo"],
            older=rule["olderMinors"],
            newer=rule["newerMinors"],
            source=urls[rule["source"]],
            exceptions=tuple(_exception(rule, exception) for exception in rule.get("exceptions", ())),
        )
        for rule in document["skew"]
    )


def _exception(rule: Manifest, exception: Manifest) -> SkewException:
    ((program, minors),) = exception["when"].items()
    return SkewException(
        program=program,
        minors=Range.parse(minors),
        older=(rule | exception)["olderMinors"],
        newer=(rule | exception)["newerMinors"],
    )


_FACTS = "facts/api-removals.yaml"


@dataclass(frozen=True, slots=True)
class RemovedApi:
    """A removed API version of a kind."""

    removed_in: KubernetesMinor
    """The first Kubernetes minor that does not serve it."""
    replacement: str
    """The group and version to use instead, for example ``apps/v1``; empty when there is none."""
    scheduled: bool
    """Whether that minor is not released yet, so that the plan may change."""
    source: str


@cache
def removed_apis() -> Mapping[tuple[str, str], RemovedApi]:
    """Return every removed API version, by apiVersion (``policy/v1beta1``) and kind; planned removals included."""
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


def is_removed(api_version: str, kind: str) -> bool:
    """Return whether a removal of this API version of a kind is known, of whatever Kubernetes minor."""
    return (api_version, kind) in removed_apis()


def judge_api(api_version: str, kind: str, kubernetes: KubernetesMinor) -> Judgement:
    """Judge the use of an API version of a kind with a Kubernetes minor.

    Incompatible from the minor that no longer serves it; the text says where that is only planned. A kind without a
    fact is served.
    """
    removed = removed_apis().get((api_version, kind))
    if removed is None:
        return Judgement(Verdict.OK, f"no removal of {kind} of {api_version} is known")
    verb = "is planned to stop serving" if removed.scheduled else "does not serve"
    text = f"Kubernetes {removed.removed_in} {verb} {kind} of {api_version}"
    instead = f"; write it as {removed.replacement}" if removed.replacement else ""
    gone = kubernetes >= removed.removed_in
    return Judgement(Verdict.INCOMPATIBLE if gone else Verdict.OK, f"{text}{instead}", removed.source)

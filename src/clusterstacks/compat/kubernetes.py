"""What is known of Kubernetes itself: its minors and their end of life, and how far its programs may be apart."""

from __future__ import annotations

from datetime import date
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from clusterstacks.api import yaml
from clusterstacks.compat.skew import SkewException, SkewRule
from clusterstacks.domain.ranges import Range
from clusterstacks.domain.versions import KubernetesMinor

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest

FACTS = "facts/kubernetes.yaml"


@cache
def known_minors() -> tuple[KubernetesMinor, ...]:
    """Return the minors that are released, oldest first."""
    return tuple(sorted(KubernetesMinor.parse(one["version"]) for one in _document()["releases"]))


@cache
def supported_minors() -> Range:
    """Return the versions of the minors that were not past their end of life on the day of the facts."""
    document = _document()
    day = max(source["retrieved"] for source in document["sources"])
    alive = [
        KubernetesMinor.parse(one["version"])
        for one in document["releases"]
        if date.fromisoformat(one["eol"]) >= date.fromisoformat(day)
    ]
    first, last = min(alive), max(alive)
    return Range.parse(f">={first} <{last.major}.{last.minor + 1}")


@cache
def skew_rules() -> tuple[SkewRule, ...]:
    """Return the rules on the minors of Kubernetes' own programs, for :func:`clusterstacks.compat.skew.judge_skew`."""
    document = _document()
    urls = {source["id"]: source["url"] for source in document["sources"]}
    return tuple(
        SkewRule(
            program=one["component"],
            relative_to=one["relativeTo"],
            older=one["olderMinors"],
            newer=one["newerMinors"],
            source=urls[one["source"]],
            exceptions=tuple(_exception(one, exception) for exception in one.get("exceptions", ())),
        )
        for one in document["skew"]
    )


def _exception(rule: Manifest, exception: Manifest) -> SkewException:
    ((program, minors),) = exception["when"].items()
    return SkewException(
        program=program,
        minors=Range.parse(minors),
        older=(rule | exception)["olderMinors"],
        newer=(rule | exception)["newerMinors"],
    )


@cache
def _document() -> Any:  # noqa: ANN401 - package data, checked by a test
    return yaml.load(resources.files(__package__).joinpath(FACTS).read_bytes(), name=FACTS)

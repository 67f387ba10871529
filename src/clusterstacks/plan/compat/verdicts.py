"""Verdicts about a component with a Kubernetes version."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from clusterstacks.model.files.compatibility import TESTED

if TYPE_CHECKING:
    from clusterstacks.model.files.compatibility import Component
    from clusterstacks.model.semver import SemVer
    from clusterstacks.model.versions import KubernetesVersion


class Verdict(StrEnum):
    """The verdict about a combination of versions."""

    OK = "ok"
    UNTESTED = "untested"
    """Outside a range of tested versions."""
    UNKNOWN = "unknown"
    """Neither the release nor the upstream project states anything."""
    INCOMPATIBLE = "incompatible"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, with the fact that decided (for people) and its source."""

    verdict: Verdict
    text: str = ""
    source: str = ""


OK = Judgement(Verdict.OK)
"""A verdict whose fact is not needed."""


class Upstream(Protocol):
    """Facts of upstream projects."""

    def judge(self, name: str, version: SemVer, kubernetes: KubernetesVersion) -> Judgement:
        """Judge a component with a Kubernetes version."""
        ...


class _NothingKnown:
    def judge(self, name: str, version: SemVer, kubernetes: KubernetesVersion) -> Judgement:  # noqa: ARG002 - the port
        return Judgement(Verdict.UNKNOWN, f"nothing is known about {name} {version} and Kubernetes")


NOTHING_KNOWN: Upstream = _NothingKnown()
"""For judgements without upstream facts."""


def judge_kubernetes(component: Component, kubernetes: KubernetesVersion, upstream: Upstream) -> Judgement:
    """Judge a component with a Kubernetes version by the statement of its release, else by upstream facts."""
    stated = component.kubernetes
    if stated is None:
        return upstream.judge(component.name, component.version, kubernetes)
    soft = component.kind == TESTED
    verb = "is tested with" if soft else "works with"
    text = f"{component.name} {component.text} {verb} Kubernetes {stated}"
    if stated.contains(kubernetes):
        return Judgement(Verdict.OK, text, component.source)
    return Judgement(Verdict.UNTESTED if soft else Verdict.INCOMPATIBLE, text, component.source)

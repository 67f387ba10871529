"""What a fact says about one combination of versions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from clusterstacks.domain.compatibility import TESTED

if TYPE_CHECKING:
    from clusterstacks.domain.compatibility import Component
    from clusterstacks.domain.ranges import Range
    from clusterstacks.domain.semver import SemVer
    from clusterstacks.domain.versions import KubernetesVersion


class Verdict(StrEnum):
    """How a combination stands."""

    OK = "ok"
    UNTESTED = "untested"
    """Outside a range that says only what was tried."""
    UNKNOWN = "unknown"
    """Nobody says anything."""
    INCOMPATIBLE = "incompatible"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and the fact that decided.

    Args:
        verdict: How the combination stands.
        text: The fact, for a person.
        source: Where it is from.
    """

    verdict: Verdict
    text: str = ""
    source: str = ""


OK = Judgement(Verdict.OK)
"""Where nobody wants to know the fact that decided."""


class Upstream(Protocol):
    """What upstream projects state."""

    def judge(self, name: str, version: SemVer, kubernetes: KubernetesVersion) -> Judgement:
        """Judge a component with a Kubernetes version."""
        ...


class _NothingKnown:
    def judge(self, name: str, version: SemVer, kubernetes: KubernetesVersion) -> Judgement:  # noqa: ARG002 - the port
        return Judgement(Verdict.UNKNOWN, f"nothing is known about {name} {version} and Kubernetes")


NOTHING_KNOWN: Upstream = _NothingKnown()
"""Where no upstream fact counts."""


def judge_kubernetes(component: Component, kubernetes: KubernetesVersion, upstream: Upstream) -> Judgement:
    """Judge a component with a Kubernetes version: what its release states, else what upstream states."""
    stated = component.kubernetes
    if stated is None:
        return upstream.judge(component.name, component.version, kubernetes)
    soft = component.kind == TESTED
    verb = "is tested with" if soft else "works with"
    text = f"{component.name} {component.text} {verb} Kubernetes {stated}"
    if contains(stated, kubernetes):
        return Judgement(Verdict.OK, text, component.source)
    return Judgement(Verdict.UNTESTED if soft else Verdict.INCOMPATIBLE, text, component.source)


def contains(stated: Range, kubernetes: KubernetesVersion) -> bool:
    """Tell whether a range holds a Kubernetes version; what a distribution adds to it (``+k3s1``) does not count."""
    return stated.holds((kubernetes.major, kubernetes.minor, kubernetes.patch), kubernetes.pre)

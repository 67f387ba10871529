"""A write of a Cluster: what it asks for, and the answer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from clusterstacks.api.compatibility_policy import ESCAPE_ANNOTATION, CompatibilityPolicy
from clusterstacks.compat.messages import listed_against, told_against
from clusterstacks.compat.rules.combination import Before, CompatFinding, Judged, Setup, judge_setup
from clusterstacks.compat.rules.upgrades import broken_law, other_stack
from clusterstacks.compat.verdicts import Verdict
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.versions import KubernetesVersion
from clusterstacks.webhooks.answers import AdmissionResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.api.addon_annotations import AddonWishes
    from clusterstacks.compat.constraints import Judges
    from clusterstacks.compat.world import Candidate
    from clusterstacks.domain.compatibility import Component
    from clusterstacks.domain.names import ReleaseName


class Unservable(SpecError):
    """An addon is wanted from a release that cannot give it."""

    def __init__(self, message: str) -> None:
        super().__init__("AddonReleaseRefused", message)


@dataclass(frozen=True, slots=True)
class Was:
    """What a Cluster said before a write.

    Args:
        release: Of its class.
        version: Of Kubernetes, as it was written.
        annotations: All of them.
    """

    release: ReleaseName
    version: str
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Write:
    """A write of a Cluster whose class states ranges.

    Args:
        after: What it asks for.
        before: What there was; None for a new Cluster, and where its version could not be read.
        was: What it said; None for a new Cluster or one whose class came from no cluster stack.
        annotations: Of the Cluster as it is to be.
    """

    after: Setup
    before: Before | None = None
    was: Was | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer that may still want a way out.

    Args:
        answer: The answer; its refusal says what is wrong, not what to do.
        against: The facts that refuse, where facts do.
        more: The command that tells more about a refusal, where no facts refuse.
    """

    answer: AdmissionResponse
    against: tuple[CompatFinding, ...] = ()
    more: str = ""

    def completed(self, way_out: str = "") -> AdmissionResponse:
        """Return the answer with the way out, or with the command that tells more."""
        ending = way_out or self.more
        if self.answer.allowed or not ending:
            return self.answer
        return replace(self.answer, refusal=f"{self.answer.refusal}\n{ending}")


def setup_of(
    wishes: AddonWishes, own: ReleaseName, kubernetes: KubernetesVersion, known: Mapping[ReleaseName, Candidate]
) -> Setup:
    """Return the combination a Cluster asks for.

    Args:
        wishes: Where its addons are to come from.
        own: The release of its class.
        kubernetes: The version.
        known: Every release that is needed, by name.

    Raises:
        AddonReleaseRefused: A release has no addon of the name asked for.
        Unservable: A release is a bundle, whose addons go with its own class only.
    """
    offered = {name: _addons(known[name], own) for name in {*wishes.releases(), own}}
    sources = wishes.sources({name: addons.keys() for name, addons in offered.items()})
    return Setup(known[own], kubernetes, {addon: offered[name][addon] for addon, name in sources.items()})


def decide(write: Write, policy: CompatibilityPolicy, judges: Judges) -> Decision:
    """Decide on a write."""
    after = write.after
    if write.was is not None and (refusal := _broken(write.was, after)):
        return Decision(AdmissionResponse(refusal))
    judged = judge_setup(after, write.before, judges)
    if policy is CompatibilityPolicy.STRICT and (finding := _not_the_one(write)):
        judged = Judged((finding, *judged.findings), judged.warnings)
    against = tuple(one for one in judged.findings if _refuses(policy, one.verdict))
    warnings = (*(one.text for one in judged.findings if one not in against), *judged.warnings)
    if not against:
        return Decision(AdmissionResponse(warnings=warnings))
    if reason := write.annotations.get(ESCAPE_ANNOTATION, "").strip():
        let_through = f"allowed because of annotation {ESCAPE_ANNOTATION} ({reason})"
        warnings = (let_through, *(one.text for one in against), *warnings)
        return Decision(AdmissionResponse(warnings=warnings, excused=f"{told_against(after, against)}; {let_through}"))
    return Decision(AdmissionResponse(listed_against(after, against), warnings), against)


def _refuses(policy: CompatibilityPolicy, verdict: Verdict) -> bool:
    if policy is CompatibilityPolicy.RANGE:
        return verdict is Verdict.INCOMPATIBLE
    return policy is CompatibilityPolicy.STRICT and verdict is not Verdict.OK


def _broken(was: Was, after: Setup) -> str:
    return other_stack(was.release, after.candidate.name) or broken_law(was.version, after.kubernetes.text)


def kubernetes_of(text: str) -> KubernetesVersion | None:
    """Read a version; None where it is none, which Cluster API refuses itself."""
    try:
        return KubernetesVersion.parse(text)
    except SpecError:
        return None


def _addons(candidate: Candidate, own: ReleaseName) -> dict[str, tuple[Component, ...]]:
    stated = candidate.compatibility
    if stated is None:
        raise Unservable(
            f"release {candidate.name} is a bundle, whose addons go with its own class only and not with "
            f"{own.class_name}: name a release that states ranges"
        )
    return {addon: stated.of_addon(addon) for addon in stated.addons()}


def _not_the_one(write: Write) -> CompatFinding | None:
    """Find that the version is not the one the class is made for, which ``Strict`` wants; an addon's move is free."""
    after, before = write.after, write.before
    if after.kubernetes == after.candidate.kubernetes:
        return None
    if before is not None and (before.asked.candidate, before.asked.kubernetes) == (after.candidate, after.kubernetes):
        return None
    name = after.candidate.name
    text = f"class {name.class_name} is made for Kubernetes {after.candidate.kubernetes}, and its stack is strict"
    return CompatFinding(Verdict.INCOMPATIBLE, f"class:{name}", text)

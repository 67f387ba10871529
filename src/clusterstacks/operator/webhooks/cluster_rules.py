"""Decides whether a change of a Cluster's versions is allowed by the policy of its ClusterStack."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.names import ESCAPE_ANNOTATION, CompatibilityPolicy
from clusterstacks.operator.webhooks.answers import AdmissionResponse
from clusterstacks.plan.compat.rules.ranged_releases import (
    ClusterChange,
    CompatFinding,
    judge_change,
    listed_refusal,
    one_line_refusal,
)
from clusterstacks.plan.compat.rules.upgrades import other_stack, upgrade_refusal
from clusterstacks.plan.compat.verdicts import Verdict
from clusterstacks.plan.compat.world import ClusterVersions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.model.files.compatibility import Component
    from clusterstacks.model.kinds.addon_annotations import RequestedReleases
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.versions import KubernetesVersion
    from clusterstacks.plan.compat.world import Candidate


class AddonUnavailable(SpecError):
    """An annotation requests an addon from a release that cannot provide it."""

    def __init__(self, message: str) -> None:
        super().__init__("AddonReleaseRefused", message)


@dataclass(frozen=True, slots=True)
class ClassOffer:
    """The releases that the ClusterStack of a class can serve."""

    made_for: str
    """The Kubernetes version in the status of the class's release; empty while it is not known."""
    policy: CompatibilityPolicy = CompatibilityPolicy.RANGE
    candidates: Mapping[ReleaseName, Candidate] = field(default_factory=dict)
    """Releases of the same provider and stack whose facts are known."""
    listed: Mapping[ReleaseName, Candidate] = field(default_factory=dict)
    """Further releases in the source of a ClusterStack: suggested, but without influence on the decision."""
    lacking: Mapping[ReleaseName, str] = field(default_factory=dict)
    """By requested release that cannot be served (yet), the reason."""

    def suggested(self) -> tuple[Candidate, ...]:
        """Return all releases that a suggestion may name, served or only listed."""
        return tuple({**self.listed, **self.candidates}.values())


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer to which a suggestion can be added."""

    answer: AdmissionResponse
    """A refusal in it says what is wrong, not what to do."""
    against: tuple[CompatFinding, ...] = ()
    """The facts that refuse; empty for a refusal by another rule."""
    more: str = ""
    """The command that shows more about the refusal."""
    change: ClusterChange | None = None
    """The change that was compared with ranges; None if none was."""
    offer: ClassOffer | None = None

    def completed(self, suggestion: str = "") -> AdmissionResponse:
        """Return the answer with the suggestion, or with the command that shows more."""
        ending = suggestion or self.more
        if self.answer.allowed or not ending:
            return self.answer
        return replace(self.answer, refusal=f"{self.answer.refusal}\n{ending}")


def wanted_versions(
    requested: RequestedReleases,
    own: ReleaseName,
    kubernetes: KubernetesVersion,
    known: Mapping[ReleaseName, Candidate],
) -> ClusterVersions:
    """Return the versions that a Cluster requests.

    ``own`` is the release of its class; ``known`` has all releases that are needed.

    Raises:
        AddonReleaseRefused: A release does not have the addon that an annotation requests from it.
        AddonUnavailable: A release is a bundle, whose addons go with its own class only.
    """
    offered = {name: _addons(known[name], own) for name in {*requested.releases(), own}}
    sources = requested.sources({name: addons.keys() for name, addons in offered.items()})
    return ClusterVersions(known[own], kubernetes, {addon: offered[name][addon] for addon, name in sources.items()})


def _addons(candidate: Candidate, own: ReleaseName) -> dict[str, tuple[Component, ...]]:
    stated = candidate.compatibility
    if stated is None:
        raise AddonUnavailable(
            f"release {candidate.name} is a bundle, whose addons go with its own class only and not with "
            f"{own.class_name}: name a release that states ranges"
        )
    return {addon: stated.of_addon(addon) for addon in stated.addons()}


def decide_change(change: ClusterChange, policy: CompatibilityPolicy, annotations: Mapping[str, str]) -> Decision:
    """Decide whether a change is allowed; ``annotations`` of the new Cluster can override facts."""
    wanted = change.wanted
    if refusal := _upgrade_refusal(change):
        return Decision(AdmissionResponse(refusal))
    judgement = judge_change(change)
    findings = judgement.findings
    if policy is CompatibilityPolicy.STRICT and (finding := _other_version_than_made_for(change)):
        findings = (finding, *findings)
    against = tuple(finding for finding in findings if _refuses(policy, finding.verdict))
    warnings = (*(finding.text for finding in findings if finding not in against), *judgement.warnings)
    if not against:
        return Decision(AdmissionResponse(warnings=warnings))
    if reason := annotations.get(ESCAPE_ANNOTATION, "").strip():
        allowed = f"allowed because of annotation {ESCAPE_ANNOTATION} ({reason})"
        warnings = (allowed, *(finding.text for finding in against), *warnings)
        excused = f"{one_line_refusal(wanted, against)}; {allowed}"
        return Decision(AdmissionResponse(warnings=warnings, excused=excused))
    return Decision(AdmissionResponse(listed_refusal(wanted, against), warnings), against)


def _refuses(policy: CompatibilityPolicy, verdict: Verdict) -> bool:
    if policy is CompatibilityPolicy.RANGE:
        return verdict is Verdict.INCOMPATIBLE
    return policy is CompatibilityPolicy.STRICT and verdict is not Verdict.OK


def _upgrade_refusal(change: ClusterChange) -> str:
    if change.before is None:
        return ""
    moved = other_stack(change.before.release.name, change.wanted.release.name)
    wanted = change.wanted
    return moved or upgrade_refusal(
        change.before.kubernetes.text, wanted.kubernetes.text, wanted.release.class_versions
    )


def _other_version_than_made_for(change: ClusterChange) -> CompatFinding | None:
    """Return why ``Strict`` refuses the Kubernetes version; a change of only addons is not checked again."""
    wanted, before = change.wanted, change.before
    if wanted.kubernetes == wanted.release.kubernetes:
        return None
    if before is not None and (before.release, before.kubernetes) == (wanted.release, wanted.kubernetes):
        return None
    name = wanted.release.name
    text = f"class {name.class_name} is made for Kubernetes {wanted.release.kubernetes}, and its stack is strict"
    return CompatFinding(Verdict.INCOMPATIBLE, f"class:{name}", text)

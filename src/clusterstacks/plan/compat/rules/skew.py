"""Version skew and upgrades of Kubernetes: how far its programs may be apart, and how a cluster may move.

Source: https://kubernetes.io/releases/version-skew-policy/
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.plan.compat.verdicts import Judgement, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.model.ranges import Range
    from clusterstacks.model.versions import KubernetesMinor

API_SERVER = "kube-apiserver"
OTHER_API_SERVERS = "other kube-apiserver instances"
"""Reference for the skew between two API servers."""


@dataclass(frozen=True, slots=True)
class SkewException:
    """Another skew for some minors; ``older`` and ``newer`` as in :class:`SkewRule`."""

    program: str
    """The program whose minor decides."""
    minors: Range
    """The minors for which it holds."""
    older: int
    newer: int


@dataclass(frozen=True, slots=True)
class SkewRule:
    """The allowed skew between two of Kubernetes' programs."""

    program: str
    relative_to: str
    older: int
    """Number of minors that the program may be older."""
    newer: int
    """Number of minors that the program may be newer."""
    source: str
    """URL of the rule."""
    exceptions: tuple[SkewException, ...] = ()
    """The first that holds replaces both numbers."""

    def judge(self, minor: KubernetesMinor, reference: KubernetesMinor) -> Judgement:
        """Compare the program's minor with that of the other; minors of two majors are never compatible."""
        older, newer = self._distances(minor, reference)
        behind = reference.minor - minor.minor
        fine = minor.major == reference.major and -newer <= behind <= older
        text = f"{self.program} {minor} may be {_distance(older, newer)} {self.relative_to} {reference}"
        return Judgement(Verdict.OK if fine else Verdict.INCOMPATIBLE, text, self.source)

    def _distances(self, minor: KubernetesMinor, reference: KubernetesMinor) -> tuple[int, int]:
        minors = {self.program: minor, self.relative_to: reference}
        for exception in self.exceptions:
            decisive = minors.get(exception.program)
            if decisive is not None and exception.minors.holds((decisive.major, decisive.minor, 0)):
                return exception.older, exception.newer
        return self.older, self.newer


def judge_skew(
    rules: Iterable[SkewRule],
    program: str,
    minor: KubernetesMinor,
    reference: KubernetesMinor,
    relative_to: str = API_SERVER,
) -> Judgement:
    """Judge the skew between two of Kubernetes' programs.

    ``program`` is ``kubelet``, ``kube-proxy``, ``kube-controller-manager``, ``kube-scheduler``,
    ``cloud-controller-manager``, ``kubectl``, or ``kube-apiserver`` relative to :data:`OTHER_API_SERVERS`.
    ``reference`` is the minor of the other program; while servers of two minors run, call this for each.
    """
    for rule in rules:
        if (rule.program, rule.relative_to) == (program, relative_to):
            return rule.judge(minor, reference)
    return Judgement(Verdict.UNKNOWN, f"no rule is known for the skew between {program} and {relative_to}")


def _distance(older: int, newer: int) -> str:
    if older and newer:
        return f"at most {older} minors older and {newer} newer than"
    if older:
        return f"at most {older} minor{'' if older == 1 else 's'} older and never newer than"
    return f"at most {newer} minor{'' if newer == 1 else 's'} newer and never older than" if newer else "only as old as"

"""How far the minors of Kubernetes' own programs may be apart.

Source: https://kubernetes.io/releases/version-skew-policy/
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.compat.verdicts import Judgement, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.domain.ranges import Range
    from clusterstacks.domain.versions import KubernetesMinor

API_SERVER = "kube-apiserver"
OTHER_API_SERVERS = "other kube-apiserver instances"
"""What an API server is compared with."""


@dataclass(frozen=True, slots=True)
class SkewException:
    """Another distance for some minors.

    Args:
        program: Whose minor decides.
        minors: Those for which it holds.
        older: As in :class:`SkewRule`.
        newer: As in :class:`SkewRule`.
    """

    program: str
    minors: Range
    older: int
    newer: int


@dataclass(frozen=True, slots=True)
class SkewRule:
    """How far a program's minor may be from that of another.

    Args:
        program: The one that is judged: ``kubelet``.
        relative_to: The one it is compared with: ``kube-apiserver``.
        older: Most minors it may be older.
        newer: Most minors it may be newer.
        source: Where the rule is from.
        exceptions: The first that holds replaces both distances.
    """

    program: str
    relative_to: str
    older: int
    newer: int
    source: str
    exceptions: tuple[SkewException, ...] = ()

    def judge(self, minor: KubernetesMinor, reference: KubernetesMinor) -> Judgement:
        """Judge the program's minor beside that of the other; minors of two majors are never compatible."""
        older, newer = self._distances(minor, reference)
        behind = reference.minor - minor.minor
        fine = minor.major == reference.major and -newer <= behind <= older
        text = f"{self.program} {minor} may be {_distance(older, newer)} {self.relative_to} {reference}"
        return Judgement(Verdict.OK if fine else Verdict.INCOMPATIBLE, text, self.source)

    def _distances(self, minor: KubernetesMinor, reference: KubernetesMinor) -> tuple[int, int]:
        minors = {self.program: minor, self.relative_to: reference}
        for one in self.exceptions:
            decisive = minors.get(one.program)
            if decisive is not None and one.minors.holds((decisive.major, decisive.minor, 0)):
                return one.older, one.newer
        return self.older, self.newer


def judge_skew(
    rules: Iterable[SkewRule],
    program: str,
    minor: KubernetesMinor,
    reference: KubernetesMinor,
    relative_to: str = API_SERVER,
) -> Judgement:
    """Judge one of Kubernetes' programs beside another.

    Args:
        rules: As the facts state them.
        program: ``kubelet``, ``kube-proxy``, ``kube-controller-manager``, ``kube-scheduler``,
            ``cloud-controller-manager``, ``kubectl``, or ``kube-apiserver`` relative to :data:`OTHER_API_SERVERS`.
        minor: Its minor.
        reference: The minor it is compared with; while servers of two minors run, ask for each.
        relative_to: The program it is compared with.
    """
    for rule in rules:
        if (rule.program, rule.relative_to) == (program, relative_to):
            return rule.judge(minor, reference)
    return Judgement(Verdict.UNKNOWN, f"nothing is known about the distance of {program} and {relative_to}")


def _distance(older: int, newer: int) -> str:
    if older and newer:
        return f"at most {older} minors older and {newer} newer than"
    if older:
        return f"at most {older} minor{'' if older == 1 else 's'} older and never newer than"
    return f"at most {newer} minor{'' if newer == 1 else 's'} newer and never older than" if newer else "only as old as"

"""Statements of upstream projects about versions that work together, and how they are evaluated.

A pair of a component's version and a Kubernetes version is judged in this order:

1. The statements about the component's version are collected. Those about a management cluster do not count, because
   the Kubernetes version is that of the cluster in which the component runs. Without statements the pair is unknown.
2. Kubernetes outside the hard limit of one of them: incompatible. Hard limits are the ``kubeVersion`` of the project's
   chart, which Helm enforces, and ranges outside which the component does not work according to the project.
3. Kubernetes inside the range of one of them: ok, whatever its kind. A range of kind ``skew`` holds during an upgrade,
   and the text says so.
4. Outside every range the verdict is that of field ``outside`` in the component's file, else that of :data:`OUTSIDE`
   for the kind of the statements; of several kinds the strictest decides.

Pre-releases, of the component or of Kubernetes, are in no range.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from clusterstacks.model.files.compatibility import TESTED, UpgradeRule
from clusterstacks.model.ranges import merged
from clusterstacks.plan.compat.verdicts import Judgement, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from clusterstacks.model.ranges import Range
    from clusterstacks.model.semver import SemVer
    from clusterstacks.model.versions import KubernetesVersion
    from clusterstacks.plan.compat.support import SupportEnd

SKEW: Final = "skew"
BUILT_WITH: Final = "built-with"

OUTSIDE: Final[Mapping[str, Verdict]] = {
    TESTED: Verdict.UNTESTED,
    "recommended": Verdict.UNTESTED,
    "supported": Verdict.INCOMPATIBLE,
    SKEW: Verdict.INCOMPATIBLE,
    "documented": Verdict.UNKNOWN,
    "bundled": Verdict.UNKNOWN,
    BUILT_WITH: Verdict.UNKNOWN,
}
"""By kind of statement, the verdict outside its range.

``tested`` and ``recommended`` ranges list tested versions (Cilium, Calico, ingress-nginx, containerd). A ``supported``
range has limits set by the project: a minimum (metrics-server, Longhorn) or the one minor it is made for, which
``skew`` widens during an upgrade (cloud controller managers, kube-proxy). ``documented`` ranges claim nothing about
other versions (Cinder CSI), and ``bundled`` and ``built-with`` are evidence that never forbids a pair (etcd, CoreDNS,
kube-vip).
"""

_VERBS: Final[Mapping[str, str]] = {
    TESTED: "is tested with",
    "supported": "supports",
    "documented": "is documented for",
    "recommended": "is recommended for",
    "bundled": "is what kubeadm deploys with",
    SKEW: "may run, for the time of an upgrade, with",
}
_STRICTNESS: Final = (Verdict.INCOMPATIBLE, Verdict.UNTESTED, Verdict.UNKNOWN)
_STRENGTH: Final = (TESTED, "supported", "recommended", "documented", "bundled", SKEW)

REMEMBERED: Final = 10_000
"""Number of cached judgements (arbitrary: 15 components of 12 releases with 8 minors are 1,440 pairs)."""

COMMUNITY: Final = "community"
"""Authority of facts of a community data set: outside of them a pair is untested, never incompatible."""

MANAGEMENT: Final = "management"
"""Role of a statement about the cluster in which Cluster API runs."""


@dataclass(frozen=True, slots=True)
class FactSource:
    """The document that states a fact, and how far it can be trusted."""

    url: str
    retrieved: str
    """The day on which it was read, for example ``2026-11-20``."""
    published: str = ""
    """The day of its content; empty where it is not known."""
    authority: str = "upstream"
    """``upstream``, ``mirror`` (a copy), ``secondary`` (a third party) or ``community`` (a data set)."""


@dataclass(frozen=True, slots=True)
class UpstreamStatement:
    """One statement about some versions of a component."""

    text: str
    """The versions as written: a series ``1.18``, one version or a range."""
    versions: Range
    """The same as a range."""
    kind: str
    """Kind of evidence, a key of :data:`OUTSIDE`."""
    source: FactSource
    kubernetes: Range | None = None
    """The Kubernetes versions of the statement; None where it names none."""
    limit: Range | None = None
    """The Kubernetes versions outside which it does not work; None without such a statement."""
    limit_source: FactSource | None = None
    role: str = ""
    """``management`` or ``workload`` cluster; empty where the difference does not matter."""
    confidence: str = ""
    """``low`` or ``medium``; empty means high."""
    notes: str = ""
    support_end: SupportEnd | None = None
    """The end of support of these versions; None where the project states no day."""


@dataclass(frozen=True, slots=True)
class UpgradeStatement:
    """The upgrade rule of a project, from the version ``since`` (None for all versions)."""

    rule: UpgradeRule
    source: FactSource
    since: SemVer | None = None


@dataclass(frozen=True, slots=True)
class ChartStatement:
    """A chart that contains the component, and the repository where the project publishes it."""

    name: str
    repository: str
    versions: Mapping[str, str] = field(default_factory=dict)
    """Version of the software by version of the chart; empty where the two are the same."""


@dataclass(frozen=True, slots=True)
class ComponentFacts:
    """All facts about one component."""

    name: str
    """Its id, for example ``cilium``."""
    title: str
    """Its name for people."""
    read: str
    """The day of the facts: the last day on which a source was read."""
    semantics: str = ""
    """The meaning of the project's statements."""
    statements: tuple[UpstreamStatement, ...] = ()
    outside: Verdict | None = None
    """The verdict outside every range; None for :data:`OUTSIDE`."""
    upgrade: UpgradeStatement | None = None
    """The upgrade rule; None where the project forbids nothing."""
    charts: tuple[ChartStatement, ...] = ()
    origin: str = ""
    """The file of these facts; empty for built-in ones."""

    @property
    def outside_verdict(self) -> Verdict | None:
        """The strictest verdict outside the ranges; None without ranges."""
        ranged = [statement for statement in self.statements if statement.kubernetes is not None]
        return (self.outside or _strictest(ranged)) if ranged else None

    def about(self, version: SemVer) -> tuple[UpstreamStatement, ...]:
        """Return the statements about a version in a workload cluster."""
        return tuple(
            statement
            for statement in self.statements
            if statement.role != MANAGEMENT and statement.versions.holds(version.release, version.pre)
        )

    def judge(self, version: SemVer, kubernetes: KubernetesVersion) -> Judgement:
        """Judge a version with a Kubernetes version as the module describes. The text names the day of the facts."""
        title, about = f"{self.name} {version}", self.about(version)
        pre = f"; {kubernetes} is a pre-release, which is in no range" if kubernetes.pre else ""
        if not about:
            return self._judgement(Verdict.UNKNOWN, f"nothing is known about {title}")
        for statement in about:
            if statement.limit is not None and not statement.limit.contains(kubernetes):
                text = f"{title} needs Kubernetes {statement.limit}{pre}"
                return self._judgement(Verdict.INCOMPATIBLE, text, statement.limit_source)
        ranged = sorted(
            (statement for statement in about if statement.kubernetes is not None),
            key=lambda statement: _STRENGTH.index(statement.kind),
        )
        for statement in ranged:
            if statement.kubernetes is not None and statement.kubernetes.contains(kubernetes):
                return self._judgement(Verdict.OK, _stated(title, [statement]), statement.source, _doubt([statement]))
        if not ranged:
            text = f"no range of Kubernetes versions is published for {title}"
            return self._judgement(Verdict.UNKNOWN, text, about[0].source)
        return self._judgement(
            self.outside or _strictest(ranged), f"{_stated(title, ranged)}{pre}", ranged[0].source, _doubt(ranged)
        )

    def _judgement(self, verdict: Verdict, text: str, source: FactSource | None = None, doubt: str = "") -> Judgement:
        if source is not None and source.authority == COMMUNITY:
            doubt = f"{doubt}community "
            verdict = Verdict.UNTESTED if verdict is Verdict.INCOMPATIBLE else verdict
        return Judgement(verdict, f"{text} ({doubt}facts of {self.read})", source.url if source is not None else "")

    def support_end(self, version: SemVer) -> SupportEnd | None:
        """Return the latest stated end of support of a version; None where the project states no day."""
        ends = (
            statement.support_end
            for statement in self.statements
            if statement.versions.holds(version.release, version.pre)
        )
        return max(filter(None, ends), default=None)

    def upgrade_rule(self, version: SemVer) -> UpgradeRule | None:
        """Return the project's rule for upgrades to a version; None without one."""
        stated = self.upgrade
        if stated is None or (stated.since is not None and version < stated.since):
            return None
        return stated.rule


@dataclass(frozen=True, slots=True)
class UpstreamFacts:
    """The facts of every component, by id; an :class:`~clusterstacks.plan.compat.verdicts.Upstream`."""

    components: Mapping[str, ComponentFacts]
    _judged: dict[tuple[str, str, KubernetesVersion], Judgement] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def judge(self, name: str, version: SemVer, kubernetes: KubernetesVersion) -> Judgement:
        """Judge a component with a Kubernetes version; cached, because a plan needs the same pair very often."""
        if name not in self.components:
            return Judgement(Verdict.UNKNOWN, f"nothing is known about {name} {version}")
        key = name, str(version), kubernetes
        judgement = self._judged.get(key)
        if judgement is None:
            if len(self._judged) >= REMEMBERED:
                self._judged.clear()
            judgement = self._judged[key] = self.components[name].judge(version, kubernetes)
        return judgement

    def support_end(self, name: str, version: SemVer) -> SupportEnd | None:
        """Return the end of support of a version of a component; None where it is not known."""
        return self.components[name].support_end(version) if name in self.components else None

    def upgrade_rule(self, name: str, version: SemVer) -> UpgradeRule | None:
        """Return the project's rule for upgrades of a component to a version; None without one."""
        return self.components[name].upgrade_rule(version) if name in self.components else None


def _strictest(statements: Iterable[UpstreamStatement]) -> Verdict:
    return min((OUTSIDE[statement.kind] for statement in statements), key=_STRICTNESS.index)


def _stated(title: str, statements: Sequence[UpstreamStatement]) -> str:
    """Write the statements, kind by kind."""
    parts = [
        f"{_VERBS[kind]} Kubernetes {merged(ranges)}"
        for kind in _STRENGTH
        if (
            ranges := [
                statement.kubernetes
                for statement in statements
                if statement.kind == kind and statement.kubernetes is not None
            ]
        )
    ]
    return f"{title} {' and '.join(parts)}"


def _doubt(statements: Iterable[UpstreamStatement]) -> str:
    return next((f"{statement.confidence} confidence, " for statement in statements if statement.confidence), "")

"""Decides from the facts about a management cluster whether the operator can be installed there, and works there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from clusterstacks.model.versions import KubernetesMinor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.csctl.install.installations import OperatorDeployment
    from clusterstacks.model.objects import ObjectKey

OLDEST_KUBERNETES: Final = KubernetesMinor(1, 30)
"""Oldest minor of the management cluster: it has match conditions of webhooks and ``sleep`` of a container's hook."""
NEWEST_KUBERNETES: Final = KubernetesMinor(1, 36)
"""Newest minor of the management cluster with which this version is tested."""
CONTRACT: Final = "v1beta2"
"""The API version of Cluster API with which this version is tested; it is served from Cluster API 1.11 on."""
OLDER_CONTRACT: Final = "v1beta1"
"""The older API version that also works; Cluster API 1.10 and older serve only this one."""
TESTED_CLUSTER_API: Final = "1.14"
"""Minor of Cluster API with which this version is tested."""
TOPOLOGY, RUNTIME = "ClusterTopology", "RuntimeSDK"
"""Feature gates of Cluster API."""

_REMEDY = (
    "set the variable {variable} to true and run 'clusterctl init' again, or set --feature-gates of the core manager"
)


class Result(StrEnum):
    """Result of one check; only a problem prevents the installation."""

    OK = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report."""

    subject: str
    result: Result
    details: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """Facts about a management cluster, as far as the user may read them."""

    kubernetes: KubernetesMinor
    git_version: str = ""
    """Its version as it prints it."""
    cluster_api: str = ""
    """Version of Cluster API; empty if unknown."""
    served: tuple[str, ...] = ()
    """Served versions of the kind Cluster; empty without Cluster API."""
    gates: dict[str, bool | None]
    """Feature gates of Cluster API by name; None if unknown."""
    refusals: tuple[str, ...] = ()
    """Refused writes of the installation, one message each."""
    conflicts: tuple[str, ...] = ()
    """Why csctl must not touch what is installed, one message each."""
    unserved: tuple[str, ...] = ()
    """Our kinds that the API server should serve and does not."""
    go_operators: tuple[ObjectKey, ...] = ()
    leftovers: tuple[str, ...] = ()
    """Registrations of the Go operator: what each does, and the command that removes it."""
    here: OperatorDeployment | None = None
    """The operator in the namespace of the installation, also a Go operator; None without one."""
    webhooks: str | None = None
    """The error of a call to the webhooks; empty if they answer, None if they cannot be tried."""
    unrestricted_from: tuple[str, ...] = ()
    """Addresses of the API servers, if no NetworkPolicy in the namespace restricts who reaches the webhooks."""


def checks(facts: ClusterFacts) -> list[Check]:
    """Return all checks in the order of the report."""
    return [
        _kubernetes(facts),
        _cluster_api(facts),
        *_gates(facts),
        *_rights(facts),
        *_go_operator(facts),
        *_operator(facts),
    ]


def problems(found: list[Check]) -> list[Check]:
    """Return the checks that prevent an installation."""
    return [one for one in found if one.result is Result.PROBLEM]


def _kubernetes(facts: ClusterFacts) -> Check:
    version, minor = facts.git_version or f"v{facts.kubernetes}", (facts.kubernetes.major, facts.kubernetes.minor)
    if minor < (OLDEST_KUBERNETES.major, OLDEST_KUBERNETES.minor):
        needed = f"{version} is too old: upgrade the management cluster to {OLDEST_KUBERNETES} or newer"
        return Check("Kubernetes", Result.PROBLEM, needed)
    if minor > (NEWEST_KUBERNETES.major, NEWEST_KUBERNETES.minor):
        return Check(
            "Kubernetes", Result.WARNING, f"{version} is newer than the newest tested one, {NEWEST_KUBERNETES}"
        )
    return Check("Kubernetes", Result.OK, f"{version} (supported: {OLDEST_KUBERNETES} to {NEWEST_KUBERNETES})")


def _cluster_api(facts: ClusterFacts) -> Check:
    subject, version = "Cluster API", facts.cluster_api or "unknown version"
    serving = f"{version}, serves {' and '.join(facts.served)}"
    if not facts.served:
        remedy = "CRD clusters.cluster.x-k8s.io does not exist: install Cluster API with 'clusterctl init' first"
        return Check(subject, Result.PROBLEM, remedy)
    if CONTRACT in facts.served:
        return Check(subject, Result.OK, f"{serving} (tested with {TESTED_CLUSTER_API})")
    if OLDER_CONTRACT in facts.served:
        return Check(subject, Result.WARNING, f"{serving}: works, but Cluster API 1.11 or newer is recommended")
    needed = f"{serving}: upgrade Cluster API to a version that serves {CONTRACT} or {OLDER_CONTRACT}"
    return Check(subject, Result.PROBLEM, needed)


def _gates(facts: ClusterFacts) -> Iterator[Check]:
    if not facts.served:
        return
    rules = (
        (TOPOLOGY, Result.PROBLEM, "CLUSTER_TOPOLOGY", "without it, Cluster API refuses ClusterClasses"),
        (
            RUNTIME,
            Result.WARNING,
            "EXP_RUNTIME_SDK",
            "without it, Cluster API upgrades clusters before the addons that must go first",
        ),
    )
    for gate, severity, variable, consequence in rules:
        enabled = facts.gates.get(gate)
        subject = f"feature gate {gate}"
        if enabled is None:
            yield Check(subject, Result.UNKNOWN, f"cannot be tried with your rights; {consequence}")
        elif enabled:
            yield Check(subject, Result.OK, "enabled")
        else:
            yield Check(subject, severity, f"disabled; {consequence}: {_REMEDY.format(variable=variable)}")


def _rights(facts: ClusterFacts) -> Iterator[Check]:
    for refusal in (*facts.conflicts, *facts.refusals):
        yield Check("installation", Result.PROBLEM, refusal)
    if not facts.refusals and not facts.conflicts:
        yield Check("installation", Result.OK, "the API server accepts all objects from you")
    if facts.unserved:
        remedy = "create their CustomResourceDefinitions with 'csctl crds | kubectl apply --server-side -f -'"
        yield Check("kinds", Result.WARNING, f"{', '.join(facts.unserved)} are not served: {remedy}")


def _go_operator(facts: ClusterFacts) -> Iterator[Check]:
    subject = "Go operator"
    for key in facts.go_operators:
        remedy = f"take over its Helm release, or stop it with 'kubectl -n {key.namespace} scale deployment {key.name}"
        yield Check(
            subject,
            Result.PROBLEM,
            f"Deployment {key} runs, and two operators would write the same objects: {remedy} --replicas=0'",
        )
    for one in facts.leftovers:
        yield Check(subject, Result.WARNING, one)
    if not facts.go_operators and not facts.leftovers:
        yield Check(subject, Result.OK, "none")


def _operator(facts: ClusterFacts) -> Iterator[Check]:
    here = facts.here
    if here is None or here.is_go:
        yield Check("operator", Result.OK, "not installed yet")
        return
    if here.owner.is_foreign:
        upgrade = f"installed by {here.owner}: upgrade it {here.owner.upgrade}"
        yield Check("operator", Result.WARNING, upgrade)
    available, desired = here.available, here.desired
    ready = f"{available} of {desired} replicas are available"
    if available:
        yield Check("operator", Result.OK if available == desired else Result.WARNING, ready)
    else:
        yield Check("operator", Result.WARNING, f"{ready}: see 'kubectl describe pods' and its logs")
    if facts.webhooks is None:
        yield Check("webhooks", Result.UNKNOWN, "not registered, or cannot be tried with your rights")
    elif facts.webhooks:
        yield Check("webhooks", Result.WARNING, f"do not answer: {facts.webhooks}")
    else:
        yield Check("webhooks", Result.OK, "reachable by the API server")
    if facts.unrestricted_from:
        addresses = ", ".join(f"{address}/{128 if ':' in address else 32}" for address in facts.unrestricted_from)
        advice = (
            "none: every pod reaches the webhooks; a flood can delay the API server. If the network plugin enforces "
            f"policies, set networkPolicy.enabled to true and networkPolicy.apiServers to [{addresses}] or the "
            "addresses of konnectivity's agents"
        )
        yield Check("network policy", Result.OK, advice)

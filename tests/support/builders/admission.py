"""Clusters, stacks and releases as admission requests, and the validators that answer them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from clusterstacks.model.kinds.provider_refs import DEFAULT_KINDS
from clusterstacks.model.objects import Manifest, ObjectKey
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator.class_offer import similar_classes
from clusterstacks.operator.webhooks.cluster_rules import ClassOffer
from clusterstacks.operator.webhooks.cluster_validator import ClusterValidator
from clusterstacks.operator.webhooks.reviews import AdmissionRequest, Operation
from clusterstacks.operator.webhooks.stack_validators import StackValidators
from clusterstacks.plan.clusters.provider_rules import ProviderRules
from clusterstacks.plan.compat.verdicts import NOTHING_KNOWN
from clusterstacks.runtime.cache import CacheChange, ObjectCache, key_of
from tests.support.builders.class_access import READ, STACKS, class_access
from tests.support.fakes.api_server import FakeApi
from tests.support.planner_oracle import candidate

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.operator.webhooks.answers import AdmissionResponse
    from clusterstacks.operator.webhooks.suggestions import Suggester
    from clusterstacks.plan.compat.world import Candidate

GROUP = "clusterstack.x-k8s.io"


def ranged(name: str, kubernetes: str, works_with: str, cilium: tuple[str, str]) -> Candidate:
    component = {"name": "cilium", "addon": "cilium", "version": cilium[0], "kubernetes": cilium[1]}
    return candidate(name, kubernetes, {"kubernetes": works_with, "components": [component]})


OLD = ranged("p-s-1-35-v1", "v1.35.1", ">=1.34 <1.37", ("1.17.2", ">=1.30 <1.36"))
NEW = ranged("p-s-1-36-v2", "v1.36.1", ">=1.35 <1.38", ("1.18.0", ">=1.33 <1.38"))
BUNDLE = candidate("p-s-1-35-v9", "v1.35.9", None)


class Noon:
    def now(self) -> datetime:
        return datetime(2026, 11, 21, 12, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


@dataclass
class Given:
    """Releases of a namespace, as the operator provides them to the webhooks."""

    candidates: tuple[Candidate, ...] = (OLD, NEW, BUNDLE)
    lacking: Mapping[ReleaseName, str] = field(default_factory=dict)
    has: Mapping[str, ReleaseName] = field(default_factory=dict)
    refusal: str = ""
    asked: list[set[str]] = field(default_factory=list)
    rules: tuple[Manifest, ...] = ()

    async def offer(self, namespace: str, release: ReleaseName, wanted: Collection[ReleaseName]) -> ClassOffer | None:
        known = {one.name: one for one in self.candidates}
        if namespace != "stacks" or release not in known:
            return None
        assert release not in wanted
        return ClassOffer(known[release].kubernetes.text, candidates=known, lacking=self.lacking)

    async def refused(self, cluster: ClusterView, releases: Collection[ReleaseName]) -> str:
        assert cluster.key == ObjectKey("users", "one")
        self.asked.append({one.release for one in releases})
        return self.refusal

    async def similar(self, cluster: ClusterView, release: ReleaseName) -> list[str]:
        assert cluster.key == ObjectKey("users", "one")
        return [name.class_name for name in similar_classes(release, (one.name for one in self.candidates))]

    def delivered(self, cluster: ObjectKey) -> Mapping[str, ReleaseName]:
        assert cluster == ObjectKey("users", "one")
        return self.has


def cluster(
    class_name: str = "p-s-1-35-v1",
    version: str = "v1.35.1",
    *,
    namespace: str = "stacks",
    labels: Any = None,
    variables: Any = None,
    **annotations: str,
) -> Manifest:
    named = {f"{GROUP}/{key.replace('__', '.')}": value for key, value in annotations.items()}
    values = [{"name": name, "value": value} for name, value in (variables or {}).items()]
    topology = {"classRef": {"name": class_name, "namespace": namespace}, "version": version, "variables": values}
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "one", "namespace": "users", "labels": labels or {}, "annotations": named},
        "spec": {"topology": topology},
    }


def review(new: Manifest, old: Manifest | None = None, kind: str = "Cluster") -> AdmissionRequest:
    operation = Operation.UPDATE if old and new else Operation.CREATE if new else Operation.DELETE
    return AdmissionRequest("u1", operation, GROUP, kind, new, old or {})


async def judged(
    suggester: Suggester, new: Manifest, old: Manifest | None = None, given: Given | None = None
) -> AdmissionResponse:
    rules, given = ProviderRules(Noon()), given or Given()
    for at, spec in enumerate(given.rules):
        metadata = {"name": f"rule-{at}"}
        rule = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "CompatibilityRule", "metadata": metadata, "spec": spec}
        rules.changed(CacheChange(ObjectKey("", metadata["name"]), None, rule))
    validator = ClusterValidator(releases=given, rules=rules.counting, upstream=NOTHING_KNOWN, suggester=suggester)
    return await validator.validate(review(new, old))


def stored(*manifests: Manifest) -> ObjectCache:
    store = ObjectCache()
    for manifest in manifests:
        put(store, manifest)
    return store


def put(store: ObjectCache, manifest: Manifest) -> None:
    store.put(key_of(manifest), manifest)


def release(name: str, **metadata: Any) -> Manifest:
    return {"metadata": {"name": name, "namespace": "stacks", **metadata}}


def stack(name: str = "scs", **spec: Any) -> Manifest:
    plain = {"provider": "p", "name": "s", "kubernetesVersion": "1.35", "noProvider": True}
    return {"metadata": {"name": name, "namespace": "stacks"}, "spec": {**plain, **spec}}


CLUSTERS = Resource("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters", namespaced=True)


async def own_kinds(
    *releases: Manifest, seen: tuple[Manifest, ...] = (), there: tuple[Manifest, ...] = ()
) -> StackValidators:
    """Validators of our kinds; ``seen`` is in the informers' caches, ``there`` on the server."""
    api = FakeApi(CLUSTERS, *READ)
    for manifest in there:
        await api.create(STACKS if "provider" in manifest["spec"] else CLUSTERS, manifest)
    stacks = [manifest for manifest in seen if "provider" in manifest["spec"]]
    clusters = [manifest for manifest in seen if "provider" not in manifest["spec"]]
    access = class_access(api, stacks=stacks, releases=releases)
    return StackValidators(api, stored(*clusters), access.releases, access.stacks, DEFAULT_KINDS, access.counts)

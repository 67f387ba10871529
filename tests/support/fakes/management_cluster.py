"""An in-memory management cluster: Clusters, stacks and sources of releases."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from clusterstacks.model.kinds.names import GROUP
from clusterstacks.model.names import parse_release
from clusterstacks.model.objects import Manifest, ObjectKey
from clusterstacks.net.kube.errors import Forbidden
from clusterstacks.net.kube.resources import ObjectList, Resource
from clusterstacks.plan.clusters.context import read_context
from clusterstacks.plan.compat.library import facts
from clusterstacks.release.sources.source_opener import SecretReader, SourceAccess, SourceOpener
from tests.support.builders.releases import FakeSource
from tests.support.fakes.api_server import FakeApi

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.net.http.client import HTTPClient
    from clusterstacks.plan.clusters.context import UpgradeContext
    from clusterstacks.plan.compat.world import Candidate
    from clusterstacks.release.release_source import ReleaseSource
    from clusterstacks.release.sources.spec import SourceAddress

KEY = ObjectKey("team", "prod")
NOW = datetime(2026, 11, 21, tzinfo=UTC)
CLUSTER_API = "cluster.x-k8s.io"
CONTROL_PLANES = "controlplane.cluster.x-k8s.io"


def _kind(group: str, kind: str, version: str = "v1alpha1", *, namespaced: bool = True) -> Resource:
    return Resource(group, version, kind, f"{kind.lower()}s", namespaced=namespaced)


CLUSTERS = _kind(CLUSTER_API, "Cluster", "v1beta2")
KINDS = {
    one.kind: one
    for one in (
        CLUSTERS,
        _kind(CLUSTER_API, "ClusterClass", "v1beta2"),
        _kind(CLUSTER_API, "Machine", "v1beta2"),
        _kind(CLUSTER_API, "MachinePool", "v1beta2"),
        _kind(CONTROL_PLANES, "KubeadmControlPlane", "v1beta2"),
        _kind(GROUP, "ClusterStack"),
        _kind(GROUP, "ClusterStackRelease"),
        _kind(GROUP, "ClusterAddon"),
        _kind(GROUP, "CompatibilityRule", namespaced=False),
        _kind("", "Secret", "v1"),
    )
}


class Guarded(FakeApi):
    """Forbids reading some kinds."""

    def __init__(self, *resources: Resource, forbidden: frozenset[str] = frozenset()) -> None:
        super().__init__(*resources)
        self.forbidden = forbidden

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Manifest:
        self._guard(f"get {resource} {namespace}/{name}", resource)
        return await super().get(resource, name, namespace)

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", pages: int = 0
    ) -> ObjectList:
        self._guard(f"list {resource}", resource)
        return await super().list(resource, namespace, labels=labels, fields=fields, pages=pages)

    def _guard(self, call: str, resource: Resource) -> None:
        if resource.kind in self.forbidden:
            raise Forbidden(f"{call}: 403 Forbidden: not you", status=403, reason="Forbidden")


@dataclass(frozen=True, kw_only=True)
class Opener(SourceOpener):
    """Opens the sources of a test by their location; a source that is an error is raised."""

    sources: Mapping[str, ReleaseSource | Exception]
    opened: list[str] = field(default_factory=list)

    async def open(self, address: SourceAddress, access: SourceAccess) -> tuple[ReleaseSource, HTTPClient | None]:  # noqa: ARG002
        self.opened.append(address.place)
        source = self.sources[address.place]
        if isinstance(source, Exception):
            raise source
        return source, None


@dataclass(kw_only=True)
class Management:
    """The cluster of a test; ``forbidden`` kinds cannot be read."""

    sources: dict[str, ReleaseSource | Exception] = field(default_factory=dict)
    given: tuple[Candidate, ...] = ()
    api: Guarded = field(default_factory=lambda: Guarded(*KINDS.values()))
    opener: Opener = field(init=False)

    def __post_init__(self) -> None:
        reader = SecretReader(self.api)
        self.opener = Opener(secrets=reader, release_dir=Path("/nowhere"), environ={}, sources=self.sources)

    async def has(self, kind: str, name: str, document: Mapping[str, Any], *, namespace: str = "team") -> Manifest:
        resource = KINDS[kind]
        place = {"namespace": namespace} if resource.namespaced else {}
        metadata = {"name": name, **place, **document.get("metadata", {})}
        manifest = {"apiVersion": resource.api_version, "kind": kind, **document, "metadata": metadata}
        return await self.api.create(resource, manifest, namespace if resource.namespaced else "")

    async def has_stack(self, minor: str = "1.35", *, name: str = "", place: str = "kaas/one", **spec: Any) -> None:
        source = {"oci": {"repository": place}}
        plain = {"provider": "p", "name": "s", "kubernetesVersion": minor, "noProvider": True, "source": source}
        await self.has("ClusterStack", name or f"s-{minor.replace('.', '-')}", {"spec": {**plain, **spec}})

    async def has_release(self, name: str, *, ready: bool = True, stack: str = "s-1-35") -> None:
        owner = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "ClusterStack", "name": stack, "uid": "1"}
        metadata = {"ownerReferences": [owner]}
        await self.has("ClusterStackRelease", name, {"metadata": metadata, "status": {"ready": ready}})

    async def has_cluster(self, release: str, version: str = "v1.35.4", **document: Any) -> None:
        topology = {"classRef": {"name": parse_release(release).class_name}, "version": version}
        spec = {"topology": topology, **document.pop("spec", {})}
        status = document.pop("status", {"controlPlane": {"versions": [{"version": version}]}})
        await self.has("Cluster", KEY.name, {"spec": spec, "status": status, **document})

    async def has_addons(self, *addons: Mapping[str, str]) -> None:
        listed = [{"objects": 1, **addon} for addon in addons]
        await self.has("ClusterAddon", f"cluster-addon-{KEY.name}", {"status": {"addons": listed}})

    async def context(self, *, sources: bool = True) -> UpgradeContext:
        opener = self.opener if sources else None
        return await read_context(self.api, KEY, opener=opener, upstream=facts(), given=self.given, now=NOW)


def stated(kubernetes: str, works_with: str | None = None, **addons: str) -> dict[str, bytes]:
    """Return metadata and compatibility statement of a release; without a range it is a bundle."""
    files = {"metadata.yaml": orjson.dumps({"versions": {"kubernetes": kubernetes}})}
    if works_with is None:
        return files
    components = [{"name": addon, "addon": addon, "version": version} for addon, version in addons.items()]
    document = {
        "apiVersion": "compatibility.clusterstack.x-k8s.io/v1alpha1",
        "kubernetes": works_with,
        "components": components,
    }
    return {**files, "compatibility.yaml": orjson.dumps(document)}


def source(**releases: Mapping[str, bytes]) -> FakeSource:
    """Return a source; underscores in names stand for dashes."""
    named: dict[ReleaseName, Mapping[str, bytes]] = {
        parse_release(name.replace("_", "-")): files for name, files in releases.items()
    }
    return FakeSource(named)

"""Releases that a ClusterStack keeps while clusters are upgraded."""

from __future__ import annotations

from pathlib import Path

from clusterstacks.model.kinds.names import API_VERSION, GROUP, Kind
from clusterstacks.model.kinds.provider_refs import DEFAULT_KINDS
from clusterstacks.model.objects import Manifest, ObjectKey
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator.controllers.class_usage import CLASS_NAMESPACE_INDEX, class_namespace
from clusterstacks.operator.controllers.clusterstack.owned_releases import OwnedReleases
from clusterstacks.operator.controllers.clusterstack.reconciler import StackReconciler
from clusterstacks.operator.controllers.held_reports import HeldReports
from clusterstacks.operator.controllers.status_reconciler import StatusPatch
from clusterstacks.release.sources import source_kinds
from clusterstacks.release.sources.owners import STACK_INDEX, stacks_owning
from clusterstacks.release.sources.periodic_listing import SourceListings
from clusterstacks.release.sources.source_cache import SourceCache
from clusterstacks.release.sources.source_opener import SecretReader, SourceOpener
from clusterstacks.release.sources.spec import SourceAddress, SourceSettings
from clusterstacks.release.sources.stack_source import SourcePolicy
from clusterstacks.runtime.cache import ObjectCache, key_of
from clusterstacks.runtime.clock import SystemClock
from clusterstacks.runtime.events import EventRecorder
from clusterstacks.runtime.informer import Informer
from tests.support.builders.class_access import class_access
from tests.support.fakes.api_server import FakeApi

RELEASES = Resource(GROUP, "v1alpha1", Kind.CLUSTER_STACK_RELEASE.value, "clusterstackreleases", namespaced=True)
CLUSTERS = Resource("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters", namespaced=True)
CLASSES = Resource("cluster.x-k8s.io", "v1beta2", "ClusterClass", "clusterclasses", namespaced=True)
EVENTS = Resource("", "v1", "Event", "events", namespaced=True)
OLD, NEW = "openstack-scs-1-35-v1", "openstack-scs-1-35-v2"
STACK: Manifest = {
    "apiVersion": API_VERSION,
    "kind": Kind.CLUSTER_STACK.value,
    "metadata": {"name": "scs", "namespace": "stacks", "uid": "1"},
    "spec": {
        "provider": "openstack",
        "name": "scs",
        "kubernetesVersion": "1.35",
        "versions": ["v2"],
        "autoSubscribe": False,
        "noProvider": True,
    },
}


async def kept(*, using: str, recorded: str) -> set[str]:
    """Return the releases left of v1 and v2, both ready, for the class of a cluster and the class of its addons."""
    api = FakeApi(RELEASES, CLUSTERS, CLASSES, EVENTS)
    informer = Informer(api, GROUP, Kind.CLUSTER_STACK_RELEASE, indexes={STACK_INDEX: stacks_owning})
    releases = informer.cache
    owner = {"apiVersion": API_VERSION, "kind": STACK["kind"], "name": "scs", "uid": "1"}
    for name in (OLD, NEW):
        manifest = {"metadata": {"name": name, "ownerReferences": [owner]}, "status": {"ready": True}}
        one = await api.create(RELEASES, manifest, "stacks")
        releases.put(key_of(one), one)
    clusters, addons = ObjectCache({CLASS_NAMESPACE_INDEX: class_namespace}), ObjectCache()
    topology = {"classRef": {"name": using, "namespace": "stacks"}}
    key = ObjectKey("team", "one")
    clusters.put(key, {"metadata": {"name": "one", "namespace": "team"}, "spec": {"topology": topology}})
    addons.put(ObjectKey("team", "cluster-addon-one"), {"spec": {"clusterStack": recorded}})
    opener = SourceOpener(secrets=SecretReader(api), release_dir=Path("/nowhere"), environ={})
    reconciler = StackReconciler(
        client=api,
        source_policy=SourcePolicy(default=SourceSettings(address=SourceAddress(source_kinds.DIRECTORY, ""), own=True)),
        listings=SourceListings(SourceCache(opener, SystemClock()), SystemClock(), lambda _: None),
        clusters=clusters,
        addons=addons,
        access=class_access(api, stacks=[STACK], releases=releases.all()),
        releases=OwnedReleases(client=api, informer=informer, events=EventRecorder(api, "test")),
        events=EventRecorder(api, "test"),
        provider_kinds=DEFAULT_KINDS,
        held=HeldReports(SystemClock()),
    )
    await reconciler.work(StatusPatch(STACK))
    return {key.name for key in api.objects(RELEASES)}


async def test_previous_release_of_a_cluster_is_kept_until_its_addons_are_upgraded() -> None:
    assert await kept(using=NEW, recorded=OLD) == {OLD, NEW}
    assert await kept(using=NEW, recorded=NEW) == {NEW}


async def test_cluster_with_a_foreign_class_keeps_no_release() -> None:
    assert await kept(using="homemade", recorded=OLD) == {NEW}

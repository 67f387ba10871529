"""The real operator between a management and a workload cluster; the test plays Cluster API."""

from __future__ import annotations

import asyncio
import base64
import itertools
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from clusterstacks.deliver.apply.class_object_rules import IMAGE_KIND
from clusterstacks.deliver.apply.delivery import RECORD_NAMESPACE
from clusterstacks.deliver.apply.record_store import RECORD_LABEL, SECRETS
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.crd_manifests import all_crds
from clusterstacks.model.kinds.names import (
    CLUSTER_API_GROUP,
    CLUSTER_CLASS_KIND,
    CLUSTER_KIND,
    CLUSTER_NAME_LABEL,
    PROVIDER_GROUP,
    RESOURCE_SET_BINDING_KIND,
    RESOURCE_SET_GROUP,
    RESOURCE_SET_KIND,
    Kind,
    OpenStackKind,
)
from clusterstacks.model.kinds.source import DirectoryPlace, SourceSpec
from clusterstacks.model.objects import split_api_version
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.errors import ApiError, KindNotServed, NotFound
from clusterstacks.net.kube.kubeconfig import parse_kubeconfig
from clusterstacks.net.pool import Pool
from clusterstacks.operator.app import Operator
from clusterstacks.operator.settings import OperatorSettings
from clusterstacks.operator.webhooks.configuration import WebhookScope
from clusterstacks.runtime.informer import Informer
from tests.support.builders.manifests import crd
from tests.support.builders.orc_schema import image_schema
from tests.support.builders.stacks import INFRASTRUCTURE, KUBERNETES, TinyStack, config_map, publish, templates
from tests.support.observing.request_recorder import record, uncovered
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from tests.support.observing.request_recorder import Request

PROVIDER_KINDS = ("TinyClusterStackRelease", "OtherClusterStackRelease")
SECONDS = 120
"""How long anything may take; nothing here takes longer than one or two unless it fails."""

LOOKING_OFTEN = SourceSpec(directory=DirectoryPlace(), interval="1s")
"""The operator's own directory, looked at as often as a source may be."""

_numbers = itertools.count(1)


@dataclass(kw_only=True)
class World:
    """The part of the two clusters that belongs to one test.

    Args:
        namespace: Its own in the management cluster, and its word: in the names of everything else.
        client: An administrator of the management cluster.
        workload: An administrator of the workload cluster.
        releases: The operator's --release-dir.
    """

    namespace: str
    client: Client
    workload: Client
    releases: Path
    cache: Path
    management_kubeconfig: Path
    workload_kubeconfig: Mapping[str, Any]
    stack: TinyStack = field(init=False)
    namespaces: list[str] = field(init=False)
    requests: set[Request] = field(init=False, default_factory=set)
    """What the last operator asked the management API server."""
    running: Operator | None = field(init=False, default=None)
    """The operator that runs now."""

    def __post_init__(self) -> None:
        self.stack = TinyStack(self.namespace)
        self.namespaces = [self.namespace]

    # What users and Cluster API do

    def publish(self, name: ReleaseName, files: Mapping[str, bytes]) -> Path:
        return publish(self.releases, name, files)

    async def create(self, manifest: Manifest) -> Manifest:
        resource = await self.client.resource(*_group_kind(manifest))
        return await self.client.create(resource, manifest, manifest["metadata"].get("namespace", ""))

    async def patch(self, manifest: Manifest, patch: Manifest, subresource: str = "") -> Manifest:
        resource = await self.client.resource(*_group_kind(manifest))
        metadata = manifest["metadata"]
        namespace = metadata.get("namespace", "")
        return await self.client.merge_patch(resource, metadata["name"], patch, namespace, subresource=subresource)

    async def delete(self, manifest: Manifest) -> None:
        resource = await self.client.resource(*_group_kind(manifest))
        await self.client.delete(resource, manifest["metadata"]["name"], manifest["metadata"].get("namespace", ""))

    async def other_namespace(self, labels: Mapping[str, str] | None = None) -> str:
        name = f"{self.namespace}-{len(self.namespaces)}"
        metadata = {"name": name, "labels": dict(labels or {})}
        await self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        self.namespaces.append(name)
        return name

    async def cluster(
        self,
        name: str,
        class_name: str,
        *,
        namespace: str = "",
        version: str = KUBERNETES,
        ready: bool = True,
        kubeconfig: Mapping[str, Any] | None = None,
        **topology: Any,
    ) -> Manifest:
        """Create a Cluster and its kubeconfig (the workload cluster's); Cluster API has finished it if ``ready``."""
        namespace = namespace or self.namespace
        cluster = await self.create(cluster_manifest(namespace, name, class_name, version, **topology))
        await self.connect(name, kubeconfig, namespace=namespace)
        return await self.finish(cluster, version) if ready else cluster

    async def finish(self, cluster: Manifest, version: str = KUBERNETES) -> Manifest:
        """Write the status of a Cluster that has its version, as Cluster API does."""
        return await self.patch(cluster, {"status": finished_status(version)}, "status")

    async def connect(
        self, cluster: str, kubeconfig: Mapping[str, Any] | None = None, *, namespace: str = ""
    ) -> Manifest:
        """Write the Secret of a Cluster's kubeconfig."""
        document = yaml.safe_dump(dict(kubeconfig or self.workload_kubeconfig)).encode()
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": f"{cluster}-kubeconfig",
                "namespace": namespace or self.namespace,
                "labels": {CLUSTER_NAME_LABEL: cluster},
            },
            "type": "cluster.x-k8s.io/secret",
            "data": {"value": base64.b64encode(document).decode()},
        }
        secrets = await self.client.resource("", "Secret")
        return await self.client.apply(secrets, secret, manager="tests", force=True)

    async def set_class(self, cluster: str, class_name: str, *, namespace: str = "", version: str = "") -> None:
        topology: Manifest = {"classRef": {"name": class_name}, **({"version": version} if version else {})}
        manifest = {**await self.get(CLUSTER_KIND, cluster, namespace)}
        await self.patch(manifest, {"spec": {"topology": topology}})

    async def nudge(self, manifest: Manifest) -> None:
        """Edit an object so that it is reconciled now instead of after a back-off."""
        number = str(next(_numbers))
        with suppress(NotFound):
            await self.patch(manifest, {"metadata": {"annotations": {"example.org/nudge": number}}})

    async def look_again(self, operator: Operator, controller: str, manifest: Manifest) -> None:
        """Nudge an object, and wait until its controller has finished another reconcile."""
        before = attempts(operator, controller)
        await self.nudge(manifest)

        async def ended() -> bool:
            return attempts(operator, controller) > before

        await eventually(ended, seconds=SECONDS, about=f"another reconcile of the {controller} controller")

    # What there is

    async def find(self, kind: str, name: str, namespace: str = "", group: str = "") -> Manifest | None:
        own = {CLUSTER_KIND: CLUSTER_API_GROUP, CLUSTER_CLASS_KIND: CLUSTER_API_GROUP}
        own |= dict.fromkeys(map(str, OpenStackKind), PROVIDER_GROUP) | {IMAGE_KIND[1]: IMAGE_KIND[0]}
        group = group or (Kind(kind).group if kind in tuple(Kind) else own.get(kind, ""))
        return await self.client.find(await self.client.resource(group, kind), name, namespace or self.namespace)

    async def get(self, kind: str, name: str, namespace: str = "") -> Manifest:
        manifest = await self.find(kind, name, namespace)
        assert manifest is not None, f"no {kind} {name}"
        return manifest

    async def addon(self, cluster: str, namespace: str = "") -> Manifest:
        return await self.get(Kind.CLUSTER_ADDON, addon_name(cluster), namespace)

    async def delivered(self, name: str, namespace: str = "kube-system") -> Manifest | None:
        """Return a ConfigMap of the workload cluster."""
        return await self.workload.find(await self.workload.resource("", "ConfigMap"), name, namespace)

    async def events(self, manifest: Manifest) -> list[Manifest]:
        """Return the events of an object once no reconcile is running: an event follows its status."""
        await self.at_rest()
        namespace = manifest["metadata"]["namespace"]
        fields = f"involvedObject.uid={manifest['metadata']['uid']}"
        return (await self.client.list(await self.client.resource("", "Event"), namespace, fields=fields)).items

    # Waiting

    async def at_rest(self) -> None:
        """Wait until no reconcile of the operator is running, and none is due."""

        async def look() -> bool:
            return self.running is None or not busy_workers(self.running) + due_keys(self.running)

        await eventually(look, seconds=SECONDS, about="the end of all reconciles")

    async def release_ready(self, name: ReleaseName | str) -> Manifest:
        return await self.until(Kind.CLUSTER_STACK_RELEASE, str(name), is_ready)

    async def addons_ready(self, cluster: str, class_name: str, namespace: str = "") -> Manifest:
        """Wait until the ClusterAddon reports that the cluster has all addons of the class."""

        def complete(addon: Manifest) -> bool:
            return is_ready(addon) and addon["spec"].get("clusterStack") == class_name

        return await self.until(Kind.CLUSTER_ADDON, addon_name(cluster), complete, namespace=namespace)

    async def until(
        self,
        kind: str,
        name: str,
        holds: Callable[[Manifest], object],
        *,
        namespace: str = "",
        nudging: bool = False,
        seconds: float = SECONDS,
    ) -> Manifest:
        """Wait until an object meets a condition; with ``nudging`` it does not wait for back-offs."""
        looks = itertools.count()

        async def look() -> Manifest:
            manifest = await self.get(kind, name, namespace)
            if not holds(manifest):
                if nudging and next(looks) % 10 == 0:
                    await self.nudge(manifest)
                raise AssertionError(f"{kind} {name} says {summary(manifest)}")
            return manifest

        return await eventually(look, seconds=seconds, about=f"{kind} {name} as wanted")

    async def says(
        self, kind: str, name: str, condition: str, reason: str = "", *, words: Sequence[str] = (), **how: Any
    ) -> Manifest:
        """Wait until a condition is False with this reason and these words in its message, and return it."""

        def false(manifest: Manifest) -> bool:
            found = condition_of(manifest, condition)
            message = found.get("message", "")
            told = reason in {"", found.get("reason")} and all(word in message for word in words)
            return found.get("status") == "False" and told

        return condition_of(await self.until(kind, name, false, **how), condition)

    async def shows(self, name: str, content: Mapping[str, str]) -> None:
        """Wait until a ConfigMap of the workload cluster has this content."""

        async def look() -> bool:
            found = await self.delivered(name)
            assert (found or {}).get("data") == content, found
            return True

        await eventually(look, seconds=SECONDS, about=f"ConfigMap {name}")

    async def gone(self, kind: str, name: str, namespace: str = "", *, uid: str = "", seconds: float = SECONDS) -> None:
        async def look() -> bool:
            found = await self.find(kind, name, namespace)
            return found is None or bool(uid and found["metadata"]["uid"] != uid)

        await eventually(look, seconds=seconds, about=f"the end of {kind} {name}")

    async def another_is_ready(self) -> None:
        """Create another stack and cluster, and wait until they are ready: a fault does not affect others."""
        stack = TinyStack(f"{self.namespace}good")
        name = stack.release("v1")
        self.publish(name, stack.files("v1", {stack.word: templates(config_map(stack.word))}))
        await self.create(stack.manifest(self.namespace, "v1"))
        await self.release_ready(name)
        # Two Clusters of one workload cluster would be refused: the management cluster plays that of this one.
        cluster = await self.cluster("good", name.class_name, ready=False)
        await self.connect("good", yaml.safe_load(self.management_kubeconfig.read_text()))
        await self.finish(cluster)
        await self.addons_ready("good", name.class_name)

    # The operator

    @asynccontextmanager
    async def operator(self, environ: Mapping[str, str] | None = None, **settings: Any) -> AsyncIterator[Operator]:
        """Run the operator; an unexpected exception in it fails the test."""
        operator = Operator(self.settings(**settings), environ or {})
        self.requests = record(operator)
        tasks = [asyncio.create_task(_serve(run), name=name) for name, run in operator.services().items()]
        self.running = operator
        try:
            yield operator
            ended = [task.get_name() for task in tasks if task.done()]
            assert not ended, f"{ended} ended"
            assert not bugs(operator), "a reconcile failed unexpectedly, see the log"
            assert not uncovered(self.requests), "no right is documented for these, see clusterstacks.operator.rbac"
        finally:
            self.running = None
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await operator.close()

    def settings(self, **settings: Any) -> OperatorSettings:
        workers = {"clusterstack": 8, "clusterstackrelease": 8, "clusteraddon": 8}
        plain = {
            "kubeconfig": str(self.management_kubeconfig),
            "release_dir": self.releases,
            "cache_dir": self.cache,
            "namespace": self.namespace,
            "metrics_address": ("", 0),
            "probe_address": ("", 0),
            "workers": workers,
        }
        return OperatorSettings(**{**plain, **settings})


async def _serve(run: Callable[[], Awaitable[None]]) -> None:
    await run()


def bugs(operator: Operator) -> float:
    """Count the reconciles that raised an unexpected exception."""
    return _reconciles(operator, result="bug")


def busy_workers(operator: Operator) -> float:
    """Count the reconciles that are running."""
    return sum(sample.value for metric in operator._metrics.workers_busy.collect() for sample in metric.samples)


def due_keys(operator: Operator) -> float:
    """Count the keys that wait for a worker."""
    return sum(sample.value for metric in operator._metrics.queue_depth.collect() for sample in metric.samples)


def attempts(operator: Operator, controller: str) -> float:
    """Count the finished reconciles of a controller."""
    return _reconciles(operator, controller=controller)


async def idle(operator: Operator, seconds: float = 1) -> None:
    """Wait until every controller has worked and none did for a while."""
    last: tuple[float, list[float]] = (time.monotonic(), [])

    async def still() -> bool:
        nonlocal last
        kinds = ("clusterstack", "clusterstackrelease", "clusteraddon", "cluster")
        series = [operator._metrics.reconciles.labels(kind, "success")._value.get() for kind in kinds]
        if series != last[1] or not all(series):
            last = (time.monotonic(), series)
        return not busy_workers(operator) and time.monotonic() - last[0] > seconds

    await eventually(still, seconds=SECONDS, about="an idle operator")


def _reconciles(operator: Operator, **labels: str) -> float:
    return sum(
        sample.value
        for metric in operator._metrics.reconciles.collect()
        for sample in metric.samples
        if sample.name.endswith("_total") and labels.items() <= sample.labels.items()
    )


def is_ready(manifest: Manifest) -> bool:
    """Return whether status and condition both report readiness."""
    return bool((manifest.get("status") or {}).get("ready")) and condition_of(manifest, "Ready").get("status") == "True"


def is_unready(manifest: Manifest) -> bool:
    """Return whether neither status nor condition reports readiness."""
    ready = (manifest.get("status") or {}).get("ready")
    return not ready and condition_of(manifest, "Ready").get("status") != "True"


def condition_of(manifest: Manifest, kind: str) -> Manifest:
    """Return a condition, or an empty mapping."""
    conditions = (manifest.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == kind), {})


def summary(manifest: Manifest) -> str:
    status = manifest.get("status") or {}
    false = [
        f"{one['type']}={one['status']} {one.get('reason', '')}: {one.get('message', '')}"
        for one in status.get("conditions") or []
    ]
    return f"ready {status.get('ready')}; {'; '.join(false)}"


def cluster_manifest(
    namespace: str, name: str, class_name: str, version: str = KUBERNETES, **topology: Any
) -> Manifest:
    return {
        "apiVersion": f"{CLUSTER_API_GROUP}/v1beta2",
        "kind": CLUSTER_KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"topology": {"classRef": {"name": class_name}, "version": version, **topology}},
    }


def finished_status(version: str = KUBERNETES, reconciled: str = "True") -> Manifest:
    """Return the status that Cluster API writes for a Cluster that has its version."""
    condition = {
        "type": "TopologyReconciled",
        "status": reconciled,
        "reason": "ReconcileSucceeded",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {
        "initialization": {"controlPlaneInitialized": True, "infrastructureProvisioned": True},
        "controlPlane": {"versions": [{"version": version}]},
        "conditions": [condition],
    }


def _group_kind(manifest: Manifest) -> tuple[str, str, str]:
    group, version = split_api_version(manifest["apiVersion"])
    return group, manifest["kind"], version


# Fixtures


def foreign_crds(*cluster_versions: str) -> list[Manifest]:
    """Return the CRDs of Cluster API and ORC, as far as the operator reads them, and of a provider."""
    kinds = [
        crd(CLUSTER_KIND, CLUSTER_API_GROUP, versions=cluster_versions or ("v1beta2",)),
        crd(CLUSTER_CLASS_KIND, CLUSTER_API_GROUP, versions=cluster_versions or ("v1beta2",), plural="clusterclasses"),
        *(crd(kind, RESOURCE_SET_GROUP) for kind in (RESOURCE_SET_KIND, RESOURCE_SET_BINDING_KIND)),
        *(crd(kind, split_api_version(INFRASTRUCTURE)[0], versions=("v1beta2",)) for kind in TEMPLATES),
        *(crd(kind + part, PROVIDER_GROUP) for kind in PROVIDER_KINDS for part in ("", "Template")),
        crd("Image", IMAGE_KIND[0], versions=("v1alpha1",)),
    ]
    for kind in kinds:
        for version in kind["spec"]["versions"]:
            version["subresources"] = {"status": {}}
            version["schema"] = {"openAPIV3Schema": _schema(kind["spec"]["names"]["kind"])}
    return kinds


TEMPLATES = ("TinyClusterTemplate", "TinyMachineTemplate", "TinyControlPlaneTemplate")


def _schema(kind: str) -> Manifest:
    """Accept any object, but limit the size of a template to 9, so that a test can have one rejected."""
    anything: Manifest = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if kind == IMAGE_KIND[1]:
        return image_schema()
    if kind not in TEMPLATES:
        return anything
    schema: Manifest = {"type": "integer", "maximum": 9}
    for name in ("size", "spec", "template", "spec"):
        schema = {**anything, "properties": {name: schema}}
    return schema


async def install(client: Client, crds: list[Manifest]) -> None:
    """Install CRDs and wait until they are served."""
    resource = await client.resource("apiextensions.k8s.io", "CustomResourceDefinition")

    async def established(name: str) -> bool:
        return condition_of(await client.get(resource, name), "Established").get("status") == "True"

    async def served() -> bool:
        """Discovery names a kind some milliseconds after it is established."""
        client.forget_discovery()
        for spec in (manifest["spec"] for manifest in crds):
            for version in (one["name"] for one in spec["versions"] if one["served"]):
                try:
                    found = await client.resource(spec["group"], spec["names"]["kind"], version)
                except KindNotServed:
                    return False
                if found.version != version:
                    return False
        return True

    for manifest in crds:
        await client.apply(resource, manifest, manager="tests", force=True)
    for manifest in crds:
        name = manifest["metadata"]["name"]
        await eventually(lambda name=name: established(name), about=f"CRD {name} established")  # type: ignore[misc]
    await eventually(served, about="the discovery of the CRDs")


_installed: set[str] = set()


@pytest.fixture
async def world(api_server: ApiServer, workload_server: ApiServer, tmp_path: Path) -> AsyncIterator[World]:
    """Yield two clusters with a namespace for the test, and a Cluster API that accepts every class in it."""
    async with opened_world(api_server, workload_server, tmp_path) as made:
        yield made


@asynccontextmanager
async def opened_world(api_server: ApiServer, workload_server: ApiServer, directory: Path) -> AsyncIterator[World]:
    """Open a world, for tests that need several of them; ``directory`` is for its files."""
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(Pool())
        made = World(
            namespace=f"w{next(_numbers)}",
            client=Client(parse_kubeconfig(api_server.kubeconfig, base=None), pool, budget=64),
            workload=Client(parse_kubeconfig(workload_server.kubeconfig, base=None), pool, budget=64),
            releases=directory / "releases",
            cache=directory / "cache",
            management_kubeconfig=api_server.kubeconfig_path,
            workload_kubeconfig=workload_server.kubeconfig,
        )
        made.releases.mkdir()
        if api_server.url not in _installed:
            await install(made.client, [*all_crds(), *foreign_crds()])
            _installed.add(api_server.url)
        await made.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": made.namespace}})
        accepting = asyncio.create_task(accept_classes(made))
        stack.push_async_callback(_end, accepting)
        stack.push_async_callback(_clear, made)
        yield made


async def accept_classes(world: World) -> None:
    """Write the status of accepted classes, as Cluster API does."""
    changed: asyncio.Queue[Manifest] = asyncio.Queue()
    informer = Informer(world.client, CLUSTER_API_GROUP, CLUSTER_CLASS_KIND, namespace=world.namespace)
    informer.subscribe(lambda change: changed.put_nowait(change.new) if change.new else None)
    async with asyncio.TaskGroup() as group:
        group.create_task(informer.run())
        while True:
            manifest = await changed.get()
            generation = manifest["metadata"]["generation"]
            if (manifest.get("status") or {}).get("observedGeneration") != generation:
                condition = {"type": "VariablesReady", "status": "True", "reason": "VariablesReady"}
                status = {"observedGeneration": generation, "conditions": [condition]}
                with suppress(NotFound):
                    await world.patch(manifest, {"status": status}, "status")


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _clear(world: World) -> None:
    """Delete objects that would enqueue work for operators of later tests, and all delivery records."""
    for group, kind in (
        (CLUSTER_API_GROUP, CLUSTER_KIND),
        *((kind.group, str(kind)) for kind in Kind),
    ):
        resource = await world.client.resource(group, kind)
        for namespace in world.namespaces:
            for item in (await world.client.list_metadata(resource, namespace)).items:
                with suppress(ApiError):
                    if item["metadata"].get("finalizers"):
                        await world.patch(item, {"metadata": {"finalizers": None}})
                    await world.client.delete(resource, item["metadata"]["name"], namespace)
    for client in (world.workload, world.client):
        for secret in (await client.list(SECRETS, RECORD_NAMESPACE, labels=RECORD_LABEL)).items:
            await client.delete(SECRETS, secret["metadata"]["name"], RECORD_NAMESPACE)
    registered = await world.client.resource("admissionregistration.k8s.io", "ValidatingWebhookConfiguration")
    own = {WebhookScope(namespace).name for namespace in world.namespaces}
    left = own & {one["metadata"]["name"] for one in (await world.client.list_metadata(registered)).items}
    for name in left:
        await world.client.delete(registered, name)
    assert not left, f"the API server would ask an operator that is gone about writes of other tests: {left}"

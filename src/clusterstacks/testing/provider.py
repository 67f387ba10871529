"""The contract of a provider of node images, as tests that its author runs on a real API server.

A test file has a subclass of ``ProviderContract`` with the fixture ``provider``: docs/how-to/write-a-provider.md. The
tests do with the objects what the operator, clusterctl and administrators do, with the functions of the operator.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pytest

from clusterstacks.deliver.apply.ownership import FIELD_MANAGER
from clusterstacks.model.documents import mapping, mappings
from clusterstacks.model.kinds.names import (
    API_VERSION,
    CLUSTERCTL_LABEL,
    DELETE_FOR_MOVE_ANNOTATION,
    MOVE_HIERARCHY_LABEL,
    PAUSED_ANNOTATION,
    Kind,
)
from clusterstacks.model.kinds.provider_refs import DEFAULT_KINDS, TEMPLATE_SUFFIX, ProviderReference, template_refusal
from clusterstacks.model.objects import Manifest, contains, split_api_version
from clusterstacks.model.yaml import load_all
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.errors import Conflict, KindNotServed, NotFound
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.pool import Pool
from clusterstacks.operator.controllers.clusterstack.provider_template import provider_object
from clusterstacks.operator.controllers.provider_objects import own_provider_object

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from clusterstacks.net.kube.resources import Resource

T = TypeVar("T")

IN_USE: Final = "testing.clusterstack.x-k8s.io/in-use"
"""Finalizer that holds a ClusterStackRelease, as the operator's own does while Clusters use the release."""

POLL_SECONDS: Final = 0.1
"""Interval of reads while a test waits; arbitrary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningProvider:
    """A running provider, and what the tests have to know about it."""

    kubeconfig: Path
    """An administrator of the API server that the provider watches, which has its definitions and ours."""
    manifests: str
    """YAML as an administrator applies it: a template, and the objects that it names, for example a Secret."""
    failing: str
    """The same with a template that cannot be carried out, for example with a wrong hash."""
    exists: Callable[[Manifest], bool]
    """Returns whether that for which an object stands, for example an image, exists outside of the cluster."""
    release: str = "contract-suite-1-35-v1"
    """Name of the objects; a provider that reads releases itself needs one that its source has."""
    seconds: float = 60
    """Deadline of each thing that a test waits for; arbitrary, and enough for an image of some megabytes."""


class ProviderContract:
    """The tests: a subclass, for example ``TestContract``, adds the fixture ``provider``, a RunningProvider."""

    @pytest.fixture
    def cluster(self, provider: RunningProvider) -> Iterator[ContractCluster]:
        """The API server; what a test created is deleted after it."""
        cluster = ContractCluster(provider)
        try:
            yield cluster
            cluster.clean_up()
        finally:
            cluster.close()

    def test_kinds_are_allowed_and_moved_by_clusterctl(self, cluster: ContractCluster) -> None:
        """Template and object are namespaced kinds of one version of the providers' group, with clusterctl's labels."""
        template = cluster.resource(cluster.template["kind"])
        refusal = template_refusal(ProviderReference(template.group, template.kind), "", DEFAULT_KINDS)
        check(not refusal, refusal)
        for kind in (template, cluster.objects):
            check(kind.namespaced, f"{kind} is cluster-scoped: use a namespaced kind")
            check(kind.api_version == cluster.template["apiVersion"], f"{kind} is not in the version of its template")
            labels = cluster.labels(kind)
            check(CLUSTERCTL_LABEL in labels, f"label the definition of {kind} with {CLUSTERCTL_LABEL}")
            moved = kind != template or labels.keys() & {f"{CLUSTERCTL_LABEL}/move", MOVE_HIERARCHY_LABEL}
            check(moved, f"label the definition of {kind}, which has no owner, with {CLUSTERCTL_LABEL}/move")

    def test_object_becomes_ready(self, cluster: ContractCluster) -> None:
        """``status.ready`` becomes true, the boolean, when that for which the object stands exists."""
        namespace, live = cluster.create_ready()
        cluster.check(cluster.exists(live), namespace, "status.ready is true, but what it stands for does not exist")

    def test_ready_follows_the_template(self, cluster: ContractCluster) -> None:
        """After a change of the spec that cannot be carried out, ready is not true, and a condition says why."""
        namespace, _ = cluster.create_ready()
        cluster.apply_template(namespace, cluster.provider.failing)
        live = cluster.until(namespace, "a condition other than True has a reason and a message", explains)
        cluster.check(not is_ready(live), namespace, "status.ready is true, but the spec cannot be carried out")
        cluster.apply_template(namespace, cluster.provider.manifests)
        cluster.until(namespace, "status.ready becomes true after the template was repaired", is_ready)

    def test_what_the_operator_writes_is_kept(self, cluster: ContractCluster) -> None:
        """Spec, labels and annotations stay as applied, and the ClusterStackRelease stays the controller."""
        namespace, live = cluster.create_ready()
        cluster.check(contains(live, cluster.applied[namespace]), namespace, "fields that the operator applied changed")
        owners = [one["kind"] for one in mappings(live, "metadata", "ownerReferences") if one.get("controller")]
        cluster.check(owners == [Kind.CLUSTER_STACK_RELEASE], namespace, f"its controllers are {owners}")

    def test_settled_object_is_not_written(self, cluster: ContractCluster) -> None:
        """Without a change there is no write: each one makes the operator look at the release."""
        namespace, _ = cluster.create_ready()
        cluster.create_ready()
        before = cluster.change(namespace, annotations={"example.org/touched": ""})
        cluster.create_ready()
        unchanged = cluster.find(namespace)["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        cluster.check(unchanged, namespace, f"it was written though nothing changed; before: {shown(before)}")

    def test_paused_object_is_left_alone(self, cluster: ContractCluster) -> None:
        """With the annotation for pauses nothing begins; without it the work begins."""
        namespace = cluster.create({PAUSED_ANNOTATION: ""})
        cluster.create_ready()
        live = cluster.find(namespace)
        cluster.check(
            not is_ready(live) and not cluster.exists(live), namespace, "it was carried out though it is paused"
        )
        cluster.change(namespace, annotations={PAUSED_ANNOTATION: None})
        cluster.until(namespace, "status.ready becomes true after the pause", is_ready)

    def test_paused_object_is_not_undone(self, cluster: ContractCluster) -> None:
        """The deletion of a paused object waits for the end of the pause, where it has a finalizer."""
        namespace, live = cluster.create_ready()
        cluster.change(namespace, annotations={PAUSED_ANNOTATION: ""})
        cluster.delete(namespace)
        cluster.create_ready()
        cluster.check(cluster.exists(live), namespace, "what it stands for was deleted though it is paused")
        cluster.change(namespace, annotations={PAUSED_ANNOTATION: None})
        cluster.until(namespace, "it is gone after the pause", is_gone)

    def test_object_is_needed_while_its_release_is_in_use(self, cluster: ContractCluster) -> None:
        """A ClusterStackRelease that is being deleted waits for its last Cluster, and the object stays ready."""
        namespace, live = cluster.create_ready()
        cluster.delete(namespace, cluster.releases)  # which its finalizer holds
        cluster.change(namespace, annotations={"example.org/touched": ""})
        cluster.create_ready()
        needed = is_ready(cluster.find(namespace)) and cluster.exists(live)
        cluster.check(needed, namespace, "it was undone while Clusters still use its ClusterStackRelease")

    def test_deleted_object_goes_without_template_and_release(self, cluster: ContractCluster) -> None:
        """The finalizers of the provider end also when ClusterStackRelease and template are gone."""
        namespace, _ = cluster.create_ready()
        cluster.delete(namespace, cluster.resource(cluster.template["kind"]), cluster.template["metadata"]["name"])
        cluster.delete(namespace, cluster.releases)
        cluster.change(namespace, cluster.releases, finalizers=[])
        cluster.delete(namespace)
        cluster.until(namespace, "the deleted object is gone", is_gone)

    def test_moved_object_is_not_undone_and_becomes_ready_again(self, cluster: ContractCluster) -> None:
        """``clusterctl move`` copies an object without its status, then deletes it with an annotation of its own."""
        namespace, live = cluster.create_ready()
        cluster.change(namespace, annotations={DELETE_FOR_MOVE_ANNOTATION: ""})
        cluster.delete(namespace)
        cluster.create_ready()
        cluster.change(namespace, finalizers=[])
        cluster.until(namespace, "the moved object is gone", is_gone)
        cluster.check(cluster.exists(live), namespace, "what it stands for was deleted though the object was moved")
        cluster.restore(namespace, live)
        cluster.until(namespace, "status.ready becomes true without the status from before", is_ready)


def check(holds: object, fault: str) -> None:
    """Fail with the fault, which is all that pytest shows, unless something holds."""
    if not holds:
        pytest.fail(fault, pytrace=False)


def is_ready(live: Manifest) -> bool:
    """Return what the operator reads of an object."""
    return mapping(live, "status").get("ready") is True


def is_gone(live: Manifest) -> bool:
    """Return whether there is no object."""
    return not live


def explains(live: Manifest) -> bool:
    """Return whether a condition says what an object waits for, or why it failed."""
    found = [one for one in mappings(live, "status", "conditions") if one.get("status") != "True"]
    return any(one.get("reason") and one.get("message") for one in found)


def shown(live: Manifest) -> str:
    """Return the parts of an object that a provider writes, for messages."""
    if not live:
        return "it does not exist"
    metadata = {key: live["metadata"].get(key) for key in ("deletionTimestamp", "finalizers")}
    return json.dumps({**metadata, "status": live.get("status")})


def template_of(manifests: list[Manifest]) -> Manifest:
    """Return the template among objects."""
    found = [one for one in manifests if one["kind"].endswith(TEMPLATE_SUFFIX)]
    check(len(found) == 1, f"the manifests have {len(found)} objects whose kind ends in {TEMPLATE_SUFFIX}: write one")
    return found[0]


class ContractCluster:
    """The cluster as the operator, clusterctl and administrators use it; each object has a namespace of its own."""

    def __init__(self, provider: RunningProvider) -> None:
        self.provider = provider
        self.exists = provider.exists
        self.template = template_of(load_all(provider.manifests, name="manifests"))
        self.applied: dict[str, Manifest] = {}
        """By namespace, the object as the operator applied it."""
        self._runner = asyncio.Runner()
        self._pool = Pool()
        self._client = Client(load_kubeconfig([provider.kubeconfig]), self._pool, user_agent="provider-contract")

    def resource(self, kind: str, api_version: str = "") -> Resource:
        """Return the resource of a kind, by default of the provider; KindNotServed if its definition is not served."""
        group, version = split_api_version(api_version or self.template["apiVersion"])
        deadline = time.monotonic() + self.provider.seconds
        while True:
            try:
                return self._wait(self._client.resource(group, kind, version))
            except KindNotServed:
                if time.monotonic() > deadline:
                    raise
            self._client.forget_discovery()
            time.sleep(POLL_SECONDS)

    @cached_property
    def objects(self) -> Resource:
        """The resource of the objects of releases."""
        return self.resource(self.template["kind"].removesuffix(TEMPLATE_SUFFIX))

    @cached_property
    def releases(self) -> Resource:
        """The resource of ClusterStackReleases."""
        return self.resource(Kind.CLUSTER_STACK_RELEASE, API_VERSION)

    def labels(self, kind: Resource) -> Manifest:
        """Return the labels of the definition of a kind."""
        definitions = self.resource("CustomResourceDefinition", "apiextensions.k8s.io/v1")
        found = self._wait(self._client.get(definitions, f"{kind.plural}.{kind.group}"))
        return mapping(found, "metadata", "labels")

    def apply(self, manifest: Manifest, namespace: str = "") -> Manifest:
        """Apply an object as the operator does."""
        resource = self.resource(manifest["kind"], manifest["apiVersion"])
        applying = self._client.apply(resource, manifest, manager=FIELD_MANAGER, namespace=namespace, force=True)
        return self._wait(applying)

    def apply_template(self, namespace: str, manifests: str, annotations: Manifest | None = None) -> None:
        """Apply a template and what it names, and the object of the release that the operator makes from it."""
        template = template_of([self.apply(one, namespace) for one in load_all(manifests, name="manifests")])
        stack = {"metadata": {"namespace": namespace, "annotations": annotations}}
        self.applied[namespace] = provider_object(template, stack, self.provider.release)
        self.apply(self.applied[namespace])

    def create(self, annotations: Manifest | None = None) -> str:
        """Create the object of a release in a new namespace, which is returned, and then its ClusterStackRelease."""
        namespace = f"provider-contract-{secrets.token_hex(4)}"
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        self.apply_template(namespace, self.provider.manifests, annotations)
        metadata = {"name": self.provider.release, "namespace": namespace, "finalizers": [IN_USE]}
        reference = {"apiVersion": self.template["apiVersion"], "kind": self.objects.kind, "name": metadata["name"]}
        release = {"apiVersion": API_VERSION, "kind": Kind.CLUSTER_STACK_RELEASE.value, "metadata": metadata}
        owner = self._wait(self._client.create(self.releases, {**release, "spec": {"providerRef": reference}}))
        while True:
            with suppress(Conflict):  # the provider wrote in the meantime: again with the object as it is now
                self._wait(own_provider_object(self._client, self.find(namespace), owner))
                return namespace

    def create_ready(self) -> tuple[str, Manifest]:
        """Create an object and wait until it is ready: what was written before, the provider has then seen as well."""
        namespace = self.create()
        return namespace, self.until(namespace, "status.ready becomes true", is_ready)

    def restore(self, namespace: str, live: Manifest) -> None:
        """Create an object as it was, without its status."""
        metadata = {key: value for key, value in live["metadata"].items() if key not in ("resourceVersion", "uid")}
        self._wait(self._client.create(self.objects, {**live, "metadata": metadata}, namespace))

    def find(self, namespace: str) -> Manifest:
        """Read the object; empty if there is none."""
        return self._wait(self._client.find(self.objects, self.provider.release, namespace)) or {}

    def change(self, namespace: str, resource: Resource | None = None, **metadata: object) -> Manifest:
        """Change metadata of the object, or of another one with the name of the release; empty if it is gone."""
        changing = self._client.merge_patch(
            resource or self.objects, self.provider.release, {"metadata": metadata}, namespace
        )
        with suppress(NotFound):
            return self._wait(changing)
        return {}

    def delete(self, namespace: str, resource: Resource | None = None, name: str = "") -> None:
        """Delete the object, as the garbage collector does after its ClusterStackRelease, or another one."""
        with suppress(NotFound):
            self._wait(self._client.delete(resource or self.objects, name or self.provider.release, namespace))

    def until(self, namespace: str, what: str, holds: Callable[[Manifest], bool]) -> Manifest:
        """Wait until something holds for the object, which is empty if there is none, and return it."""
        deadline = time.monotonic() + self.provider.seconds
        while not holds(live := self.find(namespace)):
            seconds = f"{self.provider.seconds:g} s"
            self.check(time.monotonic() < deadline, namespace, f"it did not happen within {seconds} that {what}")
            time.sleep(POLL_SECONDS)
        return live

    def check(self, holds: object, namespace: str, fault: str) -> None:
        """Fail with the fault and the object, unless something holds."""
        title = f"{self.objects} {namespace}/{self.provider.release}"
        check(holds, "" if holds else f"{title}: {fault}\nnow: {shown(self.find(namespace))}")

    def clean_up(self) -> None:
        """Delete everything that was created, and wait for the provider, which deletes what exists outside."""
        for namespace in self.applied:
            self.change(namespace, annotations={PAUSED_ANNOTATION: None})
            self.delete(namespace)
        for namespace in self.applied:
            self.until(namespace, "the deleted object is gone", is_gone)
            self.delete(namespace, self.releases)
            self.change(namespace, self.releases, finalizers=[])
            self.delete("", self.resource("Namespace", "v1"), namespace)

    def close(self) -> None:
        """Close the connections."""
        self._wait(self._pool.close())
        self._runner.close()

    def _wait(self, request: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(request)

"""The documented rights are sufficient and necessary."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from clusterstacks.model.kinds.clusterresourcesync import SYNC_API_VERSION, binding_name
from clusterstacks.model.kinds.names import (
    CLUSTER_KIND,
    GROUP,
    PROVIDER_GROUP,
    RESOURCE_SET_GROUP,
    RESOURCE_SET_KIND,
    STRATEGY_ANNOTATION,
    Kind,
    sync_name,
)
from clusterstacks.net.kube.errors import NotFound
from clusterstacks.operator.go_operator import EXTENSIONS
from clusterstacks.operator.rbac import ANY, RIGHTS, RightScope, policy_rules
from clusterstacks.operator.webhooks.configuration import SECRET_NAME
from tests.support.builders.manifests import crd, named
from tests.support.builders.signatures import ecdsa_key, public_pem
from tests.support.builders.stacks import INFRASTRUCTURE, KUBERNETES, config_map, templates
from tests.support.observing.rights_coverage import NOT_USED
from tests.support.running.admission import guarded
from tests.support.running.world import install, is_ready
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.operator.rbac import Right
    from tests.support.observing.request_recorder import Request
    from tests.support.running.world import World

pytestmark = pytest.mark.regression("SEC-15")

HOME = "default"
ELSEWHERE = {
    (GROUP, "clusteraddons", "get"),  # of one that the operator did not write a moment before
    *((GROUP, "clusterupgrades", "get"), (GROUP, "clusterupgrades/status", "patch")),
    ("authorization.k8s.io", "subjectaccessreviews", "create"),
}
"""Rights that other tests use: of ClusterUpgrades, and what depends on the time between two reconciles."""
RBAC = "rbac.authorization.k8s.io"
CONTROL_PLANES = "controlplane.cluster.x-k8s.io"
LABEL = {"cluster.x-k8s.io/v1beta2": "v1beta2"}


async def allow(world: World, directory: Path, *namespaces: str) -> Path:
    """Write the kubeconfig of a user with the documented rights: Secrets in these namespaces only."""
    name = f"documented-{world.namespace}"
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": name}]
    bound: list[tuple[str, str, list[dict[str, Any]]]] = [
        ("", "all", policy_rules(RightScope.CLUSTER, RightScope.WATCHED))
    ]
    bound += [(namespace, "secrets", policy_rules(RightScope.CLUSTERS, RightScope.STACKS)) for namespace in namespaces]
    bound += [(HOME, "webhook", policy_rules(RightScope.OWN))]
    for namespace, part, rules in bound:
        prefix = "" if namespace else "Cluster"
        metadata = {"name": f"{name}-{part}", **({"namespace": namespace} if namespace else {})}
        common = {"apiVersion": f"{RBAC}/v1", "metadata": metadata}
        reference = {"apiGroup": RBAC, "kind": f"{prefix}Role", "name": metadata["name"]}
        await world.create({**common, "kind": f"{prefix}Role", "rules": rules})
        await world.create({**common, "kind": f"{prefix}RoleBinding", "roleRef": reference, "subjects": subjects})
    document = yaml.safe_load(world.management_kubeconfig.read_text())
    document["users"][0]["user"]["as"] = name
    path = directory / "documented"
    path.write_text(yaml.safe_dump(document))
    return path


async def cluster_with_references(world: World, name: ReleaseName, namespace: str) -> Manifest:
    """A Cluster as Cluster API completes it; only its control plane reports its version."""
    kinds = (("TinyControlPlane", CONTROL_PLANES), ("TinyCluster", INFRASTRUCTURE.partition("/")[0]))
    definitions = [crd(kind, group, versions=("v1beta2",)) for kind, group in kinds]
    for definition in definitions:
        definition["metadata"]["labels"] = LABEL
    await install(world.client, definitions)
    for kind, group in kinds:
        metadata = {"name": "one", "namespace": namespace}
        document = {"apiVersion": f"{group}/v1beta2", "kind": kind, "metadata": metadata}
        await world.create({**document, "status": {"version": KUBERNETES}})
    cluster = await world.cluster("one", name.class_name, namespace=namespace, classRef=class_of(world, name))
    references = [{"apiGroup": group, "kind": kind, "name": "one"} for kind, group in kinds]
    return await world.patch(cluster, {"spec": {"controlPlaneRef": references[0], "infrastructureRef": references[1]}})


@pytest.mark.regression("SEC-15")
@pytest.mark.parametrize("kind", ["Secret", "TinyClusterTemplate"])
async def test_cluster_references_are_read_only_for_cluster_api_kinds(world: World, kind: str) -> None:
    name = world.stack.release("v1")
    overwrite = "values: |\n  stolen: {{ .ControlPlane | toJson }}\n"
    world.publish(
        name, world.stack.files("v1", {"cni": templates(config_map(world.namespace), **{"overwrite.yaml": overwrite})})
    )
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        cluster = await world.cluster("one", name.class_name, ready=False)
        group = "" if kind == "Secret" else INFRASTRUCTURE.partition("/")[0]
        await world.patch(cluster, {"spec": {"controlPlaneRef": {"apiGroup": group, "kind": kind, "name": "other"}}})
        await world.finish(cluster)
        found = await world.says(
            Kind.CLUSTER_ADDON, "cluster-addon-one", "ClusterReady", "ReferenceNotAllowed", nudging=True
        )
        assert f"spec.controlPlaneRef ({kind} {world.namespace}/other)" in found["message"]
        assert "no label cluster.x-k8s.io/v1beta2" in found["message"]
        read = {one.path.partition("?")[0].rpartition("/")[2] for one in world.requests}
        assert "other" not in read

        addon = await world.addon("one")
        await world.delete(cluster)
        await world.delete(addon)
        await world.gone(Kind.CLUSTER_ADDON, "cluster-addon-one")


@pytest.mark.regression("SEC-15")
async def test_manually_created_kubeconfig_is_used_once_it_is_labelled(world: World) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        cluster = await world.cluster("one", name.class_name, ready=False)
        made = await world.connect("one")
        await world.delete(made)
        plain = {"name": "one-kubeconfig", "namespace": world.namespace}
        by_hand = await world.create({"apiVersion": "v1", "kind": "Secret", "metadata": plain, "data": made["data"]})
        await world.finish(cluster)
        found = await world.says(
            Kind.CLUSTER_ADDON, "cluster-addon-one", "ClusterReady", "KubeconfigNotMarked", nudging=True
        )
        assert "label secret one-kubeconfig cluster.x-k8s.io/cluster-name=one" in found["message"]

        await world.patch(by_hand, {"metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "one"}}})
        await world.nudge(await world.addon("one"))
        await world.addons_ready("one", name.class_name)


async def forget_secret(world: World) -> None:
    """Take away what an earlier operator for all namespaces left."""
    secrets = await world.client.resource("", "Secret")
    with suppress(NotFound):
        await world.client.delete(secrets, SECRET_NAME, HOME)


def class_of(world: World, name: ReleaseName) -> Manifest:
    return {"name": name.class_name, "namespace": world.namespace}


async def provided(world: World, name: ReleaseName) -> None:
    """Play the provider: its object of the release is ready."""

    async def look() -> Manifest | None:
        return await world.find("TinyClusterStackRelease", name.release, group=PROVIDER_GROUP)

    found = await eventually(look, about="the provider's object")
    await world.patch(found, {"status": {"ready": True}}, "status")


async def stack(world: World, *names: ReleaseName) -> Manifest:
    """A ClusterStack with everything that is read for one: template, key in a Secret, selector of namespaces."""
    for name in names:
        world.publish(name, world.stack.files(name.version.dot, {"cni": templates(config_map(name.class_name))}))
    metadata = {"name": world.namespace, "namespace": world.namespace}
    template = {"apiVersion": f"{PROVIDER_GROUP}/v1", "kind": "TinyClusterStackReleaseTemplate", "metadata": metadata}
    await world.create({**template, "spec": {"template": {"spec": {"image": "here"}}}})
    key = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": world.namespace}}
    await world.create({**key, "stringData": {"cosign.pub": public_pem(ecdsa_key()).decode()}})
    return await world.create(
        world.stack.manifest(
            world.namespace,
            *(name.version.dot for name in names),
            noProvider=False,
            providerRef={"apiVersion": f"{PROVIDER_GROUP}/v1", "kind": template["kind"], "name": world.namespace},
            source={"directory": {}, "verification": {"keys": [{"secretName": "keys"}], "policy": "Warn"}},
            clusterNamespaces={"from": "Selector", "selector": {"matchLabels": {"team": world.namespace}}},
        )
    )


async def sync_and_delete(world: World, team: str) -> None:
    """Keep the objects of a ConfigMap in place by a sync, then by a ClusterResourceSet, and delete both."""
    objects = {"a.yaml": yaml.safe_dump(config_map(f"{team}-synced"))}
    await world.create(named("v1", "ConfigMap", "objects", team, data=objects))
    spec: dict[str, Any] = {"resources": [{"kind": "ConfigMap", "name": "objects"}]}
    sync = await world.create(named(SYNC_API_VERSION, Kind.CLUSTER_RESOURCE_SYNC, "extra", team, spec=spec))
    await world.until(Kind.CLUSTER_RESOURCE_SYNC_BINDING, binding_name("extra", "one"), is_ready, namespace=team)
    await world.delete(sync)
    await world.gone(Kind.CLUSTER_RESOURCE_SYNC, "extra", team)
    await world.patch(await world.get(CLUSTER_KIND, "one", team), {"metadata": {"labels": {"cni": "yes"}}})
    spec["clusterSelector"] = {"matchLabels": {"cni": "yes"}}
    resource_set = named(f"{RESOURCE_SET_GROUP}/v1", RESOURCE_SET_KIND, "cni", team, spec=spec)
    resource_set["metadata"]["annotations"] = {STRATEGY_ANNOTATION: "Continuous"}
    made = await world.create(resource_set)
    binding = binding_name(sync_name("cni"), "one")
    await world.until(Kind.CLUSTER_RESOURCE_SYNC_BINDING, binding, is_ready, namespace=team)
    await world.delete(made)
    await world.gone(Kind.CLUSTER_RESOURCE_SYNC_BINDING, binding, team)


@pytest.mark.regression("SEC-15")
async def test_documented_rights_are_sufficient_and_all_used(world: World, tmp_path: Path) -> None:
    first, second = (world.stack.release(version) for version in ("v1", "v2"))
    team = await world.other_namespace({"team": world.namespace})
    await forget_secret(world)
    kubeconfig = await allow(world, tmp_path, world.namespace, team)
    async with guarded(world, kubeconfig=str(kubeconfig), namespace="", operator_namespace=HOME):
        made = await stack(world, first, second)
        for name in (first, second):
            await provided(world, name)
            await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_ready, nudging=True)
        await cluster_with_references(world, first, team)
        await world.addons_ready("one", first.class_name, namespace=team)
        await world.patch(
            await world.get(CLUSTER_KIND, "one", team), {"spec": {"topology": {"classRef": class_of(world, second)}}}
        )
        await world.addons_ready("one", second.class_name, namespace=team)
        await world.patch(made, {"spec": {"versions": ["v2"]}})
        await world.gone(Kind.CLUSTER_STACK_RELEASE, first.release)
        await sync_and_delete(world, team)
        noted = set(world.requests)

    places = {RightScope.CLUSTERS: team, RightScope.STACKS: world.namespace, RightScope.OWN: HOME}
    unused = {
        (right.group, resource, verb)
        for right in RIGHTS
        if right.group != EXTENSIONS[0]  # asked only where Cluster API serves the kind
        for resource in right.resources
        for verb in right.verbs
        if not any(uses(one, right, resource, verb, places.get(right.scope)) for one in noted)
    }
    assert set(NOT_USED) <= unused <= set(NOT_USED) | ELSEWHERE
    assert not [one for one in noted if one.resource == "secrets" and one.verb in ("list", "watch")]


def uses(request: Request, right: Right, resource: str, verb: str, namespace: str | None) -> bool:
    """Return whether a request needs a verb of a right, in the namespace if there is only one."""
    same = (request.group, request.verb) == (right.group, verb) and namespace in (None, request.namespace)
    return same and resource in (ANY, request.resource)

"""Admission decisions about Clusters by a real API server, with their messages."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.dev.loopback import free_port
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import CLUSTER_KIND, Kind
from clusterstacks.operator.webhooks.certificates import create_serving
from clusterstacks.operator.webhooks.configuration import Endpoint, WebhookScope, configuration
from tests.support.builders.stacks import config_map, templates
from tests.support.running.admission import forget, guarded, of_minor, ranged, refusal
from tests.support.running.kubectl import Kubectl
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

OLD, NEW = "v1.35.4", "v1.36.1"


async def two_releases(world: World) -> tuple[ReleaseName, ReleaseName]:
    """Class 1-35 works with 1.36 too, its cilium does not; class 1-36 has one that works with both."""
    later = of_minor(world.stack, "1.36")
    first, files = ranged(world.stack, "v1", OLD, ">=1.34 <1.37", cilium=("1.17.2", ">=1.30 <1.36"))
    second, more = ranged(later, "v2", NEW, ">=1.36 <1.38", cilium=("1.18.0", ">=1.33 <1.38"))
    world.publish(first, files)
    world.publish(second, more)
    await world.create(world.stack.manifest(world.namespace, "v1"))
    manifest = later.manifest(world.namespace, "v2")
    manifest["metadata"]["name"] += "-36"
    await world.create(manifest)
    await world.release_ready(first)
    await world.release_ready(second)
    return first, second


async def kubectl(world: World, *arguments: str) -> str:
    """Return the output of kubectl, run in another thread because the operator runs in this one."""
    tried = await asyncio.to_thread(Kubectl(world.management_kubeconfig, world.namespace).tried, *arguments)
    return tried.stdout + tried.stderr


async def set_version(world: World, version: str, *, name: str = "one") -> str:
    """Set a Kubernetes version; return the denial, empty if it is accepted."""
    cluster = await world.get(CLUSTER_KIND, name)
    return await refusal(world.patch(cluster, {"spec": {"topology": {"version": version}}}))


async def annotate(world: World, **annotations: str | None) -> str:
    """Annotate the Cluster; the answer, empty when it is accepted."""
    cluster = await world.get(CLUSTER_KIND, "one")
    named = {
        f"clusterstack.x-k8s.io/{key.replace('__', '.').replace('_', '-')}": value for key, value in annotations.items()
    }
    return await refusal(world.patch(cluster, {"metadata": {"annotations": named}}))


async def delivered(world: World, addon: str, release: ReleaseName) -> None:
    """Wait until the cluster has an addon of this release."""

    def holds(manifest: Manifest) -> bool:
        found = (manifest.get("status") or {}).get("addons") or []
        return any(one["name"] == addon and one.get("release") == release.release for one in found)

    await world.until(Kind.CLUSTER_ADDON, addon_name("one"), holds)


async def test_denied_upgrade_is_allowed_after_its_suggestion_is_followed(world: World) -> None:
    async with guarded(world):
        first, second = await two_releases(world)
        await world.cluster("one", first.class_name)
        await world.addons_ready("one", first.class_name)

        patch = json.dumps({"spec": {"topology": {"version": NEW}}})
        told = await kubectl(world, "patch", "cluster", "one", "--type=merge", "-p", patch)

        assert "cilium 1.17.2 works with Kubernetes >=1.30 <1.36 (https://example.org/m)" in told
        assert f"upgrade cluster addon cilium to 1.18.0 (release {second} has it)\n" in told
        command = re.search(r"kubectl (annotate .*)", told)
        assert command is not None
        assert "annotated" in await kubectl(world, *command[1].split())
        await delivered(world, "cilium", second)
        assert await set_version(world, NEW) == ""


@pytest.mark.regression("UPG-1")
async def test_upgrade_walks_over_the_versions_that_the_class_lists(world: World) -> None:
    async with guarded(world):
        listed = (OLD, "v1.36.1", "v1.37.0")
        release, files = ranged(world.stack, "v1", OLD, ">=1.34 <1.38", listed, cilium=("1.17.2", ">=1.30 <1.38"))
        world.publish(release, files)
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(release)
        await world.cluster("one", release.class_name)
        await world.addons_ready("one", release.class_name)

        refused = await set_version(world, "v1.37.1")

        assert f"class lists (kubernetesVersions: {', '.join(listed)}): from {OLD} go to one of these" in refused
        assert await set_version(world, "v1.37.0") == ""


async def test_combined_write_is_denied_while_the_old_addon_is_delivered(world: World) -> None:
    async with guarded(world):
        first, second = await two_releases(world)
        await world.cluster("one", first.class_name)
        await world.addons_ready("one", first.class_name)
        cluster = await world.get(CLUSTER_KIND, "one")
        everything = {"classRef": {"name": second.class_name}, "version": NEW}

        told = await refusal(world.patch(cluster, {"spec": {"topology": everything}}))

        assert "cilium 1.17.2 works with Kubernetes >=1.30 <1.36" in told
        assert await annotate(world, addon__cilium=second.release) == ""
        assert "Wait until cilium 1.18.0 is delivered" in await set_version(world, NEW) or await has(world, second)
        await delivered(world, "cilium", second)
        assert await refusal(world.patch(cluster, {"spec": {"topology": everything}})) == ""


async def has(world: World, release: ReleaseName) -> bool:
    found = (await world.addon("one")).get("status") or {}
    return any(one.get("release") == release.release for one in found.get("addons") or [])


async def test_annotation_with_an_unavailable_release_is_denied(world: World) -> None:
    async with guarded(world):
        first, second = await two_releases(world)
        await world.cluster("one", first.class_name)

        assert "is not a valid release" in await annotate(world, addon__cilium="nonsense")
        assert "belongs to another cluster stack" in await annotate(world, addon_release="openstack-scs-1-35-v1")
        assert "has no addon csi" in await annotate(world, addon__csi=second.release)
        missing = world.stack.release("v77")
        told = await annotate(world, addon__cilium=missing.class_name)
        assert f"release {world.namespace}/{missing}, which an annotation names, is not offered to namespace" in told
        assert await annotate(world, addon_release=second.class_name) == ""
        await delivered(world, "cilium", second)
        assert "cilium 1.17.2 does not support a downgrade from 1.18.0" in await annotate(world, addon_release=None)


async def test_release_without_a_clusterstackrelease_is_validated_if_an_annotation_names_it(world: World) -> None:
    async with guarded(world):
        first, _ = await two_releases(world)
        third, files = ranged(world.stack, "v3", OLD, ">=1.34 <1.37", cilium=("1.17.9", ">=1.30 <1.37"))
        world.publish(third, files)
        stack = await world.get(Kind.CLUSTER_STACK, world.stack.word)
        await world.cluster("one", first.class_name)
        await world.addons_ready("one", first.class_name)

        assert "is not offered to namespace" in await annotate(world, addon__cilium=third.release)
        # It follows the custom releases of its source, and v3 is a stable one.
        await world.patch(stack, {"spec": {"autoSubscribe": True}})

        async def listed() -> bool:
            return await annotate(world, addon__cilium=third.release) == ""

        await eventually(listed, about="the release in the list of the source")
        await delivered(world, "cilium", third)
        assert await set_version(world, NEW) == ""


async def test_suggestion_includes_releases_that_exist_only_in_the_source(world: World) -> None:
    async with guarded(world):
        first, files = ranged(world.stack, "v1", OLD, ">=1.34 <1.37", cilium=("1.17.2", ">=1.30 <1.36"))
        third, more = ranged(world.stack, "v3", OLD, ">=1.34 <1.37", cilium=("1.17.9", ">=1.30 <1.37"))
        world.publish(first, files)
        world.publish(third, more)
        await world.create(world.stack.manifest(world.namespace, "v1", autoSubscribe=True))
        await world.release_ready(first)
        await world.cluster("one", first.class_name)
        await world.addons_ready("one", first.class_name)

        async def told() -> bool:
            way = f"upgrade cluster addon cilium to 1.17.9 (release {third} has it)"
            return way in await set_version(world, NEW)

        await eventually(told, about="a refusal with its suggestion")
        assert await world.find(Kind.CLUSTER_STACK_RELEASE, third.release) is None


async def test_allow_incompatible_annotation_allows_and_is_reported_as_an_event(world: World) -> None:
    async with guarded(world):
        first, _ = await two_releases(world)
        await world.cluster("one", first.class_name)
        escape = {"clusterstack.x-k8s.io/allow-incompatible": "drill of today"}
        cluster = await world.patch(await world.get(CLUSTER_KIND, "one"), {"metadata": {"annotations": escape}})

        patch = json.dumps({"spec": {"topology": {"version": NEW}}})
        told = await kubectl(world, "patch", "cluster", "one", "--type=merge", "-p", patch)

        assert "patched" in told
        assert "Warning: allowed because of annotation" in told
        assert "Warning: cilium 1.17.2 works with" in told

        async def event() -> bool:
            found = await world.events(cluster)
            return any(one["reason"] == "IncompatibleAllowed" and "drill" in one["message"] for one in found)

        await eventually(event, about="an event")


async def test_provider_rule_applies_until_it_is_deleted(world: World) -> None:
    async with guarded(world):
        first, _ = await two_releases(world)
        await world.cluster("one", first.class_name)
        rule = {
            "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
            "kind": "CompatibilityRule",
            "metadata": {"name": world.namespace},
            "spec": {
                "severity": "Deny",
                "when": {"kubernetes": "=1.35.5", "components": {"cilium": "<1.18"}},
                "message": "cilium below 1.18 loses packets with 1.35.5",
                "way": "go to v1.35.6",
                "stacks": [{"name": world.stack.word}],
            },
        }
        useless = {**rule, "metadata": {"name": "useless"}, "spec": {**rule["spec"], "overrides": ["x"]}}  # type: ignore[dict-item]
        assert "overrides" in await refusal(world.create(useless))
        await world.create(rule)

        assert await set_version(world, "v1.35.6") == ""
        await world.cluster("two", first.class_name)

        async def two_refused() -> bool:
            return "loses packets" in await set_version(world, "v1.35.5", name="two")

        await eventually(two_refused, about="a refusal by the rule")
        await world.delete(rule)

        async def allowed() -> bool:
            return await set_version(world, "v1.35.5", name="two") == ""

        await eventually(allowed, about="the end of the rule")


async def test_strict_policy_denies_another_patch_release(world: World) -> None:
    async with guarded(world):
        first, files = ranged(world.stack, "v1", OLD, ">=1.34 <1.37", cilium=("1.17.2", ">=1.30 <1.36"))
        world.publish(first, files)
        stack = await world.create(world.stack.manifest(world.namespace, "v1", compatibility="Strict"))
        await world.release_ready(first)
        await world.cluster("one", first.class_name)

        assert "its stack is strict" in await set_version(world, "v1.35.5")
        await world.patch(stack, {"spec": {"compatibility": "Range"}})

        async def allowed() -> bool:
            return await set_version(world, "v1.35.5") == ""

        await eventually(allowed, about="the other policy")


@pytest.mark.regression("SEC-13")
async def test_rule_is_evaluated_when_labels_or_variables_change(world: World) -> None:
    async with guarded(world) as operator:
        first, _ = await two_releases(world)
        cluster = await world.cluster("one", first.class_name, variables=[{"name": "env", "value": "dev"}])
        rule = {
            "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
            "kind": "CompatibilityRule",
            "metadata": {"name": world.namespace},
            "spec": {
                "severity": "Deny",
                "when": {"variables": {"env": "prod"}, "components": {"cilium": "<1.18"}},
                "message": "cilium below 1.18 is not for production",
                "stacks": [{"name": world.stack.word}],
            },
        }
        by_label = {**rule, "metadata": {"name": f"{world.namespace}-label"}}
        by_label["spec"] = {
            "severity": "Deny",
            "clusters": {"matchLabels": {"env": "prod"}},
            "message": "not labelled so",
        }
        for one in (rule, by_label):
            await world.create(one)

        async def known() -> bool:
            return len(operator._rules._read) > 1

        await eventually(known, about="the rules")
        prod = {"spec": {"topology": {"variables": [{"name": "env", "value": "prod"}]}}}
        assert "not for production" in await refusal(world.patch(cluster, prod))
        assert "not labelled so" in await refusal(world.patch(cluster, {"metadata": {"labels": {"env": "prod"}}}))
        harmless = [{"name": "env", "value": "test"}]
        assert await refusal(world.patch(cluster, {"spec": {"topology": {"variables": harmless}}})) == ""
        assert await refusal(world.patch(cluster, {"metadata": {"labels": {"env": "test"}}})) == ""


@pytest.mark.regression("SEC-24")
async def test_clusters_get_their_addons_without_reachable_webhooks(world: World) -> None:
    nowhere = configuration(
        Endpoint(url=f"https://127.0.0.1:{free_port()}"), WebhookScope(world.namespace), authority()
    )
    try:
        async with world.operator():
            name = world.stack.release("v1")
            world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))
            await world.create(world.stack.manifest(world.namespace, "v1"))
            await world.release_ready(name)
            await world.create(nowhere)
            await eventually(lambda: guards(world), about="the webhooks that cannot be reached")

            await world.cluster("one", name.class_name)

            await world.addons_ready("one", name.class_name)
    finally:
        await forget(world)


async def guards(world: World) -> bool:
    """Return whether a write that only the webhook validates fails because no webhook responds."""
    addon = {
        "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
        "kind": "ClusterAddon",
        "metadata": {"name": "another", "namespace": world.namespace},
        "spec": {"clusterRef": {"kind": "Cluster", "name": "one"}},
    }
    addons = await world.client.resource("clusterstack.x-k8s.io", "ClusterAddon")
    answer = await refusal(world.client.apply(addons, addon, manager="tests", dry_run=True))
    return "failed calling webhook" in answer


def authority() -> bytes:
    """A certificate that the API server may trust."""
    return create_serving(("127.0.0.1",), timedelta(days=1), datetime.now(UTC), None).authorities

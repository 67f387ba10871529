"""SEC-30: a pin that a user writes does not prove a verification. The users here have the chart's role ``admin``."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import yaml

from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import (
    ADDONS_READY_CONDITION,
    API_VERSION,
    CHARTS_ANNOTATION,
    CLUSTER_KIND,
    DELETE_FOR_MOVE_ANNOTATION,
    DIGEST_ANNOTATION,
    Kind,
)
from clusterstacks.model.kinds.source import SourceSpec
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.errors import Forbidden
from clusterstacks.net.kube.kubeconfig import parse_kubeconfig
from clusterstacks.net.pool import Pool
from clusterstacks.release.contents import read_contents
from tests.support.builders.signatures import ecdsa_key, signed
from tests.support.builders.stacks import config_map, publish, templates
from tests.support.running.sources import below_the_operators_directory, trusting
from tests.support.running.world import condition_of, is_ready, is_unready

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.operator.app import Operator
    from clusterstacks.release.signing.keys import PrivateKey
    from tests.support.running.world import World

pytestmark = pytest.mark.regression("SEC-30")

OURS, NEXT = ecdsa_key("ours"), ecdsa_key("next")
SIGNED, EVIL = {"text": "signed"}, {"text": "unsigned"}
RELEASE, ADDON = Kind.CLUSTER_STACK_RELEASE, Kind.CLUSTER_ADDON
WRITES = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Attack:
    """A team with a signed release that a cluster has, and another content that the operator refused.

    Args:
        world: The administrator's view.
        mallory: The view of a user with the rights of the chart's role ``admin`` in the namespaces of the team.
        name: The release.
        good: The digest of the signed content.
        evil: The digest of the refused content, with the same name.
    """

    world: World
    mallory: World
    name: ReleaseName
    good: str
    evil: str

    async def release(self) -> Manifest:
        return await self.world.get(RELEASE, self.name.release)

    async def annotate(self, **annotations: str | None) -> None:
        """Edit annotations of the ClusterStackRelease as the user."""
        await self.mallory.patch(await self.release(), {"metadata": {"annotations": annotations}})

    async def pin(self, digest: str | None) -> None:
        await self.mallory.patch(await self.release(), {"metadata": {"annotations": {DIGEST_ANNOTATION: digest}}})

    async def touch(self, cluster: str = "one") -> None:
        """Change an input of the addons, so that they must be rendered again."""
        variables = [{"name": "number", "value": next(_numbers)}]
        manifest = await self.world.get(CLUSTER_KIND, cluster)
        await self.world.patch(manifest, {"spec": {"topology": {"variables": variables}}})

    async def addon_waits(self, *words: str, cluster: str = "one") -> None:
        """Wait until the addons of a cluster wait with these words, also in the Cluster's own condition."""
        await self.world.says(ADDON, addon_name(cluster), "HelmChartFound", words=words)
        await self.world.says(CLUSTER_KIND, cluster, ADDONS_READY_CONDITION, words=words)

    async def delivers_again(self, cluster: str = "one") -> None:
        """Wait until the addons of a cluster were rendered with its present inputs."""
        await self.touch(cluster)
        await self.world.addons_ready(cluster, self.name.class_name)
        assert await self.world.delivered(self.world.namespace) is not None

    async def delivered(self) -> Any:
        return ((await self.world.delivered(self.world.namespace)) or {}).get("data")


def requiring(world: World, *keys: PrivateKey, **settings: Any) -> AbstractAsyncContextManager[Operator]:
    """Run an operator with ``--verification-policy=Require`` for all namespaces."""
    source = SourceSpec.model_validate(below_the_operators_directory(verification=trusting(*(keys or (OURS,)))))
    return world.operator(**{"namespace": "", "source": source, **settings})


def publish_signed(root: Path, name: ReleaseName, files: dict[str, bytes], *keys: PrivateKey) -> str:
    """Publish a release with its signatures, if any, and return its digest."""
    directory = publish(root, name, files)
    contents = read_contents(name, directory)
    if keys:
        directory.with_name(f"{name}.dsse.json").write_bytes(signed(*keys, name=name, files=contents.files))
    return contents.digest


def content(world: World, version: str, data: dict[str, str]) -> dict[str, bytes]:
    return world.stack.files(version, {"cni": templates(config_map(world.namespace, **data))})


@asynccontextmanager
async def as_admin(world: World, *namespaces: str) -> AsyncIterator[World]:
    """Return the world of a user with the rights of the chart's role ``admin`` in some namespaces."""
    user = f"mallory-{world.namespace}"
    for namespace in namespaces:
        group = {"apiVersion": "rbac.authorization.k8s.io/v1"}
        metadata = {"name": "admin", "namespace": namespace}
        kinds = ["clusterstacks", "clusterstackreleases", "clusteraddons"]
        rules = [{"apiGroups": ["clusterstack.x-k8s.io"], "resources": kinds, "verbs": WRITES}]
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "admin"}
        subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]
        await world.create({**group, "kind": "Role", "metadata": metadata, "rules": rules})
        bound = {"roleRef": reference, "subjects": subjects}
        await world.create({**group, "kind": "RoleBinding", "metadata": metadata, **bound})
    kubeconfig = yaml.safe_load(world.management_kubeconfig.read_text())
    kubeconfig["users"][0]["user"]["as"] = user
    async with Pool() as pool:
        yield replace(world, client=Client(parse_kubeconfig(kubeconfig, base=None), pool))


@asynccontextmanager
async def attacked(world: World) -> AsyncIterator[Attack]:
    """Serve a cluster from a signed release, and have other content of its name refused in another namespace."""
    name, scratch = world.stack.release("v1"), await world.other_namespace()
    good = publish_signed(world.releases, name, content(world, "v1", SIGNED), OURS)
    evil = publish_signed(world.releases / "evil", name, content(world, "v1", EVIL))
    async with as_admin(world, world.namespace, scratch) as mallory:
        await mallory.create(world.stack.manifest(world.namespace, "v1"))
        release = await world.release_ready(name)
        assert release["metadata"]["annotations"][DIGEST_ANNOTATION] == good
        await world.cluster("one", name.class_name)
        await world.addons_ready("one", name.class_name)
        await world.shows(world.namespace, SIGNED)
        await mallory.create(world.stack.manifest(scratch, "v1", source=below_the_operators_directory(**EVIL_PLACE)))
        await world.says(RELEASE, name.release, "SignatureVerified", "SignatureRequired", namespace=scratch)
        yield Attack(world, mallory, name, good, evil)


EVIL_PLACE = {"directory": {"path": "evil"}}


def is_unknown(manifest: Manifest) -> bool:
    found = condition_of(manifest, "SignatureVerified")
    return (found.get("status"), found.get("reason")) == ("Unknown", "SignatureUnknown")


def is_verified(manifest: Manifest) -> bool:
    return condition_of(manifest, "SignatureVerified").get("status") == "True"


@pytest.mark.regression("SEC-30")
async def test_swapped_pin_delivers_nothing_and_is_reported(world: World) -> None:
    async with requiring(world), attacked(world) as attack:
        await attack.pin(attack.evil)

        release = await world.until(RELEASE, attack.name.release, is_unready)
        assert not condition_of(release, "SignatureVerified")
        words = [DIGEST_ANNOTATION, f"changed to {attack.evil}", f"{attack.good} was verified", "set it back"]
        await world.says(RELEASE, attack.name.release, "ClusterStackReleaseDownloaded", words=words)
        await attack.addon_waits(f"{RELEASE} {world.namespace}/{attack.name}", *words)
        await attack.touch()
        await attack.addon_waits(*words)
        assert await attack.delivered() == SIGNED

        await attack.pin(attack.good)
        await world.until(RELEASE, attack.name.release, lambda one: is_ready(one) and is_verified(one), nudging=True)
        await attack.delivers_again()
        assert await attack.delivered() == SIGNED


@pytest.mark.regression("SEC-30")
async def test_user_cannot_write_the_proof(world: World) -> None:
    async with requiring(world), attacked(world) as attack:
        status = {"digest": attack.evil, "signedBy": [OURS.public.fingerprint], "verifiedSource": "x"}
        with pytest.raises(Forbidden):
            await attack.mallory.patch(await attack.release(), {"status": status}, "status")
        before = (await attack.release())["status"]
        await attack.mallory.patch(await attack.release(), {"status": status})

        assert (await attack.release())["status"] == before


@pytest.mark.regression("SEC-30")
async def test_pin_at_creation_delivers_nothing(world: World) -> None:
    name = world.stack.release("v2")
    evil = publish_signed(world.releases / "evil", name, content(world, "v2", EVIL))
    async with requiring(world), attacked(world) as attack:
        scratch = world.namespaces[-1]
        stack = await world.get(Kind.CLUSTER_STACK, world.stack.word, scratch)
        await attack.mallory.patch(stack, {"spec": {"versions": ["v1", "v2"]}})
        await world.says(RELEASE, name.release, "SignatureVerified", "SignatureRequired", namespace=scratch)

        metadata = {"name": name.release, "namespace": world.namespace, "annotations": {DIGEST_ANNOTATION: evil}}
        await attack.mallory.create({"apiVersion": API_VERSION, "kind": RELEASE, "metadata": metadata, "spec": {}})
        await world.until(RELEASE, name.release, lambda one: is_unready(one) and condition_of(one, "Ready"))
        await world.set_class("one", name.class_name)
        await attack.addon_waits(name.release)

        assert await world.find("ClusterClass", name.class_name) is None
        assert await attack.delivered() == SIGNED


@pytest.mark.regression("SEC-30")
async def test_removed_pin_has_the_source_verified_again(world: World) -> None:
    async with requiring(world) as operator, attacked(world) as attack:
        await attack.pin(None)
        await world.until(
            RELEASE,
            attack.name.release,
            lambda one: one["metadata"].get("annotations", {}).get(DIGEST_ANNOTATION) == attack.good,
        )
        await world.until(RELEASE, attack.name.release, is_verified)
        await attack.delivers_again()

        # Now the source has other content, which is not signed.
        (world.releases / f"{attack.name}.dsse.json").unlink()
        publish_signed(world.releases, attack.name, content(world, "v1", EVIL))
        await attack.pin(None)
        await world.says(RELEASE, attack.name.release, "SignatureVerified", "SignatureRequired")
        await attack.touch()
        await attack.addon_waits("is not signed by a trusted key")
        await world.look_again(operator, "clusteraddon", await world.addon("one"))
        assert await attack.delivered() == SIGNED


@pytest.mark.regression("SEC-30")
async def test_rotated_key_is_no_proof_with_and_without_the_source(world: World) -> None:
    async with requiring(world), attacked(world) as attack:
        pass

    async with requiring(world, NEXT):
        await world.says(RELEASE, attack.name.release, "SignatureVerified", "SignatureRequired")
        await world.shows(world.namespace, SIGNED)
        await attack.touch()
        await attack.addon_waits("not by a trusted key")

    hidden = world.releases.with_name("hidden")
    world.releases.rename(hidden)
    async with requiring(world, NEXT):
        await attack.touch()
        await attack.addon_waits(attack.name.release)
        assert not is_verified(await attack.release())
    assert await attack.delivered() == SIGNED

    hidden.rename(world.releases)
    publish_signed(world.releases, attack.name, content(world, "v1", SIGNED), NEXT)
    async with requiring(world, NEXT):
        release = await world.until(RELEASE, attack.name.release, is_verified, nudging=True)
        assert NEXT.public.fingerprint in release["status"]["signedBy"]
        await attack.delivers_again()


async def lose_status(attack: Attack, *fields: str) -> None:
    """Clear the status, as ``clusterctl move`` does, or only some fields, as an earlier version had it."""
    release = await attack.release()
    await attack.world.patch(release, {"status": dict.fromkeys(fields or release["status"])}, "status")


@pytest.mark.regression("SEC-30")
async def test_moved_release_is_verified_again_before_it_is_used(world: World) -> None:
    async with requiring(world), attacked(world) as attack:
        pass
    await lose_status(attack)
    hidden = world.releases.with_name("hidden")
    world.releases.rename(hidden)

    async with requiring(world):
        release = await world.until(RELEASE, attack.name.release, lambda one: condition_of(one, "Ready"))
        assert is_unready(release)
        await attack.touch()
        await attack.addon_waits(attack.name.release)
        assert await attack.delivered() == SIGNED

        hidden.rename(world.releases)
        release = await world.until(RELEASE, attack.name.release, is_ready, nudging=True)
        assert is_verified(release)
        await attack.delivers_again()

    # The annotation survives a move; what it names is not in the source.
    await lose_status(attack)
    await world.patch(await attack.release(), {"metadata": {"annotations": {DIGEST_ANNOTATION: attack.evil}}})
    async with requiring(world):
        await world.says(RELEASE, attack.name.release, "SourceUnchanged", "TagMoved")
        await attack.touch()
        await attack.addon_waits(attack.evil)
    assert await attack.delivered() == SIGNED


@pytest.mark.regression("SEC-30")
@pytest.mark.parametrize("cache", ["kept", "lost"])
async def test_release_of_an_earlier_version_is_verified_once_more(world: World, cache: str) -> None:
    async with requiring(world), attacked(world) as attack:
        pass
    await lose_status(attack, "verifiedSource")
    if cache == "lost":
        shutil.rmtree(world.cache)
    hidden = world.releases.with_name("hidden")
    world.releases.rename(hidden)

    async with requiring(world):
        await world.until(RELEASE, attack.name.release, is_unknown)
        assert is_ready(await attack.release())
        assert is_ready(await world.addon("one"))
        await attack.touch()
        await attack.addon_waits(attack.name.release)
        assert await attack.delivered() == SIGNED

    hidden.rename(world.releases)
    async with requiring(world):
        release = await world.until(RELEASE, attack.name.release, is_verified, nudging=True)
        assert release["status"]["verifiedSource"] == "the release directory"
        await attack.delivers_again()


@pytest.mark.regression("SEC-30")
async def test_without_required_signatures_nothing_waits_for_the_source(world: World) -> None:
    name = world.stack.release("v1")
    publish_signed(world.releases, name, content(world, "v1", SIGNED))
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        release = await world.release_ready(name)
        assert "verifiedSource" not in release["status"]
        await world.cluster("one", name.class_name)
        await world.addons_ready("one", name.class_name)
    attack = Attack(world, world, name, release["status"]["digest"], "")
    lost = world.releases.rename(world.releases.with_name("lost"))

    # After a restart the pinned content on disk is used without the source.
    await lose_status(attack, "signedBy")
    async with world.operator():
        await attack.delivers_again()
        await world.until(RELEASE, name.release, is_ready, nudging=True)

    # After the loss of the whole status, the annotation proves nothing: users write it. The source is asked.
    await lose_status(attack)
    lost.rename(world.releases)
    async with world.operator():
        await attack.delivers_again()
        await world.until(RELEASE, name.release, is_ready, nudging=True)


@pytest.mark.regression("SEC-30")
async def test_without_signatures_a_changed_pin_is_asked_of_the_source(world: World) -> None:
    name, scratch = world.stack.release("v1"), await world.other_namespace()
    good = publish_signed(world.releases, name, content(world, "v1", SIGNED))
    evil = publish_signed(world.releases / "evil", name, content(world, "v1", EVIL))
    async with world.operator(namespace=""):
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.create(world.stack.manifest(scratch, "v1", source=below_the_operators_directory(**EVIL_PLACE)))
        await world.release_ready(name)
        await world.until(RELEASE, name.release, lambda one: one.get("status", {}).get("digest"), namespace=scratch)
        await world.cluster("one", name.class_name)
        await world.addons_ready("one", name.class_name)
        attack = Attack(world, world, name, good, evil)

        await attack.pin(evil)
        await attack.addon_waits(f"changed to {evil}")
        assert await attack.delivered() == SIGNED

        # The source decides: it has this content now.
        publish_signed(world.releases, name, content(world, "v1", EVIL))
        await world.until(RELEASE, name.release, is_ready, nudging=True)
        await world.shows(world.namespace, EVIL)


def edits(attack: Attack) -> list[Manifest]:
    """Return every kind of edit that a user can make to a ClusterStackRelease."""
    annotations: list[dict[str, str | None]] = [
        {DIGEST_ANNOTATION: attack.evil},
        {DIGEST_ANNOTATION: None},
        {DIGEST_ANNOTATION: ""},
        {DIGEST_ANNOTATION: "../../evil"},
        {DIGEST_ANNOTATION: attack.evil, CHARTS_ANNOTATION: "[]"},
        {CHARTS_ANNOTATION: orjson.dumps([CHART]).decode()},
        {CHARTS_ANNOTATION: "{"},
        {DIGEST_ANNOTATION: attack.evil, DELETE_FOR_MOVE_ANNOTATION: ""},
    ]
    provider = {"apiVersion": f"{PROVIDER}/v1alpha1", "kind": "TinyClusterStackRelease", "name": attack.name.release}
    hostile = {"apiVersion": API_VERSION, "kind": Kind.CLUSTER_STACK, "name": "hostile", "uid": "1"}
    return [
        *({"metadata": {"annotations": one}} for one in annotations),
        {"spec": {"providerRef": provider}},
        {"spec": {"providerRef": None}},
        {"metadata": {"labels": {"clusterstack.x-k8s.io/any": "evil"}}},
        {"metadata": {"ownerReferences": [hostile]}},
        {"metadata": {"ownerReferences": [hostile], "annotations": {DIGEST_ANNOTATION: attack.evil}}},
        {"metadata": {"ownerReferences": [hostile], "annotations": {DIGEST_ANNOTATION: None}}},
        {"metadata": {"ownerReferences": [], "finalizers": []}},
    ]


PROVIDER = "infrastructure.clusterstack.x-k8s.io"
CHART = {
    "chart": "cluster-addon/cni",
    "name": "part",
    "version": "1.0.0",
    "repository": "https://charts.example.org",
    "digest": f"sha256:{'0' * 64}",
}


@pytest.mark.regression("SEC-30")
async def test_no_edit_of_a_release_delivers_unsigned_content(world: World) -> None:
    async with requiring(world) as operator, attacked(world) as attack:
        hostile = world.stack.manifest(world.namespace, "v1", source=below_the_operators_directory(**EVIL_PLACE))
        hostile["metadata"]["name"] = "hostile"
        hostile["spec"]["name"] = "hostile"
        uid = (await attack.mallory.create(hostile))["metadata"]["uid"]
        for edit in edits(attack):
            before = await attack.release()
            for owner in edit.get("metadata", {}).get("ownerReferences", []):
                owner["uid"] = uid
            await attack.mallory.patch(before, edit)
            await attack.touch()
            await world.look_again(operator, "clusterstackrelease", before)
            await world.look_again(operator, "clusteraddon", await world.addon("one"))
            await world.at_rest()

            assert await attack.delivered() == SIGNED, edit
            release = await attack.release()
            digest = release["metadata"].get("annotations", {}).get(DIGEST_ANNOTATION)
            assert digest == attack.good or not is_verified(release), edit

            metadata = {key: before["metadata"].get(key) for key in ("ownerReferences", "finalizers", "labels")}
            annotations = {CHARTS_ANNOTATION: None, DELETE_FOR_MOVE_ANNOTATION: None, DIGEST_ANNOTATION: attack.good}
            await world.patch(
                before, {"metadata": {**metadata, "annotations": annotations}, "spec": {"providerRef": None}}
            )
            await world.until(RELEASE, attack.name.release, is_ready, nudging=True)
            await attack.delivers_again()
            assert await attack.delivered() == SIGNED, edit


@pytest.mark.regression("SEC-30")
async def test_refused_content_cannot_be_opened_by_its_digest(world: World) -> None:
    async with requiring(world) as operator, attacked(world) as attack:
        store = operator._sources.store
        assert await store.open(attack.name, attack.good) is not None
        assert await store.open(attack.name, attack.evil) is None
    assert await asyncio.to_thread(lambda: not (world.cache / attack.evil.replace(":", "-")).exists())


@pytest.mark.regression("SEC-30")
async def test_no_edit_of_a_stack_or_a_clusteraddon_delivers_unsigned_content(world: World) -> None:
    async with requiring(world) as operator, attacked(world) as attack:
        stack = await world.get(Kind.CLUSTER_STACK, world.stack.word)
        evil = below_the_operators_directory(**EVIL_PLACE)
        charts = {CHARTS_ANNOTATION: orjson.dumps([CHART]).decode()}
        named = {"clusterStack": attack.name.class_name, "addons": [{"name": "cni", "release": attack.name.release}]}
        edited_kinds = {Kind.CLUSTER_STACK: stack, RELEASE: await attack.release(), ADDON: await world.addon("one")}
        publish_signed(world.releases / "evil", attack.name, content(world, "v1", EVIL), NEXT)  # by the user's key
        for kind, edit in (
            (Kind.CLUSTER_STACK, {"spec": {"source": evil}}),
            (Kind.CLUSTER_STACK, {"spec": {"source": {**evil, "verification": {**trusting(NEXT), "policy": "Warn"}}}}),
            (RELEASE, {"metadata": {"annotations": {DIGEST_ANNOTATION: attack.evil}}}),
            (Kind.CLUSTER_STACK, {"metadata": {"annotations": {DIGEST_ANNOTATION: attack.evil, **charts}}}),
            (ADDON, {"metadata": {"annotations": {DIGEST_ANNOTATION: attack.evil, **charts}}}),
            (ADDON, {"spec": named, "metadata": {"annotations": {DIGEST_ANNOTATION: attack.evil}}}),
        ):
            await attack.mallory.patch(edited_kinds[kind], edit)
            await attack.touch()
            await world.look_again(operator, "clusterstackrelease", await attack.release())
            await world.look_again(operator, "clusteraddon", await world.addon("one"))
            await world.at_rest()

            assert await attack.delivered() == SIGNED, edit
            release = await attack.release()
            assert release["metadata"]["annotations"][DIGEST_ANNOTATION] == attack.good or not is_verified(release)

        await world.patch(stack, {"spec": {"source": None}})
        await attack.pin(attack.good)
        await world.until(RELEASE, attack.name.release, lambda one: is_ready(one) and is_verified(one), nudging=True)
        await attack.delivers_again()
        assert await attack.delivered() == SIGNED

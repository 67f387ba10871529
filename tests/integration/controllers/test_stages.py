"""Releases that are offered only after stages have passed them: promotion by signed evidence."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.kinds.clusterstackrelease import FAILED, PASSED
from clusterstacks.model.kinds.names import Kind
from clusterstacks.model.objects import rfc3339
from clusterstacks.net.oci import referrers
from clusterstacks.release.contents import read_contents
from clusterstacks.release.signing.stage_evidence import StageFacts, StageStatement
from clusterstacks.release.sources.signature_store import attest_beside
from tests.support.builders.remote_repositories import repository
from tests.support.builders.signatures import ecdsa_key, ed25519_key, public_pem
from tests.support.builders.stacks import config_map, templates
from tests.support.running.sources import below_the_operators_directory, following
from tests.support.running.world import condition_of, is_ready, is_unready

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.release.signing.keys import PrivateKey
    from tests.support.running.world import World
    from tests.support.servers.registries import RegistryServer


def statement(name: ReleaseName, *, soak: float = 80, clusters: int = 3, **changed: Any) -> StageStatement:
    """Return what the stage staging states now about clusters that ran for hours."""
    now = datetime.now(UTC) - timedelta(seconds=5)
    first = replace(name, version=replace(name.version, major=1)).release
    facts = StageFacts(
        clusters={"v1.35.4": clusters},
        since=rfc3339(now - timedelta(hours=soak)),
        upgrades={(first, name.release, "Delivered"): 1},
    )
    plain = StageStatement(release=name, place="", stage="staging", verdict=PASSED, verified=now, facts=facts)
    return replace(plain, **changed)


def requiring(key: PrivateKey, stage: str = "staging", **more: Any) -> dict[str, Any]:
    """Return an entry of ``spec.source.verification.evidence``."""
    return {"stage": stage, "keys": [{"publicKey": public_pem(key).decode()}], **more}


async def state_beside(directory: Path, stated: StageStatement, key: PrivateKey, **other: str) -> None:
    """Add a statement about a release in the operator's directory; ``other`` are files that it has not."""
    contents = read_contents(stated.release, directory)
    await attest_beside(contents, stated.envelope({**contents.files, **other}).signed(key))


def lacks(*words: str) -> dict[str, Any]:
    return {"condition": "StagesPassed", "reason": "EvidenceRequired", "words": words}


@pytest.mark.usefixtures("watchful")
async def test_release_is_offered_after_its_stage_passed_it_and_no_longer_after_it_failed(
    world: World, registry: RegistryServer
) -> None:
    first, second, third = (world.stack.release(version) for version in ("v1", "v2", "v3"))
    key, stranger = ecdsa_key(), ed25519_key()
    required = requiring(key, soak="72h", clusters=3, upgradesFrom=["v1"])
    async with repository(world, registry) as remote, world.operator(allowed_sources=remote.allowed):
        for name in (first, second):
            await remote.publish(name, world.stack.files(name.version.dot, {}))
        await world.create(following(world, remote.source(verification={"evidence": [required]})))

        release = Kind.CLUSTER_STACK_RELEASE, second.release
        await world.says(
            *release,
            **lacks(f"v2 has no evidence of stage staging: csctl attest oci://{remote.place}:{second} --stage staging"),
        )
        assert is_unready(await world.get(*release))
        assert await world.find("ClusterClass", second.class_name) is None
        await remote.state(statement(second), stranger)
        await remote.state(statement(second, soak=20, clusters=2), key)
        await world.says(
            *release, **lacks("v2 has evidence of stage staging for 20 h of 72 h (2 of 3 clusters): csctl")
        )

        await remote.state(statement(second), key)
        assert condition_of(await world.release_ready(second), "StagesPassed")["status"] == "True"

        await remote.publish(third, world.stack.files("v3", {}))
        await world.says(Kind.CLUSTER_STACK_RELEASE, third.release, **lacks("v3 has no evidence"))
        await remote.state(statement(third), key)
        await world.release_ready(third)
        await remote.state(statement(third, verdict=FAILED, verified=datetime.now(UTC)), key)
        await world.says(Kind.CLUSTER_STACK_RELEASE, third.release, **lacks("v3 failed in stage staging at"))
        # It was deleted as the older one, and is the newest that can be offered.
        await world.release_ready(second)
        await remote.state(statement(third, verified=datetime.now(UTC) + timedelta(seconds=2)), key)
        await world.release_ready(third)


@pytest.mark.usefixtures("watchful")
async def test_statements_of_strangers_are_named_where_they_hide_those_of_the_stage(
    world: World, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, key, stranger = world.stack.release("v1"), ecdsa_key(), ed25519_key()
    monkeypatch.setattr(referrers, "MAX_CANDIDATES", 3)
    async with repository(world, registry) as remote, world.operator(allowed_sources=remote.allowed):
        await remote.publish(name, world.stack.files("v1", {}))
        for number in range(4):
            await remote.state(statement(name, clusters=number), stranger)
        await world.create(following(world, remote.source(verification={"evidence": [requiring(key)]})))
        words = ["v1 has no evidence of stage staging", "are too many: 3 of one type", "delete those"]
        await world.says(Kind.CLUSTER_STACK_RELEASE, name.release, **lacks(*words))

        monkeypatch.setattr(referrers, "MAX_CANDIDATES", 500)
        await remote.state(statement(name), key)
        await world.release_ready(name)


@pytest.mark.usefixtures("watchful")
async def test_known_evidence_stays_valid_while_the_source_is_away_and_after_the_release_is_withdrawn(
    world: World,
) -> None:
    name, key = world.stack.release("v1"), ecdsa_key()
    directory = world.publish(name, world.stack.files("v1", {}))
    await state_beside(directory, statement(name), key)
    source = below_the_operators_directory(verification={"evidence": [requiring(key)]})
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1", source=source))
        await world.release_ready(name)
        for beside in (directory, directory.with_name(f"{name}.intoto.jsonl")):
            beside.rename(beside.with_name(f".{beside.name}"))
        gone = await world.says(Kind.CLUSTER_STACK_RELEASE, name.release, "SourceUnchanged", "ReleaseGone")
        assert "is no longer in" in gone["message"]
        assert is_ready(await world.get(Kind.CLUSTER_STACK_RELEASE, name.release))
    world.releases.rename(world.releases.with_name("away"))
    async with world.operator(cache_dir=world.cache.with_name("empty")) as operator:
        release = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)
        await world.look_again(operator, "clusterstackrelease", release)
        release = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)
        assert is_ready(release)
        assert condition_of(release, "StagesPassed")["status"] == "True"


@pytest.mark.usefixtures("watchful")
async def test_two_stages_are_required_of_exactly_the_files_of_the_release(world: World) -> None:
    name, staging, perf = world.stack.release("v1"), ecdsa_key(), ed25519_key()
    addon = templates(config_map(world.namespace, text="v1"))
    directory = world.publish(name, world.stack.files("v1", {"cni": addon}))
    evidence = [requiring(staging), requiring(perf, "perf")]

    def source(policy: str) -> dict[str, Any]:
        return below_the_operators_directory(verification={"policy": policy, "evidence": evidence})

    async with world.operator():
        stack = await world.create(world.stack.manifest(world.namespace, "v1", source=source("Warn")))
        warned = condition_of(await world.release_ready(name), "StagesPassed")
        assert (warned["status"], warned["reason"]) == ("False", "EvidenceMissing")

        await world.patch(stack, {"spec": {"source": source("Require")}})
        await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_unready)
        await world.cluster("one", name.class_name)
        await world.says(Kind.CLUSTER_ADDON, "cluster-addon-one", "HelmChartFound", words=["v1 has no evidence"])

        # Of another content under the same name, and of a stage that signs with the key of the other one.
        await state_beside(directory, statement(name), staging, **{"more.yaml": "0" * 64})
        await state_beside(directory, statement(name, stage="perf"), staging)
        await state_beside(directory, statement(name, stage="perf"), perf)
        await world.says(Kind.CLUSTER_STACK_RELEASE, name.release, **lacks("v1 has no evidence of stage staging"))
        await state_beside(directory, statement(name), staging)
        await world.release_ready(name)
        await world.addons_ready("one", name.class_name)

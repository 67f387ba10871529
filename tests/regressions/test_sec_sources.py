"""SEC-9 to SEC-11: signatures, allowlist and Secrets of sources cannot be bypassed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import SOURCE_CREDENTIALS_LABEL, Kind
from clusterstacks.net.http.allowlist import AllowedHosts
from clusterstacks.release.contents import read_contents
from tests.integration.controllers.test_chart_dependencies import ALLOWED, depending, resolved
from tests.support.builders.signatures import ecdsa_key, signed
from tests.support.fakes.github import OWNER, REPOSITORY, TOKEN, GitHubDouble
from tests.support.running.sources import below_the_operators_directory, following, secret, trusting
from tests.support.running.world import condition_of, is_unready
from tests.support.servers.chart_repository import chart_repository

if TYPE_CHECKING:
    from clusterstacks.model.names import ReleaseName
    from tests.support.running.world import World

OURS = ecdsa_key("ours")


def publish_signed(world: World, name: ReleaseName, files: dict[str, bytes]) -> None:
    directory = world.publish(name, files)
    envelope = signed(OURS, name=name, files=read_contents(name, directory).files)
    directory.with_name(f"{name}.dsse.json").write_bytes(envelope)


@pytest.mark.regression("SEC-9")
async def test_signed_release_with_missing_charts_is_rejected_before_fetching_them(world: World) -> None:
    name = world.stack.release("v1")
    async with chart_repository() as charts, world.operator(chart_repositories=ALLOWED):
        charts.add("part", "1.0.0")
        publish_signed(world, name, depending(world, charts.url))
        source = below_the_operators_directory(verification=trusting(OURS))
        await world.create(world.stack.manifest(world.namespace, "v1", source=source))

        words = ["no signature covers", "cluster-addon/cni needs part", charts.url, "csctl create"]
        await world.says(
            Kind.CLUSTER_STACK_RELEASE, name.release, "SignatureVerified", "SignatureRequired", words=words
        )
        assert charts.asked == []
        assert await world.find("ClusterClass", name.class_name) is None


@pytest.mark.regression("SEC-9")
async def test_with_policy_warn_missing_charts_are_fetched_and_reported(world: World) -> None:
    name = world.stack.release("v1")
    async with chart_repository() as charts, world.operator(chart_repositories=ALLOWED):
        charts.add("part", "1.0.0")
        publish_signed(world, name, depending(world, charts.url))
        source = below_the_operators_directory(verification=trusting(OURS, policy="Warn"))
        await world.create(following(world, source))

        release = await world.release_ready(name)
        assert resolved(release)
        assert condition_of(release, "SignatureVerified")["reason"] == "NotSigned"
        assert "no signature covers" in condition_of(release, "SignatureVerified")["message"]


@pytest.mark.regression("SEC-9")
async def test_signatures_required_later_do_not_cover_earlier_charts(world: World) -> None:
    name = world.stack.release("v1")
    async with chart_repository() as charts, world.operator(chart_repositories=ALLOWED):
        charts.add("part", "1.0.0")
        publish_signed(world, name, depending(world, charts.url))
        stack = await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.cluster("one", name.class_name)
        await world.addons_ready("one", name.class_name)

        source = below_the_operators_directory(verification=trusting(OURS))
        await world.patch(stack, {"spec": {"source": source}})

        await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_unready)
        await world.shows(world.namespace, {"text": "hello"})


@pytest.mark.regression("SEC-10")
async def test_api_path_does_not_bypass_the_allowlist(world: World) -> None:
    async with GitHubDouble.started() as github:
        host = github.url.split("/")[2]
        async with world.operator(allowed_sources=AllowedHosts.parse(f"{host}/{OWNER}")):
            place = {"owner": OWNER, "repository": REPOSITORY, "url": f"http://{host}/team-evil/public"}
            await world.create(following(world, {"github": place, "interval": "1s"}))

            words = ["spec.source.github.url", "/team-evil/public", f"write http://{host}/api/v3"]
            await world.says(Kind.CLUSTER_STACK, world.namespace, "ReleasesSynced", "SourceNotAllowed", words=words)
            assert github.asked() == []


@pytest.mark.regression("SEC-11")
async def test_only_labelled_secrets_are_sent_to_a_source(world: World) -> None:
    name = world.stack.release("v1")
    async with GitHubDouble.started(private=True) as github:
        github.add(name.release, world.stack.files("v1", {}))
        allowed = AllowedHosts.parse(f"{github.url.split('/')[2]}/{OWNER}")
        place = {"owner": OWNER, "repository": REPOSITORY, "url": github.url}
        source = {"github": place, "interval": "1s", "credentials": {"secretName": "login"}}
        async with world.operator(allowed_sources=allowed, plain_http_credentials=allowed):
            await service_account_token(world, "login")
            await world.create(following(world, source))
            words = ["login", "is of type kubernetes.io/service-account-token", "kubernetes.io/basic-auth"]
            await world.says(Kind.CLUSTER_STACK, world.namespace, "ReleasesSynced", words=words)
            assert github.asked() == []

            secrets = await world.client.resource("", "Secret")
            await world.client.delete(secrets, "login", world.namespace)
            await secret(world, "login", {"token": TOKEN}, labelled=False)
            command = f"kubectl -n {world.namespace} label secret login {SOURCE_CREDENTIALS_LABEL}=true"
            await world.says(Kind.CLUSTER_STACK, world.namespace, "ReleasesSynced", words=[command])
            assert github.asked() == []

            labels = {"metadata": {"labels": {SOURCE_CREDENTIALS_LABEL: "true"}}}
            await world.client.merge_patch(secrets, "login", labels, world.namespace)
            await world.release_ready(name)


@pytest.mark.regression("SEC-11")
async def test_plain_http_is_used_only_if_the_operator_allows_it(world: World) -> None:
    async with GitHubDouble.started(private=True) as github:
        host = github.url.split("/")[2]
        place = {"owner": OWNER, "repository": REPOSITORY, "url": github.url}
        source = {"github": place, "interval": "1s", "credentials": {"secretName": "login"}}
        async with world.operator(allowed_sources=AllowedHosts.parse(host)):
            await secret(world, "login", {"token": TOKEN})
            await world.create(following(world, source))

            words = ["Secret", "login", "over plain HTTP", f"--plain-http-credentials {host}"]
            await world.says(Kind.CLUSTER_STACK, world.namespace, "ReleasesSynced", words=words)
            assert github.asked() == []


async def service_account_token(world: World, name: str) -> None:
    """Write a token of a service account, as Kubernetes keeps it in a Secret."""
    account = {"name": name, "namespace": world.namespace}
    await world.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    annotations = {"kubernetes.io/service-account.name": name}
    await world.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {**account, "annotations": annotations},
            "type": "kubernetes.io/service-account-token",
            "stringData": {"token": TOKEN},
        }
    )

"""How verbs of one Cluster are called: by NAME or NAMESPACE/NAME, with -n, and what they say of a missing one."""

from __future__ import annotations

import base64
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import ManagementCluster
from clusterstacks.csctl.verbs import kubeconfig
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.connection import Connection
from clusterstacks.net.kube.errors import Forbidden
from clusterstacks.net.kube.resources import Resource
from tests.support.builders.fleets import MORE_KINDS, Fleet
from tests.support.fakes.api_server import FakeApi
from tests.support.fakes.management_cluster import KINDS
from tests.support.running.csctl import call_csctl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)
REFUSED = (
    'list Cluster.cluster.x-k8s.io: 403 Forbidden: clusters.cluster.x-k8s.io is forbidden: User "u" cannot list '
    'resource "clusters" in API group "cluster.x-k8s.io"{}'
)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """The management cluster of csctl, whose context has namespace team-b."""
    api = FakeApi(*{one.kind: one for one in (SECRETS, *KINDS.values(), *MORE_KINDS)}.values())

    @asynccontextmanager
    async def connected(_: ManagementCluster, **options: Any) -> AsyncIterator[FakeApi]:  # noqa: ARG001 - as it is called
        yield api

    monkeypatch.setattr(ManagementCluster, "connected", connected)
    monkeypatch.setattr(
        "clusterstacks.net.kube.kubeconfig.default_connection",
        lambda *_: Connection("https://127.0.0.1:1", namespace="team-b"),
    )
    return api


@pytest.mark.usefixtures("api")
@pytest.mark.regression("U-8")
@pytest.mark.regression("U-23")
@pytest.mark.regression("U-35")
@pytest.mark.parametrize("verb", ["status", "plan", "history", "suspend", "resume", "reconcile", "kubeconfig"])
@pytest.mark.parametrize(
    ("arguments", "namespace"),
    [(("nope",), "team-b"), (("nope", "-n", "a"), "a"), (("a/nope",), "a"), (("a/nope", "-n", "a"), "a")],
)
def test_a_cluster_is_named_with_or_without_its_namespace_and_a_missing_one_is_answered_the_same(
    verb: str, arguments: tuple[str, ...], namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call_csctl(verb, *arguments) == output.MUST_CHANGE

    expected = f"Error: Cluster {namespace}/nope does not exist: 'csctl status -n {namespace}' lists the Clusters\n"
    assert capsys.readouterr().err == expected


@pytest.mark.usefixtures("api")
@pytest.mark.regression("U-35")
@pytest.mark.parametrize("verb", ["suspend", "resume"])
def test_u_35_a_missing_sync_is_answered_with_the_list_of_syncs(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call_csctl(verb, "nope", "--sync") == output.MUST_CHANGE
    assert capsys.readouterr().err.endswith("team-b/nope does not exist: 'csctl status --syncs' lists the syncs\n")


@pytest.mark.regression("U-42")
@pytest.mark.parametrize(
    ("place", "said"),
    [
        (' in the namespace "a"', "you may not list clusters.cluster.x-k8s.io in namespace a"),
        (" at the cluster scope", "you may not list clusters.cluster.x-k8s.io in all namespaces"),
    ],
)
def test_u_42_a_403_names_the_missing_right_once_and_what_to_do(
    place: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output.show_error(Forbidden(REFUSED.format(place), status=403, reason="Forbidden"))

    assert capsys.readouterr().err == f"Error: {said}: ask for this right, or name a namespace with -n\n"


async def read(api: FakeApi, user: dict[str, Any]) -> bytes:
    await Fleet(api).create(CLUSTER_API_GROUP, CLUSTER_KIND, "one", "a")
    config = {
        "clusters": [{"name": "one", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "one", "user": user}],
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
        "current-context": "one",
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "one-kubeconfig", "namespace": "a"},
        "type": "cluster.x-k8s.io/secret",
        "data": {"value": base64.b64encode(repr(config).encode()).decode()},
    }
    await api.create(SECRETS, secret)
    return await kubeconfig._read(ManagementCluster(), ObjectKey("a", "one"))


async def test_the_kubeconfig_of_a_workload_cluster_is_that_of_its_secret(api: FakeApi) -> None:
    assert b"https://127.0.0.1:1" in await read(api, {"token": "t"})


async def test_a_kubeconfig_that_would_run_a_program_is_refused(api: FakeApi) -> None:
    with pytest.raises(SpecError, match="Secret a/one-kubeconfig"):
        await read(api, {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh"}})

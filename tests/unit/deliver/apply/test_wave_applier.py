"""Deliveries to a failing server; successful deliveries are tested against a real one."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.object_applier import ObjectStep
from clusterstacks.deliver.apply.results import Deadlines
from clusterstacks.deliver.apply.targets import resolve
from clusterstacks.deliver.apply.waiting import pauses
from clusterstacks.deliver.apply.wave_applier import WaveApplier
from clusterstacks.model.objects import object_id
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.errors import Forbidden, Unauthorized, Unreachable
from clusterstacks.net.kube.resources import Resource
from tests.support.builders.manifests import config_map, deployment, named

if TYPE_CHECKING:
    from clusterstacks.deliver.apply.results import ObjectResult
    from clusterstacks.model.objects import Manifest

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)


class Server(Client):
    """Fails for the given objects."""

    def __init__(self, failures: dict[str, Exception], *, ready: Exception | None = None) -> None:
        self.failures = failures
        self.ready_error = ready
        self.applied: list[str] = []

    async def resource(self, group: str, kind: str, version: str = "") -> Resource:
        del group, kind, version
        return CONFIG_MAPS

    async def apply(self, resource: Resource, manifest: Manifest, **_: Any) -> Manifest:
        del resource
        name = manifest["metadata"]["name"]
        if name in self.failures:
            raise self.failures[name]
        self.applied.append(name)
        return {**manifest, "metadata": {**manifest["metadata"], "uid": f"uid-{name}", "resourceVersion": "1"}}

    async def ready(self) -> None:
        if self.ready_error:
            raise self.ready_error


async def roll_out(server: Server, names: str) -> list[ObjectResult]:
    targets = await resolve(server, [config_map(name) for name in names], default_namespace="n")
    return await WaveApplier(server, deadlines=Deadlines()).apply_objects([ObjectStep(target) for target in targets])


async def test_objects_are_applied_in_the_order_of_their_sources_but_namespaces_first() -> None:
    server = Server({"c": Unreachable("no answer", status=500)})
    manifests = [deployment("a"), config_map("b"), config_map("c"), config_map("d"), named("v1", "Namespace", "e")]
    sources = {object_id(manifest): position for position, manifest in enumerate(manifests)}
    targets = await resolve(server, manifests, default_namespace="n", sources=sources)

    await WaveApplier(server).apply_objects([ObjectStep(target) for target in reversed(targets)])

    assert server.applied == ["e", "a", "b", "d"]


@pytest.mark.parametrize("status", [0, 500], ids=["timed out", "webhook failed"])
async def test_failure_of_one_object_does_not_stop_the_others(status: int) -> None:
    server = Server({"b": Unreachable("apply ConfigMap n/b: no answer", status=status)})

    results = await roll_out(server, "abc")

    assert [one.synced for one in results] == [True, False, True]
    assert "ConfigMap n/b" in results[1].error


@pytest.mark.parametrize(
    "server",
    [
        Server({"a": Unreachable("no answer")}, ready=Unreachable("not ready")),
        Server({"a": Unauthorized("who are you", status=401, reason="Unauthorized")}),
    ],
    ids=["frozen", "unknown to it"],
)
async def test_unreachable_or_unauthorized_server_ends_the_delivery(server: Server) -> None:
    with pytest.raises((Unreachable, Unauthorized)):
        await roll_out(server, "abc")


@pytest.mark.regression("D68")
async def test_a_forbidden_apply_names_the_missing_rule() -> None:
    words = (
        'configmaps "a" is forbidden: User "operator" cannot patch resource "configmaps" in API group "" in the '
        'namespace "n"'
    )
    server = Server({"a": Forbidden(words, status=403, reason="Forbidden")})

    (result,) = await roll_out(server, "a")

    assert result.code == "Forbidden"
    assert "apiGroups [''], resources ['configmaps'], verbs ['create', 'patch']" in result.error


@pytest.mark.parametrize("seconds", [0, 0.01, 1, 10])
def test_retry_pauses_add_up_to_the_time_limit(seconds: float) -> None:
    found = list(pauses(timedelta(seconds=seconds)))

    assert sum(found) == pytest.approx(seconds)
    assert max(found, default=0) <= 1

"""CRDs are served before the components that need them start."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.dev import installation
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.connection import Connection
from clusterstacks.net.kube.errors import KindNotServed
from clusterstacks.net.pool import Pool
from tests.support.fakes.scripted_server import ScriptedServer, says

if TYPE_CHECKING:
    from tests.support.fakes.scripted_server import Answer

CLUSTERS = {
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "clusters.cluster.x-k8s.io"},
    "spec": {
        "group": "cluster.x-k8s.io",
        "names": {"kind": "Cluster"},
        "versions": [
            {"name": "v1beta2", "served": True},
            {"name": "v1beta1", "served": True},
            {"name": "v1alpha4", "served": False},
        ],
    },
}


def discovery(*versions: str) -> Answer:
    entry = {"resource": "clusters", "responseKind": {"kind": "Cluster"}, "scope": "Namespaced", "verbs": ["get"]}
    group = {
        "metadata": {"name": "cluster.x-k8s.io"},
        "versions": [{"version": version, "resources": [entry]} for version in versions],
    }
    return says({"kind": "APIGroupDiscoveryList", "items": [group] if versions else []})


async def test_crds_are_awaited_until_discovery_lists_all_their_versions() -> None:
    async with ScriptedServer.started() as server, Pool() as pool:
        server.plays(discovery(), discovery("v1beta1"), discovery("v1beta1", "v1beta2"))
        await installation.until_served(Client(Connection(server.url), pool), [CLUSTERS])

        assert [request.path for request in server.requests] == ["/apis"] * 3


async def test_crd_that_is_never_served_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "TIMEOUT", timedelta(0))
    async with ScriptedServer.started() as server, Pool() as pool:
        server.plays(discovery("v1beta1"))
        with pytest.raises(KindNotServed, match=r"does not serve Cluster\.cluster\.x-k8s\.io/v1beta2, although"):
            await installation.until_served(Client(Connection(server.url), pool), [CLUSTERS])

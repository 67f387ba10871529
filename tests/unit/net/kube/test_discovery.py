"""Discovery of the kinds that a server serves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.net.kube.discovery import UNKNOWN_KIND_INTERVAL, UNKNOWN_VERSION_INTERVAL, Discovery
from clusterstacks.net.kube.errors import KindNotServed, Unreachable
from clusterstacks.net.kube.resources import Resource

if TYPE_CHECKING:
    from collections.abc import Mapping

VERBS = ["get", "list"]


def group(name: str, **versions: list[tuple[str, str]]) -> dict[str, Any]:
    """A group of an aggregated answer: its versions in preference order, each with (kind, plural)."""
    return {
        "metadata": {"name": name},
        "versions": [
            {
                "version": version,
                "resources": [
                    {"resource": plural, "responseKind": {"kind": kind}, "scope": "Namespaced", "verbs": VERBS}
                    for kind, plural in kinds
                ],
            }
            for version, kinds in versions.items()
        ],
    }


class Server:
    """Answers discovery paths; counts the rounds; has a clock of its own."""

    def __init__(self, *groups: dict[str, Any]) -> None:
        self.groups = list(groups)
        self.rounds = 0
        self.now = 0.0

    async def fetch(self, path: str) -> Mapping[str, Any]:
        await asyncio.sleep(0)
        self.rounds += path == "/apis"
        items = [one for one in self.groups if bool(one["metadata"]["name"]) == (path == "/apis")]
        return {"kind": "APIGroupDiscoveryList", "items": items}

    def discovery(self) -> Discovery:
        return Discovery(self.fetch, lambda: self.now)


DEPLOYMENT = [("Deployment", "deployments")]
BUDGET = [("PodDisruptionBudget", "poddisruptionbudgets")]


async def test_preferred_version_is_used_without_a_version_and_for_a_removed_version() -> None:
    server = Server(group("policy", v1=BUDGET, v1beta1=[]))
    discovery = server.discovery()
    served = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", namespaced=True)

    assert await discovery.resource("policy", "PodDisruptionBudget", "") == served
    server.now += UNKNOWN_VERSION_INTERVAL.total_seconds()
    assert await discovery.resource("policy", "PodDisruptionBudget", "v1beta1") == served
    assert server.rounds == 2


async def test_requested_version_has_precedence_over_the_preferred_one() -> None:
    discovery = Server(group("apps", v1=DEPLOYMENT, v1beta1=DEPLOYMENT)).discovery()

    assert (await discovery.resource("apps", "Deployment", "v1beta1")).version == "v1beta1"
    assert (await discovery.resource("apps", "Deployment", "")).version == "v1"


async def test_concurrent_callers_share_one_discovery() -> None:
    server = Server(group("apps", v1=DEPLOYMENT))
    discovery = server.discovery()

    await asyncio.gather(*(discovery.resource("apps", "Deployment", "v1") for _ in range(50)))

    assert server.rounds == 1


async def test_unknown_kind_repeats_discovery_at_most_every_few_seconds() -> None:
    server = Server()
    discovery = server.discovery()
    for _ in range(5):
        with pytest.raises(KindNotServed, match=r"does not serve Deployment\.apps"):
            await discovery.resource("apps", "Deployment", "v1")
    assert server.rounds == 1

    server.groups.append(group("apps", v1=DEPLOYMENT))
    server.now += UNKNOWN_KIND_INTERVAL.total_seconds()

    assert (await discovery.resource("apps", "Deployment", "v1")).plural == "deployments"
    assert server.rounds == 2


async def test_forget_repeats_discovery() -> None:
    server = Server(group("apps", v1=DEPLOYMENT))
    discovery = server.discovery()
    await discovery.resource("apps", "Deployment", "")

    discovery.forget()
    await discovery.resource("apps", "Deployment", "")

    assert server.rounds == 2


async def test_failed_discovery_is_not_cached() -> None:
    server = Server(group("apps", v1=DEPLOYMENT))

    async def fetch(path: str) -> Mapping[str, Any]:
        if not server.rounds:
            server.rounds += 1
            raise Unreachable("down")
        return await server.fetch(path)

    discovery = Discovery(fetch, lambda: 0)
    with pytest.raises(Unreachable):
        await discovery.resource("apps", "Deployment", "")
    assert (await discovery.resource("apps", "Deployment", "")).version == "v1"


LEGACY: dict[str, Any] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {
        "kind": "APIGroupList",
        "groups": [
            {
                "name": "apps",
                "versions": [{"version": "v1beta1"}, {"version": "v1"}],
                "preferredVersion": {"version": "v1"},
            },
            {"name": "broken.example", "versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}},
        ],
    },
    "/api/v1": {
        "resources": [
            {"name": "pods", "kind": "Pod", "namespaced": True},
            {"name": "pods/eviction", "kind": "Eviction", "namespaced": True},
            {"name": "nodes", "kind": "Node", "namespaced": False},
        ]
    },
    "/apis/apps/v1": {"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": True}]},
    "/apis/apps/v1beta1": {"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": True}]},
}


async def test_legacy_discovery_reads_each_group_version_and_skips_failing_ones() -> None:
    async def fetch(path: str) -> Mapping[str, Any]:
        if path not in LEGACY:
            raise Unreachable(f"get {path}: 503")
        found: Mapping[str, Any] = LEGACY[path]
        return found

    discovery = Discovery(fetch, lambda: 0)

    assert (await discovery.resource("", "Node", "")) == Resource("", "v1", "Node", "nodes", namespaced=False)
    assert (await discovery.resource("apps", "Deployment", "")).version == "v1"
    assert (await discovery.resource("apps", "Deployment", "v1beta1")).version == "v1beta1"
    with pytest.raises(KindNotServed):
        await discovery.resource("", "Eviction", "")


@pytest.mark.regression("SEC-3")
async def test_d_malformed_discovery_is_unreachable() -> None:
    async def fetch(_: str) -> Any:
        return {"kind": "APIGroupDiscoveryList", "items": [7]}

    with pytest.raises(Unreachable, match="is not a discovery document"):
        await Discovery(fetch).resource("apps", "Deployment", "")

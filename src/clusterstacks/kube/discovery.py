"""Which kinds a server serves, and where: two requests, kept, and asked again when a kind is unknown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, TypeAlias

from clusterstacks.domain.errors import DependencyError
from clusterstacks.kube.errors import KindNotServed, Unreachable
from clusterstacks.kube.resources import Resource

ASK_AGAIN_FOR_KIND = timedelta(seconds=2)
"""Shortest time between two rounds because of an unknown kind: a CRD is served within a second of its creation."""

ASK_AGAIN_FOR_VERSION = timedelta(seconds=60)
"""The same because of an unknown version of a known kind, which is mostly one that is gone for good (INCUMBENT D14)."""

ACCEPT = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,"
    "application/json"
)
"""Kinds of all groups in one answer, from servers that can: Kubernetes 1.30, 1.27, and any."""

MAX_GROUP_VERSIONS = 1000
"""Group versions that are read from a server without aggregated discovery, one request each; Kubernetes itself has 30
(arbitrary)."""

REQUESTS_AT_ONCE = 8
"""Of these at the same time; the budget of a workload cluster."""

Served: TypeAlias = dict[tuple[str, str], list[Resource]]
"""(group, kind) to its versions, the server's preferred one first."""

Fetch: TypeAlias = Callable[[str], Awaitable[Mapping[str, Any]]]
"""Reads a discovery path with ``ACCEPT``."""


class Discovery:
    """The kinds of one server. Concurrent questions share one round (INCUMBENT D52)."""

    def __init__(self, fetch: Fetch, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._monotonic = monotonic
        self._served: Served = {}
        self._asked = float("-inf")
        self._turn = asyncio.Lock()

    async def resource(self, group: str, kind: str, version: str) -> Resource:
        """Find a kind in the version asked for; in the preferred one when that is empty or no longer served.

        Raises:
            KindNotServed: The server does not know the kind.
            Unreachable: Its answer is not a discovery document, or names too many groups.
        """
        versions = self._served.get((group, kind), [])
        if not _has(versions, version):
            await self._ask_again(ASK_AGAIN_FOR_VERSION if versions else ASK_AGAIN_FOR_KIND)
            versions = self._served.get((group, kind), [])
        if not versions:
            name = f"{kind}.{group}" if group else kind
            raise KindNotServed(f"the server does not serve {name}: its CRD or API service is missing or not ready")
        return next((served for served in versions if served.version == version), versions[0])

    def forget(self) -> None:
        """Ask again at the next question."""
        self._served = {}
        self._asked = float("-inf")

    async def _ask_again(self, every: timedelta) -> None:
        wanted_at = self._monotonic()
        async with self._turn:
            # Somebody else may have asked while this one waited for its turn.
            if self._asked < wanted_at and wanted_at - self._asked >= every.total_seconds():
                try:
                    self._served = await _round(self._fetch)
                except (AttributeError, KeyError, TypeError):
                    raise Unreachable("the server answered with something else than discovery documents") from None
                self._asked = self._monotonic()


def _has(versions: list[Resource], version: str) -> bool:
    return bool(versions) and (not version or any(served.version == version for served in versions))


async def _round(fetch: Fetch) -> Served:
    core, groups = await asyncio.gather(fetch("/api"), fetch("/apis"))
    served: Served = {}
    for answer, read_old in ((core, _legacy_core), (groups, _legacy_groups)):
        if answer.get("kind") == "APIGroupDiscoveryList":
            _add_aggregated(served, answer)
        else:
            await _add_legacy(served, fetch, read_old(answer))
    return served


def _add_aggregated(served: Served, answer: Mapping[str, Any]) -> None:
    for group in answer.get("items") or []:
        name = group.get("metadata", {}).get("name", "")
        for version in group.get("versions") or []:
            for entry in version.get("resources") or []:
                kind = (entry.get("responseKind") or {}).get("kind")
                # Entries without a kind of their own have subresources only.
                if kind and entry.get("verbs"):
                    found = Resource(name, version["version"], kind, entry["resource"], entry["scope"] == "Namespaced")
                    served.setdefault((name, kind), []).append(found)


def _legacy_core(answer: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [("", version) for version in answer.get("versions") or []]


def _legacy_groups(answer: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = []
    for group in answer.get("groups") or []:
        preferred = (group.get("preferredVersion") or {}).get("version", "")
        versions = [entry["version"] for entry in group.get("versions") or []]
        found += [(group["name"], version) for version in sorted(versions, key=lambda one: one != preferred)]
    return found


async def _add_legacy(served: Served, fetch: Fetch, versions: list[tuple[str, str]]) -> None:
    """Read servers before 1.27, and those behind which aggregated discovery is off: one request a group version."""

    async def read(group: str, version: str) -> Mapping[str, Any]:
        try:
            return await fetch(f"/apis/{group}/{version}" if group else f"/api/{version}")
        except DependencyError:
            # One API service that is down must not hide all other groups.
            return {}

    if len(versions) > MAX_GROUP_VERSIONS:
        raise Unreachable(
            f"the server offers {len(versions)} group versions, more than {MAX_GROUP_VERSIONS} are not read"
        )
    answers: list[Mapping[str, Any]] = []
    for start in range(0, len(versions), REQUESTS_AT_ONCE):
        some = versions[start : start + REQUESTS_AT_ONCE]
        answers += await asyncio.gather(*(read(group, version) for group, version in some))
    for (group, version), answer in zip(versions, answers, strict=True):
        for entry in answer.get("resources") or []:
            if "/" not in entry["name"]:
                found = Resource(group, version, entry["kind"], entry["name"], entry["namespaced"])
                served.setdefault((group, entry["kind"]), []).append(found)

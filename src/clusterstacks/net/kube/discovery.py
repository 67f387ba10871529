"""API discovery: finds the resource of a kind with one or two cached requests, repeated when a kind is unknown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, TypeAlias

from clusterstacks.model.errors import DependencyError
from clusterstacks.net.kube.errors import KindNotServed, Unreachable
from clusterstacks.net.kube.resources import Resource

UNKNOWN_KIND_INTERVAL = timedelta(seconds=2)
"""Minimum interval between discoveries for an unknown kind; a CRD is served within a second of its creation."""

UNKNOWN_VERSION_INTERVAL = timedelta(seconds=60)
"""Minimum interval between discoveries for an unknown version of a known kind, which usually was removed for good."""

ACCEPT = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,"
    "application/json"
)
"""Requests aggregated discovery (v2 since Kubernetes 1.30, v2beta1 since 1.27), with plain discovery as fallback."""

MAX_GROUP_VERSIONS = 1000
"""Maximum number of group versions read from a server without aggregated discovery, one request each (arbitrary;
Kubernetes has 30)."""

MAX_CONCURRENT_REQUESTS = 8
"""Maximum number of concurrent requests for group versions: the budget of a workload cluster."""

CORE: Final = {
    kind: Resource("", "v1", kind, f"{kind.lower()}s", namespaced=kind != "Namespace")
    for kind in ("ConfigMap", "Event", "Namespace", "Secret", "Service", "ServiceAccount")
}
"""Kinds that every Kubernetes API server has; they are not looked for."""

Served: TypeAlias = dict[tuple[str, str], list[Resource]]
"""Resources by (group, kind), one for each version; the preferred version is first."""

Fetch: TypeAlias = Callable[[str], Awaitable[Mapping[str, Any]]]
"""Reads a discovery document by its path, with ``ACCEPT``."""


class Discovery:
    """Discovered resources of one server. The core group and all others have a document each, read when needed.

    Concurrent callers share one discovery.
    """

    def __init__(self, fetch: Fetch, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._monotonic = monotonic
        self.forget()

    async def resource(self, group: str, kind: str, version: str) -> Resource:
        """Find a kind in the given version, or in the preferred version if that is empty or not served.

        Raises KindNotServed, or Unreachable for a response that is not a discovery document or has too many group
        versions.
        """
        if not group and kind in CORE:
            return CORE[kind]
        document = self._groups if group else self._core
        versions = document.served.get((group, kind), [])
        if not _has(versions, version):
            await self._refresh(document, UNKNOWN_VERSION_INTERVAL if versions else UNKNOWN_KIND_INTERVAL)
            versions = document.served.get((group, kind), [])
        if not versions:
            name = f"{kind}.{group}" if group else kind
            cause = "its CRD or API service is missing or not ready"
            raise KindNotServed(f"the server does not serve {name}: {cause}; install what provides it")
        return next((served for served in versions if served.version == version), versions[0])

    def forget(self) -> None:
        """Repeat discovery at the next call of ``resource``."""
        self._core = _DiscoveryDocument("/api", _legacy_core)
        self._groups = _DiscoveryDocument("/apis", _legacy_groups)

    async def _refresh(self, document: _DiscoveryDocument, every: timedelta) -> None:
        wanted_at = self._monotonic()
        async with document.lock:
            # Another caller may have finished a discovery while this one waited for the lock.
            if document.refreshed_at < wanted_at and wanted_at - document.refreshed_at >= every.total_seconds():
                try:
                    document.served = await _discover(self._fetch, document)
                except (AttributeError, KeyError, TypeError):
                    raise Unreachable("the response of the server is not a discovery document") from None
                document.refreshed_at = self._monotonic()


@dataclass(slots=True)
class _DiscoveryDocument:
    path: str
    read_legacy: Callable[[Mapping[str, Any]], list[tuple[str, str]]]
    """Reads the group versions from a server without aggregated discovery."""
    served: Served = field(default_factory=dict)
    refreshed_at: float = float("-inf")
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


def _has(versions: list[Resource], version: str) -> bool:
    return bool(versions) and (not version or any(served.version == version for served in versions))


async def _discover(fetch: Fetch, document: _DiscoveryDocument) -> Served:
    answer = await fetch(document.path)
    served: Served = {}
    if answer.get("kind") == "APIGroupDiscoveryList":
        _add_aggregated(served, answer)
    else:
        await _add_legacy(served, fetch, document.read_legacy(answer))
    return served


def _add_aggregated(served: Served, answer: Mapping[str, Any]) -> None:
    for group in answer.get("items") or []:
        name = group.get("metadata", {}).get("name", "")
        for version in group.get("versions") or []:
            for entry in version.get("resources") or []:
                kind = (entry.get("responseKind") or {}).get("kind")
                # Entries without a kind have only subresources.
                if kind and entry.get("verbs"):
                    resource = Resource(
                        name, version["version"], kind, entry["resource"], entry["scope"] == "Namespaced"
                    )
                    served.setdefault((name, kind), []).append(resource)


def _legacy_core(answer: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [("", version) for version in answer.get("versions") or []]


def _legacy_groups(answer: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs = []
    for group in answer.get("groups") or []:
        preferred = (group.get("preferredVersion") or {}).get("version", "")
        versions = [entry["version"] for entry in group.get("versions") or []]
        pairs += [(group["name"], version) for version in sorted(versions, key=lambda name: name != preferred)]
    return pairs


async def _add_legacy(served: Served, fetch: Fetch, versions: list[tuple[str, str]]) -> None:
    """Read servers without aggregated discovery (before 1.27, or disabled) with one request per group version."""

    async def read(group: str, version: str) -> Mapping[str, Any]:
        try:
            return await fetch(f"/apis/{group}/{version}" if group else f"/api/{version}")
        except DependencyError:
            # An API service that is down must not hide the other groups.
            return {}

    if len(versions) > MAX_GROUP_VERSIONS:
        raise Unreachable(
            f"the server serves {len(versions)} group versions, more than the limit of {MAX_GROUP_VERSIONS}"
        )
    answers: list[Mapping[str, Any]] = []
    for start in range(0, len(versions), MAX_CONCURRENT_REQUESTS):
        batch = versions[start : start + MAX_CONCURRENT_REQUESTS]
        answers += await asyncio.gather(*(read(group, version) for group, version in batch))
    for (group, version), answer in zip(versions, answers, strict=True):
        for entry in answer.get("resources") or []:
            if "/" not in entry["name"]:
                resource = Resource(group, version, entry["kind"], entry["name"], entry["namespaced"])
                served.setdefault((group, entry["kind"]), []).append(resource)

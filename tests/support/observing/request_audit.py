"""All requests to an API server with their user agents, from its audit log."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson

from tests.support.observing.audit_log import WRITES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from clusterstacks.model.objects import Manifest

ALL_REQUESTS = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
"""Audit policy. A watch has an entry when it starts, every other request when it ends."""

WRITTEN_CONTENT = {
    **ALL_REQUESTS,
    "rules": [
        {
            "level": "Request",
            "verbs": WRITES,
            "resources": [
                {"group": "", "resources": ["configmaps"]},
                {"group": "cluster.x-k8s.io", "resources": ["clusters"]},
            ],
        },
        {"level": "Metadata", "verbs": WRITES},
        {"level": "None"},
    ],
}
"""Audit policy of all writes, with the content of ConfigMaps and Clusters."""

REVIEWS = frozenset({"selfsubjectaccessreviews", "selfsubjectrulesreviews"})
"""Kinds that are created to ask something, and not stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedRequest:
    """One request that reached the server, also one that it refused.

    Args:
        agent: First word of the user agent.
        verb: As the authorizer sees it; ``apply`` for a server-side apply.
        kind: Plural with the subresource after a slash; the path of requests outside of groups.
        began: Time at which the server received it, by its clock.
        ended: Time of its last byte; of a watch, of its first.
        dry_run: Whether it changes nothing.
        content: Sent object, where the policy records it.
    """

    agent: str
    verb: str
    kind: str
    namespace: str
    name: str
    code: int
    began: datetime
    ended: datetime
    dry_run: bool = False
    content: Manifest = field(default_factory=dict)

    @property
    def is_write(self) -> bool:
        """Whether it may change an object."""
        return self.verb in {*WRITES, "apply"} and self.kind not in REVIEWS

    @property
    def is_lease(self) -> bool:
        """Whether it is about a Lease."""
        return self.kind == "leases"

    def __str__(self) -> str:
        outcome = f" {self.code}" if self.code >= 300 else ""
        return f"{self.verb} {self.kind}{outcome}"


class RequestAudit:
    """Reads the audit log of a server with the policy ``ALL_REQUESTS``; each call returns the requests since the last.

    Args:
        file: The log. The server writes it before it responds (``blocking-strict``).
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset = 0

    def since_last(self) -> list[AuditedRequest]:
        """Return the requests of all users since the last call, in the order of their ends."""
        found = []
        with self._file.open("rb") as log:
            log.seek(self._offset)
            for line in log:
                if not line.endswith(b"\n"):
                    break  # it is being written
                self._offset += len(line)
                event = orjson.loads(line)
                if (event["stage"] == "ResponseStarted") == (event["verb"] == "watch"):
                    found.append(_request(event))
        return sorted(found, key=lambda one: one.ended)


def of_agent(requests: Iterable[AuditedRequest], agent: str) -> list[AuditedRequest]:
    """Return the requests of one user agent, without those for Leases."""
    return [one for one in requests if one.agent == agent and not one.is_lease]


def by_verb_and_kind(requests: Iterable[AuditedRequest]) -> Counter[str]:
    """Count the requests."""
    return Counter(str(one) for one in requests)


def _request(event: Mapping[str, Any]) -> AuditedRequest:
    target = event.get("objectRef") or {}
    kind = "/".join(filter(None, (target.get("resource"), target.get("subresource"))))
    uri = str(event["requestURI"])
    path, _, query = uri.partition("?")
    return AuditedRequest(
        agent=event.get("userAgent", "").split("/")[0].split(" ")[0],
        verb="apply" if event["verb"] == "patch" and "fieldManager=" in query else event["verb"],
        kind=kind or path,
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=(event.get("responseStatus") or {}).get("code", 0),
        began=datetime.fromisoformat(event["requestReceivedTimestamp"]),
        ended=datetime.fromisoformat(event["stageTimestamp"]),
        dry_run="dryRun=" in query,
        content=event.get("requestObject") or {},
    )


def applied_contents(requests: Iterable[AuditedRequest], prefix: str) -> dict[str, list[Any]]:
    """Return the data of each ConfigMap in the order of its successful writes, a repeated content once.

    Args:
        requests: In the order of their ends, with content.
        prefix: Of the names.
    """
    found: dict[str, list[Any]] = {}
    for one in requests:
        if one.kind != "configmaps" or not one.name.startswith(prefix) or one.code >= 300 or "data" not in one.content:
            continue
        contents = found.setdefault(one.name, [])
        if contents[-1:] != [one.content["data"]]:
            contents.append(one.content["data"])
    return found


def deleted_names(requests: Iterable[AuditedRequest], kind: str) -> Counter[str]:
    """Count the successful deletions of a kind by name."""
    return Counter(one.name for one in requests if one.kind == kind and one.verb == "delete" and one.code < 300)

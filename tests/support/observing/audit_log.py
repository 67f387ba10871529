"""Writes in an API server's audit log, and whether the writer held the lease at that time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson
import yaml

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

WRITES = ["create", "update", "patch", "delete", "deletecollection"]
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {
            "level": "RequestResponse",
            "verbs": WRITES,
            "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}],
        },
        {"level": "Metadata", "verbs": WRITES},
        {"level": "None"},
    ],
}


def audit_flags(directory: Path, policy: Mapping[str, Any] = POLICY) -> tuple[str, ...]:
    """Return flags of a kube-apiserver that writes its audit log to ``audit.log`` before it responds."""
    file = directory / "audit-policy.yaml"
    file.write_text(yaml.safe_dump(policy))
    return (
        f"--audit-policy-file={file}",
        f"--audit-log-path={directory / 'audit.log'}",
        "--audit-log-mode=blocking-strict",
    )


@dataclass(frozen=True, slots=True)
class Write:
    """A write that reached the server, by the server's clock; also a rejected one."""

    user: str
    verb: str
    about: str
    received: datetime
    done: datetime
    lease: bool = False
    holder: str | None = None
    """Of a Lease after a write that was done; None for everything else."""


@dataclass(frozen=True, slots=True)
class Tenure:
    """The time a user held a lease: from the end of the write that took it to the start of the next one."""

    user: str
    begins: datetime
    ends: datetime | None = None


class AuditLog:
    """Reads the entries of an API server's audit log, each line once."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset = 0
        self._writes: list[Write] = []

    def writes(self) -> list[Write]:
        """Return the writes so far in the order of their ends."""
        with self._file.open("rb") as log:
            log.seek(self._offset)
            for line in log:
                if not line.endswith(b"\n"):
                    break  # it is being written
                self._offset += len(line)
                self._writes.append(_write(orjson.loads(line)))
        return sorted(self._writes, key=lambda write: write.done)


def _write(event: Mapping[str, Any]) -> Write:
    target = event.get("objectRef") or {}
    done = (event.get("responseStatus") or {}).get("code", 500) < 300
    lease = target.get("resource") == "leases"
    spec = (event.get("responseObject") or {}).get("spec") or {}
    return Write(
        user=(event.get("impersonatedUser") or event["user"])["username"],
        verb=event["verb"],
        about="/".join(target.get(part, "") for part in ("resource", "namespace", "name")),
        received=datetime.fromisoformat(event["requestReceivedTimestamp"]),
        done=datetime.fromisoformat(event["stageTimestamp"]),
        lease=lease,
        holder=spec.get("holderIdentity", "") if lease and done else None,
    )


def tenures(writes: Sequence[Write], lease: str) -> list[Tenure]:
    """Return the holders of the lease (``leases/NAMESPACE/NAME``) with their times."""
    return list(_tenures([write for write in writes if write.about == lease and write.holder is not None]))


def _tenures(writes: Sequence[Write]) -> Iterator[Tenure]:
    now: Tenure | None = None
    holder = ""
    for write in writes:
        if write.holder == holder:
            continue
        if now is not None:
            yield Tenure(now.user, now.begins, write.received)
        holder = write.holder or ""
        now = Tenure(write.user, write.done) if holder else None
    if now is not None:
        yield now


def outside(writes: Sequence[Write], lease: str, users: Collection[str]) -> list[str]:
    """Return writes of these users, leases excluded, that were not completely within their tenure."""
    held = tenures(writes, lease)
    return [
        f"{write.user}: {write.verb} {write.about} at {write.received:%H:%M:%S.%f}"
        for write in writes
        if write.user in users and not write.lease
        if not any(
            tenure.user == write.user
            and tenure.begins <= write.received
            and (tenure.ends is None or write.done <= tenure.ends)
            for tenure in held
        )
    ]

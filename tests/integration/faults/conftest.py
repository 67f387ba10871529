"""Two API servers with audit logs, and an operator that does not wait long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.builders.fault_schedules import Server
from tests.support.observing.audit_log import audit_flags
from tests.support.observing.request_audit import WRITTEN_CONTENT, RequestAudit
from tests.support.running.faulty_world import AuditedServer
from tests.support.running.quick_timeouts import shorten
from tests.support.servers.api_servers import started_api_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clusterstacks.dev.etcd import Etcd


@pytest.fixture(scope="package")
def servers(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[Server, AuditedServer]]:
    """Yield the servers of both clusters."""
    found, running = {}, []
    for server in Server:
        directory = tmp_path_factory.mktemp(server)
        flags = audit_flags(directory, WRITTEN_CONTENT)
        running.append(started_api_server(f"faulty-{server}", etcd, tmp_path_factory, flags=flags))
        found[server] = AuditedServer(server=next(running[-1]), audit=RequestAudit(directory / "audit.log"))
    yield found
    for one in running:
        next(one, None)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten what the operator waits for."""
    shorten(monkeypatch.setattr)

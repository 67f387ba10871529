from __future__ import annotations

import socket

import pytest

from clusterstacks.dev import loopback
from clusterstacks.model.errors import DependencyError


def test_port_is_assigned_once() -> None:
    found = [loopback.free_port() for _ in range(50)]

    assert len(set(found)) == 50
    assert all(loopback.LOWEST <= port <= loopback.HIGHEST for port in found)


def test_port_in_use_is_not_free() -> None:
    for address in ("127.0.0.1", ""):
        with socket.socket() as server:
            server.bind((address, 0))
            server.listen()
            assert not loopback.can_bind(server.getsockname()[1])
    assert loopback.can_bind(loopback.free_port())


def test_exhausted_ports_are_reported() -> None:
    with pytest.raises(DependencyError, match=r"no free port on 127\.0\.0\.1 .* after 200 attempts; stop what listens"):
        loopback.free_port(lambda _: False)

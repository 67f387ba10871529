"""Hypothesis profiles: tests must not depend on how fast a machine is; `make fuzz` looks a hundred times longer."""

from __future__ import annotations

from hypothesis import settings

from tests.support.servers.api_servers import api_server, etcd, workload_server
from tests.support.servers.registries import registry, secure_registry

__all__ = ["api_server", "etcd", "registry", "secure_registry", "workload_server"]  # fixtures of several suites

settings.register_profile("default", deadline=None)
settings.register_profile("fuzz", deadline=None, max_examples=10_000)
settings.load_profile("default")

"""What holds for every test: it does not depend on the speed of the machine, and what it leaves open fails itself."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.support.servers.api_servers import api_server, etcd, workload_server
from tests.support.servers.registries import registry, secure_registry
from tests.support.skips import fail_in_ci

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

__all__ = ["api_server", "etcd", "registry", "secure_registry", "workload_server"]  # fixtures of several suites

settings.register_profile("default", deadline=None)
settings.register_profile("fuzz", deadline=None, max_examples=10_000)
settings.load_profile("default")


INTEGRATION = Path(__file__).parent / "integration"
SERVERS = {"api_server", "etcd", "registry", "secure_registry", "workload_server"}
"""Fixtures that start a server."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Find tests by the ids of defects with ``-k``, and separate the tests that need a server."""
    item.extra_keyword_matches.update(number for marker in item.iter_markers("regression") for number in marker.args)
    needed = SERVERS.intersection(item.fixturenames if isinstance(item, pytest.Function) else ())
    if needed or INTEGRATION in item.path.parents:
        item.add_marker("server")


def pytest_collection_finish() -> None:
    """Put modules and collected tests aside, so that the collection after each test takes milliseconds."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Apply the rule about skipped tests."""
    report = yield
    fail_in_ci(report, os.environ)
    return report


@pytest.fixture(autouse=True)
def _garbage_is_of_its_own_test() -> Iterator[None]:
    """Collect after each test: a connection or process that it forgot fails this test and not a later one."""
    yield
    gc.collect()
    gc.freeze()

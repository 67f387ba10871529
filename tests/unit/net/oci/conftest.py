from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.oci import transfers
from clusterstacks.net.oci.registry import Registry
from clusterstacks.net.retry import RetryPolicy
from tests.support.fakes.registry import RegistryDouble

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def double(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RegistryDouble]:
    monkeypatch.setattr(transfers, "RETRIES", RetryPolicy(attempts=5, pause=timedelta(milliseconds=1)))
    async with RegistryDouble.started() as double:
        yield double


@pytest.fixture
async def web() -> AsyncIterator[HTTPClient]:
    async with HTTPClient(retries=RetryPolicy(pause=timedelta(milliseconds=1)), environ={}) as web:
        yield web


@pytest.fixture
def registry(double: RegistryDouble, web: HTTPClient) -> Registry:
    return Registry(web, double.reference)

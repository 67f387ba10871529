"""One local environment without an operator for all tests of a session; each test runs the operator it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.running.local_environment import Local, local_environment

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    with local_environment(tmp_path_factory.mktemp("local")) as environment:
        yield environment

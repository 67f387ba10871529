"""Fixtures of the webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.operator.webhooks.suggestions import Suggester

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def suggester() -> Iterator[Suggester]:
    made = Suggester()
    yield made
    made.close()

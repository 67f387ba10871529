"""The number and memory of render workers for a container limit."""

from __future__ import annotations

import pytest

from clusterstacks.deliver.render.worker_pool import MIB, sizing


@pytest.mark.parametrize(
    ("limit", "workers", "memory"),
    [
        (None, 2, 768),
        (4096, 2, 768),
        (1024, 2, 448),
        (512, 2, 384),
        (511, 1, 384),
        (250, 1, 384),
    ],
)
def test_workers_fit_into_the_memory_limit(limit: int | None, workers: int, memory: int) -> None:
    found = sizing(limit and limit * MIB)

    assert (found.workers, found.memory_bytes, found.shortage) == (workers, memory * MIB, "")


def test_insufficient_memory_limit_is_reported() -> None:
    assert "is 128Mi, but rendering Helm charts needs 224Mi" in sizing(128 * MIB).shortage

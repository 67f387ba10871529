"""Run all benchmarks, one after the other: ``python -m benchmarks``."""

from __future__ import annotations

from benchmarks import (
    admission,
    authoring,
    corrections,
    deliveries,
    fleet,
    hostile,
    installation,
    isolation,
    page,
    planning,
    rendering,
    rollouts,
    startup,
    status,
    sweeps,
    transfers,
)

for bench in (
    startup,
    status,
    rendering,
    authoring,
    transfers,
    planning,
    deliveries,
    admission,
    sweeps,
    corrections,
    fleet,
    installation,
    rollouts,
    isolation,
    hostile,
    page,
):
    bench.main()

"""Run all benchmarks, one after the other: ``python -m benchmarks``."""

from __future__ import annotations

from benchmarks import deliveries, fleet, rendering

for bench in (rendering, deliveries, fleet):
    bench.main()

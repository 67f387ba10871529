"""Run all benchmarks, one after the other: ``python -m benchmarks``."""

from __future__ import annotations

from benchmarks import admission, authoring, deliveries, fleet, planning, rendering, startup, transfers

for bench in (startup, rendering, authoring, transfers, planning, deliveries, admission, fleet):
    bench.main()

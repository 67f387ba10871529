"""Helm in worker processes: start, small charts, values templates."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from benchmarks.report import Figure, show
from clusterstacks.deliver.render.renderer import ChartRequest, Renderer
from clusterstacks.dev.demo.scenario import build_first
from clusterstacks.model.names import parse_release
from clusterstacks.release.sources.directory import DirectorySource
from clusterstacks.release.store import ReleaseStore

RUNS = 20


async def measure(root: Path) -> list[Figure]:
    name = build_first(root / "releases")
    release = await ReleaseStore(root / "store").ensure(parse_release(name.release), DirectorySource(root / "releases"))
    figures: list[Figure] = []
    renderer = Renderer()
    try:
        for addon in release.addons():
            chart = release.addon(addon)
            request = ChartRequest(
                chart=chart.chart,
                label=addon,
                release_name="cluster-addon",
                namespace="kube-system",
                values="cluster: {name: one, endpoint: {host: example.org, port: 6443}}",
                kube_version="v1.35.4",
                include_crds=True,
            )
            times = []
            for _ in range(RUNS):
                began = time.perf_counter()
                rendered = await renderer.chart(request)
                times.append(1000 * (time.perf_counter() - began))
            if not figures:
                figures.append(Figure("first render, worker start and Helm's load included", times[:1], "ms"))
            figures.append(Figure(f"chart {addon}, {len(rendered)} objects", times[1:], "ms"))
    finally:
        await renderer.close()
    return figures


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        show("Rendering", asyncio.run(measure(Path(directory))))


if __name__ == "__main__":
    main()

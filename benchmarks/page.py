"""First picture of the page of ``csctl ui`` with 300 Clusters, in a real browser."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from benchmarks.report import Figure, show
from tests.support.builders.fleets import Fleet, management_cluster
from tests.support.running.chromium import Page, find_chromium, open_page
from tests.support.running.page import served_page

CLUSTERS = 300
RUNS = 5


async def measure() -> list[Figure]:
    """Return the time from the request of the page to its first rows with the number of all, and that of a change."""
    fleet = Fleet(management_cluster())
    await fleet.releases()
    for number in range(CLUSTERS):
        await fleet.cluster(f"team-{number % 10}/cluster-{number}")
    pictures, changes = [], []
    async with served_page(fleet.api) as access:
        for number in range(RUNS):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
                async with open_page(find_chromium(), Path(profile)) as page:
                    began = time.perf_counter()
                    await page.goto(access.address)
                    await _rows(page, CLUSTERS + number)
                    pictures.append(time.perf_counter() - began)
                    began = time.perf_counter()
                    await fleet.cluster(f"team-new/cluster-{number}")
                    await _rows(page, CLUSTERS + number + 1)
                    changes.append(time.perf_counter() - began)
    return [
        Figure("first picture", [1000 * one for one in pictures], "ms"),
        Figure("a new Cluster appears", [1000 * one for one in changes], "ms"),
    ]


async def _rows(page: Page, count: int) -> None:
    shown = f"document.querySelector('.pages')?.innerText.includes('of {count}')"
    await page.until(f"document.querySelectorAll('#clusters tbody tr').length === 50 && {shown}")


def main() -> None:
    """Print the figures."""
    show(f"The page of csctl ui, {CLUSTERS} Clusters", asyncio.run(measure()))


if __name__ == "__main__":
    main()

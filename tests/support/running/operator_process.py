"""The operator as a process of its own."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.running.world import World

OPERATOR = ("-m", "clusterstacks.operator.main")
MORTAL = ("-m", "tests.support.running.mortal_operator")
ROOT = Path(__file__).parents[3]


@asynccontextmanager
async def process(world: World, program: tuple[str, ...], **flags: object) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the operator as a process of its own; a flag without a value is empty."""
    plain = {
        "kubeconfig": world.management_kubeconfig,
        "release-dir": world.releases,
        "cache-dir": world.cache,
        "namespace": world.namespace,
        "leader-elect-namespace": world.namespace,
        "leader-elect-identity": "test",
        "metrics-bind-address": 0,
        "health-probe-bind-address": 0,
    }
    given = {name.replace("_", "-"): value for name, value in {**plain, **flags}.items()}
    arguments = [f"--{name}" if value == "" else f"--{name}={value}" for name, value in given.items()]
    with (world.cache.parent / "operator.log").open("ab") as log:
        running = await asyncio.create_subprocess_exec(sys.executable, *program, *arguments, stderr=log, cwd=ROOT)
        try:
            yield running
        finally:
            if running.returncode is None:
                running.kill()
            await running.wait()

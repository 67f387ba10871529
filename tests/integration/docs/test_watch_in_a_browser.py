"""The commands of "watch clusters in a browser", with a real browser that opens what they print."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from clusterstacks.dev.loopback import free_port
from tests.support.builders.stacks import config_map, templates
from tests.support.running.chromium import open_page
from tests.support.running.doc_pages import Page, environ_of_reader, shows
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from tests.support.running.doc_pages import Block
    from tests.support.running.world import World


DEADLINE = 250

BROWSER = """#!/bin/sh
echo "$1" > {file}
"""

SSH = """#!/bin/sh
test "$1 $2 $3 $4" = "-t -L {port}:127.0.0.1:{port} jump.example.org" || exit 98
shift 4
exec "$@"
"""
"""The other machine is this one, so there is no port to forward."""


def program(path: Path, script: str) -> str:
    path.write_text(script)
    path.chmod(0o755)
    return str(path)


async def written(file: Path) -> str:
    """Return the line of a file once it is complete."""

    def line() -> str:
        text = file.read_text() if file.exists() else ""
        return text.strip() if text.endswith("\n") else ""

    async def look() -> str:
        return line()

    return await eventually(look, seconds=DEADLINE, about=f"the line of {file.name}")


@asynccontextmanager
async def running(block: Block, environ: Mapping[str, str]) -> AsyncIterator[str]:
    """Run the command of a block until Ctrl-C, and yield the address that it prints."""
    # Background jobs of shells ignore SIGINT, and a test run may be such a job.
    process = await asyncio.create_subprocess_exec(
        *("env", "--default-signal=INT", "bash", "-euc", f"exec {block.commands}"),
        env=dict(environ),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    printed = ""
    try:
        async with asyncio.timeout(DEADLINE):
            while "?token=" not in printed or not shows(block.shown, printed):
                line = await process.stdout.readline()
                assert line, printed
                printed += line.decode()
        yield next(line for line in printed.splitlines() if "?token=" in line)
    finally:
        process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.communicate(), DEADLINE)
    assert process.returncode == 130


async def test_every_command_of_the_page_shows_the_cluster(world: World, chromium: list[str], tmp_path: Path) -> None:
    key, port, launched = f"{world.namespace}/one", free_port(), tmp_path / "launched"
    page = Page.read("how-to/watch-in-a-browser.md", {"team-a/web": key, "team-a": world.namespace, "8001": str(port)})
    served = [block for block in page.blocks if "csctl ui" in block.commands]
    program(tmp_path / "ssh", SSH.format(port=port))
    environ = environ_of_reader(world.management_kubeconfig)
    environ |= {
        "BROWSER": program(tmp_path / "browser", BROWSER.format(file=launched)),
        "PATH": f"{tmp_path}{os.pathsep}{environ['PATH']}",
    }
    release = world.stack.release("v1")
    world.publish(release, world.stack.files("v1", {"dns": templates(config_map("dns"))}))

    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(release)
        await world.cluster("one", release.class_name)
        await world.addons_ready("one", release.class_name)
        await world.at_rest()

        for block in served:
            profile = tmp_path / f"profile-{served.index(block)}"
            profile.mkdir()
            async with running(block, environ) as printed, open_page(chromium, profile) as tab:
                addresses = [printed] if "--no-open" in block.commands else [printed, await written(launched)]
                for address in addresses:
                    await tab.goto(address)
                    await tab.until(f"document.querySelector('#clusters').textContent.includes('{key}')")
                await tab.value(f"location.hash = '#/cluster/{key}'")
                await tab.until("document.querySelector('#deliveries-list')?.textContent.includes('install v1')")
                await tab.until("document.querySelector('#events-list')?.textContent.includes('AddonsDelivered')")
                assert not tab.complaints

        others = page.part([block for block in page.blocks if block not in served])
        (text,) = await asyncio.to_thread(others.run, tmp_path, environ)
    assert len(served) == 2
    assert "install v1" in text
    assert "AddonsDelivered" in text

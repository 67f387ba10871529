"""How csctl ui opens a browser."""

from __future__ import annotations

import asyncio
import os
import re
import stat
import webbrowser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import aiohttp
import pytest

from clusterstacks.csctl.ui.page_access import PageAccess
from clusterstacks.csctl.ui.page_server import PageServer, PageState, listen
from clusterstacks.csctl.verbs import ui

SECONDS = 60
"""Deadline of everything; a busy machine may start slowly."""


@pytest.fixture
def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A browser that writes its arguments to a pipe, and ends when something is written to another."""
    program = tmp_path / "browser"
    os.mkfifo(tmp_path / "started")
    os.mkfifo(tmp_path / "end")
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" > {tmp_path}/started\nread word < {tmp_path}/end\n')
    program.chmod(0o755)
    monkeypatch.setattr(webbrowser, "_tryorder", None)
    monkeypatch.setattr(webbrowser, "_browsers", {})
    return program


def opened(argument: str) -> tuple[str, int]:
    """Return the address in the file that the browser opens, and the mode of the file."""
    file = Path(unquote(urlsplit(argument).path))
    (address,) = {*re.findall(r"http://[^\"]+", file.read_text())}
    return address, stat.S_IMODE(file.stat().st_mode)


@pytest.mark.regression("SEC-29")
@pytest.mark.regression("SEC-38")
@pytest.mark.parametrize("command", ["{browser} %s", "{browser} --new-window %s", "{browser}"])
async def test_browser_gets_a_private_file_and_the_page_answers_while_it_blocks(
    command: str, browser: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BROWSER", command.format(browser=browser))
    listening = listen(0)
    access = PageAccess(listening[0].getsockname()[1])
    serving = asyncio.create_task(PageServer(access, PageState(), {}).run(listening))
    try:
        async with asyncio.timeout(SECONDS), aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
            ui.announce(access, tmp_path)
            arguments = await asyncio.to_thread((tmp_path / "started").read_text)
            address, mode = opened(arguments.split()[-1])
            async with session.get(address) as answer:
                entered = answer.status
            await asyncio.to_thread((tmp_path / "end").write_text, "end\n")
    finally:
        serving.cancel()
        await asyncio.wait([serving])

    assert access.token not in arguments
    assert mode == 0o600
    assert entered == 200
    assert capsys.readouterr().out == f"{address}\n", "for browsers that cannot read the file, and on other machines"


async def test_address_is_only_printed_with_no_open(capsys: pytest.CaptureFixture[str]) -> None:
    access = PageAccess(1)
    ui.announce(access, None)
    assert capsys.readouterr().out == f"{access.address}\n"

"""A headless Chromium, driven by the DevTools protocol over its WebSocket."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
import pytest

from clusterstacks.dev.binaries import cache_directory
from tests.support.servers import debian_packages

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

VARIABLE = "CHROMIUM"
"""Environment variable with the path of a Chromium or Chrome."""

SECONDS = 120
"""Deadline of everything; a busy machine may start slowly."""

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-port=0",
)


class Page:
    """One tab.

    Args:
        socket: The WebSocket of the browser.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.complaints: list[str] = []
        """Errors, exceptions, dialogs and violations of the content security policy."""
        self._socket = socket
        self._session = ""
        self._number = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def open(self) -> None:
        """Create the tab."""
        target = await self.call("Target.createTarget", url="about:blank")
        attached = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            await self.call(f"{domain}.enable")

    async def receive(self) -> None:
        """Read answers and events until the browser ends."""
        async for message in self._socket:
            received = orjson.loads(message.data)
            if waiting := self._answers.pop(received.get("id", 0), None):
                waiting.set_result(received)
            method, about = received.get("method", ""), received.get("params", {})
            if method == "Runtime.exceptionThrown":
                self.complaints.append(str(about["exceptionDetails"].get("exception", about)))
            elif method == "Log.entryAdded" and about["entry"]["level"] == "error":
                self.complaints.append(about["entry"]["text"])
            elif method == "Page.javascriptDialogOpening":
                self.complaints.append(f"dialog: {about['message']}")

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._number += 1
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[self._number] = answer
        session = {"sessionId": self._session} if self._session else {}
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters, **session})
        received = await asyncio.wait_for(answer, SECONDS)
        assert "error" not in received, (method, received)
        result: dict[str, Any] = received["result"]
        return result

    async def goto(self, address: str) -> None:
        """Open an address."""
        await self.call("Page.navigate", url=address)

    async def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        found = await self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, (expression, found)
        return found["result"].get("value")

    async def until(self, condition: str) -> None:
        """Wait until a JavaScript expression is true in the page.

        Raises:
            AssertionError: It stays false; the message has the text of the page.
        """
        seen: object = None
        with suppress(TimeoutError):
            async with asyncio.timeout(SECONDS):
                while True:
                    try:
                        seen = await self.value(f"Boolean({condition})")
                    except AssertionError as error:
                        seen = error  # the document is being replaced, or does not have the element yet
                    if seen is True:
                        return
                    await asyncio.sleep(0.02)
        raise AssertionError(condition, seen, self.complaints, await self.text())

    async def text(self, selector: str = "body") -> str:
        """Return the text of an element."""
        return str(await self.value(f"document.querySelector({selector!r}).innerText"))

    async def press(self, key: str, text: str = "") -> None:
        """Press and release a key."""
        code = {"Tab": 9, "Enter": 13}.get(key, 0)
        key_event = {"key": key, "code": key, "windowsVirtualKeyCode": code, "text": "\r" if key == "Enter" else text}
        await self.call("Input.dispatchKeyEvent", type="keyDown", **key_event)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    async def type(self, text: str) -> None:
        """Type a text into the focused element."""
        await self.call("Input.insertText", text=text)

    async def resize(self, width: int, height: int) -> None:
        """Set the size of the view."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    async def scheme(self, name: str) -> None:
        """Prefer ``dark`` or ``light``."""
        await self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    async def screenshot(self) -> bytes:
        """Return the view as PNG."""
        return base64.b64decode((await self.call("Page.captureScreenshot", format="png"))["data"])


@pytest.fixture(scope="session")
def chromium() -> list[str]:
    """The command of a Chromium; skips where there is none."""
    try:
        return find_chromium()
    except debian_packages.PackageUnavailable as error:
        pytest.skip(f"Debian's package chromium-headless-shell cannot be fetched ({error}): set {VARIABLE} to a path")


def find_chromium() -> list[str]:
    """Return the command of a Chromium: of the environment, installed, or from Debian's packages.

    Raises:
        PackageUnavailable: There is none, and the package cannot be fetched.
    """
    named = os.environ.get(VARIABLE) or shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if named:
        return [named]
    cache = cache_directory(os.environ).parent
    cache.mkdir(parents=True, exist_ok=True)
    path = "usr/lib/chromium/chromium-headless-shell"
    found = debian_packages.program("chromium-headless-shell", path, cache, dependencies=True)
    root = found.parents[3]
    libraries = [str(one) for place in root.glob("usr/lib/*-linux-gnu*") for one in (place, place / "pulseaudio")]
    return ["env", f"LD_LIBRARY_PATH={':'.join(libraries)}", str(found)]


@asynccontextmanager
async def open_page(chromium: list[str], profile: Path) -> AsyncIterator[Page]:
    """Start a browser with an empty profile, and open a tab."""
    with (profile / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *chromium, *FLAGS, f"--user-data-dir={profile}", stdout=log, stderr=log
        )
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(await _address(profile, process), max_msg_size=0) as socket,
        ):
            page = Page(socket)
            receiving = asyncio.create_task(page.receive())
            try:
                await page.open()
                yield page
            finally:
                receiving.cancel()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _address(profile: Path, process: asyncio.subprocess.Process) -> str:
    """Return the address of the browser's WebSocket, which it writes into its profile."""
    file = profile / "DevToolsActivePort"
    async with asyncio.timeout(SECONDS):
        while True:
            lines = file.read_text().split() if file.exists() else []
            if len(lines) == 2:
                return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
            assert process.returncode is None, (profile / "log").read_text(errors="replace")[-2000:]
            await asyncio.sleep(0.02)

"""Posts one body several times at once over TLS, from a process of its own: ``python -m tests.support.running.flood``.

Prints the status and the answer of each as a list of JSON; a connection that is closed without an answer is status 0.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException, HTTPSConnection
from pathlib import Path

ROOT = Path(__file__).parents[3]
BODIES = {
    "lists": lambda size: b"[" + b"[]," * (size // 3) + b"[]]",
    "mappings": lambda size: b"[" + b'{"a":1},' * (size // 8) + b"{}]",
    "deep": lambda size: b"[" * (size // 2) + b"]" * (size // 2),
    "texts": lambda size: b'["' + b'\\"' * (size // 2) + b'"]',
    "digits": lambda size: b"[" + b"1" * size + b"]",
}
"""Bodies of a size, by what they are made of."""


async def flood(port: int, path: str, kind: str, *, size: int, times: int) -> list[tuple[int, str]]:
    """Post a body of ``BODIES``; return statuses and responses."""
    arguments = ["-m", "tests.support.running.flood", str(port), path, kind, str(size), str(times)]
    running = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
    output, _ = await running.communicate()
    assert running.returncode == 0
    return [(status, text) for status, text in json.loads(output)]


def main() -> None:
    port, path, kind, size, times = sys.argv[1:]
    body = BODIES[kind](int(size))

    def post(_: int) -> tuple[int, str]:
        context = ssl._create_unverified_context()
        connection = HTTPSConnection("127.0.0.1", int(port), context=context, timeout=120)
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, HTTPException):
            return 0, ""
        finally:
            connection.close()

    with ThreadPoolExecutor(int(times)) as pool:
        sys.stdout.write(json.dumps(list(pool.map(post, range(int(times))))))


if __name__ == "__main__":
    main()

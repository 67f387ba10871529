"""The real operator, killed by SIGKILL right after its n-th write reached the API server.

Run as ``python -m tests.support.running.mortal_operator N`` with the operator's arguments. The response to that
write never reaches the operator's code. Only what may change an object counts, and no Lease; each write that counts is
logged with its number. With ``of=TEXT`` after N, only those with this text in their path count. With ``quick`` after
that it does not wait long after failures.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from clusterstacks.net.kube import transport
from clusterstacks.operator.main import main
from tests.support.running.quick_timeouts import shorten

if TYPE_CHECKING:
    from clusterstacks.net.kube.transport import Call, Transport

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
UNCOUNTED = ("/leases", "/selfsubject", "dryRun=")


def run(lives: int, counted: str = "") -> None:
    """Run until the ``lives``-th write with ``counted`` in its path."""
    left = lives
    send = transport.Transport.send

    async def mortal(self: Transport, call: Call) -> bytes:
        nonlocal left
        answer = await send(self, call)
        if call.method in WRITES and counted in call.path and not any(part in call.path for part in UNCOUNTED):
            left -= 1
            sys.stderr.write(f"write {lives - left}: {call.method} {call.path}\n")
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return answer

    transport.Transport.send = mortal  # type: ignore[method-assign]  # the point of this program
    main()


if __name__ == "__main__":
    lives, counted = int(sys.argv.pop(1)), ""
    if sys.argv[1].startswith("of="):
        counted = sys.argv.pop(1).removeprefix("of=")
    if sys.argv[1] == "quick":
        del sys.argv[1]
        shorten()
    run(lives, counted)

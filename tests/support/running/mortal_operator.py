"""The real operator, which dies by SIGKILL right after the API server did its n-th write.

Run as ``python -m tests.support.running.mortal_operator N`` with the operator's arguments. The answer to that write
never reaches the operator's code: the server did it, the operator does not know. Writes of its Lease do not count.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from clusterstacks.kube import transport
from clusterstacks.operator.main import main

if TYPE_CHECKING:
    from clusterstacks.kube.transport import Call, Transport

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


def run(lives: int) -> None:
    """Run until the ``lives``-th write."""
    left = lives
    send = transport.Transport.send

    async def mortal(self: Transport, call: Call) -> bytes:
        nonlocal left
        answer = await send(self, call)
        if call.method in WRITES and "/leases" not in call.path:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return answer

    transport.Transport.send = mortal  # type: ignore[method-assign]  # the point of this program
    main()


if __name__ == "__main__":
    lives = int(sys.argv.pop(1))
    run(lives)

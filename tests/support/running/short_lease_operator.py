"""The real operator with a short lease, which stops itself right before a write.

Run as ``python -m tests.support.running.short_lease_operator DURATION DEADLINE RETRY FILE`` with the operator's
arguments. As soon as FILE exists, the process removes it and sends itself SIGSTOP right before it sends a write: it has
the connection, the headers and the body, and checks the gate next.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterstacks.net.kube.write_gate import GuardedBody
from clusterstacks.operator import app, lease_settings
from clusterstacks.operator.main import main
from clusterstacks.runtime.leases import LeaseDurations

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter

    from clusterstacks.operator.lease_settings import ElectionSettings
    from clusterstacks.runtime.leader_election import LeaderElector


def run(durations: LeaseDurations, file: Path) -> None:
    """Run the operator with these durations; it behaves normally until the file exists."""
    write = GuardedBody.write_with_length

    async def stopping(self: GuardedBody, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if self._gate is not None and os.path.exists(file):  # noqa: ASYNC240, PTH110 - it takes microseconds
            os.unlink(file)  # noqa: PTH108 - as above
            os.kill(os.getpid(), signal.SIGSTOP)
        await write(self, writer, content_length)

    GuardedBody.write_with_length = stopping  # type: ignore[method-assign]  # the point of this program
    build = lease_settings.build_elector

    def build_brief(settings: ElectionSettings, *rest: Any) -> LeaderElector:
        return build(replace(settings, durations=durations), *rest)

    app.build_elector = build_brief  # type: ignore[attr-defined, assignment]  # the point of this program
    main()


if __name__ == "__main__":
    duration, deadline, retry, file = (sys.argv.pop(1) for _ in range(4))
    run(LeaseDurations(int(duration), float(deadline), float(retry)), Path(file))

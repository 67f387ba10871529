"""``cluster-stack-operator``: start, run until told to stop, end in order."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from importlib.metadata import version

import uvloop

from clusterstacks.domain.errors import ClusterStacksError
from clusterstacks.operator.settings import Settings, parse_settings
from clusterstacks.operator.wiring import Operator
from clusterstacks.runtime.elector import LeaseLostError
from clusterstacks.runtime.logs import configure_logging
from clusterstacks.runtime.process import ServiceEndedError, run_until_signal

log = logging.getLogger(__name__)


def main() -> None:
    """Entry point; exits with 0 after an orderly stop, 1 when something made it stop."""
    settings = parse_settings(sys.argv[1:], os.environ)
    configure_logging(settings.log_level.upper())
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings))
    except ServiceEndedError as error:
        if isinstance(error.__cause__, LeaseLostError):
            log.error("%s", error.__cause__)  # noqa: TRY400 - the message says it all, a trace would hide it
        else:
            log.exception("A part of the operator ended")
        sys.exit(1)
    except ClusterStacksError as error:
        log.error("%s", error)  # noqa: TRY400 - the message says it all, a trace would hide it
        sys.exit(1)


async def _serve(settings: Settings) -> None:
    operator = Operator(settings, os.environ)
    log.info(
        "cluster-stack-operator %s starts on API server %s, with releases from %s",
        version("cluster-stacks"),
        operator.management,
        operator.source,
    )
    for notice in settings.notices:
        log.warning(notice)
    try:
        await run_until_signal(operator.services())
    finally:
        await operator.close()


if __name__ == "__main__":
    main()

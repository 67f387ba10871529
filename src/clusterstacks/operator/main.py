"""Entry point of ``cluster-stack-operator``."""

from __future__ import annotations

import gc
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SYSTEM_CAS = "SSL_CERT_FILE"
"""Names the file with the system's CAs for OpenSSL."""


def main() -> None:
    """Run the operator; exits with 0 after a signal, with 1 after an error."""
    # What the imports create lives as long as the process. Collections would take a tenth of their time and find
    # almost nothing; later ones, which stop all work, would examine these 120,000 objects again each time.
    gc.disable()
    with _without_system_cas():
        from clusterstacks.operator.startup import run  # noqa: PLC0415

    gc.freeze()
    gc.enable()
    run()


@contextmanager
def _without_system_cas() -> Iterator[None]:
    """Let OpenSSL read an empty file instead of the system's CAs.

    aiohttp reads them twice while it is imported, which takes 40 ms, for contexts that are not used: each request of
    the operator has its own context.
    """
    configured = os.environ.get(SYSTEM_CAS)
    os.environ[SYSTEM_CAS] = os.devnull
    try:
        yield
    finally:
        if configured is None:
            del os.environ[SYSTEM_CAS]
        else:
            os.environ[SYSTEM_CAS] = configured


if __name__ == "__main__":
    main()

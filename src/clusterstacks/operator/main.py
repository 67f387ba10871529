"""Entry point of ``cluster-stack-operator``."""

from __future__ import annotations

import gc

from clusterstacks.net.tls import without_system_cas


def main() -> None:
    """Run the operator; exits with 0 after a signal, with 1 after an error."""
    # What the imports create lives as long as the process. Collections would take a tenth of their time and find
    # almost nothing; later ones, which stop all work, would examine these 120,000 objects again each time.
    gc.disable()
    with without_system_cas():
        from clusterstacks.operator.startup import run  # noqa: PLC0415

    gc.freeze()
    gc.enable()
    run()


if __name__ == "__main__":
    main()

"""The rule about tests that a machine cannot run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

VARIABLE = "CI"
"""Environment variable that CI systems set; ``.ci/run`` sets it too."""


def fail_in_ci(report: pytest.TestReport, environ: Mapping[str, str]) -> None:
    """Turn a skipped test into a failed one where CI runs; else a tier without its requirements would be green.

    Only fixtures and marks look at the machine: a test that has begun skips because of what happened in it.
    """
    if environ.get(VARIABLE) and report.when == "setup" and report.skipped and isinstance(report.longrepr, tuple):
        _, _, reason = report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{reason} ({VARIABLE} is set: provide what the test needs; .ci/requirements does on Debian)"
